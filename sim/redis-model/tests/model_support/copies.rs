//! A primary, its replica, and the primary after its end: all must hold the same.

use picklock::time::WallTime;
use redis_model::model::Model;
use redis_model::model::Termination;
use redis_model::options::ModelOptions;
use resp::Reply;
use scenarios::topology::AppendOnly;

use super::commands::{CLIENTS, Draw};
use super::wire::show;

const START_MS: u64 = 1_700_000_000_000;
/// From command to command, so that keys do expire.
const STEP_MS: u64 = 30_000;

fn at(ms: u64) -> WallTime {
    WallTime::from_unix_ns(ms * 1_000_000)
}

/// Runs a sequence on a primary, hands its stream on in single groups, and ends it without power.
///
/// # Errors
/// What a copy holds that the primary did not, or the other way round.
pub(crate) fn run(draws: &[Option<Draw>]) -> Result<(), String> {
    let options = ModelOptions { append_only: AppendOnly::Always, ..ModelOptions::default() };
    let (mut primary, mut replica) = (Model::new(options), Model::new(ModelOptions::default()));
    let clients: Vec<_> = (0..CLIENTS).map(|_| primary.connect(at(START_MS), "a")).collect();
    primary.attach_replica(7001);
    replica.follow(7000, &primary.snapshot());
    let (mut now_ms, mut story, mut applied) = (START_MS, String::new(), replica.offset());
    for draw in draws.iter().flatten() {
        now_ms += STEP_MS;
        primary.unblock_due(at(now_ms));
        let client = clients[draw.who];
        if let Some(command) = draw.command(false).filter(|_| !primary.is_blocked(client)) {
            story.push_str(&format!("client {}: {}\n", draw.who, show(&command)));
            let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            primary.submit(at(now_ms), client, &args);
        }
        // The replica is a group behind, or two.
        if draw.who > 0
            && let Some(cut) = primary.next_cut(applied)
        {
            applied = apply(&primary, &mut replica, applied, cut, now_ms);
        }
    }
    while let Some(cut) = primary.next_cut(applied) {
        applied = apply(&primary, &mut replica, applied, cut, now_ms);
    }
    let held = held(&mut primary, now_ms);
    replica.promote();
    let copied = self::held(&mut replica, now_ms);
    primary.end(Termination::PowerLoss);
    primary.restart(at(now_ms));
    let found = self::held(&mut primary, now_ms);
    match () {
        () if copied != held => Err(format!("{story}primary: {held:#?}\nreplica: {copied:#?}")),
        () if found != held => Err(format!("{story}before: {held:#?}\nafter: {found:#?}")),
        () => Ok(()),
    }
}

fn apply(primary: &Model, replica: &mut Model, from: u64, to: u64, now_ms: u64) -> u64 {
    let mut groups = Vec::new();
    assert!(primary.copy_stream(from, to, &mut groups), "the stream is kept");
    replica.apply(at(now_ms), &groups);
    to
}

/// Keys, values and expiries.
fn held(model: &mut Model, now_ms: u64) -> Vec<String> {
    let mut copy = Model::new(ModelOptions::default());
    copy.follow(7000, &model.snapshot());
    copy.promote();
    let client = copy.connect(at(now_ms), "a");
    let mut ask = |words: &[&[u8]]| copy.execute(at(now_ms), client, words);
    let mut held = Vec::new();
    for db in 0..16 {
        ask(&[b"SELECT", db.to_string().as_bytes()]);
        let Reply::Array(keys) = ask(&[b"KEYS", b"*"]) else { continue };
        for key in keys {
            let Reply::Bulk(key) = key else { continue };
            let value: &[&[u8]] = match ask(&[b"TYPE", &key]) {
                Reply::Status(kind) if kind[..] == *b"hash" => &[b"HGETALL", &key],
                Reply::Status(kind) if kind[..] == *b"list" => &[b"LRANGE", &key, b"0", b"-1"],
                Reply::Status(kind) if kind[..] == *b"set" => &[b"SMEMBERS", &key],
                Reply::Status(kind) if kind[..] == *b"zset" => {
                    &[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"]
                }
                _ => &[b"GET", &key],
            };
            let value = ask(value);
            let expiry = ask(&[b"PEXPIRETIME", &key]);
            held.push(format!("{db} {key:?} {value:?} {expiry:?}"));
        }
    }
    held
}
