//! Who was refused a lock that nobody had, in random histories, as one finds it who notes for each acquisition from when until when
//! it may have had it.

use history::verdict::Outcome::{Held, Inconclusive, NotApplicable, Violated};
use history::{Event, History, Intent, Touch, What};
use picklock::env::Phase;

use super::ALL_WON;
use crate::agreement::{Command, Said, agree, commands};
use crate::random::{Step, steps_of};
use crate::testing::Tape;

/// Who has the lock and waits takes a prize, or begins to. Most commands ask for the lock in vain; few have no answer, or do what
/// nobody knows. Faults are rare.
fn history(nodes: u16, faults: bool, steps: &[Step]) -> History {
    let tape = Tape::new().clients(2).with(|it| (it.prizes, it.nodes) = (Some(3), Some(nodes)));
    let mut history = crate::random::history(&tape, steps);
    history.events.retain(|it| faults || !matches!(it.what, What::Fault { .. }));
    let texts = &mut history.texts;
    let [why, error, unsent] =
        ["empty", "OOM", "not sent: no connection"].map(|it| texts.intern(it));
    let mut got = Vec::new();
    for event in &mut history.events {
        let has = got.contains(&event.acquisition);
        let number = event.at_ns / 2;
        event.what = match event.what {
            What::Phase(Phase::Wait) if has => match number % 8 {
                0 => What::Taken { prize: 1, left: 0 },
                1 => What::NotTaken(why),
                2 => What::TakeUnknown { prize: 1, why },
                3 => What::Take,
                _ => What::Phase(Phase::Wait),
            },
            What::Command { node, name, key, intent: Intent { touch, compares } }
                if touch == Touch::Unknown && event.op % 8 > 0 =>
            {
                let touch = Touch::Create(Some(100));
                What::Command { node, name, key, intent: Intent { touch, compares } }
            }
            What::Answered { answer, found, .. } if event.op % 8 > 1 => {
                What::Answered { touch: Touch::None, answer, found }
            }
            What::Unanswered(_) if number % 8 > 0 => What::Refused(error),
            What::AcquireUnknown(why) if number % 4 > 0 => What::NotAcquired(why),
            What::NotAcquired(_) if number % 8 == 0 => What::NotAcquired(unsent),
            What::Released(why) if number % 8 == 0 => What::ReleaseUnknown(why),
            What::Acquired => {
                got.push(event.acquisition);
                What::Acquired
            }
            other => other,
        };
    }
    let at_ns = history.events.last().map_or(0, |it| it.at_ns) + 1;
    let left = What::PoolLeft(1);
    history.events.push(Event { at_ns, client: 0, acquisition: 0, op: 0, what: left });
    history
}

/// An acquisition: its events, and its commands.
struct Asked<'a> {
    history: &'a History,
    acquisition: u32,
    commands: &'a [Command],
}

impl<'a> Asked<'a> {
    fn at_ns(&self, is: impl Fn(&What) -> bool) -> Option<u64> {
        let mut own = self.history.events.iter().filter(|it| it.acquisition == self.acquisition);
        own.find(|it| is(&it.what)).map(|it| it.at_ns)
    }

