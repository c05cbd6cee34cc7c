//! The nemesis: which faults a schedule has, when they are due, and what the history says of them.
//!
//! Invariant: with every choice at 0 only staged faults strike. Each fault that strikes is recorded in the
//! history, with whether it met a hold. Deliberately absent: what a fault does; that needs the whole
//! simulation.

mod swarm;

use harness::cues::{Cues, Recovery};
use harness::injector::{ForeignValue, ServerFault};
use history::fault::{ErrorAnswer, Fault};
use history::{Journal, What};

use self::swarm::Rates;
pub(super) use self::swarm::{SwarmDraw, draw};
use super::choices::Choices;
use super::network::Direction;
use super::time::now_ns;

/// An action that is planned for a later moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PlannedFault {
    /// A fault that lasted is over.
    Over(Recovery<StalledDirection>),
    /// A process is cut off from the servers.
    Cut { process: u32, directions: [bool; 2], for_ns: u64 },
    /// A client's wall clock jumps.
    StepClock { client: u32, by_ns: i64 },
    /// Something is done to a server: this one, or the primary.
    StrikeServer { server: Option<u32>, with: ServerFault },
    /// A server that has ended starts again.
    StartServer(u32),
    /// A stalled server goes on.
    WakeServer(u32),
    /// A foreign value under the lock's key is deleted.
    ClearKey(KeptValue),
    /// A server that was full has room again.
    MakeRoom(u32),
    /// The old primary that has gone on beside the new one becomes its replica.
    StepDown,
    /// A replica takes the primary's place; the old primary starts again `for_ns` later.
    Promote { to: Option<u32>, for_ns: u64 },
    /// A staged fault that has waited for its time.
    Cue(u32),
    /// Done, or called off by the heal.
    #[default]
    Nothing,
}

/// Something that is kept under the lock's key, on a server and, if it is a primary's, on whichever takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptValue {
    pub(super) with: ForeignValue,
    pub(super) server: u32,
    pub(super) node: Option<u16>,
}

/// A direction of a connection whose messages wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StalledDirection {
    pub(super) conn: u32,
    pub(super) direction: Direction,
}

/// A client that crashes at the end of the current poll of its task. What it was about to send when it came to the
/// cue's place is still sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCrash {
    pub(super) client: u32,
    /// The cue.
    pub(super) striking: Option<u16>,
    /// When it comes back, if ever, in nanoseconds from its crash.
    pub(super) comes_back_ns: Option<u64>,
}

/// Faults: staged, planned, and those that strike by chance.
#[derive(Debug, Default)]
pub(super) struct VirtualNemesis {
    pub(super) rates: Rates,
    planned: Vec<PlannedFault>,
    pub(super) cues: Cues<StalledDirection>,
    /// Clients (0: any) and the cues whose faults strike their next request.
    pub(super) armed: Vec<(u32, u32)>,
    pub(super) pending_crash: Option<PendingCrash>,
    /// What was to be deleted while its server was down.
    pub(super) overdue: Vec<KeptValue>,
    /// Whether each process holds the lock, according to its marks.
    pub(super) holders: Vec<bool>,
    pub(super) journal: Option<Journal>,
}

impl VirtualNemesis {
    /// Without faults.
    pub(super) fn reset(&mut self, processes: usize) {
        self.rates = Rates::default();
        self.planned.clear();
        self.cues.reset();
        self.armed.clear();
        self.pending_crash = None;
        self.holders.clear();
        self.holders.resize(processes, false);
    }

    /// Keeps a planned fault; returns its number.
    pub(super) fn plan(&mut self, fault: PlannedFault) -> u32 {
        self.planned.push(fault);
        u32::try_from(self.planned.len() - 1).expect("fewer than 2^32 plans")
    }

    /// Takes a planned fault, which is due now.
    pub(super) fn take_planned(&mut self, planned: u32) -> PlannedFault {
        self.planned.get_mut(planned as usize).map_or(PlannedFault::Nothing, std::mem::take)
    }

    /// Nothing strikes any more; returns how many faults were planned, so that they can be put right.
    pub(super) fn close(&mut self) -> u32 {
        self.rates = Rates::default();
        u32::try_from(self.planned.len()).expect("fewer than 2^32 plans")
    }

    /// How long a client is paused as it sends or is answered, if it is.
    pub(super) fn pause_ns(&self, choices: &mut Choices) -> Option<u64> {
        let (per_64k, most_ns) = self.rates.pause;
        choices.strikes(per_64k).then(|| choices.span(most_ns))
    }

    /// The delay of a message beyond its latency, in nanoseconds.
    pub(super) fn delay_ns(&self, choices: &mut Choices) -> u64 {
        let (per_64k, most_ns) = self.rates.delay;
        if !choices.strikes(per_64k) {
            return 0;
        }
        let delay_ns = choices.span(most_ns);
        self.note(0, None, Fault::Delay, delay_ns);
        delay_ns
    }

    /// The fault that strikes a message when it arrives, if one does.
    pub(super) fn message_fault(
        &self,
        direction: Direction,
        choices: &mut Choices,
    ) -> Option<Fault> {
        let (per_64k, fault) = match direction {
            Direction::ToServer => (self.rates.lose_request, Fault::LoseRequest),
            Direction::ToClient => (self.rates.lose_reply, Fault::LoseReply),
        };
        if choices.strikes(per_64k) {
            return Some(fault);
        }
        choices.strikes(self.rates.reset).then_some(Fault::Reset)
    }

    /// The error with which a server answers instead of carrying out a request, if it does.
    pub(super) fn refusal(&self, choices: &mut Choices) -> Option<ErrorAnswer> {
        // The errors that any server may answer to any request.
        const ANSWERS: [ErrorAnswer; 5] = [
            ErrorAnswer::Loading,
            ErrorAnswer::Readonly,
            ErrorAnswer::Oom,
            ErrorAnswer::Busy,
            ErrorAnswer::Misconf,
        ];
        let refuses = choices.strikes(self.rates.refuse);
        refuses.then(|| ANSWERS[choices.pick(5) as usize])
    }

    /// Whether a fault of this client meets a hold; for client 0, whether anybody holds.
    pub(super) fn meets_hold(&self, client: u32) -> bool {
        match client {
            0 => self.holders.contains(&true) || self.cues.holder().is_some(),
            _ => self.holders[client as usize] || self.cues.holds(client),
        }
    }

    /// Records a fault that strikes now: a client, or the server that this node leads to.
    pub(super) fn note(&self, client: u32, node: Option<u16>, fault: Fault, for_ns: u64) {
        self.note_as(client, node, fault, for_ns, self.meets_hold(client));
    }

    /// The same, with whether it meets a hold.
    pub(super) fn note_as(
        &self,
        client: u32,
        node: Option<u16>,
        fault: Fault,
        for_ns: u64,
        in_hold: bool,
    ) {
        if let Some(journal) = &self.journal {
            let staged = self.cues.striking();
            let what = What::Fault { fault, node, for_ns, in_hold, staged };
            journal.write(now_ns, client, 0, 0, |_| what);
        }
    }
}
