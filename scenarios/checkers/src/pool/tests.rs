//! The pool: good and bad histories by hand, and every interleaving of a few clients by force.

use history::Touch;
use history::verdict::Outcome;

use super::*;
use crate::testing::{CREATE, Tape};

const OF_THE_POOL: [&str; 5] = [
    "distinct-prizes",
    "prizes-in-order",
    "pool-not-overdrawn",
    "prizes-accounted-for",
    "all-prizes-won",
];

/// The outcomes, in the order of the findings.
fn outcomes(tape: &Tape) -> Vec<(&'static str, Outcome)> {
    let mut findings = tape.findings();
    findings.retain(|it| OF_THE_POOL.contains(&it.name));
    findings.into_iter().map(|it| (it.name, it.verdict.outcome())).collect()
}

/// The names of the invariants that are violated.
fn violated(tape: &Tape) -> Vec<&'static str> {
    let bad = outcomes(tape).into_iter().filter(|(_, outcome)| *outcome == Outcome::Violated);
    bad.map(|(name, _)| name).collect()
}

/// Ten clients win ten prizes, one after the other.
fn good() -> Tape {
    (1..=10).fold(Tape::new(), |tape, client| {
        let (at, prize) = (u64::from(client) * 100, 11 - i64::from(client));
        tape.take(client, at..at + 50, prize, prize - 1)
    })
}

#[test]
fn ten_prizes_for_ten_winners_is_how_it_should_be() {
    let held = outcomes(&good().pool_left(0));
    assert!(held.iter().all(|(_, outcome)| *outcome == Outcome::Held), "{held:?}");
}

#[test]
fn a_prize_won_twice_is_found_with_its_winners() {
    let tape = Tape::new().clients(2).take(1, 100..200, 10, 9).take(2, 150..250, 10, 8);
    let tape = tape.pool_left(8);
    assert_eq!(violated(&tape), ["distinct-prizes", "prizes-in-order"]);
    let witness = tape.witness("distinct-prizes");
    assert_eq!(witness.clients, [1, 2]);
    assert_eq!(witness.summary, "prize 10 was won 2 times: by client 1 and 2");
}

#[test]
fn a_take_without_an_answer_won_where_its_prize_is_gone() {
    let tape = Tape::new().with(|it| it.prizes = Some(10)).clients(2);
    let tape = tape.take(1, 100..200, 10, 9).take_unknown(2, 150..250, 10);
    assert_eq!(violated(&tape.clone().pool_left(8)), ["distinct-prizes"]);
    assert_eq!(violated(&tape.clone().pool_left(9)), [""; 0], "it may have taken nothing");
    let others = tape.begins(3, 300).pool_left(8);
    assert_eq!(violated(&others), [""; 0], "that may have been this one's");
}

#[test]
fn numbers_beyond_all_use_are_judged_like_others() {
    let least = Tape::new().clients(1).take(1, 100..200, i64::MIN, i64::MAX).pool_left(i64::MIN);
    assert!(violated(&least).contains(&"prizes-in-order"));
    let register = Tape::register().with(|it| it.register = Some(i64::MAX));
    assert_eq!(
        register.register_left(i64::MIN).outcome("updates-accounted-for"),
        Outcome::Violated
    );
}

#[test]
fn a_take_in_between_is_found_even_if_all_prizes_differ() {
    // Client 2 reads 9 after client 1 has taken 10; then 1 and 3 mix.
    let tape = Tape::new().clients(2).take(1, 100..200, 10, 8).take(2, 150..180, 9, 9);
    assert!(violated(&tape.pool_left(8)).contains(&"prizes-in-order"));
}

#[test]
fn an_overdrawn_pool_is_found() {
    let tape = good().take(11, 2_000..2_050, 1, -1).pool_left(-1);
    assert!(violated(&tape).contains(&"pool-not-overdrawn"));
    assert!(violated(&good().pool_left(-1)).contains(&"pool-not-overdrawn"));
}

#[test]
fn prizes_that_vanish_or_appear_are_found() {
    let three = || {
        let tape = Tape::new().clients(3).take(1, 100..150, 10, 9).take(2, 200..250, 9, 8);
        tape.take(3, 300..350, 8, 7)
    };
    assert_eq!(violated(&three().pool_left(7)), [""; 0]);
    assert_eq!(violated(&three().pool_left(6)), ["prizes-accounted-for"]);
    assert_eq!(violated(&three().pool_left(8)), ["prizes-accounted-for"]);
}

