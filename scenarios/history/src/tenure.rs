//! The lock's key: who owned it, from when to when, and how that ended.
//!
//! Invariant: a tenure begins with the command that made this incarnation of the key. What an unanswered command may have
//! done is drawn only if nothing later contradicts it, and as uncertain. Verdicts do not depend on any of it: the checkers
//! have their own, stricter reading.

use std::collections::BTreeMap;

use crate::exchange::{
    Exchange, KeyLoss, new_primary, place_accused, release_held_up, server, settle_deletions,
    settle_long, settle_overwrites,
};
use crate::fault::Fault;
use crate::verdict::{Level, Witness};
use crate::{Event, Head, Texts, Touch, What};

/// A time in which one acquisition had the key on one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyTenure {
    /// On which server.
    pub node: u16,
    /// Whose it was.
    pub client: u32,
    /// The acquisition that had it.
    pub acquisition: u32,
    /// The command that made the key.
    pub op: u32,
    /// When it began.
    pub from_ns: u64,
    /// When it ended, or will; `u64::MAX` for never.
    pub until_ns: u64,
    /// How long it lives, as last set; none for ever.
    pub ttl_ns: Option<u64>,
    /// How it ended.
    pub end: TenureEnd,
    /// Whether its command was answered, so that there was such a key.
    pub is_certain: bool,
    /// From when on a deletion without an answer may have ended it.
    pub doubted_ns: Option<u64>,
}

/// How a tenure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenureEnd {
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
    /// How one ends that nobody ends before this time.
    const fn of_time(until_ns: u64) -> Self {
        if until_ns < u64::MAX { Self::Expired } else { Self::Stays }
    }

    /// The command that ended it.
    pub fn op(self) -> Option<u32> {
        match self {
            Self::Deleted { op, .. } | Self::Overwritten { op, .. } => Some(op),
            _ => None,
        }
    }
}

impl KeyTenure {
    /// Whether answers, or a checker, say in which order the commands were carried out that made this key and that ended it.
    pub fn knows_end(&self, exchanges: &[Exchange], accused: &Accused) -> bool {
        let find = |op: u32| {
            let place = exchanges.binary_search_by_key(&op, |it| it.op).ok()?;
            Some(&exchanges[place])
        };
        let Some(ended) = self.end.op().and_then(find) else { return true };
        let made_ns = find(self.op).map_or(0, Exchange::latest_ns);
        let is_behind = ended.sent_ns >= made_ns || ended.found == self.op;
        let is_its_owns = ended.acquisition == self.acquisition;
        is_behind || is_its_owns || accused.get(&ended.op) == Some(&Some(self.acquisition))
    }
}

/// Commands that a checker has found to have harmed a key, and the acquisition whose key it was, where that is certain.
pub type Accused = BTreeMap<u32, Option<u32>>;

/// The commands that these witnesses accuse.
pub fn accused<'a>(witnesses: impl IntoIterator<Item = (Level, &'a Witness)>) -> Accused {
    let mut all = Accused::new();
    for (level, it) in witnesses {
        let victim = it.acquisitions.first().copied();
        let victim = victim.filter(|_| level == Level::Key && it.accused.len() == 1);
        for op in &it.accused {
            let known = all.entry(*op).or_default();
            *known = known.or(victim);
        }
    }
    all
}

