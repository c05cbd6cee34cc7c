//! What `--format` asks for: a text in each format, to stdout or to a file.
//!
//! Invariant: whether every file has a place is looked at before anything runs, and files are written whole.

use std::path::Path;

use super::args::{Output, OutputFormat};
use super::failure::Failure;
use super::print;

/// For people, on stdout.
pub(super) const HUMAN: [Output; 1] = [Output { format: OutputFormat::Human, file: None }];

/// Nobody should wait for what cannot be written.
pub(super) fn check(outputs: &[Output]) -> Result<(), Failure> {
    if outputs.iter().filter(|it| it.file.is_none()).count() > 1 {
        return Err(Failure::usage_text(
            "stdout takes one format",
            "send the others to files, as in --format human --format junit=report.xml",
        ));
    }
    outputs.iter().filter_map(|it| it.file.as_deref()).try_for_each(has_a_place)
}

fn has_a_place(file: &Path) -> Result<(), Failure> {
    let directory = file.parent().filter(|it| !it.as_os_str().is_empty());
    match directory.unwrap_or(Path::new(".")) {
        directory if directory.is_dir() && !file.is_dir() => Ok(()),
        _ => Err(Failure::usage_text(
            format!("{} cannot be written", file.display()),
            "name a file in a directory that is there",
        )),
    }
}

/// Writes what `text` gives for each format, where it belongs.
pub(super) fn write(
    outputs: &[Output],
    mut text: impl FnMut(OutputFormat) -> Result<String, Failure>,
) -> Result<(), Failure> {
    for Output { format, file } in outputs {
        let text = text(*format)?;
        match file {
            None => print::results(&text)?,
            Some(file) => reports::directory::write_file(file, &text)
                .map_err(|error| Failure::unavailable(&error))?,
        }
    }
    Ok(())
}
