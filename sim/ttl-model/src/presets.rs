//! Presets of process pauses, for users without measurements.
//!
//! Invariant: a preset names its source with its address, and says which figures are assumed.

/// A preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Distribution of lengths, as text.
    pub length: &'static str,
    /// Rate per process.
    pub rate: &'static str,
    /// The source.
    pub source: &'static str,
}

/// All of them.
///
/// Each figure is a source's, or follows from it as the comment says, or is assumed; the text says which.
pub static ALL: [Preset; 4] = [
    // The talk gives 500 us a collection as the objective of 2018, and 100 to 200 us as what pauses then were. How
    // often collections come follows from how fast a service allocates: with GOGC=100, each time its heap has
    // doubled. One a second is a busy service's.
    Preset {
        name: "go",
        length: "lognormal:100us,p99=500us",
        rate: "1/second",
        source: "The Go Blog, \"Getting to Go: The Journey of Go's Garbage Collector\" (2018), \
                 https://go.dev/blog/ismmkeynote: an objective of 500 us a collection, remaining pauses of 100 to \
                 200 us; rate assumed, for a service that allocates a lot",
    },
    // The source has the goal alone. G1 is told to keep it, and does not promise to: so one pause in a hundred is
    // assumed to be longer. How long the others are and how often they come depends on the service's heap.
    Preset {
        name: "jvm-g1",
        length: "lognormal:50ms,p99=200ms",
        rate: "6/minute",
        source: "OpenJDK, g1Arguments.cpp, \
                 https://github.com/openjdk/jdk/blob/master/src/hotspot/share/gc/g1/g1Arguments.cpp: G1 aims at 200 \
                 ms (MaxGCPauseMillis) by default, met here by 99 % of pauses; median and rate assumed, for a \
                 service with free heap",
    },
    // Lipcon saw about 10 s for each gigabyte of heap, HubSpot more than 10 s with G1. At that pace a heap of a hundred
    // megabytes takes a second, which is the median. One an hour is a service that is not well, and goes unnoticed.
    Preset {
        name: "jvm-full",
        length: "lognormal:1s,p99=10s",
        rate: "1/hour",
        source: "HubSpot, \"G1GC Fundamentals: Lessons from Taming Garbage Collection\", \
                 https://product.hubspot.com/blog/g1gc-fundamentals-lessons-from-taming-garbage-collection: a \
                 service that regularly paused for more than 10 s; T. Lipcon, \"Avoiding Full GCs with \
                 MemStore-Local Allocation Buffers\" (2011), \
                 https://www.slideshare.net/slideshow/hbase-hug-presentation/7038178: about 10 s per gigabyte; \
                 median and rate assumed, for a small heap that fills up occasionally",
    },
    // Between none and the whole period: when in its period a group has used its quota up is anybody's guess.
    Preset {
        name: "cgroup",
        length: "uniform:0s..100ms",
        rate: "1/second",
        source: "Linux, \"CFS Bandwidth Control\", \
                 https://kernel.org/doc/Documentation/scheduler/sched-bwc.txt: \
                 a group that has used its quota does not run until the next period, 100 ms by default; assumed: one \
                 period in ten, and a uniform length up to a period",
    },
];

/// The preset of this name.
pub fn named(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;
    use scenarios::distribution::Distribution;

    #[test]
    fn every_preset_can_be_drawn_and_says_what_is_assumed() {
        for preset in ALL {
            assert!(preset.length.parse::<Distribution>().is_ok(), "{}", preset.name);
            assert!(preset.rate.parse::<Rate>().is_ok(), "{}", preset.name);
            assert!(preset.source.contains("assumed"), "{}", preset.name);
            assert!(preset.source.contains("https://"), "{}", preset.name);
            assert_eq!(named(preset.name).copied(), Some(preset));
        }
        assert_eq!(named("erlang"), None);
    }
}
