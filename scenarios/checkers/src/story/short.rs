//! The story in a dozen lines: of all that the clients concerned did, what one has to know.
//!
//! Invariant: every line is something that the history shows, or an expiry that follows from it; whose
//! key a command harmed is said only of the one that a checker blames. That one is in every story, and
//! so is what a checker has said itself.

use std::collections::BTreeMap;

use durations::span::rounded;
use history::verdict::{Level, Witness, WitnessStep};
use history::{Head, Intent, Texts, Touch, What};
use rustc_hash::FxHashSet;

/// How a client begins to listen.
pub(super) const SUBSCRIBE: &str = "SUBSCRIBE";

/// No story is longer.
const LINES_MOST: usize = 12;
/// Of a longer one, so many lines from its beginning and its end at most, beside those that have to stand.
const ENDS_MOST: usize = 11;

/// What a step is to a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
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
    /// A client dies.
    Death,
    /// What a client does that waits: its first try in vain, and that it listens.
    Waits,
    /// What a checker has said itself.
    Told,
    /// A lock is lost or not had.
    Turn,
    /// A command is refused, or never answered.
    Unheard,
    /// Whatever else belongs into the whole of it, and not into a short story.
    Detail,
}

impl StepKind {
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
                Some(What::Command { name, .. }) if texts.get(name) == SUBSCRIBE => Self::Waits,
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
            (Self::Has | Self::Overwritten(_) | Self::Fault | Self::Death | Self::Told, _)
            | (Self::Deleted, Level::Key | Level::Progress)
            | (Self::Work, Level::Effect) => 0,
            (Self::Turn, _)
            | (Self::Look, Level::Effect)
            | (Self::Release, Level::Belief | Level::Progress)
            | (Self::Made(_) | Self::Unheard | Self::Waits, Level::Progress) => 1,
            (Self::Look | Self::Release | Self::Waits | Self::Detail, _) => 3,
            _ => 2,
        }
    }
}

/// A step of the whole story.
#[derive(Clone, Debug)]
pub(super) struct StoryStep {
    pub(super) step: WitnessStep,
    pub(super) part: StepKind,
    pub(super) acquisition: u32,
    /// Which operation ends with it, or 0.
    pub(super) op: u32,
    /// The server of the lock's key, where it is a command to one of several.
    pub(super) server: Option<u16>,
}

impl StoryStep {
    /// What a checker has said itself.
    pub(super) fn of_checker(step: WitnessStep) -> Self {
        Self { step, part: StepKind::Told, acquisition: 0, op: 0, server: None }
    }

    fn is_accused(&self, witness: &Witness) -> bool {
        self.op != 0 && witness.accused.contains(&self.op)
    }
}

/// A line of a story.
struct StoryLine {
    /// How well it can be done without: 0 is not at all.
    rank: u8,
    /// Whether it stands however long the story is.
    must: bool,
    step: WitnessStep,
}

/// The lock's key on a server, as those concerned have seen it.
struct KeyLife {
    server: Option<u16>,
    acquisition: u32,
    client: u32,
    ttl_ns: Option<u64>,
    until_ns: Option<u64>,
    /// The line that says that it was made.
    line: usize,
    /// The line that says how long its maker has it live, where a command of its own does.
    extended: Option<usize>,
}

/// The short story of these steps, which stand in order.
pub(super) fn shorten(level: Level, witness: &Witness, steps: &[StoryStep]) -> Vec<WitnessStep> {
    let mut lines: Vec<StoryLine> = Vec::new();
    let mut keys: BTreeMap<Option<u16>, KeyLife> = BTreeMap::new();
    let cause = cause(level, witness, steps);
    // Of holds that nothing has been refused yet: then it is what keeps the lock.
    let mut kept: FxHashSet<u32> = FxHashSet::default();
    for (place, it) in steps.iter().enumerate() {
        let StoryStep { step, part, acquisition, .. } = it;
        let accused = it.is_accused(witness);
        let must = accused || *part == StepKind::Told || Some(place) == cause;
        let is_kept_no_more = *part == StepKind::Unheard && kept.remove(acquisition);
        let rank = match level {
            _ if must => 0,
            Level::Belief if is_kept_no_more => 1,
            _ => part.rank(level),
        };
        let mut line = StoryLine { rank, must, step: step.clone() };
        let until = |ttl_ns: Option<u64>| ttl_ns.map(|ttl_ns| step.at_ns.saturating_add(ttl_ns));
        if let StepKind::Made(_) = part {
            let goes = keys.remove(&it.server).map(|gone| goes(&gone, step.at_ns));
            lines.extend(goes.map(|step| StoryLine { rank: 0, must: false, step }));
        }
        match *part {
            StepKind::Made(ttl_ns) | StepKind::Overwritten(ttl_ns) => {
                let (acquisition, client) = (*acquisition, step.client);
                let (until_ns, line) = (until(ttl_ns), lines.len());
                let (server, extended) = (it.server, None);
                let key = KeyLife { server, acquisition, client, ttl_ns, until_ns, line, extended };
                keys.insert(server, key);
            }
            StepKind::Has => {
                kept.insert(*acquisition);
                let mut own = keys.values().filter(|it| it.acquisition == *acquisition).peekable();
                line.step.text += &own.peek().map_or(String::new(), |key| lives(key.ttl_ns));
                // That it was made, and for how long, need not be said apart from this.
                for said in own.flat_map(|key| [Some(key.line), key.extended]).flatten() {
                    let said = &mut lines[said];
                    said.rank = if said.must { 0 } else { StepKind::Detail.rank(level) };
                }
            }
            StepKind::Extended(ttl_ns) => {
                if let Some(key) = keys.get_mut(&it.server) {
                    (key.ttl_ns, key.until_ns) = (Some(ttl_ns), until(Some(ttl_ns)));
                    key.extended = (key.acquisition == *acquisition).then_some(lines.len());
                }
            }
            StepKind::Deleted => {
                keys.remove(&it.server);
            }
            StepKind::Release => {
                kept.remove(acquisition);
            }
            _ => {}
        }
        if let (true, Level::Key, [victim, ..], [_]) =
            (accused, level, &witness.clients[..], &witness.accused[..])
        {
            line.step.text = harms(it, *victim) + &at(it.server);
        }
        lines.push(line);
    }
    // That a key has expired shows only when the next one is made.
    lines.sort_by_key(|line| line.step.at_ns);
    fit(lines)
}

