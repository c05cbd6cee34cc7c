//! Who believes at once in random histories, as one finds it who looks at every nanosecond.

use std::collections::{BTreeMap, BTreeSet};

use history::fault::Fault;
use history::{Event, History, What};
use proptest::prelude::*;

use super::checker;
use crate::random::{blamed, config, history, steps};
use crate::testing::Tape;

/// An acquisition, as far as it is known.
#[derive(Clone, Copy, Default)]
struct Claim {
    client: u32,
    has: bool,
    over: bool,
    until_ns: u64,
}

/// How many began to believe while another did.
fn overlaps(history: &History) -> usize {
    let mut claims: BTreeMap<u32, Claim> = BTreeMap::new();
    let mut met = BTreeSet::new();
    let mut events = history.events.iter().peekable();
    for now_ns in 0..=history.events.last().map_or(0, |it| it.at_ns) {
        let mut begins = None;
        if let Some(&Event { acquisition, client, what, .. }) =
            events.next_if(|it| it.at_ns == now_ns)
        {
            let claim = claims.entry(acquisition).or_default();
            match what {
                What::Acquire => *claim = Claim { client, ..Claim::default() },
                What::Acquired => (claim.has, begins) = (true, Some(acquisition)),
                What::ValidUntil(until_ns) if !claim.has || now_ns < claim.until_ns => {
                    claim.until_ns = claim.until_ns.max(until_ns);
                }
                What::Lost | What::Release => claim.over = true,
                What::Fault { fault: Fault::Crash, .. } => {
                    claims
                        .values_mut()
                        .filter(|it| it.client == client)
                        .for_each(|it| it.over = true);
                }
                _ => {}
            }
        }
        let tracked = history.head.tracked;
        let believes = |it: &Claim| it.has && !it.over && !(tracked && it.until_ns <= now_ns);
        let believers: Vec<u32> =
            claims.iter().filter(|(_, it)| believes(it)).map(|(it, _)| *it).collect();
        if believers.len() > 1 {
            met.extend(begins.filter(|it| believers.contains(it)));
        }
    }
    met.len()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn those_who_believe_at_once_are_those_of_who_looks_all_the_time(steps in steps(), tracked: bool) {
        let history = history(&Tape::new().with(|it| it.tracked = tracked), &steps);
        let found = blamed(&history, &mut *checker(&history.head).unwrap());
        prop_assert_eq!(found, overlaps(&history));
    }
}
