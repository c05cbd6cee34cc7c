//! A renewal in two steps: GET and compare, then SET with a TTL that grows each time.
//!
//! Claim: a thread beside the work sees that the lock is still its own and sets it anew, so the lock
//! lasts as long as the job.
//! Flaw: between the look and the SET the key may have become another's, or have been released; each
//! renewal asks for a longer TTL than the last; and while there is no key the thread asks without rest.
//! Smallest failing schedule: A's renewal finds its own value; A stands still; its key expires; B
//! acquires; A's SET overwrites B's hold. Or: A's SET is slow; A releases; the SET brings the key back.
//! Source: the first article's `watch_dog`, its release included. The article's thread ends with its
//! process; here a client's process goes on for a TTL after the release, and ends where the lock is dropped
//! without one. The TTL is counted in milliseconds and not in seconds, and not asked for once more after each
//! renewal, to be printed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use history::words::{EXPIRED, TAKEN};
use picklock::OwnerToken;
use picklock::env::{CallError, Env, Phase};
use picklock::reply::Reply;
use picklock::time::{Instant, span_ms};

use super::article::{ArticleClient, ArticleLock, COMMON, unknown};
use super::{About, ReleaseOutcome};

/// How long a turn of a loop takes that finds no key, beside its GET.
const TURN: Duration = Duration::from_micros(100);

pub(super) static ABOUT: About = About {
    name: "get-set-watchdog",
    how: "SET NX PX; renewed by GET, compare and SET PX, a TTL longer each time; GET, then compare-and-delete",
    from: "article 1",
    flaw: Some(
        "a renewal overwrites another's lock, or brings back one that was released; the TTL grows; \
         keeps no validity",
    ),
    assumes: &[
        "no pause or delay between the two commands of a renewal",
        "nobody who holds the lock dies",
        "no reply is lost",
    ],
    ..COMMON
};

pub(super) struct GetSetWatchdog;

/// What the client keeps: its value, and when its process ends, once that is known.
pub(super) struct WatchdogHandle {
    token: OwnerToken,
    ends: Arc<OnceLock<Instant>>,
}

/// Of one that was released, the end is known already.
impl Drop for WatchdogHandle {
    fn drop(&mut self) {
        let _ = self.ends.set(Instant::from_ns(0));
    }
}

impl ArticleLock for GetSetWatchdog {
    type Kept = WatchdogHandle;

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<WatchdogHandle>, CallError> {
        let Some(token) = client.set_token_nx_px().await? else { return Ok(None) };
        let ends = Arc::new(OnceLock::new());
        let (watched, until) = (token.clone(), Arc::clone(&ends));
        let client = client.anew().await?;
        client.env.clone().spawn(async move {
            // An error ends the thread, as an exception would.
            drop(watch(&client, &watched, &until).await);
        });
        Ok(Some(WatchdogHandle { token, ends }))
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, kept: &WatchdogHandle) -> ReleaseOutcome {
        let release = release(client, kept.token.as_bytes()).await;
        let _ = kept.ends.set(client.env.now().after(client.params.ttl));
        release.unwrap_or_else(|error| unknown(Err(error)))
    }
}

async fn release<E: Env>(
    client: &ArticleClient<E>,
    token: &[u8],
) -> Result<ReleaseOutcome, CallError> {
    let client = client.anew().await?;
    Ok(match client.value().await? {
        None => ReleaseOutcome::Answered(EXPIRED),
        Some(value) if value.as_bytes() == Some(token) => client.compare_and_delete(token).await,
        Some(_) => ReleaseOutcome::Answered(TAKEN),
    })
}

/// The thread: it renews at once, and then once in a TTL.
async fn watch<E: Env>(
    client: &ArticleClient<E>,
    token: &OwnerToken,
    ends: &OnceLock<Instant>,
) -> Result<(), CallError> {
    let mut ttl = client.params.ttl;
    while ends.get().is_none_or(|end| client.env.now() < *end) {
        let pooled = client.anew().await?;
        match pooled.value().await? {
            None => client.env.sleep(TURN).await,
            Some(value) if value.as_bytes() == Some(token.as_bytes()) => {
                ttl = ttl.saturating_add(client.params.ttl);
                client.phase(Phase::RenewBetween);
                client.phase(Phase::RenewBeforeSend);
                let set = client.on_key("SET").arg(token).arg("PX").int(span_ms(ttl));
                if client.anew().await?.ask(set).await? != Reply::Ok {
                    return Ok(());
                }
                client.env.sleep(client.params.ttl).await;
            }
            Some(_) => return Ok(()),
        }
    }
    Ok(())
}
