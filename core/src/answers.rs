//! Several nodes asked at once, and answered for as soon as enough of them have answered.
//!
//! Invariant: every node is asked before anything is decided, and what has not answered by then can be let go on
//! to its end: dropping a call recalls nothing, and its answer tells the world what became of it. Deliberately
//! absent: what answers mean.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What nodes have answered so far, each at its place.
pub(crate) struct Answers<T> {
    open: Vec<Option<Asking<T>>>,
    said: Vec<Option<T>>,
}

/// The wait for an answer.
pub(crate) type Asking<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T> Answers<T> {
    /// Nobody has been asked yet.
    pub(crate) fn of<F>(asked: impl IntoIterator<Item = F>) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let open: Vec<_> = asked.into_iter().map(|it| Some(Box::pin(it) as Asking<T>)).collect();
        let said = open.iter().map(|_| None).collect();
        Self { open, said }
    }

    /// What has been said.
    pub(crate) fn said(&self) -> &[Option<T>] {
        &self.said
    }

    /// Asks all, and waits until what has been said decides.
    pub(crate) async fn until<R>(&mut self, decide: impl Fn(&[Option<T>]) -> Option<R>) -> R {
        poll_fn(|cx| {
            self.poll_all(cx);
            decide(&self.said).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// What has been said, and the wait for it where nothing has been yet.
    pub(crate) fn into_each(self) -> impl Iterator<Item = Result<T, Asking<T>>> {
        self.said.into_iter().zip(self.open).filter_map(|(said, open)| match (said, open) {
            (Some(said), _) => Some(Ok(said)),
            (None, open) => open.map(Err),
        })
    }

    /// The wait for all who have not answered; none where all have.
    pub(crate) fn rest(self) -> Option<impl Future<Output = ()> + use<T>> {
        let mut open: Vec<_> = self.open.into_iter().flatten().collect();
        let wait = poll_fn(move |cx| {
            open.retain_mut(|it| it.as_mut().poll(cx).is_pending());
            if open.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        });
        self.said.iter().any(Option::is_none).then_some(wait)
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) {
        for (open, said) in self.open.iter_mut().zip(&mut self.said) {
            if let Some(asking) = open
                && let Poll::Ready(answer) = asking.as_mut().poll(cx)
            {
                (*open, *said) = (None, Some(answer));
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

    type Desk = Arc<Mutex<[Option<u32>; 3]>>;

    /// Three who answer once their place on the desk has something; how often each was asked.
    fn three() -> (Desk, Arc<[AtomicU32; 3]>, Answers<u32>) {
        let (desk, asked) = (Desk::default(), Arc::<[AtomicU32; 3]>::default());
        let answers = Answers::of((0..3).map(|place| {
            let (desk, asked) = (Arc::clone(&desk), Arc::clone(&asked));
            poll_fn(move |_| {
                asked[place].fetch_add(1, Ordering::Relaxed);
                desk.lock().unwrap()[place].map_or(Poll::Pending, Poll::Ready)
            })
        }));
        (desk, asked, answers)
    }

    fn two(said: &[Option<u32>]) -> Option<u32> {
        let there: Vec<u32> = said.iter().flatten().copied().collect();
        (there.len() >= 2).then(|| there.iter().sum())
    }

    #[test]
    fn all_are_asked_before_anything_is_decided() {
        let (desk, asked, mut answers) = three();
        *desk.lock().unwrap() = [Some(1), Some(2), None];
        let decided = World::new().poll_and_drop(answers.until(two));
        assert_eq!(decided, Some(3));
        assert!(asked.iter().all(|it| it.load(Ordering::Relaxed) == 1), "{asked:?}");
        assert_eq!(answers.said(), [Some(1), Some(2), None]);
    }

    #[test]
    fn it_is_decided_as_soon_as_enough_have_answered_and_not_before() {
        let (desk, _, mut answers) = three();
        let world = World::new();
        assert_eq!(world.poll_and_drop(answers.until(two)), None);
        desk.lock().unwrap()[2] = Some(5);
        assert_eq!(world.poll_and_drop(answers.until(two)), None);
        desk.lock().unwrap()[0] = Some(1);
        assert_eq!(world.poll_and_drop(answers.until(two)), Some(6));
    }

    #[test]
    fn who_has_not_answered_is_waited_for_to_the_end_and_nobody_else() {
        let (desk, asked, mut answers) = three();
        *desk.lock().unwrap() = [Some(1), None, Some(2)];
        let world = World::new();
        assert_eq!(world.poll_and_drop(answers.until(two)), Some(3));
        let mut rest = Box::pin(answers.rest().expect("one has not answered"));
        assert_eq!(world.poll_and_drop(rest.as_mut()), None);
        desk.lock().unwrap()[1] = Some(7);
        assert_eq!(world.poll_and_drop(rest), Some(()));
        let counts: Vec<u32> = asked.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [1, 3, 1]);
        let (desk, _, mut answers) = three();
        *desk.lock().unwrap() = [Some(1); 3];
        assert_eq!(world.poll_and_drop(answers.until(two)), Some(3));
        assert!(answers.rest().is_none());
    }
}
