//! The articles' lock: SET NX PX, tried again after a pause; a script compares and deletes.
//!
//! Claim: an owner token and an atomic release make the lock safe; who fails, sleeps and retries.
//! Flaw: a lost reply is forgotten, and what it took stays until its TTL; nobody watches validity,
//! so a holder that is late works on; waiters poll, and whoever is lucky is next.
//! Smallest failing schedule: A's SET is carried out and its reply is lost; A gives up; nobody can
//! acquire until the TTL has passed.
//! Source: the first and the third article.

use std::pin::pin;
use std::time::Duration;

use picklock::OwnerToken;
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Mark, Phase};
use picklock::reply::Reply;
use picklock::scripts::COMPARE_AND_DELETE;
use picklock::time::{span_ms, span_ns};

use super::article::{Article, compare_and_delete, not_held};
use super::{About, BoxFuture, Held, NotHeld, Params, Recipe, Release, Validity};
use crate::call::answered;

pub(super) static ABOUT: About = About {
    name: "polling",
    how: "SET NX PX with a pause between tries; compare-and-delete",
    from: "articles 1 and 3",
    flaw: Some("forgets a lost reply: an orphan key until its TTL; keeps no validity; polls"),
    assumes: &["no reply is lost", "no pause or delay longer than the TTL less the work"],
    validity: Validity::None,
    locks: true,
    fair: None,
    scripts: || vec![&COMPARE_AND_DELETE],
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Polling {
    Polling { params }
}

pub(super) struct Polling {
    params: Params,
}

struct Believed<E: Env> {
    article: Article<E>,
    token: OwnerToken,
}

impl Polling {
    /// What the scenario adds to a pause; the articles' clients, started one by one, never poll in
    /// step.
    fn jitter(&self, random: u64) -> Duration {
        let most_ns = u128::from(span_ns(self.params.jitter));
        let part_ns = (u128::from(random) * (most_ns + 1)) >> 64;
        Duration::from_nanos(u64::try_from(part_ns).unwrap_or(u64::MAX))
    }

    async fn attempt<E: Env>(&self, env: &E) -> Result<Option<Believed<E>>, CallError> {
        let params = &self.params;
        let conn = env.connect(params.node).await?;
        let token = OwnerToken::draw(env);
        env.mark(Mark::Phase(Phase::AcquireBeforeSend));
        let ttl_ms = span_ms(params.ttl);
        let set = Command::new("SET").arg(&params.key).arg(&token).arg("NX").arg("PX").int(ttl_ms);
        if answered(env, pin!(conn.call(set))).await? != Reply::Ok {
            return Ok(None);
        }
        env.mark(Mark::Phase(Phase::AcquireApplied));
        let article = Article { env: env.clone(), conn, key: params.key.clone() };
        Ok(Some(Believed { article, token }))
    }
}

impl<E: Env> Recipe<E> for Polling {
    fn acquire(&self, env: E) -> BoxFuture<'_, Result<Box<dyn Held>, NotHeld>> {
        Box::pin(async move {
            for tried in 0..=self.params.retries {
                if tried > 0 {
                    env.mark(Mark::Phase(Phase::Wait));
                    env.sleep(self.params.pause + self.jitter(env.random())).await;
                }
                match self.attempt(&env).await {
                    Ok(Some(held)) => return Ok(Box::new(held) as Box<dyn Held>),
                    Ok(None) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(not_held("held by another"))
        })
    }
}

impl<E: Env> Held for Believed<E> {
    fn is_valid(&self) -> bool {
        true
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Release> {
        Box::pin(async move { compare_and_delete(&self.article, self.token.as_bytes()).await })
    }
}
