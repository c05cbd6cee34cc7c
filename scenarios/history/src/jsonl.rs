//! `history.jsonl`: a history as lines of JSON, the head first, then an event a line.
//!
//! Invariant: what is written reads back as the same history. The fields are described in
//! `docs/history.md`. Deliberately absent: compression, any field a reader would have to guess, and
//! what lines have to do with each other, which is the reader's business.

pub(super) mod canonical;
mod field;
mod flat;

use std::borrow::Cow;
use std::io::{self, Write};

use picklock::env::Phase;
use serde::Serialize;

use super::History;
use super::event::{Answer, Event, Intent, Stage, Touch, Update, What};
use super::flaw::{Flaw, Quoted};
use super::text::Texts;
use crate::fault::Fault;
use crate::nearest::nearest;

/// An event as a line: a flat object whose fields depend on `what`.
#[derive(Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize), serde(deny_unknown_fields))]
struct EventFields<'a> {
    at_ns: u64,
    client: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    acquisition: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    op: u32,
    stage: Cow<'a, str>,
    what: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    touch: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    compares: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Cow<'a, str>>,
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
    phase: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    for_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_hold: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    staged: Option<u16>,
    #[serde(default, skip_serializing_if = "is_zero")]
    found: u32,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// Writes a history.
///
/// # Errors
/// What the writer says.
pub fn write(history: &History, mut out: impl Write) -> io::Result<()> {
    let mut text = serde_json::to_vec(&history.head)?;
    text.push(b'\n');
    for event in &history.events {
        out.write_all(&text)?;
        text.clear();
        add_line(&mut text, event, &history.texts)?;
    }
    out.write_all(&text)?;
    out.flush()
}

/// Not generic, so that it is compiled once, and as this package is, whoever writes.
fn add_line(text: &mut Vec<u8>, event: &Event, texts: &Texts) -> io::Result<()> {
    serde_json::to_writer(&mut *text, &line(event, texts))?;
    text.push(b'\n');
    Ok(())
}

/// Reads a line, whatever it looks like. Texts that it names are added to these.
pub(super) fn event(text: &str, texts: &mut Texts) -> Result<Event, Flaw> {
    let mut line = EventFields::default();
    let seen = flat::parse(text, &mut line)?;
    let what = what(&line, texts)?;
    if let Some(field) = seen.beyond(field::fields(what)) {
        let (field, kind, stage) = (field.name(), kind(what), stage_name(what));
        return Err(Flaw::MisplacedField { field, kind, stage });
    }
    let EventFields { at_ns, client, acquisition, op, .. } = line;
    Ok(Event { at_ns, client, acquisition, op, what })
}

fn stage_name(what: What) -> &'static str {
    what.stage().name()
}

