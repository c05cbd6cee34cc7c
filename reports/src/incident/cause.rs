//! What an incident came from, in a sentence: the title of its picture.
//!
//! Invariant: it says what the history shows. Where that is not clear there is none, and the first finding is the title.

use std::collections::BTreeSet;

use history::fault::Fault;
use history::verdict::Level;
use history::{What, words};
use scenarios::span::rounded;

use super::client_lane::DrawnHold;
use super::facts::{IncidentFacts, text};
use super::layout::MissedNotice;
use super::message::error_code;
use history::exchange::{Delivery, Exchange, ExchangeEnd, server_name};
use history::tenure::{KeyTenure, TenureEnd};

/// What a finding of this level came from. `holds` are those of the drawn clients.
pub(super) fn cause(
    facts: &IncidentFacts<'_>,
    level: Level,
    missed: &[MissedNotice],
    holds: &[DrawnHold],
) -> Option<String> {
    match level {
        // It names the command that did it.
        Level::Key => None,
        Level::Belief | Level::Effect => {
            taken_away(facts, holds).or_else(|| quorum_lost(facts, holds))
        }
        Level::Progress => not_heard(missed).or_else(|| left_behind(facts)),
    }
}

/// What could have come of it that somebody took the key of whoever held the lock, where nothing more came of it.
pub(super) fn risk(facts: &IncidentFacts<'_>, holds: &[DrawnHold]) -> Option<String> {
    let is_accused = |it: &&KeyTenure| it.end.op().is_some_and(|op| facts.accused.contains(&op));
    let robbed = facts.tenures.iter().find(is_accused)?;
    let hold = holds
        .iter()
        .find(|it| it.acquisition == robbed.acquisition && it.until_ns > robbed.until_ns)?;
    let worked = rounded(hold.until_ns - robbed.until_ns.max(hold.from_ns));
    let owner = robbed.client;
    let under = match robbed.end {
        TenureEnd::Overwritten { by, .. } => {
            format!("client {by}'s key, and how long that lives was not up to client {owner}")
        }
        _ => "a lock that anybody could have taken".to_owned(),
    };
    Some(format!(
        "Risk, without damage in this incident: client {owner} worked for {worked} under {under}."
    ))
}

/// Whose key ended first while it held the lock, and how.
fn taken_away(facts: &IncidentFacts<'_>, holds: &[DrawnHold]) -> Option<String> {
    let ended = facts.tenures.iter().filter(|tenure| {
        let is_held = |it: &DrawnHold| {
            it.acquisition == tenure.acquisition
                && it.from_ns < it.until_ns
                && (tenure.from_ns..it.until_ns).contains(&tenure.until_ns)
        };
        let is_all = tenure.is_certain && is_on_one_server(facts, tenure);
        is_all && tenure.client > 0 && holds.iter().any(is_held)
    });
    let first = ended.min_by_key(|it| it.until_ns)?;
    let owner = first.client;
    if !facts.knows_end(first) {
        let (TenureEnd::Deleted { by, .. } | TenureEnd::Overwritten { by, .. }) = first.end else {
            return None;
        };
        let set = if matches!(first.end, TenureEnd::Deleted { .. }) { "deleted" } else { "set" };
        return Some(format!(
            "client {owner} took the key and client {by} {set} it, in some order"
        ));
    }
    let how = how_ended(first)?;
    Some(format!("client {owner}'s key {how} while client {owner} held the lock"))
}

/// How a key ended that its client had not given back.
fn how_ended(tenure: &KeyTenure) -> Option<String> {
    let owner = tenure.client;
    Some(match tenure.end {
        TenureEnd::Expired => "expired".to_owned(),
        TenureEnd::Deleted { by, .. } if by == owner => return None,
        TenureEnd::Deleted { by: 0, .. } => "was deleted by the run".to_owned(),
        TenureEnd::Deleted { by, .. } => format!("was deleted by client {by}"),
        TenureEnd::Overwritten { by, .. } if by == owner || by == 0 => return None,
        TenureEnd::Overwritten { by, .. } => format!("was overwritten by client {by}"),
        TenureEnd::Lost(Fault::Evict) => "was evicted by the server".to_owned(),
        TenureEnd::Lost(Fault::ClockStep) => "ended early: its server's clock jumped".to_owned(),
        TenureEnd::Lost(Fault::Failover) => "was lost in a failover".to_owned(),
        TenureEnd::Lost(fault) => format!("was lost ({})", fault.name()),
        TenureEnd::Gone | TenureEnd::Stays => return None,
    })
}

