//! All checkers on a good history, by its length.

use std::hint::black_box;

use benches::synthetic::history;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use scenarios::checker::check;
use scenarios::verdict::Outcome;

fn checkers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checkers");
    group.sample_size(20);
    for commands in [10_000, 100_000] {
        let history = history(commands);
        let outcomes = check(&history, true);
        assert!(outcomes.iter().all(|found| found.verdict.outcome() == Outcome::Held));
        group.throughput(Throughput::Elements(u64::from(commands)));
        group.bench_with_input(BenchmarkId::new("commands", commands), &history, |bencher, it| {
            bencher.iter(|| check(black_box(it), true));
        });
    }
    group.finish();
}

criterion_group!(benches, checkers);
criterion_main!(benches);
