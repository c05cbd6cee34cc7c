//! A lock whose value is the client's name.
//!
//! Claim: each client has a value of its own, so none can release another's lock.
//! Flaw: all acquisitions of one client have the same value: a late release of one ends the next.
//! Smallest failing schedule: A's release is slow; A's key expires; A acquires again; the slow release
//! arrives and ends A's own later hold; B acquires while A is at work.
//! Source: the third article, on why a value must differ from request to request.

use picklock::env::{CallError, Env};

use super::article::{ArticleClient, ArticleLock, COMMON};
use super::{About, KeyValue, ReleaseOutcome};

pub(super) static ABOUT: About = About {
    name: "client-token",
    how: "SET NX PX with the client's name; compare-and-delete",
    from: "article 3",
    flaw: Some("a late release ends the same client's next hold; keeps no validity"),
    assumes: &["no reply is lost", "no work, pause or delay longer than the TTL"],
    value: KeyValue::Shared,
    ..COMMON
};

pub(super) struct ClientToken;

fn name<E: Env>(client: &ArticleClient<E>) -> String {
    format!("client-{}", client.number)
}

impl ArticleLock for ClientToken {
    type Kept = ();

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<()>, CallError> {
        Ok(client.set_nx_px(name(client).as_bytes()).await?.then_some(()))
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, (): &()) -> ReleaseOutcome {
        client.compare_and_delete(name(client).as_bytes()).await
    }
}
