//! The first line of a history: what kind of run it was.
//!
//! Invariant: everything a checker needs besides the events stands here, so that a history can be
//! judged again from its file alone.

use std::time::Duration;

use durations::span::rounded;
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Staged, Whom};

/// How many times the client, the proxy and the server together may wait for a processor before the lock is taken: at the
/// end of a pause, on both ways of an attempt, and as often again if the first attempt was too late. An estimate.
const TURNS: u64 = 20;

/// A machine is called busy if it has kept the run itself from running for such a part of the TTL: on a quiet one that is
/// some milliseconds.
const BUSY: u64 = 10;

/// The version of the format.
pub const FORMAT: &str = "picklock/history/1";

/// What kind of run a history is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The format: `picklock/history/1`.
    pub format: String,
    /// The scenario's name.
    pub scenario: String,
    /// The recipe's name.
    pub lock: String,
    /// Whether the recipe keeps a validity: then belief ends with it.
    pub tracked: bool,
    /// Whether the recipe locks at all; false for the one that does not.
    pub locks: bool,
    /// Whether the value of the key says when a hold is over, by its client's wall clock, and the key
    /// itself does not expire.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stamped: bool,
    /// The world's name.
    pub world: String,
    /// What every drawn number of picklock's own follows from.
    pub seed: u64,
    /// How many clients; they are numbered from 1, and 0 is the run itself.
    pub clients: u32,
    /// The key the lock is kept under.
    pub lock_key: String,
    /// How long the key lives, in nanoseconds.
    pub ttl_ns: u64,
    /// How far a server's clock may differ from the one events are stamped with over one TTL, in
    /// nanoseconds, the grain of its expiry included: a hold counts as certain only so much less.
    pub margin_ns: u64,
    /// Whether an event's time is the very moment it happened, as in virtual time: nothing comes between a
    /// client's decision and its stamp.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// The longest delay of a timer of the run itself, in nanoseconds, as on a busy machine; none where it was not
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// For how long nobody may get a lock that is wanted and that nobody has, in nanoseconds; none where
    /// nothing is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_within_ns: Option<u64>,
    /// For how long nobody may sleep on while the lock is free, in nanoseconds; none where nothing is
    /// said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_within_ns: Option<u64>,
    /// What the recipe promises of a free lock, where that is less than these two ask for; none where it has
    /// to do what they ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// Whether it is assumed, as the recipe does, that a client which has decided to write in time has also
    /// written in time: where one has not, what becomes of the register is no verdict on the lock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timely_writes: bool,
    /// How many that come later may get the lock before one that is in line, as the recipe claims; none
    /// where it claims nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_within: Option<u32>,
    /// Whether what the recipe says of an acquisition or a release is what it knows, and it is held to that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub honest: bool,
    /// For how long a client tries again at least, whatever a server answers that may pass, in nanoseconds; none
    /// where the recipe claims nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries_for_ns: Option<u64>,
    /// How soon an acquisition ends that servers have refused for good, as the recipe claims, in nanoseconds; none
    /// where it claims nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails_within_ns: Option<u64>,
    /// How many attempts an acquisition makes at most, as its caller has set and the recipe claims; none where they
    /// are ended by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_most: Option<u32>,
    /// How many servers the lock is kept on; none where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u16>,
    /// Whether the server is a node of a cluster, where all keys of a command must be in one slot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cluster: bool,
    /// For how long a client waits in one go before it gives up, and asks anew in the same acquisition, in
    /// nanoseconds; none where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives_up_ns: Option<u64>,
    /// How long after its call each caller wants its answer, in nanoseconds; none where callers set no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// How long after that the answer may come, as the recipe claims, in nanoseconds; none where it claims nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrun_ns: Option<u64>,
    /// Whether every hold is renewed until it is released or lost, as the recipe claims.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renewed: bool,
    /// For how long a hold is renewed at most, as the recipe claims, in nanoseconds from its request; none where it
    /// claims nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_hold_ns: Option<u64>,
    /// Whether work stops once its client is told that the lock is lost, and the recipe claims to tell in time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    /// How many commands it may take to get the lock once, in thousandths; none where nothing is said of
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands_within_milli: Option<u64>,
    /// How many prizes the pool held in the beginning, where there is a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prizes: Option<i64>,
    /// What the register held in the beginning, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub register: Option<i64>,
    /// Whether the register keeps the highest fencing token it has seen, and refuses lower ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fenced: bool,
    /// The node of the protected resource, where it has one of its own: a command to it is none of
    /// the lock's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<u16>,
    /// How many acquisitions the clients were to make, all together; none where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquisitions: Option<u64>,
    /// The faults that the scenario stages, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staged: Vec<Declared>,
}

