//! Histories of any length, as a sound lock would leave them, or one that is not.
//!
//! Invariant: no checker calls a history *violated* that is not meant to be, and where nothing is
//! unknown every one calls it *held*. One client after the other holds the lock and takes a prize while
//! others are told to wait, so that all checkers have something to look at. Some outcomes are unknown,
//! if asked for: of requests to get the lock, of decrements, of releases.

use history::{Answer, Event, FORMAT, Head, History, Intent, Text, Touch, What};

/// Commands of one hold: SET, GET, DECR and EVALSHA, and the SET of everybody who is refused.
const COMMANDS_OF_HOLD: u32 = 4 + REFUSED;
const REFUSED: u32 = 4;
const CLIENTS: u32 = 100;
const TTL_NS: u64 = 1_000_000_000;
/// Between two events.
const STEP_NS: u64 = 10_000;

const CREATE: Touch = Touch::Create(Some(TTL_NS));

/// What a hold has besides commands: its acquisition, those of the others, taking and releasing.
const OTHERS_OF_HOLD: u32 = 1 + REFUSED + 2;

/// A history of at least so many commands.
pub fn history(commands: u32) -> History {
    holds(commands.div_ceil(COMMANDS_OF_HOLD), 0)
}

/// A history of at least so many operations, commands among them; of this share of all operations
/// nobody knows the outcome.
pub fn operations(operations: u32, unknown_percent: u32) -> History {
    holds(operations.div_ceil(COMMANDS_OF_HOLD + OTHERS_OF_HOLD), unknown_percent)
}

fn holds(holds: u32, unknown_percent: u32) -> History {
    let mut tape = Tape::new(CLIENTS, Some(holds), unknown_percent);
    for turn in 0..holds {
        tape.hold(turn, i64::from(holds - turn));
    }
    tape.write(0, 0, 0, What::PoolLeft(0));
    tape.write(0, 0, 0, What::Probe(-2));
    tape.history
}

/// A history of so many clients and at least so many operations, of a share of which nobody knows the
/// outcome. It is hard to search: all clients' requests overlap, so that as many orders are possible as
/// there can be. Late in it one client deletes another's key, and just one hold is harmed.
pub fn bad(clients: u32, operations: u32, unknown_percent: u32) -> History {
    let mut tape = Tape::new(clients, None, unknown_percent);
    // Two operations of each client, and two of a release.
    let rounds = operations.div_ceil(2 * clients + 2);
    for round in 0..rounds {
        tape.round(clients, round, round == rounds - 2);
    }
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
    /// Of every hundred operations, and how many of them there have been.
    unknown_percent: u64,
    unknown: u64,
}

impl Tape {
    fn new(clients: u32, prizes: Option<u32>, unknown_percent: u32) -> Self {
        let mut history = History::new(Head {
            format: FORMAT.to_owned(),
            scenario: "synthetic".to_owned(),
            lock: "synthetic".to_owned(),
            tracked: true,
            locks: true,
            world: "none".to_owned(),
            clients,
            lock_key: "lock".to_owned(),
            ttl_ns: TTL_NS,
            margin_ns: TTL_NS / 100,
            exact: true,
            available_within_ns: Some(TTL_NS),
            prizes: prizes.map(i64::from),
            ..Head::default()
        });
        let (lock, pool) = (history.texts.intern("lock"), history.texts.intern("pool"));
        let unknown_percent = u64::from(unknown_percent);
        let (acquisitions, ops, at_ns, unknown) = (0, 0, 0, 0);
        Self { history, lock, pool, acquisitions, ops, at_ns, unknown_percent, unknown }
    }

    /// Whether it is time for an operation of unknown outcome.
    fn is_lost(&self) -> bool {
        self.unknown * 100 < u64::from(self.ops) * self.unknown_percent
    }

