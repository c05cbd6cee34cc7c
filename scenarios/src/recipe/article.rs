//! What the articles' recipes have in common: a try, a pause, another try; and their releases.
//!
//! Invariant: nothing here repairs anything: a lost reply is an error to the caller, and that is all.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use history::words::{EXPIRED, HELD, RELEASED, TAKEN};
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Mark, Phase};
use picklock::reply::Reply;
use picklock::scripts::COMPARE_AND_DELETE;
use picklock::time::{span_ms, span_ns};
use picklock::{Outcome, OwnerToken};

use super::{
    About, Acquired, BoxFuture, Handle, Held, KeyValue, NotHeld, Params, Recipe, ReleaseOutcome,
    Servers, Stateless, Validity, stateless,
};
use crate::call::answered;

/// What there is to say of a lock of the articles that says nothing else.
pub(super) const COMMON: About = About {
    name: "",
    how: "",
    from: "",
    flaw: None,
    assumes: &[],
    validity: Validity::None,
    locks: true,
    fair: None,
    servers: Servers::One,
    value: KeyValue::Token,
    native: false,
    renewed: false,
    keys_beside: |_| Vec::new(),
    scripts: || vec![&COMPARE_AND_DELETE],
};

/// One way to take a lock and to give it back; trying again is the same for all.
pub(super) trait ArticleLock: Send + Sync + 'static {
    /// What a client keeps of a lock that it has taken.
    type Kept: Send + Sync;

    /// What a client does once, before it tries.
    fn prepare<E: Env>(
        client: &ArticleClient<E>,
    ) -> impl Future<Output = Result<(), CallError>> + Send {
        let _ = client;
        async { Ok(()) }
    }

    /// Tries once; none where another has it.
    fn take<E: Env>(
        client: &ArticleClient<E>,
    ) -> impl Future<Output = Result<Option<Self::Kept>, CallError>> + Send;

    /// Gives it back.
    fn give_back<E: Env>(
        client: &ArticleClient<E>,
        kept: &Self::Kept,
    ) -> impl Future<Output = ReleaseOutcome> + Send;
}

/// A client of an article's lock.
pub(super) struct ArticleClient<E: Env> {
    pub(super) env: E,
    pub(super) conn: E::Conn,
    pub(super) params: Arc<Params>,
    /// Which, from 1.
    pub(super) number: u32,
}

