//! Plans, what is left of one, and what does not fit.

use super::*;

pub(super) fn config() -> AllConfig {
    AllConfig {
        scale: Scale::Quick,
        only: Vec::new(),
        peers: Vec::new(),
        dir: PathBuf::from("/nowhere"),
        seed: 3,
        dry_run: true,
    }
}

fn said(config: &AllConfig) -> Result<String> {
    let mut text = Vec::new();
    run(config, &mut Output::new(&mut text, None, false))?;
    Ok(String::from_utf8(text).unwrap())
}

#[test]
fn larger_scales_have_the_same_cells_and_take_longer() {
    let [quick, hour, night] = [Scale::Quick, Scale::Hour, Scale::Night].map(plan::sizes);
    let total = |cells: &[(String, u64, f64)]| cells.iter().map(|(.., seconds)| seconds).sum::<f64>() / 60.0;
    assert_eq!(quick.len(), hour.len());
    for ((small, large), largest) in quick.iter().zip(&hour).zip(&night) {
        assert_eq!((&small.0, &large.0), (&large.0, &largest.0));
        // The data sets of Redmine are what they are.
        let grows = !small.0.starts_with("redmine");
        assert!(small.1 <= large.1 && large.1 <= largest.1, "{}", small.0);
        assert!(!grows || small.1 < large.1 && large.1 < largest.1, "{}", small.0);
        assert!(small.2 < large.2 && large.2 < largest.2, "{}", small.0);
    }
    assert!(total(&quick) < 30.0, "{}", total(&quick));
    assert!((60.0..180.0).contains(&total(&hour)), "{}", total(&hour));
    assert!((180.0..720.0).contains(&total(&night)), "{}", total(&night));
    let mut names: Vec<_> = quick.iter().map(|(name, ..)| name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), quick.len());
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
fn a_run_goes_on_with_what_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let dry = AllConfig { dir: dir.path().to_path_buf(), ..config() };
    let cell = plan(&dry).remove(1);
    assert_eq!(cell.name, "ycsb");
    let mut json = JsonLines::create(&results(dir.path(), &cell)).unwrap();
    let line = crate::ResultLine { config_hash: cell.config_hash(), ..crate::ResultLine::default() };
    json.push(&line).unwrap();
    assert!(said(&dry).unwrap().contains("21 of 22 left"));
    // With another seed it is another experiment.
    assert!(said(&AllConfig { seed: 4, ..dry.clone() }).unwrap().contains("22 of 22 left"));
    json.push(&crate::ResultLine { config_hash: "of another".to_owned(), ..line }).unwrap();
    assert!(said(&dry).unwrap().contains("22 of 22 left"));
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
        let path = write_page(dir.path(), cells).unwrap();
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
}
