//! The command line from the first word to the exit code.
//!
//! Invariant: stdout carries results and nothing else; whatever goes wrong is one message on stderr
//! and one exit code, a panic included.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches};

use super::args::{Cli, Command, RunArgs};
use super::exit::Exit;
use super::failure::Failure;
use super::terminal::Terminal;
use super::{doctor, list, run, show};

/// Reads the command line, does what it says, and says how picklock ends.
pub fn main() -> Exit {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap knows where each belongs.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Held,
                _ => Exit::Usage,
            };
        }
    };
    let terminal = Terminal::of_process(cli.talk);
    // Tasks and threads have their own; this catches what would be an ugly end of the whole.
    match catch_unwind(AssertUnwindSafe(|| act(&cli, &terminal))) {
        Ok(Ok(exit)) => exit,
        Ok(Err(failure)) => {
            eprint!("{}", failure.render(&terminal));
            failure.exit()
        }
        Err(_) => {
            let failure = Failure::internal("picklock has panicked; the message stands above");
            eprint!("{}", failure.render(&terminal));
            failure.exit()
        }
    }
}

fn parse() -> Result<Cli, clap::Error> {
    let matches = Cli::command().try_get_matches()?;
    let cli = Cli::from_arg_matches(&matches)?;
    if let Some((command, _)) = matches.subcommand() {
        let spoken = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let of_run = RunArgs::augment_args(clap::Command::new("run"));
        let misplaced = of_run.get_arguments().find(|arg| spoken(arg.get_id().as_str()));
        if let Some(arg) = misplaced {
            let option = arg.get_long().unwrap_or_default();
            let message = format!("--{option} stands before `{command}`: options go behind it\n");
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
        }
    }
    Ok(cli)
}

fn act(cli: &Cli, terminal: &Terminal) -> Result<Exit, Failure> {
    let text = match &cli.command {
        None => return run::main(&cli.run, terminal),
        Some(Command::Run(args)) => return run::main(args, terminal),
        Some(Command::List) => list::text(terminal)?,
        Some(Command::Show { name }) => show::text(name)?,
        Some(Command::Doctor { server }) => doctor::text(server)?,
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "picklock", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
        Some(Command::Schema) => format!("{:#}\n", scenarios::result::schema()),
    };
    // Whoever closed the pipe has seen enough.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(Exit::Held)
}
