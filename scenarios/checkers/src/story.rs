//! The story of a violation: what the clients concerned did, step by step.
//!
//! Invariant: every step is an event of the history, in its words and at its time. When a key was made, ended or harmed is the
//! estimate of [`history::exchange`], as in pictures.

mod describe;
mod short;

use std::ops::Range;

use history::exchange::{Exchange, exchanges, server, split_primaries};
use history::fault::Fault;
use history::tenure::{Accused, KeyTenure, TenureEnd, accused, tenures};
use history::verdict::{Finding, Level, Verdict, Witness, WitnessStep};
use history::{Event, Head, Texts, Touch, What};
use rustc_hash::{FxHashMap, FxHashSet};

use describe::{describe, failed_try};
use short::{KeyEnd, KeyEnding, KeyLife, LateCommand, StepKind, StoryStep};

/// How a script is sent once more of which a server knows nothing.
const EVAL: &str = "EVAL";
/// A command comes late that takes so many times as long as usual.
const LATE: u64 = 4;
/// Longer stories are cut: a client that polls for hours says nothing new.
const STEPS_MOST: usize = 2_000;

/// A witness of these acquisitions and their clients, without its steps yet.
pub(super) fn witness(summary: String, of: &[(u32, u32)]) -> Witness {
    let mut acquisitions = Vec::new();
    let mut clients = Vec::new();
    for (acquisition, client) in of {
        if !acquisitions.contains(acquisition) {
            acquisitions.push(*acquisition);
            clients.push(*client);
        }
    }
    Witness { summary, clients, acquisitions, occurrences: 1, ..Witness::default() }
}

/// Notes a violation by these: the first is told, all are counted.
pub(super) fn note(first: &mut Option<Witness>, summary: String, of: &[(u32, u32)]) {
    match first {
        Some(witness) => witness.occurrences += 1,
        None => *first = Some(witness(summary, of)),
    }
}

/// A violation that one look by the run itself has shown.
pub(super) fn seen_by_run(at_ns: u64, summary: String, text: String) -> Verdict {
    let steps = vec![WitnessStep { at_ns, client: 0, text }];
    Verdict::Violated(Witness { summary, steps, occurrences: 1, ..Witness::default() })
}

/// Collects the steps of witnesses from the events, which it is shown once more.
pub struct StoryWriter<'a> {
    head: &'a Head,
    /// What each acquisition did, as far as it concerns a witness.
    steps: FxHashMap<u32, Vec<(Moment, StoryStep)>>,
    is_idle: bool,
    /// The faults that struck, and until when they last.
    faults: Vec<(Moment, u64, StoryStep)>,
    /// Commands that are to blame, and those of them of which nothing has been heard yet.
    accused: FxHashSet<u32>,
    unheard: FxHashMap<u32, (Moment, StoryStep)>,
    /// Steps that refuse scripts which have not been sent once more, by their acquisitions.
    not_resent: FxHashMap<u32, usize>,
    /// Acquisitions that have tried in vain.
    tried: FxHashSet<u32>,
    /// Whether the lock's key is kept on several servers.
    several: bool,
    sent: FxHashMap<u32, Event>,
    /// What every client did to the lock's key, and the faults: what became of keys follows from all of it.
    of_key: Vec<Event>,
    /// The names of those commands.
    texts: Texts,
    /// The commands among that which are under way.
    under_way: FxHashSet<u32>,
    seen: u64,
}

/// What became of the lock's key.
struct KeyHistory {
    exchanges: Vec<Exchange>,
    tenures: Vec<KeyTenure>,
    blamed: Accused,
}

/// When, and as which event of the history; what a checker itself has said stands behind them.
type Moment = (u64, u64);

impl<'a> StoryWriter<'a> {
    /// Tells the stories of the violations among these findings.
    pub fn new(head: &'a Head, findings: &[Finding]) -> Self {
        let violations = || findings.iter().filter_map(|it| violation(&it.verdict));
        let acquisitions = violations().flat_map(|witness| &witness.acquisitions);
        let steps = acquisitions.map(|acquisition| (*acquisition, Vec::new())).collect();
        let accused = violations().flat_map(|witness| &witness.accused).copied().collect();
        Self {
            head,
            steps,
            is_idle: !violations().any(has_story),
            faults: Vec::new(),
            accused,
            unheard: FxHashMap::default(),
            not_resent: FxHashMap::default(),
            tried: FxHashSet::default(),
            several: false,
            sent: FxHashMap::default(),
            of_key: Vec::new(),
            texts: Texts::default(),
            under_way: FxHashSet::default(),
            seen: 0,
        }
    }

