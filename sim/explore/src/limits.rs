//! How long a lock that is wanted may stay free, and a client sleep beside it, by what strikes.
//!
//! Invariant: what costs a lock of the library no TTL may cost no lock one. Where something strikes that may leave a key for
//! its TTL, or cost a client its wake-up, the limits are wide enough for as many faults as are ever staged.

use history::fault::{By, Fault, Staged, Ways};
use picklock::env::Phase;
use scenarios::scenario::LockPart;
use scenarios::span::Span;

/// For so many TTLs nobody may sleep beside a free lock. A sound lock looks again after two, and a fault of the alphabet
/// lasts for three at most.
const WOKEN_TTLS: u32 = 10;
/// For so many TTLs a lock that is wanted may stay free: three faults of the longest kind, and what is done about each.
const AVAILABLE_TTLS: u32 = 25;

/// How long a lock that is wanted may stay free.
pub(crate) fn available_within(lock: &LockPart, faults: &[Staged]) -> Span {
    match faults.iter().all(leaves_nothing) {
        true => near(lock),
        false => Span(lock.ttl.0 * AVAILABLE_TTLS),
    }
}

/// How long a client may sleep beside a free lock.
pub(crate) fn woken_within(lock: &LockPart, faults: &[Staged]) -> Span {
    match faults.iter().all(|it| leaves_nothing(it) || is_until_released(it)) {
        true => near(lock),
        false => Span(lock.ttl.0 * WOKEN_TTLS),
    }
}

/// Less than a TTL, and enough for a call that is given up, for its clean-up, and for who polls.
fn near(lock: &LockPart) -> Span {
    Span(lock.ttl.0 / 2 + lock.pause.0 * 2)
}

/// Whether a lock that cleans up has its key back long before the TTL is over.
fn leaves_nothing(fault: &Staged) -> bool {
    match fault.kind {
        // Whoever sent something learns at once that it has no answer.
        Fault::Reset => true,
        // A request that comes when its client has given it up.
        Fault::Delay => fault.ways == Some(Ways::There) && is_until_released(fault),
        Fault::ScriptFlush | Fault::Drift => true,
        Fault::ClockStep => !fault.is_of_server_clock(),
        // Who waits in line has nothing yet.
        Fault::Crash => fault.at.phase == Some(Phase::Wait),
        _ => false,
    }
}

/// Whether it ends when another has released.
fn is_until_released(fault: &Staged) -> bool {
    fault.until.is_some_and(|it| it.phase == Phase::Released && it.by == By::Another)
}

#[cfg(test)]
mod tests {
    use history::fault::{Trigger, Until};
    use scenarios::scenario::{Overrides, Scenario};

    use super::*;

    fn staged(text: &str) -> Staged {
        let text = format!("{}\n[[fault]]\n{text}\n", include_str!("base.toml"));
        Scenario::parse("small", "small.toml", &text, &Overrides::default())
            .unwrap()
            .faults
            .remove(0)
    }

    #[test]
    fn what_may_leave_a_key_for_its_ttl_gives_more_time() {
        let text = include_str!("base.toml");
        let lock =
            Scenario::parse("small", "small.toml", text, &Overrides::default()).unwrap().lock;
        let near = |faults: &[Staged]| {
            [available_within(&lock, faults), woken_within(&lock, faults)]
                .map(|it| it.0 < lock.ttl.0)
        };
        assert_eq!(near(&[]), [true, true]);
        let at = "on = \"client 1\"\nat = { phase = \"wait\" }";
        let until = "until = { phase = \"released\", by = \"another\" }";
        for (fault, expected) in [
            (format!("kind = \"crash\"\n{at}"), [true, true]),
            (format!("kind = \"reset\"\nways = \"back\"\n{at}"), [true, true]),
            (format!("kind = \"pause\"\n{at}\n{until}"), [false, true]),
            (format!("kind = \"delay\"\nways = \"there\"\n{at}\n{until}"), [true, true]),
            (format!("kind = \"pause\"\n{at}\nfor = \"50ms\""), [false, false]),
            (format!("kind = \"lose-reply\"\n{at}"), [false, false]),
        ] {
            let fault = staged(&fault);
            assert_eq!(near(&[fault.clone()]), expected, "{fault:?}");
            let dies = Staged { kind: Fault::Crash, at: Trigger::default(), ..fault };
            assert_eq!(near(&[Staged { until: None::<Until>, ..dies }]), [false, false]);
        }
    }
}
