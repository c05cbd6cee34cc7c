//! The prize pool: every prize is won once, and none is lost.
//!
//! Invariant: a take of unknown outcome may have been carried out or not, and no verdict depends on
//! which. The numbers are those that clients read and that the server answered; what a client meant
//! to do counts for nothing. That prizes are left is held against a lock only where somebody was refused
//! it though surely nobody had it: a client that runs out of retries, or cannot ask, shows nothing.

use std::collections::BTreeMap;

use durations::span::rounded;
use history::verdict::{Finding, Level, Verdict, Witness};
use history::{Event, Head, What};

use super::interface::{Checker, EventView, HistoryEnd};
use super::late_write;
use super::refusal::Refusals;
use super::story;

pub(super) const ALL_WON: &str = "all-prizes-won";

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

impl Win {
    fn who(&self) -> (u32, u32) {
        (self.acquisition, self.client)
    }
}

/// What becomes of the pool.
#[derive(Clone, Default)]
struct Pool {
    prizes: i64,
    left: Option<(u64, i64)>,
    /// A take was still under way when it was read in the end, and has won since.
    went_on: bool,
    /// In the order in which they were known.
    wins: Vec<Win>,
    /// Takes that ended without an answer, as if they had been carried out.
    unknown: Vec<Win>,
    /// Takes that may have been carried out.
    open: i64,
    /// Takes that surely took nothing.
    empty_takes: u64,
    refusals: Refusals,
    /// Whether any fault struck.
    faulted: bool,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let prizes = head.prizes?;
    Some(late_write::excusing(head, Pool { prizes, ..Pool::default() }))
}

impl Checker for Pool {
    fn see(&mut self, seen: &EventView<'_>) {
        let event = seen.event;
        self.refusals.see(seen);
        match event.what {
            What::Fault { .. } => self.faulted = true,
            What::Take => self.open += 1,
            What::NotTaken(_) => {
                (self.open, self.empty_takes) = (self.open - 1, self.empty_takes + 1)
            }
            What::Taken { prize, left } => {
                self.open -= 1;
                self.went_on |= self.left.is_some();
                self.wins.push(win(event, prize, left));
            }
            What::TakeUnknown { prize, .. } => {
                self.unknown.push(win(event, prize, prize.saturating_sub(1)));
            }
            What::PoolLeft(left) => self.left = Some((event.at_ns, left)),
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        let effect = |name, verdict| Finding::new(name, Level::Effect, verdict);
        vec![
            effect("distinct-prizes", distinct(self)),
            effect("prizes-in-order", in_order(self)),
            effect("pool-not-overdrawn", not_overdrawn(self)),
            effect("prizes-accounted-for", accounted_for(self)),
            Finding::new(ALL_WON, Level::Progress, all_won(self, end)),
        ]
    }
}

fn win(event: &Event, prize: i64, left: i64) -> Win {
    let Event { acquisition, client, at_ns: done_ns, .. } = *event;
    Win { acquisition, client, prize, left, done_ns }
}

impl Pool {
    /// How many prizes are gone in the end, if it was read then.
    fn gone(&self) -> Option<i64> {
        self.left.map(|(_, left)| self.prizes.saturating_sub(left))
    }