    /// Whether there is nothing to tell.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Shows it the next event.
    pub fn see(&mut self, event: &Event, texts: &Texts) {
        self.seen += 1;
        self.keep(event, texts);
        if let What::Fault { fault, for_ns, node: server, .. } = event.what {
            if let Some(text) = fault.story(event.client, for_ns) {
                let part = if fault == Fault::Crash { StepKind::Death } else { StepKind::Fault };
                // A client whose clock has jumped goes on by that.
                let stays = fault == Fault::ClockStep && event.client > 0;
                let for_ns = if stays { u64::MAX } else { for_ns };
                let until_ns = event.at_ns.saturating_add(for_ns);
                let step = StoryStep { server, ..step(event, text, part) };
                self.faults.push(((event.at_ns, self.seen), until_ns, step));
            }
            return;
        }
        let Some(steps) = self.steps.get_mut(&event.acquisition) else { return };
        let invoked = match event.what {
            What::Command { name, .. } => {
                if self.accused.contains(&event.op) {
                    let text = format!("{} is sent and never heard of again", texts.get(name));
                    let told = step(event, text, StepKind::Unheard);
                    self.unheard.insert(event.op, ((event.at_ns, self.seen), told));
                }
                if texts.get(name) == EVAL {
                    self.not_resent.remove(&event.acquisition);
                }
                self.sent.insert(event.op, *event);
                return;
            }
            // Nothing came of what was refused.
            What::Released(_) | What::ReleaseUnknown(_) | What::NotAcquired(_) | What::Lost => {
                if let Some(place) = self.not_resent.remove(&event.acquisition) {
                    steps[place].1.part = StepKind::Unheard;
                }
                None
            }
            _ if event.op != 0 => {
                self.unheard.remove(&event.op);
                self.sent.remove(&event.op)
            }
            _ => None,
        };
        if steps.len() >= STEPS_MOST && !(event.op != 0 && self.accused.contains(&event.op)) {
            return;
        }
        let invoked = invoked.as_ref();
        let told = describe(self.head, texts, event, invoked).map(|text| {
            let part = StepKind::of(self.head, texts, event.what, invoked.map(|it| it.what));
            (text, part)
        });
        // Only the first try in vain tells anything: why its client began to wait.
        let failed_try = || failed_try(self.head, texts, event, invoked?);
        let failed_try = || failed_try().filter(|_| self.tried.insert(event.acquisition));
        if let Some((text, part)) = told.or_else(failed_try) {
            let server = invoked.and_then(|it| server_of_lock(self.head, texts, it.what));
            self.several |= server.is_some_and(|server| server > 0);
            let step = StoryStep { server, change: change(event.what), ..step(event, text, part) };
            if short::is_no_script(texts, event.what) {
                self.not_resent.insert(event.acquisition, steps.len());
            }
            steps.push(((event.at_ns, self.seen), step));
        }
    }

    /// Keeps what says what became of the lock's key.
    fn keep(&mut self, event: &Event, texts: &Texts) {
        let what = match event.what {
            What::Fault { .. } => event.what,
            What::Command { node, key, .. }
                if self.head.is_resource(node) || texts.get(key) != self.head.lock_key =>
            {
                return;
            }
            What::Command { node, name, key, intent } => {
                self.under_way.insert(event.op);
                let [name, key] = [name, key].map(|it| self.texts.intern(texts.get(it)));
                What::Command { node, name, key, intent }
            }
            what if event.op != 0 && self.under_way.remove(&event.op) => what,
            _ => return,
        };
        self.of_key.push(Event { what, ..*event });
    }

    /// What became of the lock's key, by all that was seen.
    fn keys(&self, findings: &[Finding]) -> KeyHistory {
        let texts = &self.texts;
        let mut exchanges = exchanges(self.head, texts, &self.of_key);
        split_primaries(&mut exchanges, self.head, texts, &self.of_key);
        let witnesses = findings.iter().filter_map(|it| Some((it.level, violation(&it.verdict)?)));
        let blamed = accused(witnesses);
        let tenures = tenures(self.head, texts, &self.of_key, &mut exchanges, &blamed);
        KeyHistory { exchanges, tenures, blamed }
    }

