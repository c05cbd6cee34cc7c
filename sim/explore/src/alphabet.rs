//! The faults that can strike at a place: the alphabet of the search.
//!
//! Invariant: without `beyond`, a lock without a known flaw survives every fault here, under its own assumptions. So
//! the recipe is to blame for whatever is found. With `beyond`, servers forget and their clocks jump: then any lock
//! that expires fails, unless a quorum remembers it or the resource checks fencing tokens.

use std::time::Duration;

use history::fault::{By, Fault, Staged, Until, Ways, Whom};
use picklock::env::Phase;
use scenarios::recipe::Servers;
use scenarios::scenario::{DropPart, Scenario, WorkloadPart};
use scenarios::span::{Shift, Span};
use scenarios::topology::Topology;

use super::candidate::bare;
use super::place::FaultPlace;

/// Half of what a lock of the library allows clocks to run apart, in parts per million.
const DRIFT_PPM: i32 = 5_000;

/// When an acquisition is dropped: its request, or the answer to it, is still on its way.
const GIVEN_UP: Duration = Duration::from_millis(3);

/// How far clocks jump.
const HOUR_NS: i64 = 3_600_000_000_000;

/// How long faults last, by the TTL of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// Within the shortest hold.
    pub(crate) brief: Duration,
    /// Within the TTL.
    pub(crate) short: Duration,
    /// Beyond it.
    pub(crate) beyond: Duration,
    /// The longest that a fault waits for another client to get the lock.
    pub(crate) most: Duration,
}

/// The faults that a lock is explored with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alphabet {
    lengths: Lengths,
    /// The server that is struck.
    server: Whom,
    /// How a server ends, and for how long, if the lock assumes that other servers remember.
    ends: Option<(Fault, Duration)>,
    /// Whether a replica can take over.
    is_replicated: bool,
    /// Whether clients can drop guards and acquisitions half-way.
    drops: bool,
    beyond: bool,
}

impl Lengths {
    pub(crate) fn of(ttl: Duration) -> Self {
        Self { brief: ttl / 20, short: ttl / 4, beyond: ttl * 3 / 2, most: ttl * 3 }
    }
}

impl Alphabet {
    /// The faults for the lock of this scenario; with `beyond` also those that locks with a TTL assume away.
    pub(crate) fn of(scenario: &Scenario, beyond: bool) -> Self {
        let lengths = Lengths::of(scenario.lock.ttl.0);
        let (topology, servers) = (scenario.topology(), scenario.about_lock().servers);
        let ends = match (topology, servers) {
            // The server comes back only when all that it had granted has expired.
            (Topology::Independent { nodes: 3.. }, Servers::Several) => {
                Some((Fault::ServerCrash, lengths.most))
            }
            // The only replica has acknowledged what the client relies on.
            (Topology::Replicated { replicas: 1 }, Servers::Followed) => {
                Some((Fault::Failover, lengths.brief))
            }
            _ => None,
        };
        let is_independent = matches!(topology, Topology::Independent { .. });
        let server = if is_independent { Whom::Server(0) } else { Whom::Primary };
        let is_replicated = matches!(topology, Topology::Replicated { .. });
        let drops = matches!(scenario.workload, WorkloadPart::Register(_));
        Self { lengths, server, ends, is_replicated, drops, beyond }
    }

    /// What clients can drop half-way: every guard, or their first acquisition while its answer is on its way.
    pub(crate) fn drops(&self) -> Vec<DropPart> {
        if !self.drops {
            return Vec::new();
        }
        let nothing = DropPart { every: 1, after: None, guard: false, release: false, ends: false };
        let guards = DropPart { guard: true, ..nothing };
        let acquisitions = DropPart { every: 2, after: Some(Span(GIVEN_UP)), ..nothing };
        vec![guards, acquisitions]
    }

    /// Every fault that can strike at this place, after the faults in `before`.
    pub(crate) fn at(&self, place: &FaultPlace, before: &[Staged]) -> Vec<Staged> {
        let mut faults = self.of_client(place);
        if place.sends {
            faults.extend(self.of_message(place));
        }
        faults.extend(self.of_server(place, before));
        faults
    }

