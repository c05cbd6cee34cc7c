//! How long a free, wanted lock may stay untaken, and how long a client may sleep beside it, depending on the faults.
//!
//! Invariant: a fault that costs the library's own locks less than a TTL may cost no lock a TTL. If a fault may leave a
//! key for its TTL, or lose a wake-up, the limits are wide enough for as many faults as are ever staged.

use history::fault::{By, Fault, Staged, Ways};
use picklock::env::Phase;
use scenarios::scenario::{LockPart, Scenario};
use scenarios::span::Span;

use super::candidate::Candidate;

/// How many TTLs a client may sleep beside a free lock at most. A sound lock looks again after two, and a fault of the
/// alphabet lasts for three at most.
const WOKEN_TTLS: u32 = 10;
/// How many TTLs a free, wanted lock may stay untaken: three of the longest faults, and the recovery from each.
const AVAILABLE_TTLS: u32 = 25;

/// How long a free, wanted lock may stay untaken.
pub(crate) fn available_within(scenario: &Scenario, candidate: &Candidate) -> Span {
    let is_near = match &candidate.faults[..] {
        [alone] if candidate.drop.is_none() => {
            leaves_nothing(alone) || alone_leaves_nothing(alone, scenario)
        }
        all => all.iter().all(leaves_nothing),
    };
    if is_near {
        near(&scenario.lock, candidate)
    } else {
        Span(scenario.lock.ttl.0 * AVAILABLE_TTLS)
    }
}

/// How long a client may sleep beside a free lock.
pub(crate) fn woken_within(scenario: &Scenario, candidate: &Candidate) -> Span {
    let is_near = match &candidate.faults[..] {
        [alone] if candidate.drop.is_none() => {
            leaves_nothing(alone)
                || alone_leaves_nothing(alone, scenario)
                || alone.kind == Fault::Pause && is_until_released(alone)
        }
        all => all.iter().all(leaves_nothing),
    };
    if is_near { near(&scenario.lock, candidate) } else { Span(scenario.lock.ttl.0 * WOKEN_TTLS) }
}

/// Enough for a call that is given up, for its clean-up, and for a client that polls: more than twice what a handover
/// takes, which a lock may promise to be shorter. A client that sleeps until the TTL of a short hold is over sleeps for
/// longer. Each fault costs that once.
fn near(lock: &LockPart, candidate: &Candidate) -> Span {
    let times = u32::try_from(candidate.faults.len()).unwrap_or(u32::MAX).max(1);
    Span((lock.ttl.0 / 2 + lock.pause.0 * 2) * times)
}

/// Whether a lock that cleans up frees its key long before the TTL is over, even if more such faults strike.
fn leaves_nothing(fault: &Staged) -> bool {
    match fault.kind {
        // The sender learns at once that there will be no answer.
        Fault::Reset | Fault::ScriptFlush | Fault::Drift => true,
        Fault::ClockStep => !fault.is_of_server_clock(),
        _ => false,
    }
}

/// The same if nothing else strikes. A clean-up dies with its client, and goes on no longer than a request may be late.
fn alone_leaves_nothing(fault: &Staged, scenario: &Scenario) -> bool {
    match fault.kind {
        // A client that waits in the queue has no key yet.
        Fault::Crash => fault.at.phase == Some(Phase::Wait),
        // The request arrives after its client has given it up, while the clean-up still looks for it.
        Fault::Delay => {
            fault.ways == Some(Ways::There)
                && fault.at.phase == Some(Phase::AcquireBeforeSend)
                && is_until_released(fault)
                && scenario.hold() < scenario.lock.ttl
        }
        _ => false,
    }
}

/// Whether it ends when another client has released.
fn is_until_released(fault: &Staged) -> bool {
    fault.until.is_some_and(|it| it.phase == Phase::Released && it.by == By::Another)
}

#[cfg(test)]
mod tests {
    use scenarios::scenario::Overrides;

    use super::super::bounds::Size;
    use super::*;

    fn small(faults: &str) -> Scenario {
        let text = format!("{}\n{faults}", include_str!("base.toml"));
        Scenario::parse("small", "small.toml", &text, &Overrides::default()).unwrap()
    }

    /// Whether the limits under these faults are shorter than two TTLs.
    fn is_near(faults: &[&str]) -> [bool; 2] {
        let faults: String =
            faults.iter().map(|it| format!("[[fault]]\non = \"client 1\"\n{it}\n")).collect();
        let scenario = small(&faults);
        let size = Size { clients: 2, rounds: 1 };
        let candidate = Candidate { faults: scenario.faults.clone(), ..Candidate::calm(size) };
        let ttl = Span(scenario.lock.ttl.0 * 2);
        [available_within(&scenario, &candidate) < ttl, woken_within(&scenario, &candidate) < ttl]
    }

    #[test]
    fn what_may_leave_a_key_for_its_ttl_gives_more_time() {
        let reset = "kind = \"reset\"\nways = \"back\"\nat = { phase = \"wait\" }";
        let dies = "kind = \"crash\"\nat = { phase = \"wait\" }";
        let until = "at = { phase = \"wait\" }\nuntil = { phase = \"released\", by = \"another\" }";
        let waits = format!("kind = \"pause\"\n{until}");
        let late = format!("kind = \"delay\"\nways = \"there\"\n{until}")
            .replace("wait", "acquire.before-send");
        for (faults, near) in [
            (&[][..], [true, true]),
            (&[reset], [true, true]),
            (&[reset, reset], [true, true]),
            (&[dies], [true, true]),
            (&[&waits], [false, true]),
            (&[&late], [true, true]),
            (&["kind = \"crash\"\nat = { phase = \"hold\" }"], [false, false]),
            (&["kind = \"lose-reply\"\nat = { phase = \"wait\" }"], [false, false]),
            (&["kind = \"pause\"\nfor = \"50ms\"\nat = { phase = \"wait\" }"], [false, false]),
            // A clean-up that is at work dies with its client.
            (&[reset, dies], [false, false]),
        ] {
            assert_eq!(is_near(faults), near, "{faults:?}");
        }
    }
}
