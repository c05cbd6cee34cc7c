//! Makes the history of a plan from what picklock, the proxy and the server have seen.
//!
//! Invariant: a command stands in the history at the moment at which the server carried it out, with what it did to
//! the lock's key, so that nothing about the key is ambiguous. It belongs to the acquisition in which its client *sent* it,
//! however late it arrived.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fault_proxy::{Action, ProxyEvent, Side};
use history::{Answer, Event, Head, History, Intent, Stage, Texts, Touch, What};
use redis_model::witness::InsideChange;

use crate::arena::WireLog;
use crate::board::VICTIM;
use crate::plan::{Boundary, LockStep};
use crate::recorder::{PlanRecord, RecordedEvent};
use crate::seen::{CommandSeen, SeenAnswer};

/// Commands of a connection, and not of a lock.
pub(crate) const HANDSHAKE: [&str; 7] =
    ["AUTH", "HELLO", "CLIENT", "SELECT", "INFO", "COMMAND", "PING"];

/// The command that carries out a transaction.
const EXEC: &str = "EXEC";
/// The unknown command that the proxy sends in place of a refused one. Some servers show it.
const REFUSED: &str = "PICKLOCK.REFUSE";
/// How far the clocks of a server and of the proxy may be apart.
const CLOCKS: Duration = Duration::from_millis(2);
/// How far two readings of the same remaining TTL may differ, in milliseconds.
const CLOCKS_MS: u64 = 50;

/// A request as the proxy saw it, with what the server made of it.
#[derive(Clone, Debug)]
pub(crate) struct TracedCommand {
    pub(crate) client: u32,
    pub(crate) node: u16,
    pub(crate) sent: Instant,
    pub(crate) name: String,
    pub(crate) key: Vec<u8>,
    /// It was lost on its way to the server.
    pub(crate) lost: bool,
    /// The proxy has answered it with this error.
    pub(crate) refused: Option<String>,
    /// How the server's answer begins.
    pub(crate) reply: Option<Vec<u8>>,
    /// It was queued by MULTI, and no EXEC carried it out.
    pub(crate) discarded: bool,
    pub(crate) seen: Option<CommandSeen>,
}

/// A connection: the server's number, the client, and which of its connections.
type Place = (u16, u32, u64);

/// The requests of all clients since `start`, in the order of their sending.
pub(crate) fn sent(wire: &WireLog, start: Instant) -> Vec<TracedCommand> {
    // From where each connection comes, from when, and until when no other comes from there.
    let mut from: BTreeMap<Place, (SocketAddr, Instant, Option<Instant>)> = BTreeMap::new();
    let mut sent: BTreeMap<Place, BTreeMap<u64, TracedCommand>> = BTreeMap::new();
    for record in &wire.records {
        let place = (record.node.0, record.client.0, record.connection);
        let command = sent.entry(place).or_default();
        match &record.event {
            ProxyEvent::Connected(addr) => {
                let (addr, at) = (*addr, wire.start + record.at);
                // The same address may be used towards another server at the same time.
                let earlier = from.iter_mut().filter(|(it, (theirs, _, until))| {
                    it.0 == place.0 && *theirs == addr && until.is_none()
                });
                earlier.for_each(|(_, it)| it.2 = Some(at));
                from.insert(place, (addr, at, None));
            }
            ProxyEvent::Request | ProxyEvent::Fault(..) => {
                let name =
                    record.command.as_ref().map(|it| it.as_bytes().to_vec()).unwrap_or_default();
                let command = command.entry(record.frame).or_insert_with(|| TracedCommand {
                    client: record.client.0,
                    node: record.node.0,
                    sent: wire.start + record.at,
                    name: String::from_utf8_lossy(&name).into_owned(),
                    key: record.key.clone().unwrap_or_default(),
                    lost: false,
                    refused: None,
                    reply: None,
                    discarded: false,
                    seen: None,
                });
                match &record.event {
                    ProxyEvent::Fault(
                        _,
                        Action::Drop(Side::Request) | Action::Reset(Side::Request),
                    ) => {
                        command.lost = true;
                    }
                    ProxyEvent::Fault(_, Action::Refuse(error)) => {
                        command.refused = Some(error.to_string());
                    }
                    _ => {}
                }
            }
            ProxyEvent::Reply(bytes) => {
                if let Some(command) = command.get_mut(&record.frame) {
                    command.reply = Some(bytes.clone());
                }
            }
            _ => {}
        }
    }
    for (place, theirs) in &mut sent {
        let Some((addr, began, ended)) = from.get(place) else { continue };
        let mut theirs: Vec<&mut TracedCommand> = theirs.values_mut().collect();
        let mut next = 0;
        // A server carries out the commands of a connection in order, but does not show all of them (no AUTH, no
        // unknown commands). So a command that it shows is the next of that name. Later connections reuse addresses.
        let is_theirs = |it: &&CommandSeen| {
            it.from == *addr && it.at + CLOCKS >= *began && ended.is_none_or(|ended| it.at < ended)
        };
        let of_server = wire.commands.get(usize::from(place.0)).into_iter().flatten();
        for seen in of_server.filter(is_theirs) {
            let place = theirs[next..].iter().position(|it| it.is_shown_as(seen));
            if let Some(place) = place {
                theirs[next + place].seen = Some(seen.clone());
                next += place + 1;
            }
        }
        mark_discarded(&mut theirs);
    }
    let all = sent.into_values().flat_map(BTreeMap::into_values);
    let mut all: Vec<TracedCommand> = all.filter(|it| it.sent >= start).collect();
    all.sort_by_key(|it| it.sent);
    all
}

