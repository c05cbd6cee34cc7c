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
    // After the flush neither knows the old scripts, and both learn the new ones.
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
        ("return {unpack({}, -2147483648, 0)}", "too many results to unpack"),
        ("return {unpack({}, -5, 2^31 - 1)}", "too many results to unpack"),
        ("return {unpack({}, 2^31, 2^31 - 1)}", "too many results to unpack"),
        ("return string.find('', string.rep('a?', 40000))", "pattern too complex"),
        ("return (''):match(string.rep('a*', 40000))", "pattern too complex"),
        ("return (''):gmatch(string.rep('a-', 40000))", "pattern too complex"),
        ("return (''):gsub(string.rep('a+', 40000), '')", "pattern too complex"),
        ("local function f() return (('a'):gsub('a', f)) end return f()", "C stack overflow"),
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

/// The thread of a test has 2 MB of stack, as most that run scripts have.
#[test]
fn no_nesting_of_coroutines_takes_more_stack_than_a_thread_has() {
    let mut server = TestModel::default();
    // In each coroutine as many calls of C as Lua allows, and the most that each of them may take.
    for nested in [
        "t = setmetatable({}, {__index = function(t, k) most() if k == 0 then return f() end return t[k - 1] end})
         enter = function() return t[180] end",
        "local function g(k) most() if k == 0 then return f() end return select(2, pcall(g, k - 1)) end
         enter = function() return g(180) end",
        "local function g(k) most() if k == 0 then return f() end return (('a'):gsub('a', function() return g(k - 1) end)) end
         enter = function() return g(50) end",
    ] {
        let text = format!(
            "local f, t, enter
             local subject, pattern = string.rep('a', 2000), string.rep('a*', 2000)
             local deep = string.rep('(', 150) .. '1' .. string.rep(')', 150)
             local deepest = 0
             local function most()
               local ok = pcall(string.match, subject, pattern)
               if ok then deepest = deepest + 1 end
               loadstring('return ' .. deep)
             end
             {nested}
             f = function() return coroutine.wrap(enter)() end
             local ok, why = pcall(f)
             return {{deepest, tostring(why)}}"
        );
        let Reply::Array(parts) = server.eval(&text) else { panic!("{:?}", server.eval(&text)) };
        let [Reply::Int(deepest), Reply::Bulk(why)] = &parts[..] else { panic!("{parts:?}") };
        let why = String::from_utf8_lossy(why);
        assert!(*deepest > 50 && why.contains("C stack overflow"), "{deepest} {why}");
    }
}

#[test]
fn nothing_that_is_shared_can_be_written_to() {
    let mut server = TestModel::default();
    for table in ["redis", "_G", "string", "table", "cjson", "getmetatable('')"] {
        for write in [
            "table.insert($, 'leak')",
            "table.insert($, 1, 'leak')",
            "rawset($, 1, 'leak')",
            "setmetatable($, {})",
            "$[1] = 'leak'",
            "local f, t = pairs($) rawset(t, 1, 'leak')",
            "table.sort($) table.remove($) table.foreach($, function(k, v) rawset(v, 1, 1) end)",
        ] {
            server.eval(&write.replace('$', table));
            let reply = server.eval(&format!("return {{rawget({table}, 1), rawget(redis, 1)}}"));
            let left = matches!(&reply, Reply::Array(parts) if !parts.is_empty());
            assert!(!left, "{write} {table}: {reply:?}");
        }
    }
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
