//! Plans, what is left of one, and what does not fit.

use super::*;
use crate::engines::{Device, EngineSettings};
use crate::insert::Step;
use crate::place::{Found, Place};
use crate::redmine::DataSet;
use crate::{OfferedRates, ResultLine};
use siltstone_base::checksum::xxh3_64;
use siltstone_base::engine::Durability;
use siltstone_base::env::write_file_atomically;

pub(super) fn config() -> AllConfig {
    AllConfig {
        scale: Scale::Quick,
        only: Vec::new(),
        peers: Vec::new(),
        also: Vec::new(),
        dir: PathBuf::from("/nowhere"),
        seed: 3,
        is_anew: false,
        dry_run: true,
    }
}

fn said(config: &AllConfig) -> Result<String> {
    let mut text = Vec::new();
    run(config, &mut Output::new(&mut text, None, false))?;
    Ok(String::from_utf8(text).unwrap())
}

#[test]
fn larger_scales_have_the_cells_of_smaller_ones_and_take_longer() {
    let [quick, hour, night] = [Scale::Quick, Scale::Hour, Scale::Night].map(plan::sizes);
    let total = |cells: &[(String, u64, f64)]| cells.iter().map(|(.., seconds)| seconds).sum::<f64>() / 60.0;
    let names = |cells: &[(String, u64, f64)]| cells.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>();
    let also_by_the_hour: Vec<_> = names(&night).into_iter().filter(|name| names(&hour).contains(name)).collect();
    assert_eq!(also_by_the_hour, names(&hour));
    let also_quick: Vec<_> = names(&hour).into_iter().filter(|name| names(&quick).contains(name)).collect();
    assert_eq!(also_quick, names(&quick));
    let grow = |smaller: &[(String, u64, f64)], larger: &[(String, u64, f64)]| {
        for small in smaller {
            let large = larger.iter().find(|cell| cell.0 == small.0).unwrap();
            // The data sets of Redmine are what they are.
            let grows = !small.0.starts_with("redmine");
            assert!(if grows { small.1 < large.1 } else { small.1 <= large.1 }, "{}", small.0);
            assert!(small.2 < large.2, "{}", small.0);
        }
    };
    grow(&quick, &hour);
    grow(&hour, &night);
    assert!(total(&quick) < 32.0, "{}", total(&quick));
    assert!((60.0..270.0).contains(&total(&hour)), "{}", total(&hour));
    assert!((300.0..700.0).contains(&total(&night)), "{}", total(&night));
    let mut different = names(&night);
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), night.len());
}

#[test]
fn the_book_lists_the_cells_of_every_scale() {
    let scales = [Scale::Quick, Scale::Hour, Scale::Night].map(|scale| plan(&AllConfig { scale, ..config() }));
    let mut table = "| cell | what | quick | hour | night |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for cell in &scales[2] {
        let minutes = scales.each_ref().map(|cells| {
            let found = cells.iter().find(|other| other.name == cell.name);
            found.map_or_else(|| "-".to_owned(), |found| format!("{:.1}", found.seconds / 60.0))
        });
        table += &format!("| `{}` | {} | {} |\n", cell.name, cell.about, minutes.join(" | "));
    }
    let total = scales.map(|cells| format!("{:.0}", cells.iter().map(|cell| cell.seconds).sum::<f64>() / 60.0));
    table += &format!("| all | | {} |\n", total.join(" | "));
    assert!(
        include_str!("../../../../docs/src/laboratory.md").contains(&table),
        "docs/src/laboratory.md lacks\n{table}"
    );
}

/// The cells that are there because of engines beside ours. Any engine will do: minutes for one are the same whichever the others are.
fn beside_another(scale: Scale) -> Vec<Cell> {
    let without: Vec<_> = plan(&AllConfig { scale, ..config() }).into_iter().map(|cell| cell.name).collect();
    let with = plan(&AllConfig { scale, peers: vec![EngineKind::LsmLazy], ..config() });
    with.into_iter().filter(|cell| !without.contains(&cell.name)).collect()
}

