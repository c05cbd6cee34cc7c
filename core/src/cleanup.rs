//! After an acquisition of unknown outcome: make sure that no orphan key is left.
//!
//! Invariant: it ends only when the key surely is not this acquisition's and cannot become it, or
//! when the linger time is over. A definite answer on the acquisition's own connection is such a
//! proof, for the server has passed the acquisition by then. On another connection only *deleted*
//! is: the acquisition runs at most once, but it may still be on its way.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Span};

use crate::env::{CallError, Conn, Env};
use crate::link::{Link, Turn};
use crate::observe;
use crate::target::{Found, Target};
use crate::time::Instant;
use crate::timeout::within;
use crate::token::OwnerToken;
use crate::watched::Watched;

/// What its task is called.
const WHAT: &str = "the clean-up of an acquisition";
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The acquisition's own connection has this fraction of a call timeout to answer.
const QUICK_PART: u32 = 4;

/// How far a clean-up has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Running,
    /// The server says that the key is not ours now, but the acquisition may still arrive.
    NotOursNow,
    /// It is over.
    Settled,
}

/// A running clean-up, as its acquisition sees it.
pub(crate) struct Cleanup {
    progress: Watched<Progress>,
}

impl Cleanup {
    /// Starts looking after the acquisition that was sent then, on this connection.
    pub(crate) fn start<E: Env>(
        target: &Arc<Target<E>>,
        conn: &E::Conn,
        token: &OwnerToken,
        sent: Instant,
    ) -> Arc<Self> {
        let cleanup = Arc::new(Self { progress: Watched::new(Progress::Running) });
        let work = Arc::clone(&cleanup).work(target, conn, token, sent);
        target.begin(WHAT, work);
        cleanup
    }

    /// The same for one that is still to be answered, and only if the answer asks for it: `granted` ends with
    /// whether it may have been.
    pub(crate) fn after<E: Env>(
        target: &Arc<Target<E>>,
        granted: impl Future<Output = bool> + Send + 'static,
        link: &Arc<Link<E::Conn>>,
        token: &OwnerToken,
    ) -> Arc<Self> {
        let cleanup = Arc::new(Self { progress: Watched::new(Progress::Running) });
        let (handle, owned) = (Arc::clone(&cleanup), Arc::clone(target));
        let (link, token) = (Arc::clone(link), token.clone());
        target.begin(WHAT, async move {
            let granted = granted.await;
            match link.withdraw() {
                Some((conn, sent)) if granted => {
                    Arc::clone(&handle).work(&owned, &conn, &token, sent).await;
                }
                _ => handle.reach(Progress::Settled),
            }
        });
        cleanup
    }

    fn work<E: Env>(
        self: Arc<Self>,
        target: &Arc<Target<E>>,
        conn: &E::Conn,
        token: &OwnerToken,
        sent: Instant,
    ) -> impl Future<Output = ()> + Send + use<E> {
        // Behind the acquisition, on its own connection; unless that has been silent for so long that
        // what is sent behind would have no answer either.
        let silent = conn.gave_up(target.patience());
        let link = if silent { Link::unconnected() } else { Link::on(conn.clone()) };
        let (target, token) = (Arc::clone(target), token.clone());
        let span = observe::clean_up(&target);
        let around = span.clone();
        async move { self.run(&target, &link, &token, sent, &span).await }.instrument(around)
    }

    /// Waits until the key does not stand in the way of another attempt.
    pub(crate) async fn answered(&self) {
        let answered = |progress: &Progress| (*progress > Progress::Running).then_some(());
        self.progress.until(answered).await;
    }

    /// The same, for whoever waits for several.
    pub(crate) async fn is_answered(self: Arc<Self>) {
        self.answered().await;
    }

    /// True while it has had no answer: what it looks after may still be there.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.progress.with(|progress| *progress == Progress::Running)
    }

    /// True when it is over.
    pub(crate) fn is_settled(&self) -> bool {
        self.progress.with(|progress| *progress == Progress::Settled)
    }

    async fn run<E: Env>(
        &self,
        target: &Target<E>,
        link: &Link<E::Conn>,
        token: &OwnerToken,
        sent: Instant,
        span: &Span,
    ) {
        let options = &target.options;
        let end = sent.after(options.linger());
        let pause = (options.call_timeout() / 2).max(PAUSE_MIN);
        loop {
            let (turn, answer) = self.ask(target, link, token).await;
            let settled = match answer {
                Ok(Found::Own) => true,
                Ok(Found::Missing | Found::Other) => turn.is_behind_acquire(),
                Err(_) => false,
            };
            if settled {
                tracing::debug!(key = %target.key_text(), found = ?answer, "unknown acquisition cleaned up");
                observe::cleaned_up(target, span, true);
                return self.reach(Progress::Settled);
            }
            if answer.is_ok() {
                self.reach(Progress::NotOursNow);
            }
            if turn.is_behind_acquire() && link.turn() != turn {
                // Its own connection says nothing: another may. A refusal is an answer, and is waited for.
                continue;
            }
            let left = end.since(target.env.now());
            if left.is_zero() {
                tracing::warn!(key = %target.key_text(), ?answer, "unknown acquisition given up; its key goes by its ttl");
                observe::cleaned_up(target, span, false);
                return self.reach(Progress::Settled);
            }
            target.env.sleep(pause.min(left)).await;
        }
    }

    /// Asks once. The acquisition's own connection has just left one call unanswered, so it is not
    /// given a whole call timeout again.
    async fn ask<E: Env>(
        &self,
        target: &Target<E>,
        link: &Link<E::Conn>,
        token: &OwnerToken,
    ) -> (Turn, Result<Found, CallError>) {
        let turn = link.turn();
        let mut asked = pin!(target.give_up(link, token));
        if !turn.is_behind_acquire() {
            return asked.await;
        }
        let quick = target.options.call_timeout() / QUICK_PART;
        match within(&target.env, quick, asked.as_mut()).await {
            Some(answer) => answer,
            None => {
                link.broke(turn);
                let silent = format!("no answer within {quick:?}");
                (turn, Err(CallError::Indeterminate(silent.into())))
            }
        }
    }

    fn reach(&self, reached: Progress) {
        self.progress.change(|progress| {
            *progress = reached.max(*progress);
            ((), true)
        });
    }
}
