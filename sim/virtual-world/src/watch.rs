//! Notices a poll that does not return: no safe code can end it, so the watcher has to end the process.
//!
//! Invariant: it does not affect a schedule that goes on, because it reports only a poll that was seen in each of
//! [`LOOKS`] looks. Looks are counted, not time, so a process that was stopped for an hour looks once.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use scenarios::scenario::Scenario;

/// The beats of all threads that have a simulation.
static BEATS: Mutex<Vec<Weak<Beat>>> = Mutex::new(Vec::new());
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// A poll that is seen in this many looks counts as endless. The longest of the matrix takes milliseconds.
const LOOKS: u32 = 60;

/// A poll that has not returned for a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndlessPoll {
    /// The scenario.
    pub scenario: String,
    /// The recipe.
    pub recipe: String,
    /// The seed of the schedule.
    pub seed: u64,
    /// The client whose task it is; 0 is the run itself.
    pub client: u32,
}

/// What a thread is polling; shared with the watcher.
#[derive(Debug, Default)]
pub(super) struct Beat {
    /// How often a poll has begun or ended: odd while one goes on.
    polls: AtomicU64,
    process: AtomicU32,
    seed: AtomicU64,
    /// The scenario and the recipe.
    of: Mutex<(String, String)>,
}

/// A beat that is watched for as long as it lives.
pub(super) struct WatchedBeat(Arc<Beat>);

impl Default for WatchedBeat {
    fn default() -> Self {
        let beat = Arc::new(Beat::default());
        let mut beats = BEATS.lock().unwrap_or_else(PoisonError::into_inner);
        beats.retain(|beat| beat.strong_count() > 0);
        beats.push(Arc::downgrade(&beat));
        Self(beat)
    }
}

impl Deref for WatchedBeat {
    type Target = Beat;

    fn deref(&self) -> &Beat {
        &self.0
    }
}

impl Beat {
    /// A schedule of this scenario begins.
    pub(super) fn begin(&self, scenario: &Scenario, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if of.0 != scenario.name || of.1 != scenario.lock.recipe {
            *of = (scenario.name.clone(), scenario.lock.recipe.clone());
        }
    }

    /// A poll of this process begins.
    pub(super) fn begin_poll(&self, process: u32) {
        self.process.store(process, Ordering::Relaxed);
        self.count();
    }

    pub(super) fn end_poll(&self) {
        self.count();
    }

    /// Only the thread of the simulation writes, so nothing is lost between reading and writing.
    fn count(&self) {
        self.polls.store(self.polls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn endless(&self) -> EndlessPoll {
        let (scenario, recipe) = self.of.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (seed, client) = (&self.seed, &self.process);
        let (seed, client) = (seed.load(Ordering::Relaxed), client.load(Ordering::Relaxed));
        EndlessPoll { scenario, recipe, seed, client }
    }
}

/// Watches the polls of all threads from a thread of its own, for as long as the process lives, and reports the first
/// one that does not return within a minute.
pub fn watch_polls(told: impl FnOnce(&EndlessPoll) + Send + 'static) {
    std::thread::spawn(move || told(&first_endless(PAUSE)));
}

/// Looks at this interval until a poll has not returned.
#[expect(clippy::disallowed_methods, reason = "a thread that does nothing else")]
fn first_endless(pause: Duration) -> EndlessPoll {
    // The poll that was seen in each thread, and how often.
    let mut seen: Vec<(Weak<Beat>, u64, u32)> = Vec::new();
    loop {
        std::thread::sleep(pause);
        let beats = BEATS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        seen = beats
            .into_iter()
            .filter_map(|beat| {
                let polls = beat.upgrade()?.polls.load(Ordering::Relaxed);
                let before = seen.iter().find(|(it, ..)| it.ptr_eq(&beat));
                let looks = before.filter(|it| it.1 == polls).map_or(0, |it| it.2);
                (polls % 2 == 1).then_some((beat, polls, looks + 1))
            })
            .collect();
        let endless = seen.iter().find(|it| it.2 >= LOOKS);
        if let Some(beat) = endless.and_then(|(beat, ..)| beat.upgrade()) {
            return beat.endless();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_poll_that_does_not_return_is_told_and_others_are_not() {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let beat = WatchedBeat::default();
                while !over.load(Ordering::Relaxed) {
                    beat.begin_poll(1);
                    std::thread::yield_now();
                    beat.end_poll();
                }
            });
            let beat = WatchedBeat::default();
            beat.seed.store(17, Ordering::Relaxed);
            beat.begin_poll(3);
            let endless = first_endless(Duration::from_millis(1));
            over.store(true, Ordering::Relaxed);
            assert_eq!((endless.seed, endless.client), (17, 3));
        });
    }
}
