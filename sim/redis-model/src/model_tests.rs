//! The model, command by command, where a real server is not needed to know what is right.

use resp::{ErrorReply, Parsed, RequestParser};

use scenarios::topology::AppendOnly;

use super::*;
use crate::server::admission::WriteRefusal;
use crate::test_model::{TestModel, at};

impl TestModel {
    /// What a request has added to the stream, as words; every group begins by naming its database.
    fn streamed(&mut self, line: &str) -> Vec<String> {
        let before = self.model.offset();
        self.run(line);
        self.stream_since(before)
    }

    fn stream_since(&self, before: u64) -> Vec<String> {
        let mut stream = Vec::new();
        assert!(self.model.copy_stream(before, self.model.offset(), &mut stream));
        let (mut parser, mut rest, mut lines) = (RequestParser::new(), &stream[..], Vec::new());
        while let Ok(Parsed::Request { used }) = parser.parse(rest, true) {
            let mut args = Vec::new();
            parser.args(rest, &mut args);
            let words: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
            lines.push(words.join(" "));
            rest = &rest[used..];
        }
        lines.retain(|line| !line.starts_with("SELECT"));
        lines
    }
}

fn error(text: &str) -> Reply {
    Reply::Error(ErrorReply::of(text))
}

#[test]
fn a_key_lives_through_its_last_millisecond_and_no_longer() {
    let mut bench = TestModel::default();
    bench.model.attach_replica(7001);
    assert_eq!(bench.run("SET k v NX PX 10"), Reply::Ok);
    bench.now_ms = 1_010;
    assert_eq!(bench.run("SET k w NX PX 10"), Reply::Nil);
    bench.now_ms = 1_011;
    let streamed = bench.streamed("SET k w NX PX 10");
    assert_eq!(streamed, ["MULTI", "DEL k", "SET k w PXAT 1021", "EXEC"]);
}

#[test]
fn every_change_of_a_key_goes_into_the_stream_once() {
    let mut bench = TestModel::default();
    bench.model.attach_replica(7001);
    for (line, streamed) in [
        ("SET k 1", Some("SET k 1")),
        ("SET k 2 PX 5", Some("SET k 2 PXAT 1005")),
        ("INCR k", Some("INCR k")),
        ("SET k 9 KEEPTTL", Some("SET k 9 KEEPTTL")),
        ("PEXPIRE k 50", Some("PEXPIREAT k 1050")),
        ("PERSIST k", Some("PERSIST k")),
        ("GET k", None),
        ("SET k 1 NX", None),
        ("DEL k", Some("DEL k")),
        ("DEL k", None),
    ] {
        assert_eq!(bench.streamed(line), Vec::from_iter(streamed), "{line}");
    }
}

#[test]
fn active_expiry_takes_the_earliest_first_and_no_more_than_asked() {
    let mut bench = TestModel::default();
    bench.model.attach_replica(7001);
    for line in ["SET late v PX 9", "SET early v PX 3", "SET never v", "SET after v PX 500"] {
        bench.run(line);
    }
    assert_eq!(bench.model.expire_due(at(1_003), 9), 0);
    let before = bench.model.offset();
    assert_eq!(bench.model.expire_due(at(1_100), 1), 1);
    assert_eq!(bench.stream_since(before), ["DEL early"]);
    assert_eq!(bench.model.expire_due(at(1_100), 9), 1);
    bench.now_ms = 1_100;
    assert_eq!(bench.run("DBSIZE"), Reply::Int(2));
}

#[test]
fn a_watched_key_that_is_touched_or_expires_undoes_the_transaction() {
    let mut bench = TestModel::default();
    let other = bench.model.connect(at(1_000), "127.0.0.1:2");
    let transact = |bench: &mut TestModel| {
        bench.run("MULTI");
        assert_eq!(bench.run("SET k mine"), Reply::status("QUEUED"));
        bench.run("EXEC")
    };
    bench.run("SET k v PX 10");
    bench.run("WATCH k");
    assert_eq!(transact(&mut bench), Reply::Array(vec![Reply::Ok]));
    bench.run("WATCH k");
    bench.model.execute(at(1_000), other, &[b"SET", b"k", b"theirs", b"PX", b"10"]);
    assert_eq!(transact(&mut bench), Reply::NilArray);
    bench.run("WATCH k");
    bench.now_ms = 1_011;
    assert_eq!(transact(&mut bench), Reply::NilArray);
    assert_eq!(transact(&mut bench), Reply::Array(vec![Reply::Ok]));
}

