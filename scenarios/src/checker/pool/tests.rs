//! The pool: good and bad histories by hand, and every interleaving of a few clients by force.

use super::*;
use crate::checker::testing::Tape;
use crate::verdict::Outcome;

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
    let Verdict::Violated(witness) = tape.finding("distinct-prizes") else { panic!() };
    assert_eq!(witness.clients, [1, 2]);
    assert_eq!(witness.summary, "prize 10 was won 2 times: by client 1 and 2");
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

#[test]
fn too_few_winners_are_found_only_where_there_were_clients_for_more() {
    let one = |clients| Tape::new().clients(clients).take(1, 100..150, 10, 9).pool_left(9);
    assert_eq!(violated(&one(1)), [""; 0]);
    assert_eq!(violated(&one(2)), ["all-prizes-won"]);
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
