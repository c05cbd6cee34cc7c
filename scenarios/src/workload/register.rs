//! The register: read a number, work for a moment, write it back one higher.
//!
//! Invariant: what an update read is the value that the register answered, and it sends that value
//! and one; a write without an answer is neither done nor not done. A client whose lock keeps a
//! validity looks at it last before it writes. The register lives on a node of its own, which no
//! fault touches, so that what harms it is the lock's doing. One that asks for fencing tokens has the gate of the lock
//! library, which keeps the highest it has been shown, with a read or with a write, and refuses lower ones.
//! Deliberately absent: INCR, which would make the lock superfluous.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use history::words::{LOST, STALE};
use history::{Texts, Update, What};
use picklock::command::Command;
use picklock::env::{CallError, Conn as _, Env, Mark, Node, Phase};
use picklock::fence::WRITE_FENCED;
use picklock::reply::Reply;

use super::{
    Process, Workload, acquire, acquire_within, call, drop_guard, drop_release, number, release,
    released,
};
use crate::call::answered;
use crate::recipe::{BoxFuture, Drained, Handle, Held};
use crate::record::{Observed, Recorded};
use crate::scenario::{DropPart, RegisterPart};

/// What the register holds in the beginning.
pub const INITIAL: i64 = 0;
/// What it says where less validity was left than it was to have.
const SCANT: &str = "too little validity left";

pub(super) fn workload(part: &RegisterPart, prefix: &str, node: Node) -> Register {
    Register { key: format!("{prefix}register"), node, part: part.clone() }
}

pub(super) struct Register {
    key: String,
    node: Node,
    part: RegisterPart,
}

/// The fencing token of a hold, as its lock says it when it is asked.
type Token<'a> = &'a (dyn Fn() -> Option<u64> + Send + Sync);

/// An update that has begun. Dropped before its end, as work is whose lock is lost, it has written nothing, or nobody knows.
struct PendingUpdate<'a, W: Observed> {
    env: &'a Recorded<W>,
    op: u32,
    /// What it has begun to write.
    writing: Option<Update>,
    ended: bool,
}

impl<'a, W: Observed> PendingUpdate<'a, W> {
    fn begin(env: &'a Recorded<W>) -> Self {
        Self { env, op: env.invoke(What::Update), writing: None, ended: false }
    }

    fn not(mut self, why: &str) {
        self.ended = true;
        self.env.end_with(self.op, |texts| What::NotUpdated(texts.intern(why)));
    }

    fn unknown(&mut self, update: Update, why: &str) {
        self.ended = true;
        let what = |texts: &mut Texts| What::UpdateUnknown { update, why: texts.intern(why) };
        self.env.end_with(self.op, what);
    }

    fn done(mut self, update: Update) {
        self.ended = true;
        self.env.end(self.op, What::Updated(update));
    }
}

impl<W: Observed> Drop for PendingUpdate<'_, W> {
    fn drop(&mut self) {
        // The dead say nothing.
        if self.ended || self.env.is_gone() {
            return;
        }
        match self.writing {
            Some(update) => self.unknown(update, LOST),
            None => self.env.end_with(self.op, |texts| What::NotUpdated(texts.intern(LOST))),
        }
    }
}

impl Register {
    /// What it holds; none where it refuses the token. The token is shown first, by a write that says who reads: from
    /// then on nobody with a lower one writes.
    async fn read<W: Observed>(
        &self,
        env: &Recorded<W>,
        token: Option<u64>,
    ) -> Result<Option<i64>, CallError> {
        if let Some(token) = token {
            let reader = format!("{}:reader", self.key);
            let conn = env.connect(self.node).await?;
            if !self.show(env, &conn, token, &reader, &env.client().to_string()).await? {
                return Ok(None);
            }
        }
        let get = Command::new("GET").arg(&self.key);
        number(&call(env, self.node, get).await?, "register").map(Some)
    }

