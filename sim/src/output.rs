//! `--format`: writes each format to stdout or to a file.
//!
//! Invariant: paths are checked before anything runs, and regular files are written atomically. A signal ends the wait
//! for the reader of a pipe.

use std::fs;
use std::path::Path;

use reports::file;
use serde::Serialize;
use tokio::sync::oneshot;

use super::args::{Output, OutputFormat, ShardArgs};
use super::failure::Failure;
use super::{print, signal};

pub(super) const HUMAN: [Output; 1] = [Output { format: OutputFormat::Human, file: None }];

/// The refusal of HTML by commands other than `matrix`.
pub(super) fn no_page() -> Failure {
    Failure::usage_text(
        "only `picklock matrix` has a page for --format html",
        "a run writes its page by itself: report.html, in its directory; --format takes human, json, junit or markdown",
    )
}

/// Refuses formats with a table of invariants, for a command without one.
pub(super) fn refuse_tables(command: &str, outputs: &[Output]) -> Result<(), Failure> {
    let is_table = |it: &Output| !matches!(it.format, OutputFormat::Human | OutputFormat::Json);
    if outputs.iter().any(is_table) {
        return Err(Failure::usage_text(
            format!("{command} has no JUnit or Markdown output"),
            "use human or json, as in --format json",
        ));
    }
    Ok(())
}

/// Refuses reports beside shards: only the whole has a report.
pub(super) fn refuse_of_part(shard: &ShardArgs, outputs: &[Output]) -> Result<(), Failure> {
    if shard.shards.is_some() && outputs != HUMAN {
        return Err(Failure::usage_text(
            "--format has no effect with --shards: a shard has no report",
            "omit it here, and give it to `picklock merge`",
        ));
    }
    Ok(())
}

/// Refuses outputs that cannot be written, before anything runs.
pub(super) fn check(outputs: &[Output]) -> Result<(), Failure> {
    if outputs.iter().any(|it| it.format == OutputFormat::Html) {
        return Err(no_page());
    }
    check_places(outputs)
}

/// The same for a command that has a page.
pub(super) fn check_places(outputs: &[Output]) -> Result<(), Failure> {
    if outputs.iter().filter(|it| it.file.is_none()).count() > 1 {
        return Err(Failure::usage_text(
            "only one format can go to stdout",
            "write the others to files, as in --format human --format junit=report.xml",
        ));
    }
    let files: Vec<&Path> = outputs.iter().filter_map(|it| it.file.as_deref()).collect();
    let is_twice = |(nth, file): &(usize, &&Path)| files[..*nth].contains(file);
    let is_plain = |file: &Path| fs::metadata(file).map_or(true, |it| it.is_file());
    if let Some((_, file)) = files.iter().enumerate().find(|it| is_twice(it) && is_plain(it.1)) {
        return Err(Failure::usage_text(
            format!("two formats are to be written to {}", file.display()),
            "give each a file of its own",
        ));
    }
    let mut files = files.into_iter();
    files.try_for_each(file::check).map_err(Failure::usage_error)
}

pub(super) fn write(
    outputs: &[Output],
    mut text: impl FnMut(OutputFormat) -> Result<String, Failure>,
) -> Result<(), Failure> {
    for Output { format, file } in outputs {
        let text = text(*format)?;
        match file {
            None => print::results(&text)?,
            Some(file) if fs::metadata(file).is_ok_and(|it| !it.is_file()) => pass_on(file, text)?,
            Some(file) => {
                file::write(file, &text).map_err(Failure::unavailable)?;
            }
        }
    }
    Ok(())
}

/// The value as JSON, with a newline at the end.
pub(super) fn json_text(value: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(value);
    Ok(json.map_err(Failure::internal)? + "\n")
}

/// Writes to a pipe or device, whose reader may never come; a signal ends the wait.
fn pass_on(file: &Path, text: String) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::unavailable)?;
    let (done, written) = oneshot::channel();
    let theirs = file.to_owned();
    let mut signals = signal::watch().map_err(Failure::unavailable)?;
    // If nothing ever reads, the thread ends with the process.
    let writing = move || done.send(file::write(&theirs, &text));
    std::thread::Builder::new()
        .name("picklock-output".into())
        .spawn(writing)
        .map_err(Failure::unavailable)?;
    let written = runtime.block_on(async {
        tokio::select! {
            biased;
            Ok(written) = written => Ok(written),
            // One that came before has ended the run, of which this is the report.
            Ok(()) = signals.changed() => Err(Failure::interrupted(
                format!("interrupted while writing to {}", file.display()),
                "perhaps nothing reads from it: start its reader first",
            )),
            else => Err(Failure::internal("the thread that writes the output panicked")),
        }
    })?;
    written.map_err(Failure::unavailable)
}