    /// Faults that strike the client itself. Those that last until another client has the lock come first: they mean
    /// the same in every world, however fast it is.
    fn of_client(&self, place: &FaultPlace) -> Vec<Staged> {
        let Lengths { short, .. } = self.lengths;
        let mut faults = self.lasting(&fault(Fault::Pause, place));
        faults.push(self.until(Phase::Released, &fault(Fault::Pause, place)));
        faults.push(fault(Fault::Crash, place));
        faults.push(Staged { comes_back: Some(Span(short)), ..fault(Fault::Crash, place) });
        faults.extend(self.lasting(&fault(Fault::Partition, place)));
        faults.extend(clock_steps(&fault(Fault::ClockStep, place)));
        if place.first {
            let drift = |ppm| Staged { ppm: Some(ppm), ..fault(Fault::Drift, place) };
            faults.extend([DRIFT_PPM, -DRIFT_PPM].map(drift));
        }
        faults
    }

    /// Faults that strike the request that the client sends there, or the reply to it.
    fn of_message(&self, place: &FaultPlace) -> Vec<Staged> {
        let mut faults = vec![fault(Fault::LoseRequest, place), fault(Fault::LoseReply, place)];
        for ways in [Ways::There, Ways::Back] {
            let on = |kind| Staged { ways: Some(ways), ..fault(kind, place) };
            faults.extend(self.lasting(&on(Fault::Delay)));
            if ways == Ways::There {
                faults.push(self.until(Phase::Released, &on(Fault::Delay)));
            }
            faults.push(on(Fault::Reset));
        }
        faults
    }

    /// Faults that strike a server when the client has come there.
    fn of_server(&self, place: &FaultPlace, before: &[Staged]) -> Vec<Staged> {
        let Lengths { short, beyond, .. } = self.lengths;
        let on = Some(self.server);
        let of = |kind| Staged { on, at: place.at_any.clone(), ..fault(kind, place) };
        let lasting = |kind, span| Staged { lasts: Some(Span(span)), ..of(kind) };
        let mut faults = vec![of(Fault::ScriptFlush)];
        faults.extend([short, beyond].map(|span| lasting(Fault::Stall, span)));
        // If a second server forgets, too, there may be no quorum, or no replica, that remembers.
        if let Some((ends, span)) = self.ends
            && !before.iter().any(|it| it.kind.ends_server())
        {
            faults.push(lasting(ends, span));
        }
        if self.beyond {
            faults.push(of(Fault::Evict));
            let mut ends = vec![Fault::PowerLoss, Fault::ServerCrash];
            if self.is_replicated {
                ends.push(Fault::Failover);
            }
            let ends = ends.into_iter().map(|kind| lasting(kind, short));
            ends.for_each(|end| {
                if !faults.contains(&end) {
                    faults.push(end);
                }
            });
            faults.extend(clock_steps(&of(Fault::ClockStep)));
        }
        faults
    }

    /// The fault with each length that it can have.
    fn lasting(&self, fault: &Staged) -> Vec<Staged> {
        let Lengths { short, beyond, .. } = self.lengths;
        let until = self.until(Phase::AcquireApplied, fault);
        let lasts = [beyond, short].map(|span| Staged { lasts: Some(Span(span)), ..fault.clone() });
        [until].into_iter().chain(lasts).collect()
    }

    /// The fault until another client has come to this phase.
    fn until(&self, phase: Phase, fault: &Staged) -> Staged {
        let until = Until { phase, by: By::Another };
        Staged { until: Some(until), lasts: Some(Span(self.lengths.most)), ..fault.clone() }
    }
}

/// This jump of a wall clock, ahead and back.
fn clock_steps(step: &Staged) -> [Staged; 2] {
    [HOUR_NS, -HOUR_NS].map(|by| Staged { by: Some(Shift(by)), ..step.clone() })
}

