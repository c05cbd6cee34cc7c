//! Carries out the server operations that the nemesis requests.
//!
//! Invariant: a fault is written down after it has happened and before the server that it struck serves again. One
//! that could not be is not written down at all, and the run says why.

use std::convert::Infallible;

use picklock::env::Node;
use scenarios::fault::Fault;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::deployment::Deployment;
use crate::nemesis::{LiveNemesis, ServerAction, ServerOp};

/// Carries out everything that is requested, one operation after the other.
pub(super) async fn run(
    deployment: &Deployment,
    nemesis: &LiveNemesis,
    requests: &mut UnboundedReceiver<ServerOp>,
) -> Infallible {
    while let Some(op) = requests.recv().await {
        if let Err(why) = carry_out(deployment, nemesis, &op).await {
            nemesis.remark(why);
        }
        nemesis.done(&op);
    }
    // Nothing will be requested any more.
    std::future::pending().await
}

/// Carries one operation out; an error says why it could not be.
async fn carry_out(
    deployment: &Deployment,
    nemesis: &LiveNemesis,
    op: &ServerOp,
) -> Result<(), String> {
    match op.action {
        ServerAction::FlushScripts { server } => {
            let server = deployment.server_or_primary(server);
            if deployment.flush_scripts(server).await {
                nemesis.struck(op, deployment.node_of(server), false);
            }
            Ok(())
        }
        ServerAction::Step { server, by_ns } => {
            let server = deployment.server_or_primary(server);
            let stepped = deployment.step_clock(server, by_ns).await;
            clock_set(deployment, nemesis, op, server, stepped)
        }
        ServerAction::Drift { server, ppm } => {
            let server = deployment.server_or_primary(server);
            let set = deployment.set_drift(server, ppm).await;
            clock_set(deployment, nemesis, op, server, set)
        }
        ServerAction::End { .. } => end(deployment, nemesis, op).await,
        ServerAction::Restart { server } => restart(deployment, nemesis, server).await,
        ServerAction::Promote { old, to, for_ns } => {
            let promoted = if deployment.has_sentinels() {
                deployment.await_election(old).await.map_err(|error| error.to_string())
            } else {
                let promoted = deployment.promote(to.map(|it| it as usize)).await;
                nemesis.redirect(0, &deployment.upstream(Node(0)));
                promoted.map(drop).map_err(|error| error.to_string())
            };
            nemesis.schedule(ServerAction::Restart { server: old }, for_ns);
            promoted
        }
    }
}

fn clock_set(
    deployment: &Deployment,
    nemesis: &LiveNemesis,
    op: &ServerOp,
    server: usize,
    set: bool,
) -> Result<(), String> {
    if !set {
        return Err(no_library(server, "its clock cannot be changed"));
    }
    nemesis.struck(op, deployment.node_of(server), false);
    Ok(())
}

/// Ends a server that is up.
async fn end(deployment: &Deployment, nemesis: &LiveNemesis, op: &ServerOp) -> Result<(), String> {
    let ServerAction::End { fault, server, to, for_ns } = op.action else { return Ok(()) };
    let server = deployment.server_or_primary(server);
    if !deployment.is_up(server) || (fault == Fault::Failover && !deployment.has_candidate()) {
        return Ok(());
    }
    let power = fault == Fault::PowerLoss;
    if power && !deployment.is_paged(server) {
        return Err(no_library(server, "what is on its disk is unknown"));
    }
    // Asked before it ends: the primary may be another one afterwards.
    let (node, link) = (deployment.node_of(server), deployment.link_of(server));
    if power {
        // First, so that clients do not see connections close: a machine without power is silent.
        nemesis.set_power(link, false);
    }
    deployment.kill(server).await.map_err(|error| error.to_string())?;
    if power
        && let Some(cut) = deployment.lose_power(server).await.map_err(|error| error.to_string())?
    {
        let (kept, written) = (cut.kept, cut.written);
        nemesis.remark(format!(
            "server {server} lost its power: {kept} of the {written} bytes of its append-only file were on the disk"
        ));
    }
    let kept =
        fault == Fault::Failover && deployment.candidate_has_key(to.map(|it| it as usize)).await;
    nemesis.struck(op, node, kept);
    let then = match fault {
        Fault::Failover => ServerAction::Promote { old: server, to, for_ns },
        _ => ServerAction::Restart { server },
    };
    nemesis.schedule(then, for_ns);
    Ok(())
}

async fn restart(
    deployment: &Deployment,
    nemesis: &LiveNemesis,
    server: usize,
) -> Result<(), String> {
    let restarted = deployment.restart(server).await;
    // It serves from now on, whether or not replicas follow it yet.
    nemesis.set_power(deployment.link_of(server), true);
    restarted.map_err(|error| format!("server {server} cannot be restarted: {error}"))?;
    deployment.attach_replicas().await.map_err(|error| error.to_string())
}

fn no_library(server: usize, what: &str) -> String {
    format!(
        "{what}: server {server} has not loaded the library that picklock starts it with (is its executable linked \
         statically, or is the temporary directory mounted noexec?)"
    )
}