#[test]
fn the_book_lists_the_cells_beside_other_engines() {
    let scales = [Scale::Quick, Scale::Hour, Scale::Night].map(beside_another);
    let mut table = "| cell | what | quick | hour | night |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for cell in &scales[2] {
        let minutes = scales.each_ref().map(|cells| {
            let found = cells.iter().find(|other| other.name == cell.name).unwrap();
            let engines = found.experiment(Path::new("/nowhere")).engines().len();
            // One of them is another's.
            assert_eq!(engines, if cell.name == "insert-peers" { 3 } else { 4 }, "{}", cell.name);
            format!("{:.1}", found.seconds / engines as f64 / 60.0)
        });
        table += &format!("| `{}` | {} | {} |\n", cell.name, cell.about, minutes.join(" | "));
    }
    assert!(
        include_str!("../../../../docs/src/laboratory.md").contains(&format!("{table}\n")),
        "docs/src/laboratory.md lacks\n{table}"
    );
}

#[test]
fn beside_other_engines_all_have_the_same_conditions_on_the_machine_s_own_device() {
    for scale in [Scale::Quick, Scale::Hour, Scale::Night] {
        let cells = beside_another(scale);
        let [insert, sysbench] = &cells[..] else { panic!("{scale}: {} cells", cells.len()) };
        assert_eq!([insert.name.as_str(), sysbench.name.as_str()], ["insert-peers", "sysbench-peers"]);
        let Experiment::Insert(insert) = insert.experiment(Path::new("/nowhere")) else { panic!("{scale}") };
        let Experiment::Sysbench(sysbench) = sysbench.experiment(Path::new("/nowhere")) else { panic!("{scale}") };
        for settings in [&insert.settings, &sysbench.settings] {
            assert_eq!((settings.device, settings.durability), (Device::None, Durability::Commit), "{scale}");
            assert!(settings.compress && settings.level0.is_default(), "{scale}");
        }
        assert!(!insert.settings.direct && insert.settings.memory_bytes() >= 2 * 90 * insert.rows, "{scale}");
        let data = u64::from(sysbench.tables) * u64::from(sysbench.rows) * sysbench::ROW_BYTES;
        assert!(sysbench.settings.direct && sysbench.settings.memory_bytes() <= data / 5 + 1, "{scale}");
    }
}

#[test]
#[cfg(feature = "peers")]
fn every_peer_is_in_the_cells_that_it_can_run_and_the_others_say_so() {
    let foreign: Vec<_> = EngineKind::ALL.iter().copied().filter(|kind| kind.is_foreign()).collect();
    let direct: Vec<_> = foreign.iter().copied().filter(|kind| kind.has_direct_io()).collect();
    let with_peers = AllConfig { peers: foreign.clone(), ..config() };
    for cell in plan(&with_peers) {
        let experiment = cell.experiment(Path::new("/nowhere"));
        let found: Vec<_> = experiment.engines().iter().copied().filter(|kind| kind.is_foreign()).collect();
        let expected = match cell.name.as_str() {
            "insert-peers" => &foreign[..],
            "kv" | "ycsb" | "stalls" | "sysbench-peers" => &direct[..],
            _ => &[],
        };
        assert_eq!(found, expected, "{}", cell.name);
    }
    assert_eq!(plan(&with_peers).iter().any(|cell| cell.name == "sysbench-peers"), !direct.is_empty());
    let text = said(&with_peers).unwrap();
    assert!(text.contains("Left out of cells on a modelled device, for they do their own I/O: fjall, redb"), "{text}");
    let buffered = "Left out of cells past the page cache, for they have no direct I/O: fjall, redb, lmdb, sqlite.";
    assert!(text.contains(buffered), "{text}");
    assert!(!said(&config()).unwrap().contains("Left out"));
}

