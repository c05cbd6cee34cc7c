//! The articles' lock: SET NX PX, tried again after a pause; a script compares and deletes.
//!
//! Claim: an owner token and an atomic release make the lock safe; who fails, sleeps and retries.
//! Flaw: a lost reply is forgotten, and what it took stays until its TTL; nobody watches validity,
//! so a holder that is late works on.
//! Smallest failing schedule: A's SET is carried out and its reply is lost; A gives up; nobody can
//! acquire until the TTL has passed.
//! Source: the first and the third article.

use picklock::OwnerToken;
use picklock::env::{CallError, Env};

use super::article::{ArticleClient, ArticleLock, COMMON};
use super::{About, ReleaseOutcome};

pub(super) static ABOUT: About = About {
    name: "polling",
    how: "SET NX PX with a pause between tries; compare-and-delete",
    from: "articles 1 and 3",
    flaw: Some("forgets a lost reply: an orphan key until its TTL; keeps no validity"),
    assumes: &["no reply is lost", "no pause or delay longer than the TTL less the work"],
    ..COMMON
};

pub(super) struct Polling;

impl ArticleLock for Polling {
    type Kept = OwnerToken;

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<OwnerToken>, CallError> {
        client.set_token_nx_px().await
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, token: &OwnerToken) -> ReleaseOutcome {
        client.compare_and_delete(token.as_bytes()).await
    }
}
