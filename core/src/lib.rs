//! A Redis lock that passes its own test.
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use picklock::{Locks, Options};
//!
//! # async fn charge(customer: u32) -> u32 { customer }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = test_server::RedisServer::start(&[]);
//! # let url = server.url();
//! // The key lives for ten seconds at a time; a watchdog renews it while we work.
//! let options = Options::builder(Duration::from_secs(10)).watchdog().build()?;
//! let locks = Locks::open(url, options)?; // such as redis://127.0.0.1:6379/
//!
//! // Waits for the lock, a minute at most; stops the work if the lock is lost; releases.
//! let minute = Duration::from_secs(60);
//! let charged = locks.with("invoice:42", minute, |_| charge(42)).await?;
//! # assert_eq!(charged, 42);
//!
//! // What the locks have done, for an exporter.
//! for (name, count) in locks.counters().iter().filter(|(_, count)| *count > 0) {
//!     println!("locks_{name} {count}");
//! }
//! # let counted = |what| locks.counters().get(what);
//! # assert_eq!((counted(picklock::Count::Acquired), counted(picklock::Count::Released)), (1, 1));
//! # Ok(())
//! # }
//! ```
//!
//! The same by hand, with a guard:
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```ignore")]
//! # use std::time::Duration;
//! # use picklock::{Locks, Options};
//! use picklock::{Poll, Released};
//!
//! # async fn charge(customer: u32) -> u32 { customer }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = test_server::RedisServer::start(&[]);
//! # let options = Options::builder(Duration::from_secs(10)).fenced().build()?;
//! # let locks = Locks::open(server.url(), options)?;
//! let lock = locks.single("invoice:42")?; // or locks.queue(…): first come, first served
//! let guard = lock.acquire(Duration::from_secs(60), Poll::default()).await?;
//! let (charged, guard) = guard.run(charge(42)).await?;
//! match guard.release().await {
//!     Released::Released => {}
//!     other => eprintln!("the lock did not last to the end of the work: {other:?}"),
//! }
//! # assert_eq!(charged, 42);
//! # Ok(())
//! # }
//! ```
//!
//! # Where it is kept
//!
//! On one server ([`Locks::open`], or [`Locks::new`] with a client of redis-rs); on the primary that Sentinel
//! names; on a cluster:
//!
#![cfg_attr(feature = "tokio", doc = "```no_run")]
#![cfg_attr(not(feature = "tokio"), doc = "```ignore")]
//! # use std::time::Duration;
//! use picklock::{Cluster, Locks, Options, TokioEnv};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # let options = Options::builder(Duration::from_secs(10)).build()?;
//! let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
//! let primary = TokioEnv::sentinel(sentinels, "my-primary", "redis://user:password@any/0")?;
//! let locks = Locks::new(primary, options.clone());
//!
//! let cluster = Cluster::open(["redis://10.0.0.1:7000", "redis://10.0.0.2:7000"])?;
//! let locks = Locks::new(cluster, options);
//! # Ok(())
//! # }
//! ```
//!
//! A cluster's slot may move, and a primary may be replaced, while a lock is held or waited for: the lock's
//! commands go to the new server. A lock that a failover loses is lost all the same. A former primary that is not demoted
//! yet is used for about a second more, in which two clients may hold a lock.
//!
//! # Which lock
//!
//! - [`Single`]: one key on one server; waiting clients poll. With [`notify`] they sleep until a release is
//!   published; with [`fenced`] every hold has a number that a resource can check ([`FenceGate`]); with
//!   [`wait_for`] a hold is relied on only after replicas have acknowledged it.
//! - [`Queue`]: one key on one server, handed over to the client that has waited longest: two commands per
//!   acquisition, however many clients wait; three if the server may be replaced.
//! - [`Redlock`]: one key on several independent servers, held by the client that has a quorum of them.
//!
//! [`notify`]: options::OptionsBuilder::notify
//! [`fenced`]: options::OptionsBuilder::fenced
//! [`wait_for`]: options::OptionsBuilder::wait_for
#![cfg_attr(not(feature = "tokio"), doc = "[`Locks::open`]: lock\n[`Locks::new`]: lock")]
//!
//! # What it guarantees
//!
//! - **One holder at a time**, under the assumptions below. A guard may be relied on until
//!   [`Guard::valid_until`], counted from when the request was *sent*, and is lost at that instant even if
//!   Redis does not answer.
//! - **Only the holder unlocks.** Every acquisition has a random token of its own, and no command touches a
//!   key with another's token. A lost key is never set again.
//! - **Three outcomes: yes, no, unknown.** A lost reply or a dropped future leaves no orphan key: an
//!   acquisition with an unknown outcome is cleaned up in the background.
//! - **A release is not cancelled** by dropping its future. Dropping a guard releases the lock in a background
//!   task: if the runtime ends before the task has run, or the process dies, the key expires with its TTL. So
//!   before a program ends, await `release`, or `drain` after dropping guards.
//!
//! # What it assumes
//!
//! - **Pauses.** A process cannot notice its own pause. A holder that is paused (garbage collection, a stopped
//!   or suspended machine) for longer than its validity may write once after another has taken the lock. No
//!   lock with a TTL prevents that by itself: where such a write does harm, the resource must refuse it by a
//!   fencing token.
//! - **Drift.** Over one TTL the client's clock and the server's differ by less than the [`Drift`] allowance, and
//!   the server's clock does not jump. The client's wall clock is not used.
//! - **A server that loses no writes.** A failover to a replica, or a restart after a power loss, may lose a
//!   lock that was granted; then two clients may hold it. So may a server that evicts keys: its
//!   `maxmemory-policy` must be `noeviction`.
//!
//! # How it is built
//!
//! Lock code sees the world through [`Env`] only: clocks, timers, randomness, tasks, connections.
//! `TokioEnv` (feature `tokio`, on by default) is the environment of a
//! service; a simulator brings another and attacks the same code.
//!
//! # What it reports
//!
//! The text of an error says all that is known; no error has a `source`, which would say a part of it again.
//!
//! Every lock has [`Counters`]. Through `tracing` there are events, and spans of level debug with the
//! fields `key` (as text) and `outcome`, and never the token. A span whose future was dropped has no outcome.
//!
//! | span | around | outcome |
//! | --- | --- | --- |
//! | `lock.acquire` | `try_acquire` or `acquire`, waiting included | `acquired`, or a name of a [`Count`] |
//! | `lock.renew` | one renewal | `renewed`, `not_renewed`, `lost` |
//! | `lock.release` | the release, to its end | `released`, `expired`, `taken`, `release_unknown` |
//! | `lock.clean_up` | the clean-up after an unknown outcome | `cleaned_up`, `clean_up_given_up` |

