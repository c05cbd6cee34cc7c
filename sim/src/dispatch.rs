//! From the command line to the exit code.
//!
//! Invariant: stdout carries results and nothing else; whatever goes wrong is one message on stderr
//! and one exit code, a panic included.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches};
use scenarios::catalog;
use scenarios::matrix::locks;

use super::args::{Cli, CliCommand, RunArgs, SchemaOf};
use super::exit::Exit;
use super::failure::Failure;
use super::line::quoted;
use super::terminal::Terminal;
use super::{
    attack, check, confirm, doctor, explore, list, man, matrix, merge, print, proxy, run, serve,
    show, shrink, signal, soak, tune, variables,
};

/// Parses the command line, runs the command and returns the exit.
pub(crate) fn main() -> Exit {
    signal::survive_file_size_limit();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let terminal = Terminal::of_process(cli.output);
    // Tasks and threads catch their own panics; this one turns a panic of the main thread into an exit code.
    let done = catch_unwind(AssertUnwindSafe(|| act(&cli, &terminal)))
        .unwrap_or_else(|_| Err(Failure::internal("picklock panicked; see the message above")));
    done.unwrap_or_else(|failure| {
        print::raw(&failure.render(&terminal));
        if failure.exit == Exit::Usage {
            note_variables();
        }
        failure.exit
    })
}

/// Prints an error of the command line, or the help or version.
fn refuse(error: &clap::Error) -> Exit {
    // Clap picks stdout or stderr.
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    if !error.use_stderr() {
        return match printed {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                print::note(&format!("picklock: cannot write the help to stdout: {error}"));
                Exit::Unavailable
            }
            _ => Exit::Held,
        };
    }
    if let Some(tip) = misplaced_word(error).and_then(tip) {
        print::note(&tip);
    }
    for tip in missing_words(error) {
        print::note(&tip);
    }
    note_variables();
    Exit::Usage
}

fn note_variables() {
    if let Some(note) = variables::note(&Cli::command()) {
        print::note(&note);
    }
}

/// A word that belongs to no option.
fn misplaced_word(error: &clap::Error) -> Option<&str> {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    match error.get(kind) {
        Some(ContextValue::String(word)) if !word.starts_with('-') => Some(word),
        _ => None,
    }
}

/// What such a word is likely to mean: a scenario, a recipe, or the command of a worker.
fn tip(word: &str) -> Option<String> {
    if catalog::text(word).is_ok() || word.ends_with(".toml") {
        return Some(format!("tip: run a scenario with --scenario {word}"));
    }
    if locks().any(|name| name == word) {
        return Some(format!("tip: choose a recipe with --lock {word}"));
    }
    let is_attack = std::env::args_os().any(|it| it == "attack");
    is_attack.then(|| format!("tip: your worker's command comes after `--`: -- {} …", quoted(word)))
}

/// What belongs in the places of a command that were left empty.
fn missing_words(error: &clap::Error) -> Vec<String> {
    let command = Cli::command();
    let words = std::env::args_os();
    let asked = words.skip(1).find_map(|word| command.find_subcommand(word));
    let (Some(asked), Some(ContextValue::Strings(missing))) =
        (asked, error.get(ContextKind::InvalidArg))
    else {
        return Vec::new();
    };
    let places = asked.get_positionals().filter(|place| missing.contains(&place.to_string()));
    places.filter_map(|place| Some(format!("tip: {place}: {}", place.get_help()?))).collect()
}

fn parse() -> Result<Cli, clap::Error> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let command = variables::without_contradicted(variables::without_blank(Cli::command()), &words);
    let matches = command.try_get_matches()?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let spoken = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    if let Some((command, _)) = matches.subcommand() {
        let of_run = RunArgs::augment_args(clap::Command::new("run"));
        let misplaced = of_run.get_arguments().find(|arg| spoken(arg.get_id().as_str()));
        if let Some(arg) = misplaced {
            let option = arg.get_long().unwrap_or_default();
            let message = format!("--{option} must follow `{command}`, not precede it\n");
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
        }
    }
    let of_run = match matches.subcommand() {
        None => Some(&matches),
        Some(("run", of_run)) => Some(of_run),
        Some(_) => None,
    };
    // PICKLOCK_THREADS applies to all runs and is ignored by those without threads; the option is refused.
    let of_sweeps = [
        ("threads", "runs several schedules at once, but"),
        // Where there is --seed, clap does not insist on the --seeds that this requires.
        ("digest", "is of all schedules of a sweep, and"),
    ];
    for (option, what) in of_sweeps {
        if let Some(run) = of_run
            && run.value_source(option) == Some(ValueSource::CommandLine)
            && run.value_source("seeds").is_none()
        {
            let message = format!(
                "--{option} {what} without --seeds there is only one: add --seeds A..B, or remove --{option}\n"
            );
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
        }
    }
    // Not left to clap: for it a variable equals an option, but here the option must win over the variable.
    match (spoken("quiet"), spoken("verbose")) {
        (true, true) => {
            let message = "--quiet and --verbose are mutually exclusive: remove one\n";
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
        }
        (true, false) => cli.output.verbose = false,
        (false, true) => cli.output.quiet = false,
        (false, false) => {}
    }
    Ok(cli)
}

fn act(cli: &Cli, terminal: &Terminal) -> Result<Exit, Failure> {
    let text = match &cli.command {
        None => return run::main(&cli.run, terminal),
        Some(CliCommand::Run(args)) => return run::main(args, terminal),
        Some(CliCommand::Replay { run, lua }) => return run::replay(run, *lua, terminal),
        Some(CliCommand::Report(args)) => return run::redraw(args, terminal),
        Some(CliCommand::Check(args)) => return check::main(args, terminal),
        Some(CliCommand::Matrix(args)) => return matrix::main(args, terminal),
        Some(CliCommand::Soak(args)) => return soak::main(args, terminal),
        Some(CliCommand::Merge(args)) => return merge::main(args, terminal),
        Some(CliCommand::Proxy(args)) => return proxy::main(args, terminal),
        Some(CliCommand::Serve(args)) => return serve::main(args, terminal),
        Some(CliCommand::Attack(args)) => return attack::main(args, terminal),
        Some(CliCommand::Explore(args)) => return explore::main(args, terminal),
        Some(CliCommand::Shrink(args)) => return shrink::main(args, terminal),
        Some(CliCommand::Confirm(args)) => return confirm::main(args, terminal),
        Some(CliCommand::Tune(args)) => return tune::main(args, terminal),
        Some(CliCommand::List(args)) => return list::main(args, terminal),
        Some(CliCommand::Show { name, lock, toml }) => show::text(name, lock.as_deref(), *toml)?,
        Some(CliCommand::Doctor { server }) => doctor::text(server)?,
        Some(CliCommand::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "picklock", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
        Some(CliCommand::Man { command }) => man::page(command.as_deref())?,
        Some(CliCommand::Schema { of }) => {
            let schema = match of {
                SchemaOf::Result => scenarios::result::schema(),
                SchemaOf::Attack => ::attack::schema(),
            };
            format!("{schema:#}\n")
        }
    };
    print::results(&text)?;
    Ok(Exit::Held)
}
