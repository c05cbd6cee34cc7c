//! Who is overtaken in random histories, as one finds it who looks at all of them again for each acquisition.

use history::fault::Fault;
use history::{Answer, Event, History, Intent, Touch, What};
use picklock::env::Phase;
use proptest::prelude::*;

use super::SOON_PART;
use crate::agreement::{Said, agree, blames};
use crate::random::{Step, steps_of};
use crate::testing::Tape;

/// Scripts hand the lock on, and say what they have found.
fn history(tape: &Tape, steps: &[Step]) -> History {
    let mut history = crate::random::history(tape, steps);
    for event in &mut history.events {
        if let What::Answered { answer, .. } = &mut event.what {
            *answer = Answer::Int(i64::from(event.op % 4));
        }
    }
    history
}

/// An acquisition that wants the lock: its events, with their places, until it ends.
struct Waiter<'a> {
    history: &'a History,
    client: u32,
    acquisition: u32,
    events: Vec<(usize, &'a Event)>,
    /// Where it got the lock, if it did.
    got: Option<usize>,
}

impl<'a> Waiter<'a> {
    fn all(history: &'a History) -> Vec<Self> {
        let begins = history.events.iter().filter(|it| it.what == What::Acquire);
        begins.map(|it| Self::new(history, it)).collect()
    }

    fn new(history: &'a History, begin: &Event) -> Self {
        let Event { client, acquisition, .. } = *begin;
        let mut events: Vec<_> = history.events.iter().enumerate().collect();
        events.retain(|(_, it)| it.acquisition == acquisition);
        let ends = |it: &&(usize, &Event)| {
            matches!(it.1.what, What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_))
        };
        let end = events.iter().find(ends).copied();
        let got = end.filter(|it| it.1.what == What::Acquired).map(|it| it.0);
        events.retain(|it| end.is_none_or(|end| it.0 < end.0));
        Self { history, client, acquisition, events, got }
    }

    fn began(&self) -> usize {
        self.events[0].0
    }

    /// Where it sent its first command, if it has by then.
    fn came(&self, by: usize) -> Option<usize> {
        let mut sent = self.events.iter().filter(|it| matches!(it.1.what, What::Command { .. }));
        sent.next().map(|it| it.0).filter(|came| *came < by)
    }

    /// Whether a fault may have cost it its place by then.
    fn is_excused(&self, by: usize) -> bool {
        let began_ns = self.events[0].1.at_ns;
        self.history.events[..by].iter().enumerate().any(|(place, it)| {
            let What::Fault { fault, for_ns, .. } = it.what else { return false };
            let lasts = fault == Fault::Drift || it.at_ns + for_ns >= began_ns;
            let strikes = match it.client {
                0 => place > self.began() || lasts,
                client => client == self.client,
            };
            strikes && fault != Fault::LoseReply
        })
    }

    /// From which place on it is in line, as is known there.
    fn in_line(&self, by: usize) -> Option<usize> {
        let (mut since, mut left, mut placed, mut leaving) = (None, false, false, 0);
        let mut open: Vec<u32> = Vec::new();
        for (place, event) in self.events.iter().filter(|it| it.0 < by) {
            let calm = is_calm(self.history, *place + 1);
            match event.what {
                What::Phase(Phase::Wait) => {
                    if since.is_none() || !calm && !left {
                        since = Some(*place);
                    }
                    (left, leaving, placed) = (false, 0, open.is_empty());
                }
                // It need not have left, or cannot have been put out.
                What::Phase(Phase::AcquireBeforeSend) => {
                    since = since.filter(|_| left || calm);
                    placed = false;
                }
                What::Command { intent: Intent { touch, compares }, .. } => {
                    if matches!(touch, Touch::Create(_) | Touch::Overwrite(_)) {
                        open.push(event.op);
                    }
                    let gives_up = self.history.head.gives_up_ns.is_some();
                    if touch == Touch::Unknown && compares && placed && !gives_up {
                        leaving = event.op;
                    }
                }
                What::Answered { answer, .. } => {
                    left |= leaving == event.op && answer == Answer::Int(2);
                    open.retain(|it| *it != event.op);
                }
                What::Refused(_) => open.retain(|it| *it != event.op),
                _ => {}
            }
        }
        since
    }

    /// Whether this one surely came when the other was in line, as is known there.
    fn came_behind(&self, other: &Self, by: usize) -> bool {
        other.in_line(by).is_some_and(|since| self.came(by).is_some_and(|came| since < came))
    }

    /// The client is there, and wants the lock.
    fn waits(&self, at: usize) -> bool {
        let ends = |it: &Event| {
            let own = it.acquisition == self.acquisition;
            own && matches!(
                it.what,
                What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_)
            )
        };
        let dies = |it: &Event| {
            let crash = matches!(it.what, What::Fault { fault: Fault::Crash, .. });
            crash && it.client == self.client
        };
        let began = self.began();
        began < at && !self.history.events[began..at].iter().any(|it| ends(it) || dies(it))
    }
}

/// Whether there was no reason yet to lose a place.
fn is_calm(history: &History, by: usize) -> bool {
    let head = &history.head;
    let sent_ns = |op| history.events.iter().find(|it| it.op == op).map(|it| it.at_ns);
    let disturbs = |it: &Event| match it.what {
        What::Fault { .. } => true,
        What::Answered { .. } | What::Refused(_) | What::Unanswered(_) => {
            it.at_ns - sent_ns(it.op).unwrap() > head.ttl_ns / SOON_PART
        }
        _ => false,
    };
    head.exact && head.gives_up_ns.is_none() && !history.events[..by].iter().any(disturbs)
}

fn expected(history: &History, within: usize) -> Said {
    let all = Waiter::all(history);
    let granted: Vec<(&Waiter<'_>, usize)> =
        all.iter().filter_map(|it| it.got.map(|got| (it, got))).collect();
    let (mut blamed, mut tried) = (0, false);
    for (it, got) in granted.iter().filter(|(it, got)| !it.is_excused(*got)) {
        let since = it.in_line(*got);
        let before = granted.iter().filter(|(_, before)| before < got && since < Some(*before));
        let overtaken = before.filter(|(other, before)| {
            !it.is_excused(*before) && it.waits(*before) && other.came_behind(it, *before)
        });
        let overtaken = if since.is_some() { overtaken.count() } else { 0 };
        let mut others = all.iter().filter(|other| other.waits(*got) && other.got != it.got);
        tried |= overtaken > 0 || others.any(|other| other.came_behind(it, *got));
        blamed += usize::from(overtaken > within);
    }
    blames(blamed, tried)
}

#[test]
fn who_is_blamed_has_let_others_pass() {
    let draws = (steps_of(4), 0..2_u32, any::<bool>(), any::<bool>(), any::<bool>());
    agree("fairness", 100, draws, |(steps, within, exact, gives_up, soon)| {
        let tape = Tape::new().with(|it| {
            (it.fair_within, it.exact, it.ttl_ns) = (Some(within), exact, 800);
            it.gives_up_ns = gives_up.then_some(10);
        });
        let tape = if soon { tape.with(|it| it.ttl_ns = 8_000) } else { tape };
        let history = history(&tape, &steps);
        let expected = expected(&history, usize::try_from(within).unwrap());
        (history, expected)
    });
}