#[test]
fn a_refused_command_undoes_the_transaction() {
    let mut bench = TestModel::default();
    bench.run("MULTI");
    assert!(bench.run("GET").is_error());
    let text = "EXECABORT Transaction discarded because of previous errors.";
    assert_eq!(bench.run("EXEC"), error(text));
    assert_eq!(bench.run("EXEC"), error("ERR EXEC without MULTI"));
}

#[test]
fn a_server_refuses_by_the_flags_of_the_command() {
    for (refusal, refused, taken) in [
        (WriteRefusal::ReadOnly, &["SET k v", "DEL k"][..], &["GET k", "PING"][..]),
        (WriteRefusal::OutOfMemory, &["SET k v", "APPEND k v"], &["DEL nokey", "GET k"]),
    ] {
        let mut bench = TestModel::default();
        bench.run("SET k v");
        match refusal {
            WriteRefusal::ReadOnly => {
                let snapshot = bench.model.snapshot();
                bench.model.follow(7000, &snapshot);
            }
            WriteRefusal::OutOfMemory => {
                bench.run("CONFIG SET maxmemory 1");
            }
        }
        for line in refused {
            assert_eq!(bench.run(line), Reply::Error(refusal.error()), "{line}");
        }
        for line in taken {
            assert!(!bench.run(line).is_error(), "{refusal:?} {line}");
        }
        let reply = bench.eval("return redis.call('set', 'k', 'v')");
        let Reply::Error(fail) = reply else { panic!("{reply:?}") };
        assert_eq!(fail.code(), refusal.error().code());
    }
}

#[test]
fn a_password_is_asked_for_and_checked() {
    let mut bench = TestModel::new(ModelOptions {
        password: Some("secret".to_owned()),
        ..ModelOptions::default()
    });
    assert_eq!(bench.run("GET k"), error("NOAUTH Authentication required."));
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    assert_eq!(bench.run("AUTH nope"), error(wrong));
    assert_eq!(bench.run("HELLO 3 AUTH default nope"), error(wrong));
    assert!(matches!(bench.run("HELLO 3 AUTH default secret"), Reply::Map(_)));
    assert_eq!(bench.model.protocol(bench.client), ProtocolVersion::Resp3);
    assert_eq!(bench.run("GET k"), Reply::Nil);
}

#[test]
fn a_script_that_never_ends_is_ended_even_if_it_catches_errors() {
    let with = |script_budget_instructions| ModelOptions {
        script_budget_instructions,
        ..ModelOptions::default()
    };
    let mut bench = TestModel::new(with(100_000));
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local c = coroutine.wrap(function() while true do end end) while true do pcall(c) end",
        "while true do xpcall(function() while true do end end, function() end) end",
    ] {
        let Reply::Error(fail) = bench.eval(script) else { panic!("{script} has ended") };
        let text = String::from_utf8_lossy(fail.text()).into_owned();
        assert!(text.starts_with("ERR Script ended after 100000 instructions"), "{text}");
    }
    assert_eq!(bench.eval("return 1"), Reply::Int(1));
    bench.model.configure(with(50_000));
    bench.client = bench.model.connect(at(1_000), "127.0.0.1:1");
    let Reply::Error(fail) = bench.eval("while true do end") else { panic!("it has ended") };
    assert!(fail.text().starts_with(b"ERR Script ended after 50000 instructions"), "{fail:?}");
}

