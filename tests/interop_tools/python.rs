//! RocksDB 9.8.4 (the package `rocksdict`) and the independent reader, both in Python.

use super::rocksdb_tools::parse_scan;
use super::rows::{Rows, Script, Step, hex, unhex};
use super::{Copy, repository, run, skip};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MODULES: &str = "import rocksdict, xxhash, crc32c, lz4.block, zstandard, snappy";

/// A Python that has the packages.
#[derive(Debug, Clone)]
pub struct Python(PathBuf);

/// How RocksDB writes.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// Arguments of `tests/tools/rocksdict_script.py write`.
    pub settings: Vec<String>,
}

impl WriteOptions {
    /// Options from a list of `name=value`, separated by blanks.
    pub fn new(settings: &str) -> Self {
        Self { settings: settings.split_whitespace().map(str::to_owned).collect() }
    }
}

impl Python {
    /// The Python that `SILTSTONE_INTEROP_PYTHON` names, that `scripts/interop-python` made, or that is installed; says so if
    /// none of them has the packages.
    pub fn find() -> Option<Self> {
        let named = std::env::var_os("SILTSTONE_INTEROP_PYTHON").map(PathBuf::from);
        let made = repository("target/interop-python/bin/python");
        for python in named.into_iter().chain([made, PathBuf::from("python3")]) {
            let has_packages = Command::new(&python).args(["-c", MODULES]).stderr(Stdio::null()).status();
            if has_packages.is_ok_and(|status| status.success()) {
                return Some(Self(python));
            }
        }
        skip("no Python with rocksdict and the codecs; scripts/interop-python makes one");
        None
    }

    /// A program of `tests/tools`.
    pub fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(&self.0);
        command.arg(repository("tests/tools").join(name));
        command
    }

    /// Verifies every checksum, order, separator, filter and count of the directory, by the independent reader.
    pub fn check_bytes(&self, db: &Path) {
        run(self.tool("rocksdb_dump.py").arg("check").arg(db));
    }

    /// The live rows of one family, by the independent reader.
    pub fn dumped_rows(&self, db: &Path, family: &str) -> std::collections::BTreeMap<Vec<u8>, Vec<u8>> {
        parse_scan(&run(self.tool("rocksdb_dump.py").arg("scan").arg(db).arg(family)))
    }

    /// Every stored version of the default family, by the independent reader: key, sequence number, type, value.
    pub fn dumped_versions(&self, db: &Path) -> Vec<(Vec<u8>, u64, u8, Vec<u8>)> {
        let said = run(self.tool("rocksdb_dump.py").arg("versions").arg(db));
        let version = |line: &str| {
            let mut fields = line.split('\t');
            let mut next = || fields.next().unwrap();
            (unhex(next()), next().parse().unwrap(), next().parse().unwrap(), unhex(next()))
        };
        said.lines().map(version).collect()
    }

    /// All live rows, by RocksDB 9.8.4.
    pub fn rows(&self, db: &Path) -> Rows {
        let copy = Copy::of(db);
        let said = run(self.tool("rocksdict_script.py").arg("rows").arg(copy.path()));
        let mut rows = Rows::new();
        for line in said.lines().filter(|line| !line.is_empty()) {
            let mut fields = line.split('\t');
            let mut next = || fields.next().unwrap();
            let (family, key, value) = (next(), unhex(next()), unhex(next()));
            let earlier = rows.entry(family.to_owned()).or_default().insert(key, value);
            assert!(earlier.is_none(), "a key twice");
        }
        rows
    }

    /// The families that RocksDB 9.8.4 finds in the newest OPTIONS file, having opened a copy of the directory with it.
    pub fn families_by_options(&self, db: &Path) -> Vec<String> {
        let copy = Copy::of(db);
        let said = run(self.tool("rocksdict_script.py").arg("options").arg(copy.path()));
        said.lines().map(str::to_owned).collect()
    }

    /// Lets RocksDB 9.8.4 carry a script out in the directory itself.
    pub fn write(&self, db: &Path, script: &Script, options: &WriteOptions) {
        let mut lines = String::new();
        for step in &script.steps {
            let line = match step {
                Step::Create(family) => format!("create\t{family}"),
                Step::Put(family, key, value) => format!("put\t{family}\t{}\t{}", hex(key), hex(value)),
                Step::Merge(..) => panic!("rocksdict cannot merge"),
                Step::Delete(family, key) => format!("delete\t{family}\t{}", hex(key)),
                Step::DeleteRange(family, begin, end) => {
                    format!("delete_range\t{family}\t{}\t{}", hex(begin), hex(end))
                }
                Step::Flush(family) => format!("flush\t{family}"),
                Step::Compact(family) => format!("compact\t{family}"),
            };
            lines.push_str(&line);
            lines.push('\n');
        }
        self.write_lines(db, &lines, options);
    }

    /// Lets RocksDB 9.8.4 carry out commands as `tests/tools/rocksdict_script.py` reads them.
    pub fn write_lines(&self, db: &Path, lines: &str, options: &WriteOptions) {
        let mut command = self.tool("rocksdict_script.py");
        command.arg("write").arg(db).args(&options.settings);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "RocksDB: {}", String::from_utf8_lossy(&output.stderr));
    }
}
