//! A call with the patience of a common client library.
//!
//! Invariant: running out of patience leaves the outcome unknown, never *no*.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use picklock::env::{CallError, Env};

/// How long a client library waits for a reply, as they commonly do.
const REPLY_WITHIN: Duration = Duration::from_secs(2);

/// Waits for a call as a client library does. It comes pinned, so that it is stored once.
pub(crate) async fn answered<E: Env, T>(
    env: &E,
    mut call: Pin<&mut impl Future<Output = Result<T, CallError>>>,
) -> Result<T, CallError> {
    let mut timeout = pin!(env.sleep(REPLY_WITHIN));
    poll_fn(|cx| {
        if let Poll::Ready(answer) = call.as_mut().poll(cx) {
            return Poll::Ready(answer);
        }
        timeout.as_mut().poll(cx).map(|()| {
            Err(CallError::Indeterminate(format!("no answer within {REPLY_WITHIN:?}").into()))
        })
    })
    .await
}
