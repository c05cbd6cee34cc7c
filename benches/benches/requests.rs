//! Parsing requests, one at a time and sixteen in one read.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use resp::{Parsed, RequestParser};

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

criterion_group!(benches, requests);
criterion_main!(benches);
