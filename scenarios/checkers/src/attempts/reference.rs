//! Who asks too often in random histories, as one finds it who counts for each acquisition.

use history::{Event, History, What};
use picklock::env::Phase;

use super::NAME;
use crate::agreement::{Said, agree, blames};
use crate::random::{count, history, steps_of};
use crate::testing::Tape;

/// How many attempts an acquisition has begun before it ended.
fn attempts(history: &History, acquisition: u32) -> usize {
    let own = history.events.iter().filter(|it| it.acquisition == acquisition);
    let ends = |it: &&Event| {
        matches!(it.what, What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_))
    };
    let asking = own.take_while(|it| !ends(it));
    asking.filter(|it| it.what == What::Phase(Phase::AcquireBeforeSend)).count()
}

fn expected(history: &History, most: usize) -> Said {
    let many = count(history, |it| attempts(history, it) > most);
    blames(many, count(history, |it| attempts(history, it) > 0) > 0)
}

#[test]
fn who_is_blamed_has_asked_too_often() {
    agree(NAME, 50, (steps_of(2), 0..4_u32), |(steps, most)| {
        let history = history(&Tape::new().with(|it| it.attempts_most = Some(most)), &steps);
        let expected = expected(&history, usize::try_from(most).unwrap());
        (history, expected)
    });
}
