//! What a lock tells of its doings: spans for the user's subscriber, and counts.
//!
//! Invariant: the key is told as text, the outcome in one word, and the token never. Deliberately
//! absent: a say in anything. Where nobody listens, a span costs a look at a flag.
//!
//! The names of spans, fields and outcomes stand on the front page.

use std::fmt::{self, Write};
use std::future::Future;

use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span};

use crate::counters::{Count, Counters};
use crate::env::Env;
use crate::lock::{NotAcquired, NotExtended, Released};
use crate::target::Target;
use crate::time::Instant;

/// An acquisition, from its call to its answer.
pub(crate) async fn acquisition<E: Env, T>(
    target: &Target<E>,
    work: impl Future<Output = Result<T, NotAcquired>>,
) -> Result<T, NotAcquired> {
    let span = debug_span!("lock.acquire", key = %target.key_text(), outcome = Empty);
    let answer = work.instrument(span.clone()).await;
    let ended = match &answer {
        Ok(_) => Count::Acquired,
        Err(error) => Count::of_missed(error),
    };
    if ended == Count::Deadline {
        target.counters.count(ended);
    }
    span.record("outcome", ended.name());
    answer
}

/// One attempt of an acquisition.
pub(crate) fn attempted<E: Env>(target: &Target<E>, missed: Option<&NotAcquired>) {
    target.counters.count(missed.map_or(Count::Acquired, Count::of_missed));
}

/// An attempt that has not ended. Where it is dropped, its outcome is unknown.
pub(crate) struct Dropped<'a>(Option<&'a Counters>);

impl<'a> Dropped<'a> {
    pub(crate) fn beside<E: Env>(target: &'a Target<E>) -> Self {
        Self(Some(&target.counters))
    }

    /// It has ended.
    pub(crate) fn not(mut self) {
        self.0 = None;
    }
}

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        if let Some(counters) = self.0 {
            counters.count(Count::Unknown);
        }
    }
}

/// A renewal.
pub(crate) async fn renewal<E: Env>(
    target: &Target<E>,
    work: impl Future<Output = Result<Instant, NotExtended>>,
) -> Result<Instant, NotExtended> {
    let span = debug_span!("lock.renew", key = %target.key_text(), outcome = Empty);
    let answer = work.instrument(span.clone()).await;
    let ended = match &answer {
        Ok(_) => Count::Renewed,
        Err(NotExtended::Failed(_)) => Count::NotRenewed,
        // The loss itself is counted where it is noted, once.
        Err(NotExtended::Lost(_)) => Count::Lost,
    };
    if ended != Count::Lost {
        target.counters.count(ended);
    }
    span.record("outcome", ended.name());
    answer
}

/// The span of a release that begins here.
pub(crate) fn release<E: Env>(target: &Target<E>) -> Span {
    debug_span!("lock.release", key = %target.key_text(), outcome = Empty)
}

/// The end of a release.
pub(crate) fn released<E: Env>(target: &Target<E>, span: &Span, outcome: &Released) {
    ended(target, span, Count::of_release(outcome));
}

/// The span of a clean-up that begins here.
pub(crate) fn clean_up<E: Env>(target: &Target<E>) -> Span {
    target.counters.count(Count::CleanUp);
    debug_span!("lock.clean_up", key = %target.key_text(), outcome = Empty)
}

/// The end of a clean-up.
pub(crate) fn cleaned_up<E: Env>(target: &Target<E>, span: &Span, surely: bool) {
    ended(target, span, if surely { Count::CleanedUp } else { Count::CleanUpGivenUp });
}

fn ended<E: Env>(target: &Target<E>, span: &Span, how: Count) {
    target.counters.count(how);
    span.record("outcome", how.name());
}

/// A key as text: what is no UTF-8 is replaced, and control characters are escaped.
pub(crate) struct KeyText<'a>(pub(crate) &'a [u8]);

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter.is_control() {
                    true => write!(f, "{}", letter.escape_default())?,
                    false => f.write_char(letter)?,
                }
            }
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
