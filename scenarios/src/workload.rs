//! Workloads: what clients do under the lock, and what they set up and look at around it.
//!
//! Invariant: a workload runs on any observed environment and with any recipe, and writes into the
//! history what it did to the protected resource. A file a workload.

mod beside;
mod bonus_pool;
mod register;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use history::What;
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Node};
use picklock::reply::Reply;

use crate::call::answered;
use crate::recipe::{BoxFuture, Drained, Handle, Held, NotHeld, Recipe, ReleaseOutcome};
use crate::record::{Observed, Recorded};
use crate::scenario::WorkloadPart;

pub(crate) use beside::OtherLock;
pub use register::INITIAL;

/// What clients do under the lock.
pub trait Workload<W: Observed>: Send + Sync {
    /// Prepares the protected resource. Belongs to the run itself, before any client.
    ///
    /// # Errors
    /// What the server says: then there is nothing to run.
    fn set_up<'a>(&'a self, run: &'a Recorded<W>) -> BoxFuture<'a, Result<(), CallError>>;

    /// What one task of a client does, from beginning to end.
    fn task(&self, process: Process<W>) -> BoxFuture<'_, ()>;

    /// Looks at what is left of the resource, after the last client.
    ///
    /// # Errors
    /// What the server says: then nothing is known of the end.
    fn look_back<'a>(&'a self, run: &'a Recorded<W>) -> BoxFuture<'a, Result<(), CallError>>;

    /// The keys it uses on the servers of the lock.
    fn keys(&self) -> Vec<Vec<u8>>;
}

/// A client's process: its environment, and its handle to the lock, which all its tasks share.
#[derive(Clone)]
pub struct Process<W: Observed> {
    env: Recorded<W>,
    recipe: Arc<dyn Recipe<Recorded<W>>>,
    handle: Arc<dyn Handle>,
}

impl<W: Observed> Process<W> {
    /// A process with a handle of its own.
    pub fn begin(env: Recorded<W>, recipe: Arc<dyn Recipe<Recorded<W>>>) -> Self {
        let handle = Arc::clone(&recipe).handle(env.clone(), env.client());
        Self { env, recipe, handle }
    }

    /// A handle for one acquisition.
    fn fresh_handle(&self) -> Arc<dyn Handle> {
        Arc::clone(&self.recipe).handle(self.env.clone(), self.env.client())
    }

    /// Ends it, and gives the one that takes its place: see [`Observed::end_process`].
    fn end(self) -> Self {
        let Self { env, recipe, handle } = self;
        env.end_process();
        drop(handle);
        Self::begin(env, recipe)
    }
}

/// The workload of a scenario, with its keys under this prefix. A resource with a node of its own is
/// reached as this one.
pub fn build<W: Observed>(
    part: &WorkloadPart,
    prefix: &str,
    resource: Node,
) -> Box<dyn Workload<W>> {
    match part {
        WorkloadPart::BonusPool(part) => Box::new(bonus_pool::workload(part, prefix)),
        WorkloadPart::Register(part) => Box::new(register::workload(part, prefix, resource)),
    }
}

/// Sends a command to the server that keeps the resource.
async fn call<W: Observed>(
    env: &Recorded<W>,
    node: Node,
    command: Command,
) -> Result<Reply, CallError> {
    let conn = env.connect(node).await?;
    answered(env, pin!(conn.call(command))).await
}

/// What the answer says that the resource of this name holds.
fn number(reply: &Reply, resource: &str) -> Result<i64, CallError> {
    reply.as_int().ok_or_else(|| {
        CallError::Indeterminate(format!("the {resource} holds no number: {reply:?}").into())
    })
}

/// Acquires the lock as a new acquisition, and writes down how that ended.
async fn acquire<W: Observed>(env: &Recorded<W>, handle: &dyn Handle) -> Option<Box<dyn Held>> {
    let op = env.invoke(What::Acquire);
    let acquired = handle.acquire().await;
    acquire_ended(env, op, acquired)
}

/// The same, but dropped if it has not ended within this time. Then its outcome is unknown, and what is returned waits for
/// its clean-up in the background.
async fn acquire_within<W: Observed>(
    env: &Recorded<W>,
    handle: &dyn Handle,
    span: Duration,
) -> Result<Option<Box<dyn Held>>, Drained> {
    let op = env.invoke(What::Acquire);
    // The future is gone when this statement ends, before the end of the acquisition is written down.
    let acquired = handle.acquire_within(span).await;
    match acquired {
        Ok(acquired) => Ok(acquire_ended(env, op, acquired)),
        Err(drained) => {
            let why = "dropped before it had ended";
            env.end_with(op, |texts| What::AcquireUnknown(texts.intern(why)));
            Err(drained)
        }
    }
}

/// Writes down how an acquisition has ended.
fn acquire_ended<W: Observed>(
    env: &Recorded<W>,
    op: u32,
    acquired: Result<Box<dyn Held>, NotHeld>,
) -> Option<Box<dyn Held>> {
    match acquired {
        Ok(held) => {
            env.end(op, What::Acquired);
            Some(held)
        }
        Err(not_held) => {
            env.end_with(op, |texts| {
                let why = texts.intern(&not_held.why);
                match not_held.outcome {
                    picklock::Outcome::Unknown => What::AcquireUnknown(why),
                    // Granted, but too late to be relied on: the client does not have it.
                    picklock::Outcome::Yes | picklock::Outcome::No => What::NotAcquired(why),
                }
            });
            None
        }
    }
}

/// Drops the guard instead of releasing it: nobody is told how that ends, and what is returned waits for it.
fn drop_guard<W: Observed>(env: &Recorded<W>, held: Box<dyn Held>) -> Drained {
    let op = env.invoke(What::Release);
    let drained = held.drained();
    drop(held);
    env.end_with(op, |texts| What::ReleaseUnknown(texts.intern("dropped without a release")));
    drained
}

/// Begins a release and drops it at once, as an expired time limit does: nobody is told how it ends.
async fn drop_release<W: Observed>(env: &Recorded<W>, held: Box<dyn Held>) {
    let op = env.invoke(What::Release);
    let mut release = held.release();
    poll_fn(|cx| {
        let _ = release.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
    drop(release);
    env.end_with(op, |texts| What::ReleaseUnknown(texts.intern("dropped half-way")));
}

/// Releases the lock, and writes down how that ended.
async fn release<W: Observed>(env: &Recorded<W>, held: Box<dyn Held>) {
    let op = env.invoke(What::Release);
    let outcome = held.release().await;
    released(env, op, outcome);
}

/// Writes down how a release has ended.
fn released<W: Observed>(env: &Recorded<W>, op: u32, outcome: ReleaseOutcome) {
    env.end_with(op, |texts| match outcome {
        ReleaseOutcome::Answered(outcome) => What::Released(texts.intern(outcome)),
        ReleaseOutcome::Unknown(why) => What::ReleaseUnknown(texts.intern(&why)),
    });
}
