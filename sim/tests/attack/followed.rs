//! What `picklock attack` makes of locks that do more than SET and DEL: what it follows, which key it takes for the lock's, and
//! what only some of its plans find.

mod clocks;
mod entries;
mod queues;

use crate::cli_support::{Room, Said, words};

/// A worker in bash, which the functions of a lock are put into: `acquire` and `release` print the answers.
const WORKER: &str = r#"
connect() {
    exec 3<>"/dev/tcp/$REDIS_HOST/$REDIS_PORT"
    ask AUTH "$REDIS_PASSWORD"
    ask SELECT "${DB:-0}"
}
# The words of a command, and what comes of it in `reply`; of a list, its last element.
ask() {
    { printf '*%d\r\n' $#; for word; do printf '$%d\r\n%s\r\n' "${#word}" "$word"; done; } >&3
    hear
}
hear() {
    local count
    if ! IFS= read -r -t 0.3 reply <&3; then
        reply=-lost
        connect
        reply=-lost
        return
    fi
    reply=${reply%$'\r'}
    case $reply in
        '$-1' | '*-1') reply=nil ;;
        '$'*) IFS= read -r reply <&3; reply=${reply%$'\r'} ;;
        '*'*) for ((count = ${reply#\*}; count > 0; count--)); do hear; done ;;
    esac
}
take() { ask SET "$key" "$token" NX PX "$ttl"; [[ $reply == +OK ]]; }
compare="if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
give() { ask EVAL "$compare" 1 "$key" "$token"; [[ $reply == :* ]] && echo ok || echo "unknown $reply"; }
key=$PICKLOCK_KEY ttl=$PICKLOCK_TTL_MS me=$PICKLOCK_CLIENT tries=0
connect
acquire() { take && echo ok || echo no; }
release() { give; }
check() { echo ok; }
new_token() { token=$me-$((tries++)); }
"#;
const SERVE: &str = r#"
echo "ready $promises"
while read -r order; do
    [[ $order != acquire ]] || new_token
    $order
done
"#;

/// With either server, at the same time: most of an attack is waiting.
fn in_both_worlds(look: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(|| look("embedded"));
        look("redis");
    });
}

/// Attacks a lock that differs in this from one that sets a key and deletes it if it is its own.
fn attack(room: &Room, options: &str, lock: &str) -> Said {
    let worker = room.file("lock.sh", format!("{WORKER}{lock}{SERVE}"));
    room.attack(&[&["attack"], &words(options)[..], &["--", "bash", &worker]].concat())
}

#[test]
fn fencing_tokens_that_fall_are_a_bug() {
    let room = Room::new();
    let fence = |next: &str| {
        format!(
            r#"acquire() {{ take && {{ ask INCR "$key:f"; echo "ok fence={next}"; }} || echo no; }}"#
        )
    };
    let only = "--world embedded --only no-fault";
    let said = attack(&room, only, &fence("$((9000 - ${reply#:}))")).ended(1).results();
    assert!(said.contains("BUG no-fault") && said.contains("with token"), "{said}");
    let said = attack(&room, only, &fence("${reply#:}")).ended(0).results();
    assert!(said.contains("1 plan: 1 held"), "{said}");
}

#[test]
fn who_waits_for_an_element_is_followed() {
    let lock = r#"
acquire() { take && echo ok || { ask BLPOP "$key:w" 0.2; echo no; }; }
release() { give; ask LPUSH "$key:w" x; ask LTRIM "$key:w" 0 0; }
"#;
    in_both_worlds(|world| {
        let room = Room::new();
        let only = format!("--world {world} --only no-fault");
        let said = attack(&room, &only, lock).ended(0).results();
        assert!(said.contains("1 plan: 1 held"), "{world}: {said}");
    });
}

#[test]
fn a_transaction_is_followed_whether_or_not_it_is_carried_out() {
    let lock = r#"
release() {
    ask WATCH "$key"
    ask GET "$key"
    if [[ $reply != "$token" ]]; then
        ask UNWATCH
    else
        ask MULTI
        ask DEL "$key"
        ask EXEC
    fi
    echo ok
}
"#;
    in_both_worlds(|world| {
        let room = Room::new();
        let only = "no-fault,release.exec.busy,release.del.loading,release.get.stop";
        let options = format!("--world {world} --only {only}");
        let said = attack(&room, &options, lock).ended(0).results();
        assert!(!said.contains("undecided"), "{world}: {said}");
    });
}

