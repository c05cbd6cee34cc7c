//! Observability of a lock: `tracing` spans, and counts.
//!
//! Invariant: a span has the key as text and the outcome as one word, and never the token. Nothing here
//! decides about a lock. Without a subscriber, a span costs one check of a flag. The front page of the
//! crate lists the names of spans, fields and outcomes.

use std::pin::Pin;
use std::task::{Context, Poll};

use tracing::field::Empty;
use tracing::{Span, debug_span};

use crate::counters::Count;
use crate::env::Env;
use crate::lock::{NotAcquired, NotExtended, Released};
use crate::target::LockTarget;
use crate::time::Instant;

/// Work that is polled within a span, and dropped there. It comes pinned: taken by value, it would be stored twice, as
/// an argument and where it is awaited.
struct WithinSpan<'a, F> {
    span: &'a Span,
    /// None once it is to be dropped.
    work: Pin<&'a mut Option<F>>,
}

impl<F: Future> Future for WithinSpan<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.span.enter();
        self.work.as_mut().as_pin_mut().map_or(Poll::Pending, |work| work.poll(cx))
    }
}

impl<F> Drop for WithinSpan<'_, F> {
    fn drop(&mut self) {
        let _entered = self.span.enter();
        self.work.set(None);
    }
}

/// An acquisition, from its call to its answer.
pub(crate) async fn acquisition<E: Env, T>(
    target: &LockTarget<E>,
    work: Pin<&mut Option<impl Future<Output = Result<T, NotAcquired>>>>,
) -> Result<T, NotAcquired> {
    let span = debug_span!("lock.acquire", key = %target, outcome = Empty);
    let answer = WithinSpan { span: &span, work }.await;
    let ended = match &answer {
        Ok(_) => Count::Acquired,
        Err(error) => Count::of_failed(error),
    };
    if ended == Count::Deadline {
        target.counters.count(ended);
    }
    span.record("outcome", ended.name());
    answer
}

/// One attempt of an acquisition.
pub(crate) fn attempted<E: Env>(target: &LockTarget<E>, error: Option<&NotAcquired>) {
    target.counters.count(error.map_or(Count::Acquired, Count::of_failed));
}

pub(crate) async fn renewal<E: Env>(
    target: &LockTarget<E>,
    work: Pin<&mut Option<impl Future<Output = Result<Instant, NotExtended>>>>,
) -> Result<Instant, NotExtended> {
    let span = debug_span!("lock.renew", key = %target, outcome = Empty);
    let answer = WithinSpan { span: &span, work }.await;
    let ended = match &answer {
        Ok(_) => Count::Renewed,
        Err(NotExtended::Failed(_)) => Count::NotRenewed,
        // `HeldLock::report` counts a loss, once.
        Err(NotExtended::Lost(_)) => Count::Lost,
    };
    if ended != Count::Lost {
        target.counters.count(ended);
    }
    span.record("outcome", ended.name());
    answer
}

/// The span of a release that begins here.
pub(crate) fn release<E: Env>(target: &LockTarget<E>) -> Span {
    debug_span!("lock.release", key = %target, outcome = Empty)
}

pub(crate) fn released<E: Env>(target: &LockTarget<E>, span: &Span, outcome: &Released) {
    ended(target, span, Count::of_release(outcome));
}

/// The span of a clean-up that begins here.
pub(crate) fn clean_up<E: Env>(target: &LockTarget<E>) -> Span {
    target.counters.count(Count::CleanUp);
    debug_span!("lock.clean_up", key = %target, outcome = Empty)
}

pub(crate) fn cleaned_up<E: Env>(target: &LockTarget<E>, span: &Span, without_effect: bool) {
    ended(target, span, if without_effect { Count::CleanedUp } else { Count::CleanUpGivenUp });
}

fn ended<E: Env>(target: &LockTarget<E>, span: &Span, how: Count) {
    target.counters.count(how);
    span.record("outcome", how.name());
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
