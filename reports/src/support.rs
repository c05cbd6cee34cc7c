//! A plausible run of 100 clients, made by arithmetic alone, for tests.
//!
//! Invariant: the same call gives the same history.

use std::collections::BTreeMap;

use history::verdict::{Level, Outcome, Witness, WitnessStep, worst};
use history::{AcquireEnd, Answer, Event, FORMAT, Head, History, Intent, Timeline, Touch, What};
use scenarios::matrix::{Pair, VerdictCounts};
use scenarios::result::{
    BypassFigures, Capable, Invariant, RunResult, SCHEMA, ServerFacts, Stats, Tally,
};

use crate::latency::Latencies;

const TTL_NS: u64 = 500_000_000;

/// A number below `bound` that looks drawn: the mixing step of splitmix64.
fn mixed(seed: u64, bound: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % bound
}

/// A round trip: mostly about 0.2 ms, now and then some milliseconds.
fn round_trip_ns(seed: u64) -> u64 {
    let slow = if mixed(seed, 61) == 0 { 2_500_000 + mixed(seed ^ 7, 9_000_000) } else { 0 };
    130_000 + mixed(seed ^ 3, 90_000) + mixed(seed ^ 5, 90_000) + slow
}

struct Pen {
    history: History,
    ops: u32,
}

impl Pen {
    fn note(&mut self, at_ns: u64, client: u32, op: u32, what: What) {
        let acquisition = client;
        self.history.events.push(Event { at_ns, client, acquisition, op, what });
    }

    fn op(&mut self) -> u32 {
        self.ops += 1;
        self.ops
    }

    /// A command and its answer; when it was answered.
    fn command(
        &mut self,
        at_ns: u64,
        client: u32,
        name: &str,
        touch: Touch,
        answer: Answer,
    ) -> u64 {
        let op = self.op();
        let (name, key) = (self.history.texts.intern(name), self.history.texts.intern("lock"));
        let intent = Intent { touch, compares: false };
        self.note(at_ns, client, op, What::Command { node: 0, name, key, intent });
        let done_ns = at_ns + round_trip_ns(u64::from(op));
        self.note(done_ns, client, op, What::Answered { touch, answer, found: 0 });
        done_ns
    }
}

/// The head of such a run.
pub(crate) fn head() -> Head {
    Head {
        format: FORMAT.to_owned(),
        scenario: "bonus-pool".to_owned(),
        lock: "single".to_owned(),
        tracked: true,
        locks: true,
        world: "redis".to_owned(),
        seed: 42,
        clients: 100,
        lock_key: "lock".to_owned(),
        ttl_ns: TTL_NS,
        margin_ns: 1_000_000,
        prizes: Some(10),
        ..Head::default()
    }
}

/// 100 clients want ten prizes: each polls for the lock, reads the pool, and takes one if there is
/// one. The last five give up.
pub(crate) fn bonus_pool() -> History {
    let mut pen = Pen { history: History::new(head()), ops: 0 };
    let mut free_ns = 0;
    for client in 1..=100_u32 {
        let begin_ns = mixed(u64::from(client), 3_000_000);
        let op = pen.op();
        pen.note(begin_ns, client, op, What::Acquire);
        let mut now_ns = begin_ns;
        let gives_up = client > 95;
        let patience_ns = begin_ns + 60_000_000;
        while now_ns < free_ns && !(gives_up && now_ns > patience_ns) {
            now_ns = pen.command(now_ns, client, "SET", Touch::None, Answer::Nil);
            now_ns += 1_000_000 + mixed(now_ns, 6_000_000);
        }
        if gives_up {
            let why = pen.history.texts.intern("gave up waiting");
            pen.note(now_ns, client, op, What::NotAcquired(why));
            continue;
        }
        let create = Touch::Create(Some(TTL_NS));
        now_ns = pen.command(now_ns.max(free_ns), client, "SET", create, Answer::Ok);
        pen.note(now_ns, client, op, What::Acquired);
        let left = 10 - i64::from(client.min(11));
        now_ns = pen.command(now_ns, client, "GET", Touch::None, Answer::Int(left + 1));
        if left >= 0 {
            now_ns = pen.command(now_ns, client, "DECR", Touch::None, Answer::Int(left));
        }
        let op = pen.op();
        pen.note(now_ns, client, op, What::Release);
        now_ns = pen.command(now_ns, client, "EVALSHA", Touch::Delete, Answer::Int(1));
        let outcome = pen.history.texts.intern("released");
        pen.note(now_ns, client, op, What::Released(outcome));
        free_ns = now_ns;
    }
    pen.history.events.sort_by_key(|event| event.at_ns);
    // Operations are numbered in the order in which they begin.
    let mut numbers = BTreeMap::new();
    for event in &mut pen.history.events {
        let next = u32::try_from(numbers.len() + 1).expect("a run of some thousand operations");
        event.op = *numbers.entry(event.op).or_insert(next);
    }
    pen.history
}

