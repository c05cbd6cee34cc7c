//! The state of one simulated hold, and who observes it.

use crate::law::Random;

/// Observes a hold as it is simulated.
pub(crate) trait HoldObserver {
    /// Whether the simulation stops once the hold has gone wrong.
    const STOPS: bool;

    /// `stands_for` pauses begin. The hold goes wrong if one lasts `fatal_ns` or longer; its work then continues for
    /// `then_ns` beyond that.
    fn pause(
        &mut self,
        hold: &SimulatedHold,
        stands_for: f64,
        fatal_ns: u64,
        then_ns: u64,
        random: &mut Random,
    );

    /// `stands_for` commands are sent. The hold goes wrong if the round trip of one takes `fatal_ns` or longer;
    /// its work then outlasts the lease by `overrun_ns`.
    fn message(&mut self, hold: &SimulatedHold, stands_for: u64, fatal_ns: u64, overrun_ns: u64);
}

pub(crate) struct NoObserver;

impl HoldObserver for NoObserver {
    const STOPS: bool = false;
    #[inline]
    fn pause(&mut self, _: &SimulatedHold, _: f64, _: u64, _: u64, _: &mut Random) {}
    #[inline]
    fn message(&mut self, _: &SimulatedHold, _: u64, _: u64, _: u64) {}
}

/// The state of a hold. Times are by the server's clock, since the send of the acquisition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SimulatedHold {
    /// When the key expires unless renewed.
    pub(crate) lease_end_ns: u64,
    /// Until when the client relies on it; `u64::MAX` if it does not track validity.
    pub(super) valid_end_ns: u64,
    /// When the next renewal is due; `u64::MAX`: never.
    pub(super) due_ns: u64,
    /// When the last regular renewal was due, and how often in a row it has failed.
    pub(super) place_ns: u64,
    pub(super) failures: u32,
    pub(super) open: Option<PendingRenewal>,
    /// When the last renewal arrived, and when it was answered.
    pub(super) arrived_ns: u64,
    pub(super) answered_ns: u64,
    pub(crate) renewals: u32,
    /// Whether the next round trip is a slow one.
    pub(super) slow: bool,
    /// It has gone wrong: its lease or its tracked validity has ended.
    pub(crate) over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingRenewal {
    pub(super) sent_ns: u64,
    pub(super) answered_ns: u64,
    pub(super) given_up_ns: u64,
    pub(super) granted: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldStart {
    pub(crate) round_trip_ns: u64,
    pub(crate) work_ns: u64,
    /// The first pause, in work done; drawn where it is `None`.
    pub(crate) first_pause_ns: Option<u64>,
    pub(crate) pauses: bool,
    /// After how much work the lease is recorded, as if the client crashed there.
    pub(crate) crash_ns: u64,
}

impl HoldStart {
    /// With pauses as they come, and without a crash.
    #[inline]
    pub(crate) fn new(round_trip_ns: u64, work_ns: u64) -> Self {
        let crash_ns = u64::MAX;
        Self { round_trip_ns, work_ns, first_pause_ns: None, pauses: true, crash_ns }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldEnd {
    pub(crate) state: SimulatedHold,
    pub(crate) done_ns: u64,
    /// How long after the end of the lease the last command arrived; 0 if before.
    pub(crate) overrun_ns: u64,
    /// When the crash was, if requested.
    pub(crate) crashed_ns: u64,
    /// From the crash until the key expires.
    pub(crate) orphaned_ns: u64,
}

impl SimulatedHold {
    #[inline]
    pub(super) fn renews(&self) -> bool {
        self.due_ns != u64::MAX || self.open.is_some()
    }
}
