//! Who is told too late or too soon in random histories, as one finds it who looks at all of them again for each acquisition.

use history::fault::Fault;
use history::{Event, History, What};
use picklock::env::Phase;
use proptest::prelude::*;

use super::{GRAIN_NS, checker};
use crate::random::{blamed, config, count, history, steps};
use crate::testing::Tape;

fn is_fault(event: &Event, fault: Fault) -> bool {
    matches!(event.what, What::Fault { fault: it, .. } if it == fault)
}

/// For how long a client stood still from then on; none where it still does in the end.
fn stood_ns(history: &History, client: u32, span: std::ops::RangeInclusive<u64>) -> Option<u64> {
    let (mut stood_ns, mut stopped_ns) = (0, None);
    for event in history.events.iter().filter(|it| it.client == client && span.contains(&it.at_ns))
    {
        if is_fault(event, Fault::Pause) {
            stood_ns += stopped_ns.map_or(0, |from_ns| event.at_ns - from_ns);
            stopped_ns = Some(event.at_ns);
        } else if !matches!(event.what, What::Fault { .. }) {
            stood_ns += stopped_ns.take().map_or(0, |from_ns| event.at_ns - from_ns);
        }
    }
    stopped_ns.is_none().then_some(stood_ns)
}

/// Whether this acquisition was answered too late or too soon, or asked on.
fn is_to_blame(history: &History, acquisition: u32) -> bool {
    let (deadline_ns, overrun_ns) = history.head.deadline_ns.zip(history.head.overrun_ns).unwrap();
    let of = || history.events.iter().filter(|it| it.acquisition == acquisition);
    let Event { at_ns: began_ns, client, .. } = *of().next().unwrap();
    let ends = |it: &&Event| {
        matches!(it.what, What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_))
    };
    let end = of().find(ends);
    let end_ns = end.or(history.events.last()).map_or(0, |it| it.at_ns);
    let by_then = || history.events.iter().filter(|it| it.at_ns <= end_ns);
    let dies =
        |it: &Event| it.at_ns >= began_ns && it.client == client && is_fault(it, Fault::Crash);
    let drifts = |it: &Event| [0, client].contains(&it.client) && is_fault(it, Fault::Drift);
    if by_then().any(|it| dies(it) || drifts(it)) {
        return false;
    }
    let Some(stood_ns) = stood_ns(history, client, began_ns..=end_ns) else { return false };
    let waited_ns = end_ns - began_ns;
    let is_asked = |it: &&Event| it.what == What::Phase(Phase::AcquireBeforeSend);
    let asked = of().filter(is_asked).filter(|it| it.at_ns <= end_ns);
    let attempts = asked.filter(|it| it.at_ns - began_ns > deadline_ns).count();
    let for_good = |it: &Event| matches!(it.what, What::Refused(why) if history.texts.get(why).starts_with("NOPERM"));
    let is_refused = of().any(|it| it.at_ns <= end_ns && for_good(it));
    let is_no = end.is_some_and(|it| matches!(it.what, What::NotAcquired(_)));
    waited_ns > deadline_ns + overrun_ns + stood_ns
        || attempts > 2
        || is_no && waited_ns + GRAIN_NS < deadline_ns && !is_refused
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn who_is_blamed_is_to_blame(steps in steps(), long: bool) {
        let deadline_ns = if long { GRAIN_NS + 80 } else { 80 };
        let limits = (Some(deadline_ns), Some(30), Some(deadline_ns));
        let tape = Tape::new().with(|it| (it.deadline_ns, it.overrun_ns, it.tries_for_ns) = limits);
        let history = history(&tape, &steps);
        let blamed = blamed(&history, &mut *checker(&history.head).unwrap());
        prop_assert_eq!(blamed, count(&history, |it| is_to_blame(&history, it)));
    }
}
