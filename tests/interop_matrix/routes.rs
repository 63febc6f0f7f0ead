//! The columns of the matrix: who writes first, and who reads that.

use super::features::Feature;
use super::server::{Request, Rows, Server};
use crate::interop_tools::siltstone as engine;
use crate::interop_tools::{Python, RocksDbTools, Script, hex, run};
use siltstone::lsm::{ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An order of two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    OursThen9,
    NineThenOurs,
    OursThen7,
    SevenThenOurs,
    OursThen11,
    ElevenThenOurs,
}

impl Route {
    /// The columns of the page, in their order.
    pub const ALL: [Self; 4] = [Self::OursThen9, Self::NineThenOurs, Self::OursThen7, Self::SevenThenOurs];

    /// Those with RocksDB 11.8.1, which is no package that installs in a moment.
    pub const WITH_11: [Self; 2] = [Self::OursThen11, Self::ElevenThenOurs];

    /// The head of the column.
    pub fn title(self) -> &'static str {
        match self {
            Self::OursThen9 => "Siltstone, then 9.8.4",
            Self::NineThenOurs => "9.8.4, then Siltstone",
            Self::OursThen7 => "Siltstone, then 7.8.3",
            Self::SevenThenOurs => "7.8.3, then Siltstone",
            Self::OursThen11 => "Siltstone, then 11.8.1",
            Self::ElevenThenOurs => "11.8.1, then Siltstone",
        }
    }

    /// What RocksDB is told. Tables of 11.8.1 have format_version 6 where the feature does not say, as those of 9.8.4.
    fn settings(self, feature: &Feature) -> Vec<(&'static str, &'static str)> {
        let version = matches!(self, Self::OursThen11 | Self::ElevenThenOurs).then_some(("format_version", "6"));
        version.into_iter().chain(feature.rocksdb.iter().copied()).collect()
    }

    /// Why a feature cannot take this way, if so.
    pub fn hindrance(self, feature: &Feature) -> Option<&'static str> {
        let foreign = match self {
            Self::OursThen9 => feature.not_in_9,
            Self::NineThenOurs => feature.not_in_9.or(feature.unwritten_by_9),
            Self::OursThen7 | Self::SevenThenOurs => feature.not_in_7,
            Self::OursThen11 | Self::ElevenThenOurs => None,
        };
        let own = match self {
            Self::OursThen9 | Self::OursThen7 | Self::OursThen11 => feature.ours.err(),
            Self::NineThenOurs | Self::SevenThenOurs | Self::ElevenThenOurs => None,
        };
        own.or(feature.unread).or(foreign)
    }
}

/// Who takes part: one process of 9.8.4 for all cells, one of 11.8.1 if there is one, and the programs of 7.8.3.
pub struct Cast {
    nine: Server,
    eleven: Option<Server>,
    seven: RocksDbTools,
    scratch: tempfile::TempDir,
    /// What OPTIONS of 7.8.3 says by default.
    template: String,
}

fn check(found: &Rows, wanted: &Rows, when: &str) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    let missing = wanted.keys().filter(|key| !found.contains_key(*key)).count();
    let surplus = found.keys().filter(|key| !wanted.contains_key(*key)).count();
    Err(format!("{when}: {} rows instead of {}: {missing} missing, {surplus} too many", found.len(), wanted.len()))
}

