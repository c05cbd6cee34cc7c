//! Random histories, for tests that compare a checker with a naive reference.
//!
//! Invariant: an acquisition ends once, and so does an operation; the dead do nothing; and no two events have the same time.

use history::fault::Fault;
use history::verdict::Verdict;
use history::{Answer, Event, History, Intent, Touch, What};
use picklock::env::Phase;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::interface::{Checker, LockCommands};
use super::testing::{LOCK, Tape};

/// What happens, to whom, how much later than what was before, and a number that decides the rest.
pub(super) type Step = (u8, u8, u64, u16);

/// So many acquisitions are under way at once at most, each client having two of them.
const SLOTS: u8 = 4;
const FAULTS: [Fault; 8] = [
    Fault::Pause,
    Fault::Crash,
    Fault::Reset,
    Fault::LoseReply,
    Fault::Partition,
    Fault::Drift,
    Fault::ClockStep,
    Fault::Failover,
];

/// The same 20,000 histories in every run. `PROPTEST_CASES` asks for more, and `PROPTEST_RNG_SEED` for others.
pub(super) fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let rng_seed = match asked.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        fixed => fixed,
    };
    ProptestConfig { cases: asked.cases.max(20_000), rng_seed, ..asked }
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    steps_of(SLOTS)
}

/// Steps of so many acquisitions at a time: the fewer, the more happens to each.
pub(super) fn steps_of(slots: u8) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((any::<u8>(), 0..slots, 1..20_u64, 0..1_000_u16), 0..60)
}

/// A client's acquisition, and what it has under way.
#[derive(Clone, Default)]
struct Slot {
    acquisition: u32,
    acquire: u32,
    has: bool,
    release: u32,
    /// It has ended, and only sends commands from now on.
    over: bool,
    /// Their acquisitions, operations and intents.
    commands: Vec<(u32, u32, Intent)>,
}

/// The history in which these steps are taken one after the other, with the head of this tape.
pub(super) fn history(tape: &Tape, steps: &[Step]) -> History {
    let mut history = tape.history();
    let nodes = history.head.nodes.unwrap_or(1);
    let mut slots = vec![Slot::default(); usize::from(SLOTS)];
    let (mut at_ns, mut acquisitions, mut ops) = (0, 0, 0);
    for &(what, place, later_ns, number) in steps {
        at_ns += later_ns;
        let (client, place) = (u32::from(place / 2) + 1, usize::from(place));
        let it = &mut slots[place];
        let why = history.texts.intern("held by another");
        let note = |it: &Slot, what| (it.acquisition, 0, what);
        let mut begins = |op: &mut u32| {
            ops += 1;
            *op = ops;
            ops
        };
        let (acquisition, op, what) = match what % 64 {
            63 => {
                let fault = FAULTS[usize::from(number) % FAULTS.len()];
                let of_server = matches!(fault, Fault::Failover | Fault::ClockStep);
                let all = fault != Fault::Crash && (of_server || number >= 800);
                let what = What::Fault {
                    fault,
                    node: None,
                    for_ns: u64::from(number / 8),
                    in_hold: false,
                    staged: None,
                };
                if fault == Fault::Crash {
                    slots[place / 2 * 2..][..2].fill(Slot::default());
                }
                let client = if all { 0 } else { client };
                history.events.push(Event { at_ns, client, acquisition: 0, op: 0, what });
                continue;
            }
            0..14 if !it.commands.is_empty() => {
                let (acquisition, op, intent) =
                    it.commands.remove(usize::from(number) % it.commands.len());
                let answered = |touch| What::Answered { touch, answer: Answer::Nil, found: 0 };
                let end = match number / 8 % 8 {
                    0..4 => answered(intent.touch),
                    4 | 5 => answered(Touch::None),
                    6 => What::Refused(
                        history.texts.intern(["OOM", "NOPERM"][usize::from(number / 64 % 2)]),
                    ),
                    _ => What::Unanswered(why),
                };
                (acquisition, op, end)
            }
            kind if it.acquisition == 0 || it.over && !(14..30).contains(&kind) => {
                acquisitions += 1;
                (it.acquisition, it.has, it.over) = (acquisitions, false, false);
                (acquisitions, begins(&mut it.acquire), What::Acquire)
            }
            14..30 => {
                let life_ns = u64::from(number / 8);
                let touch = match number % 8 {
                    0..3 => Touch::Create(Some(life_ns)),
                    3 => Touch::Overwrite(Some(life_ns)),
                    4 | 5 => Touch::Delete,
                    6 => Touch::Extend(life_ns),
                    _ => Touch::Unknown,
                };
                let (mut op, node) = (0, number / 8 % nodes);
                let (name, key) = (history.texts.intern("CMD"), history.texts.intern(LOCK));
                let intent = Intent { touch, compares: number / 64 % 4 > 0 };
                begins(&mut op);
                it.commands.push((it.acquisition, op, intent));
                (it.acquisition, op, What::Command { node, name, key, intent })
            }
            30..36 => note(it, What::Phase(Phase::AcquireBeforeSend)),
            36..44 => note(it, What::ValidUntil(at_ns + u64::from(number / 8))),
            44..46 => note(it, What::Lost),
            46..50 if !it.has => {
                it.has = true;
                (it.acquisition, it.acquire, What::Acquired)
            }
            50..52 if !it.has => {
                let no =
                    ["held by another", "not sent: no connection"][usize::from(number / 2 % 2)];
                let no = What::NotAcquired(history.texts.intern(no));
                let end = [no, What::AcquireUnknown(why)][usize::from(number % 2)];
                it.over = true;
                (it.acquisition, it.acquire, end)
            }
            46..52 if it.release == 0 => (it.acquisition, begins(&mut it.release), What::Release),
            46..52 => {
                it.over = true;
                (it.acquisition, std::mem::take(&mut it.release), What::Released(why))
            }
            _ => note(it, What::Phase(Phase::Wait)),
        };
        history.events.push(Event { at_ns, client, acquisition, op, what });
    }
    history
}

/// Shows all of it to one checker; what it finds.
pub(super) fn verdict(history: &History, checker: &mut dyn Checker) -> Verdict {
    let mut commands = LockCommands::new(&history.head);
    history.events.iter().for_each(|it| checker.see(&commands.next(it, &history.texts)));
    checker.finish(&commands.end(&history.texts)).remove(0).verdict
}

/// How often one checker blames somebody.
pub(super) fn blamed(history: &History, checker: &mut dyn Checker) -> usize {
    match verdict(history, checker) {
        Verdict::Violated(witness) => usize::try_from(witness.occurrences).expect("a count"),
        _ => 0,
    }
}

/// How many acquisitions of a history are as asked for.
pub(super) fn count(history: &History, is: impl Fn(u32) -> bool) -> usize {
    let last = history.events.iter().map(|it| it.acquisition).max().unwrap_or(0);
    (1..=last).filter(|it| is(*it)).count()
}