    async fn write<W: Observed>(
        &self,
        env: &Recorded<W>,
        conn: &<Recorded<W> as Env>::Conn,
        token: Option<u64>,
        value: i64,
    ) -> Result<bool, CallError> {
        let value = value.to_string();
        match token {
            Some(token) => self.show(env, conn, token, &self.key, &value).await,
            None => {
                let set = Command::new("SET").arg(&self.key).arg(&value);
                answered(env, pin!(conn.call(set))).await.map(|_| true)
            }
        }
    }

    /// Writes this behind the gate, with this token; false where it is refused.
    async fn show<W: Observed>(
        &self,
        env: &Recorded<W>,
        conn: &<Recorded<W> as Env>::Conn,
        token: u64,
        key: &str,
        value: &str,
    ) -> Result<bool, CallError> {
        let (mark, token) = (format!("{}:token", self.key), token.to_string());
        let (keys, args) =
            ([key.as_bytes(), mark.as_bytes()], [token.as_bytes(), value.as_bytes()]);
        match answered(env, pin!(WRITE_FENCED.run_on(conn, &keys, &args))).await? {
            Reply::Int(1) => Ok(true),
            Reply::Int(_) => Ok(false),
            other => Err(CallError::Indeterminate(format!("the gate answers {other:?}").into())),
        }
    }

    /// One acquisition, with its work. If it is dropped, gives what waits for what is left of it in the background.
    async fn round<W: Observed>(
        &self,
        env: &Recorded<W>,
        handle: Arc<dyn Handle>,
        dropped: Option<DropPart>,
    ) -> Option<Drained> {
        let acquired = match dropped.and_then(|drop| drop.after) {
            Some(after) => match acquire_within(env, &*handle, after.0).await {
                Ok(acquired) => acquired,
                Err(drained) => return Some(drained),
            },
            None => acquire(env, &*handle).await,
        };
        drop(handle);
        if let Some(mut held) = acquired {
            if self.part.fresh {
                held.let_go();
            }
            env.mark(Mark::Phase(Phase::Hold));
            if self.part.protects
                && let Some(is_valid) = held.holding()
            {
                self.protected(env, held, &*is_valid).await;
                return None;
            }
            self.update(env, &mut *held).await;
            if dropped.is_some_and(|drop| drop.guard) {
                return Some(drop_guard(env, held));
            }
            match self.part.drop {
                Some(DropPart { release: true, .. }) => drop_release(env, held).await,
                _ => release(env, held).await,
            }
        }
        None
    }

    /// The work is the lock's to do, and so is the release.
    async fn protected<W: Observed>(
        &self,
        env: &Recorded<W>,
        held: Box<dyn Held>,
        is_valid: &(dyn Fn() -> bool + Send + Sync),
    ) {
        let (release, token) = (AtomicU32::new(0), self.token(&*held));
        let work = async {
            self.work(env, &|| token, None, is_valid).await;
            release.store(env.invoke(What::Release), Ordering::Relaxed);
        };
        let outcome = held.protect(Box::pin(work)).await;
        let op = match release.into_inner() {
            // The work was stopped.
            0 => env.invoke(What::Release),
            op => op,
        };
        released(env, op, outcome);
    }

    async fn update<W: Observed>(&self, env: &Recorded<W>, held: &mut dyn Held) {
        if self.part.stops && held.holding().is_some() {
            let token = self.token(held);
            // The lock stops the work, its write included, so the work does not look itself.
            held.run(Box::pin(self.work(env, &|| token, None, &|| true))).await;
            return;
        }
        let held = &*held;
        self.work(env, &|| self.token(held), Some(held), &|| self.may_write(held)).await;
    }

    /// What the lock says is its token, where the register asks for one.
    fn token(&self, held: &dyn Held) -> Option<u64> {
        held.fence().filter(|_| self.part.fenced)
    }