/// Marks the commands of a connection that were queued and that no EXEC carried out.
fn mark_discarded(theirs: &mut [&mut TracedCommand]) {
    let mut is_carried_out = false;
    for command in theirs.iter_mut().rev() {
        match command.name.as_str() {
            // An EXEC that carried out its commands answers with a list.
            EXEC => is_carried_out = command.answered() == Some(SeenAnswer::List),
            "MULTI" => is_carried_out = false,
            _ => {
                let is_queued = command.answered().is_some_and(|it| it.is_queued());
                command.discarded = is_queued && command.seen.is_none() && !is_carried_out;
            }
        }
    }
}

impl TracedCommand {
    /// A command of this client that the first server carried out at once, with these changes, and answered with OK.
    #[cfg(test)]
    pub(crate) fn carried_out(
        client: u32,
        at: Instant,
        name: &str,
        changes: Vec<redis_model::witness::KeyChange>,
    ) -> Self {
        let seen = CommandSeen {
            at,
            from: ([127, 0, 0, 1], 1).into(),
            name: name.to_owned(),
            answer: SeenAnswer::Ok,
            changes,
        };
        let key = seen.changes.first().map(|it| it.key.clone()).unwrap_or_default();
        Self {
            client,
            node: 0,
            sent: at,
            name: name.to_owned(),
            key,
            lost: false,
            refused: None,
            reply: None,
            discarded: false,
            seen: Some(seen),
        }
    }

    fn is_shown_as(&self, seen: &CommandSeen) -> bool {
        let is_queued = self.answered().map(|it| it.is_queued());
        match &self.refused {
            Some(_) if self.name == EXEC => seen.name == "DISCARD",
            Some(_) => seen.name == REFUSED,
            // A server shows a queued command only if it carries it out.
            None => {
                !self.lost
                    && self.name == seen.name
                    && is_queued.is_none_or(|it| it == seen.answer.is_queued())
            }
        }
    }

    /// What the server has answered, if that is known.
    fn answered(&self) -> Option<SeenAnswer> {
        self.reply.as_ref().and_then(|reply| SeenAnswer::parse(reply))
    }