impl<E: Env> ArticleClient<E> {
    /// The same client, with the connection it would use now: as out of a pool.
    pub(super) async fn anew(&self) -> Result<Self, CallError> {
        let conn = self.env.connect(self.params.node).await?;
        let (env, params) = (self.env.clone(), Arc::clone(&self.params));
        Ok(Self { env, conn, params, number: self.number })
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn ask(&self, command: Command) -> Result<Reply, CallError> {
        answered(&self.env, pin!(self.conn.call(command))).await
    }

    /// Asks for the lock's value; none where there is no key.
    pub(super) async fn value(&self) -> Result<Option<Reply>, CallError> {
        let reply = self.ask(self.on_key("GET")).await?;
        Ok(Some(reply).filter(|reply| *reply != Reply::Nil))
    }

    /// Sends the command that may take the lock; whether the answer is this one, which says that it did.
    pub(super) async fn takes(&self, command: Command, yes: &Reply) -> Result<bool, CallError> {
        self.phase(Phase::AcquireBeforeSend);
        let taken = self.ask(command).await? == *yes;
        if taken {
            self.phase(Phase::AcquireApplied);
        }
        Ok(taken)
    }

    /// SET with this value and NX, and PX with the TTL.
    pub(super) async fn set_nx_px(&self, value: &[u8]) -> Result<bool, CallError> {
        let ttl_ms = span_ms(self.params.ttl);
        let set = self.on_key("SET").arg(value).arg("NX").arg("PX").int(ttl_ms);
        self.takes(set, &Reply::Ok).await
    }

    /// The same with a token of its own, which the client keeps.
    pub(super) async fn set_token_nx_px(&self) -> Result<Option<OwnerToken>, CallError> {
        let token = OwnerToken::draw(&self.env);
        Ok(self.set_nx_px(token.as_bytes()).await?.then_some(token))
    }

    /// A command of this name whose key is the lock's.
    pub(super) fn on_key(&self, name: &str) -> Command {
        Command::new(name).arg(&self.params.key)
    }

    /// Says that a phase begins.
    pub(super) fn phase(&self, phase: Phase) {
        self.env.mark(Mark::Phase(phase));
    }

    /// Releases by the script that all articles end at.
    pub(super) async fn compare_and_delete(&self, value: &[u8]) -> ReleaseOutcome {
        self.phase(Phase::ReleaseBeforeDelete);
        let args = [value];
        let run = pin!(COMPARE_AND_DELETE.run(&self.conn, &self.params.key, &args));
        by_script(answered(&self.env, run).await)
    }

    /// Releases by DEL, whosever the key is.
    pub(super) async fn delete(&self) -> ReleaseOutcome {
        self.phase(Phase::ReleaseBeforeDelete);
        match self.ask(self.on_key("DEL")).await {
            Ok(Reply::Int(1)) => ReleaseOutcome::Answered(RELEASED),
            Ok(Reply::Int(0)) => ReleaseOutcome::Answered(EXPIRED),
            other => unknown(other),
        }
    }
}

/// What the answer of the script says.
pub(super) fn by_script(answer: Result<Reply, CallError>) -> ReleaseOutcome {
    match answer {
        Ok(Reply::Int(1)) => ReleaseOutcome::Answered(RELEASED),
        Ok(Reply::Int(0)) => ReleaseOutcome::Answered(EXPIRED),
        Ok(Reply::Int(-1)) => ReleaseOutcome::Answered(TAKEN),
        other => unknown(other),
    }
}

/// An answer to a release that says nothing, or none.
pub(super) fn unknown(answer: Result<Reply, CallError>) -> ReleaseOutcome {
    ReleaseOutcome::Unknown(match answer {
        Ok(other) => format!("unexpected reply {other:?}"),
        Err(error) => error.to_string(),
    })
}

/// Surely not held.
pub(super) fn not_held(why: &str) -> NotHeld {
    NotHeld { outcome: Outcome::No, why: why.to_owned() }
}

impl From<CallError> for NotHeld {
    fn from(error: CallError) -> Self {
        let outcome = if error.is_indeterminate() { Outcome::Unknown } else { Outcome::No };
        Self { outcome, why: error.to_string() }
    }
}

/// The recipe that locks in this way.
pub(super) fn recipe<W: ArticleLock>(params: Params) -> Tried<W> {
    Tried { params: Arc::new(params), way: PhantomData }
}

/// A lock that is tried for again and again.
pub(super) struct Tried<W> {
    params: Arc<Params>,
    way: PhantomData<fn() -> W>,
}

impl<W: ArticleLock> Tried<W> {
    /// What the scenario adds to a pause; the articles' clients, started one by one, never poll in
    /// step.
    fn jitter(&self, random: u64) -> Duration {
        let most_ns = u128::from(span_ns(self.params.jitter));
        let part_ns = (u128::from(random) * (most_ns + 1)) >> 64;
        Duration::from_nanos(u64::try_from(part_ns).unwrap_or(u64::MAX))
    }

    /// What it was built with.
    pub(super) fn params(&self) -> &Params {
        &self.params
    }

    /// Tries, after so many tries before this one; none where another has the lock.
    pub(super) async fn attempt<E: Env>(
        &self,
        env: &E,
        number: u32,
        tried: u32,
    ) -> Result<Option<Believed<E, W>>, CallError> {
        let conn = env.connect(self.params.node).await?;
        let client =
            ArticleClient { env: env.clone(), conn, params: Arc::clone(&self.params), number };
        if tried == 0 {
            W::prepare(&client).await?;
        }
        let kept = W::take(&client).await?;
        Ok(kept.map(|kept| Believed { client, kept }))
    }
}

impl<E: Env, W: ArticleLock> Recipe<E> for Tried<W> {
    fn handle(self: Arc<Self>, env: E, client: u32) -> Arc<dyn Handle> {
        stateless(self, env, client)
    }
}

impl<E: Env, W: ArticleLock> Stateless<E> for Tried<W> {
    fn acquire(&self, env: E, client: u32) -> BoxFuture<'_, Acquired> {
        Box::pin(async move {
            let end = self.params.deadline.map(|deadline| env.now().after(deadline));
            for tried in 0..=self.params.retries {
                if tried > 0 {
                    let left = end.map_or(Duration::MAX, |end| end.since(env.now()));
                    if left.is_zero() {
                        break;
                    }
                    env.mark(Mark::Phase(Phase::Wait));
                    let pause = self.params.pause + self.jitter(env.random());
                    env.sleep(pause.min(left)).await;
                }
                match self.attempt(&env, client, tried).await {
                    Ok(Some(held)) => return Ok(Box::new(held) as Box<dyn Held>),
                    Ok(None) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(not_held(HELD))
        })
    }
}

/// A lock that an article's client has taken.
pub(super) struct Believed<E: Env, W: ArticleLock> {
    client: ArticleClient<E>,
    kept: W::Kept,
}

impl<E: Env, W: ArticleLock> Held for Believed<E, W> {
    fn is_valid(&self) -> bool {
        true
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, ReleaseOutcome> {
        Box::pin(async move {
            self.client.phase(Phase::ReleaseBeforeSend);
            let release = W::give_back(&self.client, &self.kept).await;
            self.client.phase(Phase::Released);
            release
        })
    }
}
