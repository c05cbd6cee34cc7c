//! Operations that failed because this process had no file descriptor for a connection.
//!
//! Invariant: such an operation never counts against the lock. Connections that the proxy could not pass on are
//! counted by the proxy itself.

use scenarios::history::{History, What};

use fault_proxy::descriptors::says_out_of_files;

/// How many operations of this history they are.
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
    fn only_operations_without_a_file_descriptor_count() {
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
