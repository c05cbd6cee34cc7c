//! Calls to several nodes at once, until enough of them have been answered.
//!
//! Invariant: every call is started before anything is decided, and calls without an answer by then can be
//! completed afterwards. They should be: dropping a call does not cancel its command, and only its answer
//! tells whether the command was carried out.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Calls to several nodes, and their answers so far, in the order of the nodes.
pub(crate) struct FanOut<T> {
    pending: Vec<Option<PendingReply<T>>>,
    received: Vec<Option<T>>,
}

/// The wait for an answer.
pub(crate) type PendingReply<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T> Default for FanOut<T> {
    /// No calls.
    fn default() -> Self {
        Self { pending: Vec::new(), received: Vec::new() }
    }
}

impl<T> FanOut<T> {
    /// These calls, none of them started yet.
    pub(crate) fn of<F>(calls: impl IntoIterator<Item = F>) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let pending: Vec<_> =
            calls.into_iter().map(|it| Some(Box::pin(it) as PendingReply<T>)).collect();
        let received = pending.iter().map(|_| None).collect();
        Self { pending, received }
    }

    /// The answers so far.
    pub(crate) fn received(&self) -> &[Option<T>] {
        &self.received
    }

    /// Starts all calls, and waits until `decide` gives a result for the answers so far.
    pub(crate) async fn until<R>(&mut self, decide: impl Fn(&[Option<T>]) -> Option<R>) -> R {
        poll_fn(|cx| {
            self.poll_all(cx);
            decide(&self.received).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Each answer, or the wait for it.
    pub(crate) fn into_each(self) -> impl Iterator<Item = Result<T, PendingReply<T>>> {
        self.received.into_iter().zip(self.pending).filter_map(|(answer, pending)| {
            match (answer, pending) {
                (Some(answer), _) => Some(Ok(answer)),
                (None, pending) => pending.map(Err),
            }
        })
    }

    /// The wait for all missing answers; none if no answer is missing.
    pub(crate) fn rest(self) -> Option<impl Future<Output = ()> + use<T>> {
        let mut pending = self.pending;
        let wait = poll_fn(move |cx| {
            pending.retain_mut(|it| match it {
                Some(it) => it.as_mut().poll(cx).is_pending(),
                None => false,
            });
            if pending.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        });
        self.received.iter().any(Option::is_none).then_some(wait)
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) {
        for (pending, received) in self.pending.iter_mut().zip(&mut self.received) {
            if let Some(reply) = pending
                && let Poll::Ready(answer) = reply.as_mut().poll(cx)
            {
                // A future that is ready must not be polled again.
                (*pending, *received) = (None, Some(answer));
            }
        }
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::testing::World;

    type Inboxes = Arc<Mutex<[Option<u32>; 3]>>;

    /// Three calls that are answered once their inbox has something; how often each was polled.
    fn three() -> (Inboxes, Arc<[AtomicU32; 3]>, FanOut<u32>) {
        let (inboxes, polled) = (Inboxes::default(), Arc::<[AtomicU32; 3]>::default());
        let fan_out = FanOut::of((0..3).map(|place| {
            let (inboxes, polled) = (Arc::clone(&inboxes), Arc::clone(&polled));
            poll_fn(move |_| {
                polled[place].fetch_add(1, Ordering::Relaxed);
                inboxes.lock().unwrap()[place].map_or(Poll::Pending, Poll::Ready)
            })
        }));
        (inboxes, polled, fan_out)
    }

    fn two(received: &[Option<u32>]) -> Option<u32> {
        let there: Vec<u32> = received.iter().flatten().copied().collect();
        (there.len() >= 2).then(|| there.iter().sum())
    }

    #[test]
    fn all_are_asked_before_anything_is_decided() {
        let (inboxes, polled, mut fan_out) = three();
        *inboxes.lock().unwrap() = [Some(1), Some(2), None];
        let decided = World::new().poll_and_drop(fan_out.until(two));
        assert_eq!(decided, Some(3));
        assert!(polled.iter().all(|it| it.load(Ordering::Relaxed) == 1), "{polled:?}");
        assert_eq!(fan_out.received(), [Some(1), Some(2), None]);
    }

    #[test]
    fn it_is_decided_as_soon_as_enough_have_answered_and_not_before() {
        let (inboxes, _, mut fan_out) = three();
        let world = World::new();
        assert_eq!(world.poll_and_drop(fan_out.until(two)), None);
        inboxes.lock().unwrap()[2] = Some(5);
        assert_eq!(world.poll_and_drop(fan_out.until(two)), None);
        inboxes.lock().unwrap()[0] = Some(1);
        assert_eq!(world.poll_and_drop(fan_out.until(two)), Some(6));
    }

    #[test]
    fn who_has_not_answered_is_waited_for_to_the_end_and_nobody_else() {
        let (inboxes, polled, mut fan_out) = three();
        *inboxes.lock().unwrap() = [Some(1), None, Some(2)];
        let world = World::new();
        assert_eq!(world.poll_and_drop(fan_out.until(two)), Some(3));
        let mut rest = Box::pin(fan_out.rest().expect("one has not answered"));
        assert_eq!(world.poll_and_drop(rest.as_mut()), None);
        inboxes.lock().unwrap()[1] = Some(7);
        assert_eq!(world.poll_and_drop(rest), Some(()));
        let counts: Vec<u32> = polled.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [1, 3, 1]);
        let (inboxes, _, mut fan_out) = three();
        *inboxes.lock().unwrap() = [Some(1); 3];
        assert_eq!(world.poll_and_drop(fan_out.until(two)), Some(3));
        assert!(fan_out.rest().is_none());
    }
}
