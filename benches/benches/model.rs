//! The Redis model: what one command costs, without sockets; what it costs to look with the effects witness after each;
//! and parsing requests, one at a time and sixteen in one read.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use picklock::scripts::COMPARE_AND_DELETE;
use picklock::time::WallTime;
use redis_model::model::{ConnectionId, Model};
use redis_model::options::ModelOptions;
use redis_model::witness::KeyWitness;
use resp::{Parsed, Reply, RequestParser};

const NOW: WallTime = WallTime::from_unix_ns(1_700_000_000_000_000_000);

struct Bench {
    model: Model,
    client: ConnectionId,
}

impl Bench {
    fn new() -> Self {
        Self::with(ModelOptions::default())
    }

    fn with(options: ModelOptions) -> Self {
        let mut model = Model::new(options);
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

    let set: [&[u8]; 6] = [b"SET", b"lock", b"0123456789abcdef", b"NX", b"PX", b"1000"];
    let sha1 = COMPARE_AND_DELETE.sha1().as_bytes();
    let delete: [&[u8]; 5] = [b"EVALSHA", sha1, b"1", b"lock", b"0123456789abcdef"];
    group.throughput(Throughput::Elements(2));
    for (lua_only, name) in [(false, "EVALSHA compare-and-delete"), (true, "the same in Lua")] {
        let mut bench = Bench::with(ModelOptions { lua_only, ..ModelOptions::default() });
        let load = bench.run(&[b"SCRIPT", b"LOAD", COMPARE_AND_DELETE.text().as_bytes()]);
        assert!(!load.is_error());
        assert!(!bench.run(&set).is_error());
        assert!(matches!(bench.run(&delete), Reply::Int(1)), "the script deletes the key");
        group.bench_function(format!("SET NX PX, then {name}"), |bencher| {
            bencher.iter(|| {
                black_box(bench.run(&set));
                black_box(bench.run(&delete))
            });
        });
    }
    group.finish();
}

/// An acquisition and a release beside so many keys, which the witness looks at after each.
fn witnessed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("witness");
    group.throughput(Throughput::Elements(2));
    for keys in [1, 10, 1_000] {
        let mut bench = Bench::new();
        for key in 1..keys {
            assert!(!bench.run(&[b"SET", format!("key:{key}").as_bytes(), b"value"]).is_error());
        }
        let mut witness = KeyWitness::default();
        witness.look(&bench.model, NOW);
        let mut see = |bench: &mut Bench, args: &[&[u8]]| {
            black_box(bench.run(args));
            black_box(witness.look(&bench.model, NOW)).len()
        };
        let set: [&[u8]; 6] = [b"SET", b"lock", b"0123456789abcdef", b"NX", b"PX", b"1000"];
        assert_eq!(see(&mut bench, &set) + see(&mut bench, &[b"DEL", b"lock"]), 2, "both are seen");
        group.bench_with_input(
            BenchmarkId::new("SET NX PX, then DEL", keys),
            &set,
            |bencher, set| {
                bencher.iter(|| see(&mut bench, set) + see(&mut bench, &[b"DEL", b"lock"]));
            },
        );
    }
    group.finish();
}

const SET: &[u8] = b"*6\r\n$3\r\nSET\r\n$4\r\nlock\r\n$16\r\n0123456789abcdef\r\n$2\r\nNX\r\n$2\r\nPX\r\n$4\r\n1000\r\n";

/// Parses everything, and counts arguments.
fn parse(mut buffer: &[u8]) -> usize {
    let mut parser = RequestParser::new();
    let mut count = 0;
    while let Ok(Parsed::Request { used }) = parser.parse(buffer, true) {
        let mut args = Vec::new();
        parser.args(buffer, &mut args);
        count += black_box(&args).len();
        buffer = &buffer[used..];
    }
    count
}

fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("requests");
    for number in [1, 16] {
        let buffer = SET.repeat(number);
        assert_eq!(parse(&buffer), 6 * number, "every request is read");
        group.throughput(Throughput::Elements(number as u64));
        group.bench_with_input(BenchmarkId::new("SET NX PX", number), &buffer, |bencher, it| {
            bencher.iter(|| parse(black_box(it)));
        });
    }
    group.finish();
}

criterion_group!(benches, commands, witnessed, requests);
criterion_main!(benches);
