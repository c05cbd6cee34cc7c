//! The runtimes in which an environment was used, for tasks and timers that are started outside of any.
//!
//! Invariant: a runtime that has ended is not used while another is known that has not.

use std::future::pending;
use std::sync::Mutex;

use tokio::runtime::Handle;

use crate::sync::lock;

/// The runtimes in the order of their first use. Those that have ended are forgotten when another is added.
#[derive(Default)]
pub(super) struct Runtimes(Mutex<Vec<Handle>>);

impl Runtimes {
    /// Remembers a runtime.
    pub(super) fn add(&self, runtime: Handle) {
        let mut known = lock(&self.0);
        // Nearly always it is the only one.
        if known.iter().any(|it| it.id() == runtime.id()) {
            return;
        }
        known.retain(|it| !has_ended(it));
        known.push(runtime);
    }

    /// The latest that has not ended; none if all have.
    pub(super) fn latest(&self) -> Option<Handle> {
        let known = lock(&self.0).clone();
        known.into_iter().rev().find(|it| !has_ended(it))
    }
}

/// A runtime does not report that it has ended, but from then on it ends every new task at once.
fn has_ended(runtime: &Handle) -> bool {
    let probe = runtime.spawn(pending::<()>());
    let ended = probe.is_finished();
    probe.abort();
    ended
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtimes() -> [Runtime; 2] {
        let threads = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        [threads, Builder::new_current_thread().build().unwrap()]
    }

    #[test]
    fn the_latest_runtime_that_has_not_ended_is_used() {
        for first in runtimes() {
            for second in runtimes() {
                let known = Runtimes::default();
                assert!(known.latest().is_none());
                let ids = [first.handle().id(), second.handle().id()];
                let latest = || known.latest().map(|it| it.id());
                known.add(first.handle().clone());
                known.add(second.handle().clone());
                known.add(first.handle().clone());
                assert_eq!(latest(), Some(ids[1]));
                drop(second);
                assert_eq!(latest(), Some(ids[0]));
            }
            let known = Runtimes::default();
            known.add(first.handle().clone());
            drop(first);
            assert!(known.latest().is_none());
            let [next, _] = runtimes();
            known.add(next.handle().clone());
            assert_eq!(lock(&known.0).len(), 1, "an ended one is forgotten");
        }
    }
}
