//! What a run needed of what scenarios limit: to find out how near a limit can be.
//!
//! Invariant: a limit holds in a history exactly where it is no less than what stands here.

use history::History;

use super::availability::Availability;
use super::efficiency::Efficiency;
use super::interface::{Checker, LockCommands, OTHERS};
use super::wake_up::WakeUp;

/// What a run needed; 0 where nothing shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The longest that nobody got a lock that was wanted and that nobody had, in nanoseconds.
    pub available_ns: u64,
    /// The longest that somebody slept on while the lock was free, in nanoseconds.
    pub woken_ns: u64,
    /// Commands for each acquisition that got the lock, in thousandths.
    pub commands_milli: u64,
}

/// What this run needed.
pub fn needs(history: &History) -> Needs {
    let History { head, events, texts } = history;
    let mut commands = LockCommands::new(head);
    let mut available = Availability::new(head);
    let (mut woken, mut cost) = (WakeUp::default(), Efficiency::default());
    for event in events {
        cost.see(event, head, texts);
        let seen = commands.next(event, texts);
        if seen.kind() == OTHERS {
            available.see(&seen);
        }
        woken.see(&seen);
    }
    Needs {
        available_ns: available.longest_ns(),
        woken_ns: woken.longest_ns(),
        commands_milli: (cost.commands * 1_000).div_ceil(cost.granted.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tape;
    use history::verdict::Outcome;

    #[test]
    fn a_limit_holds_exactly_where_it_is_no_less() {
        let tape = Tape::new().hold(1, 1, 0..40).refused(8, 8, 10..900).refused(9, 9, 10..700);
        let needs = needs(&tape.history());
        assert_eq!(needs.available_ns, 660);
        let outcome = |within_ns| tape.clone().available_within(within_ns).outcome("availability");
        assert_eq!((outcome(660), outcome(659)), (Outcome::Held, Outcome::Violated));
    }
}