#[test]
fn a_model_that_was_reset_or_configured_cannot_be_told_from_a_new_one() {
    let lines = [
        "SET k v PX 5",
        "INCR n",
        "CLIENT ID",
        "HSET h a 1",
        "SCAN 0",
        "RPUSH l a b",
        "LPOP l",
        "SADD s b a",
        "ZADD z 1 a",
        "PUBLISH c m",
        "PSUBSCRIBE c*",
        "PUNSUBSCRIBE",
        "ROLE",
        "PUBSUB CHANNELS",
        "CONFIG GET *",
        "CLIENT LIST",
        "INFO everything",
        "WAIT 0 0",
    ];
    let script = "return redis.call('incr', 'n')";
    let digest = sha1_smol::Sha1::from(script).digest().to_string();
    let known = picklock::scripts::COMPARE_AND_DELETE.sha1();
    let story = |bench: &mut TestModel| {
        let mut seen = Vec::new();
        for line in lines {
            let reply = bench.run(line);
            seen.push(format!("{line}: {reply:?} {}", bench.model.offset()));
        }
        for digest in [digest.as_str(), known] {
            seen.push(format!("{:?}", bench.run(&format!("EVALSHA {digest} 1 k v"))));
        }
        let random = "return {tostring(math.random()), redis.call('get', 'n')}";
        seen.push(format!("{:?}", bench.eval(random)));
        bench.model.attach_replica(7001);
        bench.run("SET k w");
        seen.push(format!("{} {:?}", bench.model.offset(), bench.model.next_cut(0)));
        seen.push(format!("{:?} {:?}", bench.model.next_fsync(), bench.model.next_deadline()));
        seen
    };
    let with = |append_only| ModelOptions { append_only, ..ModelOptions::default() };
    for append_only in [AppendOnly::Off, AppendOnly::Everysec] {
        let fresh = story(&mut TestModel::new(with(append_only)));
        let other = ModelOptions { lua_only: true, ..with(AppendOnly::Always) };
        for before in [with(append_only), other] {
            let is_other = before.lua_only;
            let mut bench = TestModel::new(before);
            story(&mut bench);
            bench.eval(script);
            bench.run("SCRIPT LOAD return");
            bench.waiter("BLPOP nothing 5");
            for line in ["SUBSCRIBE c", "PUBLISH c m", "WATCH k", "MULTI", "GET k"] {
                bench.run(line);
            }
            bench.run("CONFIG SET maxmemory 1");
            let snapshot = bench.model.snapshot();
            bench.model.follow(7000, &snapshot);
            bench.run("CONFIG SET requirepass x");
            match is_other {
                true => bench.model.configure(with(append_only)),
                false => bench.model.reset(),
            }
            assert_eq!(bench.heard(), []);
            bench.client = bench.model.connect(at(1_000), "127.0.0.1:1");
            assert_eq!(story(&mut bench), fresh);
        }
    }
}

#[test]
fn of_those_that_wait_the_longest_waiting_is_served_first_and_after_the_whole_transaction() {
    let mut bench = TestModel::default();
    let [first, second] = ["BLPOP other l 0"; 2].map(|line| bench.waiter(line));
    for line in ["MULTI", "RPUSH l a", "RPUSH l b c", "LPOP l", "EXEC"] {
        bench.run(line);
    }
    let heard = bench.heard();
    let popped = |element: &str| Reply::Array(vec![Reply::bulk("l"), Reply::bulk(element)]);
    assert_eq!(heard, [(first, popped("b")), (second, popped("c"))]);
    assert_eq!(bench.run("EXISTS l"), Reply::Int(0));
    assert!(!bench.model.is_blocked(first));
}

#[test]
fn a_client_that_goes_away_while_it_waits_takes_nothing() {
    let mut bench = TestModel::default();
    let gone = bench.waiter("BRPOP l 1");
    assert_eq!(bench.model.next_deadline(), Some(at(2_001)));
    bench.model.disconnect(gone);
    assert_eq!(bench.model.next_deadline(), None);
    bench.run("RPUSH l a");
    assert_eq!(bench.heard(), []);
    assert_eq!(bench.run("LLEN l"), Reply::Int(1));
}

#[test]
fn scan_answers_every_lasting_key_exactly_once_while_others_come_and_go() {
    let mut bench = TestModel::default();
    for key in 0..50 {
        bench.run(&format!("SET key{key} v"));
    }
    let (mut cursor, mut seen, mut step) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let Reply::Array(parts) = bench.run(&format!("SCAN {cursor} COUNT 7")) else { panic!() };
        let [Reply::Bulk(next), Reply::Array(keys)] = &parts[..] else { panic!("{parts:?}") };
        seen.extend(keys.iter().map(|key| format!("{key:?}")));
        cursor = String::from_utf8_lossy(next).into_owned();
        bench.run(&format!("DEL passing{step}"));
        bench.run(&format!("SET passing{} v", step + 1));
        step += 1;
        if cursor == "0" {
            break;
        }
    }
    let lasting = |key: &String| !key.contains(&format!("{:?}", b"passing").replace(']', ""));
    let mut lasting: Vec<_> = seen.into_iter().filter(lasting).collect();
    assert_eq!(lasting.len(), 50);
    lasting.sort();
    lasting.dedup();
    assert_eq!(lasting.len(), 50);
}

