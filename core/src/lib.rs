//! A Redis lock that passes its own test.
//!
#![cfg_attr(feature = "tokio", doc = "```no_run")]
#![cfg_attr(not(feature = "tokio"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use picklock::{Node, Options, Poll, Released, Single, TokioEnv};
//!
//! # async fn charge_the_customer() {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let env = TokioEnv::open("redis://127.0.0.1:6379/")?;
//! // The key lives for ten seconds at a time; a watchdog renews it while we work.
//! let options = Options::builder(Duration::from_secs(10)).watchdog().build()?;
//! let lock = Single::new(env, Node(0), *b"invoice:42", options)?;
//!
//! // Waits for its turn, a minute at most.
//! let guard = lock.acquire(Duration::from_secs(60), Poll::default()).await?;
//! // Stops the work, should the lock be lost.
//! let ((), guard) = guard.run(charge_the_customer()).await?;
//! match guard.release().await {
//!     Released::Released => {}
//!     other => eprintln!("the lock did not last to the end of the work: {other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Which lock
//!
//! - [`Single`]: one key on one server, and who waits polls. With [`notify`] it sleeps until it is told;
//!   with [`fenced`] every hold has a number that a resource can check ([`FenceGate`]); with
//!   [`wait_for`] it is relied on only when replicas know of it.
//! - [`Queue`]: one key on one server, handed over to the next in line: two commands an acquisition,
//!   however many wait.
//! - [`Redlock`]: one key on several independent servers, held by a quorum.
//!
//! [`notify`]: options::OptionsBuilder::notify
//! [`fenced`]: options::OptionsBuilder::fenced
//! [`wait_for`]: options::OptionsBuilder::wait_for
//!
//! # What it guarantees
//!
//! - **One holder at a time**, under the assumptions below. A guard knows until when it may be relied
//!   on ([`Guard::valid_until`]), counted from the moment the request was *sent*, and says *lost* at
//!   that moment even if Redis says nothing.
//! - **Who locks, unlocks.** Every acquisition has a random token of its own, and no command touches
//!   a key with another's token. A lost key is never brought back.
//! - **Three answers: yes, no, unknown.** A lost reply or a dropped future leaves no orphan key:
//!   an acquisition of unknown outcome is cleaned up in the background.
//! - **A release is not recalled** by dropping its future, and dropping a guard releases the lock. If
//!   the process dies, the key goes by its TTL.
//!
//! # What it assumes
//!
//! - **Pauses.** Nothing inside a process can notice that the process stands still. A holder that is
//!   paused (garbage collection, a stopped or suspended machine) for longer than its validity lasts
//!   may write once after its lock has passed on. No lock with a TTL is safe against that by itself:
//!   where such a write does harm, the resource must refuse it, by a fencing token.
//! - **Drift.** Over one TTL the client's clock and the server's run apart by less than the
//!   [`Drift`] allowance, and the server's clock does not jump. The client's wall clock is not used.
//! - **One server that does not forget.** A failover to a replica, or a restart after a power loss,
//!   may lose a lock that was granted; then two may hold it.
//!
//! # How it is built
//!
//! Lock code sees the world through [`Env`] only: clocks, timers, randomness, tasks, connections.
//! `TokioEnv` (feature `tokio`, on by default) is the environment of a
//! service; a simulator brings another and attacks the same code. The crate logs through `tracing`,
//! with the key and the outcome and never the token.

mod attempt;
mod cleanup;
pub mod command;
mod companion;
pub mod counters;
mod ears;
pub mod env;
pub mod fence;
pub mod guard;
mod hold;
mod lease;
mod line;
mod link;
pub mod lock;
#[cfg(feature = "tokio")]
pub mod locks;
mod native;
mod observe;
pub mod options;
pub mod queue;
pub mod queue_scripts;
mod quorum;
pub mod redlock;
pub mod reply;
pub mod script;
pub mod scripts;
pub mod single;
mod sync;
mod target;
pub mod time;
mod timeout;
pub mod token;
#[cfg(feature = "tokio")]
pub mod tokio_env;
pub mod validity;
pub mod wait;
mod watchdog;
mod watched;
pub mod with;

#[cfg(all(test, not(picklock_loom)))]
mod testing;

#[cfg(all(test, picklock_loom))]
mod loom_tests;

pub use counters::{Count, Counters};
pub use env::{Env, Node};
pub use fence::{Fence, FenceGate};
pub use guard::Guard;
pub use lock::{Lost, NotAcquired, NotExtended, Outcome, Released};
#[cfg(feature = "tokio")]
pub use locks::Locks;
pub use options::{Options, OptionsError, Renewal, Replicas};
pub use queue::Queue;
pub use redlock::Redlock;
pub use single::Single;
pub use token::OwnerToken;
#[cfg(feature = "tokio")]
pub use tokio_env::{Cluster, TokioEnv};
pub use validity::Drift;
pub use wait::Poll;
pub use with::{Holding, Unprotected};
