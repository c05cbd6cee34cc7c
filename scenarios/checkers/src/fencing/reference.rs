//! Which tokens do not rise in random histories, as one finds it who looks at each two acquisitions.

use std::collections::BTreeMap;

use history::verdict::Outcome;
use history::{Event, History, Touch, What};
use picklock::env::Phase;
use proptest::prelude::*;

use super::checker;
use crate::random::{Step, config, steps, verdict};
use crate::testing::Tape;

/// Who waits is given a token, if it has none; by and by they rise. Nobody loses what it has not got.
fn history(tape: &Tape, steps: &[Step]) -> History {
    let mut history = crate::random::history(tape, steps);
    let (mut given, mut got) = (Vec::new(), Vec::new());
    for event in &mut history.events {
        let of = event.acquisition;
        match event.what {
            What::Acquired => got.push(of),
            What::Lost if !got.contains(&of) => event.what = What::Phase(Phase::AcquireBeforeSend),
            What::Phase(Phase::Wait) if !got.contains(&of) && !given.contains(&of) => {
                given.push(of);
                event.what = What::Fence(event.at_ns / 4 + event.at_ns * 7 % 32);
            }
            _ => {}
        }
    }
    history
}

/// An acquisition that was given a token.
#[derive(Clone, Copy, Default)]
struct Given {
    token: u64,
    began_ns: u64,
    /// When it got the lock, and when it first sent anything by then that may have made the key for it.
    got_ns: Option<u64>,
    made_ns: Option<u64>,
}

fn given(history: &History) -> BTreeMap<u32, Given> {
    let of = |acquisition| history.events.iter().filter(move |it| it.acquisition == acquisition);
    let tokens = history.events.iter().filter_map(|it| match it.what {
        What::Fence(token) => Some((it.acquisition, token)),
        _ => None,
    });
    let given = tokens.map(|(acquisition, token)| {
        let at = |what| of(acquisition).find(|it| it.what == what).map(|it| it.at_ns);
        let began_ns = at(What::Acquire).unwrap();
        let got_ns = at(What::Acquired);
        let by_then = || of(acquisition).filter(|it| it.at_ns < got_ns.unwrap_or(0));
        let makes = |it: &&Event| match it.what {
            What::Command { intent, .. } => {
                matches!(intent.touch, Touch::Create(_) | Touch::Overwrite(_) | Touch::Unknown)
            }
            _ => false,
        };
        let is_no = |op| {
            by_then().any(|it| {
                let no =
                    matches!(it.what, What::Answered { touch: Touch::None, .. } | What::Refused(_));
                it.op == op && no
            })
        };
        let mut made = by_then().filter(makes).filter(|it| !is_no(it.op));
        let made_ns = made.next().map(|it| it.at_ns);
        (acquisition, Given { token, began_ns, got_ns, made_ns })
    });
    given.collect()
}

/// Whether this one certainly got the lock when that one had been granted it.
fn is_later(it: &Given, before: &Given) -> bool {
    let Some((_, granted_ns)) = it.got_ns.zip(before.got_ns) else { return false };
    it.began_ns > granted_ns || it.made_ns.is_some_and(|made_ns| made_ns > granted_ns)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn tokens_rise_where_those_of_each_two_do(steps in steps()) {
        let history = history(&Tape::new(), &steps);
        let found = verdict(&history, &mut *checker(&history.head).unwrap()).outcome();
        let given: Vec<Given> = given(&history).into_values().collect();
        let falls = |one: &Given| {
            given.iter().any(|other| is_later(one, other) && one.token < other.token)
        };
        let is_twice = |one: &Given| given.iter().filter(|it| it.token == one.token).count() > 1;
        let wrong = given.iter().any(|it| falls(it) || is_twice(it));
        prop_assert_eq!(found == Outcome::Violated, wrong);
    }
}
