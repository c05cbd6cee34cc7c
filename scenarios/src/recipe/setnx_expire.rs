//! A lock in two steps: SETNX, and then its TTL.
//!
//! Claim: SETNX lets one client through, and EXPIRE sees to it that a dead one's key goes.
//! Flaw: a client that dies between the two, or whose second request is lost, leaves its key for ever.
//! Smallest failing schedule: A's SETNX creates the key; A dies; nobody can ever acquire again.
//! Source: the second article, and the first wrong lock of the fourth. They count the TTL in seconds;
//! PEXPIRE does the same in milliseconds, which scenarios count in.

use picklock::OwnerToken;
use picklock::env::{CallError, Env, Phase};
use picklock::reply::Reply;
use picklock::time::span_ms;

use super::article::{ArticleClient, ArticleLock, COMMON};
use super::{About, ReleaseOutcome};

pub(super) static ABOUT: About = About {
    name: "setnx-expire",
    how: "SETNX, then PEXPIRE; compare-and-delete",
    from: "articles 2 and 4",
    flaw: Some("who dies between the two commands holds the lock for ever; keeps no validity"),
    assumes: &["nobody dies, and nothing is lost, between the two commands", "no reply is lost"],
    ..COMMON
};

pub(super) struct SetnxExpire;

impl ArticleLock for SetnxExpire {
    type Kept = OwnerToken;

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<OwnerToken>, CallError> {
        let token = OwnerToken::draw(&client.env);
        if !client.takes(client.on_key("SETNX").arg(&token), &Reply::Int(1)).await? {
            return Ok(None);
        }
        client.phase(Phase::AcquireBetween);
        // The article has no eye for what EXPIRE answers.
        client.ask(client.on_key("PEXPIRE").int(span_ms(client.params.ttl))).await?;
        Ok(Some(token))
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, token: &OwnerToken) -> ReleaseOutcome {
        client.compare_and_delete(token.as_bytes()).await
    }
}
