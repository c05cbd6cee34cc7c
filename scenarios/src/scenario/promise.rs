//! What a sound lock can promise in a scenario: how soon a free lock is had again, and by when every client
//! has done. Derived from latencies, TTL, call timeouts, pauses between attempts, faults and how many
//! acquisitions there are, in this place alone.
//!
//! Invariant: a promise is kept by every sound recipe, at any size and speed; where nothing can be promised,
//! it says why. Deliberately absent: promises of recipes with a known flaw, which are held to what the
//! scenario asks.

use std::time::Duration;

use history::Promise;
use history::fault::{Chance, Fault, Staged, Strike};
use picklock::Options;

use super::{Scenario, WorkloadPart};
use crate::call::REPLY_WITHIN;
use crate::recipe::{Params, Servers};
use crate::span::Span;

/// How rarely more messages may be lost in a row than a promise counts with, in all that one run asks.
const BEYOND: f64 = 1e-9;
/// Where everything is lost there is no end to it.
const MOST_IN_A_ROW: u32 = 10_000;
/// A waiter that was not told, and one that it is passed over for, look again after so many TTLs at most.
const LOOKS: u32 = 2;
/// The same of a lock that is handed over: the first in line, if it is cut off, has so long to answer.
const LOOKS_IN_LINE: u32 = 4;
/// What came before the lock was free, the release, the attempt that finds it free, and its answer; as many
/// again where the first had too little left of it.
const WAYS: u32 = 8;
/// A connection, a command and half of the pause before the next, in halves of a call timeout.
const HALVES_A_TRY: u32 = 5;
/// What may begin just before a deadline and is waited for, in round trips: to connect and subscribe, a connection and an
/// attempt; and for who is refused then, a connection and a look at what the key is, or a place in line.
const ROUND_TRIPS: u32 = 6;
/// The same in call timeouts, as the lock library says of each lock: a connection and an attempt.
const CALLS_OF_SEVERAL: u32 = 2;
/// With one key also a connection and a look at what it is.
const CALLS_OF_ONE: u32 = 4;
/// Who listens subscribes before.
const CALLS_OF_A_LISTENER: u32 = 5;
/// The precision of a timer.
const GRAIN: Duration = Duration::from_millis(1);
/// For so long a busy machine may keep a live client from running.
const BY_A_BUSY_MACHINE: Duration = Duration::from_secs(1);
/// No clock runs off by as much as it counts, so none is faster than this.
const FASTEST: u32 = 2;
/// A recipe of the articles sends so many commands an attempt, at most.
const COMMANDS_AN_ATTEMPT: u32 = 4;

impl Scenario {
    /// What its recipe promises of a free lock, where that is less than the scenario asks for; none where it
    /// has to do what is asked. What was measured, where times are `exact`, it has to do.
    pub(crate) fn promise(&self, exact: bool) -> Option<Promise> {
        let about = self.about_lock();
        if self.is_timed(exact) {
            return None;
        }
        let requested = self.available_within.into_iter().chain(self.woken_within).min()?;
        if about.flaw.is_some() || !about.locks {
            return None;
        }
        let options = Options::builder(self.lock.ttl.0).build().ok()?;
        let round = self.slowest().saturating_mul(2);
        let (timeout, validity) = (options.call_timeout(), options.validity());
        let nothing = |because| Some(Promise { within_ns: None, because });
        if round >= timeout {
            return nothing(format!(
                "a round trip may take {}, and the lock waits {} for an answer",
                Span(round),
                Span(timeout)
            ));
        }
        if round >= validity {
            return nothing(format!(
                "a round trip may take {}, and of the TTL only {} may be relied on",
                Span(round),
                Span(validity)
            ));
        }
        let (within, because) = if self.swarm.kinds() > 0 || self.by_chance().next().is_some() {
            let within = self.recovery(&options);
            (within, "drawn faults may strike again and again".to_owned())
        } else if self.handover() < requested.0 / 2 {
            // What is staged is known, and what is asked was written for it.
            return None;
        } else {
            let staged = u32::try_from(self.faults.len()).unwrap_or(u32::MAX);
            let lasting: Duration =
                self.faults.iter().filter_map(|it| it.lasts).map(|it| it.0).sum();
            let tries = self.try_again(&options).saturating_mul(staged);
            let within = self.handover().saturating_add(tries).saturating_add(lasting);
            (within, format!("a message may travel for {}", Span(self.slowest())))
        };
        let because = format!("{because}: within {} is what {} promises", Span(within), about.name);
        let within_ns = Some(picklock::time::span_ns(within));
        (within > requested.0).then_some(Promise { within_ns, because })
    }

