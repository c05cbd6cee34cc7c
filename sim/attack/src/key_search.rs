//! Finds the lock's key on the server in a run without faults.
//!
//! Invariant: whoever gets the lock writes its key. If several keys come and go with a hold, the lock's key is the one with
//! exactly the lock's name, or else the one that was created first. If that does not decide, nothing is guessed: the user has
//! to name the key.

use std::time::Instant;

use history::Touch;
use redis_model::witness::{InsideChange, KeyChange};

use crate::arena::Attack;
use crate::board::VICTIM;
use crate::error::AttackError;
use crate::lock_key::LockKey;
use crate::recorder::PlanRecord;
use crate::transcript::{Phases, TracedCommand, acquisition, phases};

/// A key that expires within this part of the TTL (one `SOON`th) after its release counts as deleted.
pub(crate) const SOON: u32 = 4;

/// A key that the victim created when it acquired the lock.
struct KeyCandidate {
    name: Vec<u8>,
    /// Which of the victim's commands created it.
    command: usize,
    /// Whether the release deleted it, made it expire soon, or took the victim's part out of it.
    released: bool,
    /// Whether every other client that got the lock has changed it, too.
    shared: bool,
}

/// Finds the lock's key among the commands that the clients have sent.
pub(crate) fn find(
    attack: &Attack,
    sent: &[TracedCommand],
    recorded: &PlanRecord,
) -> Result<LockKey, AttackError> {
    let phases = phases(recorded);
    let candidates = candidates(attack, sent, &phases);
    let all = || {
        let names = candidates.iter().map(|it| String::from_utf8_lossy(&it.name));
        names.collect::<Vec<_>>().join(", ")
    };
    if candidates.is_empty() {
        return Err(AttackError::NoLock(String::from(
            "your worker created no key when it was told to acquire: a lock in Redis has one while it is held",
        )));
    }
    let found = match &attack.lock_key {
        Some(name) => candidates.iter().find(|it| it.name == name.as_bytes()).ok_or_else(|| {
            format!("your worker created no key {name} when it was told to acquire: it created {}", all())
        }),
        None => chosen(&candidates, attack.key.as_bytes()).ok_or_else(|| {
            format!("several keys may stand for the lock: say which one with --lock-key, or attack each in turn if the lock takes them \
             all (it created {})", all())
        }),
    };
    let key = named(found.map_err(AttackError::NoLock)?.name.clone(), sent);
    if is_free_by_value(sent, &phases, &key.name) {
        return Err(AttackError::NoLock(format!(
            "your worker's release leaves the key {} for ever, with another value: picklock knows a free lock by its \
             key, which is deleted or expires",
            String::from_utf8_lossy(&key.name),
        )));
    }
    if is_filled_by_release(sent, &phases, &key.name) {
        return Err(AttackError::NoLock(format!(
            "your worker's release puts something into the key {}, such as a token or a higher number: picklock knows a free \
             lock by a key that is gone, that expires, or whose number is 0",
            String::from_utf8_lossy(&key.name),
        )));
    }
    if is_handed_over(sent, &phases, &key.name) {
        return Err(AttackError::NoLock(format!(
            "your worker's release writes the key {} for the next client: picklock knows who has a lock by who has \
             written its key",
            String::from_utf8_lossy(&key.name),
        )));
    }
    if is_of_one_client(sent, &phases, &key.name) {
        return Err(AttackError::NoLock(format!(
            "your workers have the lock one after the other, and none but client {VICTIM} writes the key {}: picklock knows \
             who has a lock by who has written its key. If another key stands for the lock, say which one with --lock-key \
             (client {VICTIM} created {})",
            String::from_utf8_lossy(&key.name),
            all(),
        )));
    }
    Ok(key)
}

/// The key of this name, in the database of the first command that changed it.
pub(crate) fn named(name: Vec<u8>, sent: &[TracedCommand]) -> LockKey {
    let mut changes = sent.iter().flat_map(|it| it.seen.iter().flat_map(|seen| &seen.changes));
    let db = changes.find(|it| it.key == name).map_or(0, |it| it.db);
    LockKey { db, name }
}

/// The victim's first acquisition that got the lock.
fn held(phases: &[Phases]) -> Option<&Phases> {
    phases.iter().find(|it| it.client == VICTIM && it.acquired.is_some())
}

