//! The results of a tuning: per setting, what goes wrong how often; and which setting to take.
//!
//! Invariant: every estimated share carries its upper bound; none is a bare zero.

use serde::{Deserialize, Serialize};

use scenarios::span::Span;

/// The form of `tune.json`.
pub const SCHEMA: &str = "picklock-tune/1";

/// A tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// [`SCHEMA`].
    pub schema: String,
    /// Its inputs.
    pub inputs: Vec<Input>,
    /// The targets.
    pub targets: Targets,
    /// The kind of lock.
    pub keeping: Protection,
    /// The seed of the simulation.
    pub seed: u64,
    /// What a client does if its lock is taken.
    #[serde(default)]
    pub if_taken: IfTaken,
    /// Requests for a lock per day, of all clients; if they wait, equal to the number of holds.
    pub holds_per_day: f64,
    /// Crashes per day that orphan a lock, of all clients.
    pub orphans_per_day: f64,
    /// Number of simulated holds.
    pub simulated: u64,
    /// Every setting.
    pub points: Vec<Point>,
    /// The recommendation.
    pub advice: Advice,
    /// Why some settings are unfinished, if any are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// The validation on a real server, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
    /// The replay line.
    pub replay: String,
}

/// The validation of the lease model on a real server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The server.
    pub server: String,
    /// The validated settings.
    pub tried: Vec<Confirmed>,
    /// Why it is incomplete, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
}

impl Confirmation {
    /// Whether the measurements agree with the model; `None` without measurements.
    pub fn agrees(&self) -> Option<bool> {
        let seen = self.tried.iter().filter_map(|it| match &it.found {
            ConfirmationOutcome::Seen(seen) => Some(seen.agrees()),
            ConfirmationOutcome::Unseen(_) => None,
        });
        seen.reduce(|all, agrees| all && agrees)
    }
}

/// A setting validated on a real server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmed {
    /// The TTL.
    pub ttl: Span,
    /// The renewal interval; `None`: no renewal.
    pub renew: Option<Span>,
    /// Whether it is one of the grid; otherwise its TTL is shorter, to make failures frequent enough to measure.
    pub in_grid: bool,
    /// The factor by which all times but round trips were scaled.
    pub stretch: f64,
    /// The outcome.
    pub found: ConfirmationOutcome,
}

/// The outcome of a validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfirmationOutcome {
    /// The measurements.
    Seen(ObservedHolds),
    /// Not measured, and why.
    Unseen(String),
}

/// Holds on a real server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedHolds {
    /// The scaled TTL.
    pub ttl: Span,
    /// Number of holds.
    pub holds: u64,
    /// Number of pauses in them.
    pub pauses: u64,
    /// Holds excluded because a reply was missing.
    pub left_out: u64,
    /// Holds that lost their validity before their work was done.
    pub lost: ComparedShare,
    /// Holds whose release arrived after the end of their lease.
    pub outlived: ComparedShare,
}

impl ObservedHolds {
    /// Whether the model agrees.
    pub fn agrees(&self) -> bool {
        self.lost.agrees() && self.outlived.agrees()
    }
}

/// A measured share beside the model's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedShare {
    /// Number of holds.
    pub hits: u64,
    /// Their share.
    pub share: f64,
    /// Lower end of the 99.9 % confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The model's share.
    pub model: f64,
}

impl ComparedShare {
    /// Whether the model's share lies in the interval.
    pub fn agrees(self) -> bool {
        (self.low..=self.high).contains(&self.model)
    }
}

/// An input of a tuning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// What it is.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Its source: given, measured, a preset with its reference, or assumed.
    pub source: String,
}

/// The targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Targets {
    /// The most overlaps, as given.
    pub overlaps: String,
    /// The same per day.
    pub overlaps_per_day: f64,
    /// The most holds that lose their lock before their work is done, as given.
    pub lost: String,
    /// The same per day.
    pub lost_per_day: f64,
    /// The longest takeover after a crash, in 99 % of cases.
    pub takeover: Span,
    /// The most consecutive runs missed after a crash, in 99 % of cases; only if clients skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

/// What a client does if its lock is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IfTaken {
    /// It waits until it has the lock.
    #[default]
    Wait,
    /// It skips this run, and tries again at the next.
    Skip,
}

