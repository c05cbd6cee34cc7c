//! A swarm in words: what may befall a schedule, and how hard at most.
//!
//! Invariant: every kind of fault that the swarm allows is told, and none that it does not. Deliberately
//! absent: how often a schedule has any of it, which the world draws.

use super::{Chance, Strike, Swarm};
use crate::span::Span;

impl Swarm {
    /// What may befall a schedule, each in some words.
    pub fn told(&self) -> Vec<String> {
        let often = |chance: Chance, of: &str| format!("up to {} % of {of}", chance.0 * 100.0);
        let hard = |what: &str, strike: Strike, of: &str| {
            let told = format!("{what} by up to {}, {}", strike.max, often(strike.chance, of));
            (strike.per_64k() > 0 && strike.most_ns() > 0).then_some(told)
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
        let told = [
            self.order.then(|| "tasks that are ready at once go in any order".to_owned()),
            hard("clients stand still", self.pause, "calls").map(|it| it.replace(" by ", " for ")),
            share("clients die", self.crash, "calls"),
            hard("messages are late", self.delay, "them"),
            share("requests are lost", self.lose_request, "them"),
            share("replies are lost", self.lose_reply, "them"),
            share("connections break", self.reset, "messages"),
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
        ];
        told.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    #[test]
    fn what_is_allowed_is_told_and_nothing_else() {
        assert!(Swarm::default().told().is_empty());
        let all = catalog::all().unwrap();
        let swarm = |name: &str| &all.iter().find(|it| it.name == name).unwrap().swarm;
        let told = swarm("late-messages").told().join("; ");
        assert!(told.contains("messages are late by up to 900ms, up to 10 % of them"), "{told}");
        assert!(told.contains("up to 2 clients cut off of up to 600ms"), "{told}");
        assert!(!told.contains("stand still") && !told.contains("primary"), "{told}");
        let pause = Strike { chance: Chance(0.02), max: Span(std::time::Duration::from_secs(1)) };
        let swarm = Swarm { pause, failovers: 1, failover: pause.max, ..Swarm::default() };
        let told = [
            "clients stand still for up to 1s, up to 2 % of calls",
            "up to 1 loss of the primary of up to 1s",
        ];
        assert_eq!(swarm.told(), told);
    }
}
