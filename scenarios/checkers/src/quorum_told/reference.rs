//! What an acquisition on several servers says in random histories, and what is true: these servers know which keys they made and
//! deleted.
//!
//! Invariant: whatever is blamed is a lie; and so is each lie, where every command was answered before anything else was said, no key
//! expired, and so nothing is ambiguous.

use history::verdict::Outcome;
use history::words::{EXPIRED, HELD, RELEASED, TAKEN};
use history::{Answer, Event, History, Intent, Touch, What};
use picklock::env::Phase;
use proptest::prelude::*;

use super::checker;
use crate::random::{Step, config, verdict};
use crate::testing::{DELETE, LOCK, Tape};

const NODES: u16 = 3;
const QUORUM: usize = 2;
/// Longer than any of these histories.
const LONG_NS: u64 = 1_000_000;

/// A command under way: what it would do, in which round or in the release it was sent, and what it has done.
#[derive(Clone, Copy)]
struct Sent {
    op: u32,
    node: u16,
    deletes: bool,
    round: u32,
    of_release: bool,
    did: Option<Touch>,
    /// The round that had made what it has made or deleted, and which key of the server that was.
    key: (u32, u32),
    /// Its client has given it up.
    given_up: bool,
}

/// A server, and what it knows of the acquisition.
#[derive(Clone, Default)]
struct Node {
    /// The round that made the key, and when it expires; round 0 is another's key.
    key: Option<(u32, u64)>,
    /// The last round that it has granted, and whether that was deleted since.
    granted: u32,
    deleted: bool,
    /// How many keys it has made, which of them the client last heard to be deleted, and which had gone when it asked anew.
    made: u32,
    known_gone: u32,
    forgotten: u32,
    /// The release has deleted what the last round had made.
    freed: bool,
    /// Since it was asked last, a command from before the release has deleted the key.
    given_back: bool,
    /// The answers to the release's deletions: how many, and how many found none.
    released: (u32, u32),
    /// The last round in which a request had no answer.
    unanswered: u32,
    /// The last key of this round that the client has heard of.
    heard: u32,
}

/// What is wrong with what was said: whether it may be blamed, and whether it has to be.
#[derive(Clone, Copy, Debug, Default)]
struct Lie {
    may: bool,
    must: bool,
}

struct World {
    history: History,
    ttl_ns: u64,
    at_ns: u64,
    ops: u32,
    nodes: Vec<Node>,
    sent: Vec<Sent>,
    round: u32,
    /// It has asked anybody; it has the lock; it releases it.
    asked: bool,
    acquire: u32,
    release: u32,
    /// What it has said in the end.
    said: Option<What>,
    /// How many servers it had heard of then.
    heard: usize,
    lie: Lie,
    /// Nothing is ambiguous.
    clear: bool,
}

impl World {
    fn new(clear: bool, ttl_ns: u64) -> Self {
        let tape =
            Tape::new().with(|it| (it.honest, it.exact, it.nodes) = (true, true, Some(NODES)));
        let nodes = vec![Node::default(); usize::from(NODES)];
        let (history, sent) = (tape.history(), Vec::new());
        let (round, acquire, asked, lie) = (1, 1, false, Lie::default());
        let mut world = Self {
            history,
            ttl_ns,
            at_ns: 1,
            ops: 1,
            nodes,
            sent,
            round,
            asked,
            acquire,
            release: 0,
            said: None,
            heard: 0,
            lie,
            clear,
        };
        world.notes(1, What::Acquire);
        world
    }

    fn notes(&mut self, op: u32, what: What) {
        self.at_ns += 1;
        let (at_ns, client, acquisition) = (self.at_ns, 1, 1);
        self.history.events.push(Event { at_ns, client, acquisition, op, what });
    }

    fn begins(&mut self, what: What) -> u32 {
        self.ops += 1;
        self.notes(self.ops, what);
        self.ops
    }

    fn count(&self, what: impl Fn(&Node) -> bool) -> usize {
        self.nodes.iter().filter(|it| what(it)).count()
    }

    /// In a round, a server is not asked again before it has answered; and where nothing is ambiguous, for nothing else either.
    fn may_send(&self, node: u16, deletes: bool) -> bool {
        let round = self.round;
        let open = |it: &Sent| it.node == node && (self.clear || !it.deletes && it.round == round);
        let waits = self.sent.iter().any(open) || self.nodes[usize::from(node)].unanswered == round;
        !waits || deletes && !self.clear
    }