/// This kind of fault at this place, which strikes its client.
fn fault(kind: Fault, place: &FaultPlace) -> Staged {
    bare(kind, Some(Whom::Client(place.client)), place.at.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use history::fault::Trigger;
    use scenarios::scenario::Overrides;

    use super::*;

    const TTL: Duration = Duration::from_millis(200);

    /// The alphabet of a lock with that TTL, on the servers that it is made for or on others.
    fn alphabet(lock: &str, topology: &str, beyond: bool) -> Alphabet {
        let text = format!("{}{topology}", include_str!("base.toml"));
        let overrides = Overrides { lock: Some(lock.to_owned()), ..Overrides::default() };
        let scenario = Scenario::parse("small", "small.toml", &text, &overrides).unwrap();
        assert_eq!(scenario.lock.ttl.0, TTL);
        Alphabet::of(&scenario, beyond)
    }

    fn place(sends: bool, first: bool) -> FaultPlace {
        let at = Trigger { command: Some("SET".to_owned()), ..Trigger::default() };
        FaultPlace { client: 2, at_any: Trigger { nth: Some(3), ..at.clone() }, at, sends, first }
    }

    fn kinds(lock: &str, place: &FaultPlace, before: &[Staged]) -> BTreeSet<Fault> {
        let faults = alphabet(lock, "", false).at(place, before);
        faults.into_iter().map(|it| it.kind).collect()
    }

    #[test]
    fn every_fault_stands_once_and_strikes_who_has_come_there() {
        let all = alphabet("single", "", false).at(&place(true, true), &[]);
        for (nth, fault) in all.iter().enumerate() {
            assert!(!all[..nth].contains(fault), "{fault:?}");
            let of_server = fault.kind.strikes().is_server();
            let on = if of_server { Whom::Primary } else { Whom::Client(2) };
            let nth = if of_server { Some(3) } else { None };
            assert_eq!((fault.on, fault.at.nth), (Some(on), nth), "{fault:?}");
        }
    }

    #[test]
    fn what_lasts_is_short_long_or_lasts_until_another_has_the_lock() {
        let all = alphabet("single", "", false).at(&place(true, false), &[]);
        for (kind, times) in [(Fault::Pause, 1), (Fault::Partition, 1), (Fault::Delay, 2)] {
            let of_kind: Vec<_> = all.iter().filter(|it| it.kind == kind).collect();
            let released = usize::from(kind != Fault::Partition);
            assert_eq!(of_kind.len(), 3 * times + released, "{kind:?}");
            let lasts = |it: &&&Staged| it.lasts.map(|it| it.0);
            let within = of_kind.iter().filter(|it| lasts(it) < Some(TTL)).count();
            let until = of_kind.iter().filter(|it| it.until.is_some()).count();
            assert_eq!((within, until), (times, times + released), "{kind:?}");
        }
    }

    #[test]
    fn a_message_is_struck_where_one_is_sent_and_clocks_drift_from_the_first_place_on() {
        let silent = kinds("single", &place(false, true), &[]);
        assert!(!silent.iter().any(|it| it.is_of_message()), "{silent:?}");
        assert!(silent.contains(&Fault::Drift));
        let sends = kinds("single", &place(true, false), &[]);
        for kind in [Fault::LoseRequest, Fault::LoseReply, Fault::Delay, Fault::Reset] {
            assert!(sends.contains(&kind), "{kind:?}");
        }
        assert!(!sends.contains(&Fault::Drift));
    }

    /// Faults that delete keys of a server there, or end it.
    fn forgets(lock: &str, topology: &str, beyond: bool, before: &[Staged]) -> Vec<Fault> {
        let all = alphabet(lock, topology, beyond).at(&place(true, false), before);
        all.into_iter().map(|it| it.kind).filter(|it| it.loses_keys()).collect()
    }

    #[test]
    fn a_server_forgets_only_where_the_lock_assumes_that_others_remember() {
        let replicas = "[topology]\nkind = \"replicated\"\nreplicas = 2\n";
        let one = "[topology]\nkind = \"standalone\"\n";
        for (lock, topology, expected) in [
            ("single", "", None),
            ("single", replicas, None),
            ("redlock", "", Some(Fault::ServerCrash)),
            ("redlock", one, None),
            ("single-wait", "", Some(Fault::Failover)),
            // The one that has acknowledged need not be the one that is promoted.
            ("single-wait", replicas, None),
        ] {
            let found = forgets(lock, topology, false, &[]);
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{lock}, {topology}");
        }
    }

    #[test]
    fn no_second_server_ends_in_a_schedule() {
        for lock in ["redlock", "single-wait"] {
            let all = alphabet(lock, "", false).at(&place(true, false), &[]);
            let ends: Vec<_> = all.into_iter().filter(|it| it.kind.ends_server()).collect();
            assert_eq!((ends.len(), forgets(lock, "", false, &ends)), (1, Vec::new()), "{lock}");
        }
    }

    #[test]
    fn beyond_that_servers_forget_and_their_clocks_jump() {
        let standalone = [Fault::Evict, Fault::PowerLoss, Fault::ServerCrash];
        assert_eq!(forgets("del-release", "", true, &[]), standalone);
        let replicated = [&standalone[..], &[Fault::Failover]].concat();
        let replicas = "[topology]\nkind = \"replicated\"\n";
        assert_eq!(forgets("del-release", replicas, true, &[]), replicated);
        let steps = |beyond| {
            let all = alphabet("del-release", "", beyond).at(&place(true, false), &[]);
            all.iter().filter(|it| it.is_of_server_clock()).count()
        };
        assert_eq!((steps(false), steps(true)), (0, 2));
    }
}
