//! picklock is killed at any moment, and nothing of it stays behind: no process, no port, no directory.
//!
//! The moments are spread evenly over a run: while its servers start, while one of them is killed and another takes
//! its place, while a machine has no power. In every third run the servers stand still (SIGSTOP) when it happens; in
//! every second one the supervisor is killed at the same instant.
//! Ten runs by default; `PICKLOCK_KILLS=100 cargo test -p sim --test killed_at_any_moment` makes it a hundred.

#![expect(clippy::disallowed_methods, reason = "these tests watch real processes")]

mod cli_support;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use cli_support::{Room, eventually, words};
use live_world::supervisor::COMMAND;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

const KILLS: usize = 10;
/// So many at a time.
const AT_ONCE: usize = 5;
/// Longer than any of these runs lasts.
const WITHIN_MS: u64 = 6_000;
/// What is run, in turn.
const RUNS: [&str; 5] = [
    "run --seed 1 --scenario failover",
    "run --seed 1 --scenario power-loss --lock redlock",
    "run --seed 1 --scenario failover --lock single-wait",
    "run --seed 1 --scenario gc-pause",
    concat!("attack -- ", env!("CARGO_MANIFEST_DIR"), "/../examples/attack/shell/naive.sh"),
];

/// Who looks after them.
fn supervisor(room: &Room) -> Option<Pid> {
    let is_it = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').nth(1) == Some(COMMAND)
    };
    room.processes().into_iter().find(is_it).map(Pid::from_raw)
}

/// Kills a run; how many servers it had then.
fn killed(number: usize) -> usize {
    let mut random = Pcg64::seed_from_u64(number as u64);
    let room = Room::new();
    let mut run = words(RUNS[number % RUNS.len()]);
    run.splice(1..1, ["--world", "redis"]);
    let playing = room.start(&run);
    std::thread::sleep(Duration::from_millis(random.next_u64() % WITHIN_MS));
    let there = room.servers();
    if number.is_multiple_of(3) {
        for (pid, _) in &there {
            // It may have been ended by its scenario meanwhile.
            let _ = kill(Pid::from_raw(*pid), Signal::SIGSTOP);
        }
    }
    let supervisor = if number.is_multiple_of(2) { supervisor(&room) } else { None };
    // Stopped first, so that it cannot notice that picklock is gone.
    let both = |signal| supervisor.map(|it| kill(it, signal));
    both(Signal::SIGSTOP);
    playing.signal(Signal::SIGKILL);
    both(Signal::SIGKILL);
    drop(playing);
    room.is_left_clean();
    for (_, port) in &there {
        // Where somebody else has it by now, it is not ours any more.
        let ours = || room.servers().iter().any(|(_, it)| it == port);
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok() || !ours();
        eventually("the port is free", || free().then_some(()));
    }
    there.len()
}

#[test]
fn nothing_stays_behind() {
    let kills = std::env::var("PICKLOCK_KILLS").map_or(KILLS, |it| it.parse().unwrap());
    let found: Vec<usize> = std::thread::scope(|scope| {
        let runners = (0..AT_ONCE).map(|first| {
            scope.spawn(move || {
                let theirs = (first..kills).step_by(AT_ONCE);
                theirs.map(killed).collect::<Vec<usize>>()
            })
        });
        let runners: Vec<_> = runners.collect();
        runners.into_iter().flat_map(|runner| runner.join().unwrap()).collect()
    });
    let (with, most) = (found.iter().filter(|it| **it > 0).count(), found.iter().max().unwrap());
    println!("{kills} killed, {with} of them with servers, at most {most} of them");
    assert!(with > 0, "none of them ever had a server");
}
