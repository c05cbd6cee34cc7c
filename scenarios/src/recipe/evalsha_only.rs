//! A release by the digest of a script, and by nothing else.
//!
//! Claim: a script that is loaded once need not be sent again: its digest is enough.
//! Flaw: a server may lose its scripts; then no release works, and nobody sends the script again.
//! Smallest failing schedule: A loads the script and acquires; the server forgets its scripts; A's
//! release is refused; nobody can acquire until the TTL has passed.
//! Source: the third article's releaseLock, without the fallback of the library it uses.

use picklock::OwnerToken;
use picklock::command::Command;
use picklock::env::{CallError, Env, Phase};
use picklock::scripts::COMPARE_AND_DELETE;

use super::article::{ArticleClient, ArticleLock, COMMON, by_script};
use super::{About, ReleaseOutcome};

pub(super) static ABOUT: About = About {
    name: "evalsha-only",
    how: "SET NX PX; compare-and-delete by EVALSHA, without sending the script again",
    from: "article 3",
    flaw: Some("cannot release once the server has lost its scripts; keeps no validity"),
    assumes: &["the server keeps its scripts", "no reply is lost"],
    ..COMMON
};

pub(super) struct EvalshaOnly;

impl ArticleLock for EvalshaOnly {
    type Kept = OwnerToken;

    async fn prepare<E: Env>(client: &ArticleClient<E>) -> Result<(), CallError> {
        let load = Command::new("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE.text());
        client.ask(load).await.map(drop)
    }

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<OwnerToken>, CallError> {
        client.set_token_nx_px().await
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, token: &OwnerToken) -> ReleaseOutcome {
        client.phase(Phase::ReleaseBeforeDelete);
        let run = Command::new("EVALSHA").arg(COMPARE_AND_DELETE.sha1()).int(1);
        match client.ask(run.arg(&client.params.key).arg(token)).await {
            Err(error) if error.has_code("NOSCRIPT") => {
                ReleaseOutcome::Answered("not released: the server has lost the script")
            }
            answer => by_script(answer),
        }
    }
}
