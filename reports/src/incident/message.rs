//! Which commands are drawn as messages, and in which words.
//!
//! Invariant: what harmed somebody, every message that was lost or late, and the release that failed for good are drawn. What
//! changed nothing, and renewals that repeat each other, are left out, which a note says.

use std::collections::BTreeSet;

use history::{Answer, Touch, What};

use super::facts::{IncidentFacts, text};
use super::layout::{IncidentMessage, LaneOwner};
use crate::format::counted;
use history::exchange::{Delivery, Exchange, ExchangeEnd};
use history::tenure::KeyTenure;
use history::words::NOT_SENT;

/// More are left out, which a note says.
const MESSAGES_MOST: usize = 24;
/// An error that only asks for the script to be sent once more.
const NO_SCRIPT: &str = "NOSCRIPT";

/// The messages of an incident to these lanes of the key, in the order of their sending.
pub(super) fn messages(
    facts: &IncidentFacts<'_>,
    keys: &[LaneOwner],
    notes: &mut Vec<String>,
) -> Vec<IncidentMessage> {
    let mut ends: BTreeSet<u32> = BTreeSet::new();
    for tenure in &facts.tenures {
        ends.extend(tenure.end.op().filter(|_| facts.shows(tenure.until_ns)));
        if facts.shows(tenure.from_ns) {
            ends.insert(tenure.op);
        }
    }
    let mut chosen: Vec<(u8, &Exchange, LaneOwner)> = Vec::new();
    let mut left_out = 0;
    for it in facts.exchanges.iter().filter(|it| facts.is_of_lock(it)) {
        let owner =
            if keys.len() > 1 { LaneOwner::Key(Some(it.node)) } else { LaneOwner::Key(None) };
        let concerns = facts.acquisitions.contains(&it.acquisition) || ends.contains(&it.op);
        let is_drawn = keys.contains(&owner) && facts.clients.contains(&it.client);
        let is_told = facts.accused.contains(&it.op) || it.request == Delivery::Late;
        let is_shown =
            facts.shows(it.sent_ns) && (facts.shows(it.done_ns) || is_told) && it.acquisition > 0;
        if !is_drawn || !is_shown || !(concerns || facts.accused.contains(&it.op)) {
            continue;
        }
        let rank = match rank(facts, it, &ends) {
            Some(rank) => rank,
            None => continue,
        };
        // That a client asks again and again, its lane shows. One that asks once and then sleeps relied on the answer.
        if rank == NOTHING || rank == TRY && tries(facts, it) > 1 {
            left_out += 1;
            continue;
        }
        chosen.push((rank, it, owner));
    }
    let renewals = chosen.iter().filter(|it| it.0 == RENEWAL).count();
    if renewals > RENEWALS_MOST * keys.len() {
        chosen.retain(|it| it.0 != RENEWAL);
        left_out += renewals;
    }
    let mut ranks: Vec<u8> = chosen.iter().map(|it| it.0).collect();
    ranks.sort_unstable();
    if let Some(&most) = ranks.get(MESSAGES_MOST) {
        let all = chosen.len();
        chosen.retain(|it| it.0 < most || it.0 == 0);
        left_out += all - chosen.len();
        let all = chosen.len();
        chosen.truncate(2 * MESSAGES_MOST);
        left_out += all - chosen.len();
    }
    if left_out > 0 {
        let commands = counted(left_out as u64, "command");
        let they = if left_out == 1 { "it" } else { "they" };
        notes.push(format!(
            "{commands} on the key left out: {they} changed nothing, or renewed it."
        ));
    }
    let drawn = chosen.into_iter().map(|(_, it, owner)| message(facts, it, owner));
    let mut drawn: Vec<IncidentMessage> = drawn.collect();
    for it in &mut drawn {
        // With several servers, replies that came as usual would only hide what matters.
        let is_usual = it.reply == Delivery::Usual && it.request != Delivery::Late;
        it.answered_ns =
            it.answered_ns.filter(|at_ns| facts.shows(*at_ns) && !(keys.len() > 1 && is_usual));
    }
    drawn
}

/// More renewals of a server's key say no more than the bar of the hold.
const RENEWALS_MOST: usize = 3;
/// The rank of a renewal.
const RENEWAL: u8 = 2;
/// The rank of a try in vain.
const TRY: u8 = 3;
/// The rank of a release or a renewal that found nothing to do.
const NOTHING: u8 = 4;

