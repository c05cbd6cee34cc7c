//! The violation that ended a soak: reported as a run of its own, and shrunk.

use std::sync::Arc;

use clap::Parser as _;
use scenarios::soak::SoakConviction;

use crate::args::{
    Cli, CliCommand, RegressionArgs, RegressionDirectory, ServerArgs, ShrinkArgs, SoakArgs,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::line::Line;
use crate::matrix::Asked;
use crate::output::HUMAN;
use crate::terminal::Terminal;
use crate::{load, run, shrink};

/// The line that runs its schedule again.
pub(super) fn line(asked: &Asked, it: &SoakConviction) -> Line {
    let scenario = asked.files.get(&it.scenario).unwrap_or(&it.scenario);
    Line::new()
        .option("--scenario", scenario)
        .option("--lock", &it.lock)
        .word("--searched --world virtual")
        .option("--seed", it.seed)
}

/// Runs it again for its report, shrinks it and prints it.
pub(super) fn write_report(
    args: &SoakArgs,
    asked: &Asked,
    it: &SoakConviction,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let line = line(asked, it).option("--out", args.out.display());
    let words = [vec!["picklock".to_owned(), "run".to_owned()], line.words()].concat();
    let cli = Cli::try_parse_from(words).map_err(Failure::internal)?;
    let Some(CliCommand::Run(of_run)) = cli.command else {
        return Err(Failure::internal("the line of a run is of another command"));
    };
    let scenario = Arc::new(load::scenario(&of_run)?);
    let run = run::one_of_many(&of_run, &scenario, it.seed, terminal)?;
    let shrunk = shrink::main(
        &ShrinkArgs {
            run: run.clone(),
            invariant: None,
            budget: args.budget,
            no_confirm: true,
            server: ServerArgs::default(),
            out: args.out.clone(),
            regressions: RegressionArgs { keep: false, directory: RegressionDirectory::default() },
            format: HUMAN.to_vec(),
        },
        terminal,
    )?;
    match shrunk {
        // What is shrunk no further because of a signal is violated all the same.
        Exit::Violated | Exit::ProgressOnly | Exit::Interrupted => Ok(()),
        _ => Err(Failure::internal(format!(
            "run again, the schedule in {} shows something else",
            run.display()
        ))),
    }
}
