//! The longest sleep beside a free lock of random histories, as one finds it who looks at every nanosecond.

use std::collections::BTreeMap;

use history::fault::{Fault, Whom};
use history::{Declared, Event, History, Intent, Touch, What};
use picklock::env::Phase;
use proptest::prelude::*;

use super::WakeUp;
use crate::random::{config, history, steps, verdict};
use crate::testing::Tape;

/// A command that has ended, or has not yet.
#[derive(Clone, Copy)]
struct Command {
    node: u16,
    sent_ns: u64,
    intent: Intent,
    ended: Option<(u64, What)>,
}

impl Command {
    fn makes(&self) -> bool {
        !matches!(self.intent.touch, Touch::None | Touch::Delete)
    }

    /// When it was answered, and what it had done.
    fn did(&self) -> Option<(u64, Touch)> {
        match self.ended? {
            (at_ns, What::Answered { touch, .. }) => Some((at_ns, touch)),
            _ => None,
        }
    }

    fn is_unanswered(&self) -> bool {
        matches!(self.ended, Some((_, What::Unanswered(_))))
    }

    /// When the key that it has made or prolonged is surely over, if nothing else is done to it; none where it did nothing of
    /// the kind.
    fn key_until_ns(&self, margin_ns: u64) -> Option<u64> {
        match self.did()? {
            (
                at_ns,
                Touch::Create(Some(ttl_ns))
                | Touch::Overwrite(Some(ttl_ns))
                | Touch::Extend(ttl_ns),
            ) => Some(at_ns + ttl_ns + margin_ns),
            (_, Touch::Create(None) | Touch::Overwrite(None) | Touch::Unknown) => Some(u64::MAX),
            _ => None,
        }
    }
}

/// Whether the lock is surely free, after these commands.
fn is_free(commands: &BTreeMap<u32, Command>, now_ns: u64, margin_ns: u64) -> bool {
    let makes = |it: &Command| it.makes() && (it.ended.is_none() || it.is_unanswered());
    if commands.values().any(makes) {
        return false;
    }
    let all = || commands.values();
    let acts = |it: &Command| it.did().is_some_and(|(_, touch)| touch != Touch::None);
    // What was sent behind the answer decides how long the key lives from then on.
    let is_over = |it: &Command| {
        let Some((answered_ns, _)) = it.did() else { return true };
        let until_ns = it.key_until_ns(margin_ns);
        let later =
            |other: &Command| other.node == it.node && acts(other) && other.sent_ns >= answered_ns;
        until_ns.is_none_or(|until_ns| until_ns <= now_ns) || all().any(later)
    };
    // Who was told no has found a key: nobody knows for how long, until somebody is known to have done something to it.
    let finds = |it: &Command| {
        let found = matches!(it.intent.touch, Touch::Create(_))
            && it.did().is_some_and(|(_, touch)| touch == Touch::None);
        found && !all().any(|other| other.node == it.node && acts(other))
    };
    all().all(is_over) && !all().any(finds)
}

/// Whether this has deleted a key, so that there was one until now: what was made meanwhile may have been made behind it.
fn deletes(commands: &BTreeMap<u32, Command>, op: u32) -> bool {
    let it = &commands[&op];
    let makes = |other: &&Command| other.node == it.node && other.key_until_ns(0).is_some();
    let mut made = commands.values().filter(makes).filter_map(Command::did);
    matches!(it.did(), Some((_, Touch::Delete))) && made.all(|(at_ns, _)| at_ns <= it.sent_ns)
}

/// An acquisition that wants the lock.
#[derive(Clone, Copy)]
struct Waiter {
    client: u32,
    waits: bool,
    stopped: bool,
    excused_ns: u64,
    slept_ns: u64,
}

fn slept_ns(waiters: &BTreeMap<u32, Waiter>) -> u64 {
    waiters.values().map(|it| it.slept_ns).max().unwrap_or(0)
}