#[test]
fn a_floating_point_number_is_the_same_in_either_protocol() {
    let lock = r#"acquire() { ask ZADD "$key:z" 1795796432123 "$me"; ask ZSCORE "$key:z" "$me"; take && echo ok || echo no; }"#;
    let room = Room::new();
    let said = attack(&room, "--world redis --only no-fault", lock).ended(0).results();
    assert!(said.contains("1 plan: 1 held"), "{said}");
}

#[test]
fn the_key_that_comes_and_goes_with_a_hold_stands_for_the_lock() {
    let room = Room::new();
    let lock = r#"
name=$key key=9f2c
acquire() { take && { ask SET "owner:$name" "$me" PX "$ttl"; echo ok; } || echo no; }
"#;
    let said = attack(&room, "--world embedded --only no-fault", lock).ended(0).results();
    assert!(said.contains("lock key 9f2c") && said.contains("1 held"), "{said}");
    let options = "--world embedded --only no-fault --lock-key";
    let said = attack(&room, &format!("{options} owner:picklock-attack"), lock).results();
    assert!(said.contains("lock key owner:picklock-attack"), "{said}");
    let said = attack(&room, &format!("{options} 77"), lock).ended(2).message();
    assert!(said.contains("created no key 77") && said.contains("9f2c, owner:"), "{said}");
}

#[test]
fn a_key_may_be_any_bytes() {
    let room = Room::new();
    let lock = "LC_ALL=C\nkey=$'\\xff\\xfelock'\n";
    let options = "--world embedded --only no-fault,release.eval.late-request";
    let said = attack(&room, options, lock).ended(0).results();
    assert!(said.contains("2 plans: 2 held"), "{said}");
    let deletes = format!("{lock}\ngive() {{ ask DEL \"$key\"; echo ok; }}\n");
    let options = "--world embedded --only release.del.late-request";
    let said = attack(&room, options, &deletes).ended(1).results();
    assert!(said.contains("BUG release.del.late-request"), "{said}");
}

#[test]
fn a_worker_that_extends_whatever_the_server_answers_is_found() {
    let room = Room::new();
    let lock = r#"
promises=extends
longer="if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
"#;
    let honest = r#"extend() { ask EVAL "$longer" 1 "$key" "$token" "$ttl"; [[ $reply == :1 ]] && echo ok || echo no; }"#;
    let rash = r#"extend() { ask EVAL "$longer" 1 "$key" "$token" "$ttl"; echo ok; }"#;
    for plan in ["hold.stop", "hold.evict"] {
        let options = format!("--world embedded --only {plan}");
        let said = attack(&room, &options, &format!("{lock}{honest}\n")).ended(0).results();
        assert!(!said.contains("BUG "), "{plan}: {said}");
        let said = attack(&room, &options, &format!("{lock}{rash}\n")).ended(1).results();
        assert!(said.contains(&format!("BUG {plan}")), "{plan}: {said}");
        assert!(said.contains("said that it has extended the lock"), "{plan}: {said}");
    }
}

#[test]
fn a_key_that_a_release_leaves_to_expire_soon_is_not_left_behind() {
    let room = Room::new();
    let lock = r#"
soon="if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 60) end return 0"
give() { ask EVAL "$soon" 1 "$key" "$token"; echo ok; }
"#;
    let said = attack(&room, "--world redis --only hold.server-clock", lock).ended(0).results();
    assert!(said.contains("1 plan: 1"), "{said}");
}

#[test]
fn a_lock_that_is_free_by_its_value_is_refused_and_not_blamed() {
    let room = Room::new();
    let lock = r#"
take="local now = redis.call('get', KEYS[1]) if not now or now == '' then redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
return 1 end return 0"
acquire() { ask EVAL "$take" 1 "$key" "$token" "$ttl"; [[ $reply == :1 ]] && echo ok || echo no; }
release() { ask SET "$key" ""; echo ok; }
"#;
    let said = attack(&room, "--world embedded", lock).ended(2).message();
    assert!(said.contains("leaves the key picklock-attack for ever"), "{said}");
}

