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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use history::fault::Trigger;
    use scenarios::recipe::about;

    use super::*;

    const TTL: Duration = Duration::from_millis(200);

    fn place(sends: bool, first: bool) -> Place {
        let at = Trigger { command: Some("SET".to_owned()), ..Trigger::default() };
        Place { client: 2, at_any: Trigger { nth: Some(3), ..at.clone() }, at, sends, first }
    }

    fn kinds(lock: &str, place: &Place, before: &[Staged]) -> BTreeSet<Fault> {
        let alphabet = Alphabet::of(about(lock).unwrap(), TTL);
        alphabet.at(place, before).into_iter().map(|it| it.kind).collect()
    }

    #[test]
    fn every_fault_stands_once_and_strikes_who_has_come_there() {
        let all = Alphabet::of(about("single").unwrap(), TTL).at(&place(true, true), &[]);
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
        let all = Alphabet::of(about("single").unwrap(), TTL).at(&place(true, false), &[]);
        for (kind, times) in [(Fault::Pause, 1), (Fault::Partition, 1), (Fault::Delay, 2)] {
            let of_kind: Vec<_> = all.iter().filter(|it| it.kind == kind).collect();
            assert_eq!(of_kind.len(), 3 * times, "{kind:?}");
            let lasts = |it: &&&Staged| it.lasts.map(|it| it.0);
            let within = of_kind.iter().filter(|it| lasts(it) < Some(TTL)).count();
            let until = of_kind.iter().filter(|it| it.until.is_some()).count();
            assert_eq!((within, until), (times, times), "{kind:?}");
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

    #[test]
    fn a_server_ends_only_where_the_lock_assumes_that_others_remember_and_once() {
        for (lock, ends) in [
            ("single", None),
            ("redlock", Some(Fault::ServerCrash)),
            ("single-wait", Some(Fault::Failover)),
        ] {
            let place = place(true, false);
            let found = kinds(lock, &place, &[]);
            assert_eq!(found.iter().copied().find(|it| it.loses_keys()), ends, "{lock}");
            let alphabet = Alphabet::of(about(lock).unwrap(), TTL);
            let before: Vec<_> =
                alphabet.at(&place, &[]).into_iter().filter(|it| it.kind.ends_server()).collect();
            let again = kinds(lock, &place, &before);
            assert_eq!(
                again.iter().any(|it| it.ends_server()),
                ends.is_some() && before.is_empty(),
                "{lock}"
            );
        }
    }
}
