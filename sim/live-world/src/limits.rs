//! Enough file descriptors for the clients of a run.
//!
//! Invariant: what the runs of this process have reserved together never exceeds its limit; only its soft limit is
//! raised, never beyond the hard one. Servers inherit the limit and complain in their own logs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::Notify;

/// What the process needs besides connections: files, pipes, event loops, servers.
pub const BESIDES: u64 = 128;
/// A connection to another process: the client's socket, and two of the proxy's.
const ENDS: u64 = 3;
/// How many connections may be made again, in a run without faults, before the old ones have ended. The
/// proxy accepts no more at a time; further ones wait, as at a server that is slow to accept.
const STEADY_RECONNECTS: u64 = 64;

/// Why there are not enough file descriptors.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The hard limit is too low.
    #[error(
        "{needed} open files are needed, but the limit is {hard}: \
         run `ulimit -n {needed}` as a user who may raise it, or use fewer clients"
    )]
    TooLow {
        /// What the run needs.
        needed: u64,
        /// The hard limit.
        hard: u64,
    },
    /// The system does not say, or does not allow it.
    #[error("cannot set the limit of open files: {0}; run `ulimit -n` to see it")]
    System(Errno),
}

/// The links of a run's clients to servers, and what they need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Links to servers that are processes of their own: a listener each.
    pub external: u64,
    /// Links to servers within this process, which has both ends of each connection.
    pub in_process: u64,
    /// Connections that are open on each link all the time: one, and another if waiters listen.
    pub each: u64,
    /// Whether faults are staged, which may make all connect again at once.
    pub faults: bool,
}

impl Links {
    /// The most descriptors that a connection takes.
    fn ends(self) -> u64 {
        ENDS + u64::from(self.in_process > 0)
    }

    fn connections(self) -> u64 {
        (self.external + self.in_process) * self.each
    }

    /// What is open while nobody reconnects.
    fn steady(self) -> u64 {
        let listeners = self.external + self.in_process;
        listeners + self.connections() * ENDS + self.in_process * self.each
    }

    /// The least that is needed, without [`BESIDES`].
    pub fn needed(self) -> u64 {
        let all = self.connections();
        let reconnects = if self.faults { all } else { all.min(STEADY_RECONNECTS) };
        self.steady() + reconnects * self.ends()
    }

    /// The most that can be used: every connection is made again at once.
    fn wanted(self) -> u64 {
        Self { faults: true, ..self }.needed()
    }

    /// How many connections may be open at once with this many descriptors.
    fn room(self, files: u64) -> usize {
        let reconnects = files.saturating_sub(self.steady()) / self.ends();
        usize::try_from(self.connections() + reconnects).unwrap_or(usize::MAX)
    }
}

/// What the runs of this process have reserved together.
static RESERVED: Mutex<u64> = Mutex::new(0);
/// Signals that a run has released what it had reserved.
static RELEASED: Notify = Notify::const_new();

fn reserved() -> MutexGuard<'static, u64> {
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Descriptors that a run may use until this is dropped.
#[derive(Debug)]
pub struct Files {
    files: u64,
    links: Links,
}

impl Files {
    /// Reserves what the links of a run need, and more if there is more; waits while other runs of this
    /// process have it.
    ///
    /// # Errors
    /// [`LimitError`] with what to do, if there would not be enough for this run alone.
    pub async fn reserve(links: Links) -> Result<Self, LimitError> {
        loop {
            let released = RELEASED.notified();
            let found = Self::now(links, &mut reserved());
            match found {
                Ok(Some(files)) => return Ok(files),
                Ok(None) => released.await,
                Err(error) => return Err(error),
            }
        }
    }

    /// None if it has to wait for others.
    fn now(links: Links, reserved: &mut u64) -> Result<Option<Self>, LimitError> {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(LimitError::System)?;
        let Some(files) = share(links, hard, *reserved)? else { return Ok(None) };
        ensure_open_files(files + *reserved + BESIDES)?;
        *reserved += files;
        Ok(Some(Self { files, links }))
    }

    /// How many connections may be open at once.
    pub fn room(&self) -> usize {
        self.links.room(self.files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        *reserved() -= self.files;
        RELEASED.notify_waiters();
    }
}

/// What links get of a limit `hard` of which `reserved` are taken; none if that is too little for now.
fn share(links: Links, hard: u64, reserved: u64) -> Result<Option<u64>, LimitError> {
    let needed = links.needed() + BESIDES;
    if hard < needed {
        return Err(LimitError::TooLow { needed, hard });
    }
    let left = (hard - BESIDES).saturating_sub(reserved);
    Ok((left >= links.needed()).then(|| links.wanted().min(left)))
}

/// Makes sure that this process may open `needed` files; gives the soft limit now in force.
///
/// # Errors
/// [`LimitError`] with what to do.
pub fn ensure_open_files(needed: u64) -> Result<u64, LimitError> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(LimitError::System)?;
    if soft >= needed {
        return Ok(soft);
    }
    if hard < needed {
        return Err(LimitError::TooLow { needed, hard });
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(LimitError::System)?;
    Ok(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_up_to_the_hard_one_and_no_further() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(ensure_open_files(soft), Ok(soft));
        if soft < hard {
            assert_eq!(ensure_open_files(soft + 1), Ok(soft + 1));
        }
        if let Some(needed) = hard.checked_add(1) {
            let error = ensure_open_files(needed).unwrap_err();
            assert_eq!(error, LimitError::TooLow { needed, hard });
            assert!(error.to_string().contains(&format!("ulimit -n {needed}")));
        }
    }

    #[test]
    fn a_link_takes_four_and_more_if_its_server_is_in_this_process_or_waiters_listen() {
        let steady = Links { external: 1_000, each: 1, ..Links::default() };
        assert_eq!(steady.needed(), 4_000 + 3 * STEADY_RECONNECTS);
        assert_eq!(Links { faults: true, ..steady }.needed(), 7_000);
        assert_eq!(Links { each: 2, ..steady }.needed(), 7_000 + 3 * STEADY_RECONNECTS);
        let in_process = Links { external: 0, in_process: 1_000, ..steady };
        assert_eq!(in_process.needed(), 5_000 + 4 * STEADY_RECONNECTS);
        let few = Links { external: 2, ..steady };
        assert_eq!(few.needed(), 8 + 6, "no more are made again than there are");
    }

    #[test]
    fn runs_get_what_they_need_and_more_while_there_is_some() {
        let links = Links { external: 100, each: 1, ..Links::default() };
        let (needed, wanted) = (links.needed(), links.wanted());
        assert!(needed < wanted, "{needed} {wanted}");
        let too_low = share(links, needed + BESIDES - 1, 0).unwrap_err();
        let hard = needed + BESIDES - 1;
        assert_eq!(too_low, LimitError::TooLow { needed: needed + BESIDES, hard });
        assert_eq!(share(links, needed + BESIDES, 0), Ok(Some(needed)));
        assert_eq!(share(links, wanted + BESIDES + 9, 0), Ok(Some(wanted)));
        assert_eq!(share(links, needed + BESIDES, 1), Ok(None), "it waits for the other");
        assert_eq!((links.room(needed), links.room(wanted)), (100 + 64, 200));
    }

    #[tokio::test]
    async fn what_one_run_releases_the_next_one_gets() {
        let links = Links { external: 2, each: 1, ..Links::default() };
        // Each reservation is released before the next one.
        for _ in 0..3 {
            let files = Files::reserve(links).await.unwrap();
            assert_eq!((files.files, files.room()), (14, 4));
        }
    }
}
