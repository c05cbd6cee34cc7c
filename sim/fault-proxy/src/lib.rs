//! The fault proxy: real sockets between clients and servers, and faults at exact RESP frames.
//!
//! Unlike a byte proxy it can run a command and lose its reply, hold the release of a lock until its key has expired, or
//! reset a connection right after an acquire. [`Rule`] says what happens to which frame, [`Link`] what happens to the
//! wire, [`Record`] what has happened.

mod addresses;
mod connection;
pub mod descriptors;
mod effect;
mod fault;
mod gate;
mod host;
mod ids;
mod lane;
mod latency;
mod link;
pub mod listen;
mod log;
mod rewrite;
mod rule;
mod session;
pub mod switchboard;
mod timer;
mod upstream;

pub use addresses::Addresses;
pub use effect::{Effect, EffectId, Toxicity};
pub use fault::{FaultError, ParsedFault, ProxyFault};
pub use gate::Gate;
pub use host::{Proxy, ProxyError};
pub use ids::{ClientId, Cut, Side};
pub use latency::Latency;
pub use link::{AfterLostReply, Link, Plan, Protocol};
pub use log::{Detail, FaultId, LinkCounters, LogFile, ProxyEvent, ProxyLog, Record};
pub use rule::{Action, Occurrence, Rule, RuleHandle, RuleId, Rules, StrikeObserver};
pub use upstream::{Stream, TlsError, Trust, Upstream};
