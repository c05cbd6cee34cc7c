//! The outcome of a staged plan: judges its history, unless a busy machine has spoilt the run.

use std::time::{Duration, Instant};

use history::verdict::{Level, Outcome};
use history::{FORMAT, Head, History, What};
use picklock::time::span_ns;
use scenarios::span::rounded;

use crate::arena::{Arena, WireLog};
use crate::board::VICTIM;
use crate::judgement::{Judged, PlanEvidence, judge};
use crate::known::{Known, LATE_MOST, MARGIN, probe};
use crate::plan::{AttackFault, AttackPlan, LockStep, Target};
use crate::recorder::{Claim, ClaimOf, RecordedEvent, ValidityClaim};
use crate::report::{NO_FAULT, PlanOutcome, PlanReport};
use crate::shared_key::{self, PartLife};
use crate::stage::PlanRun;
use crate::stamped;
use crate::tenure::{Tenure, tenures};
use crate::transcript::{self, HANDSHAKE, Phases, TracedCommand};

/// If a client holds the lock for more than this part of the key's life, the machine was too busy.
const WORK_MOST: f64 = 0.75;

/// Judges the plan that was just staged; without a plan, the run without faults.
pub(crate) async fn assess(
    arena: &Arena,
    known: &Known,
    plan: Option<&AttackPlan>,
    staged: PlanRun,
) -> PlanReport {
    // A key with `stamps` may outlive its hold: only its value says whether the lock is free.
    if !known.promises.stamps {
        probe(arena, &known.lock_key, &staged.recorder).await;
    }
    let wire = arena.wire_log().await;
    let (trace, judged) = judged(arena, known, plan, &staged, &wire);
    let PlanTrace { history, divergence, phases, claims, sent, delays } = trace;
    let Judged { mut levels, mut findings, mut doubts } = judged;
    let divergence = match wire.is_complete {
        true => divergence,
        false => Some(String::from("the witness has not seen all that the server carried out")),
    };
    let diverged = divergence.is_some();
    if let Some(why) = divergence {
        // If the witness cannot be trusted, nothing is known of the key.
        findings.retain(|it| it.level != Level::Key && !it.invariant.ends_with("-is-true"));
        levels.retain(|(level, _)| *level != Level::Key);
        levels.push((Level::Key, Outcome::Inconclusive));
        doubts.push(why);
    }
    let of = |level| {
        let outcomes = levels.iter().filter(|(it, _)| *it == level).map(|(_, outcome)| *outcome);
        history::verdict::worst(outcomes)
    };
    let disturbed = disturbed(known, plan, &staged, &phases, (&claims, &sent), arena);
    let disturbed = disturbed.or_else(|| {
        let tenures = tenures(&sent, &phases, &known.lock_key.name, staged.end);
        renewed_late(&phases, &tenures, &delays, arena.life)
    });
    let untried = untried(plan, &staged, &phases, (&claims, &sent));
    let gravest = findings.iter().map(|it| it.severity).max();
    let (outcome, why) = match (staged.not_stageable, gravest) {
        (Some(why), _) => (PlanOutcome::NotStageable, Some(why)),
        (None, _) if disturbed.is_some() => (PlanOutcome::Inconclusive, disturbed.clone()),
        (None, _) if plan.is_some() && staged.struck.is_none() => {
            let why = match plan {
                Some(plan) if plan.fault == AttackFault::LateAgain => {
                    "client 1 did not get the lock again while its release was held back: it waits for the answer longer \
                     than a TTL, or sends all on one connection, on which further commands wait behind the release"
                }
                Some(plan) if plan.fault.target() == Target::Waiter => {
                    "no other client waited for the lock while client 1 had it"
                }
                Some(plan) if plan.boundary.is_some() => "the command did not come again",
                _ => "client 1 did not have the lock's key",
            };
            (PlanOutcome::Vacuous, Some(why.to_owned()))
        }
        (None, Some(severity)) => (severity.into(), None),
        (None, None) if untried.is_some() => (PlanOutcome::Inconclusive, untried.clone()),
        (None, None) if !doubts.is_empty() && of(Level::Key) == Outcome::Inconclusive => {
            (PlanOutcome::Inconclusive, Some(doubts.join("; ")))
        }
        (None, None) => (PlanOutcome::Held, None),
    };
    let findings = match outcome {
        PlanOutcome::NotStageable | PlanOutcome::Vacuous | PlanOutcome::Inconclusive => Vec::new(),
        _ => findings,
    };
    PlanReport {
        outcome,
        key: of(Level::Key),
        why,
        findings,
        disturbed: disturbed.is_some() || diverged || untried.is_some(),
        history,
        ..PlanReport::undecided(plan, String::new())
    }
}

