//! Who keeps a key in random histories, as one finds it who looks at all of them again for each grant.
//!
//! Invariant: the checker blames somebody if, and only if, somebody is to blame.

use history::fault::Fault;
use history::verdict::Outcome;
use history::{Event, History, Touch, What};
use proptest::prelude::*;

use super::checker;
use crate::random::{config, history, steps, verdict};
use crate::testing::Tape;

/// A request that a server has granted: in which acquisition, by which operation, when it was sent and answered, and for how long.
struct Grant {
    acquisition: u32,
    client: u32,
    node: u16,
    op: u32,
    sent_ns: u64,
    answered_ns: u64,
    ttl_ns: u64,
}

fn makes(touch: Touch) -> Option<u64> {
    match touch {
        Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns) => ttl_ns,
        _ => None,
    }
}

/// What is sent to make the key or to give it back: whose, by which operation, to which server, and when.
fn sent(history: &History, what: impl Fn(Touch) -> bool) -> Vec<(u32, u32, u16, u64)> {
    let sent = history.events.iter().filter_map(|it| match it.what {
        What::Command { node, intent, .. } if what(intent.touch) => {
            Some((it.acquisition, it.op, node, it.at_ns))
        }
        _ => None,
    });
    sent.collect()
}

fn grants(history: &History) -> Vec<Grant> {
    let requests = sent(history, |touch| makes(touch).is_some());
    let grants = history.events.iter().filter_map(|it| {
        let What::Answered { touch, .. } = it.what else { return None };
        let ttl_ns = makes(touch)?;
        let &(acquisition, op, node, sent_ns) = requests.iter().find(|(_, op, ..)| *op == it.op)?;
        let (client, answered_ns) = (it.client, it.at_ns);
        Some(Grant { acquisition, client, node, op, sent_ns, answered_ns, ttl_ns })
    });
    grants.collect()
}

/// Whether a fault excuses it, that began by then.
fn is_excused(history: &History, grant: &Grant, by_ns: u64, asks: bool) -> bool {
    history.events.iter().take_while(|it| it.at_ns <= by_ns).any(|it| {
        let What::Fault { fault, for_ns, .. } = it.what else { return false };
        let until_ns = match fault {
            Fault::Partition if for_ns == 0 => u64::MAX,
            Fault::Pause => it.at_ns,
            _ => it.at_ns + for_ns,
        };
        let of_message = matches!(fault, Fault::LoseReply | Fault::LoseRequest | Fault::Delay);
        let counts = match fault {
            Fault::Pause => !asks,
            _ => it.client == 0 || !of_message,
        };
        counts && [0, grant.client].contains(&it.client) && until_ns >= grant.sent_ns
    })
}

/// Whether this was kept although its acquisition ended without the lock, or was asked for anew; and whether the client had asked for
/// nothing else there meanwhile.
fn is_kept(history: &History, grant: &Grant) -> bool {
    let of = |it: &&Event| it.acquisition == grant.acquisition;
    let ends = |it: &&Event| {
        matches!(it.what, What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_))
    };
    let end = history.events.iter().filter(of).find(ends);
    if end.is_some_and(|it| it.at_ns < grant.answered_ns) {
        return false;
    }
    let end_ns = end.map_or(u64::MAX, |it| it.at_ns);
    let theirs = |it: &&(u32, u32, u16, u64)| (it.0, it.2) == (grant.acquisition, grant.node);
    let freeing =
        sent(history, |it| matches!(it, Touch::Delete | Touch::Unknown | Touch::Extend(0)));
    let is_freed = |by_ns| freeing.iter().filter(theirs).any(|it| it.1 > grant.op && it.3 <= by_ns);
    let gone_ns = grant.answered_ns + grant.ttl_ns;
    let requests = sent(history, |touch| makes(touch).is_some());
    let again = |it: &(u32, u32, u16, u64)| {
        let by_caller = history.head.gives_up_ns.is_some();
        !by_caller
            && (grant.answered_ns..gone_ns.min(end_ns)).contains(&it.3)
            && !is_freed(it.3)
            && !is_excused(history, grant, it.3, true)
    };
    let due_ns = grant.sent_ns + grant.ttl_ns;
    let is_told_no = end.is_some_and(|it| it.what != What::Acquired);
    let is_early = end_ns <= grant.sent_ns + grant.ttl_ns / 2;
    let last_ns = history.events.last().map_or(0, |it| it.at_ns);
    let keeps = is_told_no && is_early && last_ns > due_ns;
    keeps && !is_freed(due_ns) && !is_excused(history, grant, due_ns, false)
        || requests.iter().filter(theirs).any(again)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn who_is_blamed_has_kept_a_key(steps in steps(), nodes in 1..3_u16, gives_up: bool) {
        let tape = Tape::new().with(|it| (it.honest, it.nodes) = (true, Some(nodes)));
        let tape = tape.with(|it| it.gives_up_ns = gives_up.then_some(10));
        let history = history(&tape, &steps);
        let found = verdict(&history, &mut *checker(&history.head).unwrap()).outcome();
        let grants = grants(&history);
        let is_kept = grants.iter().any(|it| is_kept(&history, it));
        prop_assert_eq!(found == Outcome::Violated, is_kept);
    }
}
