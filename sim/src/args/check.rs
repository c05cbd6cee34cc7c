//! Options of `check`: the history, and thresholds of progress that its head does not state.
//!
//! Invariant: a property without a threshold is not judged, and the report says so; the command line takes precedence
//! over the head, and is part of the replay line.

use std::path::PathBuf;

use clap::Args;
use history::Head;
use picklock::time::span_ns;
use scenarios::scenario::{COMMANDS_MOST, commands_milli};
use scenarios::span::Span;

use super::number::whole;
use super::output::{Output, outputs};

/// Options of `check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// History in the format of docs/history.md; - for stdin
    #[arg(value_name = "HISTORY.jsonl")]
    pub(crate) history: PathBuf,
    /// The run was cut short: no level counts as held, and missing events are no violation
    #[arg(long)]
    pub(crate) incomplete: bool,
    /// Output format: human, json, junit or markdown; FORMAT=FILE writes to a file; repeatable
    #[arg(long, value_name = "FORMAT[=FILE]", default_value = "human", env = "PICKLOCK_FORMAT", value_parser = outputs(), value_delimiter = ';')]
    pub(crate) format: Vec<Output>,
    /// Thresholds of progress.
    #[command(flatten)]
    pub(crate) thresholds: Thresholds,
}

/// The longest waits and highest counts that pass.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Limits of progress, overriding the head of the history")]
pub(crate) struct Thresholds {
    /// The longest a free, wanted lock may stay untaken, such as 5s
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) available_within: Option<Span>,
    /// The longest a waiting client may sleep while the lock is free, such as 1s
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) woken_within: Option<Span>,
    /// How many later clients may overtake a waiting one; 0: first come, first served
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=u32::MAX.into()), allow_negative_numbers = true)]
    pub(crate) fair_within: Option<u32>,
    /// The most commands per acquisition, such as 6.5
    #[arg(long, value_name = "N", value_parser = commands, allow_negative_numbers = true)]
    pub(crate) commands_within: Option<f64>,
}

fn commands(text: &str) -> Result<f64, String> {
    let commands = text.parse().ok().filter(|it| (0.0..=COMMANDS_MOST).contains(it));
    commands.ok_or_else(|| format!("use a number from 0 to {COMMANDS_MOST}"))
}

impl Thresholds {
    /// Overrides the thresholds in the head of a history.
    pub(crate) fn apply(&self, head: &mut Head) {
        let Self { available_within, woken_within, fair_within, commands_within } = *self;
        let ns = |span: Span| span_ns(span.0);
        head.available_within_ns = available_within.map(ns).or(head.available_within_ns);
        head.woken_within_ns = woken_within.map(ns).or(head.woken_within_ns);
        head.fair_within = fair_within.or(head.fair_within);
        let milli = commands_within.map(commands_milli);
        head.commands_within_milli = milli.or(head.commands_within_milli);
    }

    /// The options, as they are written.
    pub(crate) fn words(&self) -> String {
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

/// The properties that are not judged for lack of a threshold, and the option that sets it.
pub(crate) fn without_threshold(head: &Head) -> Vec<String> {
    let thresholds = [
        (head.available_within_ns.is_some(), "availability", "available-within 5s"),
        (head.woken_within_ns.is_some(), "wake-up", "woken-within 1s"),
        (head.fair_within.is_some(), "fairness", "fair-within 0"),
        (head.commands_within_milli.is_some(), "efficiency", "commands-within 6"),
    ];
    let missing = thresholds.into_iter().filter(|(is_set, ..)| head.locks && !is_set);
    let remarks = missing.map(|(_, what, option)| {
        format!("{what}: not checked, as no limit is set; set one, such as --{option}")
    });
    remarks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_overrides_the_head_and_missing_thresholds_are_reported() {
        let mut head = Head { locks: true, woken_within_ns: Some(7), ..Head::default() };
        assert_eq!(without_threshold(&head).len(), 3);
        Thresholds::default().apply(&mut head);
        assert_eq!((head.available_within_ns, head.woken_within_ns), (None, Some(7)));
        let span = |text: &str| Some(text.parse().unwrap());
        let asked = Thresholds {
            available_within: span("1m 30s"),
            woken_within: span("1ms"),
            fair_within: Some(0),
            commands_within: Some(6.5),
        };
        let words =
            " --available-within 1m30s --woken-within 1ms --fair-within 0 --commands-within 6.5";
        assert_eq!(asked.words(), words);
        asked.apply(&mut head);
        let asked = (head.available_within_ns, head.woken_within_ns, head.fair_within);
        assert_eq!(asked, (Some(90_000_000_000), Some(1_000_000), Some(0)));
        assert_eq!(head.commands_within_milli, Some(6_500));
        assert!(without_threshold(&head).is_empty());
        assert!(
            without_threshold(&Head::default()).is_empty(),
            "a history without locks needs none"
        );
        assert!(Thresholds::default().words().is_empty());
    }

    #[test]
    fn a_number_of_commands_is_one() {
        assert_eq!((commands("6.5"), commands("0")), (Ok(6.5), Ok(0.0)));
        for wrong in ["", "six", "-1", "NaN", "1e10"] {
            assert!(commands(wrong).is_err(), "{wrong}");
        }
    }
}
