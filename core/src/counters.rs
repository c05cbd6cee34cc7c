//! Counts of what locks have done, for a service to export.
//!
//! Invariant: a count only rises, and every attempt, renewal, release and clean-up that has ended is in exactly
//! one count of its kind. Counts are read one by one while others change, so no order between them is
//! promised and the atomics need no ordering. No decision of a lock depends on them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock::{NotAcquired, Released};
use crate::watch_cell::WatchCell;

/// The counters of a lock, or of several. Cloning gives another handle to the same.
#[derive(Clone, Default)]
pub struct Counters(Arc<CountState>);

#[derive(Default)]
struct CountState {
    counts: [AtomicU64; Count::ALL.len()],
    /// How many tasks are running in the background: kept here, since every lock has both.
    running: WatchCell<usize>,
}

/// A kind of event that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Count {
    /// Attempts that gave a guard.
    Acquired,
    /// Attempts that found the lock held by another.
    Held,
    /// Attempts the server refused.
    Refused,
    /// Attempts that reached no server.
    NotSent,
    /// Attempts granted too late.
    TooLate,
    /// Attempts that too few replicas acknowledged.
    NotReplicated,
    /// Attempts granted by too few nodes.
    NoQuorum,
    /// Attempts whose outcome is unknown, dropped futures included.
    Unknown,
    /// Pauses between two attempts, and places taken in a wait queue.
    Waited,
    /// Acquisitions that ended at their deadline.
    Deadline,
    /// Renewals the server granted.
    Renewed,
    /// Renewals that were refused or had no answer.
    NotRenewed,
    /// Holds lost before their release.
    Lost,
    /// Releases that found the lock still held.
    Released,
    /// Releases that found the key gone.
    Expired,
    /// Releases that found another's key.
    Taken,
    /// Releases without an answer.
    ReleaseUnknown,
    /// Clean-ups begun after an acquisition that may have left a key.
    CleanUp,
    /// Clean-ups after which no key is left.
    CleanedUp,
    /// Clean-ups abandoned at the end of the linger time.
    CleanUpGivenUp,
}

impl Count {
    /// Every kind, in the order of declaration.
    pub const ALL: &'static [Self] = &[
        Self::Acquired,
        Self::Held,
        Self::Refused,
        Self::NotSent,
        Self::TooLate,
        Self::NotReplicated,
        Self::NoQuorum,
        Self::Unknown,
        Self::Waited,
        Self::Deadline,
        Self::Renewed,
        Self::NotRenewed,
        Self::Lost,
        Self::Released,
        Self::Expired,
        Self::Taken,
        Self::ReleaseUnknown,
        Self::CleanUp,
        Self::CleanedUp,
        Self::CleanUpGivenUp,
    ];

    /// The name to export it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Held => "held",
            Self::Refused => "refused",
            Self::NotSent => "not_sent",
            Self::TooLate => "too_late",
            Self::NotReplicated => "not_replicated",
            Self::NoQuorum => "no_quorum",
            Self::Unknown => "unknown",
            Self::Waited => "waited",
            Self::Deadline => "deadline",
            Self::Renewed => "renewed",
            Self::NotRenewed => "not_renewed",
            Self::Lost => "lost",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Taken => "taken",
            Self::ReleaseUnknown => "release_unknown",
            Self::CleanUp => "clean_up",
            Self::CleanedUp => "cleaned_up",
            Self::CleanUpGivenUp => "clean_up_given_up",
        }
    }

    /// The kind of an attempt without a guard.
    pub(crate) fn of_failed(error: &NotAcquired) -> Self {
        match error {
            NotAcquired::Held => Self::Held,
            NotAcquired::Refused(_) => Self::Refused,
            NotAcquired::NotSent(_) | NotAcquired::NoRuntime => Self::NotSent,
            NotAcquired::TooLate => Self::TooLate,
            NotAcquired::NotReplicated { .. } => Self::NotReplicated,
            NotAcquired::NoQuorum { .. } => Self::NoQuorum,
            NotAcquired::Unknown(_) => Self::Unknown,
            NotAcquired::Deadline { .. } => Self::Deadline,
        }
    }

    /// The kind of an outcome of a release.
    pub(crate) fn of_release(released: &Released) -> Self {
        match released {
            Released::Released => Self::Released,
            Released::AlreadyExpired => Self::Expired,
            Released::TakenByOther => Self::Taken,
            Released::Unknown(_) => Self::ReleaseUnknown,
        }
    }
}

