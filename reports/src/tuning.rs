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

use scenarios::span::Span;
use scenarios::tuning::{How, Share};

/// Beyond this nobody can tell the difference.
const NEVER_YEARS: f64 = 1e6;
const NEVER: &str = "rarer than 1 in a million years";
const YEAR_DAYS: f64 = 365.25;

/// How often something happens that comes so many times in a day: `3.1 a day`, `2 a year`, `1 in 40 years`.
pub fn often(per_day: f64) -> String {
    let per_year = per_day * YEAR_DAYS;
    match () {
        () if per_day >= 1.0 => format!("{} a day", figure(per_day)),
        () if per_year >= 1.0 => format!("{} a year", figure(per_year)),
        () if per_year * NEVER_YEARS >= 1.0 => format!("1 in {} years", figure(1.0 / per_year)),
        () => NEVER.to_owned(),
    }
}

/// What of a rate is known where it may be so many times in a day at most.
pub fn at_most(per_day: f64) -> String {
    let text = often(per_day);
    if text == NEVER { text } else { format!("at most {text}") }
}

/// A number with two significant digits, thousands set apart.
fn figure(number: f64) -> String {
    if number < 10.0 {
        let text = format!("{number:.1}");
        return text.strip_suffix(".0").map_or(text.clone(), str::to_owned);
    }
    let digits = number.log10().floor() - 1.0;
    let unit = 10_f64.powf(digits);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above zero, and it saturates"
    )]
    let rounded = ((number / unit).round() * unit).round() as u64;
    crate::format::count(rounded)
}

/// A duration in the unit that suits it.
pub fn time(span: Span) -> String {
    let ns = u64::try_from(span.0.as_nanos()).unwrap_or(u64::MAX);
    let text = crate::format::duration(ns);
    // Whole ones need no decimals.
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let short = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{short} {unit}")
}

/// A share in a day: the best guess and what it may be at most, or how it was found that there is none.
pub fn share(share: &Share) -> String {
    match share.how {
        How::Construction => "cannot be".to_owned(),
        How::Counted { hits: 0, of } => {
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_told_in_the_unit_that_suits_them() {
        for (per_day, text) in [
            (12_345.0, "12,000 a day"),
            (1.0, "1 a day"),
            (0.99, "360 a year"),
            (2.5 / 365.25, "2.5 a year"),
            (1.0 / 365.25 / 40.0, "1 in 40 years"),
            (1e-12, "rarer than 1 in a million years"),
            (0.0, "rarer than 1 in a million years"),
        ] {
            assert_eq!(often(per_day), text);
        }
        assert_eq!(time(Span(Duration::from_secs(5))), "5 s");
        assert_eq!(time(Span(Duration::from_millis(1_250))), "1.25 s");
        assert_eq!(time(Span(Duration::from_secs(600))), "10 min");
    }

    #[test]
    fn no_share_is_a_bare_zero() {
        let none = |how, high: f64| Share {
            per_hold: 0.0,
            low: 0.0,
            high,
            per_day: 0.0,
            per_day_high: high * 1e6,
            how,
        };
        let counted = share(&none(How::Counted { hits: 0, of: 1_000_000 }, 3e-6));
        assert_eq!(counted, "0 of 1,000,000, at most 3 a day");
        assert_eq!(share(&none(How::Estimated { holds: 9 }, 1e-6)), "none seen, at most 1 a day");
        assert_eq!(share(&none(How::Construction, 0.0)), "cannot be");
        assert_eq!(share(&none(How::Bound, 1e-30)), NEVER);
    }

    #[test]
    fn a_share_says_what_it_is_at_most() {
        let of = |per_day, per_day_high| Share {
            per_hold: per_day,
            low: 0.0,
            high: per_day_high,
            per_day,
            per_day_high,
            how: How::Estimated { holds: 9 },
        };
        assert_eq!(share(&of(1.0, 2.0)), "1 a day, at most 2 a day");
        assert_eq!(share(&of(2.0, 2.01)), "2 a day");
        assert_eq!(share(&of(1e-30, 1.0)), "at most 1 a day");
        assert_eq!(share(&of(1e-30, 1e-29)), NEVER);
        assert_eq!((at_most(1.0).as_str(), at_most(0.0).as_str()), ("at most 1 a day", NEVER));
    }
}