    /// How the server's answer differs from that of the model beside it, if it does. `is_model`: the server is that
    /// model itself.
    fn differs(&self, is_model: bool) -> Option<String> {
        let Self { client, name, .. } = self;
        if HANDSHAKE.contains(&name.as_str()) || self.refused.is_some() {
            return None;
        }
        let Some(seen) = &self.seen else {
            // A server does not show a command that it does not know, nor an EXEC that it refuses.
            let is_shown = match SeenAnswer::parse(self.reply.as_ref()?) {
                Some(SeenAnswer::Error(_)) => false,
                Some(SeenAnswer::Nil) => name != EXEC,
                _ => !self.discarded,
            };
            return is_shown.then(|| {
                format!("the server has answered {name} of client {client}, which its witness has not seen")
            });
        };
        if is_model {
            return None;
        }
        if self.reply.is_none() && matches!(seen.answer, SeenAnswer::Waited(_)) {
            return Some(format!(
                "client {client} was gone before its {name} was answered, and whether it took anything is not known"
            ));
        }
        let real = self.answered()?;
        let agree = match (seen.answer.at_last(), &real) {
            // Some servers show an EXEC that they refuse, without the queued commands.
            (SeenAnswer::List, SeenAnswer::Nil | SeenAnswer::Error(_)) if name == EXEC => {
                seen.changes.is_empty()
            }
            // By the server's clock the timeout was over a little earlier than by the model's.
            (SeenAnswer::Waits, SeenAnswer::Nil) => true,
            (SeenAnswer::Text(one), SeenAnswer::Text(other)) => {
                let number = |text: &String| text.parse::<f64>().ok();
                one == other || number(one).is_some_and(|it| Some(it) == number(other))
            }
            // A remaining TTL, which the server reads a little later than the time that MONITOR shows.
            (SeenAnswer::Int(one), SeenAnswer::Int(other)) if *one > 1 && *other > 1 => {
                one.abs_diff(*other) <= CLOCKS_MS
            }
            (SeenAnswer::Error(one), SeenAnswer::Error(other)) => {
                one.split(' ').next() == other.split(' ').next()
            }
            (one, other) => one == other,
        };
        (!agree).then(|| {
            format!(
                "the model beside the server answers {name} of client {client} with {:?}, and the server with {real:?}",
                seen.answer
            )
        })
    }
}

/// Why the witness cannot be trusted: the first command that the model and the server answered differently.
/// `is_model`: the server is that model itself.
pub(crate) fn divergence(sent: &[TracedCommand], is_model: bool) -> Option<String> {
    sent.iter().find_map(|it| it.differs(is_model))
}

/// When an acquisition of a client began, got the lock, and began to release it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    pub(crate) client: u32,
    pub(crate) acquisition: u32,
    pub(crate) begun: Instant,
    pub(crate) acquired: Option<Instant>,
    pub(crate) release: Option<Instant>,
}

pub(crate) fn phases(recorded: &PlanRecord) -> Vec<Phases> {
    let mut all: Vec<Phases> = Vec::new();
    for event in &recorded.events {
        let RecordedEvent { at, client, acquisition, what, .. } = *event;
        let known = all.iter_mut().find(|it| it.acquisition == acquisition);
        match (what, known) {
            (What::Acquire, None) => {
                let (begun, acquired, release) = (at, None, None);
                all.push(Phases { client, acquisition, begun, acquired, release });
            }
            (What::Acquired, Some(it)) => it.acquired = Some(at),
            (What::Release, Some(it)) => it.release = Some(at),
            _ => {}
        }
    }
    all
}

/// Whether another client has waited for the lock for this long while the victim had it, and then got it.
pub(crate) fn waits(recorded: &PlanRecord, span: Duration) -> bool {
    let phases = phases(recorded);
    let first = phases.iter().find(|it| it.client == VICTIM && it.release.is_some());
    let Some(release) = first.and_then(|it| it.release) else { return false };
    phases.iter().any(|it| {
        it.client != VICTIM
            && it.begun + span <= release
            && it.acquired.is_some_and(|at| at > release)
    })
}

/// The acquisition that a client was busy with at this moment; 0 before its first.
pub(crate) fn acquisition(phases: &[Phases], client: u32, at: Instant) -> u32 {
    let theirs = phases.iter().filter(|it| it.client == client && it.begun <= at);
    theirs.max_by_key(|it| it.begun).map_or(0, |it| it.acquisition)
}