    fn own(&self) -> impl Iterator<Item = &'a Command> {
        let acquisition = self.acquisition;
        self.commands.iter().filter(move |it| it.acquisition == acquisition)
    }

    fn got_ns(&self) -> Option<u64> {
        self.at_ns(|it| *it == What::Acquired)
    }

    fn refused_ns(&self) -> Option<u64> {
        self.at_ns(|it| matches!(it, What::NotAcquired(_)))
    }

    fn ended_ns(&self) -> u64 {
        let unknown_ns = self.at_ns(|it| matches!(it, What::AcquireUnknown(_)));
        let ends_ns = [self.got_ns(), self.refused_ns(), unknown_ns];
        ends_ns.into_iter().flatten().next().unwrap_or(u64::MAX)
    }

    /// When it first sent anything; or began, where it has sent nothing before it ended.
    fn first_ns(&self) -> u64 {
        let sent_ns = self.own().next().map(|it| it.sent_ns).filter(|it| *it < self.ended_ns());
        sent_ns.or(self.at_ns(|it| *it == What::Acquire)).unwrap()
    }

    /// From when until when it may have had the lock.
    fn may_have(&self) -> Vec<(u64, u64)> {
        let released_ns = self.at_ns(|it| matches!(it, What::Released(_))).unwrap_or(u64::MAX);
        let (got_ns, ended_ns) = (self.got_ns(), self.ended_ns());
        let made = |it: &&Command| {
            let made = |(at_ns, touch)| match touch {
                Touch::Create(_) | Touch::Overwrite(_) => Some(at_ns),
                _ => None,
            };
            it.did().and_then(made)
        };
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for it in self.own() {
            let open = matches!(it.end, None | Some((_, What::Unanswered(_))));
            let unknown = it.did().is_some_and(|(_, touch)| touch == Touch::Unknown);
            // What was made behind its back is nobody's.
            let later = made(&it)
                .is_some_and(|at_ns| at_ns > released_ns || got_ns.is_none() && at_ns > ended_ns);
            if open || unknown || later {
                spans.push((it.sent_ns, u64::MAX));
            } else if made(&it).is_some() {
                spans.push((it.sent_ns, if got_ns.is_some() { released_ns } else { u64::MAX }));
            }
        }
        let asked = || self.own().filter(|it| made(it).is_some_and(|at_ns| at_ns < ended_ns));
        let told = self.refused_ns().is_some() && !self.says_not_sent();
        let gave_back = told && asked().next().is_some();
        let unknown = self.at_ns(|it| matches!(it, What::AcquireUnknown(_))).is_some();
        if gave_back || unknown {
            spans.push((self.first_ns(), u64::MAX));
        } else if got_ns.is_some() && asked().next().is_none() {
            spans.push((self.first_ns(), released_ns));
        }
        spans
    }

    /// The last of what it had sent to each server before it ended.
    fn last(&self) -> Vec<&'a Command> {
        let asked = || self.own().filter(|it| it.sent_ns < self.ended_ns());
        (0..8).filter_map(|node| asked().filter(|it| it.node == node).last()).collect()
    }

    /// Whether this had done nothing, as it was answered before the acquisition ended.
    fn is_in_vain(&self, it: &Command) -> bool {
        it.did().is_some_and(|(at_ns, touch)| touch == Touch::None && at_ns < self.ended_ns())
    }

    fn says_not_sent(&self) -> bool {
        self.at_ns(|it| match it {
            What::NotAcquired(why) => self.history.texts.get(*why).starts_with("not sent"),
            _ => false,
        })
        .is_some()
    }

    fn could_ask(&self) -> bool {
        let ended_ns = self.ended_ns();
        let (last, servers) = (self.last(), usize::from(self.history.head.nodes.unwrap()));
        let refused = last
            .iter()
            .any(|it| matches!(it.end, Some((at_ns, What::Refused(_))) if at_ns < ended_ns));
        let answered = last.iter().filter(|it| self.is_in_vain(it)).count();
        let is_hopeless = refused && 2 * (servers - answered) > servers;
        !last.is_empty() && !self.says_not_sent() && !is_hopeless
    }

    /// Whether it was refused the lock although nobody had it.
    fn is_refused_for_nothing(&self, all: &[Self]) -> bool {
        let (Some(refused_ns), last) = (self.refused_ns(), self.last()) else { return false };
        let asked = !last.is_empty() && !self.says_not_sent();
        let in_vain = last.iter().all(|it| self.is_in_vain(it));
        let since_ns = last.iter().map(|it| it.sent_ns).min().unwrap_or(0);
        let had = all.iter().flat_map(Self::may_have);
        let had = had
            .into_iter()
            .any(|(from_ns, until_ns)| from_ns <= refused_ns && until_ns >= since_ns);
        asked && in_vain && !had
    }
}

fn expected(history: &History) -> Said {
    let commands = commands(history);
    let begins = history.events.iter().filter(|it| it.what == What::Acquire);
    let asked = |it: &Event| Asked { history, acquisition: it.acquisition, commands: &commands };
    let all: Vec<Asked<'_>> = begins.map(asked).collect();
    let many = |is: fn(&What) -> bool| {
        i64::try_from(history.events.iter().filter(|it| is(&it.what)).count()).unwrap()
    };
    let won = many(|it| matches!(it, What::Taken { .. }));
    let nothing = many(|it| matches!(it, What::NotTaken(_)));
    // As many clients as there are want one.
    let wanted = 2;
    let open = many(|it| *it == What::Take) - won - nothing;
    let refused: Vec<&Asked<'_>> = all.iter().filter(|it| it.refused_ns().is_some()).collect();
    let blamed = refused.iter().filter(|it| it.is_refused_for_nothing(&all)).count() as u64;
    let unknown = many(|it| matches!(it, What::AcquireUnknown(_)));
    let gave_up = refused.iter().filter(|it| it.could_ask()).count();
    match blamed {
        _ if won >= wanted => (Held, 0),
        _ if many(|it| matches!(it, What::Fault { .. })) > 0 => (NotApplicable, 0),
        _ if won + open >= wanted => (Inconclusive, 0),
        1.. => (Violated, blamed),
        _ if gave_up == refused.len() && gave_up > 0 && unknown + nothing == 0 => {
            (NotApplicable, 0)
        }
        _ => (Inconclusive, 0),
    }
}

#[test]
fn who_is_blamed_was_refused_although_nobody_had_the_lock() {
    agree(ALL_WON, 200, (1..4_u16, 0..8_u8, steps_of(2)), |(nodes, faults, steps)| {
        let history = history(nodes, faults == 0, &steps);
        let expected = expected(&history);
        (history, expected)
    });
}
