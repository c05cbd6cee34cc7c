//! What can be said behind `picklock tune`.
//!
//! Invariant: every option can also be given as a `PICKLOCK_*` variable, and the command line wins.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use scenarios::distribution::Distribution;
use scenarios::span::Span;
use scenarios::tuning::{IfTaken, Protection};

use crate::args::ServerArgs;
use ttl_model::Rate;

/// What is printed on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table and a reason for people
    #[default]
    Human,
    /// tuning.json
    Json,
}

/// What `tune` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct TuneArgs {
    /// How long the work under the lock takes: 5ms, uniform:1ms..9ms, lognormal:5ms,p99=80ms, file:hold.hlog
    #[arg(
        long,
        value_name = "DISTRIBUTION",
        env = "PICKLOCK_TUNE_HOLD",
        allow_hyphen_values = true
    )]
    pub(crate) hold: Option<Distribution>,
    /// How long a command takes, there and back; assumed where nothing is said
    #[arg(
        long,
        value_name = "DISTRIBUTION",
        env = "PICKLOCK_TUNE_RTT",
        allow_hyphen_values = true
    )]
    pub(crate) rtt: Option<Distribution>,
    /// How long a process stands still when it does; with --pauses
    #[arg(
        long,
        value_name = "DISTRIBUTION",
        env = "PICKLOCK_TUNE_PAUSE",
        allow_hyphen_values = true
    )]
    pub(crate) pause: Option<Distribution>,
    /// How often each process stands still, such as 6/minute
    #[arg(long, value_name = "RATE", env = "PICKLOCK_TUNE_PAUSES", allow_hyphen_values = true)]
    pub(crate) pauses: Option<Rate>,
    /// Pauses of a kind with a known source: go, jvm-g1, jvm-full, cgroup
    #[arg(long, value_name = "NAME", env = "PICKLOCK_TUNE_PRESET", conflicts_with_all = ["pause", "pauses"])]
    pub(crate) preset: Option<String>,
    /// Take hold times and round trips from an earlier run: its directory
    #[arg(long, value_name = "RUN", env = "PICKLOCK_TUNE_FROM")]
    pub(crate) from: Option<PathBuf>,
    /// Measure here: the round trip to the Redis, and the machine's pauses
    #[arg(long, env = "PICKLOCK_TUNE_MEASURE", conflicts_with_all = ["pause", "pauses", "preset"])]
    pub(crate) measure: bool,
    /// For how long to measure
    #[arg(long, value_name = "SPAN", default_value = "10s", env = "PICKLOCK_TUNE_MEASURE_FOR")]
    pub(crate) measure_for: Span,
    /// Try the model on a server: have clients take leases there, all times stretched so that there is something to
    /// be seen, and compare what becomes of them with what the model says
    #[arg(long, env = "PICKLOCK_TUNE_CONFIRM")]
    pub(crate) confirm: bool,
    /// For how long to try it
    #[arg(long, value_name = "SPAN", default_value = "20s", env = "PICKLOCK_TUNE_CONFIRM_FOR")]
    pub(crate) confirm_for: Span,
    /// Which server to measure, or to try the model on
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// How often each client's process dies
    #[arg(long, value_name = "RATE", default_value = "1/week", env = "PICKLOCK_TUNE_CRASHES")]
    pub(crate) crashes: Rate,
    /// How far clocks run apart at most, in parts per million
    #[arg(long, value_name = "PPM", default_value_t = 100, env = "PICKLOCK_TUNE_DRIFT")]
    pub(crate) drift: u32,
    /// How many clients there are
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..), env = "PICKLOCK_TUNE_CLIENTS")]
    pub(crate) clients: u32,
    /// How often each client takes a lock: once in this time
    #[arg(long, value_name = "SPAN", default_value = "1s", env = "PICKLOCK_TUNE_EVERY")]
    pub(crate) every: Span,
    /// Over how many locks they are spread
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..), env = "PICKLOCK_TUNE_LOCKS")]
    pub(crate) locks: u32,
    /// How long who waits sleeps between two tries
    #[arg(long, value_name = "SPAN", default_value = "50ms", env = "PICKLOCK_TUNE_POLL")]
    pub(crate) poll: Span,
    /// What a client does that finds its lock taken
    #[arg(long, value_enum, default_value_t, env = "PICKLOCK_TUNE_IF_TAKEN")]
    pub(crate) if_taken: Taken,
    /// From the last look at the lock until the write behind it has left
    #[arg(long, value_name = "SPAN", default_value = "1ms", env = "PICKLOCK_TUNE_WRITE")]
    pub(crate) write: Span,
    /// For which lock a setting is sought
    #[arg(long, value_enum, default_value_t, env = "PICKLOCK_TUNE_LOCK")]
    pub(crate) lock: Lock,
    /// So many overlaps at most
    #[arg(long, value_name = "RATE", default_value = "1/year", env = "PICKLOCK_TUNE_OVERLAPS")]
    pub(crate) overlaps: Rate,
    /// So many holds at most that lose the lock before their work is done
    #[arg(long, value_name = "RATE", default_value = "1/day", env = "PICKLOCK_TUNE_LOST")]
    pub(crate) lost: Rate,
    /// After a crash another has the lock within this time, in 99 of 100 cases; default: 10s, and with --if-taken skip
    /// so long that no run is missed
    #[arg(long, value_name = "SPAN", env = "PICKLOCK_TUNE_TAKEOVER")]
    pub(crate) takeover: Option<Span>,
    /// Which TTLs to look at
    #[arg(
        long,
        value_name = "SPAN,…",
        value_delimiter = ',',
        env = "PICKLOCK_TUNE_TTL",
        allow_hyphen_values = true
    )]
    pub(crate) ttl: Vec<Span>,
    /// How to renew: none, every span such as 2s, or a part of the TTL such as 1/3
    #[arg(
        long,
        value_name = "HOW,…",
        value_delimiter = ',',
        default_value = "none,1/3",
        env = "PICKLOCK_TUNE_RENEW"
    )]
    pub(crate) renew: Vec<Renew>,
    /// How many holds are simulated at each point
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1000..), env = "PICKLOCK_TUNE_HOLDS")]
    pub(crate) holds: u64,
    /// What every drawn number follows from
    #[arg(long, value_name = "N", default_value_t = 1, env = "PICKLOCK_TUNE_SEED")]
    pub(crate) seed: u64,
    /// How many threads; as many as there are processors where it is not given
    #[arg(long, value_name = "N", env = "PICKLOCK_THREADS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Where the report goes
    #[arg(long, value_name = "DIR", default_value = "picklock-out", env = "PICKLOCK_OUT")]
    pub(crate) out: PathBuf,
    /// What is printed on stdout
    #[arg(long, value_enum, default_value_t, env = "PICKLOCK_FORMAT")]
    pub(crate) format: Format,
}

/// What a client does that finds its lock taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Taken {
    /// It waits, and tries again every --poll
    #[default]
    Wait,
    /// It leaves this run out: all clients of a lock come at the same tick, once in --every, as a cron job's replicas do
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

/// For which lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lock {
    /// It keeps no validity: its holder works on when the lease has ended
    None,
    /// It keeps its validity, as picklock's does: its holder looks before it writes
    #[default]
    Tracked,
    /// The same, and the resource refuses tokens older than it has seen
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

/// How to renew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renew {
    /// Not at all.
    Never,
    /// Once in this time.
    Every(Span),
    /// Once in this part of the TTL.
    Part(u32, u32),
}

impl FromStr for Renew {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = "write none, a span such as 2s, or a part of the TTL such as 1/3";
        match text.trim() {
            "none" => Ok(Self::Never),
            text => match text.split_once('/') {
                Some((over, under)) => {
                    let number = |it: &str| it.trim().parse::<u32>().map_err(|_| shape.to_owned());
                    match (number(over)?, number(under)?) {
                        (over, under) if 0 < over && over < under => Ok(Self::Part(over, under)),
                        _ => Err(format!("{text} is no part of the TTL: {shape}")),
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
