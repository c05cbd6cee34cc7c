//! The model against a real redis-server: random command sequences, reply by reply, byte by byte, with
//! what other clients hear, the statistics of INFO, and what is propagated to the append-only file.
//!
//! Time. The real server's clock cannot be set, so spans are either long (nothing expires while the
//! test runs) or already over when they are given (`PXAT 1`, `EXPIREAT 1`): such a key is expired and
//! still there, and with active expiry off on both sides it stays until a command meets it. Times to
//! live are compared with a tolerance of a second. A client that waits for a moment is left alone
//! until the moment is over.
//!
//! Sequences are drawn from a fixed seed and shrink. `PICKLOCK_DIFF_SEQUENCES` sets how many are run,
//! `PICKLOCK_DIFF_SCRIPTS` how many random scripts, `PICKLOCK_DIFF_SEED` which. What no two servers agree on is levelled first: the order of sets, KEYS
//! and SCAN; and of TIME, HELLO, CLIENT, INFO, ROLE and COMMAND only the kind of reply is compared.

mod model_support;

use std::collections::BTreeSet;

use model_support::commands::Draw;
use model_support::explore::{draws, explore, setting};
use model_support::pair::Pair;
use model_support::scripts::script;
use model_support::templates::TEMPLATES;
use model_support::wire::{agree, described, show};
use model_support::{divergences, fixed};
use resp::Reply;

const SEQUENCES: u64 = 1_000;
const SCRIPTS: u64 = 4_000;

#[test]
fn random_sequences_are_answered_as_redis_answers_them() {
    let seed = setting("PICKLOCK_DIFF_SEED", 1);
    let count = setting("PICKLOCK_DIFF_SEQUENCES", SEQUENCES);
    let mut pair = Pair::new(None);
    let outcome =
        explore(TEMPLATES, seed, count, |draws, protocol| pair.run(draws, &protocol.to_string()));
    outcome.unwrap_or_else(|why| panic!("{why}"));
    let tally = pair.tally.into_inner();
    println!("{:<20}{:>9}{:>9}", "command", "ok", "error");
    for (name, (succeeded, failed)) in &tally {
        println!("{name:<20}{succeeded:>9}{failed:>9}");
    }
    // A command that only ever fails, or never does, has been compared by half. What takes any
    // arguments cannot fail, and what there is not cannot succeed.
    let cannot_fail = [
        "unsubscribe",
        "punsubscribe",
        "sunsubscribe",
        "pubsub numsub",
        "pubsub shardnumsub",
        "command",
        "command info",
        "info",
    ];
    let cannot_succeed = ["nosuch", "client", "client nosuch", "config", "script", "pubsub"];
    for (name, (succeeded, failed)) in &tally {
        let name = name.as_str();
        assert!(*succeeded > 0 || cannot_succeed.contains(&name), "{name} has never succeeded");
        assert!(*failed > 0 || cannot_fail.contains(&name), "{name} has never failed");
    }
}

#[test]
fn an_error_planted_in_a_reply_is_found_and_shown_by_a_short_sequence() {
    // Where two keys exist, three are said to.
    let mut tampered = Pair::new(Some(|command, reply| match (&command[0][..], reply) {
        (b"EXISTS", Reply::Int(2)) => Reply::Int(3),
        (_, reply) => reply,
    }));
    let run = |draws: &[Option<Draw>], protocol: u8| tampered.run(draws, &protocol.to_string());
    let why = explore(TEMPLATES, 1, 10_000, run).expect_err("the error is found");
    let steps = why.lines().filter(|line| line.starts_with("client ")).count();
    assert!(steps <= 3, "{why}");
    assert!(
        why.contains("\"EXISTS\"") && why.ends_with("redis: :2\\r\\n\nmodel: :3\\r\\n"),
        "{why}"
    );
}

