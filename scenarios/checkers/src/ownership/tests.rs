//! Ownership: by hand at every boundary, and against a server that knows the truth.

use history::Intent;
use history::fault::Fault;
use proptest::prelude::*;

use super::*;
use crate::random::config;
use crate::testing::{CREATE, DELETE, LOCK, TTL_NS, Tape};

mod ends;
mod rare;

const PLAIN_DELETE: Intent = Intent { touch: Touch::Delete, compares: false };
const EXTEND: Intent = Intent { touch: Touch::Extend(TTL_NS), compares: true };

fn violated(tape: &Tape) -> bool {
    match tape.finding("ownership") {
        Verdict::Held => false,
        Verdict::Violated(_) => true,
        other => panic!("{other:?}"),
    }
}

/// Acquisition 1 creates the key: sent at 100, answered at 110.
fn created() -> Tape {
    Tape::new().did(1, 100..110, CREATE)
}

#[test]
fn a_release_of_its_own_is_fine_and_anothers_is_not() {
    assert!(!violated(&created().did(1, 200..210, DELETE)));
    assert!(violated(&created().did(2, 200..210, DELETE)));
    assert!(violated(&created().did(2, 200..210, PLAIN_DELETE)));
    let overwrite = Intent { touch: Touch::Overwrite(None), compares: false };
    assert!(violated(&created().did(2, 200..210, overwrite)));
    assert!(violated(&created().did(2, 200..210, EXTEND)));
}

#[test]
fn a_command_is_blamed_only_where_it_was_surely_within_the_hold() {
    assert!(violated(&created().did(2, 111..120, DELETE)));
    let sent_first = Tape::new().did(2, 110..120, DELETE).did(1, 100..110, CREATE);
    assert!(!violated(&sent_first), "perhaps before the creation");
    assert!(violated(&created().did(2, 110..120, DELETE)), "sent on a later line than the answer");
    let end = 100 + TTL_NS;
    assert!(violated(&created().did(2, end - 10..end, DELETE)));
    assert!(violated(&created().did(2, end - 10..end + 1, DELETE)), "nobody else had made a key");
    // It may have had a key of its own, from when the first may have expired.
    let its_own =
        |tape: Tape, done| tape.command(2, 150..160, CREATE, None).did(2, 900..done, DELETE);
    assert!(violated(&its_own(created(), end - 1)));
    assert!(!violated(&its_own(created(), end)), "perhaps after the expiry");
    assert!(violated(&its_own(created().margin(7), end - 8)));
    assert!(!violated(&its_own(created().margin(7), end - 7)), "within the margin of the clock");
}

/// A false alarm with `single`: client 2 deletes its own key as soon as it has made it. What client 1 had held was removed by
/// something that the history does not have.
#[test]
fn what_is_sent_in_the_nanosecond_of_an_answer_comes_behind_it() {
    let made = created().did(2, 200..210, CREATE);
    assert!(!violated(&made.clone().did(2, 210..220, DELETE)));
    assert!(!violated(&made.did(2, 211..220, DELETE)));
    // Two answers of one moment are in the order of their lines, too.
    let both =
        Tape::new().did(2, 90..110, CREATE).did(2, 110..130, DELETE).did(1, 100..110, CREATE);
    assert!(!violated(&both));
}

#[test]
fn a_key_of_the_same_name_on_the_resources_server_is_not_the_locks() {
    let writes = |node| created().resource(1).to(node, LOCK).did(2, 150..160, TAKE_OVER);
    assert!(violated(&writes(0)));
    assert!(!violated(&writes(1)));
}

/// A false alarm of `server-errors` with `queue`, seed 18608.
#[test]
fn a_hand_over_without_an_answer_may_have_made_the_key_anothers() {
    let hand_over = Intent { touch: Touch::Unknown, compares: true };
    let looked = |tape: Tape| tape.did(2, 205..220, EXTEND);
    assert!(!violated(&looked(created().command(1, 200..215, hand_over, None))));
    assert!(violated(&looked(created().command(1, 200..215, hand_over, Some(Touch::None)))));
    assert!(
        violated(&looked(created().command(1, 200..215, DELETE, None))),
        "a deletion hands nothing on"
    );
}