/// An invariant that held.
pub(crate) fn held(name: &str, level: Level) -> Invariant {
    let (name, verdict) = (name.to_owned(), Outcome::Held);
    Invariant { name, level, verdict, vacuous: false, reason: None, witness: None }
}

/// An invariant of which this is said, for this reason.
pub(crate) fn because(name: &str, level: Level, verdict: Outcome, reason: &str) -> Invariant {
    Invariant { verdict, reason: Some(reason.to_owned()), ..held(name, level) }
}

/// A violation of mutual exclusion, with its story.
pub(crate) fn overlap() -> Invariant {
    let step = |at_ns, client, text: &str| WitnessStep { at_ns, client, text: text.to_owned() };
    let witness = Witness {
        summary: "clients 3 and 7 both believed that they held the lock, for 41.882 ms".to_owned(),
        clients: vec![3, 7],
        acquisitions: vec![3, 7],
        steps: vec![
            step(12_345_678, 3, "acquired the lock, valid until 512.345 ms"),
            step(13_001_000, 0, "paused client 3 for 600 ms, in its hold"),
            step(512_400_100, 7, "acquired the lock: the key had expired"),
            step(613_002_000, 3, "read prize 7, still believing to hold"),
            step(613_204_000, 7, "read prize 7"),
        ],
        occurrences: 2,
        ..Witness::default()
    };
    let base = held("mutual-exclusion", Level::Belief);
    Invariant { verdict: Outcome::Violated, witness: Some(witness), ..base }
}

/// A result of this history with these invariants.
pub(crate) fn result(history: &History, invariants: Vec<Invariant>) -> RunResult {
    let timeline = Timeline::of(history);
    let ended = |wanted: fn(&AcquireEnd) -> bool| {
        let ends = timeline.acquisitions.iter().filter_map(|it| it.end);
        ends.filter(|(_, end)| wanted(end)).count() as u64
    };
    let (ok, failed) = (
        ended(|end| matches!(end, AcquireEnd::Ok)),
        ended(|end| matches!(end, AcquireEnd::Fail(_))),
    );
    let invoked = timeline.acquisitions.len() as u64;
    let mut commands = BTreeMap::new();
    for command in &timeline.commands {
        *commands.entry(history.text(command.name).to_owned()).or_insert(0) += 1;
    }
    let stats = Stats {
        clients: history.head.clients,
        duration_ns: history.duration_ns(),
        acquisitions: Tally { invoked, ok, failed, unknown: invoked - ok - failed },
        winners: Some(10),
        server_commands: Some(commands.clone()),
        commands,
        commands_per_acquisition: Some(2.5),
        bypass: Some(BypassFigures { p99: 7, max: 9 }),
        latencies: Latencies::of(history).summaries(),
    };
    RunResult {
        searched: false,
        schema: SCHEMA.to_owned(),
        scenario: history.head.scenario.clone(),
        lock: history.head.lock.clone(),
        validity: "tracked".to_owned(),
        world: history.head.world.clone(),
        server: ServerFacts {
            software: "redis".to_owned(),
            version: "7.0.15".to_owned(),
            origin: "private server".to_owned(),
            capabilities: BTreeMap::from([
                ("DELEX".to_owned(), Capable::No),
                ("Lua scripts".to_owned(), Capable::Yes),
                ("RESP3".to_owned(), Capable::Yes),
            ]),
        },
        seed: history.head.seed,
        verdict: worst(invariants.iter().map(|it| it.verdict)),
        complete: true,
        invariants,
        remarks: Vec::new(),
        stats,
        replay: "picklock --scenario bonus-pool --lock single --world redis --seed 42".to_owned(),
    }
}

/// A recipe in the scenario gc-pause, with what is expected of it, but for its key where that is said.
pub(crate) fn pair(lock: &str, key: Option<Outcome>) -> Pair {
    let scenario = Pair::scenario("gc-pause", lock).unwrap();
    let runs = Level::ALL.map(|level| {
        let expected = scenario.expected(lock, level);
        let found = if level == Level::Key { key.unwrap_or(expected) } else { expected };
        VerdictCounts::of_run(3, found)
    });
    Pair::found(&scenario, runs)
}
