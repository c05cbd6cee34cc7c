//! Waiting for the first of two futures, and for a future within a span of time.
//!
//! Invariant: the first future is always polled first, so that a reply that has arrived wins over a timer
//! that has fired, and a replay takes the same branch. No runtime is needed.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use crate::env::Env;

/// Which of two futures was ready first.
pub(crate) enum Either<A, B> {
    /// The one that is polled first.
    Left(A),
    /// The other.
    Right(B),
}

/// Waits for either. The futures come pinned: taken by value, each would be stored twice in every future
/// around this one.
pub(crate) fn race<A: Future, B: Future>(
    mut left: Pin<&mut A>,
    mut right: Pin<&mut B>,
) -> impl Future<Output = Either<A::Output, B::Output>> {
    poll_fn(move |cx| {
        if let Poll::Ready(output) = left.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(output));
        }
        right.as_mut().poll(cx).map(Either::Right)
    })
}

/// Waits for `work`, at most `span` on the node's clock; `None` where it is unfinished by then.
pub(crate) async fn within<E: Env, F: Future>(
    env: &E,
    span: Duration,
    work: Pin<&mut F>,
) -> Option<F::Output> {
    match race(work, pin!(env.sleep(span))).await {
        Either::Left(output) => Some(output),
        Either::Right(()) => None,
    }
}
