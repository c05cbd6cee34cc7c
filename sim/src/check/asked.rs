//! What is asked of progress where a history's head does not say: a threshold an option.
//!
//! Invariant: what nobody asks for is not judged, and is told; what is asked on the command line counts
//! before the head, and stands in the line that judges the history again.

use clap::Args;
use picklock::time::span_ns;
use scenarios::history::Head;
use scenarios::scenario::{COMMANDS_MOST, commands_milli};
use scenarios::span::Span;

/// What is asked.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "What is asked of progress, beside what the history's head says")]
pub(crate) struct Asked {
    /// The longest a free, wanted lock may stay untaken, such as 5s
    #[arg(long, value_name = "SPAN")]
    pub(crate) available_within: Option<Span>,
    /// The longest a waiting client may sleep on while the lock is free, such as 1s
    #[arg(long, value_name = "SPAN")]
    pub(crate) woken_within: Option<Span>,
    /// How many that come later may get the lock before one that is in line; 0 is first come, first served
    #[arg(long, value_name = "N")]
    pub(crate) fair_within: Option<u32>,
    /// How many commands it may take to get the lock once, such as 6.5
    #[arg(long, value_name = "N", value_parser = commands)]
    pub(crate) commands_within: Option<f64>,
}

/// So many commands.
fn commands(text: &str) -> Result<f64, String> {
    let commands = text.parse().ok().filter(|it| (0.0..=COMMANDS_MOST).contains(it));
    commands.ok_or_else(|| format!("give a number from 0 to {COMMANDS_MOST}"))
}

impl Asked {
    /// Asks it of the history with this head.
    pub(super) fn ask(&self, head: &mut Head) {
        let Self { available_within, woken_within, fair_within, commands_within } = *self;
        let ns = |span: Span| span_ns(span.0);
        head.available_within_ns = available_within.map(ns).or(head.available_within_ns);
        head.woken_within_ns = woken_within.map(ns).or(head.woken_within_ns);
        head.fair_within = fair_within.or(head.fair_within);
        let milli = commands_within.map(commands_milli);
        head.commands_within_milli = milli.or(head.commands_within_milli);
    }

    /// The options, as they are written.
    pub(super) fn words(&self) -> String {
        let Self { available_within, woken_within, fair_within, commands_within } = self;
        let spans = [("available", available_within), ("woken", woken_within)];
        let spans = spans.into_iter().filter_map(|(name, it)| {
            it.map(|it| format!(" --{name}-within {}", it.to_string().replace(' ', "")))
        });
        let fair = fair_within.map(|it| format!(" --fair-within {it}"));
        let commands = commands_within.map(|it| format!(" --commands-within {it}"));
        spans.chain(fair).chain(commands).collect()
    }
}

/// What is not asked of the history with this head, and how to ask it.
pub(super) fn not_asked(head: &Head) -> Vec<String> {
    let asked = [
        (head.available_within_ns.is_some(), "availability", "available-within 5s"),
        (head.woken_within_ns.is_some(), "wake-up", "woken-within 1s"),
        (head.fair_within.is_some(), "fairness", "fair-within 0"),
        (head.commands_within_milli.is_some(), "efficiency", "commands-within 6"),
    ];
    let missing = asked.into_iter().filter(|(is_asked, ..)| head.locks && !is_asked);
    let told = missing
        .map(|(_, what, option)| format!("{what}: not asked; give --{option}, or as you need it"));
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_counts_before_the_head_and_the_rest_is_told() {
        let mut head = Head { locks: true, woken_within_ns: Some(7), ..Head::default() };
        assert_eq!(not_asked(&head).len(), 3);
        Asked::default().ask(&mut head);
        assert_eq!((head.available_within_ns, head.woken_within_ns), (None, Some(7)));
        let span = |text: &str| Some(text.parse().unwrap());
        let asked = Asked {
            available_within: span("1m 30s"),
            woken_within: span("1ms"),
            fair_within: Some(0),
            commands_within: Some(6.5),
        };
        let words =
            " --available-within 1m30s --woken-within 1ms --fair-within 0 --commands-within 6.5";
        assert_eq!(asked.words(), words);
        asked.ask(&mut head);
        let asked = (head.available_within_ns, head.woken_within_ns, head.fair_within);
        assert_eq!(asked, (Some(90_000_000_000), Some(1_000_000), Some(0)));
        assert_eq!(head.commands_within_milli, Some(6_500));
        assert!(not_asked(&head).is_empty());
        assert!(not_asked(&Head::default()).is_empty(), "nothing is missed of what does not lock");
        assert!(Asked::default().words().is_empty());
    }

    #[test]
    fn a_number_of_commands_is_one() {
        assert_eq!((commands("6.5"), commands("0")), (Ok(6.5), Ok(0.0)));
        for wrong in ["", "six", "-1", "NaN", "1e10"] {
            assert!(commands(wrong).is_err(), "{wrong}");
        }
    }
}