    /// The work, step by step, until it may not go on.
    async fn work<W: Observed>(
        &self,
        env: &Recorded<W>,
        token: Token<'_>,
        held: Option<&dyn Held>,
        may_write: &(dyn Fn() -> bool + Send + Sync),
    ) {
        for nth in 1..=self.part.steps {
            let Some((update, read)) = self.begin(env, token()).await else { return };
            env.sleep(self.part.hold.0 / self.part.steps).await;
            let written = self.finish(env, update, read, token, may_write()).await;
            if !written || nth == self.part.steps {
                return;
            }
            let extended = match held.filter(|_| self.part.extends).and_then(Held::extend) {
                Some(extend) => extend.await,
                None => false,
            };
            if !(extended || may_write()) {
                return;
            }
        }
    }

    /// The last look before a write: whether the lock is valid, or has as much validity left as the work is to have.
    fn may_write(&self, held: &dyn Held) -> bool {
        // A lock that is asked for more may learn more: without need it is asked one thing.
        match self.part.spare.and_then(|spare| Some((spare.0, held.remaining()?))) {
            Some((spare, left)) => left >= spare,
            None => held.is_valid(),
        }
    }

    /// An update, and what it has read.
    async fn begin<'a, W: Observed>(
        &self,
        env: &'a Recorded<W>,
        token: Option<u64>,
    ) -> Option<(PendingUpdate<'a, W>, i64)> {
        let pending = PendingUpdate::begin(env);
        match self.read(env, token).await {
            Ok(Some(read)) => return Some((pending, read)),
            Ok(None) => pending.not(STALE),
            Err(error) => pending.not(&format!("register not read: {error}")),
        }
        None
    }

    /// The end of an update; whether the next may follow.
    async fn finish<W: Observed>(
        &self,
        env: &Recorded<W>,
        mut pending: PendingUpdate<'_, W>,
        read: i64,
        token: Token<'_>,
        is_valid: bool,
    ) -> bool {
        if !is_valid {
            pending.not(if self.part.spare.is_some() { SCANT } else { LOST });
            return false;
        }
        env.mark(Mark::Phase(Phase::HoldBeforeWrite));
        let mut update = Update { read, written: read.saturating_add(1), token: token() };
        pending.writing = Some(update);
        let written = match env.connect(self.node).await {
            Ok(conn) => {
                // Whoever has stood still shows what its lock says now.
                update.token = token();
                pending.writing = Some(update);
                self.write(env, &conn, update.token, update.written).await
            }
            Err(error) => Err(error),
        };
        let goes_on = matches!(written, Ok(true));
        match written {
            Ok(true) => pending.done(update),
            Ok(false) => pending.not(STALE),
            Err(error) if error.is_indeterminate() => pending.unknown(update, &error.to_string()),
            Err(error) => pending.not(&error.to_string()),
        }
        goes_on
    }
}

impl<W: Observed> Workload<W> for Register {
    fn set_up<'a>(&'a self, run: &'a Recorded<W>) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            let conn = run.connect(self.node).await?;
            self.write(run, &conn, None, INITIAL).await.map(drop)
        })
    }

    fn task(&self, mut process: Process<W>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for round in 0..self.part.rounds {
                if round > 0 && !self.part.think.0.is_zero() {
                    process.env.sleep(self.part.think.0).await;
                }
                let env = process.env.begin_acquisition();
                let dropped = self.part.drop.filter(|drop| drop.strikes(round));
                let handle = match self.part.fresh {
                    true => process.fresh_handle(),
                    false => Arc::clone(&process.handle),
                };
                let drained = env.during(self.round(&env, handle, dropped)).await;
                if let Some(drained) = drained
                    && self.part.drop.is_some_and(|drop| drop.ends)
                {
                    drained.await;
                    process = process.end();
                }
            }
        })
    }

    fn look_back<'a>(&'a self, run: &'a Recorded<W>) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            if let Some(left) = self.read(run, None).await? {
                run.note(What::RegisterLeft(left));
            }
            Ok(())
        })
    }

    /// None: its server goes with the run.
    fn keys(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}
