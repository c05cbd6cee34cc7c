//! Attacks unchanged programs: learns their commands in a run without faults, and carries out the plans made of them.
//!
//! Invariant: what a program says of its lock does not count. It is judged by what its commands did to the lock's key,
//! by whether it ends, and by the oracle.

use std::time::Duration;

use picklock::time::span_ns;
use scenarios::span::rounded;

use crate::arena::{Arena, Oracle};
use crate::board::VICTIM;
use crate::copies::{self, CopiesRun};
use crate::error::AttackError;
use crate::key_search;
use crate::key_watch::MIDDLE;
use crate::known::Known;
use crate::oracle::OracleAnswer;
use crate::plan::{AttackPlan, Target, plans};
use crate::program_judgement::{held, judge, report};
use crate::program_trace::{ProgramTrace, boundaries, life, trace};
use crate::protocol::Promises;
use crate::report::PlanReport;

/// How often a clean run is tried before its finding counts.
const CLEAN_TRIES: u32 = 2;
/// A hold can be struck if it lasts this many times as long as it takes to come to its middle.
const HOLD_LEAST: f64 = 2.0;

/// Runs all copies without faults, and learns the plans for them.
pub(crate) async fn learn(
    arena: &mut Arena,
    oracle: &Oracle,
) -> Result<(Vec<AttackPlan>, Known, PlanReport), AttackError> {
    // In the first run, scripts are not cached yet.
    rehearse(arena, oracle).await?;
    let mut tries = 1;
    let (run, trace) = loop {
        match clean(arena, oracle).await {
            Ok(clean) => break clean,
            // A busy machine may soon be less busy.
            Err(_) if tries < CLEAN_TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    };
    let ProgramTrace { sent, lock_key, tenures, history, .. } = trace;
    let middle = arena.life.mul_f64(MIDDLE * HOLD_LEAST);
    let is_long = tenures
        .iter()
        .find(|it| it.client == VICTIM)
        .is_some_and(|it| it.until.unwrap_or(run.end).saturating_duration_since(it.from) > middle);
    let mut plans = plans(&boundaries(&sent), arena.attack.nodes);
    plans.retain(|plan| plan.boundary.is_some() || is_long);
    let releases = tenures.iter().all(|it| !it.expired && it.until.is_some_and(|at| at <= run.end));
    let lock_key = key_search::named(lock_key.unwrap_or_default(), &sent);
    let known =
        Known { lock_key, promises: Promises::default(), releases, took: run.end - run.start };
    arena.lock_key.clone_from(&known.lock_key);
    Ok((plans, known, held(history)))
}

/// Runs all copies without faults, so that caches are filled.
async fn rehearse(arena: &mut Arena, oracle: &Oracle) -> Result<(), AttackError> {
    arena.reset().await?;
    let run = copies::run(arena, oracle, None, None, Duration::ZERO).await?;
    arena.rehearsed = true;
    if let Some(end) = run.ends.iter().find(|end| end.overdue) {
        return Err(AttackError::NoLock(format!(
            "without any fault client {} did not end within {}: a program must end by itself (`--end-within` gives it \
             more time){}",
            end.client,
            rounded(span_ns(oracle.end_within)),
            end.last_words()
        )));
    }
    let sent = crate::transcript::sent(&arena.wire_log().await, run.start);
    if boundaries(&sent).is_empty() {
        let end = run.ends.first();
        let how = end.map(|end| format!("{}{}", end.status, end.last_words())).unwrap_or_default();
        return Err(AttackError::NoLock(format!(
            "your program sent nothing to its Redis: it must connect to the address in REDIS_URL (or REDIS_HOST and \
             REDIS_PORT, with REDIS_PASSWORD). It ended with {how}"
        )));
    }
    Ok(())
}

/// A run without faults, in which nothing may be wrong.
async fn clean(
    arena: &mut Arena,
    oracle: &Oracle,
) -> Result<(CopiesRun, ProgramTrace), AttackError> {
    arena.reset().await?;
    let run = copies::run(arena, oracle, None, None, Duration::ZERO).await?;
    let trace = trace(arena, None, &run, None).await;
    if let Some(life) = trace.lock_key.as_ref().and_then(|key| life(&trace.sent, key)) {
        let how = "have your program lock with PICKLOCK_TTL_MS, or name its own TTL with --ttl";
        arena.set_life(life, how)?;
    }
    let answer = oracle.ask(arena, &run.room).await?;
    let found = judge(None, &run, &trace, &answer).findings.into_iter().next();
    let complaint = match (&answer, found) {
        (OracleAnswer::Silent(end), _) => {
            let within = rounded(span_ns(oracle.end_within));
            format!("the oracle did not end within {within}{}", end.last_words())
        }
        (OracleAnswer::Wrong(end), _) => {
            format!("the oracle is not content ({}){}", end.status, end.last_words())
        }
        (OracleAnswer::Content, Some(found)) => found.summary,
        (OracleAnswer::Content, None) => return Ok((run, trace)),
    };
    Err(AttackError::NoLock(format!("without any fault {complaint}")))
}

/// Carries out one plan.
pub(crate) async fn once(
    arena: &mut Arena,
    known: &Known,
    oracle: &Oracle,
    plan: &AttackPlan,
) -> Result<PlanReport, AttackError> {
    if !arena.rehearsed {
        rehearse(arena, oracle).await?;
    }
    arena.reset().await?;
    // A struck server may have lost its scripts.
    arena.rehearsed = plan.fault.target() != Target::Server;
    arena.servers[0].get_ready(plan.fault).await?;
    let key = (!known.lock_key.name.is_empty()).then_some(known.lock_key.name.as_slice());
    let run = copies::run(arena, oracle, Some(plan), key, known.took).await?;
    let trace = trace(arena, Some(plan), &run, key).await;
    arena.servers[0].set_clock_right().await;
    let answer = oracle.ask(arena, &run.room).await?;
    let verdict = judge(Some(plan), &run, &trace, &answer);
    Ok(report(plan, &run, trace, verdict, known.releases, arena.life))
}
