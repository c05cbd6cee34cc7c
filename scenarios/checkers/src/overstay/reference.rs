//! Who holds or works for too long in random histories, as one finds it who looks at all of them again for each acquisition.

use history::fault::Fault;
use history::words::LOST;
use history::{Event, History, What};
use picklock::env::Phase;

use super::{LONGEST, STOPS};
use crate::agreement::{Claim, Said, agree, blames};
use crate::random::{Step, steps_of};
use crate::testing::Tape;

const LONGEST_NS: u64 = 10;
const TTL_NS: u64 = 100;
const RESOURCE: u16 = 9;

/// Who waits begins to work, or has worked; some commands are sent to the resource. Nobody loses what it has not got, nor is told of a
/// first validity behind that.
fn history(steps: &[Step]) -> History {
    let tape = Tape::tracked().resource(RESOURCE).with(|it| {
        (it.exact, it.stops, it.ttl_ns) = (true, true, TTL_NS);
        it.longest_hold_ns = Some(LONGEST_NS);
    });
    let mut history = crate::random::history(&tape, steps);
    let [lost, other] = [LOST, "register not read"].map(|it| history.texts.intern(it));
    let (mut got, mut told) = (Vec::new(), Vec::new());
    for event in &mut history.events {
        let has = got.contains(&event.acquisition);
        match &mut event.what {
            What::Acquired => got.push(event.acquisition),
            What::Command { node, .. } if event.op % 3 == 0 => *node = RESOURCE,
            What::Lost if !has => event.what = What::Phase(Phase::Wait),
            What::ValidUntil(_) if has && !told.contains(&event.acquisition) => {
                event.what = What::Phase(Phase::Wait);
            }
            What::ValidUntil(_) => told.push(event.acquisition),
            What::Phase(Phase::Wait) if has => {
                event.what = match event.at_ns % 4 {
                    0 => What::NotUpdated(lost),
                    1 => What::NotUpdated(other),
                    _ => What::Phase(Phase::Hold),
                };
            }
            _ => {}
        }
    }
    history
}

/// What is known of an acquisition until it begins to release, or ends without the lock.
struct Stay<'a> {
    history: &'a History,
    events: Vec<&'a Event>,
}

impl<'a> Stay<'a> {
    fn all(history: &'a History) -> Vec<Self> {
        let begins = history.events.iter().filter(|it| it.what == What::Acquire);
        let of = |begin: &'a Event| {
            let own = history.events.iter().filter(|it| it.acquisition == begin.acquisition);
            let ends = |it: &&Event| {
                matches!(it.what, What::Release | What::NotAcquired(_) | What::AcquireUnknown(_))
            };
            Self { history, events: own.take_while(|it| !ends(it)).collect() }
        };
        begins.map(of).collect()
    }

    fn is_excused(&self, by_ns: u64) -> bool {
        let Event { at_ns: began_ns, client, .. } = *self.events[0];
        self.history.events.iter().take_while(|it| it.at_ns <= by_ns).any(|it| {
            let What::Fault { fault, .. } = it.what else { return false };
            let stands = matches!(fault, Fault::Pause | Fault::Crash) && it.at_ns > began_ns;
            [0, client].contains(&it.client) && (stands || fault == Fault::Drift)
        })
    }

    /// Whether it has said that it relies on its lock for too long.
    fn is_too_long(&self) -> bool {
        let mut acquired = self.events.iter().filter(|it| it.what == What::Acquired);
        let Some(acquired_ns) = acquired.next().map(|it| it.at_ns) else { return false };
        self.events.iter().any(|it| {
            let What::ValidUntil(until_ns) = it.what else { return false };
            until_ns > acquired_ns + LONGEST_NS + TTL_NS
                && !self.is_excused(it.at_ns.max(acquired_ns))
        })
    }

    /// Whether what is said at this place ends its work, the lock being lost; and whether that comes too late or too soon.
    fn ends_work(&self, place: usize) -> (bool, bool) {
        let (before, Event { at_ns, what, .. }) = (&self.events[..place], *self.events[place]);
        let What::NotUpdated(why) = what else { return (false, false) };
        let work = |it: &&&Event| matches!(it.what, What::Phase(Phase::Hold) | What::NotUpdated(_));
        let works = before.iter().rfind(work);
        let works = works.is_some_and(|it| it.what == What::Phase(Phase::Hold));
        let lost_ns = before.iter().find(|it| it.what == What::Lost).map(|it| it.at_ns);
        let told_ns = Claim::by(before.iter().copied()).until_ns;
        let ends_ns = lost_ns.into_iter().chain(Some(told_ns).filter(|it| *it > 0)).min();
        let Some(ends_ns) = ends_ns.filter(|_| works && !self.is_excused(at_ns)) else {
            return (false, false);
        };
        if at_ns < ends_ns {
            return (false, self.history.texts.get(why) == LOST);
        }
        let to_resource = |op| {
            let sent = before.iter().filter(|it| it.op == op);
            sent.into_iter().any(|it| matches!(it.what, What::Command { node: RESOURCE, .. }))
        };
        let answers = before.iter().filter(|it| {
            let end =
                matches!(it.what, What::Answered { .. } | What::Refused(_) | What::Unanswered(_));
            end && to_resource(it.op)
        });
        let answered_ns = answers.map(|it| it.at_ns).max().unwrap_or(0);
        (true, at_ns > ends_ns.max(answered_ns))
    }
}

fn too_long(history: &History) -> Said {
    let too_long = Stay::all(history).iter().filter(|it| it.is_too_long()).count();
    blames(too_long, history.events.iter().any(|it| it.what == What::Acquired))
}

fn too_late(history: &History) -> Said {
    let stays = Stay::all(history);
    let ends = stays.iter().flat_map(|it| (0..it.events.len()).map(|place| it.ends_work(place)));
    let wrong = ends.clone().filter(|(_, is_wrong)| *is_wrong).count();
    blames(wrong, ends.into_iter().any(|(ended, _)| ended))
}

#[test]
fn who_is_blamed_relies_on_its_lock_for_too_long() {
    agree(LONGEST, 50, steps_of(3), |steps| {
        let history = history(&steps);
        let too_long = too_long(&history);
        (history, too_long)
    });
}

#[test]
fn who_is_blamed_works_for_too_long_or_stops_too_soon() {
    agree(STOPS, 50, steps_of(3), |steps| {
        let history = history(&steps);
        let too_late = too_late(&history);
        (history, too_late)
    });
}