#[test]
fn a_replica_and_a_server_after_its_end_hold_what_the_primary_held() {
    let seed = setting("PICKLOCK_DIFF_SEED", 1);
    let count = setting("PICKLOCK_DIFF_SEQUENCES", SEQUENCES);
    let outcome = explore(TEMPLATES, seed, count, |draws, _| model_support::copies::run(draws));
    outcome.unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn fixed_requests_are_answered_as_redis_answers_them() {
    let mut differences = String::new();
    for protocol in ["2", "3"] {
        // A server of its own: the random numbers of scripts run on.
        let mut pair = Pair::new(None);
        pair.start_over(protocol);
        let mut compare = |pair: &mut Pair, command: &[Vec<u8>]| {
            let (real, mine) = pair.both(0, command);
            if !agree(command, &real, &mine) {
                differences.push_str(&format!(
                    "{}\n  redis: {}\n  model: {}\n",
                    show(command),
                    real.escape_ascii(),
                    mine.escape_ascii()
                ));
            }
        };
        for command in fixed::commands() {
            compare(&mut pair, &command);
        }
        for session in divergences::SESSIONS {
            pair.start_over(protocol);
            session.iter().for_each(|line| compare(&mut pair, &fixed::words(line)));
        }
    }
    assert!(differences.is_empty(), "redis-server and the model differ:\n{differences}");
}

#[test]
fn random_scripts_are_answered_as_redis_answers_them() {
    let seed = setting("PICKLOCK_DIFF_SEED", 1);
    let count = setting("PICKLOCK_DIFF_SCRIPTS", SCRIPTS);
    let mut choices = draws(seed);
    let (mut differences, mut failed, mut crashed) = (Vec::new(), 0, 0);
    for protocol in ["2", "3"] {
        let mut pair = Pair::new(None);
        pair.start_over(protocol);
        for _ in 0..count / 2 {
            let script = script(&mut choices);
            let command: Vec<Vec<u8>> = ["EVAL", &script, "1", "k", "arg"]
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect();
            let Ok((real, mine)) = pair.both_unless_it_ends(0, &command) else {
                // What crashes redis-server cannot be compared; the model has answered it.
                crashed += 1;
                pair.start_over(protocol);
                continue;
            };
            failed += u64::from(real.starts_with(b"-"));
            if without_addresses(&real) != without_addresses(&mine) {
                differences.push(format!(
                    "{script}\n  redis: {}\n  model: {}\n",
                    real.escape_ascii(),
                    mine.escape_ascii()
                ));
            }
        }
    }
    let shown = differences.iter().take(20).cloned().collect::<String>();
    assert!(differences.is_empty(), "seed {seed}: {} scripts differ:\n{shown}", differences.len());
    assert!(crashed < count / 50, "redis-server has crashed {crashed} times");
    // Scripts that all fail, or never do, have compared only half.
    assert!((count / 10..count * 9 / 10).contains(&failed), "{failed} of {count} have failed");
}

/// Where tables and functions lie differs from process to process.
fn without_addresses(reply: &[u8]) -> String {
    let text = reply.escape_ascii().to_string();
    let mut parts = text.split(": 0x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + ": 0x?" + part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit())
    })
}

#[test]
fn monitors_are_shown_what_redis_shows_them() {
    let release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) \
                   else return 0 end";
    let mut pair = Pair::new(None);
    let [real, mine] = pair.shown(&[
        &["SELECT", "2"],
        &["SET", "k", "a\"\\\n\r\t\u{7}\u{8}\u{e9}"],
        &["INCR", "k"],
        &["GET"],
        &["NOSUCH", "a"],
        &["CONFIG", "GET", "save"],
        &["CLIENT", "ID"],
        &["CLIENT", "NO-EVICT", "on"],
        &["AUTH", "x"],
        &["AUTH", "default", "x"],
        &["HELLO", "2", "AUTH", "default", "x", "SETNAME", "auth"],
        &["MULTI"],
        &["SET", "k", "b"],
        &["LPUSH", "l", "x"],
        &["EXEC"],
        &["EVAL", release, "1", "k", "b"],
        &["EVAL", "return redis.pcall('incr', KEYS[1])", "1", "l"],
        &["SCRIPT", "LOAD", release],
        &["BLPOP", "l", "0"],
        &["SSUBSCRIBE", "c"],
        &["RESET"],
        &["PING"],
        &["FCALL", "nosuch", "0"],
        &["EVAL", "return 1", "x"],
        &["EVALSHA", "abc", "0"],
    ]);
    assert!(real.len() > 15, "{real:#?}");
    assert_eq!(mine, real);
}

/// What CLIENT INFO or CLIENT LIST says of the client of this name, but for its buffers, memory, times and addresses.
fn as_described(reply: &[u8], name: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(reply);
    let named = text.lines().filter(|line| line.contains(&format!(" name={name} ")));
    let fields = ["flags", "db", "sub", "psub", "ssub", "multi", "cmd", "user", "redir", "resp"];
    let is_compared = |word: &&str| fields.iter().any(|it| word.split('=').next() == Some(it));
    named.flat_map(|line| line.split(' ').filter(is_compared)).map(str::to_owned).collect()
}

