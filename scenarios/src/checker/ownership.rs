//! Ownership: nobody ends, extends or overwrites another's hold of the key.
//!
//! Invariant: the owner is the acquisition whose command created this incarnation of the key, never
//! the value. The key was *certainly* held from the moment that command was answered until the TTL,
//! less a margin for the server's clock, has passed since it was sent; certainty ends at once with
//! any command that may have ended the hold rightfully, or of which nobody knows what it did. A
//! command is blamed only where it was sent and answered within that time, for then it was carried
//! out within it. A key that goes by itself is not a violation. Where its server has died, lost its
//! power or been replaced, it counts as lost with it: certainty ends there, whatever is found later.

use super::{Case, story};
use crate::history::{CommandOp, Loss, Text, Touch};
use crate::verdict::{Verdict, Witness};

/// From when to when a key was certainly held.
#[derive(Clone, Copy, Debug)]
struct Hold {
    acquisition: u32,
    client: u32,
    from_ns: u64,
    until_ns: u64,
}

pub(super) fn check(case: &Case<'_>) -> Verdict {
    let head = &case.history.head;
    if !head.locks {
        return Verdict::NotApplicable("this recipe keeps no key".to_owned());
    }
    let Some(key) = case.history.texts.find(&head.lock_key) else {
        return Verdict::Inconclusive("vacuous: no command touched the lock's key".to_owned());
    };
    let touching: Vec<&CommandOp> =
        case.timeline.commands.iter().filter(|it| it.key == key && may_touch(it)).collect();
    let reach = reaches(&touching);
    let mut violations = 0;
    let mut first: Option<(Hold, &CommandOp)> = None;
    for (place, command) in touching.iter().enumerate() {
        let Some(created) = created(command) else { continue };
        // Whatever overlaps the creation was sent after it, or had not been answered when it was.
        let before = reach[..place].partition_point(|reach_ns| *reach_ns < command.invoke_ns);
        let around = &touching[before..];
        let lost_ns = lost(&case.timeline.losses, command);
        let (hold, culprit) = follow(created, command, around, (head.margin_ns, lost_ns));
        if let Some(culprit) = culprit {
            violations += 1;
            if first.is_none_or(|(_, known)| done_ns(culprit) < done_ns(known)) {
                first = Some((hold, culprit));
            }
        }
    }
    match first {
        None => Verdict::Held,
        Some((hold, culprit)) => Verdict::Violated(witness(case, hold, culprit, violations)),
    }
}

/// A command that did, or may have done, something to its key.
fn may_touch(command: &CommandOp) -> bool {
    match command.done() {
        Some((_, touch)) => touch != Touch::None,
        None => command.is_open() && command.intent.touch != Touch::None,
    }
}

/// By when all commands up to each place had surely been carried out. Never falls.
fn reaches(commands: &[&CommandOp]) -> Vec<u64> {
    let mut reach_ns = 0;
    let ends = commands.iter().map(|it| {
        reach_ns = reach_ns.max(done_ns(it));
        reach_ns
    });
    ends.collect()
}

fn done_ns(command: &CommandOp) -> u64 {
    command.done().map_or(u64::MAX, |(at_ns, _)| at_ns)
}

/// The TTL of the hold that this command surely began; zero for one that never expires.
fn created(command: &CommandOp) -> Option<(u64, Option<u64>)> {
    match command.done()? {
        (at_ns, Touch::Create(ttl_ns)) if command.acquisition != 0 => Some((at_ns, ttl_ns)),
        _ => None,
    }
}

/// From when on a hold that this command began may be lost with its server; for ever, if at all.
fn lost(losses: &[Loss], creation: &CommandOp) -> u64 {
    let theirs = losses.iter().filter(|loss| loss.node == creation.node);
    let after = theirs.filter(|loss| loss.until_ns >= creation.invoke_ns);
    after.map(|loss| loss.from_ns).min().unwrap_or(u64::MAX)
}

/// Follows a hold through the commands around it, up to the first that surely harmed it.
fn follow<'a>(
    (from_ns, ttl_ns): (u64, Option<u64>),
    creation: &CommandOp,
    around: &[&'a CommandOp],
    (margin_ns, lost_ns): (u64, u64),
) -> (Hold, Option<&'a CommandOp>) {
    let CommandOp { acquisition, client, node, .. } = *creation;
    let lives = |sent_ns: u64, ttl_ns: u64| {
        lost_ns.min(sent_ns.saturating_add(ttl_ns).saturating_sub(margin_ns))
    };
    let until_ns = ttl_ns.map_or(lost_ns, |ttl_ns| lives(creation.invoke_ns, ttl_ns));
    let mut hold = Hold { acquisition, client, from_ns, until_ns };
    let mut culprit: Option<&CommandOp> = None;
    for &command in around {
        if command.invoke_ns >= hold.until_ns {
            break;
        }
        let itself = std::ptr::eq(command, creation);
        if itself || command.node != node || done_ns(command) < creation.invoke_ns {
            continue;
        }
        let sent_ns = command.invoke_ns;
        if command.acquisition == acquisition {
            // An extension that found its own value shows that the hold had lasted; so does any that
            // was answered in time.
            let lasted = command.intent.compares || done_ns(command) <= hold.until_ns;
            hold.until_ns = match command.done() {
                Some((_, Touch::Extend(ttl_ns))) if lasted => lives(sent_ns, ttl_ns),
                _ => hold.until_ns.min(sent_ns),
            };
            continue;
        }
        let inside = sent_ns >= hold.from_ns && done_ns(command) <= hold.until_ns;
        let harms = matches!(
            command.done(),
            Some((_, Touch::Delete | Touch::Overwrite(_) | Touch::Extend(_)))
        );
        if inside && harms {
            if culprit.is_none_or(|known| done_ns(command) < done_ns(known)) {
                culprit = Some(command);
            }
        } else {
            // It may have ended the hold, or shows that it had ended.
            hold.until_ns = hold.until_ns.min(sent_ns);
        }
    }
    // What cut the certainty short may stand behind the one that was blamed before it.
    let culprit = culprit.filter(|it| done_ns(it) <= hold.until_ns);
    (hold, culprit)
}

fn witness(case: &Case<'_>, hold: Hold, culprit: &CommandOp, occurrences: u64) -> Witness {
    let did = match culprit.done() {
        Some((_, Touch::Delete)) => "deleted",
        Some((_, Touch::Extend(_))) => "extended",
        _ => "overwrote",
    };
    let name: Text = culprit.name;
    let summary = format!(
        "client {} {did} the lock's key with {} while client {} held it",
        culprit.client,
        case.history.text(name),
        hold.client
    );
    story::witness(case, summary, &[hold.acquisition, culprit.acquisition], occurrences)
}

#[cfg(test)]
mod tests;
