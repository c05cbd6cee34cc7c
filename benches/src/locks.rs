//! The locks that are measured, each as its library offers it.
//!
//! Invariant: every client has connections of its own, made before anything is measured, and every
//! library keeps its own defaults. Deliberately absent: a common subset of what they promise.

use std::time::Duration;

use picklock::guard::Guard;
use picklock::options::OptionsBuilder;
use picklock::{Node, NotAcquired, Options, OptionsError, Poll, Queue, Released, Single, TokioEnv};

use crate::contend::Contender;

/// How long a hold may last, where that is not what is measured.
const TTL: Duration = Duration::from_secs(30);
/// Longer than any measurement.
const DEADLINE: Duration = Duration::from_secs(600);

/// The library's lock, waiting by tries or for messages.
pub struct Ours(pub Single<TokioEnv>);

impl Contender for Ours {
    type Held = Guard<TokioEnv>;

    async fn acquire(&self) -> Result<Self::Held, String> {
        self.0.acquire(DEADLINE, Poll::default()).await.map_err(|error| error.to_string())
    }

    async fn release(&self, held: Self::Held) -> Result<(), String> {
        released(held).await
    }
}

/// The library's lock, asked for again and again with the same pause, as articles do.
pub struct Polling {
    lock: Single<TokioEnv>,
    every: Duration,
}

impl Polling {
    /// A lock of this key that is asked for so often.
    ///
    /// # Errors
    /// As [`polling`].
    pub fn new(env: TokioEnv, key: &str, every: Duration) -> Result<Self, OptionsError> {
        let Ours(lock) = polling(env, key, for_long())?;
        Ok(Self { lock, every })
    }
}

impl Contender for Polling {
    type Held = Guard<TokioEnv>;

    #[expect(clippy::disallowed_methods, reason = "a client waits in its own time")]
    async fn acquire(&self) -> Result<Self::Held, String> {
        loop {
            match self.lock.try_acquire().await {
                Ok(guard) => return Ok(guard),
                Err(NotAcquired::Held) => tokio::time::sleep(self.every).await,
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    async fn release(&self, held: Self::Held) -> Result<(), String> {
        released(held).await
    }
}

/// The library's lock that is handed over.
pub struct InLine(pub Queue<TokioEnv>);

impl Contender for InLine {
    type Held = Guard<TokioEnv>;

    async fn acquire(&self) -> Result<Self::Held, String> {
        self.0.acquire(DEADLINE).await.map_err(|error| error.to_string())
    }

    async fn release(&self, held: Self::Held) -> Result<(), String> {
        released(held).await
    }
}

async fn released(held: Guard<TokioEnv>) -> Result<(), String> {
    match held.release().await {
        Released::Released => Ok(()),
        other => Err(format!("not released: {other:?}")),
    }
}

/// A lock that waits by trying again.
///
/// # Errors
/// Where such options cannot work.
pub fn polling(env: TokioEnv, key: &str, held: OptionsBuilder) -> Result<Ours, OptionsError> {
    Ok(Ours(Single::new(env, Node(0), key.as_bytes(), held.build()?)?))
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
pub fn in_line(env: TokioEnv, key: &str, held: OptionsBuilder) -> Result<InLine, OptionsError> {
    Ok(InLine(Queue::new(env, Node(0), key.as_bytes(), held.build()?)?))
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
