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

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a directory")?;
    fs::create_dir_all(&dir)?;
    let history = support::bonus_pool();
    let caption = Caption::of(&history);
    draw(&dir, "run", &Latencies::of(&history), &caption)?;
    for (name, samples) in shapes() {
        let mut latencies = Latencies::default();
        for ns in samples {
            latencies.record(Operation::Acquire, ns);
        }
        draw(&dir, name, &latencies, &caption)?;
    }
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

fn draw(
    dir: &Path,
    name: &str,
    latencies: &Latencies,
    caption: &Caption,
) -> Result<(), Box<dyn Error>> {
    fs::write(dir.join(format!("{name}.svg")), chart::svg(latencies, caption)?)?;
    chart::png(latencies, caption, &dir.join(format!("{name}.png")))?;
    Ok(())
}
