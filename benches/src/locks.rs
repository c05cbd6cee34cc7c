//! The locks that are measured, each as its library offers it.
//!
//! Invariant: every client has connections of its own, made before anything is measured, and every
//! library keeps its own defaults.

use std::time::Duration;

use picklock::guard::Guard;
use picklock::options::OptionsBuilder;
use picklock::{Node, NotAcquired, Options, OptionsError, Poll, Queue, Released, Single, TokioEnv};

use crate::contend::Contender;

/// How long a hold may last, where that is not what is measured.
const TTL: Duration = Duration::from_secs(30);
/// Longer than any measurement.
const DEADLINE: Duration = Duration::from_secs(600);

/// The library's lock, and how it is waited for.
#[derive(Clone)]
pub enum Ours {
    /// By tries, or for messages.
    Single(Single<TokioEnv>),
    /// By asking again and again with the same pause, as articles do.
    Asked(Single<TokioEnv>, Duration),
    /// In line.
    Queue(Queue<TokioEnv>),
}

impl Contender for Ours {
    type Held = Guard<TokioEnv>;

    #[expect(clippy::disallowed_methods, reason = "a client waits in its own time")]
    async fn acquire(&self) -> Result<Self::Held, String> {
        let acquired = match self {
            Self::Single(lock) => lock.acquire(DEADLINE, Poll::default()).await,
            Self::Queue(lock) => lock.acquire(DEADLINE).await,
            Self::Asked(lock, every) => loop {
                match lock.try_acquire().await {
                    Err(NotAcquired::Held) => tokio::time::sleep(*every).await,
                    ended => break ended,
                }
            },
        };
        acquired.map_err(|error| error.to_string())
    }

    async fn release(&self, held: Self::Held) -> Result<(), String> {
        match held.release().await {
            Released::Released => Ok(()),
            other => Err(format!("not released: {other:?}")),
        }
    }
}

/// What makes a lock of this key: [`polling`], [`notified`] or [`in_line`].
pub type Kind = fn(TokioEnv, &str, OptionsBuilder) -> Result<Ours, OptionsError>;

/// A lock that waits by trying again.
///
/// # Errors
/// Where such options cannot work.
pub fn polling(env: TokioEnv, key: &str, held: OptionsBuilder) -> Result<Ours, OptionsError> {
    Ok(Ours::Single(Single::new(env, Node(0), key.as_bytes(), held.build()?)?))
}

/// A lock that is asked for so often.
///
/// # Errors
/// As [`polling`].
pub fn asking(env: TokioEnv, key: &str, every: Duration) -> Result<Ours, OptionsError> {
    let lock = Single::new(env, Node(0), key.as_bytes(), for_long().build()?)?;
    Ok(Ours::Asked(lock, every))
}

/// A lock that waits for the message of a release.
///
/// # Errors
/// As [`polling`].
pub fn notified(env: TokioEnv, key: &str, held: OptionsBuilder) -> Result<Ours, OptionsError> {
    polling(env, key, held.notify())
}

/// A lock that is handed over.
///
/// # Errors
/// As [`polling`].
pub fn in_line(env: TokioEnv, key: &str, held: OptionsBuilder) -> Result<Ours, OptionsError> {
    Ok(Ours::Queue(Queue::new(env, Node(0), key.as_bytes(), held.build()?)?))
}

/// A lock with connections of its own to the server at this URL.
///
/// # Errors
/// What is wrong with the URL or the options.
pub fn open(kind: Kind, url: &str, key: &str, held: OptionsBuilder) -> Result<Ours, String> {
    let env = TokioEnv::open(url).map_err(|error| error.to_string())?;
    kind(env, key, held).map_err(|error| error.to_string())
}

/// How a hold lasts whose TTL nobody needs.
pub fn for_long() -> OptionsBuilder {
    Options::builder(TTL)
}

#[cfg(feature = "peers")]
pub mod peers {
    //! Other libraries.

    use super::*;

    /// `rslock`: asynchronous, tries again.
    pub struct RsLock {
        manager: rslock::LockManager,
        key: String,
    }

    impl RsLock {
        /// A client of the server at this URL.
        pub fn new(url: &str, key: &str) -> Self {
            Self { manager: rslock::LockManager::new(vec![url]), key: key.to_owned() }
        }
    }

    impl Contender for RsLock {
        type Held = rslock::LockGuard;

        async fn acquire(&self) -> Result<Self::Held, String> {
            let acquired = self.manager.acquire(self.key.as_bytes(), TTL).await;
            acquired.map_err(|error| error.to_string())
        }

        async fn release(&self, held: Self::Held) -> Result<(), String> {
            held.release().await;
            Ok(())
        }
    }

    /// `redlock`: blocking, with a connection a command; each client on a thread.
    pub struct RedLock {
        manager: redlock::RedLock,
        key: String,
    }

    impl RedLock {
        /// A client of the server at this URL.
        pub fn new(url: &str, key: &str) -> Self {
            Self { manager: redlock::RedLock::new(vec![url]), key: key.to_owned() }
        }
    }

    impl Contender for RedLock {
        /// The token.
        type Held = Vec<u8>;

        async fn acquire(&self) -> Result<Vec<u8>, String> {
            let (manager, key) = (self.manager.clone(), self.key.clone());
            let ttl_ms = usize::try_from(TTL.as_millis()).unwrap_or(usize::MAX);
            let try_on = move || loop {
                match manager.lock(key.as_bytes(), ttl_ms) {
                    Ok(Some(lock)) => return Ok(lock.val),
                    Ok(None) => {}
                    Err(error) => return Err(error.to_string()),
                }
            };
            tokio::task::spawn_blocking(try_on).await.map_err(|error| error.to_string())?
        }

        async fn release(&self, val: Vec<u8>) -> Result<(), String> {
            let (manager, resource) = (self.manager.clone(), self.key.clone().into_bytes());
            let unlock = move || {
                let lock =
                    redlock::Lock { resource, val, validity_time: 0, lock_manager: &manager };
                manager.unlock(&lock);
            };
            tokio::task::spawn_blocking(unlock).await.map_err(|error| error.to_string())
        }
    }
}
