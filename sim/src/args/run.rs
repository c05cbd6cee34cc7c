//! Options of the commands that run scenarios.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use scenarios::span::Span;

use super::number::{clients, seed};
use super::output::{Output, outputs};
use super::shard::ShardArgs;
use super::threads::Threads;

/// Options of `run`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    next_help_heading = "Run",
    mut_arg("threads", |it| it.help("Threads for --seeds; default: one per CPU"))
)]
pub(crate) struct RunArgs {
    /// Scenario: a name from `picklock list`, or a TOML file
    #[arg(
        long,
        visible_alias = "config",
        value_name = "NAME|FILE.toml",
        env = "PICKLOCK_SCENARIO"
    )]
    pub(crate) scenario: Option<OsString>,
    /// Lock recipe: a name from `picklock list`
    #[arg(long, value_name = "RECIPE", env = "PICKLOCK_LOCK")]
    pub(crate) lock: Option<String>,
    /// World to run in
    #[arg(long, value_enum, default_value_t, env = "PICKLOCK_WORLD")]
    pub(crate) world: World,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Number of contending clients
    #[arg(long, value_name = "N", value_parser = clients, env = "PICKLOCK_CLIENTS", allow_negative_numbers = true)]
    pub(crate) clients: Option<u32>,
    /// TTL of the lock, such as 500ms
    #[arg(long, value_name = "SPAN", env = "PICKLOCK_TTL", allow_hyphen_values = true)]
    pub(crate) ttl: Option<Span>,
    /// How long a client works under the lock, such as 2ms
    #[arg(long, value_name = "SPAN", env = "PICKLOCK_HOLD", allow_hyphen_values = true)]
    pub(crate) hold: Option<Span>,
    /// Override any key of the scenario, such as workload.bonus_pool.prizes=3
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, env = "PICKLOCK_SET", value_delimiter = ';')]
    pub(crate) set: Vec<(String, String)>,
    /// Run the searched form: random faults instead of staged ones, so the seeds must find the violation
    /// (--world virtual only)
    #[arg(long, env = "PICKLOCK_SEARCHED", value_parser = BoolishValueParser::new())]
    pub(crate) searched: bool,
    /// Exit 0 if the verdicts are those of the scenario's [[expect]], whatever they are, as `matrix` does
    #[arg(long, env = "PICKLOCK_EXPECTED", value_parser = BoolishValueParser::new())]
    pub(crate) expected: bool,
    /// Run every script in Lua, as Redis does: the same results, slower (--world virtual or embedded only)
    #[arg(long, env = "PICKLOCK_LUA", value_parser = BoolishValueParser::new())]
    pub(crate) lua: bool,
    /// Seed of latencies, jitter and tokens; default: random
    #[arg(long, value_name = "N", value_parser = seed, env = "PICKLOCK_SEED", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Run one schedule per seed, B excluded (--world virtual only)
    #[arg(
        long,
        value_name = "A..B",
        env = "PICKLOCK_SEEDS",
        allow_hyphen_values = true,
        conflicts_with = "seed"
    )]
    pub(crate) seeds: Option<Seeds>,
    /// How many threads for --seeds.
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Print a digest of all histories of --seeds, to compare builds and machines; takes twice as long
    #[arg(long, env = "PICKLOCK_DIGEST", value_parser = BoolishValueParser::new(), requires = "seeds")]
    pub(crate) digest: bool,
    /// Which part of --seeds.
    #[command(flatten)]
    pub(crate) shard: ShardArgs,
    /// Directory for reports
    #[arg(long, value_name = "DIR", default_value = "picklock-out", env = "PICKLOCK_OUT")]
    pub(crate) out: PathBuf,
    /// Where counterexamples are kept.
    #[command(flatten)]
    pub(crate) regressions: RegressionDirectory,
    /// Output format: human, json, junit or markdown; FORMAT=FILE writes to a file; repeatable
    #[arg(long, value_name = "FORMAT[=FILE]", default_value = "human", env = "PICKLOCK_FORMAT", value_parser = outputs(), value_delimiter = ';')]
    pub(crate) format: Vec<Output>,
}

/// Options of `report`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArgs {
    /// Directories of runs, such as picklock-out/bonus-pool/latest
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Directory for reports
    #[arg(long, value_name = "DIR", default_value = "picklock-out", env = "PICKLOCK_OUT")]
    pub(crate) out: PathBuf,
}

