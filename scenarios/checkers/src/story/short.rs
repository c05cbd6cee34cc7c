//! The story in a dozen lines: of all that the clients concerned did, what one has to know.
//!
//! Invariant: every line is something that the history shows, or the end of a key that follows from it; whose
//! key a command harmed is said only of the one that a checker blames. That one is in every story, and
//! so is what a checker has said itself.

mod fit;

use std::collections::BTreeMap;

use durations::span::rounded;
use history::exchange;
use history::verdict::{Level, Witness, WitnessStep};
use history::{Head, Intent, Texts, Touch, What};
use rustc_hash::FxHashSet;

use crate::interface::SUBSCRIBE;
use fit::{LineWeight, StoryLine, fit};

/// Whoever learns of its key after this part of its life learns of it late.
const LATE: u64 = 10;

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
    /// One that was over before those whom it struck sent for the lock, or came behind what is at issue.
    OtherFault,
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
            _ if is_no_script(texts, what) => Self::Detail,
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

    /// How long the key lives that it makes.
    const fn ttl_ns(self) -> Option<u64> {
        match self {
            Self::Made(ttl_ns) | Self::Overwritten(ttl_ns) => ttl_ns,
            _ => None,
        }
    }

    /// What weight a line of this kind has where not all of them fit.
    const fn weight(self, must: bool) -> LineWeight {
        match self {
            _ if must => LineWeight::Must,
            Self::Has => LineWeight::Lock,
            Self::Fault | Self::Death => LineWeight::Fault,
            _ => LineWeight::Rest,
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
    /// What became of the key that it made.
    pub(super) key: Option<KeyLife>,
    /// The command that it is about, where that has no answer.
    pub(super) late: Option<LateCommand>,
    /// What was read and what was written, where it changed what the lock protects.
    pub(super) change: Option<(i64, i64)>,
}

/// From when to when a key was there, as far as answers tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyLife {
    pub(super) made_ns: u64,
    /// `u64::MAX` for ever.
    pub(super) until_ns: u64,
    pub(super) end: KeyEnd,
}

/// How a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyEnd {
    Expires,
    /// Unless a deletion without an answer was carried out.
    ExpiresAtTheLatest,
    /// A fault took it, or no answer says what did.
    Gone,
    Deleted(KeyEnding),
    Overwritten(KeyEnding),
    /// It has not ended.
    Stays,
}

/// The command that ended a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyEnding {
    /// Whose it was.
    pub(super) client: u32,
    /// When it was answered; `u64::MAX` if it was not.
    pub(super) answered_ns: u64,
    /// Whether answers say that it was carried out behind the command that made the key.
    pub(super) is_behind: bool,
    /// Whether another step says so.
    pub(super) is_told: bool,
}

/// A command without an answer.
#[derive(Clone, Debug)]
pub(super) struct LateCommand {
    pub(super) sent_ns: u64,
    /// When it was carried out: an estimate.
    pub(super) done_ns: u64,
    /// Whether that was long after it was sent.
    pub(super) is_late: bool,
    pub(super) name: String,
    pub(super) touch: Touch,
}

impl StoryStep {
    /// A step that belongs to no acquisition.
    pub(super) fn new(step: WitnessStep, part: StepKind) -> Self {
        Self {
            step,
            part,
            acquisition: 0,
            op: 0,
            server: None,
            key: None,
            late: None,
            change: None,
        }
    }

    fn is_accused(&self, witness: &Witness) -> bool {
        self.op != 0 && witness.accused.contains(&self.op)
    }
}

/// A key that one of those concerned has made.
struct OwnKey {
    /// How long it lives, as last set.
    ttl_ns: Option<u64>,
    life: KeyLife,
    /// The line that says that it was made.
    line: usize,
    /// The line that says how long its maker has it live, where a command of its own does.
    extended: Option<usize>,
}