fn candidates(attack: &Attack, sent: &[TracedCommand], phases: &[Phases]) -> Vec<KeyCandidate> {
    let mut found: Vec<KeyCandidate> = Vec::new();
    let Some(held) = held(phases) else { return found };
    let is_theirs =
        |it: &&TracedCommand| (it.client, it.node) == (VICTIM, 0) && it.sent >= held.begun;
    let soon = attack.ttl / SOON;
    let is_soon = |ns: u64| u128::from(ns) < soon.as_nanos();
    for (command, traced) in sent.iter().filter(is_theirs).enumerate() {
        let acquires = held.acquired.is_some_and(|at| traced.sent < at);
        let releases = held.release.is_some_and(|at| traced.sent >= at);
        for change in traced.seen.iter().flat_map(|it| &it.changes) {
            let known = found.iter_mut().find(|it| it.name == change.key);
            match (change.touch, known) {
                (Touch::Create(_) | Touch::Overwrite(_), None) if acquires => {
                    let name = change.key.clone();
                    let shared = others(phases).all(|it| changes(sent, it, &name));
                    found.push(KeyCandidate { name, command, released: false, shared });
                }
                (Touch::Delete, Some(it)) if releases => it.released = true,
                (Touch::None, Some(it)) if releases => it.released |= gives_back(&change.inside),
                (Touch::Extend(ns) | Touch::Overwrite(Some(ns)), Some(it)) if releases => {
                    it.released |= is_soon(ns);
                }
                _ => {}
            }
        }
    }
    found
}

/// The acquisitions by which other clients got the lock.
fn others(phases: &[Phases]) -> impl Iterator<Item = &Phases> {
    phases.iter().filter(|it| it.client != VICTIM && it.acquired.is_some())
}

/// Whether a client has changed a key in an acquisition, before it had the lock.
fn changes(sent: &[TracedCommand], of: &Phases, key: &[u8]) -> bool {
    let is_of = |it: &&TracedCommand| {
        it.client == of.client && it.sent >= of.begun && Some(it.sent) <= of.acquired
    };
    sent.iter().filter(is_of).any(|it| changes_key(it, key))
}

/// Whether a command has changed a key, or what is in it.
fn changes_key(command: &TracedCommand, key: &[u8]) -> bool {
    let mut changes = command.seen.iter().flat_map(|seen| &seen.changes);
    changes.any(|it| it.key == key && (it.touch, &it.inside) != (Touch::None, &InsideChange::None))
}

/// Whether a client takes its own part out of a key. Parts of others may remain in it.
fn gives_back(inside: &InsideChange) -> bool {
    match inside {
        InsideChange::None | InsideChange::Rewritten | InsideChange::Fields { .. } => false,
        InsideChange::Counted { by, .. } => *by < 0,
        InsideChange::Entries { added, removed } => added.is_empty() && !removed.is_empty(),
    }
}

/// The candidate that stands for the lock of this name; none if that is not certain.
fn chosen<'a>(candidates: &'a [KeyCandidate], named: &[u8]) -> Option<&'a KeyCandidate> {
    // The lock's key exists while the lock is held, and only then.
    let released: Vec<&KeyCandidate> = candidates.iter().filter(|it| it.released).collect();
    let is_released = !released.is_empty();
    let all = if is_released { released } else { candidates.iter().collect() };
    let bears = |it: &&&KeyCandidate| it.name.windows(named.len()).any(|it| it == named);
    if let Some(exact) = all.iter().find(|it| it.name == named) {
        return Some(exact);
    }
    // A key of one acquisition, such as a heartbeat, keeps no other client from the lock.
    let shared: Vec<&KeyCandidate> = all.iter().copied().filter(|it| it.shared).collect();
    let all = if shared.is_empty() { all } else { shared };
    if !is_released {
        return all.iter().find(bears).or(all.first()).copied();
    }
    // The holder writes its other keys after it has the lock.
    let first = all.iter().map(|it| it.command).min()?;
    let first: Vec<&KeyCandidate> = all.into_iter().filter(|it| it.command == first).collect();
    let mut named = first.iter().filter(bears);
    match (&first[..], named.next(), named.next()) {
        ([one], ..) => Some(one),
        (_, Some(one), None) => Some(one),
        _ => None,
    }
}

/// Whether no other client writes the key before it has the lock, though only one has the lock at a time.
fn is_of_one_client(sent: &[TracedCommand], phases: &[Phases], key: &[u8]) -> bool {
    let mut holds: Vec<_> =
        phases.iter().filter_map(|it| Some((it.acquired?, it.release?))).collect();
    holds.sort_unstable();
    let in_turn = holds.windows(2).all(|it| it[0].1 <= it[1].0);
    let mut others = others(phases).peekable();
    in_turn && others.peek().is_some() && !others.any(|it| changes(sent, it, key))
}