#[test]
fn a_command_that_did_nothing_is_fine() {
    assert!(!violated(&created().command(2, 200..210, DELETE, Some(Touch::None))));
    assert!(!violated(&created().command(2, 200..210, CREATE, Some(Touch::None))));
}

#[test]
fn what_is_unknown_excuses() {
    // The holder's own release has no answer: its hold may have ended from its sending on.
    let open = || created().command(1, 200..300, DELETE, None);
    let its_own = |tape: Tape| tape.command(2, 120..130, CREATE, None);
    assert!(!violated(&its_own(open()).did(2, 250..260, DELETE)));
    assert!(violated(&open().did(2, 250..260, DELETE)), "what else should it have deleted?");
    assert!(violated(&its_own(open()).did(2, 150..199, DELETE)), "before the release was sent");
    // Another's delete has no answer: it was that one, or this one.
    let foreign = || created().command(3, 200..300, PLAIN_DELETE, None);
    assert!(violated(&its_own(foreign()).did(2, 250..260, DELETE)));
    assert!(!violated(&its_own(foreign())), "but nobody knows whether there was harm at all");
    assert!(violated(&foreign().did(2, 250..260, CREATE)), "now they do");
    // A command that nobody understands may have done anything.
    let unknown = Intent { touch: Touch::Unknown, compares: false };
    assert!(!violated(&created().did(3, 200..210, unknown).did(2, 250..260, DELETE)));
}

#[test]
fn a_key_lost_with_its_server_is_nobodys_violation() {
    for fault in [Fault::Failover, Fault::PowerLoss, Fault::ServerCrash] {
        let lost = |span| created().server_lost(fault, 0, span);
        assert!(!violated(&lost(200..300).did(2, 350..360, PLAIN_DELETE)), "whatever it deleted");
        assert!(!violated(&lost(200..300).did(2, 190..201, DELETE)), "perhaps after the loss");
        assert!(violated(&lost(200..300).did(2, 190..199, DELETE)), "surely before it");
        let elsewhere = created().server_lost(fault, 1, 200..300);
        assert!(violated(&elsewhere.did(2, 350..360, DELETE)), "another server's loss");
        let before = Tape::new().server_lost(fault, 0, 10..99).did(1, 100..110, CREATE);
        assert!(violated(&before.did(2, 350..360, DELETE)), "a hold that began afterwards");
        let within = Tape::new().server_lost(fault, 0, 10..100).did(1, 100..110, CREATE);
        assert!(!violated(&within.did(2, 350..360, DELETE)), "perhaps granted by who was replaced");
        let renewed = lost(200..300).did(1, 400..410, EXTEND);
        assert!(!violated(&renewed.did(2, 500..510, DELETE)), "no certainty comes back");
    }
    let step = created().server_lost(Fault::ClockStep, 0, 200..300);
    assert!(violated(&step.did(2, 350..360, DELETE)), "a fault by which nothing is lost");
}

#[test]
fn a_new_incarnation_ends_the_old_without_blame() {
    // The key went by itself and acquisition 2 has it now: its release is its own.
    let tape = created().did(2, 300..310, CREATE).did(2, 400..410, DELETE);
    assert!(!violated(&tape));
    let tape = created().did(2, 300..310, CREATE).did(1, 400..410, DELETE);
    assert!(violated(&tape), "now the first is the stranger");
}

#[test]
fn a_renewal_moves_the_end() {
    let renewed = || created().did(1, 600..610, EXTEND);
    let end = 600 + TTL_NS;
    assert!(violated(&renewed().did(2, end - 10..end, DELETE)));
    let its_own = |done| renewed().command(2, 150..160, CREATE, None).did(2, 900..done, DELETE);
    assert!(violated(&its_own(end - 1)));
    assert!(!violated(&its_own(end)));
    let shorter = Intent { touch: Touch::Extend(50), compares: true };
    let shortened = || created().did(1, 600..610, shorter);
    let its_own = shortened().command(2, 150..160, CREATE, None);
    assert!(!violated(&its_own.did(2, 700..710, DELETE)), "its own doing");
}