/// The short story of these steps, which stand in order. Where keys are `stamped`, their values say until when they count.
pub(super) fn shorten(
    stamped: bool,
    level: Level,
    witness: &Witness,
    steps: &[StoryStep],
) -> Vec<WitnessStep> {
    let mut lines: Vec<StoryLine> = Vec::new();
    let mut keys: BTreeMap<(u32, Option<u16>), OwnKey> = BTreeMap::new();
    let cause = cause(level, witness, steps);
    let clash = clash(level, steps);
    // Of holds that nothing has been refused yet: then it is what keeps the lock.
    let mut kept: FxHashSet<u32> = FxHashSet::default();
    // When a fault last struck a server.
    let mut struck_ns = None;
    for (place, it) in steps.iter().enumerate() {
        let StoryStep { step, part, acquisition, .. } = it;
        let accused = it.is_accused(witness);
        let must = accused
            || *part == StepKind::Told
            || Some(place) == cause
            || clash.is_some_and(|it| it.contains(&place));
        let is_kept_no_more = *part == StepKind::Unheard && kept.remove(acquisition);
        let rank = match level {
            _ if must => 0,
            Level::Belief if is_kept_no_more => 1,
            _ => part.rank(level),
        };
        let mut line = StoryLine { rank, weight: part.weight(must), step: step.clone() };
        let here = (*acquisition, it.server);
        match *part {
            StepKind::Made(ttl_ns) | StepKind::Overwritten(ttl_ns) => {
                let stays = KeyLife { made_ns: step.at_ns, until_ns: u64::MAX, end: KeyEnd::Stays };
                let life = it.key.unwrap_or(stays);
                let (line, extended) = (lines.len(), None);
                keys.insert(here, OwnKey { ttl_ns, life, line, extended });
            }
            StepKind::Has => {
                kept.insert(*acquisition);
                let own = || keys.iter().filter(|(of, _)| of.0 == *acquisition);
                // What a fault took at this very moment is gone only if the fault stands before.
                let is_over = |key: &OwnKey| {
                    let KeyLife { until_ns, end, .. } = key.life;
                    let is_before = end != KeyEnd::Gone || struck_ns == Some(step.at_ns);
                    until_ns < step.at_ns || until_ns == step.at_ns && is_before
                };
                let stands = own().find(|(_, key)| !is_over(key));
                if let Some(((_, server), key)) = stands.or_else(|| own().next()) {
                    line.step.text += &on(*server);
                    line.step.text += &lives(stamped, key, step.at_ns, is_over(key));
                }
                // That it was made, and for how long, need not be said apart from this.
                for said in own().flat_map(|(_, key)| [Some(key.line), key.extended]).flatten() {
                    let said = &mut lines[said];
                    let must = said.weight == LineWeight::Must;
                    said.rank = if must { 0 } else { StepKind::Detail.rank(level) };
                }
            }
            StepKind::Extended(ttl_ns) => {
                if let Some(key) = keys.get_mut(&here) {
                    (key.ttl_ns, key.extended) = (Some(ttl_ns), Some(lines.len()));
                }
            }
            StepKind::Deleted => {
                keys.remove(&here);
            }
            StepKind::Release => {
                kept.remove(acquisition);
            }
            StepKind::Fault if step.client == 0 => struck_ns = Some(step.at_ns),
            _ => {}
        }
        if let (true, Level::Key, [victim, ..], [_]) =
            (accused, level, &witness.clients[..], &witness.accused[..])
        {
            line.step = harm(it, *victim);
            line.step.text += &at(it.server);
        }
        lines.push(line);
    }
    let ends = ends(stamped, steps);
    let weight = LineWeight::Lock;
    lines.extend(ends.into_iter().map(|step| StoryLine { rank: 0, weight, step }));
    // That a key has expired shows only when the next one is made.
    lines.sort_by_key(|line| line.step.at_ns);
    if level == Level::Progress {
        // What was done when it was over explains nothing.
        let told = steps.iter().filter(|it| it.part == StepKind::Told).map(|it| it.step.at_ns);
        let over_ns = told.max().unwrap_or(u64::MAX);
        lines.retain(|it| it.step.at_ns <= over_ns || it.weight == LineWeight::Must);
    }
    let mut said = FxHashSet::default();
    lines.retain(|it| {
        let WitnessStep { at_ns, client, text } = &it.step;
        said.insert((*at_ns, *client, text.clone())) || it.weight == LineWeight::Must
    });
    fit(lines)
}