/// How a busy machine has spoilt the run, if it has: then the lock is not the cause of the result.
fn disturbed(
    known: &Known,
    plan: Option<&AttackPlan>,
    staged: &PlanRun,
    phases: &[Phases],
    (claims, sent): (&[Claim], &[TracedCommand]),
    arena: &Arena,
) -> Option<String> {
    let (life, quorum) = (arena.life, arena.attack.quorum());
    if staged.late > life.mul_f64(LATE_MOST) {
        return Some(too_late(staged.late, life));
    }
    // The plan may delay the victim's acquisition only if it strikes there.
    let boundary = plan.and_then(|plan| plan.boundary.as_ref());
    let at_acquire = boundary.is_some_and(|it| it.step == LockStep::Acquire);
    let is_spared = |it: &&Claim| it.client != VICTIM || !at_acquire;
    if let Some(first) = claims.iter().find(|it| it.client == VICTIM).filter(is_spared)
        && matches!(first.of, ClaimOf::NotAcquired(_))
    {
        return Some(String::from("client 1 did not get a free lock, before anything struck it"));
    }
    for claim in claims.iter().filter(|it| it.of == ClaimOf::Acquired).filter(is_spared) {
        let took = sent.iter().filter(|it| it.client == claim.client);
        let took = took.filter_map(|it| Some((it.seen.as_ref()?.at, &it.seen.as_ref()?.changes)));
        let is_within = |at: &Instant| (claim.asked..=claim.answered).contains(at);
        let created = took.filter(|(at, changes)| !changes.is_empty() && is_within(at));
        let late = created.map(|(at, _)| claim.answered.saturating_duration_since(at)).min();
        if let Some(late) = late.filter(|late| *late > life.mul_f64(LATE_MOST)) {
            let (client, late) = (claim.client, rounded(span_ns(late)));
            return Some(format!(
                "the machine was too busy: client {client} had the lock for {late} before it said so"
            ));
        }
    }
    // A renewed lock may be held for longer. A lock that most servers have forgotten is held by nobody.
    if known.promises.outlives_ttl() || plan.is_some_and(|plan| plan.forgets(quorum)) {
        return None;
    }
    // Some plans stop the victim, so it may take longer. A plan that strikes a server does not.
    let of_server = plan.is_some_and(|plan| plan.fault.target() == Target::Server);
    let worked = |it: &&Phases| it.client != VICTIM || of_server;
    let spans = phases
        .iter()
        .filter(worked)
        .filter_map(|it| Some((it.client, it.release?.saturating_duration_since(it.acquired?))));
    let (client, longest) = spans.max_by_key(|(_, span)| *span)?;
    (longest > life.mul_f64(WORK_MOST)).then(|| {
        let longest = rounded(span_ns(longest));
        format!("the machine was too busy: client {client} held the lock for {longest} instead of a moment")
    })
}