#[test]
fn a_take_of_unknown_outcome_may_or_may_not_have_been_carried_out() {
    let tape = || {
        let tape = Tape::new().clients(3).take(1, 100..150, 10, 9).take_unknown(2, 200..250, 9);
        tape.take(3, 300..350, 8, 7)
    };
    // It was carried out: three went, two were surely won.
    assert_eq!(violated(&tape().pool_left(7)), [""; 0]);
    let all_won = outcomes(&tape().pool_left(7))[4];
    assert_eq!(all_won, ("all-prizes-won", Outcome::Inconclusive));
    assert_eq!(violated(&tape().pool_left(6)), ["prizes-accounted-for",]);
    // It was not: the next client reads the same number, and that is no second winner.
    let not = Tape::new().clients(2).take_unknown(1, 100..150, 10).take(2, 200..250, 10, 9);
    assert_eq!(violated(&not.pool_left(9)), [""; 0]);
}

/// Of two clients the first wins a prize and has the lock until 155; the other does something else.
fn one(other: impl FnOnce(Tape) -> Tape) -> Tape {
    other(Tape::new().clients(2).take(1, 100..150, 10, 9)).pool_left(9)
}

/// A client looks at the lock's key once within this span, in vain.
fn refused(tape: Tape, client: u32, span: std::ops::Range<u64>) -> Tape {
    let whole = span.start - 1..span.end + 1;
    tape.refused(client, client, whole).command(client, span, CREATE, Some(Touch::None))
}

fn all_won(tape: &Tape) -> Verdict {
    tape.finding("all-prizes-won")
}

#[test]
fn too_few_winners_are_a_violation_only_where_somebody_was_refused_a_free_lock() {
    let late = one(|tape| refused(tape, 2, 160..170));
    assert_eq!(violated(&late), ["all-prizes-won"]);
    let found = late.witness("all-prizes-won");
    assert_eq!((found.clients, found.occurrences), (vec![2], 1));
    let summary = "only 1 of 10 prizes were won and 9 are left: client 2 was refused the lock, though \
                   nobody had had it for 16 ns";
    assert_eq!(found.summary, summary);
    let alone = Tape::new().clients(1).take(1, 100..150, 10, 9).pool_left(9);
    assert_eq!(all_won(&alone), Verdict::Held, "there was no client for more");
}

#[test]
fn who_runs_out_of_retries_while_others_have_the_lock_says_nothing_of_it() {
    let Verdict::NotApplicable(why) = all_won(&one(|tape| refused(tape, 2, 120..130))) else {
        panic!()
    };
    let said = "only 1 of 10 prizes were won and 9 are left: of 2 clients 1 ran out of retries while others \
                had the lock, which says nothing of the lock; allow more with --set lock.retries";
    assert_eq!(why, said);
}

