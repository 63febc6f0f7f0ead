//! RocksDB 11.8.1, many databases in one process, driven by the commands of `tests/tools/rocksdict_server.py` on standard input.
//!
//! `scripts/interop-11` builds it and lets the matrix of compatibility run against it.

#![expect(clippy::disallowed_methods, reason = "prepares directories for an engine that knows nothing of environments")]

use rocksdb::{BottommostLevelCompaction, Cache, CompactOptions, DB, Env, IteratorMode, Options};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What is open, and what was asked for.
struct Server {
    scratch: tempfile::TempDir,
    /// OPTIONS as RocksDB writes them by default.
    template: String,
    open: Option<(PathBuf, DB)>,
    out: String,
}

fn plain() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options
}

/// OPTIONS with another value of an option: a line of its own, or parts of lines, or a line that is new.
fn replaced(text: &str, name: &str, value: &str) -> String {
    let pattern = format!("{name}=");
    let is_own = |line: &str| line.trim_start().starts_with(&pattern);
    let inside = |line: &str| {
        line.match_indices(&pattern)
            .map(|(at, _)| at)
            .find(|at| line.get(..*at).is_some_and(|before| before.ends_with([';', '{'])))
    };
    let has_own = text.lines().any(is_own);
    let is_new = !has_own && !text.lines().any(|line| inside(line).is_some());
    let mut out = String::new();
    for line in text.lines() {
        match inside(line) {
            _ if is_own(line) => out.push_str(&format!("  {pattern}{value}")),
            Some(at) if !has_own => {
                let (before, found) = line.split_at(at);
                let end = found.find([';', '}']).unwrap_or(found.len());
                out.push_str(&format!("{before}{pattern}{value}{}", &found[end..]));
            }
            _ => out.push_str(line),
        }
        out.push('\n');
        if is_new && line == "[CFOptions \"default\"]" {
            out.push_str(&format!("  {pattern}{value}\n"));
        }
    }
    out
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && name != "LOCK" && !name.starts_with("LOG") {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

fn unhex(text: &str) -> Outcome<Vec<u8>> {
    let digits = |at: usize| text.get(at..at + 2).ok_or("an odd number of digits");
    (0..text.len()).step_by(2).map(|at| Ok(u8::from_str_radix(digits(at)?, 16)?)).collect()
}

fn push_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

impl Server {
    fn new() -> Outcome<Self> {
        let scratch = tempfile::tempdir()?;
        let place = scratch.path().join("template");
        drop(DB::open(&plain(), &place)?);
        let mut template = String::new();
        for entry in fs::read_dir(&place)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("OPTIONS-")) {
                template = fs::read_to_string(path)?;
            }
        }
        Ok(Self { scratch, template, open: None, out: String::new() })
    }

    fn open(&mut self, dir: &str, settings: &[&str]) -> Outcome<()> {
        let mut text = replaced(&self.template, "disable_auto_compactions", "true");
        for setting in settings {
            let (name, value) = setting.split_once('=').ok_or("not NAME=VALUE")?;
            text = replaced(&text, name, value);
        }
        let place = self.scratch.path().join("options");
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place)?;
        fs::write(place.join("OPTIONS-000007"), text)?;
        let (_, families) = Options::load_latest(&place, Env::new()?, false, Cache::new_lru_cache(8 << 20))?;
        self.open = Some((PathBuf::from(dir), DB::open_cf_descriptors(&plain(), dir, families)?));
        Ok(())
    }

    fn run(&mut self, line: &str) -> Outcome<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        let field = |index: usize| fields.get(index).copied().ok_or("a field is missing");
        let opened = || self.open.as_ref().map(|(_, db)| db).ok_or("nothing is open");
        match field(0)? {
            "open" => self.open(field(1)?, fields.get(2..).unwrap_or_default())?,
            "put" => opened()?.put(unhex(field(1)?)?, unhex(field(2)?)?)?,
            "merge" => opened()?.merge(unhex(field(1)?)?, unhex(field(2)?)?)?,
            "delete" => opened()?.delete(unhex(field(1)?)?)?,
            "delete_range" => {
                let db = opened()?;
                let family = db.cf_handle("default").ok_or("no default family")?;
                db.delete_range_cf(family, unhex(field(1)?)?, unhex(field(2)?)?)?;
            }
            "flush" => opened()?.flush()?,
            "compact" => {
                let mut options = CompactOptions::default();
                options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
                opened()?.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
            }
            "rows" => {
                let mut out = String::new();
                let db = opened()?;
                let mut walk = db.raw_iterator();
                for row in db.iterator(IteratorMode::Start) {
                    let (key, value) = row?;
                    walk.seek(&key);
                    if db.get(&key)?.as_deref() != Some(&*value) || walk.key() != Some(&*key) {
                        return Err("a row that only a walk finds".into());
                    }
                    push_hex(&mut out, &key);
                    out.push('\t');
                    push_hex(&mut out, &value);
                    out.push('\n');
                }
                self.out.push_str(&out);
            }
            "leave" => {
                let (dir, db) = self.open.take().ok_or("nothing is open")?;
                let left = dir.with_extension("left");
                // Files that a compaction made obsolete may go while they are copied.
                let mut attempts = 0;
                while let Err(error) = copy(&dir, &left) {
                    fs::remove_dir_all(&left)?;
                    attempts += 1;
                    if attempts == 50 {
                        return Err(error);
                    }
                }
                drop(db);
                fs::remove_dir_all(&dir)?;
                fs::rename(&left, &dir)?;
            }
            "close" => self.open = None,
            // The independent reader belongs to the other server.
            "check" => {}
            other => return Err(format!("unknown command {other}").into()),
        }
        Ok(())
    }
}

fn main() -> Outcome<()> {
    let mut server = Server::new()?;
    let mut failure: Option<String> = None;
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line != "end" {
            if failure.is_none() {
                failure = server.run(&line).err().map(|error| error.to_string().replace('\n', " "));
            }
            continue;
        }
        let answer = match failure.take() {
            Some(message) => {
                server.open = None;
                format!("! {message}\n")
            }
            None => std::mem::take(&mut server.out),
        };
        server.out.clear();
        let mut out = io::stdout().lock();
        out.write_all(answer.as_bytes())?;
        out.write_all(b".\n")?;
        out.flush()?;
    }
    Ok(())
}