/// How a busy machine may have made a renewal late, if so: a client's key expired while it had the lock, and the client
/// waited long for a processor. `delays` are of locks that renew themselves.
fn renewed_late(
    phases: &[Phases],
    tenures: &[Tenure],
    delays: &[(u32, Duration)],
    life: Duration,
) -> Option<String> {
    let lost = |it: &&Phases| {
        let until =
            tenures.iter().rfind(|tenure| tenure.acquisition == it.acquisition && tenure.expired);
        let until = until.and_then(|tenure| tenure.until);
        until.is_some_and(|at| it.release.is_none_or(|release| at < release))
    };
    let delay = |of: &Phases| {
        let (_, delay) = delays.iter().find(|(it, _)| *it == of.acquisition)?;
        Some((of.client, *delay)).filter(|_| *delay > life.mul_f64(LATE_MOST))
    };
    let (client, delay) = phases.iter().filter(lost).find_map(delay)?;
    let delay = rounded(span_ns(delay));
    Some(format!(
        "the machine was too busy: client {client} waited for a processor for {delay} while it had the lock, and its key \
         expired; a longer --ttl or fewer --jobs help"
    ))
}

/// That picklock itself was late by so much, where keys live for `life`.
pub(crate) fn too_late(late: Duration, life: Duration) -> String {
    let (late, life) = (rounded(span_ns(late)), rounded(span_ns(life)));
    format!(
        "the machine was too busy for a TTL of {life}: picklock itself was late by {late}; a longer --ttl or fewer --jobs help"
    )
}

/// Why the fault shows nothing, if so: no rival asked for the lock while the victim had it with a clock that had jumped, or
/// had it and a server had forgotten that. Or the victim did not get the lock after its clock jumped.
fn untried(
    plan: Option<&AttackPlan>,
    staged: &PlanRun,
    phases: &[Phases],
    (claims, sent): (&[Claim], &[TracedCommand]),
) -> Option<String> {
    let (fault, healed) = (plan?.fault, staged.healed?);
    let mut holds = phases.iter().filter(|it| it.client == VICTIM && it.acquired.is_some());
    let (from, release) = match () {
        () if fault.steps_clock() => match holds.find(|it| it.begun >= healed) {
            Some(again) => (again.acquired?, again.release),
            None => {
                let why = "client 1 did not get the lock again once its clock had jumped";
                return Some(why.to_owned());
            }
        },
        () if fault.forgets() => (healed, holds.next()?.release),
        () => return None,
    };
    let to = release.unwrap_or(staged.end);
    let asked = |it: &TracedCommand, from: Instant, to: Instant| {
        let at = it.seen.as_ref().map(|seen| seen.at);
        !HANDSHAKE.contains(&it.name.as_str()) && at.is_some_and(|at| (from..=to).contains(&at))
    };
    // A waiting client may send nothing until the holder notifies it.
    let waits = |it: &&Phases| {
        let is_over = |claim: &Claim| claim.acquisition == it.acquisition && claim.answered <= to;
        let has_asked = |sent: &TracedCommand| {
            sent.client == it.client && sent.sent >= it.begun && asked(sent, it.begun, from)
        };
        it.begun <= from && !claims.iter().any(is_over) && sent.iter().any(has_asked)
    };
    let is_tried = sent.iter().any(|it| it.client != VICTIM && asked(it, from, to))
        || phases.iter().filter(|it| it.client != VICTIM).any(|it| waits(&it));
    let meanwhile = match fault.steps_clock() {
        true => "client 1 had it with a clock that had jumped",
        false => "client 1 had it and a server had forgotten that",
    };
    (!is_tried).then(|| format!("no other client asked for the lock while {meanwhile}"))
}

/// Has each validity end by so much earlier as picklock itself was late: it counts from when the worker said it, which
/// may be that long before it was read.
fn bound(validities: &mut [ValidityClaim], late: Duration) {
    for (told, _, _, until) in validities {
        *until = until.checked_sub(late).map_or(*told, |until| until.max(*told));
    }
}

/// What was seen of a plan.
struct PlanTrace {
    history: History,
    divergence: Option<String>,
    phases: Vec<Phases>,
    claims: Vec<Claim>,
    sent: Vec<TracedCommand>,
    delays: Vec<(u32, Duration)>,
}