#[test]
fn a_client_is_described_as_redis_describes_it() {
    let mut pair = Pair::new(None);
    for protocol in ["2", "3"] {
        for session in [
            &["MULTI", "CLIENT INFO", "CLIENT LIST", "EXEC", "CLIENT INFO"][..],
            &["WATCH k", "MULTI", "CLIENT INFO", "DISCARD", "CLIENT INFO"],
            &["CLIENT NO-EVICT on", "CLIENT INFO", "MULTI", "CLIENT INFO", "EXEC", "RESET"],
            &["CLIENT NO-EVICT on", "CLIENT NO-EVICT x", "CLIENT NO-EVICT off", "CLIENT INFO"],
            &["SUBSCRIBE a b", "CLIENT INFO", "GET k"],
            &["SSUBSCRIBE a", "PSUBSCRIBE p", "SUNSUBSCRIBE", "CLIENT INFO"],
            &["MULTI", "SUBSCRIBE a", "CLIENT INFO", "EXEC"],
            // The last command is the last that there is, whether or not it was carried out.
            &["MULTI", "BLPOP q 0"],
            &["MULTI", "NOSUCH"],
            &["PING", "GET"],
            &["PING", "NOSUCH k"],
            &["PING", "CLIENT"],
            &["PING", "CLIENT NOSUCH"],
            &["PING", "CLIENT INFO k"],
        ] {
            pair.start_over(protocol);
            let mut asked = vec!["CLIENT SETNAME it"];
            asked.extend(session);
            for line in asked {
                let [real, mine] = pair.both(0, &fixed::words(&line)).into();
                assert_eq!(
                    as_described(&mine, "it"),
                    as_described(&real, "it"),
                    "{session:?}: {line}"
                );
            }
            let [real, mine] = pair.both(1, &fixed::words(&"CLIENT LIST")).into();
            let [real, mine] = [real, mine].map(|reply| as_described(&reply, "it"));
            // RESET takes the name away.
            assert_eq!(real.is_empty(), session.contains(&"RESET"), "{session:?}");
            assert_eq!(mine, real, "{session:?}");
        }
    }
}

#[test]
fn listeners_hear_of_keys_what_redis_tells_them() {
    let mut pair = Pair::new(None);
    let [real, mine] = pair.heard(
        "__key*",
        &[
            &["CONFIG", "SET", "notify-keyspace-events", "KEAn"],
            &["RPUSH", "l", "a", "b"],
            &["LTRIM", "l", "0", "-1"],
            &["LTRIM", "l", "1", "1"],
            &["RENAME", "l", "m"],
            &["SET", "k", "v"],
            &["RENAME", "k", "m"],
            &["RENAMENX", "m", "k"],
            &["COPY", "k", "c"],
            &["COPY", "k", "c", "REPLACE"],
            &["MOVE", "k", "1"],
            &["LTRIM", "nosuch", "0", "-1"],
        ],
    );
    assert!(real.len() > 1_000, "{}", real.escape_ascii());
    assert_eq!(mine.escape_ascii().to_string(), real.escape_ascii().to_string());
}

#[test]
fn the_command_table_says_of_each_command_what_redis_says() {
    let mut pair = Pair::new(None);
    let (real, mine) = pair.both(0, &[b"COMMAND".to_vec()]);
    let (real, mine) = (described(&real), described(&mine));
    for (name, line) in &mine {
        assert_eq!(real.get(name), Some(line), "{name}");
    }
    // What is missing stands on the page of worlds.
    let page = include_str!("../../../docs/worlds.md");
    let (_, page) = page.split_once("## What the model lacks").expect("there is such a heading");
    let listed = page.lines().filter(|line| line.starts_with("| "));
    let listed: BTreeSet<String> =
        listed.flat_map(|row| row.split('`').skip(1).step_by(2)).map(str::to_lowercase).collect();
    let is_missing = |name: &&String| {
        let container = name.split('|').next().unwrap_or_default();
        !mine.contains_key(*name)
            && !name.ends_with("|help")
            && (container == *name || mine.contains_key(container))
    };
    let missing = real.keys().filter(is_missing).map(|name| name.replace('|', " "));
    assert_eq!(listed, missing.collect());
}

#[test]
fn the_comparison_sees_differences() {
    // Guards the comparison itself: different replies must not count as the same.
    let agree = |name: &str, real: &str, mine: &str| {
        agree(&[name.into(), b"k".to_vec()], real.as_bytes(), mine.as_bytes())
    };
    assert!(!agree("GET", "$1\r\na\r\n", "$1\r\nb\r\n"));
    assert!(!agree("PTTL", ":-1\r\n", ":-2\r\n"));
    assert!(!agree("PTTL", ":10000\r\n", ":60000\r\n"));
    assert!(agree("PTTL", ":10000\r\n", ":10003\r\n"));
    assert!(agree("KEYS", "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n"));
    assert!(!agree("MGET", "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n"));
}
