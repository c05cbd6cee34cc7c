//! What the articles' recipes have in common: the release by a script.
//!
//! Invariant: nothing here repairs anything: a lost reply is an error to the caller, and that is
//! all. Deliberately absent: validity, which no article keeps.

use std::pin::pin;

use picklock::Outcome;
use picklock::env::{CallError, Env, Mark, Phase};
use picklock::reply::Reply;
use picklock::scripts::COMPARE_AND_DELETE;

use super::{NotHeld, Release};
use crate::call::answered;

/// A client of an article's lock.
pub(super) struct Article<E: Env> {
    pub(super) env: E,
    pub(super) conn: E::Conn,
    pub(super) key: Box<[u8]>,
}

/// Releases by the script that all articles end at.
pub(super) async fn compare_and_delete<E: Env>(article: &Article<E>, value: &[u8]) -> Release {
    let Article { env, conn, key } = article;
    env.mark(Mark::Phase(Phase::ReleaseBeforeSend));
    env.mark(Mark::Phase(Phase::ReleaseBeforeDelete));
    let answer = answered(env, pin!(COMPARE_AND_DELETE.run(conn, key, &[value]))).await;
    env.mark(Mark::Phase(Phase::Released));
    match answer {
        Ok(Reply::Int(1)) => Release::Answered("released"),
        Ok(Reply::Int(0)) => Release::Answered("already expired"),
        Ok(Reply::Int(-1)) => Release::Answered("taken by another"),
        Ok(other) => Release::Unknown(format!("unexpected reply {other:?}")),
        Err(error) => Release::Unknown(error.to_string()),
    }
}

/// Surely not held.
pub(super) fn not_held(why: &str) -> NotHeld {
    NotHeld { outcome: Outcome::No, why: why.to_owned() }
}

impl From<CallError> for NotHeld {
    fn from(error: CallError) -> Self {
        let outcome = if error.is_indeterminate() { Outcome::Unknown } else { Outcome::No };
        Self { outcome, why: error.to_string() }
    }
}
