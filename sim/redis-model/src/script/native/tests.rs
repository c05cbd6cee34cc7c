//! Known scripts, natively and in Lua, on the same random states.

use picklock::scripts;
use picklock::time::WallTime;
use resp::Reply;

use super::{TEXTS, bound, native_scripts};
use crate::model::{ConnectionId, Model};
use crate::options::ModelOptions;

struct One {
    model: Model,
    client: ConnectionId,
    /// The client that subscribes.
    other: ConnectionId,
}

impl One {
    fn new(lua_only: bool) -> Self {
        let mut model = Model::new(ModelOptions { lua_only, ..ModelOptions::default() });
        let mut connect = |from| model.connect(WallTime::from_unix_ns(0), from);
        let (client, other) = (connect("127.0.0.1:1"), connect("127.0.0.1:2"));
        model.attach_replica(7001);
        let mut one = Self { model, client, other };
        one.run(0, &[b"@", b"SUBSCRIBE", b"one"]);
        one
    }

    /// The answer, where the stream ends then, and the messages.
    fn run(&mut self, now_ms: u64, args: &[&[u8]]) -> (Reply, u64, Vec<Reply>) {
        let now = WallTime::from_unix_ns(now_ms * 1_000_000);
        let (client, args) = match args {
            [b"@", args @ ..] => (self.other, args),
            args => (self.client, args),
        };
        let reply = self.model.execute(now, client, args);
        let mut messages = Vec::new();
        self.model.drain_outbox(|_, message| messages.push(message));
        (reply, self.model.offset(), messages)
    }

    fn stream(&self) -> Vec<u8> {
        let mut stream = Vec::new();
        assert!(self.model.copy_stream(0, self.model.offset(), &mut stream));
        stream
    }
}

/// One request for both models.
type Line = Vec<Vec<u8>>;

fn lines() -> impl proptest::strategy::Strategy<Value = Vec<(u64, Line)>> {
    use proptest::prelude::*;
    // A tilde is a space within a word.
    let word = |word: &str| word.replace('~', " ").into_bytes();
    let words = move |line: &str| -> Line { line.split(' ').map(word).collect() };
    // What stands in the way of the rest does not stand for long.
    let undone = prop::sample::select(vec!["DEL k", "DEL l s", "EXEC"]);
    let plain = prop::sample::select(vec![
        "SET k a PX 30",
        "SET k b",
        "SET k a",
        "SET l a PX 10",
        "SET l 7",
        "SET l 1125899906842624",
        "HSET k f v",
        "HSET s a x",
        "HSET s b 1010~10~one",
        "ZADD l 2.5 x",
        "ZADD l 1 b",
        "PEXPIRE k 9000000000000000",
        "SELECT 1",
        "SELECT 0",
        "SCRIPT FLUSH",
        "MULTI",
        "WATCH k",
        "CONFIG SET appendonly yes",
        "@ SUBSCRIBE one",
        "@ SUBSCRIBE two",
        "@ UNSUBSCRIBE one",
        "@ UNSUBSCRIBE two",
    ]);
    let plain = prop_oneof![plain, undone].prop_map(words);
    let texts: Vec<&str> = TEXTS.iter().map(|known| known.text).collect();
    let of_lines: Vec<&str> = texts.iter().copied().filter(|text| text.contains("'Z")).collect();
    let rest = prop::sample::select(vec![
        "1 k a",
        "1 k b",
        "1 k a 20",
        "1 k a 0",
        "1 k a -5",
        "1 k a x",
        "1 k a one",
        "2 k l a 15",
        "2 k l 7 w",
        "2 k l 8 w",
        "2 l l a 15",
        "1 l a 10",
        "0",
        "0 a",
        "1 k",
        "x k a",
        "1 k a 9223372036854775807",
        "3 k l k a 3 9 one 20",
        "3 k l s a x 9 one 20",
        "3 k l s a 3 9 one 0",
    ])
    .prop_map(words);
    // Who stands in line is more often in order than not.
    let token = prop::sample::select(vec!["a", "b", "c"]);
    let channel = prop::sample::select(vec!["one", "two", "none"]);
    let in_line =
        (token, channel, 0..9_u64, 1..40_u64).prop_map(move |(token, channel, at, ttl)| {
            words(&format!("3 k l s {token} {at} {} {channel} {ttl}", 4 * at))
        });
    let any = (prop::sample::select(texts), prop_oneof![rest, in_line.clone()]);
    let in_line = (prop::sample::select(of_lines), in_line);
    let eval = (prop_oneof![any, in_line], 0..8).prop_map(move |((text, rest), form)| {
        let digest = sha1_smol::Sha1::from(text).digest().to_string();
        let body = match form {
            0 => return vec![b"SCRIPT".to_vec(), b"LOAD".to_vec(), text.into()],
            1 => (b"EVALSHA".to_vec(), digest.into_bytes()),
            2 => (b"evalsha".to_vec(), digest.to_uppercase().into_bytes()),
            _ => (b"EVAL".to_vec(), text.as_bytes().to_vec()),
        };
        [vec![body.0, body.1], rest].concat()
    });
    prop::collection::vec((0..20_u64, prop_oneof![1 => plain, 2 => eval]), 1..60)
}