/// How well a picture can do without it: 0 is not at all; none for what belongs into no picture.
fn rank(facts: &IncidentFacts<'_>, it: &Exchange, ends: &BTreeSet<u32>) -> Option<u8> {
    let struck =
        [it.request, it.reply].iter().any(|it| matches!(it, Delivery::Late | Delivery::Lost));
    if facts.accused.contains(&it.op) || struck {
        return Some(0);
    }
    match it.end {
        Some((_, ExchangeEnd::Refused(why))) => {
            let why = facts.history.text(why);
            match is_followed(facts, it) {
                _ if why.starts_with(NOT_SENT) => None,
                false => Some(0),
                // It was tried again.
                true => (!why.starts_with(NO_SCRIPT)).then_some(NOTHING),
            }
        }
        Some((_, ExchangeEnd::Answered(Touch::None, _))) => match it.intent.touch {
            Touch::None if is_comparison(facts, it) => Some(1),
            Touch::None | Touch::Unknown => None,
            Touch::Create(_) => Some(TRY),
            _ => Some(NOTHING),
        },
        Some((_, ExchangeEnd::Answered(Touch::Extend(_), _))) => Some(RENEWAL),
        Some((_, ExchangeEnd::Answered(..))) if ends.contains(&it.op) => Some(0),
        Some((_, ExchangeEnd::Answered(..))) => Some(1),
        _ if it.intent.touch == Touch::Delete && is_followed(facts, it) => Some(NOTHING),
        _ => (it.intent.touch != Touch::None).then_some(1),
    }
}

/// Whether its acquisition sent the server another command that would do something to the key.
fn is_followed(facts: &IncidentFacts<'_>, it: &Exchange) -> bool {
    facts.exchanges.iter().any(|other| {
        (other.acquisition, other.node) == (it.acquisition, it.node)
            && other.op > it.op
            && facts.is_of_lock(other)
            && other.intent.touch != Touch::None
    })
}

/// Whether it found its own key, and what its client did upon that did the harm.
fn is_comparison(facts: &IncidentFacts<'_>, it: &Exchange) -> bool {
    let is_own = facts.tenures.iter().any(|tenure| {
        (tenure.acquisition, tenure.node) == (it.acquisition, it.node)
            && (tenure.from_ns..tenure.until_ns).contains(&it.done_ns)
    });
    let mut next = facts.exchanges.iter().filter(|other| {
        (other.acquisition, other.node) == (it.acquisition, it.node)
            && other.op > it.op
            && facts.is_of_lock(other)
    });
    is_own && next.next().is_some_and(|other| facts.accused.contains(&other.op))
}

/// How often its acquisition has asked this server for the lock in vain.
fn tries(facts: &IncidentFacts<'_>, it: &Exchange) -> usize {
    let theirs = facts.exchanges.iter().filter(|other| {
        (other.acquisition, other.node) == (it.acquisition, it.node)
            && facts.is_of_lock(other)
            && matches!(other.intent.touch, Touch::Create(_))
    });
    theirs.filter(|it| it.touch() == Touch::None).count()
}

/// Whether it did the harm. A key that was left behind is no fault of the command that made it, unless that came late, but of
/// the release that failed.
fn harms(facts: &IncidentFacts<'_>, it: &Exchange) -> bool {
    let is_left = |of: &dyn Fn(&KeyTenure) -> bool| {
        facts.tenures.iter().any(|tenure| of(tenure) && facts.left_ns(tenure).is_some())
    };
    if facts.accused.contains(&it.op) {
        // What may have made a key has harmed nobody where no key was left.
        let may_have = matches!(it.intent.touch, Touch::Create(_)) && !it.is_certain();
        return it.request == Delivery::Late || !may_have && !is_left(&|tenure| tenure.op == it.op);
    }
    let failed =
        it.request == Delivery::Lost || matches!(it.end, Some((_, ExchangeEnd::Refused(_))));
    let is_release = it.intent.touch == Touch::Delete && failed && !is_followed(facts, it);
    is_release && is_left(&|tenure| tenure.acquisition == it.acquisition && tenure.node == it.node)
}

