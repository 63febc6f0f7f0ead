//! The filters of tables, bloom and ribbon: adding keys, and asking for keys that are there and that are not.

use criterion::{Criterion, Throughput, criterion_group};
use siltstone_base::bloom::{BloomBuilder, FilterKind, false_rate, ribbon_block};
use siltstone_base::checksum::xxph3;
use siltstone_base::ribbon;
use std::hint::black_box;
use std::time::Duration;

const KEYS: u64 = 100_000;
const MILLIBITS: u32 = 10_000;

fn hashes() -> impl Iterator<Item = u64> {
    (0..KEYS).map(|number| xxph3(&number.to_be_bytes()))
}

fn build_bloom() -> Vec<u8> {
    let mut builder = BloomBuilder::new(MILLIBITS);
    hashes().for_each(|hash| builder.add_hash(hash));
    builder.finish()
}

fn build_ribbon() -> Vec<u8> {
    let hashes: Vec<u64> = hashes().collect();
    ribbon::build(&hashes, 1.0 / false_rate(MILLIBITS)).map(ribbon_block).unwrap_or_default()
}

fn filter(criterion: &mut Criterion, name: &str, build: fn() -> Vec<u8>) {
    let mut group = criterion.benchmark_group(name);
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
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

fn filters(criterion: &mut Criterion) {
    filter(criterion, "bloom", build_bloom);
    filter(criterion, "ribbon", build_ribbon);
}

criterion_group!(benches, filters);