fn line<'a>(event: &Event, texts: &'a Texts) -> EventFields<'a> {
    let Event { at_ns, client, acquisition, op, what } = *event;
    let (stage, kind) = (stage_name(what).into(), kind(what).into());
    let text = |text| Some(Cow::Borrowed(texts.get(text)));
    let base =
        EventFields { at_ns, client, acquisition, op, stage, what: kind, ..EventFields::default() };
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
        | What::NotUpdated(why) => EventFields { text: text(why), ..base },
        What::Command { node, name, key, intent } => {
            let (touch, ttl_ns) = touch_name(intent.touch);
            let (command, key) = (text(name), text(key));
            let (node, touch, compares) = (Some(node), Some(touch.into()), intent.compares);
            EventFields { node, command, key, touch, ttl_ns, compares, ..base }
        }
        What::Answered { touch, answer, found } => {
            let (touch, ttl_ns) = touch_name(touch);
            let line = EventFields { touch: Some(touch.into()), ttl_ns, found, ..base };
            match answer {
                Answer::Nil => EventFields { answer: Some("nil".into()), ..line },
                Answer::Ok => EventFields { answer: Some("ok".into()), ..line },
                Answer::List => EventFields { answer: Some("list".into()), ..line },
                Answer::Int(value) => {
                    EventFields { answer: Some("int".into()), value: Some(value), ..line }
                }
                Answer::Text(it) => {
                    EventFields { answer: Some("text".into()), text: text(it), ..line }
                }
            }
        }
        What::Taken { prize, left } => EventFields { value: Some(prize), left: Some(left), ..base },
        What::TakeUnknown { prize, why } => {
            EventFields { value: Some(prize), text: text(why), ..base }
        }
        What::Updated(update) => updating(update, base),
        What::UpdateUnknown { update, why } => {
            updating(update, EventFields { text: text(why), ..base })
        }
        What::PoolLeft(value) | What::RegisterLeft(value) | What::Probe(value) => {
            EventFields { value: Some(value), ..base }
        }
        What::ValidUntil(until_ns) => EventFields { until_ns: Some(until_ns), ..base },
        What::Fence(token) => EventFields { token: Some(token), ..base },
        What::Phase(phase) => EventFields { phase: Some(phase.name().into()), ..base },
        What::Fault { fault, node, for_ns, in_hold, staged } => {
            let (fault, for_ns, in_hold) = (Some(fault.name().into()), Some(for_ns), Some(in_hold));
            EventFields { fault, node, for_ns, in_hold, staged, ..base }
        }
    }
}

fn updating(update: Update, line: EventFields<'_>) -> EventFields<'_> {
    let Update { read, written, token } = update;
    EventFields { value: Some(read), written: Some(written), token, ..line }
}

fn update(line: &EventFields<'_>) -> Result<Update, Flaw> {
    let (read, written) = (need(line.value, "value")?, need(line.written, "written")?);
    Ok(Update { read, written, token: line.token })
}

/// The kind of thing, which with the stage says what happened.
pub(super) fn kind(what: What) -> &'static str {
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
        What::Fence(_) => "fence",
        What::Lost => "lost",
        What::Phase(_) => "phase",
        What::Fault { .. } => "fault",
    }
}

/// Every kind of thing.
const KINDS: [&str; 13] = [
    "acquire",
    "release",
    "command",
    "take",
    "pool-left",
    "update",
    "register-left",
    "probe",
    "valid-until",
    "fence",
    "lost",
    "phase",
    "fault",
];

const STAGES: [Stage; 5] = [Stage::Invoke, Stage::Ok, Stage::Fail, Stage::Info, Stage::Note];

