//! Staged faults: exactly this, to this one, at this moment.
//!
//! Invariant: plain data; a [`Staged`] of a scenario that exists has been checked, so the methods here
//! give what its kind needs.

use std::sync::LazyLock;
use std::time::Duration;

use picklock::env::Phase;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};

use super::{Chance, ErrorAnswer, Fault, Strikes, Whom};
use durations::span::{Shift, Span};

/// One fault that a scenario stages: a `[[fault]]` of its file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Staged {
    /// What goes wrong.
    pub kind: Fault,
    /// Whom it strikes; see [`Staged::whom`] for who it is where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Whom>,
    /// When it strikes. It does so once; where it is a matter of chance, again and again.
    pub at: Trigger,
    /// For how long.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
    /// Until what, at the latest for as long as `for` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// How far a wall clock jumps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Shift>,
    /// How fast clocks run, in parts per million: 0 is right, below it slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ppm: Option<i32>,
    /// Which direction between client and server it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<Ways>,
    /// Which server takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Whom>,
    /// Whether it is to cost a hold its key: then it shows nothing where the key is still there, or where
    /// nobody asks for it before that hold is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loses_hold: bool,
    /// What a server answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorAnswer>,
    /// So long after its death a client is there again as a new process; none: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comes_back: Option<Span>,
}

/// When a fault strikes: exactly one of the first four is given, or a command and a chance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { phase = \"hold\" }")]
pub struct Trigger {
    /// When a client comes to this phase.
    #[serde(default, with = "phase", skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// When a client is about to send this command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// So long after the clients have begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// At this share of all commands that are about to be sent, or of those of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chance: Option<Chance>,
    /// Not the first time, but the nth; of a phase or a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u32>,
    /// Not at once, but so long after it; of a phase or a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Span>,
}

/// The same, told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When<'a> {
    /// The nth time that a client comes to the phase: the one that is struck, if that is one.
    Phase(Phase, u32),
    /// The nth time that a client is about to send a command of this name.
    Command(&'a str, u32),
    /// So many nanoseconds after the clients have begun.
    Time(u64),
    /// At this share of the commands that are about to be sent: of those of this name, if there is one.
    Chance(Chance, Option<&'a str>),
}

/// What ends a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { phase = \"acquire.applied\" }")]
pub struct Until {
    /// A client comes to this phase.
    #[serde(with = "named_phase")]
    pub phase: Phase,
    /// Which.
    #[serde(default)]
    pub by: By,
}

/// Whose phase ends a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Any client but the one that is struck.
    #[default]
    Another,
    /// Any client.
    Any,
    /// The client that is struck: what is under way of it goes on when it has come so far itself.
    Itself,
}

/// Which directions between a client and a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ways {
    /// Both.
    #[default]
    Both,
    /// To the server.
    There,
    /// To the client.
    Back,
}

impl Staged {
    /// Whom it strikes: where nothing is said, any client, or for what happens to servers the
    /// primary.
    pub fn whom(&self) -> Whom {
        let of_server = self.kind.strikes().is_server();
        self.on.unwrap_or(if of_server { Whom::Primary } else { Whom::Any })
    }

    /// Whether it shows nothing unless it meets a hold, as what is staged on the holder.
    pub(crate) fn is_of_hold(&self) -> bool {
        self.whom() == Whom::Holder || self.loses_hold
    }

    /// Whether it strikes a SUBSCRIBE, or the answer to one.
    pub(crate) fn is_of_subscription(&self) -> bool {
        let Trigger { command, after, .. } = &self.at;
        self.kind.is_of_message() && after.is_none() && command.as_deref() == Some("SUBSCRIBE")
    }

    /// Whether it strikes all requests while it lasts, and not only the next.
    pub fn strikes_all(&self) -> bool {
        self.kind == Fault::Refuse && self.lasts.is_some()
    }

    /// Whether it is a server's clock that goes wrong.
    pub fn is_of_server_clock(&self) -> bool {
        self.kind.strikes() == Strikes::Either && self.whom().is_server()
    }

    /// For how long, in nanoseconds; none: until something else ends it.
    pub fn lasts_ns(&self) -> Option<u64> {
        self.lasts.map(Span::ns)
    }

    /// The same, as it is known when the fault begins; none where something else may end it sooner.
    pub fn surely_lasts_ns(&self) -> Option<u64> {
        self.lasts_ns().filter(|_| self.until.is_none())
    }

    /// When it is over, where it ends by itself: so long after what it waits for, or after the beginning of the run where it
    /// waits for a time.
    pub fn over_by(&self) -> Duration {
        let time_ns = self.at.time.map_or(0, Span::ns);
        let after_ns = self.at.after_ns().unwrap_or(0);
        let lasts_ns = self.lasts_ns().unwrap_or(0);
        Duration::from_nanos(time_ns.saturating_add(after_ns).saturating_add(lasts_ns))
    }

    /// How far a wall clock jumps, in nanoseconds.
    pub fn by_ns(&self) -> i64 {
        self.by.map_or(0, |shift| shift.0)
    }
}

impl Trigger {
    /// How long after what it waits for, in nanoseconds; none: at once.
    pub fn after_ns(&self) -> Option<u64> {
        self.after.map(Span::ns)
    }

    /// What it waits for; none where it does not say exactly one thing.
    pub fn when(&self) -> Option<When<'_>> {
        let nth = self.nth.unwrap_or(1);
        match (self.phase, self.command.as_deref(), self.time, self.chance) {
            (Some(phase), None, None, None) => Some(When::Phase(phase, nth)),
            (None, Some(command), None, None) => Some(When::Command(command, nth)),
            (None, None, Some(time), None) => Some(When::Time(time.ns())),
            (None, command, None, Some(chance)) => Some(When::Chance(chance, command)),
            _ => None,
        }
    }
}

impl Ways {
    /// Whether the way to the server is among them, and whether the way back is.
    pub const fn there_and_back(self) -> [bool; 2] {
        match self {
            Self::Both => [true, true],
            Self::There => [true, false],
            Self::Back => [false, true],
        }
    }
}

/// The names of all phases.
static PHASES: LazyLock<Vec<&str>> =
    LazyLock::new(|| Phase::ALL.iter().map(|phase| phase.name()).collect());

/// A phase by its name.
mod named_phase {
    use super::*;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(phase: &Phase, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(phase.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Phase, D::Error> {
        let name = String::deserialize(from)?;
        Phase::from_name(&name).ok_or_else(|| D::Error::unknown_variant(&name, &PHASES))
    }
}

/// A phase by its name, or none.
mod phase {
    use super::*;

    #[expect(clippy::ref_option, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(
        phase: &Option<Phase>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        phase.map(Phase::name).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Phase>, D::Error> {
        named_phase::deserialize(from).map(Some)
    }
}