#[test]
fn a_key_without_ttl_is_held_until_it_is_released() {
    let for_ever = Intent { touch: Touch::Create(None), compares: false };
    let tape = |span| Tape::new().did(1, 100..110, for_ever).did(2, span, PLAIN_DELETE);
    assert!(violated(&tape(9_000_000..9_000_010)));
}

#[test]
fn the_witness_names_both_and_is_the_earliest() {
    let tape = Tape::new()
        .hold(1, 1, 110..900)
        .did(1, 100..110, CREATE)
        .hold(2, 2, 20..30)
        .did(2, 400..410, DELETE)
        .did(3, 500..510, CREATE)
        .did(4, 600..610, DELETE);
    let witness = tape.witness("ownership");
    assert_eq!((witness.acquisitions.as_slice(), witness.occurrences), (&[1, 2][..], 2));
    assert!(witness.summary.contains("client 2 deleted"), "{}", witness.summary);
}

/// What an acquisition asks of the server.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Create,
    CompareDelete,
    PlainDelete,
    CompareExtend,
    Overwrite,
    /// The same, and to be told what was there.
    GetSet,
    /// No command: the server is replaced by one that has what there was some changes ago.
    Replaced,
}

/// A command as it was carried out: by whom, how long after the one before, how long it took to get
/// there and back, and whether its answer was lost.
#[derive(Clone, Copy, Debug)]
struct Step {
    ask: Ask,
    acquisition: u32,
    after_ns: u64,
    there_ns: u64,
    back_ns: u64,
    lost: bool,
}

fn any_ask() -> impl Strategy<Value = Ask> {
    prop_oneof![7 => creating_ask(), 1 => overwriting_ask(), 2 => Just(Ask::Replaced)]
}

fn overwriting_ask() -> impl Strategy<Value = Ask> {
    prop_oneof![Just(Ask::Overwrite), Just(Ask::GetSet)]
}

/// Those that sound locks use, and one that they do not.
fn creating_ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        3 => Just(Ask::Create),
        2 => Just(Ask::CompareDelete),
        1 => Just(Ask::PlainDelete),
        1 => Just(Ask::CompareExtend),
    ]
}

fn steps(
    ask: impl Strategy<Value = Ask>,
    latency_ns: u64,
    may_lose: bool,
) -> impl Strategy<Value = Vec<Step>> {
    let after_ns = prop_oneof![1..TTL_NS, 1..TTL_NS / 8];
    let step = (ask, 1..5_u32, after_ns, 0..=latency_ns, 0..=latency_ns, 0..8_u8);
    let step = step.prop_map(move |(ask, acquisition, after_ns, there_ns, back_ns, lost)| Step {
        ask,
        acquisition,
        after_ns,
        there_ns,
        back_ns,
        lost: may_lose && lost == 0,
    });
    prop::collection::vec(step, 1..14)
}

/// The key as the server has it.
#[derive(Clone, Copy, Debug, Default)]
struct Key {
    /// Whose command made this incarnation.
    owner: u32,
    /// Whose value it holds.
    value: u32,
    /// Which command wrote it.
    by: u32,
    until_ns: u64,
}

