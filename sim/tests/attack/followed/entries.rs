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
