//! The files that the database is made of at one moment: what checkpoints, backups and clones copy.

use super::state::DbInner;
use crate::file_names::FileName;
use crate::key::SeqNo;
use crate::wal::WalWriter;
use siltstone_base::env::{FileKind, read_file};
use siltstone_base::expiry::MAX_RECORD_BYTES;
use siltstone_base::{Error, ErrorKind, Result};

/// What a [`LiveFile`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LiveFileKind {
    /// A table: written once, never changed.
    Table,
    /// A blob file: written once, never changed.
    Blob,
    /// A write-ahead log. The last one may grow.
    Wal,
    /// The MANIFEST. It may grow.
    Manifest,
    /// The newest OPTIONS file: written once.
    Options,
    /// IDENTITY: written once.
    Identity,
    /// EXPIRY, what is remembered of expired rows: another one takes its place.
    Expiry,
}

impl LiveFileKind {
    /// Whether the file never changes, so that a second name of it is as good as a copy.
    pub const fn is_written_once(self) -> bool {
        !matches!(self, Self::Wal | Self::Manifest | Self::Expiry)
    }
}

/// A file of a database at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveFile {
    /// Its name in the directory of the database.
    pub name: String,
    /// What it is.
    pub kind: LiveFileKind,
    /// Its number; 0 if it has none.
    pub number: u64,
    /// Bytes of it that belong to the moment. What lies behind them came later.
    pub size: u64,
    /// CRC32c of the file, where the MANIFEST states it.
    pub crc: Option<u32>,
}

/// The files of a database at one moment. CURRENT is not among them: it consists of [`current`](Self::current), and whoever makes a copy writes it
/// last.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveFiles {
    /// The largest sequence number of the moment.
    pub seqno: SeqNo,
    /// What CURRENT says.
    pub current: String,
    /// What EXPIRY says, if it is there. It is replaced at any time: whoever makes a copy writes this.
    pub expiry: Option<Vec<u8>>,
    /// Tables, blob files, the MANIFEST, OPTIONS, IDENTITY and EXPIRY if there are any, and the WALs, by their numbers.
    pub files: Vec<LiveFile>,
}

impl LiveFiles {
    /// The files of one kind.
    pub fn of_kind(&self, kind: LiveFileKind) -> impl Iterator<Item = &LiveFile> {
        self.files.iter().filter(move |file| file.kind == kind)
    }

    /// Bytes of all WALs.
    pub fn wal_bytes(&self) -> u64 {
        self.of_kind(LiveFileKind::Wal).map(|file| file.size).sum()
    }
}

impl DbInner {
    /// The files of this moment.
    pub(crate) fn live_files(&self) -> Result<LiveFiles> {
        self.check_writable()?;
        self.mend_manifest()?;
        let mut live = self.listed_files()?;
        for file in live.files.iter_mut().filter(|file| matches!(file.kind, LiveFileKind::Table | LiveFileKind::Blob)) {
            self.look_at(file)?;
        }
        self.add_small_files(&mut live.files)?;
        live.files.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        Ok(live)
    }

    /// What the MANIFEST and the WALs are made of. Nothing is written meanwhile, and no edit is under way, so that both are of one moment.
    fn listed_files(&self) -> Result<LiveFiles> {
        let leader = self.lock_write_side();
        let versions = self.versions.lock();
        self.check_writable()?;
        let Some((manifest, manifest_len)) = versions.durable_manifest() else {
            return Err(Error::new(ErrorKind::Busy, "the outcome of the last write of the MANIFEST is unknown"));
        };
        let mut files = vec![live_file(FileName::Manifest(manifest), LiveFileKind::Manifest, manifest_len)];
        // Before or after this moment a row may live by another duration.
        let expiry = self.expiry_file()?;
        if let Some(bytes) = &expiry {
            files.push(live_file(FileName::Expiry, LiveFileKind::Expiry, bytes.len() as u64));
        }
        for family in versions.families() {
            let version = family.current();
            let tables = version.all_files();
            files.extend(tables.map(|(_, file)| LiveFile {
                crc: file.file_crc(),
                ..live_file(FileName::Table(file.number), LiveFileKind::Table, file.file_size)
            }));
            let blobs = version.blob_files().numbers();
            files.extend(blobs.map(|number| live_file(FileName::Blob(number), LiveFileKind::Blob, 0)));
        }
        let state = self.state.lock();
        for wal in &state.wals {
            let size = match (&leader.side.wal, wal.number == leader.side.wal_number) {
                // What was acknowledged: a failed append may have left more.
                (Some(writer), true) => WalWriter::len(writer),
                _ => wal.size,
            };
            // An empty one in between is named by the one behind it.
            if size > 0 || wal.number != leader.side.wal_number {
                files.push(live_file(FileName::Wal(wal.number), LiveFileKind::Wal, size));
            }
        }
        let current = format!("{}\n", FileName::Manifest(manifest));
        Ok(LiveFiles { seqno: leader.side.last_seqno, current, expiry, files })
    }

    /// What EXPIRY says, if it is there.
    fn expiry_file(&self) -> Result<Option<Vec<u8>>> {
        let path = FileName::Expiry.path(&self.dir);
        match read_file(&*self.env, &path, FileKind::Other, MAX_RECORD_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path, error)),
        }
    }

    /// Finds out what the MANIFEST does not say: the length of a blob file, and whether a table has its old name.
    fn look_at(&self, file: &mut LiveFile) -> Result<()> {
        let path = self.dir.join(&file.name);
        let len = match (self.env.file_len(&path), file.kind) {
            (Err(error), LiveFileKind::Table) if error.kind() == std::io::ErrorKind::NotFound => {
                file.name = FileName::LegacyTable(file.number).to_string();
                self.env.file_len(&self.dir.join(&file.name))
            }
            (len, _) => len,
        };
        let len = len.map_err(|error| Error::io("measure", &path, error))?;
        if file.kind == LiveFileKind::Blob {
            file.size = len;
        } else if len != file.size {
            let message = format!("table has {len} bytes, not the {} of the MANIFEST", file.size);
            return Err(Error::corrupt(message).with_file(&path));
        }
        Ok(())
    }

    /// Adds IDENTITY and the newest OPTIONS file.
    fn add_small_files(&self, files: &mut Vec<LiveFile>) -> Result<()> {
        let entries = self.env.list_dir(&self.dir).map_err(|error| Error::io("list", &self.dir, error))?;
        let names = || entries.iter().filter(|entry| !entry.is_dir).filter_map(|entry| FileName::parse(&entry.name));
        let options = names().filter(|name| matches!(name, FileName::Options(_))).max();
        let identity = names().find(|name| *name == FileName::Identity);
        for (name, kind) in [(options, LiveFileKind::Options), (identity, LiveFileKind::Identity)] {
            let Some(name) = name else { continue };
            let path = name.path(&self.dir);
            let size = self.env.file_len(&path).map_err(|error| Error::io("measure", &path, error))?;
            files.push(live_file(name, kind, size));
        }
        Ok(())
    }
}

fn live_file(name: FileName, kind: LiveFileKind, size: u64) -> LiveFile {
    LiveFile { name: name.to_string(), kind, number: name.number().unwrap_or(0), size, crc: None }
}
