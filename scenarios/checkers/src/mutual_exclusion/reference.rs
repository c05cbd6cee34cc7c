//! Who believes at once in random histories, as one finds it who looks at every nanosecond.

use std::collections::{BTreeMap, BTreeSet};

use history::fault::Fault;
use history::{History, What};
use proptest::prelude::*;

use super::checker;
use crate::agreement::Claim;
use crate::random::{blamed, config, history, steps};
use crate::testing::Tape;

/// How many began to believe while another did.
fn overlaps(history: &History) -> usize {
    let mut claims: BTreeMap<u32, Claim> = BTreeMap::new();
    let mut met = BTreeSet::new();
    let mut events = history.events.iter().peekable();
    for now_ns in 0..=history.events.last().map_or(0, |it| it.at_ns) {
        let mut begins = None;
        if let Some(event) = events.next_if(|it| it.at_ns == now_ns) {
            claims.entry(event.acquisition).or_default().see(event);
            match event.what {
                What::Acquired => begins = Some(event.acquisition),
                What::Fault { fault: Fault::Crash, .. } => {
                    claims
                        .values_mut()
                        .filter(|it| it.client == event.client)
                        .for_each(|it| it.over = true);
                }
                _ => {}
            }
        }
        let tracked = history.head.tracked;
        let believes = |it: &(&u32, &Claim)| it.1.believes(tracked, now_ns);
        let believers: Vec<u32> = claims.iter().filter(believes).map(|(it, _)| *it).collect();
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
