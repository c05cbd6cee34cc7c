//! Streams, lag, promotion, WAIT.

use resp::{ErrorReply, Reply};

use super::*;
use crate::test_model::{TestModel, at};

struct Pair {
    primary: TestModel,
    replica: TestModel,
    id: ReplicaId,
    applied: u64,
}

impl Pair {
    fn new() -> Self {
        let (mut primary, mut replica) = (TestModel::default(), TestModel::default());
        let id = primary.model.attach_replica(7001);
        replica.model.follow(7000, &primary.model.snapshot());
        Self { primary, replica, id, applied: 0 }
    }

    fn run(&mut self, ms: u64, line: &str) -> Reply {
        self.primary.run_at(ms, line)
    }

    fn read(&mut self, ms: u64, line: &str) -> Reply {
        self.replica.run_at(ms, line)
    }

    /// The replica applies one more group.
    fn step(&mut self, ms: u64) -> bool {
        let Some(cut) = self.primary.model.next_cut(self.applied) else { return false };
        let mut groups = Vec::new();
        assert!(self.primary.model.copy_stream(self.applied, cut, &mut groups));
        self.replica.model.apply(at(ms), &groups);
        self.applied = cut;
        assert_eq!(self.replica.model.offset(), cut);
        true
    }
}

#[test]
fn a_replica_lags_by_whole_groups_and_holds_what_the_primary_held() {
    let mut pair = Pair::new();
    pair.run(1_000, "SET k t NX PX 100");
    pair.run(1_000, "INCR n");
    assert_eq!(pair.read(1_000, "GET k"), Reply::Nil);
    assert!(pair.step(1_050));
    assert_eq!(pair.read(1_050, "PTTL k"), Reply::Int(50));
    assert_eq!(pair.read(1_050, "GET n"), Reply::Nil);
    assert!(pair.step(1_060) && !pair.step(1_060));
    assert_eq!(pair.read(1_060, "GET n"), Reply::bulk("1"));
    let readonly =
        Reply::Error(ErrorReply::new("READONLY You can't write against a read only replica."));
    assert_eq!(pair.read(1_060, "SET k v"), readonly);
    assert_eq!(pair.read(1_060, "BLPOP l 0"), readonly);
}

#[test]
fn a_replica_hides_expired_keys_until_its_primary_deletes_them() {
    let mut pair = Pair::new();
    pair.run(1_000, "SET k t PX 100");
    pair.step(1_000);
    assert_eq!(pair.read(1_101, "GET k"), Reply::Nil);
    assert_eq!(pair.read(1_101, "DBSIZE"), Reply::Int(1));
    assert_eq!(pair.replica.model.expire_due(at(1_101), 9), 0);
    assert_eq!(pair.primary.model.expire_due(at(1_101), 9), 1);
    pair.step(1_102);
    assert_eq!(pair.read(1_102, "DBSIZE"), Reply::Int(0));
}

#[test]
fn a_promoted_replica_has_lost_what_it_had_not_received_and_the_old_primary_takes_that_over() {
    let mut pair = Pair::new();
    pair.run(1_000, "SET a t");
    pair.step(1_000);
    pair.run(1_000, "SET lock first NX PX 5000");
    pair.replica.model.promote();
    assert!(!pair.replica.model.is_replica());
    assert_eq!(pair.read(1_001, "SET lock second NX PX 5000"), Reply::Ok);
    let snapshot = pair.replica.model.snapshot();
    pair.primary.model.follow(7001, &snapshot);
    assert_eq!(pair.run(1_002, "GET lock"), Reply::bulk("second"));
    assert_eq!(pair.run(1_002, "GET a"), Reply::bulk("t"));
    assert!(pair.run(1_002, "SET a u").is_error());
}

#[test]
fn wait_ends_with_enough_acknowledgements_or_its_time() {
    let mut pair = Pair::new();
    pair.run(1_000, "SET k v");
    let waiter = pair.primary.client;
    pair.primary.wait(waiter, "WAIT 1 100");
    assert_eq!(pair.primary.model.next_deadline(), Some(at(1_101)));
    pair.primary.model.acknowledge(pair.id, pair.primary.model.offset() - 1);
    assert!(pair.primary.model.is_blocked(waiter));
    pair.primary.model.acknowledge(pair.id, pair.primary.model.offset());
    assert_eq!(pair.primary.heard(), [(waiter, Reply::Int(1))]);
    assert_eq!(pair.run(1_000, "WAIT 1 100"), Reply::Int(1));
    pair.run(1_000, "SET k w");
    pair.primary.wait(waiter, "WAIT 1 100");
    assert_eq!(pair.primary.model.unblock_due(at(1_100)), 0);
    assert_eq!(pair.primary.model.unblock_due(at(1_101)), 1);
    pair.primary.model.drain_outbox(|_, reply| assert_eq!(reply, Reply::Int(0)));
}

#[test]
fn role_and_info_tell_who_follows_whom() {
    let mut pair = Pair::new();
    pair.run(1_000, "SET k v");
    pair.primary.model.acknowledge(pair.id, 23);
    let replica = ["127.0.0.1", "7001", "23"].map(Reply::bulk).into();
    let end = i64::try_from(pair.primary.model.offset()).unwrap();
    let replicas = Reply::Array(vec![Reply::Array(replica)]);
    let expected = Reply::Array(vec![Reply::bulk("master"), Reply::Int(end), replicas]);
    assert_eq!(pair.run(1_000, "ROLE"), expected);
    let Reply::Array(parts) = pair.read(1_000, "ROLE") else { panic!() };
    assert_eq!(parts[0], Reply::bulk("slave"));
    let Reply::Verbatim(text) = pair.read(1_000, "INFO replication") else { panic!() };
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("role:slave\r\n") && text.contains("master_port:7000\r\n"), "{text}");
}

#[test]
fn the_stream_is_redis_servers() {
    let mut pair = Pair::new();
    pair.run(1_000, "SET k v PX 100 NX GET");
    pair.run(1_000, "SET k w NX");
    pair.run(1_200, "SETNX k x");
    pair.run(1_200, "SELECT 2");
    pair.run(1_200, "EXPIRE nokey 5");
    pair.run(1_200, "RPUSH l a b");
    pair.run(1_200, "BLPOP l 0");
    let mut stream = Vec::new();
    assert!(pair.primary.model.copy_stream(0, pair.primary.model.offset(), &mut stream));
    let text = String::from_utf8(stream).unwrap();
    let words: Vec<&str> =
        text.split("\r\n").filter(|line| !line.starts_with(['*', '$'])).collect();
    assert_eq!(
        words.join(" ").trim(),
        "SELECT 0 SET k v PXAT 1100 MULTI DEL k SETNX k x EXEC SELECT 2 RPUSH l a b LPOP l"
    );
}

#[test]
fn messages_reach_the_subscribers_of_a_replica() {
    let mut pair = Pair::new();
    pair.read(1_000, "SUBSCRIBE released");
    pair.run(1_000, "PUBLISH released k");
    pair.step(1_000);
    let message = ["message", "released", "k"].map(Reply::bulk).into();
    assert_eq!(pair.replica.heard(), [(pair.replica.client, Reply::Push(message))]);
}
