//! Enough file descriptors for the clients of a run.
//!
//! Invariant: only this process's soft limit is raised, never beyond the hard one. Deliberately
//! absent: the servers' limits; they inherit ours and complain in their own logs.

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// What a client costs: its own socket and the proxy's listener and two legs, and a second
/// connection (a subscription, or a reconnect while the old one lingers).
pub const PER_CLIENT: u64 = 7;
/// What the process needs besides: files, pipes, event loops, servers.
pub const BESIDES: u64 = 128;

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

/// What `clients` clients of `nodes` servers each need.
pub fn files_needed(clients: u64, nodes: u64) -> u64 {
    clients.saturating_mul(nodes.max(1)).saturating_mul(PER_CLIENT).saturating_add(BESIDES)
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
    fn needs_grow_with_clients_and_nodes_without_overflow() {
        assert_eq!(files_needed(100, 5), 3_628);
        assert_eq!(files_needed(1, 0), files_needed(1, 1));
        assert_eq!(files_needed(u64::MAX, 2), u64::MAX);
    }
}
