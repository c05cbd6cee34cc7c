//! A lease on several nodes: renewed and released on all of them, at once.
//!
//! Invariant: a quorum decides, and a node that has not answered is asked again only about what can be
//! asked twice. Deliberately absent: nodes beyond those of the acquisition.

use super::{Lease, RELEASE_TRIES};
use crate::env::{CallError, Env, Mark, Phase};
use crate::link::Link;
use crate::lock::Released;
use crate::quorum::decide;
use crate::target::{Found, Target};
use crate::timeout::all;

impl<E: Env> Lease<E> {
    fn nodes(&self) -> impl Iterator<Item = (&Target<E>, &Link<E::Conn>)> {
        let others = self.others.iter().map(|seat| (&*seat.target, &seat.link));
        std::iter::once((&*self.target, &self.link)).chain(others)
    }

    /// Asks every node for another whole TTL.
    pub(super) async fn extend_everywhere(&self) -> Result<Found, CallError> {
        let asked = self.nodes().map(|(target, link)| Box::pin(self.extend_on(target, link)));
        decide(&all(asked.collect()).await)
    }

    async fn extend_on(
        &self,
        target: &Target<E>,
        link: &Link<E::Conn>,
    ) -> Result<Found, CallError> {
        target.compare_and_extend(link, &self.token).await.1
    }

    async fn delete_on(
        &self,
        target: &Target<E>,
        link: &Link<E::Conn>,
    ) -> Result<Found, CallError> {
        target.give_up(link, &self.token).await.1
    }

    /// Deletes the key on every node. Once a quorum has done so the release is told, and the rest is
    /// still asked.
    pub(super) async fn release_everywhere(&self) -> Released {
        let silent = || Err(CallError::NotSent("not asked".into()));
        let mut answers: Vec<Result<Found, CallError>> = self.nodes().map(|_| silent()).collect();
        let mut unanswered = None;
        for attempt in 1..=RELEASE_TRIES {
            self.target.env.mark(Mark::Phase(Phase::ReleaseBeforeDelete));
            let open: Vec<bool> = answers.iter().map(Result::is_err).collect();
            let nodes = self.nodes().zip(&open).filter(|(_, open)| **open);
            let asked = nodes.map(|((target, link), _)| Box::pin(self.delete_on(target, link)));
            let said = all(asked.collect()).await;
            let places: Vec<usize> = (0..answers.len()).filter(|place| open[*place]).collect();
            for (place, answer) in places.into_iter().zip(said) {
                if let Err(error) = &answer
                    && error.is_indeterminate()
                {
                    unanswered.get_or_insert(error.clone());
                }
                answers[place] = answer;
            }
            if decide(&answers) == Ok(Found::Own) {
                self.hold.released(Released::Released);
            }
            if answers.iter().all(Result::is_ok) {
                break;
            }
            if attempt < RELEASE_TRIES {
                self.target.env.sleep(self.target.options.call_timeout() / 4).await;
            }
        }
        match decide(&answers) {
            Ok(found) => self.judge(found, unanswered),
            Err(error) => Released::Unknown(error),
        }
    }
}
