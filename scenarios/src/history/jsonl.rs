//! `history.jsonl`: a history as lines of JSON, the head first, then an event a line.
//!
//! Invariant: what is written reads back as the same history. The fields are described in
//! `docs/history.md`. Deliberately absent: compression, and any field a reader would have to guess.

use std::borrow::Cow;
use std::io::{self, BufRead, Write};

use picklock::env::Phase;
use serde::{Deserialize, Serialize};

use super::History;
use super::event::{Answer, Event, Intent, Touch, Update, What};
use super::head::{FORMAT, Head};
use super::text::Texts;
use crate::fault::Fault;

/// Why a history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read the history: {0}")]
    Io(#[from] io::Error),
    /// A line is not what it should be.
    #[error("line {line} of the history is no {what}: {why}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What it should be.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The file is of another version.
    #[error("the history is in the format {found:?}, and this picklock reads {FORMAT:?}")]
    Format {
        /// What the file says.
        found: String,
    },
}

/// An event as a line: a flat object whose fields depend on `what`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    at_ns: u64,
    client: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    acquisition: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    op: u32,
    stage: &'a str,
    what: &'a str,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    touch: Option<&'a str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    compares: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<&'a str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    written: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<&'a str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    for_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_hold: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    staged: Option<u16>,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// Writes a history.
///
/// # Errors
/// What the writer says.
pub fn write(history: &History, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut out, &history.head)?;
    out.write_all(b"\n")?;
    for event in &history.events {
        serde_json::to_writer(&mut out, &line(event, &history.texts))?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Reads a history.
///
/// # Errors
/// See [`ReadError`].
pub fn read(input: impl BufRead) -> Result<History, ReadError> {
    let mut lines = input.lines().enumerate();
    let bad = |line, what, why: String| ReadError::Line { line: line + 1, what, why };
    let Some((_, first)) = lines.next() else {
        return Err(bad(0, "head", "the file is empty".to_owned()));
    };
    let first = first?;
    let head: Head =
        serde_json::from_str(&first).map_err(|error| bad(0, "head", error.to_string()))?;
    if head.format != FORMAT {
        return Err(ReadError::Format { found: head.format });
    }
    let mut history = History::new(head);
    for (number, text) in lines {
        let text = text?;
        let line: Line<'_> =
            serde_json::from_str(&text).map_err(|error| bad(number, "event", error.to_string()))?;
        let what = what(&line, &mut history.texts)
            .ok_or_else(|| bad(number, "event", format!("unknown or incomplete: {text}")))?;
        if line.stage != stage_name(what) {
            return Err(bad(number, "event", format!("{} has no stage {}", line.what, line.stage)));
        }
        history.events.push(Event {
            at_ns: line.at_ns,
            client: line.client,
            acquisition: line.acquisition,
            op: line.op,
            what,
        });
    }
    Ok(history)
}

fn stage_name(what: What) -> &'static str {
    what.stage().name()
}

fn line<'a>(event: &Event, texts: &'a Texts) -> Line<'a> {
    let Event { at_ns, client, acquisition, op, what } = *event;
    let stage = stage_name(what);
    let text = |text| Some(Cow::Borrowed(texts.get(text)));
    let base = Line { at_ns, client, acquisition, op, stage, what: kind(what), ..Line::default() };
    match what {
        What::Acquire | What::Acquired | What::Release | What::Take | What::Update | What::Lost => {
            base
        }
        What::NotAcquired(why)
        | What::AcquireUnknown(why)
        | What::Released(why)
        | What::ReleaseUnknown(why)
        | What::Refused(why)
        | What::Unanswered(why)
        | What::NotTaken(why)
        | What::NotUpdated(why) => Line { text: text(why), ..base },
        What::Command { node, name, key, intent } => {
            let (touch, ttl_ns) = touch_name(intent.touch);
            let (command, key) = (text(name), text(key));
            let (node, touch, compares) = (Some(node), Some(touch), intent.compares);
            Line { node, command, key, touch, ttl_ns, compares, ..base }
        }
        What::Answered { touch, answer } => {
            let (touch, ttl_ns) = touch_name(touch);
            let line = Line { touch: Some(touch), ttl_ns, ..base };
            match answer {
                Answer::Nil => Line { answer: Some("nil"), ..line },
                Answer::Ok => Line { answer: Some("ok"), ..line },
                Answer::List => Line { answer: Some("list"), ..line },
                Answer::Int(value) => Line { answer: Some("int"), value: Some(value), ..line },
                Answer::Text(it) => Line { answer: Some("text"), text: text(it), ..line },
            }
        }
        What::Taken { prize, left } => Line { value: Some(prize), left: Some(left), ..base },
        What::TakeUnknown { prize, why } => Line { value: Some(prize), text: text(why), ..base },
        What::Updated(update) => updating(update, base),
        What::UpdateUnknown { update, why } => updating(update, Line { text: text(why), ..base }),
        What::PoolLeft(value) | What::RegisterLeft(value) | What::Probe(value) => {
            Line { value: Some(value), ..base }
        }
        What::ValidUntil(until_ns) => Line { until_ns: Some(until_ns), ..base },
        What::Phase(phase) => Line { phase: Some(phase.name()), ..base },
        What::Fault { fault, node, for_ns, in_hold, staged } => {
            let (fault, for_ns, in_hold) = (Some(fault.name()), Some(for_ns), Some(in_hold));
            Line { fault, node, for_ns, in_hold, staged, ..base }
        }
    }
}

