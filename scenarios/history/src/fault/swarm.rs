//! The swarm: which faults a sweep may draw, and how hard they strike at most.
//!
//! Invariant: what a scenario does not name is off.

use serde::{Deserialize, Serialize};

use super::Fault;
use durations::span::Span;

/// What a sweep may do to a schedule, at most. Each schedule has some of it, more or less often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Swarm {
    /// Whether the scenario says nothing without it: its story is not staged, but searched for.
    pub searched: bool,
    /// Whether tasks that are ready at once may go in any order.
    pub order: bool,
    /// A client stands still before or after a call.
    pub pause: Strike,
    /// A client dies before a call, for good.
    pub crash: Chance,
    /// A message takes longer.
    pub delay: Strike,
    /// A request is lost.
    pub lose_request: Chance,
    /// A reply is lost.
    pub lose_reply: Chance,
    /// A connection breaks with a message on it.
    pub reset: Chance,
    /// A server answers a request with an error, and does nothing.
    #[serde(skip_serializing_if = "Chance::is_none")]
    pub refuse: Chance,
    /// How many clients may be cut off, one after the other or at once.
    pub partitions: u32,
    /// For how long each, at most.
    pub partition: Span,
    /// How far clocks may drift either way, in parts per million.
    pub drift_ppm: u32,
    /// How far a server's wall clock may jump, either way.
    pub clock_step: Span,
    /// How far a client's wall clock may jump, either way.
    pub client_clock_step: Span,
    /// Whether the server may forget its scripts.
    pub script_flush: bool,
    /// How many times the primary may die.
    pub failovers: u32,
    /// How long until a replica takes its place, at most, and as long again until it comes back.
    pub failover: Span,
    /// How many times a server may be without power.
    pub power_losses: u32,
    /// For how long each, at most.
    pub power_loss: Span,
    /// How many times a server may die.
    pub server_crashes: u32,
    /// How long until it is there again, at most.
    pub server_crash: Span,
    /// How many times a server may stand still.
    #[serde(skip_serializing_if = "is_nothing")]
    pub server_stalls: u32,
    /// For how long each, at most.
    #[serde(skip_serializing_if = "is_nothing")]
    pub server_stall: Span,
    /// How long until a client that has died is there again, at most; nothing: it never is.
    #[serde(skip_serializing_if = "is_nothing")]
    pub comes_back: Span,
    /// Faults that are planned strike within this time from the start.
    pub within: Span,
}

/// How often something strikes: a share of all occasions, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Chance(pub f64);

/// How often something strikes, and how hard, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strike {
    /// A share of all occasions.
    pub chance: Chance,
    /// For how long.
    pub max: Span,
}

/// Whether nothing is said, so that a manifest has no word of it either.
fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Chance {
    /// Times in 65,536; anything above nothing is at least one.
    pub fn per_64k(self) -> u32 {
        let scaled = (self.0.clamp(0.0, 1.0) * 65_536.0).ceil();
        // The clamp keeps it within bounds, and not-a-number becomes 0.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 65,536")]
        let times = scaled as u32;
        times
    }

    /// Whether it never happens.
    pub fn is_none(&self) -> bool {
        self.per_64k() == 0
    }

    /// Whether it is a share at all.
    pub fn is_share(self) -> bool {
        (0.0..=1.0).contains(&self.0)
    }
}

impl Strike {
    /// Times in 65,536.
    pub fn per_64k(self) -> u32 {
        self.chance.per_64k()
    }
}

impl Swarm {
    /// The faults of servers that end one: how many times at most, and for how many nanoseconds.
    pub fn ends(&self) -> [(Fault, u32, u64); 3] {
        [
            (Fault::Failover, self.failovers, self.failover),
            (Fault::PowerLoss, self.power_losses, self.power_loss),
            (Fault::ServerCrash, self.server_crashes, self.server_crash),
        ]
        .map(|(fault, most, span)| (fault, most, span.ns()))
    }

