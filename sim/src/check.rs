//! `picklock check`: the checkers alone, on a history of picklock or of another tool.
//!
//! Invariant: the history is streamed, a second time only to explain a violation, so its length is not limited; a
//! malformed history is not judged at all, and never repaired.

mod ahead;
mod source;

use checkers::Checkers;
use checkers::story::StoryWriter;
use history::{ReadError, Reader, open};
use scenarios::judge::{Circumstances, HistoryCounts, sum_up};
use scenarios::result::RunResult;

use super::args::{CheckArgs, Thresholds, without_threshold};
use super::exit::Exit;
use super::failure::Failure;
use super::line::{Line, quoted};
use super::run::report;
use super::terminal::Terminal;
use super::{output, print};
use ahead::ParsedAhead;
use source::HistorySource;

pub(super) fn main(args: &CheckArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::check(&args.format)?;
    let mut source = HistorySource::open(&args.history)?;
    let name = source.name.clone();
    let replay = Line::plain().word("check").argument(&args.history.to_string_lossy());
    let replay = replay.word(&args.thresholds.words());
    let circumstances = Circumstances {
        complete: !args.incomplete,
        replay: if args.incomplete { replay.word("--incomplete") } else { replay }.text(),
        ..Circumstances::default()
    };
    let (result, lines) = judge(&mut source, &args.thresholds, circumstances)
        .map_err(|error| unreadable(&name, &error))?;
    if lines == 1 && !terminal.options.quiet {
        print::note("note: the history has a head but no events");
    }
    let footer = format!("history: {name}, {lines} lines\n");
    report::print_with(&args.format, &result, None, &footer, terminal)?;
    Ok(Exit::of_result(&result))
}

/// The result, and the number of lines of the history.
fn judge(
    source: &mut HistorySource,
    thresholds: &Thresholds,
    mut circumstances: Circumstances,
) -> Result<(RunResult, u64), ReadError> {
    let (mut head, blocks) = open(source.first()?)?;
    let mut reader = Reader::new(head.clone(), ParsedAhead::of(blocks)?);
    thresholds.apply(&mut head);
    circumstances.remarks = without_threshold(&head);
    let (mut checkers, mut counts) = (Checkers::new(&head), HistoryCounts::new(&head));
    while let Some(event) = reader.read_event()? {
        checkers.see(&event, reader.texts());
        counts.see(&event, reader.texts());
    }
    let mut findings = checkers.finish(reader.texts(), circumstances.complete);
    let lines = reader.line();
    drop(reader);
    let mut stories = StoryWriter::new(&head, &findings);
    if !stories.is_idle() {
        let (same_head, blocks) = open(source.again()?)?;
        let mut again = Reader::new(same_head, ParsedAhead::of(blocks)?);
        while let Some(event) = again.read_event()? {
            stories.see(&event, again.texts());
        }
        stories.write(&mut findings);
    }
    Ok((sum_up(&head, findings, counts, circumstances), lines))
}

/// An I/O error is the machine's fault, a malformed history the user's.
fn unreadable(name: &str, error: &ReadError) -> Failure {
    let message = format!("{name}: {error}");
    match error {
        ReadError::Io(_) => {
            Failure::unavailable_text(message, "copy the history to a readable place and try again")
        }
        ReadError::Compressed(how) => {
            let unpack = match *how {
                "gzip" => "gunzip -c",
                "zip" => "unzip -p",
                "zstd" => "zstd -dc",
                "xz" => "xz -dc",
                _ => "bzip2 -dc",
            };
            let help = format!("`{unpack} {} | picklock check -`", quoted(name));
            Failure::usage_text(message, help)
        }
        _ => {
            Failure::usage_text(message, "nothing was judged; docs/history.md describes the format")
        }
    }
}
