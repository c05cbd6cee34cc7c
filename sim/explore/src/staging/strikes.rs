//! The strikes in a history, each as a scenario would stage it.
//!
//! Invariant: a fault stands at the last place that its client had come to, or at the command that it struck. A
//! history may not say in which direction it struck, or whether a clock jumped ahead or back: then each is a reading.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use history::fault::{Fault, Staged, Trigger, Ways, Whom};
use history::{Event, History, What};
use scenarios::scenario::Scenario;
use scenarios::span::{Shift, Span};

use crate::candidate::bare;

/// How long a staged fault lasts where the drawn one was over at once.
const AT_ONCE: Span = Span(Duration::from_millis(1));

/// A fault in each of the ways in which it may have struck; the likeliest first.
pub(super) type Readings = Vec<Staged>;

/// A strike that was found.
pub(super) struct StrikeFound {
    /// When it struck, in nanoseconds since the run began.
    pub(super) at_ns: u64,
    /// It is only a message that took longer than the shortest latency.
    pub(super) is_late: bool,
    /// How it may have struck.
    pub(super) readings: Readings,
}

/// A place of a client in a history.
#[derive(Clone)]
struct PassedPlace {
    at_ns: u64,
    at: Trigger,
    at_any: Trigger,
}

/// A command that no answer has come to yet.
struct UnansweredCommand {
    client: u32,
    at_ns: u64,
    passed: PassedPlace,
    /// When its request or its reply was delayed, and for how long.
    delayed: Option<(u64, u64)>,
}

/// Reads a history.
struct StrikeReader<'a> {
    history: &'a History,
    scenario: &'a Scenario,
    found: Vec<StrikeFound>,
}

/// The strikes of a history, in their order.
pub(super) fn strikes(history: &History, scenario: &Scenario) -> Vec<StrikeFound> {
    let mut reader = StrikeReader { history, scenario, found: Vec::new() };
    reader.look();
    reader.found.sort_by_key(|it| it.at_ns);
    reader.found
}

