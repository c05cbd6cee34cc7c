//! The two scales: percentiles as HdrHistogram draws them, and times, linear or logarithmic.
//!
//! Invariant: everything drawn lies between 0 and 1 of its scale, whatever the spread. Times below a
//! nanosecond do not exist, so on a logarithmic scale 0 stands at 1 ns.

const NS_PER_S: f64 = 1e9;
/// A spread beyond this is drawn logarithmically.
const MOST_LINEAR: f64 = 50.0;
/// About so many lines cross the linear scale.
const LINEAR_STEPS: f64 = 5.0;
/// So much room is left above the longest time of a linear scale.
const HEADROOM: f64 = 1.06;
/// Up to so many decades, the steps between powers of ten are named too.
const NAMED_BETWEEN: f64 = 3.2;

/// A place on a scale, from 0 to 1, and what stands there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// Percentiles: equal steps from 90 to 99 to 99.9, up to where the samples reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percentiles {
    decades: f64,
}

impl Percentiles {
    /// The scale for at most so many samples of one kind.
    pub(crate) fn up_to(samples: u64) -> Self {
        Self { decades: (samples as f64).log10().max(1.0) }
    }

    /// Where the operation stands that is slower than `below` others of so many.
    pub(crate) fn at(self, below: u64, samples: u64) -> f64 {
        let samples = samples as f64;
        self.of(samples / (samples - below as f64).max(1.0))
    }

    fn of(self, inverse_rest: f64) -> f64 {
        (inverse_rest.log10() / self.decades).clamp(0.0, 1.0)
    }

    /// The named percentiles, for a scale of this length.
    pub(crate) fn ticks(self, length: f64) -> Vec<Tick> {
        let decade_length = length / self.decades;
        let roomy = decade_length > 190.0;
        let mut ticks = vec![Tick { at: 0.0, label: "0%".to_owned() }];
        let mut rest = 1.0;
        let mut decade = 0;
        while f64::from(decade) <= self.decades {
            let parts: &[f64] = match decade {
                0 if roomy => &[0.5, 0.25],
                0 if decade_length > 115.0 => &[0.5],
                0 => &[],
                _ if roomy => &[1.0, 0.5],
                _ => &[1.0],
            };
            for part in parts {
                let left = rest * part;
                let reached = -left.log10() <= self.decades + 1e-9;
                if reached {
                    ticks.push(Tick { at: self.of(1.0 / left), label: percent(left) });
                }
            }
            decade += 1;
            rest /= 10.0;
        }
        ticks
    }
}

/// All but this share, in percent, with the decimals it needs.
fn percent(left: f64) -> String {
    let rounded = format!("{:.9}", 100.0 - left * 100.0);
    format!("{}%", rounded.trim_end_matches('0').trim_end_matches('.'))
}

/// Times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Times {
    /// From 0 to this, in steps.
    Linear { top_ns: f64, step_ns: f64 },
    /// From one power of ten, or its double or fivefold, to another.
    Logarithmic { low_ns: f64, top_ns: f64 },
}

impl Times {
    /// The scale that suits times from `min_ns` to `max_ns`.
    pub(crate) fn covering(min_ns: u64, max_ns: u64) -> Self {
        let (min_ns, max_ns) = ((min_ns as f64).max(1.0), (max_ns as f64).max(1.0));
        if max_ns / min_ns > MOST_LINEAR {
            let (low_ns, top_ns) = (round_down(min_ns), round_up(max_ns));
            return Self::Logarithmic { low_ns, top_ns };
        }
        let step_ns = round_up(max_ns / LINEAR_STEPS);
        Self::Linear { top_ns: (max_ns * HEADROOM / step_ns).ceil() * step_ns, step_ns }
    }

    /// The scale from 0 to exactly this time, linear.
    pub(crate) fn until(end_ns: u64) -> Self {
        let top_ns = (end_ns as f64).max(1.0);
        Self::Linear { top_ns, step_ns: round_up(top_ns / LINEAR_STEPS) }
    }

    /// Where this time stands.
    pub(crate) fn at(self, ns: u64) -> f64 {
        self.of((ns as f64).max(if self.is_logarithmic() { 1.0 } else { 0.0 }))
    }

    fn of(self, ns: f64) -> f64 {
        let at = match self {
            Self::Linear { top_ns, .. } => ns / top_ns,
            Self::Logarithmic { low_ns, top_ns } => {
                (ns / low_ns).log10() / (top_ns / low_ns).log10()
            }
        };
        at.clamp(0.0, 1.0)
    }

    /// Whether equal steps are equal factors.
    pub(crate) fn is_logarithmic(self) -> bool {
        matches!(self, Self::Logarithmic { .. })
    }

