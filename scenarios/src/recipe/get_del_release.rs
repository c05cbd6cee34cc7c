//! A release in two steps: GET and compare, then DEL.
//!
//! Claim: a client deletes the key only after it has seen its own value in it.
//! Flaw: between the look and the DEL the key may expire and become another's.
//! Smallest failing schedule: A's GET finds its own value; A stands still; its key expires; B
//! acquires; A's DEL ends B's hold; C acquires while B is at work.
//! Source: the second article, and the second wrong unlock of the fourth.

use history::words::{EXPIRED, TAKEN};
use picklock::OwnerToken;
use picklock::env::{CallError, Env};

use super::article::{ArticleClient, ArticleLock, COMMON, unknown};
use super::{About, ReleaseOutcome};

pub(super) static ABOUT: About = About {
    name: "get-del-release",
    how: "SET NX PX; GET and compare in the client, then DEL",
    from: "articles 2 and 4",
    flaw: Some("compare and delete are two steps: what lies between ends another's hold"),
    assumes: &["no reply is lost", "no pause or delay longer than the TTL less the work"],
    scripts: Vec::new,
    ..COMMON
};

pub(super) struct GetDelRelease;

impl ArticleLock for GetDelRelease {
    type Kept = OwnerToken;

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<OwnerToken>, CallError> {
        client.set_token_nx_px().await
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, token: &OwnerToken) -> ReleaseOutcome {
        match client.value().await {
            Ok(Some(value)) if value.as_bytes() == Some(token.as_bytes()) => client.delete().await,
            Ok(Some(_)) => ReleaseOutcome::Answered(TAKEN),
            Ok(None) => ReleaseOutcome::Answered(EXPIRED),
            Err(error) => unknown(Err(error)),
        }
    }
}