/// Where counterexamples are kept.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RegressionDirectory {
    /// Directory of kept counterexamples; those of the recipe are run first
    #[arg(
        long = "regressions",
        value_name = "DIR",
        default_value = "picklock-regressions",
        env = "PICKLOCK_REGRESSIONS"
    )]
    pub(crate) path: PathBuf,
}

/// Options of `matrix`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MatrixArgs {
    /// World to run in
    #[arg(long, value_enum, default_value = "virtual", env = "PICKLOCK_WORLD")]
    pub(crate) world: World,
    /// Only these scenarios: names from `picklock list`, or TOML files
    #[arg(long, value_name = "NAME|FILE.toml,…", value_delimiter = ',', env = "PICKLOCK_SCENARIO")]
    pub(crate) scenario: Vec<OsString>,
    /// Only these recipes
    #[arg(long, value_name = "RECIPE,…", value_delimiter = ',', env = "PICKLOCK_LOCK")]
    pub(crate) lock: Vec<String>,
    /// Run the searched form of each scenario that has one: random faults instead of staged ones
    /// (--world virtual only)
    #[arg(long, env = "PICKLOCK_SEARCHED", value_parser = BoolishValueParser::new())]
    pub(crate) searched: bool,
    /// Run every script in Lua, as Redis does: the same results, slower (--world virtual or embedded only)
    #[arg(long, env = "PICKLOCK_LUA", value_parser = BoolishValueParser::new())]
    pub(crate) lua: bool,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Seeds of each pair, B excluded; default: 10 if staged (2 with many clients), 100 if searched, 1 where nothing is
    /// claimed (--world virtual only)
    #[arg(long, value_name = "A..B", env = "PICKLOCK_SEEDS", allow_hyphen_values = true)]
    pub(crate) seeds: Option<Seeds>,
    /// How many threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Which part of the pairs.
    #[command(flatten)]
    pub(crate) shard: ShardArgs,
    /// Output format: human, json, junit, markdown or html; FORMAT=FILE writes to a file; repeatable
    #[arg(long, value_name = "FORMAT[=FILE]", default_value = "human", env = "PICKLOCK_FORMAT", value_parser = outputs(), value_delimiter = ';')]
    pub(crate) format: Vec<Output>,
}

/// The server to use.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServerArgs {
    /// An existing Redis. The help is an attribute because rustdoc would read its brackets as links.
    #[arg(long, value_name = "URL", env = "PICKLOCK_REDIS", hide_env_values = true)]
    #[arg(
        help = "Use this Redis instead of starting one: redis://[user:password@]host[:port][/db], or rediss://"
    )]
    pub(crate) redis: Option<String>,
    /// redis-server to start instead of the one on PATH; matrix and doctor accept several
    #[arg(long, value_name = "PATH", env = "PICKLOCK_REDIS_SERVER")]
    pub(crate) server_bin: Vec<PathBuf>,
    /// Whom to trust.
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// Whom to trust on the way to a server.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsArgs {
    /// Trust the certificates in this PEM file (rediss://)
    #[arg(long, value_name = "FILE", env = "PICKLOCK_TLS_CA")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Trust any certificate (rediss://)
    #[arg(long, env = "PICKLOCK_TLS_INSECURE", value_parser = BoolishValueParser::new(), conflicts_with = "tls_ca")]
    pub(crate) tls_insecure: bool,
}

/// Where to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum World {
    /// redis if a redis-server is found, else embedded
    #[default]
    Auto,
    /// Deterministic simulation in virtual time
    Virtual,
    /// picklock's own Redis model, over TCP
    Embedded,
    /// A real Redis: started for this run, or the one of --redis
    Redis,
}

/// Seeds from the first up to, but excluding, the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub Range<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = "use A..B, such as 0..10000";
        let (first, end) = text.split_once("..").ok_or(shape)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| shape.to_owned());
        let (first, end) = (number(first)?, number(end)?);
        match first.cmp(&end) {
            Ordering::Less => Ok(Self(first..end)),
            Ordering::Equal => Err(format!("{first}..{end} is empty: {end} is excluded")),
            Ordering::Greater => Err(format!("{first}..{end} runs backwards: try {end}..{first}")),
        }
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.0.start, self.0.end)
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("use key=value, such as lock.retries=3".to_owned()),
    }
}
