//! Plans: which fault strikes at which boundary of the lock.
//!
//! Invariant: a plan leaves nothing to luck. A boundary is a command that the victim certainly sends, because a clean
//! run has shown it; a plan whose command did not come is vacuous.

use std::collections::BTreeSet;
use std::fmt;

use history::fault::{ErrorAnswer, Fault};
use redis_model::command_flags::{may_find_busy, may_find_loading, may_take_memory, may_write};
use serde::{Deserialize, Serialize};

/// How far clocks jump.
pub(crate) const HOUR_NS: i64 = 3_600_000_000_000;

/// Where in the life of a lock something happens.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LockStep {
    /// While it is acquired.
    Acquire,
    /// While it is held.
    Hold,
    /// While it is released.
    Release,
    /// Anywhere in the run of a program that is told nothing.
    Run,
}

impl LockStep {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Run => "run",
        }
    }
}

/// A command that the victim sends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Boundary {
    /// In which step.
    pub step: LockStep,
    /// Its name, in upper case.
    pub command: String,
    /// Which of this name in this step, from 1.
    pub nth: u64,
    /// It increments a number before the lock's key exists: perhaps a fencing token, which may be old when used.
    pub draws: bool,
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.step.name(), self.command.to_ascii_lowercase())?;
        if self.nth > 1 { write!(f, "{}", self.nth) } else { Ok(()) }
    }
}

/// What a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The command, on its way or at the server.
    Message,
    /// The victim's process, at the command.
    Process,
    /// The victim's process, in the middle of its hold.
    Holder,
    /// A rival's process, while it waits for the lock that the victim has.
    Waiter,
    /// A server, in the middle of the victim's hold.
    Server,
}

/// A row is a fault: its name, what it strikes, and what it does in a few words.
macro_rules! attack_faults {
    ($($kind:ident $name:tt $target:ident $does:literal,)+) => {
        /// A fault of a plan.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each says what it does")]
        pub enum AttackFault { $($kind,)+ }

        impl AttackFault {
            /// Every fault.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// What it strikes.
            pub const fn target(self) -> Target {
                match self { $(Self::$kind => Target::$target,)+ }
            }

            /// What it does, in a few words.
            pub const fn does(self) -> &'static str {
                match self { $(Self::$kind => $does,)+ }
            }
        }
    };
}

attack_faults! {
    LoseRequest "lose-request" Message "the request is lost",
    LoseReply "lose-reply" Message "the reply is lost",
    LateRequest "late-request" Message "the request arrives after the TTL",
    LateAgain "late-again" Message "the request arrives once its own client has the lock again",
    LateReply "late-reply" Message "the reply arrives after the TTL",
    ResetBefore "reset-before" Message "the connection breaks before the server sees the command",
    ResetAfter "reset-after" Message "the connection breaks after the server has carried it out",
    Loading "loading" Message "the server answers -LOADING",
    Readonly "readonly" Message "the server answers -READONLY",
    Oom "oom" Message "the server answers -OOM",
    Busy "busy" Message "the server answers -BUSY",
    NoScript "noscript" Message "the server answers -NOSCRIPT",
    Stop "stop" Process "the process stands still until another has the lock",
    OldToken "old-token" Process "the process stands still until another has had the lock, and then gets it with the number that it drew before",
    Kill "kill" Process "the process is killed before it hears the answer",
    ClockForward "clock-forward" Process "the process's wall clock jumps an hour ahead",
    ClockBack "clock-back" Process "the process's wall clock jumps an hour back",
    HolderStop "stop" Holder "the holder stands still until another has the lock",
    HolderKill "kill" Holder "the holder is killed",
    WaiterKill "kill-waiter" Waiter "a client that waits for the lock is killed",
    ScriptFlush "flush-scripts" Server "the server forgets its scripts",
    Restart "restart" Server "the server dies and comes back with its keys",
    PowerLoss { Fault::PowerLoss.name() } Server "the server loses power, and with it the lock that was not on its disk yet",
    Failover { Fault::Failover.name() } Server "the server dies, and a replica takes over that the lock had not reached yet",
    Evict { Fault::Evict.name() } Server "the lock's key is evicted, or somebody deletes it",
    ServerClock "server-clock" Server "the server's clock jumps an hour ahead",
}

