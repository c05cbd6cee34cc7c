//! What one schedule of workload W costs in the binary that users run.
//!
//! `schedule [SEEDS]`, beside a `picklock` of the same build: it is run on one and on two threads, and under callgrind for
//! so few seeds that this ends, and for twice as many, of which the difference is taken.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use benches::counted_code::{self, CountedCode};
use benches::workload_w::{run, scenario, words};
use nix::sys::resource::{UsageWho, getrusage};
use virtual_world::Runner;

const SEEDS: u64 = 4_000;
/// Seeds that are run under callgrind, which is slow.
const COUNTED: u64 = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let seeds = std::env::args().nth(1).map_or(Ok(SEEDS), |it| it.parse())?;
    let each = |all: u64| all as f64 / seeds as f64;
    let scenario = scenario()?;
    let sweep = run(&scenario, seeds, 1)?;
    let program = std::env::current_exe()?.with_file_name("picklock");
    let (one, two) = (busy(&program, seeds, 1)?, busy(&program, seeds, 2)?);
    let counted = |seeds| counted_code::of(&program, &words(seeds, 1));
    let CountedCode { instructions, atomic, allocations } =
        counted(2 * COUNTED)?.without(&counted(COUNTED)?);
    let of_counted = |all: u64| all as f64 / COUNTED as f64;
    for (what, figure) in [
        ("events and polls", each(sweep.events)),
        ("operations", each(sweep.operations)),
        ("instructions", of_counted(instructions)),
        ("allocations", of_counted(allocations)),
        ("atomic operations", of_counted(atomic)),
        ("bytes of a client's future", Runner::new(&scenario)?.client_bytes() as f64),
        ("schedules a CPU-second", seeds as f64 / one.as_secs_f64()),
        ("the same on two threads", seeds as f64 / two.as_secs_f64()),
    ] {
        println!("{what:<28}{figure:>12.0}");
    }
    Ok(())
}

/// How long processors are busy with a sweep of that many seeds.
fn busy(program: &Path, seeds: u64, threads: usize) -> Result<Duration, Box<dyn Error>> {
    let before = children()?;
    let ended = Command::new(program).args(words(seeds, threads)).stdout(Stdio::null()).status();
    let ended = ended.map_err(|error| format!("{}: {error}: build it", program.display()))?;
    if !ended.success() {
        return Err(format!("{}: {ended}", program.display()).into());
    }
    Ok(children()?.saturating_sub(before))
}

/// What all processes that have been waited for have computed.
fn children() -> Result<Duration, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let of = |time: nix::sys::time::TimeVal| {
        Duration::from_micros(
            u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0),
        )
    };
    Ok(of(usage.user_time()) + of(usage.system_time()))
}