    /// Nobody knows what came of this operation, of which what is said.
    fn lose(&mut self, (client, acquisition): (u32, u32), op: u32, says: impl Fn(Text) -> What) {
        self.unknown += 1;
        let why = self.history.texts.intern("no reply within 50ms");
        self.write(client, acquisition, op, says(why));
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

    fn command(&mut self, who: (u32, u32), name: &str, does: Does) {
        let op = self.send(who, name, does);
        self.answer(who, op, does);
    }

    fn send(&mut self, (client, acquisition): (u32, u32), name: &str, does: Does) -> u32 {
        let name = self.history.texts.intern(name);
        let intent = Intent { touch: does.would, compares: does.compares };
        self.begin(client, acquisition, What::Command { node: 0, name, key: does.key, intent })
    }

    fn answer(&mut self, (client, acquisition): (u32, u32), op: u32, does: Does) {
        let Does { did: touch, answer, .. } = does;
        self.write(client, acquisition, op, What::Answered { touch, answer, found: 0 });
    }

    /// The same, whose answer is lost if it is time for that, and whether it was.
    fn command_may_be_lost(&mut self, who: (u32, u32), name: &str, does: Does) -> bool {
        let op = self.send(who, name, does);
        let is_lost = self.is_lost();
        if is_lost {
            self.lose(who, op, What::Unanswered)
        } else {
            self.answer(who, op, does)
        }
        is_lost
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
        self.write(client, held, 0, What::Fence(u64::from(held)));
        self.write(client, held, acquire, What::Acquired);
        for other in 1..=REFUSED {
            self.refused(1 + (turn + other) % CLIENTS);
        }
        let take = self.begin(client, held, What::Take);
        let (read, left) = (self.history.texts.intern(&prize.to_string()), prize - 1);
        self.command(who, "GET", Does::on(pool, Touch::None, Answer::Text(read)));
        if self.command_may_be_lost(who, "DECR", Does::on(pool, Touch::None, Answer::Int(left))) {
            self.lose(who, take, |why| What::TakeUnknown { prize, why });
        } else {
            self.write(client, held, take, What::Taken { prize, left });
        }
        let release = self.begin(client, held, What::Release);
        let delete = Does::on(lock, Touch::Delete, Answer::Int(1));
        if self.command_may_be_lost(who, "EVALSHA", Does { compares: true, ..delete }) {
            self.lose(who, release, What::ReleaseUnknown);
        } else {
            let told = self.history.texts.intern("released");
            self.write(client, held, release, What::Released(told));
        }
    }

    fn refused(&mut self, client: u32) {
        let (number, acquire) = self.acquire(client);
        let who = (client, number);
        let nothing = Does { did: Touch::None, ..Does::on(self.lock, CREATE, Answer::Nil) };
        if self.command_may_be_lost(who, "SET", nothing) {
            // It makes sure that no key of its own stays.
            let delete = Does::on(self.lock, Touch::Delete, Answer::Int(0));
            self.command(who, "EVALSHA", Does { compares: true, did: Touch::None, ..delete });
            self.lose(who, acquire, What::AcquireUnknown);
        } else {
            let why = self.history.texts.intern("held by another");
            self.write(client, number, acquire, What::NotAcquired(why));
        }
    }
}

/// A history that is bad.
impl Tape {
    /// All clients ask, one of them is told yes, and the others no once it has the lock.
    fn round(&mut self, clients: u32, round: u32, is_harmed: bool) {
        let winner = 1 + round % clients;
        let get = Does::on(self.lock, CREATE, Answer::Ok);
        let not = Does { did: Touch::None, answer: Answer::Nil, ..get };
        let acquiring: Vec<(u32, u32, u32)> = (1..=clients)
            .map(|client| {
                let (number, acquire) = self.acquire(client);
                (client, number, acquire)
            })
            .collect();
        let asked: Vec<((u32, u32), u32, u32)> = acquiring
            .into_iter()
            .map(|(client, number, acquire)| {
                let who = (client, number);
                (who, acquire, self.send(who, "SET", get))
            })
            .collect();
        let (who, acquire, set) = asked[(winner - 1) as usize];
        self.answer(who, set, get);
        self.has_it(who, acquire);
        if is_harmed {
            self.harm(asked[(winner % clients) as usize]);
        }
        for (other, acquire, set) in asked {
            if other == who || is_harmed && other.0 == 1 + winner % clients {
                continue;
            }
            if self.is_lost() {
                self.lose(other, set, What::Unanswered);
                self.lose(other, acquire, What::AcquireUnknown);
            } else {
                self.answer(other, set, not);
                let why = self.history.texts.intern("held by another");
                self.write(other.0, other.1, acquire, What::NotAcquired(why));
            }
        }
        self.let_go(who, !is_harmed);
    }

