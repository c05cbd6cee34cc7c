//! Options of `shrink`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use scenarios::span::Span;

use super::explore::RegressionArgs;
use super::output::{Output, outputs};
use super::run::ServerArgs;

/// Options of `shrink`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShrinkArgs {
    /// Directory of a run in the virtual world that violates something, such as picklock-out/gc-pause/latest
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Invariant to shrink, if the run violates several; default: the first at key, belief, effect, progress
    #[arg(long, value_name = "NAME", env = "PICKLOCK_INVARIANT")]
    pub(crate) invariant: Option<String>,
    /// How long to shrink
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "30s",
        env = "PICKLOCK_BUDGET",
        allow_hyphen_values = true
    )]
    pub(crate) budget: Span,
    /// Do not confirm the result on a redis-server
    #[arg(long, env = "PICKLOCK_NO_CONFIRM", value_parser = BoolishValueParser::new())]
    pub(crate) no_confirm: bool,
    /// The server that confirms.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Directory for counterexamples
    #[arg(long, value_name = "DIR", default_value = "picklock-out", env = "PICKLOCK_OUT")]
    pub(crate) out: PathBuf,
    /// Whether to keep it.
    #[command(flatten)]
    pub(crate) regressions: RegressionArgs,
    /// Output format: human or json; FORMAT=FILE writes to a file; repeatable
    #[arg(long, value_name = "FORMAT[=FILE]", default_value = "human", env = "PICKLOCK_FORMAT", value_parser = outputs(), value_delimiter = ';')]
    pub(crate) format: Vec<Output>,
}
