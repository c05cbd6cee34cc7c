//! Options of work that is shared between machines, and of putting it together.

use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use harness::partition::Partition;

use super::output::{Output, outputs};

/// The heading of each option: one for the struct would also cover the options after it.
const HEADING: &str = "Shards";

/// Which part is done here, and where it is kept.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShardArgs {
    /// Save what is found in this directory every minute, for `picklock merge`
    #[arg(long, help_heading = HEADING, value_name = "DIR", env = "PICKLOCK_SHARDS")]
    pub(crate) shards: Option<PathBuf>,
    /// Run one part: slice:3/8 for the third of eight, hash:3/8 to assign by name; slice:auto/8 takes the number from
    /// Kubernetes, Slurm, GitLab or GNU parallel
    #[arg(long, help_heading = HEADING, value_name = "SCHEME:M/N", value_parser = partition, env = "PICKLOCK_PARTITION", requires = "shards")]
    pub(crate) partition: Option<Partition>,
    /// Continue a part that was cut short
    #[arg(long, help_heading = HEADING, env = "PICKLOCK_RESUME", value_parser = BoolishValueParser::new(), requires = "shards")]
    pub(crate) resume: bool,
}

/// Options of `merge`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MergeArgs {
    /// Shards: files, or directories of them
    #[arg(value_name = "FILE|DIR", required = true)]
    pub(crate) shards: Vec<PathBuf>,
    /// Merge even if shards are missing or were cut short
    #[arg(long, env = "PICKLOCK_ALLOW_MISSING", value_parser = BoolishValueParser::new())]
    pub(crate) allow_missing: bool,
    /// Directory for the report of a sweep
    #[arg(long, value_name = "DIR", default_value = "picklock-out", env = "PICKLOCK_OUT")]
    pub(crate) out: PathBuf,
    /// Output format: human, json, junit, markdown or, of a matrix, html; FORMAT=FILE writes to a file; repeatable
    #[arg(long, value_name = "FORMAT[=FILE]", default_value = "human", env = "PICKLOCK_FORMAT", value_parser = outputs(), value_delimiter = ';')]
    pub(crate) format: Vec<Output>,
}

/// Where engines say which of their jobs this is: the variable, and what it counts the first as.
const NUMBERS: [(&str, First); 4] = [
    ("JOB_COMPLETION_INDEX", First::Is(0)),
    ("SLURM_ARRAY_TASK_ID", First::OfSlurm),
    ("CI_NODE_INDEX", First::Is(1)),
    ("PARALLEL_SEQ", First::Is(1)),
];

/// Where engines say how many there are.
const TOTALS: [&str; 2] = ["SLURM_ARRAY_TASK_COUNT", "CI_NODE_TOTAL"];

/// What the first job is called.
#[derive(Clone, Copy)]
enum First {
    Is(u64),
    /// As Slurm says; 0 where it does not. Its arrays may go by steps.
    OfSlurm,
}

fn partition(text: &str) -> Result<Partition, String> {
    resolved(text, |name| std::env::var(name).ok())
}

/// The partition, with the numbers of the engine in the place of `auto`.
fn resolved(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Partition, String> {
    let Some((scheme, part)) = text.split_once(':') else { return text.parse() };
    let (nth, of) = match part.split_once('/') {
        Some(parts) => parts,
        None if part == "auto" => (part, part),
        None => return text.parse(),
    };
    let mut from = String::new();
    let number = |name: &str| {
        let text = variable(name)?;
        let wrong = |_| format!("{name} is {text:?}, and no number");
        Some(text.trim().parse::<u64>().map_err(wrong))
    };
    let nth = match nth {
        "auto" => {
            let found = NUMBERS.iter().find_map(|it| Some((number(it.0)?, it)));
            let names = NUMBERS.map(|(name, _)| name).join(", ");
            let (found, (name, first)) =
                found.ok_or(format!("none of {names} is set: say which part, as in slice:3/8"))?;
            let found = found?;
            from = format!(": {name} is {found}");
            let (first, step) = match first {
                First::Is(first) => (*first, 1),
                First::OfSlurm => (
                    number("SLURM_ARRAY_TASK_MIN").unwrap_or(Ok(0))?,
                    number("SLURM_ARRAY_TASK_STEP").unwrap_or(Ok(1))?.max(1),
                ),
            };
            let place = found.checked_sub(first).map(|it| it / step);
            place
                .and_then(|it| it.checked_add(1))
                .ok_or(format!("the engine's number is below its first{from}"))?
                .to_string()
        }
        nth => nth.to_owned(),
    };
    let of = match of {
        "auto" => {
            let found = TOTALS.iter().find_map(|name| number(name));
            let names = TOTALS.join(" nor ");
            found
                .ok_or(format!("neither {names} is set: say how many parts, as in slice:auto/8"))??
                .to_string()
        }
        of => of.to_owned(),
    };
    format!("{scheme}:{nth}/{of}").parse().map_err(|error: String| error + &from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let value = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        resolved(text, value).map(|it| it.to_string())
    }

    #[test]
    fn the_number_comes_from_the_engine() {
        let slurm = [
            ("SLURM_ARRAY_TASK_ID", "12"),
            ("SLURM_ARRAY_TASK_MIN", "10"),
            ("SLURM_ARRAY_TASK_COUNT", "8"),
        ];
        let by_twos = [
            ("SLURM_ARRAY_TASK_ID", "8"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
            ("SLURM_ARRAY_TASK_COUNT", "5"),
        ];
        for (text, variables, is) in [
            ("slice:auto", &by_twos[..], "slice:5/5"),
            ("slice:3/8", &[], "slice:3/8"),
            ("slice:auto/8", &[("JOB_COMPLETION_INDEX", "0")], "slice:1/8"),
            ("hash:auto/8", &[("JOB_COMPLETION_INDEX", "7")], "hash:8/8"),
            ("slice:auto", &slurm, "slice:3/8"),
            ("slice:auto/auto", &slurm, "slice:3/8"),
            ("slice:auto", &[("CI_NODE_INDEX", "2"), ("CI_NODE_TOTAL", "5")], "slice:2/5"),
            ("slice:auto/4", &[("PARALLEL_SEQ", "4")], "slice:4/4"),
        ] {
            assert_eq!(of(text, variables).as_deref(), Ok(is), "{text} {variables:?}");
        }
    }

    #[test]
    fn what_no_engine_says_is_asked_for() {
        for (text, variables, says) in [
            ("slice:auto/8", &[][..], "JOB_COMPLETION_INDEX"),
            ("slice:auto", &[("JOB_COMPLETION_INDEX", "0")], "how many parts"),
            ("slice:auto/8", &[("JOB_COMPLETION_INDEX", "8")], "no part 9 of 8"),
            ("slice:auto/8", &[("PARALLEL_SEQ", "0")], "below its first"),
            ("slice:auto/8", &[("PARALLEL_SEQ", "x")], "PARALLEL_SEQ is \"x\""),
            ("slice:auto/8", &[("JOB_COMPLETION_INDEX", "8")], "JOB_COMPLETION_INDEX is 8"),
            ("slice", &[], "slice:M/N"),
            ("slice:3", &[], "slice:M/N"),
        ] {
            let error = of(text, variables).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
