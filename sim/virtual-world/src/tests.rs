//! The virtual world as its processes see it, to the nanosecond.

mod calls;
mod clocks;
mod faults;
mod leases;
mod livelock;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use picklock::command::Command;
use picklock::env::{Conn, Env, Node};
use picklock::reply::Reply;
use picklock::time::span_ns;
use scenarios::scenario::NetworkPart;

use super::choices::Choices;
use super::driver::{close, drive, spawn};
use super::env::VirtualEnv;
use super::latency::LinkLatencies;
use super::network::Purpose;
use super::simulation::with;
use super::time::now_ns;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const MS_NS: u64 = 1_000_000;

/// The simulation of a test, which is closed when this is dropped.
#[must_use]
pub(super) struct TestWorld;

impl Drop for TestWorld {
    fn drop(&mut self) {
        close();
        drop(said());
    }
}

/// Begins a simulation without faults or latency, with so many connected processes and one server.
pub(super) fn world(processes: u32) -> TestWorld {
    with(|sim| {
        sim.reset(Choices::listed(Vec::new()), 7, processes, 1);
        sim.network.latencies = Arc::default();
        for process in 0..processes {
            sim.open_conn(process, 0, Purpose::Commands);
        }
    });
    TestWorld
}

/// Sets the latencies from now on: one for all, or a network as JSON.
pub(super) fn network(latency: &str) {
    let network = if latency.starts_with('{') {
        latency.to_owned()
    } else {
        format!("{{ \"latency\": {latency:?} }}")
    };
    let network: NetworkPart = serde_json::from_str(&network).unwrap();
    with(|sim| {
        let (processes, servers) = (sim.processes.count(), sim.servers.count());
        sim.network.latencies = LinkLatencies::new(&network, processes, servers).into();
    });
}

thread_local! {
    static SAID: RefCell<Vec<(u64, String)>> = const { RefCell::new(Vec::new()) };
}

/// A task reports this.
pub(super) fn say(what: impl Into<String>) {
    SAID.with_borrow_mut(|said| said.push((now_ns(), what.into())));
}

/// What tasks have reported since this was asked last, with the time.
pub(super) fn said() -> Vec<(u64, String)> {
    SAID.take()
}

pub(super) fn task(process: u32, work: impl Future<Output = ()> + Send + 'static) {
    spawn(process, Box::pin(work));
}

/// Runs the simulation until then.
pub(super) fn until(ns: u64) {
    // A timer of the run's own, so that time gets there.
    let span = Duration::from_nanos(ns - now_ns());
    task(0, async move { VirtualEnv::of(0).sleep(span).await });
    drive(ns);
    assert_eq!(now_ns(), ns);
}

pub(super) async fn ask(env: VirtualEnv, command: Command) -> Reply {
    env.connect(Node(0)).await.unwrap().call(command).await.unwrap()
}

/// What the server has under the lock's key now, without a network.
fn value() -> Option<Vec<u8>> {
    value_at(0, b"k")
}

/// What this server has under this key now, without a network.
pub(super) fn value_at(server: u32, key: &[u8]) -> Option<Vec<u8>> {
    match with(|sim| sim.servers[server].execute_at_once(now_ns(), &[b"GET", key])) {
        resp::Reply::Bulk(bytes) => Some(bytes.to_vec()),
        _ => None,
    }
}

pub(super) fn set(px: Duration) -> Command {
    Command::new("SET").arg("k").arg("v").arg("NX").arg("PX").int(span_ns(px) / MS_NS)
}
