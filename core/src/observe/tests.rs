//! Spans as a subscriber sees them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;
use crate::env::Node;
use crate::lock::Released;
use crate::options::Options;
use crate::single::Single;
use crate::testing::{Fault, MS, TestEnv, World};

const TTL: Duration = Duration::from_secs(10);

/// Writes down spans, with what they were given, and everything that was said.
#[derive(Clone, Default)]
struct Notebook(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    spans: Vec<BTreeMap<&'static str, String>>,
    parents: Vec<Option<usize>>,
    entered: Vec<usize>,
    said: String,
    warnings: Vec<BTreeMap<&'static str, String>>,
}

struct Into<'a>(&'a mut BTreeMap<&'static str, String>, &'a mut String);

impl Visit for Into<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        self.1.push_str(&value);
        self.0.insert(field.name(), value);
    }
}

fn place(id: &Id) -> usize {
    usize::try_from(id.into_u64()).unwrap() - 1
}

impl Subscriber for Notebook {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let notes = &mut *self.0.lock().unwrap();
        let mut fields = BTreeMap::from([("span", span.metadata().name().to_owned())]);
        span.record(&mut Into(&mut fields, &mut notes.said));
        notes.parents.push(notes.entered.last().copied());
        notes.spans.push(fields);
        Id::from_u64(notes.spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let notes = &mut *self.0.lock().unwrap();
        values.record(&mut Into(&mut notes.spans[place(id)], &mut notes.said));
    }

    fn event(&self, event: &Event<'_>) {
        let notes = &mut *self.0.lock().unwrap();
        let mut fields = BTreeMap::new();
        event.record(&mut Into(&mut fields, &mut notes.said));
        if *event.metadata().level() == Level::WARN {
            notes.warnings.push(fields);
        }
    }

    fn enter(&self, id: &Id) {
        self.0.lock().unwrap().entered.push(place(id));
    }

    fn exit(&self, id: &Id) {
        let left = self.0.lock().unwrap().entered.pop();
        assert_eq!(left, Some(place(id)));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

impl Notebook {
    /// The spans in the order of their begin: name, key, outcome, and the place of the one around it.
    fn spans(&self) -> Vec<(String, String, String, Option<usize>)> {
        let notes = self.0.lock().unwrap();
        let of = |span: &BTreeMap<_, String>, name| span.get(name).cloned().unwrap_or_default();
        let each = notes.spans.iter().zip(&notes.parents);
        each.map(|(span, parent)| (of(span, "span"), of(span, "key"), of(span, "outcome"), *parent))
            .collect()
    }
}

fn noted(notes: &Notebook, expected: &[(&str, &str, Option<usize>)]) {
    let spans = notes.spans();
    let spans: Vec<_> = spans
        .iter()
        .map(|(name, key, outcome, parent)| {
            assert_eq!(key, "ключ\\n\u{fffd}", "the key as text");
            (name.as_str(), outcome.as_str(), *parent)
        })
        .collect();
    assert_eq!(spans, expected);
}

fn lock(env: TestEnv) -> Single<TestEnv> {
    let key = ["ключ\n".as_bytes(), b"\xff"].concat();
    let options = Options::builder(TTL).call_timeout(20 * MS).build().unwrap();
    Single::new(env, Node(0), key, options).unwrap()
}

#[test]
fn a_life_is_told_in_spans_and_its_token_never() {
    let (world, notes) = (World::new(), Notebook::default());
    let token = with_default(notes.clone(), || {
        let lock = lock(world.env());
        let guard = world.block_on(lock.try_acquire()).unwrap();
        assert_eq!(world.block_on(lock.try_acquire()).unwrap_err(), NotAcquired::Held);
        world.block_on(guard.extend()).unwrap();
        let token = guard.token().as_bytes().to_vec();
        assert_eq!(world.block_on(guard.release()), Released::Released);
        String::from_utf8(token).unwrap()
    });
    noted(
        &notes,
        &[
            ("lock.acquire", "acquired", None),
            ("lock.acquire", "held", None),
            ("lock.renew", "renewed", None),
            ("lock.release", "released", None),
        ],
    );
    assert!(!notes.0.lock().unwrap().said.contains(&token));
}

#[test]
fn a_clean_up_belongs_to_its_acquisition() {
    let (world, notes) = (World::new(), Notebook::default());
    with_default(notes.clone(), || {
        let lock = lock(world.env());
        world.fault("SET", Fault::LoseReply);
        assert!(world.block_on(lock.try_acquire()).is_err());
        world.advance(TTL);
    });
    noted(&notes, &[("lock.acquire", "unknown", None), ("lock.clean_up", "cleaned_up", Some(0))]);
}

#[test]
fn what_was_dropped_has_no_outcome_and_a_lost_hold_is_told() {
    let (world, notes) = (World::new(), Notebook::default());
    with_default(notes.clone(), || {
        let lock = lock(world.env());
        world.fault("SET", Fault::Delay { request: MS, reply: MS });
        assert!(world.poll_and_drop(lock.try_acquire()).is_none());
        world.fault_times(10_000, "DELETE", Fault::Hang);
        world.advance(3 * TTL);
        let guard = world.block_on(lock.try_acquire()).unwrap();
        world.advance(2 * TTL);
        assert!(world.block_on(guard.extend()).is_err());
        drop(guard);
        world.advance(TTL);
    });
    noted(
        &notes,
        &[
            ("lock.acquire", "", None),
            ("lock.clean_up", "clean_up_given_up", Some(0)),
            ("lock.acquire", "acquired", None),
            ("lock.renew", "lost", None),
            ("lock.release", "release_unknown", None),
        ],
    );
}

#[test]
fn a_release_that_is_refused_is_warned_of() {
    let (world, notes) = (World::new(), Notebook::default());
    with_default(notes.clone(), || {
        let lock = lock(world.env());
        let guard = world.block_on(lock.try_acquire()).unwrap();
        world.fault_times(3, "DELETE", Fault::Refuse("NOPERM no permissions"));
        assert_eq!(world.block_on(guard.protect(|_| async { 7 })), Ok(7), "it was protected");
    });
    let notes = notes.0.lock().unwrap();
    let [warning] = &notes.warnings[..] else { panic!("{:?}", notes.warnings) };
    assert_eq!(warning["key"], "ключ\\n\u{fffd}");
    assert!(warning["error"].contains("NOPERM"), "{warning:?}");
    assert!(warning["message"].contains("until its ttl is over"), "{warning:?}");
}
