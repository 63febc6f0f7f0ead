//! Merging sorted sources that interleave at random: 2, 4 and 8 of them.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use siltstone_bench::Rng;
use siltstone_lsm::probes::{MemtableProbe, MergeProbe};
use std::hint::black_box;
use std::time::Duration;

const ENTRIES: u64 = 80_000;

fn source(sources: u64, number: u64) -> Option<MemtableProbe> {
    let mut rng = Rng::new(2, number);
    let keys: Vec<[u8; 8]> = (0..ENTRIES / sources).map(|_| rng.next_u64().to_be_bytes()).collect();
    MemtableProbe::filled(keys.iter().map(|key| (&key[..], &b"value"[..]))).ok()
}

fn merge(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("merge");
    group
        .warm_up_time(Duration::from_millis(300))
        .nresamples(10_000)
        .measurement_time(Duration::from_secs(2))
        .sample_size(10);
    group.throughput(Throughput::Elements(ENTRIES));
    for sources in [2, 4, 8] {
        let memtables: Vec<_> = (0..sources).filter_map(|number| source(sources, number)).collect();
        let mut merge = MergeProbe::of(&memtables);
        group.bench_function(BenchmarkId::from_parameter(sources), |bencher| bencher.iter(|| black_box(merge.walk())));
    }
    group.finish();
}

criterion_group!(benches, merge);
