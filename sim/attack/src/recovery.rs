//! Whether the victim can use its lock again once the fault is over: a client that never connects again locks for nobody,
//! and one that never releases again keeps everybody waiting.
//!
//! Invariant: nothing of this is part of the plan's history. The lock is free, no fault is left, and nobody else asks.

use std::time::{Duration, Instant};

use history::verdict::{Level, WitnessStep};
use picklock::time::span_ns;
use scenarios::span::rounded;

use crate::arena::Arena;
use crate::board::VICTIM;
use crate::clock::{now, pause};
use crate::error::AttackError;
use crate::fault_story::StagedFault;
use crate::judgement::{AttackFinding, Severity, failed};
use crate::plan::{AttackPlan, Target};
use crate::protocol::{Order, WorkerAnswer};
use crate::report::{PlanOutcome, PlanReport};
use crate::worker::{Worker, WorkerError};

/// How long after an order that has failed the next one comes: a client may connect again in the background.
const RETRY: Duration = Duration::from_millis(50);
/// Who is to get the lock again has this many times as long as for one answer: some clients wait for seconds before they connect
/// again.
pub(crate) const ANSWERS: u32 = 2;

/// What became of the orders to acquire and release the lock, which were never carried out one after the other.
#[derive(Debug)]
struct FailedOrders {
    asked: Instant,
    answered: Instant,
    count: u32,
    /// The last order that failed. It may have got the lock: then it is `Release`.
    order: Order,
    /// The answer to it.
    said: String,
}

/// Has the victim acquire and release the free lock, if the plan has left its process alone and has decided anything. Adds a
/// finding if it never does.
///
/// # Errors
/// [`AttackError`]: the servers cannot be emptied, or what the worker says cannot be read.
pub(crate) async fn judge(
    arena: &mut Arena,
    plan: &AttackPlan,
    fault: StagedFault<'_>,
    start: Instant,
    report: &mut PlanReport,
) -> Result<(), AttackError> {
    // Beside a bug, lesser findings are not told.
    let is_open =
        matches!(report.outcome, PlanOutcome::Held | PlanOutcome::Assumption | PlanOutcome::Api);
    if !is_open || !matches!(plan.fault.target(), Target::Message | Target::Server) {
        return Ok(());
    }
    let place = VICTIM as usize - 1;
    let Some(mut worker) = arena.workers[place].take() else { return Ok(()) };
    arena.reset().await?;
    let mut found = match recovers(&mut worker, arena.attack.answer_within).await {
        Ok(None) => {
            arena.workers[place] = Some(worker);
            return Ok(());
        }
        Ok(Some(failed_orders)) => never_recovers(&failed_orders, start),
        Err(error) if error.is_misspelt() => {
            return Err(AttackError::Misspelt { plan: plan.to_string(), error });
        }
        Err(error) => failed(VICTIM, &error, span_ns(now() - start)),
    };
    fault.tell(&mut found.story, &report.history);
    report.add(found);
    Ok(())
}

/// Asks for the lock until it is granted, and released again; returns what was answered if that never happens.
async fn recovers(
    worker: &mut Worker,
    within: Duration,
) -> Result<Option<FailedOrders>, WorkerError> {
    let asked = now();
    let (mut count, mut failed) = (0, None);
    loop {
        let mut order = Order::Acquire;
        let (mut answered, mut answer) = worker.ask(order, within).await?;
        if matches!(answer, WorkerAnswer::Ok(_)) {
            order = Order::Release;
            (answered, answer) = worker.ask(order, within).await?;
        }
        let said = match answer {
            WorkerAnswer::Ok(_) => return Ok(None),
            WorkerAnswer::No => String::from("no"),
            WorkerAnswer::Unknown(why) => format!("unknown: {why}"),
        };
        count += 1;
        // What it has not released keeps it from the lock, too.
        if order == Order::Release || failed.as_ref().is_none_or(|(it, _)| *it == Order::Acquire) {
            failed = Some((order, said));
        }
        if answered - asked >= within * ANSWERS {
            let failed =
                failed.map(|(order, said)| FailedOrders { asked, answered, count, order, said });
            return Ok(failed);
        }
        pause(RETRY).await;
    }
}

/// The finding that it never gets the lock again, or never releases it.
fn never_recovers(failed: &FailedOrders, start: Instant) -> AttackFinding {
    let FailedOrders { asked, answered, count, order, said } = failed;
    let span = rounded(span_ns(*answered - *asked));
    let step = |at: Instant, client, text: String| WitnessStep {
        at_ns: span_ns(at.saturating_duration_since(start)),
        client,
        text,
    };
    let (never, told, left) = match order {
        Order::Release => (
            "got the free lock again, and never released it",
            "is told to acquire and to release, again and again",
            "has not released the lock",
        ),
        _ => (
            "never got the free lock again",
            "is told to acquire, again and again",
            "has not got the lock",
        ),
    };
    AttackFinding {
        severity: Severity::Api,
        invariant: String::from("recovers"),
        level: Level::Progress,
        summary: format!(
            "client {VICTIM} {never}: it answered {count} orders in {span}, the last with {said}"
        ),
        story: vec![
            step(*asked, 0, String::from("nothing goes wrong any more, and nobody has the lock")),
            step(*asked, VICTIM, told.to_owned()),
            step(*answered, VICTIM, format!("{left}: it answers {said}")),
        ],
    }
}
