//! Random Lua scripts: calls within calls of the libraries, with arguments of every kind.

/// What a script does with an expression.
const STATEMENTS: &[&str] = &[
    "return $",
    "return {$}",
    "return {$, $}",
    "return $ == $",
    "return tostring($)",
    "error(tostring($))",
    "redis.setresp(3) return $",
    "redis.setresp(3) return {$, redis.call('get', KEYS[1])}",
    "local ok, e = pcall(function() return $ end) return {tostring(ok), type(e), e}",
    "local ok, e = xpcall(function() return $ end, function(e) return e end) return {tostring(ok), e}",
    "local f = coroutine.wrap(function(a) local b = coroutine.yield($) return b end)\n\
     local x = f($) local y = f($) return {x, y}",
    "local t = {} for k, v in pairs({$}) do t[#t + 1] = type(v) end return t",
    "redis.call('del', KEYS[1]) redis.call('rpush', KEYS[1], $)\nreturn redis.call('lrange', KEYS[1], 0, -1)",
    "redis.call('set', KEYS[1], $) return redis.call('append', KEYS[1], $)",
    "redis.call('del', 'hash') redis.call('hset', 'hash', $, $) return redis.call('hgetall', 'hash')",
    "redis.call('zadd', 'zset', $, 'm') return redis.call('zscore', 'zset', 'm')",
    "return {redis.pcall('set', KEYS[1], $), redis.pcall('get', KEYS[1]), redis.pcall('incr', KEYS[1])}",
];

/// Expressions; `$` is another one, `J` JSON, `M` MessagePack, `F` a format of `struct`, `N` a number.
const EXPRESSIONS: &[&str] = &[
    "cjson.encode($)",
    "cjson.encode({$, $})",
    "cjson.encode({a = $})",
    "cjson.decode(J)",
    "cjson.decode($)",
    "cjson.decode(cjson.encode($))",
    "cmsgpack.pack($)",
    "cmsgpack.pack($, {$, $})",
    "cmsgpack.unpack(M)",
    "cmsgpack.unpack($)",
    "cmsgpack.unpack(cmsgpack.pack($, $))",
    "cmsgpack.unpack_one(M, N)",
    "cmsgpack.unpack_limit(M, N, N)",
    "struct.pack(F, $, $, $)",
    "struct.pack(F, N, N, N)",
    "struct.unpack(F, $, N)",
    "struct.unpack(F, M)",
    "struct.unpack(F, struct.pack(F, N, $, N))",
    "struct.size(F)",
    "bit.tobit(N)",
    "bit.tohex(N, $)",
    "bit.band($, N)",
    "bit.bor(N, N, $)",
    "bit.bxor(N, N)",
    "bit.bnot($)",
    "bit.lshift(N, N)",
    "bit.arshift(N, $)",
    "bit.rol(N, N)",
    "bit.bswap(N)",
    "tonumber($)",
    "tonumber($, 16)",
    "type($)",
    "#$",
    "-$",
    "not $",
    "($) .. ($)",
    "($) + ($)",
    "($) < ($)",
    "math.floor(N)",
    "math.max(N, $)",
    "string.format('%5.1f|%d|%s', N, N, 'x')",
    "string.rep($, 3)",
    "string.sub($, N, N)",
    "string.find($, $)",
    "string.gsub($, '.', $)",
    "string.byte($, N)",
    "table.concat({$, $}, ',')",
    "select(N, $, $)",
    "unpack({$, $, $})",
    "rawget({$}, 1)",
    "redis.sha1hex($)",
    "redis.error_reply($)",
    "redis.status_reply($)",
    "redis.call('echo', $)",
    "redis.pcall('echo', $)",
    "redis.pcall($)",
    "redis.pcall('incrby', KEYS[1], $)",
    "redis.call('get', KEYS[1])",
    "redis.pcall('lpush', KEYS[1], $)",
    "redis.call('exists', $)",
    "redis.setresp($)",
    "redis.pcall('eval', 'return 1', 0)",
    "{$, $, nil, $}",
    "{ok = $}",
    "{err = $}",
    "{double = N}",
    "{big_number = $}",
    "{map = {a = $}}",
    "{set = {a = true}}",
];

