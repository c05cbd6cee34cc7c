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