/// Whether a server has refused a script, of which it knows nothing.
pub(super) fn is_no_script(texts: &Texts, what: What) -> bool {
    matches!(what, What::Refused(why) if texts.get(why).starts_with("NOSCRIPT"))
}

/// How the keys ended behind which others were made on the same server.
fn ends(stamped: bool, steps: &[StoryStep]) -> Vec<WitnessStep> {
    let made = steps.iter().filter(|it| {
        matches!(it.part, StepKind::Made(_) | StepKind::Overwritten(_)) && it.key.is_some()
    });
    let mut made: Vec<(&StoryStep, KeyLife)> = made.filter_map(|it| Some((it, it.key?))).collect();
    made.sort_by_key(|(it, life)| (it.server, life.made_ns));
    let ended = made.windows(2).filter_map(|pair| {
        let [(it, life), (next, next_life)] = pair else { return None };
        if it.server != next.server {
            return None;
        }
        let whose = if stamped { "its stamp" } else { "its key" };
        let how = match life.end {
            KeyEnd::Deleted(by) if !by.is_told && by.answered_ns <= next.step.at_ns => {
                let text = format!("deletes the key of client {}{}", it.step.client, at(it.server));
                return Some(WitnessStep { at_ns: by.answered_ns, client: by.client, text });
            }
            KeyEnd::Deleted(by) if !by.is_told => {
                let text =
                    format!("is deleting the key of client {}{}", it.step.client, at(it.server));
                return Some(WitnessStep { at_ns: life.until_ns, client: by.client, text });
            }
            KeyEnd::Deleted(_) | KeyEnd::Overwritten(_) | KeyEnd::Stays if stamped => {
                let over_ns = life.made_ns.saturating_add(it.part.ttl_ns()?);
                let is_over = over_ns > life.made_ns && over_ns <= next_life.made_ns;
                return is_over.then(|| WitnessStep {
                    at_ns: over_ns,
                    client: it.step.client,
                    text: format!("{whose}{} is over", at(it.server)),
                });
            }
            KeyEnd::Deleted(_) | KeyEnd::Overwritten(_) | KeyEnd::Stays => return None,
            KeyEnd::Expires => "expires",
            KeyEnd::ExpiresAtTheLatest => "expires, if it was not deleted before",
            KeyEnd::Gone => "is gone",
        };
        let text = format!("its key{} {how}", at(it.server));
        Some(WitnessStep { at_ns: life.until_ns, client: it.step.client, text })
    });
    ended.collect()
}

