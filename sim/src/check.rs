//! `picklock check`: the checkers alone, on a history from a run or from elsewhere.
//!
//! Invariant: the history is read as a stream, twice only where a violation has a story to be told,
//! so its length is no limit; and a history with a flaw is not judged at all. Deliberately absent:
//! repairs, and any knowledge of who wrote the file.

mod ahead;
pub(super) mod asked;
mod source;

use scenarios::checker::Checkers;
use scenarios::checker::story::StoryWriter;
use scenarios::history::{ReadError, Reader};
use scenarios::judge::{Circumstances, HistoryCounts, sum_up};
use scenarios::result::RunResult;

use super::args::CheckArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::line::quoted;
use super::run::report;
use super::terminal::Terminal;
use super::{output, print};
use asked::{Asked, not_asked};
use source::Source;

/// Reads, judges, prints, and says how picklock ends.
pub(super) fn main(args: &CheckArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::check(&args.format)?;
    let mut source = Source::open(&args.history)?;
    let name = source.name().to_owned();
    let word = args.history.display().to_string();
    let circumstances = Circumstances {
        complete: !args.incomplete,
        replay: format!("picklock check {}{}", quoted(&word), args.asked.words()),
        ..Circumstances::default()
    };
    let (result, lines) = judge(&mut source, &args.asked, circumstances)
        .map_err(|error| unreadable(&name, &error))?;
    if lines == 1 && !terminal.is_quiet() {
        print::note("note: the history has a head and no event");
    }
    let footer = format!("history: {name}, {lines} lines\n");
    report::print_with(&args.format, &result, &footer, terminal)?;
    Ok(Exit::of_incomplete(&result))
}

/// What the checkers find, and how many lines the history has.
fn judge(
    source: &mut Source,
    asked: &Asked,
    mut circumstances: Circumstances,
) -> Result<(RunResult, u64), ReadError> {
    let mut reader = Reader::new(source.first()?)?;
    let mut head = reader.head().clone();
    asked.ask(&mut head);
    circumstances.remarks = not_asked(&head);
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
        let mut again = Reader::new(source.again()?)?;
        while let Some(event) = again.read_event()? {
            stories.see(&event, again.texts());
        }
        stories.write(&mut findings);
    }
    Ok((sum_up(&head, findings, counts, circumstances), lines))
}

/// A file that cannot be read is the machine's affair, one that is no history its user's.
fn unreadable(name: &str, error: &ReadError) -> Failure {
    let message = format!("{name}: {error}");
    match error {
        ReadError::Io(_) => Failure::unavailable_text(
            message,
            "copy the history to where it can be read, and try again",
        ),
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
        _ => Failure::usage_text(
            message,
            "nothing was judged; docs/history.md describes the format, line by line",
        ),
    }
}
