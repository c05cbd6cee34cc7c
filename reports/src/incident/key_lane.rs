//! The lane of the lock's key: each tenure, how it ended, and what struck its server.
//!
//! Invariant: a tenure shows whose it is in words; a colour only repeats it.

use history::exchange::server;
use history::fault::Fault;
use history::{Touch, What};
use scenarios::span::rounded;

use super::facts::{IncidentFacts, text};
use super::layout::{Bar, BarKind, IncidentLane, KEY_LANES_MOST, LaneMark, LaneOwner, MarkKind};
use crate::format::counted;
use history::tenure::{KeyTenure, TenureEnd};

/// The lanes of the key: one for each server that has it; none if the recipe keeps no key.
pub(super) fn owners(facts: &IncidentFacts<'_>, notes: &mut Vec<String>) -> Vec<LaneOwner> {
    if !facts.history.head.locks {
        return Vec::new();
    }
    let of_lock = facts.exchanges.iter().filter(|it| facts.is_of_lock(it));
    let mut nodes: Vec<u16> = of_lock.map(|it| it.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    match nodes[..] {
        [] | [_] => vec![LaneOwner::Key(None)],
        _ => {
            let left_out = nodes.len().saturating_sub(KEY_LANES_MOST);
            if left_out > 0 {
                notes.push(format!("{} left out.", counted(left_out as u64, "server")));
            }
            nodes.truncate(KEY_LANES_MOST);
            nodes.into_iter().map(|node| LaneOwner::Key(Some(node))).collect()
        }
    }
}

/// The lane of the key on this server.
pub(super) fn lane(facts: &IncidentFacts<'_>, owner: LaneOwner) -> IncidentLane {
    let is_here = |node: u16| owner == LaneOwner::Key(None) || owner == LaneOwner::Key(Some(node));
    let strikes = |node: u16| match owner {
        LaneOwner::Key(Some(own)) => server(own) == node,
        _ => true,
    };
    let (mut bars, mut marks) = (Vec::new(), Vec::new());
    for tenure in facts.tenures.iter().filter(|it| is_here(it.node)) {
        let left = left(facts, tenure);
        // What nobody ever held has no owner.
        let owned = bar(facts, tenure)
            .filter(|owned| left.as_ref().is_none_or(|left| left.from_ns > owned.from_ns));
        bars.extend(owned);
        bars.extend(left);
        bars.extend(doubted(facts, tenure));
        marks.extend(end(facts, tenure));
    }
    let of_lock = facts.exchanges.iter().filter(|it| facts.is_of_lock(it) && is_here(it.node));
    for it in of_lock.filter(|it| facts.accused.contains(&it.op) && facts.shows(it.done_ns)) {
        // What deletes or overwrites shows as the end of a tenure.
        if let Touch::Extend(ttl_ns) = it.touch() {
            let text = format!("extended by client {}: lives {}", it.client, rounded(ttl_ns));
            marks.push(LaneMark { at_ns: it.done_ns, kind: MarkKind::Ends, text, harms: true });
        }
    }
    for event in facts.history.events.iter().filter(|it| facts.shows(it.at_ns)) {
        let What::Fault { fault, node, for_ns, .. } = event.what else { continue };
        let is_of_server = event.client == 0 || fault.strikes().is_server();
        let Some(name) = fault_name(fault).filter(|_| is_of_server) else { continue };
        let took = TenureEnd::Lost(fault);
        let is_said = facts
            .tenures
            .iter()
            .any(|it| is_here(it.node) && it.end == took && it.until_ns == event.at_ns);
        if !node.is_none_or(strikes) {
            continue;
        }
        let lasts = format!("{name} {}", rounded(for_ns));
        let is_down =
            for_ns > 0 && matches!(fault, Fault::Stall | Fault::PowerLoss | Fault::ServerCrash);
        if is_down
            && let Some((from_ns, until_ns, open)) =
                facts.within(event.at_ns, event.at_ns.saturating_add(for_ns))
        {
            let texts = [lasts, name.to_owned()];
            bars.push(Bar { from_ns, until_ns, kind: BarKind::Down, texts, open });
        } else if !is_said {
            let text =
                if fault == Fault::ClockStep && for_ns > 0 { lasts } else { name.to_owned() };
            marks.push(LaneMark { at_ns: event.at_ns, kind: MarkKind::Fault, text, harms: false });
        }
    }
    bars.sort_by_key(|it| it.from_ns);
    marks.sort_by_key(|it| (it.at_ns, it.kind));
    IncidentLane { owner, bars, marks }
}

/// The time in which a key still stands, unless a deletion was carried out that nobody answered.
fn doubted(facts: &IncidentFacts<'_>, tenure: &KeyTenure) -> Option<Bar> {
    let (from_ns, until_ns, open) = facts.within(tenure.doubted_ns?, tenure.until_ns)?;
    let who = format!("perhaps client {}", tenure.client);
    let texts = [format!("{who}: no answer says if it was deleted"), who];
    let kind = BarKind::PerhapsOwned(tenure.client);
    (from_ns < until_ns).then_some(Bar { from_ns, until_ns, kind, texts, open })
}

fn bar(facts: &IncidentFacts<'_>, tenure: &KeyTenure) -> Option<Bar> {
    let until_ns = tenure.doubted_ns.unwrap_or(tenure.until_ns);
    let (from_ns, until_ns, open) = facts.within(tenure.from_ns, until_ns)?;
    if from_ns >= until_ns {
        return None;
    }
    let who =
        if tenure.client == 0 { "the run".to_owned() } else { format!("client {}", tenure.client) };
    let (kind, who) = if tenure.is_certain && facts.is_in_order(tenure) {
        (BarKind::Owned(tenure.client), who)
    } else {
        (BarKind::PerhapsOwned(tenure.client), format!("perhaps {who}"))
    };
    let lives = match tenure.ttl_ns {
        Some(0) if facts.history.head.stamped => "stamped as over".to_owned(),
        Some(ttl_ns) if facts.history.head.stamped => {
            format!("stamp valid {}", rounded(ttl_ns))
        }
        Some(ttl_ns) => format!("TTL {}", rounded(ttl_ns)),
        None => "never expires".to_owned(),
    };
    Some(Bar { from_ns, until_ns, kind, texts: [format!("{who}, {lives}"), who], open })
}

/// The time in which a key stands that nobody will give back.
fn left(facts: &IncidentFacts<'_>, tenure: &KeyTenure) -> Option<Bar> {
    let (from_ns, until_ns, open) = facts.within(facts.left_ns(tenure)?, tenure.until_ns)?;
    let long = match tenure.end {
        TenureEnd::Stays => "left behind, and it never expires",
        _ => "left behind: nobody holds it",
    };
    let texts = [long.to_owned(), "left behind".to_owned()];
    (from_ns < until_ns).then_some(Bar { from_ns, until_ns, kind: BarKind::Left, texts, open })
}

fn end(facts: &IncidentFacts<'_>, tenure: &KeyTenure) -> Option<LaneMark> {
    let at_ns = Some(tenure.until_ns).filter(|at_ns| facts.shows(*at_ns))?;
    let by = |by: u32, did: &str| match by {
        0 => format!("{did} by the run"),
        _ => format!("{did} by client {by}"),
    };
    let is_accused = match tenure.end {
        // What took the key from a client of the story is where the story begins.
        TenureEnd::Lost(_) => facts.acquisitions.contains(&tenure.acquisition),
        end => end.op().is_some_and(|op| facts.accused.contains(&op)),
    };
    let said = match tenure.end {
        TenureEnd::Expired if tenure.doubted_ns.is_some() => "expires at the latest".to_owned(),
        TenureEnd::Expired => "expires".to_owned(),
        TenureEnd::Deleted { by: who, .. } if who == tenure.client => "deleted".to_owned(),
        TenureEnd::Deleted { by: who, .. } => by(who, "deleted"),
        TenureEnd::Overwritten { by: who, .. } if who == tenure.client => "renewed".to_owned(),
        TenureEnd::Overwritten { by: who, .. } if is_out_of_date(facts, tenure) => {
            format!("client {}'s stamp was over: {}", tenure.client, by(who, "taken"))
        }
        TenureEnd::Overwritten { by: who, .. } if !facts.knows_end(tenure) => by(who, "set"),
        TenureEnd::Overwritten { by: who, .. } => by(who, "overwritten"),
        TenureEnd::Lost(Fault::ClockStep) => "gone: its server's clock jumped".to_owned(),
        TenureEnd::Lost(Fault::Failover) => "lost: failover to a server without it".to_owned(),
        TenureEnd::Lost(fault) => format!("lost: {}", fault_name(fault).unwrap_or(fault.name())),
        TenureEnd::Gone => "gone".to_owned(),
        TenureEnd::Stays => return None,
    };
    Some(LaneMark { at_ns, kind: MarkKind::Ends, text: text(&said), harms: is_accused })
}

/// Whether the value of this key said that it counted no longer when it was overwritten.
fn is_out_of_date(facts: &IncidentFacts<'_>, tenure: &KeyTenure) -> bool {
    let counts_ns = tenure.ttl_ns.map(|ttl_ns| tenure.from_ns.saturating_add(ttl_ns));
    facts.history.head.stamped && counts_ns.is_some_and(|until_ns| until_ns <= tenure.until_ns)
}

/// What a fault of a server is called in a picture.
fn fault_name(fault: Fault) -> Option<&'static str> {
    Some(match fault {
        Fault::ClockStep => "server's clock jumps",
        Fault::ScriptFlush => "scripts forgotten",
        Fault::Evict => "evicted",
        Fault::Flush => "all keys deleted",
        Fault::ForeignKey | Fault::ForeignList => "something else under this key",
        Fault::Stall => "server stands still",
        Fault::Full => "server is full",
        Fault::Switchover | Fault::Failover => fault.name(),
        Fault::SplitBrain => "split brain",
        Fault::PowerLoss => "power loss",
        Fault::ServerCrash => "server dies",
        Fault::Pause
        | Fault::Crash
        | Fault::Delay
        | Fault::LoseRequest
        | Fault::LoseReply
        | Fault::Reset
        | Fault::Refuse
        | Fault::Partition
        | Fault::Drift => return None,
    })
}

#[cfg(test)]
mod tests;
