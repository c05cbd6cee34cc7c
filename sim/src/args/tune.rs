//! Options of `tune`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use scenarios::distribution::Distribution;
use scenarios::span::Span;
use ttl_model::Rate;
use ttl_model::presets::{self, Preset};
use ttl_model::tuning::{IfTaken, Protection};

use super::number::{seed, whole};
use super::run::ServerArgs;
use super::threads::Threads;

/// Fewer holds per setting say nothing.
const HOLDS_LEAST: u64 = 1_000;
/// More holds per setting take an hour each, and say no more.
const HOLDS_MOST: u64 = 1_000_000_000;

/// Output format of `tune`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TuneFormat {
    /// A table, and the reasons
    #[default]
    Human,
    /// The contents of tune.json
    Json,
}

/// A preset, by its name.
fn preset() -> impl TypedValueParser<Value = &'static Preset> {
    PossibleValuesParser::new(presets::ALL.iter().map(|it| it.name))
        .try_map(|name| presets::named(&name).ok_or("no preset has this name"))
}

/// Options of `tune`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TuneArgs {
    /// Distribution of work under the lock: 5ms, uniform:1ms..9ms, lognormal:5ms,p99=80ms, file:hold.hlog
    #[arg(
        long,
        value_name = "DISTRIBUTION",
        env = "PICKLOCK_TUNE_HOLD",
        allow_hyphen_values = true
    )]
    pub(crate) hold: Option<Distribution>,
    /// Distribution of the round trip of a command; default: an assumption, which the report states
    #[arg(
        long,
        value_name = "DISTRIBUTION",
        env = "PICKLOCK_TUNE_RTT",
        allow_hyphen_values = true
    )]
    pub(crate) rtt: Option<Distribution>,
    /// Distribution of process pauses; needs --pauses
    #[arg(
        long,
        value_name = "DISTRIBUTION",
        env = "PICKLOCK_TUNE_PAUSE",
        allow_hyphen_values = true
    )]
    pub(crate) pause: Option<Distribution>,
    /// How often each process pauses, such as 6/minute; needs --pause
    #[arg(long, value_name = "RATE", env = "PICKLOCK_TUNE_PAUSES", allow_hyphen_values = true)]
    pub(crate) pauses: Option<Rate>,
    /// Pauses from a published source
    #[arg(
        long,
        value_name = "NAME",
        env = "PICKLOCK_TUNE_PRESET",
        conflicts_with_all = ["pause", "pauses"],
        value_parser = preset()
    )]
    pub(crate) preset: Option<&'static Preset>,
    /// Take work and round trips from an earlier run: its directory
    #[arg(long, value_name = "RUN", env = "PICKLOCK_TUNE_FROM")]
    pub(crate) from: Option<PathBuf>,
    /// Measure the round trip to Redis and the pauses of this machine
    #[arg(long, env = "PICKLOCK_TUNE_MEASURE", conflicts_with_all = ["pause", "pauses", "preset"])]
    pub(crate) measure: bool,
    /// How long to measure
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "10s",
        env = "PICKLOCK_TUNE_MEASURE_FOR",
        allow_hyphen_values = true
    )]
    pub(crate) measure_for: Span,
    /// Validate the model on a real server: clients take leases there, with times scaled so that failures are frequent
    /// enough to measure
    #[arg(long, env = "PICKLOCK_TUNE_CONFIRM")]
    pub(crate) confirm: bool,
    /// How long to validate
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "20s",
        env = "PICKLOCK_TUNE_CONFIRM_FOR",
        allow_hyphen_values = true
    )]
    pub(crate) confirm_for: Span,
    /// The server to measure, or to validate on.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// How often each client crashes
    #[arg(
        long,
        value_name = "RATE",
        default_value = "1/week",
        env = "PICKLOCK_TUNE_CRASHES",
        allow_hyphen_values = true
    )]
    pub(crate) crashes: Rate,
    /// Largest clock drift between client and server, in parts per million
    #[arg(
        long,
        value_name = "PPM",
        default_value_t = 100,
        value_parser = whole::<u32>(0..=u32::MAX.into()),
        env = "PICKLOCK_TUNE_DRIFT",
        allow_negative_numbers = true
    )]
    pub(crate) drift: u32,
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = whole::<u32>(1..=u32::MAX.into()), env = "PICKLOCK_TUNE_CLIENTS", allow_negative_numbers = true)]
    pub(crate) clients: u32,
    /// Interval between two acquisitions of a client
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "1s",
        env = "PICKLOCK_TUNE_EVERY",
        allow_hyphen_values = true
    )]
    pub(crate) every: Span,
    /// Number of locks the clients share
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole::<u32>(1..=u32::MAX.into()), env = "PICKLOCK_TUNE_LOCKS", allow_negative_numbers = true)]
    pub(crate) locks: u32,
    /// Pause of a waiting client between two tries
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "50ms",
        env = "PICKLOCK_TUNE_POLL",
        allow_hyphen_values = true
    )]
    pub(crate) poll: Span,
    /// What a client does if its lock is taken
    #[arg(long, value_enum, default_value_t, env = "PICKLOCK_TUNE_IF_TAKEN")]
    pub(crate) if_taken: Taken,
    /// Time between the last validity check and the send of the write
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "1ms",
        env = "PICKLOCK_TUNE_WRITE",
        allow_hyphen_values = true
    )]
    pub(crate) write: Span,
    /// Kind of lock to tune
    #[arg(long, value_enum, default_value_t, env = "PICKLOCK_TUNE_LOCK")]
    pub(crate) lock: Lock,
    /// Target: most overlaps
    #[arg(
        long,
        value_name = "RATE",
        default_value = "1/year",
        env = "PICKLOCK_TUNE_OVERLAPS",
        allow_hyphen_values = true
    )]
    pub(crate) overlaps: Rate,
    /// Target: most holds that lose the lock before their work is done
    #[arg(
        long,
        value_name = "RATE",
        default_value = "1/day",
        env = "PICKLOCK_TUNE_LOST",
        allow_hyphen_values = true
    )]
    pub(crate) lost: Rate,
    /// Target: after a crash, a waiting client has the lock within this time in 99 % of cases; default: 10s, or with
    /// --if-taken skip the longest that misses no run
    #[arg(long, value_name = "SPAN", env = "PICKLOCK_TUNE_TAKEOVER", allow_hyphen_values = true)]
    pub(crate) takeover: Option<Span>,
    /// TTLs to evaluate
    #[arg(
        long,
        value_name = "SPAN,…",
        value_delimiter = ',',
        env = "PICKLOCK_TUNE_TTL",
        allow_hyphen_values = true
    )]
    pub(crate) ttl: Vec<Span>,
    /// Renewal intervals to evaluate: none, a span such as 2s, or a fraction of the TTL such as 1/3
    #[arg(
        long,
        value_name = "HOW,…",
        value_delimiter = ',',
        default_value = "none,1/3",
        env = "PICKLOCK_TUNE_RENEW",
        allow_hyphen_values = true
    )]
    pub(crate) renew: Vec<Renew>,
    /// Number of holds to simulate per setting
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = holds, env = "PICKLOCK_TUNE_HOLDS", allow_negative_numbers = true)]
    pub(crate) holds: u64,
    /// Seed of the simulation
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = seed,
        env = "PICKLOCK_TUNE_SEED",
        allow_negative_numbers = true
    )]
    pub(crate) seed: u64,
    /// How many threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Directory for reports
    #[arg(long, value_name = "DIR", default_value = "picklock-out", env = "PICKLOCK_OUT")]
    pub(crate) out: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t, env = "PICKLOCK_FORMAT")]
    pub(crate) format: TuneFormat,
}

