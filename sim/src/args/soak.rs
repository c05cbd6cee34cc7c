//! Options of `soak`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use scenarios::span::Span;

use super::number::seed;
use super::threads::Threads;

/// Options of `soak`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SoakArgs {
    /// Duration of the soak, all its sittings together
    #[arg(
        long = "for",
        value_name = "SPAN",
        default_value = "8h",
        env = "PICKLOCK_FOR",
        allow_hyphen_values = true
    )]
    pub(crate) span: Span,
    /// Continue the soak in --out, or begin one if there is none
    #[arg(long, env = "PICKLOCK_RESUME", value_parser = BoolishValueParser::new())]
    pub(crate) resume: bool,
    /// Seed from which all seeds are drawn; default: random
    #[arg(long, value_name = "N", value_parser = seed, env = "PICKLOCK_SEED", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Only these scenarios: names from `picklock list`, or TOML files; default: all that have a searched form
    #[arg(long, value_name = "NAME|FILE.toml,…", value_delimiter = ',', env = "PICKLOCK_SCENARIO")]
    pub(crate) scenario: Vec<OsString>,
    /// Only these recipes; default: all without a known flaw. Any violation by a flawed one ends the soak
    #[arg(long, value_name = "RECIPE,…", value_delimiter = ',', env = "PICKLOCK_LOCK")]
    pub(crate) lock: Vec<String>,
    /// How many threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// How long to shrink a violation
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "30s",
        env = "PICKLOCK_BUDGET",
        allow_hyphen_values = true
    )]
    pub(crate) budget: Span,
    /// Directory for the page, the state and a violation
    #[arg(long, value_name = "DIR", default_value = "picklock-out/soak", env = "PICKLOCK_OUT")]
    pub(crate) out: PathBuf,
}
