//! `trace.json`: a run as trace events, which Perfetto and other viewers of Chrome's format show.
//!
//! Invariant: slices of one thread lie within each other or apart, as viewers demand; what would overlap goes to a further
//! thread of the same client. Times are in microseconds since the run began.

use std::collections::BTreeMap;
use std::io::{self, Write};

use history::fault::Fault;
use history::{Event, History, Touch, What};
use serde::Serialize;

use super::layout::LaneOwner;
use crate::format::plain;
use history::exchange::{Exchange, ExchangeEnd, exchanges};
use history::tenure::{Accused, KeyTenure, TenureEnd, tenures};

/// Longer histories have no trace: a viewer would not show it.
pub(crate) const EVENTS_MOST: usize = 100_000;

const PROCESS: u32 = 1;
/// Numbers of threads for each client and server.
const THREADS_EACH: u64 = 100;
/// The numbers of clients begin behind those of all servers.
const CLIENTS_FROM: u64 = 1 << 16;
/// The shortest slice that a viewer shows.
const SHORTEST_NS: u64 = 1;

/// An event of the trace.
#[derive(Clone, Debug, Default, Serialize)]
struct TraceEvent {
    name: String,
    cat: &'static str,
    ph: &'static str,
    pid: u32,
    tid: u64,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    args: BTreeMap<&'static str, String>,
}

/// A slice that has no thread yet.
struct Slice {
    from_ns: u64,
    until_ns: u64,
    name: String,
    cat: &'static str,
    args: BTreeMap<&'static str, String>,
    /// The flows that begin in it, and those that end in it: when, and their numbers.
    begins: Vec<(u64, u64)>,
    ends: Vec<(u64, u64)>,
}

/// Writes the trace of a history.
///
/// # Errors
/// What the writer says.
pub(crate) fn trace(history: &History, mut w: &mut dyn Write) -> io::Result<()> {
    let History { head, texts, events } = history;
    let mut exchanges = exchanges(head, texts, events);
    let tenures = tenures(head, texts, events, &mut exchanges, &Accused::new());
    let last_ns = history.events.last().map_or(0, |it| it.at_ns);
    let mut lanes: BTreeMap<LaneOwner, Vec<Slice>> = BTreeMap::new();
    for tenure in &tenures {
        let lane = lanes.entry(LaneOwner::Key(Some(tenure.node))).or_default();
        lane.push(owned(tenure, last_ns));
    }
    for it in &exchanges {
        let client = lanes.entry(LaneOwner::Client(it.client)).or_default();
        client.push(command(history, it, last_ns));
        if is_carried_out(it) {
            let node = lanes.entry(LaneOwner::Key(Some(it.node))).or_default();
            node.push(carried_out(history, it));
        }
    }
    operations(history, last_ns, &mut lanes);

    w.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut writer = TraceWriter { out: &mut w, is_first: true };
    let name = format!("{} with {}", history.head.scenario, history.head.lock);
    writer.named("process_name", 0, &name)?;
    for (owner, mut slices) in lanes {
        let first = match owner {
            LaneOwner::Key(node) => 1 + u64::from(node.unwrap_or(0)),
            LaneOwner::Client(client) => CLIENTS_FROM + u64::from(client),
        };
        let name = match owner {
            LaneOwner::Client(0) => "the run".to_owned(),
            LaneOwner::Key(Some(node)) if history.head.is_resource(node) => "resource".to_owned(),
            _ => owner.name(),
        };
        slices.sort_by_key(|it| (it.from_ns, std::cmp::Reverse(it.until_ns)));
        let mut threads: Vec<Vec<u64>> = Vec::new();
        for slice in slices {
            let known = threads.len();
            let number = thread(&mut threads, &slice);
            let tid = first * THREADS_EACH + number as u64;
            if known < threads.len() {
                let further = format!("{name} ({})", number + 1);
                writer.named("thread_name", tid, if number == 0 { &name } else { &further })?;
            }
            writer.slice(tid, slice)?;
        }
    }
    w.write_all(b"\n]}\n")
}

/// The first thread on which this slice lies within another or apart from all. Slices come in order of time.
fn thread(threads: &mut Vec<Vec<u64>>, slice: &Slice) -> usize {
    for (number, open) in threads.iter_mut().enumerate() {
        while open.pop_if(|until_ns| *until_ns <= slice.from_ns).is_some() {}
        if open.last().is_none_or(|until_ns| slice.until_ns <= *until_ns) {
            open.push(slice.until_ns);
            return number;
        }
    }
    threads.push(vec![slice.until_ns]);
    threads.len() - 1
}

impl Slice {
    fn new(name: &str, cat: &'static str, from_ns: u64, until_ns: u64) -> Self {
        let until_ns = until_ns.max(from_ns.saturating_add(SHORTEST_NS));
        let name = plain(name).into_owned();
        let (args, begins, ends) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { from_ns, until_ns, name, cat, args, begins, ends }
    }

    fn with(mut self, name: &'static str, text: &str) -> Self {
        self.args.insert(name, plain(text).into_owned());
        self
    }
}

/// A tenure of the key.
fn owned(tenure: &KeyTenure, last_ns: u64) -> Slice {
    let perhaps = if tenure.is_certain { "" } else { "perhaps " };
    let name = format!("{perhaps}client {}", tenure.client);
    let end = match tenure.end {
        TenureEnd::Expired => "expired".to_owned(),
        TenureEnd::Deleted { by, .. } => format!("deleted by client {by}"),
        TenureEnd::Overwritten { by, .. } => format!("overwritten by client {by}"),
        TenureEnd::Lost(fault) => format!("lost: {}", fault.name()),
        TenureEnd::Gone => "gone".to_owned(),
        TenureEnd::Stays => "stays".to_owned(),
    };
    let until_ns = tenure.until_ns.min(last_ns);
    let slice = Slice::new(&name, "key", tenure.from_ns, until_ns);
    slice.with("end", &end).with("acquisition", &tenure.acquisition.to_string())
}