/// What the command to blame did to the key of this client.
fn harm(it: &StoryStep, victim: u32) -> WitnessStep {
    let (at_ns, client) = (it.step.at_ns, it.step.client);
    let did = |touch: Touch| match touch {
        Touch::Delete => "deletes",
        Touch::Extend(_) => "extends",
        _ => "overwrites",
    };
    let (at_ns, text) = match (it.part, &it.late) {
        (StepKind::Deleted, _) => (at_ns, format!("deletes the key of client {victim}")),
        (StepKind::Extended(ttl_ns), _) => (
            at_ns,
            format!("extends the key of client {victim}, to live {} from now", rounded(ttl_ns)),
        ),
        (StepKind::Made(_) | StepKind::Overwritten(_), _) => {
            (at_ns, format!("overwrites the key of client {victim}"))
        }
        (_, Some(late)) => {
            let whose = if victim == client {
                "its later hold".to_owned()
            } else {
                format!("client {victim}")
            };
            let (did, name) = (did(late.touch), &late.name);
            let sent = rounded(late.sent_ns);
            let text = if late.is_late {
                format!("its {name}, sent at {sent}, arrives only now and {did} the key of {whose}")
            } else {
                format!("its {name}, which is never answered, {did} the key of {whose}")
            };
            (late.done_ns, text)
        }
        _ => (at_ns, format!("harms the key of client {victim}: {}", it.step.text)),
    };
    WitnessStep { at_ns, client, text }
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

/// The first two changes of what the lock protects of which the second was made as if the first had not been.
fn clash(level: Level, steps: &[StoryStep]) -> Option<[usize; 2]> {
    if level != Level::Effect {
        return None;
    }
    let changes = || steps.iter().enumerate().filter_map(|(at, it)| Some((at, it, it.change?)));
    changes().find_map(|(second, it, (read, _))| {
        let mut before = changes().take_while(|(at, ..)| *at < second);
        let ignored = before.find(|(_, other, (_, written))| {
            other.acquisition != it.acquisition && *written > read
        });
        ignored.map(|(first, ..)| [first, second])
    })
}

/// How long the key lives, behind who has it at this time, or that it has ended already.
fn lives(stamped: bool, key: &OwnKey, at_ns: u64, is_over: bool) -> String {
    let OwnKey { ttl_ns, life, extended, .. } = key;
    let before_ns = at_ns.saturating_sub(life.made_ns);
    let ended = is_over.then(|| ended(life.end, at_ns)).flatten();
    match (*ttl_ns, ended) {
        (Some(0), _) if stamped => ": its key is stamped as over".to_owned(),
        (_, Some((how, true))) => format!(": its key {how} already"),
        (Some(ttl_ns), _) if stamped => format!(": its stamp is valid {}", rounded(ttl_ns)),
        (_, Some((how, false))) => format!(": its key may {how} already"),
        // Its answer was late.
        (Some(ttl_ns), None) if extended.is_none() && before_ns > ttl_ns / LATE => {
            format!(": its key lives {} more", rounded(ttl_ns.saturating_sub(before_ns)))
        }
        (Some(ttl_ns), None) => format!(": its key lives {}", rounded(ttl_ns)),
        (None, None) => ": its key never expires".to_owned(),
    }
}

/// What has happened by this time to a key that ended, and whether that is certain.
fn ended(end: KeyEnd, at_ns: u64) -> Option<(&'static str, bool)> {
    let is_certain = |by: KeyEnding| by.is_behind && by.answered_ns <= at_ns;
    Some(match end {
        KeyEnd::Expires | KeyEnd::ExpiresAtTheLatest => ("has expired", true),
        KeyEnd::Gone => ("is gone", true),
        KeyEnd::Deleted(by) if is_certain(by) => ("is deleted", true),
        KeyEnd::Deleted(_) => ("be deleted", false),
        KeyEnd::Overwritten(by) if is_certain(by) => ("is overwritten", true),
        KeyEnd::Overwritten(_) => ("be overwritten", false),
        KeyEnd::Stays => return None,
    })
}

/// At which of several servers.
pub(super) fn at(server: Option<u16>) -> String {
    match server {
        Some(it) if exchange::server(it) != it => format!(" at the {}", exchange::server_name(it)),
        Some(it) => format!(" at {}", exchange::server_name(it)),
        None => String::new(),
    }
}

/// On which of two servers that stand for one.
fn on(server: Option<u16>) -> String {
    let is_one_of_two = |it: &u16| exchange::server(*it) != *it;
    let name = |it| format!(" on the {}", exchange::server_name(it));
    server.filter(is_one_of_two).map(name).unwrap_or_default()
}

#[cfg(test)]
mod tests;
