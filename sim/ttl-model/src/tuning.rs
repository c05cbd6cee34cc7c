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
    /// What it counts with.
    pub inputs: Vec<Input>,
    /// What is wanted.
    pub targets: Targets,
    /// For which lock a setting is sought.
    pub keeping: Protection,
    /// What every drawn number follows from.
    pub seed: u64,
    /// What a client does that finds its lock taken.
    #[serde(default)]
    pub if_taken: IfTaken,
    /// How many times a day a lock is asked for, by all clients; where they wait, as many holds there are.
    pub holds_per_day: f64,
    /// How many crashes leave a lock behind in a day, of all clients.
    pub orphans_per_day: f64,
    /// How many holds were simulated.
    pub simulated: u64,
    /// Every setting.
    pub points: Vec<Point>,
    /// Which to take.
    pub advice: Advice,
    /// Why some settings were not simulated to the end, where something came in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// What a real server has shown of the model, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
    /// The line that says it again.
    pub replay: String,
}

/// What a real server has shown of the model that a tuning counts with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Which server.
    pub server: String,
    /// What was tried there.
    pub tried: Vec<Confirmed>,
    /// Why not all was tried that was to be, where something came in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
}

impl Confirmation {
    /// Whether what was seen is what the model says; none where nothing was seen.
    pub fn agrees(&self) -> Option<bool> {
        let seen = self.tried.iter().filter_map(|it| match &it.found {
            ConfirmationOutcome::Seen(seen) => Some(seen.agrees()),
            ConfirmationOutcome::Unseen(_) => None,
        });
        seen.reduce(|all, agrees| all && agrees)
    }
}

/// A setting that was tried on a real server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmed {
    /// The TTL.
    pub ttl: Span,
    /// From one renewal to the next; none: it is not renewed.
    pub renew: Option<Span>,
    /// Whether it is one of the grid; else its TTL is shorter than all of these, so that something is to be seen.
    pub in_grid: bool,
    /// So many times as long everything lasted but round trips.
    pub stretch: f64,
    /// What was found.
    pub found: ConfirmationOutcome,
}

/// What was found on a real server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfirmationOutcome {
    /// So many holds went wrong.
    Seen(ObservedHolds),
    /// Nothing was tried, and why.
    Unseen(String),
}

/// What became of holds on a real server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedHolds {
    /// The TTL as it was played.
    pub ttl: Span,
    /// How many there were.
    pub holds: u64,
    /// How many pauses there were in them.
    pub pauses: u64,
    /// How many more were left out, because an answer was missing.
    pub left_out: u64,
    /// Those that lost their validity before their work was done.
    pub lost: ComparedShare,
    /// Those whose release came after the end of their lease.
    pub outlived: ComparedShare,
}

impl ObservedHolds {
    /// Whether the model says what was seen.
    pub fn agrees(&self) -> bool {
        self.lost.agrees() && self.outlived.agrees()
    }
}

/// A share that was counted beside what the model says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedShare {
    /// How many holds.
    pub hits: u64,
    /// Of all.
    pub share: f64,
    /// At least, with a confidence of 99.9 %.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// What the model says.
    pub model: f64,
}

impl ComparedShare {
    /// Whether the model says what may be.
    pub fn agrees(self) -> bool {
        (self.low..=self.high).contains(&self.model)
    }
}

/// A number that a tuning counts with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// What it is.
    pub name: String,
    /// How much.
    pub value: String,
    /// Where it comes from: given, measured, a preset with its source, or assumed.
    pub source: String,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Targets {
    /// So many overlaps at most, as it was written.
    pub overlaps: String,
    /// The same in a day.
    pub overlaps_per_day: f64,
    /// So many holds at most that lose their lock before their work is done, as it was written.
    pub lost: String,
    /// The same in a day.
    pub lost_per_day: f64,
    /// After a crash another has the lock within this time, in 99 of 100 cases.
    pub takeover: Span,
    /// So many runs in a row are missed after a crash, in 99 of 100 cases at most; where clients skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

/// What a client does that finds its lock taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IfTaken {
    /// It waits until it has the lock.
    #[default]
    Wait,
    /// It leaves this run out, and asks again when the next one is due.
    Skip,
}

