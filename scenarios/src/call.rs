//! A call with the patience of a common client library.
//!
//! Invariant: running out of patience leaves the outcome unknown, never *no*.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use picklock::env::{CallError, Env};

/// How long a client library waits for a reply, as they commonly do.
pub(crate) const REPLY_WITHIN: Duration = Duration::from_secs(2);

/// Waits for a call as a client library does. It comes pinned, so that it is stored once.
pub(crate) async fn answered<E: Env, T>(
    env: &E,
    call: Pin<&mut impl Future<Output = Result<T, CallError>>>,
) -> Result<T, CallError> {
    within(env, REPLY_WITHIN, call).await.unwrap_or_else(|| {
        Err(CallError::Indeterminate(format!("no answer within {REPLY_WITHIN:?}").into()))
    })
}

/// Waits for `work`, at most for so long; nothing where it takes longer.
pub(crate) async fn within<E: Env, T>(
    env: &E,
    span: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let mut timeout = pin!(env.sleep(span));
    poll_fn(|cx| {
        if let Poll::Ready(answer) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        timeout.as_mut().poll(cx).map(|()| None)
    })
    .await
}
