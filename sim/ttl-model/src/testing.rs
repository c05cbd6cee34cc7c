//! What the tests of the model begin with.

use std::time::Duration;

use crate::law::Law;
use crate::stat::Interval;
use crate::tuning::IfTaken;
use crate::{Conditions, Traffic};

pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) fn law(text: &str) -> Law {
    Law::new(&text.parse().expect("a distribution"))
}

/// This work with so many pauses in a second; round trips take 2 ms, and clocks do not drift.
pub(crate) fn conditions(hold: &str, pause: Option<(f64, &str)>) -> Conditions {
    Conditions {
        hold: law(hold),
        round_trip: law("2ms"),
        pause: pause.map(|(per_s, text)| (per_s / 1e9, law(text))),
        drift_ppm: 0,
        write_ns: 1_000_000,
    }
}

/// So many clients that want one of ten locks once a second each, and wait for it.
pub(crate) fn traffic(clients: u32) -> Traffic {
    Traffic {
        clients,
        every_ns: 1_000_000_000,
        locks: 10,
        poll_ns: 50_000_000,
        if_taken: IfTaken::Wait,
        waiting: 0.0,
    }
}

pub(crate) fn overlap(one: Interval, other: Interval) -> bool {
    one.low <= other.high && other.low <= one.high
}
