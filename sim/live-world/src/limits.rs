//! Enough file descriptors for the clients of a run.
//!
//! Invariant: what runs of this process have been promised at a time, all together, is never more than its
//! limit allows; only its soft limit is raised, never beyond the hard one. Deliberately absent: the servers'
//! limits; they inherit ours and complain in their own logs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::Notify;

/// What the process needs besides connections: files, pipes, event loops, servers.
pub const BESIDES: u64 = 128;
/// A connection to another process: the client's socket, and two of the proxy's.
const ENDS: u64 = 3;
/// So many connections of a calm run may be made again while those before them have not ended yet. The
/// proxy takes no more at a time; who is too many waits, as at a server that is slow to accept.
const AGAIN_CALM: u64 = 64;

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
    /// The system does not tell, or does not let us.
    #[error("cannot set the limit of open files: {0}; run `ulimit -n` to see it")]
    System(Errno),
}

/// The links of a run's clients to servers, and what they need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Links to servers that are processes of their own: a listener each.
    pub apart: u64,
    /// Links to servers within this process, which has their end of each connection, too.
    pub within: u64,
    /// Connections on each link that are open all the time: one, and another where waiters listen.
    pub each: u64,
    /// Whether faults are staged, by which all may have to connect again at once.
    pub faults: bool,
}

impl Links {
    fn all(self) -> u64 {
        self.apart.saturating_add(self.within)
    }

    /// The most descriptors that a connection takes.
    fn ends(self) -> u64 {
        ENDS + u64::from(self.within > 0)
    }

    fn connections(self) -> u64 {
        self.all().saturating_mul(self.each)
    }

    /// What is open while nothing is made again.
    fn calm(self) -> u64 {
        let ends = self.connections().saturating_mul(ENDS);
        self.all().saturating_add(ends).saturating_add(self.within.saturating_mul(self.each))
    }

    fn with(self, again: u64) -> u64 {
        self.calm().saturating_add(again.saturating_mul(self.ends()))
    }

    /// The least that is needed, without [`BESIDES`].
    pub fn needed(self) -> u64 {
        let calm = self.connections().min(AGAIN_CALM);
        self.with(if self.faults { self.connections() } else { calm })
    }

    /// What is of use: every connection is made again at once.
    fn wanted(self) -> u64 {
        self.with(self.connections())
    }

    /// How many connections may be open at once with so many descriptors.
    fn room(self, files: u64) -> usize {
        let again = files.saturating_sub(self.calm()) / self.ends();
        usize::try_from(self.connections().saturating_add(again)).unwrap_or(usize::MAX)
    }
}

/// What runs have been promised, all together.
static PROMISED: Mutex<u64> = Mutex::new(0);
/// A run has given back what it was promised.
static RETURNED: Notify = Notify::const_new();

fn promised() -> MutexGuard<'static, u64> {
    PROMISED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Descriptors that a run may use until this is dropped.
#[derive(Debug)]
pub struct Files {
    files: u64,
    links: Links,
}

impl Files {
    /// Promises a run what its links need, and more where that is to be had; waits for other runs of this
    /// process where they have it.
    ///
    /// # Errors
    /// [`LimitError`] with what to do, where there would not be enough for this run alone.
    pub async fn promise(links: Links) -> Result<Self, LimitError> {
        loop {
            let returned = RETURNED.notified();
            let found = Self::now(links, &mut promised());
            match found {
                Ok(Some(files)) => return Ok(files),
                Ok(None) => returned.await,
                Err(error) => return Err(error),
            }
        }
    }

    /// None where it has to wait for others.
    fn now(links: Links, promised: &mut u64) -> Result<Option<Self>, LimitError> {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(LimitError::System)?;
        let Some(files) = share(links, hard, *promised)? else { return Ok(None) };
        let all = files + *promised + BESIDES;
        if soft < all {
            setrlimit(Resource::RLIMIT_NOFILE, all, hard).map_err(LimitError::System)?;
        }
        *promised += files;
        Ok(Some(Self { files, links }))
    }

    /// How many connections may be open at once.
    pub fn room(&self) -> usize {
        self.links.room(self.files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        *promised() -= self.files;
        RETURNED.notify_waiters();
    }
}

/// What links get of a limit of which so many are promised; none where that is too little for now.
fn share(links: Links, hard: u64, promised: u64) -> Result<Option<u64>, LimitError> {
    let needed = links.needed().saturating_add(BESIDES);
    if hard < needed {
        return Err(LimitError::TooLow { needed, hard });
    }
    let left = (hard - BESIDES).saturating_sub(promised);
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
    fn a_link_takes_four_and_more_where_its_servers_are_ours_or_waiters_listen() {
        let calm = Links { apart: 1_000, each: 1, ..Links::default() };
        assert_eq!(calm.needed(), 4_000 + 3 * AGAIN_CALM);
        assert_eq!(Links { faults: true, ..calm }.needed(), 7_000);
        assert_eq!(Links { each: 2, ..calm }.needed(), 7_000 + 3 * AGAIN_CALM);
        let within = Links { apart: 0, within: 1_000, ..calm };
        assert_eq!(within.needed(), 5_000 + 4 * AGAIN_CALM);
        let few = Links { apart: 2, ..calm };
        assert_eq!(few.needed(), 8 + 6, "no more are made again than there are");
        assert_eq!(Links { apart: u64::MAX, ..calm }.needed(), u64::MAX);
    }

    #[test]
    fn runs_get_what_they_need_and_more_while_there_is_some() {
        let links = Links { apart: 100, each: 1, ..Links::default() };
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
    async fn what_a_run_has_had_the_next_one_gets() {
        let links = Links { apart: 2, each: 1, ..Links::default() };
        // Whoever else has files, too, gives them back.
        for _ in 0..3 {
            let files = Files::promise(links).await.unwrap();
            assert_eq!((files.files, files.room()), (14, 4));
        }
    }
}
