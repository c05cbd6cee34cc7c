//! The violation that ended a soak: reported as a run of its own, and shrunk.

use std::sync::Arc;

use scenarios::soak::SoakConviction;

use crate::args::{
    RegressionArgs, RegressionDirectory, RunArgs, ServerArgs, ShrinkArgs, SoakArgs, World,
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
    Line::new()
        .option("--scenario", scenario(asked, it))
        .option("--lock", &it.lock)
        .word("--searched --world virtual")
        .option("--seed", it.seed)
}

/// The scenario's file, or its name in the catalogue.
fn scenario<'a>(asked: &'a Asked, it: &'a SoakConviction) -> &'a str {
    asked.files.get(&it.scenario).unwrap_or(&it.scenario)
}

/// Runs it again for its report, shrinks it and prints it.
pub(super) fn write_report(
    args: &SoakArgs,
    asked: &Asked,
    it: &SoakConviction,
    terminal: &Terminal,
) -> Result<(), Failure> {
    // Not parsed from the line: variables such as PICKLOCK_TTL, which a soak ignores, would change the schedule.
    let of_run = RunArgs {
        scenario: Some(scenario(asked, it).into()),
        lock: Some(it.lock.clone()),
        world: World::Virtual,
        searched: true,
        seed: Some(it.seed),
        out: args.out.clone(),
        ..RunArgs::default()
    };
    let run = run::one_of_many(&of_run, &Arc::new(load::scenario(&of_run)?), it.seed, terminal)?;
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
