//! A tuning as people read it: a table, a chart, a page.
//!
//! Invariant: no share is shown without what it is at most, and none as a bare zero.

mod confirmed;
mod frontier;
mod page;
mod table;
#[cfg(test)]
mod testing;

pub use frontier::Frontier;
pub use page::page;
pub use table::text;

use ttl_model::format::{NEVER, at_most, often};
use ttl_model::tuning::{EstimateMethod, Share};

/// A share in a day: the best guess and what it may be at most, or how it was found that there is none.
pub fn share(share: &Share) -> String {
    match share.how {
        EstimateMethod::Construction => "cannot be".to_owned(),
        EstimateMethod::Counted { hits: 0, of } => {
            format!("0 of {}, {}", crate::format::count(of), at_most(share.per_day_high))
        }
        _ if often(share.per_day_high) == NEVER => NEVER.to_owned(),
        _ if share.per_hold == 0.0 => format!("none seen, {}", at_most(share.per_day_high)),
        _ => {
            let (middle, high) = (often(share.per_day), often(share.per_day_high));
            match middle.as_str() {
                NEVER => at_most(share.per_day_high),
                _ if middle == high => middle,
                _ => format!("{middle}, {}", at_most(share.per_day_high)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(how: EstimateMethod, per_day: f64, per_day_high: f64) -> String {
        let (per_hold, low, high) = (per_day, 0.0, per_day_high);
        share(&Share { per_hold, low, high, per_day, per_day_high, how })
    }

    #[test]
    fn no_share_is_a_bare_zero() {
        let counted = of(EstimateMethod::Counted { hits: 0, of: 1_000_000 }, 0.0, 3.0);
        assert_eq!(counted, "0 of 1,000,000, at most 3 a day");
        assert_eq!(
            of(EstimateMethod::Estimated { holds: 9 }, 0.0, 1.0),
            "none seen, at most 1 a day"
        );
        assert_eq!(of(EstimateMethod::Construction, 0.0, 0.0), "cannot be");
        assert_eq!(of(EstimateMethod::Bound, 0.0, 1e-24), NEVER);
    }

    #[test]
    fn a_share_says_what_it_is_at_most() {
        let of = |per_day, high| of(EstimateMethod::Estimated { holds: 9 }, per_day, high);
        assert_eq!(of(1.0, 2.0), "1 a day, at most 2 a day");
        assert_eq!(of(2.0, 2.01), "2 a day");
        assert_eq!(of(1e-30, 1.0), "at most 1 a day");
        assert_eq!(of(1e-30, 1e-29), NEVER);
        assert_eq!((at_most(1.0).as_str(), at_most(0.0).as_str()), ("at most 1 a day", NEVER));
    }
}
