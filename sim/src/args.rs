//! What can be said on the command line.
//!
//! Invariant: every option can also be given as a `PICKLOCK_*` variable, and the command line wins.
//! Deliberately absent: defaults of a scenario, which its file has.

use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{BoolishValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use scenarios::span::Span;

use super::check::asked::Asked;
pub(crate) use super::proxy::ProxyArgs;
use super::tune::args::TuneArgs;

/// Can your Redis lock be picked?
///
/// Runs hundreds of contending clients against Redis, checks what every one of them saw, and says at
/// four levels whether the lock held.
#[derive(Debug, Parser)]
#[command(name = "picklock", version, about, long_about, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// What to do; without a word here, `run`.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// What `run` takes.
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// How to talk.
    #[command(flatten)]
    pub(crate) talk: Talk,
}

const EXIT_CODES: &str = "\
Exit codes: 0 held, 1 safety violated, 2 usage or configuration, 3 inconclusive, 4 nothing ran,
5 only progress violated, 69 environment unavailable, 70 internal bug, 130 interrupted.
The main job: picklock --scenario bonus-pool";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario and judge the lock
    Run(Box<RunArgs>),
    /// List scenarios and recipes
    List(ListArgs),
    /// Tell the story of a scenario or recipe, and what is expected of it
    Show {
        /// The scenario's or recipe's name
        name: String,
        /// Of a scenario, what this recipe meets in it
        #[arg(long, value_name = "RECIPE", env = "PICKLOCK_LOCK")]
        lock: Option<String>,
        /// Print the scenario as TOML, for a file of your own
        #[arg(long)]
        toml: bool,
    },
    /// Say what is found on this machine: servers, versions, limits
    Doctor {
        /// The server to look at
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Run a schedule of the virtual world again, and compare it byte for byte
    Replay {
        /// The directory of the run
        run: PathBuf,
    },
    /// Judge a history: the checkers alone, on a file of a run or from elsewhere
    Check(CheckArgs),
    /// Run every recipe in every scenario, and set what is found beside what is expected
    Matrix(Box<MatrixArgs>),
    /// Stand between clients and a Redis server, and make faults happen: on the wire, or at commands
    Proxy(Box<ProxyArgs>),
    /// Say what TTL and renewal interval to set, and what each would cost
    Tune(Box<TuneArgs>),
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the JSON schema of result.json
    Schema,
}

/// What `run` takes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunArgs {
    /// Which scenario: a name of `picklock list`, or a TOML file
    #[arg(
        long,
        visible_alias = "config",
        value_name = "NAME|FILE.toml",
        env = "PICKLOCK_SCENARIO"
    )]
    pub(crate) scenario: Option<OsString>,
    /// Which lock: a recipe of `picklock list`
    #[arg(long, value_name = "RECIPE", env = "PICKLOCK_LOCK")]
    pub(crate) lock: Option<String>,
    /// Where to run it
    #[arg(long, value_enum, default_value_t, env = "PICKLOCK_WORLD")]
    pub(crate) world: World,
    /// Which server to use
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// How many clients contend
    #[arg(long, value_name = "N", value_parser = clients, env = "PICKLOCK_CLIENTS", allow_negative_numbers = true)]
    pub(crate) clients: Option<u32>,
    /// How long the lock's key lives, such as 500ms
    #[arg(long, value_name = "SPAN", env = "PICKLOCK_TTL", allow_hyphen_values = true)]
    pub(crate) ttl: Option<Span>,
    /// How long a client works under the lock, such as 2ms
    #[arg(long, value_name = "SPAN", env = "PICKLOCK_HOLD", allow_hyphen_values = true)]
    pub(crate) hold: Option<Span>,
    /// Change any other key of the scenario, such as workload.bonus_pool.prizes=3
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, env = "PICKLOCK_SET", value_delimiter = ';')]
    pub(crate) set: Vec<(String, String)>,
    /// Stage nothing, and let faults of the scenario's searched form strike anybody anywhere: the seeds have
    /// to find what the story tells (only with --world virtual)
    #[arg(long, env = "PICKLOCK_SEARCHED", value_parser = BoolishValueParser::new())]
    pub(crate) searched: bool,
    /// What latency, jitter and tokens are drawn from; drawn itself where it is not given
    #[arg(long, value_name = "N", value_parser = seed, env = "PICKLOCK_SEED", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Run every schedule of these seeds, the last one excluded (only with --world virtual)
    #[arg(long, value_name = "A..B", env = "PICKLOCK_SEEDS", conflicts_with = "seed")]
    pub(crate) seeds: Option<Seeds>,
    /// How many threads run the schedules of --seeds; as many as there are processors where it is not given
    #[arg(long, value_name = "N", env = "PICKLOCK_THREADS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Also digest every history of --seeds, to compare builds and machines; takes twice as long
    #[arg(long, env = "PICKLOCK_DIGEST", value_parser = BoolishValueParser::new(), requires = "seeds")]
    pub(crate) digest: bool,
    /// Where the report goes
    #[arg(long, value_name = "DIR", default_value = "picklock-out", env = "PICKLOCK_OUT")]
    pub(crate) out: PathBuf,
    /// What is written, and where: human, json, junit or markdown, to stdout or =FILE; may be repeated
    #[arg(
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "human",
        env = "PICKLOCK_FORMAT",
        value_parser = outputs(),
        value_delimiter = ';'
    )]
    pub(crate) format: Vec<Output>,
}

