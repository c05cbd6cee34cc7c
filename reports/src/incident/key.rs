//! The lock's key: who owned it, from when to when, and how that ended.
//!
//! Invariant: a tenure begins with the command that made this incarnation of the key. What an unanswered command may have
//! done is drawn only if nothing later contradicts it, and as uncertain. Verdicts do not depend on any of it: the checkers
//! have their own, stricter reading.

use std::collections::BTreeSet;

use history::fault::Fault;
use history::{Event, Head, Texts, Touch, What};

use super::exchange::{Delivery, Exchange};
use super::settle::{release_held_up, settle_deletions, settle_overwrites};

/// A time in which one acquisition had the key on one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KeyTenure {
    pub(crate) node: u16,
    pub(crate) client: u32,
    pub(crate) acquisition: u32,
    /// The command that made the key.
    pub(crate) op: u32,
    pub(crate) from_ns: u64,
    /// When it ended, or will; `u64::MAX` for never.
    pub(crate) until_ns: u64,
    /// How long it lives, as last set; none for ever.
    pub(crate) ttl_ns: Option<u64>,
    pub(crate) end: TenureEnd,
    /// Whether its command was answered, so that there was such a key.
    pub(crate) is_certain: bool,
}

/// How a tenure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TenureEnd {
    /// Its time to live was over.
    Expired,
    /// This client's command deleted it.
    Deleted {
        /// Whose command it was.
        by: u32,
        /// Which.
        op: u32,
    },
    /// This client's command overwrote it.
    Overwritten {
        /// Whose command it was.
        by: u32,
        /// Which.
        op: u32,
    },
    /// A fault took it.
    Lost(Fault),
    /// It was not there any more when the next one was made, and no command or fault says why.
    Gone,
    /// It never expires, and nobody has deleted it.
    Stays,
}

impl TenureEnd {
    /// The command that ended it.
    pub(crate) fn op(self) -> Option<u32> {
        match self {
            Self::Deleted { op, .. } | Self::Overwritten { op, .. } => Some(op),
            _ => None,
        }
    }
}

/// What happens to keys, in the order of time.
enum KeyEvent<'a> {
    Command(&'a Exchange),
    Fault(Fault, Option<u16>),
}