fn holds(text: &str) -> Result<u64, String> {
    let holds = text.parse().ok().filter(|it| (HOLDS_LEAST..=HOLDS_MOST).contains(it));
    holds.ok_or_else(|| format!("use a whole number from {HOLDS_LEAST} to {HOLDS_MOST}"))
}

/// What a client does if its lock is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Taken {
    /// Wait, and try again every --poll
    #[default]
    Wait,
    /// Skip this run; all clients of a lock try at the same tick, once per --every, like replicas of a cron job
    Skip,
}

impl From<Taken> for IfTaken {
    fn from(taken: Taken) -> Self {
        match taken {
            Taken::Wait => Self::Wait,
            Taken::Skip => Self::Skip,
        }
    }
}

/// A kind of lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lock {
    /// Validity is not tracked: the holder continues after its lease has ended
    None,
    /// Validity is tracked, as in picklock: the holder checks it before it writes
    #[default]
    Tracked,
    /// Tracked, and the resource rejects older fencing tokens
    #[value(name = "fence")]
    Fenced,
}

impl From<Lock> for Protection {
    fn from(lock: Lock) -> Self {
        match lock {
            Lock::None => Self::None,
            Lock::Tracked => Self::Tracked,
            Lock::Fenced => Self::Fenced,
        }
    }
}

/// A renewal interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renew {
    /// No renewal.
    Never,
    /// A fixed interval.
    Every(Span),
    /// A fraction of the TTL.
    Part(u32, u32),
}

impl FromStr for Renew {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = "use none, a span such as 2s, or a fraction of the TTL such as 1/3";
        match text.trim() {
            "none" => Ok(Self::Never),
            text => match text.split_once('/') {
                Some((over, under)) => {
                    let number = |it: &str| it.trim().parse::<u32>().map_err(|_| shape.to_owned());
                    match (number(over)?, number(under)?) {
                        (over, under) if 0 < over && over < under => Ok(Self::Part(over, under)),
                        _ => Err(format!("{text} is not a fraction between 0 and 1: {shape}")),
                    }
                }
                None => text.parse().map(Self::Every).map_err(|why| format!("{why}; {shape}")),
            },
        }
    }
}

impl fmt::Display for Renew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("none"),
            Self::Every(span) => span.fmt(f),
            Self::Part(over, under) => write!(f, "{over}/{under}"),
        }
    }
}