#[test]
#[cfg(feature = "peers")]
fn a_cell_beside_other_engines_runs_and_says_its_conditions() {
    let dir = tempfile::tempdir().unwrap();
    let peers = vec![EngineKind::Fjall, EngineKind::Redb, EngineKind::Lmdb, EngineKind::Sqlite];
    let config = AllConfig { dir: dir.path().to_path_buf(), dry_run: false, peers, ..config() };
    let mut cell = plan(&config).into_iter().find(|cell| cell.name == "insert-peers").unwrap();
    if let Experiment::Insert(insert) = &mut cell.experiment_mut() {
        (insert.rows, insert.more_rows, insert.query_seconds) = (300, 0, 0.1);
    }
    run_cell(&config, &cell, &mut Output::new(&mut Vec::new(), None, false)).unwrap();
    let file = results(dir.path(), &cell);
    let text = read_file(&PosixEnv::new(), &file, FileKind::Other, MOST_BYTES).unwrap();
    let records = report::parse(&String::from_utf8(text).unwrap(), &file).unwrap();
    assert_eq!(records.len(), 6 * 4, "six engines, four steps");
    let first = &records[0].result;
    for record in &records {
        let line = &record.result;
        assert_eq!((line.device.as_deref(), line.durability.as_deref()), (Some("none"), Some("commit")), "{line:?}");
        assert_eq!((&line.config_hash, line.memory_bytes), (&first.config_hash, first.memory_bytes), "{line:?}");
        assert!(line.workload != "l" || line.ops == 300, "{line:?}");
    }
    assert!(is_done(dir.path(), &cell));
}

#[test]
#[cfg(feature = "peers")]
fn foreign_engines_run_sysbench_which_opens_their_tables_anew() {
    let cell = plan(&config()).into_iter().find(|cell| cell.name == "sysbench-fifth").unwrap();
    let Experiment::Sysbench(sysbench) = cell.experiment(Path::new("/nowhere")) else { panic!("of sysbench") };
    let engines: Vec<_> = EngineKind::ALL.iter().copied().filter(|kind| kind.is_foreign()).collect();
    let expected = engines.len() * sysbench.workloads.len();
    let dir = tempfile::tempdir().unwrap();
    let (dir, settings) = (Some(dir.path().join("db")), EngineSettings::default().with_memory(24 << 20));
    let (tables, rows, clients, seconds) = (2, 250, vec![3], 0.1);
    let small = sysbench::SysbenchConfig { engines, tables, rows, clients, seconds, dir, settings, ..sysbench };
    let lines = sysbench::run(&small, &mut Output::new(&mut Vec::new(), None, false)).unwrap();
    assert_eq!(lines.len(), expected);
    for line in &lines {
        assert!(line.workload == "settle" || line.ops > 0, "{line:?}");
        let conditions = (line.device.as_deref(), line.durability.as_deref(), line.memory_bytes);
        assert_eq!(conditions, (Some("none"), Some("os"), Some(24 << 20)), "{line:?}");
    }
}

#[test]
fn beneath_limits_of_level_0_both_admissions_stand_beside_both_profiles_of_the_b_tree() {
    let engines = [EngineKind::LsmLeveled, EngineKind::LsmClassic, EngineKind::Btree, EngineKind::BtreeMysql84];
    let limits = |scale| {
        let mut limits = Vec::new();
        for cell in plan(&AllConfig { scale, ..config() }) {
            let Experiment::Insert(insert) = cell.experiment(Path::new("/nowhere")) else { continue };
            if !insert.settings.level0.is_default() {
                assert_eq!(insert.engines, engines, "{}", cell.name);
                // The charts are of rates of five seconds, and there are enough of them where nobody is quicker than the limit of time.
                assert!(insert.interval_s == 5.0 && insert.insert_seconds >= Some(20.0 * 5.0), "{}", cell.name);
                insert.settings.level0.check().unwrap();
                limits.push(insert.settings.level0.to_string());
            }
        }
        limits
    };
    assert!(limits(Scale::Quick).is_empty());
    for scale in [Scale::Hour, Scale::Night] {
        assert_eq!(limits(scale), ["4/10/20", "4/20/30"], "{scale}");
    }
}

