//! RocksDB 7.8.3: `ldb`, `sst_dump` and `db_bench`.

use super::rows::{Rows, hex, unhex};
use super::{Copy, run, skip, starts};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The installed tools.
#[derive(Debug, Clone, Copy)]
pub struct RocksDbTools {
    ignores_unknown_options: bool,
}

impl RocksDbTools {
    /// The tools, if they are installed; says so if not.
    pub fn find() -> Option<Self> {
        for tool in ["ldb", "sst_dump", "db_bench"] {
            if !starts(Path::new(tool), &["--version"]) {
                skip("RocksDB's tools (ldb, sst_dump, db_bench) are not installed");
                return None;
            }
        }
        Some(Self { ignores_unknown_options: false })
    }

    /// The tools for a directory that a newer RocksDB wrote to: they do not know all names in its OPTIONS.
    pub fn ignoring_unknown_options(self) -> Self {
        Self { ignores_unknown_options: true }
    }

    /// Runs `ldb` on the directory itself.
    pub fn ldb(self, db: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new("ldb");
        command.arg(format!("--db={}", db.display())).args(arguments);
        if self.ignores_unknown_options {
            command.arg("--ignore_unknown_options");
        }
        run(&mut command)
    }

    /// Creates a directory of one table with `rows`.
    pub fn load(self, db: &Path, rows: &BTreeMap<Vec<u8>, Vec<u8>>, arguments: &[&str]) {
        let lines: String = rows.iter().map(|(key, value)| format!("0x{} ==> 0x{}\n", hex(key), hex(value))).collect();
        let mut command = Command::new("ldb");
        command.arg(format!("--db={}", db.display())).args(["load", "--hex", "--create_if_missing", "--compact"]);
        command.arg("--block_size=512").args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "ldb: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Whether the files of the directory are what its MANIFEST says.
    pub fn check_consistency(self, db: &Path) {
        let copy = Copy::of(db);
        let said = self.ldb(copy.path(), &["checkconsistency"]);
        assert!(said.trim_end().ends_with("OK"), "{said}");
    }

    /// Reads every block of every table and verifies its checksum. Returns the number of tables.
    pub fn verify_tables(self, db: &Path) -> usize {
        let said = run(Command::new("sst_dump").arg(format!("--file={}", db.display())).arg("--command=verify"));
        let verified = said.lines().filter(|line| line.trim() == "The file is ok").count();
        let opened = said.lines().filter(|line| line.starts_with("Process ")).count();
        assert_eq!(verified, opened, "{said}");
        verified
    }

    /// The names of the families.
    pub fn families(self, db: &Path) -> Vec<String> {
        let said = self.ldb(db, &["list_column_families"]);
        let names = said.split_once('{').unwrap().1.split_once('}').unwrap().0;
        names.split(", ").map(str::to_owned).collect()
    }

    /// All live rows.
    pub fn rows(self, db: &Path) -> Rows {
        let copy = Copy::of(db);
        let mut rows = Rows::new();
        for family in self.families(copy.path()) {
            let found = self.scan(copy.path(), &family);
            rows.insert(family, found);
        }
        rows
    }

    /// The live rows of one family, read from the directory itself.
    pub fn scan(self, db: &Path, family: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
        parse_scan(&self.ldb(db, &["--try_load_options", &format!("--column_family={family}"), "scan", "--hex"]))
    }

    /// Puts several rows into the default family of the directory itself.
    pub fn put_all(self, db: &Path, keys: &[&Vec<u8>], values: &[&Vec<u8>]) {
        let rows = keys.iter().zip(values).flat_map(|(key, value)| [key, value]);
        let mut arguments = vec!["batchput".to_owned(), "--hex".to_owned()];
        arguments.extend(rows.map(|bytes| format!("0x{}", hex(bytes))));
        self.ldb(db, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Lets `db_bench` write into the directory itself; it leaves its last writes in the WAL.
    pub fn bench(self, db: &Path, arguments: &[&str]) {
        run(Command::new("db_bench").arg(format!("--db={}", db.display())).args(arguments));
    }

    /// Puts one row into the directory itself.
    pub fn put(self, db: &Path, family: &str, key: &[u8], value: &[u8]) {
        let (key, value) = (format!("0x{}", hex(key)), format!("0x{}", hex(value)));
        self.ldb(db, &[&format!("--column_family={family}"), "put", "--hex", &key, &value]);
    }

    /// Deletes one row of the directory itself.
    pub fn delete(self, db: &Path, family: &str, key: &[u8]) {
        self.ldb(db, &[&format!("--column_family={family}"), "delete", "--hex", &format!("0x{}", hex(key))]);
    }

    /// Lets `db_bench` merge random operands into random keys of a new directory.
    pub fn merge_randomly(self, db: &Path, operator: &str) {
        let arguments = [
            "--benchmarks=mergerandom",
            "--num=3000",
            "--merge_keys=200",
            "--value_size=8",
            "--write_buffer_size=16384",
            "--compression_type=none",
            "--seed=7",
        ];
        let mut command = Command::new("db_bench");
        command.args(arguments).arg(format!("--merge_operator={operator}")).arg(format!("--db={}", db.display()));
        run(&mut command);
    }

    /// The live rows of the family `default`, with the merge operator that its OPTIONS name.
    pub fn merged_rows(self, db: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let copy = Copy::of(db);
        parse_scan(&self.ldb(copy.path(), &["--try_load_options", "scan", "--hex"]))
    }

    /// Compacts a family of the directory itself.
    pub fn compact(self, db: &Path, family: &str) {
        self.ldb(db, &[&format!("--column_family={family}"), "compact"]);
    }
}

/// The lines `0xKEY : 0xVALUE` of a scan.
pub fn parse_scan(said: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let row = |line: &str| {
        let (key, value) = line.split_once(" :").unwrap_or_else(|| panic!("not a row: {line}"));
        let bytes = |text: &str| unhex(text.trim().strip_prefix("0x").unwrap_or_default());
        (bytes(key), bytes(value))
    };
    let rows: Vec<_> = said.lines().filter(|line| !line.is_empty()).map(row).collect();
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "a scan yields each key once, in order");
    rows.into_iter().collect()
}
