//! From a history to a result: verdicts, figures and what a reader must know.
//!
//! Invariant: everything but the circumstances follows from the history, so that judging a stored
//! history again gives the same result, whether it is read as a whole or event by event.

mod bypass;
mod counts;

use std::collections::BTreeMap;

use history::verdict::{Finding, Level, Outcome, Verdict, Witness, worst};
use history::{Head, History};

use crate::recipe::{Validity, about};
use crate::result::{Invariant, LatencyFigures, RunResult, SCHEMA, ServerFacts, Stats};
use crate::sweep::STUCK;

pub use counts::HistoryCounts;

/// What the result of a run needs and its history does not say.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// The server.
    pub server: ServerFacts,
    /// Whether the run came to its end.
    pub complete: bool,
    /// The witness that tasks waited or ran for ever, if they did.
    pub stuck: Option<Witness>,
    /// Who else used the servers, if anybody. Then every verdict is inconclusive.
    pub disturbed: Option<String>,
    /// What a reader should know.
    pub remarks: Vec<String>,
    /// Whether faults struck at random, and none was staged.
    pub searched: bool,
    /// The command line that runs the same again.
    pub replay: String,
    /// Commands that the server counted, if nobody else uses it.
    pub server_commands: Option<BTreeMap<String, u64>>,
    /// Latency of each kind of operation.
    pub latencies: Vec<LatencyFigures>,
}

/// Judges a history.
pub fn judge(history: &History, circumstances: Circumstances) -> RunResult {
    let findings = checkers::check(history, circumstances.complete);
    let mut counts = HistoryCounts::new(&history.head);
    history.events.iter().for_each(|event| counts.see(event, &history.texts));
    sum_up(&history.head, findings, counts, circumstances)
}

/// The result of a history with this head, these findings and these counts.
pub fn sum_up(
    head: &Head,
    findings: Vec<Finding>,
    counts: HistoryCounts<'_>,
    circumstances: Circumstances,
) -> RunResult {
    let findings =
        beside_history(findings, circumstances.stuck, circumstances.disturbed.as_deref());
    let invariants: Vec<Invariant> = findings.into_iter().map(Invariant::from).collect();
    let stats = Stats {
        server_commands: circumstances.server_commands,
        latencies: circumstances.latencies,
        ..counts.stats()
    };
    let mut remarks = circumstances.remarks;
    if circumstances.complete {
        remarks.extend(miscounted(&stats, &head.lock));
    }
    let verdict = worst(invariants.iter().map(|it| it.verdict));
    if circumstances.complete && verdict == Outcome::Inconclusive {
        let busy = head.busy();
        remarks.extend(busy.map(|why| format!("{why}: run it again when less runs beside it")));
    }
    let validity = if head.tracked { Validity::Tracked } else { Validity::None };
    RunResult {
        schema: SCHEMA.to_owned(),
        scenario: head.scenario.clone(),
        lock: head.lock.clone(),
        validity: validity.name().to_owned(),
        world: head.world.clone(),
        server: circumstances.server,
        searched: circumstances.searched,
        seed: head.seed,
        verdict,
        complete: circumstances.complete,
        invariants,
        remarks,
        stats,
        replay: circumstances.replay,
    }
}

/// Adds to the findings of a history what it does not say: that tasks waited or ran for ever, and that somebody else used the
/// servers.
pub fn beside_history(
    mut findings: Vec<Finding>,
    stuck: Option<Witness>,
    disturbed: Option<&str>,
) -> Vec<Finding> {
    let stuck = stuck.map(Verdict::Violated);
    findings.extend(stuck.map(|verdict| Finding::new(STUCK, Level::Progress, verdict)));
    match disturbed {
        Some(why) => findings.into_iter().map(|it| it.doubted(why)).collect(),
        None => findings,
    }
}

/// Commands that only locks send. If no script of the lock calls them, the server must count what clients sent.
const COUNTED: [&str; 3] = ["SET", "EVAL", "EVALSHA"];