impl Cast {
    pub fn new(seven: RocksDbTools, python: &Python) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("template");
        run(Command::new("db_bench").args(["--benchmarks=fillseq", "--num=1", &argument("--db", &place)]));
        let template = read(&options_files(&place)[0]);
        let nine = Server::start(python.tool("rocksdict_server.py"), "RocksDB 9.8.4");
        Self { nine, eleven: None, seven, scratch, template }
    }

    /// Adds RocksDB 11.8.1, which is the example `rocksdb_server` of `siltstone-compare`.
    pub fn with_11(self, program: &Path) -> Self {
        Self { eleven: Some(Server::start(Command::new(program), "RocksDB 11.8.1")), ..self }
    }

    /// Plays one cell.
    pub fn play(&mut self, route: Route, feature: &Feature, seed: u64) -> Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("db");
        let turns = [seed * 2, seed * 2 + 1].map(feature.script);
        match route {
            Route::OursThen9 | Route::OursThen11 => self.ours_then_server(route, feature, &dir, &turns),
            Route::NineThenOurs | Route::ElevenThenOurs => self.server_then_ours(route, feature, &dir, &turns),
            Route::OursThen7 => self.ours_then_7(feature, &dir, &turns),
            Route::SevenThenOurs => self.seven_then_ours(feature, &dir, &turns),
        }
    }

    fn server(&mut self, route: Route) -> &mut Server {
        match (route, &mut self.eleven) {
            (Route::OursThen11 | Route::ElevenThenOurs, Some(eleven)) => eleven,
            _ => &mut self.nine,
        }
    }

    /// Lets the independent reader verify every byte.
    fn check(&mut self, dir: &Path) -> Result<(), String> {
        self.nine.ask(&Request::check(dir, "")).map(drop)
    }

    /// The same; fails unless a table has the feature: otherwise the cell says nothing.
    fn check_feature(&mut self, dir: &Path, feature: &Feature) -> Result<(), String> {
        check_evidence(feature, dir)?;
        self.nine.ask(&Request::check(dir, feature.said)).map(drop)
    }

    fn ours_then_server(
        &mut self,
        route: Route,
        feature: &Feature,
        dir: &Path,
        turns: &[Script; 2],
    ) -> Result<(), String> {
        let version = feature.format_version.unwrap_or(6);
        let mut rows = Rows::new();
        write_ours(feature, version, dir, &turns[0], &mut rows)?;
        self.check_feature(dir, feature)?;
        let request = Request::open(dir, &route.settings(feature)).then("rows").then("compact").then("leave");
        check(&self.server(route).ask(&request)?, &rows, "RocksDB reads first")?;
        self.check(dir)?;
        write_ours(feature, version, dir, &turns[1], &mut rows)?;
        self.check(dir)?;
        let request = Request::open(dir, &route.settings(feature)).then("rows").then("close");
        check(&self.server(route).ask(&request)?, &rows, "RocksDB reads at last")
    }

    fn server_then_ours(
        &mut self,
        route: Route,
        feature: &Feature,
        dir: &Path,
        turns: &[Script; 2],
    ) -> Result<(), String> {
        let version = feature.format_version.unwrap_or(6);
        let mut rows = Rows::new();
        let request = Request::open(dir, &route.settings(feature)).steps(&turns[0].steps).then("leave");
        self.server(route).ask(&request)?;
        apply(&turns[0], &mut rows);
        self.check_feature(dir, feature)?;
        compact_ours(feature, version, dir, &rows)?;
        self.check(dir)?;
        let request = Request::open(dir, &route.settings(feature)).then("rows").steps(&turns[1].steps).then("leave");
        check(&self.server(route).ask(&request)?, &rows, "RocksDB reads again")?;
        apply(&turns[1], &mut rows);
        verify_ours(feature, version, dir, &rows)
    }

    fn ours_then_7(&mut self, feature: &Feature, dir: &Path, turns: &[Script; 2]) -> Result<(), String> {
        let version = feature.format_version.unwrap_or(5);
        let mut rows = Rows::new();
        write_ours(feature, version, dir, &turns[0], &mut rows)?;
        self.check_feature(dir, feature)?;
        if options_files(dir).is_empty() {
            write(&dir.join("OPTIONS-000007"), &self.options_of_7(feature));
        }
        self.get(dir, &rows)?;
        self.seven.ldb(dir, &["--try_load_options", "compact"]);
        check(&self.scan(dir), &rows, "7.8.3 reads first")?;
        write_ours(feature, version, dir, &turns[1], &mut rows)?;
        self.check(dir)?;
        check(&self.scan(dir), &rows, "7.8.3 reads at last")
    }

    fn seven_then_ours(&mut self, feature: &Feature, dir: &Path, turns: &[Script; 2]) -> Result<(), String> {
        let version = feature.format_version.unwrap_or(5);
        let options = self.scratch.path().join("OPTIONS");
        write(&options, &self.options_of_7(feature));
        let settings = ["--benchmarks=fillrandom,flush,overwrite", "--num=500", "--value_size=60", "--seed=7"];
        let places = [argument("--db", dir), argument("--options_file", &options)];
        run(Command::new("db_bench").args(settings).args(places).args(feature.bench));
        self.check_feature(dir, feature)?;
        let mut rows = self.scan(dir);
        compact_ours(feature, version, dir, &rows)?;
        check(&self.scan(dir), &rows, "7.8.3 reads again")?;
        self.get(dir, &rows)?;
        let added: Rows = {
            let mut added = Rows::new();
            apply(&turns[1], &mut added);
            added.into_iter().filter(|(key, _)| !key.is_empty()).take(20).collect()
        };
        let (keys, values): (Vec<_>, Vec<_>) = added.iter().unzip();
        self.seven.put_all(dir, &keys, &values);
        rows.extend(added);
        self.check(dir)?;
        verify_ours(feature, version, dir, &rows)
    }

    fn scan(&self, dir: &Path) -> Rows {
        self.seven.scan(dir, "default")
    }

    /// Lets 7.8.3 get a row: it asks filters and indexes as OPTIONS say.
    fn get(&self, dir: &Path, rows: &Rows) -> Result<(), String> {
        let Some((key, value)) = rows.iter().nth(rows.len() / 2) else { return Err("no rows".to_owned()) };
        let said = self.seven.ldb(dir, &["--try_load_options", "get", "--hex", &format!("0x{}", hex(key))]);
        let wanted = format!("0x{}", hex(value));
        if said.trim().eq_ignore_ascii_case(&wanted) { Ok(()) } else { Err("7.8.3 gets another value".to_owned()) }
    }

    /// OPTIONS of 7.8.3 with the feature.
    fn options_of_7(&self, feature: &Feature) -> String {
        feature.rocksdb.iter().fold(self.template.clone(), |text, (name, value)| replace(&text, name, value))
    }
}

