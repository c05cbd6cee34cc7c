//! Many locks that are held at once and renewed: what that costs the server, and a client beside them.
//!
//! Invariant: every lock has a client and connections of its own, and is taken at another moment of the interval, so
//! renewals come evenly; what is measured begins when all are held, and lasts for whole intervals. Locks that were
//! lost meanwhile are counted and left in. Nobody waits for one.

#![expect(clippy::disallowed_methods, reason = "a measurement takes the machine's time")]

use std::error::Error;
use std::time::{Duration, Instant};

use picklock::options::OptionsBuilder;
use picklock::{Options, TokioEnv};
use tokio::runtime::Builder;

use crate::contend::Contender;
use crate::counted::done;
use crate::locks::{Ours, for_long, open, polling};

/// How long the client beside them rests after each pair.
pub const REST: Duration = Duration::from_millis(5);

/// What was measured while locks were held.
#[derive(Clone, Debug)]
pub struct Renewed {
    /// For how long.
    pub wall: Duration,
    /// Renewals that the server carried out.
    pub renewals: u64,
    /// Locks that were lost, from the first acquisition to the end.
    pub lost: usize,
    /// For how long the server kept a processor busy.
    pub busy: Duration,
    /// How long each acquisition and release of a free lock took another client, together.
    pub pairs: Vec<Duration>,
    /// The longest by which that client woke too late from a rest: a machine that lets its processes stand still loses
    /// locks, whatever their library does.
    pub stood_still: Duration,
}

impl Renewed {
    /// Renewals a second.
    pub fn rate(&self) -> f64 {
        self.renewals as f64 / self.wall.as_secs_f64()
    }
}

/// Holds so many locks with this TTL, renewed as the library does unless told otherwise, and measures for at least
/// so long.
///
/// # Errors
/// Where a lock is not had, or the server does not say what it did.
pub async fn renewed(
    url: &str,
    locks: u32,
    ttl: Duration,
    at_least: Duration,
) -> Result<Renewed, Box<dyn Error>> {
    let every = interval(ttl)?;
    let mut all = Vec::new();
    for lock in 0..locks {
        // One after the other: a crowd that connects at once would still be late when the locks are taken.
        let key = format!("picklock:bench:renewed:{lock}");
        all.push(warmed(url, &key, Options::builder(ttl).watchdog()).await?);
    }
    let mut taking = Vec::new();
    for (lock, place) in all.into_iter().zip(0..) {
        taking.push(tokio::spawn(async move {
            tokio::time::sleep(every * place / locks).await;
            lock.acquire().await
        }));
    }
    let mut held = Vec::new();
    for taken in taking {
        held.push(taken.await??);
    }
    let control = TokioEnv::open(url)?;
    let window = every * whole(at_least, every);
    let url = url.to_owned();
    let (began, before) = (Instant::now(), done(&control).await?);
    let (pairs, stood_still) = tokio::task::spawn_blocking(move || beside(&url, window)).await??;
    let (after, wall) = (done(&control).await?, began.elapsed());
    let lost = held.iter().filter(|guard| guard.is_lost()).count();
    let releasing: Vec<_> = held.into_iter().map(|guard| tokio::spawn(guard.release())).collect();
    for release in releasing {
        // A lock that was lost cannot be given back, which has been counted.
        let _ = release.await?;
    }
    let (renewals, busy) = (after.renewals - before.renewals, after.busy - before.busy);
    Ok(Renewed { wall, renewals, lost, busy, pairs, stood_still })
}

/// From one renewal to the next.
///
/// # Errors
/// Where such a TTL cannot work.
pub fn interval(ttl: Duration) -> Result<Duration, Box<dyn Error>> {
    let options = Options::builder(ttl).watchdog().build()?;
    Ok(options.renewal().ok_or("a watchdog renews")?.every)
}

/// How many of these intervals make up at least so much.
fn whole(at_least: Duration, every: Duration) -> u32 {
    u32::try_from(at_least.as_nanos().div_ceil(every.as_nanos().max(1))).unwrap_or(u32::MAX)
}

/// A lock that has been had once, for the connection and the script.
async fn warmed(url: &str, key: &str, held: OptionsBuilder) -> Result<Ours, String> {
    let lock = open(polling, url, key, held)?;
    // A short lease may have run out by now, which is not what is measured.
    let _ = lock.acquire().await?.release().await;
    Ok(lock)
}

/// A client on a thread of its own that takes a free lock and gives it back, for so long: how long each time, and the
/// longest by which it woke too late between two.
fn beside(url: &str, window: Duration) -> Result<(Vec<Duration>, Duration), String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let lock = warmed(url, "picklock:bench:beside", for_long()).await?;
        let (mut pairs, mut stood_still) = (Vec::new(), Duration::ZERO);
        let first = Instant::now();
        while first.elapsed() < window {
            let began = Instant::now();
            lock.release(lock.acquire().await?).await?;
            pairs.push(began.elapsed());
            let rests = Instant::now();
            tokio::time::sleep(REST).await;
            stood_still = stood_still.max(rests.elapsed().saturating_sub(REST));
        }
        Ok((pairs, stood_still))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_lasts_for_whole_intervals() {
        let ms = Duration::from_millis;
        assert_eq!([300, 100, 101, 1].map(|it| whole(ms(it), ms(100))), [3, 1, 2, 1]);
        assert_eq!(interval(ms(300)).unwrap(), ms(100));
    }
}