/// How a lock protects beyond its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// Validity is not tracked: the holder continues after its lease has ended.
    None,
    /// Validity is tracked: the holder checks it before it writes, and stops when it has ended.
    Tracked,
    /// Tracked, and the resource rejects older fencing tokens.
    #[serde(rename = "fence")]
    Fenced,
}

impl Protection {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Tracked, Self::Fenced];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Tracked => "tracked",
            Self::Fenced => "fence",
        }
    }

    /// Whether the holder stops when its validity has ended.
    pub fn is_tracked(self) -> bool {
        self != Self::None
    }
}

/// One setting and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The TTL.
    pub ttl: Span,
    /// The renewal interval; `None`: no renewal.
    pub renew: Option<Span>,
    /// The kind of lock.
    pub keeping: Protection,
    /// Holds that outlive their lease; with tracked validity, those that lose it before their work is done.
    pub wrong: Share,
    /// Holds during which another client also relies on the lock.
    pub belief: Share,
    /// Holds that write while another client has the lock.
    pub effect: Share,
    /// From a crash until a client that waits has the lock, whether or not there is one; of clients that skip, until the next
    /// run begins.
    pub takeover: Delay,
    /// How long a client waits for the lock.
    pub wait: Delay,
    /// Skipped runs; `None` if clients wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skips: Option<Skips>,
    /// Renewals per second, of all clients.
    pub renewals_per_second: f64,
    /// Its upper bound, with a confidence of 95 %.
    #[serde(default)]
    pub renewals_per_second_high: f64,
    /// Whether the simulation did not finish, so that all figures are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// The missed targets, as text; empty: it meets them all.
    pub misses: Vec<String>,
}

impl Point {
    /// A setting of which nothing is known yet.
    pub fn unknown(ttl: Span, renew: Option<Span>, keeping: Protection) -> Self {
        let how = EstimateMethod::Counted { hits: 0, of: 0 };
        let (per_hold, high, per_day, per_day_high) = (0.0, 1.0, 0.0, f64::MAX);
        let unknown = Share { per_hold, low: 0.0, high, per_day, per_day_high, how };
        Self {
            ttl,
            renew,
            keeping,
            wrong: unknown,
            belief: unknown,
            effect: unknown,
            takeover: Delay::default(),
            wait: Delay::default(),
            skips: None,
            renewals_per_second: 0.0,
            renewals_per_second_high: 0.0,
            unfinished: false,
            misses: Vec::new(),
        }
    }

    /// Whether it meets every target.
    pub fn meets(&self) -> bool {
        self.misses.is_empty()
    }
}

/// Results of clients that skip a run if the lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skips {
    /// The share of skipped runs.
    pub share: f64,
    /// Consecutive runs missed after a crash, on average.
    pub missed: f64,
    /// The same at the 99th percentile.
    pub missed_p99: u64,
}

/// A share of all holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Best estimate, per hold.
    pub per_hold: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Best estimate, per day.
    pub per_day: f64,
    /// Upper end, per day.
    pub per_day_high: f64,
    /// The method.
    pub how: EstimateMethod,
}

/// How a share was estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EstimateMethod {
    /// By plain Monte Carlo.
    Counted {
        /// Holds that failed.
        hits: u64,
        /// All of them.
        of: u64,
    },
    /// By importance sampling.
    #[serde(rename = "asked")]
    Estimated {
        /// Evaluated holds.
        holds: u64,
    },
    /// By an upper bound in closed form.
    Bound,
    /// Impossible by construction of the lock.
    Construction,
}

/// A time with its tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// The mean.
    pub mean: Span,
    /// The 99th percentile.
    pub p99: Span,
    /// Its upper bound, with a confidence of 97.5 %.
    #[serde(default)]
    pub p99_high: Span,
}

/// Whether the targets can be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetStatus {
    /// Yes, by the recommended setting.
    Met,
    /// Unknown: the data are insufficient.
    Unknown,
    /// Overlaps can meet their target, but then another target is missed.
    TooSlow,
    /// No setting meets the target of overlaps.
    TooManyOverlaps,
}

/// The recommended setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// Whether the targets can be met.
    pub answer: TargetStatus,
    /// Index of the recommended setting; if none meets the targets, of the closest.
    pub point: Option<usize>,
    /// One sentence.
    pub says: String,
    /// How it was chosen among those that meet the targets; empty if none does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub objective: String,
    /// The reasons, a sentence each.
    pub because: Vec<String>,
}