/// A command as its client sees it.
fn command(history: &History, it: &Exchange, last_ns: u64) -> Slice {
    let until_ns = it.end.map_or(last_ns, |(at_ns, _)| at_ns);
    let outcome = match it.end {
        Some((_, ExchangeEnd::Answered(..))) => "answered",
        Some((_, ExchangeEnd::Refused(why))) => history.text(why),
        _ => "never answered",
    };
    let mut slice = Slice::new(history.text(it.name), "command", it.sent_ns, until_ns);
    if is_carried_out(it) {
        slice.begins.push((it.sent_ns, request(it)));
        if let Some((at_ns, ExchangeEnd::Answered(..))) = it.end {
            slice.ends.push((at_ns.saturating_sub(SHORTEST_NS).max(it.sent_ns), reply(it)));
        }
    }
    slice.with("key", history.text(it.key)).with("outcome", outcome).with("op", &it.op.to_string())
}

/// A command as its server sees it, at an estimated time.
fn carried_out(history: &History, it: &Exchange) -> Slice {
    let name = format!("{} of client {}", history.text(it.name), it.client);
    let mut slice = Slice::new(&name, "server", it.done_ns, it.done_ns);
    slice.ends.push((it.done_ns, request(it)));
    if matches!(it.end, Some((_, ExchangeEnd::Answered(..)))) {
        slice.begins.push((it.done_ns, reply(it)));
    }
    slice.with("time", "estimated").with("op", &it.op.to_string())
}

fn is_carried_out(it: &Exchange) -> bool {
    it.is_certain() || it.touch() != Touch::None
}

fn request(it: &Exchange) -> u64 {
    2 * u64::from(it.op)
}

fn reply(it: &Exchange) -> u64 {
    2 * u64::from(it.op) + 1
}

/// Acquisitions, holds, releases and work, and what struck clients.
fn operations(history: &History, last_ns: u64, lanes: &mut BTreeMap<LaneOwner, Vec<Slice>>) {
    let mut open: BTreeMap<u32, (u64, &'static str)> = BTreeMap::new();
    let mut holds: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut add = |event: &Event, slice: Slice| {
        lanes.entry(LaneOwner::Client(event.client)).or_default().push(slice);
    };
    let held = |from_ns, until_ns| Slice::new("hold", "hold", from_ns, until_ns);
    for event in &history.events {
        let Event { at_ns, client, acquisition, op, what } = *event;
        let begins = match what {
            What::Acquire => Some("acquire"),
            What::Release => Some("release"),
            What::Update => Some("update"),
            What::Take => Some("take"),
            _ => None,
        };
        if let Some(name) = begins {
            open.insert(op, (at_ns, name));
        } else if let Some((from_ns, name)) = open.remove(&op) {
            let slice = Slice::new(name, "operation", from_ns, at_ns);
            add(event, slice.with("outcome", what.stage().name()).with("op", &op.to_string()));
        }
        match what {
            What::Acquired => _ = holds.insert((client, acquisition), at_ns),
            What::Release | What::Lost => {
                if let Some(from_ns) = holds.remove(&(client, acquisition)) {
                    add(event, held(from_ns, at_ns));
                }
            }
            What::Fault { fault, for_ns, .. } => {
                if fault == Fault::Crash {
                    let theirs = |it: &(u32, u32)| it.0 == client;
                    let keys: Vec<(u32, u32)> = holds.keys().copied().filter(theirs).collect();
                    for key in keys {
                        add(event, held(holds.remove(&key).unwrap_or(at_ns), at_ns));
                    }
                }
                let until_ns = at_ns.saturating_add(for_ns).min(last_ns);
                add(event, Slice::new(fault.name(), "fault", at_ns, until_ns));
            }
            _ => {}
        }
    }
    for ((client, _), from_ns) in holds {
        lanes.entry(LaneOwner::Client(client)).or_default().push(held(from_ns, last_ns));
    }
}

/// Writes events, each on a line.
struct TraceWriter<'a> {
    out: &'a mut dyn Write,
    is_first: bool,
}

impl TraceWriter<'_> {
    fn named(&mut self, what: &str, tid: u64, name: &str) -> io::Result<()> {
        let args = BTreeMap::from([("name", plain(name).into_owned())]);
        let event =
            TraceEvent { name: what.to_owned(), ph: "M", tid, args, ..TraceEvent::default() };
        self.event(&event)
    }

    fn slice(&mut self, tid: u64, slice: Slice) -> io::Result<()> {
        let Slice { from_ns, until_ns, name, cat, args, begins, ends } = slice;
        let (ts, dur) = (microseconds(from_ns), Some(microseconds(until_ns - from_ns)));
        self.event(&TraceEvent {
            name,
            cat,
            ph: "X",
            tid,
            ts,
            dur,
            args,
            ..TraceEvent::default()
        })?;
        for (flows, ph, bp) in [(begins, "s", None), (ends, "f", Some("e"))] {
            for (at_ns, id) in flows {
                let name = if id % 2 == 0 { "request" } else { "reply" }.to_owned();
                let (ts, id, cat) = (microseconds(at_ns), Some(id), "message");
                self.event(&TraceEvent {
                    name,
                    cat,
                    ph,
                    tid,
                    ts,
                    id,
                    bp,
                    ..TraceEvent::default()
                })?;
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &TraceEvent) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut self.out, &TraceEvent { pid: PROCESS, ..event.clone() })?;
        Ok(())
    }
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1e3
}
