//! The bloom filter of tables: adding keys, and asking for keys that are there and that are not.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use siltstone_base::bloom::{BloomBuilder, FilterKind};
use siltstone_base::checksum::xxph3;
use std::hint::black_box;
use std::time::Duration;

const KEYS: u64 = 100_000;

fn build() -> Vec<u8> {
    let mut builder = BloomBuilder::new(10_000);
    for number in 0..KEYS {
        builder.add_hash(xxph3(&number.to_be_bytes()));
    }
    builder.finish()
}

fn bloom(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bloom");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).sample_size(20);
    group.throughput(Throughput::Elements(KEYS));
    group.bench_function("build", |bencher| bencher.iter(|| black_box(build())));

    let filter = build();
    let kind = FilterKind::parse(&filter);
    group.throughput(Throughput::Elements(1));
    for (name, first) in [("ask for keys that are there", 0), ("ask for keys that are not", KEYS)] {
        let mut number = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                number = (number + 7919) % KEYS;
                let key = (first + number).to_be_bytes();
                black_box(kind.may_match(&filter, kind.hash_key(&key)))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bloom);
criterion_main!(benches);