impl AttackFault {
    /// Every name, once: a fault at a command and the same fault in the hold share a name.
    pub fn names() -> Vec<&'static str> {
        let names: BTreeSet<&str> = Self::ALL.iter().map(|it| it.name()).collect();
        names.into_iter().collect()
    }

    /// The error that a server answers with, if that is the fault.
    pub const fn error(self) -> Option<ErrorAnswer> {
        match self {
            Self::Loading => Some(ErrorAnswer::Loading),
            Self::Readonly => Some(ErrorAnswer::Readonly),
            Self::Oom => Some(ErrorAnswer::Oom),
            Self::Busy => Some(ErrorAnswer::Busy),
            Self::NoScript => Some(ErrorAnswer::Noscript),
            _ => None,
        }
    }

    /// Whether this fault makes sense at this command.
    fn suits(self, Boundary { step, command, draws, .. }: &Boundary) -> bool {
        let command = command.as_str();
        match self {
            Self::Loading => may_find_loading(command),
            Self::Busy => may_find_busy(command),
            Self::Oom | Self::Readonly if command == "SCRIPT" => false,
            // A server without memory refuses a script when it writes something new.
            Self::Oom => {
                matches!(step, LockStep::Acquire | LockStep::Run) && may_take_memory(command)
            }
            Self::Readonly => may_write(command),
            Self::NoScript => command == "EVALSHA",
            // If any other request arrives so late, its client rightly has the lock.
            Self::LateAgain => *step == LockStep::Release,
            Self::OldToken => *draws,
            _ => true,
        }
    }

    /// Whether a server forgets a lock that it has granted.
    pub const fn forgets(self) -> bool {
        matches!(self, Self::PowerLoss | Self::Failover | Self::Evict | Self::ServerClock)
    }

    /// Whether the victim acquires the lock again after the fault: with its changed clock, or to meet the late request.
    pub(crate) const fn comes_again(self) -> bool {
        self.steps_clock() || matches!(self, Self::LateAgain)
    }

    /// Whether the wall clock of the victim's process jumps.
    pub(crate) const fn steps_clock(self) -> bool {
        matches!(self, Self::ClockForward | Self::ClockBack)
    }

    /// Whether the victim's process is stopped for as long as the fault lasts.
    pub(crate) const fn stands_still(self) -> bool {
        matches!(self, Self::Stop | Self::HolderStop | Self::OldToken)
    }

    /// Whether no lock with a TTL can survive it without fencing tokens, or without a server that remembers.
    pub(crate) const fn is_assumed_away(self) -> bool {
        matches!(self, Self::Stop | Self::HolderStop) || self.forgets()
    }
}

/// One fault at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttackPlan {
    /// The command at which it strikes; none: in the middle of the hold.
    pub boundary: Option<Boundary>,
    /// Which fault.
    pub fault: AttackFault,
    /// How many servers it strikes, from the first: one, or the smallest majority of several.
    pub servers: u16,
}

impl AttackPlan {
    /// Where it strikes, as in its name.
    pub fn place(&self) -> String {
        let place = self.boundary.as_ref().map_or(String::from("hold"), Boundary::to_string);
        if self.servers > 1 { place + ".most" } else { place }
    }

    /// Whether so many servers forget the lock that nobody has it any more. A client has it while it has it on `quorum`.
    pub(crate) fn forgets(&self, quorum: usize) -> bool {
        self.fault.forgets() && usize::from(self.servers) >= quorum
    }

    /// Whether `only` is its name, or the beginning or the end of its name.
    pub(crate) fn is_meant_by(&self, only: &str) -> bool {
        let name = self.to_string();
        let (begins, ends) = (format!("{only}."), format!(".{only}"));
        name == only || name.starts_with(&begins) || name.ends_with(&ends)
    }
}

impl fmt::Display for AttackPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.place(), self.fault.name())
    }
}

/// The plan for locks whose clients wait for them.
pub(crate) const KILL_WAITER: AttackPlan =
    AttackPlan { boundary: None, fault: AttackFault::WaiterKill, servers: 1 };

