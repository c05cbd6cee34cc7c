//! The command line from the first word to the exit code.
//!
//! Invariant: stdout carries results and nothing else; whatever goes wrong is one message on stderr
//! and one exit code, a panic included.

use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches};
use scenarios::catalog;

use super::args::{Cli, Command, RunArgs};
use super::exit::Exit;
use super::failure::Failure;
use super::terminal::Terminal;
use super::{check, doctor, list, matrix, print, proxy, run, show, tune, variables};

/// Reads the command line, does what it says, and says how picklock ends.
pub(crate) fn main() -> Exit {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let terminal = Terminal::of_process(cli.talk);
    // Tasks and threads have their own; this catches what would be an ugly end of the whole.
    let done = catch_unwind(AssertUnwindSafe(|| act(&cli, &terminal))).unwrap_or_else(|_| {
        Err(Failure::internal("picklock has panicked; the message stands above"))
    });
    done.unwrap_or_else(|failure| {
        print::raw(&failure.render(&terminal));
        if failure.exit() == Exit::Usage {
            note_variables();
        }
        failure.exit()
    })
}

/// Says what is wrong with the command line, or shows the help or version that was asked for.
fn refuse(error: &clap::Error) -> Exit {
    // Clap knows where each belongs.
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Held;
    }
    if let Some(scenario) = meant_scenario(error) {
        print::note(&format!("tip: a scenario is run with --scenario {scenario}"));
    }
    note_variables();
    Exit::Usage
}

fn note_variables() {
    if let Some(note) = variables::note(&Cli::command()) {
        print::note(&note);
    }
}

/// The scenario that stands where a subcommand or nothing should.
fn meant_scenario(error: &clap::Error) -> Option<&str> {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    match error.get(kind) {
        Some(ContextValue::String(word))
            if catalog::text(word).is_ok() || word.ends_with(".toml") =>
        {
            Some(word)
        }
        _ => None,
    }
}

fn parse() -> Result<Cli, clap::Error> {
    let matches = variables::without_blank(Cli::command()).try_get_matches()?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let spoken = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    if let Some((command, _)) = matches.subcommand() {
        let of_run = RunArgs::augment_args(clap::Command::new("run"));
        let misplaced = of_run.get_arguments().find(|arg| spoken(arg.get_id().as_str()));
        if let Some(arg) = misplaced {
            let option = arg.get_long().unwrap_or_default();
            let message = format!("--{option} stands before `{command}`: options go behind it\n");
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
        }
    }
    let of_run = match matches.subcommand() {
        None => Some(&matches),
        Some(("run", of_run)) => Some(of_run),
        Some(_) => None,
    };
    // A variable is for all runs, and means those that have threads.
    if let Some(run) = of_run
        && run.value_source("threads") == Some(ValueSource::CommandLine)
        && run.value_source("seeds").is_none()
    {
        let message = "--threads runs many schedules at a time, and without --seeds there is one: add \
                       --seeds A..B, or leave --threads away\n";
        return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
    }
    // Not left to clap, for which a variable is as good as a word on the command line.
    match (spoken("quiet"), spoken("verbose")) {
        (true, true) => {
            let message = "--quiet and --verbose contradict each other: leave one away\n";
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
        }
        (true, false) => cli.talk.verbose = false,
        (false, true) => cli.talk.quiet = false,
        (false, false) => {}
    }
    Ok(cli)
}

fn act(cli: &Cli, terminal: &Terminal) -> Result<Exit, Failure> {
    let text = match &cli.command {
        None => return run::main(&cli.run, terminal),
        Some(Command::Run(args)) => return run::main(args, terminal),
        Some(Command::Replay { run: directory }) => return run::replay(directory, terminal),
        Some(Command::Check(args)) => return check::main(args, terminal),
        Some(Command::Matrix(args)) => return matrix::main(args, terminal),
        Some(Command::Proxy(args)) => return proxy::main(args, terminal),
        Some(Command::Tune(args)) => return tune::main(args, terminal),
        Some(Command::List(args)) => return list::main(args, terminal),
        Some(Command::Show { name, lock, toml }) => show::text(name, lock.as_deref(), *toml)?,
        Some(Command::Doctor { server }) => doctor::text(server)?,
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "picklock", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
        Some(Command::Schema) => format!("{:#}\n", scenarios::result::schema()),
    };
    print::results(&text)?;
    Ok(Exit::Held)
}
