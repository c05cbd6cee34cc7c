//! Faults: what can go wrong, as data that every world reads alike.
//!
//! Invariant: a fault left out of a scenario never strikes. What a scenario may say of a kind stands in one
//! row; how a world makes it happen is the world's.

mod error_answer;
mod staged;
mod swarm;
mod whom;

use serde::{Deserialize, Serialize};

use durations::span::rounded;

pub use error_answer::ErrorAnswer;
pub use staged::{By, Staged, Trigger, Until, Ways, When};
pub use swarm::{Chance, Strike, Swarm};
pub use whom::Whom;

/// Whom a kind of fault can strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strikes {
    /// A client.
    Client,
    /// A message between a client and a server: staged on the client.
    Message,
    /// A server, which goes on with its keys.
    Server,
    /// A server, which goes on without the lock's key.
    ServerKeys,
    /// A server, which may have lost keys by it that it had granted.
    ServerEnds,
    /// Whosever clock it is.
    Either,
}

impl Strikes {
    /// Whether it is certainly a server.
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Server | Self::ServerKeys | Self::ServerEnds)
    }
}

/// Whether a fault of a scenario says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It has to.
    Needs,
    /// It may.
    May,
    /// It must not.
    No,
}

/// What a fault of a scenario says beside whom it strikes and when. One that needs both `for` and `until` needs one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultKeys {
    /// Its key `for`.
    pub lasts: Use,
    /// Its key `until`.
    pub until: Use,
    /// Its key `by`.
    pub by: Use,
    /// Its key `ppm`.
    pub ppm: Use,
    /// Its key `ways`.
    pub ways: Use,
    /// Its key `to`.
    pub to: Use,
    /// Its key `loses_hold`.
    pub loses_hold: Use,
    /// Its key `error`.
    pub error: Use,
    /// Its key `comes_back`.
    pub comes_back: Use,
}

impl FaultKeys {
    const NONE: Self = Self {
        lasts: Use::No,
        until: Use::No,
        by: Use::No,
        ppm: Use::No,
        ways: Use::No,
        to: Use::No,
        loses_hold: Use::No,
        error: Use::No,
        comes_back: Use::No,
    };
}

