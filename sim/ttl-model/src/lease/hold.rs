//! The state of one simulated hold, and who observes it.

use crate::law::Random;

/// Observes a hold as it is simulated.
pub(crate) trait HoldObserver {
    /// Whether the simulation stops once the hold has gone wrong.
    const STOPS: bool;

    /// A pause begins. The hold goes wrong if it lasts `fatal_ns` or longer; its work then continues for
    /// `then_ns` beyond that.
    fn pause(&mut self, hold: &HoldState, fatal_ns: u64, then_ns: u64, random: &mut Random);

    /// `stands_for` commands are sent. The hold goes wrong if the round trip of one takes `fatal_ns` or longer;
    /// its work then outlasts the lease by `overrun_ns`.
    fn message(
        &mut self,
        hold: &HoldState,
        stands_for: u64,
        fatal_ns: u64,
        overrun_ns: u64,
        random: &mut Random,
    );
}

/// Observes nothing.
pub(crate) struct NoObserver;

impl HoldObserver for NoObserver {
    const STOPS: bool = false;
    #[inline]
    fn pause(&mut self, _: &HoldState, _: u64, _: u64, _: &mut Random) {}
    #[inline]
    fn message(&mut self, _: &HoldState, _: u64, _: u64, _: u64, _: &mut Random) {}
}

/// Where a hold stands. All times are of the server's clock, from when the acquisition was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HoldState {
    /// When the key goes, as things stand.
    pub(crate) lease_end_ns: u64,
    /// Until when the client relies on it; `u64::MAX` if it does not track validity.
    pub(super) valid_end_ns: u64,
    /// When the next renewal is due; never where none is.
    pub(super) due_ns: u64,
    /// When the last was due that is not a second try, and how often in a row it has failed.
    pub(super) place_ns: u64,
    pub(super) failures: u32,
    /// A renewal that is under way: when it was sent, when it is answered, and when its client gives up.
    pub(super) open: Option<PendingRenewal>,
    /// When the last renewal arrived, and when it was answered.
    pub(super) arrived_ns: u64,
    pub(super) answered_ns: u64,
    /// Renewals sent.
    pub(crate) renewals: u32,
    /// Whether the round trip of the next one is a slow one.
    pub(super) slow: bool,
    /// It has gone wrong: its lease has ended, or where validity is kept its validity.
    pub(crate) over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingRenewal {
    pub(super) sent_ns: u64,
    pub(super) answered_ns: u64,
    pub(super) given_up_ns: u64,
    pub(super) granted: bool,
}

/// How a hold begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldStart {
    pub(crate) round_trip_ns: u64,
    pub(crate) work_ns: u64,
    /// The first pause, in work done; drawn where it is `None`.
    pub(crate) first_pause_ns: Option<u64>,
    /// Whether there are pauses at all.
    pub(crate) pauses: bool,
    /// After how much work its lease is looked at, as if the client died there.
    pub(crate) crash_ns: u64,
}

/// How a hold has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldEnd {
    pub(crate) state: HoldState,
    /// When the work was done.
    pub(crate) done_ns: u64,
    /// By how much the last command came after the end of the lease; 0 where it did not.
    pub(crate) overrun_ns: u64,
    /// When the crash was, where it was asked for.
    pub(crate) crashed_ns: u64,
    /// From the crash until the key is gone.
    pub(crate) orphaned_ns: u64,
}

impl HoldEnd {
    /// Whether the last command came after the lease had ended.
    pub(crate) fn outlived(&self) -> bool {
        self.overrun_ns > 0
    }
}

impl HoldState {
    #[inline]
    pub(super) fn renews(&self) -> bool {
        self.due_ns != u64::MAX || self.open.is_some()
    }
}