    /// Writes the steps into the witnesses.
    pub fn write(&self, findings: &mut [Finding]) {
        if self.is_idle {
            return;
        }
        let keys = self.keys(findings);
        for finding in findings {
            let Verdict::Violated(witness) = &mut finding.verdict else { continue };
            if !has_story(witness) {
                continue;
            }
            let of = witness.acquisitions.iter().filter_map(|it| self.steps.get(it));
            let mut steps: Vec<(Moment, StoryStep)> = of.flatten().cloned().collect();
            let unheard = witness.accused.iter().filter_map(|op| self.unheard.get(op));
            steps.extend(unheard.cloned());
            let own = witness.steps.drain(..);
            steps.extend(own.map(|it| ((it.at_ns, u64::MAX), StoryStep::new(it, StepKind::Told))));
            steps.sort_by_key(|(at, _)| *at);
            let (first, last) = (steps.first().map(|it| it.0), steps.last().map(|it| it.0));
            let begins_ns = first.map_or(0, |it| it.0);
            let concerns = |(at, until_ns, it): &&(Moment, u64, StoryStep)| {
                let client = it.step.client;
                let is_within = (first..=last).contains(&Some(*at));
                // A server that had ended before may be why nothing happens.
                let still_lasts = client == 0 && at.0 < begins_ns && begins_ns < *until_ns;
                (is_within && (client == 0 || witness.clients.contains(&client))) || still_lasts
            };
            let concern = self.faults.iter().filter(concerns);
            let concerned = keys.concerned(finding.level, &steps);
            steps.extend(concern.map(|(at, until_ns, step)| {
                let span = concerned.get(&step.step.client);
                let is_aside = span.is_some_and(|it| *until_ns < it.start || it.end < at.0);
                let part = if is_aside { StepKind::OtherFault } else { step.part };
                (*at, StoryStep { part, ..step.clone() })
            }));
            steps.sort_by_key(|(at, _)| *at);
            let told = |(_, mut step): (Moment, StoryStep)| {
                keys.tell(&self.texts, &witness.acquisitions, &mut step);
                let is_one_of_two = step.server.is_some_and(|it| it != server(it));
                step.server = step.server.filter(|_| self.several || is_one_of_two);
                step.step.text += &short::at(step.server);
                step
            };
            let steps: Vec<StoryStep> = steps.into_iter().map(told).collect();
            witness.story = short::shorten(self.head.stamped, finding.level, witness, &steps);
            witness.steps = steps.into_iter().map(|it| it.step).collect();
        }
    }
}

impl KeyHistory {
    /// From when to when a fault concerns each client, and, as client 0, servers: one that was over before its client sent for
    /// a key that it then had, or struck behind what is at issue at this level, has no part in it. Any may be why nobody got on.
    fn concerned(&self, level: Level, steps: &[(Moment, StoryStep)]) -> FxHashMap<u32, Range<u64>> {
        let mut concerned = FxHashMap::default();
        if level == Level::Progress {
            return concerned;
        }
        for it in steps.iter().map(|(_, it)| it) {
            if matches!(it.part, StepKind::Made(_) | StepKind::Overwritten(_)) {
                let place = self.exchanges.binary_search_by_key(&it.op, |it| it.op);
                let sent_ns = place.map_or(it.step.at_ns, |place| self.exchanges[place].sent_ns);
                for client in [it.step.client, 0] {
                    let span = concerned.entry(client).or_insert(sent_ns..u64::MAX);
                    span.start = span.start.min(sent_ns);
                }
            }
            let is_last = matches!(
                (level, it.part),
                (Level::Belief, StepKind::Release) | (Level::Effect, StepKind::Work)
            );
            if let Some(span) = concerned.get_mut(&it.step.client).filter(|_| is_last) {
                span.end = it.step.at_ns;
            }
        }
        concerned
    }