fn what(line: &EventFields<'_>, texts: &mut Texts) -> Result<What, Flaw> {
    let mut text = |it: &Option<Cow<'_, str>>, field| Ok(texts.intern(need(it.as_ref(), field)?));
    Ok(match (&*line.what, &*line.stage) {
        ("acquire", "invoke") => What::Acquire,
        ("acquire", "ok") => What::Acquired,
        ("acquire", "fail") => What::NotAcquired(text(&line.text, "text")?),
        ("acquire", "info") => What::AcquireUnknown(text(&line.text, "text")?),
        ("release", "invoke") => What::Release,
        ("release", "ok") => What::Released(text(&line.text, "text")?),
        ("release", "info") => What::ReleaseUnknown(text(&line.text, "text")?),
        ("command", "invoke") => {
            // In the order in which they were first used, so that numbers come out the same.
            let (name, key) = (text(&line.command, "command")?, text(&line.key, "key")?);
            let intent = Intent { touch: touch(line)?, compares: line.compares };
            What::Command { node: need(line.node, "node")?, name, key, intent }
        }
        ("command", "ok") => {
            let answer = match &**need(line.answer.as_ref(), "answer")? {
                "nil" => Answer::Nil,
                "ok" => Answer::Ok,
                "list" => Answer::List,
                "int" => Answer::Int(need(line.value, "value")?),
                "text" => Answer::Text(text(&line.text, "text")?),
                other => return Err(unknown("answer", other, ANSWERS)),
            };
            What::Answered { touch: touch(line)?, answer, found: line.found }
        }
        ("command", "fail") => What::Refused(text(&line.text, "text")?),
        ("command", "info") => What::Unanswered(text(&line.text, "text")?),
        ("take", "invoke") => What::Take,
        ("take", "ok") => {
            What::Taken { prize: need(line.value, "value")?, left: need(line.left, "left")? }
        }
        ("take", "fail") => What::NotTaken(text(&line.text, "text")?),
        ("take", "info") => {
            What::TakeUnknown { prize: need(line.value, "value")?, why: text(&line.text, "text")? }
        }
        ("pool-left", "note") => What::PoolLeft(need(line.value, "value")?),
        ("update", "invoke") => What::Update,
        ("update", "ok") => What::Updated(update(line)?),
        ("update", "fail") => What::NotUpdated(text(&line.text, "text")?),
        ("update", "info") => {
            What::UpdateUnknown { update: update(line)?, why: text(&line.text, "text")? }
        }
        ("register-left", "note") => What::RegisterLeft(need(line.value, "value")?),
        ("probe", "note") => What::Probe(need(line.value, "value")?),
        ("valid-until", "note") => What::ValidUntil(need(line.until_ns, "until_ns")?),
        ("fence", "note") => What::Fence(need(line.token, "token")?),
        ("lost", "note") => What::Lost,
        ("fault", "note") => {
            let name = need(line.fault.as_ref(), "fault")?;
            let fault = Fault::from_name(name);
            What::Fault {
                fault: fault.ok_or_else(|| unknown("fault", name, Fault::ALL.map(Fault::name)))?,
                node: line.node,
                for_ns: need(line.for_ns, "for_ns")?,
                in_hold: need(line.in_hold, "in_hold")?,
                staged: line.staged,
            }
        }
        ("phase", "note") => {
            let name = need(line.phase.as_ref(), "phase")?;
            let phase = Phase::from_name(name);
            let names = || Phase::ALL.iter().map(|phase| phase.name());
            What::Phase(phase.ok_or_else(|| unknown("phase", name, names()))?)
        }
        (kind, stage) => return Err(unlike_any(kind, stage)),
    })
}

/// What a field says that has to be there.
fn need<T>(value: Option<T>, field: &'static str) -> Result<T, Flaw> {
    value.ok_or(Flaw::MissingField(field))
}

fn unknown(
    field: &'static str,
    found: &str,
    names: impl IntoIterator<Item = &'static str>,
) -> Flaw {
    Flaw::UnknownName { field, found: Quoted::new(found), nearest: nearest(found, names) }
}

/// What is wrong with a kind and a stage that do not go together.
fn unlike_any(kind: &str, stage: &str) -> Flaw {
    let stages = STAGES.map(Stage::name);
    let known = |name, names: &[&'static str]| names.iter().copied().find(|it| *it == name);
    match (known(kind, &KINDS), known(stage, &stages)) {
        (None, _) => unknown("what", kind, KINDS),
        (_, None) => unknown("stage", stage, stages),
        (Some(kind), Some(stage)) => Flaw::WrongStage { kind, stage },
    }
}

const ANSWERS: [&str; 5] = ["nil", "ok", "list", "int", "text"];
const TOUCHES: [&str; 6] = ["nothing", "create", "overwrite", "delete", "extend", "unknown"];

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

fn touch(line: &EventFields<'_>) -> Result<Touch, Flaw> {
    Ok(match &**need(line.touch.as_ref(), "touch")? {
        "nothing" => Touch::None,
        "create" => Touch::Create(line.ttl_ns),
        "overwrite" => Touch::Overwrite(line.ttl_ns),
        "delete" => Touch::Delete,
        "extend" => Touch::Extend(need(line.ttl_ns, "ttl_ns")?),
        "unknown" => Touch::Unknown,
        other => return Err(unknown("touch", other, TOUCHES)),
    })
}

#[cfg(test)]
mod tests;