    /// How many faults of each kind a schedule may plan at most, with the keys they have in a file.
    pub fn counts(&self) -> [(&'static str, u32); 5] {
        [
            ("partitions", self.partitions),
            ("failovers", self.failovers),
            ("power_losses", self.power_losses),
            ("server_crashes", self.server_crashes),
            ("server_stalls", self.server_stalls),
        ]
    }

    /// How many kinds of fault it allows; the order of tasks is none.
    pub fn kinds(&self) -> usize {
        let strikes = |strike: Strike| strike.per_64k() > 0 && !strike.max.0.is_zero();
        let chances = [self.crash, self.lose_request, self.lose_reply, self.reset, self.refuse];
        let chances = chances.map(|it| it.per_64k() > 0);
        let others = [
            strikes(self.pause),
            strikes(self.delay),
            self.partitions > 0,
            self.drift_ppm > 0,
            !self.clock_step.0.is_zero(),
            !self.client_clock_step.0.is_zero(),
            self.script_flush,
            self.server_stalls > 0,
        ];
        let ends = self.ends().map(|(_, most, _)| most > 0);
        let all = chances.into_iter().chain(others).chain(ends);
        all.filter(|allowed| *allowed).count()
    }

    /// What may strike a schedule, each kind in some words.
    pub fn descriptions(&self) -> Vec<String> {
        let often = |chance: Chance, of: &str| format!("up to {} % of {of}", chance.0 * 100.0);
        let hard = |what: &str, strike: Strike, of: &str| {
            let descriptions =
                format!("{what} by up to {}, {}", strike.max, often(strike.chance, of));
            (strike.per_64k() > 0 && !strike.max.0.is_zero()).then_some(descriptions)
        };
        let share = |what: &str, chance: Chance, of: &str| {
            (chance.per_64k() > 0).then(|| format!("{what}, {}", often(chance, of)))
        };
        let times = |count: u32, one: &str, many: &str, span: Span| {
            let what = if count == 1 { one } else { many };
            (count > 0).then(|| format!("up to {count} {what} of up to {span}"))
        };
        let steps = |whose: &str, span: Span| {
            (!span.0.is_zero()).then(|| format!("the clock of {whose} jumps by up to {span}"))
        };
        let descriptions = [
            self.order.then(|| "tasks that are ready at once go in any order".to_owned()),
            hard("clients stand still", self.pause, "calls").map(|it| it.replace(" by ", " for ")),
            share("clients die", self.crash, "calls"),
            (!self.comes_back.0.is_zero())
                .then(|| format!("who dies is there again after up to {}", self.comes_back)),
            hard("messages are late", self.delay, "them"),
            share("requests are lost", self.lose_request, "them"),
            share("replies are lost", self.lose_reply, "them"),
            share("connections break", self.reset, "messages"),
            share("servers answer with an error", self.refuse, "requests"),
            times(self.partitions, "client cut off", "clients cut off", self.partition),
            (self.drift_ppm > 0).then(|| format!("clocks drift by up to {} ppm", self.drift_ppm)),
            steps("a server", self.clock_step),
            steps("a client", self.client_clock_step),
            self.script_flush.then(|| "the server forgets its scripts".to_owned()),
            times(self.failovers, "loss of the primary", "losses of the primary", self.failover),
            times(self.power_losses, "power loss", "power losses", self.power_loss),
            times(
                self.server_crashes,
                "crash of a server",
                "crashes of servers",
                self.server_crash,
            ),
            times(self.server_stalls, "stall of a server", "stalls of servers", self.server_stall),
        ];
        descriptions.into_iter().flatten().collect()
    }

    /// The chances, with the keys they have in a file.
    pub fn chances(&self) -> [(&'static str, Chance); 7] {
        [
            ("crash", self.crash),
            ("pause", self.pause.chance),
            ("delay", self.delay.chance),
            ("lose_request", self.lose_request),
            ("lose_reply", self.lose_reply),
            ("reset", self.reset),
            ("refuse", self.refuse),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Messages are late, and clients are cut off.
    fn messages() -> Swarm {
        let delay = Strike { chance: Chance(0.1), max: Span(Duration::from_millis(900)) };
        let partition = Span(Duration::from_millis(600));
        Swarm { delay, partitions: 2, partition, ..Swarm::default() }
    }

    #[test]
    fn kinds_are_counted_where_they_can_strike() {
        assert_eq!((Swarm::default().kinds(), messages().kinds()), (0, 2));
        let never = Strike { chance: Chance(0.5), max: Span::default() };
        assert_eq!(Swarm { pause: never, order: true, ..Swarm::default() }.kinds(), 0);
        for swarm in [
            Swarm { refuse: Chance(0.1), ..Swarm::default() },
            Swarm { failovers: 1, ..Swarm::default() },
            Swarm { power_losses: 1, ..Swarm::default() },
            Swarm { server_crashes: 1, ..Swarm::default() },
            Swarm { server_stalls: 1, ..Swarm::default() },
            Swarm { client_clock_step: Span(Duration::from_secs(1)), ..Swarm::default() },
        ] {
            assert_eq!(swarm.kinds(), 1);
        }
    }

    #[test]
    fn a_chance_becomes_times_in_65536() {
        for (share, times) in [(0.0, 0), (1e-9, 1), (0.5, 32_768), (1.0, 65_536), (f64::NAN, 0)] {
            assert_eq!(Chance(share).per_64k(), times, "{share}");
        }
        assert!(
            !Chance(1.1).is_share() && !Chance(-0.1).is_share() && !Chance(f64::NAN).is_share()
        );
    }

    #[test]
    fn what_is_allowed_is_told_and_nothing_else() {
        assert!(Swarm::default().descriptions().is_empty());
        let descriptions = messages().descriptions().join("; ");
        assert!(
            descriptions.contains("messages are late by up to 900ms, up to 10 % of them"),
            "{descriptions}"
        );
        assert!(descriptions.contains("up to 2 clients cut off of up to 600ms"), "{descriptions}");
        assert!(
            !descriptions.contains("stand still") && !descriptions.contains("primary"),
            "{descriptions}"
        );
        let pause = Strike { chance: Chance(0.02), max: Span(Duration::from_secs(1)) };
        let swarm = Swarm { pause, failovers: 1, failover: pause.max, ..Swarm::default() };
        let descriptions = [
            "clients stand still for up to 1s, up to 2 % of calls",
            "up to 1 loss of the primary of up to 1s",
        ];
        assert_eq!(swarm.descriptions(), descriptions);
    }
}
