//! What is known of one hold, shared by its guard, its watchdog and its release.
//!
//! Invariant: lost is for ever, and validity only grows while the hold is neither lost nor being
//! released; exactly one caller begins the release, and exactly one notes the loss. Deliberately
//! absent: clocks and Redis. Callers bring the time with them, so loom can try every interleaving.

use crate::lock::{Lost, Released};
use crate::time::Instant;
use crate::validity::is_valid;
use crate::watched::Watched;

/// The shared state of a hold.
pub(crate) struct Hold {
    state: Watched<State>,
}

struct State {
    valid_until: Instant,
    lost: Option<Lost>,
    releasing: bool,
    released: Option<Released>,
}

/// How a hold stands at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Held, and valid until then.
    Held(Instant),
    /// Lost.
    Lost(Lost),
    /// Its release has begun: nobody relies on it any more.
    Releasing,
}

/// A standing, and whether it is this caller who must tell the world of the loss.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) standing: Standing,
    pub(crate) newly_lost: bool,
}

impl State {
    fn standing(&self) -> Standing {
        match self.lost {
            _ if self.releasing => Standing::Releasing,
            Some(lost) => Standing::Lost(lost),
            None => Standing::Held(self.valid_until),
        }
    }

    /// Notes a loss unless the hold has ended already; says whether waiters must look again.
    fn lose(&mut self, why: Lost) -> (Seen, bool) {
        let newly_lost = !self.releasing && self.lost.is_none();
        if newly_lost {
            self.lost = Some(why);
        }
        (Seen { standing: self.standing(), newly_lost }, newly_lost)
    }

    fn look(&mut self, now: Instant) -> (Seen, bool) {
        match self.standing() {
            Standing::Held(until) if !is_valid(now, until) => self.lose(Lost::ValidityEnded),
            standing => (Seen { standing, newly_lost: false }, false),
        }
    }
}

impl Hold {
    /// A hold that is valid until then.
    pub(crate) fn new(valid_until: Instant) -> Self {
        let state = State { valid_until, lost: None, releasing: false, released: None };
        Self { state: Watched::new(state) }
    }

    /// How the hold stands now. A hold whose validity has ended is lost from the moment anyone
    /// looks.
    pub(crate) fn look(&self, now: Instant) -> Seen {
        self.state.change(|state| state.look(now))
    }

    /// The end of validity as last known, lost or not.
    pub(crate) fn valid_until(&self) -> Instant {
        self.state.with(|state| state.valid_until)
    }

    /// Notes a loss.
    pub(crate) fn lose(&self, why: Lost) -> Seen {
        self.state.change(|state| state.lose(why))
    }

    /// Notes a renewal that was answered with yes at `now`. One that comes after the end of
    /// validity is too late: others may have been told that the hold is lost.
    pub(crate) fn extend(&self, until: Instant, now: Instant) -> Seen {
        self.state.change(|state| {
            let (seen, wake) = state.look(now);
            let Standing::Held(before) = seen.standing else { return (seen, wake) };
            // Two renewals may be answered out of order; the later end is the true one.
            state.valid_until = before.max(until);
            (Seen { standing: state.standing(), newly_lost: false }, false)
        })
    }

    /// Begins the release: true for the one caller who must carry it out.
    pub(crate) fn begin_release(&self) -> bool {
        self.state.change(|state| {
            let first = !state.releasing;
            state.releasing = true;
            (first, first)
        })
    }

    /// Notes what came of the release; the first word stands.
    pub(crate) fn released(&self, outcome: Released) {
        self.state.change(|state| {
            state.released.get_or_insert(outcome);
            ((), true)
        });
    }

    /// True once it is known what came of the release.
    pub(crate) fn is_released(&self) -> bool {
        self.state.with(|state| state.released.is_some())
    }

    /// Waits for what came of the release.
    pub(crate) async fn outcome(&self) -> Released {
        self.state.until(|state| state.released.clone()).await
    }

    /// Waits until the hold is lost or its release has begun. Nobody watches the clock here.
    pub(crate) async fn over(&self) {
        let ended = |state: &State| (state.releasing || state.lost.is_some()).then_some(());
        self.state.until(ended).await;
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;

    const fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn held(until: Instant) -> Seen {
        Seen { standing: Standing::Held(until), newly_lost: false }
    }

    #[test]
    fn validity_ends_at_its_end_and_not_before() {
        let hold = Hold::new(at(100));
        assert_eq!(hold.look(at(99)), held(at(100)));
        let lost = Standing::Lost(Lost::ValidityEnded);
        assert_eq!(hold.look(at(100)), Seen { standing: lost, newly_lost: true });
        assert_eq!(hold.look(at(100)), Seen { standing: lost, newly_lost: false });
    }

    #[test]
    fn lost_is_for_ever_and_keeps_its_first_reason() {
        let hold = Hold::new(at(100));
        assert!(hold.lose(Lost::TakenByOther).newly_lost);
        assert!(!hold.lose(Lost::KeyGone).newly_lost);
        let seen = hold.extend(at(500), at(10));
        assert_eq!(seen.standing, Standing::Lost(Lost::TakenByOther));
        assert_eq!(hold.valid_until(), at(100));
    }

    #[test]
    fn a_renewal_after_the_end_comes_too_late() {
        let in_time = Hold::new(at(100));
        assert_eq!(in_time.extend(at(200), at(99)), held(at(200)));
        let late = Hold::new(at(100));
        let lost = Standing::Lost(Lost::ValidityEnded);
        assert_eq!(late.extend(at(200), at(100)), Seen { standing: lost, newly_lost: true });
        assert_eq!(late.valid_until(), at(100));
    }

    #[test]
    fn an_older_renewal_does_not_shorten_validity() {
        let hold = Hold::new(at(100));
        hold.extend(at(300), at(1));
        assert_eq!(hold.extend(at(200), at(2)), held(at(300)));
    }

    #[test]
    fn one_caller_begins_the_release_and_nothing_is_lost_after_it() {
        let hold = Hold::new(at(100));
        assert!(hold.begin_release());
        assert!(!hold.begin_release());
        assert!(!hold.lose(Lost::KeyGone).newly_lost);
        assert_eq!(hold.extend(at(500), at(1)).standing, Standing::Releasing);
        assert_eq!(hold.valid_until(), at(100));
    }
}
