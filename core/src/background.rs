//! Tasks that outlive the call that started them: releases, clean-ups, and late nodes of a quorum.
//!
//! Invariant: a task is counted from its start to its end, also when it is dropped unfinished, as by a
//! runtime that shuts down; that is logged, because a key may then stay. Watchdogs are not counted: they
//! last as long as their guards.

use std::fmt::Display;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::counters::Counters;
use crate::env::Env;

impl Counters {
    /// Waits until no task is running.
    pub(crate) async fn drained(&self) {
        self.running().until(|count| (*count == 0).then_some(())).await;
    }

    /// Runs `work` as a task; `lock` and `what` name it in the log.
    pub(crate) fn spawn<E: Env>(
        &self,
        env: &E,
        lock: impl Display + Send + 'static,
        what: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.running().with(|count| *count += 1);
        env.spawn(CountedTask { counters: self.clone(), lock, what, work: Some(work) });
    }

    fn count_down(&self) {
        self.running().change(|count| {
            *count -= 1;
            ((), *count == 0)
        });
    }
}

// Not an `async` block, which would store the work twice: where it is captured and where it is awaited.
pin_project! {
    /// Work that counts as running until it ends or is dropped.
    struct CountedTask<D: Display, W> {
        counters: Counters,
        lock: D,
        what: &'static str,
        // None once it has ended.
        #[pin]
        work: Option<W>,
    }

    impl<D: Display, W> PinnedDrop for CountedTask<D, W> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.work.is_none() {
                return;
            }
            this.work.set(None);
            tracing::warn!(
                key = %this.lock,
                "{} was dropped before it ended, as by a runtime that shuts down; the key may stay until its ttl \
                 is over: await `release` or `drain` before the runtime ends",
                this.what
            );
            this.counters.count_down();
        }
    }
}

impl<D: Display, W: Future<Output = ()>> Future for CountedTask<D, W> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let Some(work) = this.work.as_mut().as_pin_mut() else { return Poll::Ready(()) };
        if work.poll(cx).is_pending() {
            return Poll::Pending;
        }
        this.work.set(None);
        this.counters.count_down();
        Poll::Ready(())
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use std::future::{pending, poll_fn, ready};

    use super::*;
    use crate::testing::{MS, World};

    #[test]
    fn it_is_drained_when_all_have_ended_and_not_before() {
        let world = World::new();
        let (env, background) = (world.env(), Counters::default());
        let drained = || world.poll_and_drop(background.drained());
        assert_eq!(drained(), Some(()));
        background.spawn(&env, "k", "one", ready(()));
        let sleeper = world.env();
        background.spawn(&env, "k", "the other", async move { sleeper.sleep(5 * MS).await });
        assert_eq!(drained(), None);
        world.advance(4 * MS);
        assert_eq!(drained(), None);
        world.advance(MS);
        assert_eq!(drained(), Some(()));
    }

    #[test]
    fn a_task_that_is_dropped_unfinished_no_longer_counts() {
        let world = World::new();
        let (env, background) = (world.env(), Counters::default());
        background.spawn(&env, "k", "begun", poll_fn(|_| Poll::Pending));
        world.advance(MS);
        background.spawn(&env, "k", "never polled", pending());
        assert_eq!(world.poll_and_drop(background.drained()), None);
        world.drop_tasks();
        assert_eq!(world.poll_and_drop(background.drained()), Some(()));
    }
}
