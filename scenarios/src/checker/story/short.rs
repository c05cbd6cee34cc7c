//! The story in a dozen lines: of all that the clients concerned did, what one has to know.
//!
//! Invariant: every line is something that the history shows, or an expiry that follows from it; whose key
//! somebody deleted is said only where a checker has found it so. Deliberately absent: anything taken from
//! a scenario's own words.

use super::span;
use crate::history::{Head, Intent, Texts, Touch, What};
use crate::verdict::{Level, Witness, WitnessStep};

/// No story is longer.
const LINES_MOST: usize = 12;
/// Of a longer one, so many lines from its beginning.
const BEGINNING: usize = 6;

/// What a step is to a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The lock's key is made, to live so long.
    Made(Option<u64>),
    /// Somebody has the lock.
    Has,
    /// The key lives so long from now.
    Extended(u64),
    /// The key is overwritten, to live so long.
    Overwritten(Option<u64>),
    /// The key is deleted.
    Deleted,
    /// A release begins.
    Release,
    /// What the lock protects is looked at.
    Look,
    /// What the lock protects is changed, or was to be.
    Work,
    /// Another command on the lock is answered.
    Answer,
    /// A fault strikes.
    Fault,
    /// A lock is lost or not had.
    Turn,
    /// A command is refused, or never answered.
    Unheard,
    /// Whatever else belongs into the whole of it, and not into a short story.
    Detail,
}

impl Part {
    /// What this event is to a story.
    pub(super) fn of(head: &Head, texts: &Texts, what: What, invoked: Option<What>) -> Self {
        match what {
            What::Acquired => Self::Has,
            What::Release => Self::Release,
            What::Updated(_) | What::UpdateUnknown { .. } | What::NotUpdated(_) => Self::Work,
            What::Taken { .. } | What::TakeUnknown { .. } | What::NotTaken(_) => Self::Work,
            What::NotAcquired(_) | What::AcquireUnknown(_) | What::Lost => Self::Turn,
            // A script that is sent once more is nobody's business.
            What::Refused(why) if texts.get(why).starts_with("NOSCRIPT") => Self::Detail,
            What::Unanswered(_) | What::Refused(_) | What::ReleaseUnknown(_) => Self::Unheard,
            What::Fence(_) => Self::Look,
            What::Answered { touch, .. } => match invoked {
                Some(What::Command { key, intent, .. }) if texts.get(key) == head.lock_key => {
                    Self::of_lock(touch, intent)
                }
                Some(What::Command { intent: Intent { touch: Touch::None, .. }, .. }) => Self::Look,
                _ => Self::Detail,
            },
            _ => Self::Detail,
        }
    }

    fn of_lock(touch: Touch, intent: Intent) -> Self {
        match touch {
            Touch::Create(ttl_ns) => Self::Made(ttl_ns),
            Touch::Overwrite(ttl_ns) => Self::Overwritten(ttl_ns),
            Touch::Extend(ttl_ns) => Self::Extended(ttl_ns),
            Touch::Delete => Self::Deleted,
            Touch::None | Touch::Unknown if intent.touch == Touch::None => Self::Answer,
            Touch::None | Touch::Unknown => Self::Detail,
        }
    }

    /// How well a story at this level can do without it: 0 is not at all.
    const fn rank(self, level: Level) -> u8 {
        match (self, level) {
            (Self::Has | Self::Overwritten(_) | Self::Fault, _)
            | (Self::Deleted, Level::Key)
            | (Self::Work, Level::Effect) => 0,
            (Self::Turn, _) | (Self::Look, Level::Effect) | (Self::Release, Level::Belief) => 1,
            (Self::Look | Self::Release | Self::Detail, _) => 3,
            _ => 2,
        }
    }
}

/// A step of the whole story.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) step: WitnessStep,
    pub(super) part: Part,
    pub(super) acquisition: u32,
}

/// The lock's key, as those concerned have seen it.
struct Key {
    acquisition: u32,
    client: u32,
    ttl_ns: Option<u64>,
    until_ns: Option<u64>,
    /// The line that says that it was made.
    line: usize,
}

/// The short story of these steps, which stand in order.
pub(super) fn shorten(level: Level, witness: &Witness, steps: &[&Step]) -> Vec<WitnessStep> {
    let mut lines: Vec<(u8, WitnessStep)> = Vec::new();
    let mut key: Option<Key> = None;
    for Step { step, part, acquisition } in steps {
        let mut line = (part.rank(level), step.clone());
        let until = |ttl_ns: Option<u64>| ttl_ns.map(|ttl_ns| step.at_ns.saturating_add(ttl_ns));
        if let Part::Made(_) = part {
            lines.extend(key.take().map(|gone| (0, goes(&gone, step.at_ns))));
        }
        match *part {
            Part::Made(ttl_ns) | Part::Overwritten(ttl_ns) => {
                let (acquisition, client) = (*acquisition, step.client);
                let (until_ns, line) = (until(ttl_ns), lines.len());
                key = Some(Key { acquisition, client, ttl_ns, until_ns, line });
            }
            Part::Has => {
                if let Some(key) = key.as_ref().filter(|it| it.acquisition == *acquisition) {
                    line.1.text += &lives(key.ttl_ns);
                    // That it was made need not be said apart from this.
                    lines[key.line].0 = Part::Detail.rank(level);
                }
            }
            Part::Extended(ttl_ns) => {
                if let Some(key) = &mut key {
                    key.until_ns = until(Some(ttl_ns));
                }
            }
            Part::Deleted => {
                let whose = key.take().filter(|_| level == Level::Key);
                if let Some(whose) = whose.filter(|it| it.acquisition != *acquisition)
                    && witness.acquisitions.contains(&whose.acquisition)
                {
                    line.1.text = format!("deletes the key of client {}", whose.client);
                }
            }
            _ => {}
        }
        lines.push(line);
    }
    fit(lines)
}

/// How long the key lives, behind who has it.
fn lives(ttl_ns: Option<u64>) -> String {
    match ttl_ns {
        Some(ttl_ns) => format!(": its key lives {}", span(ttl_ns)),
        None => ": its key never expires".to_owned(),
    }
}

/// A key that was not deleted is no longer there when another is made.
fn goes(key: &Key, made_ns: u64) -> WitnessStep {
    let (at_ns, how) = match key.until_ns {
        Some(until_ns) if until_ns <= made_ns => (until_ns, "expires"),
        // Its server has lost it, or has another time.
        _ => (made_ns, "is gone"),
    };
    WitnessStep { at_ns, client: key.client, text: format!("its key {how}") }
}

/// As many lines as a story may have: those that it can do without are left out.
fn fit(lines: Vec<(u8, WitnessStep)>) -> Vec<WitnessStep> {
    let up_to = |most: u8| lines.iter().filter(|(rank, _)| *rank <= most).count();
    let most = (0..=2).rev().find(|most| up_to(*most) <= LINES_MOST).unwrap_or(0);
    let kept = lines.into_iter().filter(|(rank, _)| *rank <= most).map(|(_, step)| step);
    let mut kept: Vec<WitnessStep> = kept.collect();
    if kept.len() > LINES_MOST {
        let ending = LINES_MOST - BEGINNING - 1;
        let left_out = kept.len() - BEGINNING - ending;
        let at_ns = kept[BEGINNING].at_ns;
        let text = format!("and so on: {left_out} more");
        let between = WitnessStep { at_ns, client: 0, text };
        kept.splice(BEGINNING..BEGINNING + left_out, [between]);
    }
    kept
}

#[cfg(test)]
mod tests;
