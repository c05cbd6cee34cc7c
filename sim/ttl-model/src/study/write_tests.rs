//! What the time until the write does to others, beside a simulation of its own: clients with a clock each, one server with
//! one key, and one event after the other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;
use crate::stat::Interval;
use crate::testing::{MS, conditions, traffic};

/// Acquisitions of a run: those that fill the queue, and those that count.
const FILL: usize = 500;
const COUNTED: usize = 4_000;
const RUNS: u64 = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Try { since_ns: u64 },
    Write { hold: usize },
    Release { hold: usize },
}

/// What one hold will do once it has the lock, as nobody can take it before its lease ends.
struct Hold {
    way_ns: u64,
    lease_end_ns: u64,
    /// When the write arrives, if the last check lets it be sent.
    write_ns: Option<u64>,
    release_ns: u64,
}

impl Hold {
    /// Of a client whose acquisition arrives now.
    fn of(lease: &LeaseModel<'_>, now_ns: u64, random: &mut Random) -> Self {
        let LeaseModel { conditions, options, .. } = lease;
        let [ttl_ns, validity_ns] = [options.ttl(), options.validity()].map(span_ns);
        let way_ns = conditions.round_trip.draw(random) / 2;
        let sent_ns = now_ns - way_ns;
        let mut pauses = Vec::new();
        let mut run = |from_ns: u64, run_ns: u64, random: &mut Random| {
            let (mut at_ns, mut left_ns) = (from_ns, run_ns);
            let Some((per_ns, lengths)) = &conditions.pause else { return from_ns + run_ns };
            loop {
                let gap_ns = random.gap(*per_ns);
                if gap_ns >= left_ns {
                    return at_ns + left_ns;
                }
                (at_ns, left_ns) = (at_ns + gap_ns, left_ns - gap_ns);
                pauses.push((at_ns, at_ns + lengths.draw(random)));
                at_ns = pauses[pauses.len() - 1].1;
            }
        };
        let work_ns = conditions.hold.draw(random);
        let checked_ns = run(now_ns + way_ns, work_ns, random);
        let done_ns = run(checked_ns, conditions.write_ns, random);
        let (mut lease_end_ns, mut valid_end_ns) = (now_ns + ttl_ns, sent_ns + validity_ns);
        let mut valid_at_check_ns = valid_end_ns;
        let every_ns = lease.setting.renew.map_or(u64::MAX, span_ns);
        let mut due_ns = sent_ns.saturating_add(every_ns);
        loop {
            let asleep =
                pauses.iter().find(|(from_ns, to_ns)| (*from_ns..*to_ns).contains(&due_ns));
            let renewed_ns = asleep.map_or(due_ns, |pause| pause.1);
            if renewed_ns >= done_ns.min(valid_end_ns) || renewed_ns + way_ns >= lease_end_ns {
                break;
            }
            lease_end_ns = renewed_ns + way_ns + ttl_ns;
            valid_end_ns = renewed_ns + validity_ns;
            if renewed_ns + 2 * way_ns <= checked_ns {
                valid_at_check_ns = valid_end_ns;
            }
            due_ns = renewed_ns + every_ns;
        }
        match checked_ns < valid_at_check_ns {
            true => Self {
                way_ns,
                lease_end_ns,
                write_ns: Some(done_ns + conditions.round_trip.draw(random) / 2),
                release_ns: done_ns + way_ns,
            },
            false => Self { way_ns, lease_end_ns, write_ns: None, release_ns: checked_ns + way_ns },
        }
    }
}

