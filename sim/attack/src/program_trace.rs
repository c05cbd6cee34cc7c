//! What was seen of programs that are no workers: their commands, the lock's key, and the history of the run.
//!
//! Invariant: each creation of the lock's key begins an acquisition, at the moment at which its command was *sent*. So
//! a command that arrives late belongs to the acquisition in which its client sent it.

use std::time::{Duration, Instant};

use history::{FORMAT, Head, History, Touch, What};
use picklock::time::span_ns;

use crate::arena::Arena;
use crate::board::VICTIM;
use crate::clock::pause;
use crate::copies::CopiesRun;
use crate::key_search;
use crate::known::{MARGIN, probe};
use crate::plan::{AttackPlan, Boundary, LockStep};
use crate::recorder::RecordedEvent;
use crate::shared_key::{self, PartLife};
use crate::tenure::{Tenure, tenures};
use crate::transcript::{self, HANDSHAKE, TracedCommand};

/// How many commands of one name are boundaries: later ones would show the same.
const NTH_MOST: u64 = 2;
/// How long a message may still take that the proxy let go just before its client ended.
const DRAIN: Duration = Duration::from_millis(20);
/// Commands that may touch keys which they do not name.
const CARRIERS: [&str; 4] = ["EVAL", "EVALSHA", "EXEC", "FCALL"];

/// A run, as it was seen.
pub(crate) struct ProgramTrace {
    pub(crate) sent: Vec<TracedCommand>,
    /// None if no command has created a key that looks like a lock's.
    pub(crate) lock_key: Option<Vec<u8>>,
    pub(crate) tenures: Vec<Tenure>,
    pub(crate) history: History,
    /// Why the witness of the key cannot be trusted, if so.
    pub(crate) divergence: Option<String>,
    /// What cannot be decided about the key.
    pub(crate) doubts: Vec<String>,
}

/// Traces a run that has ended. If `key` is none, the lock's key is looked for.
pub(crate) async fn trace(
    arena: &Arena,
    plan: Option<&AttackPlan>,
    run: &CopiesRun,
    key: Option<&[u8]>,
) -> ProgramTrace {
    pause(DRAIN).await;
    let wire = arena.wire_log().await;
    let mut sent = transcript::sent(&wire, run.start);
    let said = arena.attack.lock_key.as_ref().map(|it| it.clone().into_bytes());
    let lock_key = key.map(<[u8]>::to_vec).or(said).or_else(|| lock_key(&sent, &arena.attack.key));
    if let Some(key) = &lock_key {
        probe(arena, &key_search::named(key.clone(), &sent), &run.stage.recorder).await;
    }
    let life = PartLife { life: arena.attack.ttl, jumped: None };
    let of_key = lock_key.as_deref().map(|key| shared_key::apply(&mut sent, key, life, None));
    let doubts = of_key.map(|it| it.reasons).unwrap_or_default();
    let mut recorded = run.stage.recorder.take();
    recorded.events.extend(acquisitions(
        &sent,
        lock_key.as_deref(),
        arena.attack.clients,
        run.start,
    ));
    let phases = transcript::phases(&recorded);
    let name = plan.map_or_else(|| String::from("clean"), AttackPlan::to_string);
    let lock = arena.attack.command.first().map(|it| it.to_string_lossy().into_owned());
    let text = lock_key.as_deref().map(|key| String::from_utf8_lossy(key).into_owned());
    let head = Head {
        format: FORMAT.to_owned(),
        scenario: format!("attack/{name}"),
        lock: lock.unwrap_or_default(),
        locks: lock_key.is_some(),
        world: arena.servers[0].world().to_owned(),
        clients: arena.attack.clients,
        lock_key: text.unwrap_or_default(),
        ttl_ns: span_ns(arena.life),
        margin_ns: span_ns(MARGIN),
        ..Head::default()
    };
    let key = lock_key.as_deref().unwrap_or_default();
    let history = transcript::history(head, key, recorded, &sent, run.start);
    let tenures = tenures(&sent, &phases, key, run.end);
    let divergence = match wire.is_complete {
        true => divergence(&sent, key, arena.servers[0].endpoint.is_embedded()),
        false => Some(String::from("the witness has not seen all that the server carried out")),
    };
    ProgramTrace { sent, lock_key, tenures, history, divergence, doubts }
}

/// The acquisitions of all clients: one from the start, and one for each creation of the key.
fn acquisitions(
    sent: &[TracedCommand],
    key: Option<&[u8]>,
    clients: u32,
    start: Instant,
) -> Vec<RecordedEvent> {
    let first = (1..=clients).map(|client| (start, client));
    let creates = |it: &&TracedCommand| {
        let mut changes = it.seen.iter().flat_map(|seen| &seen.changes);
        changes.any(|it| key == Some(&it.key) && matches!(it.touch, Touch::Create(_)))
    };
    let others = sent.iter().filter(creates).map(|it| (it.sent, it.client));
    let all = (1..).zip(first.chain(others));
    let event = |(number, (at, client))| {
        let (acquisition, op, what) = (number, number, What::Acquire);
        RecordedEvent { at, client, acquisition, op, what }
    };
    all.map(event).collect()
}

/// Where the model and the server differ at a command that may concern the lock's key.
fn divergence(sent: &[TracedCommand], key: &[u8], is_model: bool) -> Option<String> {
    let concerns = |it: &&TracedCommand| it.key == key || CARRIERS.contains(&it.name.as_str());
    let theirs: Vec<TracedCommand> = sent.iter().filter(concerns).cloned().collect();
    transcript::divergence(&theirs, is_model)
}

