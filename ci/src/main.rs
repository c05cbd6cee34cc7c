//! `cargo tidy`: prints what breaks the rules of the house, a finding a line. `ci/planted`: says which planted
//! errors the scenarios convict.
//!
//! Exit codes: 0 tidy, 1 findings, 2 usage, 69 the workspace could not be read.

mod planted;
mod rust;
mod tidy;
mod tree;

use std::env;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p ci -- tidy|planted";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.split_first() {
        Some((word, rest)) if word == "planted" => return planted::main(rest),
        Some((word, [])) if word == "tidy" => {}
        _ => {
            eprintln!("ci: expected a subcommand, tidy or planted\n{USAGE}");
            return ExitCode::from(2);
        }
    }
    let report = match tidy::workspace() {
        Ok(report) => report,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::from(69);
        }
    };
    for note in &report.notes {
        eprintln!("note: {note}");
    }
    for finding in &report.findings {
        println!("{finding}");
    }
    if report.findings.is_empty() {
        eprintln!("tidy: {} files, no findings", report.files);
        return ExitCode::SUCCESS;
    }
    eprintln!("tidy: {} findings in {} files", report.findings.len(), report.files);
    ExitCode::FAILURE
}
