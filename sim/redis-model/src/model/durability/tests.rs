//! Ends, and what is there again afterwards.

use resp::Reply;

use super::*;
use crate::model::ConnectionId;
use crate::options::ModelOptions;
use scenarios::topology::AppendOnly;

fn at(ms: u64) -> WallTime {
    WallTime::from_unix_ns(ms * 1_000_000)
}

struct Bench {
    model: Model,
    client: ConnectionId,
}

impl Bench {
    fn new(append_only: AppendOnly) -> Self {
        let mut model = Model::new(ModelOptions { append_only, ..ModelOptions::default() });
        let client = model.connect(at(1_000), "127.0.0.1:1");
        Self { model, client }
    }

    fn run(&mut self, ms: u64, line: &str) -> Reply {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.model.execute(at(ms), self.client, &args)
    }

    fn end_and_restart(&mut self, ending: Termination, ms: u64) {
        self.model.end(ending);
        self.model.restart(at(ms));
        self.client = self.model.connect(at(ms), "127.0.0.1:1");
    }
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
        let mut bench = Bench::new(fsync);
        bench.run(1_000, "SET first v");
        let due = bench.model.fsync_due(at(2_000));
        assert_eq!(due, fsync == AppendOnly::Everysec);
        assert!(!bench.model.fsync_due(at(2_500)), "nothing more to sync");
        bench.run(2_600, "SET second v");
        bench.end_and_restart(ending, 3_000);
        let there = |reply| reply == Reply::Int(1);
        assert_eq!(there(bench.run(3_000, "EXISTS first")), first, "{fsync:?} {ending:?}");
        assert_eq!(there(bench.run(3_000, "EXISTS second")), second, "{fsync:?} {ending:?}");
    }
}

#[test]
fn what_expired_while_the_server_was_down_is_gone_and_the_rest_keeps_its_time() {
    let mut bench = Bench::new(AppendOnly::Always);
    bench.run(1_000, "SET short v PX 500");
    bench.run(1_000, "SET long v PX 5000");
    for _ in 0..2 {
        bench.end_and_restart(Termination::PowerLoss, 2_000);
        assert_eq!(bench.run(2_000, "EXISTS short"), Reply::Int(0));
        assert_eq!(bench.run(2_000, "PTTL long"), Reply::Int(4_000));
    }
}

#[test]
fn the_file_begins_with_the_data_set_when_it_is_switched_on() {
    let mut bench = Bench::new(AppendOnly::Off);
    bench.run(1_000, "SELECT 3");
    bench.run(1_000, "SET before v");
    bench.run(1_000, "CONFIG SET appendonly yes appendfsync always");
    bench.run(1_000, "SET after v");
    let script = "redis.call('set', 'a', 1) redis.call('incr', 'a') return 1";
    bench.model.execute(at(1_000), bench.client, &[b"EVAL", script.as_bytes(), b"0"]);
    bench.model.end(Termination::PowerLoss);
    // What CONFIG SET has changed is forgotten, but the file is there.
    bench.model.restart(at(1_000));
    bench.client = bench.model.connect(at(1_000), "127.0.0.1:1");
    bench.run(1_000, "SELECT 3");
    assert_eq!(bench.run(1_000, "EXISTS before after a"), Reply::Int(3));
    assert_eq!(bench.run(1_000, "GET a"), Reply::bulk("2"));
}

#[test]
fn an_ended_server_has_forgotten_its_scripts_clients_and_channels() {
    let mut bench = Bench::new(AppendOnly::Always);
    bench.run(1_000, "SUBSCRIBE c");
    bench.end_and_restart(Termination::Killed, 2_000);
    assert_eq!(bench.run(2_000, "PUBLISH c m"), Reply::Int(0));
    let Reply::Verbatim(text) = bench.run(2_000, "INFO clients") else { panic!() };
    assert!(String::from_utf8_lossy(&text).contains("connected_clients:1\r\n"));
}
