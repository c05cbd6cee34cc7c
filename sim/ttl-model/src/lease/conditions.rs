//! What a study varies: how a lock is used, and how it is set.

use std::time::Duration;

use crate::law::Law;

/// How a lock is used, and on what machines.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// How long the work under the lock takes while its process runs.
    pub hold: Law,
    /// How long a command takes, there and back.
    pub round_trip: Law,
    /// How often a process stands still, by the nanosecond that it runs, and for how long.
    pub pause: Option<(f64, Law)>,
    /// How far a client's clock and the server's run apart at most, in parts per million.
    pub drift_ppm: u32,
    /// The time from the last look at the lock until the write that follows it has left.
    pub write_ns: u64,
}

impl Conditions {
    /// The same for work and pauses that take so many times as long, and come so much more seldom. Round trips
    /// stay as they are.
    pub fn stretched(&self, by: f64) -> Self {
        Self {
            hold: self.hold.stretched(by),
            pause: self.pause.as_ref().map(|(per_ns, it)| (per_ns / by, it.stretched(by))),
            ..self.clone()
        }
    }

    /// How long a hold lasts on the average, with its pauses.
    pub fn mean_hold_ns(&self) -> f64 {
        let paused = self.pause.as_ref().map_or(0.0, |(per_ns, it)| per_ns * it.mean_ns());
        self.hold.mean_ns() * (1.0 + paused) + self.round_trip.mean_ns()
    }
}

/// What the lock is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The TTL.
    pub ttl: Duration,
    /// From one renewal to the next; `None`: never.
    pub renew: Option<Duration>,
    /// Whether its holder stops when its validity has ended.
    pub tracked: bool,
}