#[test]
fn both_profiles_of_the_b_tree_are_where_something_waits_in_a_change_buffer() {
    for scale in [Scale::Quick, Scale::Hour, Scale::Night] {
        for cell in plan(&AllConfig { scale, peers: vec![EngineKind::LsmLazy], ..config() }) {
            let experiment = cell.experiment(Path::new("/nowhere"));
            let has = |kind| experiment.engines().contains(&kind);
            let is_of = |names: &[&str]| names.iter().any(|name| cell.name.starts_with(name));
            // Of these a cell has the LSM trees once more, and another the B-tree that flushes more.
            let is_again = cell.name.ends_with("-again");
            assert!(!is_again || !has(EngineKind::Btree), "{} at {scale}", cell.name);
            let is_flushing = cell.name.ends_with("-flushing");
            let is_in_memory = cell.name.ends_with("-in-memory");
            assert!(!is_flushing || experiment.engines() == [EngineKind::BtreeSsd], "{} at {scale}", cell.name);
            if !is_again
                && !is_flushing
                && !is_in_memory
                && is_of(&["insert-fast-ssd", "insert-slow-ssd", "insert-level0", "sysbench", "redmine"])
            {
                assert!(has(EngineKind::Btree) && has(EngineKind::BtreeMysql84), "{} at {scale}", cell.name);
            }
            let many_clients = ["insert-memory-4", "insert-memory-8", "insert-memory-12", "insert-memory-16"];
            if is_of(&["insert-binlog", "insert-memory-indexes-later", "insert-peers"]) || is_of(&many_clients) {
                assert!(has(EngineKind::Btree) && !has(EngineKind::BtreeMysql84), "{} at {scale}", cell.name);
            }
        }
    }
}

#[test]
fn longer_plans_offer_parts_of_the_maximum_in_a_second_phase() {
    for (scale, fractions) in [(Scale::Quick, vec![]), (Scale::Hour, vec![0.8]), (Scale::Night, vec![0.8])] {
        let both = OfferedRates { fractions, rates: Vec::new() };
        for cell in plan(&AllConfig { scale, ..config() }) {
            let experiment = cell.experiment(Path::new("/nowhere"));
            let (engines, phases) = (experiment.engines().len() as f64, 1 + both.fractions.len());
            match experiment {
                Experiment::Ycsb(ycsb) => {
                    assert_eq!(ycsb.offered, both, "{scale}");
                    // A thousand operations a second, or fewer where fewer are offered.
                    let least = engines * phases as f64 * ycsb.operations as f64 / 1_000.0;
                    assert!(cell.seconds >= least, "{} s at {scale}", cell.seconds);
                }
                Experiment::Sysbench(sysbench) if cell.name == "sysbench-fifth" => {
                    assert_eq!(sysbench.offered, both, "{scale}");
                    // All but load and settle run with each number of clients in each phase.
                    let runs = (sysbench.workloads.len() - 2) * sysbench.clients.len() * phases;
                    assert!(cell.seconds > engines * runs as f64 * sysbench.seconds, "{} s at {scale}", cell.seconds);
                }
                Experiment::Sysbench(sysbench) => assert_eq!(sysbench.offered, OfferedRates::default(), "{scale}"),
                _ => {}
            }
        }
    }
}

#[test]
fn full_load_is_four_processes_beside_four_streams_on_every_data_set() {
    let mut giant = Vec::new();
    for scale in [Scale::Hour, Scale::Night] {
        for cell in plan(&AllConfig { scale, ..config() }) {
            let Experiment::Redmine(redmine) = cell.experiment(Path::new("/nowhere")) else { continue };
            let is_full = redmine.loads == [4.0];
            assert!(!is_full || redmine.clients.contains(&4), "{} at {scale}", cell.name);
            if redmine.data_sets == [DataSet::Giant] {
                giant.push((is_full, redmine.as_published, redmine.clients));
            }
        }
    }
    let [one, four]: [Vec<usize>; 2] = [vec![1], vec![1, 4]];
    let expected = [(false, true, one.clone()), (false, false, one), (true, true, four.clone()), (true, false, four)];
    assert_eq!(giant, expected);
}