#[test]
fn a_script_is_counted_with_its_commands_and_an_error_once() {
    let mut bench = TestModel::default();
    bench.run("SET k a");
    bench.eval("redis.call('get', 'k') return redis.call('incr', 'k')");
    let Reply::Verbatim(text) = bench.run("INFO commandstats") else { panic!() };
    let text = String::from_utf8_lossy(&text).into_owned();
    for line in [
        "cmdstat_get:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0",
        "cmdstat_incr:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1",
        "cmdstat_eval:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1",
    ] {
        assert!(text.contains(line), "{line} not in {text}");
    }
}

#[test]
fn time_stands_still_in_a_script() {
    let mut bench = TestModel::default();
    bench.run("SET k v PX 0");
    let reply = bench.eval(
        "redis.call('set', 'k', 'v', 'px', 5) for i = 1, 9 do redis.call('get', 'k') end \
         return redis.call('pttl', 'k')",
    );
    assert_eq!(reply, Reply::Int(5));
}

#[test]
fn subscribers_hear_of_a_key_that_has_expired() {
    let mut bench = TestModel::default();
    bench.run("CONFIG SET notify-keyspace-events Ex");
    bench.run("SET k v PX 10");
    bench.run("SET l v PX 10");
    let waiter = bench.model.connect(at(1_000), "127.0.0.1:2");
    bench.model.execute(at(1_000), waiter, &[b"SUBSCRIBE", b"__keyevent@0__:expired"]);
    // One is met, the other is taken away by the server.
    bench.now_ms = 1_011;
    assert_eq!(bench.run("GET k"), Reply::Nil);
    assert_eq!(bench.model.expire_due(at(1_011), 10), 1);
    let heard = bench.heard();
    let message = |key: &str| {
        let parts = ["message", "__keyevent@0__:expired", key].map(Reply::bulk);
        (waiter, Reply::Push(parts.into()))
    };
    assert_eq!(heard, [message("k"), message("l")]);
}

#[test]
fn subscribers_hear_of_a_new_key_though_all_classes_hide_that_one() {
    let mut bench = TestModel::default();
    bench.run("CONFIG SET notify-keyspace-events EAn");
    let waiter = bench.model.connect(at(1_000), "127.0.0.1:2");
    bench.model.execute(at(1_000), waiter, &[b"SUBSCRIBE", b"__keyevent@0__:new"]);
    bench.run("SET k v");
    let message = ["message", "__keyevent@0__:new", "k"].map(Reply::bulk);
    assert_eq!(bench.heard(), [(waiter, Reply::Push(message.into()))]);
}

#[test]
fn a_time_out_beyond_the_end_of_time_is_never_over() {
    let mut bench = TestModel::default();
    let waiter = bench.waiter("WAIT 1 9223372036854775807");
    assert_eq!(bench.model.next_deadline(), None);
    assert!(bench.model.is_blocked(waiter));
    // A number of replicas is kept without its high bits.
    assert_eq!(bench.run("WAIT 2147483648 0"), Reply::Int(0));
}

#[test]
fn a_client_that_waits_is_unblocked_by_another() {
    let mut bench = TestModel::default();
    let unblocked = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
    for (line, expected) in [
        ("CLIENT UNBLOCK 2", Reply::NilArray),
        ("CLIENT UNBLOCK 3 TIMEOUT", Reply::NilArray),
        ("CLIENT UNBLOCK 4 ERROR", error(unblocked)),
    ] {
        let waiter = bench.waiter("BLPOP l 0");
        assert_eq!(bench.run(line), Reply::Int(1));
        assert_eq!(bench.run(line), Reply::Int(0), "{line}: it waits no more");
        let heard = bench.heard();
        assert_eq!(heard, [(waiter, expected)], "{line}");
    }
}

#[test]
fn a_key_under_a_new_name_keeps_its_time_and_takes_the_place_of_another() {
    let mut bench = TestModel::default();
    bench.run("SET k v PX 10");
    assert_eq!(bench.run("RENAME k l"), Reply::Ok);
    assert_eq!(bench.run("PTTL l"), Reply::Int(10));
    bench.run("SET k w");
    assert_eq!(bench.run("RENAME l k"), Reply::Ok);
    assert_eq!(bench.run("EXISTS l"), Reply::Int(0));
    assert_eq!((bench.run("GET k"), bench.run("PTTL k")), (Reply::bulk("v"), Reply::Int(10)));
    assert_eq!(bench.run("COPY k c DB 1"), Reply::Int(1));
    assert_eq!(bench.run("EXISTS c"), Reply::Int(0), "it is in the other database");
    bench.run("SELECT 1");
    assert_eq!(bench.run("PTTL c"), Reply::Int(10));
}
