//! A lock in two steps: EXISTS, and where there is no key, SET.
//!
//! Claim: a client that finds no key creates it, and holds the lock.
//! Flaw: between the look and the creation another may create it, and SET overwrites that.
//! Smallest failing schedule: A finds no key; B finds no key; B's SET; A's SET; both are at work.
//! Source: the third article, on why check and creation must be one step.

use picklock::OwnerToken;
use picklock::env::{CallError, Env, Phase};
use picklock::reply::Reply;
use picklock::time::span_ms;

use super::article::{ArticleClient, ArticleLock, COMMON};
use super::{About, ReleaseOutcome};

pub(super) static ABOUT: About = About {
    name: "exists-then-set",
    how: "EXISTS, then SET PX where there is no key; compare-and-delete",
    from: "article 3",
    flaw: Some("two that see no key both take the lock; keeps no validity"),
    assumes: &["no two look at once", "no reply is lost"],
    ..COMMON
};

pub(super) struct ExistsThenSet;

impl ArticleLock for ExistsThenSet {
    type Kept = OwnerToken;

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<OwnerToken>, CallError> {
        if client.ask(client.on_key("EXISTS")).await? != Reply::Int(0) {
            return Ok(None);
        }
        let token = OwnerToken::draw(&client.env);
        client.phase(Phase::AcquireBetween);
        let set = client.on_key("SET").arg(&token).arg("PX").int(span_ms(client.params.ttl));
        Ok(client.takes(set, &Reply::Ok).await?.then_some(token))
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, token: &OwnerToken) -> ReleaseOutcome {
        client.compare_and_delete(token.as_bytes()).await
    }
}
