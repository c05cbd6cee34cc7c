//! A lease on several nodes: renewed and released on all of them, at once.
//!
//! Invariant: a quorum decides, as soon as it can; who is late is waited for in the background, so that a dead
//! node delays nobody. What is asked comes behind the acquisition, and a node that was never asked for the lock is
//! asked nothing: nothing of ours is there. Deliberately absent: nodes beyond those of the acquisition.

use std::pin::pin;
use std::sync::Arc;

use super::{Lease, RELEASE_TRIES, Seat};
use crate::answers::Answers;
use crate::env::{CallError, Env, Mark, Phase};
use crate::lock::Released;
use crate::quorum::decide;
use crate::target::Found;
use crate::timeout::race;
use crate::token::OwnerToken;

impl<E: Env> Lease<E> {
    fn seats(&self) -> impl Iterator<Item = Seat<E>> {
        let first = Seat { target: Arc::clone(&self.target), link: Arc::clone(&self.link) };
        std::iter::once(first).chain(self.others.iter().cloned())
    }

    /// Asks every node for another whole TTL.
    pub(super) async fn extend_everywhere(self: &Arc<Self>) -> Result<Found, CallError> {
        let asked = self.seats().map(|seat| seat.extend(self.token.clone()));
        let mut answers = Answers::of(asked);
        let decided = answers.until(|said| decide(said.iter().map(Option::as_ref))).await;
        if let Some(rest) = answers.rest() {
            let lease = Arc::clone(self);
            let late = async move {
                race(pin!(rest), pin!(lease.over())).await;
            };
            self.target.begin("the renewal on a late node", late);
        }
        decided
    }

    /// Deletes the key on every node.
    pub(super) async fn release_everywhere(&self) -> Released {
        self.target.env.mark(Mark::Phase(Phase::ReleaseBeforeDelete));
        let asked = self.seats().map(|seat| seat.delete(self.token.clone()));
        let mut answers = Answers::of(asked);
        let decided = answers
            .until(|said| decide(said.iter().map(|it| it.as_ref().map(|it| &it.answer))))
            .await;
        let unanswered = answers.said().iter().flatten().find_map(|it| it.unanswered.clone());
        if let Some(rest) = answers.rest() {
            self.target.begin("the release on a late node", rest);
        }
        match decided {
            Ok(found) => self.judge(found, unanswered),
            Err(error) => Released::Unknown(error),
        }
    }
}

/// What came of the deletion on one node.
struct Deleted {
    answer: Result<Found, CallError>,
    /// The first try without an answer.
    unanswered: Option<CallError>,
}

impl<E: Env> Seat<E> {
    async fn extend(self, token: OwnerToken) -> Result<Found, CallError> {
        if !self.link.is_sent() {
            return Ok(Found::Missing);
        }
        self.target.compare_and_extend(&self.link, &token).await.1
    }

    /// A deletion without an answer is tried again, a few times.
    async fn delete(self, token: OwnerToken) -> Deleted {
        let Self { target, link } = self;
        let mut unanswered = None;
        if !link.was_sent().await {
            return Deleted { answer: Ok(Found::Missing), unanswered };
        }
        for attempt in 1.. {
            let answer = target.give_up(&link, &token).await.1;
            match &answer {
                Ok(_) => return Deleted { answer, unanswered },
                Err(_) if attempt == RELEASE_TRIES => return Deleted { answer, unanswered },
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

impl<E: Env> Clone for Seat<E> {
    fn clone(&self) -> Self {
        Self { target: Arc::clone(&self.target), link: Arc::clone(&self.link) }
    }
}
