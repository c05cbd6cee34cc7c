//! Vacuity: a run in which a staged fault met nothing says nothing about it.
//!
//! Invariant: every fault that the scenario stages has struck, in a hold where it was staged on the
//! holder; and no fewer acquisitions were begun than were asked for, unless clients died. A recipe that
//! does not lock has no place to meet. Deliberately absent: faults that were drawn.

use crate::fault::Fault;
use crate::history::Head;

/// What struck, and how many acquisitions were begun.
#[derive(Default)]
pub(super) struct Vacuity {
    /// Which of the staged faults have struck, and whether in a hold.
    struck: Vec<(u16, bool)>,
    begun: u64,
    died: bool,
}

impl Vacuity {
    pub(super) fn began(&mut self) {
        self.begun += 1;
    }

    pub(super) fn struck(&mut self, fault: Fault, staged: Option<u16>, in_hold: bool) {
        self.died |= fault == Fault::Crash;
        if let Some(staged) = staged {
            self.struck.push((staged, in_hold));
        }
    }

    /// Why the run shows nothing, if so.
    pub(super) fn missing(&self, head: &Head) -> Option<String> {
        if let Some(asked) = head.acquisitions
            && self.begun < asked
            && !self.died
        {
            return Some(format!(
                "vacuous: {asked} acquisitions were asked for, and only {} begun",
                self.begun
            ));
        }
        let staged = (0_u16..).zip(&head.staged).filter(|_| head.locks);
        staged.into_iter().find_map(|(nth, declared)| {
            let mut times = self.struck.iter().filter(|(staged, _)| *staged == nth).peekable();
            let name = declared.kind.name();
            if times.peek().is_none() {
                return Some(format!("vacuous: the staged fault `{name}` never struck"));
            }
            let met = !declared.in_hold || times.any(|(_, in_hold)| *in_hold);
            (!met).then(|| format!("vacuous: the staged fault `{name}` met no hold"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Whom;
    use crate::history::Declared;

    fn head() -> Head {
        let staged = |kind, in_hold| Declared { kind, on: Whom::Holder, in_hold };
        Head {
            locks: true,
            acquisitions: Some(2),
            staged: vec![staged(Fault::Pause, true), staged(Fault::Delay, false)],
            ..Head::default()
        }
    }

    fn vacuity(struck: &[(Fault, u16, bool)]) -> Vacuity {
        let mut vacuity = Vacuity::default();
        (0..2).for_each(|_| vacuity.began());
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
        assert!(missing(&[pause]).unwrap().contains("`delay` never struck"));
        assert!(missing(&[delay]).unwrap().contains("`pause` never struck"));
        assert!(missing(&[(Fault::Pause, 0, false), delay]).unwrap().contains("met no hold"));
        assert_eq!(missing(&[(Fault::Pause, 0, false), pause, delay]), None, "once is enough");
        let lockless = Head { locks: false, ..head() };
        assert_eq!(vacuity(&[]).missing(&lockless), None);
    }

    #[test]
    fn fewer_acquisitions_than_asked_for_show_nothing_unless_somebody_died() {
        let asked = |asked| Head { acquisitions: asked, staged: Vec::new(), ..head() };
        assert_eq!(vacuity(&[]).missing(&asked(Some(2))), None);
        assert_eq!(vacuity(&[]).missing(&asked(None)), None);
        assert!(vacuity(&[]).missing(&asked(Some(3))).unwrap().contains("only 2 begun"));
        assert_eq!(vacuity(&[(Fault::Crash, 0, true)]).missing(&asked(Some(3))), None);
    }
}
