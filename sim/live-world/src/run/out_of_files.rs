//! What clients say of file descriptors that ran out.
//!
//! Invariant: an operation that failed because this process could open no socket is never held against the
//! lock. Deliberately absent: connections that clients had made and the proxy could not pass on, which it
//! counts itself.

use scenarios::history::{History, What};

use fault_proxy::descriptors::says_out_of_files;

/// How often a client of this history had no file descriptor for a connection.
pub(super) fn times(history: &History) -> u64 {
    let why = |what| match what {
        What::NotAcquired(why)
        | What::AcquireUnknown(why)
        | What::ReleaseUnknown(why)
        | What::Refused(why)
        | What::Unanswered(why)
        | What::NotTaken(why)
        | What::TakeUnknown { why, .. }
        | What::NotUpdated(why)
        | What::UpdateUnknown { why, .. } => Some(why),
        _ => None,
    };
    let said = history.events.iter().filter_map(|event| why(event.what));
    said.filter(|why| says_out_of_files(history.text(*why))).count() as u64
}

#[cfg(test)]
mod tests {
    use scenarios::history::{Event, Head};

    use super::*;

    #[test]
    fn only_what_had_no_file_descriptor_counts() {
        let mut history = History::new(Head::default());
        let mut say = |why: &str, what: fn(scenarios::history::Text) -> What| {
            let what = what(history.texts.intern(why));
            history.events.push(Event { at_ns: 1, client: 1, acquisition: 1, op: 1, what });
        };
        let ran_out = "not sent: Too many open files (os error 24)";
        say(ran_out, What::NotAcquired);
        say("held by another", What::NotAcquired);
        say("pool not read: not sent: Too many open files (os error 24)", What::NotTaken);
        say("outcome unknown: Connection reset by peer (os error 104)", What::AcquireUnknown);
        say(ran_out, What::Released);
        assert_eq!(times(&history), 2);
    }
}