/// Whose keys on several servers first became too few for a quorum while it held the lock, and how the last of these ended.
fn quorum_lost(facts: &IncidentFacts<'_>, holds: &[DrawnHold]) -> Option<String> {
    let nodes = usize::from(facts.history.head.nodes.filter(|nodes| *nodes > 1)?);
    let lost = holds.iter().filter_map(|hold| {
        let is_its = |it: &&KeyTenure| it.is_certain && it.acquisition == hold.acquisition;
        let mut own: Vec<&KeyTenure> = facts.tenures.iter().filter(is_its).collect();
        own.sort_by_key(|it| it.until_ns);
        let servers: BTreeSet<u16> = own.iter().map(|it| it.node).collect();
        let spared = nodes / 2;
        // Where it made some of them anew, or never had enough, the order of their ends says nothing.
        let ended = own.len().checked_sub(spared).filter(|_| servers.len() == own.len())?;
        let last = *own.get(ended.checked_sub(1)?)?;
        let is_within = hold.from_ns <= last.until_ns && last.until_ns < hold.until_ns;
        let is_told = own[..ended].iter().all(|it| facts.knows_end(it));
        let all_expired = own[..ended].iter().all(|it| it.end == TenureEnd::Expired);
        (is_within && is_told).then_some((last, all_expired))
    });
    let (last, all_expired) = lost.min_by_key(|(last, _)| last.until_ns)?;
    let (owner, left) = (last.client, nodes / 2);
    if all_expired {
        return Some(format!("client {owner}'s keys expired while client {owner} held the lock"));
    }
    let (how, server) = (how_ended(last)?, server_name(last.node));
    Some(format!(
        "client {owner}'s key on {server} {how} while client {owner} held the lock: {left} of {nodes} \
         servers had it still"
    ))
}

/// Whether its acquisition had keys on no other server, so that this one is its lock.
fn is_on_one_server(facts: &IncidentFacts<'_>, tenure: &KeyTenure) -> bool {
    let mut theirs = facts.tenures.iter().filter(|it| it.acquisition == tenure.acquisition);
    theirs.all(|it| it.node == tenure.node)
}

/// Who was not told of a release.
fn not_heard(missed: &[MissedNotice]) -> Option<String> {
    let MissedNotice { client, .. } = missed.first()?;
    Some(format!("client {client} listened only after the release, and did not look again"))
}

/// Why a key stood that nobody held.
fn left_behind(facts: &IncidentFacts<'_>) -> Option<String> {
    let left = facts.tenures.iter().filter_map(|it| Some((it, facts.left_ns(it)?)));
    let left = left.filter(|(it, _)| is_on_one_server(facts, it));
    let (tenure, left_ns) = left.max_by_key(|(it, left_ns)| it.until_ns - left_ns)?;
    let made = facts.exchanges.binary_search_by_key(&tenure.op, |it| it.op).ok()?;
    let made = &facts.exchanges[made];
    let why = why_left(facts, (tenure, left_ns), made)?;
    let stands = match tenure.end {
        TenureEnd::Stays => "its key never expires".to_owned(),
        _ => format!("its key stood for {} more", rounded(tenure.until_ns - left_ns)),
    };
    Some(format!("client {} {why}: {stands}", tenure.client))
}

fn why_left(
    facts: &IncidentFacts<'_>,
    (tenure, left_ns): (&KeyTenure, u64),
    made: &Exchange,
) -> Option<String> {
    let name = text(facts.history.text(made.name));
    let events = || facts.history.events.iter();
    let dies = events().any(|it| {
        let is_crash = matches!(it.what, What::Fault { fault: Fault::Crash, .. });
        is_crash && it.client == tenure.client && it.at_ns == left_ns
    });
    let given_up = events().find(|it| {
        let gives_up = match it.what {
            What::Released(outcome) => facts.history.text(outcome) == words::RELEASED,
            What::NotAcquired(_) | What::AcquireUnknown(_) => true,
            _ => false,
        };
        gives_up && it.acquisition == tenure.acquisition
    });
    let refused = facts.exchanges.iter().rev().find_map(|it| match it.end {
        Some((_, ExchangeEnd::Refused(why)))
            if (it.acquisition, it.node) == (tenure.acquisition, tenure.node)
                && it.intent.touch == history::Touch::Delete =>
        {
            Some(text(facts.history.text(why)))
        }
        _ => None,
    });
    match (dies, given_up, refused) {
        (true, ..) => Some("died with the lock".to_owned()),
        (_, Some(event), _) if event.at_ns <= tenure.from_ns => {
            let did = match event.what {
                What::Released(_) => "released the lock",
                _ => "gave up",
            };
            Some(format!("{did}, and its {name} arrived after that"))
        }
        (_, Some(_), _) if made.reply == Delivery::Lost => {
            Some(format!("took the lock with {name}, but the reply was lost"))
        }
        (_, _, Some(why)) => {
            let code = error_code(&why).map(|code| format!(" ({code})")).unwrap_or_default();
            Some(format!("could not release the lock{code}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