/// The longest time for which somebody slept on while the lock was free.
fn longest_ns(history: &History) -> u64 {
    let mut commands: BTreeMap<u32, Command> = BTreeMap::new();
    let mut of: BTreeMap<u32, u32> = BTreeMap::new();
    let mut waiters: BTreeMap<u32, Waiter> = BTreeMap::new();
    let (mut struck, mut all_until_ns) = (BTreeMap::<u32, u64>::new(), None);
    let (mut unsure, mut longest_ns) = (false, 0);
    let mut events = history.events.iter().peekable();
    let end_ns = history.events.last().map_or(0, |it| it.at_ns);
    for now_ns in 0..=end_ns {
        let event = events.next_if(|it| it.at_ns == now_ns);
        if let Some(&Event { client, acquisition, op, what, .. }) = event {
            if let Some(it) = waiters.get_mut(&acquisition) {
                longest_ns = longest_ns.max(std::mem::take(&mut it.slept_ns));
                it.stopped = false;
            }
            match what {
                What::Acquire => {
                    let during = all_until_ns.is_some_and(|until_ns| now_ns <= until_ns);
                    let excused_ns = match struck.get(&client) {
                        _ if during => u64::MAX,
                        until_ns => until_ns.copied().unwrap_or(0),
                    };
                    let (waits, stopped, slept_ns) = (false, false, 0);
                    let it = Waiter { client, waits, stopped, excused_ns, slept_ns };
                    waiters.insert(acquisition, it);
                }
                What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_) => {
                    waiters.remove(&acquisition);
                }
                What::Phase(phase) => {
                    if let Some(it) = waiters.get_mut(&acquisition) {
                        it.waits = phase == Phase::Wait;
                    }
                }
                What::Command { node, intent, .. } => {
                    commands.insert(op, Command { node, sent_ns: now_ns, intent, ended: None });
                    of.insert(op, acquisition);
                }
                What::Answered { .. } | What::Refused(_) | What::Unanswered(_) => {
                    commands.get_mut(&op).unwrap().ended = Some((now_ns, what));
                    if deletes(&commands, op) {
                        waiters.values_mut().for_each(|it| it.slept_ns = 0);
                    }
                }
                What::Fault { fault, for_ns, staged, .. } => {
                    longest_ns = slept_ns(&waiters).max(longest_ns);
                    let late = client > 0 && fault == Fault::Delay && staged == Some(1);
                    let excused_ns = if late { now_ns + 2 * for_ns } else { u64::MAX };
                    let theirs = waiters.values_mut().filter(|it| [0, it.client].contains(&client));
                    theirs.for_each(|it| match fault {
                        Fault::Pause => it.stopped = true,
                        _ => it.excused_ns = it.excused_ns.max(excused_ns),
                    });
                    unsure |= fault.loses_keys() || fault == Fault::ClockStep;
                    let until_ns = if fault == Fault::Drift { u64::MAX } else { now_ns + for_ns };
                    match client {
                        0 => all_until_ns = all_until_ns.max(Some(until_ns)),
                        _ if fault != Fault::Pause => {
                            let until_ns = struck.entry(client).or_default();
                            *until_ns = excused_ns.max(*until_ns);
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        let free = !unsure && is_free(&commands, now_ns, history.head.margin_ns);
        let open = |acquisition| {
            of.iter().any(|(op, it)| *it == acquisition && commands[op].ended.is_none())
        };
        for (acquisition, it) in &mut waiters {
            let excused = now_ns < it.excused_ns;
            let sleeps = it.waits && !it.stopped && !excused && !open(*acquisition);
            if sleeps && free && now_ns < end_ns {
                it.slept_ns += 1;
            } else {
                longest_ns = longest_ns.max(std::mem::take(&mut it.slept_ns));
            }
        }
    }
    longest_ns
}

/// Some messages are late, and every second one is of a subscription.
fn with_delays(mut history: History) -> History {
    for event in &mut history.events {
        if let What::Fault { fault: fault @ Fault::LoseReply, for_ns, staged, .. } = &mut event.what
        {
            *fault = Fault::Delay;
            *staged = Some(u16::from(*for_ns > 0 && event.at_ns % 2 == 0));
        }
    }
    history
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_longest_sleep_is_that_of_who_looks_all_the_time(
        steps in steps(),
        nodes in 1..3_u16,
        margin_ns in 0..10_u64,
        within_ns in 0..100_u64,
    ) {
        let late = |subscribes| Declared { kind: Fault::Delay, on: Whom::Any, in_hold: false, subscribes };
        let tape = Tape::new().margin(margin_ns).with(|it| it.nodes = Some(nodes));
        let tape = tape.with(|it| it.staged = vec![late(false), late(true)]);
        let history = with_delays(history(&tape, &steps));
        let mut checker = WakeUp { within_ns, ..WakeUp::default() };
        verdict(&history, &mut checker);
        prop_assert_eq!(checker.longest_ns(), longest_ns(&history));
    }
}
