//! Latencies: which link draws from which distribution.
//!
//! Invariant: a message takes one choice, or none if its latency is constant; choice 0 is the
//! shortest. Deliberately absent: delays that are faults; these belong to the nemesis.

use scenarios::distribution::Sampler;
use scenarios::scenario::NetworkPart;

use super::choices::Choices;

/// The latencies of a scenario's links, made ready for drawing.
#[derive(Clone, Debug)]
pub(super) struct LinkLatencies {
    /// The network's own, and those of its links' entries.
    samplers: Vec<Sampler>,
    /// Which of them each link has, process by process; empty if all have the first.
    of_link: Vec<u32>,
    servers: u32,
}

impl LinkLatencies {
    /// The latencies between this many processes and servers. Process 0 is the run itself.
    pub(super) fn new(network: &NetworkPart, processes: u32, servers: u32) -> Self {
        let links = network.link.iter().map(|link| &link.latency);
        let samplers = std::iter::once(&network.latency).chain(links).map(|it| it.sampler());
        let which = |process, server| {
            let entry = network.entry(process, server);
            entry.map_or(0, |entry| u32::try_from(entry + 1).unwrap_or(u32::MAX))
        };
        let of_process = |process| (0..servers).map(move |server| which(process, server));
        let of_link: Vec<u32> = (0..processes).flat_map(of_process).collect();
        let differs = of_link.iter().any(|which| *which != 0);
        let of_link = if differs { of_link } else { Vec::new() };
        Self { samplers: samplers.collect(), of_link, servers }
    }

    /// The latency of the next message on this link, in nanoseconds.
    #[inline]
    pub(super) fn draw(&self, process: u32, server: u32, choices: &mut Choices) -> u64 {
        let place = process as usize * self.servers as usize + server as usize;
        let which = self.of_link.get(place).map_or(0, |which| *which as usize);
        draw(&self.samplers[which], choices)
    }
}

/// The next latency of this distribution, in nanoseconds.
pub(super) fn draw(sampler: &Sampler, choices: &mut Choices) -> u64 {
    match sampler.always() {
        Some(ns) => ns,
        None => sampler.at(choices.pick(u32::MAX)),
    }
}

impl Default for LinkLatencies {
    /// No latency.
    fn default() -> Self {
        let none = Sampler::constant(0);
        Self { samplers: vec![none], of_link: Vec::new(), servers: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(latency: &str, links: &[(u32, u32, &str)]) -> NetworkPart {
        let links: Vec<serde_json::Value> = links
            .iter()
            .map(|(client, server, latency)| {
                serde_json::json!({ "client": client, "server": server, "latency": latency })
            })
            .collect();
        serde_json::from_value(serde_json::json!({ "latency": latency, "link": links })).unwrap()
    }

    #[test]
    fn every_link_draws_from_its_own() {
        let network = network("1ms", &[(1, 1, "3ms"), (2, 0, "uniform:5ms..9ms"), (1, 1, "4ms")]);
        let latencies = LinkLatencies::new(&network, 3, 2);
        let mut choices = Choices::listed(vec![0, u32::MAX]).recorded();
        let mut draw_ms =
            |process, server| latencies.draw(process, server, &mut choices) / 1_000_000;
        assert_eq!([draw_ms(0, 0), draw_ms(0, 1)], [1, 1]);
        assert_eq!([draw_ms(1, 0), draw_ms(1, 1)], [1, 4], "the last entry decides");
        assert_eq!(draw_ms(2, 0), 5, "choice 0 is the shortest");
        assert_eq!([draw_ms(2, 0), draw_ms(2, 1)], [9, 1]);
        assert_eq!(choices.taken(), [0, u32::MAX - 1], "what never varies takes no choice");
    }

    #[test]
    fn a_uniform_latency_draws_as_a_span_does() {
        let latencies = LinkLatencies::new(&network("uniform:200us..2ms", &[]), 2, 1);
        let (mut one, mut other) = (Choices::seeded(4), Choices::seeded(4));
        for _ in 0..1_000 {
            let expected = 200_000 + other.span(1_800_000);
            assert_eq!(latencies.draw(1, 0, &mut one), expected);
        }
    }
}
