//! Options of `explore` and `confirm`, and of what is kept of what is found.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use scenarios::span::Span;

use super::number::whole;
use super::output::{Output, outputs};
use super::run::{RegressionDirectory, ServerArgs};
use super::shard::ShardArgs;
use super::threads::Threads;

/// Options of `explore`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExploreArgs {
    /// Lock recipe: a name from `picklock list`; default: the one of --scenario
    #[arg(long, value_name = "RECIPE", env = "PICKLOCK_LOCK")]
    pub(crate) lock: Option<String>,
    /// Take TTL, servers and workload from this scenario: a name from `picklock list`, or a TOML file
    #[arg(long, value_name = "NAME|FILE.toml", env = "PICKLOCK_SCENARIO")]
    pub(crate) scenario: Option<OsString>,
    /// How long to search
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "30s",
        env = "PICKLOCK_BUDGET",
        allow_hyphen_values = true
    )]
    pub(crate) budget: Span,
    /// Maximum number of clients
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(2..=5), env = "PICKLOCK_CLIENTS", allow_negative_numbers = true)]
    pub(crate) clients: u32,
    /// Maximum acquisitions of each client
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole::<u32>(1..=5), env = "PICKLOCK_ROUNDS", allow_negative_numbers = true)]
    pub(crate) rounds: u32,
    /// Maximum faults in one schedule
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u8>(0..=3), env = "PICKLOCK_FAULTS_MOST", allow_negative_numbers = true)]
    pub(crate) faults: u8,
    /// Also stage faults that no lock with a TTL survives: servers that lose keys, servers whose clocks jump (flawed recipes
    /// only)
    #[arg(long, env = "PICKLOCK_BEYOND", value_parser = BoolishValueParser::new())]
    pub(crate) beyond: bool,
    /// How many threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Parts of a search for several machines.
    #[command(flatten)]
    pub(crate) shard: ShardArgs,
    /// Do not confirm findings on a redis-server
    #[arg(long, env = "PICKLOCK_NO_CONFIRM", value_parser = BoolishValueParser::new())]
    pub(crate) no_confirm: bool,
    /// The server that confirms.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Directory for counterexamples
    #[arg(long, value_name = "DIR", default_value = "picklock-out", env = "PICKLOCK_OUT")]
    pub(crate) out: PathBuf,
    /// Whether to keep findings.
    #[command(flatten)]
    pub(crate) regressions: RegressionArgs,
    /// Output format: human or json; FORMAT=FILE writes to a file; repeatable
    #[arg(long, value_name = "FORMAT[=FILE]", default_value = "human", env = "PICKLOCK_FORMAT", value_parser = outputs(), value_delimiter = ';')]
    pub(crate) format: Vec<Output>,
}

/// Whether and where findings are kept.
#[derive(Clone, Debug, Args)]
pub(crate) struct RegressionArgs {
    /// Also write findings to --regressions, for later runs
    #[arg(long, env = "PICKLOCK_KEEP", value_parser = BoolishValueParser::new())]
    pub(crate) keep: bool,
    /// Where counterexamples are kept. Those of the recipe are run first.
    #[command(flatten)]
    pub(crate) directory: RegressionDirectory,
}

/// Options of `confirm`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// TOML file of a scenario, or a name from `picklock list`
    #[arg(value_name = "FILE.toml", env = "PICKLOCK_SCENARIO")]
    pub(crate) scenario: OsString,
    /// Lock recipe; default: the scenario's own
    #[arg(long, value_name = "RECIPE", env = "PICKLOCK_LOCK")]
    pub(crate) lock: Option<String>,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