/// What `check` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// The history, as docs/history.md describes it; - for stdin
    #[arg(value_name = "HISTORY.jsonl")]
    pub(crate) history: PathBuf,
    /// The run was cut short: nothing counts as held, and what did not happen is not missed
    #[arg(long)]
    pub(crate) incomplete: bool,
    /// What is asked of progress, beside what the head says
    #[command(flatten)]
    pub(crate) asked: Asked,
    /// What is written, and where: human, json, junit or markdown, to stdout or =FILE; may be repeated
    #[arg(
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "human",
        env = "PICKLOCK_FORMAT",
        value_parser = outputs(),
        value_delimiter = ';'
    )]
    pub(crate) format: Vec<Output>,
}

/// What `list` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListArgs {
    /// What is written, and where: human or json, to stdout or =FILE; may be repeated
    #[arg(
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "human",
        value_parser = outputs(),
        value_delimiter = ';'
    )]
    pub(crate) format: Vec<Output>,
}

/// What `matrix` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct MatrixArgs {
    /// Where to run it
    #[arg(long, value_enum, default_value = "virtual", env = "PICKLOCK_WORLD")]
    pub(crate) world: World,
    /// Only these scenarios: names of `picklock list`, or TOML files
    #[arg(long, value_name = "NAME|FILE.toml,…", value_delimiter = ',', env = "PICKLOCK_SCENARIO")]
    pub(crate) scenario: Vec<OsString>,
    /// Only these locks
    #[arg(long, value_name = "RECIPE,…", value_delimiter = ',', env = "PICKLOCK_LOCK")]
    pub(crate) lock: Vec<String>,
    /// Run the searched form of each scenario, where it has one: nothing is staged, and the seeds have to
    /// find what is claimed (only with --world virtual)
    #[arg(long, env = "PICKLOCK_SEARCHED", value_parser = BoolishValueParser::new())]
    pub(crate) searched: bool,
    /// Which server to use
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Run each pair with these seeds, the last one excluded; where nothing is said, 10 of a staged
    /// story (2 of a crowded one), and 100 of one that is searched for (only with --world virtual)
    #[arg(long, value_name = "A..B", env = "PICKLOCK_SEEDS")]
    pub(crate) seeds: Option<Seeds>,
    /// How many threads run schedules; as many as there are processors where it is not given
    #[arg(long, value_name = "N", env = "PICKLOCK_THREADS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// What is written, and where: human, json, junit or markdown, to stdout or =FILE; may be repeated
    #[arg(
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "human",
        env = "PICKLOCK_FORMAT",
        value_parser = outputs(),
        value_delimiter = ';'
    )]
    pub(crate) format: Vec<Output>,
}

/// A format, and the file it goes to; none: stdout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// The format.
    pub(crate) format: OutputFormat,
    /// The file.
    pub(crate) file: Option<PathBuf>,
}

/// How something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people, in a terminal
    Human,
    /// For programs
    Json,
    /// For a CI
    Junit,
    /// For a page
    Markdown,
}

/// Reads what `--format` takes. A path is bytes, and need be no text.
fn outputs() -> impl TypedValueParser<Value = Output> {
    OsStringValueParser::new().try_map(|text| Output::read(&text))
}

