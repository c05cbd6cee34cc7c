//! A lock held on several nodes: renewed and released on all of them at once.
//!
//! Invariant: a quorum decides as soon as it can; late nodes are awaited in the background, so that a dead
//! node delays nobody. Commands follow the acquisition on its connection, and a node to which the
//! acquisition was never sent gets none: it has no key of ours.

use std::pin::pin;
use std::sync::Arc;

use super::{HeldLock, NodeConn, RELEASE_TRIES};
use crate::cleanup::Cleanup;
use crate::env::{CallError, Env, Mark, Phase};
use crate::fan_out::FanOut;
use crate::lock::Released;
use crate::quorum::decide;
use crate::target::KeyOwner;
use crate::timeout::race;
use crate::token::OwnerToken;

impl<E: Env> HeldLock<E> {
    fn all_nodes(&self) -> impl Iterator<Item = NodeConn<E>> {
        let first =
            NodeConn { target: Arc::clone(&self.target), lock_conn: Arc::clone(&self.lock_conn) };
        std::iter::once(first).chain(self.other_nodes.iter().cloned())
    }

    /// Sends every node the renewal.
    pub(super) async fn extend_on_all(self: &Arc<Self>) -> Result<KeyOwner, CallError> {
        let calls = self.all_nodes().map(|node| node.extend(self.token.clone()));
        let mut replies = FanOut::of(calls);
        let decided = replies.until(|it| decide(it.iter().map(Option::as_ref))).await;
        if let Some(rest) = replies.rest() {
            let held = Arc::clone(self);
            let late = async move {
                race(pin!(rest), pin!(held.over())).await;
            };
            self.target.spawn("the renewal on a late node", late);
        }
        decided
    }

    /// Deletes the key on every node.
    pub(super) async fn release_on_all(&self) -> Released {
        self.target.env.mark(Mark::Phase(Phase::ReleaseBeforeDelete));
        let calls = self.all_nodes().map(|node| node.delete(self.token.clone()));
        let mut replies = FanOut::of(calls);
        let decided = replies
            .until(|all| decide(all.iter().map(|it| it.as_ref().map(|it| &it.answer))))
            .await;
        let unanswered = replies.received().iter().flatten().find_map(|it| it.unanswered.clone());
        if let Some(rest) = replies.rest() {
            self.target.spawn("the release on a late node", rest);
        }
        match decided {
            Ok(owner) => self.release_outcome(owner, unanswered),
            Err(error) => Released::Unknown(error),
        }
    }
}

/// The result of the deletion on one node.
struct DeleteResult {
    answer: Result<KeyOwner, CallError>,
    /// The error of the first try without an answer.
    unanswered: Option<CallError>,
}

impl<E: Env> NodeConn<E> {
    async fn extend(self, token: OwnerToken) -> Result<KeyOwner, CallError> {
        if !self.lock_conn.is_sent() {
            return Ok(KeyOwner::Missing);
        }
        self.target.compare_and_extend(&self.lock_conn, &token).await
    }

    /// Deletes the key, up to [`RELEASE_TRIES`] times while there is no answer.
    async fn delete(self, token: OwnerToken) -> DeleteResult {
        let Self { target, lock_conn } = self;
        let mut unanswered = None;
        if !lock_conn.was_sent().await {
            return DeleteResult { answer: Ok(KeyOwner::Missing), unanswered };
        }
        for attempt in 1.. {
            let answer = target.give_up(&lock_conn, &token).await;
            match &answer {
                Ok(owner) => {
                    // If no key was found, the acquisition may still come, and make one.
                    let linger = target.options.linger();
                    if *owner != KeyOwner::Own
                        && let Some(sent) = lock_conn.may_arrive()
                        && target.env.now() < sent.after(linger)
                    {
                        Cleanup::unconnected(&target, &token, sent);
                    }
                    return DeleteResult { answer, unanswered };
                }
                Err(_) if attempt == RELEASE_TRIES => return DeleteResult { answer, unanswered },
                Err(error) if error.is_indeterminate() => {
                    unanswered.get_or_insert(error.clone());
                }
                Err(_) => {}
            }
            target.env.sleep(target.options.call_timeout() / 4).await;
        }
        unreachable!("the last try returns")
    }
}
