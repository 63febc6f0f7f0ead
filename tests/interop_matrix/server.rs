//! A RocksDB in one process for all cells, driven by the commands of `tests/tools/rocksdict_server.py`.

use crate::interop_tools::{Step, hex, unhex};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Rows of the default family.
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The process. Ends when it is dropped.
pub struct Server {
    name: &'static str,
    child: Child,
    /// `None` once it was told to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// Commands of one request.
pub struct Request(String);

impl Request {
    /// Begins by opening a database.
    pub fn open(dir: &Path, settings: &[(&str, &str)]) -> Self {
        let mut line = format!("open\t{}", dir.display());
        for (name, value) in settings {
            write!(line, "\t{name}={value}").unwrap();
        }
        Self(line + "\n")
    }

    /// Adds a command.
    pub fn then(mut self, command: &str) -> Self {
        self.0.push_str(command);
        self.0.push('\n');
        self
    }

    /// The verification of every byte; fails, too, if nothing of what the reader says of the tables has `said` in it.
    pub fn check(dir: &Path, said: &str) -> Self {
        Self(format!("check\t{}\t{said}\n", dir.display()))
    }

    /// Adds the steps of a script of the default family.
    pub fn steps(self, steps: &[Step]) -> Self {
        steps.iter().fold(self, |request, step| match step {
            Step::Create(_) => request,
            Step::Put(_, key, value) => request.then(&format!("put\t{}\t{}", hex(key), hex(value))),
            Step::Delete(_, key) => request.then(&format!("delete\t{}", hex(key))),
            Step::Merge(_, key, number) => {
                request.then(&format!("merge\t{}\t{}", hex(key), hex(&number.to_le_bytes())))
            }
            Step::DeleteRange(_, begin, end) => request.then(&format!("delete_range\t{}\t{}", hex(begin), hex(end))),
            Step::Flush(_) => request.then("flush"),
            Step::Compact(_) => request.then("compact"),
        })
    }
}

impl Server {
    /// Starts the process.
    pub fn start(mut command: Command, name: &'static str) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { name, child, input, output }
    }

    /// Carries the commands out; returns the rows that they asked for.
    pub fn ask(&mut self, request: &Request) -> Result<Rows, String> {
        let input = self.input.as_mut().unwrap();
        input.write_all(request.0.as_bytes()).unwrap();
        input.write_all(b"end\n").unwrap();
        input.flush().unwrap();
        let mut rows = Rows::new();
        let mut failure = None;
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the process of {} is gone", self.name);
            let line = line.trim_end_matches('\n');
            match line.split_once('\t') {
                _ if line == "." => return failure.map_or(Ok(rows), Err),
                Some((key, value)) => drop(rows.insert(unhex(key), unhex(value))),
                None if line.starts_with('!') => failure = Some(format!("{}: {line}", self.name)),
                None => {}
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
