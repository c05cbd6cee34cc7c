//! From times to places: quiet stretches are shortened, so that what happens within microseconds shows beside holds of
//! seconds.
//!
//! Invariant: a later time never stands to the left of an earlier one, and moments at which something is drawn stand apart
//! as far as there is room. Only square roots are used, which every machine computes alike.

/// A stretch in which so many times as much time passes as where most happens is marked as a break,
const BROKEN: f64 = 3.0;
/// if it is wide enough for the mark.
const BREAK_WIDTH: f64 = 14.0;

/// More marks would say no more.
const BREAKS_MOST: usize = 5;

/// The time axis of one picture.
#[derive(Clone, Debug)]
pub(super) struct IncidentScale {
    /// Moments and their places, in order.
    stops: Vec<(u64, f64)>,
}

impl IncidentScale {
    /// An axis between these places, on which these moments stand at least so far apart, if there is room. They are in
    /// order, each once.
    pub(super) fn new(instants: &[u64], (left, right): (f64, f64), apart: f64) -> Self {
        let gaps = instants.windows(2).map(|pair| weight(pair[1] - pair[0]));
        let weights: Vec<f64> = gaps.collect();
        let all: f64 = weights.iter().sum();
        let width = right - left;
        let gaps: f64 = weights.iter().map(|_| 1.0).sum();
        // At most half of the width is given away evenly: the rest shows what took longer.
        let apart = if gaps > 0.0 { apart.min(width * 0.5 / gaps) } else { 0.0 };
        let mut x = left;
        let mut stops = Vec::with_capacity(instants.len());
        for (place, &at_ns) in instants.iter().enumerate() {
            stops.push((at_ns, x));
            if let Some(weight) = weights.get(place) {
                x += apart + (width - apart * gaps) * weight / all;
            }
        }
        Self { stops }
    }

    /// Where far more time passes than the width shows, compared with where most happens: the middles of these stretches.
    pub(super) fn breaks(&self) -> Vec<f64> {
        let gaps = self.stops.windows(2).map(|pair| {
            let (width, span_ns) = (pair[1].1 - pair[0].1, (pair[1].0 - pair[0].0) as f64);
            (span_ns / width.max(f64::MIN_POSITIVE), width, pair[0].1)
        });
        let mut gaps: Vec<(f64, f64, f64)> = gaps.collect();
        gaps.sort_by(|one, other| one.0.total_cmp(&other.0));
        // What most happens in stands on the quarter of the axis that is stretched most.
        let quarter = gaps.iter().map(|it| it.1).sum::<f64>() / 4.0;
        let mut passed = 0.0;
        let usual = gaps.iter().find(|it| {
            passed += it.1;
            passed >= quarter
        });
        let usual = usual.map_or(0.0, |it| it.0);
        let broken = gaps.iter().rev().filter(|it| it.0 > usual * BROKEN && it.1 > BREAK_WIDTH);
        broken.take(BREAKS_MOST).map(|(_, width, x)| x + width / 2.0).collect()
    }

    /// Where this moment stands; one beyond the ends stands at the end.
    pub(super) fn x(&self, at_ns: u64) -> f64 {
        let behind = self.stops.partition_point(|(stop_ns, _)| *stop_ns <= at_ns);
        let Some(&(before_ns, before)) = behind.checked_sub(1).and_then(|it| self.stops.get(it))
        else {
            return self.stops.first().map_or(0.0, |stop| stop.1);
        };
        let Some(&(after_ns, after)) = self.stops.get(behind) else { return before };
        before + (after - before) * (at_ns - before_ns) as f64 / (after_ns - before_ns) as f64
    }
}

/// How much room a stretch of time is given: its power of three eighths.
fn weight(span_ns: u64) -> f64 {
    let root = (span_ns as f64).sqrt();
    (root * root.sqrt()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_order_and_the_ends_are_met() {
        let instants = [1_000, 1_200, 200_000_000, 200_000_100, 900_000_000_000];
        let scale = IncidentScale::new(&instants, (100.0, 700.0), 20.0);
        let places: Vec<f64> = instants.iter().map(|it| scale.x(*it)).collect();
        assert!((places[0] - 100.0).abs() < 1e-9 && (places[4] - 700.0).abs() < 1e-9, "{places:?}");
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 20.0), "{places:?}");
        assert!(places[2] - places[1] > places[1] - places[0], "what took longer is longer");
        let within = scale.x(100_000_000);
        assert!(places[1] < within && within < places[2]);
        assert_eq!([scale.x(0), scale.x(u64::MAX)], [places[0], places[4]]);
    }

    #[test]
    fn a_stretch_in_which_far_more_time_passes_is_a_break() {
        let breaks = |instants: &[u64]| IncidentScale::new(instants, (0.0, 600.0), 20.0).breaks();
        assert_eq!(breaks(&[0, 10, 20, 30, 40]), [0.0; 0]);
        let scale = IncidentScale::new(&[0, 10, 20, 9_000, 9_010], (0.0, 600.0), 20.0);
        let [place] = scale.breaks()[..] else { panic!("{:?}", scale.breaks()) };
        assert!((scale.x(20)..scale.x(9_000)).contains(&place), "{place}");
        assert_eq!(breaks(&[]), [0.0; 0]);
    }

    #[test]
    fn without_room_moments_stand_closer_and_one_alone_has_a_place() {
        let instants: Vec<u64> = (0..100).map(|it| it * 10).collect();
        let scale = IncidentScale::new(&instants, (0.0, 300.0), 20.0);
        assert!((scale.x(990) - 300.0).abs() < 1e-6);
        assert!(scale.x(10) > 2.9);
        assert_eq!(IncidentScale::new(&[5], (10.0, 20.0), 5.0).x(5), 10.0);
        assert_eq!(IncidentScale::new(&[], (10.0, 20.0), 5.0).x(5), 0.0);
    }
}
