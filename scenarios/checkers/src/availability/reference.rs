//! The longest stall of random histories, as one finds it who looks at every nanosecond.

use std::collections::{BTreeMap, BTreeSet};

use history::fault::Fault;
use history::{Event, History, What};
use proptest::prelude::*;

use super::Availability;
use crate::agreement::Claim;
use crate::random::{config, history, steps, verdict};
use crate::testing::Tape;

/// The longest time in which two clients wanted the lock, nobody had it, and nobody got it.
fn longest_ns(history: &History) -> u64 {
    let tracked = history.head.tracked;
    let mut claims: BTreeMap<u32, Claim> = BTreeMap::new();
    let (mut stall_ns, mut longest_ns) = (0, 0);
    let mut events = history.events.iter().peekable();
    let is_crash = |it: &Event| matches!(it.what, What::Fault { fault: Fault::Crash, .. });
    let is_heard = |it: &&Event| !matches!(it.what, What::Fault { .. }) || is_crash(it);
    let end_ns = history.events.iter().rfind(is_heard).map_or(0, |it| it.at_ns);
    for now_ns in 0..end_ns {
        if let Some(event) = events.next_if(|it| it.at_ns == now_ns) {
            claims.entry(event.acquisition).or_default().see(event);
            match event.what {
                What::Acquired => stall_ns = 0,
                What::NotAcquired(_) | What::AcquireUnknown(_) => {
                    claims.remove(&event.acquisition);
                }
                What::Fault { fault: Fault::Crash, .. } => {
                    claims.retain(|_, it| it.client != event.client);
                }
                _ => {}
            }
        }
        let wanting: BTreeSet<u32> =
            claims.values().filter(|it| it.client > 0 && !it.has).map(|it| it.client).collect();
        let stalls = wanting.len() > 1 && !claims.values().any(|it| it.believes(tracked, now_ns));
        stall_ns = if stalls { stall_ns + 1 } else { 0 };
        longest_ns = longest_ns.max(stall_ns);
    }
    longest_ns
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_longest_stall_is_that_of_who_looks_all_the_time(steps in steps(), tracked: bool) {
        let history = history(&Tape::new().with(|it| it.tracked = tracked), &steps);
        let mut checker = Availability::new(&history.head);
        verdict(&history, &mut checker);
        prop_assert_eq!(checker.longest_ns(), longest_ns(&history));
    }
}
