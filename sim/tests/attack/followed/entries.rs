//! Locks whose key has entries of several clients, and keys beside it that belong to one acquisition.

use super::attack;
use crate::cli_support::Room;

/// The first in a list has the lock. Whoever has no heartbeat any more is taken out of it.
const LEASES: &str = r#"
clean="local first = redis.call('lindex', KEYS[1], 0)
if first and redis.call('exists', ARGV[1] .. first) == 0 then redis.call('lpop', KEYS[1]) end return 0"
take() {
    ask SET "$key:beat:$token" 1 PX "$ttl"
    ask RPUSH "$key:leases" "$token"
    ask EVAL "$clean" 1 "$key:leases" "$key:beat:"
    ask LINDEX "$key:leases" 0
    [[ $reply == "$token" ]] || { give >&2; false; }
}
give() { ask LREM "$key:leases" 1 "$token"; ask DEL "$key:beat:$token"; echo ok; }
"#;

#[test]
fn a_key_of_one_acquisition_does_not_stand_for_the_lock() {
    let room = Room::new();
    // The heartbeats end with the jump of the clock, and so do the leases.
    let options = "--world redis --ttl 1s --only no-fault,hold.server-clock";
    let said = attack(&room, options, LEASES).ended(0).results();
    assert!(
        said.contains("lock key picklock-attack:leases") && said.contains("2 plans: "),
        "{said}"
    );
}

#[test]
fn a_lock_of_which_others_write_no_key_that_comes_and_goes_is_refused() {
    let room = Room::new();
    let lock = r#"
by_value="local now = redis.call('get', KEYS[1]) if not now or now == '' then return redis.call('set', KEYS[1], ARGV[1])
end return 0"
take() { ask EVAL "$by_value" 1 "$key" "$token"; [[ $reply == +OK ]] && ask SET "mine:$token" 1 PX "$ttl"; }
give() { ask DEL "mine:$token"; ask SET "$key" ""; echo ok; }
"#;
    let said = attack(&room, "--world embedded --list", lock).ended(2).message();
    for says in ["none but client 1 writes the key mine:1-", "created picklock-attack, mine:1-"] {
        assert!(said.contains(says), "no {says:?} in {said}");
    }
}

#[test]
fn an_entry_may_end_long_before_its_key() {
    let room = Room::new();
    let lock = r#"
once="local time = redis.call('time') local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
if redis.call('zcard', KEYS[1]) > 0 then return 0 end
redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1])
return redis.call('pexpire', KEYS[1], ARGV[2] * 3)"
take() { ask EVAL "$once" 1 "$key" "$token" "$ttl"; [[ $reply == :1 ]]; }
give() { ask ZREM "$key" "$token"; echo ok; }
"#;
    let options = "--world embedded --ttl 1s --only no-fault,hold.kill";
    let said = attack(&room, options, lock).ended(0).results();
    assert!(said.contains("2 plans: 2 held"), "{said}");
    // Whatever is first is taken out, be it of another or not.
    let lock = format!(r#"{lock}give() {{ ask ZPOPMIN "$key"; echo ok; }}"#);
    let options = "--world embedded --ttl 1s --only release.zpopmin.late-request";
    let said = attack(&room, options, &lock).ended(1).results();
    assert!(said.contains("deleted the lock's key with ZPOPMIN"), "{said}");
}

/// A hash with the owner and the time of its last beat: who finds an old one takes the lock over.
const HEARTBEAT: &str = r#"
promises=stamps
over="local time = redis.call('time') local now = time[1] * 1000 + math.floor(time[2] / 1000)
local beat = redis.call('hget', KEYS[1], 'beat')
if beat and tonumber(beat) > now - ARGV[2] then return 0 end
redis.call('hset', KEYS[1], 'owner', ARGV[1], 'beat', now, 'kind', 'lock') return 1"
mine="if redis.call('hget', KEYS[1], 'owner') == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
take() { ask EVAL "$over" 1 "$key" "$token" "$ttl"; [[ $reply == :1 ]]; }
give() { ask EVAL "$mine" 1 "$key" "$token"; [[ $reply == :* ]] && echo ok || echo "unknown $reply"; }
"#;

#[test]
fn who_writes_itself_into_a_hash_takes_the_lock_over() {
    let room = Room::new();
    let options = "--world embedded --only no-fault,hold.kill,release.eval.busy";
    let said = attack(&room, options, HEARTBEAT).ended(0).results();
    assert!(said.contains("3 plans: 3 held"), "{said}");
    let early = HEARTBEAT.replace("now - ARGV[2]", "now - ARGV[2] / 20");
    let said = attack(&room, "--world embedded --only no-fault", &early).ended(1).results();
    assert!(said.contains("overwrote the lock's key with EVAL while client"), "{said}");
}

#[test]
fn a_number_that_is_counted_down_from_0_is_followed() {
    let room = Room::new();
    let lock = r#"
count="if redis.call('decr', KEYS[1]) == -1 then redis.call('pexpire', KEYS[1], ARGV[1]) return 1 end
redis.call('incr', KEYS[1]) return 0"
take() { ask EVAL "$count" 1 "$key" "$ttl"; [[ $reply == :1 ]]; }
give() { ask INCR "$key"; [[ $reply == :* ]] && echo ok || echo "unknown $reply"; }
"#;
    let only = "--world embedded --only acquire.eval.oom,hold.kill,release.incr.loading,release.incr.late-request";
    let said = attack(&room, only, lock).ended(1).results();
    for says in [
        "BUG release.incr.late-request",
        "client 1 deleted the lock's key with INCR while client",
        "4 plans: 1 with a bug, 3 held",
    ] {
        assert!(said.contains(says), "no {says:?} in {said}");
    }
}

#[test]
fn a_lock_that_is_free_while_something_is_in_its_key_is_refused_and_not_blamed() {
    let list = r#"
take() {
    ask SET "$key:made" 1 NX
    [[ $reply != +OK ]] || ask RPUSH "$key" free
    ask LPOP "$key"
    [[ $reply == free ]]
}
give() { ask RPUSH "$key" free; echo ok; }
"#;
    let number = r#"
down="redis.call('set', KEYS[1], 1, 'NX', 'PX', ARGV[1])
if redis.call('get', KEYS[1]) == '0' then return 0 end return redis.call('decr', KEYS[1]) + 1"
take() { ask EVAL "$down" 1 "$key" "$ttl"; [[ $reply == :1 ]]; }
give() { ask INCR "$key"; echo ok; }
"#;
    for lock in [list, number] {
        let room = Room::new();
        let said = attack(&room, "--world embedded --list", lock).ended(2).message();
        assert!(said.contains("puts something into the key picklock-attack, such as"), "{said}");
    }
}
