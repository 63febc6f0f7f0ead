//! Tests of the device by computed times: the clock moves only when a caller sleeps.

use super::*;
use crate::clock::ManualClock;
use crate::env::conformance::{Traits, check};
use crate::env::{Access, FileKind, IoContext, IoPriority, PosixEnv, ReadRequest};
use std::time::Duration;

const CONTEXT: IoContext = IoContext::new(FileKind::Table, IoPriority::User);
const BUFFERED: FileOptions = FileOptions::new(FileKind::Table);
const DIRECT: FileOptions = FileOptions::new(FileKind::Table).direct(true);
const FILE_LEN: u64 = 8 << 20;

/// A device over a directory with one file `data` that the device has not seen.
struct Bench {
    env: ThrottledEnv,
    clock: Arc<ManualClock>,
    directory: tempfile::TempDir,
}

impl Bench {
    fn new(model: DeviceModel) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let inner = Arc::new(PosixEnv::new());
        let mut file = inner.create_append(&directory.path().join("data"), &BUFFERED).unwrap();
        file.append(&vec![7; FILE_LEN as usize], CONTEXT).unwrap();
        file.finish().unwrap();
        let clock = Arc::new(ManualClock::new(0));
        let env = ThrottledEnv::new(inner, model, Arc::clone(&clock) as Arc<dyn Clock>);
        Self { env, clock, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self, options: FileOptions) -> Arc<dyn RandomFile> {
        self.env.open_random(&self.path("data"), &options).unwrap()
    }

    fn create(&self, name: &str, options: FileOptions) -> Box<dyn AppendFile> {
        self.env.create_append(&self.path(name), &options).unwrap()
    }

    /// The time that has passed and the time still owed, in microseconds.
    fn charged_micros(&self) -> f64 {
        let owed = self.env.report().owed_nanos;
        assert!(owed < 1_000_000, "less than a slice is left owed");
        self.clock.now_micros() as f64 + owed as f64 / 1_000.0
    }
}

fn read(file: &dyn RandomFile, offset: u64, len: usize) {
    let mut buffer = vec![0; len];
    assert_eq!(file.read_at(offset, &mut buffer, CONTEXT).unwrap(), len);
}

#[test]
fn conforms() {
    for model in [DeviceModel::fast_ssd(), DeviceModel::hdd().with_background_load(4.0).with_page_cache(0)] {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(0));
        let env = ThrottledEnv::new(Arc::new(PosixEnv::new()), model, clock);
        check(&env, directory.path(), Traits { sparse: true });
    }
}

/// Reads of one size at places that never follow each other take what the model says, and nobody sleeps for less
/// than a slice.
#[test]
fn direct_reads_take_their_time() {
    let cases = [
        // name, bytes, microseconds of one read
        (DeviceModel::slow_ssd(), 4 << 10, 100.0),
        (DeviceModel::slow_ssd(), 32 << 10, 100.0),
        (DeviceModel::slow_ssd(), 400 << 10, 1_024.0),
        (DeviceModel::fast_ssd(), 4 << 10, 2.0),
        (DeviceModel::fast_ssd(), 300 << 10, 102.4),
        (DeviceModel::hdd(), 4 << 10, 12_500.0),
        (DeviceModel::hdd(), 3 << 20, 20_971.52),
    ];
    for (model, len, micros) in cases {
        let bench = Bench::new(model.clone());
        let file = bench.open(DIRECT);
        for index in 0..600 {
            read(&*file, (index % 2) * (4 << 20), len);
        }
        let (charged, expected) = (bench.charged_micros(), 600.0 * micros);
        assert!((charged / expected - 1.0).abs() < 1e-4, "{}, {len}: {charged} for {expected}", model.name);
        let report = bench.env.report();
        assert_eq!((report.reads, report.read_bytes), (600, 600 * len as u64));
        assert!(report.slept_nanos >= report.sleeps * 1_000_000);
        assert_eq!(report.slept_nanos, bench.clock.now_micros() * 1_000);
    }
}

