//! Compares picklock's virtual world with other simulators on workload W: commands for each second of the processor.
//!
//! `simulators [SEEDS]`, with the feature `simulators`. Picklock runs it with every fault, its history and every checker;
//! the others do none of that.

use std::error::Error;

use benches::simulators::{paused, turmoil};
use benches::workload_w::{commands, run, scenario, timed};

const SEEDS: u64 = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let seeds = std::env::args().nth(1).map_or(Ok(SEEDS), |it| it.parse())?;
    let scenario = scenario()?;
    let sent = commands(&scenario, seeds)?;
    println!(
        "{:16}{:>16}{:>24}{:>24}",
        "", "commands each", "schedules a CPU-second", "commands a CPU-second"
    );
    measured("picklock", seeds, || run(&scenario, seeds, 1).map(|_| sent))?;
    measured("paused tokio", seeds, || Ok((0..seeds).map(paused::run).sum()))?;
    measured("turmoil", seeds, || Ok((0..seeds).map(turmoil::run).sum()))
}

/// Runs it, which gives the number of its commands.
fn measured(
    name: &str,
    seeds: u64,
    run: impl FnOnce() -> Result<u64, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let (commands, took) = timed(run)?;
    let (seeds, commands, seconds) = (seeds as f64, commands as f64, took.as_secs_f64());
    let (each, schedules, commands) = (commands / seeds, seeds / seconds, commands / seconds);
    println!("{name:16}{each:>16.0}{schedules:>24.0}{commands:>24.0}");
    Ok(())
}
