//! Creations that were answered late, and deletions that never were: when the server carried them out, by what others were
//! told of the key meanwhile.
//!
//! Invariant: an answered command stays between its sending and its answer; of several moments the one is taken that the
//! fewest answers contradict. A fault by which a server may have lost a key explains that another could be made.

use super::{Delivery, Exchange, ExchangeEnd, server};
use crate::fault::Fault;
use crate::{Event, Touch, What};

/// An answer that took so many times as long as usual says little of when its command was carried out.
const LONG: u64 = 4;
/// What it counts that an answer cannot be so, beside one that is only not explained.
const IMPOSSIBLE: u32 = 4;

/// From when to when a key was there.
type Life = (u64, u64);

impl Exchange {
    /// Whether it asked for the key and found another's.
    pub(crate) fn is_refused_try(&self) -> bool {
        matches!(self.intent.touch, Touch::Create(_))
            && matches!(self.end, Some((_, ExchangeEnd::Answered(Touch::None, _))))
    }

    fn is_creation(&self) -> bool {
        matches!(self.touch(), Touch::Create(_)) && self.is_certain()
    }
}

/// When keys may have ended before their time, and on which server, or perhaps on any.
#[derive(Clone, Copy)]
pub(crate) struct KeyLoss {
    node: Option<u16>,
    pub(crate) at_ns: u64,
    /// How far a clock jumped; 0 if nobody says.
    jumped_ns: u64,
}

impl KeyLoss {
    /// The fault of this event, if it is one that may have ended keys; a clock may have jumped ahead or back.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let What::Fault { fault, node, for_ns, .. } = event.what else { return None };
        let has_jumped = fault == Fault::ClockStep && event.client == 0;
        let jumped_ns = if has_jumped { for_ns } else { 0 };
        let at_ns = event.at_ns;
        (fault.loses_keys() || has_jumped).then_some(Self { node, at_ns, jumped_ns })
    }

    /// When a key ended that would have expired then, if a clock jumped ahead: sooner by as much, and not before the jump.
    pub(crate) fn ends_ns(&self, expires_ns: u64) -> u64 {
        match self.jumped_ns {
            0 => self.at_ns,
            jumped_ns => self.at_ns.max(expires_ns.saturating_sub(jumped_ns)),
        }
    }

    /// Whether it struck this server.
    pub(crate) fn strikes(&self, node: u16) -> bool {
        self.node.is_none_or(|it| it == server(node))
    }
}

/// Settles when creations were carried out whose answers took long: a delay may have struck the reply.
pub(crate) fn settle_long(
    exchanges: &mut [Exchange],
    events: &[Event],
    is_of_lock: impl Fn(&Exchange) -> bool + Copy,
) {
    let losses: Vec<KeyLoss> = events.iter().filter_map(KeyLoss::of).collect();
    for place in 0..exchanges.len() {
        let it = exchanges[place];
        let Some(answered_ns) = it.answered_ns().filter(|_| it.is_creation() && is_of_lock(&it))
        else {
            continue;
        };
        if answered_ns - it.sent_ns <= LONG * it.usual_ns.saturating_mul(2) {
            continue;
        }
        let done_ns = likeliest(exchanges, &losses, &it, answered_ns, is_of_lock);
        let it = &mut exchanges[place];
        if it.done_ns > done_ns && it.request == Delivery::Late {
            (it.request, it.reply) = (Delivery::Usual, Delivery::Late);
        }
        it.done_ns = done_ns;
    }
}

/// The moment of this creation that the fewest answers contradict; the estimate so far, where others are no better.
fn likeliest(
    exchanges: &[Exchange],
    losses: &[KeyLoss],
    it: &Exchange,
    answered_ns: u64,
    is_of_lock: impl Fn(&Exchange) -> bool,
) -> u64 {
    let life_ns = lives_ns(it);
    // Keys that were made long before are gone by then.
    let from = exchanges.partition_point(|other| {
        other.sent_ns < it.sent_ns.saturating_sub(2 * life_ns.min(1 << 62))
    });
    let until_ns = answered_ns.saturating_add(life_ns);
    let around = exchanges[from..].iter().take_while(|other| other.sent_ns <= until_ns);
    let around: Vec<&Exchange> = around
        .filter(|other| other.node == it.node && other.op != it.op && is_of_lock(other))
        .collect();
    let lives = lives(&around);
    let (early_ns, late_ns) = (
        it.sent_ns.saturating_add(it.usual_ns),
        answered_ns.saturating_sub(it.usual_ns).max(it.sent_ns.midpoint(answered_ns)),
    );
    let behind = lives.iter().map(|life| life.1.saturating_add(1));
    // Or it ended just as the next key was made.
    let before = lives.iter().map(|life| life.0.saturating_sub(life_ns));
    let between = behind.chain(before).filter(|at_ns| (early_ns..answered_ns).contains(at_ns));
    let all = [it.done_ns, early_ns, late_ns].into_iter().chain(between);
    let lost_ns: Vec<u64> =
        losses.iter().filter(|loss| loss.strikes(it.node)).map(|loss| loss.at_ns).collect();
    let contradictions = |at_ns: &u64| contradictions(&around, &lives, &lost_ns, it, *at_ns);
    all.min_by_key(contradictions).unwrap_or(it.done_ns)
}

