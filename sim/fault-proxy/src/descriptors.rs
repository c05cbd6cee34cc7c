//! Detects that the system is out of file descriptors.

use nix::errno::Errno;

/// Whether this says that the process, or the machine, has no file descriptor left.
pub(crate) fn is_out_of_files(error: &std::io::Error) -> bool {
    let of = |errno: Errno| error.raw_os_error() == Some(errno as i32);
    of(Errno::EMFILE) || of(Errno::ENFILE)
}

/// Whether an error text of a client says the same.
pub fn says_out_of_files(why: &str) -> bool {
    let of = |errno: Errno| why.contains(&format!("(os error {})", errno as i32));
    of(Errno::EMFILE) || of(Errno::ENFILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_that_files_ran_out_does() {
        let error = std::io::Error::from(Errno::EMFILE);
        assert!(is_out_of_files(&error) && says_out_of_files(&format!("not sent: {error}")));
        let other = std::io::Error::from(Errno::ECONNRESET);
        assert!(!is_out_of_files(&other) && !says_out_of_files(&other.to_string()));
        assert!(says_out_of_files(&std::io::Error::from(Errno::ENFILE).to_string()));
    }
}