/// What happens to keys, in the order of time.
enum KeyEvent<'a> {
    Command(&'a Exchange),
    /// Somebody asks for the key, and finds one.
    Found(&'a Exchange),
    Fault(Fault, Option<u16>),
    /// An old primary steps down.
    StepsDown(u16),
}

/// Every tenure of the lock's key, in the order in which they began; settles when commands were carried out, but for those
/// of which a checker has found out what they met.
pub fn tenures(
    head: &Head,
    texts: &Texts,
    events: &[Event],
    exchanges: &mut [Exchange],
    accused: &Accused,
) -> Vec<KeyTenure> {
    let is_on_lock = |it: &Exchange| it.is_of_lock(head, texts);
    let is_of_lock = |it: &Exchange| is_on_lock(it) && it.touch() != Touch::None;
    settle_deletions(exchanges, |it| is_of_lock(it) && !accused.contains_key(&it.op));
    settle_long(exchanges, events, is_on_lock);
    settle_overwrites(exchanges, is_of_lock);
    release_held_up(exchanges, is_of_lock);
    for (op, victim) in accused {
        if let Some(victim) = *victim {
            place_accused(exchanges, (*op, victim), is_on_lock);
        }
    }
    let on_lock = exchanges.iter().filter(|it| is_on_lock(it));
    let command = |it| match it {
        it if is_of_lock(it) => Some((it.done_ns, KeyEvent::Command(it))),
        it if it.is_refused_try() => Some((it.sent_ns, KeyEvent::Found(it))),
        _ => None,
    };
    let mut all: Vec<(u64, KeyEvent<'_>)> = on_lock.filter_map(command).collect();
    for event in events {
        let What::Fault { fault, node, for_ns, .. } = event.what else { continue };
        if fault.loses_keys() {
            all.push((event.at_ns, KeyEvent::Fault(fault, node)));
        }
        if let (Fault::SplitBrain, Some(node)) = (fault, node) {
            all.push((event.at_ns.saturating_add(for_ns), KeyEvent::StepsDown(node)));
        }
    }
    all.sort_by_key(|(at_ns, _)| *at_ns);
    let is_jump = |it: &Event| matches!(it.what, What::Fault { fault: Fault::ClockStep, .. });
    // A stamp does not depend on the server's clock.
    let jumps = events.iter().filter(|it| !head.stamped && is_jump(it)).filter_map(KeyLoss::of);
    let mut keys = Keys { stamped: head.stamped, jumps: jumps.collect(), ..Keys::default() };
    for (at_ns, event) in all {
        match event {
            KeyEvent::Command(it) => keys.command(it, at_ns, accused),
            KeyEvent::Found(it) => keys.found(it),
            KeyEvent::Fault(fault, node) => keys.fault(fault, node, at_ns),
            KeyEvent::StepsDown(node) => keys.steps_down(node, at_ns),
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
    /// When servers' clocks jumped, ahead or back.
    jumps: Vec<KeyLoss>,
    /// What may have ended keys, by the commands that made them.
    doubts: Vec<(u32, TenureEnd)>,
}

impl Keys {
    fn command(&mut self, it: &Exchange, at_ns: u64, accused: &Accused) {
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
                        self.made_way(standing, at_ns);
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
                let is_victim =
                    accused.get(&op).is_some_and(|it| *it == Some(standing.acquisition));
                if it.is_certain() || is_victim {
                    self.ends(standing, at_ns, TenureEnd::Deleted { by, op });
                } else if is_own && standing.doubted_ns.is_none() {
                    self.doubts.push((standing.op, TenureEnd::Deleted { by, op }));
                    self.open.push(KeyTenure { doubted_ns: Some(at_ns), ..standing });
                } else {
                    self.open.push(standing);
                }
            }
            Touch::Extend(ttl_ns) => {
                let Some(standing) = standing else { return };
                let until_ns = self.until_ns(at_ns, Some(ttl_ns));
                let doubted_ns = None;
                let end = TenureEnd::of_time(until_ns);
                let ttl_ns = Some(ttl_ns);
                let extended = KeyTenure { until_ns, ttl_ns, end, doubted_ns, ..standing };
                self.open.push(if it.is_certain() { extended } else { standing });
            }
            Touch::None | Touch::Unknown => self.open.extend(standing),
        }
    }

    /// A key that was not there any more when the next one was made.
    fn made_way(&mut self, standing: KeyTenure, at_ns: u64) {
        let deletion = self.doubts.iter().rfind(|(op, _)| *op == standing.op);
        match (standing.doubted_ns, deletion) {
            // So the deletion was carried out that nobody answered.
            (Some(deleted_ns), Some((_, end))) => {
                let end = *end;
                self.ends(KeyTenure { doubted_ns: None, ..standing }, deleted_ns, end);
            }
            _ => {
                let meets = |jump: &&KeyLoss| {
                    let is_within = (standing.from_ns..=at_ns).contains(&jump.at_ns);
                    is_within && jump.strikes(standing.node)
                };
                // Of several the last: up to then others may have been refused.
                match self.jumps.iter().rfind(meets).map(|jump| jump.at_ns) {
                    Some(jumped_ns) => {
                        self.ends(standing, jumped_ns, TenureEnd::Lost(Fault::ClockStep));
                    }
                    None => self.ends(standing, at_ns, TenureEnd::Gone),
                }
            }
        }
    }

    /// The key was there when somebody asked for it: no deletion before had been carried out.
    fn found(&mut self, it: &Exchange) {
        let here = self.open.iter_mut().filter(|key| key.node == it.node);
        for key in here.filter(|key| key.until_ns > it.sent_ns) {
            key.doubted_ns = key.doubted_ns.filter(|at_ns| *at_ns >= it.sent_ns);
        }
    }

    fn fault(&mut self, fault: Fault, node: Option<u16>, at_ns: u64) {
        let (struck, others): (Vec<KeyTenure>, _) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|it| node == Some(server(it.node)) && it.until_ns > at_ns);
        self.open = others;
        for it in struck {
            match new_primary(it.node).filter(|_| fault == Fault::SplitBrain) {
                // The replica has it, too.
                Some(node) => {
                    let copy = KeyTenure { node, from_ns: at_ns, is_certain: false, ..it };
                    self.open.extend([it, copy]);
                }
                None => self.ends(it, at_ns, TenureEnd::Lost(fault)),
            }
        }
    }

    /// What an old primary has granted is gone.
    fn steps_down(&mut self, node: u16, at_ns: u64) {
        let (struck, others): (Vec<KeyTenure>, _) =
            std::mem::take(&mut self.open).into_iter().partition(|it| {
                new_primary(it.node).is_some_and(|it| server(it) == node) && it.until_ns > at_ns
            });
        self.open = others;
        struck.into_iter().for_each(|it| self.ends(it, at_ns, TenureEnd::Lost(Fault::SplitBrain)));
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
        let end = TenureEnd::of_time(until_ns);
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
            doubted_ns: None,
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
