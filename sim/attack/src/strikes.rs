//! The parts of faults that no proxy rule can do: what is done to processes and to servers.
//!
//! Invariant: a strike that meets nothing is not noted as one.

#![expect(clippy::disallowed_methods, reason = "workers run in real time")]

use fault_proxy::Gate;
use history::fault::Fault;
use live_world::program::Program;
use live_world::supervisor::Signal;
use tokio::time::{sleep, timeout};

use crate::arena::Arena;
use crate::board::{Board, PlanStage, VICTIM, WAITER, is_done};
use crate::plan::{AttackFault, HOUR_NS};

/// For this part of the TTL nobody is answered while all wait: a client that is refused at once asks again sooner.
const WAITS: f64 = 0.1;

/// Strikes the process that the plan is about; returns why it cannot, if so.
pub(crate) async fn strike_process(
    stage: &PlanStage,
    process: &Program,
    gate: &Gate,
    fault: AttackFault,
) -> Option<String> {
    let goes_on = !is_done(&stage.board.borrow());
    match fault {
        AttackFault::Stop | AttackFault::OldToken if goes_on => {
            process.signal(Signal::Stop);
            process.stopped().await;
            // The reply is there when the process goes on.
            gate.open();
            stage.another(4).await;
            if fault == AttackFault::OldToken {
                // That its token is old shows only if the victim gets the lock.
                stage.board.send_modify(|board| board.aside = true);
                stage.until(stage.ttl() * 2, |board| board.busy == 0).await;
            }
            process.signal(Signal::Cont);
        }
        AttackFault::HolderStop if goes_on => {
            process.signal(Signal::Stop);
            process.stopped().await;
            stage.strike(VICTIM, None, Fault::Pause);
            stage.another(4).await;
            process.signal(Signal::Cont);
        }
        AttackFault::Kill => {
            process.signal(Signal::Kill);
            process.ended().await;
        }
        AttackFault::HolderKill if goes_on => {
            stage.strike(VICTIM, None, Fault::Crash);
            process.signal(Signal::Kill);
            process.ended().await;
        }
        AttackFault::WaiterKill if goes_on && all_wait(stage).await => {
            stage.strike(WAITER, None, Fault::Crash);
            process.signal(Signal::Kill);
            process.ended().await;
        }
        AttackFault::ClockForward => return step(process, HOUR_NS),
        AttackFault::ClockBack => return step(process, -HOUR_NS),
        _ => {}
    }
    None
}

/// Waits until every rival waits for the lock; false if that does not happen within half a TTL.
async fn all_wait(stage: &PlanStage) -> bool {
    let all_ask = |board: &Board| board.busy as usize + 1 == board.acquired.len();
    let all_wait = async {
        loop {
            stage.until(stage.ttl(), all_ask).await;
            let tries = stage.board.borrow().tries;
            sleep(stage.ttl().mul_f64(WAITS)).await;
            let board = stage.board.borrow();
            if board.tries == tries && all_ask(&board) {
                return;
            }
        }
    };
    timeout(stage.ttl() / 2, all_wait).await.is_ok()
}

/// Strikes as many servers as the plan says; returns why it cannot, if so.
pub(crate) async fn strike_servers(
    stage: &PlanStage,
    arena: &mut Arena,
    fault: AttackFault,
) -> Option<String> {
    let told = match fault {
        AttackFault::ScriptFlush => Fault::ScriptFlush,
        AttackFault::PowerLoss => Fault::PowerLoss,
        AttackFault::Failover => Fault::Failover,
        AttackFault::Evict => Fault::Evict,
        AttackFault::ServerClock => Fault::ClockStep,
        _ => Fault::ServerCrash,
    };
    let count = stage.plan.as_ref().map_or(1, |plan| plan.servers);
    let struck = (0..count).zip(arena.servers.iter_mut().zip(&arena.links));
    let mut has_met = false;
    for (node, (server, links)) in struck {
        stage.strike(0, Some(node), told);
        match server.strike(fault, &arena.lock_key, links).await {
            Ok(met) => has_met |= met,
            Err(why) => return Some(why),
        }
    }
    if !has_met {
        stage.board.send_modify(|board| board.struck = None);
    }
    None
}

fn step(process: &Program, by_ns: i64) -> Option<String> {
    match process.step_wall(by_ns) {
        Ok(true) => None,
        Ok(false) => Some(String::from("it never asked the C library for the time")),
        Err(error) => Some(error.to_string()),
    }
}
