//! What `picklock check` costs: time and memory, on histories that are written for it.
//!
//! Invariant: the binary measured is the one that users run, as a process of its own, reading a file;
//! its exit code is looked at. Time on processors stands beside the time that passed, because a busy
//! machine stretches only the latter.

#![expect(clippy::disallowed_methods, reason = "a measurement takes the machine's time")]

use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use benches::figures::median;
use benches::synthetic;
use history::History;

const ROUNDS: usize = 9;
/// How often the memory of the process is looked at.
const EVERY: Duration = Duration::from_millis(1);
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// What is measured, and how its check must end.
type Case = (&'static str, fn() -> History, i32);

const CASES: [Case; 4] = [
    ("10^6 operations, nothing unknown", || synthetic::operations(1_000_000, 0), 0),
    ("10^6 operations, 1 % unknown", || synthetic::operations(1_000_000, 1), 0),
    ("10^6 operations, 10 % unknown", || synthetic::operations(1_000_000, 10), 0),
    ("bad, 200 clients, 10^4 operations, 2 % unknown", || synthetic::bad(200, 10_000, 2), 1),
];

fn main() -> Result<(), Box<dyn Error>> {
    let picklock = binary()?;
    let dir = tempfile::tempdir()?;
    println!(
        "{:<48} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}",
        "", "lines", "MiB", "time", "least", "lines/s", "cpu", "peak"
    );
    for (name, make, exit) in CASES {
        let file = dir.path().join("history.jsonl");
        let lines = {
            let history = make();
            history::write(&history, BufWriter::new(File::create(&file)?))?;
            history.events.len() + 1
        };
        let (mut times, mut loads, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (took, used) = check(&picklock, &file, exit)?;
            times.push(took.as_secs_f64());
            loads.push(used.cpu_ms);
            peaks.push(used.peak_kib);
        }
        let seconds = median(&times);
        println!(
            "{name:<48} {lines:>8} {:>8.1} {:>6.0}ms {:>6.0}ms {:>7.2}M {:>6}ms {:>6.1}MiB",
            fs::metadata(&file)?.len() as f64 / MEBIBYTE,
            seconds * 1e3,
            times.iter().copied().fold(f64::INFINITY, f64::min) * 1e3,
            lines as f64 / seconds / 1e6,
            median(&loads),
            median(&peaks) as f64 / 1024.0,
        );
    }
    println!("\nmedians of {ROUNDS} rounds; the file is in the page cache");
    Ok(())
}

/// The binary beside this one, built with the same profile.
fn binary() -> Result<PathBuf, Box<dyn Error>> {
    let path = std::env::current_exe()?.with_file_name("picklock");
    if !path.is_file() {
        let path = path.display();
        return Err(format!("{path} is not there: run `cargo build --release -p sim` first").into());
    }
    Ok(path)
}

/// What a process has used.
#[derive(Clone, Copy, Default)]
struct Used {
    /// The most memory it has had at a time.
    peak_kib: u64,
    /// Time on processors, all threads together; a multiple of ten.
    cpu_ms: u64,
}

/// How long a check took, and what it used.
fn check(picklock: &Path, file: &Path, exit: i32) -> Result<(Duration, Used), Box<dyn Error>> {
    let mut command = Command::new(picklock);
    command.arg("check").arg(file).args(["--format", "json"]).stdout(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn()?;
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let watching = thread::spawn(move || {
        let mut last = Used::default();
        // The process is watched until it has no memory any more.
        while let Some(used) = used(&process) {
            last = used;
            thread::sleep(EVERY);
        }
        last
    });
    let ended = child.wait()?;
    let took = began.elapsed();
    let used = watching.join().map_err(|_| "the watcher has panicked")?;
    if ended.code() != Some(exit) {
        return Err(format!("{} ended with {ended}, not {exit}", file.display()).into());
    }
    Ok((took, used))
}

/// What a process has used so far.
fn used(process: &Path) -> Option<Used> {
    /// Of a tick of the clock that the kernel counts by.
    const TICK_MS: u64 = 10;
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let peak_kib = line.split_whitespace().nth(1)?.parse().ok()?;
    // Its name may hold blanks and stands in brackets before all numbers but one.
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let (_, numbers) = stat.rsplit_once(')')?;
    let ticks = numbers.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<_, _>>().ok()?;
    Some(Used { peak_kib, cpu_ms: ticks * TICK_MS })
}
