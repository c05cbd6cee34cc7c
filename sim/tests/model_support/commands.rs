//! Random commands: few keys, so that they meet; odd arguments, so that errors are met too.

/// Draws commands from a seed.
pub(crate) struct Generator {
    state: u64,
    /// Which clients are between MULTI and EXEC. Commands whose replies are compared with leniency
    /// are kept out of transactions, where they would be compared to the byte.
    in_multi: [bool; 2],
}

/// What a word of a template stands for.
const KEYS: &[&str] = &["k", "k", "l", "h", "n"];
const VALUES: &[&str] = &["", "a", "b", "token", "10", "-5", "9223372036854775807", "007", "1.5"];
const INTEGERS: &[&str] =
    &["1", "-1", "0", "10", "9223372036854775807", "-9223372036854775808", "x", "", "+1", "1.0"];
/// Far enough away that nothing expires while the test runs, or already past.
const SPANS: &[&str] =
    &["100", "2000", "100000", "0", "-1", "9223372036854775807", "9223372036854775", "z"];
const MS_SPANS: &[&str] = &["100000", "2000000", "0", "-1", "9223372036854775807", "z"];
const POINTS: &[&str] = &["1", "4102444800", "4102448400", "0", "-1", "9223372036854775807", "z"];
const MS_POINTS: &[&str] = &["1", "4102444800000", "4102448400000", "0", "9223372036854775807"];
const FIELDS: &[&str] = &["f", "g", "i"];

const SCRIPTS: &[&str] = &[
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 100000) end return 0",
    "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 100000)",
    "return redis.call('incr', KEYS[1])",
    "return redis.pcall('incr', KEYS[1])",
    "local ok, err = pcall(redis.call, 'incr', KEYS[1]) return {ok, err}",
    "return {redis.call('get', KEYS[1]), KEYS, ARGV, 3.99, true, false, 'end'}",
    "return redis.call('mget', KEYS[1], 'l', 'h')",
    "return redis.call('hgetall', 'h')",
    "redis.setresp(3) return redis.call('hgetall', 'h')",
    "redis.setresp(3) return {redis.call('get', KEYS[1]), true, false}",
    "local n = redis.call('hincrby', 'h', KEYS[1], 1) if n > 1 then return redis.error_reply('TAKEN by ' .. n) end return n",
    "return #redis.call('keys', '*')",
    "return redis.call(ARGV[1], KEYS[1])",
    "error(ARGV[1])",
    "return nosuch",
    "this is no lua",
    "return {err = 'CODE text', 1}",
    "return {ok = 'fine'}",
    "return redis.sha1hex(ARGV[1])",
    "return redis.call('select', '1')",
    "return type(redis.call('exists', KEYS[1]))",
    "redis.call('set', KEYS[1], 'x') redis.call('nosuch')",
];