    fn has_it(&mut self, (client, number): (u32, u32), acquire: u32) {
        let until_ns = self.at_ns + TTL_NS / 2;
        self.write(client, number, 0, What::ValidUntil(until_ns));
        self.write(client, number, acquire, What::Acquired);
    }

    fn let_go(&mut self, who: (u32, u32), is_there: bool) {
        let release = self.begin(who.0, who.1, What::Release);
        let delete = Does::on(self.lock, Touch::Delete, Answer::Int(1));
        let in_vain = Does { did: Touch::None, answer: Answer::Int(0), ..delete };
        self.command(who, "DEL", if is_there { delete } else { in_vain });
        let told = self.history.texts.intern(if is_there { "released" } else { "already expired" });
        self.write(who.0, who.1, release, What::Released(told));
    }

    /// A client deletes the key of whoever has the lock, and gets it itself.
    fn harm(&mut self, (who, acquire, set): ((u32, u32), u32, u32)) {
        self.command(who, "DEL", Does::on(self.lock, Touch::Delete, Answer::Int(1)));
        self.answer(who, set, Does::on(self.lock, CREATE, Answer::Ok));
        self.has_it(who, acquire);
        self.let_go(who, true);
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
    use checkers::check;
    use history::verdict::{Outcome, Verdict};
    use history::{History, Stage, Timeline, read, write};

    use super::*;

    #[test]
    fn every_checker_finds_it_held() {
        let history = history(1_000);
        assert_eq!(Timeline::of(&history).commands.len(), 1_000);
        for finding in check(&history, true) {
            // No work is given to the lock.
            let expected =
                if finding.name == "work-told" { Outcome::NotApplicable } else { Outcome::Held };
            assert_eq!(finding.verdict.outcome(), expected, "{}", finding.name);
        }
    }

    fn share(history: &History, stage: Stage) -> f64 {
        let of_stage = history.events.iter().filter(|event| event.what.stage() == stage);
        of_stage.count() as f64 / history.operations() as f64
    }

    #[test]
    fn as_much_is_unknown_as_was_asked_for_and_nobody_is_blamed_for_it() {
        for percent in [1, 10] {
            let history = operations(10_000, percent);
            assert!(history.operations() >= 10_000);
            let unknown = share(&history, Stage::Info) * 100.0;
            assert!((unknown - f64::from(percent)).abs() < 0.2, "{unknown} of {percent} %");
            for finding in check(&history, true) {
                assert_ne!(finding.verdict.outcome(), Outcome::Violated, "{finding:?}");
            }
        }
    }

    #[test]
    fn the_bad_one_is_found_bad_at_two_levels() {
        let history = bad(200, 10_000, 2);
        assert!(history.operations() >= 10_000);
        let unknown = share(&history, Stage::Info) * 100.0;
        assert!((unknown - 2.0).abs() < 0.2, "{unknown} %");
        let findings = check(&history, true);
        for name in ["ownership", "mutual-exclusion"] {
            let finding = findings.iter().find(|it| it.name == name).unwrap();
            let Verdict::Violated(witness) = &finding.verdict else { panic!("{finding:?}") };
            assert_eq!(witness.occurrences, 1, "{name}");
        }
    }

    #[test]
    fn all_of_them_are_histories() {
        for history in [history(1_000), operations(1_000, 10), bad(200, 10_000, 2)] {
            let mut bytes = Vec::new();
            write(&history, &mut bytes).unwrap();
            assert_eq!(read(&bytes[..]).unwrap().events.len(), history.events.len());
        }
    }
}
