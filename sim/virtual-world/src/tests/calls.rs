//! Calls: their latency, commands that block, and an executor without progress.

use std::pin::pin;
use std::task::Poll;

use picklock::env::Conn;

use super::*;

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
    let links = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0)];
    for (process, server) in links {
        task(process, async move {
            let conn = VirtualEnv::of(process).connect(Node(server)).await.unwrap();
            conn.call(Command::new("PING")).await.unwrap();
            say(format!("{process} to {server}"));
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
    assert_eq!(said(), expected);
}

#[test]
fn dropping_a_call_recalls_nothing() {
    let _world = world(2);
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
}

#[test]
fn a_blocked_command_is_answered_by_another_client_or_by_its_time_out() {
    let _world = world(3);
    let pop = || Command::new("BLPOP").arg("queue").arg("0.05");
    task(1, async move {
        for _ in 0..2 {
            let reply = ask(VirtualEnv::of(1), pop()).await;
            say(format!("{reply:?}"));
        }
    });
    task(2, async {
        VirtualEnv::of(2).sleep(20 * MS).await;
        ask(VirtualEnv::of(2), Command::new("RPUSH").arg("queue").arg("job")).await;
    });
    until(200 * MS_NS);
    let said = said();
    let job = format!("{:?}", Reply::Array(vec![Reply::bulk(b"queue"), Reply::bulk(b"job")]));
    assert_eq!(said[0], (20 * MS_NS, job));
    let (at_ns, nothing) = &said[1];
    assert_eq!(nothing, "Nil");
    assert!((70 * MS_NS..=71 * MS_NS).contains(at_ns), "{at_ns}");
}

#[test]
fn what_comes_behind_a_blocked_command_is_read_when_that_is_answered() {
    let _world = world(3);
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
                say(format!("{:?}", reply.unwrap()));
                answered[0] = true;
            }
            if !answered[1]
                && let Poll::Ready(reply) = behind.as_mut().poll(cx)
            {
                say(format!("{:?}", reply.unwrap()));
                answered[1] = true;
            }
            if answered == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    until(200 * MS_NS);
    let said = said();
    assert_eq!((said.len(), said[0].1.as_str()), (2, "Nil"));
    assert!(said[1].0 >= 50 * MS_NS, "{said:?}");
}

/// A client whose first command blocks, and whose second arrives behind it on the same connection.
fn behind_a_blocked_command(wait: &'static str) -> TestWorld {
    let world = world(3);
    task(1, async move {
        ask(VirtualEnv::of(1), Command::new("BLPOP").arg("queue").arg(wait)).await;
    });
    task(1, async move {
        let answer = ask(VirtualEnv::of(1), Command::new("SET").arg("k").arg("v")).await;
        say(format!("{answer:?}"));
    });
    world
}

#[test]
fn a_server_reads_on_when_a_command_is_no_longer_blocked() {
    let _world = behind_a_blocked_command("0.05");
    until(40 * MS_NS);
    assert!(said().is_empty(), "it has not been read");
    until(80 * MS_NS);
    let (at_ns, answer) = said()[0].clone();
    assert_eq!(answer, "Ok");
    assert!((50 * MS_NS..=51 * MS_NS).contains(&at_ns), "{at_ns}");
}

#[test]
fn what_a_server_has_not_read_is_lost_with_the_client() {
    let _world = behind_a_blocked_command("0");
    until(10 * MS_NS);
    with(|sim| sim.crash(1));
    task(2, async move {
        let left = ask(VirtualEnv::of(2), Command::new("EXISTS").arg("k")).await;
        say(format!("{left:?}"));
    });
    until(20 * MS_NS);
    assert_eq!(said()[0].1, "Int(0)");
}