#[test]
fn longer_plans_insert_as_was_published() {
    for scale in [Scale::Hour, Scale::Night] {
        let (mut clients, mut steps, mut universal) = (Vec::new(), Vec::new(), 0);
        for cell in plan(&AllConfig { scale, ..config() }) {
            let Experiment::Insert(insert) = cell.experiment(Path::new("/nowhere")) else { continue };
            if cell.name.starts_with("insert-memory") && insert.steps.contains(&Step::Load) {
                clients.push(insert.clients);
            }
            steps.extend(insert.steps.iter().map(ToString::to_string));
            universal += u32::from(insert.engines.contains(&EngineKind::LsmUniversal));
            assert!(insert.insert_seconds.is_some(), "{} may take for ever", cell.name);
        }
        assert_eq!(clients, [1, 2, 4, 8, 12, 16], "{scale}");
        assert!(steps.contains(&"l.i0".to_owned()) && steps.contains(&"l.x".to_owned()), "{scale}");
        assert!(universal >= 10, "{scale}: {universal}");
    }
}

#[test]
fn the_name_of_a_cell_means_that_cell_alone() {
    let all = plan(&AllConfig { scale: Scale::Hour, ..config() });
    let named = |name: &str| -> Vec<_> {
        all.iter().filter(|cell| is_named(cell, name, &all)).map(|cell| cell.name.as_str()).collect()
    };
    assert_eq!(named("insert-memory-1"), ["insert-memory-1"]);
    assert!(["insert-memory-1", "insert-memory-12"].iter().all(|name| named("insert-memory").contains(name)));
    assert!(named("nonsense").is_empty());
}

#[test]
fn a_dry_run_lists_the_cells_and_writes_nothing() {
    let text = said(&config()).unwrap();
    for name in [
        "kv",
        "ycsb",
        "insert-memory-1",
        "insert-slow-ssd",
        "sysbench-two-fifths",
        "redmine-large-load4-published",
        "stalls",
        "ads",
    ] {
        assert!(text.contains(name), "{text}");
    }
    assert!(text.contains("22 of 22 left"), "{text}");
    assert!(!PosixEnv::new().exists(Path::new("/nowhere")).unwrap());
    let only = said(&AllConfig { only: vec!["sysbench".to_owned()], ..config() }).unwrap();
    assert!(only.contains("4 of 4 left") && !only.contains("ycsb"), "{only}");
    assert!(said(&AllConfig { only: vec!["nonsense".to_owned()], ..config() }).is_err());
}

#[test]
fn what_is_left_takes_as_long_as_planned_at_the_pace_so_far() {
    let planned = [120.0, 60.0, 30.0];
    assert_eq!(seconds_left(&planned, 0, 0.0), 210.0);
    assert_eq!(seconds_left(&planned, 1, 240.0), 180.0, "twice as long as planned");
    assert_eq!(seconds_left(&planned, 2, 90.0), 15.0);
    assert_eq!(seconds_left(&planned, 3, 90.0), 0.0);
    assert_eq!(seconds_left(&[30.0, 60.0], 1, 3.0), 60.0, "too short to tell a pace");
}

#[test]
fn a_run_goes_on_with_what_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let dry = AllConfig { dir: dir.path().to_path_buf(), ..config() };
    let cell = plan(&dry).remove(1);
    assert_eq!(cell.name, "ycsb");
    let mut json = JsonLines::create(&results(dir.path(), &cell)).unwrap();
    json.push(&CellLine { cell: cell.identity() }).unwrap();
    assert!(said(&dry).unwrap().contains("22 of 22 left"), "there is no result");
    json.push(&ResultLine::default()).unwrap();
    assert!(said(&dry).unwrap().contains("21 of 22 left"));
    // With another seed it is another experiment.
    assert!(said(&AllConfig { seed: 4, ..dry.clone() }).unwrap().contains("22 of 22 left"));
    let mut json = JsonLines::create(&results(dir.path(), &cell)).unwrap();
    json.push(&ResultLine::default()).unwrap();
    assert!(said(&dry).unwrap().contains("22 of 22 left"), "nothing says of which experiment it is");
}

