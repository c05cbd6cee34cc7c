//! The prize pool: every prize is won once, and none is lost.
//!
//! Invariant: a take of unknown outcome may have been carried out or not, and no verdict depends on
//! which. The numbers are those that clients read and that the server answered; what a client meant
//! to do counts for nothing.

use std::collections::BTreeMap;

use super::{Case, story};
use crate::history::{Acquisition, TakeEnd};
use crate::verdict::{Finding, Level, Verdict, Witness, WitnessStep};

/// More winners of one prize are only counted.
const WINNERS_NAMED: usize = 5;

/// A prize that was surely won.
#[derive(Clone, Copy, Debug)]
struct Win {
    acquisition: u32,
    client: u32,
    prize: i64,
    left: i64,
    done_ns: u64,
}

/// What became of the pool.
struct Pool {
    prizes: i64,
    left: Option<(u64, i64)>,
    wins: Vec<Win>,
    /// Takes that may have been carried out.
    open: i64,
}

pub(super) fn check(case: &Case<'_>, prizes: i64) -> Vec<Finding> {
    let pool = Pool::of(case, prizes);
    let effect = |name, verdict| Finding { name, level: Level::Effect, verdict };
    vec![
        effect("distinct-prizes", distinct(case, &pool)),
        effect("prizes-in-order", in_order(case, &pool)),
        effect("pool-not-overdrawn", not_overdrawn(case, &pool)),
        effect("prizes-accounted-for", accounted_for(&pool)),
        Finding { name: "all-prizes-won", level: Level::Progress, verdict: all_won(case, &pool) },
    ]
}

impl Pool {
    fn of(case: &Case<'_>, prizes: i64) -> Self {
        let timeline = &case.timeline;
        let mut wins: Vec<Win> = timeline.acquisitions.iter().filter_map(win).collect();
        wins.sort_by_key(|win| win.done_ns);
        let is_open = |it: &&Acquisition| match it.taken {
            Some((_, TakeEnd::Info { .. })) => true,
            Some(_) => false,
            None => it.take_ns.is_some(),
        };
        let open = timeline.acquisitions.iter().filter(is_open).count();
        Self {
            prizes,
            left: timeline.pool_left,
            wins,
            open: i64::try_from(open).unwrap_or(i64::MAX),
        }
    }
}

fn win(it: &Acquisition) -> Option<Win> {
    match it.taken? {
        (done_ns, TakeEnd::Ok { prize, left }) => {
            Some(Win { acquisition: it.number, client: it.client, prize, left, done_ns })
        }
        _ => None,
    }
}

/// No two clients won the same prize.
fn distinct(case: &Case<'_>, pool: &Pool) -> Verdict {
    let mut winners: BTreeMap<i64, Vec<Win>> = BTreeMap::new();
    for win in &pool.wins {
        winners.entry(win.prize).or_default().push(*win);
    }
    let again: u64 = winners.values().map(|wins| wins.len() as u64 - 1).sum();
    // The earliest second winner of any prize.
    let first = winners.values().filter(|wins| wins.len() > 1).min_by_key(|wins| wins[1].done_ns);
    let Some(wins) = first else { return Verdict::Held };
    let mut names: Vec<String> =
        wins.iter().take(WINNERS_NAMED).map(|win| win.client.to_string()).collect();
    if wins.len() > WINNERS_NAMED {
        names.push(format!("{} more", wins.len() - WINNERS_NAMED));
    }
    let (prize, times) = (wins[0].prize, wins.len());
    let summary = format!("prize {prize} was won {times} times: by client {}", story::and(&names));
    let acquisitions = [wins[0].acquisition, wins[1].acquisition];
    Verdict::Violated(story::witness(case, summary, &acquisitions, again))
}

/// Nobody else took a prize between a winner's reading and its taking.
fn in_order(case: &Case<'_>, pool: &Pool) -> Verdict {
    let out = |win: &&Win| win.left != win.prize - 1;
    let Some(win) = pool.wins.iter().find(out) else { return Verdict::Held };
    let Win { client, prize, left, .. } = *win;
    let summary = format!(
        "client {client} read {prize} and took prize {prize}, but that left {left} instead of {}: \
         others took prizes in between",
        prize - 1
    );
    // Who came between: the one whose decrement left what this one should have left.
    let between = pool.wins.iter().find(|other| {
        other.acquisition != win.acquisition && other.left >= left && other.left < prize
    });
    let mut acquisitions = vec![win.acquisition];
    acquisitions.extend(between.map(|other| other.acquisition));
    let occurrences = pool.wins.iter().filter(out).count() as u64;
    Verdict::Violated(story::witness(case, summary, &acquisitions, occurrences))
}

/// The pool never went below zero.
fn not_overdrawn(case: &Case<'_>, pool: &Pool) -> Verdict {
    let below = |win: &&Win| win.left < 0;
    if let Some(win) = pool.wins.iter().find(below) {
        let summary =
            format!("client {} took a prize and left {} in the pool", win.client, win.left);
        let occurrences = pool.wins.iter().filter(below).count() as u64;
        return Verdict::Violated(story::witness(case, summary, &[win.acquisition], occurrences));
    }
    match pool.left {
        Some((at_ns, left)) if left < 0 => {
            at_end(at_ns, format!("the pool holds {left} in the end"))
        }
        Some(_) => Verdict::Held,
        None => Verdict::Inconclusive("the pool was not read in the end".to_owned()),
    }
}

/// What is gone from the pool was won.
fn accounted_for(pool: &Pool) -> Verdict {
    let Some((at_ns, left)) = pool.left else {
        return Verdict::Inconclusive("the pool was not read in the end".to_owned());
    };
    let gone = pool.prizes - left;
    let won = i64::try_from(pool.wins.len()).unwrap_or(i64::MAX);
    if gone < won {
        let text = format!("{won} clients won a prize, but only {gone} went from the pool");
        return at_end(at_ns, text);
    }
    if gone > won + pool.open {
        let unknown = match pool.open {
            0 => String::new(),
            open => format!(", and {open} that may have won"),
        };
        return at_end(
            at_ns,
            format!("{gone} prizes went from the pool, but only {won} were won{unknown}"),
        );
    }
    Verdict::Held
}

/// Every prize was won, as long as there were clients for it.
fn all_won(case: &Case<'_>, pool: &Pool) -> Verdict {
    let Some((at_ns, left)) = pool.left else {
        return Verdict::Inconclusive("the pool was not read in the end".to_owned());
    };
    let wanted = i64::from(case.history.head.clients).min(pool.prizes);
    let won = i64::try_from(pool.wins.len()).unwrap_or(i64::MAX);
    if won >= wanted {
        return Verdict::Held;
    }
    if case.timeline.faulted {
        let text =
            format!("{won} of {} prizes were won, but faults kept clients from it", pool.prizes);
        return Verdict::NotApplicable(text);
    }
    if won + pool.open >= wanted {
        let text = format!("{won} prizes were surely won and {} more may have been", pool.open);
        return Verdict::Inconclusive(text);
    }
    let clients = case.history.head.clients;
    at_end(
        at_ns,
        format!(
            "only {won} of {} prizes were won and {left} are left, though {clients} clients wanted \
             one: the others gave up before their turn came",
            pool.prizes
        ),
    )
}

fn at_end(at_ns: u64, summary: String) -> Verdict {
    let text = "the run reads the pool, after the last client".to_owned();
    let steps = vec![WitnessStep { at_ns, client: 0, text }];
    Verdict::Violated(Witness { summary, steps, occurrences: 1, ..Witness::default() })
}

#[cfg(test)]
mod tests;
