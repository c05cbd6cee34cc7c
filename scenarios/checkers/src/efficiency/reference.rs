//! What locks cost in random histories, as one finds it who asks of each command what it was for.

use history::verdict::Outcome;
use history::{Event, History, Update, What};
use picklock::env::Phase;

use super::NAME;
use crate::agreement::{Said, agree};
use crate::random::{Step, steps_of};
use crate::testing::{LOCK, Tape};

const RESOURCE: u16 = 9;

/// Who waits is at work on the resource, or no longer; some commands have another key, or are sent to another server.
fn history(within_milli: u64, steps: &[Step]) -> History {
    let tape = Tape::new().resource(RESOURCE);
    let tape = tape.with(|it| it.commands_within_milli = Some(within_milli));
    let mut history = crate::random::history(&tape, steps);
    let (pool, why) = (history.texts.intern("pool"), history.texts.intern("reset"));
    for event in &mut history.events {
        match &mut event.what {
            What::Command { node, .. } if event.op % 8 == 0 => *node = RESOURCE,
            What::Command { key, .. } if event.op % 2 == 0 => *key = pool,
            What::Phase(Phase::Wait) => {
                let update = Update { read: 1, written: 2, token: None };
                event.what = match event.at_ns % 12 {
                    0 => What::Taken { prize: 1, left: 0 },
                    1 => What::NotTaken(why),
                    2 => What::TakeUnknown { prize: 1, why },
                    3 => What::Updated(update),
                    4 => What::NotUpdated(why),
                    5 => What::UpdateUnknown { update, why },
                    6 | 7 => What::Take,
                    _ => What::Update,
                };
            }
            _ => {}
        }
    }
    history
}

/// Whether what was sent at this place was sent for the lock.
fn is_for_lock(history: &History, place: usize) -> bool {
    let Event { acquisition, what, .. } = history.events[place];
    let What::Command { node, key, .. } = what else { return false };
    let before = history.events[..place].iter().filter(|it| it.acquisition == acquisition);
    let mut works = before.filter_map(|it| match it.what {
        What::Take | What::Update => Some(true),
        What::Taken { .. } | What::NotTaken(_) | What::TakeUnknown { .. } => Some(false),
        What::Updated(_) | What::NotUpdated(_) | What::UpdateUnknown { .. } => Some(false),
        _ => None,
    });
    let works = works.next_back().unwrap_or(false);
    node != RESOURCE && (!works || history.texts.get(key) == LOCK)
}

fn expected(history: &History, within_milli: u64) -> Said {
    let for_lock = |place: &usize| is_for_lock(history, *place);
    let cost = (0..history.events.len()).filter(for_lock).count() as u64 * 1_000;
    let granted = history.events.iter().filter(|it| it.what == What::Acquired).count() as u64;
    let sends = history.events.iter().any(|it| matches!(it.what, What::Command { .. }));
    match granted {
        0 => (Outcome::Inconclusive, 0),
        _ if cost > within_milli * granted => (Outcome::Violated, 1),
        _ if sends => (Outcome::Held, 0),
        _ => (Outcome::NotApplicable, 0),
    }
}

#[test]
fn what_is_sent_for_the_lock_is_counted() {
    agree(NAME, 50, (0..8_000_u64, steps_of(3)), |(within_milli, steps)| {
        let history = history(within_milli, &steps);
        let expected = expected(&history, within_milli);
        (history, expected)
    });
}
