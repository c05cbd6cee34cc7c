//! Many clients that contend for one lock: what a library makes of it.
//!
//! Invariant: every client has connections of its own and goes through one round that is not measured;
//! a run in which two clients ever had the lock at once is an error and no figure. Time under the lock is
//! taken as it was, so a timer that rings late is nobody's cost. Deliberately absent: what a library
//! sends, which the server counts.

#![expect(clippy::disallowed_methods, reason = "a measurement takes the machine's time")]

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;

/// A lock library, as one client of it.
pub trait Contender: Send + Sync + 'static {
    /// What it holds while it has the lock.
    type Held: Send;

    /// Waits until the lock is had.
    fn acquire(&self) -> impl Future<Output = Result<Self::Held, String>> + Send;

    /// Gives it back, and waits until that has been answered.
    fn release(&self, held: Self::Held) -> impl Future<Output = Result<(), String>> + Send;
}

/// One hold.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// When the lock was had.
    pub had: Instant,
    /// When its release began.
    pub given: Instant,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Contended {
    /// From when a client has given the lock up to when the next has it.
    pub handoffs: Vec<Duration>,
    /// From the begin of the first acquisition to the end of the last release.
    pub wall: Duration,
    /// The time for which somebody had the lock.
    pub held: Duration,
    /// When the lock was had, each time, from the begin of the first acquisition.
    pub had: Vec<Duration>,
}

impl Contended {
    /// What turns show, that were taken from then on.
    ///
    /// # Errors
    /// Where two of them overlap.
    pub fn of(mut turns: Vec<Turn>, began: Instant, ended: Instant) -> Result<Self, String> {
        turns.sort_by_key(|turn| turn.had);
        if let Some(pair) = turns.windows(2).find(|pair| pair[1].had < pair[0].given) {
            let early = pair[0].given - pair[1].had;
            return Err(format!("two clients had the lock at once, for {early:?}"));
        }
        let handoffs = turns.windows(2).map(|pair| pair[1].had - pair[0].given).collect();
        let held = turns.iter().map(|turn| turn.given - turn.had).sum();
        let had = turns.iter().map(|turn| turn.had - began).collect();
        Ok(Self { handoffs, wall: ended - began, held, had })
    }
}

/// Lets all clients contend, so many rounds each and one before them, and holds the lock for `hold`.
/// Between the two, `measured` is called.
///
/// # Errors
/// What a library says, and [`Contended::of`].
pub async fn contend<C: Contender>(
    clients: Vec<C>,
    rounds: usize,
    hold: Duration,
    measured: impl Future<Output = Result<(), Box<dyn Error>>>,
) -> Result<Contended, Box<dyn Error>> {
    let barrier = Arc::new(Barrier::new(clients.len() + 1));
    let mut running = Vec::new();
    for client in clients {
        let barrier = Arc::clone(&barrier);
        running.push(tokio::spawn(async move {
            turn(&client, hold).await?;
            barrier.wait().await;
            barrier.wait().await;
            let mut turns = Vec::with_capacity(rounds);
            for _ in 0..rounds {
                turns.push(turn(&client, hold).await?);
            }
            Ok::<_, String>(turns)
        }));
    }
    barrier.wait().await;
    measured.await?;
    let began = Instant::now();
    barrier.wait().await;
    let mut turns = Vec::new();
    for client in running {
        turns.extend(client.await??);
    }
    Ok(Contended::of(turns, began, Instant::now())?)
}

async fn turn<C: Contender>(client: &C, hold: Duration) -> Result<Turn, String> {
    let held = client.acquire().await?;
    let had = Instant::now();
    tokio::time::sleep(hold).await;
    let given = Instant::now();
    client.release(held).await?;
    Ok(Turn { had, given })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_put_in_order_and_overlaps_refused() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let turn = |had, given| Turn { had: at(had), given: at(given) };
        let found = Contended::of(vec![turn(5, 7), turn(1, 3)], began, at(9)).unwrap();
        assert_eq!(found.handoffs, [Duration::from_millis(2)]);
        assert_eq!((found.wall, found.held), (at(9) - began, at(4) - began));
        assert_eq!(found.had, [Duration::from_millis(1), Duration::from_millis(5)]);
        assert!(Contended::of(vec![turn(5, 7), turn(1, 5)], began, at(9)).is_ok());
        assert!(Contended::of(vec![turn(5, 7), turn(1, 6)], began, at(9)).is_err());
    }
}
