//! What a client's script must not be able to do to the process, and what is given back.

use resp::Reply;

use crate::test_model::TestModel;

#[test]
fn more_scripts_than_rust_can_hold_values_are_run_and_flush_gives_them_back() {
    let mut server = TestModel::default();
    for number in 0..9_000_i64 {
        let text = format!("return {number}");
        let reply = server.eval(&text);
        assert_eq!(reply, Reply::Int(number));
    }
    assert_eq!(server.run("SCRIPT FLUSH"), Reply::Ok);
    // What was known to both is known to neither, and what comes anew to both.
    for _ in 0..2 {
        assert_eq!(server.eval("return 7"), Reply::Int(7));
        assert_eq!(server.eval("return 'new'"), Reply::bulk("new"));
        let digest = sha1_smol::Sha1::from("return 7").digest().to_string();
        assert_eq!(server.ask(&[b"EVALSHA", digest.as_bytes(), b"0"]), Reply::Int(7));
    }
}

#[test]
fn no_script_ends_the_process() {
    let mut server = TestModel::default();
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
        let Reply::Error(fail) = server.eval(text) else { panic!("{text}: no error") };
        let said = String::from_utf8_lossy(fail.text()).into_owned();
        assert!(said.contains(why), "{text}: {said}");
        assert_eq!(server.eval("return 1"), Reply::Int(1), "{text}");
    }
    // A table within itself is answered as far as Redis would go.
    let reply = server.eval("local t = {} t[1] = t return t");
    assert!(matches!(reply, Reply::Array(_)));
}

#[test]
fn the_least_recently_used_key_is_evicted_and_without_a_policy_the_write_is_refused() {
    let mut server = TestModel::default();
    let value = vec![b'x'; 200_000];
    for key in [b"a", b"b", b"c"] {
        server.ask(&[b"SET", key, &value]);
    }
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    server.run("CONFIG SET maxmemory 1300000");
    assert_eq!(server.run("SET d 1"), Reply::Error(resp::ErrorReply::new(oom)));
    server.run("CONFIG SET maxmemory-policy allkeys-lru");
    assert_eq!(server.run("SET d 1"), Reply::Ok);
    assert_eq!(server.run("EXISTS a b c d"), Reply::Int(3));
}
