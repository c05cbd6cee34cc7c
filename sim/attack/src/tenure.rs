//! Who had the lock's key, and when, by the effects of commands.

use std::time::{Duration, Instant};

use history::Touch;

use crate::transcript::{Phases, TracedCommand, acquisition};

/// A time in which one acquisition had the lock's key on a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenure {
    pub(crate) node: u16,
    pub(crate) client: u32,
    pub(crate) acquisition: u32,
    pub(crate) from: Instant,
    pub(crate) until: Option<Instant>,
    /// The key expires by itself.
    pub(crate) expires: bool,
    /// No command ended it: its TTL was over.
    pub(crate) expired: bool,
    /// If its own client ended it: by which acquisition.
    pub(crate) ended_by: Option<u32>,
}

/// Who had the key and when, by the effects of commands alone.
pub(crate) fn tenures(
    sent: &[TracedCommand],
    phases: &[Phases],
    key: &[u8],
    end: Instant,
) -> Vec<Tenure> {
    let mut commands: Vec<_> =
        sent.iter().filter_map(|it| it.seen.as_ref().map(|seen| (seen.at, it))).collect();
    commands.sort_by_key(|(at, _)| *at);
    let mut all: Vec<Tenure> = Vec::new();
    for (at, command) in commands {
        let changes = command.seen.iter().flat_map(|it| &it.changes);
        for change in changes.filter(|it| it.key == key) {
            let node = command.node;
            let last = all.iter_mut().rfind(|it| it.node == node);
            let last = last.filter(|it| it.until.is_none_or(|until| until > at));
            let life = |ns: Option<u64>| ns.and_then(|ns| at.checked_add(Duration::from_nanos(ns)));
            let by = acquisition(phases, command.client, command.sent);
            let end = |it: &mut Tenure| {
                (it.until, it.expired) = (Some(at), false);
                it.ended_by = (it.client == command.client).then_some(by);
            };
            match (change.touch, last) {
                (Touch::Create(ttl) | Touch::Overwrite(ttl), last) => {
                    last.into_iter().for_each(end);
                    all.push(Tenure {
                        node,
                        client: command.client,
                        acquisition: by,
                        from: at,
                        until: life(ttl),
                        expires: ttl.is_some(),
                        expired: true,
                        ended_by: None,
                    });
                }
                (Touch::Extend(ns), Some(last)) => {
                    last.until = life(Some(ns));
                    last.expires = last.until.is_some();
                }
                (Touch::Delete, Some(last)) => end(last),
                _ => {}
            }
        }
    }
    for tenure in &mut all {
        tenure.expired &= tenure.until.is_some_and(|until| until <= end);
    }
    all
}

/// Whether at least `quorum` of these tenures lasted at once, at some moment of this span.
pub(crate) fn are_enough(
    tenures: &[Tenure],
    quorum: usize,
    (from, to): (Instant, Instant),
) -> bool {
    let lasts =
        |it: &&Tenure, at: Instant| it.from <= at && it.until.is_none_or(|until| until >= at);
    let begins = tenures.iter().map(|it| it.from.max(from)).filter(|at| *at <= to);
    begins.into_iter().any(|at| tenures.iter().filter(|it| lasts(it, at)).count() >= quorum)
}