impl StrikeReader<'_> {
    fn look(&mut self) {
        let mut times = BTreeMap::<(u32, String), u32>::new();
        let mut last = BTreeMap::<u32, PassedPlace>::new();
        let mut sent = BTreeMap::<u32, UnansweredCommand>::new();
        let mut staged: BTreeSet<u16> = BTreeSet::new();
        for (place, event) in self.history.events.iter().enumerate() {
            let Event { at_ns, client, op, what, .. } = *event;
            match what {
                What::Phase(_) | What::Command { .. } if client > 0 => {
                    let passed = self.passed(&mut times, event);
                    if let What::Command { node, .. } = what
                        && !self.history.head.is_resource(node)
                    {
                        let passed = passed.clone();
                        sent.insert(op, UnansweredCommand { client, at_ns, passed, delayed: None });
                    }
                    last.insert(client, passed);
                }
                What::Answered { .. } => {
                    if let Some(it) = sent.remove(&op) {
                        self.late(it.client, at_ns - it.at_ns, it.passed);
                    }
                }
                What::Fault { staged: Some(which), .. } => {
                    // Each strikes once; the scenario says the rest of it.
                    if staged.insert(which)
                        && let Some(cue) = self.scenario.faults.get(usize::from(which))
                    {
                        self.add(at_ns, false, vec![named(cue, client)]);
                    }
                }
                What::Fault { fault: Fault::Delay, for_ns, .. } if client == 0 => {
                    self.delayed(&mut sent, at_ns, for_ns);
                }
                What::Fault { fault, for_ns, node, .. } => {
                    let next = self.history.events[place..].iter().find(|it| {
                        it.client == client
                            && matches!(it.what, What::Command { .. } | What::Phase(_))
                    });
                    let is_next = next.is_some_and(|it| it.at_ns == at_ns);
                    let of_client = sent.values().filter(|it| it.client == client);
                    let pending = of_client.max_by_key(|it| it.at_ns);
                    let before = match client {
                        0 => last.values().max_by_key(|it| it.at_ns),
                        _ => last.get(&client),
                    };
                    let readings = match (fault.is_of_message(), pending) {
                        (true, Some(it)) => {
                            self.of_message(fault, client, at_ns - it.at_ns, &it.passed, for_ns)
                        }
                        (true, None) => Vec::new(),
                        (false, _) => {
                            let mut times = times.clone();
                            let at = match next.filter(|_| is_next && client > 0) {
                                Some(next) => Some(self.passed(&mut times, next)),
                                None => before.cloned(),
                            };
                            of_process(fault, client, node, at_ns, at.as_ref(), for_ns)
                        }
                    };
                    self.add(at_ns, false, readings);
                }
                _ => {
                    sent.remove(&op).into_iter().for_each(|it| self.unanswered(it));
                }
            }
        }
        sent.into_values().for_each(|it| self.unanswered(it));
    }

    /// A history does not say whose message was delayed: it was a request that has just been sent, or else the reply to
    /// the command that was the last to arrive.
    fn delayed(&self, sent: &mut BTreeMap<u32, UnansweredCommand>, at_ns: u64, for_ns: u64) {
        let just_sent = |it: &UnansweredCommand| it.at_ns == at_ns;
        let arrived_ns = |it: &UnansweredCommand| it.at_ns + self.round_trip_ns(it.client) / 2;
        let there = sent.values_mut().filter(|it| just_sent(it) || arrived_ns(it) <= at_ns);
        if let Some(it) = there.max_by_key(|it| (just_sent(it), arrived_ns(it))) {
            it.delayed = Some((at_ns, for_ns));
        }
    }

    /// A command without an answer, one of whose messages may have been delayed for too long.
    fn unanswered(
        &mut self,
        UnansweredCommand { client, at_ns, passed, delayed }: UnansweredCommand,
    ) {
        if let Some((delayed_ns, for_ns)) = delayed {
            let mut readings = self.of_message(Fault::Delay, client, 0, &passed, for_ns);
            if delayed_ns == at_ns {
                readings.reverse();
            }
            self.add(delayed_ns, false, readings);
        }
    }

    fn add(&mut self, at_ns: u64, is_late: bool, readings: Readings) {
        if !readings.is_empty() {
            self.found.push(StrikeFound { at_ns, is_late, readings });
        }
    }

    /// The place of this event, as a scenario names it.
    fn passed(&self, times: &mut BTreeMap<(u32, String), u32>, event: &Event) -> PassedPlace {
        let (name, phase) = match event.what {
            What::Phase(phase) => (phase.name().to_owned(), Some(phase)),
            What::Command { name, .. } => (self.history.text(name).to_owned(), None),
            _ => unreachable!("only phases and commands are places"),
        };
        let mut nth = |client| {
            let times = times.entry((client, name.clone())).or_default();
            *times += 1;
            Some(*times).filter(|times| *times > 1)
        };
        let (own, any) = (nth(event.client), nth(0));
        let command = phase.is_none().then(|| name.clone());
        let at = Trigger { phase, command, nth: own, ..Trigger::default() };
        PassedPlace { at_ns: event.at_ns, at_any: Trigger { nth: any, ..at.clone() }, at }
    }

    /// The shortest time in which a client's command can be answered.
    fn round_trip_ns(&self, client: u32) -> u64 {
        self.scenario.network.latency(client, 0).sampler().at(0) * 2
    }

    /// A message that took longer than the shortest latency. It may have been the request or the reply.
    fn late(&mut self, client: u32, took_ns: u64, passed: PassedPlace) {
        let late_ns = took_ns.saturating_sub(self.round_trip_ns(client));
        if late_ns == 0 {
            return;
        }
        let lasts = Some(Span(Duration::from_nanos(late_ns)));
        let on = Some(Whom::Client(client));
        let of =
            |ways| Staged { lasts, ways: Some(ways), ..bare(Fault::Delay, on, passed.at.clone()) };
        self.add(passed.at_ns, true, vec![of(Ways::Back), of(Ways::There)]);
    }

    /// The readings of a fault that struck a request, or its reply, `since_ns` after the request was sent.
    fn of_message(
        &self,
        fault: Fault,
        client: u32,
        since_ns: u64,
        passed: &PassedPlace,
        for_ns: u64,
    ) -> Readings {
        let bare = bare(fault, Some(Whom::Client(client)), passed.at.clone());
        match fault {
            Fault::Reset => {
                let is_back = since_ns * 4 > self.round_trip_ns(client) * 3;
                let ways =
                    if is_back { [Ways::Back, Ways::There] } else { [Ways::There, Ways::Back] };
                ways.map(|ways| Staged { ways: Some(ways), ..bare.clone() }).into()
            }
            Fault::Delay => {
                let lasts = Some(Span(Duration::from_nanos(for_ns)));
                let ways = [Ways::Back, Ways::There];
                ways.map(|ways| Staged { ways: Some(ways), lasts, ..bare.clone() }).into()
            }
            // Which error a server answered with is not in a history.
            Fault::Refuse => Vec::new(),
            _ => vec![bare],
        }
    }
}

