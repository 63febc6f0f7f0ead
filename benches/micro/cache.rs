//! The block cache: hits, and puts that displace.

use criterion::{Criterion, Throughput, criterion_group};
use siltstone_base::cache::{Cache, CacheKey, Counted};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 4096;

fn key(number: u64) -> CacheKey {
    CacheKey { file: 1 + number / 512, offset: number % 512 * BLOCK as u64 }
}

fn cache(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cache");
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    group.throughput(Throughput::Elements(1));

    let cache = Cache::new(BLOCKS as usize * BLOCK * 2);
    for number in 0..BLOCKS {
        cache.insert(key(number), Arc::new(Counted::new(number)), BLOCK);
    }
    let mut number = 0;
    group.bench_function("hit", |bencher| {
        bencher.iter(|| {
            number = (number + 2657) % BLOCKS;
            black_box(cache.get(&key(number)))
        });
    });

    let full = Cache::new(BLOCKS as usize * BLOCK / 4);
    let mut number = 0;
    group.bench_function("insert into a full cache", |bencher| {
        bencher.iter(|| {
            number += 1;
            black_box(full.insert(key(number), Arc::new(Counted::new(number)), BLOCK))
        });
    });
    group.finish();
}

criterion_group!(benches, cache);
