//! The story of a violation: what the clients concerned did, step by step.
//!
//! Invariant: every step is an event of the history, in its words and at its time.

use crate::history::{Answer, Event, Intent, Stage, Touch, What};
use crate::verdict::{Witness, WitnessStep};

use super::Case;

/// A witness of these acquisitions, with their steps.
pub(super) fn witness(
    case: &Case<'_>,
    summary: String,
    acquisitions: &[u32],
    occurrences: u64,
) -> Witness {
    let mut named = Vec::new();
    for number in acquisitions {
        if !named.contains(number) {
            named.push(*number);
        }
    }
    let client = |number: &u32| case.timeline.acquisition(*number).map(|it| it.client);
    let clients = named.iter().filter_map(client).collect();
    let steps = steps(case, &named);
    Witness { summary, clients, acquisitions: named, steps, occurrences }
}

/// A list as people say it.
pub(super) fn and(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A span as people say it, with three digits.
pub(super) fn span(ns: u64) -> String {
    let (unit_ns, unit) = match ns {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let (whole, rest) = (ns / unit_ns, ns % unit_ns);
    let digits = match whole {
        _ if rest == 0 => 0,
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    let part = u128::from(rest) * 10_u128.pow(digits) / u128::from(unit_ns);
    match digits {
        0 => format!("{whole} {unit}"),
        _ => format!("{whole}.{part:0width$} {unit}", width = digits as usize),
    }
}

fn steps(case: &Case<'_>, acquisitions: &[u32]) -> Vec<WitnessStep> {
    let mut sent = Vec::new();
    let mut steps = Vec::new();
    for event in &case.history.events {
        if !acquisitions.contains(&event.acquisition) {
            continue;
        }
        if event.what.stage() == Stage::Invoke {
            sent.push(event);
        }
        let invoked = sent.iter().find(|it| it.op == event.op).copied();
        if let Some(text) = tell(case, event, invoked) {
            steps.push(WitnessStep { at_ns: event.at_ns, client: event.client, text });
        }
    }
    steps
}

/// An event in words, where it belongs into a story.
fn tell(case: &Case<'_>, event: &Event, invoked: Option<&Event>) -> Option<String> {
    let history = case.history;
    let text = |text| history.text(text);
    Some(match event.what {
        What::Acquire if history.head.locks => "asks for the lock".to_owned(),
        What::Acquired if history.head.locks => "has the lock".to_owned(),
        What::Acquired => "goes ahead".to_owned(),
        What::NotAcquired(why) => format!("does not get the lock: {}", text(why)),
        What::AcquireUnknown(why) => {
            format!("does not know whether it has the lock: {}", text(why))
        }
        What::Release if history.head.locks => "begins to release".to_owned(),
        What::Release => "has done".to_owned(),
        What::Released(outcome) if history.head.locks => format!("is told: {}", text(outcome)),
        What::ReleaseUnknown(why) => {
            format!("does not know what came of its release: {}", text(why))
        }
        What::Lost => "learns that its lock is lost".to_owned(),
        What::Taken { prize, left } => format!("wins prize {prize}; {left} are left"),
        What::TakeUnknown { prize, why } => {
            format!("does not know whether it won prize {prize}: {}", text(why))
        }
        What::NotTaken(why) => format!("takes no prize: {}", text(why)),
        What::Updated(update) => {
            format!("writes {} to the register, in which it read {}", update.written, update.read)
        }
        What::UpdateUnknown { update, why } => format!(
            "does not know whether it wrote {} to the register, in which it read {}: {}",
            update.written,
            update.read,
            text(why)
        ),
        What::NotUpdated(why) => format!("writes nothing to the register: {}", text(why)),
        What::ValidUntil(until_ns) => {
            format!("may rely on its lock for {}", span(until_ns.saturating_sub(event.at_ns)))
        }
        What::Answered { .. } | What::Refused(_) | What::Unanswered(_) => {
            let What::Command { name, intent, key, .. } = invoked?.what else { return None };
            let on_lock = text(key) == history.head.lock_key;
            answered(case, event, text(name), intent, on_lock)?
        }
        _ => return None,
    })
}

fn answered(
    case: &Case<'_>,
    event: &Event,
    name: &str,
    intent: Intent,
    on_lock: bool,
) -> Option<String> {
    let history = case.history;
    Some(match event.what {
        What::Answered { touch, answer } => {
            let did = match touch {
                Touch::Create(Some(ttl_ns)) => format!("the key is its own for {}", span(ttl_ns)),
                Touch::Create(None) => "the key is its own for ever".to_owned(),
                Touch::Overwrite(_) => "the key is overwritten".to_owned(),
                Touch::Delete => "the key is deleted".to_owned(),
                Touch::Extend(ttl_ns) => format!("the key lives {} from now", span(ttl_ns)),
                // A try that did not succeed tells nothing of the one that did.
                Touch::None if matches!(intent.touch, Touch::Create(_)) => return None,
                Touch::None | Touch::Unknown => match answer {
                    Answer::Nil => "nothing".to_owned(),
                    Answer::Ok => "OK".to_owned(),
                    Answer::Int(value) => value.to_string(),
                    Answer::Text(it) => history.text(it).to_owned(),
                    Answer::List => "a list".to_owned(),
                },
            };
            let on = match () {
                () if on_lock => "the lock",
                () if history.head.register.is_some() => "the register",
                () => "the pool",
            };
            format!("{name} on {on} is answered: {did}")
        }
        What::Refused(why) => format!("{name} is refused: {}", history.text(why)),
        What::Unanswered(why) => format!("{name} is never answered: {}", history.text(why)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_with_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 µs"),
            (1_234, "1.23 µs"),
            (12_345_678, "12.3 ms"),
            (123_456_789, "123 ms"),
            (1_000_000_000, "1 s"),
            (61_050_000_000, "61.0 s"),
        ] {
            assert_eq!(span(ns), text);
        }
    }

    #[test]
    fn lists_are_told_as_people_do() {
        let words =
            |words: &[&str]| and(&words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["3"]), "3");
        assert_eq!(words(&["3", "9"]), "3 and 9");
        assert_eq!(words(&["3", "9", "12"]), "3, 9 and 12");
    }
}
