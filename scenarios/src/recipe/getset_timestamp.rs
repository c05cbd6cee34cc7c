//! A lock whose value says when it is over: SETNX, and GETSET where that time has passed.
//!
//! Claim: without a TTL on the server, a client that sees that the time has passed takes the lock over;
//! of two that see it, GETSET gives the old value to one alone.
//! Flaw: the time is that of the holder's clock, and others compare it with theirs; the loser's GETSET
//! overwrites the winner's time; nobody's name is in the key, so any DEL ends any hold.
//! Smallest failing schedule: A acquires; B's clock is ahead by the TTL: B takes the lock over while A
//! is at work. Or: A is late; B takes over; A's DEL ends B's hold.
//! Source: the second wrong lock of the fourth article, with its first wrong unlock.

use picklock::env::{CallError, Env, Phase};
use picklock::reply::Reply;
use picklock::time::span_ms;

use super::article::{ArticleClient, ArticleLock, COMMON};
use super::{About, KeyValue, ReleaseOutcome};

pub(super) static ABOUT: About = About {
    name: "getset-timestamp",
    how: "SETNX of the time at which it is over; if that has passed, GETSET and compare; DEL",
    from: "article 4",
    flaw: Some(
        "losers overwrite the winner's value; trusts the clocks of all clients; anybody's DEL releases",
    ),
    assumes: &[
        "the wall clocks of all clients agree",
        "no work, pause or delay longer than the TTL",
        "no two see an old time at once",
    ],
    value: KeyValue::Stamp,
    scripts: Vec::new,
    ..COMMON
};

pub(super) struct GetsetTimestamp;

impl ArticleLock for GetsetTimestamp {
    type Kept = ();

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<()>, CallError> {
        let now_ms = || client.env.wall().as_unix_ms();
        let over_ms = now_ms().saturating_add(span_ms(client.params.ttl));
        if client.takes(client.on_key("SETNX").int(over_ms), &Reply::Int(1)).await? {
            return Ok(Some(()));
        }
        let seen = client.value().await?;
        let Some(seen_ms) = seen.as_ref().and_then(Reply::as_int) else { return Ok(None) };
        if u64::try_from(seen_ms).unwrap_or(0) >= now_ms() {
            return Ok(None);
        }
        client.phase(Phase::AcquireBetween);
        client.phase(Phase::AcquireBeforeSend);
        let before = client.ask(client.on_key("GETSET").int(over_ms)).await?;
        if Some(before) != seen {
            return Ok(None);
        }
        client.phase(Phase::AcquireApplied);
        Ok(Some(()))
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, (): &()) -> ReleaseOutcome {
        client.delete().await
    }
}
