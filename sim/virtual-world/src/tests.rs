//! What the virtual world does to those who live in it, to the nanosecond.

mod leases;

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use picklock::command::Command;
use picklock::env::{Conn, Env, Node};
use picklock::reply::Reply;
use picklock::time::span_ns;
use picklock::{Options, Single};
use scenarios::scenario::NetworkPart;

use super::choices::Choices;
use super::driver::{close, drive, spawn};
use super::env::VirtualEnv;
use super::latency::LinkLatencies;
use super::network::{Direction, Purpose};
use super::simulation::{Simulation, with};
use super::time::now_ns;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const MS_NS: u64 = 1_000_000;

/// A world without faults or latency, with so many connected processes and one server.
pub(super) fn world(processes: u32) {
    with(|sim| {
        sim.reset(Choices::listed(Vec::new()), 7, processes, 1);
        sim.network.latencies = Arc::default();
        for process in 0..processes {
            sim.open_conn(process, 0, Purpose::Commands);
        }
    });
}

/// Has messages travel so from now on: a latency, or a network as JSON.
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

/// Everything a task said, with the time at which it did.
pub(super) type Said = Arc<Mutex<Vec<(u64, String)>>>;

pub(super) fn say(said: &Said, what: impl Into<String>) {
    said.lock().unwrap().push((now_ns(), what.into()));
}

pub(super) fn task(process: u32, work: impl Future<Output = ()> + Send + 'static) {
    spawn(process, Box::pin(work));
}

/// Lets the world go on until then.
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

/// What the server has under the lock's key now, asked past any network.
fn value() -> Option<Vec<u8>> {
    value_at(0, b"k")
}

/// What this server has under this key now, asked past any network.
pub(super) fn value_at(server: u32, key: &[u8]) -> Option<Vec<u8>> {
    match with(|sim| sim.servers[server].execute_at_once(now_ns(), &[b"GET", key])) {
        redis_model::reply::Reply::Bulk(bytes) => Some(bytes.to_vec()),
        _ => None,
    }
}

pub(super) fn set(px: Duration) -> Command {
    Command::new("SET").arg("k").arg("v").arg("NX").arg("PX").int(span_ns(px) / MS_NS)
}

#[test]
fn a_paused_process_is_late_and_its_clock_went_on() {
    world(2);
    let said = Said::default();
    let (env, theirs) = (VirtualEnv::of(1), Arc::clone(&said));
    task(1, async move {
        env.sleep(10 * MS).await;
        say(&theirs, format!("clock {}", env.now().as_ns() / MS_NS));
        env.sleep(10 * MS).await;
        say(&theirs, format!("clock {}", env.now().as_ns() / MS_NS));
    });
    until(5 * MS_NS);
    with(|sim| sim.executor.pause(1));
    until(100 * MS_NS);
    assert!(said.lock().unwrap().is_empty(), "nothing is done by who stands still");
    with(|sim| sim.executor.resume(1));
    until(200 * MS_NS);
    let expected = [(100 * MS_NS, "clock 100".to_owned()), (110 * MS_NS, "clock 110".to_owned())];
    assert_eq!(*said.lock().unwrap(), expected);
    close();
}

#[test]
fn a_reply_that_arrives_in_a_pause_is_seen_after_it() {
    world(2);
    network("1ms");
    let said = Said::default();
    let (env, theirs) = (VirtualEnv::of(1), Arc::clone(&said));
    task(1, async move {
        ask(env, set(50 * MS)).await;
        say(&theirs, "answered");
    });
    until(MS_NS / 2);
    with(|sim| sim.executor.pause(1));
    until(20 * MS_NS);
    assert!(value().is_some(), "what was sent before the pause is carried out");
    with(|sim| sim.executor.resume(1));
    until(21 * MS_NS);
    assert_eq!(*said.lock().unwrap(), [(20 * MS_NS, "answered".to_owned())]);
    close();
}