    fn sends(&mut self, node: u16, deletes: bool) {
        if !self.may_send(node, deletes) {
            return;
        }
        let texts = &mut self.history.texts;
        let (name, key) = (texts.intern("CMD"), texts.intern(LOCK));
        let touch = Touch::Create(Some(self.ttl_ns));
        let intent = if deletes { DELETE } else { Intent { touch, compares: false } };
        let op = self.begins(What::Command { node, name, key, intent });
        if !deletes {
            self.asked = true;
            // What the client knows to be gone is of a round before.
            for it in &mut self.nodes {
                it.forgotten = it.known_gone;
                if it.forgotten == it.made {
                    it.granted = 0;
                }
            }
            self.nodes[usize::from(node)].given_back = false;
        }
        let (round, of_release) = (self.round, self.release > 0);
        self.sent.push(Sent {
            op,
            node,
            deletes,
            round,
            of_release,
            did: None,
            key: (0, 0),
            given_up: false,
        });
    }

    /// The server carries it out.
    fn carries_out(&mut self, place: usize) {
        let (now_ns, round, ttl_ns) = (self.at_ns, self.round, self.ttl_ns);
        let it = &mut self.sent[place];
        let node = &mut self.nodes[usize::from(it.node)];
        node.key = node.key.filter(|key| now_ns < key.1);
        let did = match (it.deletes, node.key) {
            (false, None) => {
                node.key = Some((it.round, now_ns + ttl_ns));
                (node.granted, node.deleted, node.made) = (it.round, false, node.made + 1);
                it.key = (it.round, node.made);
                Touch::Create(Some(ttl_ns))
            }
            (true, Some((by, _))) if by > 0 => {
                node.key = None;
                (node.deleted, it.key) = (true, (by, node.made));
                node.freed |= it.of_release && by == round;
                node.given_back |= !it.of_release;
                Touch::Delete
            }
            _ => Touch::None,
        };
        it.did = Some(did);
    }

    /// One of those under way goes on.
    fn goes_on(&mut self, number: u16) {
        if self.sent.is_empty() {
            return;
        }
        let place = usize::from(number) % self.sent.len();
        let it = self.sent[place];
        let fate = if self.clear { 0 } else { number / 16 % 16 };
        match (it.did, fate) {
            (None, 0..9) => self.carries_out(place),
            (None, 9 | 10) if !it.given_up => self.ends(place, "OOM", What::Refused),
            (None, 11) if it.given_up => _ = self.sent.swap_remove(place),
            (None, _) if !it.given_up => {
                let why = self.history.texts.intern("reset");
                self.notes(it.op, What::Unanswered(why));
                self.sent[place].given_up = true;
                self.is_unanswered(it);
            }
            (Some(_), 14 | 15) if !it.given_up => {
                self.is_unanswered(it);
                self.ends(place, "reset", What::Unanswered);
            }
            (Some(touch), _) => self.answers(place, touch),
            _ => {}
        }
    }

    fn is_unanswered(&mut self, it: Sent) {
        if !it.deletes {
            self.nodes[usize::from(it.node)].unanswered = it.round;
        }
    }

    fn ends(&mut self, place: usize, why: &str, end: impl Fn(history::Text) -> What) {
        let it = self.sent.swap_remove(place);
        let why = self.history.texts.intern(why);
        self.notes(it.op, end(why));
    }

    fn answers(&mut self, place: usize, touch: Touch) {
        let it = self.sent.swap_remove(place);
        if it.given_up {
            return;
        }
        let node = &mut self.nodes[usize::from(it.node)];
        if it.key.0 == self.round {
            node.heard = node.heard.max(it.key.1);
        }
        if touch == Touch::Delete {
            node.known_gone = node.known_gone.max(it.key.1);
        }
        if it.of_release {
            node.released.0 += 1;
            node.released.1 += u32::from(touch == Touch::None);
        }
        self.notes(it.op, What::Answered { touch, answer: Answer::Nil, found: 0 });
    }

    /// Whatever is under way is carried out and answered.
    fn settles(&mut self) {
        while !self.sent.is_empty() {
            self.goes_on(0);
        }
    }

    fn next_round(&mut self) {
        self.round += 1;
        self.nodes.iter_mut().for_each(|it| it.heard = 0);
        self.notes(0, What::Phase(Phase::AcquireBeforeSend));
    }

