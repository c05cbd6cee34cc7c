//! A lock that never expires: SET NX without a TTL.
//!
//! Claim: the key is there while its client works; the client deletes it when it has done.
//! Flaw: a holder that dies, or never reaches the server again, leaves its key for ever.
//! Smallest failing schedule: A acquires and dies; nobody can ever acquire again.
//! Source: the second and the third article, on why a key needs a TTL.

use picklock::OwnerToken;
use picklock::env::{CallError, Env};
use picklock::reply::Reply;

use super::article::{ArticleClient, ArticleLock, COMMON};
use super::{About, ReleaseOutcome};

pub(super) static ABOUT: About = About {
    name: "no-ttl",
    how: "SET NX without a TTL; compare-and-delete",
    from: "articles 2 and 3",
    flaw: Some("a holder that is gone holds it for ever; forgets a lost reply"),
    assumes: &["nobody who holds the lock dies or is cut off", "no request or reply is lost"],
    ..COMMON
};

pub(super) struct NoTtl;

impl ArticleLock for NoTtl {
    type Kept = OwnerToken;

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<OwnerToken>, CallError> {
        let token = OwnerToken::draw(&client.env);
        let set = client.on_key("SET").arg(&token).arg("NX");
        Ok(client.takes(set, &Reply::Ok).await?.then_some(token))
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, token: &OwnerToken) -> ReleaseOutcome {
        client.compare_and_delete(token.as_bytes()).await
    }
}
