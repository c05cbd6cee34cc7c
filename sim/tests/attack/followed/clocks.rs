//! Locks that go by the clocks of their clients, and workers whose clock jumps.

use super::attack;
use crate::cli_support::Room;

#[test]
fn a_lock_without_a_ttl_may_say_in_its_value_when_a_hold_ends() {
    let lock = r#"
stamp="local now = redis.call('time') now = now[1] * 1000 + math.floor(now[2] / 1000)
local held = redis.call('get', KEYS[1])
if not held or tonumber(string.match(held, '^%d+')) <= now then
redis.call('set', KEYS[1], (now + ARGV[2]) .. ':' .. ARGV[1]) return 1 end return 0"
clear="local held = redis.call('get', KEYS[1])
if held and string.match(held, ':(.*)$') == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
acquire() { ask EVAL "$stamp" 1 "$key" "$token" "$ttl"; [[ $reply == :1 ]] && echo ok || echo no; }
release() { ask EVAL "$clear" 1 "$key" "$token"; echo ok; }
"#;
    let room = Room::new();
    let said = attack(&room, "--world redis --only hold.kill", lock).ended(1).results();
    assert!(said.contains("BUG hold.kill"), "{said}");
    let promised = format!("promises=stamps\n{lock}");
    // A key that expires only later is cleared away by that, if its holder is gone for good.
    let late =
        promised.replace("ARGV[1]) return 1 end", "ARGV[1], 'PX', ARGV[2] * 3) return 1 end");
    assert_ne!(late, promised);
    for lock in [promised, late] {
        let said = attack(&room, "--world redis --only hold.kill", &lock).ended(0).results();
        assert!(said.contains("1 plan: 1 held"), "{said}");
    }
}

#[test]
fn a_clock_that_is_ahead_meets_the_lock_of_another() {
    let lock = r#"
        promises=stamps
        clock() { now=${EPOCHREALTIME/./}; }
        new_token() { clock; token=$((now + ttl * 1000)); }
        acquire() {
            ask SETNX "$key" "$token"; [[ $reply != :1 ]] || { echo ok; return; }
            ask GET "$key"; clock
            [[ $reply != nil ]] && ((reply < now)) && ask GETSET "$key" "$token" && ((reply < now)) && echo ok || echo no
        }
    "#;
    let room = Room::new();
    let only = "--world embedded --only acquire.setnx.clock-forward";
    let said = attack(&room, only, lock).ended(1).results();
    assert!(said.contains("client 1 overwrote the lock's key with GETSET while client"), "{said}");
}

#[test]
fn an_acquisition_after_the_clock_has_jumped_is_tried() {
    let room = Room::new();
    let lock = r#"take() { ask SET "$key" "$token" NX PXAT $((${EPOCHREALTIME/./} / 1000 + ttl)); [[ $reply == +OK ]]; }"#;
    let said = attack(&room, "--world embedded --only acquire.set.clock-back", lock).ended(1);
    // Its key is gone at once.
    assert!(said.results().contains("BUG acquire.set.clock-back"), "{}", said.stdout);
}

#[test]
fn a_clock_that_has_jumped_shows_nothing_where_the_lock_is_not_got_with_it() {
    let room = Room::new();
    // It does not lock before it has started, as it believes.
    let lock = r#"
start=${EPOCHREALTIME%.*}
take() { (( ${EPOCHREALTIME%.*} >= start )) && ask SET "$key" "$token" NX PX "$ttl" && [[ $reply == +OK ]]; }
"#;
    let only = "--world embedded --ttl 200ms --only acquire.set.clock-back";
    let said = attack(&room, only, lock).ended(3).results();
    assert!(said.contains("client 1 did not get the lock again"), "{said}");
}