    fn says(&mut self, number: u16) {
        let why = if number.is_multiple_of(2) { HELD } else { "granted too late" };
        let why = self.history.texts.intern(why);
        let (acquire, release) = (self.acquire, self.release);
        if release > 0 {
            let words = [RELEASED, EXPIRED, TAKEN, "reset"][usize::from(number % 4)];
            let text = self.history.texts.intern(words);
            let end = if words == "reset" { What::ReleaseUnknown } else { What::Released };
            let (freed, round) = (self.count(|it| it.freed), self.round);
            let deleted = self.count(|it| it.freed || it.deleted && it.granted == round);
            let none = self
                .count(|it| it.released.0 > 0 && it.released.0 == it.released.1 && !it.given_back);
            self.lie = match words {
                RELEASED => Lie { may: deleted < QUORUM, must: usize::from(NODES) - none < QUORUM },
                "reset" => Lie { may: freed >= QUORUM, must: freed >= QUORUM },
                // It is judged in the end.
                _ => Lie::default(),
            };
            self.said = Some(end(text));
            self.notes(release, end(text));
        } else if acquire == 0 {
            self.release = self.begins(What::Release);
        } else if !number.is_multiple_of(3) {
            let granted = self.count(|it| it.granted > 0 && !it.deleted);
            let is_lie = granted < QUORUM;
            self.lie = Lie { may: is_lie, must: is_lie && self.asked };
            self.said = is_lie.then_some(What::Acquired);
            self.notes(acquire, What::Acquired);
            self.acquire = 0;
        } else {
            self.heard = self.count(|it| it.heard > it.forgotten);
            self.said = Some(What::NotAcquired(why));
            self.notes(acquire, What::NotAcquired(why));
        }
    }

    /// What became of what it has said, as is known in the end.
    fn judged(mut self) -> (History, Lie) {
        if self.clear {
            self.settles();
        }
        let round = self.round;
        let granted = self.count(|it| it.granted == round);
        let freed = self.count(|it| it.freed);
        match self.said {
            Some(What::NotAcquired(why)) => {
                let may = granted >= QUORUM && self.heard < QUORUM;
                // Nobody says when the first round begins.
                let held = self.history.texts.get(why).ends_with(HELD) && round > 1;
                let denied = held && self.heard >= QUORUM;
                self.lie = Lie { may: may || denied, must: may || denied };
            }
            Some(What::Released(words)) if self.history.texts.get(words) != RELEASED => {
                self.lie = Lie { may: freed >= QUORUM, must: freed >= QUORUM };
            }
            _ => {}
        }
        let must = self.lie.must && self.clear;
        (self.history, Lie { must, ..self.lie })
    }
}

fn world(steps: &[Step], clear: bool, ttl_ns: u64) -> (History, Lie) {
    let mut world = World::new(clear, ttl_ns);
    for &(what, node, later_ns, number) in steps {
        world.at_ns += later_ns;
        let node = u16::from(node) % NODES;
        let has_said = world.said.is_some();
        let speaks = matches!(what % 32, 26..30);
        // What is under way when it says that it has not got the lock is what it has not heard.
        let is_no = what % 32 > 27 && world.acquire > 0 && number.is_multiple_of(3);
        if clear && speaks && !is_no {
            world.settles();
        }
        match what % 32 {
            0..7 if !has_said && world.acquire > 0 => world.sends(node, false),
            7..10 => world.sends(node, true),
            0..10 if world.release > 0 => world.sends(node, true),
            26 | 27 if !has_said && world.acquire > 0 => world.next_round(),
            28 | 29 if !has_said => world.says(number),
            // Another takes the key, or gives it back.
            30 if !clear => {
                let it = &mut world.nodes[usize::from(node)].key;
                match it {
                    None => *it = Some((0, u64::MAX)),
                    Some((0, _)) => *it = None,
                    _ => {}
                }
            }
            _ => world.goes_on(number),
        }
    }
    world.judged()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((any::<u8>(), any::<u8>(), 1..20_u64, 0..1_000_u16), 0..60)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn who_is_blamed_has_lied(steps in steps(), clear: bool, is_short: bool) {
        let ttl_ns = if is_short && !clear { 90 } else { LONG_NS };
        let (history, lie) = world(&steps, clear, ttl_ns);
        let found = verdict(&history, &mut *checker(&history.head).unwrap()).outcome();
        let blamed = found == Outcome::Violated;
        prop_assert!(lie.may || !blamed, "{lie:?}");
        prop_assert!(blamed || !lie.must, "{lie:?}");
    }
}
