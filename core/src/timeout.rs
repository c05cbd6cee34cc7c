//! Waiting for the first of two futures, and for a future within a span of time.
//!
//! Invariant: the first future is polled first, always, so that a reply that has come wins over a
//! timer that has rung, and a replay takes the same way. Deliberately absent: fairness and
//! macros; no runtime is needed.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use crate::env::Env;

/// Which of two futures was ready first.
pub(crate) enum First<A, B> {
    /// The one that is polled first.
    Left(A),
    /// The other.
    Right(B),
}

/// Waits for either. They come pinned: taken by value, each would be stored twice in every future
/// around it.
pub(crate) fn race<A: Future, B: Future>(
    mut left: Pin<&mut A>,
    mut right: Pin<&mut B>,
) -> impl Future<Output = First<A::Output, B::Output>> {
    poll_fn(move |cx| {
        if let Poll::Ready(output) = left.as_mut().poll(cx) {
            return Poll::Ready(First::Left(output));
        }
        right.as_mut().poll(cx).map(First::Right)
    })
}

/// Waits for all of them, polling each whenever any is woken.
pub(crate) async fn all<F: Future>(mut futures: Vec<Pin<Box<F>>>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut open = false;
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(done) => *output = Some(done),
                    Poll::Pending => open = true,
                }
            }
        }
        if open { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Waits for `work`, at most `span` on the node's clock; `None` means that it is unfinished.
pub(crate) async fn within<E: Env, F: Future>(
    env: &E,
    span: Duration,
    work: Pin<&mut F>,
) -> Option<F::Output> {
    match race(work, pin!(env.sleep(span))).await {
        First::Left(output) => Some(output),
        First::Right(()) => None,
    }
}