/// The TTL of this key on the first server once the victim had acquired the lock; none if it does not expire.
pub(crate) fn life(sent: &[TracedCommand], recorded: &PlanRecord, key: &[u8]) -> Option<Duration> {
    let phases = phases(recorded);
    let acquired = phases.iter().find(|it| it.client == VICTIM)?.acquired?;
    let is_theirs = |it: &&TracedCommand| (it.client, it.node) == (VICTIM, 0) && it.sent < acquired;
    let theirs = sent.iter().filter(is_theirs);
    let mut changes = theirs.flat_map(|it| it.seen.iter().flat_map(|seen| &seen.changes));
    match changes.rfind(|it| it.key == key && it.touch != Touch::None)?.touch {
        Touch::Create(ns) | Touch::Overwrite(ns) => ns.map(Duration::from_nanos),
        Touch::Extend(ns) => Some(Duration::from_nanos(ns)),
        _ => None,
    }
}

/// The commands that the victim of a run without faults has sent to the first server, as boundaries.
pub(crate) fn learn(
    sent: &[TracedCommand],
    recorded: &PlanRecord,
    lock_key: &[u8],
) -> Vec<Boundary> {
    let phases = phases(recorded);
    let Some(held) = phases.iter().find(|it| it.client == VICTIM && it.acquired.is_some()) else {
        return Vec::new();
    };
    let is_answer = |it: &&RecordedEvent| {
        it.acquisition == held.acquisition
            && matches!(it.what, What::Released(_) | What::ReleaseUnknown(_))
    };
    let answered = recorded.events.iter().find(is_answer).map(|it| it.at);
    let mut boundaries: Vec<Boundary> = Vec::new();
    let mut is_made = false;
    let is_theirs =
        |it: &&TracedCommand| (it.client, it.node) == (VICTIM, 0) && it.sent >= held.begun;
    for command in sent.iter().filter(is_theirs) {
        // `check` is picklock's own order, which no user of a lock gives: its commands are no boundaries.
        let is_look = |(client, from, to): &(u32, Instant, Instant)| {
            *client == VICTIM && (*from..=*to).contains(&command.sent)
        };
        if HANDSHAKE.contains(&command.name.as_str()) || recorded.looks.iter().any(is_look) {
            continue;
        }
        let step = match () {
            () if held.acquired.is_none_or(|at| command.sent < at) => LockStep::Acquire,
            () if held.release.is_none_or(|at| command.sent < at) => LockStep::Hold,
            () => LockStep::Release,
        };
        let changes = || command.seen.iter().flat_map(|seen| &seen.changes);
        is_made |= changes().any(|it| it.key == lock_key);
        let counts =
            changes().any(|it| matches!(it.inside, InsideChange::Counted { by, .. } if by > 0));
        let is_same = |it: &&Boundary| it.step == step && it.command == command.name;
        let nth = boundaries.iter().filter(is_same).count() as u64 + 1;
        // The first two renewals show all that later ones would, and so do those of a client that renews on once it has
        // answered its release.
        let is_renewal = match step {
            LockStep::Release => answered.is_some_and(|at| command.sent > at),
            step => step == LockStep::Hold,
        };
        if !is_renewal || nth <= 2 {
            let draws = step == LockStep::Acquire && !is_made && counts;
            boundaries.push(Boundary { step, command: command.name.clone(), nth, draws });
        }
    }
    boundaries
}