/// The history of a plan, and what it shows.
fn judged(
    arena: &Arena,
    known: &Known,
    plan: Option<&AttackPlan>,
    staged: &PlanRun,
    wire: &WireLog,
) -> (PlanTrace, Judged) {
    let mut sent = transcript::sent(wire, staged.start);
    let mut recorded = staged.recorder.take();
    bound(&mut recorded.validities, staged.late);
    let phases = transcript::phases(&recorded);
    let jumps = plan.is_some_and(|plan| plan.fault == AttackFault::ServerClock);
    let jumped = staged.healed.filter(|_| jumps);
    let life = PartLife { life: arena.attack.ttl, jumped };
    let doubts = shared_key::apply(&mut sent, &known.lock_key.name, life, Some(&phases));
    if known.promises.stamps {
        stamped::apply(&mut sent, &known.lock_key.name, arena.life);
    }
    let (claims, validities) = (recorded.claims.clone(), recorded.validities.clone());
    let delays = std::mem::take(&mut recorded.delays);
    let mut granted = recorded.events.iter().filter(|it| it.what == What::Acquired);
    let is_bounded = |it: &RecordedEvent| validities.iter().any(|at| at.2 == it.acquisition);
    let head = Head {
        format: FORMAT.to_owned(),
        scenario: match plan {
            Some(plan) => format!("attack/{plan}"),
            None => format!("attack/{NO_FAULT}"),
        },
        lock: arena
            .attack
            .command
            .first()
            .map(|it| it.to_string_lossy().into_owned())
            .unwrap_or_default(),
        // Beliefs end with their validity only if every hold has one.
        tracked: !validities.is_empty() && granted.all(is_bounded),
        locks: true,
        world: arena.servers[0].world().to_owned(),
        clients: arena.attack.clients,
        lock_key: String::from_utf8_lossy(&known.lock_key.name).into_owned(),
        ttl_ns: span_ns(arena.life),
        margin_ns: span_ns(MARGIN),
        register: Some(0),
        ..Head::default()
    };
    let key = &known.lock_key.name[..];
    let mut history = transcript::history(head, key, recorded, &sent, staged.start);
    if let Some(last) = history.events.last() {
        let (at_ns, what) = (last.at_ns, What::RegisterLeft(staged.register));
        history.events.push(history::Event { at_ns, client: 0, acquisition: 0, op: 0, what });
    }
    let shown = PlanEvidence {
        plan,
        quorum: arena.attack.quorum(),
        promises: known.promises,
        key,
        history: &history,
        sent: &sent,
        phases: &phases,
        claims: &claims,
        validities: &validities,
        doubts: &doubts,
        failures: &staged.failures,
        start: staged.start,
        struck: staged.struck,
        healed: staged.healed,
        end: staged.end,
        unserved: staged.unserved,
    };
    let judged = judge(&shown);
    let divergence = transcript::divergence(&sent, arena.servers[0].endpoint.is_embedded());
    (PlanTrace { history, divergence, phases, claims, sent, delays }, judged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::plan::Boundary;
    use crate::recorder::Recorder;

    /// What `untried` says of a fault that was over at 100 ms. Client 1 began to acquire the lock at `victim`, and had it
    /// from 200 to 300 ms; where a server forgets, from 90 ms on. Client 2 began to ask at `rival.0` and was answered at
    /// `rival.1`; the server carried out its command at `rival.2`.
    fn why(fault: AttackFault, victim: u64, rival: (u64, u64, u64)) -> Option<String> {
        let start = now();
        let at = |ms| start + Duration::from_millis(ms);
        let (step, command) = (LockStep::Acquire, String::from("SET"));
        let boundary = Boundary { step, command, nth: 1, draws: false };
        let boundary = Some(boundary).filter(|_| !fault.forgets());
        let plan = AttackPlan { boundary, fault, servers: 1 };
        let staged = PlanRun {
            start,
            end: at(1_000),
            recorder: Recorder::default(),
            register: 0,
            late: Duration::ZERO,
            struck: Some(start),
            healed: Some(at(100)),
            not_stageable: None,
            failures: Vec::new(),
            unserved: None,
        };
        let (begun, asked, answered) = (at(rival.0), at(rival.0), at(rival.1));
        let phases = [
            Phases {
                client: VICTIM,
                acquisition: 1,
                begun: at(victim),
                acquired: Some(at(if fault.forgets() { 90 } else { 200 })),
                release: Some(at(300)),
            },
            Phases { client: 2, acquisition: 2, begun, acquired: None, release: None },
        ];
        let of = ClaimOf::NotAcquired(None);
        let claim = Claim { client: 2, acquisition: 2, of, asked, answered };
        let sent = TracedCommand::carried_out(2, at(rival.2), "SET", Vec::new());
        untried(Some(&plan), &staged, &phases, (&[claim], &[sent]))
    }

    #[test]
    fn a_clock_that_has_jumped_is_tried_where_another_meets_it() {
        let why = |victim, rival| why(AttackFault::ClockBack, victim, rival);
        assert_eq!(why(150, (240, 260, 250)), None);
        assert_eq!(why(150, (190, 310, 250)), None);
        assert_eq!(why(150, (180, 310, 190)), None, "it has asked, and waits");
        for rival in [(180, 290, 190), (190, 310, 305), (310, 320, 315), (150, 160, 155)] {
            assert!(why(150, rival).unwrap().contains("no other client asked"), "{rival:?}");
        }
        let before = why(99, (240, 260, 250)).unwrap();
        assert!(before.contains("did not get the lock again"), "{before}");
    }

    #[test]
    fn that_a_server_has_forgotten_a_lock_is_tried_where_another_asks_for_it() {
        let why = |rival| why(AttackFault::Evict, 80, rival);
        for rival in [(95, 120, 110), (240, 260, 250), (95, 310, 98)] {
            assert_eq!(why(rival), None, "{rival:?}");
        }
        for rival in [(85, 99, 95), (95, 310, 305), (310, 320, 315)] {
            let says = "no other client asked for the lock while client 1 had it and a server had forgotten that";
            assert_eq!(why(rival).as_deref(), Some(says), "{rival:?}");
        }
    }

    #[test]
    fn a_renewal_that_comes_late_on_a_busy_machine_convicts_nobody() {
        let start = now();
        let at = |ms| start + Duration::from_millis(ms);
        let life = Duration::from_millis(600);
        let (client, acquisition, ended_by) = (2, 7, None);
        let late = |release: Option<u64>, until, expired, delay_ms| {
            let phases = [Phases {
                client,
                acquisition,
                begun: start,
                acquired: Some(at(1)),
                release: release.map(at),
            }];
            let until = Some(at(until));
            let (node, from, expires) = (0, start, true);
            let tenure =
                Tenure { node, client, acquisition, from, until, expires, expired, ended_by };
            let delays = [(acquisition, Duration::from_millis(delay_ms))];
            renewed_late(&phases, &[tenure], &delays, life)
        };
        let says = late(Some(700), 600, true, 91).unwrap();
        assert!(says.starts_with("the machine was too busy: client 2 waited"), "{says}");
        assert!(says.contains("for 91 ms while it had the lock"), "{says}");
        assert!(late(None, 600, true, 91).is_some(), "it never released it");
        assert_eq!(late(Some(700), 600, true, 90), None, "the machine was idle enough");
        assert_eq!(late(Some(700), 600, false, 91), None, "another took its key");
        assert_eq!(late(Some(600), 600, true, 91), None, "it did not need it any more");
    }

    #[test]
    fn a_validity_counts_from_when_it_was_said() {
        let told = now();
        let at = |ms| told + Duration::from_millis(ms);
        let mut validities = [(told, 1, 1, at(500)), (told, 2, 2, at(20))];
        bound(&mut validities, Duration::from_millis(30));
        assert_eq!(validities.map(|it| it.3), [at(470), told]);
    }
}
