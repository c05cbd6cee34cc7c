//! Lines in which people stay, and lines in which they are overtaken; and what excuses it.

use std::ops::Range;

use history::fault::Fault;
use history::verdict::Outcome::{Held, NotApplicable, Violated};
use history::verdict::{Outcome, Verdict, Witness};
use history::{Intent, Touch};
use picklock::env::Phase;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

use super::SOON_PART;
use crate::testing::{CREATE, Tape};

/// A request that lines up, and one that leaves and hands on.
const JOIN: Intent = CREATE;
const LEAVE: Intent = Intent { touch: Touch::Unknown, compares: true };

/// A client that wants the lock from the start of the span to its end, when it gets it: its first command
/// is sent then, and it is in line from that time on.
fn waits(tape: Tape, client: u32, span: Range<u64>, sends_ns: u64, in_line_ns: u64) -> Tape {
    let tape = tape.waited(client, client, span).did(client, sends_ns..sends_ns + 1, CREATE);
    tape.phase(client, in_line_ns, Phase::Wait)
}

/// Client 1 is in line from 100 on and gets the lock at 500.
fn first() -> Tape {
    waits(Tape::new(), 1, 50..500, 60, 100)
}

fn outcome(tape: Tape) -> Outcome {
    tape.with(|it| it.fair_within = Some(0)).outcome("fairness")
}

fn witness(tape: Tape, within: u32) -> Witness {
    tape.with(|it| it.fair_within = Some(within)).witness("fairness")
}

#[test]
fn who_comes_behind_one_in_line_has_to_wait() {
    assert_eq!(outcome(waits(first(), 2, 80..600, 101, 110)), Held);
    assert_eq!(outcome(waits(first(), 2, 80..400, 101, 110)), Violated);
    let three = waits(waits(first(), 2, 80..600, 101, 110), 3, 80..700, 121, 130);
    assert_eq!(outcome(three), Held);
    let took = first().waited(2, 2, 200..300).did(2, 201..290, CREATE);
    assert_eq!(outcome(took), Violated, "nor may it take the lock without lining up");
}

#[test]
fn who_may_have_been_there_before_has_overtaken_nobody() {
    let came_first = waits(first(), 2, 80..400, 99, 110);
    assert_eq!(outcome(came_first), NotApplicable, "1 was not sure to be in line");
    let nowhere = first().waited(2, 2, 200..300);
    assert_eq!(outcome(nowhere), NotApplicable, "it sent nothing that we know of");
    let to_resource = waits(first().to(5, "register"), 2, 200..300, 201, 210);
    assert_eq!(outcome(to_resource.resource(5)), NotApplicable, "nor to the lock");
    assert_eq!(outcome(first()), NotApplicable, "alone");
    let at_once = first().waited(2, 2, 40..90).did(2, 45..46, CREATE);
    assert_eq!(outcome(at_once), NotApplicable, "2 never was in line");
    assert_eq!(outcome(waits(first(), 2, 80..600, 101, 110).refused(3, 3, 200..300)), Held);
}

#[test]
fn no_more_may_overtake_than_the_recipe_claims() {
    let two = waits(waits(first(), 2, 150..300, 160, 170), 3, 150..400, 160, 170);
    assert_eq!(two.clone().with(|it| it.fair_within = Some(2)).outcome("fairness"), Held);
    let told = witness(two, 1);
    assert_eq!((told.occurrences, told.clients), (1, vec![1, 2]));
    let says = "client 1 was in line before client 2 and 1 more came, and they got the lock before it: \
                the recipe claims that no more than 1 do";
    assert_eq!(told.summary, says);
    let one = witness(waits(first(), 2, 80..400, 101, 110), 0).summary;
    assert!(one.starts_with("client 1 was in line before client 2 came, and"), "{one}");
}

#[test]
fn the_first_is_told_and_all_are_counted() {
    let tape = waits(waits(first(), 3, 60..490, 70, 120), 2, 200..300, 210, 220);
    let told = witness(tape, 0);
    assert_eq!((told.occurrences, told.clients), (2, vec![3, 2]));
}

#[test]
fn who_lines_up_anew_has_its_new_place() {
    let anew = |at_ns| waits(first(), 2, 80..400, 101, 110).phase(1, at_ns, Phase::Wait);
    assert_eq!(outcome(anew(102)), NotApplicable, "behind 2 now");
    assert_eq!(outcome(anew(450)), NotApplicable, "it knew so when it had been overtaken");
    let asks = waits(first(), 2, 80..400, 101, 110).phase(1, 450, Phase::AcquireBeforeSend);
    assert_eq!(outcome(asks), NotApplicable, "it is granted the lock without lining up again");
    let other = waits(first(), 2, 80..400, 101, 110).phase(1, 102, Phase::AcquireApplied);
    assert_eq!(outcome(other), Violated, "any other phase changes nothing");
}

