//! A release by a transaction: WATCH, GET and compare, then MULTI, DEL, EXEC.
//!
//! Claim: a key that changes after the look makes EXEC do nothing, so nobody's hold is ended but
//! one's own, and that without a script.
//! Flaw: none at the key; but a lost reply is forgotten, nobody watches validity, and a release
//! takes five round trips.
//! Smallest failing schedule: A's SET is carried out and its reply is lost; A gives up; nobody can
//! acquire until the TTL has passed.
//! Source: named, and not shown, by the first article.

use history::words::{EXPIRED, RELEASED, TAKEN};
use picklock::OwnerToken;
use picklock::command::Command;
use picklock::env::{CallError, Env, Phase};
use picklock::reply::Reply;

use super::article::{ArticleClient, ArticleLock, COMMON, unknown};
use super::{About, ReleaseOutcome};

pub(super) static ABOUT: About = About {
    name: "watch-multi",
    how: "SET NX PX; WATCH, GET and compare, MULTI, DEL, EXEC",
    from: "article 1",
    flaw: Some("forgets a lost reply: an orphan key until its TTL; keeps no validity"),
    assumes: &["no reply is lost", "no pause or delay longer than the TTL less the work"],
    scripts: Vec::new,
    ..COMMON
};

pub(super) struct WatchMulti;

impl ArticleLock for WatchMulti {
    type Kept = OwnerToken;

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<OwnerToken>, CallError> {
        client.set_token_nx_px().await
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, token: &OwnerToken) -> ReleaseOutcome {
        transaction(client, token).await.unwrap_or_else(|error| unknown(Err(error)))
    }
}

async fn transaction<E: Env>(
    client: &ArticleClient<E>,
    token: &OwnerToken,
) -> Result<ReleaseOutcome, CallError> {
    client.ask(client.on_key("WATCH")).await?;
    let value = client.value().await?;
    if value.as_ref().and_then(Reply::as_bytes) != Some(token.as_bytes()) {
        client.ask(Command::new("UNWATCH")).await?;
        return Ok(ReleaseOutcome::Answered(value.map_or(EXPIRED, |_| TAKEN)));
    }
    client.ask(Command::new("MULTI")).await?;
    client.ask(client.on_key("DEL")).await?;
    client.phase(Phase::ReleaseBeforeDelete);
    Ok(match client.ask(Command::new("EXEC")).await? {
        Reply::Array(answers) if answers == [Reply::Int(1)] => ReleaseOutcome::Answered(RELEASED),
        Reply::Array(answers) if answers == [Reply::Int(0)] => ReleaseOutcome::Answered(EXPIRED),
        Reply::Nil => ReleaseOutcome::Answered(TAKEN),
        other => unknown(Ok(other)),
    })
}
