//! What is in a directory without IDENTITY: what an attempt to create a database left behind, or a part of a database.

use crate::page::{self, PageId};
use crate::redo::FIRST_LSN;
use crate::space::{CHANGES_SPACE, space_of};
use siltstone_base::env::{DirEntry, Env, FileKind, FileOptions, IoContext, IoPriority};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::Path;

/// How many pages a tablespace is created with.
const FIRST_PAGES: usize = 3;

/// Fails if a tablespace has more than an attempt to create a database leaves: creating another one would delete rows of one that was not copied whole.
pub(super) fn refuse_data(env: &dyn Env, dir: &Path, names: &[DirEntry], page_len: usize) -> Result<()> {
    for entry in names {
        let Some(space) = space_of(&entry.name) else { continue };
        let path = dir.join(&entry.name);
        let failed = |error| Error::io("read", &path, error);
        let file = env.open_random(&path, &FileOptions::new(FileKind::Page)).map_err(failed)?;
        let len = env.file_len(&path).map_err(failed)?;
        let mut has_data = space > CHANGES_SPACE || len > (FIRST_PAGES * page_len) as u64;
        for number in 0..FIRST_PAGES {
            let mut page = vec![0; page_len];
            let context = IoContext::new(FileKind::Page, IoPriority::User);
            let read = file.read_at((number * page_len) as u64, &mut page, context).map_err(failed)?;
            // What was never synced may be anything, but no whole page that a change has reached.
            let lsn = page::verify(&page, PageId::new(space, number as u32));
            has_data |= read == page_len && lsn.is_ok_and(|lsn| lsn > FIRST_LSN);
        }
        if has_data {
            let message = format!("{} is of a database that lacks its IDENTITY", entry.name);
            return Err(Error::new(ErrorKind::MissingFile, message).with_file(&dir.join("IDENTITY")));
        }
    }
    Ok(())
}
