//! Writing and reading `history.jsonl`, in memory, by the event.

use std::hint::black_box;

use benches::synthetic;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use scenarios::history::{read, write};

const COMMANDS: u32 = 10_000;

fn histories(criterion: &mut Criterion) {
    let history = synthetic::history(COMMANDS);
    let mut bytes = Vec::new();
    write(&history, &mut bytes).expect("a vector takes all");
    let mut group = criterion.benchmark_group("history.jsonl");
    group.sample_size(20);
    group.throughput(Throughput::Elements(history.events.len() as u64));
    let mut out = Vec::with_capacity(bytes.len());
    group.bench_function("write, by the event", |bencher| {
        bencher.iter(|| {
            out.clear();
            write(black_box(&history), &mut out).expect("a vector takes all");
        });
    });
    group.bench_function("read, by the event", |bencher| {
        bencher.iter(|| read(black_box(&bytes[..])).expect("it was written so"));
    });
    group.finish();
}

criterion_group!(benches, histories);
criterion_main!(benches);