/// Whether the victim's release left the key for ever with another value, and another client got the lock nevertheless.
fn is_free_by_value(sent: &[TracedCommand], phases: &[Phases], key: &[u8]) -> bool {
    let Some(release) = held(phases).and_then(|it| it.release) else { return false };
    let changes = sent.iter().flat_map(|command| {
        let changes = command.seen.iter().flat_map(|seen| &seen.changes);
        changes.filter(|it| it.key == key).map(move |it| (command, it))
    });
    let expires = |(_, it): &(_, &KeyChange)| match it.touch {
        Touch::Create(ns) | Touch::Overwrite(ns) => ns.is_some(),
        Touch::Extend(ns) => ns != u64::MAX,
        _ => false,
    };
    let (before, later): (Vec<_>, Vec<_>) =
        changes.partition(|(command, _)| command.sent < release);
    let stays = !before.iter().any(expires);
    let got = |it: &TracedCommand| {
        let of = acquisition(phases, it.client, it.sent);
        phases.iter().any(|it| it.acquisition == of && it.acquired.is_some())
    };
    let is_victims = |it: &TracedCommand| it.client == VICTIM;
    let counts = |(_, it): &(&TracedCommand, &KeyChange)| match it.inside {
        InsideChange::Counted { by, now } => Some((by, now)),
        _ => None,
    };
    // A client that is refused increments the number, too.
    let counts_back =
        later.iter().find(|it| is_victims(it.0)).and_then(counts).is_some_and(|it| it.0 < 0);
    let counts_from_0 = later.iter().any(|it| {
        let is_there = !matches!(it.1.touch, Touch::Create(_));
        let is_first = counts(it).is_some_and(|(by, now)| by > 0 && by == now);
        !is_victims(it.0) && is_there && is_first && got(it.0)
    });
    if stays && counts_back && counts_from_0 {
        return true;
    }
    let [(freeing, first), (taking, second), ..] = later[..] else { return false };
    let overwrites = |it: &KeyChange| {
        matches!(it.touch, Touch::Overwrite(_)) || matches!(it.inside, InsideChange::Fields { .. })
    };
    overwrites(first)
        && !expires(&(freeing, first))
        && overwrites(second)
        && is_victims(freeing)
        && !is_victims(taking)
        && got(taking)
}

/// Whether the victim's release put something into the key, such as a token, or the victim got the lock by counting down to 0
/// or more: it is free while something is there.
fn is_filled_by_release(sent: &[TracedCommand], phases: &[Phases], key: &[u8]) -> bool {
    let Some(held) = held(phases) else { return false };
    let theirs = sent.iter().filter(|it| it.client == VICTIM && it.sent >= held.begun);
    let changes = theirs.flat_map(|command| {
        let changes = command.seen.iter().flat_map(|seen| &seen.changes);
        changes.filter(|it| it.key == key).map(|it| (command.sent, it))
    });
    let (before, later): (Vec<_>, Vec<_>) =
        changes.partition(|(sent, _)| held.release.is_none_or(|release| *sent < release));
    let counts_down = |(_, it): &&(_, &KeyChange)| {
        matches!(it.inside, InsideChange::Counted { by: ..0, now: 0.. })
    };
    let is_taken = |(sent, _): &&(Instant, &KeyChange)| held.acquired.is_some_and(|at| *sent < at);
    before.iter().rfind(is_taken).filter(counts_down).is_some()
        || later.first().is_some_and(|(_, it)| match &it.inside {
            InsideChange::Counted { by, now } => *by > 0 && *now > 0,
            InsideChange::Entries { added, removed } => !added.is_empty() && removed.is_empty(),
            _ => matches!(it.touch, Touch::Create(_)),
        })
}

