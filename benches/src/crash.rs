//! Holders that die: how long the next one waits.
//!
//! Invariant: a client that dies sends nothing more. Its tasks, its timers and its connections are on a runtime of its own,
//! which ends while its guard is forgotten and not dropped, so nothing is renewed or released; the server sees
//! connections end, as when a process is killed. A machine that vanishes without a word is another case.

#![expect(clippy::disallowed_methods, reason = "a measurement takes the machine's time")]

use std::error::Error;
use std::time::{Duration, Instant};

use picklock::env::Env;
use picklock::{Options, TokioEnv};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::contend::{Contended, Contender, Turn};
use crate::locks::{Kind, Ours, open};
use crate::renewed::interval;

/// Holders do not all begin at once, for a crowd that connects and renews in step is late; but within this time.
const WITHIN: Duration = Duration::from_secs(1);

/// What crashes cost.
#[derive(Clone, Debug, Default)]
pub struct Crashes {
    /// From when the holder died to when the one who waited had the lock.
    pub takeovers: Vec<Duration>,
    /// How many had lost their lock before they died, on a machine that stood still; they are not among these.
    pub lost: usize,
}

impl Crashes {
    /// The mean, in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        let sum: Duration = self.takeovers.iter().sum();
        sum.as_secs_f64() * 1e9 / self.takeovers.len() as f64
    }
}

/// Has the holders of so many locks die, each with one who waits for its lock. A holder dies between its first and its
/// second renewal, one in each of as many equal parts of that time, at random there.
///
/// # Errors
/// Where a lock is not had, two clients had one at once, or every holder had lost its lock before it died.
pub async fn crashes(
    kind: Kind,
    (url, name): (&str, &str),
    ttl: Duration,
    count: u32,
) -> Result<Crashes, Box<dyn Error>> {
    let (random, every) = (TokioEnv::open(url)?, interval(ttl)?);
    let mut running = Vec::new();
    for trial in 0..count {
        let key = format!("picklock:bench:crash:{name}:{ttl:?}:{trial}");
        let dies_after = every + every * trial / count + part(every / count, random.random());
        let url = url.to_owned();
        let begin = move || open(kind, &url, &key, Options::builder(ttl).watchdog());
        running.push(tokio::spawn(async move {
            tokio::time::sleep(WITHIN * trial / count).await;
            crash(begin, dies_after).await
        }));
    }
    let mut found = Crashes::default();
    for trial in running {
        match trial.await?? {
            Some(takeover) => found.takeovers.push(takeover),
            None => found.lost += 1,
        }
    }
    if found.takeovers.is_empty() {
        return Err("every holder had lost its lock before it died".into());
    }
    Ok(found)
}

/// As much of a span as these random bits say.
fn part(span: Duration, bits: u64) -> Duration {
    let ns = (span.as_nanos() * u128::from(bits)) >> 64;
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// How long the one who waits for this lock waits when its holder dies; nothing where it had lost it before.
async fn crash(
    begin: impl Fn() -> Result<Ours, String> + Send + 'static,
    dies_after: Duration,
) -> Result<Option<Duration>, String> {
    let waits = begin()?;
    let (tell, told) = oneshot::channel();
    let holder = tokio::task::spawn_blocking(move || die(begin, dies_after, tell));
    let taken = match told.await {
        // Where it has not come to tell, it says why.
        Err(_) => None,
        Ok(()) => {
            let asked = Instant::now();
            let held = waits.acquire().await?;
            let had = Instant::now();
            waits.release(held).await?;
            Some(Turn { asked, had, given: had })
        }
    };
    let (died, valid) = holder.await.map_err(|error| error.to_string())??;
    let taken = taken.ok_or("a holder ended without a word")?;
    if !valid {
        return Ok(None);
    }
    let found = Contended::of(vec![died, taken], taken.given - died.asked)?;
    Ok(found.handoffs.first().copied())
}

/// Takes the lock, tells so, holds it for so long, and dies. Says whether it had the lock until then.
fn die(
    begin: impl Fn() -> Result<Ours, String>,
    dies_after: Duration,
    tell: oneshot::Sender<()>,
) -> Result<(Turn, bool), String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let (lock, guard, turn) = runtime.block_on(async {
        let lock = begin()?;
        let asked = Instant::now();
        let guard = lock.acquire().await?;
        let had = Instant::now();
        // Where nobody waits any more, it dies all the same.
        let _ = tell.send(());
        tokio::time::sleep(dies_after).await;
        Ok::<_, String>((lock, guard, Turn { asked, had, given: Instant::now() }))
    })?;
    let valid = guard.is_valid();
    std::mem::forget((lock, guard));
    drop(runtime);
    Ok((turn, valid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bits_choose_within_a_span() {
        let span = Duration::from_millis(8);
        assert_eq!(part(span, 0), Duration::ZERO);
        assert_eq!(part(span, 1 << 63), span / 2);
        assert_eq!(part(span, u64::MAX), span - Duration::from_nanos(1));
    }

    #[test]
    fn the_mean_is_of_those_who_had_their_lock() {
        let takeovers = [1, 2, 6].map(Duration::from_millis).to_vec();
        assert_eq!(Crashes { takeovers, lost: 5 }.mean_ns(), 3e6);
    }
}