impl Counters {
    /// Adds one.
    pub(crate) fn count(&self, what: Count) {
        self.0.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many background tasks are running, of which [`background`](crate::background) keeps the count.
    pub(crate) fn running(&self) -> &WatchCell<usize> {
        &self.0.running
    }

    /// The current value of one count.
    pub fn get(&self, what: Count) -> u64 {
        self.0.counts[what as usize].load(Ordering::Relaxed)
    }

    /// All counts by name, each read when the iterator reaches it; for an exporter.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Count::ALL.iter().map(|what| (what.name(), self.get(*what)))
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::env::{CallError, Node};
    use crate::options::{Options, Renewal};
    use crate::redlock::Redlock;
    use crate::single::Single;
    use crate::testing::{Fault, MS, TestEnv, World};
    use crate::wait::Poll;

    const TTL: Duration = Duration::from_secs(10);

    fn lock(env: TestEnv) -> Single<TestEnv> {
        let renewal = Renewal { every: 100 * MS, max_hold: Some(350 * MS) };
        env.lock(Options::builder(TTL).call_timeout(20 * MS).renewal(renewal))
    }

    /// What has been counted, without the zeros.
    fn counted(counters: &Counters) -> Vec<(&'static str, u64)> {
        counters.iter().filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn every_count_has_its_place_and_a_name_of_its_own() {
        let counters = Counters::default();
        for (place, what) in Count::ALL.iter().enumerate() {
            assert_eq!(*what as usize, place);
            (0..=place).for_each(|_| counters.count(*what));
        }
        let names: BTreeSet<_> = counters.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), Count::ALL.len());
        let counts: Vec<u64> = counters.iter().map(|(_, count)| count).collect();
        assert_eq!(counts, (1..=Count::ALL.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn a_life_without_trouble() {
        let world = World::new();
        let lock = lock(world.env());
        let guard = world.block_on(lock.try_acquire()).unwrap();
        world.advance(MS * 1000);
        assert_eq!(world.block_on(guard.release()), Released::Released);
        let counts = [("acquired", 1), ("renewed", 3), ("released", 1)];
        assert_eq!(counted(lock.counters()), counts);
    }

    #[test]
    fn waiting_and_what_ends_it() {
        let world = World::new();
        let lock = lock(world.env());
        world.put("k", Some("another"));
        let poll = Poll { base: 10 * MS, jitter: Duration::ZERO, max_retries: None };
        assert!(world.block_on(lock.acquire(25 * MS, poll)).is_err());
        let counts = [("held", 4), ("waited", 3), ("deadline", 1)];
        assert_eq!(counted(lock.counters()), counts);
    }

    #[test]
    fn what_goes_wrong() {
        let world = World::new();
        let refused = lock(world.env());
        world.fault("SET", Fault::Refuse("OOM command not allowed"));
        assert!(world.block_on(refused.try_acquire()).is_err());
        world.fault_connect(CallError::NotSent("no route".into()));
        assert!(world.block_on(refused.try_acquire()).is_err());
        assert_eq!(counted(refused.counters()), [("refused", 1), ("not_sent", 1)]);

        let unknown = lock(world.env());
        world.fault("SET", Fault::LoseReply);
        assert!(world.block_on(unknown.try_acquire()).is_err());
        world.advance(TTL);
        let once = [("unknown", 1), ("clean_up", 1), ("cleaned_up", 1)];
        assert_eq!(counted(unknown.counters()), once);
        world.fault("SET", Fault::Delay { request: MS, reply: MS });
        assert!(world.poll_and_drop(unknown.try_acquire()).is_none());
        world.advance(TTL);
        assert_eq!(counted(unknown.counters()), once.map(|(name, count)| (name, 2 * count)));

        let given_up = lock(world.env());
        world.fault_times(10_000, "DELETE", Fault::Hang);
        world.fault("SET", Fault::Hang);
        assert!(world.block_on(given_up.try_acquire()).is_err());
        world.advance(2 * TTL);
        let counts = [("unknown", 1), ("clean_up", 1), ("clean_up_given_up", 1)];
        assert_eq!(counted(given_up.counters()), counts);
    }

    #[test]
    fn holds_that_are_lost() {
        let world = World::new();
        for (left, counts) in [
            (None, [("acquired", 1), ("lost", 1), ("expired", 1)]),
            (Some("another"), [("acquired", 1), ("lost", 1), ("taken", 1)]),
        ] {
            let lock = lock(world.env());
            let guard = world.block_on(lock.try_acquire()).unwrap();
            world.put("k", left);
            world.advance(1000 * MS);
            let _ = world.block_on(guard.release());
            assert_eq!(counted(lock.counters()), counts);
            world.put("k", None);
        }
        let lock = lock(world.env());
        // The token, and a first renewal and a second try as late as they may come.
        world.script_random([1, 2, u64::MAX, u64::MAX]);
        let guard = world.block_on(lock.try_acquire()).unwrap();
        world.fault("EXTEND", Fault::Refuse("OOM command not allowed"));
        world.advance(110 * MS);
        world.fault_times(3, "DELETE", Fault::Hang);
        assert!(matches!(world.block_on(guard.release()), Released::Unknown(_)));
        let counts = [("acquired", 1), ("not_renewed", 1), ("release_unknown", 1)];
        assert_eq!(counted(lock.counters()), counts);
    }

    #[test]
    fn several_nodes_are_one_lock() {
        let world = World::new();
        let options = || Options::builder(TTL).build().unwrap();
        let lock = Redlock::new(world.env(), (0..3).map(Node), *b"k", options()).unwrap();
        let guard = world.block_on(lock.try_acquire()).unwrap();
        assert!(world.block_on(lock.try_acquire()).is_err());
        let _ = world.block_on(guard.release());
        let counts = [("acquired", 1), ("no_quorum", 1), ("released", 1)];
        assert_eq!(counted(lock.counters()), counts);
        // One node's grant is cleaned up.
        let busy = |node| world.put_on(Node(node), "k", Some("another"));
        [1, 2].into_iter().for_each(busy);
        assert!(world.block_on(lock.try_acquire()).is_err());
        world.advance(MS);
        let more = [("clean_up", 1), ("cleaned_up", 1)];
        assert_eq!(counted(lock.counters())[3..], more);
        world.fault("SET", Fault::Hang);
        assert!(world.poll_and_drop(lock.try_acquire()).is_none());
        assert_eq!(lock.counters().get(Count::Unknown), 1);
    }
}