#![warn(missing_debug_implementations)]

mod attempt;
mod background;
mod cleanup;
pub mod command;
pub mod counters;
pub mod env;
mod fan_out;
pub mod fence;
pub mod guard;
mod held_lock;
pub mod lock;
mod lock_conn;
#[cfg(feature = "tokio")]
pub mod locks;
mod native;
mod observe;
pub mod options;
#[cfg(all(doctest, feature = "tokio"))]
mod pages;
pub mod queue;
pub mod queue_scripts;
mod quorum;
pub mod redlock;
mod renewal;
pub mod reply;
pub mod script;
pub mod scripts;
mod shared_hold;
pub mod single;
mod slot_keys;
mod subscriber;
mod sync;
mod target;
pub mod time;
mod timeout;
pub mod token;
#[cfg(feature = "tokio")]
pub mod tokio_env;
pub mod validity;
pub mod wait;
mod wait_queue;
mod watch_cell;
mod watchdog;
pub mod with;

#[cfg(all(test, not(picklock_loom)))]
mod testing;

#[cfg(all(test, picklock_loom))]
mod loom_tests;

pub use command::{Args, Command};
pub use counters::{Count, Counters};
pub use env::{CallError, Conn, Env, Mark, Node, Phase, Subscription};
pub use fence::{Fence, FenceGate, Stale};
pub use guard::Guard;
pub use lock::{Lost, NotAcquired, NotExtended, Outcome, Released};
#[cfg(feature = "tokio")]
pub use locks::{Locks, NoLock, NotDone, Service};
pub use options::{Options, OptionsBuilder, OptionsError, Renewal, Replicas};
pub use queue::Queue;
pub use redlock::Redlock;
pub use reply::{Reply, ServerError};
pub use script::{Meaning, Script};
pub use single::Single;
pub use time::{Instant, WallTime};
pub use token::OwnerToken;
#[cfg(feature = "tokio")]
pub use tokio_env::{Cluster, TokioConn, TokioEnv, TokioOptions, TokioSubscription};
pub use validity::Drift;
pub use wait::Poll;
pub use with::{Holding, Unprotected};
