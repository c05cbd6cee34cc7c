//! Which keys stay in random histories, as one finds it who looks for the last client that was at work, and at what was seen since.

use std::collections::BTreeMap;

use history::fault::Fault;
use history::verdict::Outcome::{self, Held, Inconclusive, Violated};
use history::{Answer, Event, FOR_EVER, GONE, History, Intent, Touch, What};
use proptest::prelude::*;

use super::NAME;
use crate::agreement::{agree, commands};
use crate::random::{Step, steps};
use crate::testing::{LOCK, Tape};

const TTL_NS: u64 = 100;
const RESOURCE: u16 = 9;

/// A look of the run: how much later than the one before, at what, and what it shows.
type Look = (u64, u8, i64);

fn looks() -> impl Strategy<Value = Vec<Look>> {
    let shows = prop::sample::select(vec![GONE, GONE, FOR_EVER, 5, 50]);
    prop::collection::vec((1..80_u64, 0..8_u8, shows), 0..8)
}

/// The run looks before or after everything else, or in between.
fn history(tape: &Tape, steps: &[Step], is_calm: bool, at: usize, looks: &[Look]) -> History {
    let mut history = crate::random::history(tape, steps);
    if is_calm {
        settle(&mut history);
    }
    let texts = &mut history.texts;
    let [name, lock, line, other] = ["PTTL", LOCK, "line", "GET"].map(|it| texts.intern(it));
    let at = history.events.len().saturating_sub(at);
    let rest = history.events.split_off(at);
    let mut now_ns = history.events.last().map_or(0, |it| it.at_ns);
    let mut op = 1_000;
    for &(later_ns, kind, pttl_ms) in looks {
        now_ns += later_ns;
        op += 1;
        let mut adds = |op, what| {
            history.events.push(Event { at_ns: now_ns, client: 0, acquisition: 0, op, what });
        };
        let intent = Intent { touch: Touch::None, compares: false };
        let (node, name, key) = match kind {
            0..4 => {
                adds(0, What::Probe(pttl_ms));
                continue;
            }
            4 => (RESOURCE, name, line),
            5 => (0, name, lock),
            6 => (0, if later_ns % 4 == 0 { other } else { name }, line),
            _ => (0, name, line),
        };
        adds(op, What::Command { node, name, key, intent });
        let answer = Answer::Int(pttl_ms);
        adds(op, What::Answered { touch: Touch::None, answer, found: 0 });
    }
    let began_ns = history.events.last().map_or(0, |it| it.at_ns);
    let late_ns = began_ns.saturating_sub(rest.first().map_or(0, |it| it.at_ns)) + 1;
    history.events.extend(rest.into_iter().map(|it| Event { at_ns: it.at_ns + late_ns, ..it }));
    // Something is kept under the lock's key.
    for event in &mut history.events {
        if let What::Fault { fault: fault @ Fault::Drift, .. } = &mut event.what {
            *fault = Fault::ForeignKey;
        }
    }
    history
}

fn lengthens(touch: Touch) -> bool {
    !matches!(touch, Touch::None | Touch::Delete | Touch::Extend(0))
}

/// The place from which on no client was at work any more.
fn done(history: &History) -> usize {
    let commands = commands(history);
    let works = |place: &usize| {
        let event = &history.events[*place];
        let before = history.events[..*place].iter();
        let mut own = before.filter(|it| it.acquisition == event.acquisition);
        match event.what {
            What::Answered { touch, .. } => {
                let is_over = own.any(|it| {
                    matches!(
                        it.what,
                        What::Lost
                            | What::NotAcquired(_)
                            | What::AcquireUnknown(_)
                            | What::Released(_)
                            | What::ReleaseUnknown(_)
                    )
                });
                let sent = commands.iter().any(|it| it.op == event.op && it.acquisition > 0);
                sent && lengthens(touch) && !is_over
            }
            What::Acquire | What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_) => true,
            What::Lost | What::Release | What::Released(_) | What::ReleaseUnknown(_) => true,
            _ => false,
        }
    };
    (0..history.events.len()).rfind(works).map_or(0, |place| place + 1)
}

