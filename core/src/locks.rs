//! Locks by name, over one service: a server, a primary that sentinels name, or a cluster.
//!
//! Invariant: all locks made here share connections, options and counters, and none shares a hold. Each is a
//! [`Single`] or a [`Queue`] like any other.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, IntoConnectionInfo, RedisError};

use crate::counters::Counters;
use crate::env::Node;
use crate::guard::Guard;
use crate::lock::{NotAcquired, Outcome};
use crate::options::{Options, OptionsError};
use crate::queue::Queue;
use crate::single::Single;
use crate::target::LockContext;
use crate::tokio_env::{Cluster, TokioEnv};
use crate::wait::Poll;
use crate::with::{Holding, Unprotected};

/// The service that keeps the locks: made from a [`redis::Client`], a [`TokioEnv`] (such as
/// [`TokioEnv::sentinel`] gives), or a [`Cluster`].
#[derive(Clone, Debug)]
pub struct Service(ServiceKind);

#[derive(Clone, Debug)]
enum ServiceKind {
    Server(TokioEnv),
    Cluster(Cluster),
}

impl From<TokioEnv> for Service {
    fn from(env: TokioEnv) -> Self {
        Self(ServiceKind::Server(env))
    }
}

impl From<Client> for Service {
    fn from(client: Client) -> Self {
        TokioEnv::from_client(client).into()
    }
}

impl From<Cluster> for Service {
    fn from(cluster: Cluster) -> Self {
        Self(ServiceKind::Cluster(cluster))
    }
}

/// Locks by name. Cloning gives another handle to the same connections and counters.
///
/// [`try_acquire`](Self::try_acquire), [`acquire`](Self::acquire) and [`with`](Self::with) make a handle to the lock
/// each time, and a handle that finds its key taken for the first time reads it with a GET. Where locks are often found
/// taken, keep a handle of [`single`](Self::single): it reads the key once.
#[derive(Clone)]
pub struct Locks {
    service: Service,
    options: Options,
    poll: Poll,
    context: LockContext,
}

impl Locks {
    /// Locks with these options on the server at a URL. Nothing is sent yet.
    ///
    /// # Errors
    /// What redis-rs finds wrong with the URL.
    pub fn open(url: impl IntoConnectionInfo, options: Options) -> Result<Self, RedisError> {
        Ok(Self::new(TokioEnv::open(url)?, options))
    }

    /// Locks with these options on this service. Nothing is sent yet.
    pub fn new(service: impl Into<Service>, options: Options) -> Self {
        let context = LockContext { native: Some(Arc::default()), ..LockContext::default() };
        Self { service: service.into(), options, poll: Poll::default(), context }
    }

    /// The same locks, with these pauses between attempts.
    #[must_use]
    pub fn polling(self, poll: Poll) -> Self {
        Self { poll, ..self }
    }

    /// The lock of this key.
    ///
    /// # Errors
    /// See [`Single::new`].
    pub fn single(&self, key: impl AsRef<[u8]>) -> Result<Single<TokioEnv>, OptionsError> {
        let (key, options) = (key.as_ref(), self.options.clone());
        Single::with_context(self.env(key), Node(0), key.into(), options, self.context.clone())
    }

    /// The lock of this key that is handed over, first come, first served. Keep it and clone it: clones share one
    /// subscription, and two locks made apart have two.
    ///
    /// # Errors
    /// See [`Queue::new`].
    pub fn queue(&self, key: impl AsRef<[u8]>) -> Result<Queue<TokioEnv>, OptionsError> {
        let (key, options) = (key.as_ref(), self.options.clone());
        Queue::with_context(self.env(key), Node(0), key.into(), options, self.context.clone())
    }

    /// Tries once to take the lock of this key; see [`Single::try_acquire`].
    ///
    /// # Errors
    /// See [`NoLock`].
    pub async fn try_acquire(&self, key: impl AsRef<[u8]>) -> Result<Guard<TokioEnv>, NoLock> {
        Ok(self.single(key)?.try_acquire().await?)
    }

    /// Tries to take the lock of this key for at most `deadline`; see [`Single::acquire`].
    ///
    /// # Errors
    /// See [`NoLock`].
    pub async fn acquire(
        &self,
        key: impl AsRef<[u8]>,
        deadline: Duration,
    ) -> Result<Guard<TokioEnv>, NoLock> {
        Ok(self.single(key)?.acquire(deadline, self.poll).await?)
    }

    /// Takes the lock of this key, waiting for at most `deadline`, does the work, and releases the lock. The work
    /// is dropped if the lock is lost; dropping the future drops the work and releases. For work that takes
    /// longer than the TTL, the options need a
    /// [`watchdog`](crate::options::OptionsBuilder::watchdog). `Ok` says that the work was protected, even if the
    /// release had no answer or was refused; see [`Guard::protect`].
    ///
    /// # Errors
    /// [`NotDone`] says whether the work was not begun, stopped, or not protected until its end.
    pub async fn with<F: Future>(
        &self,
        key: impl AsRef<[u8]>,
        deadline: Duration,
        work: impl FnOnce(Holding<TokioEnv>) -> F,
    ) -> Result<F::Output, NotDone<F::Output>> {
        let guard = self.acquire(key, deadline).await?;
        Ok(guard.protect(work).await?)
    }

    /// Waits for the background tasks of dropped guards and acquisitions of all locks made here, so that they
    /// run before the runtime ends; see [`Single::drain`].
    pub async fn drain(&self) {
        self.context.counters.drained().await;
    }

    /// What all locks made here have done.
    pub fn counters(&self) -> &Counters {
        &self.context.counters
    }

    fn env(&self, key: &[u8]) -> TokioEnv {
        match &self.service.0 {
            ServiceKind::Server(env) => env.clone(),
            ServiceKind::Cluster(cluster) => TokioEnv::for_key(cluster, key),
        }
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("service", &self.service.0)
            .field("options", &self.options)
            .field("counters", self.counters())
            .finish_non_exhaustive()
    }
}

/// Why there is no guard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLock {
    /// The key cannot be used with these options. Nothing was sent.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The lock was not acquired.
    #[error(transparent)]
    NotAcquired(#[from] NotAcquired),
}

impl NoLock {
    /// Whether the server had granted the lock to this caller; see [`NotAcquired::outcome`].
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Options(_) => Outcome::No,
            Self::NotAcquired(error) => error.outcome(),
        }
    }
}

/// Why work under a lock was not done, or not protected. It is an error whatever the output of the work is.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDone<T> {
    /// The work was not begun.
    #[error(transparent)]
    NoLock(#[from] NoLock),
    /// The work was begun, and the lock did not last until it was done.
    #[error(transparent)]
    Unprotected(#[from] Unprotected<T>),
}

impl<T> fmt::Debug for NotDone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLock(error) => f.debug_tuple("NoLock").field(error).finish(),
            Self::Unprotected(error) => f.debug_tuple("Unprotected").field(error).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::lock::Released;

    #[test]
    fn work_with_any_output_may_fail_as_an_error() {
        /// What cannot even be written for debugging.
        struct Output;
        let released = Released::AlreadyExpired;
        let failed = NotDone::from(Unprotected::Done { output: Output, released });
        let error: Box<dyn Error + Send + Sync> = failed.into();
        assert_eq!(format!("{error:?}"), "Unprotected(Done { released: AlreadyExpired, .. })");
    }
}
