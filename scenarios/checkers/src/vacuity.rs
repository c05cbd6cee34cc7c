//! Vacuity: a run in which a staged fault met nothing says nothing about it.
//!
//! Invariant: every fault that the scenario stages has struck, in a hold where it was staged in one; of
//! a server's, somebody has asked for the lock before that hold was over; and no fewer acquisitions were
//! begun than were asked for, unless clients died. A recipe that does not lock has no place to meet.

use history::fault::Fault;
use history::verdict::Vacuous;
use history::{Event, Head, Texts, What};

use super::exposure::{Exposure, Met};

/// What struck, and how many acquisitions were begun.
#[derive(Default)]
pub(super) struct Vacuity {
    /// The most that each staged fault has met, up to the last that has struck.
    met: Vec<Met>,
    begun: u64,
    died: bool,
    /// None where no server's fault is staged in a hold.
    exposure: Option<Exposure>,
}

impl Vacuity {
    pub(super) fn new(head: &Head) -> Self {
        Self { exposure: Exposure::new(head), ..Self::default() }
    }

    /// Shows it an event that is neither of a command nor a phase.
    pub(super) fn see(&mut self, event: &Event) {
        match event.what {
            What::Acquire => self.begun += 1,
            What::Fault { fault, staged, in_hold, .. } => self.struck(fault, staged, in_hold),
            _ => {}
        }
    }

    /// Shows it any event, for what is asked of servers' faults.
    pub(super) fn expose(&mut self, event: &Event, head: &Head, texts: &Texts) {
        if let Some(exposure) = &mut self.exposure {
            exposure.see(event, head, texts);
        }
    }

    fn struck(&mut self, fault: Fault, staged: Option<u16>, in_hold: bool) {
        self.died |= fault == Fault::Crash;
        let Some(staged) = staged.map(usize::from) else { return };
        if self.met.len() <= staged {
            self.met.resize(staged + 1, Met::Nothing);
        }
        let met = if in_hold { Met::Hold } else { Met::Somebody };
        self.met[staged] = self.met[staged].max(met);
    }

    /// Why the run shows nothing of the resource, though it may of the lock, if so.
    pub(super) fn unharmed(&self, head: &Head) -> Option<Vacuous> {
        let exposure = self.exposure.as_ref().filter(|_| head.locks)?;
        let mut staged = head.staged.iter().enumerate();
        staged.find_map(|(place, declared)| {
            let of_server = declared.in_hold && declared.on.is_server();
            (of_server && exposure.is_late(place)).then_some(Vacuous::WorkedLater(declared.kind))
        })
    }

    /// Why the run shows nothing, if so.
    pub(super) fn missing(&self, head: &Head) -> Option<Vacuous> {
        let begun = self.begun;
        if let Some(requested) = head.acquisitions
            && begun < requested
            && !self.died
        {
            return Some(Vacuous::TooFew { requested, begun });
        }
        let met = self.met.iter().copied().chain(std::iter::repeat(Met::Nothing));
        let mut staged = head.staged.iter().zip(met).enumerate().filter(|_| head.locks);
        staged.find_map(|(place, (declared, met))| match (met, &self.exposure) {
            (Met::Nothing, _) => Some(Vacuous::NeverStruck(declared.kind)),
            (Met::Somebody, _) if declared.in_hold => Some(Vacuous::MetNoHold(declared.kind)),
            (Met::Hold, Some(exposure)) if declared.in_hold && declared.on.is_server() => {
                match exposure.met(place) {
                    Met::Nothing => Some(Vacuous::MetNoHold(declared.kind)),
                    Met::Somebody => Some(Vacuous::NobodyAsked(declared.kind)),
                    Met::Hold => None,
                }
            }
            (Met::Somebody | Met::Hold, _) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::Declared;
    use history::fault::Whom;

    fn head() -> Head {
        let staged =
            |kind, in_hold| Declared { kind, on: Whom::Holder, in_hold, subscribes: false };
        Head {
            locks: true,
            acquisitions: Some(2),
            staged: vec![staged(Fault::Pause, true), staged(Fault::Delay, false)],
            ..Head::default()
        }
    }

    fn vacuity(struck: &[(Fault, u16, bool)]) -> Vacuity {
        let mut vacuity = Vacuity { begun: 2, ..Vacuity::default() };
        for (fault, staged, in_hold) in struck {
            vacuity.struck(*fault, Some(*staged), *in_hold);
        }
        vacuity
    }

    #[test]
    fn every_staged_fault_must_strike_and_meet_what_it_was_staged_for() {
        let missing = |struck: &[_]| vacuity(struck).missing(&head());
        let (pause, delay) = ((Fault::Pause, 0, true), (Fault::Delay, 1, false));
        assert_eq!(missing(&[pause, delay]), None);
        assert_eq!(missing(&[pause]), Some(Vacuous::NeverStruck(Fault::Delay)));
        assert_eq!(missing(&[delay]), Some(Vacuous::NeverStruck(Fault::Pause)));
        let outside = (Fault::Pause, 0, false);
        assert_eq!(missing(&[outside, delay]), Some(Vacuous::MetNoHold(Fault::Pause)));
        assert_eq!(missing(&[outside, pause, delay]), None, "once is enough");
        assert_eq!(missing(&[pause, outside, delay]), None, "in any order");
        let lockless = Head { locks: false, ..head() };
        assert_eq!(vacuity(&[]).missing(&lockless), None);
    }

    #[test]
    fn what_is_kept_does_not_grow_with_the_strikes() {
        let many = vacuity(&[(Fault::Delay, 1, false); 1_000]);
        assert_eq!(many.met.len(), 2);
    }

    #[test]
    fn fewer_acquisitions_than_asked_for_show_nothing_unless_somebody_died() {
        let requested = |requested| Head { acquisitions: requested, staged: Vec::new(), ..head() };
        assert_eq!(vacuity(&[]).missing(&requested(Some(2))), None);
        assert_eq!(vacuity(&[]).missing(&requested(None)), None);
        let few = Vacuous::TooFew { requested: 3, begun: 2 };
        assert_eq!(vacuity(&[]).missing(&requested(Some(3))), Some(few));
        assert_eq!(vacuity(&[(Fault::Crash, 0, true)]).missing(&requested(Some(3))), None);
    }
}
