//! What is held stays held when less is known of it: replies that are missing, or that came later.
//!
//! Invariant: each history is one that a client could have recorded of the same run.

use checkers::judge;
use history::verdict::{Finding, Level, Outcome};
use history::{Event, History, What};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use scenarios::catalog;
use scenarios::matrix::locks;
use scenarios::scenario::{Overrides, ScenarioFile};
use virtual_world::{Choices, Runner};

const SEED: u64 = 1;
/// Those with more take long, and show no more.
const CLIENTS_MOST: u32 = 20;

type Change = fn(&mut History, &mut Pcg64Mcg);

fn below(random: &mut Pcg64Mcg, most: usize) -> usize {
    usize::try_from(random.next_u32()).unwrap() % most
}

/// One reply in four never came.
fn drops_replies(history: &mut History, random: &mut Pcg64Mcg) {
    let why = history.texts.intern("reset");
    for event in &mut history.events {
        if matches!(event.what, What::Answered { .. }) && below(random, 4) == 0 {
            event.what = What::Unanswered(why);
        }
    }
}

/// Replies come later: just before their client does anything else at the latest.
fn delays_replies(history: &mut History, random: &mut Pcg64Mcg) {
    let events = &mut history.events;
    for place in (0..events.len()).rev() {
        let it = events[place];
        if !matches!(it.what, What::Answered { .. } | What::Refused(_) | What::Unanswered(_)) {
            continue;
        }
        let is_theirs = |other: &Event| [0, it.client].contains(&other.client);
        let later = events[place + 1..].iter().position(is_theirs).unwrap_or(0);
        if later > 0 {
            let to = place + below(random, later + 1);
            let at_ns = events[to].at_ns;
            events.remove(place);
            events.insert(to, Event { at_ns, ..it });
        }
    }
}

/// What is violated in these histories.
fn violated(history: &History, is_asked: fn(&Finding) -> bool) -> Vec<&'static str> {
    let found = judge(history, true).into_iter().filter(is_asked);
    let found = found.filter(|it| it.verdict.outcome() == Outcome::Violated);
    found.map(|it| it.name).collect()
}

/// What is violated once these histories are changed, of which nothing was before.
fn blamed(change: Change, is_asked: fn(&Finding) -> bool) -> Vec<String> {
    let (mut blamed, mut judged) = (Vec::new(), 0);
    for (name, text) in catalog::ALL {
        let written = ScenarioFile::read(name, "a.toml", text).unwrap();
        for (lock, searched) in locks().flat_map(|lock| [(lock, false), (lock, true)]) {
            let lock = Some(lock.to_owned());
            let overrides = Overrides { lock, searched, ..Overrides::default() };
            let Ok(scenario) = written.with(&overrides) else { continue };
            if scenario.clients > CLIENTS_MOST {
                continue;
            }
            let mut runner = Runner::new(&scenario).unwrap();
            runner.run(SEED, Choices::seeded(SEED));
            let mut history = runner.journal().history();
            history.head.exact = false;
            if violated(&history, is_asked).is_empty() {
                judged += 1;
                change(&mut history, &mut Pcg64Mcg::new(u128::from(SEED)));
                let found = violated(&history, is_asked);
                let recipe = &scenario.lock.recipe;
                let found = found.iter().map(|it| format!("{it}: {name}, {recipe}, {searched}"));
                blamed.extend(found);
            }
        }
    }
    assert!(judged > 1_000, "{judged} were held");
    blamed
}

/// What is true of a run, however much of it is known. Whoever has the lock by a reply that never came has told a lie, so *honesty*
/// is left out.
fn is_safety(finding: &Finding) -> bool {
    finding.level != Level::Progress && finding.name != "honesty"
}

#[test]
fn replies_that_are_missing_blame_nobody() {
    assert_eq!(blamed(drops_replies, is_safety), [""; 0]);
}

#[test]
fn replies_that_come_later_blame_nobody() {
    assert_eq!(blamed(delays_replies, |_| true), [""; 0]);
}
