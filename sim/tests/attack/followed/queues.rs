//! What `picklock attack` makes of locks whose clients stand in a queue.

use super::attack;
use crate::cli_support::Room;

/// A lock in order of arrival. Its first waiter takes it; the others look after the first, by `first`.
fn queued(first: &str) -> String {
    let lock = r#"
acquire() {
    local end=$((SECONDS + 6))
    ask SET "$key:alive:$token" 1 PX "$ttl"
    ask RPUSH "$key:queue" "$token"
    while ((SECONDS < end)); do
        ask SET "$key:alive:$token" 1 PX "$ttl"
        ask LINDEX "$key:queue" 0
        head=$reply
        if [[ $head == "$token" ]] && take; then
            ask LPOP "$key:queue"
            echo ok
            return
        fi
        first
        sleep 0.02
    done
    ask LREM "$key:queue" 0 "$token"
    echo no
}
"#;
    format!("first() {{ {first}; }}\n{lock}")
}

#[test]
fn a_client_that_dies_in_a_queue_keeps_nobody_from_the_lock() {
    let drops =
        r#"ask EXISTS "$key:alive:$head"; [[ $reply != :0 ]] || ask LREM "$key:queue" 0 "$head""#;
    let options = "--world embedded --ttl 2s --only acquire.rpush.kill,kill-waiter";
    let room = Room::new();
    let said = attack(&room, options, &queued(":")).ended(5).results();
    for says in [
        "BUG acquire.rpush.kill: the process is killed before it hears the answer",
        "client 1 is struck at its RPUSH",
        "progress: nobody got the lock any more: others asked",
        "the same in hold.kill-waiter",
        "2 plans: 2 with a bug",
    ] {
        assert!(said.contains(says), "no {says:?} in {said}");
    }
    let said = attack(&room, options, &queued(drops)).ended(0).results();
    assert!(said.contains("2 plans: 2 held"), "{said}");
}

#[test]
fn only_of_clients_that_wait_one_is_killed_in_line() {
    let room = Room::new();
    let said = attack(&room, "--world embedded --list", "").ended(0).stdout;
    assert!(said.contains("hold.kill") && !said.contains("kill-waiter"), "{said}");
}