/// Gives the option the value: on the line of its own, or, if it has none, wherever it stands within others.
fn replace(text: &str, name: &str, value: &str) -> String {
    let pattern = format!("{name}=");
    let is_own = |line: &&str| line.trim_start().starts_with(&pattern);
    let whole = text.lines().any(|line| is_own(&line));
    let changed = |line: &str| match line.find(&pattern) {
        Some(at) if is_own(&line) => format!("{}{pattern}{value}", &line[..at]),
        Some(at) if !whole && line[..at].ends_with([';', '{']) => {
            let rest = &line[at..];
            let end = rest.find([';', '}']).unwrap_or(rest.len());
            format!("{}{pattern}{value}{}", &line[..at], &rest[end..])
        }
        _ => line.to_owned(),
    };
    text.lines().map(|line| changed(line) + "\n").collect()
}

#[test]
fn options_are_replaced_by_their_whole_name() {
    let text = "  codec=a\n  bottom_codec=b\n  x={level=1;codec=c;}\n  y={dict=1;}\n";
    assert_eq!(replace(text, "codec", "k"), "  codec=k\n  bottom_codec=b\n  x={level=1;codec=c;}\n  y={dict=1;}\n");
    assert_eq!(replace(text, "level", "2"), "  codec=a\n  bottom_codec=b\n  x={level=2;codec=c;}\n  y={dict=1;}\n");
    assert_eq!(replace(text, "dict", "8"), "  codec=a\n  bottom_codec=b\n  x={level=1;codec=c;}\n  y={dict=8;}\n");
}

fn argument(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

#[expect(clippy::disallowed_methods, reason = "files for programs that know nothing of environments")]
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "files for programs that know nothing of environments")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "looks at what an engine wrote")]
pub fn files(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn options_files(dir: &Path) -> Vec<PathBuf> {
    let is_options = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("OPTIONS-");
    files(dir).into_iter().filter(is_options).collect()
}

/// Fails unless a table has the bytes that show the feature.
#[expect(clippy::disallowed_methods, reason = "looks at what an engine wrote")]
fn check_evidence(feature: &Feature, dir: &Path) -> Result<(), String> {
    let tables = files(dir).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "sst"));
    let tables: Vec<_> = tables.map(|path| std::fs::read(path).unwrap()).collect();
    let evidence = feature.evidence;
    let has = |table: &Vec<u8>| evidence.is_empty() || table.windows(evidence.len()).any(|part| part == evidence);
    if tables.iter().any(has) { Ok(()) } else { Err("no table has the feature".to_owned()) }
}

fn open(feature: &Feature, version: u32, dir: &Path) -> Result<Db, String> {
    let options = ColumnFamilyOptions::default();
    // What is not written is read, and written as the newest version that is.
    let version = if feature.ours.is_ok() { version } else { version.min(6) };
    let table = options.table.clone().format_version(version).block_size(1024);
    let options = options.table(table);
    let options = feature.ours.map_or(options.clone(), |tell| tell(options));
    let database = DbOptions::default().create_if_missing(true).unnamed_families(options);
    Db::open(dir, &database).map_err(|error| format!("open: {error}"))
}

/// Does to the rows what the script does.
pub fn apply(script: &Script, rows: &mut Rows) {
    let mut families = [("default".to_owned(), std::mem::take(rows))].into();
    script.apply(&mut families);
    *rows = families.remove("default").unwrap_or_default();
}

/// Compares what an open database has with the rows.
pub fn check_ours(db: &Db, rows: &Rows, when: &str) -> Result<(), String> {
    let found = engine::rows(db).remove("default").unwrap_or_default();
    check(&found, rows, when)
}

/// Reads what is there, writes on, and leaves the last writes in the WAL.
fn write_ours(feature: &Feature, version: u32, dir: &Path, script: &Script, rows: &mut Rows) -> Result<(), String> {
    let db = open(feature, version, dir)?;
    check_ours(&db, rows, "Siltstone reads before it writes")?;
    engine::write_steps(&db, script);
    apply(script, rows);
    check_ours(&db, rows, "Siltstone reads what it wrote")?;
    db.close().map_err(|error| error.to_string())
}

/// Reads what is there and rewrites every table.
fn compact_ours(feature: &Feature, version: u32, dir: &Path, rows: &Rows) -> Result<(), String> {
    let db = open(feature, version, dir)?;
    check_ours(&db, rows, "Siltstone reads first")?;
    let forced = CompactRangeOptions::default().force_bottommost(true);
    let said = db.compact_range(&db.default_family(), None, None, &forced);
    said.map_err(|error| format!("compaction: {error}"))?;
    check_ours(&db, rows, "Siltstone compacted")?;
    db.close().map_err(|error| error.to_string())
}

/// Reads what is there at last, and looks at every entry of the tree.
fn verify_ours(feature: &Feature, version: u32, dir: &Path, rows: &Rows) -> Result<(), String> {
    let db = open(feature, version, dir)?;
    check_ours(&db, rows, "Siltstone reads at last")?;
    db.check().map_err(|error| format!("check: {error}"))?;
    db.close().map_err(|error| error.to_string())
}
