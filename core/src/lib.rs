//! A Redis lock that passes its own test.

mod cleanup;
pub mod command;
pub mod env;
pub mod guard;
mod hold;
mod lease;
mod link;
pub mod lock;
pub mod options;
pub mod reply;
pub mod script;
pub mod scripts;
pub mod single;
mod sync;
mod target;
pub mod time;
mod timeout;
pub mod token;
pub mod validity;
pub mod wait;
mod watchdog;
mod watched;

#[cfg(all(test, not(picklock_loom)))]
mod testing;

#[cfg(all(test, picklock_loom))]
mod loom_tests;

pub use env::{Env, Node};
pub use guard::Guard;
pub use lock::{Lost, NotAcquired, NotExtended, Outcome, Released};
pub use options::{Options, OptionsError, Renewal};
pub use single::Single;
pub use token::OwnerToken;
pub use validity::Drift;
pub use wait::Poll;