const VALUES: &[&str] = &[
    "N",
    "N",
    "'abc'",
    "''",
    "'0x10'",
    "' 7 '",
    "'1.5'",
    "'1e3x'",
    "'a\\0b'",
    "'\\r\\n'",
    "'two words'",
    "true",
    "false",
    "nil",
    "{}",
    "{1, 2, 'x'}",
    "{a = 1}",
    "{[1] = 1, [3] = 3}",
    "{{1}, {b = {2}}}",
    "cjson.null",
    "ARGV[1]",
    "KEYS",
    "ARGV[9]",
    "'\\27Lua'",
    "'-ERR x'",
];

const NUMBERS: &[&str] = &[
    "0", "1", "-1", "2", "3", "7", "255", "-128", "65536", "1.5", "-2.5", "0.1", "-0.0", "1e15",
    "1e17", "2^31", "-2^31", "2^32 + 1", "2^52 + 1", "2^53", "2^63", "-2^63", "1e100", "1/0",
    "-1/0",
];

const JSON: &[&str] = &[
    "'[1, 2.5, -3e2]'",
    "'{\"a\": [true, null]}'",
    "'[inf, -nan]'",
    "'0x1F'",
    "'[01]'",
    "'-'",
    "'\"\\\\u00e9\\\\n\"'",
    "'\"\\\\ud800\"'",
    "'[1,]'",
    "'{\"a\"}'",
    "'tru'",
    "''",
    "' [ ] '",
    "'1e'",
    "'[.5]'",
    "'+1'",
    "'{\"a\":1,\"a\":2}'",
    "'[\"\\0\"]'",
    "'Infinity'",
];

const PACKED: &[&str] = &[
    "'\\1\\2\\3'",
    "'\\147\\1\\2\\3'",
    "'\\129\\161a\\1'",
    "'\\203\\63\\240\\0\\0\\0\\0\\0\\0'",
    "'\\145\\145\\145\\192'",
    "'\\220\\0\\1\\255'",
    "'\\207\\255\\255\\255\\255\\255\\255\\255\\255'",
    "'\\211\\128\\0\\0\\0\\0\\0\\0\\0'",
    "'\\193'",
    "'\\217\\5ab'",
    "''",
    "'\\196\\1x\\195\\194'",
    "'\\129\\192\\1'",
    "'\\202\\127\\128\\0\\0'",
    "'\\224\\127\\128'",
];

const FORMATS: &[&str] = &[
    "'bBh'", "'>I3i5'", "'<lL'", "'!4bi'", "'!bdh'", "'fd'", "'s'", "'c3'", "'bc0'", "'bxb'",
    "'i16'", "'>!8bhl'", "'i33'", "'c'", "'T'", "' b '", "''", "'i0'", "'ssb'",
];

/// A script made of these choices.
pub(crate) fn script(choices: &mut impl Iterator<Item = u16>) -> String {
    let statement = pick(STATEMENTS, choices);
    fill(statement, 0, choices)
}

fn pick(list: &[&'static str], choices: &mut impl Iterator<Item = u16>) -> &'static str {
    list[usize::from(choices.next().unwrap_or_default()) % list.len()]
}

fn fill(template: &str, depth: usize, choices: &mut impl Iterator<Item = u16>) -> String {
    let mut text = String::new();
    let mut before = ' ';
    let mut rest = template.chars().peekable();
    while let Some(letter) = rest.next() {
        // A letter that stands alone is to be filled in.
        let alone = !before.is_ascii_alphanumeric()
            && !matches!(before, '.' | '\'' | '_')
            && !rest.peek().is_some_and(|next| next.is_ascii_alphanumeric() || *next == '\'');
        before = letter;
        let list = match letter {
            '$' if depth < 3 && choices.next().unwrap_or_default().is_multiple_of(2) => {
                let inner = pick(EXPRESSIONS, choices);
                text.push_str(&fill(inner, depth + 1, choices));
                continue;
            }
            '$' => VALUES,
            'N' if alone => NUMBERS,
            'J' if alone => JSON,
            'M' if alone => PACKED,
            'F' if alone => FORMATS,
            letter => {
                text.push(letter);
                continue;
            }
        };
        let chosen = pick(list, choices);
        match chosen {
            "N" => text.push_str(pick(NUMBERS, choices)),
            chosen => text.push_str(chosen),
        }
    }
    text
}