/// The history of a plan, of the lock with this key.
pub(crate) fn history(
    mut head: Head,
    key: &[u8],
    recorded: PlanRecord,
    sent: &[TracedCommand],
    start: Instant,
) -> History {
    let phases = phases(&recorded);
    let PlanRecord { mut texts, mut events, validities, .. } = recorded;
    let ns = |at: Instant| {
        u64::try_from(at.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX)
    };
    for (at, client, acquisition, until) in validities {
        let what = What::ValidUntil(ns(until));
        events.push(RecordedEvent { at, client, acquisition, op: 0, what });
    }
    let ops = events.iter().map(|it| it.op).max().unwrap_or(0) + 1..;
    // The handshake of a connection belongs to no lock.
    let of_locks = sent.iter().filter(|it| !HANDSHAKE.contains(&it.name.as_str()));
    for (op, command) in ops.zip(of_locks) {
        let acquisition = acquisition(&phases, command.client, command.sent);
        let (at, what, end) = told(command, (key, &head.lock_key), &mut texts);
        for what in [Some(what), end].into_iter().flatten() {
            events.push(RecordedEvent { at, client: command.client, acquisition, op, what });
        }
    }
    events.sort_by_key(|it| it.at);
    head.clients = head.clients.max(events.iter().map(|it| it.client).max().unwrap_or(0));
    let mut history = History { head, texts, events: Vec::with_capacity(events.len()) };
    let (mut ops, mut acquisitions) = (BTreeMap::new(), BTreeMap::new());
    let number = |known: &mut BTreeMap<u32, u32>, old: u32| match old {
        0 => 0,
        _ => {
            let next = u32::try_from(known.len()).unwrap_or(u32::MAX) + 1;
            *known.entry(old).or_insert(next)
        }
    };
    for RecordedEvent { at, client, acquisition, op, what } in events {
        let acquisition = number(&mut acquisitions, acquisition);
        let op = match what.stage() {
            Stage::Note => 0,
            _ => number(&mut ops, op),
        };
        history.events.push(Event { at_ns: ns(at), client, acquisition, op, what });
    }
    history
}

/// When a command stands in the history, how it begins, and how it ends.
fn told(
    command: &TracedCommand,
    (lock_key, lock_text): (&[u8], &str),
    texts: &mut Texts,
) -> (Instant, What, Option<What>) {
    let change = command.seen.iter().flat_map(|it| &it.changes);
    let touch = change.filter(|it| it.key == lock_key).map(|it| it.touch).next();
    let key = match touch {
        Some(_) => texts.intern(lock_text),
        None => texts.intern(&String::from_utf8_lossy(&command.key)),
    };
    let name = texts.intern(&command.name);
    let touch = touch.unwrap_or(Touch::None);
    let intent = Intent { touch, compares: false };
    let begin = What::Command { node: command.node, name, key, intent };
    if let Some(error) = &command.refused {
        let at = command.seen.as_ref().map_or(command.sent, |seen| seen.at);
        return (at, begin, Some(What::Refused(texts.intern(error))));
    }
    let Some(seen) = &command.seen else {
        let end = match command {
            TracedCommand { lost: true, .. } => "lost on its way",
            TracedCommand { discarded: true, .. } => "queued, and thrown away",
            _ => "never arrived",
        };
        return (command.sent, begin, Some(What::Refused(texts.intern(end))));
    };
    let answer = match seen.answer.at_last() {
        SeenAnswer::Error(error) => {
            return (seen.at, begin, Some(What::Refused(texts.intern(error))));
        }
        SeenAnswer::Nil | SeenAnswer::Waits | SeenAnswer::Waited(_) => Answer::Nil,
        SeenAnswer::Ok => Answer::Ok,
        SeenAnswer::Int(number) => Answer::Int(*number),
        SeenAnswer::Text(text) => {
            let short: String = text.chars().take(64).collect();
            Answer::Text(texts.intern(&short))
        }
        SeenAnswer::List => Answer::List,
    };
    (seen.at, begin, Some(What::Answered { touch, answer, found: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_says_of_itself_is_no_part_of_a_history() {
        let start = crate::clock::now();
        let refused = |name: &str| TracedCommand {
            refused: Some(String::from("ERR")),
            seen: None,
            ..TracedCommand::carried_out(1, start, name, Vec::new())
        };
        let sent = [refused("CLIENT"), refused("GET"), refused("HELLO")];
        let history = history(Head::default(), b"", PlanRecord::default(), &sent, start);
        let What::Command { name, .. } = history.events[0].what else { panic!("{history:?}") };
        assert_eq!((history.text(name), history.events.len()), ("GET", 2));
    }
}