impl Head {
    /// Whether this node leads to the protected resource, and not to a server of the lock.
    pub fn is_resource(&self, node: u16) -> bool {
        self.resource == Some(node)
    }
}

/// What a recipe promises of a free lock, where its scenario asks for more than it can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// Somebody who wants it has it within this time, in nanoseconds; none where that cannot be promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<u64>,
    /// Why it is no more.
    pub because: String,
}

impl Head {
    /// How soon somebody must get a lock that two or more want; none where nothing is said or promised about that.
    pub fn must_be_available_within(&self) -> Option<Duration> {
        let within_ns = self.available_within_ns?;
        let promised_ns = match &self.promise {
            Some(promise) => promise.within_ns?,
            None => within_ns,
        };
        Some(Duration::from_nanos(within_ns.max(promised_ns)))
    }

    /// Why a free lock that stayed untaken for longer than allowed is not held against it: the machine was busy.
    pub fn excuse(&self, within_ns: u64, span_ns: u64) -> Option<String> {
        let promised_ns = self.promise.as_ref().and_then(|it| it.within_ns).unwrap_or(0);
        let beyond_ns = span_ns.saturating_sub(within_ns.max(promised_ns));
        self.late_ns.filter(|it| beyond_ns <= it.saturating_mul(TURNS)).map(kept)
    }

    /// What to know of a run that shows nothing, if the machine was so busy that faults and answers may have come too late.
    pub fn busy(&self) -> Option<String> {
        self.late_ns.filter(|it| *it >= self.ttl_ns / BUSY).map(kept)
    }
}

fn kept(late_ns: u64) -> String {
    let late = rounded(late_ns);
    format!("this machine was busy, and kept the run itself from running for up to {late}")
}

impl Promise {
    /// Whether it is broken where this took so long.
    pub fn is_broken_by(&self, span_ns: u64) -> bool {
        self.within_ns.is_some_and(|within_ns| span_ns > within_ns)
    }
}

/// A fault that a scenario stages, as far as a checker asks whether it has struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// Which.
    pub kind: Fault,
    /// Whom it is to strike.
    pub on: Whom,
    /// Whether it shows nothing unless it meets a hold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_hold: bool,
    /// Whether the message that it strikes is the request by which a client listens, or the answer to that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub subscribes: bool,
}

impl From<&Staged> for Declared {
    fn from(staged: &Staged) -> Self {
        let (in_hold, subscribes) = (staged.is_of_hold(), staged.is_of_subscription());
        Self { kind: staged.kind, on: staged.whom(), in_hold, subscribes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_resources_own_node_is_the_resources() {
        let head = Head { resource: Some(2), ..Head::default() };
        assert!(head.is_resource(2));
        assert!(!head.is_resource(0));
        assert!(!Head::default().is_resource(0));
    }

    #[test]
    fn a_busy_machine_is_an_excuse_for_twenty_times_as_long_as_it_kept_the_run() {
        let promise = Some(Promise { within_ns: Some(500), because: String::new() });
        for (late_ns, promise, span_ns, is_excused) in [
            (None, None, 101, false),
            (Some(10), None, 300, true),
            (Some(10), None, 301, false),
            (Some(10), promise.clone(), 700, true),
            (Some(10), promise, 701, false),
        ] {
            let head = Head { late_ns, promise, ..Head::default() };
            assert_eq!(head.excuse(100, span_ns).is_some(), is_excused, "{head:?}: {span_ns}");
        }
    }

    #[test]
    fn a_run_that_was_late_by_a_tenth_of_the_ttl_was_on_a_busy_machine() {
        for (late_ns, is_busy) in [(None, false), (Some(99), false), (Some(100), true)] {
            let head = Head { late_ns, ttl_ns: 1_000, ..Head::default() };
            assert_eq!(head.busy().is_some(), is_busy, "{late_ns:?}");
        }
    }

    #[test]
    fn a_lock_must_be_available_as_soon_as_both_is_asked_and_promised() {
        let promise = |within_ns: Option<u64>| Some(Promise { within_ns, because: String::new() });
        let within = |available_within_ns, promise| {
            let head = Head { available_within_ns, promise, ..Head::default() };
            head.must_be_available_within().map(|it| it.as_nanos())
        };
        assert_eq!(within(None, promise(Some(5))), None);
        assert_eq!(within(Some(3), None), Some(3));
        assert_eq!(within(Some(3), promise(None)), None);
        assert_eq!(within(Some(3), promise(Some(5))), Some(5));
        assert_eq!(within(Some(7), promise(Some(5))), Some(7));
    }
}