/// What a lock does beside keeping a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// Nothing: its holder works on when the lease has ended.
    None,
    /// It keeps its validity: its holder looks before it writes, and stops when it is over.
    Tracked,
    /// The same, and the resource refuses tokens older than it has seen.
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

    /// Whether its holder stops when its validity has ended.
    pub fn is_tracked(self) -> bool {
        self != Self::None
    }
}

/// One setting, and what comes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The TTL.
    pub ttl: Span,
    /// From one renewal to the next; none: it is not renewed.
    pub renew: Option<Span>,
    /// What the lock keeps.
    pub keeping: Protection,
    /// Holds that outlive their lease; where validity is kept, those that lose it before their work is done.
    pub wrong: Share,
    /// Holds that somebody else relies on at the same time.
    pub belief: Share,
    /// Holds that write though somebody else has the lock.
    pub effect: Share,
    /// The first of these as a formula gives it, where one does.
    pub closed_form: Option<f64>,
    /// From a crash until another has the lock.
    pub takeover: Delay,
    /// How long who wants the lock waits for it.
    pub wait: Delay,
    /// Runs that are left out because the lock was taken; none where clients wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skips: Option<Skips>,
    /// Renewals in a second, of all clients.
    pub renewals_per_second: f64,
    /// The same at most, with a confidence of 95 %.
    #[serde(default)]
    pub renewals_per_second_high: f64,
    /// Whether it was not simulated to the end, so that nothing here is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// Which targets it misses, in words; none: it meets them all.
    pub misses: Vec<String>,
}

impl Point {
    /// Whether it meets every target.
    pub fn meets(&self) -> bool {
        self.misses.is_empty()
    }
}

/// What comes of clients that leave a run out where they find the lock taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skips {
    /// The share of runs that are left out, of all that clients come for.
    pub share: f64,
    /// How many runs in a row nobody does after a crash, on the average.
    pub missed: f64,
    /// The same in 99 of 100 crashes at most.
    pub missed_p99: u64,
}

/// A share of all holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Of each hold, the best guess.
    pub per_hold: f64,
    /// At least, with a confidence of 95 %.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// In a day, the best guess.
    pub per_day: f64,
    /// In a day, at most.
    pub per_day_high: f64,
    /// How it was found.
    pub how: How,
}

/// How a share was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// So many of so many holds.
    Counted {
        /// Those that were hit.
        hits: u64,
        /// All of them.
        of: u64,
    },
    /// From how likely each of so many holds was to be hit.
    #[serde(rename = "asked")]
    Estimated {
        /// How many there were.
        holds: u64,
    },
    /// What it is at most, by a formula.
    Bound,
    /// It cannot be, by the lock's construction.
    Construction,
}

/// A time with its tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// The mean.
    pub mean: Span,
    /// Ninety-nine in a hundred are shorter.
    pub p99: Span,
    /// They are shorter than this with a confidence of 97.5 %.
    #[serde(default)]
    pub p99_high: Span,
}

/// Whether the targets can be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetStatus {
    /// By the setting that is advised.
    Met,
    /// Perhaps: what is known does not say.
    Unknown,
    /// Overlaps can be as rare as wanted, but then something else is missed.
    TooSlow,
    /// No setting has overlaps as rare as wanted.
    TooManyOverlaps,
}

/// Which setting to take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// Whether the targets can be met.
    pub answer: TargetStatus,
    /// The place of the advised point; where none meets the targets, that of the nearest.
    pub point: Option<usize>,
    /// In a sentence.
    pub says: String,
    /// By what it was chosen among those that meet the targets; empty where none does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub objective: String,
    /// Why, a sentence each.
    pub because: Vec<String>,
}