#[test]
fn a_key_is_evicted_in_its_own_database() {
    in_both_worlds(|world| {
        let room = Room::new().with("DB", "5");
        let options = format!("--world {world} --only hold.evict");
        let said = attack(&room, &options, "").ended(0).results();
        assert!(said.contains("1 that no lock with a TTL survives (assumes)"), "{world}: {said}");
    });
}

#[test]
fn a_server_that_takes_over_has_the_functions_of_the_one_before() {
    let room = Room::new();
    let lock = r##"
        trap '' PIPE
        compare="if redis.call('get', k[1]) == a[1] then return redis.call('del', k[1]) end return 0"
        ask FUNCTION LOAD REPLACE "#!lua name=lock"$'\n'"redis.register_function('give', function(k, a) $compare end)"
        give() { ask FCALL give 1 "$key" "$token"; [[ $reply == :* ]] && echo ok || echo "unknown $reply"; }
    "##;
    let said = attack(&room, "--world redis --only hold.failover", lock).ended(0).results();
    assert!(said.contains("1 plan: 1 that no lock with a TTL survives (assumes)"), "{said}");
}

#[test]
fn a_token_of_a_client_ends_its_next_hold() {
    let room = Room::new();
    let options = "--world embedded --ttl 2s --only release.eval.late-again";
    let said = attack(&room, options, r#"new_token() { token=$me; }"#).ended(1).results();
    for says in
        ["both believed that they held the lock", "is struck at its EVAL", "its late EVAL arrives"]
    {
        assert!(said.contains(says), "no {says:?} in {said}");
    }
    let said = attack(&room, options, "").ended(0).results();
    assert!(said.contains("1 plan: 1 held"), "{said}");
}

#[test]
fn a_release_that_frees_nothing_is_a_bug() {
    let room = Room::new();
    let only = "--world embedded --only no-fault";
    let said = attack(&room, only, "release() { echo ok; }").ended(5).results();
    for says in ["BUG no-fault: nothing goes wrong progress:", "left its key behind for"] {
        assert!(said.contains(says), "no {says:?} in {said}");
    }
}

/// A lock by INCR: who is answered 1 has it, and others go away again.
const COUNTING: &str = r#"
take() { ask INCR "$key"; [[ $reply == :1 ]] && ask PEXPIRE "$key" "$ttl" || { back; false; }; }
back() { ask DECR "$key"; }
give() { ask DECR "$key"; echo ok; }
"#;

#[test]
fn a_number_that_others_count_on_is_not_overwritten() {
    in_both_worlds(|world| {
        let room = Room::new();
        // Once the number expires, this lock fails by itself: a rival may have counted up before, and count down after.
        let options = format!("--world {world} --only no-fault");
        let said = attack(&room, &options, COUNTING).ended(0).results();
        assert!(said.contains("1 plan: 1 held"), "{world}: {said}");
        // So it is sound if rivals do both in one step.
        let in_one = r#"
once="if redis.call('incr', KEYS[1]) == 1 then return redis.call('pexpire', KEYS[1], ARGV[1]) end
redis.call('decr', KEYS[1]) return 0"
take() { ask EVAL "$once" 1 "$key" "$ttl"; [[ $reply == :1 ]]; }
"#;
        let options = format!("--world {world} --only no-fault,hold.kill,release.decr.loading");
        let said = attack(&room, &options, &format!("{COUNTING}{in_one}")).ended(0).results();
        assert!(said.contains("3 plans: 3 held"), "{world}: {said}");
        // They leave the number to its TTL, and its holder deletes it.
        let stays = r#"back() { true; }; give() { ask DEL "$key"; echo ok; }"#;
        let options = format!("--world {world} --only no-fault,hold.kill,release.del.loading");
        let said = attack(&room, &options, &format!("{COUNTING}{stays}")).ended(0).results();
        assert!(said.contains("3 plans: 3 held"), "{world}: {said}");
    });
}

/// Counts on and back at once: no key expires in between and is counted below 0.
const AT_ONCE: &str = r#"
count="if redis.call('incr', KEYS[1]) == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) return 1 end
redis.call('decr', KEYS[1]) return 0"
take() { ask EVAL "$count" 1 "$key" "$ttl"; [[ $reply == :1 ]]; }
"#;

#[test]
fn a_lock_that_counts_wrongly_is_convicted_at_its_key() {
    for (plan, lock, says) in [
        (
            "no-fault",
            r#"take() { ask INCR "$key"; ok=$reply; ask PEXPIRE "$key" "$ttl"; [[ $ok == :1 ]] || { back; false; }; }"#,
            "extended the lock's key",
        ),
        // One rival: a second might have counted on to this very number, which would not be overwritten then.
        (
            "no-fault --clients 2",
            r#"take() { ask INCR "$key"; ok=$reply; ask SET "$key" "$((${ok#:} + 1))" PX "$ttl"; [[ $ok == :1 ]]; }; back() { true; }"#,
            "overwrote the lock's key",
        ),
        ("release.decr.late-request", AT_ONCE, "deleted the lock's key with DECR"),
        (
            "release.del.late-request",
            &format!(r#"{AT_ONCE}give() {{ ask DEL "$key"; echo ok; }}"#),
            "deleted the lock's key with DEL",
        ),
        ("acquire.incr.kill", "", "its key never expires"),
    ] {
        let room = Room::new();
        let options = format!("--world embedded --ttl 1s --only {plan}");
        let plan = words(plan)[0];
        let said = attack(&room, &options, &format!("{COUNTING}{lock}")).results();
        assert!(said.contains(&format!("BUG {plan}")) && said.contains(says), "{lock}: {said}");
    }
}

#[test]
fn a_count_that_stays_at_0_for_ever_is_refused_and_not_blamed() {
    let room = Room::new();
    let lock = format!(
        r#"{COUNTING}take() {{ ask INCR "$key"; [[ $reply == :1 ]] || {{ back; false; }}; }}"#
    );
    let said = attack(&room, "--world embedded", &lock).ended(2).message();
    assert!(said.contains("leaves the key picklock-attack for ever"), "{said}");
}

/// A fair lock: a line of its clients in one key, of whom the first has it.
const IN_LINE: &str = r#"
new_token() { token=$me; }
line="redis.call('zadd', KEYS[1], 'NX', redis.call('incr', KEYS[1] .. ':next'), ARGV[1])
if redis.call('zrank', KEYS[1], ARGV[1]) ~= 0 then return 0 end
redis.call('pexpire', KEYS[1], ARGV[2]) return 1"
take() { ask EVAL "$line" 1 "$key" "$token" "$ttl"; [[ $reply == :1 ]]; }
give() { ask ZREM "$key" "$token"; [[ $reply == :* ]] && echo ok || echo "unknown $reply"; }
"#;

#[test]
fn who_stands_in_line_in_the_locks_key_is_told_from_its_holder() {
    in_both_worlds(|world| {
        let room = Room::new();
        let only = "no-fault,release.zrem.late-request,hold.kill";
        let said = attack(&room, &format!("--world {world} --only {only}"), IN_LINE).ended(0);
        assert!(said.results().contains("3 plans: 3 held"), "{world}: {}", said.stdout);
        // Whoever is first is taken out.
        let lock = format!(r#"{IN_LINE}give() {{ ask ZREMRANGEBYRANK "$key" 0 0; echo ok; }}"#);
        let only = "--ttl 1s --only release.zremrangebyrank.late-request";
        let said = attack(&room, &format!("--world {world} {only}"), &lock).ended(1).results();
        let says = "deleted the lock's key with ZREMRANGEBYRANK";
        assert!(said.contains(says), "{world}: {said}");
    });
}

#[test]
fn a_fencing_token_that_is_drawn_before_the_lock_is_taken_may_be_old_by_then() {
    // Its time-out would pass while it stands still.
    let before = r#"
hear() { IFS= read -r -t 9 reply <&3; reply=${reply%$'\r'}; [[ $reply != '$-1' ]] || reply=nil; }
acquire() { ask INCR "$key:f"; fence=${reply#:}; take && echo "ok fence=$fence" || echo no; }
"#;
    let behind =
        r#"acquire() { take && { ask INCR "$key:f"; echo "ok fence=${reply#:}"; } || echo no; }"#;
    in_both_worlds(|world| {
        let room = Room::new();
        let only = format!("--world {world} --only acquire.incr.old-token");
        let said = attack(&room, &only, before).ended(1).results();
        let says = "got the lock with token 1 after client";
        let bug = "BUG acquire.incr.old-token";
        assert!(said.contains(bug) && said.contains(says), "{world}: {said}");
    });
    let room = Room::new();
    let listed = attack(&room, "--world embedded --list", behind).ended(0).stdout;
    assert!(listed.contains("acquire.incr.stop") && !listed.contains("old-token"), "{listed}");
}

#[test]
fn a_worker_that_ends_when_it_is_asked_whether_it_has_the_lock_believes_so_no_longer() {
    let room = Room::new();
    let ends = r#"check() { ask PING; [[ $reply == +PONG ]] && echo ok || exit 3; }"#;
    let said = attack(&room, "--world embedded --only hold.restart", ends).results();
    assert!(said.contains("the worker ended") && !said.contains("both believed"), "{said}");
}

#[test]
fn a_release_that_finds_nothing_leaves_nothing() {
    let lock = r#"
        promises=reports
        release() { give | sed 's/^unknown.*/no/'; }
    "#;
    let room = Room::new();
    let only = "--world embedded --only release.eval.busy,acquire.set.oom";
    let said = attack(&room, only, lock).ended(0).results();
    for says in [
        "API release.eval.busy: the server answers -BUSY progress: client 1 said that it had nothing to release, and left",
        "client 1 answers no",
        "2 plans: 1 with a lesser flaw (api), 1 held",
    ] {
        assert!(said.contains(says), "no {says:?} in {said}");
    }
}

#[test]
fn a_worker_that_never_releases_again_is_told_of() {
    let lock = r#"
        ask SCRIPT LOAD "$compare"; sha=$reply
        give() { ask EVALSHA "$sha" 1 "$key" "$token"; [[ $reply == :* ]] && echo ok || echo "unknown $reply"; }
    "#;
    let room = Room::new();
    let only = "--world embedded --only hold.flush-scripts,release.evalsha.noscript";
    let said = attack(&room, only, lock).ended(0).results();
    for says in [
        "API hold.flush-scripts: the server forgets its scripts",
        "progress: client 1 got the free lock again, and never released it: it answered ",
        "client 1 has not released the lock: it answers unknown: -NOSCRIPT",
        "2 plans: 1 with a lesser flaw (api), 1 held",
    ] {
        assert!(said.contains(says), "no {says:?} in {said}");
    }
}

#[test]
fn a_lock_that_is_handed_over_is_refused() {
    let lock = r#"
        give_to_next="if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
            local next = redis.call('lpop', KEYS[2])
            if next then redis.call('set', KEYS[1], next, 'px', ARGV[2]) else redis.call('del', KEYS[1]) end
            return 1"
        acquire() {
            take && { echo ok; return; }
            ask RPUSH "$key:queue" "$token"
            for ((end = SECONDS + 2; SECONDS < end;)); do
                ask GET "$key"
                [[ $reply != "$token" ]] || { echo ok; return; }
                sleep 0.01
            done
            ask LREM "$key:queue" 0 "$token"
            echo no
        }
        give() { ask EVAL "$give_to_next" 2 "$key" "$key:queue" "$token" "$ttl"; echo ok; }
    "#;
    let room = Room::new();
    let said = attack(&room, "--world embedded --list", lock).ended(2).message();
    assert!(said.contains("writes the key picklock-attack for the next client"), "{said}");
}

#[test]
fn what_a_worker_that_gets_the_lock_no_more_has_printed_is_shown() {
    let room = Room::new();
    let lock = r#"
acquire() { if ((tries > 1)); then echo "the pool is closed" >&2; echo no; else take && echo ok || echo no; fi; }
"#;
    let said = attack(&room, "--world embedded", lock).ended(2).message();
    for says in
        ["without any fault client 1 never got the lock", "it printed:", "the pool is closed"]
    {
        assert!(said.contains(says), "no {says:?} in {said}");
    }
}