/// The commands of client 1 as boundaries, in their order.
pub(crate) fn boundaries(sent: &[TracedCommand]) -> Vec<Boundary> {
    let mut boundaries: Vec<Boundary> = Vec::new();
    for command in sent.iter().filter(|it| it.client == VICTIM) {
        if HANDSHAKE.contains(&command.name.as_str()) {
            continue;
        }
        let same = boundaries.iter().filter(|it| it.command == command.name);
        let nth = same.count() as u64 + 1;
        if nth <= NTH_MOST {
            let step = LockStep::Run;
            boundaries.push(Boundary { step, command: command.name.clone(), nth, draws: false });
        }
    }
    boundaries
}

/// The lock's key: it has a TTL or is deleted. A key with the lock's name comes first, then one that contains it.
fn lock_key(sent: &[TracedCommand], named: &str) -> Option<Vec<u8>> {
    let all = || sent.iter().flat_map(|it| it.seen.iter().flat_map(|seen| &seen.changes));
    let ends = |key: &[u8]| {
        let mut of_it = all().filter(|it| it.key == key);
        of_it.any(|it| match it.touch {
            Touch::Create(ttl) => ttl.is_some(),
            Touch::Extend(ns) => ns != u64::MAX,
            touch => touch == Touch::Delete,
        })
    };
    let created = all().filter(|it| matches!(it.touch, Touch::Create(_))).map(|it| &it.key);
    let keys: Vec<&Vec<u8>> = created.filter(|key| ends(key)).collect();
    let is_named = |key: &&&Vec<u8>| key.windows(named.len()).any(|it| it == named.as_bytes());
    let exact = keys.iter().find(|key| **key == named.as_bytes());
    let lives = |key: &&&Vec<u8>| life(sent, key).is_some();
    let found = exact.or_else(|| keys.iter().find(is_named)).or_else(|| keys.iter().find(lives));
    found.map(|key| key.to_vec())
}

/// The longest TTL that this key got; none if it never got one.
pub(crate) fn life(sent: &[TracedCommand], key: &[u8]) -> Option<Duration> {
    let changes = sent.iter().flat_map(|it| it.seen.iter().flat_map(|seen| &seen.changes));
    let lives = changes.filter(|it| it.key == key).filter_map(|it| match it.touch {
        Touch::Create(ttl) | Touch::Overwrite(ttl) => ttl,
        Touch::Extend(ns) => Some(ns).filter(|ns| *ns != u64::MAX),
        _ => None,
    });
    lives.max().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use redis_model::witness::{InsideChange, KeyChange};

    use super::*;
    use crate::clock::now;
    use crate::recorder::PlanRecord;

    /// A command of this client that did this to the key.
    fn command(client: u32, name: &str, key: &str, touch: Touch) -> TracedCommand {
        let key = key.as_bytes().to_vec();
        let change = KeyChange { db: 0, key, touch, inside: InsideChange::None };
        TracedCommand::carried_out(client, now(), name, vec![change])
    }

    const CREATE: Touch = Touch::Create(Some(1_000_000));

    #[test]
    fn the_key_of_the_lock_bears_its_name_and_goes_again() {
        let key = |sent: &[TracedCommand]| {
            lock_key(sent, "lock").map(|key| String::from_utf8(key).unwrap())
        };
        let found =
            |sent: &[TracedCommand], name: &str| assert_eq!(key(sent).as_deref(), Some(name));
        let counter = command(1, "INCR", "lock:counter", Touch::Create(None));
        let session = command(1, "SET", "session", CREATE);
        let derived = command(1, "SET", "{lock}:mutex", CREATE);
        let exact = command(1, "SET", "lock", CREATE);
        let all = [counter.clone(), session.clone(), derived, exact];
        found(&all, "lock");
        found(&all[..3], "{lock}:mutex");
        found(&all[..2], "session");
        assert_eq!(key(&all[..1]), None);
        let deleted = command(2, "DEL", "lock:counter", Touch::Delete);
        found(&[counter, session, deleted], "lock:counter");
    }

    #[test]
    fn boundaries_are_the_first_two_of_a_name_that_client_1_sends() {
        let names = [(1, "AUTH"), (1, "SET"), (2, "DEL"), (1, "GET"), (1, "SET"), (1, "SET")];
        let sent = names.map(|(client, name)| command(client, name, "k", Touch::None));
        let found: Vec<String> = boundaries(&sent).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["run.set", "run.get", "run.set2"]);
    }

    #[test]
    fn a_late_command_belongs_to_the_acquisition_in_which_it_was_sent() {
        let start = now();
        let mut sent = [
            command(1, "SET", "k", CREATE),
            command(1, "DEL", "k", Touch::Delete),
            command(1, "SET", "k", CREATE),
        ];
        let at = |ms| start + Duration::from_millis(ms);
        for (command, ms) in sent.iter_mut().zip([10, 20, 30]) {
            command.sent = at(ms);
        }
        let mut recorded = PlanRecord::default();
        recorded.events.extend(acquisitions(&sent, Some(b"k"), 2, start));
        let phases = transcript::phases(&recorded);
        let of = |client, ms| transcript::acquisition(&phases, client, at(ms));
        assert_ne!(of(1, 5), of(1, 10), "a creation begins one");
        assert_eq!(of(1, 10), of(1, 20));
        assert_ne!(of(1, 20), of(1, 30));
        assert!(of(2, 30) > 0 && of(2, 30) != of(1, 5), "everybody has one");
    }
}
