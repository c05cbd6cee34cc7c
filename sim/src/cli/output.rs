//! What `--format` asks for: a text in each format, to stdout or to a file.
//!
//! Invariant: whether every file has a place is looked at before anything runs, and regular files are
//! written whole.

use reports::file;

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
    let files = outputs.iter().filter_map(|it| it.file.as_deref());
    files.map(file::check).collect::<Result<(), _>>().map_err(|error| Failure::usage_error(&error))
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
            Some(file) => {
                file::write(file, &text).map_err(|error| Failure::unavailable(&error))?;
            }
        }
    }
    Ok(())
}