#[test]
fn every_link_has_its_own_latency_there_and_back() {
    with(|sim| {
        sim.reset(Choices::listed(Vec::new()), 7, 4, 2);
        for (process, server) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
            sim.open_conn(process, server, Purpose::Commands);
        }
    });
    network(
        r#"{ "latency": "1ms", "link": [
            { "clients": "2..=3", "latency": "3ms" },
            { "client": 2, "server": 1, "latency": "7ms" },
            { "client": 1, "server": 1, "latency": "0s" }
        ] }"#,
    );
    let said = Said::default();
    let links = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0)];
    for (process, server) in links {
        let theirs = Arc::clone(&said);
        task(process, async move {
            let conn = VirtualEnv::of(process).connect(Node(server)).await.unwrap();
            conn.call(Command::new("PING")).await.unwrap();
            say(&theirs, format!("{process} to {server}"));
        });
    }
    drive(u64::MAX);
    let expected = [
        (0, "1 to 1"),
        (2 * MS_NS, "1 to 0"),
        (6 * MS_NS, "2 to 0"),
        // It has to connect first, which is a round trip of its own.
        (12 * MS_NS, "3 to 0"),
        (14 * MS_NS, "2 to 1"),
    ];
    let expected = expected.map(|(at_ns, what)| (at_ns, what.to_owned()));
    assert_eq!(*said.lock().unwrap(), expected);
    close();
}

#[test]
fn drift_and_steps_of_the_server_shift_expiry_by_exactly_what_they_should() {
    // How long a key of one second lives, in nanoseconds of the world, to the microsecond at which
    // the server's clock is read.
    let lives = |prepare: &dyn Fn(), midway: &dyn Fn()| {
        world(2);
        prepare();
        task(1, async { drop(ask(VirtualEnv::of(1), set(1000 * MS)).await) });
        until(100 * MS_NS);
        midway();
        let (mut alive_ns, mut gone_ns) = (now_ns(), 3_000 * MS_NS);
        assert!(value().is_some());
        // The clock only reads forward, so the search goes by what the clock would show.
        while gone_ns - alive_ns > 1_000 {
            let middle_ns = alive_ns.midpoint(gone_ns);
            let shows = with(|sim| sim.servers[0].clock.wall(middle_ns));
            // Redis lets a key live through the millisecond in which it expires.
            let expires = 1_700_000_001_001_000_000_u64;
            if shows < expires { alive_ns = middle_ns } else { gone_ns = middle_ns }
        }
        // And the server agrees on both sides of what was found.
        until(alive_ns);
        assert!(value().is_some(), "alive at {alive_ns}");
        until(gone_ns + 1_000);
        assert!(value().is_none(), "gone at {gone_ns}");
        close();
        gone_ns
    };
    let drift = |ppm: i32| move || with(|sim| sim.servers[0].clock.set_drift(0, ppm));
    let step = |by_ns: i64| move || with(|sim| sim.servers[0].clock.step_wall(by_ns));
    let nothing = || {};
    let near = |found_ns: u64, exact_ns: u64| found_ns.abs_diff(exact_ns) <= 1_000;
    assert!(near(lives(&nothing, &nothing), 1_001_000_000));
    assert!(near(lives(&drift(10_000), &nothing), 991_089_109), "a clock fast by 1 %");
    assert!(near(lives(&drift(-10_000), &nothing), 1_011_111_112), "and one slow by 1 %");
    let ahead = 400 * i64::try_from(MS_NS).unwrap();
    assert!(near(lives(&nothing, &step(ahead)), 601_000_000), "a jump of 400 ms ahead");
    assert!(near(lives(&nothing, &step(-ahead)), 1_401_000_000), "and one back");
}

#[test]
fn a_clients_drift_shifts_its_timers_and_its_view_of_time() {
    world(2);
    with(|sim| sim.processes[1].clock.set_drift(0, -100_000));
    let said = Said::default();
    let (env, theirs) = (VirtualEnv::of(1), Arc::clone(&said));
    task(1, async move {
        env.sleep(9 * MS).await;
        say(&theirs, format!("{}", env.now().as_ns()));
    });
    until(20 * MS_NS);
    assert_eq!(*said.lock().unwrap(), [(10 * MS_NS, (9 * MS_NS).to_string())]);
    close();
}

