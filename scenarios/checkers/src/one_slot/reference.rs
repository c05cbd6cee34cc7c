//! What a cluster refuses in random histories, as one finds it who looks for it alone.

use history::{Event, What};

use super::NAME;
use crate::agreement::{agree, blames};
use crate::random::{history, steps};
use crate::testing::Tape;

#[test]
fn whoever_is_refused_for_its_slots_is_blamed() {
    agree(NAME, 50, steps(), |steps| {
        let mut history = history(&Tape::new().with(|it| it.cluster = true), &steps);
        let slots = history.texts.intern("CROSSSLOT Keys in request don't hash to the same slot");
        let (mut refused, mut answered) = (0, false);
        for Event { op, what, acquisition, .. } in &mut history.events {
            match what {
                // The run itself sends some, too.
                What::Command { .. } if *op % 5 == 0 => *acquisition = 0,
                What::Refused(why) if *op % 2 == 0 => {
                    *why = slots;
                    refused += usize::from(*op % 5 > 0);
                }
                What::Answered { .. } => answered |= *op % 5 > 0,
                _ => {}
            }
            if *op % 5 == 0 && matches!(what, What::Answered { .. } | What::Refused(_)) {
                *acquisition = 0;
            }
        }
        (history, blames(refused, answered))
    });
}