#[test]
fn a_competing_stream_takes_its_part() {
    for fraction in DeviceModel::BACKGROUND_LOADS {
        let bench = Bench::new(DeviceModel::slow_ssd().with_background_load(fraction));
        let file = bench.open(DIRECT);
        for index in 0..100 {
            read(&*file, index * 8192, 4096);
        }
        assert_eq!(bench.charged_micros(), 10_000.0 * (1.0 + fraction));
        let report = bench.env.report();
        assert_eq!(report.device_nanos, 10_000_000);
        assert_eq!(report.background_nanos, (10_000_000.0 * fraction) as u64);
    }
    assert_eq!(DeviceModel::hdd().with_background_load(f64::NAN).background_load, 0.0);
    assert_eq!(DeviceModel::hdd().with_background_load(-1.0).background_load, 0.0);
}

#[test]
fn what_an_experiment_does_before_it_measures_takes_no_time() {
    let bench = Bench::new(DeviceModel::hdd().with_background_load(4.0).with_page_cache(1 << 20));
    let env: &dyn Env = &bench.env;
    let device = env.as_throttled().unwrap();
    assert!(PosixEnv::new().as_throttled().is_none());
    device.let_pass();
    let (direct, buffered) = (bench.open(DIRECT), bench.open(BUFFERED));
    for index in 0..100 {
        read(&*direct, index * 8192, 4096);
        read(&*buffered, index * 8192, 4096);
    }
    assert_eq!((bench.charged_micros(), bench.clock.now_micros(), bench.env.report().reads), (0.0, 0, 200));
    device.charge();
    read(&*buffered, 8192, 4096);
    assert_eq!(bench.charged_micros(), 0.0, "it is in the page cache");
    read(&*direct, 0, 4096);
    assert_eq!(bench.charged_micros(), 5.0 * 12_500.0);
}

#[test]
fn what_is_in_the_page_cache_costs_nothing() {
    let bench = Bench::new(DeviceModel::slow_ssd());
    let file = bench.open(BUFFERED);
    for index in 0..100 {
        read(&*file, index * 8192 + 5, 4000);
    }
    assert_eq!(bench.charged_micros(), 10_000.0);
    for index in 0..100 {
        read(&*bench.open(BUFFERED), index * 8192, 4096);
    }
    assert_eq!(bench.charged_micros(), 10_000.0);
    // Three pages of which the middle one is there: two reads.
    read(&*file, 4096 * 9, 4096 * 3);
    assert_eq!(bench.charged_micros(), 10_200.0);
    let report = bench.env.report();
    assert_eq!((report.page_hits, report.page_misses, report.reads), (101, 102, 102));
    assert_eq!(report.read_bytes, 102 * 4096);
    // A direct read does not look.
    read(&*bench.open(DIRECT), 0, 4096);
    assert_eq!(bench.charged_micros(), 10_300.0);
}

#[test]
fn the_page_cache_keeps_what_is_used() {
    let bench = Bench::new(DeviceModel::slow_ssd().with_page_cache(16 * 4096));
    let file = bench.open(BUFFERED);
    let misses = |from: u64, to: u64| {
        let before = bench.env.report().page_misses;
        (from..to).for_each(|page| read(&*file, page * 4096, 100));
        bench.env.report().page_misses - before
    };
    assert_eq!(misses(0, 16), 16);
    assert_eq!(misses(0, 16), 0);
    assert_eq!(misses(100, 200), 100, "a scan of what is not there");
    assert_eq!(misses(184, 200), 0);
    // One page that is used all the time survives a scan.
    for page in 300..400 {
        misses(5, 6);
        misses(page, page + 1);
    }
    assert_eq!(misses(5, 6), 0);

    let bench = Bench::new(DeviceModel::slow_ssd().with_page_cache(0));
    let file = bench.open(BUFFERED);
    (0..10).for_each(|_| read(&*file, 0, 8192));
    let report = bench.env.report();
    assert_eq!((report.reads, report.page_hits, report.page_misses), (10, 0, 20));
}