    /// Those who surely won a prize: also who had no answer, where no prize can be gone otherwise.
    fn surely_won(&self) -> impl Iterator<Item = &Win> {
        let won = i64::try_from(self.wins.len()).unwrap_or(i64::MAX);
        let all = self.gone() == Some(won.saturating_add(self.open));
        self.wins.iter().chain(self.unknown.iter().filter(move |_| all))
    }
}

/// No two clients won the same prize.
fn distinct(pool: &Pool) -> Verdict {
    let mut winners: BTreeMap<i64, Vec<Win>> = BTreeMap::new();
    for win in pool.surely_won() {
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
    let of = [wins[0].who(), wins[1].who()];
    Verdict::Violated(Witness { occurrences: again, ..story::witness(summary, &of) })
}

/// Nobody else took a prize between a winner's reading and its taking.
fn in_order(pool: &Pool) -> Verdict {
    let out = |win: &&Win| Some(win.left) != win.prize.checked_sub(1);
    let Some(win) = pool.wins.iter().find(out) else { return Verdict::Held };
    let Win { client, prize, left, .. } = *win;
    let summary = format!(
        "client {client} read {prize} and took prize {prize}, but that left {left} instead of {}: \
         others took prizes in between",
        prize.saturating_sub(1)
    );
    // Who came between: the one whose decrement left what this one should have left.
    let between = pool.wins.iter().find(|other| {
        other.acquisition != win.acquisition && other.left >= left && other.left < prize
    });
    let mut of = vec![win.who()];
    of.extend(between.map(Win::who));
    let occurrences = pool.wins.iter().filter(out).count() as u64;
    Verdict::Violated(Witness { occurrences, ..story::witness(summary, &of) })
}

/// The pool never went below zero.
fn not_overdrawn(pool: &Pool) -> Verdict {
    let below = |win: &&Win| win.left < 0;
    if let Some(win) = pool.wins.iter().find(below) {
        let summary =
            format!("client {} took a prize and left {} in the pool", win.client, win.left);
        let occurrences = pool.wins.iter().filter(below).count() as u64;
        return Verdict::Violated(Witness { occurrences, ..story::witness(summary, &[win.who()]) });
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
    let (Some((at_ns, _)), Some(gone)) = (pool.left, pool.gone()) else {
        return Verdict::Inconclusive("the pool was not read in the end".to_owned());
    };
    let won = i64::try_from(pool.wins.len()).unwrap_or(i64::MAX);
    if gone < won && pool.went_on {
        let early = "the pool was read in the end, and clients went on to take prizes";
        return Verdict::Inconclusive(early.to_owned());
    }
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

/// Every prize was won, as long as there were clients for it that went on asking.
fn all_won(pool: &Pool, end: &HistoryEnd<'_>) -> Verdict {
    let head = end.head;
    let Some((_, left)) = pool.left else {
        return Verdict::Inconclusive("the pool was not read in the end".to_owned());
    };
    let wanted = i64::from(head.clients).min(pool.prizes);
    let won = i64::try_from(pool.wins.len()).unwrap_or(i64::MAX);
    if won >= wanted {
        return Verdict::Held;
    }
    if pool.faulted {
        let text =
            format!("{won} of {} prizes were won, but faults kept clients from it", pool.prizes);
        return Verdict::NotApplicable(text);
    }
    if won + pool.open >= wanted {
        let text = format!("{won} prizes were surely won and {} more may have been", pool.open);
        return Verdict::Inconclusive(text);
    }
    let short = format!("only {won} of {} prizes were won and {left} are left", pool.prizes);
    let refusals = &pool.refusals;
    if let Some((blamed, occurrences)) = refusals.blamed(end) {
        let summary = format!(
            "{short}: client {} was refused the lock, though nobody had had it for {}",
            blamed.client,
            rounded(blamed.refused_ns - blamed.free_ns)
        );
        let told = story::witness(summary, &[(blamed.acquisition, blamed.client)]);
        return Verdict::Violated(Witness { occurrences, ..told });
    }
    let of = |many: u64, what: &str| (many > 0).then(|| format!("{many} {what}"));
    let gave_up = of(refusals.gave_up, "ran out of retries while others had the lock");
    let unclear: Vec<String> = [
        of(refusals.unknown, "do not know whether they got it"),
        of(refusals.unsent, "could not ask for it"),
        of(pool.empty_takes, "had it and took nothing"),
    ]
    .into_iter()
    .flatten()
    .collect();
    match gave_up {
        Some(gave_up) if unclear.is_empty() => Verdict::NotApplicable(format!(
            "{short}: of {} clients {gave_up}, which says nothing of the lock; allow more with --set \
             lock.retries",
            head.clients
        )),
        gave_up => {
            let all: Vec<String> = gave_up.into_iter().chain(unclear).collect();
            let why = if all.is_empty() { "not all asked".to_owned() } else { story::and(&all) };
            Verdict::Inconclusive(format!("{short}: of {} clients {why}", head.clients))
        }
    }
}

fn at_end(at_ns: u64, summary: String) -> Verdict {
    story::seen_by_run(at_ns, summary, "reads the pool, after the last client".to_owned())
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