/// Whether the victim's release overwrote the key, and the next client to get the lock has never changed it.
fn is_handed_over(sent: &[TracedCommand], phases: &[Phases], key: &[u8]) -> bool {
    let Some(release) = held(phases).and_then(|it| it.release) else { return false };
    let writes = |it: &&TracedCommand| {
        let mut changes = it.seen.iter().flat_map(|seen| &seen.changes);
        changes.any(|it| it.key == key && matches!(it.touch, Touch::Overwrite(_)))
    };
    let Some(first) = sent.iter().filter(|it| it.sent >= release).find(|it| changes_key(it, key))
    else {
        return false;
    };
    let next = phases.iter().filter(|it| it.acquired.is_some_and(|at| at > release));
    let Some(next) = next.min_by_key(|it| it.acquired) else { return false };
    first.client == VICTIM && writes(&first) && !changes(sent, next, key)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Client 1 has the lock from 10 ms on, and releases it at 100 ms by this.
    fn filled_by_release(touch: Touch, inside: InsideChange) -> bool {
        filled(InsideChange::None, touch, inside)
    }

    /// The same where it got the lock by what was done last inside the key.
    fn filled(taken: InsideChange, touch: Touch, inside: InsideChange) -> bool {
        let start = crate::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let (acquired, release) = (Some(at(10)), Some(at(100)));
        let phase = Phases { client: VICTIM, acquisition: 1, begun: start, acquired, release };
        let does = |ms, touch, inside| {
            let change = KeyChange { db: 0, key: b"k".to_vec(), touch, inside };
            TracedCommand::carried_out(VICTIM, at(ms), "X", vec![change])
        };
        let takes = [does(4, Touch::Create(None), InsideChange::None), does(5, Touch::None, taken)];
        let [made, takes] = takes;
        is_filled_by_release(&[made, takes, does(100, touch, inside)], &[phase], b"k")
    }

    #[test]
    fn what_is_free_while_something_is_there_says_nothing_of_who_has_it() {
        let counted = |by, now| filled_by_release(Touch::None, InsideChange::Counted { by, now });
        assert!(counted(1, 1));
        assert!(!counted(-1, 0), "counted up to take it");
        assert!(!counted(1, 0), "counted down from 0 to take it");
        let taken = |by, now| {
            filled(
                InsideChange::Counted { by, now },
                Touch::None,
                InsideChange::Counted { by: 1, now: 0 },
            )
        };
        assert!(taken(-1, 0), "a rival had counted down in vain");
        assert!(!taken(-1, -1));
        let token = || vec![b"token".to_vec()];
        let entries = |added, removed| {
            filled_by_release(Touch::None, InsideChange::Entries { added, removed })
        };
        assert!(entries(token(), Vec::new()));
        assert!(!entries(Vec::new(), token()));
        assert!(!entries(token(), token()), "it hands its place over");
        assert!(filled_by_release(Touch::Create(None), InsideChange::None));
        assert!(!filled_by_release(Touch::Delete, InsideChange::None));
    }

    /// Client 1 releases the lock at 100 ms with this change; client 2, which asks from 50 ms on, writes the key at 105 ms
    /// if it `takes` it, and has the lock at 110 ms.
    fn handed_over(release: Touch, takes: bool) -> bool {
        let start = crate::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let phase = |client, begun, acquired, release| Phases {
            client,
            acquisition: client,
            begun: at(begun),
            acquired: Some(at(acquired)),
            release: Some(at(release)),
        };
        let phases = [phase(VICTIM, 0, 10, 100), phase(2, 50, 110, 200)];
        let does = |client, ms, touch| {
            let change = KeyChange { db: 0, key: b"k".to_vec(), touch, inside: InsideChange::None };
            TracedCommand::carried_out(client, at(ms), "EVAL", vec![change])
        };
        let mut sent = vec![does(VICTIM, 1, Touch::Create(Some(9))), does(VICTIM, 100, release)];
        sent.push(does(2, 105, if takes { Touch::Create(Some(9)) } else { Touch::None }));
        is_handed_over(&sent, &phases, b"k")
    }

    #[test]
    fn who_has_a_lock_that_is_handed_over_is_not_guessed() {
        assert!(handed_over(Touch::Overwrite(Some(9)), false));
        assert!(!handed_over(Touch::Overwrite(Some(9)), true));
        assert!(!handed_over(Touch::Delete, false));
    }

    fn key(candidates: &[(&str, usize, bool)]) -> Option<String> {
        let all: Vec<KeyCandidate> = candidates
            .iter()
            .map(|(name, command, released)| KeyCandidate {
                name: name.as_bytes().to_vec(),
                command: *command,
                released: *released,
                shared: !name.starts_with("mine"),
            })
            .collect();
        chosen(&all, b"lock").map(|it| String::from_utf8(it.name.clone()).unwrap())
    }

    #[test]
    fn the_key_of_the_lock_comes_and_goes_with_the_hold_whatever_it_is_called() {
        let found = |all: &[(&str, usize, bool)], name| assert_eq!(key(all).as_deref(), name);
        found(&[("9f2c", 0, true), ("owner:lock", 1, false)], Some("9f2c"));
        found(&[("waiters:lock", 0, false), ("lock", 1, true)], Some("lock"));
        found(&[("owner:lock", 0, true), ("lock", 1, true)], Some("lock"));
        found(&[("9f2c", 0, true), ("owner:lock", 1, true)], Some("9f2c"));
        found(&[("9f2c", 0, true), ("{lock}", 0, true)], Some("{lock}"));
        found(&[("9f2c", 0, true), ("77aa", 0, true)], None);
        found(&[("lock:a", 0, true), ("lock:b", 0, true)], None);
        found(&[("9f2c", 0, false), ("{lock}", 1, false)], Some("{lock}"));
        found(&[("9f2c", 0, false)], Some("9f2c"));
        found(&[("mine:lock", 0, true), ("leases", 1, true)], Some("leases"));
        found(&[("mine:lock", 0, true), ("leases", 1, false)], Some("mine:lock"));
    }
}
