//! Clocks: pauses, drift and steps, to the nanosecond.

use super::*;

#[test]
fn a_paused_process_is_late_and_its_clock_went_on() {
    let _world = world(2);
    let env = VirtualEnv::of(1);
    task(1, async move {
        env.sleep(10 * MS).await;
        say(format!("clock {}", env.now().as_ns() / MS_NS));
        env.sleep(10 * MS).await;
        say(format!("clock {}", env.now().as_ns() / MS_NS));
    });
    until(5 * MS_NS);
    with(|sim| sim.executor.pause(1));
    until(100 * MS_NS);
    assert!(said().is_empty(), "a paused process does nothing");
    with(|sim| sim.executor.resume(1));
    until(200 * MS_NS);
    let expected = [(100 * MS_NS, "clock 100".to_owned()), (110 * MS_NS, "clock 110".to_owned())];
    assert_eq!(said(), expected);
}

#[test]
fn drift_and_steps_of_the_server_shift_expiry_by_exactly_what_they_should() {
    // How long a key of one second lives, in nanoseconds of the world, to the microsecond at which
    // the server's clock is read.
    let lives = |prepare: &dyn Fn(), midway: &dyn Fn()| {
        let _world = world(2);
        prepare();
        task(1, async { drop(ask(VirtualEnv::of(1), set(1000 * MS)).await) });
        until(100 * MS_NS);
        midway();
        let (mut alive_ns, mut gone_ns) = (now_ns(), 3_000 * MS_NS);
        assert!(value().is_some());
        // The clock only reads forward, so the search goes by what the clock would show.
        while gone_ns - alive_ns > 1_000 {
            let middle_ns = alive_ns.midpoint(gone_ns);
            let shows = with(|sim| sim.servers[0].clock.wall(middle_ns));
            // Redis lets a key live through the millisecond in which it expires.
            let expires = 1_700_000_001_001_000_000_u64;
            if shows < expires { alive_ns = middle_ns } else { gone_ns = middle_ns }
        }
        // And the server agrees on both sides of what was found.
        until(alive_ns);
        assert!(value().is_some(), "alive at {alive_ns}");
        until(gone_ns + 1_000);
        assert!(value().is_none(), "gone at {gone_ns}");
        gone_ns
    };
    let drift = |ppm: i32| move || with(|sim| sim.servers[0].clock.set_drift(0, ppm));
    let step = |by_ns: i64| move || with(|sim| sim.servers[0].clock.step_wall(by_ns));
    let nothing = || {};
    let near = |found_ns: u64, exact_ns: u64| found_ns.abs_diff(exact_ns) <= 1_000;
    assert!(near(lives(&nothing, &nothing), 1_001_000_000));
    assert!(near(lives(&drift(10_000), &nothing), 991_089_109), "a clock fast by 1 %");
    assert!(near(lives(&drift(-10_000), &nothing), 1_011_111_112), "and one slow by 1 %");
    let ahead = 400 * i64::try_from(MS_NS).unwrap();
    assert!(near(lives(&nothing, &step(ahead)), 601_000_000), "a jump of 400 ms ahead");
    assert!(near(lives(&nothing, &step(-ahead)), 1_401_000_000), "and one back");
}

#[test]
fn a_clients_drift_shifts_its_timers_and_its_view_of_time() {
    let _world = world(2);
    with(|sim| sim.processes[1].clock.set_drift(0, -100_000));
    let env = VirtualEnv::of(1);
    task(1, async move {
        env.sleep(9 * MS).await;
        say(format!("{}", env.now().as_ns()));
    });
    until(20 * MS_NS);
    assert_eq!(said(), [(10 * MS_NS, (9 * MS_NS).to_string())]);
}
