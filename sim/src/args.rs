//! The command line: subcommands, and the options of each.
//!
//! Invariant: every option of `run` can also be given as a `PICKLOCK_*` variable, and the command line wins (see `variables`). Nothing here
//! imports a command; defaults of a scenario are in its file.

mod attack;
mod check;
mod explore;
mod number;
mod output;
mod proxy;
mod run;
mod serve;
mod shard;
mod shrink;
mod soak;
mod threads;
mod tune;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use self::attack::AttackArgs;
pub(crate) use self::check::{CheckArgs, Thresholds, without_threshold};
pub(crate) use self::explore::{ConfirmArgs, ExploreArgs, RegressionArgs};
pub(crate) use self::output::{
    Color, ListArgs, Output, OutputFormat, OutputOptions, ProgressMode, SchemaOf,
};
pub(crate) use self::proxy::ProxyArgs;
pub(crate) use self::run::{
    MatrixArgs, RegressionDirectory, ReportArgs, RunArgs, Seeds, ServerArgs, TlsArgs, World,
};
pub(crate) use self::serve::ServeArgs;
pub(crate) use self::shard::{MergeArgs, ShardArgs};
pub(crate) use self::shrink::ShrinkArgs;
pub(crate) use self::soak::SoakArgs;
pub(crate) use self::threads::{Threads, cpus};
pub(crate) use self::tune::{Renew, Taken, TuneArgs, TuneFormat};

/// Can your Redis lock be picked?
///
/// Runs contending clients against Redis, injects faults, checks what each client observed, and reports at four levels
/// whether the lock held.
#[derive(Debug, Parser)]
#[command(name = "picklock", version, about, long_about, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// The command; default: `run`.
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
    /// Options of `run`.
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// What picklock prints, and how.
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

const EXIT_CODES: &str = "\
Exit codes: 0 held, 1 safety violated, 2 usage or configuration, 3 inconclusive, 4 nothing ran,
5 only progress violated, 69 environment unavailable, 70 internal bug, 130 interrupted.
Try: picklock --scenario bonus-pool";

/// A subcommand.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run a scenario and judge the lock
    Run(Box<RunArgs>),
    /// Test your own lock: your program, our faults
    Attack(Box<AttackArgs>),
    /// List scenarios and recipes
    List(ListArgs),
    /// Describe a scenario or recipe and its expected verdicts
    Show {
        /// Name of the scenario or recipe
        name: String,
        /// Describe the scenario as it runs with this recipe
        #[arg(long, value_name = "RECIPE", env = "PICKLOCK_LOCK")]
        lock: Option<String>,
        /// Print the scenario as TOML, to start your own from
        #[arg(long)]
        toml: bool,
    },
    /// Run every recipe in every scenario and compare the verdicts with the expected ones
    Matrix(Box<MatrixArgs>),
    /// Find the smallest schedule that breaks a lock: every fault at every step of a few clients
    Explore(Box<ExploreArgs>),
    /// Shrink a run that violates something to the smallest scenario that violates the same
    Shrink(Box<ShrinkArgs>),
    /// Run a counterexample on a real redis-server: does it show the same?
    Confirm(Box<ConfirmArgs>),
    /// Search with fresh seeds for hours, in all scenarios, for a violation by a recipe without a known flaw
    Soak(Box<SoakArgs>),
    /// Merge the shards of a sweep, a matrix, an attack or an exploration
    Merge(MergeArgs),
    /// Recommend a TTL and a renewal interval, with the cost of each
    Tune(Box<TuneArgs>),
    /// Judge a history, recorded by picklock or by another tool
    Check(CheckArgs),
    /// Draw a run again from its directory, or compare several
    Report(ReportArgs),
    /// Rerun a schedule of the virtual world and compare the history byte for byte
    Replay {
        /// Directory of the run, such as picklock-out/bonus-pool/latest
        run: PathBuf,
        /// Run every script in Lua, as Redis does
        #[arg(long, env = "PICKLOCK_LUA", value_parser = clap::builder::BoolishValueParser::new())]
        lua: bool,
    },
    /// Run a fault-injecting proxy between your clients and Redis
    Proxy(Box<ProxyArgs>),
    /// Serve the Redis model, for tests on a machine without Redis
    ///
    /// docs/worlds.md lists the commands that it lacks. A script ends with an error after 50,000,000 instructions, while
    /// redis-server lets it go on and answers others BUSY.
    Serve(ServeArgs),
    /// Check this machine: servers, versions, limits
    Doctor {
        /// Which server to check
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a man page
    Man {
        /// The command; default: picklock itself, whose page lists the commands
        command: Option<String>,
    },
    /// Print the JSON schema of result.json, or of attack.json
    Schema {
        /// The file
        #[arg(value_enum, default_value_t)]
        of: SchemaOf,
    },
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
        for arg in Cli::command().get_arguments() {
            let id = arg.get_id().as_str();
            assert!(arg.get_env().is_some() || ["help", "version"].contains(&id), "{id}");
        }
    }

    #[test]
    fn run_is_the_default_command() {
        let cli = Cli::parse_from(["picklock", "--scenario", "x", "--ttl", "5ms"]);
        assert!(cli.command.is_none());
        assert_eq!(cli.run.ttl.unwrap().to_string(), "5ms");
        let cli = Cli::parse_from(["picklock", "run", "--scenario", "x", "--color", "never"]);
        assert_eq!(cli.output.color, Color::Never);
    }

    #[test]
    fn spans_that_cannot_be_are_refused_with_the_reason() {
        for (span, says) in [("-1s", "negative"), ("5", "unit"), ("99999999999999y", "too long")] {
            let error = Cli::try_parse_from(["picklock", "--ttl", span]).unwrap_err().to_string();
            assert!(error.contains(says), "{span}: {error}");
        }
    }
}
