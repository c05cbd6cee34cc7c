//! The fault proxy: real sockets between clients and servers, and faults at exact RESP frames.
//!
//! What a byte proxy cannot do: run a command and lose its reply, hold the release of a lock until
//! its key has expired, reset a connection just behind an acquire. [`Rule`] says what happens to
//! which frame, [`Link`] what happens to the wire, [`Record`] what has happened.

mod addresses;
mod connection;
pub mod descriptors;
mod effect;
mod fault;
mod gate;
mod host;
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
pub use fault::{Fault, FaultError, Written};
pub use gate::Gate;
pub use host::{Proxy, ProxyError};
pub use latency::Latency;
pub use link::{AfterLostReply, Cut, Link, Plan, Protocol};
pub use log::{Counters, Detail, Event, FaultId, Log, Record};
pub use rule::{Action, ClientId, Occurrence, Rule, RuleHandle, RuleId, Rules, Side, Told};
pub use upstream::{Stream, TlsError, Trust, Upstream};