#[test]
fn what_kept_clients_from_asking_leaves_it_open() {
    let open = |other: fn(Tape) -> Tape| match all_won(&one(other)) {
        Verdict::Inconclusive(why) => why.rsplit(" 2 clients ").next().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(open(|tape| tape), "not all asked");
    assert_eq!(open(|tape| tape.not_sent(2, 160..170)), "1 could not ask for it");
    let error = |tape: Tape| tape.refused(2, 2, 160..170).refused_command(2, 161..165, CREATE);
    assert_eq!(open(error), "1 could not ask for it", "it was answered with an error");
    let unknown = "1 do not know whether they got it";
    assert_eq!(open(|tape| tape.unknown(2, 2, 160..170)), unknown);
    let both = open(|tape| refused(tape.unknown(3, 3, 160..170), 2, 120..130));
    assert_eq!(both, format!("1 ran out of retries while others had the lock and {unknown}"));
    assert_eq!(open(|tape| tape.take_nothing(2, 200..250)), "1 had it and took nothing");
}

#[test]
fn without_a_look_at_the_end_nothing_is_claimed_of_it() {
    for (name, outcome) in outcomes(&good()) {
        let of_the_end = ["pool-not-overdrawn", "prizes-accounted-for", "all-prizes-won"];
        let expected =
            if of_the_end.contains(&name) { Outcome::Inconclusive } else { Outcome::Held };
        assert_eq!(outcome, expected, "{name}");
    }
}

#[test]
fn a_pool_that_was_read_before_the_last_take_says_nothing_of_the_end() {
    // It is read at 1,000,000.
    let took = |end_ns| Tape::new().take(1, 100..end_ns, 10, 9).pool_left(10);
    assert_eq!(took(1_000_000).outcome("prizes-accounted-for"), Outcome::Violated);
    assert_eq!(took(1_000_001).outcome("prizes-accounted-for"), Outcome::Inconclusive);
}

#[test]
fn a_late_write_is_no_excuse_for_refusals() {
    let refused = refused(one(|tape| tape), 2, 600..700);
    let late = refused.valid(3, 90, 200).phase(3, 180, picklock::env::Phase::HoldBeforeWrite);
    let late = late.clients(4).take(3, 100..300, 9, 8).timely_writes();
    assert_eq!(late.outcome("all-prizes-won"), Outcome::Violated);
}

#[test]
fn the_earliest_second_winner_is_told_and_all_are_counted() {
    let tape = Tape::new().take(1, 100..110, 5, 4).take(2, 120..130, 7, 6).take(3, 140..150, 7, 6);
    let tape = tape.take(4, 160..170, 5, 4).take(5, 180..190, 5, 4).take(6, 195..200, 3, 2);
    let found = tape.witness("distinct-prizes");
    assert_eq!(found.summary, "prize 7 was won 2 times: by client 2 and 3");
    assert_eq!((found.acquisitions, found.occurrences), (vec![2, 3], 3));
}

#[test]
fn five_winners_are_named_and_more_are_counted() {
    let summary = |winners: u32| {
        let win = |tape: Tape, client: u32| {
            tape.take(client, u64::from(client) * 10..u64::from(client) * 10 + 5, 9, 8)
        };
        (1..=winners).fold(Tape::new(), win).witness("distinct-prizes").summary
    };
    assert!(summary(5).ends_with("by client 1, 2, 3, 4 and 5"), "{}", summary(5));
    assert!(summary(7).ends_with("by client 1, 2, 3, 4, 5 and 2 more"), "{}", summary(7));
}

#[test]
fn who_took_in_between_is_told() {
    // Client 1 read 10 and left 7; 2 came before it, 4 behind it, and 3 in between.
    let tape = || {
        let tape = Tape::new().take(2, 100..110, 11, 10).take(4, 120..130, 7, 6);
        tape.take(1, 105..140, 10, 7).take(3, 141..150, 9, 8).take(5, 160..170, 6, 3)
    };
    let found = tape().witness("prizes-in-order");
    assert_eq!((found.acquisitions, found.occurrences), (vec![1, 3], 2));
}

#[test]
fn an_overdrawn_pool_is_told_once_and_counted() {
    let tape = Tape::new().take(1, 100..110, 0, -1).take(2, 120..130, -1, -2);
    let found = tape.witness("pool-not-overdrawn");
    assert_eq!(found.summary, "client 1 took a prize and left -1 in the pool");
    assert_eq!((found.acquisitions, found.occurrences), (vec![1], 2));
    let found = good().pool_left(-1).witness("pool-not-overdrawn");
    assert_eq!(found.summary, "the pool holds -1 in the end");
    assert_eq!((found.steps[0].at_ns, found.steps.len(), found.occurrences), (1_000_000, 1, 1));
}

#[test]
fn a_client_that_took_nothing_is_not_unknown() {
    let tape = || Tape::new().clients(2).take(1, 100..150, 10, 9).take_nothing(2, 200..250);
    assert_eq!(violated(&tape().pool_left(9)), [""; 0]);
    assert_eq!(violated(&tape().pool_left(8)), ["prizes-accounted-for"]);
}

#[test]
fn where_a_fault_struck_nobody_must_win_everything() {
    let tape = Tape::new().clients(2).take(1, 100..150, 10, 9).pool_left(9).crash(2, 50);
    assert_eq!(outcomes(&tape)[4], ("all-prizes-won", Outcome::NotApplicable));
}

/// Every interleaving of three clients that each read and take: the checker finds harm exactly where
/// the clients did not go one after the other.
#[test]
fn every_interleaving_of_three_clients_is_judged_as_brute_force_does() {
    let mut judged = (0, 0);
    for order in orders([2, 2, 2]) {
        let (mut pool, mut read, mut tape) = (10_i64, [None; 3], Tape::new().clients(3));
        let mut began = [0_u64; 3];
        for (at_ns, &client) in (1_u64..).map(|step| step * 100).zip(&order) {
            if let Some(prize) = read[client] {
                pool -= 1;
                let number = u32::try_from(client).unwrap() + 1;
                tape = tape.take(number, began[client]..at_ns, prize, pool);
            } else {
                (read[client], began[client]) = (Some(pool), at_ns);
            }
        }
        let one_by_one = order.chunks(2).all(|pair| pair[0] == pair[1]);
        assert_eq!(violated(&tape.pool_left(pool)).is_empty(), one_by_one, "{order:?}");
        judged = if one_by_one { (judged.0 + 1, judged.1) } else { (judged.0, judged.1 + 1) };
    }
    assert_eq!(judged, (6, 84));
}

/// Every order in which three clients can take so many steps each.
fn orders(left: [usize; 3]) -> Vec<Vec<usize>> {
    if left == [0; 3] {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for client in 0..3 {
        let mut rest = left;
        if rest[client] == 0 {
            continue;
        }
        rest[client] -= 1;
        for mut order in orders(rest) {
            order.insert(0, client);
            all.push(order);
        }
    }
    all
}