/// A client that holds the lock, and releases it at the end of its work, whatever ends it.
fn hold_for(process: u32, span: Duration) {
    task(process, async move {
        let env = VirtualEnv::of(process);
        let lock = Single::new(env, Node(0), *b"k", Options::builder(500 * MS).build().unwrap());
        let guard = lock.unwrap().try_acquire().await.unwrap();
        env.sleep(span).await;
        drop(guard);
    });
}

#[test]
fn a_crash_sends_no_posthumous_release() {
    world(3);
    hold_for(1, 50 * MS);
    until(10 * MS_NS);
    assert!(value().is_some());
    with(|sim| sim.crash(1));
    until(499 * MS_NS);
    assert!(value().is_some(), "nobody has released it");
    until(501 * MS_NS);
    assert!(value().is_none(), "its TTL has");
    assert_eq!(with(|sim| sim.executor.live()), 0);
    // The same guard without the crash does release.
    hold_for(2, 50 * MS);
    until(600 * MS_NS);
    assert!(value().is_none());
    close();
}

#[test]
fn a_lost_reply_leaves_the_key_set() {
    world(2);
    let said = Said::default();
    let theirs = Arc::clone(&said);
    with(|sim| {
        let conn = sim.processes[1].conn(0, Purpose::Commands).unwrap();
        sim.network.conn_mut(conn).kill(Direction::ToClient);
    });
    task(1, async move {
        ask(VirtualEnv::of(1), set(50 * MS)).await;
        say(&theirs, "answered");
    });
    until(20 * MS_NS);
    assert!(value().is_some());
    assert!(said.lock().unwrap().is_empty());
    close();
}

#[test]
fn a_lost_request_never_arrives() {
    world(2);
    with(|sim| {
        let conn = sim.processes[1].conn(0, Purpose::Commands).unwrap();
        sim.network.conn_mut(conn).kill(Direction::ToServer);
    });
    task(1, async { drop(ask(VirtualEnv::of(1), set(50 * MS)).await) });
    until(20 * MS_NS);
    assert!(value().is_none());
    close();
}

#[test]
fn what_meets_a_partition_comes_after_the_heal() {
    world(2);
    with(|sim| sim.network.cut(1, 0, [true, false]));
    let said = Said::default();
    let theirs = Arc::clone(&said);
    task(1, async move {
        ask(VirtualEnv::of(1), set(500 * MS)).await;
        say(&theirs, "answered");
    });
    until(20 * MS_NS);
    assert!(value().is_none());
    with(Simulation::heal);
    until(30 * MS_NS);
    assert!(value().is_some());
    assert_eq!(*said.lock().unwrap(), [(20 * MS_NS, "answered".to_owned())]);
    close();
}

