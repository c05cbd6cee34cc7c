//! A lock that anybody can release: SET NX PX, then DEL.
//!
//! Claim: the holder deletes the lock's key when its work is done, and that is the release.
//! Flaw: the key may be another's by then, and DEL does not ask whose it is.
//! Smallest failing schedule: A acquires and is late; its key expires; B acquires; A's DEL ends B's
//! hold; C acquires while B is at work.
//! Source: the first wrong unlock of the fourth article.

use picklock::env::{CallError, Env};

use super::article::{ArticleClient, ArticleLock, COMMON};
use super::{About, ReleaseOutcome};

pub(super) static ABOUT: About = About {
    name: "del-release",
    how: "SET NX PX; DEL, whosever the key is",
    from: "article 4",
    flaw: Some("a late release deletes the next holder's lock; keeps no validity"),
    assumes: &["no reply is lost", "no work, pause or delay longer than the TTL"],
    scripts: Vec::new,
    ..COMMON
};

pub(super) struct DelRelease;

impl ArticleLock for DelRelease {
    type Kept = ();

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<()>, CallError> {
        // The article's lock has a value of its own, which its release has no use for.
        Ok(client.set_token_nx_px().await?.map(drop))
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, (): &()) -> ReleaseOutcome {
        client.delete().await
    }
}
