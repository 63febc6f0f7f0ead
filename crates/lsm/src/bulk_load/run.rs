//! One sorted run: tables that follow each other.

use super::WorkDirectory;
use crate::external::SstFileWriter;
use crate::key::InternalKeyComparator;
use siltstone_base::Result;
use std::path::PathBuf;

/// Tables of ascending keys.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Ascending.
    pub(super) tables: Vec<PathBuf>,
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
}

/// Writes a run.
#[derive(Debug)]
pub(super) struct RunWriter {
    order: InternalKeyComparator,
    run: Run,
    writer: Option<SstFileWriter>,
    is_empty: bool,
}

impl RunWriter {
    pub(super) fn new(order: &InternalKeyComparator) -> Self {
        Self { order: order.clone(), run: Run::default(), writer: None, is_empty: true }
    }

    /// Whether all rows so far come before `key`.
    pub(super) fn goes_before(&self, key: &[u8]) -> bool {
        self.is_empty || self.order.compare_user(&self.run.largest, key).is_lt()
    }

    /// Adds a row behind all others.
    pub(super) fn put(&mut self, work: &mut WorkDirectory, key: &[u8], value: &[u8]) -> Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let path = work.next_path();
                self.run.tables.push(path.clone());
                self.writer.insert(SstFileWriter::create(path, &work.options, &work.family)?)
            }
        };
        writer.put(key, value)?;
        if std::mem::take(&mut self.is_empty) {
            self.run.smallest = key.to_vec();
        }
        self.run.largest.clear();
        self.run.largest.extend_from_slice(key);
        if writer.file_size() >= work.family.target_file_size_base {
            self.end_table()?;
        }
        Ok(())
    }

    /// Ends the run; `None` if there is nothing in it.
    pub(super) fn finish(mut self) -> Result<Option<Run>> {
        self.end_table()?;
        Ok((!self.is_empty).then_some(self.run))
    }

    fn end_table(&mut self) -> Result<()> {
        self.writer.take().map_or(Ok(()), |writer| writer.finish().map(|_| ()))
    }
}