#[test]
fn dropping_a_call_recalls_nothing() {
    world(2);
    network("5ms");
    task(1, async {
        let env = VirtualEnv::of(1);
        let conn = env.connect(Node(0)).await.unwrap();
        let mut call = Box::pin(conn.call(set(50 * MS)));
        std::future::poll_fn(|cx| {
            assert!(call.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(call);
    });
    until(6 * MS_NS);
    assert!(value().is_some());
    close();
}

#[test]
fn a_command_that_waits_is_answered_by_another_or_by_its_time_out() {
    world(3);
    let said = Said::default();
    let pop = || Command::new("BLPOP").arg("queue").arg("0.05");
    let theirs = Arc::clone(&said);
    task(1, async move {
        for _ in 0..2 {
            let reply = ask(VirtualEnv::of(1), pop()).await;
            say(&theirs, format!("{reply:?}"));
        }
    });
    task(2, async {
        VirtualEnv::of(2).sleep(20 * MS).await;
        ask(VirtualEnv::of(2), Command::new("RPUSH").arg("queue").arg("job")).await;
    });
    until(200 * MS_NS);
    let said = said.lock().unwrap();
    let job = format!("{:?}", Reply::Array(vec![Reply::bulk(b"queue"), Reply::bulk(b"job")]));
    assert_eq!(said[0], (20 * MS_NS, job));
    let (at_ns, nothing) = &said[1];
    assert_eq!(nothing, "Nil");
    assert!((70 * MS_NS..=71 * MS_NS).contains(at_ns), "{at_ns}");
    close();
}

#[test]
fn what_comes_behind_a_command_that_waits_is_read_when_that_is_answered() {
    world(3);
    let said = Said::default();
    let (first, second) = (Arc::clone(&said), Arc::clone(&said));
    task(1, async move {
        let conn = VirtualEnv::of(1).connect(Node(0)).await.unwrap();
        let mut waits = pin!(conn.call(Command::new("BLPOP").arg("queue").arg("0.05")));
        let mut behind = pin!(conn.call(Command::new("SET").arg("k").arg("v")));
        // Both are sent before either is answered.
        let mut answered = [false; 2];
        std::future::poll_fn(|cx| {
            if !answered[0]
                && let Poll::Ready(reply) = waits.as_mut().poll(cx)
            {
                say(&first, format!("{:?}", reply.unwrap()));
                answered[0] = true;
            }
            if !answered[1]
                && let Poll::Ready(reply) = behind.as_mut().poll(cx)
            {
                say(&second, format!("{:?}", reply.unwrap()));
                answered[1] = true;
            }
            if answered == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    until(200 * MS_NS);
    let said = said.lock().unwrap();
    assert_eq!((said.len(), said[0].1.as_str()), (2, "Nil"));
    assert!(said[1].0 >= 50 * MS_NS, "{said:?}");
    close();
}

#[test]
fn who_crashes_while_waiting_takes_nothing_away() {
    world(3);
    task(1, async {
        ask(VirtualEnv::of(1), Command::new("BLPOP").arg("queue").arg("0")).await;
    });
    until(10 * MS_NS);
    with(|sim| sim.crash(1));
    let said = Said::default();
    let theirs = Arc::clone(&said);
    task(2, async move {
        let env = VirtualEnv::of(2);
        ask(env, Command::new("RPUSH").arg("queue").arg("job")).await;
        let left = ask(env, Command::new("LLEN").arg("queue")).await;
        say(&theirs, format!("{left:?}"));
    });
    until(20 * MS_NS);
    assert_eq!(said.lock().unwrap()[0].1, "Int(1)");
    close();
}

/// A client whose first command waits at the server, and whose second arrives behind it on the same
/// connection.
fn one_behind_the_other(wait: &'static str) -> Said {
    world(3);
    let said = Said::default();
    let theirs = Arc::clone(&said);
    task(1, async move {
        ask(VirtualEnv::of(1), Command::new("BLPOP").arg("queue").arg(wait)).await;
    });
    task(1, async move {
        let answer = ask(VirtualEnv::of(1), Command::new("SET").arg("k").arg("v")).await;
        say(&theirs, format!("{answer:?}"));
    });
    said
}

#[test]
fn a_server_reads_on_when_it_need_not_keep_a_client_waiting_any_more() {
    let said = one_behind_the_other("0.05");
    until(40 * MS_NS);
    assert!(said.lock().unwrap().is_empty(), "it has not been read");
    until(80 * MS_NS);
    let (at_ns, answer) = said.lock().unwrap()[0].clone();
    assert_eq!(answer, "Ok");
    assert!((50 * MS_NS..=51 * MS_NS).contains(&at_ns), "{at_ns}");
    close();
}

#[test]
fn what_a_server_has_not_read_goes_with_the_client() {
    let said = one_behind_the_other("0");
    until(10 * MS_NS);
    with(|sim| sim.crash(1));
    let theirs = Arc::clone(&said);
    task(2, async move {
        let left = ask(VirtualEnv::of(2), Command::new("EXISTS").arg("k")).await;
        say(&theirs, format!("{left:?}"));
    });
    until(20 * MS_NS);
    assert_eq!(said.lock().unwrap()[0].1, "Int(0)");
    close();
}

#[test]
#[should_panic(expected = "livelock")]
fn a_livelock_ends_in_a_panic_that_names_the_tasks() {
    world(2);
    task(
        1,
        std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        }),
    );
    drive(MS_NS);
}
