//! Measures what the sound recipes need in a scenario's file, and writes it there: its `[limits]`.
//!
//! `limits FILE.toml SEEDS`. Invariant: what is written follows from the file and the code alone, whatever machine
//! measured it.

use std::error::Error;
use std::path::PathBuf;

use benches::limits::{measure, rewritten};
use reports::file;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(path), Some(seeds)) = (words.next(), words.next()) else {
        return Err("usage: limits FILE.toml SEEDS".into());
    };
    let path = PathBuf::from(path);
    let text = std::fs::read_to_string(&path)?;
    let name = path.file_stem().and_then(|it| it.to_str()).unwrap_or_default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let limits = measure(name, &text, seeds.parse()?, threads)?;
    file::write(&path, &rewritten(&text, &limits))?;
    Ok(())
}
