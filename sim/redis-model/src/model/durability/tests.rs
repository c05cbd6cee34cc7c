//! Ends, and what is there again afterwards.

use resp::Reply;
use scenarios::topology::AppendOnly;

use super::*;
use crate::options::ModelOptions;
use crate::test_model::{TestModel, at};

fn bench(append_only: AppendOnly) -> TestModel {
    TestModel::new(ModelOptions { append_only, ..ModelOptions::default() })
}

#[test]
fn a_power_loss_takes_what_the_policy_has_not_synced_and_a_crash_takes_nothing() {
    for (fsync, ending, first, second) in [
        (AppendOnly::Always, Termination::PowerLoss, true, true),
        (AppendOnly::Everysec, Termination::PowerLoss, true, false),
        (AppendOnly::Unsynced, Termination::PowerLoss, false, false),
        (AppendOnly::Everysec, Termination::Killed, true, true),
        (AppendOnly::Unsynced, Termination::Killed, true, true),
        (AppendOnly::Off, Termination::Killed, false, false),
    ] {
        let mut bench = bench(fsync);
        bench.run_at(1_000, "SET first v");
        let due = bench.model.fsync_due(at(2_000));
        assert_eq!(due, fsync == AppendOnly::Everysec);
        assert!(!bench.model.fsync_due(at(2_500)), "nothing more to sync");
        bench.run_at(2_600, "SET second v");
        bench.end_and_restart(ending, 3_000);
        let there = |reply| reply == Reply::Int(1);
        assert_eq!(there(bench.run_at(3_000, "EXISTS first")), first, "{fsync:?} {ending:?}");
        assert_eq!(there(bench.run_at(3_000, "EXISTS second")), second, "{fsync:?} {ending:?}");
    }
}

#[test]
fn what_expired_while_the_server_was_down_is_gone_and_the_rest_keeps_its_time() {
    let mut bench = bench(AppendOnly::Always);
    bench.run_at(1_000, "SET short v PX 500");
    bench.run_at(1_000, "SET long v PX 5000");
    for _ in 0..2 {
        bench.end_and_restart(Termination::PowerLoss, 2_000);
        assert_eq!(bench.run_at(2_000, "EXISTS short"), Reply::Int(0));
        assert_eq!(bench.run_at(2_000, "PTTL long"), Reply::Int(4_000));
    }
}

#[test]
fn the_file_begins_with_the_data_set_when_it_is_switched_on() {
    let mut bench = bench(AppendOnly::Off);
    bench.run_at(1_000, "SELECT 3");
    bench.run_at(1_000, "SET before v");
    bench.run_at(1_000, "CONFIG SET appendonly yes appendfsync always");
    bench.run_at(1_000, "SET after v");
    let script = "redis.call('set', 'a', 1) redis.call('incr', 'a') return 1";
    bench.eval(script);
    // What CONFIG SET has changed is forgotten, but the file is there.
    bench.end_and_restart(Termination::PowerLoss, 1_000);
    bench.run_at(1_000, "SELECT 3");
    assert_eq!(bench.run_at(1_000, "EXISTS before after a"), Reply::Int(3));
    assert_eq!(bench.run_at(1_000, "GET a"), Reply::bulk("2"));
}

#[test]
fn an_ended_server_has_forgotten_its_scripts_clients_and_channels() {
    let mut bench = bench(AppendOnly::Always);
    bench.run_at(1_000, "SUBSCRIBE c");
    bench.end_and_restart(Termination::Killed, 2_000);
    assert_eq!(bench.run_at(2_000, "PUBLISH c m"), Reply::Int(0));
    let Reply::Verbatim(text) = bench.run_at(2_000, "INFO clients") else { panic!() };
    assert!(String::from_utf8_lossy(&text).contains("connected_clients:1\r\n"));
}