/// A remark if server and history count a command differently: then requests bypassed picklock.
fn miscounted(stats: &Stats, lock: &str) -> Option<String> {
    let scripts = about(lock).map(|about| (about.scripts)()).unwrap_or_default();
    let calls = |name: &str| {
        let quoted = format!("'{name}'");
        scripts.iter().any(|script| script.text().contains(&quoted))
    };
    let server = stats.server_commands.as_ref()?;
    let count = |counts: &BTreeMap<String, u64>, name: &str| counts.get(name).copied().unwrap_or(0);
    let differs = |name: &&str| count(server, name) != count(&stats.commands, name);
    let name = COUNTED.into_iter().filter(|name| !calls(name)).find(differs)?;
    let (sent, carried_out) = (count(&stats.commands, name), count(server, name));
    Some(format!(
        "clients sent {sent} {name} and the server carried out {carried_out}: requests were lost or \
         refused, or somebody else used the server"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Tally;
    use history::fault::{Fault, Whom};
    use history::{Declared, Event, Head, Intent, Touch, What};

    #[test]
    fn a_difference_in_counts_is_remarked_on() {
        let counts = |set, get| BTreeMap::from([("SET".to_owned(), set), ("GET".to_owned(), get)]);
        let stats =
            |server| Stats { commands: counts(5, 1), server_commands: server, ..Stats::default() };
        let of = |server, lock| miscounted(&stats(server), lock);
        assert_eq!(of(None, "single"), None, "a server that others use, too");
        assert_eq!(of(Some(counts(5, 9)), "single"), None, "scripts call GET");
        assert!(of(Some(counts(4, 1)), "single").unwrap().contains("sent 5 SET"));
        assert!(of(Some(counts(4, 1)), "a stranger").is_some());
        assert_eq!(of(Some(counts(9, 1)), "queue"), None, "its scripts call SET");
    }

    #[test]
    fn a_run_that_shows_nothing_on_a_busy_machine_says_so() {
        let said = |late_ns, complete| {
            let staged = vec![Declared {
                kind: Fault::Pause,
                on: Whom::Holder,
                in_hold: true,
                subscribes: false,
            }];
            let head =
                Head { late_ns, locks: true, staged, ttl_ns: 500_000_000, ..Head::default() };
            let circumstances = Circumstances { complete, ..Circumstances::default() };
            let found = judge(&History::new(head), circumstances);
            assert_eq!(found.verdict, Outcome::Inconclusive);
            found.remarks
        };
        let busy = "this machine was busy, and kept the run itself from running for up to 622 ms: run it again when less \
                    runs beside it";
        assert_eq!(said(Some(622_000_000), true), [busy]);
        assert!(said(Some(9_000_000), true).is_empty(), "a quiet machine");
        assert!(said(None, true).is_empty(), "virtual time");
        assert!(said(Some(622_000_000), false).is_empty(), "cut short, which is the reason");
    }

    #[test]
    fn the_figures_are_those_of_the_history_and_of_its_circumstances() {
        let mut history = History::new(Head {
            locks: true,
            clients: 3,
            resource: Some(2),
            prizes: Some(10),
            ..Head::default()
        });
        let why = history.texts.intern("because");
        let (set, key) = (history.texts.intern("SET"), history.texts.intern("k"));
        let intent = Intent { touch: Touch::None, compares: false };
        let command = |node| What::Command { node, name: set, key, intent };
        let mut nth = 0;
        for acquisition in 1..=9 {
            let (end, takes) = match acquisition {
                1 | 2 => (Some(What::Acquired), true),
                3 => (Some(What::Acquired), false),
                4 | 5 => (Some(What::NotAcquired(why)), false),
                6 => (Some(What::AcquireUnknown(why)), false),
                _ => (None, false),
            };
            let taken = takes.then_some(What::Taken { prize: 1, left: 0 });
            let sent = (acquisition < 4).then_some(command(u16::try_from(acquisition).unwrap()));
            for what in [Some(What::Acquire), sent, end, taken].into_iter().flatten() {
                nth += 1;
                let event =
                    Event { at_ns: 100 + nth, client: 1, acquisition, op: acquisition, what };
                history.events.push(event);
            }
        }
        let latency =
            LatencyFigures { operation: "acquire".to_owned(), ..LatencyFigures::default() };
        let counted = Some(BTreeMap::from([("SET".to_owned(), 2)]));
        let circumstances = Circumstances {
            complete: true,
            server_commands: counted.clone(),
            latencies: vec![latency],
            ..Circumstances::default()
        };
        let stats = judge(&history, circumstances).stats;
        assert_eq!(stats.acquisitions, Tally { invoked: 9, ok: 3, failed: 2, unknown: 4 });
        assert_eq!((stats.clients, stats.duration_ns, stats.winners), (3, nth - 1, Some(2)));
        assert_eq!(Some(stats.commands), counted, "without those to the resource");
        assert_eq!(stats.server_commands, counted);
        assert_eq!(stats.latencies[0].operation, "acquire");
    }
}