/// Templates: `K` a key, `V` a value, `I` an integer, `S` a span in s, `M` one in ms, `P` a point in
/// time in s, `Q` one in ms, `F` a field, `L` a script. A second column: not inside a transaction.
const TEMPLATES: &[(&str, bool)] = &[
    ("SET K V", false),
    ("SET K V NX PX M", false),
    ("SET K V", false),
    ("SET K V O O", false),
    ("SET K V O O O", false),
    ("SETNX K V", false),
    ("SETEX K S V", false),
    ("PSETEX K M V", false),
    ("GETSET K V", false),
    ("GET K", false),
    ("GET K", false),
    ("GET", false),
    ("GETDEL K", false),
    ("GETEX K", false),
    ("GETEX K O", false),
    ("GETEX K EXAT P", false),
    ("GETEX K PERSIST", false),
    ("MGET K K K", false),
    ("MSET K V K V", false),
    ("MSET K V K", false),
    ("MSETNX K V K V", false),
    ("STRLEN K", false),
    ("APPEND K V", false),
    ("DEL K", false),
    ("DEL K K", false),
    ("UNLINK K", false),
    ("EXISTS K K", false),
    ("TYPE K", false),
    ("INCR K", false),
    ("DECR n", false),
    ("INCRBY K I", false),
    ("DECRBY n I", false),
    ("EXPIRE K S", false),
    ("EXPIRE K S C", false),
    ("PEXPIRE K M C C", false),
    ("PEXPIRE K M", false),
    ("EXPIREAT K P C", false),
    ("PEXPIREAT K Q", false),
    ("TTL K", true),
    ("PTTL K", true),
    ("EXPIRETIME K", true),
    ("PEXPIRETIME K", true),
    ("PERSIST K", false),
    ("KEYS G", true),
    ("SCAN 0 COUNT 1000", true),
    ("SCAN 0 COUNT 1000 MATCH G TYPE string", true),
    ("SCAN x COUNT 1000", true),
    ("SCAN 0 COUNT -1 MATCH nothing", true),
    ("DBSIZE", false),
    ("FLUSHDB", false),
    ("FLUSHALL V", false),
    ("SELECT D", false),
    ("SELECT D", false),
    ("HSET h F V", false),
    ("HSET K F V F V", false),
    ("HSET h F V F", false),
    ("HSETNX h F V", false),
    ("HGET K F", false),
    ("HMGET h F F", false),
    ("HGETALL K", false),
    ("HKEYS h", false),
    ("HVALS h", false),
    ("HDEL K F", false),
    ("HDEL h F F", false),
    ("HEXISTS h F", false),
    ("HLEN K", false),
    ("HINCRBY K F I", false),
    ("EVAL L 1 K V", false),
    ("EVAL L 1 K V", false),
    ("EVAL L 1 K V", false),
    ("EVAL L 2 K K V", false),
    ("EVAL L 0", false),
    ("EVAL L I K", false),
    ("EVAL_RO L 1 K V", false),
    ("SCRIPT LOAD L", false),
    ("EVALSHA H 1 K V", false),
    ("EVALSHA H 1 K V", false),
    ("EVALSHA_RO H 1 K V", false),
    ("SCRIPT EXISTS H H", false),
    ("SCRIPT FLUSH", false),
    ("PING", false),
    ("PING V V", false),
    ("ECHO V", false),
    ("MULTI", false),
    ("MULTI", false),
    ("EXEC", false),
    ("DISCARD", false),
    ("WATCH K", false),
    ("WATCH K K", false),
    ("UNWATCH", false),
    ("NOSUCH V V", false),
    ("CLIENT NOSUCH", false),
    ("CLIENT GETNAME", true),
    ("CONFIG SET V V", false),
    ("WAIT 0 0", false),
    ("ROLE", false),
];

const OPTIONS: &[&str] = &[
    "NX", "XX", "GET", "KEEPTTL", "EX S", "PX M", "EXAT P", "PXAT Q", "get", "nx", "EX", "PERSIST",
    "junk",
];
const CONDITIONS: &[&str] = &["NX", "XX", "GT", "LT", "gt", "junk"];
const GLOBS: &[&str] = &["*", "k", "[k-l]", "?", "nothing*"];
const DATABASES: &[&str] = &["0", "0", "0", "1", "16", "x"];

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed, in_multi: [false; 2] }
    }

    /// The client that sends, and what.
    pub(crate) fn command(&mut self) -> (usize, Vec<Vec<u8>>) {
        let who = usize::from(self.draw(4) == 0);
        // Drawn evenly, most transactions would never end.
        let ends = self.in_multi[who] && self.draw(4) == 0;
        let template = loop {
            if ends {
                break "EXEC";
            }
            let (template, alone) = TEMPLATES[self.draw(TEMPLATES.len())];
            if !(alone && self.in_multi[who]) {
                break template;
            }
        };
        let mut command = Vec::new();
        self.fill(template, &mut command);
        match template {
            "MULTI" => self.in_multi[who] = true,
            "EXEC" | "DISCARD" => self.in_multi[who] = false,
            _ => {}
        }
        (who, command)
    }

    fn fill(&mut self, template: &str, command: &mut Vec<Vec<u8>>) {
        for word in template.split(' ') {
            let chosen = match word {
                "K" => self.pick(KEYS),
                "V" => self.pick(VALUES),
                "I" => self.pick(INTEGERS),
                "S" => self.pick(SPANS),
                "M" => self.pick(MS_SPANS),
                "P" => self.pick(POINTS),
                "Q" => self.pick(MS_POINTS),
                "F" => self.pick(FIELDS),
                "C" => self.pick(CONDITIONS),
                "G" => self.pick(GLOBS),
                "D" => self.pick(DATABASES),
                "L" => self.pick(SCRIPTS),
                "H" => {
                    // Few of them, so that some have been loaded before.
                    let script = self.pick(&SCRIPTS[..4]);
                    command.push(sha1_smol::Sha1::from(script).digest().to_string().into());
                    continue;
                }
                "O" => {
                    let option = self.pick(OPTIONS);
                    self.fill(option, command);
                    continue;
                }
                literal => literal,
            };
            command.push(chosen.into());
        }
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.draw(from.len())]
    }

    /// A number below `bound`, by splitmix64.
    fn draw(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % bound as u64).expect("smaller than the bound")
    }
}