/// What the command to blame did to the key of this client.
fn harms(step: &StoryStep, victim: u32) -> String {
    match step.part {
        StepKind::Deleted => format!("deletes the key of client {victim}"),
        StepKind::Extended(ttl_ns) => {
            format!("extends the key of client {victim}, to live {} from now", rounded(ttl_ns))
        }
        StepKind::Made(_) | StepKind::Overwritten(_) => {
            format!("overwrites the key of client {victim}")
        }
        // It has no answer.
        _ => format!("harms the key of client {victim}: {}", step.step.text),
    }
}

/// The fault behind a key that was left: that its client died, or else the last that struck it before the
/// command that left the key had ended, or the next.
fn cause(level: Level, witness: &Witness, steps: &[StoryStep]) -> Option<usize> {
    if level != Level::Progress {
        return None;
    }
    let left = steps.iter().position(|it| it.is_accused(witness));
    let client = match left {
        Some(left) => steps[left].step.client,
        None => *witness.clients.first()?,
    };
    let theirs = |part: StepKind| {
        let theirs = move |it: &StoryStep| it.part == part && it.step.client == client;
        steps.iter().enumerate().filter(move |(_, it)| theirs(it)).map(|(place, _)| place)
    };
    let before = theirs(StepKind::Fault).rfind(|place| left.is_none_or(|left| *place < left));
    theirs(StepKind::Death).next().or(before).or_else(|| theirs(StepKind::Fault).next())
}

/// How long the key lives, behind who has it.
fn lives(ttl_ns: Option<u64>) -> String {
    match ttl_ns {
        Some(ttl_ns) => format!(": its key lives {}", rounded(ttl_ns)),
        None => ": its key never expires".to_owned(),
    }
}

/// A key that was not deleted is no longer there when another is made.
fn goes(key: &KeyLife, made_ns: u64) -> WitnessStep {
    let (at_ns, how) = match key.until_ns {
        Some(until_ns) if until_ns <= made_ns => (until_ns, "expires"),
        // Its server has lost it, or has another time.
        _ => (made_ns, "is gone"),
    };
    let text = format!("its key{} {how}", at(key.server));
    WitnessStep { at_ns, client: key.client, text }
}

/// At which of several servers.
pub(super) fn at(server: Option<u16>) -> String {
    server.map_or(String::new(), |server| format!(" at server {server}"))
}

/// As many lines as a story may have: those that it can do without are left out.
fn fit(lines: Vec<StoryLine>) -> Vec<WitnessStep> {
    let up_to = |most: u8| lines.iter().filter(|it| it.rank <= most).count();
    let most = (0..=2).rev().find(|most| up_to(*most) <= LINES_MOST).unwrap_or(0);
    let kept: Vec<StoryLine> = lines.into_iter().filter(|it| it.rank <= most).collect();
    if kept.len() <= LINES_MOST {
        return kept.into_iter().map(|it| it.step).collect();
    }
    let cut = (0..=ENDS_MOST).rev().map(|ends| cut(&kept, ends));
    let fits = |it: &Vec<WitnessStep>| it.len() <= LINES_MOST;
    let must = || kept.iter().filter(|it| it.must).map(|it| it.step.clone());
    cut.into_iter().find(fits).unwrap_or_else(|| must().take(LINES_MOST).collect())
}

/// So many of them from the beginning and the end, those that have to stand, and how many are left out
/// between them.
fn cut(lines: &[StoryLine], ends: usize) -> Vec<WitnessStep> {
    let (beginning, ending) = (ends.div_ceil(2), lines.len() - ends / 2);
    let stands = |place: usize| place < beginning || place >= ending || lines[place].must;
    let mut kept = Vec::new();
    let mut place = 0;
    while place < lines.len() {
        let left_out = (place..lines.len()).take_while(|place| !stands(*place)).count();
        if left_out > 0 {
            let at_ns = lines[place].step.at_ns;
            let steps = if left_out == 1 { "step" } else { "steps" };
            let text = format!("{left_out} {steps} left out");
            kept.push(WitnessStep { at_ns, client: 0, text });
            place += left_out;
        } else {
            kept.push(lines[place].step.clone());
            place += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests;