    /// For how long a client of its recipe tries again at least, whatever a server answers that may pass: as long
    /// as its retries take, and half of that by a clock that runs as fast as any; none where it promises nothing.
    pub(crate) fn tries_for(&self) -> Option<Duration> {
        let retries = self.lock.pause.0.saturating_mul(self.lock.retries);
        let deadline = self.lock.deadline.map_or(Duration::MAX, |it| it.0);
        self.about_lock().is_sound().then(|| retries.min(deadline) / FASTEST)
    }

    /// How long after the deadline of its caller an acquisition of its recipe ends at the latest: what is under way
    /// then is waited for. Where `exact` times are those of the events, and nothing holds a message up, no call
    /// takes longer than its round trip. None where callers set no deadline, or the recipe promises nothing.
    pub(crate) fn overrun(&self, exact: bool) -> Option<Duration> {
        self.lock.deadline?;
        let about = self.about_lock();
        let calls = match about.servers {
            Servers::Several => CALLS_OF_SEVERAL,
            _ if about.listens() || about.fair.is_some() => CALLS_OF_A_LISTENER,
            _ => CALLS_OF_ONE,
        };
        self.ends_within(calls, exact)
    }

    /// How many attempts an acquisition of its recipe makes at most. None where time ends it, or the recipe promises
    /// nothing.
    pub(crate) fn attempts_most(&self, params: &Params) -> Option<u32> {
        let about = self.about_lock();
        // Who waits for a message is ended by a time, unless its caller has set a deadline beside the retries.
        let by_message = about.fair.is_some() || about.listens() && params.deadline.is_none();
        let is_counted = about.is_sound() && !by_message && !params.ends_by_time();
        is_counted.then(|| params.retries.saturating_add(1))
    }

    /// How long an acquisition of its recipe lasts at the most once nothing is to be waited for any more, as after its
    /// deadline or a refusal that time does not change. None where the recipe promises nothing.
    pub(crate) fn fails_within(&self, exact: bool) -> Option<Duration> {
        // A refusal may come at any of them, and no lock says how many calls are left then.
        self.ends_within(ROUND_TRIPS, exact)
    }

    /// How long what is under way lasts at the most, if it is waited for so many call timeouts.
    fn ends_within(&self, calls: u32, exact: bool) -> Option<Duration> {
        if !self.about_lock().is_sound() {
            return None;
        }
        let options = Options::builder(self.lock.ttl.0).build().ok()?;
        // A wall clock holds nothing up.
        let mut faults = self.faults.iter().filter(|it| it.kind != Fault::ClockStep);
        let is_calm = exact && self.swarm.kinds() == 0 && faults.next().is_none();
        let round = self.slowest().saturating_mul(2).saturating_add(GRAIN);
        let timeout = options.call_timeout();
        let calls = timeout.saturating_mul(calls);
        let calls = if is_calm { calls.min(round.saturating_mul(ROUND_TRIPS)) } else { calls };
        // A replica may be behind in the calmest of worlds.
        let follows = self.about_lock().servers == Servers::Followed;
        let replicas = if follows { timeout } else { Duration::ZERO };
        let by_machine = if exact { GRAIN } else { BY_A_BUSY_MACHINE };
        Some(calls.saturating_add(replicas).saturating_add(by_machine))
    }

    /// By when a client has done that no fault strikes, from anywhere in its life.
    pub fn longest_life(&self) -> Duration {
        let ttl = self.lock.ttl.0;
        let round = self.slowest().saturating_mul(2);
        let command = REPLY_WITHIN.saturating_add(round);
        // Every attempt of a lock may be cleaned up after, which takes as long as its key may live.
        let attempt = command
            .saturating_mul(COMMANDS_AN_ATTEMPT)
            .saturating_add(ttl)
            .saturating_add(self.between_attempts());
        let attempts = self.lock.retries.saturating_add(2);
        let under_lock = self.hold().0.saturating_add(command.saturating_mul(2));
        let deadline = self.lock.deadline.map_or(Duration::ZERO, |it| it.0);
        let turn = attempt
            .saturating_mul(attempts)
            .saturating_add(deadline)
            .saturating_add(under_lock)
            .saturating_add(attempt)
            .saturating_add(self.think());
        turn.saturating_mul(self.workload.rounds())
    }

    /// How long a client waits after a release, before it wants the lock again.
    pub fn think(&self) -> Duration {
        match &self.workload {
            WorkloadPart::BonusPool(_) => Duration::ZERO,
            WorkloadPart::Register(register) => register.think.0,
        }
    }