#[test]
fn reading_front_to_back_costs_bandwidth() {
    let megabyte = 1_000_000.0 / 400.0 * 1.048_576;
    // Ten blocks a page apart from nothing: the first is sought, the others were read ahead.
    let bench = Bench::new(DeviceModel::slow_ssd());
    let file = bench.open(BUFFERED.access(Access::Sequential));
    (0..256).for_each(|page| read(&*file, page * 4096, 4096));
    let expected = megabyte - 10.24 + 100.0;
    assert!((bench.charged_micros() - expected).abs() < 0.1, "{}", bench.charged_micros());
    // By itself, a file that is read anywhere pays for each.
    let bench = Bench::new(DeviceModel::slow_ssd());
    let file = bench.open(BUFFERED);
    (0..256).for_each(|page| read(&*file, page * 4096, 4096));
    assert_eq!(bench.charged_micros(), 25_600.0);
    // On a disk that turns, the head decides.
    let bench = Bench::new(DeviceModel::hdd());
    let file = bench.open(DIRECT);
    (0..256).for_each(|page| read(&*file, page * 4096, 4096));
    let transfer = 4096.0 / 150.0;
    assert!((bench.charged_micros() - 12_500.0 - 255.0 * transfer).abs() < 1.0, "{}", bench.charged_micros());
    read(&*file, 0, 4096);
    assert!((bench.charged_micros() - 25_000.0 - 255.0 * transfer).abs() < 1.0);
}

#[test]
fn writes_wait_for_syncs_and_limits() {
    let mut model = DeviceModel::slow_ssd();
    model.dirty_bytes = 4_000_000;
    let bench = Bench::new(model);
    let mut file = bench.create("log", BUFFERED);
    let piece = vec![1; 400_000];
    // Up to the limit nobody waits. The first write is sought: 1,000 µs each at 400 MB/s all the same.
    (0..10).for_each(|_| file.append(&piece, CONTEXT).unwrap());
    assert_eq!((bench.clock.now_micros(), bench.env.report().dirty_nanos), (0, 10_000_000));
    // Past it, for as much as was written.
    file.append(&piece, CONTEXT).unwrap();
    file.append(&piece, CONTEXT).unwrap();
    assert_eq!((bench.clock.now_micros(), bench.env.report().dirty_nanos), (2_000, 10_000_000));
    // The device uses the time that nobody asks for.
    bench.clock.advance(Duration::from_micros(3_000));
    assert_eq!(bench.env.report().dirty_nanos, 7_000_000);
    file.sync_data(CONTEXT).unwrap();
    assert_eq!((bench.clock.now_micros(), bench.env.report().dirty_nanos), (5_000 + 7_000 + 500, 0));
    // A second sync finds nothing to write: half a slice is owed.
    file.sync_handle().unwrap().sync_data(CONTEXT).unwrap();
    assert_eq!(bench.charged_micros(), 13_000.0);
    bench.env.sync_dir(bench.directory.path()).unwrap();
    assert_eq!(bench.charged_micros(), 13_500.0);
    let report = bench.env.report();
    assert_eq!((report.writes, report.written_bytes, report.syncs), (12, 4_800_000, 3));
    assert_eq!(report.utilization(), 1.0);
    // What was written is in the page cache.
    let file = bench.env.open_random(&bench.path("log"), &BUFFERED).unwrap();
    read(&*file, 0, 4_800_000);
    assert_eq!(bench.env.report().page_misses, 0);
}

#[test]
fn direct_and_random_writes_take_their_time() {
    let bench = Bench::new(DeviceModel::slow_ssd());
    let file = bench.env.open_random_write(&bench.path("data"), &DIRECT).unwrap();
    (0..100).for_each(|index| file.write_at(index * 8192, &[1; 4096], CONTEXT).unwrap());
    assert_eq!(bench.charged_micros(), 10_000.0);
    let file = bench.env.open_random_write(&bench.path("data"), &BUFFERED).unwrap();
    (0..100).for_each(|index| file.write_at(index * 8192, &[1; 4096], CONTEXT).unwrap());
    assert_eq!(bench.env.report().dirty_nanos, 10_000_000);
    file.sync_data(CONTEXT).unwrap();
    assert_eq!(bench.charged_micros(), 20_500.0);
}