#[test]
fn each_twin_was_written_for_the_text_that_is_shipped() {
    for (sha1, text, ..) in native_scripts() {
        let found = sha1_smol::Sha1::from(text).digest().to_string();
        assert_eq!(
            sha1, found,
            "this text has changed, so the virtual world runs it in Lua, slowly: make the functions \
             beside its old SHA-1 in native.rs do what it does now, then write the new SHA-1 there\n{text}"
        );
    }
}

#[test]
fn a_changed_text_has_no_twin_and_does_what_it_says() {
    // As if the library's extend had been changed so that it does not compare.
    let extend = scripts::COMPARE_AND_EXTEND.text();
    let shipped = native_scripts().find(|(_, text, ..)| *text == extend);
    let (sha1, text, fits, act) = shipped.expect("it runs natively");
    let changed = "redis.call('PEXPIRE', KEYS[1], ARGV[2])\nreturn 1\n";
    assert!(bound((sha1, changed, fits, act)).is_none());
    assert!(bound((sha1, text, fits, act)).is_some());
    let mut one = One::new(false);
    one.run(0, &[b"SET", b"k", b"other", b"PX", b"10"]);
    let (reply, ..) = one.run(0, &[b"EVAL", changed.as_bytes(), b"1", b"k", b"mine", b"50"]);
    assert_eq!(reply, Reply::Int(1), "it extends another's hold, as the text says");
    assert_eq!(one.run(0, &[b"PTTL", b"k"]).0, Reply::Int(50));
}

#[test]
fn a_lock_is_handed_over_without_lua() {
    use picklock::queue_scripts::{JOIN, LEAVE};

    let (mut native, mut lua) = (One::new(false), One::new(true));
    let mut both = |now_ms: u64, text: &str, rest: &str| {
        let args = [&["EVAL", text], &rest.split(' ').collect::<Vec<_>>()[..]].concat();
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let found = native.run(now_ms, &args);
        assert_eq!(found, lua.run(now_ms, &args));
        found.0
    };
    let list = |items: Vec<Reply>| Reply::Array(items);
    let code = |code| list(vec![Reply::Int(code), Reply::bulk("1000000")]);
    assert_eq!(both(1000, JOIN.text(), "3 k l s a 2 9 one 20"), code(1));
    assert_eq!(
        both(1000, JOIN.text(), "3 k l s b 2 9 one 20"),
        list(vec![Reply::Int(0), Reply::bulk("1000000"), Reply::Int(21)])
    );
    assert_eq!(both(1000, LEAVE.text(), "3 k l s a"), Reply::Int(1));
    assert_eq!(both(1000, LEAVE.text(), "3 k l s a"), Reply::Int(-1), "it is b's now");
    assert_eq!(both(1000, JOIN.text(), "3 k l s b 2 9 one 20"), code(2));
}

proptest::proptest! {
    #[test]
    fn native_and_lua_cannot_be_told_apart(lines in lines()) {
        let (mut native, mut lua) = (One::new(false), One::new(true));
        let mut now_ms = 1_000;
        for (span_ms, line) in lines {
            now_ms += span_ms;
            let args: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
            proptest::prop_assert_eq!(native.run(now_ms, &args), lua.run(now_ms, &args));
        }
        let info: [&[u8]; 2] = [b"INFO", b"everything"];
        native.run(now_ms, &[b"DISCARD"]);
        lua.run(now_ms, &[b"DISCARD"]);
        proptest::prop_assert_eq!(native.run(now_ms, &info), lua.run(now_ms, &info));
        proptest::prop_assert_eq!(native.stream(), lua.stream());
    }
}
