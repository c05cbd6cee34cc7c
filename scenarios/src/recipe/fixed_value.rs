//! A lock whose value is the same for everybody.
//!
//! Claim: a key that can be set only once is a lock, whatever its value; the release looks at the
//! value and deletes in one step.
//! Flaw: the value is nobody's, so everybody finds it to be their own.
//! Smallest failing schedule: A acquires and is late; its key expires; B acquires; A's release finds
//! the value it set and ends B's hold; C acquires while B is at work.
//! Source: the second article, on why the value must be random.

use picklock::env::{CallError, Env};

use super::article::{ArticleClient, ArticleLock, COMMON};
use super::{About, KeyValue, ReleaseOutcome};

/// What all clients write.
const LOCKED: &[u8] = b"locked";

pub(super) static ABOUT: About = About {
    name: "fixed-value",
    how: "SET NX PX with the same value for all; compare-and-delete",
    from: "article 2",
    flaw: Some("a late release deletes the next holder's lock; keeps no validity"),
    assumes: &["no reply is lost", "no work, pause or delay longer than the TTL"],
    value: KeyValue::Shared,
    ..COMMON
};

pub(super) struct FixedValue;

impl ArticleLock for FixedValue {
    type Kept = ();

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<()>, CallError> {
        Ok(client.set_nx_px(LOCKED).await?.then_some(()))
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, (): &()) -> ReleaseOutcome {
        client.compare_and_delete(LOCKED).await
    }
}