/// How many answers cannot be so, or are not explained, if it was carried out then.
fn contradictions(
    around: &[&Exchange],
    lives: &[Life],
    lost_ns: &[u64],
    it: &Exchange,
    at_ns: u64,
) -> u32 {
    let may_be_lost = |from_ns: u64, until_ns: u64| {
        lost_ns.iter().any(|lost_ns| (from_ns..=until_ns).contains(lost_ns))
    };
    let deletions = around.iter().filter(|other| {
        let is_own = other.acquisition == it.acquisition || !other.intent.compares;
        is_own && other.touch() == Touch::Delete && other.is_certain() && other.done_ns > at_ns
    });
    let expires_ns = around
        .iter()
        .filter(|other| other.acquisition == it.acquisition && other.is_certain())
        .fold(at_ns.saturating_add(lives_ns(it)), |until_ns, other| match other.touch() {
            Touch::Extend(ttl_ns) if (at_ns..until_ns).contains(&other.done_ns) => {
                other.done_ns.saturating_add(ttl_ns)
            }
            _ => until_ns,
        });
    let ends_ns = deletions.map(|other| other.done_ns).fold(expires_ns, u64::min);
    let meets = |life: &&Life| life.0 < at_ns && at_ns < life.1 && !may_be_lost(life.0, at_ns);
    let met = lives.iter().filter(meets).count();
    let mut count = IMPOSSIBLE * u32::try_from(met).unwrap_or(u32::MAX);
    for other in around {
        let is_own = other.acquisition == it.acquisition;
        // Where the two overlap, its key would have been met had it been first.
        let is_within = at_ns <= other.done_ns && other.latest_ns() <= ends_ns;
        if other.is_creation() && is_within && !may_be_lost(at_ns, other.latest_ns()) {
            count += IMPOSSIBLE;
        }
        if other.is_refused_try() && other.sent_ns >= it.sent_ns {
            let meets = |life: &Life| life.0 < other.latest_ns() && other.sent_ns < life.1;
            count += u32::from(!lives.iter().any(meets) && !meets(&(at_ns, ends_ns)));
        }
        // Its owner can only have met a key that was still there.
        let met = matches!(other.touch(), Touch::Delete | Touch::Extend(_)) && other.is_certain();
        if is_own && met && other.intent.compares && expires_ns <= other.sent_ns {
            count += IMPOSSIBLE;
        }
    }
    count
}

/// From when to when keys were there that these commands made.
fn lives(around: &[&Exchange]) -> Vec<Life> {
    let mut commands: Vec<&&Exchange> = around.iter().filter(|it| it.is_certain()).collect();
    commands.sort_by_key(|it| it.done_ns);
    let mut lives: Vec<Life> = Vec::new();
    for it in commands {
        let standing = lives.last_mut().filter(|life| life.1 > it.done_ns);
        match (it.touch(), standing) {
            (Touch::Create(_) | Touch::Overwrite(_), standing) => {
                if let Some(standing) = standing {
                    standing.1 = it.done_ns;
                }
                lives.push((it.done_ns, it.done_ns.saturating_add(lives_ns(it))));
            }
            (Touch::Delete, Some(standing)) => standing.1 = it.done_ns,
            (Touch::Extend(ttl_ns), Some(standing)) => {
                standing.1 = it.done_ns.saturating_add(ttl_ns);
            }
            _ => {}
        }
    }
    lives
}

/// How long a key lives that it makes.
fn lives_ns(it: &Exchange) -> u64 {
    match it.touch() {
        Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns) => ttl_ns.unwrap_or(u64::MAX),
        _ => 0,
    }
}

/// Puts a command without an answer, which a checker has found to have harmed the key of this acquisition, between the making
/// of that key and what shows that it was gone.
pub(crate) fn place_accused(
    exchanges: &mut [Exchange],
    (op, victim): (u32, u32),
    is_of_lock: impl Fn(&Exchange) -> bool + Copy,
) {
    let Ok(place) = exchanges.binary_search_by_key(&op, |it| it.op) else { return };
    let it = exchanges[place];
    if it.answered_ns().is_some() || it.touch() == Touch::None {
        return;
    }
    let here = || exchanges.iter().filter(|other| other.node == it.node && is_of_lock(other));
    let makes = |other: &&Exchange| {
        let makes = matches!(other.touch(), Touch::Create(_) | Touch::Overwrite(_));
        makes && other.is_certain() && other.op != op
    };
    let Some(made) = here().filter(makes).find(|other| other.acquisition == victim) else { return };
    let expires_ns = made.done_ns.saturating_add(lives_ns(made));
    let gone = here().filter(|other| {
        let misses = matches!(other.intent.touch, Touch::Delete | Touch::Extend(_))
            && other.acquisition == victim
            && matches!(other.end, Some((_, ExchangeEnd::Answered(Touch::None, _))));
        let is_next = makes(other) && other.acquisition != victim;
        other.done_ns > made.done_ns && (misses || is_next)
    });
    let gone_ns = gone.map(|other| other.done_ns).fold(expires_ns, u64::min);
    let stood = here().filter(|other| {
        other.is_refused_try() && other.sent_ns > made.done_ns && other.done_ns < gone_ns
    });
    let stood_ns = stood.map(|other| other.done_ns).max().unwrap_or(made.done_ns);
    let from_ns = stood_ns.max(it.sent_ns);
    if !(from_ns..gone_ns).contains(&it.done_ns) && from_ns < gone_ns {
        let it = &mut exchanges[place];
        it.done_ns = from_ns.midpoint(gone_ns);
        it.request = Delivery::Late;
    }
}
