//! Does to the servers what the nemesis sends for.
//!
//! Invariant: a fault is written down when it has happened, and before the server that it struck serves again; one
//! that could not be is not written down at all, and the run says why. Deliberately absent: when it happens.

use std::convert::Infallible;

use picklock::env::Node;
use scenarios::fault::Fault;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::fleet::Fleet;
use crate::nemesis::{Errand, Nemesis, Task};

/// Does everything that is sent for, one thing after the other.
pub(super) async fn run(
    fleet: &Fleet,
    nemesis: &Nemesis,
    errands: &mut UnboundedReceiver<Errand>,
) -> Infallible {
    while let Some(errand) = errands.recv().await {
        let done = match errand.task {
            Task::FlushScripts { server } => {
                let server = fleet.meant(server);
                let struck = fleet.flush_scripts(server).await;
                note(nemesis, &errand, struck.then(|| fleet.node_of(server)))
            }
            Task::Step { server, by_ns } => {
                let server = fleet.meant(server);
                let struck = fleet.step_clock(server, by_ns).await;
                clock(fleet, nemesis, &errand, server, struck)
            }
            Task::Drift { server, ppm } => {
                let server = fleet.meant(server);
                let struck = fleet.set_drift(server, ppm).await;
                clock(fleet, nemesis, &errand, server, struck)
            }
            Task::End { .. } => end(fleet, nemesis, &errand).await,
            Task::Return { server } => bring_back(fleet, nemesis, server).await,
            Task::Promote { old, to, for_ns } => {
                let promoted = if fleet.is_watched() {
                    fleet.elected(old).await.map_err(|error| error.to_string())
                } else {
                    let promoted = fleet.promote(to.map(|it| it as usize)).await;
                    nemesis.redirect(0, &fleet.upstream(Node(0)));
                    promoted.map(drop).map_err(|error| error.to_string())
                };
                nemesis.owe(Task::Return { server: old }, for_ns);
                promoted
            }
        };
        if let Err(why) = done {
            nemesis.remark(why);
        }
        nemesis.done(&errand);
    }
    // Nobody will send for anything any more.
    std::future::pending().await
}

/// What has happened to the clients of a node is written down; nothing, where nothing has.
fn note(nemesis: &Nemesis, errand: &Errand, struck: Option<Option<u16>>) -> Result<(), String> {
    if let Some(node) = struck {
        nemesis.struck(errand, node, false);
    }
    Ok(())
}

fn clock(
    fleet: &Fleet,
    nemesis: &Nemesis,
    errand: &Errand,
    server: usize,
    struck: bool,
) -> Result<(), String> {
    if !struck {
        return Err(unpaged(server, "its clock cannot be set wrong"));
    }
    note(nemesis, errand, Some(fleet.node_of(server)))
}

/// Ends a server that is up.
async fn end(fleet: &Fleet, nemesis: &Nemesis, errand: &Errand) -> Result<(), String> {
    let Task::End { fault, server, to, for_ns } = errand.task else { return Ok(()) };
    let server = fleet.meant(server);
    if !fleet.is_up(server) || (fault == Fault::Failover && !fleet.has_heir()) {
        return Ok(());
    }
    let power = fault == Fault::PowerLoss;
    if power && !fleet.is_paged(server) {
        return Err(unpaged(server, "nobody knows what is on its disk"));
    }
    let (node, way) = (fleet.node_of(server), fleet.way_of(server));
    if power {
        nemesis.darken(way, true);
    }
    fleet.kill(server).await.map_err(|error| error.to_string())?;
    if power && let Some(cut) = fleet.lose_power(server).await.map_err(|error| error.to_string())? {
        let (kept, written) = (cut.kept, cut.written);
        nemesis.remark(format!(
            "server {server} lost its power: of the {written} bytes of its append-only file {kept} were on the disk"
        ));
    }
    let kept = fault == Fault::Failover && fleet.heir_knows(to.map(|it| it as usize)).await;
    nemesis.struck(errand, node, kept);
    let then = match fault {
        Fault::Failover => Task::Promote { old: server, to, for_ns },
        _ => Task::Return { server },
    };
    nemesis.owe(then, for_ns);
    Ok(())
}

async fn bring_back(fleet: &Fleet, nemesis: &Nemesis, server: usize) -> Result<(), String> {
    let back = fleet.restart(server).await;
    // It serves from now on, whoever does not follow it yet.
    nemesis.darken(fleet.way_of(server), false);
    back.map_err(|error| format!("server {server} does not come back: {error}"))?;
    fleet.gather().await.map_err(|error| error.to_string())
}

fn unpaged(server: usize, what: &str) -> String {
    format!(
        "{what}: server {server} has not loaded the library that picklock starts it with (is its executable a static \
         one, or may nothing be run from the directory for temporary files?)"
    )
}
