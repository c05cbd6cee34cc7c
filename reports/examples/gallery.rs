//! Draws what a run leaves behind, of a made-up run, into the directory that is named.
//!
//! `cargo run -p reports --example gallery -- DIR` writes nowhere else.

#[path = "../tests/support/mod.rs"]
mod support;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use reports::chart::{self, Caption};
use reports::latency::{Latencies, Operation};
use reports::terminal::{Style, footer, summary};
use reports::{Manifest, RunDirectory, write_all};
use scenarios::history::History;
use scenarios::verdict::{Level, Outcome};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a directory")?;
    for (name, samples) in shapes() {
        let mut latencies = Latencies::default();
        for ns in samples {
            latencies.record(Operation::Acquire, ns);
        }
        fs::create_dir_all(&dir)?;
        let caption = Caption::of(&History::new(support::head()));
        fs::write(dir.join(format!("{name}.svg")), chart::svg(&latencies, &caption)?)?;
        chart::png(&latencies, &caption, &dir.join(format!("{name}.png")))?;
    }
    whole_run(&dir)
}

/// A run with a finding of every kind, as a run leaves it behind.
fn whole_run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let history = support::bonus_pool();
    let reason = "no fault met a hold, so nothing was put to the test";
    let mut result = support::result(
        &history,
        vec![
            support::held("ownership", Level::Key),
            support::overlap(),
            support::because("distinct-prizes", Level::Effect, Outcome::Inconclusive, reason),
            support::because("fairness", Level::Progress, Outcome::NotApplicable, "not claimed"),
        ],
    );
    result.stats.latencies = Latencies::of(&history).summaries();
    result.remarks.push("the TTL of 500 ms is shorter than the longest pause".to_owned());
    let manifest = Manifest { replay: result.replay.clone(), ..Manifest::default() };
    let directory = RunDirectory::create(dir, &result.scenario, "20261121T061500Z", result.seed)?;
    write_all(&directory, &result, &history, &Latencies::of(&history), &manifest, &[])?;
    for (name, colour) in [("summary.txt", false), ("summary.ansi", true)] {
        let style = Style { colour, width: Some(90), ..Style::default() };
        let text = summary(&result, style) + &footer(&result, Path::new("picklock-out"), style);
        directory.write(name, |w| w.write_all(text.as_bytes()))?;
    }
    directory.finish()?;
    Ok(())
}

/// Data that a chart could trip over.
fn shapes() -> [(&'static str, Vec<u64>); 4] {
    let wide = (0..40).map(|power| 1 << power).chain([600_000_000_000]);
    [
        ("nothing", Vec::new()),
        ("single", vec![1_500_000]),
        ("equal", vec![2_000_000; 500]),
        ("wide", wide.collect()),
    ]
}
