//! A data block of 4 KiB: seeking a key, walking over all entries.

use criterion::{Criterion, Throughput, criterion_group};
use siltstone_lsm::probes::BlockProbe;
use std::hint::black_box;
use std::time::Duration;

/// Entries of 116 bytes in 4 KiB.
const ENTRIES: u64 = 35;

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

fn block(criterion: &mut Criterion) {
    let entries: Vec<_> = (0..ENTRIES).map(|number| (key(number * 3), [7_u8; 100])).collect();
    let Ok(mut block) = BlockProbe::build(entries.iter().map(|(key, value)| (&key[..], &value[..]))) else { return };
    let mut group = criterion.benchmark_group("block");
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    let mut number = 0;
    group.bench_function("seek", |bencher| {
        bencher.iter(|| {
            number = (number + 17) % (ENTRIES * 3);
            black_box(block.seek(&key(number)))
        });
    });
    group.throughput(Throughput::Elements(ENTRIES));
    group.bench_function("walk", |bencher| bencher.iter(|| black_box(block.walk())));
    group.finish();
}

criterion_group!(benches, block);