/// A fault that a scenario stages, on the client that it struck.
fn named(cue: &Staged, client: u32) -> Staged {
    let is_of_client =
        client > 0 && !cue.kind.strikes().is_server() && cue.on.is_none_or(|it| !it.is_server());
    let is_timed = cue.at.nth.is_some() || cue.at.chance.is_some();
    match is_of_client && cue.on != Some(Whom::Client(client)) && !is_timed {
        true => Staged { on: Some(Whom::Client(client)), ..cue.clone() },
        false => cue.clone(),
    }
}

/// The readings of a fault that struck a client, or a server if `client` is 0, at this place or after it.
fn of_process(
    fault: Fault,
    client: u32,
    node: Option<u16>,
    at_ns: u64,
    place: Option<&PassedPlace>,
    for_ns: u64,
) -> Readings {
    let Some(place) = place else { return Vec::new() };
    let after_ns = at_ns.saturating_sub(place.at_ns);
    let after = (after_ns > 0).then(|| Span(Duration::from_nanos(after_ns)));
    let (on, at) = match client {
        0 => (node.map(|node| Whom::Server(node.into())), place.at_any.clone()),
        client => (Some(Whom::Client(client)), place.at.clone()),
    };
    let bare = bare(fault, on, Trigger { after, ..at });
    let span = Span(Duration::from_nanos(for_ns));
    let lasts = (for_ns > 0).then_some(span);
    // A drawn fault may be over at once. A staged one lasts.
    let some_time = lasts.or(Some(AT_ONCE));
    match fault {
        Fault::Pause | Fault::Stall | Fault::PowerLoss | Fault::ServerCrash => {
            vec![Staged { lasts: some_time, ..bare }]
        }
        Fault::Failover => vec![Staged { lasts: some_time, on: Some(Whom::Primary), ..bare }],
        Fault::ScriptFlush => vec![Staged { on: Some(Whom::Primary), ..bare }],
        Fault::Crash => vec![Staged { comes_back: lasts, ..bare }],
        Fault::Partition => {
            let ways = [Ways::Both, Ways::There, Ways::Back];
            ways.map(|ways| Staged { lasts: some_time, ways: Some(ways), ..bare.clone() }).into()
        }
        Fault::ClockStep => {
            let by = i64::try_from(for_ns).unwrap_or(i64::MAX);
            let on = if client == 0 { bare.on.or(Some(Whom::Server(0))) } else { bare.on };
            [by, -by].map(|by| Staged { by: Some(Shift(by)), on, ..bare.clone() }).into()
        }
        // A history does not say whose clock drifts, or how fast.
        Fault::Drift => Vec::new(),
        // Sweeps do not draw these.
        Fault::Evict
        | Fault::Flush
        | Fault::ForeignKey
        | Fault::ForeignList
        | Fault::Full
        | Fault::Switchover
        | Fault::SplitBrain => Vec::new(),
        Fault::Delay | Fault::LoseRequest | Fault::LoseReply | Fault::Reset | Fault::Refuse => {
            unreachable!("{} strikes a message, and not a process", fault.name())
        }
    }
}