/// Every tenure of the lock's key, in the order in which they began; settles when commands were carried out, but for those
/// of which a checker has found out what they met.
pub(crate) fn tenures(
    head: &Head,
    texts: &Texts,
    events: &[Event],
    exchanges: &mut [Exchange],
    accused: &BTreeSet<u32>,
) -> Vec<KeyTenure> {
    let is_of_lock = |it: &Exchange| -> bool {
        !head.is_resource(it.node)
            && texts.get(it.key) == head.lock_key
            && it.touch() != Touch::None
    };
    settle_deletions(exchanges, |it| is_of_lock(it) && !accused.contains(&it.op));
    settle_overwrites(exchanges, is_of_lock);
    release_held_up(exchanges, is_of_lock);
    let commands = exchanges.iter().filter(|it| is_of_lock(it));
    let mut all: Vec<(u64, KeyEvent<'_>)> =
        commands.map(|it| (it.done_ns, KeyEvent::Command(it))).collect();
    for event in events {
        if let What::Fault { fault, node, .. } = event.what
            && (fault.loses_keys() || fault == Fault::ClockStep && event.client == 0)
        {
            all.push((event.at_ns, KeyEvent::Fault(fault, node)));
        }
    }
    all.sort_by_key(|(at_ns, _)| *at_ns);
    let mut keys = Keys { stamped: head.stamped, ..Keys::default() };
    for (at_ns, event) in all {
        match event {
            KeyEvent::Command(it) => keys.command(it, at_ns),
            KeyEvent::Fault(fault, node) => keys.fault(fault, node, at_ns),
        }
    }
    keys.finish()
}

/// The keys on all servers, as they come and go.
#[derive(Default)]
struct Keys {
    open: Vec<KeyTenure>,
    over: Vec<KeyTenure>,
    /// Keys do not expire; their values say until when they count.
    stamped: bool,
    /// The servers whose clocks have jumped.
    jumped: Vec<Option<u16>>,
}

impl Keys {
    fn command(&mut self, it: &Exchange, at_ns: u64) {
        let standing = self.take(it.node, at_ns);
        let (by, op) = (it.client, it.op);
        match it.touch() {
            Touch::Create(ttl_ns) => {
                if let Some(standing) = standing {
                    let is_certain = it.is_certain();
                    if !is_certain {
                        // It found the key, or was never carried out.
                        return self.open.push(standing);
                    }
                    if standing.is_certain {
                        let has_jumped =
                            self.jumped.iter().any(|it| it.is_none_or(|it| it == standing.node));
                        let jump = TenureEnd::Lost(Fault::ClockStep);
                        self.ends(standing, at_ns, if has_jumped { jump } else { TenureEnd::Gone });
                    }
                }
                self.begins(it, at_ns, ttl_ns);
            }
            Touch::Overwrite(ttl_ns) => {
                if let Some(standing) = standing {
                    if !it.is_certain() {
                        return self.open.push(standing);
                    }
                    self.ends(standing, at_ns, TenureEnd::Overwritten { by, op });
                }
                self.begins(it, at_ns, ttl_ns);
            }
            Touch::Delete => {
                let Some(standing) = standing else { return };
                let is_own = standing.acquisition == it.acquisition;
                if it.is_certain() || is_own && it.request != Delivery::Lost {
                    self.ends(standing, at_ns, TenureEnd::Deleted { by, op });
                } else {
                    self.open.push(standing);
                }
            }
            Touch::Extend(ttl_ns) => {
                let Some(standing) = standing else { return };
                let until_ns = self.until_ns(at_ns, Some(ttl_ns));
                let extended = KeyTenure { until_ns, ttl_ns: Some(ttl_ns), ..standing };
                self.open.push(if it.is_certain() { extended } else { standing });
            }
            Touch::None | Touch::Unknown => self.open.extend(standing),
        }
    }

    fn fault(&mut self, fault: Fault, node: Option<u16>, at_ns: u64) {
        if fault == Fault::ClockStep {
            self.jumped.push(node);
        }
        let (struck, others): (Vec<KeyTenure>, _) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|it| fault.loses_keys() && node == Some(it.node) && it.until_ns > at_ns);
        self.open = others;
        for it in struck {
            self.ends(it, at_ns, TenureEnd::Lost(fault));
        }
    }

    /// The key that stands on this server at this time.
    fn take(&mut self, node: u16, at_ns: u64) -> Option<KeyTenure> {
        let place = self.open.iter().position(|it| it.node == node)?;
        let it = self.open.swap_remove(place);
        if it.until_ns > at_ns {
            return Some(it);
        }
        self.over.push(it);
        None
    }

    fn begins(&mut self, by: &Exchange, from_ns: u64, ttl_ns: Option<u64>) {
        let until_ns = self.until_ns(from_ns, ttl_ns);
        let end = if until_ns < u64::MAX { TenureEnd::Expired } else { TenureEnd::Stays };
        let Exchange { node, client, acquisition, op, .. } = *by;
        let is_certain = by.is_certain();
        self.open.push(KeyTenure {
            node,
            client,
            acquisition,
            op,
            from_ns,
            until_ns,
            ttl_ns,
            end,
            is_certain,
        });
    }

    fn until_ns(&self, from_ns: u64, ttl_ns: Option<u64>) -> u64 {
        let ttl_ns = ttl_ns.filter(|_| !self.stamped);
        ttl_ns.map_or(u64::MAX, |ttl_ns| from_ns.saturating_add(ttl_ns))
    }

    fn ends(&mut self, it: KeyTenure, until_ns: u64, end: TenureEnd) {
        self.over.push(KeyTenure { until_ns, end, ..it });
    }

    fn finish(mut self) -> Vec<KeyTenure> {
        self.over.append(&mut self.open);
        self.over.sort_by_key(|it| (it.from_ns, it.op));
        self.over
    }
}