/// Carries the steps out on a server that knows everything. Returns the history that clients saw
/// of it, and whose hold was harmed by which command.
fn carry_out(steps: &[Step]) -> (Tape, Vec<(u32, u32)>) {
    let (mut now_ns, mut key, mut harms, mut op) = (10_000, None::<Key>, Vec::new(), 0);
    let mut past = vec![None];
    let mut tape = Tape::new();
    for step in steps {
        now_ns += step.after_ns;
        key = key.filter(|key| now_ns < key.until_ns);
        if matches!(step.ask, Ask::Replaced) {
            // What comes back is nobody's rightful hold any more.
            let place = past.len().saturating_sub(1 + step.acquisition as usize);
            key = past[place].map(|key| Key { owner: 0, ..key });
            tape = tape.server_lost(Fault::Failover, 0, now_ns..now_ns);
            continue;
        }
        op += 1;
        let mine = key.is_some_and(|key| key.value == step.acquisition);
        let until_ns = now_ns + TTL_NS;
        let owner = step.acquisition;
        let (intent, done) = match step.ask {
            Ask::Create => (CREATE, key.is_none()),
            Ask::CompareDelete => (DELETE, mine),
            Ask::PlainDelete => (PLAIN_DELETE, key.is_some()),
            Ask::CompareExtend => (EXTEND, mine),
            Ask::GetSet if key.is_none() => (CREATE, true),
            Ask::Overwrite | Ask::GetSet => {
                let touch = Touch::Overwrite(Some(TTL_NS));
                (Intent { touch, compares: false }, true)
            }
            Ask::Replaced => unreachable!("it is no command"),
        };
        let stranger = key.filter(|key| ![0, step.acquisition].contains(&key.owner));
        harms.extend(stranger.filter(|_| done).map(|key| (key.owner, op)));
        let shown = key.filter(|_| matches!(step.ask, Ask::GetSet)).map_or(0, |key| key.by);
        if done {
            key = match (step.ask, key) {
                (Ask::Create | Ask::Overwrite | Ask::GetSet, _) => {
                    Some(Key { owner, value: owner, by: op, until_ns })
                }
                (Ask::CompareDelete | Ask::PlainDelete, _) => None,
                (Ask::CompareExtend, key) => key.map(|key| Key { until_ns, ..key }),
                (Ask::Replaced, key) => key,
            };
            past.push(key);
        }
        let answer = if done { intent.touch } else { Touch::None };
        let span = now_ns - step.there_ns..now_ns + step.back_ns;
        let asked = match step.ask {
            Ask::GetSet => Intent { touch: Touch::Overwrite(Some(TTL_NS)), compares: false },
            _ => intent,
        };
        tape = tape.command(step.acquisition, span, asked, (!step.lost).then_some(answer));
        tape = tape.found(op, shown);
    }
    (tape, harms)
}

/// Each command that may have done the first harm, the likeliest first.
fn blamed(tape: &Tape) -> Vec<u32> {
    let mut checker = Ownership::new(&tape.history().head);
    tape.show_to(&mut checker);
    let harms = checker.by_server().into_iter().filter_map(|known| judged(&known).unwrap());
    harms.flat_map(|harm| harm.blames).map(|blame| blame.culprit.number).collect()
}

proptest! {
    #![proptest_config(config())]

    /// Whatever is late or lost: who is blamed did it.
    #[test]
    fn no_false_alarm(
        steps in prop_oneof![steps(any_ask(), 2 * TTL_NS, true), steps(any_ask(), 0, false)],
    ) {
        let (tape, harms) = carry_out(&steps);
        // Where servers are all that happened, there is nothing to be said.
        if let Verdict::Violated(witness) = tape.finding("ownership") {
            let blamed = blamed(&tape);
            let did_it = blamed.iter().any(|it| harms.iter().any(|(_, did)| did == it));
            prop_assert!(did_it, "{steps:?} {witness:?} {blamed:?} {harms:?}");
            prop_assert!(blamed.starts_with(&witness.accused), "{witness:?} {blamed:?}");
        }
    }

    /// Where nothing is late or lost, the checker says what the server knows.
    #[test]
    fn no_harm_is_missed_where_nothing_is_unknown(
        steps in steps(prop_oneof![7 => creating_ask(), 1 => overwriting_ask()], 0, false),
    ) {
        let (tape, harms) = carry_out(&steps);
        prop_assert_eq!(violated(&tape), !harms.is_empty(), "{:?}", steps);
        if let Verdict::Violated(witness) = tape.finding("ownership") {
            prop_assert_eq!(witness.accused, [harms[0].1], "the first: {:?}", steps);
        }
    }
}