    /// Adds to a step what is known of the key beside it.
    fn tell(&self, texts: &Texts, concerned: &[u32], step: &mut StoryStep) {
        let find = |op: u32| self.exchanges.binary_search_by_key(&op, |it| it.op).ok();
        let Some(it) = find(step.op).map(|place| &self.exchanges[place]) else { return };
        step.server = step.server.map(|_| it.node);
        if step.part == StepKind::Deleted && self.has_lost(it) {
            step.step.text += ", though not its own";
        }
        if it.answered_ns().is_none() {
            let Exchange { sent_ns, done_ns, .. } = *it;
            let is_late = done_ns - sent_ns > LATE * it.usual_ns;
            let (name, touch) = (texts.get(it.name).to_owned(), it.intent.touch);
            step.late = Some(LateCommand { sent_ns, done_ns, is_late, name, touch });
        }
        let Some(tenure) = self.tenures.iter().find(|tenure| tenure.op == step.op) else { return };
        let ending = |op: u32| {
            let it = &self.exchanges[find(op)?];
            Some(KeyEnding {
                client: it.client,
                answered_ns: it.latest_ns(),
                is_behind: tenure.knows_end(&self.exchanges, &self.blamed),
                is_told: concerned.contains(&it.acquisition),
            })
        };
        let is_own = |op: u32| {
            find(op).is_some_and(|it| self.exchanges[it].acquisition == tenure.acquisition)
        };
        let end = match tenure.end {
            TenureEnd::Expired if tenure.doubted_ns.is_some() => KeyEnd::ExpiresAtTheLatest,
            TenureEnd::Expired => KeyEnd::Expires,
            TenureEnd::Deleted { op, .. } => match ending(op) {
                Some(by) if by.answered_ns < u64::MAX => KeyEnd::Deleted(by),
                _ => KeyEnd::Gone,
            },
            TenureEnd::Overwritten { op, .. } if !is_own(op) => {
                ending(op).map_or(KeyEnd::Stays, KeyEnd::Overwritten)
            }
            TenureEnd::Gone | TenureEnd::Lost(_) => KeyEnd::Gone,
            // Whoever writes its own key anew has not lost it.
            TenureEnd::Overwritten { .. } | TenureEnd::Stays => KeyEnd::Stays,
        };
        step.key = Some(KeyLife { made_ns: tenure.from_ns, until_ns: tenure.until_ns, end });
    }
}

impl KeyHistory {
    /// Whether another had surely ended the key of its acquisition before this command was sent.
    fn has_lost(&self, it: &Exchange) -> bool {
        let here = |acquisition, node| (acquisition, node) == (it.acquisition, it.node);
        let may_make = |other: &&Exchange| {
            let makes = matches!(other.intent.touch, Touch::Create(_) | Touch::Overwrite(_));
            makes && here(other.acquisition, other.node) && other.answered_ns().is_none()
        };
        let mut own = self.tenures.iter().filter(|key| here(key.acquisition, key.node)).peekable();
        let is_over = |key: &KeyTenure| {
            let ended = key.end.op().and_then(|op| {
                let place = self.exchanges.binary_search_by_key(&op, |it| it.op).ok()?;
                Some(&self.exchanges[place])
            });
            // Of an attack, what is sent and what has come of it have one time.
            ended.is_some_and(|ended| ended.op != it.op && ended.latest_ns() <= it.sent_ns)
                && key.knows_end(&self.exchanges, &self.blamed)
        };
        own.peek().is_some() && own.all(is_over) && !self.exchanges.iter().any(|it| may_make(&it))
    }
}

/// Whether something of the history belongs to a witness: what acquisitions did, or what struck clients.
fn has_story(witness: &Witness) -> bool {
    !witness.acquisitions.is_empty() || !witness.clients.is_empty()
}

fn step(event: &Event, text: String, part: StepKind) -> StoryStep {
    let Event { at_ns, client, acquisition, op, .. } = *event;
    let step = WitnessStep { at_ns, client, text };
    StoryStep { acquisition, op, ..StoryStep::new(step, part) }
}

/// What was read and what was written, where an event changes what the lock protects. A pool goes down by what is taken. What
/// may not have been written is in nobody's way.
fn change(what: What) -> Option<(i64, i64)> {
    Some(match what {
        What::Updated(it) => (it.read, it.written),
        What::UpdateUnknown { update, .. } => (update.read, i64::MIN),
        What::Taken { prize, .. } => (prize.saturating_neg(), 1_i64.saturating_sub(prize)),
        What::TakeUnknown { prize, .. } => (prize.saturating_neg(), i64::MIN),
        _ => return None,
    })
}

/// The server that a command on the lock's key was sent to.
fn server_of_lock(head: &Head, texts: &Texts, invoked: What) -> Option<u16> {
    match invoked {
        What::Command { node, key, .. } if texts.get(key) == head.lock_key => Some(node),
        _ => None,
    }
}

fn violation(verdict: &Verdict) -> Option<&Witness> {
    match verdict {
        Verdict::Violated(witness) => Some(witness),
        _ => None,
    }
}

/// A list as people say it.
pub(super) fn and(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;
