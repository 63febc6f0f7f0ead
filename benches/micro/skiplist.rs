//! The memtable's skip list: filling it in random order, finding keys.

use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use siltstone_bench::Rng;
use siltstone_lsm::probes::MemtableProbe;
use std::hint::black_box;
use std::time::Duration;

const KEYS: u64 = 100_000;
const VALUE: [u8; 100] = [7; 100];

/// Keys of 16 bytes in random order.
fn keys() -> Vec<[u8; 16]> {
    let mut rng = Rng::new(1, 1);
    let key = |_| {
        let mut key = [b'0'; 16];
        key[..8].copy_from_slice(&rng.below(KEYS).to_be_bytes());
        key
    };
    (0..KEYS).map(key).collect()
}

fn fill(keys: &[[u8; 16]]) -> Option<MemtableProbe> {
    MemtableProbe::filled(keys.iter().map(|key| (&key[..], &VALUE[..]))).ok()
}

fn skiplist(criterion: &mut Criterion) {
    let keys = keys();
    let mut group = criterion.benchmark_group("skiplist");
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(2))
        .sample_size(10);
    group.throughput(Throughput::Elements(KEYS));
    group.bench_function("fill in random order", |bencher| {
        bencher.iter_batched(|| (), |()| fill(&keys), BatchSize::PerIteration);
    });

    let Some(memtable) = fill(&keys) else { return };
    let mut next = 0;
    group.throughput(Throughput::Elements(1));
    group.bench_function("find a key", |bencher| {
        bencher.iter(|| {
            next = (next + 7919) % keys.len();
            black_box(memtable.has(&keys[next]))
        });
    });
    group.finish();
}

criterion_group!(benches, skiplist);
