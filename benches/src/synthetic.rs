//! Histories of any length, as a sound lock would leave them.
//!
//! Invariant: every checker calls such a history *held*. One client after the other holds the lock
//! and takes a prize while others are told to wait, so that all checkers have something to look at.

use scenarios::history::{Answer, Event, FORMAT, Head, History, Intent, Text, Touch, What};

/// Commands of one hold: SET, GET, DECR and EVALSHA, and the SET of everybody who is refused.
const COMMANDS_OF_HOLD: u32 = 4 + REFUSED;
const REFUSED: u32 = 4;
const CLIENTS: u32 = 100;
const TTL_NS: u64 = 1_000_000_000;
/// Between two events.
const STEP_NS: u64 = 10_000;

const CREATE: Touch = Touch::Create(Some(TTL_NS));

/// A history of at least so many commands.
pub fn history(commands: u32) -> History {
    let holds = commands.div_ceil(COMMANDS_OF_HOLD);
    let mut tape = Tape::new(holds);
    for turn in 0..holds {
        tape.hold(turn, i64::from(holds - turn));
    }
    tape.write(0, 0, 0, What::PoolLeft(0));
    tape.write(0, 0, 0, What::Probe(-2));
    tape.history
}

struct Tape {
    history: History,
    lock: Text,
    pool: Text,
    acquisitions: u32,
    ops: u32,
    at_ns: u64,
}

impl Tape {
    fn new(prizes: u32) -> Self {
        let mut history = History::new(Head {
            format: FORMAT.to_owned(),
            scenario: "synthetic".to_owned(),
            lock: "synthetic".to_owned(),
            tracked: true,
            locks: true,
            world: "none".to_owned(),
            clients: CLIENTS,
            lock_key: "lock".to_owned(),
            ttl_ns: TTL_NS,
            margin_ns: TTL_NS / 100,
            prizes: Some(i64::from(prizes)),
            ..Head::default()
        });
        let (lock, pool) = (history.texts.intern("lock"), history.texts.intern("pool"));
        Self { history, lock, pool, acquisitions: 0, ops: 0, at_ns: 0 }
    }

    fn write(&mut self, client: u32, acquisition: u32, op: u32, what: What) {
        self.at_ns += STEP_NS;
        self.history.events.push(Event { at_ns: self.at_ns, client, acquisition, op, what });
    }

    fn begin(&mut self, client: u32, acquisition: u32, what: What) -> u32 {
        self.ops += 1;
        self.write(client, acquisition, self.ops, what);
        self.ops
    }

    /// Somebody's first event, by whom and in which acquisition.
    fn acquire(&mut self, client: u32) -> (u32, u32) {
        self.acquisitions += 1;
        let number = self.acquisitions;
        (number, self.begin(client, number, What::Acquire))
    }

    fn command(&mut self, (client, acquisition): (u32, u32), name: &str, does: Does) {
        let name = self.history.texts.intern(name);
        let Does { key, would, compares, did, answer } = does;
        let intent = Intent { touch: would, compares };
        let op = self.begin(client, acquisition, What::Command { node: 0, name, key, intent });
        self.write(client, acquisition, op, What::Answered { touch: did, answer });
    }

    /// One client holds the lock and wins this prize; others ask meanwhile.
    fn hold(&mut self, turn: u32, prize: i64) {
        let (lock, pool) = (self.lock, self.pool);
        let client = 1 + turn % CLIENTS;
        let (held, acquire) = self.acquire(client);
        let who = (client, held);
        self.command(who, "SET", Does::on(lock, CREATE, Answer::Ok));
        let until_ns = self.at_ns + TTL_NS / 2;
        self.write(client, held, 0, What::ValidUntil(until_ns));
        self.write(client, held, acquire, What::Acquired);
        for other in 1..=REFUSED {
            self.refused(1 + (turn + other) % CLIENTS);
        }
        let take = self.begin(client, held, What::Take);
        let (read, left) = (self.history.texts.intern(&prize.to_string()), prize - 1);
        self.command(who, "GET", Does::on(pool, Touch::None, Answer::Text(read)));
        self.command(who, "DECR", Does::on(pool, Touch::None, Answer::Int(left)));
        self.write(client, held, take, What::Taken { prize, left });
        let release = self.begin(client, held, What::Release);
        let delete = Does::on(lock, Touch::Delete, Answer::Int(1));
        self.command(who, "EVALSHA", Does { compares: true, ..delete });
        let told = self.history.texts.intern("released");
        self.write(client, held, release, What::Released(told));
    }

    fn refused(&mut self, client: u32) {
        let (number, acquire) = self.acquire(client);
        let nothing = Does { did: Touch::None, ..Does::on(self.lock, CREATE, Answer::Nil) };
        self.command((client, number), "SET", nothing);
        let why = self.history.texts.intern("held by another");
        self.write(client, number, acquire, What::NotAcquired(why));
    }
}

/// A command and its answer.
#[derive(Clone, Copy)]
struct Does {
    key: Text,
    would: Touch,
    compares: bool,
    did: Touch,
    answer: Answer,
}

impl Does {
    fn on(key: Text, touch: Touch, answer: Answer) -> Self {
        Self { key, would: touch, compares: false, did: touch, answer }
    }
}

#[cfg(test)]
mod tests {
    use scenarios::checker::check;
    use scenarios::history::Timeline;
    use scenarios::verdict::Verdict;

    #[test]
    fn every_checker_finds_it_held() {
        let history = super::history(1_000);
        assert_eq!(Timeline::of(&history).commands.len(), 1_000);
        for finding in check(&history, true) {
            assert_eq!(finding.verdict, Verdict::Held, "{}", finding.name);
        }
    }
}
