//! Pauses of well-known kinds, for who has no measurement.
//!
//! Invariant: a preset names its source, and says what of it nobody has measured but we assume. Deliberately
//! absent: kinds without a source; those are given by hand.

/// A kind of pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// How long pauses last, as a distribution's text.
    pub length: &'static str,
    /// How often a process has one.
    pub rate: &'static str,
    /// Where that comes from.
    pub source: &'static str,
}

/// All of them.
pub const ALL: [Preset; 4] = [
    Preset {
        name: "go",
        length: "lognormal:100us,p99=500us",
        rate: "1/second",
        source: "The Go Blog, \"Getting to Go\" (2018): pauses of less than 500 us a collection; median and rate \
                 assumed",
    },
    Preset {
        name: "jvm-g1",
        length: "lognormal:50ms,p99=200ms",
        rate: "6/minute",
        source: "HotSpot Garbage Collection Tuning Guide: G1 aims at 200 ms (MaxGCPauseMillis); median and rate \
                 assumed",
    },
    Preset {
        name: "jvm-full",
        length: "lognormal:1s,p99=10s",
        rate: "1/hour",
        source: "HubSpot, \"G1GC Fundamentals\": a service that regularly paused for more than 10 s; median and \
                 rate assumed",
    },
    Preset {
        name: "cgroup",
        length: "uniform:0s..100ms",
        rate: "1/second",
        source: "Linux, CFS Bandwidth Control: who has used its quota stands still until the next period, 100 ms \
                 by default; rate assumed",
    },
];

/// The preset of this name.
pub fn named(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::Rate;
    use scenarios::distribution::Distribution;

    #[test]
    fn every_preset_can_be_drawn_and_says_what_is_assumed() {
        for preset in ALL {
            assert!(preset.length.parse::<Distribution>().is_ok(), "{}", preset.name);
            assert!(preset.rate.parse::<Rate>().is_ok(), "{}", preset.name);
            assert!(preset.source.contains("assumed"), "{}", preset.name);
            assert_eq!(named(preset.name).copied(), Some(preset));
        }
        assert_eq!(named("go").map(|it| it.name), Some("go"));
        assert_eq!(named("erlang"), None);
    }
}
