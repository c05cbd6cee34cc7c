//! Threads that do the same work, each a share of it.
//!
//! Invariant: all of them begin, or none does. Where one cannot be made the others end at once, and leave the memory that
//! the message about it needs.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{Builder, scope};

use memmap2::MmapOptions;

/// Address space, in bytes, that must be free before a thread is made: where a thread finds too little for what the runtime
/// needs beside its stack, the runtime aborts the process.
const SPARE: usize = 8 << 20;

/// Why there are not so many threads.
#[derive(Debug, thiserror::Error)]
#[error(
    "this machine starts only {started} of {asked} threads: {source}; ask for fewer with --threads, or raise the limit \
     (ulimit -u, ulimit -v)"
)]
pub struct ThreadsError {
    asked: usize,
    started: usize,
    source: io::Error,
}

/// Does this work on so many threads, one at least, and waits for all of them.
///
/// # Errors
/// [`ThreadsError`] where there cannot be so many; then no work is done.
pub(crate) fn on_threads(threads: usize, work: impl Fn() + Sync) -> Result<(), ThreadsError> {
    on_threads_of(&Builder::new, threads, work)
}

/// Works on each item, in their order, on so many threads: each has a worker of its own and takes the next item when it has
/// done one. A worker that returns nothing ends its thread. The results are in the order of the items, with nothing for
/// those that no worker has done.
///
/// # Errors
/// [`ThreadsError`] where there cannot be so many; then no work is done.
pub fn map_on_threads<T: Sync, R: Send, F: FnMut(usize, &T) -> Option<R>>(
    threads: usize,
    items: &[T],
    worker: impl Fn() -> F + Sync,
) -> Result<Vec<Option<R>>, ThreadsError> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    on_threads(threads.min(items.len()), || {
        let mut work = worker();
        let mut take = || {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let result = work(place, items.get(place)?)?;
            results.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(result);
            Some(())
        };
        while take().is_some() {}
    })?;
    Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn on_threads_of(
    builder: &dyn Fn() -> Builder,
    threads: usize,
    work: impl Fn() + Sync,
) -> Result<(), ThreadsError> {
    let (asked, all_are_there) = (threads.max(1), OnceLock::new());
    let (tell, begun) = sync_channel(1);
    scope(|scope| {
        let begin = || {
            // Nobody stops listening before all have told.
            let _ = tell.send(());
            if *all_are_there.wait() {
                work();
            }
        };
        let spawn = |started| {
            let spawned = spare().and_then(|()| builder().spawn_scoped(scope, begin));
            spawned.map_err(|source| ThreadsError { asked, started, source })?;
            // The next is made when this one has taken the memory that it needs to begin.
            let _ = begun.recv();
            Ok(())
        };
        let spawned = (0..asked).try_for_each(spawn);
        // Nobody else sets it.
        let _ = all_are_there.set(spawned.is_ok());
        spawned
    })
}

/// Asks the system for address space, as an allocator may still have some, and gives it back.
fn spare() -> io::Result<()> {
    MmapOptions::new().len(SPARE).map_anon().map(drop)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn all_work_and_at_least_one() {
        for (threads, expected) in [(0, 1), (1, 1), (7, 7)] {
            let done = AtomicUsize::new(0);
            on_threads(threads, || _ = done.fetch_add(1, Ordering::Relaxed)).unwrap();
            assert_eq!(done.into_inner(), expected);
        }
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        let doubled = map_on_threads(3, &items, || |place, it: &usize| Some(place + it)).unwrap();
        assert!(doubled.into_iter().eq((0..100).map(|it| Some(2 * it))));
        let until_third = || |_: usize, it: &usize| (*it < 3).then_some(*it);
        let some = map_on_threads(1, &items[..5], until_third).unwrap();
        assert_eq!(some, [Some(0), Some(1), Some(2), None, None]);
    }

    #[test]
    fn where_one_cannot_be_made_none_works() {
        let (made, done) = (Cell::new(0), AtomicUsize::new(0));
        // The fourth has a stack that no machine has.
        let builder = || {
            made.set(made.get() + 1);
            Builder::new().stack_size(if made.get() == 4 { usize::MAX >> 1 } else { 1 << 16 })
        };
        let error = on_threads_of(&builder, 9, || _ = done.fetch_add(1, Ordering::Relaxed));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("this machine starts only 3 of 9 threads: "), "{error}");
        assert_eq!(done.into_inner(), 0);
    }
}