    /// The named times.
    pub(crate) fn ticks(self) -> Vec<Tick> {
        match self {
            Self::Linear { top_ns, step_ns } => {
                let mut ticks = Vec::new();
                let mut step = 0_u32;
                while f64::from(step) * step_ns <= top_ns * 1.000_001 {
                    let ns = f64::from(step) * step_ns;
                    ticks.push(Tick { at: self.of(ns), label: linear_label(ns, top_ns) });
                    step += 1;
                }
                ticks
            }
            Self::Logarithmic { low_ns, top_ns } => {
                let decades = (top_ns / low_ns).log10();
                let steps: &[f64] =
                    if decades <= NAMED_BETWEEN { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let mut ticks = Vec::new();
                let mut power = 10_f64.powf(low_ns.log10().floor());
                while power <= top_ns * 1.000_001 {
                    let named = steps.iter().map(|step| step * power);
                    let inside = |ns: &f64| *ns >= low_ns * 0.999_999 && *ns <= top_ns * 1.000_001;
                    ticks.extend(
                        named.filter(inside).map(|ns| Tick { at: self.of(ns), label: label(ns) }),
                    );
                    power *= 10.0;
                }
                ticks
            }
        }
    }
}

/// The next number of 1, 2, 5, 10, 20, … that is not smaller.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let enough = |step: &f64| step * power >= value * 0.999_999;
    [1.0, 2.0, 5.0].into_iter().find(enough).unwrap_or(10.0) * power
}

/// The next number of 1, 2, 5, 10, 20, … that is not larger.
fn round_down(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let enough = |step: &f64| step * power <= value * 1.000_001;
    [5.0, 2.0].into_iter().find(enough).unwrap_or(1.0) * power
}

/// A round time in the unit that suits it.
fn label(ns: f64) -> String {
    let units = [("s", NS_PER_S), ("ms", 1e6), ("µs", 1e3)];
    let (unit, per) =
        units.into_iter().find(|(_, per)| ns >= per * 0.999_999).unwrap_or(("ns", 1.0));
    with_unit(ns / per, unit)
}

/// A time in the unit that suits the top of its scale.
fn linear_label(ns: f64, top_ns: f64) -> String {
    let units = [("min", 60.0 * NS_PER_S), ("s", NS_PER_S), ("ms", 1e6), ("µs", 1e3)];
    let fits =
        |(unit, per): &(&str, f64)| top_ns >= per * if *unit == "min" { 10.0 } else { 0.999 };
    let (unit, per) = units.into_iter().find(fits).unwrap_or(("ns", 1.0));
    with_unit(ns / per, unit)
}

fn with_unit(value: f64, unit: &str) -> String {
    let rounded = format!("{value:.3}");
    format!("{} {unit}", rounded.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn percentiles_reach_as_far_as_the_samples() {
        assert_eq!(labels(&Percentiles::up_to(0).ticks(120.0)), ["0%", "50%", "90%"]);
        assert_eq!(labels(&Percentiles::up_to(99).ticks(240.0)), ["0%", "50%", "90%"]);
        assert_eq!(labels(&Percentiles::up_to(100).ticks(240.0)), ["0%", "50%", "90%", "99%"]);
        let narrow = Percentiles::up_to(100).ticks(200.0);
        assert_eq!(labels(&narrow), ["0%", "90%", "99%"], "50% would touch 0%");
        let roomy = Percentiles::up_to(1000);
        let expected = ["0%", "50%", "75%", "90%", "95%", "99%", "99.5%", "99.9%"];
        assert_eq!(labels(&roomy.ticks(600.0)), expected);
        assert_eq!(roomy.at(0, 1000), 0.0);
        assert_eq!(roomy.at(999, 1000), 1.0);
        assert!((roomy.at(900, 1000) - 1.0 / 3.0).abs() < 1e-9);
        let many = Percentiles::up_to(10_000_000);
        assert_eq!(many.ticks(600.0).last().unwrap().label, "99.99999%");
    }

    #[test]
    fn a_single_sample_stands_at_the_beginning() {
        assert_eq!(Percentiles::up_to(1).at(0, 1), 0.0);
    }

    #[test]
    fn a_small_spread_is_linear_from_zero() {
        let times = Times::covering(400_000, 1_800_000);
        let expected = ["0 ms", "0.5 ms", "1 ms", "1.5 ms", "2 ms"];
        assert_eq!(labels(&times.ticks()), expected);
        assert!(!times.is_logarithmic());
        assert_eq!((times.at(0), times.at(2_000_000)), (0.0, 1.0));
    }

    #[test]
    fn a_spread_is_linear_up_to_fifty() {
        assert!(!Times::covering(1_000, 50_000).is_logarithmic());
        assert!(Times::covering(1_000, 50_001).is_logarithmic());
    }

    #[test]
    fn a_large_spread_is_logarithmic() {
        let times = Times::covering(150_000, 11_000_000);
        let expected = ["100 µs", "200 µs", "500 µs", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms"];
        assert_eq!(labels(&times.ticks()), expected);
        let times = Times::covering(0, 600_000_000_000);
        let ticks = times.ticks();
        assert_eq!((ticks[0].label.as_str(), ticks[3].label.as_str()), ("1 ns", "1 µs"));
        assert_eq!(ticks.last().unwrap().label, "1000 s");
        assert_eq!((times.at(0), times.at(1)), (0.0, 0.0));
        assert!(times.at(600_000_000_000) > 0.95 && times.at(u64::MAX) == 1.0);
    }

    #[test]
    fn equal_and_empty_times_have_a_scale() {
        assert_eq!(labels(&Times::covering(0, 0).ticks()).first(), Some(&"0 ns"));
        assert_eq!(
            labels(&Times::covering(7, 7).ticks()),
            ["0 ns", "2 ns", "4 ns", "6 ns", "8 ns"]
        );
        let minutes = Times::covering(590_000_000_000, 600_000_000_000).ticks();
        assert!(minutes.iter().all(|tick| tick.label.ends_with("min")), "{minutes:?}");
    }
}