impl Output {
    fn read(text: &OsStr) -> Result<Self, &'static str> {
        let bytes = text.as_bytes();
        let (format, file) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(place) if place + 1 == bytes.len() => return Err("name a file behind the ="),
            Some(place) => {
                let file = OsStr::from_bytes(&bytes[place + 1..]);
                (&bytes[..place], Some(PathBuf::from(file)))
            }
            None => (bytes, None),
        };
        let format = OutputFormat::from_str(&String::from_utf8_lossy(format), false)
            .map_err(|_| "write human, json, junit or markdown, as in junit=report.xml")?;
        Ok(Self { format, file })
    }
}

/// Which server to use.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServerArgs {
    /// Which Redis to use. The help stands below, for brackets would be links here.
    #[arg(long, value_name = "URL", env = "PICKLOCK_REDIS", hide_env_values = true)]
    #[arg(
        help = "Use this Redis instead of starting one: redis://[user:password@]host[:port][/db], or rediss://"
    )]
    pub(crate) redis: Option<String>,
    /// The redis-server to start, where it is not the one on PATH; matrix and doctor take several
    #[arg(long, value_name = "PATH", env = "PICKLOCK_REDIS_SERVER")]
    pub(crate) server_bin: Vec<PathBuf>,
    /// Trust the certificates in this PEM file, for rediss://
    #[arg(long, value_name = "FILE", env = "PICKLOCK_TLS_CA")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Trust any certificate, for rediss://
    #[arg(long, env = "PICKLOCK_TLS_INSECURE", value_parser = BoolishValueParser::new(), conflicts_with = "tls_ca")]
    pub(crate) tls_insecure: bool,
}

/// Where to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum World {
    /// redis where a redis-server is found, else embedded
    #[default]
    Auto,
    /// Our deterministic simulator, on virtual time
    Virtual,
    /// picklock's own Redis model, over TCP
    Embedded,
    /// A real redis-server, started for this run or given with --redis
    Redis,
}

/// How to talk.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Talk {
    /// Colours
    #[arg(long, value_enum, default_value_t, global = true, env = "PICKLOCK_COLOR")]
    pub(crate) color: Color,
    /// How progress is shown, on stderr
    #[arg(long, value_enum, default_value_t, global = true, env = "PICKLOCK_PROGRESS")]
    pub(crate) progress: Progress,
    /// Say less: only the verdict
    #[arg(short, long, global = true, env = "PICKLOCK_QUIET", value_parser = BoolishValueParser::new())]
    pub(crate) quiet: bool,
    /// Say more: reasons of every verdict
    #[arg(short, long, global = true, env = "PICKLOCK_VERBOSE", value_parser = BoolishValueParser::new())]
    pub(crate) verbose: bool,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How to show progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// A bar on a terminal, else a line every few seconds
    #[default]
    Auto,
    /// A bar
    Bar,
    /// A line every few seconds
    Lines,
    /// Nothing
    Off,
}

fn clients(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "write a whole number of clients, as in 100".to_owned())
}

pub(super) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}

/// Seeds from the first up to, and without, the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub Range<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = "write it as A..B, as in 0..10000";
        let (first, end) = text.split_once("..").ok_or(shape)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| shape.to_owned());
        let (first, end) = (number(first)?, number(end)?);
        match first.cmp(&end) {
            Ordering::Less => Ok(Self(first..end)),
            Ordering::Equal => Err(format!("{first}..{end} is empty: {end} itself is excluded")),
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
        _ => Err("write it as key=value, as in lock.retries=3".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_has_a_variable() {
        for command in [Cli::command()] {
            for arg in command.get_arguments() {
                let id = arg.get_id().as_str();
                assert!(arg.get_env().is_some() || ["help", "version"].contains(&id), "{id}");
            }
        }
    }

    #[test]
    fn run_is_what_is_done_without_a_word() {
        let cli = Cli::parse_from(["picklock", "--scenario", "x", "--ttl", "5ms"]);
        assert!(cli.command.is_none());
        assert_eq!(cli.run.ttl.unwrap().to_string(), "5ms");
        let cli = Cli::parse_from(["picklock", "run", "--scenario", "x", "--color", "never"]);
        assert_eq!(cli.talk.color, Color::Never);
    }

    #[test]
    fn spans_that_cannot_be_are_refused_with_the_reason() {
        for (span, says) in [("-1s", "negative"), ("5", "unit"), ("99999999999999y", "too long")] {
            let error = Cli::try_parse_from(["picklock", "--ttl", span]).unwrap_err().to_string();
            assert!(error.contains(says), "{span}: {error}");
        }
    }
}
