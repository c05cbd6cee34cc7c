//! The Redis model: what one command costs, without sockets.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use picklock::scripts::COMPARE_AND_DELETE;
use picklock::time::WallTime;
use redis_model::model::{ConnectionId, Model};
use redis_model::options::ModelOptions;
use resp::Reply;

const NOW: WallTime = WallTime::from_unix_ns(1_700_000_000_000_000_000);

struct Bench {
    model: Model,
    client: ConnectionId,
}

impl Bench {
    fn new() -> Self {
        let mut model = Model::new(ModelOptions::default());
        let client = model.connect(NOW, "127.0.0.1:1");
        Self { model, client }
    }

    fn run(&mut self, args: &[&[u8]]) -> Reply {
        self.model.execute(NOW, self.client, args)
    }
}

fn commands(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("model");

    let mut bench = Bench::new();
    assert!(!bench.run(&[b"SET", b"pool", b"10"]).is_error());
    group.throughput(Throughput::Elements(1));
    group
        .bench_function("GET", |bencher| bencher.iter(|| black_box(bench.run(&[b"GET", b"pool"]))));
    group.bench_function("DECR", |bencher| {
        bencher.iter(|| black_box(bench.run(&[b"DECR", b"pool"])));
    });

    let mut bench = Bench::new();
    let sha1 = COMPARE_AND_DELETE.sha1().as_bytes();
    let load = bench.run(&[b"SCRIPT", b"LOAD", COMPARE_AND_DELETE.text().as_bytes()]);
    assert!(!load.is_error());
    let set: [&[u8]; 6] = [b"SET", b"lock", b"0123456789abcdef", b"NX", b"PX", b"1000"];
    let delete: [&[u8]; 5] = [b"EVALSHA", sha1, b"1", b"lock", b"0123456789abcdef"];
    assert!(!bench.run(&set).is_error());
    assert!(matches!(bench.run(&delete), Reply::Int(1)), "the script deletes the key");
    group.throughput(Throughput::Elements(2));
    group.bench_function("SET NX PX, then EVALSHA compare-and-delete", |bencher| {
        bencher.iter(|| {
            black_box(bench.run(&set));
            black_box(bench.run(&delete))
        });
    });
    group.finish();
}

criterion_group!(benches, commands);
criterion_main!(benches);
