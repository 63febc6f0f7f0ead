//! Checksums and codecs of a block of 4 KiB, and memcomparable keys.

use criterion::{Criterion, Throughput, criterion_group};
use siltstone_base::checksum::{crc32c, xxh3_64};
use siltstone_base::memcomparable;
use std::hint::black_box;
use std::time::Duration;

fn checksums(criterion: &mut Criterion) {
    let block: Vec<u8> = (0..4096_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut group = criterion.benchmark_group("checksum");
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    group.throughput(Throughput::Bytes(block.len() as u64));
    group.bench_function("crc32c", |bencher| bencher.iter(|| crc32c(black_box(&block))));
    group.bench_function("xxh3", |bencher| bencher.iter(|| xxh3_64(black_box(&block))));
    group.finish();
}

fn keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memcomparable");
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    let mut key = Vec::new();
    group.bench_function("put three columns", |bencher| {
        bencher.iter(|| {
            key.clear();
            memcomparable::put::<f32>(&mut key, black_box(12.5));
            memcomparable::put::<i32>(&mut key, black_box(77));
            memcomparable::put::<i64>(&mut key, black_box(-1));
            black_box(key.len())
        });
    });
    group.finish();
}

criterion_group!(benches, checksums, keys);
