//! What can strike at a place: the alphabet of the search.
//!
//! Invariant: every fault of it is one that a lock without a known flaw survives, by what it assumes; so what is found is the
//! recipe's own doing. Deliberately absent: servers that forget, and servers whose clocks jump. Any lock that expires fails
//! then, where no quorum remembers and no fencing token is asked for.

use std::time::Duration;

use history::fault::{By, Fault, Staged, Until, Ways, Whom};
use picklock::env::Phase;
use scenarios::recipe::{About, Servers};
use scenarios::span::{Shift, Span};

use super::place::Place;

/// Half of what a lock of the library allows clocks to run apart, in parts per million.
const DRIFT_PPM: i32 = 5_000;

/// How long faults last, by the TTL of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// Within the TTL.
    pub(crate) short: Duration,
    /// Beyond it.
    pub(crate) beyond: Duration,
    /// What waits for another to get the lock waits for so long at most.
    pub(crate) most: Duration,
}

/// The faults that a lock is explored with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alphabet {
    lengths: Lengths,
    servers: Servers,
}

impl Lengths {
    pub(crate) fn of(ttl: Duration) -> Self {
        Self { short: ttl / 4, beyond: ttl * 3 / 2, most: ttl * 3 }
    }
}

impl Alphabet {
    /// What strikes a lock with this TTL.
    pub(crate) fn of(about: &About, ttl: Duration) -> Self {
        Self { lengths: Lengths::of(ttl), servers: about.servers }
    }

    /// Every fault that can strike at this place, behind those before.
    pub(crate) fn at(&self, place: &Place, before: &[Staged]) -> Vec<Staged> {
        let mut faults = self.of_client(place);
        if place.sends {
            faults.extend(self.of_message(place));
            faults.extend(self.of_server(place, before));
        }
        faults
    }

    /// What strikes the client itself. What lasts until another has the lock comes first, for it is what it says in any
    /// world, however fast.
    fn of_client(&self, place: &Place) -> Vec<Staged> {
        let Lengths { short, .. } = self.lengths;
        let mut faults = self.lasting(&fault(Fault::Pause, place));
        faults.push(fault(Fault::Crash, place));
        faults.push(Staged { comes_back: Some(Span(short)), ..fault(Fault::Crash, place) });
        faults.extend(self.lasting(&fault(Fault::Partition, place)));
        let hour_ns = 3_600_000_000_000;
        let step = |by| Staged { by: Some(Shift(by)), ..fault(Fault::ClockStep, place) };
        faults.extend([hour_ns, -hour_ns].map(step));
        if place.first {
            let drift = |ppm| Staged { ppm: Some(ppm), ..fault(Fault::Drift, place) };
            faults.extend([DRIFT_PPM, -DRIFT_PPM].map(drift));
        }
        faults
    }

    /// What strikes the request that the client sends there, or the reply to it.
    fn of_message(&self, place: &Place) -> Vec<Staged> {
        let mut faults = vec![fault(Fault::LoseRequest, place), fault(Fault::LoseReply, place)];
        for ways in [Ways::There, Ways::Back] {
            let on = |kind| Staged { ways: Some(ways), ..fault(kind, place) };
            faults.extend(self.lasting(&on(Fault::Delay)));
            faults.push(on(Fault::Reset));
        }
        faults
    }

    /// What strikes a server when the client is about to ask it.
    fn of_server(&self, place: &Place, before: &[Staged]) -> Vec<Staged> {
        let Lengths { short, beyond, most } = self.lengths;
        let on = match self.servers {
            Servers::Several => Whom::Server(0),
            Servers::One | Servers::Followed => Whom::Primary,
        };
        let of = |kind| Staged { on: Some(on), at: place.at_any.clone(), ..fault(kind, place) };
        let lasting = |kind, span| Staged { lasts: Some(Span(span)), ..of(kind) };
        let mut faults = vec![of(Fault::ScriptFlush)];
        faults.extend([short, beyond].map(|span| lasting(Fault::Stall, span)));
        // Who comes second to forget something finds no quorum, or no replica, that the lock assumes to remember.
        if !before.iter().any(|it| it.kind.ends_server()) {
            match self.servers {
                Servers::One => {}
                // Back only when all that it had granted is over.
                Servers::Several => faults.push(lasting(Fault::ServerCrash, most)),
                Servers::Followed => faults.push(lasting(Fault::Failover, short)),
            }
        }
        faults
    }

    /// The fault in each length that it can have.
    fn lasting(&self, fault: &Staged) -> Vec<Staged> {
        let Lengths { short, beyond, most } = self.lengths;
        let until = Until { phase: Phase::AcquireApplied, by: By::Another };
        let until = Staged { until: Some(until), lasts: Some(Span(most)), ..fault.clone() };
        let lasts = [beyond, short].map(|span| Staged { lasts: Some(Span(span)), ..fault.clone() });
        [until].into_iter().chain(lasts).collect()
    }
}

/// This kind of fault at this place, which strikes its client.
fn fault(kind: Fault, place: &Place) -> Staged {
    Staged {
        kind,
        on: Some(Whom::Client(place.client)),
        at: place.at.clone(),
        lasts: None,
        until: None,
        by: None,
        ppm: None,
        ways: None,
        to: None,
        loses_hold: false,
        error: None,
        comes_back: None,
    }
}