/// Every plan for a lock on `nodes` servers that sends these commands to each, in the order of the commands, but
/// [`KILL_WAITER`].
pub(crate) fn plans(boundaries: &[Boundary], nodes: u16) -> Vec<AttackPlan> {
    let mut plans = Vec::new();
    for boundary in boundaries.iter().map(Some).chain([None]) {
        let strikes = |fault: &&AttackFault| match (fault.target(), boundary) {
            (Target::Message | Target::Process, Some(boundary)) => fault.suits(boundary),
            (Target::Holder | Target::Server, None) => true,
            _ => false,
        };
        let most = nodes / 2 + 1;
        for servers in if nodes > 1 { vec![1, most] } else { vec![1] } {
            // A client has one process, however many servers it talks to.
            let is_meant = |fault: &&AttackFault| {
                servers == 1 || matches!(fault.target(), Target::Message | Target::Server)
            };
            let faults = AttackFault::ALL.iter().filter(strikes).filter(is_meant);
            let plan = |fault: &AttackFault| AttackPlan {
                boundary: boundary.cloned(),
                fault: *fault,
                servers,
            };
            plans.extend(faults.map(plan));
        }
    }
    plans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundary(step: LockStep, command: &str, nth: u64) -> Boundary {
        Boundary { step, command: command.to_owned(), nth, draws: false }
    }

    #[test]
    fn every_boundary_meets_every_fault_that_it_can_meet() {
        let boundaries =
            [boundary(LockStep::Acquire, "SET", 1), boundary(LockStep::Release, "EVALSHA", 2)];
        let all = plans(&boundaries, 1);
        let names: BTreeSet<String> = all.iter().map(AttackPlan::to_string).collect();
        assert_eq!(names.len(), all.len(), "a name means one plan");
        for name in ["acquire.set.oom", "release.evalsha2.noscript", "hold.stop", "hold.restart"] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        assert!(!names.contains("acquire.set.noscript"));
        let run =
            plans(&[boundary(LockStep::Run, "GET", 1), boundary(LockStep::Run, "INCR", 2)], 1);
        let names: BTreeSet<String> = run.iter().map(AttackPlan::to_string).collect();
        for (name, is_one) in [
            ("run.get.loading", true),
            ("run.get.readonly", false),
            ("run.get.oom", false),
            ("run.incr2.readonly", true),
            ("run.incr2.oom", true),
        ] {
            assert_eq!(names.contains(name), is_one, "{name}: {names:?}");
        }
        let drawn = Boundary { draws: true, ..boundary(LockStep::Acquire, "INCR", 1) };
        let of_token = |it: &&AttackPlan| it.fault == AttackFault::OldToken;
        let drawn = plans(&[drawn], 1).iter().filter(of_token).count();
        assert_eq!((drawn, all.iter().filter(of_token).count()), (1, 0));
        // Fourteen faults at SET; at EVALSHA two more, but no lack of memory; eight in the hold.
        assert_eq!(all.len(), 14 + 15 + 8);
        let again = all.iter().filter(|it| it.fault == AttackFault::LateAgain);
        let again: Vec<String> = again.map(AttackPlan::to_string).collect();
        assert_eq!(again, ["release.evalsha2.late-again"]);
    }

    #[test]
    fn of_several_servers_one_is_struck_or_most() {
        let all = plans(&[boundary(LockStep::Acquire, "SET", 1)], 5);
        let most: Vec<&AttackPlan> = all.iter().filter(|it| it.servers == 3).collect();
        let forgets = |it: &&AttackPlan| it.forgets(3);
        let forgets: Vec<String> = all.iter().filter(forgets).map(AttackPlan::to_string).collect();
        assert_eq!(forgets.len(), 4, "{forgets:?}");
        assert!(forgets.iter().all(|it| it.starts_with("hold.most.")), "{forgets:?}");
        // The four of a process at SET, and the two of a holder, are not multiplied.
        assert_eq!((all.len(), most.len()), (14 + 8 + 10 + 6, 10 + 6));
        assert_eq!(most[0].to_string(), "acquire.set.most.lose-request");
    }
}