#[test]
fn what_an_interrupted_run_left_takes_no_room_from_the_next() {
    let (dir, env) = (tempfile::tempdir().unwrap(), PosixEnv::new());
    let dry = AllConfig { dir: dir.path().to_path_buf(), only: vec!["ycsb".to_owned()], ..config() };
    let held_by_databases = || allocated_bytes(&databases(dir.path()), &|_| true);
    assert_eq!(held_by_databases(), 0);
    Place::new(Some(&databases(dir.path())), true, Found::Removed).unwrap();
    let database = databases(dir.path()).join("btree");
    env.create_dir_all(&database).unwrap();
    let (pages, temporary) = (database.join("pages"), database.join("temporary"));
    write_file_atomically(&env, &pages, &temporary, &[1; 1 << 14], FileKind::Other).unwrap();
    let held = held_by_databases();
    assert!(said(&dry).unwrap().contains("1 of 1 left"));
    assert!(held > 0 && env.exists(&pages).unwrap(), "a dry run leaves them, {held} bytes");
    let cell = plan(&dry).into_iter().find(|cell| cell.name == "ycsb").unwrap();
    let room = Room { disk_bytes: Some(cell.disk_bytes - held), memory_bytes: None };
    assert_eq!(room.check(&cell).unwrap_err().kind(), ErrorKind::NoSpace);
    room.with_freed(held).check(&cell).unwrap();
    assert_eq!(Room::default().with_freed(held), Room::default(), "what is not known stays so");
    // A run with nothing left to do removes them all the same.
    let mut json = JsonLines::create(&results(dir.path(), &cell)).unwrap();
    json.push(&CellLine { cell: cell.identity() }).unwrap();
    let [experiment, workload, engine] = ["ycsb", "load", "btree"].map(str::to_owned);
    json.push(&ResultLine { experiment, workload, engine, ..Default::default() }).unwrap();
    let run = AllConfig { dry_run: false, ..dry };
    assert!(said(&run).unwrap().contains("0 of 1 left"));
    assert!(!env.exists(&databases(dir.path())).unwrap());
    assert_eq!(held_by_databases(), 0);
}

#[test]
fn results_of_another_plan_are_not_taken_for_those_of_a_cell() {
    let is_the_same = |name: &str, change: fn(&mut Experiment)| {
        let cell = plan(&config()).into_iter().find(|cell| cell.name == name).unwrap();
        let mut other = cell.clone();
        change(other.experiment_mut());
        let hash = |cell: &Cell| match cell.experiment(Path::new("/nowhere")) {
            Experiment::Sysbench(config) => config.config_hash(),
            Experiment::Stalls(config) => config.config_hash(),
            Experiment::Insert(config) => config.config_hash(),
            _ => String::new(),
        };
        // To results that are compared these changes make no difference.
        assert_eq!(hash(&cell), hash(&other), "{name}");
        cell.identity() == other.identity()
    };
    assert!(is_the_same("stalls", |_| {}));
    assert!(!is_the_same("stalls", |experiment| {
        if let Experiment::Stalls(stalls) = experiment {
            stalls.engines.truncate(1);
        }
    }));
    assert!(!is_the_same("sysbench-fifth", |experiment| {
        if let Experiment::Sysbench(sysbench) = experiment {
            (sysbench.seconds, sysbench.clients) = (1.0, vec![16]);
        }
    }));
    assert!(!is_the_same("insert-memory-1", |experiment| {
        if let Experiment::Insert(insert) = experiment {
            insert.steps.truncate(1);
        }
    }));
}

#[test]
fn the_identity_of_a_cell_tells_what_no_setting_says() {
    let mut universal = 0;
    for mut cell in plan(&AllConfig { scale: Scale::Hour, ..config() }) {
        let experiment = cell.experiment_mut();
        let has_it = experiment.engines().contains(&EngineKind::LsmUniversal);
        let by_settings_alone = format!("{:016x}", xxh3_64(format!("{experiment:?}").as_bytes()));
        // Of Redmine, how many requests an operation is; of evenness, for how long arrivals come before they count; of inserts, that settling flushes; of sysbench, when tables get their index.
        let settles = matches!(experiment, Experiment::Insert(insert) if insert.steps.contains(&Step::Settle));
        let is_said = matches!(experiment, Experiment::Redmine(_) | Experiment::Stalls(_) | Experiment::Sysbench(_));
        let says_more = has_it || settles || is_said;
        assert_eq!(cell.identity() != by_settings_alone, says_more, "{}", cell.name);
        universal += u32::from(has_it);
    }
    assert!(universal > 0);
}

