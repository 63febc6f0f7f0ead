//! The MANIFEST as a file: appending edits, starting a new one, and the switch of CURRENT.

use super::VersionSetConfig;
use crate::file_names::FileName;
use crate::metrics::HistogramKind;
use crate::version::VersionEdit;
use crate::version::edit::MAX_EDIT_BYTES;
use crate::wal::WalWriter;
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority, read_file};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::{Error, ErrorKind, Result};
use std::io;
use std::path::Path;

/// Everything that is done with a MANIFEST.
pub(super) const CONTEXT: IoContext = IoContext::new(FileKind::Manifest, IoPriority::High);

/// The log number of a MANIFEST's records.
pub(super) const LOG_NUMBER: u64 = 0;

/// The longest CURRENT.
const MAX_CURRENT_BYTES: u64 = 64;

/// The MANIFEST that edits are appended to.
#[derive(Debug)]
pub(super) enum Manifest {
    /// There is none yet: the next edit starts one.
    None,
    /// All that was appended is durable.
    Open(WalWriter),
    /// A write failed; the next edit starts a new one.
    Broken,
}

/// Appends `edits`, without a sync.
pub(super) fn append(writer: &mut WalWriter, edits: &[VersionEdit]) -> Result<()> {
    let mut record = Vec::new();
    for edit in edits {
        record.clear();
        edit.encode(&mut record);
        if record.len() > MAX_EDIT_BYTES {
            return Err(Error::new(ErrorKind::LimitExceeded, format!("version edit of {} bytes", record.len())));
        }
        writer.add_record(&[&record])?;
    }
    Ok(())
}

/// Makes what was appended durable.
pub(super) fn sync(config: &VersionSetConfig, writer: &mut WalWriter) -> Result<()> {
    match &config.metrics {
        Some(metrics) => metrics.measured(HistogramKind::ManifestFileSync, || writer.sync()),
        None => writer.sync(),
    }
}

/// Creates MANIFEST `number` with `snapshot` and `edits`, and makes it durable. CURRENT does not name it yet.
pub(super) fn create(
    config: &VersionSetConfig,
    number: u64,
    snapshot: &[VersionEdit],
    edits: &[VersionEdit],
) -> Result<WalWriter> {
    let written = write(config, number, snapshot, edits);
    if written.is_err() {
        // CURRENT does not name it, so it is only a waste of space. The error that counts is the first one.
        let _ = config.env.remove_file(&FileName::Manifest(number).path(&config.dir));
    }
    written
}

/// Lets CURRENT name MANIFEST `number`, which is durable. After an error CURRENT names either this MANIFEST or the one before.
pub(super) fn switch_to(config: &VersionSetConfig, number: u64, writer: &mut WalWriter) -> Result<()> {
    switch_current(config, number)?;
    if is_planted(PlantedBug::CurrentBeforeManifest) {
        writer.sync()?;
    }
    Ok(())
}

fn write(config: &VersionSetConfig, number: u64, snapshot: &[VersionEdit], edits: &[VersionEdit]) -> Result<WalWriter> {
    let path = FileName::Manifest(number).path(&config.dir);
    let file = config.env.create_append(&path, &FileOptions::new(FileKind::Manifest));
    let file = file.map_err(|source| Error::io("create", &path, source))?;
    let mut writer = WalWriter::new(file, path, LOG_NUMBER, CONTEXT);
    append(&mut writer, snapshot)?;
    append(&mut writer, edits)?;
    if !is_planted(PlantedBug::CurrentBeforeManifest) {
        sync(config, &mut writer)?;
        sync_dir(config)?;
    }
    Ok(writer)
}

/// Replaces CURRENT by one that names MANIFEST `number`.
fn switch_current(config: &VersionSetConfig, number: u64) -> Result<()> {
    let temporary = FileName::Temporary(number).path(&config.dir);
    let content = format!("{}\n", FileName::Manifest(number));
    let written = write_temporary(config, &temporary, content.as_bytes());
    if written.is_err() {
        // As above: the first error counts.
        let _ = config.env.remove_file(&temporary);
    }
    written.map_err(|source| Error::io("write", &temporary, source))?;
    let current = FileName::Current.path(&config.dir);
    config.env.rename(&temporary, &current).map_err(|source| Error::io("replace", &current, source))?;
    if is_planted(PlantedBug::CurrentRenameIsNotSynced) {
        return Ok(());
    }
    sync_dir(config)
}

fn write_temporary(config: &VersionSetConfig, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = config.env.create_append(path, &FileOptions::new(FileKind::Manifest))?;
    file.append(content, CONTEXT)?;
    file.sync_data(CONTEXT)?;
    file.finish()
}

fn sync_dir(config: &VersionSetConfig) -> Result<()> {
    config.env.sync_dir(&config.dir).map_err(|source| Error::io("sync", &config.dir, source))
}

/// The number of the MANIFEST that CURRENT names.
///
/// # Errors
///
/// `MissingFile` if there is no CURRENT; `Corruption` if it names nothing.
pub(super) fn read_current(config: &VersionSetConfig) -> Result<u64> {
    let path = FileName::Current.path(&config.dir);
    let content = match read_file(&*config.env, &path, FileKind::Manifest, MAX_CURRENT_BYTES) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return Err(Error::corruption(&path, MAX_CURRENT_BYTES, "CURRENT is too long"));
        }
        Err(error) => return Err(Error::io("read", &path, error)),
    };
    let name = std::str::from_utf8(&content).ok().and_then(|text| text.strip_suffix('\n'));
    match name.and_then(FileName::parse) {
        Some(FileName::Manifest(number)) => Ok(number),
        _ => Err(Error::corruption(&path, 0, "CURRENT does not name a MANIFEST")),
    }
}

/// The error for a MANIFEST `number` that does not exist. Whether it was lost or CURRENT is damaged, CURRENT is where to look.
#[cold]
pub(super) fn named_but_missing(config: &VersionSetConfig, number: u64) -> Error {
    let message = format!("CURRENT names {}, which is missing", FileName::Manifest(number));
    Error::new(ErrorKind::MissingFile, message).with_file(&FileName::Current.path(&config.dir)).with_offset(0)
}

/// Opens MANIFEST `number` to go on behind whatever it ends with: the mistake that a test plants.
pub(super) fn reopen(config: &VersionSetConfig, number: u64) -> Manifest {
    let path = FileName::Manifest(number).path(&config.dir);
    match config.env.open_append(&path, &FileOptions::new(FileKind::Manifest)) {
        Ok(file) => Manifest::Open(WalWriter::new(file, path, LOG_NUMBER, CONTEXT)),
        Err(_) => Manifest::Broken,
    }
}