fn message(facts: &IncidentFacts<'_>, it: &Exchange, key: LaneOwner) -> IncidentMessage {
    let name = text(facts.history.text(it.name));
    let (answered_ns, answer) = match it.end {
        Some((at_ns, ExchangeEnd::Answered(touch, answer))) => {
            (Some(at_ns), said(facts, it.intent.touch, touch, answer))
        }
        Some((at_ns, ExchangeEnd::Refused(why))) => {
            (Some(at_ns), format!("error: {}", text(facts.history.text(why))))
        }
        _ => (None, String::new()),
    };
    let did = match (it.end, it.intent.touch) {
        (Some((_, ExchangeEnd::Answered(Touch::None, _))), Touch::Create(_)) => ": no",
        (Some((_, ExchangeEnd::Answered(Touch::None, _))), Touch::Delete) => ": nothing deleted",
        (Some((_, ExchangeEnd::Answered(Touch::None, _))), Touch::Extend(_)) => ": not extended",
        (Some((_, ExchangeEnd::Answered(..))), Touch::None) => ": still its own",
        (Some((_, ExchangeEnd::Refused(why))), _) => {
            let why = text(facts.history.text(why));
            &error_code(&why).map_or(" fails".to_owned(), |code| format!(" fails: {code}"))
        }
        (_, Touch::Delete) if name != "DEL" => " deletes",
        (_, Touch::Extend(_)) => " extends",
        (_, Touch::Overwrite(_)) if facts.accused.contains(&it.op) && !gets_it(facts, it) => {
            " overwrites, in vain"
        }
        (_, Touch::Overwrite(_)) if is_of_its_own(facts, it) => " renews",
        (_, Touch::Overwrite(_)) if facts.has_overwritten(it) => " overwrites",
        (_, Touch::Create(_)) if !name.starts_with("SET") => " takes",
        _ => "",
    };
    let fate = match (it.request, it.reply) {
        (Delivery::Lost, _) => ", lost",
        (Delivery::Late, _) => ", late",
        (_, Delivery::Lost) => ", reply lost",
        (_, Delivery::Late) => ", reply late",
        (Delivery::Unknown, _) => ", no answer",
        _ => "",
    };
    IncidentMessage {
        client: it.client,
        key,
        sent_ns: it.left_ns,
        done_ns: it.done_ns,
        answered_ns,
        request: it.request,
        reply: it.reply,
        text: format!("{name}{did}{fate}"),
        answer,
        harms: harms(facts, it),
    }
}

/// The code with which an error of a server begins.
pub(super) fn error_code(why: &str) -> Option<&str> {
    let code = why.split_whitespace().next()?;
    code.chars().all(|it| it.is_ascii_uppercase()).then_some(code)
}

/// Whether its acquisition has had the lock by the end of the picture.
fn gets_it(facts: &IncidentFacts<'_>, it: &Exchange) -> bool {
    let events = facts.history.events.iter().take_while(|event| event.at_ns <= facts.until_ns);
    let mut acquired = events.filter(|event| event.what == What::Acquired);
    acquired.any(|event| event.acquisition == it.acquisition)
}

/// Whether its acquisition had made the key before, and no other's was ended by it.
fn is_of_its_own(facts: &IncidentFacts<'_>, it: &Exchange) -> bool {
    let is_own = |tenure: &&KeyTenure| tenure.acquisition == it.acquisition;
    let mut own = facts.tenures.iter().filter(is_own);
    let mut others = facts.tenures.iter().filter(|tenure| !is_own(tenure));
    own.any(|tenure| tenure.op < it.op) && others.all(|tenure| tenure.end.op() != Some(it.op))
}

/// An answer in words.
fn said(facts: &IncidentFacts<'_>, wanted: Touch, touch: Touch, answer: Answer) -> String {
    match (wanted, touch) {
        (_, Touch::Create(_)) => "the key is made".to_owned(),
        (_, Touch::Overwrite(_)) => "the key is set".to_owned(),
        (_, Touch::Delete) => "the key is deleted".to_owned(),
        (_, Touch::Extend(_)) => "the key is extended".to_owned(),
        (Touch::Create(_), _) => "another has it".to_owned(),
        _ => match answer {
            Answer::Nil => "nothing".to_owned(),
            Answer::Ok => "OK".to_owned(),
            Answer::Int(value) => value.to_string(),
            Answer::Text(it) => text(facts.history.text(it)),
            Answer::List => "a list".to_owned(),
        },
    }
}
