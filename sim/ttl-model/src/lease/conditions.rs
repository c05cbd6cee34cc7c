//! What a study varies: how a lock is used, and how it is set.

use std::time::Duration;

use crate::law::Law;

/// How a lock is used, and on what kind of machine.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Work under the lock, in running time of its process.
    pub hold: Law,
    /// Round trip of a command.
    pub round_trip: Law,
    /// Process pauses: the rate per nanosecond of running time, and their length.
    pub pause: Option<(f64, Law)>,
    /// Largest clock drift between client and server, in parts per million.
    pub drift_ppm: u32,
    /// Time from the last validity check to the send of the write.
    pub write_ns: u64,
}

impl Conditions {
    /// The same with work and pauses scaled by a factor, and pauses as much rarer. Round trips stay.
    pub fn stretched(&self, by: f64) -> Self {
        Self {
            hold: self.hold.stretched(by),
            pause: self.pause.as_ref().map(|(per_ns, it)| (per_ns / by, it.stretched(by))),
            ..self.clone()
        }
    }

    /// Pauses per nanosecond of running time.
    pub(crate) fn pauses_per_ns(&self) -> f64 {
        self.pause.as_ref().map_or(0.0, |(per_ns, _)| *per_ns)
    }

    /// Time paused per time worked.
    pub(crate) fn paused(&self) -> f64 {
        self.pause.as_ref().map_or(0.0, |(per_ns, it)| per_ns * it.mean_ns())
    }

    /// Mean duration of a hold, with its pauses.
    pub fn mean_hold_ns(&self) -> f64 {
        self.hold.mean_ns() * (1.0 + self.paused()) + self.round_trip.mean_ns()
    }
}

/// How the lock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The TTL.
    pub ttl: Duration,
    /// The renewal interval; `None`: no renewal.
    pub renew: Option<Duration>,
    /// Whether the holder stops when its validity has ended.
    pub tracked: bool,
}
