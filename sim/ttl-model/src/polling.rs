//! How long clients wait for a lock. They ask at random times; one that finds the lock taken tries again once per poll,
//! until it is the first to find it free.
//!
//! Invariant: every waiting client is simulated, and none is preferred: others that wait may overtake it, and so may one that
//! has just come. A client that waits or has the lock asks for nothing else.

use super::law::{Random, float};
use super::traffic::Traffic;
use crate::tuning::IfTaken;

#[derive(Debug)]
pub(super) struct PollingClients {
    clients: u32,
    /// How often each asks for this lock.
    each_per_ns: f64,
    poll_ns: u64,
    /// How long each waiting client has waited so far.
    waited_ns: Vec<u64>,
}

impl PollingClients {
    /// Nobody waits at first. Clients that skip never do.
    pub(super) fn new(traffic: &Traffic) -> Self {
        let per_ns = traffic.asks_per_ns() / f64::from(traffic.locks.max(1));
        let each_per_ns = match traffic.if_taken {
            IfTaken::Wait => per_ns / f64::from(traffic.clients.max(1)),
            IfTaken::Skip => 0.0,
        };
        let (clients, poll_ns) = (traffic.clients, traffic.poll_ns.max(1));
        Self { clients, each_per_ns, poll_ns, waited_ns: Vec::new() }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waited_ns.len()
    }

    /// The holder keeps the lock for `kept_ns`: returns how long the next holder has waited.
    pub(super) fn next(&mut self, kept_ns: u64, random: &mut Random) -> u64 {
        self.pass(kept_ns);
        let mut asked_ns = random.gap(self.asks_per_ns(1));
        while asked_ns < kept_ns {
            self.waited_ns.push(kept_ns - asked_ns);
            asked_ns = asked_ns.saturating_add(random.gap(self.asks_per_ns(1)));
        }
        let asks_in_ns = random.gap(self.asks_per_ns(0));
        let tries_in_ns =
            |waited_ns: &u64| (self.poll_ns - waited_ns % self.poll_ns) % self.poll_ns;
        let tries = self.waited_ns.iter().map(tries_in_ns).zip(0..).min();
        let Some((in_ns, place)) = tries.filter(|(in_ns, _)| *in_ns <= asks_in_ns) else {
            self.pass(asks_in_ns);
            return 0;
        };
        self.pass(in_ns);
        self.waited_ns.swap_remove(place)
    }

    /// How often a further client asks for the lock: `holders` and those that wait do not.
    fn asks_per_ns(&self, holders: u64) -> f64 {
        let busy = self.waited_ns.len() as u64 + holders;
        self.each_per_ns * float(u64::from(self.clients).saturating_sub(busy))
    }

