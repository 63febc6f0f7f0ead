//! Rows, means, and every operation on both engines.

use super::client::{Client, Numbers, PROCESSED, Shared};
use super::load::{Ids, load};
use super::schema::{self, Issue, RowBuffer, decode_column, id_at_end};
use super::session::trimmed_mean;
use super::*;
use crate::engines::MemoryEngine;
use crate::row_guards::RowGuards;
use siltstone_base::engine::Tables;
use siltstone_base::sync::atomic::Ordering;

#[test]
fn an_issue_has_ten_indexes_and_its_columns_are_found_by_them() {
    let mut columns = [0; schema::ISSUE_COLUMNS];
    (columns[Issue::AssignedTo as usize], columns[Issue::Parent as usize]) = (77, 5);
    let mut row = RowBuffer::default();
    row.set(9, &columns, b"a subject");
    let spec = schema::issues();
    assert_eq!(spec.indexes.len(), 10);
    let mut entry = Vec::new();
    assert!(spec.indexes[schema::BY_ASSIGNEE].entry(&row.key, &row.value, &mut entry));
    assert_eq!(id_at_end(&entry).unwrap(), 9);
    let mut other = RowBuffer::default();
    other.set(77, &[], b"");
    assert!(entry.starts_with(&other.key), "an index key is what a key of that number is");
    assert_eq!(decode_column(&row.value, Issue::Parent as usize).unwrap(), 5);
    row.put(Issue::Parent as usize, 6).unwrap();
    assert_eq!(row.get(Issue::Parent as usize).unwrap(), 6);
    row.value.truncate(10);
    assert!(row.get(Issue::Parent as usize).is_err() && row.put(Issue::Parent as usize, 1).is_err());
    assert!(id_at_end(b"abc").is_err());
}

#[test]
fn the_first_and_the_last_tenth_are_left_out() {
    // Of two clients: what counts is when an operation began, not which list it is in.
    let first = [(0.0, 90.0), (90.0, 1.0), (91.0, 1.0), (92.0, 1.0), (95.0, 70.0)];
    let second = [(0.5, 3.0), (3.5, 3.0), (6.5, 84.0), (90.5, 3.0), (93.5, 1.0)];
    let all = [first, second].concat();
    // The long one in the middle counts, which reaches over most of the run.
    let middle = [3.0, 3.0, 84.0, 1.0, 3.0, 1.0, 1.0, 1.0];
    assert_eq!(trimmed_mean(all.clone()), middle.iter().sum::<f64>() / 8.0);
    assert_eq!(trimmed_mean(all[..9].to_vec()), all[..9].iter().map(|(_, length)| length).sum::<f64>() / 9.0);
    assert_eq!(trimmed_mean(vec![(0.0, 5.0)]), 5.0, "of all, where a tenth is none");
    assert_eq!(trimmed_mean(Vec::new()), 0.0);
}

#[test]
fn whoever_is_drawn_has_ten_tasks_to_process() {
    let engine = MemoryEngine::new();
    let ids = Ids::new(|spec| engine.create_table(spec)).unwrap();
    let data_set = DataSet::Small;
    let (issues, journals) = load(&engine, &ids, data_set, 3).unwrap();
    let numbers = Numbers::default();
    numbers.issues.store(issues, Ordering::Relaxed);
    numbers.journals.store(journals, Ordering::Relaxed);
    let shared = Shared { engine: &engine, ids, data_set, guards: RowGuards::new().unwrap(), next: &numbers };
    let mut client = Client::new(&shared, 1, 3);
    for number in 1..=300_u32 {
        client.prepare(Operation::Process10Tasks).unwrap();
        assert!(client.operation(Operation::Process10Tasks).unwrap());
        // Three details a task: whoever had fewer tasks would leave fewer.
        assert_eq!(numbers.details.load(Ordering::Relaxed), 3 * PROCESSED as u32 * number);
    }
}

fn config(engine: EngineKind) -> RedmineConfig {
    RedmineConfig {
        engines: vec![engine],
        data_sets: vec![DataSet::Small],
        operations: Operation::ALL.to_vec(),
        clients: vec![1, 2],
        loads: vec![0.0, 4.0],
        seconds: 0.2,
        app_ms: 0.0,
        as_published: false,
        seed: 3,
        dir: None,
        // Quick enough for a test, and a device that can have another stream.
        settings: EngineSettings { device: Device::FastSsd, ..EngineSettings::default() },
        memory_is_given: false,
    }
}

#[test]
fn every_operation_runs_on_both_engines() {
    for engine in [EngineKind::LsmLeveled, EngineKind::Btree] {
        let mut text = Vec::new();
        let lines = run(&config(engine), &mut Output::new(&mut text, None, false)).unwrap();
        assert_eq!(lines.len(), 2 * 2 * 3);
        for line in &lines {
            assert!(line.ops > 0 && line.mean_trimmed_us.is_some_and(|mean| mean > 0.0), "{line:?}");
            assert_eq!(line.data_set.as_deref(), Some("small"));
            assert!(line.provenance.is_some());
        }
        assert!(String::from_utf8(text).unwrap().contains("process_10_tasks"));
    }
}

#[test]
fn as_published_the_lsm_engine_alone_leaves_its_log_to_the_system() {
    let config = RedmineConfig {
        as_published: true,
        settings: EngineSettings { durability: Durability::Commit, ..EngineSettings::default() },
        ..config(EngineKind::LsmLeveled)
    };
    let durability = |kind| config.settings(kind, DataSet::Small, 1.0).durability;
    assert_eq!(durability(EngineKind::LsmLeveled), Durability::Os);
    assert_eq!(durability(EngineKind::Btree), Durability::Commit);
    let settings = config.settings(EngineKind::Btree, DataSet::Giant, 2.0);
    assert_eq!((settings.background_load, settings.cache_bytes), (2.0, (1_024 << 20) / 3 * 2));
}

#[test]
fn what_cannot_be_run_is_refused() {
    let refused = |change: fn(&mut RedmineConfig)| {
        let mut config = config(EngineKind::LsmLeveled);
        change(&mut config);
        run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap_err().to_string()
    };
    assert!(refused(|config| config.loads = vec![-1.0]).contains("--load is out of bounds"));
    assert!(refused(|config| config.settings.device = Device::None).contains("--load above 0 needs a modelled device"));
    assert!(refused(|config| config.data_sets.clear()).contains("--data is missing"));
    assert!(refused(|config| config.clients = vec![0]).contains("--clients is out of bounds"));
}