#[test]
fn memory_is_as_large_as_the_names_of_the_cells_say() {
    /// Bytes of a B-tree's tables for each row of the insert benchmark, as measured: the whole of them is to fit.
    const BTREE_INSERT_ROW: u64 = 190;
    for scale in [Scale::Quick, Scale::Hour, Scale::Night] {
        let (mut in_memory, mut parts) = (0, Vec::new());
        for cell in plan(&AllConfig { scale, ..config() }) {
            match cell.experiment(Path::new("/nowhere")) {
                Experiment::Insert(insert) if cell.name.contains("memory") || cell.name.contains("binlog") => {
                    in_memory += 1;
                    // One is there to be set beside what is larger than memory on that device.
                    let is_slow = cell.name.starts_with("insert-slow-ssd");
                    let device = if is_slow { Device::SlowSsd } else { Device::FastSsd };
                    assert_eq!(insert.settings.device, device, "what was published is set beside {}", cell.name);
                    let memory = insert.settings.memory_bytes();
                    assert!(memory * 10 >= insert.rows * BTREE_INSERT_ROW * 11, "{} at {scale}", cell.name);
                }
                Experiment::Insert(insert) => {
                    assert!(insert.interval_s == 1.0 || !insert.settings.level0.is_default(), "{}", cell.name);
                    let data = insert.rows * 90;
                    assert!(insert.settings.memory_bytes() <= data.max(80 << 20) / 5, "{} at {scale}", cell.name);
                }
                Experiment::Sysbench(sysbench) if !cell.name.contains("page-cache") => {
                    let data = u64::from(sysbench.tables) * u64::from(sysbench.rows) * sysbench::ROW_BYTES;
                    parts.push((sysbench.settings.memory_bytes() as f64 / data as f64 * 5.0).round() as u32);
                }
                _ => {}
            }
        }
        assert_eq!((in_memory, parts), (scale.of(4, 11, 11), vec![1, 2, 4]), "{scale}");
    }
}

#[test]
fn the_script_beside_mariadb_counts_the_bytes_of_rows_as_the_crate_does() {
    let script = include_str!("../../../../scripts/beside-mariadb");
    let cell = plan(&config()).into_iter().find(|cell| cell.name == "insert-memory-1");
    let Some(Experiment::Insert(insert)) = cell.map(|cell| cell.experiment(Path::new("/nowhere"))) else {
        panic!("there is no such cell")
    };
    let dir = tempfile::tempdir().unwrap();
    let settings = EngineSettings::default();
    let (dir, engines) = (Some(dir.path().to_path_buf()), vec![EngineKind::Memory]);
    let steps = vec![Step::Load];
    let config = insert::InsertConfig { rows: 1_000, more_rows: 0, engines, steps, dir, settings, ..insert };
    let lines = insert::run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap();
    let (insert_row, sysbench_row) = (lines[0].data_bytes.unwrap() / 1_000, sysbench::ROW_BYTES);
    let counted = format!("SYSBENCH_ROW_BYTES, INSERT_ROW_BYTES = {sysbench_row}, {insert_row}\n");
    assert!(script.contains(&counted), "{counted}");
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_run() {
    let cell = plan(&config()).remove(0);
    let fits = Room { disk_bytes: Some(cell.disk_bytes), memory_bytes: Some(cell.memory_bytes) };
    fits.check(&cell).unwrap();
    Room::default().check(&cell).unwrap();
    let error = Room { disk_bytes: Some(cell.disk_bytes - 1), ..fits }.check(&cell).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.to_string().contains("kv needs"), "{error}");
    let error = Room { memory_bytes: Some(1), ..fits }.check(&cell).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
}

#[test]
fn machines_with_more_cores_compact_on_more_of_them() {
    let jobs = [None, Some(1), Some(2), Some(5), Some(16)].map(plan::background_jobs);
    assert_eq!(jobs, [2, 2, 2, 2, 8]);
}