#[test]
fn nobody_is_put_out_of_a_line_in_which_nothing_has_gone_wrong() {
    let calm = |tape: Tape| outcome(tape.with(|it| it.exact = true));
    let anew = || {
        let out = first().phase(1, 102, Phase::AcquireBeforeSend).phase(1, 115, Phase::Wait);
        waits(out, 2, 80..400, 104, 110)
    };
    assert_eq!(calm(anew()), Violated);
    assert_eq!(outcome(anew()), NotApplicable, "a real machine may have stood still");
    let by_itself = anew().with(|it| it.gives_up_ns = Some(50));
    assert_eq!(calm(by_itself), NotApplicable, "it may have given up");
    for fault in [Fault::Pause, Fault::Delay, Fault::Refuse] {
        assert_eq!(calm(anew().struck(fault, 3, 101)), NotApplicable, "{fault:?}");
    }
    assert_eq!(calm(anew().struck(Fault::Delay, 3, 450)), Violated, "it came later");
    let answered = |took_ns: u64| {
        let tape = anew().with(|it| it.ttl_ns = 50 * SOON_PART).waited(4, 4, 0..99);
        calm(tape.command(4, 1..1 + took_ns, CREATE, Some(Touch::None)))
    };
    assert_eq!((answered(50), answered(51)), (Violated, NotApplicable));
    assert_eq!(calm(waits(first(), 2, 80..600, 101, 110)), Held);
}

#[test]
fn who_does_not_get_it_was_not_overtaken() {
    let gave_up = |end| {
        let tape = Tape::new().did(1, 60..61, CREATE).phase(1, 100, Phase::Wait);
        waits(
            if end { tape.refused(1, 1, 50..500) } else { tape.unknown(1, 1, 50..500) },
            2,
            150..300,
            160,
            170,
        )
    };
    let behind = |tape: Tape| tape.did(2, 160..161, CREATE);
    assert_eq!(outcome(behind(first().refused(2, 2, 150..300))), NotApplicable, "nor behind");
    assert_eq!(outcome(behind(first().unknown(2, 2, 150..300))), NotApplicable);
    assert_eq!(outcome(gave_up(true)), NotApplicable);
    assert_eq!(outcome(gave_up(false)), NotApplicable);
}

#[test]
fn a_client_that_was_struck_shows_nothing_from_then_on() {
    let overtaken = || waits(first(), 2, 80..400, 101, 110);
    assert_eq!(outcome(overtaken().struck(Fault::Pause, 1, 350)), NotApplicable);
    assert_eq!(outcome(overtaken().struck(Fault::Pause, 1, 10)), NotApplicable, "also later");
    assert_eq!(
        outcome(overtaken().struck(Fault::Pause, 2, 350)),
        Violated,
        "who was struck counts"
    );
    assert_eq!(outcome(overtaken().struck(Fault::Pause, 1, 501)), Violated, "it was over");
    assert_eq!(outcome(overtaken().struck(Fault::Pause, 1, 450)), NotApplicable, "too late");
    assert_eq!(outcome(overtaken().struck(Fault::Crash, 1, 350)), NotApplicable);
    let twice = overtaken().struck(Fault::Reset, 1, 20).struck(Fault::Reset, 1, 30);
    assert_eq!(outcome(twice), NotApplicable);
}

#[test]
fn what_strikes_nobody_in_particular_excuses_whoever_was_there_while_it_lasted() {
    let at = |span| waits(first(), 2, 80..400, 101, 110).struck_for(Fault::Failover, 0, span);
    assert_eq!(outcome(at(200..201)), NotApplicable);
    assert_eq!(outcome(at(20..50)), NotApplicable, "1 came when it was just not over");
    assert_eq!(outcome(at(20..49)), Violated);
    assert_eq!(outcome(at(501..900)), Violated, "1 had it");
    let two = at(20..60).struck_for(Fault::Delay, 0, 30..31);
    assert_eq!(outcome(two), NotApplicable, "the longer one counts");
    let drifts = waits(first(), 2, 80..400, 101, 110).struck_for(Fault::Drift, 0, 0..0);
    assert_eq!(outcome(drifts), NotApplicable, "clocks go on drifting");
}

#[test]
fn the_dead_are_forgotten() {
    // Nobody else can be behind somebody who is dead.
    let tape = Tape::new().did(2, 160..161, CREATE).phase(2, 170, Phase::Wait);
    let tape = tape.acquires(2, 150).crash(2, 180);
    let tape = waits(tape, 1, 50..500, 60, 100);
    assert_eq!(outcome(tape), NotApplicable);
    let others = waits(first(), 2, 80..600, 101, 110).acquires(3, 120).crash(3, 130);
    assert_eq!(outcome(others), Held, "and nobody else is");
}

#[test]
fn nothing_is_said_where_nothing_is_claimed() {
    let tape = waits(first(), 2, 80..400, 101, 110);
    assert!(tape.findings().iter().all(|it| it.name != "fairness"));
}

/// A client at the server: when it lined up there, when it got the lock, and its number.
#[derive(Clone, Copy, Debug)]
struct Served {
    lined_up_ns: u64,
    granted_ns: u64,
    client: u32,
}

/// A number within the range.
fn any(draw: &mut Pcg64Mcg, range: Range<u64>) -> u64 {
    range.start + draw.next_u64() % (range.end - range.start)
}

