//! The state of one hold, shared by its guard, its watchdog and its release.
//!
//! Invariant: a loss is final, and validity only grows while the hold is neither lost nor being released;
//! exactly one caller begins the release, and exactly one is the first to see the loss. No clock is read
//! here: callers pass the time in, so loom can try every interleaving.

use crate::lock::{Lost, Released};
use crate::time::Instant;
use crate::validity::is_valid;
use crate::watch_cell::WatchCell;

/// The shared state of a hold.
pub(crate) struct SharedHold {
    state: WatchCell<HoldState>,
}

struct HoldState {
    valid_until: Instant,
    lost: Option<Lost>,
    releasing: bool,
    released: Option<Released>,
}

/// The status of a hold at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldStatus {
    /// Held, and valid until this instant.
    Held(Instant),
    Lost(Lost),
    /// Its release has begun: nobody may rely on it.
    Releasing,
}

/// A status, and whether this caller is the first to see the loss and so must report it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HoldView {
    pub(crate) status: HoldStatus,
    pub(crate) newly_lost: bool,
}

impl HoldState {
    fn status(&self) -> HoldStatus {
        match self.lost {
            _ if self.releasing => HoldStatus::Releasing,
            Some(lost) => HoldStatus::Lost(lost),
            None => HoldStatus::Held(self.valid_until),
        }
    }

    /// Records a loss unless the hold has ended already; the second value says whether to wake waiters.
    fn lose(&mut self, why: Lost) -> (HoldView, bool) {
        let newly_lost = !self.releasing && self.lost.is_none();
        if newly_lost {
            self.lost = Some(why);
        }
        (HoldView { status: self.status(), newly_lost }, newly_lost)
    }

    fn look(&mut self, now: Instant) -> (HoldView, bool) {
        match self.status() {
            HoldStatus::Held(until) if !is_valid(now, until) => self.lose(Lost::ValidityEnded),
            status => (HoldView { status, newly_lost: false }, false),
        }
    }
}

impl SharedHold {
    /// A hold that is valid until this instant.
    pub(crate) fn new(valid_until: Instant) -> Self {
        let state = HoldState { valid_until, lost: None, releasing: false, released: None };
        Self { state: WatchCell::new(state) }
    }

    /// The status at `now`. A hold whose validity has ended is lost from the first look on.
    pub(crate) fn look(&self, now: Instant) -> HoldView {
        self.state.change(|state| state.look(now))
    }

    /// The latest end of validity, lost or not.
    pub(crate) fn valid_until(&self) -> Instant {
        self.state.with(|state| state.valid_until)
    }

    /// Why it was lost, if it was before its release began.
    pub(crate) fn lost(&self) -> Option<Lost> {
        self.state.with(|state| state.lost)
    }

    pub(crate) fn lose(&self, why: Lost) -> HoldView {
        self.state.change(|state| state.lose(why))
    }

    /// Records a renewal that was granted at `now`. After the end of validity it is too late: the loss may
    /// have been reported.
    pub(crate) fn extend(&self, until: Instant, now: Instant) -> HoldView {
        self.state.change(|state| {
            let (view, wake) = state.look(now);
            let HoldStatus::Held(before) = view.status else { return (view, wake) };
            // Two renewals may be answered out of order. Both ends of validity are right, so the later one counts.
            state.valid_until = before.max(until);
            (HoldView { status: state.status(), newly_lost: false }, false)
        })
    }

    /// Begins the release: true for the one caller that must carry it out.
    pub(crate) fn begin_release(&self) -> bool {
        self.state.change(|state| {
            let first = !state.releasing;
            state.releasing = true;
            (first, first)
        })
    }

    /// Records the outcome of the release; only the first one counts.
    pub(crate) fn released(&self, outcome: Released) {
        self.state.change(|state| {
            state.released.get_or_insert(outcome);
            ((), true)
        });
    }

    /// True once the outcome of the release is recorded.
    pub(crate) fn is_released(&self) -> bool {
        self.state.with(|state| state.released.is_some())
    }

    pub(crate) async fn outcome(&self) -> Released {
        self.state.until(|state| state.released.clone()).await
    }

    /// Waits until a loss is recorded or the release has begun. It does not watch the clock.
    pub(crate) async fn over(&self) {
        let ended = |state: &HoldState| (state.releasing || state.lost.is_some()).then_some(());
        self.state.until(ended).await;
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;

    const fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn held(until: Instant) -> HoldView {
        HoldView { status: HoldStatus::Held(until), newly_lost: false }
    }

    #[test]
    fn validity_ends_at_its_end_and_not_before() {
        let hold = SharedHold::new(at(100));
        assert_eq!(hold.look(at(99)), held(at(100)));
        let lost = HoldStatus::Lost(Lost::ValidityEnded);
        assert_eq!(hold.look(at(100)), HoldView { status: lost, newly_lost: true });
        assert_eq!(hold.look(at(100)), HoldView { status: lost, newly_lost: false });
    }

    #[test]
    fn a_loss_is_final_and_keeps_its_first_reason() {
        let hold = SharedHold::new(at(100));
        assert!(hold.lose(Lost::TakenByOther).newly_lost);
        assert!(!hold.lose(Lost::KeyGone).newly_lost);
        let view = hold.extend(at(500), at(10));
        assert_eq!(view.status, HoldStatus::Lost(Lost::TakenByOther));
        assert_eq!(hold.valid_until(), at(100));
    }

    #[test]
    fn a_renewal_after_the_end_comes_too_late() {
        let in_time = SharedHold::new(at(100));
        assert_eq!(in_time.extend(at(200), at(99)), held(at(200)));
        let late = SharedHold::new(at(100));
        let lost = HoldStatus::Lost(Lost::ValidityEnded);
        assert_eq!(late.extend(at(200), at(100)), HoldView { status: lost, newly_lost: true });
        assert_eq!(late.valid_until(), at(100));
    }

    #[test]
    fn an_older_renewal_does_not_shorten_validity() {
        let hold = SharedHold::new(at(100));
        hold.extend(at(300), at(1));
        assert_eq!(hold.extend(at(200), at(2)), held(at(300)));
    }

    #[test]
    fn one_caller_begins_the_release_and_nothing_is_lost_after_it() {
        let hold = SharedHold::new(at(100));
        assert!(hold.begin_release());
        assert!(!hold.begin_release());
        assert!(!hold.lose(Lost::KeyGone).newly_lost);
        assert_eq!(hold.extend(at(500), at(1)).status, HoldStatus::Releasing);
        assert_eq!(hold.valid_until(), at(100));
    }
}