#[test]
fn room_is_asked_for_logs_and_copies() {
    let cells = plan(&config());
    let disk = |name: &str| cells.iter().find(|cell| cell.name == name).unwrap().disk_bytes;
    let log = EngineKind::Btree.reserved_log_bytes();
    // Two B-trees, and what was loaded beside what is changed.
    let with_copy = 3 * log..4 * log;
    assert!(with_copy.contains(&disk("sysbench-fifth")) && with_copy.contains(&disk("redmine-small-load0-equal")));
    assert!((log..2 * log).contains(&disk("kv")) && disk("ads") > log);
}

#[test]
fn cells_that_fail_are_named_once_the_others_have_run() {
    outcome(Vec::new()).unwrap();
    let failed = [("kv", ErrorKind::Io), ("ads", ErrorKind::Corruption)];
    let failed = failed.map(|(name, kind)| (name, Error::new(kind, "of the experiment"))).into();
    let error = outcome(failed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("not complete: kv, ads"), "{error}");
}

/// Another time, or another user, may have them.
#[test]
fn a_cell_that_the_machine_had_no_means_for_is_not_done() {
    let dir = tempfile::tempdir().unwrap();
    let cell = plan(&config()).remove(1);
    for (workloads, done) in [(&["read_only"][..], true), (&["read_only", ResultLine::NOT_RUN], false)] {
        let mut json = JsonLines::create(&results(dir.path(), &cell)).unwrap();
        json.push(&CellLine { cell: cell.identity() }).unwrap();
        for workload in workloads {
            let workload = (*workload).to_owned();
            json.push(&ResultLine { experiment: "sysbench".to_owned(), workload, ..ResultLine::default() }).unwrap();
        }
        drop(json);
        assert_eq!(is_done(dir.path(), &cell), done, "{workloads:?}");
    }
}

#[test]
fn the_results_of_a_cell_and_the_page_stay_and_its_databases_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = AllConfig { dir: dir.path().to_path_buf(), dry_run: false, ..config() };
    config.only = vec!["tiny".to_owned()];
    assert!(said(&config).is_err(), "there is no such cell");
    let mut cell = plan(&config).remove(1);
    if let Experiment::Ycsb(ycsb) = &mut cell.experiment_mut() {
        (ycsb.records, ycsb.operations) = (200, 100);
        ycsb.workloads.truncate(2);
    }
    let mut text = Vec::new();
    run_cell(&config, &cell, &mut Output::new(&mut text, None, false)).unwrap();
    assert!(is_done(dir.path(), &cell));
    let env = PosixEnv::new();
    assert!(!env.exists(&dir.path().join("databases")).unwrap());
    assert!(!env.exists(&dir.path().join("ycsb.partial")).unwrap());
    // The page is of what is complete, whichever run that was of.
    let mut other = plan(&config).remove(2);
    let page = |cells: &[Cell]| {
        let path = write_page(&config, cells).unwrap();
        String::from_utf8(read_file(&env, &path, FileKind::Other, MOST_BYTES).unwrap()).unwrap()
    };
    let first = page(&[cell.clone(), other.clone()]);
    assert!(first.contains("YCSB") && !first.contains("<h2>Insert benchmark</h2>"));
    if let Experiment::Insert(insert) = &mut other.experiment_mut() {
        (insert.rows, insert.more_rows) = (200, 0);
        insert.engines.truncate(1);
    }
    run_cell(&config, &other, &mut Output::new(&mut Vec::new(), None, false)).unwrap();
    let both = page(&[cell, other]);
    assert!(both.contains("YCSB") && both.contains("<h2>Insert benchmark</h2>"));
    assert!(!both.contains("<h2>Beside MariaDB</h2>"));
    // What the script left there is told of, too; other files are not.
    for (file, engine) in [("mariadb.json", "innodb"), ("mariadb-limited.json", "myrocks"), ("others.json", "foreign")]
    {
        let mut json = JsonLines::create(&dir.path().join(file)).unwrap();
        let (experiment, workload) = ("mariadb".to_owned(), "insert".to_owned());
        json.push(&ResultLine { experiment, workload, engine: engine.to_owned(), ..Default::default() }).unwrap();
    }
    let beside = page(&[]);
    assert!(beside.contains("<h2>Beside MariaDB</h2>") && !beside.contains("YCSB"));
    assert!(beside.contains("innodb") && beside.contains("myrocks") && !beside.contains("foreign"));
}
