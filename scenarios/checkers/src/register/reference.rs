//! What becomes of a register that clients read and write at random, as the register knows it.
//!
//! Invariant: whatever is blamed has happened; and all that has happened is blamed, where every update was answered before the
//! register was read in the end, and so nothing is ambiguous. (Where an update was lost, or something is ambiguous, a token has to
//! be found stale only where a greater one had been answered with yes before its update began; and a refusal is blamed only where
//! no greater token is under way.)

use history::verdict::Outcome;
use history::words::STALE;
use history::{Event, History, Update, What};
use proptest::prelude::*;

use crate::agreement::{agree, blames, said};
use crate::random::{Step, steps_of};
use crate::testing::Tape;

/// What a register does with a token that is less than the greatest so far, and with one that is as great.
#[derive(Clone, Copy, Debug)]
struct Gate {
    refuses_less: bool,
    refuses_equal: bool,
}

/// An update under way.
#[derive(Clone, Copy, Default)]
struct Writer {
    acquisition: u32,
    op: u32,
    token: u64,
    /// The greatest token of all that had been told by then that they had written.
    told: Option<u64>,
    read: Option<i64>,
    /// Whether the register took it.
    done: Option<bool>,
    /// Its client has given it up.
    given_up: bool,
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
struct Harm {
    lost: bool,
    stale: bool,
    surely_stale: bool,
    wrongly_refused: bool,
    written: i64,
    /// Something is not known in the end.
    ambiguous: bool,
}

struct World {
    gate: Gate,
    history: History,
    harm: Harm,
    writers: [Writer; 4],
    value: i64,
    greatest: Option<u64>,
    told: Option<u64>,
    ops: u32,
    at_ns: u64,
}

impl World {
    fn new(gate: Gate) -> Self {
        let (history, harm, writers) =
            (Tape::fenced().history(), Harm::default(), Default::default());
        let (greatest, told) = (None, None);
        Self { gate, history, harm, writers, value: 0, greatest, told, ops: 0, at_ns: 0 }
    }

    fn notes(&mut self, client: u32, acquisition: u32, op: u32, what: What) {
        self.at_ns += 1;
        let at_ns = self.at_ns;
        self.history.events.push(Event { at_ns, client, acquisition, op, what });
    }

    /// The register is sent what this one has read, and one more.
    fn writes(&mut self, it: &mut Writer, read: i64) {
        let Gate { refuses_less, refuses_equal } = self.gate;
        let (less, equal) = (Some(it.token) < self.greatest, Some(it.token) == self.greatest);
        let refused = less && refuses_less || equal && refuses_equal;
        self.harm.wrongly_refused |= refused && !less;
        it.done = Some(!refused);
        if refused {
            return;
        }
        self.harm.stale |= less;
        self.harm.lost |= read != self.value;
        (self.value, self.greatest) = (read + 1, self.greatest.max(Some(it.token)));
        self.harm.written += 1;
    }

    fn step(&mut self, place: usize, number: u16) {
        let mut it = std::mem::take(&mut self.writers[place]);
        let client = u32::try_from(place).unwrap() + 1;
        let why = self.history.texts.intern("reset");
        match (it.read, it.done) {
            _ if it.op == 0 => {
                self.ops += 1;
                let token = u64::from(self.ops / 2 + u32::from(number % 3));
                let (acquisition, told) = (self.ops, self.told);
                it = Writer { acquisition, op: self.ops, token, told, ..it };
                self.notes(client, it.acquisition, 0, What::Fence(it.token));
                self.notes(client, it.acquisition, it.op, What::Update);
            }
            (None, _) => it.read = Some(self.value),
            (Some(read), None) if number.is_multiple_of(16) && !it.given_up => {
                let update = Update { read, written: read + 1, token: Some(it.token) };
                self.notes(client, it.acquisition, it.op, What::UpdateUnknown { update, why });
                (it.given_up, self.harm.ambiguous) = (true, true);
            }
            (Some(_), None) if number % 16 == 1 && it.given_up => it = Writer::default(),
            (Some(read), None) => self.writes(&mut it, read),
            (Some(_), Some(_)) if it.given_up => it = Writer::default(),
            (Some(read), Some(done)) => {
                let update = Update { read, written: read + 1, token: Some(it.token) };
                let stale = self.history.texts.intern(STALE);
                let what = match done {
                    _ if number % 16 == 2 => What::UpdateUnknown { update, why },
                    true => What::Updated(update),
                    false => What::NotUpdated(stale),
                };
                self.harm.ambiguous |= matches!(what, What::UpdateUnknown { .. });
                if matches!(what, What::Updated(_)) {
                    self.harm.surely_stale |= Some(it.token) < it.told;
                    self.told = self.told.max(Some(it.token));
                }
                self.notes(client, it.acquisition, it.op, what);
                it = Writer::default();
            }
        }
        self.writers[place] = it;
    }
}

/// The clients go on as these steps say, and the register is read in the end.
fn world(gate: Gate, steps: &[Step], settled: bool) -> (History, i64, Harm) {
    let mut world = World::new(gate);
    steps.iter().for_each(|&(_, place, _, number)| world.step(place.into(), number));
    for place in 0..world.writers.len() {
        while settled && world.writers[place].op > 0 {
            world.step(place, 3);
        }
        world.harm.ambiguous |= world.writers[place].op > 0;
    }
    let value = world.value;
    world.notes(0, 0, 0, What::RegisterLeft(value));
    (world.history, value, world.harm)
}

#[test]
fn what_is_blamed_has_happened() {
    for name in ["no-lost-update", "updates-accounted-for", "no-stale-write", "no-wrong-refusal"] {
        agree(name, 50, (steps_of(4), any::<[bool; 3]>()), |(steps, [settled, less, equal])| {
            let gate = Gate { refuses_less: less, refuses_equal: equal };
            let (history, value, harm) = world(gate, &steps, settled);
            let clear = !harm.ambiguous;
            let (happened, surely) = match name {
                "no-lost-update" => (harm.lost, clear),
                "updates-accounted-for" => (value != harm.written, clear),
                "no-stale-write" => (harm.stale, clear && !harm.lost || harm.surely_stale),
                _ => (harm.wrongly_refused, false),
            };
            let said = said(&history, name);
            let is_right = happened && !surely || happened == (said.0 == Outcome::Violated);
            let expected = if is_right { said } else { blames(usize::from(happened), true) };
            (history, expected)
        });
    }
}