/// Until when a key that was there when the server's clock jumped may live, and until when the run may keep another thing there.
fn until_ns(history: &History) -> (u64, u64) {
    let of_servers = history.events.iter().filter(|it| it.client == 0);
    of_servers.fold((0, 0), |(set_back_ns, foreign_ns), it| match it.what {
        What::Fault { fault: Fault::ClockStep, for_ns, .. } => {
            let lives_ns = it.at_ns + TTL_NS + history.head.margin_ns;
            (set_back_ns.max(lives_ns) + for_ns, foreign_ns)
        }
        What::Fault { fault: Fault::ForeignKey, for_ns, .. } => {
            (set_back_ns, foreign_ns.max(it.at_ns + for_ns))
        }
        What::Fault { fault: Fault::Failover, .. } if it.at_ns < foreign_ns => {
            (set_back_ns, u64::MAX)
        }
        _ => (set_back_ns, foreign_ns),
    })
}

fn expected(history: &History) -> Outcome {
    let since = &history.events[done(history)..];
    let probes = since.iter().enumerate().filter_map(|(place, it)| match it.what {
        What::Probe(pttl_ms) => Some((place, it.at_ns, pttl_ms)),
        _ => None,
    });
    let probes: Vec<_> = probes.collect();
    let Some(&(_, last_ns, pttl_ms)) = probes.last() else { return Inconclusive };
    let there = probes.iter().rev().take_while(|it| it.2 != GONE);
    let waited_ns = there.last().map_or(0, |it| last_ns - it.1);
    let (set_back_ns, foreign_ns) = until_ns(history);
    let commands = commands(history);
    let unanswered = || {
        let open = |end| matches!(end, None | Some((_, What::Unanswered(_))));
        commands.iter().filter(move |it| open(it.end))
    };
    let late = unanswered().any(|it| lengthens(it.intent.touch));
    match pttl_ms {
        GONE => {}
        FOR_EVER if last_ns < foreign_ns => return Inconclusive,
        FOR_EVER => return Violated,
        _ if waited_ns <= TTL_NS || last_ns <= set_back_ns || late => return Inconclusive,
        _ => return Violated,
    }
    // Nothing has gone wrong, and whoever began has ended.
    let count = |what: fn(&What) -> bool| history.events.iter().filter(|it| what(&it.what)).count();
    let begun = count(|it| matches!(it, What::Acquire | What::Release));
    let ended = count(|it| matches!(it, What::Acquired | What::NotAcquired(_) | What::Released(_)));
    let faults = count(|it| matches!(it, What::Fault { .. }));
    let calm = begun == ended && faults == 0 && unanswered().count() == 0;
    let (first_place, ..) = probes[0];
    let mut looked = since[first_place..].iter().filter_map(|it| match it.what {
        What::Answered { answer: Answer::Int(pttl_ms), .. } => Some((it.op, pttl_ms)),
        _ => None,
    });
    let of_line = |op: u32| {
        since.iter().any(|it| match it.what {
            What::Command { node, name, key, .. } if it.op == op => {
                let texts = &history.texts;
                node != RESOURCE && texts.get(name) == "PTTL" && texts.get(key) == "line"
            }
            _ => false,
        })
    };
    match looked.rfind(|(op, _)| of_line(*op)) {
        None | Some((_, GONE)) => Held,
        Some((_, FOR_EVER)) => Violated,
        _ if calm => Violated,
        _ => Held,
    }
}

/// Nothing goes wrong, and whoever has begun something ends it.
fn settle(history: &mut History) {
    let why = history.texts.intern("held by another");
    history.events.retain(|it| !matches!(it.what, What::Fault { .. }));
    let mut open = BTreeMap::new();
    for event in &mut history.events {
        match event.what {
            What::AcquireUnknown(_) => event.what = What::NotAcquired(why),
            What::Unanswered(_) => event.what = What::Refused(why),
            _ => {}
        }
        if event.op > 0 && open.remove(&event.op).is_none() {
            open.insert(event.op, *event);
        }
    }
    let mut now_ns = history.events.last().map_or(0, |it| it.at_ns);
    history.events.extend(open.into_values().map(|it| {
        now_ns += 1;
        let what = match it.what {
            What::Acquire => What::NotAcquired(why),
            What::Release => What::Released(why),
            _ => What::Answered { touch: Touch::None, answer: Answer::Nil, found: 0 },
        };
        Event { at_ns: now_ns, what, ..it }
    }));
}

#[test]
fn who_is_blamed_has_left_a_key() {
    let at = prop::sample::select(vec![0_usize, 0, 0, 2, 60]);
    agree(NAME, 50, (steps(), 0..8_u8, at, looks()), |(steps, faults, at, looks)| {
        let tape = Tape::new().margin(5).resource(RESOURCE).with(|it| it.ttl_ns = TTL_NS);
        let history = history(&tape, &steps, faults == 0, at, &looks);
        let outcome = expected(&history);
        (history, (outcome, u64::from(outcome == Violated)))
    });
}
