//! Whom faults have struck, and until when: so that nothing is held against who could not act.

use rustc_hash::FxHashMap;

/// Until when each client was last struck; 0 is all of them.
#[derive(Default)]
pub(super) struct LastStruck(FxHashMap<u32, u64>);

impl LastStruck {
    /// A client, or with 0 all of them, is struck until then.
    pub(super) fn strike(&mut self, client: u32, until_ns: u64) {
        let last_ns = self.0.entry(client).or_default();
        *last_ns = until_ns.max(*last_ns);
    }

    /// Whether this client has been struck, or was so still, since then.
    pub(super) fn since(&self, client: u32, since_ns: u64) -> bool {
        let struck = |it: &u32| self.0.get(it).is_some_and(|until_ns| *until_ns >= since_ns);
        [client, 0].iter().any(struck)
    }
}