/// Two take over what 1 left behind, at once: which of them came first is shown by what they found.
#[test]
fn of_two_that_overwrite_at_once_the_one_that_found_the_others_value_is_accused() {
    let end = 100 + TTL_NS;
    let tape = || {
        let orphan = created().stamped();
        orphan.did(2, end + 10..end + 30, TAKE_OVER).did(3, end + 10..end + 30, TAKE_OVER)
    };
    let accused = |tape: &Tape| {
        let witness = tape.witness("ownership");
        (witness.accused, witness.clients, witness.summary)
    };
    let (ops, clients, summary) = accused(&tape().found(2, 1).found(3, 2));
    assert_eq!((ops, clients), (vec![3], vec![2, 3]), "{summary}");
    let (ops, clients, summary) = accused(&tape().found(2, 3).found(3, 1));
    assert_eq!((ops, clients), (vec![2], vec![3, 2]), "{summary}");
    let (ops, _, summary) = accused(&tape());
    assert!(ops.len() == 2 && summary.ends_with("no answer says which"), "{summary}");
    // One shows as much as both.
    assert_eq!(accused(&tape().found(3, 2)).0, [3]);
    assert_eq!(accused(&tape().found(2, 1)).0, [3]);
}

/// A deletion without an answer may have come first, and then the overwrite found nothing.
#[test]
fn who_overwrites_behind_a_deletion_without_an_answer_is_not_accused_alone() {
    let overwrite = Intent { touch: Touch::Overwrite(Some(TTL_NS)), compares: false };
    let overwritten = |tape: Tape| tape.did(1, 300..310, overwrite).witness("ownership").accused;
    let held = || Tape::new().did(2, 100..110, overwrite);
    let deleted = |acquisition| held().command(acquisition, 200..210, PLAIN_DELETE, None);
    let mut accused = overwritten(deleted(3));
    accused.sort_unstable();
    assert_eq!(accused, [2, 3]);
    assert_eq!(overwritten(held()), [2]);
    let answered = held().command(3, 200..210, PLAIN_DELETE, Some(Touch::None));
    assert_eq!(overwritten(answered), [3], "it surely deleted nothing");
}

/// Of its own two commands either did it, and the deletion may have met what the other had written.
#[test]
fn who_deletes_behind_its_own_overwrite_without_an_answer_is_accused_of_either() {
    let overwrite = Intent { touch: Touch::Overwrite(Some(TTL_NS)), compares: false };
    let deleted = |tape: Tape| {
        let mut accused = tape.did(4, 300..310, PLAIN_DELETE).witness("ownership").accused;
        accused.sort_unstable();
        accused
    };
    assert_eq!(deleted(created().command(4, 200..210, overwrite, None)), [2, 3]);
    assert_eq!(deleted(created().command(4, 200..210, overwrite, Some(Touch::None))), [3]);
}

#[test]
fn the_harm_that_was_first_is_told_though_only_the_search_can_tell() {
    // Acquisition 3 asks for the key before 1 deletes what is 2's, and is answered behind that.
    let tape = Tape::new().did(2, 100..110, CREATE).did(3, 150..250, CREATE);
    let tape = tape.did(1, 200..210, PLAIN_DELETE);
    let tape = tape.did(4, 300..310, PLAIN_DELETE);
    let witness = tape.witness("ownership");
    assert_eq!((witness.clients, witness.accused), (vec![2, 1], vec![3]), "{}", witness.summary);
    assert_eq!(witness.occurrences, 2);
    assert_eq!(witness.story.last().map(|it| &*it.text), Some("deletes the key of client 2"));
}

#[test]
fn a_value_that_is_still_there_has_not_expired() {
    let late = |tape: Tape| tape.did(2, TTL_NS + 50..TTL_NS + 150, TAKE_OVER);
    assert!(!violated(&late(created())), "it may have been over");
    assert!(violated(&late(created()).found(2, 1)), "it was there");
    assert!(!violated(&late(created()).found(2, 9)), "of what is not known nothing follows");
}

/// A value that is found was written before, though its writer was answered later.
#[test]
fn whose_value_was_found_had_the_key() {
    let taken = |found| {
        // It expires at once.
        let over = Intent { touch: Touch::Overwrite(Some(0)), ..TAKE_OVER };
        let tape = Tape::new().did(1, 100..200, CREATE).did(2, 150..180, over);
        violated(&tape.found(2, found))
    };
    assert!(taken(1));
    assert!(!taken(0), "it may have come first");
}

/// A client that takes a lock over, or puts its own time into it.
const TAKE_OVER: Intent = Intent { touch: Touch::Overwrite(Some(TTL_NS)), compares: false };
