//! A lock whose waiters are told of the release, and do not look again once they listen.
//!
//! Claim: a client that finds the lock taken subscribes and sleeps; the release publishes; nobody need ask
//! the server again and again.
//! Flaw: a release between the look and the subscription is told to nobody, and the waiter sleeps beside
//! a free lock; so it does if the holder dies, for nobody publishes then.
//! Smallest failing schedule: B's SET finds A's key; A releases and publishes; B subscribes, and sleeps
//! for as long as it would wait at most.
//! Source: the third article's way out of polling, release and notice, without the second look that
//! the library it names takes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use picklock::OwnerToken;
use picklock::env::{CallError, Env, Mark, Phase, Subscription};
use picklock::scripts::DELETE_AND_TELL;

use super::article::{ArticleClient, ArticleLock, COMMON, Tried, by_script, not_held};
use super::{
    About, Acquired, BoxFuture, Handle, Held, Params, Recipe, ReleaseOutcome, Stateless, stateless,
};
use crate::call::{answered, within};

pub(super) static ABOUT: About = About {
    name: "notify-no-recheck",
    how: "SET NX PX; who fails subscribes and sleeps until the release publishes; compare-and-delete",
    from: "article 3",
    flaw: Some("sleeps through a release between its try and its subscription; keeps no validity"),
    assumes: &["nothing is released between a try and the subscription", "no holder dies"],
    scripts: || vec![&DELETE_AND_TELL],
    ..COMMON
};

/// How the lock is taken and given back; waiting is not the articles' common way.
pub(super) struct SetAndPublish;

impl ArticleLock for SetAndPublish {
    type Kept = OwnerToken;

    async fn take<E: Env>(client: &ArticleClient<E>) -> Result<Option<OwnerToken>, CallError> {
        client.set_token_nx_px().await
    }

    async fn give_back<E: Env>(client: &ArticleClient<E>, token: &OwnerToken) -> ReleaseOutcome {
        client.phase(Phase::ReleaseBeforeDelete);
        let channel = channel(&client.params);
        let args = [token.as_bytes(), &channel];
        let run = pin!(DELETE_AND_TELL.run(&client.conn, &client.params.key, &args));
        by_script(answered(&client.env, run).await)
    }
}

fn channel(params: &Params) -> Vec<u8> {
    [b"released:", &params.key[..]].concat()
}

/// The recipe.
pub(super) fn recipe(params: Params) -> NotifyNoRecheck {
    NotifyNoRecheck { tried: super::article::recipe(params) }
}

pub(super) struct NotifyNoRecheck {
    tried: Tried<SetAndPublish>,
}

impl NotifyNoRecheck {
    /// It waits for as long as another would poll, and not beyond its caller's deadline.
    fn patience(&self) -> Duration {
        let Params { pause, jitter, retries, deadline, .. } = self.tried.params();
        let as_long = pause.saturating_add(*jitter).saturating_mul(*retries);
        as_long.min(deadline.unwrap_or(Duration::MAX))
    }
}

impl<E: Env> Recipe<E> for NotifyNoRecheck {
    fn handle(self: Arc<Self>, env: E, client: u32) -> Arc<dyn Handle> {
        stateless(self, env, client)
    }
}

impl<E: Env> Stateless<E> for NotifyNoRecheck {
    fn acquire(&self, env: E, client: u32) -> BoxFuture<'_, Acquired> {
        Box::pin(async move {
            let params = self.tried.params();
            let channel = channel(params);
            let end = env.now().after(self.patience());
            let mut ear = None;
            loop {
                if let Some(held) = self.tried.attempt(&env, client, 0).await? {
                    return Ok(Box::new(held) as Box<dyn Held>);
                }
                env.mark(Mark::Phase(Phase::Wait));
                let mut listening = match ear.take() {
                    Some(listening) => listening,
                    None => answered(&env, pin!(env.subscribe(params.node, &channel))).await?,
                };
                // Once it listens, it trusts in being told.
                let left = end.since(env.now());
                match within(&env, left, pin!(listening.next())).await {
                    Some(told) => drop(told?),
                    None => return Err(not_held("held by another")),
                }
                ear = Some(listening);
            }
        })
    }
}
