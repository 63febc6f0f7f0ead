//! What is undecided when a database is opened is prepared again: in the new WAL, so that no older one is needed.
//!
//! Order: the sections are in a file with a temporary name, and durable; then the file is the new WAL, and that is durable; then the MANIFEST says that no older WAL is
//! needed. A crash before the last step leaves the older WALs as they were, and a WAL that says of itself that it does not count yet: what the first recovery found may have been
//! more than is durable, and the next one begins with what is. A crash behind it leaves the new WAL alone.

use super::memtable_switch::WAL_CONTEXT;
use super::next_wal::create_wal_file;
use super::prepared::PreparedBatches;
use super::state::{LiveWal, Surroundings};
use super::wal_note::{append_own_number, append_repetition};
use crate::batch::{Phase, Step, encode_header};
use crate::file_names::FileName;
use crate::key::SeqNo;
use crate::wal::WalWriter;
use siltstone_base::{Error, Result};

/// Begins the WAL `number` with what is prepared, durably.
pub(super) fn prepare_again(
    surroundings: &Surroundings,
    number: u64,
    memtable_bytes: usize,
    last_seqno: SeqNo,
    prepared: &mut PreparedBatches,
) -> Result<(WalWriter, LiveWal)> {
    let (env, dir) = (&*surroundings.env, &surroundings.dir);
    let (temporary, path) = (FileName::Temporary(number).path(dir), FileName::Wal(number).path(dir));
    let (file, sync) = create_wal_file(env, &temporary, memtable_bytes)?;
    let mut wal = WalWriter::new(file, path.clone(), number, WAL_CONTEXT);
    let mut notes = Vec::new();
    append_own_number(&mut notes, number);
    append_repetition(&mut notes, &surroundings.db_id);
    for (name, batch) in prepared {
        batch.set_phase(Some(Phase::new(Step::Prepare, name)));
        let ([front, body, back], count) = batch.logged();
        wal.add_record(&[&encode_header(last_seqno + 1, count), &notes, front, body, back])?;
        notes.clear();
    }
    wal.sync()?;
    env.rename(&temporary, &path).map_err(|error| Error::io("rename", &temporary, error))?;
    env.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
    let live = LiveWal { number, size: 0, written: wal.written(), sync, synced: false };
    Ok((wal, live))
}