    /// How long a message travels at most that no fault holds up, between any client and server.
    pub fn slowest(&self) -> Duration {
        let links = self.network.link.iter().map(|link| &link.latency);
        let all = std::iter::once(&self.network.latency).chain(links);
        let longest_ns = all.map(|latency| latency.sampler().at(u32::MAX)).max();
        Duration::from_nanos(longest_ns.unwrap_or(0))
    }

    fn between_attempts(&self) -> Duration {
        self.lock.pause.0.saturating_add(self.lock.jitter.0)
    }

    /// From a release until the next has the lock, where nothing is lost.
    fn handover(&self) -> Duration {
        self.slowest().saturating_mul(WAYS).saturating_add(self.between_attempts())
    }

    /// What a message costs that is lost: no connection, no answer, and a pause.
    fn try_again(&self, options: &Options) -> Duration {
        let nodes = match self.about_lock().servers {
            Servers::Several => self.topology().nodes(),
            Servers::One | Servers::Followed => 1,
        };
        let tried = (options.call_timeout() / 2).saturating_mul(HALVES_A_TRY);
        tried.saturating_mul(nodes).saturating_add(self.between_attempts())
    }

    /// From a release until the next has the lock, where whatever may be drawn strikes.
    fn recovery(&self, options: &Options) -> Duration {
        let swarm = &self.swarm;
        let ttl = self.lock.ttl.0;
        let drawn = |chance: Chance| chance.0.clamp(0.0, 1.0);
        let lasting = |strike: Strike| match strike.per_64k() {
            0 => Duration::ZERO,
            _ => strike.max.0,
        };
        // A round trip in vain: lost, reset or late on either way, its client stopped or dead.
        let spared = (1.0 - drawn(swarm.lose_request))
            * (1.0 - drawn(swarm.lose_reply))
            * (1.0 - drawn(swarm.refuse))
            * (1.0 - drawn(swarm.reset)).powi(2)
            * (1.0 - drawn(swarm.delay.chance)).powi(2)
            * (1.0 - drawn(swarm.pause.chance)).powi(2)
            * (1.0 - drawn(swarm.crash));
        let missed = self.by_chance().map(|(chance, _)| (1.0 - drawn(chance)).powi(2));
        let in_a_row = in_a_row(1.0 - spared * missed.product::<f64>(), self.round_trips());
        let crashes = self.by_chance().any(|(_, it)| it.kind == Fault::Crash);
        let orphan = if drawn(swarm.crash) > 0.0 || crashes { ttl } else { Duration::ZERO };
        let staged = self.by_chance().filter_map(|(_, it)| it.lasts_ns());
        let each = self
            .try_again(options)
            .saturating_add(lasting(swarm.delay))
            .saturating_add(lasting(swarm.pause))
            .saturating_add(Duration::from_nanos(staged.sum()))
            .saturating_add(orphan);
        let cut_off = swarm.partition.0.saturating_mul(swarm.partitions);
        let ends = swarm.ends().map(|(_, most, most_ns)| {
            // As long until another is there as until it is back.
            Duration::from_nanos(most_ns).saturating_mul(most.saturating_mul(2))
        });
        let down = ends.into_iter().fold(cut_off, Duration::saturating_add);
        let down = down.saturating_add(swarm.server_stall.0.saturating_mul(swarm.server_stalls));
        let looks = match self.about_lock().fair {
            _ if in_a_row == 0 && swarm.partitions == 0 && swarm.server_stalls == 0 => 0,
            Some(_) => LOOKS_IN_LINE,
            None => LOOKS,
        };
        self.handover()
            .saturating_add(ttl.saturating_mul(looks))
            .saturating_add(each.saturating_mul(in_a_row))
            .saturating_add(down)
            .saturating_add(swarm.clock_step.0)
    }

    /// Staged faults that strike again and again, as drawn ones do. One that strikes always is a story, and known.
    fn by_chance(&self) -> impl Iterator<Item = (Chance, &Staged)> {
        let by_chance = |it: &Staged| it.at.chance.filter(|chance| chance.0 < 1.0);
        self.faults.iter().filter_map(move |it| Some((by_chance(it)?, it)))
    }

    /// How many commands a run may take, all together.
    fn round_trips(&self) -> f64 {
        let acquisitions = f64::from(self.clients) * f64::from(self.workload.rounds());
        acquisitions * (f64::from(self.lock.retries) + 2.0)
    }
}

/// How many of so many round trips may be in vain one after the other, where each is with this chance.
fn in_a_row(chance: f64, of: f64) -> u32 {
    if chance <= 0.0 {
        return 0;
    }
    let mut likely = of;
    let mut count = 0;
    while likely > BEYOND && count < MOST_IN_A_ROW {
        likely *= chance;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests;