#[test]
fn a_removed_file_is_never_written() {
    let bench = Bench::new(DeviceModel::slow_ssd());
    for name in ["a", "b"] {
        let mut file = bench.create(name, BUFFERED);
        file.append(&[1; 400_000], CONTEXT).unwrap();
        file.finish().unwrap();
    }
    let dirty = || bench.env.report().dirty_nanos;
    assert_eq!(dirty(), 2_000_000);
    bench.env.hard_link(&bench.path("a"), &bench.path("c")).unwrap();
    bench.env.remove_file(&bench.path("a")).unwrap();
    assert_eq!(dirty(), 2_000_000, "a file with another name lives on");
    bench.env.rename(&bench.path("c"), &bench.path("b")).unwrap();
    assert_eq!(dirty(), 1_000_000, "the file that was replaced is gone");
    let file = bench.env.open_random(&bench.path("b"), &BUFFERED).unwrap();
    read(&*file, 0, 400_000);
    assert_eq!(bench.env.report().page_misses, 0, "a file keeps its pages under a new name");
    drop(file);
    bench.env.remove_file(&bench.path("b")).unwrap();
    assert_eq!((dirty(), bench.clock.now_micros()), (0, 0));
}

#[test]
fn what_was_asked_for_in_advance_comes_in_advance() {
    let bench = Bench::new(DeviceModel::slow_ssd());
    let file = bench.open(BUFFERED);
    file.will_need(0, 400_000);
    assert_eq!(bench.clock.now_micros(), 0);
    bench.clock.advance(Duration::from_micros(5_000));
    read(&*file, 0, 400_000);
    assert_eq!(bench.clock.now_micros(), 5_000);
    // Asked for and needed at once: the reader waits as it would have.
    file.will_need(1 << 20, 1 << 20);
    read(&*file, 1 << 20, 100);
    assert_eq!(bench.clock.now_micros(), 5_000 + 2_622);
    file.will_need(u64::MAX, u64::MAX);
    file.will_need(FILE_LEN, 1);
    assert_eq!(bench.env.report().reads, 2);
}

/// A range of a direct file that was asked for in advance is read beside what its reader does meanwhile, once.
#[test]
fn direct_ranges_come_in_advance_to_who_reads_just_them() {
    let bench = Bench::new(DeviceModel::slow_ssd());
    let file = bench.open(DIRECT);
    if !file.is_direct() {
        return;
    }
    file.will_need(0, 400_000);
    assert_eq!(bench.clock.now_micros(), 0);
    bench.clock.advance(Duration::from_micros(5_000));
    read(&*file, 0, 400_000);
    assert_eq!((bench.clock.now_micros(), bench.env.report().reads), (5_000, 1));
    // A read of something else waits behind it.
    file.will_need(0, 400_000);
    read(&*file, 409_600, 400_000);
    assert_eq!((bench.clock.now_micros(), bench.env.report().reads), (7_000, 3));
    // It is there by now, unless nobody wants it any more.
    read(&*file, 0, 400_000);
    assert_eq!(bench.clock.now_micros(), 7_000);
    file.will_need(0, 400_000);
    file.forget(0);
    read(&*file, 0, 400_000);
    assert_eq!((bench.clock.now_micros(), bench.env.report().reads), (9_000, 5));
}

/// A device that is full of what may be needed some time would keep who needs something now.
#[test]
fn one_range_is_read_in_advance_at_a_time() {
    let bench = Bench::new(DeviceModel::slow_ssd());
    let file = bench.open(DIRECT);
    let offsets = (0..6).map(|range| range * 102_400);
    offsets.clone().for_each(|offset| file.will_need(offset, 40_960));
    assert_eq!(bench.env.report().reads, 1);
    bench.clock.advance(Duration::from_micros(10_000));
    offsets.for_each(|offset| read(&*file, offset, 40_960));
    assert_eq!(bench.env.report().reads, 6);
    bench.clock.advance(Duration::from_micros(10_000));
    file.will_need(0, 40_960);
    assert_eq!(bench.env.report().reads, 7);
}

