//! Locks whose key has entries of several clients.

use super::attack;
use crate::cli_support::Room;

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
