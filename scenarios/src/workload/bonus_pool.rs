//! The prize pool: read how many are left, work for a moment, take one off.
//!
//! Invariant: what a client won is the value that its GET returned; a decrement without an answer
//! is neither a prize won nor a prize left. A client whose lock keeps a validity looks at it last
//! before it takes. Deliberately absent: a transaction, which would make the lock superfluous.

use std::time::Duration;

use history::What;
use history::words::LOST;
use picklock::command::Command;
use picklock::env::{CallError, Env, Mark, Node, Phase};
use picklock::reply::Reply;

use super::{Process, Workload, acquire, call, number, release};
use crate::recipe::{BoxFuture, Held};
use crate::record::{Observed, Recorded};
use crate::scenario::BonusPoolPart;

/// The prizes are kept in the same server as the lock, as in the article.
const NODE: Node = Node(0);
/// The pool goes by itself, should a run be killed before it has cleaned up.
const POOL_LIVES_S: u64 = 24 * 60 * 60;

pub(super) fn workload(part: &BonusPoolPart, prefix: &str) -> BonusPool {
    BonusPool { key: format!("{prefix}pool"), prizes: part.prizes, hold: part.hold.0 }
}

pub(super) struct BonusPool {
    key: String,
    prizes: u32,
    hold: Duration,
}

impl BonusPool {
    async fn read<W: Observed>(&self, env: &Recorded<W>) -> Result<i64, CallError> {
        number(&call(env, NODE, Command::new("GET").arg(&self.key)).await?, "pool")
    }

    async fn take<W: Observed>(&self, env: &Recorded<W>, held: &dyn Held) {
        let op = env.invoke(What::Take);
        let not = |why: &str| env.end_with(op, |texts| What::NotTaken(texts.intern(why)));
        let prize = match self.read(env).await {
            Ok(prize) => prize,
            Err(error) => return not(&format!("pool not read: {error}")),
        };
        if prize <= 0 {
            return not("pool empty");
        }
        env.sleep(self.hold).await;
        if !held.is_valid() {
            return not(LOST);
        }
        env.mark(Mark::Phase(Phase::HoldBeforeWrite));
        let answer = call(env, NODE, Command::new("DECR").arg(&self.key)).await;
        let unknown = |why: String| {
            env.end_with(op, |texts| What::TakeUnknown { prize, why: texts.intern(&why) });
        };
        match answer {
            Ok(Reply::Int(left)) => env.end(op, What::Taken { prize, left }),
            Ok(other) => unknown(format!("unexpected reply {other:?}")),
            Err(error) if error.is_indeterminate() => unknown(error.to_string()),
            Err(error) => not(&error.to_string()),
        }
    }
}

impl<W: Observed> Workload<W> for BonusPool {
    fn set_up<'a>(&'a self, run: &'a Recorded<W>) -> BoxFuture<'a, Result<(), CallError>> {
        let command = Command::new("SET").arg(&self.key).int(u64::from(self.prizes));
        let command = command.arg("EX").int(POOL_LIVES_S);
        Box::pin(async move { call(run, NODE, command).await.map(drop) })
    }

    fn task(&self, process: Process<W>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let env = process.env.begin_acquisition();
            // Handed over at once, it is not stored twice.
            env.during(async {
                if let Some(held) = acquire(&env, &*process.handle).await {
                    env.mark(Mark::Phase(Phase::Hold));
                    self.take(&env, &*held).await;
                    release(&env, held).await;
                }
            })
            .await;
        })
    }

    fn look_back<'a>(&'a self, run: &'a Recorded<W>) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            run.note(What::PoolLeft(self.read(run).await?));
            Ok(())
        })
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key.clone().into_bytes()]
    }
}
