//! How long the threads of a process have waited for a processor: what a busy machine does to a program.
//!
//! Invariant: a thread that sleeps, or stands still because it was stopped, does not wait. Where the kernel does not tell
//! (no `CONFIG_SCHED_INFO`), nothing has waited.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long each thread of a process, and of what it has started, has waited for a processor so far.
#[derive(Clone, Debug, Default)]
pub struct RunDelays(BTreeMap<u32, Duration>);

impl RunDelays {
    /// Those of this process.
    pub(crate) fn of(pid: i32) -> Self {
        let mut delays = Self::default();
        let mut processes = vec![pid.to_string()];
        while let Some(process) = processes.pop() {
            for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten() {
                let Ok(thread) = thread else { continue };
                let path = thread.path();
                let name = thread.file_name();
                // A thread that has ended meanwhile has no files any more.
                let delay = fs::read_to_string(path.join("schedstat")).ok();
                let delay = delay.and_then(|it| it.split(' ').nth(1)?.parse().ok());
                if let (Some(ns), Some(Ok(id))) = (delay, name.to_str().map(str::parse)) {
                    delays.0.insert(id, Duration::from_nanos(ns));
                }
                processes.extend(children(&path));
            }
        }
        delays
    }

    /// The longest that one thread has waited since `before`.
    pub fn longest_since(&self, before: &Self) -> Duration {
        let since = |(id, now): (&u32, &Duration)| {
            now.saturating_sub(before.0.get(id).copied().unwrap_or_default())
        };
        self.0.iter().map(since).max().unwrap_or_default()
    }
}

/// The processes that this thread has started.
fn children(thread: &Path) -> Vec<String> {
    let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
    children.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_threads_the_one_that_waited_longest_counts() {
        let delays = |all: &[(u32, u64)]| {
            RunDelays(all.iter().map(|(id, ms)| (*id, Duration::from_millis(*ms))).collect())
        };
        let before = delays(&[(1, 70), (2, 5)]);
        let after = delays(&[(1, 90), (2, 5), (3, 40)]);
        assert_eq!(after.longest_since(&before), Duration::from_millis(40), "a new thread");
        assert_eq!(before.longest_since(&before), Duration::ZERO);
        assert_eq!(before.longest_since(&RunDelays::default()), Duration::from_millis(70));
    }
}