#[test]
fn a_unit_is_written_while_the_next_one_is_taken_in() {
    let bench = Bench::new(DeviceModel::slow_ssd());
    let unit = vec![1; 1 << 20];
    let mut file = bench.create("a", DIRECT);
    // A unit takes the device 2,622 microseconds.
    let mut append = |work: u64| {
        bench.clock.advance(Duration::from_micros(work));
        let begin = bench.clock.now_micros();
        file.append(&unit, CONTEXT).unwrap();
        bench.clock.now_micros() - begin
    };
    assert_eq!([0, 3000, 3000, 3000].map(&mut append), [0; 4], "it is there before the next one is whole");
    assert_eq!(append(1500) / 100, 11, "it is soon");
    assert_eq!(append(100) / 100, 51, "it is what all wait for: nothing is gained by going on beside it");
    assert!([3000; 14].map(&mut append).iter().all(|waited| waited / 100 == 26));
    assert_eq!([3000; 2].map(&mut append), [0; 2]);
    file.sync_data(CONTEXT).unwrap();
}

#[test]
fn a_list_of_reads_waits_once() {
    let bench = Bench::new(DeviceModel::slow_ssd());
    let file = bench.open(DIRECT);
    let mut buffers = vec![[0; 4096]; 30];
    let mut requests: Vec<_> = buffers
        .iter_mut()
        .enumerate()
        .map(|(index, buffer)| ReadRequest { offset: index as u64 * 8192, buffer, result: Ok(0) })
        .collect();
    file.read_many(&mut requests, CONTEXT);
    assert!(requests.iter().all(|request| request.result.as_ref().unwrap() == &4096));
    assert_eq!((bench.clock.now_micros(), bench.env.report().sleeps), (3_000, 1));
}

/// A clock whose sleeps last too long, as those of an operating system do.
#[derive(Debug)]
struct Oversleeper(ManualClock);

impl Clock for Oversleeper {
    fn now_micros(&self) -> u64 {
        self.0.now_micros()
    }
    fn unix_seconds(&self) -> u64 {
        self.0.unix_seconds()
    }
    fn sleep(&self, duration: Duration) {
        self.0.advance(duration + Duration::from_micros(150));
    }
}

#[test]
fn oversleeping_is_made_up_for_and_idling_is_not() {
    let clock = Arc::new(Oversleeper(ManualClock::new(0)));
    let device = Device::new(DeviceModel::slow_ssd(), Arc::clone(&clock) as Arc<dyn Clock>);
    let read = |index: u64| {
        device.wait(device.read(device.now_nanos(), device::Range { file: 1, offset: index * 8192, len: 4096 }, false))
    };
    (0..10_000).for_each(read);
    let elapsed = clock.now_micros();
    assert!((999_000..=1_001_000).contains(&elapsed), "{elapsed} µs for 10,000 reads at 10,000 a second");
    assert!(device.report().utilization() > 0.999);
    // A second of idleness buys no more than the last oversleep.
    clock.0.advance(Duration::from_secs(1));
    let before = clock.now_micros();
    (0..1_000).for_each(read);
    assert!(clock.now_micros() - before > 98_000);
}

#[test]
fn the_report_prints_achieved_beside_nominal() {
    let bench = Bench::new(DeviceModel::slow_ssd().with_background_load(0.25));
    let file = bench.open(DIRECT);
    (0..1_000).for_each(|index| read(&*file, index % 1_000 * 8192, 4096));
    let report = bench.env.report();
    assert!((report.reads_per_second() - 8_000.0).abs() < 80.0, "{report}");
    assert!((report.utilization() - 1.0).abs() < 1e-9, "{report}");
    let text = report.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(
        lines[0],
        "device slow-ssd (background load 0.25): 0.1 s, busy 1.000 of the time, slept 0.1 s in 125 sleeps"
    );
    assert_eq!(lines[1], "  reads          8000 of        10000 /s       32.8 of    400.0 MB/s");
}
