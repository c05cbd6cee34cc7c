//! Histories: writing and reading `history.jsonl` in memory, by the event, and all checkers on a good one, by its
//! length.

use std::hint::black_box;

use benches::synthetic;
use checkers::check;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use history::verdict::Outcome;
use history::{read, write};

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

fn checkers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checkers");
    group.sample_size(20);
    for commands in [10_000, 100_000] {
        let history = synthetic::history(commands);
        let outcomes = check(&history, true);
        assert!(outcomes.iter().all(|found| found.verdict.outcome() == Outcome::Held));
        group.throughput(Throughput::Elements(u64::from(commands)));
        group.bench_with_input(BenchmarkId::new("commands", commands), &history, |bencher, it| {
            bencher.iter(|| check(black_box(it), true));
        });
    }
    group.finish();
}

criterion_group!(benches, checkers, histories);
criterion_main!(benches);
