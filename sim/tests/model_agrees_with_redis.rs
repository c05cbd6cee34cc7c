//! The model against a real redis-server: random command sequences, reply by reply, byte by byte.
//!
//! Sequences are drawn from a fixed seed, so a failure repeats. `PICKLOCK_DIFF_SEQUENCES` sets how many
//! are run, `PICKLOCK_DIFF_SEED` which. Replies that cannot agree by nature are levelled first: times
//! to live are compared with a tolerance of a second, KEYS and SCAN without their order, COMMAND not at all.

mod model_support;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use model_support::commands::Generator;
use model_support::server::{Connection, RealServer};
use model_support::wire::{agree, show};
use picklock::time::WallTime;
use sim::redis::model::{ClientId, Model};
use sim::redis::options::Options;
use sim::resp::encode::encode;

const SEQUENCES: u64 = 300;
const COMMANDS: usize = 20;

#[expect(clippy::disallowed_methods, reason = "the real server reads the real clock")]
fn now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    WallTime::from_unix_ns(u64::try_from(since.as_nanos()).expect("before 2554"))
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Two clients of one server, and the same two of the model.
struct Pair {
    real: [Connection; 2],
    model: Model,
    clients: [ClientId; 2],
}

impl Pair {
    fn new(server: &RealServer) -> Self {
        let mut model = Model::new(Options::default());
        let clients = [model.connect(now(), "a"), model.connect(now(), "b")];
        Self { real: [server.connect(), server.connect()], model, clients }
    }

    fn both(&mut self, who: usize, command: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let real = self.real[who].call(&args);
        let reply = self.model.execute(now(), self.clients[who], &args);
        let mut mine = Vec::new();
        encode(&reply, self.model.protocol(self.clients[who]), &mut mine);
        (real, mine)
    }

    /// Both servers as new.
    fn start_over(&mut self, protocol: &str) {
        self.model.reset();
        for who in 0..2 {
            self.clients[who] = self.model.connect(now(), "127.0.0.1:1");
        }
        for who in 0..2 {
            for line in ["RESET", &format!("HELLO {protocol}"), "FLUSHALL", "SCRIPT FLUSH"] {
                let command: Vec<Vec<u8>> = line.split(' ').map(|word| word.into()).collect();
                self.both(who, &command);
            }
        }
        self.both(0, &[b"CONFIG".to_vec(), b"RESETSTAT".to_vec()]);
    }
}

#[test]
fn random_sequences_are_answered_as_redis_answers_them() {
    let server = RealServer::start();
    let mut pair = Pair::new(&server);
    let mut tally: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let first_seed = setting("PICKLOCK_DIFF_SEED", 1);
    for seed in first_seed..first_seed + setting("PICKLOCK_DIFF_SEQUENCES", SEQUENCES) {
        pair.start_over(if seed % 2 == 0 { "2" } else { "3" });
        let mut generator = Generator::new(seed);
        let mut story = String::new();
        for _ in 0..COMMANDS {
            let (who, command) = generator.command();
            let (real, mine) = pair.both(who, &command);
            story.push_str(&format!("client {who}: {}\n", show(&command)));
            assert!(
                agree(&command, &real, &mine),
                "seed {seed}: redis-server and the model differ at the end of\n{story}redis: {}\n\
                 model: {}",
                real.escape_ascii(),
                mine.escape_ascii()
            );
            let name = String::from_utf8_lossy(&command[0]).to_ascii_lowercase();
            let count = tally.entry(name).or_default();
            if real.starts_with(b"-") { count.1 += 1 } else { count.0 += 1 }
        }
        compare_statistics(&mut pair, seed, &story);
    }
    println!("{:<14}{:>9}{:>9}", "command", "ok", "error");
    for (name, (succeeded, failed)) in &tally {
        println!("{name:<14}{succeeded:>9}{failed:>9}");
    }
    // A generator that only ever produces errors, or none, would compare nothing of worth.
    let (succeeded, failed) =
        tally.values().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    assert!(succeeded > failed && failed > 0, "{succeeded} succeeded, {failed} failed");
}

/// Calls, rejected and failed calls of every command, and hits and misses of keys.
fn compare_statistics(pair: &mut Pair, seed: u64, story: &str) {
    let lines = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let wanted = |line: &&str| {
            ["cmdstat_", "keyspace_hits", "keyspace_misses", "total_error_replies"]
                .iter()
                .any(|start| line.starts_with(start))
                && !line.starts_with("cmdstat_info")
        };
        let timeless = |line: &str| {
            let fields = line.split(',').filter(|field| !field.starts_with("usec"));
            fields.collect::<Vec<_>>().join(",")
        };
        let mut lines: Vec<String> = text.lines().filter(wanted).map(timeless).collect();
        lines.sort();
        lines
    };
    // A transaction left open would queue the question.
    pair.both(0, &[b"RESET".to_vec()]);
    let (real, mine) = pair.both(0, &[b"INFO".to_vec(), b"all".to_vec()]);
    assert_eq!(lines(&real), lines(&mine), "seed {seed}: statistics differ after\n{story}");
}

#[test]
fn fixed_requests_are_answered_as_redis_answers_them() {
    let mut differences = String::new();
    for protocol in ["2", "3"] {
        // A server of its own: the random numbers of scripts run on.
        let server = RealServer::start();
        let mut pair = Pair::new(&server);
        pair.start_over(protocol);
        for command in model_support::fixed::commands() {
            let (real, mine) = pair.both(0, &command);
            if !agree(&command, &real, &mine) {
                differences.push_str(&format!(
                    "{}\n  redis: {}\n  model: {}\n",
                    show(&command),
                    real.escape_ascii(),
                    mine.escape_ascii()
                ));
            }
        }
    }
    assert!(differences.is_empty(), "redis-server and the model differ:\n{differences}");
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
