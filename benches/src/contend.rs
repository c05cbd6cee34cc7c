//! Many clients that contend for one lock: what a library makes of it.
//!
//! Invariant: every client has connections of its own and goes through one round that is not measured;
//! a run in which two clients ever had the lock at once is an error and no figure. Time under the lock is
//! taken as it was, so a timer that rings late is nobody's cost. What a library sends, the server counts.

#![expect(clippy::disallowed_methods, reason = "a measurement takes the machine's time")]

use std::error::Error;
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
    /// When the lock was asked for.
    pub asked: Instant,
    /// When it was had.
    pub had: Instant,
    /// When its release began, or its holder died.
    pub given: Instant,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Contended {
    /// From when a client asked for the lock to when it had it, in the order in which they had it.
    pub waits: Vec<Duration>,
    /// From when a client has given the lock up to when the next has it.
    pub handoffs: Vec<Duration>,
    /// From the begin of the first acquisition to the end of the last release.
    pub wall: Duration,
    /// The time for which somebody had the lock.
    pub held: Duration,
}

impl Contended {
    /// What turns show that were taken in this time.
    ///
    /// # Errors
    /// Where two of them overlap.
    pub fn of(mut turns: Vec<Turn>, wall: Duration) -> Result<Self, String> {
        turns.sort_by_key(|turn| turn.had);
        if let Some(pair) = turns.windows(2).find(|pair| pair[1].had < pair[0].given) {
            let early = pair[0].given - pair[1].had;
            return Err(format!("two clients had the lock at once, for {early:?}"));
        }
        let waits = turns.iter().map(|turn| turn.had - turn.asked).collect();
        let handoffs = turns.windows(2).map(|pair| pair[1].had - pair[0].given).collect();
        let held = turns.iter().map(|turn| turn.given - turn.had).sum();
        Ok(Self { waits, handoffs, wall, held })
    }
}

/// Clients that want the same lock.
#[derive(Debug)]
pub struct Crowd<C> {
    clients: Vec<Arc<C>>,
    hold: Duration,
}

impl<C: Contender> Crowd<C> {
    /// Clients that hold the lock for `hold` each time. Every one of them has had it once.
    ///
    /// # Errors
    /// As [`contend`](Self::contend).
    pub async fn warmed(clients: Vec<C>, hold: Duration) -> Result<Self, Box<dyn Error>> {
        let crowd = Self { clients: clients.into_iter().map(Arc::new).collect(), hold };
        crowd.contend(1).await?;
        Ok(crowd)
    }

    /// Lets all clients begin at once, and each have the lock so many times.
    ///
    /// # Errors
    /// What a library says, and [`Contended::of`].
    pub async fn contend(&self, rounds: usize) -> Result<Contended, Box<dyn Error>> {
        let barrier = Arc::new(Barrier::new(self.clients.len() + 1));
        let mut running = Vec::new();
        for client in &self.clients {
            let (client, barrier, hold) = (Arc::clone(client), Arc::clone(&barrier), self.hold);
            running.push(tokio::spawn(async move {
                barrier.wait().await;
                let mut turns = Vec::with_capacity(rounds);
                for _ in 0..rounds {
                    turns.push(turn(&*client, hold).await?);
                }
                Ok::<_, String>(turns)
            }));
        }
        let began = Instant::now();
        barrier.wait().await;
        let mut turns = Vec::new();
        for client in running {
            turns.extend(client.await??);
        }
        Ok(Contended::of(turns, began.elapsed())?)
    }
}

async fn turn<C: Contender>(client: &C, hold: Duration) -> Result<Turn, String> {
    let asked = Instant::now();
    let held = client.acquire().await?;
    let had = Instant::now();
    tokio::time::sleep(hold).await;
    let given = Instant::now();
    client.release(held).await?;
    Ok(Turn { asked, had, given })
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;
    use tokio::sync::{Mutex, OwnedMutexGuard};

    use super::*;

    /// A lock that is one, or none.
    struct Local(Option<Arc<Mutex<()>>>);

    impl Contender for Local {
        type Held = Option<OwnedMutexGuard<()>>;

        async fn acquire(&self) -> Result<Self::Held, String> {
            match &self.0 {
                Some(lock) => Ok(Some(Arc::clone(lock).lock_owned().await)),
                None => Ok(None),
            }
        }

        async fn release(&self, held: Self::Held) -> Result<(), String> {
            drop(held);
            Ok(())
        }
    }

    #[test]
    fn a_crowd_takes_turns_or_is_refused() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let hold = Duration::from_millis(1);
        let lock = Arc::new(Mutex::new(()));
        let clients = (0..3).map(|_| Local(Some(Arc::clone(&lock)))).collect();
        let found = runtime
            .block_on(async { Crowd::warmed(clients, hold).await?.contend(2).await })
            .unwrap();
        assert_eq!((found.waits.len(), found.handoffs.len()), (6, 5));
        assert!(found.held >= hold * 6 && found.held <= found.wall);
        let without = (0..3).map(|_| Local(None)).collect();
        let refused = runtime.block_on(Crowd::warmed(without, hold)).err().unwrap().to_string();
        assert!(refused.contains("at once"), "{refused}");
    }

    #[test]
    fn turns_are_put_in_order_and_overlaps_refused() {
        let (began, wall) = (Instant::now(), Duration::from_millis(9));
        let at = |ms| began + Duration::from_millis(ms);
        let turn = |had, given| Turn { asked: at(1), had: at(had), given: at(given) };
        let found = Contended::of(vec![turn(5, 7), turn(1, 3)], wall).unwrap();
        assert_eq!(found.handoffs, [Duration::from_millis(2)]);
        assert_eq!((found.wall, found.held), (wall, at(4) - began));
        assert_eq!(found.waits, [Duration::ZERO, Duration::from_millis(4)]);
        assert!(Contended::of(vec![turn(5, 7), turn(1, 5)], wall).is_ok());
        assert!(Contended::of(vec![turn(5, 7), turn(1, 6)], wall).is_err());
    }
}
