//! Tasks that outlive the call that started them: releases, clean-ups, and late nodes of a quorum.
//!
//! Invariant: a task is counted from its start to its end, also when it is dropped unfinished, as by a
//! runtime that shuts down; that is logged, because a key may then stay. Watchdogs are not counted: they
//! last as long as their guards.

use std::fmt::Display;
use std::sync::Arc;

use crate::env::Env;
use crate::watch_cell::WatchCell;

/// How many tasks are running. Cloning gives another handle to the same count.
#[derive(Clone)]
pub(crate) struct Background(Arc<WatchCell<usize>>);

impl Default for Background {
    fn default() -> Self {
        Self(Arc::new(WatchCell::new(0)))
    }
}

impl Background {
    /// Waits until no task is running.
    pub(crate) async fn drained(&self) {
        self.0.until(|count| (*count == 0).then_some(())).await;
    }

    /// Runs `work` as a task; `lock` and `what` name it in the log.
    pub(crate) fn spawn<E: Env>(
        &self,
        env: &E,
        lock: impl Display + Send + 'static,
        what: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.0.with(|count| *count += 1);
        let task = CountedTask { background: self.clone(), lock, what, finished: false };
        env.spawn(async move {
            work.await;
            task.finish();
        });
    }
}

/// Counts a task down when it ends or is dropped.
struct CountedTask<D: Display> {
    background: Background,
    lock: D,
    what: &'static str,
    finished: bool,
}

impl<D: Display> CountedTask<D> {
    fn finish(mut self) {
        self.finished = true;
    }
}

impl<D: Display> Drop for CountedTask<D> {
    fn drop(&mut self) {
        if !self.finished {
            tracing::warn!(
                key = %self.lock,
                "{} was dropped before it ended, as by a runtime that shuts down; the key may stay until its ttl \
                 is over: await `release` or `drain` before the runtime ends",
                self.what
            );
        }
        self.background.0.change(|count| {
            *count -= 1;
            ((), *count == 0)
        });
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::task::Poll;

    use super::*;
    use crate::testing::{MS, World};

    #[test]
    fn it_is_drained_when_all_have_ended_and_not_before() {
        let world = World::new();
        let (env, background) = (world.env(), Background::default());
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
        let (env, background) = (world.env(), Background::default());
        background.spawn(&env, "k", "begun", poll_fn(|_| Poll::Pending));
        world.advance(MS);
        background.spawn(&env, "k", "never polled", pending());
        assert_eq!(world.poll_and_drop(background.drained()), None);
        world.drop_tasks();
        assert_eq!(world.poll_and_drop(background.drained()), Some(()));
    }
}
