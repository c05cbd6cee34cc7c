//! What a client's script must not be able to do to the process, and what is given back.

use picklock::time::WallTime;
use resp::Reply;

use crate::model::{ConnectionId, Model};
use crate::options::ModelOptions;

fn server() -> (Model, ConnectionId) {
    let mut model = Model::new(ModelOptions::default());
    let client = model.connect(WallTime::from_unix_ns(0), "127.0.0.1:1");
    (model, client)
}

fn ask((model, client): &mut (Model, ConnectionId), words: &[&[u8]]) -> Reply {
    model.execute(WallTime::from_unix_ns(0), *client, words)
}

#[test]
fn more_scripts_than_rust_can_hold_values_are_run_and_flush_gives_them_back() {
    let mut server = server();
    for number in 0..9_000_i64 {
        let text = format!("return {number}");
        let reply = ask(&mut server, &[b"EVAL", text.as_bytes(), b"0"]);
        assert_eq!(reply, Reply::Int(number));
    }
    assert_eq!(ask(&mut server, &[b"SCRIPT", b"FLUSH"]), Reply::Ok);
    // What was known to both is known to neither, and what comes anew to both.
    for _ in 0..2 {
        assert_eq!(ask(&mut server, &[b"EVAL", b"return 7", b"0"]), Reply::Int(7));
        assert_eq!(ask(&mut server, &[b"EVAL", b"return 'new'", b"0"]), Reply::bulk("new"));
        let digest = sha1_smol::Sha1::from("return 7").digest().to_string();
        assert_eq!(ask(&mut server, &[b"EVALSHA", digest.as_bytes(), b"0"]), Reply::Int(7));
    }
}

#[test]
fn no_script_ends_the_process() {
    let mut server = server();
    for (text, why) in [
        ("return cmsgpack.unpack(string.rep('\\145', 1000000))", "stack overflow"),
        ("return cmsgpack.unpack(string.rep('\\129\\1', 1000000))", "stack overflow"),
        ("return cjson.decode(string.rep('[', 1000000))", "too many nested"),
        ("local t = {} t[1] = t return cjson.encode(t)", "excessive nesting"),
        ("return {struct.unpack('b', 'abc', -1e300)}", "data string too short"),
        ("return {cmsgpack.unpack(string.rep('\\161a', 9000))}", "too many return values"),
        ("\x1bLua", "unexpected symbol near 'char(27)'"),
        ("return assert(loadstring(string.dump(function() end)))", "unexpected symbol"),
        (
            "return assert(load(coroutine.wrap(function() coroutine.yield('\\27') end)))",
            "unexpected",
        ),
        ("local s = 'x' while true do pcall(function() s = s .. s end) end", "not enough memory"),
        ("local function f() return f() + 1 end return f()", "stack overflow"),
        ("local function f() coroutine.wrap(f)() return 1 end return f()", "C stack overflow"),
        (
            "local t = {} for i = 1, 20 do t = {t, t} end return #cjson.encode(t)",
            "not enough memory",
        ),
    ] {
        let Reply::Error(fail) = ask(&mut server, &[b"EVAL", text.as_bytes(), b"0"]) else {
            panic!("{text}: no error")
        };
        let said = String::from_utf8_lossy(fail.text()).into_owned();
        assert!(said.contains(why), "{text}: {said}");
        assert_eq!(ask(&mut server, &[b"EVAL", b"return 1", b"0"]), Reply::Int(1), "{text}");
    }
    // A table within itself is answered as far as Redis would go.
    let reply = ask(&mut server, &[b"EVAL", b"local t = {} t[1] = t return t", b"0"]);
    assert!(matches!(reply, Reply::Array(_)));
}

#[test]
fn the_least_recently_used_key_is_evicted_and_without_a_policy_the_write_is_refused() {
    let mut server = server();
    let value = vec![b'x'; 200_000];
    for key in [b"a", b"b", b"c"] {
        ask(&mut server, &[b"SET", key, &value]);
    }
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    ask(&mut server, &[b"CONFIG", b"SET", b"maxmemory", b"1300000"]);
    assert_eq!(ask(&mut server, &[b"SET", b"d", b"1"]), Reply::Error(resp::ErrorReply::new(oom)));
    ask(&mut server, &[b"CONFIG", b"SET", b"maxmemory-policy", b"allkeys-lru"]);
    assert_eq!(ask(&mut server, &[b"SET", b"d", b"1"]), Reply::Ok);
    assert_eq!(ask(&mut server, &[b"EXISTS", b"a", b"b", b"c", b"d"]), Reply::Int(3));
}
