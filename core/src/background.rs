//! Tasks that locks leave to the background: releases, clean-ups, and nodes that are late to answer.
//!
//! Invariant: what has been begun is counted until it has ended, also where its task is dropped unfinished, as by
//! a runtime that ends; that is told, for then a key may stay. Deliberately absent: watchdogs, which last as long
//! as their guards.

use std::future::Future;
use std::sync::Arc;

use crate::env::Env;
use crate::target::Target;
use crate::watched::Watched;

/// How many tasks are under way. Cloning gives another handle to the same.
#[derive(Clone)]
pub(crate) struct Background(Arc<Watched<usize>>);

impl Default for Background {
    fn default() -> Self {
        Self(Arc::new(Watched::new(0)))
    }
}

impl Background {
    /// Waits until nothing is under way.
    pub(crate) async fn drained(&self) {
        self.0.until(|count| (*count == 0).then_some(())).await;
    }
}

impl<E: Env> Target<E> {
    /// Begins `work`, which `what` names, as a task.
    pub(crate) fn begin(
        self: &Arc<Self>,
        what: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.background.0.with(|count| *count += 1);
        let begun = Begun { target: Arc::clone(self), what, ended: false };
        self.env.spawn(async move {
            work.await;
            begun.end();
        });
    }
}

/// A task that has been begun.
struct Begun<E: Env> {
    target: Arc<Target<E>>,
    what: &'static str,
    ended: bool,
}

impl<E: Env> Begun<E> {
    fn end(mut self) {
        self.ended = true;
    }
}

impl<E: Env> Drop for Begun<E> {
    fn drop(&mut self) {
        if !self.ended {
            tracing::warn!(
                key = %self.target.key_text(),
                "{} was dropped before it ended, as by a runtime that shuts down; the key may stay until its ttl \
                 is over: await `release` or `drain` before the runtime ends",
                self.what
            );
        }
        self.target.background.0.change(|count| {
            *count -= 1;
            ((), *count == 0)
        });
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::task::Poll;
    use std::time::Duration;

    use super::*;
    use crate::env::Node;
    use crate::options::Options;
    use crate::target::Common;
    use crate::testing::{MS, TestEnv, World};

    fn target(world: &World) -> Arc<Target<TestEnv>> {
        let options = Options::builder(Duration::from_secs(1)).build().unwrap();
        let target = Target::new(world.env(), Node(0), *b"k", options, Common::default());
        Arc::new(target.unwrap())
    }

    #[test]
    fn it_is_drained_when_all_have_ended_and_not_before() {
        let world = World::new();
        let target = target(&world);
        let drained = || world.poll_and_drop(target.background.drained());
        assert_eq!(drained(), Some(()));
        target.begin("one", ready(()));
        let env = world.env();
        target.begin("the other", async move { env.sleep(5 * MS).await });
        assert_eq!(drained(), None);
        world.advance(4 * MS);
        assert_eq!(drained(), None);
        world.advance(MS);
        assert_eq!(drained(), Some(()));
    }

    #[test]
    fn what_is_dropped_unfinished_is_under_way_no_more() {
        let world = World::new();
        let target = target(&world);
        target.begin("begun", poll_fn(|_| Poll::Pending));
        world.advance(MS);
        target.begin("never polled", pending());
        assert_eq!(world.poll_and_drop(target.background.drained()), None);
        world.drop_tasks();
        assert_eq!(world.poll_and_drop(target.background.drained()), Some(()));
    }
}