fn updating(update: Update, line: Line<'_>) -> Line<'_> {
    let Update { read, written, token } = update;
    Line { value: Some(read), written: Some(written), token, ..line }
}

fn update(line: &Line<'_>) -> Option<Update> {
    Some(Update { read: line.value?, written: line.written?, token: line.token })
}

/// The kind of thing, which with the stage says what happened.
fn kind(what: What) -> &'static str {
    match what {
        What::Acquire | What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_) => {
            "acquire"
        }
        What::Release | What::Released(_) | What::ReleaseUnknown(_) => "release",
        What::Command { .. } | What::Answered { .. } | What::Refused(_) | What::Unanswered(_) => {
            "command"
        }
        What::Take | What::Taken { .. } | What::NotTaken(_) | What::TakeUnknown { .. } => "take",
        What::PoolLeft(_) => "pool-left",
        What::Update | What::Updated(_) | What::NotUpdated(_) | What::UpdateUnknown { .. } => {
            "update"
        }
        What::RegisterLeft(_) => "register-left",
        What::Probe(_) => "probe",
        What::ValidUntil(_) => "valid-until",
        What::Lost => "lost",
        What::Phase(_) => "phase",
        What::Fault { .. } => "fault",
    }
}

fn what(line: &Line<'_>, texts: &mut Texts) -> Option<What> {
    let mut text = |it: &Option<Cow<'_, str>>| it.as_ref().map(|it| texts.intern(it));
    Some(match (line.what, line.stage) {
        ("acquire", "invoke") => What::Acquire,
        ("acquire", "ok") => What::Acquired,
        ("acquire", "fail") => What::NotAcquired(text(&line.text)?),
        ("acquire", "info") => What::AcquireUnknown(text(&line.text)?),
        ("release", "invoke") => What::Release,
        ("release", "ok") => What::Released(text(&line.text)?),
        ("release", "info") => What::ReleaseUnknown(text(&line.text)?),
        ("command", "invoke") => {
            // In the order in which they were first used, so that numbers come out the same.
            let (name, key) = (text(&line.command)?, text(&line.key)?);
            let intent = Intent { touch: touch(line)?, compares: line.compares };
            What::Command { node: line.node?, name, key, intent }
        }
        ("command", "ok") => {
            let answer = match line.answer? {
                "nil" => Answer::Nil,
                "ok" => Answer::Ok,
                "list" => Answer::List,
                "int" => Answer::Int(line.value?),
                "text" => Answer::Text(text(&line.text)?),
                _ => return None,
            };
            What::Answered { touch: touch(line)?, answer }
        }
        ("command", "fail") => What::Refused(text(&line.text)?),
        ("command", "info") => What::Unanswered(text(&line.text)?),
        ("take", "invoke") => What::Take,
        ("take", "ok") => What::Taken { prize: line.value?, left: line.left? },
        ("take", "fail") => What::NotTaken(text(&line.text)?),
        ("take", "info") => What::TakeUnknown { prize: line.value?, why: text(&line.text)? },
        ("pool-left", _) => What::PoolLeft(line.value?),
        ("update", "invoke") => What::Update,
        ("update", "ok") => What::Updated(update(line)?),
        ("update", "fail") => What::NotUpdated(text(&line.text)?),
        ("update", "info") => What::UpdateUnknown { update: update(line)?, why: text(&line.text)? },
        ("register-left", _) => What::RegisterLeft(line.value?),
        ("probe", _) => What::Probe(line.value?),
        ("valid-until", _) => What::ValidUntil(line.until_ns?),
        ("lost", _) => What::Lost,
        ("fault", _) => What::Fault {
            fault: Fault::from_name(line.fault?)?,
            node: line.node,
            for_ns: line.for_ns?,
            in_hold: line.in_hold?,
            staged: line.staged,
        },
        ("phase", _) => What::Phase(Phase::from_name(line.phase?)?),
        _ => return None,
    })
}

fn touch_name(touch: Touch) -> (&'static str, Option<u64>) {
    match touch {
        Touch::None => ("nothing", None),
        Touch::Create(ttl_ns) => ("create", ttl_ns),
        Touch::Overwrite(ttl_ns) => ("overwrite", ttl_ns),
        Touch::Delete => ("delete", None),
        Touch::Extend(ttl_ns) => ("extend", Some(ttl_ns)),
        Touch::Unknown => ("unknown", None),
    }
}

fn touch(line: &Line<'_>) -> Option<Touch> {
    Some(match line.touch? {
        "nothing" => Touch::None,
        "create" => Touch::Create(line.ttl_ns),
        "overwrite" => Touch::Overwrite(line.ttl_ns),
        "delete" => Touch::Delete,
        "extend" => Touch::Extend(line.ttl_ns?),
        "unknown" => Touch::Unknown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
