//! Options of `attack`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use attack::AttackFault;
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use scenarios::span::Span;

use super::number::whole;
use super::output::{Output, outputs};
use super::run::{ServerArgs, World};
use super::shard::ShardArgs;

/// What a worker has to do, for those who have the program and not its documentation.
const PROTOCOL: &str = "\
Your worker connects to the Redis in REDIS_URL, prints `ready`, and answers each order that it reads with a line:
  acquire  locks PICKLOCK_KEY for PICKLOCK_TTL_MS: `ok`, or `no` if the lock is not free
  check    `ok` if it still has the lock, otherwise `no`
  release  unlocks: `ok`, or `no` if there was nothing to release
An exception is answered with `unknown` and a reason. docs/attack.md has the rest, examples/attack workers to start from.
Try: picklock attack --ttl 600ms -- python3 my_worker.py";

/// The worlds that can start a worker: all but the virtual one.
fn live_worlds() -> impl TypedValueParser<Value = World> {
    let live = World::value_variants().iter().filter(|it| **it != World::Virtual);
    PossibleValuesParser::new(live.filter_map(ValueEnum::to_possible_value))
        .try_map(|name| World::from_str(&name, false))
}

/// Options of `attack`.
#[derive(Clone, Debug, Args)]
// An attack needs a server of its own.
#[command(after_help = PROTOCOL, mut_arg("redis", |it| it.hide(true)))]
#[command(mut_arg("tls_ca", |it| it.hide(true)), mut_arg("tls_insecure", |it| it.hide(true)))]
pub(crate) struct AttackArgs {
    /// TTL that your worker is told to lock with
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "600ms",
        env = "PICKLOCK_TTL",
        allow_hyphen_values = true
    )]
    pub(crate) ttl: Span,
    /// World to run in
    #[arg(long, value_parser = live_worlds(), default_value = "auto", env = "PICKLOCK_WORLD")]
    pub(crate) world: World,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Servers that the lock is kept on: your worker finds them in `REDIS_URLS`
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u16>(1..=7), env = "PICKLOCK_NODES", allow_negative_numbers = true)]
    pub(crate) nodes: u16,
    /// Workers that contend for the lock
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(2..=16), env = "PICKLOCK_CLIENTS", allow_negative_numbers = true)]
    pub(crate) clients: u32,
    /// Name of the lock that your worker is told
    #[arg(long, value_name = "NAME", default_value = "picklock-attack", env = "PICKLOCK_KEY")]
    pub(crate) key: String,
    /// Key on the server that stands for the lock; default: the one that comes and goes with a hold
    #[arg(long, value_name = "NAME", env = "PICKLOCK_LOCK_KEY")]
    pub(crate) lock_key: Option<String>,
    /// Only these plans: by name, by command (release.del), by step (release) or by fault (late-request)
    #[arg(long, value_name = "PLAN", value_delimiter = ',', env = "PICKLOCK_ONLY")]
    pub(crate) only: Vec<String>,
    /// Only plans with these faults
    #[arg(long, value_name = "FAULT", value_delimiter = ',', value_parser = PossibleValuesParser::new(AttackFault::names()), env = "PICKLOCK_FAULTS")]
    pub(crate) faults: Vec<String>,
    /// Run each plan that shows something so often, and say how often it does
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=u32::MAX.into()), env = "PICKLOCK_AGAIN", allow_negative_numbers = true)]
    pub(crate) again: u32,
    /// Plans to run at a time; default: four for each core
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=64), env = "PICKLOCK_JOBS", allow_negative_numbers = true)]
    pub(crate) jobs: Option<u16>,
    /// Parts of an attack for several machines.
    #[command(flatten)]
    pub(crate) shard: ShardArgs,
    /// List the plans for this worker, and run none
    #[arg(long, env = "PICKLOCK_LIST", value_parser = BoolishValueParser::new())]
    pub(crate) list: bool,
    /// How long a worker may take to say `ready`
    #[arg(
        long,
        value_name = "SPAN",
        default_value_t = AttackArgs::START_WITHIN,
        env = "PICKLOCK_START_WITHIN",
        allow_hyphen_values = true
    )]
    pub(crate) start_within: Span,
    /// Attack a program that is no worker: a shell command that says, by exit code 0, whether what its copies have left
    /// is right
    #[arg(long, value_name = "CMD", env = "PICKLOCK_ORACLE")]
    pub(crate) oracle: Option<String>,
    /// With --oracle: how long a program may take to end
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "30s",
        env = "PICKLOCK_END_WITHIN",
        requires = "oracle",
        allow_hyphen_values = true
    )]
    pub(crate) end_within: Span,
    /// Directory for reports
    #[arg(long, value_name = "DIR", default_value = "picklock-out", env = "PICKLOCK_OUT")]
    pub(crate) out: PathBuf,
    /// Output format: human, json, junit or markdown; FORMAT=FILE writes to a file; repeatable
    #[arg(long, value_name = "FORMAT[=FILE]", default_value = "human", env = "PICKLOCK_FORMAT", value_parser = outputs(), value_delimiter = ';')]
    pub(crate) format: Vec<Output>,
    /// Your worker's command and its arguments, or your program's with --oracle
    #[arg(last = true, required = true, value_name = "COMMAND", env = "PICKLOCK_WORKER")]
    pub(crate) command: Vec<OsString>,
}

impl AttackArgs {
    /// How long a worker may take to start, if nobody says.
    pub(crate) const START_WITHIN: Span = Span(Duration::from_secs(30));
}