/// A row is a kind: its name, whom it strikes, and which of [`FaultKeys`] it takes.
macro_rules! faults {
    ($($(#[$doc:meta])+ $kind:ident $name:literal $strikes:ident { $($key:ident: $use:ident),* },)+) => {
        /// What went wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Fault {
            $($(#[$doc])+ #[serde(rename = $name)] $kind,)+
        }

        impl Fault {
            /// Every fault.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// Whom it can strike.
            pub const fn strikes(self) -> Strikes {
                match self { $(Self::$kind => Strikes::$strikes,)+ }
            }

            /// What a scenario says of it.
            pub const fn takes(self) -> FaultKeys {
                match self { $(Self::$kind => FaultKeys { $($key: Use::$use,)* ..FaultKeys::NONE },)+ }
            }
        }
    };
}

faults! {
    /// A client stood still.
    Pause "pause" Client { lasts: Needs, until: Needs },
    /// A client died.
    Crash "crash" Client { comes_back: May },
    /// A message took longer than its latency says.
    Delay "delay" Message { lasts: Needs, until: Needs, ways: May },
    /// A request was lost on its way.
    LoseRequest "lose-request" Message {},
    /// A reply was lost on its way.
    LoseReply "lose-reply" Message {},
    /// A connection broke.
    Reset "reset" Message { ways: May },
    /// A server answered a request with an error, and did nothing.
    Refuse "refuse" Message { lasts: May, error: Needs },
    /// A client was cut off from a server, one way or both.
    Partition "partition" Client { lasts: Needs, until: Needs, ways: May },
    /// Clocks run apart.
    Drift "drift" Either { ppm: Needs },
    /// A wall clock jumped, a server's or a client's.
    ClockStep "clock-step" Either { by: Needs, loses_hold: May },
    /// The server forgot its scripts.
    ScriptFlush "script-flush" Server {},
    /// The lock's key was evicted, or somebody deleted it.
    Evict "evict" ServerKeys {},
    /// Somebody deleted every key that the server had. It still knows its scripts.
    Flush "flush" ServerKeys {},
    /// Somebody kept another thing under the lock's key: a string that does not expire. Where the lock was held, nothing
    /// was done.
    ForeignKey "foreign-key" Server { lasts: Needs },
    /// The same, with a list.
    ForeignList "foreign-list" Server { lasts: Needs },
    /// A server stood still: it answered nobody, and then did all that it had been sent.
    Stall "server-stall" Server { lasts: Needs },
    /// A server was full: it refused commands that may take memory, and carried out the others.
    Full "server-full" Server { lasts: Needs },
    /// A replica that had caught up took the primary's place, which follows it from then on: it keeps its connections,
    /// and refuses writes.
    Switchover "switchover" Server { to: May },
    /// The primary died, and a replica took its place with what it had.
    Failover "failover" ServerEnds { lasts: Needs, to: May, loses_hold: May },
    /// A replica took the primary's place, and the primary went on for some as if nothing had happened.
    SplitBrain "split-brain" ServerEnds { lasts: Needs, to: May, loses_hold: May },
    /// A server was without power: of its file, what had not been synced is gone.
    PowerLoss "power-loss" ServerEnds { lasts: Needs },
    /// A server's process died and was started again.
    ServerCrash "server-crash" ServerEnds { lasts: Needs },
}

impl Fault {
    /// Whether a server may have lost keys by it that it had granted.
    pub fn loses_keys(self) -> bool {
        matches!(self.strikes(), Strikes::ServerKeys | Strikes::ServerEnds)
    }

    /// Whether it takes servers that can be ended or follow each other.
    pub fn ends_server(self) -> bool {
        self.strikes() == Strikes::ServerEnds
    }

    /// Whether it happens to a message on its way.
    pub fn is_of_message(self) -> bool {
        self.strikes() == Strikes::Message
    }

    /// The fault of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// What it does to this client, or of client 0 the run to a server, as a line of a story; none where it
    /// belongs into no story.
    pub fn story(self, client: u32, for_ns: u64) -> Option<String> {
        let lasts = |word: &str| match for_ns {
            0 => String::new(),
            _ => format!(" {word} {}", rounded(for_ns)),
        };
        Some(match self {
            Self::Pause => format!("stands still{}", lasts("for")),
            Self::Crash if for_ns > 0 => format!("dies, and comes back{}", lasts("after")),
            Self::Crash => "dies".to_owned(),
            // A late message that is nobody's in particular, and clocks that drift, are in every story.
            Self::Delay if client == 0 => return None,
            Self::Drift => return None,
            Self::Delay => format!("waits: one of its messages is late{}", lasts("by")),
            Self::LoseRequest => "sends a request that is lost".to_owned(),
            Self::LoseReply => "is sent a reply that is lost".to_owned(),
            Self::Reset => "has its connection broken".to_owned(),
            Self::Refuse => "is answered with an error".to_owned(),
            Self::Partition => format!("is cut off{}", lasts("for")),
            Self::ClockStep if client == 0 => {
                format!("lets the server's clock jump{}", lasts("by"))
            }
            Self::ClockStep => format!("has its clock jump{}", lasts("by")),
            Self::ScriptFlush => "makes the server forget its scripts".to_owned(),
            Self::Evict => "evicts the lock's key".to_owned(),
            Self::Flush => "deletes all keys of the server".to_owned(),
            Self::ForeignKey => {
                format!("keeps something else under the lock's key{}", lasts("for"))
            }
            Self::ForeignList => format!("keeps a list under the lock's key{}", lasts("for")),
            Self::Stall => format!("has the server stand still{}", lasts("for")),
            Self::Full => format!("lets the server have no memory left{}", lasts("for")),
            Self::Switchover => "makes a replica the primary, and the primary a replica".to_owned(),
            Self::SplitBrain => {
                format!("has a replica take the place of the server, which goes on{}", lasts("for"))
            }
            Self::Failover => "kills the primary, and a replica takes over".to_owned(),
            Self::PowerLoss => format!("cuts the server's power{}", lasts("for")),
            Self::ServerCrash => format!("kills the server{}", lasts("for")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own() {
        for fault in Fault::ALL {
            assert_eq!(Fault::from_name(fault.name()), Some(fault));
        }
    }
}