/// The share of holds that write after another client has taken the lock, and the mean wait in milliseconds.
fn of_each_client(lease: &LeaseModel<'_>, traffic: &Traffic, seed: u64) -> (f64, f64) {
    let mut random = Random::new(seed, 77);
    let seldom = 1.0 / float(traffic.every_ns * u64::from(traffic.locks));
    let asks = |after_ns: u64, client: u32, random: &mut Random| {
        let since_ns = after_ns + random.gap(seldom);
        Reverse((since_ns, client, Event::Try { since_ns }))
    };
    let mut events: BinaryHeap<_> =
        (0..traffic.clients).map(|it| asks(1_000_000_000, it, &mut random)).collect();
    let (mut last, mut free_ns, mut waited_ns, mut overlaps) = (0, 0, 0, 0);
    while last < FILL + COUNTED {
        let Some(Reverse((now_ns, client, event))) = events.pop() else { break };
        match event {
            Event::Try { .. } if now_ns < free_ns => {
                events.push(Reverse((now_ns + traffic.poll_ns, client, event)));
            }
            Event::Try { since_ns } => {
                last += 1;
                let hold = Hold::of(lease, now_ns, &mut random);
                free_ns = hold.lease_end_ns;
                let write = hold.write_ns.map(|at_ns| (at_ns, client, Event::Write { hold: last }));
                events.extend(write.map(Reverse));
                events.push(Reverse((hold.release_ns, client, Event::Release { hold: last })));
                waited_ns += if last > FILL { now_ns + hold.way_ns - since_ns } else { 0 };
            }
            Event::Write { hold } => overlaps += u64::from(hold > FILL && hold < last),
            Event::Release { hold } => {
                free_ns = if hold == last { free_ns.min(now_ns) } else { free_ns };
                events.push(asks(now_ns, client, &mut random));
            }
        }
    }
    let counted = float(COUNTED as u64);
    (float(overlaps) / counted, float(waited_ns) / counted / 1e6)
}

/// What a study says of overlaps and of the wait, where a write takes 300 ms, is what is counted.
fn agree(
    hold: &str,
    pause: Option<(f64, &str)>,
    (ttl_ms, renew_ms): (u32, Option<u32>),
    per_s: u64,
) {
    for clients in [5, 200] {
        let conditions = Conditions { write_ns: 300_000_000, ..conditions(hold, pause) };
        let every_ns = 1_000_000_000 * u64::from(clients) / per_s;
        let traffic = Traffic { every_ns, locks: 1, ..traffic(clients) };
        let (grid, keepings) =
            (vec![(ttl_ms * MS, renew_ms.map(|it| it * MS))], vec![Protection::Tracked]);
        let (holds, seed, threads) = (200_000, 7, 2);
        let study = Study { conditions, traffic, grid, keepings, holds, seed, threads };
        let points = study.run(&StudyProgress::default()).expect("settings that can be");
        let (share, wait_ms) =
            (points[0].effect.per_hold, points[0].wait.mean.0.as_secs_f64() * 1e3);
        let lease = LeaseModel::new(&study.conditions, study.settings()[0]).expect("a setting");
        let (mut overlaps, mut waits) = (Mean::default(), Mean::default());
        for seed in 0..RUNS {
            let (overlap, waited_ms) = of_each_client(&lease, &traffic, seed);
            overlaps.add(overlap);
            waits.add(waited_ms);
        }
        let [overlaps, waits] = [overlaps, waits].map(|it| it.interval_999());
        let is_near = |it: f64, of: Interval| of.low * 0.9 <= it && it <= of.high * 1.1;
        let case = format!(
            "{hold}, {ttl_ms} ms, {renew_ms:?}, {clients}: {share} {overlaps:?}, {wait_ms} ms {waits:?}"
        );
        assert!(is_near(share, overlaps) && is_near(wait_ms, waits), "{case}");
    }
}

#[test]
fn others_wait_until_the_write_and_take_over_before_it_as_is_counted() {
    let pauses = Some((0.5, "lognormal:50ms,p99=500ms"));
    agree("lognormal:100ms,p99=500ms", pauses, (500, None), 1);
    agree("lognormal:100ms,p99=500ms", None, (500, None), 1);
    // A lock that is taken four fifths of the time.
    agree("lognormal:50ms,p99=500ms", pauses, (1_000, None), 2);
}

#[test]
fn a_lease_is_renewed_until_the_write() {
    let pauses = Some((0.5, "lognormal:50ms,p99=500ms"));
    agree("lognormal:100ms,p99=500ms", pauses, (500, Some(166)), 1);
    // A write takes longer than a lease.
    agree("lognormal:100ms,p99=500ms", pauses, (250, Some(80)), 1);
}