/// Six clients whose messages travel for any time, and a server that hands the lock to any of the first
/// so many in its line.
fn served(draw: &mut Pcg64Mcg, first: usize) -> (Tape, Vec<Served>) {
    let (mut tape, mut served) = (Tape::new(), Vec::new());
    let mut coming: Vec<(u64, u64, u32)> = (1..=6)
        .map(|client| {
            let asks_ns = any(draw, 0..300);
            (asks_ns + any(draw, 2..60), asks_ns, client)
        })
        .collect();
    coming.sort_unstable();
    let mut free_ns = 0;
    while let Some((earliest_ns, ..)) = coming.first() {
        let now_ns = free_ns.max(*earliest_ns);
        let line = coming.partition_point(|(lined_up_ns, ..)| *lined_up_ns <= now_ns);
        let place = usize::try_from(any(draw, 0..line.min(first) as u64)).unwrap();
        let (lined_up_ns, asks_ns, client) = coming.remove(place);
        let told_ns = lined_up_ns + any(draw, 1..60);
        let has_ns = told_ns.max(now_ns + any(draw, 1..60)) + 1;
        tape = tape.waited(client, client, asks_ns..has_ns).did(client, asks_ns..told_ns, CREATE);
        if now_ns > lined_up_ns {
            tape = tape.phase(client, told_ns, Phase::Wait);
        }
        served.push(Served { lined_up_ns, granted_ns: now_ns, client });
        free_ns = has_ns + any(draw, 1..40);
    }
    (tape, served)
}

#[test]
fn a_server_that_keeps_its_line_is_never_blamed_and_one_that_does_not_is_for_good_reasons() {
    let mut blamed = 0;
    for seed in 0..2_000 {
        let mut draw = Pcg64Mcg::seed_from_u64(seed);
        let (tape, _) = served(&mut draw, 1);
        assert_ne!(outcome(tape), Violated, "seed {seed}");
        let (tape, served) = served(&mut draw, 3);
        let verdict = tape.with(|it| it.fair_within = Some(0)).finding("fairness");
        let Verdict::Violated(witness) = verdict else { continue };
        blamed += 1;
        let [one, other] = [0, 1].map(|which| {
            *served.iter().find(|it| it.client == witness.clients[which]).expect("a client")
        });
        assert!(one.lined_up_ns < other.lined_up_ns, "seed {seed}: {one:?} {other:?}");
        assert!(other.granted_ns < one.granted_ns, "seed {seed}: {one:?} {other:?}");
    }
    assert!(blamed > 400, "{blamed}");
}

/// Client 1 waits from 100 on, and asks from 150 to 160 what it is answered so; it leaves, is answered with this
/// number, and lines up again at 190. Client 2 comes between and gets the lock before it.
fn leaves(look: Option<Touch>, stood: i64) -> Tape {
    let tape = waits(Tape::new(), 1, 50..500, 60, 100).command(1, 150..160, CREATE, look);
    let tape = tape.answered(1, 161..170, LEAVE, Touch::Unknown, stood);
    let tape = tape.phase(1, 175, Phase::AcquireBeforeSend).did(1, 176..185, JOIN);
    waits(tape.phase(1, 190, Phase::Wait), 2, 120..400, 121, 130)
}

#[test]
fn who_leaves_by_itself_has_had_its_place() {
    assert_eq!(outcome(leaves(None, 2)), Violated);
    assert_eq!(outcome(leaves(Some(Touch::None), 2)), Violated);
    assert_eq!(outcome(leaves(None, 1)), NotApplicable, "it had the lock, and too late");
    assert_eq!(outcome(leaves(None, -1)), NotApplicable, "it had no place any more");
    let earlier = leaves(None, 2).command(1, 70..80, CREATE, None);
    assert_eq!(outcome(earlier), NotApplicable, "that may be an earlier place");
    let gives_up = leaves(None, 2).with(|it| it.gives_up_ns = Some(60));
    assert_eq!(outcome(gives_up), NotApplicable, "its user wants it no more");
    let again = leaves(None, 2).phase(1, 450, Phase::Wait);
    assert_eq!(outcome(again), NotApplicable, "and lost it afterwards");
    let anew = waits(Tape::new(), 1, 50..500, 60, 100).phase(1, 165, Phase::AcquireBeforeSend);
    let anew = anew.answered(1, 161..170, LEAVE, Touch::Unknown, 2).phase(1, 190, Phase::Wait);
    let overtaken = waits(anew, 2, 195..400, 200, 210);
    assert_eq!(outcome(overtaken), Violated, "it asked anew before it knew, and is in line again");
}

#[test]
fn a_message_that_is_lost_costs_nobody_its_place() {
    let overtaken = || waits(first(), 2, 80..400, 101, 110);
    for fault in [Fault::LoseRequest, Fault::LoseReply, Fault::Delay, Fault::Refuse] {
        assert_eq!(outcome(overtaken().struck(fault, 1, 150)), Violated, "{fault:?}");
        let anew = overtaken().struck(fault, 1, 150).phase(1, 450, Phase::Wait);
        assert_eq!(outcome(anew), NotApplicable, "{fault:?}");
    }
}
