//! What is said of work in random histories, as one finds it who looks at all that came before each thing that is said.

use history::fault::Fault;
use history::words::{PROTECTED, STOPPED, UNPROTECTED};
use history::{Event, History, Update, What};
use picklock::env::Phase;

use super::NAME;
use crate::agreement::{Claim, Said, agree, blames};
use crate::random::{Step, steps_of};
use crate::testing::Tape;

/// Who has the lock and waits is at work, and is told of that when it has released. Nobody loses what it has not got,
/// nor is told of a first validity behind that.
fn history(steps: &[Step]) -> History {
    let tape = Tape::tracked().with(|it| it.exact = true);
    let mut history = crate::random::history(&tape, steps);
    let [stopped, unprotected, protected, why] =
        [STOPPED, UNPROTECTED, PROTECTED, "reset"].map(|it| history.texts.intern(it));
    let (mut got, mut valid) = (Vec::new(), Vec::new());
    let update = Update { read: 1, written: 2, token: None };
    for event in &mut history.events {
        let has = got.contains(&event.acquisition);
        let number = event.at_ns / 2;
        event.what = match event.what {
            What::Phase(Phase::Wait) if has => match number % 8 {
                0 => What::Update,
                1 => What::NotUpdated(why),
                2 => What::UpdateUnknown { update, why },
                _ => What::Updated(update),
            },
            What::Lost if !has => What::Phase(Phase::Wait),
            What::ValidUntil(_) if has && !valid.contains(&event.acquisition) => {
                What::Phase(Phase::Wait)
            }
            What::ValidUntil(until_ns) => {
                valid.push(event.acquisition);
                What::ValidUntil(until_ns)
            }
            What::Released(_) => match number % 6 {
                0 => What::Released(protected),
                1 => What::ReleaseUnknown(why),
                2 | 3 => What::ReleaseUnknown(stopped),
                _ => What::ReleaseUnknown(unprotected),
            },
            What::Acquired => {
                got.push(event.acquisition);
                What::Acquired
            }
            other => other,
        };
    }
    history
}

/// What was said of work, and whether that is false.
fn is_lie(history: &History, place: usize) -> Option<bool> {
    let events = &history.events;
    let text = match events[place].what {
        What::ReleaseUnknown(why) => history.texts.get(why),
        What::Released(told) if history.texts.get(told) == PROTECTED => return Some(false),
        _ => return None,
    };
    let own = || events[..place].iter().filter(|it| it.acquisition == events[place].acquisition);
    let works = |it: &&Event| {
        matches!(
            it.what,
            What::Update | What::Updated(_) | What::NotUpdated(_) | What::UpdateUnknown { .. }
        )
    };
    let done = own().rfind(works).is_some_and(|it| matches!(it.what, What::Updated(_)));
    let release_ns = own().find(|it| it.what == What::Release).unwrap().at_ns;
    let held = Claim::by(own().filter(|it| it.at_ns < release_ns));
    let in_time = !held.over && release_ns < held.until_ns;
    let drifts = |it: &Event| matches!(it.what, What::Fault { fault: Fault::Drift, .. });
    match text {
        STOPPED => Some(done),
        UNPROTECTED => Some(done && in_time && !events[..place].iter().any(drifts)),
        _ => None,
    }
}

fn lies(history: &History) -> Said {
    let told = (0..history.events.len()).filter_map(|place| is_lie(history, place));
    blames(told.clone().filter(|is_lie| *is_lie).count(), told.count() > 0)
}

#[test]
fn who_is_blamed_has_lied_of_its_work() {
    agree(NAME, 50, steps_of(3), |steps| {
        let history = history(&steps);
        let lies = lies(&history);
        (history, lies)
    });
}