    fn pass(&mut self, span_ns: u64) {
        self.waited_ns.iter_mut().for_each(|it| *it = it.saturating_add(span_ns));
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::law::Law;
    use crate::stat::{Interval, Mean};
    use crate::testing::{law, overlap, traffic};

    const MS: u64 = 1_000_000;
    const RUNS: u64 = 200;
    /// Acquisitions of a run: those that fill the queue, and those that count.
    const FILL: usize = 1_000;
    const COUNTED: usize = 2_000;

    /// How long each acquisition waited, and how many then still did.
    type Acquisitions = Vec<(u64, usize)>;

    fn of_the_queue(traffic: &Traffic, kept: &Law, random: &mut Random) -> Acquisitions {
        let mut queue = PollingClients::new(traffic);
        let mut next = || (queue.next(kept.draw(random), random), queue.len());
        (0..FILL + COUNTED).map(|_| next()).collect()
    }

    /// The same by clients with a clock each, which ask, poll and keep the lock one event after the other.
    fn of_each_client(traffic: &Traffic, kept: &Law, random: &mut Random) -> Acquisitions {
        let seldom = 1.0 / float(traffic.every_ns * u64::from(traffic.locks));
        let mut asks: BinaryHeap<Reverse<(u64, usize)>> =
            (0..traffic.clients as usize).map(|it| Reverse((random.gap(seldom), it))).collect();
        let mut since_ns = vec![None; asks.len()];
        let (mut free_ns, mut waiting, mut found) = (0, 0, Vec::new());
        while found.len() < FILL + COUNTED {
            let Reverse((now_ns, client)) = asks.pop().expect("each asks again");
            let next_ns = if now_ns < free_ns {
                waiting += usize::from(since_ns[client].is_none());
                since_ns[client].get_or_insert(now_ns);
                now_ns + traffic.poll_ns
            } else {
                waiting -= usize::from(since_ns[client].is_some());
                found.push((now_ns - since_ns[client].take().unwrap_or(now_ns), waiting));
                free_ns = now_ns + kept.draw(random);
                free_ns + random.gap(seldom)
            };
            asks.push(Reverse((next_ns, client)));
        }
        found
    }

    /// The mean wait and its 99th percentile in milliseconds, and how many wait.
    fn figures(of_a_run: impl Fn(&mut Random) -> Acquisitions) -> [Interval; 3] {
        let mut means = [Mean::default(); 3];
        for run in 0..RUNS {
            let mut found = of_a_run(&mut Random::new(11, run)).split_off(FILL);
            found.sort_unstable();
            let mean = |of: fn(&(u64, usize)) -> f64| {
                found.iter().map(of).sum::<f64>() / float(COUNTED as u64)
            };
            let p99_ms = float(found[COUNTED * 99 / 100].0 / MS);
            let all = [mean(|it| float(it.0) / 1e6), p99_ms, mean(|it| float(it.1 as u64))];
            means.iter_mut().zip(all).for_each(|(mean, it)| mean.add(it));
        }
        means.map(|it| it.interval_999())
    }

    /// So many clients, each of which asks for the one lock so seldom that all together do so often a second.
    fn one_lock(clients: u32, per_s: u32, poll_ms: u64) -> Traffic {
        let every_ns = 1_000 * MS * u64::from(clients) / u64::from(per_s);
        Traffic { locks: 1, every_ns, poll_ns: poll_ms * MS, ..traffic(clients) }
    }

    #[test]
    fn the_wait_is_that_of_clients_that_poll_one_by_one() {
        for (clients, per_s, kept, poll_ms) in [
            (200, 1, "100ms", 500),
            (200, 1, "lognormal:100ms,p99=400ms", 50),
            (200, 5, "10ms", 50),
            // Many wait, so that a free lock is found long before a poll is over.
            (200, 5, "100ms", 500),
            (200, 8, "uniform:0s..200ms", 50),
            // One that waits asks no second time.
            (3, 5, "100ms", 50),
            (2, 5, "100ms", 500),
        ] {
            let (traffic, law) = (one_lock(clients, per_s, poll_ms), law(kept));
            let found = figures(|random| of_the_queue(&traffic, &law, random));
            let walked = figures(|random| of_each_client(&traffic, &law, random));
            for (one, other) in found.into_iter().zip(walked) {
                let case = format!("{clients} {per_s}/s {kept} {poll_ms} ms: {found:?} {walked:?}");
                assert!(overlap(one, other), "{case}");
                // Intervals so narrow that a wrong wait lies outside.
                let is_narrow = |it: Interval| it.high < 1.3 * it.low;
                assert!(is_narrow(one) && is_narrow(other), "{case}");
            }
        }
    }

    #[test]
    fn who_finds_the_lock_taken_comes_again_after_a_poll() {
        let mean_ms = |per_s, kept: &str, poll_ms| {
            let (traffic, law) = (one_lock(1_000, per_s, poll_ms), law(kept));
            let [mean, p99, _] = figures(|random| of_the_queue(&traffic, &law, random));
            (mean.middle, p99.middle)
        };
        // One in a hundred finds it taken and has it at the next try.
        let (mean, _) = mean_ms(1, "10ms", 500);
        assert!((mean / 5.0 - 1.0).abs() < 0.1, "{mean}");
        // One in ten finds it taken, and some of them twice.
        let (mean, p99) = mean_ms(1, "100ms", 500);
        assert!(
            (mean / 59.0 - 1.0).abs() < 0.05 && (p99 / 1_000.0 - 1.0).abs() < 0.05,
            "{mean} {p99}"
        );
        // Polls that are short beside a hold cost nothing: Pollaczek and Khinchine's formula of a constant service.
        let (mean, _) = mean_ms(5, "100ms", 1);
        assert!((mean / 50.0 - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn who_is_alone_never_waits_and_who_skips_does_not_either() {
        let mut random = Random::new(1, 1);
        for it in [traffic(1), Traffic { if_taken: IfTaken::Skip, ..traffic(100) }] {
            let mut queue = PollingClients::new(&it);
            assert!((0..100).all(|_| queue.next(u64::MAX / 2, &mut random) == 0));
        }
        // Of two clients one at most waits, however long the other has the lock.
        let mut two = PollingClients::new(&traffic(2));
        assert!((0..100).any(|_| two.next(100_000_000_000, &mut random) > 0));
        assert!(two.len() <= 1);
    }
}
