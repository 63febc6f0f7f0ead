//! What the version set knows of one column family.

use crate::key::{ColumnFamilyId, InternalKeyComparator};
use crate::options::ColumnFamilyOptions;
use crate::version::{Version, VersionEdit};
use siltstone_base::comparator::Comparator;
use siltstone_base::sync::Arc;

/// About the most bytes of one edit of a snapshot.
const EDIT_BYTES: usize = 1 << 20;

/// About as many bytes has a file in an edit besides its keys.
const FILE_BYTES: usize = 256;

/// What a family must be opened with.
#[derive(Debug, Clone)]
pub(crate) struct FamilyConfig {
    /// The order of its keys.
    pub(crate) comparator: Arc<dyn Comparator>,
    /// Its number of levels.
    pub(crate) num_levels: usize,
}

impl From<&ColumnFamilyOptions> for FamilyConfig {
    fn from(options: &ColumnFamilyOptions) -> Self {
        Self { comparator: Arc::clone(&options.comparator), num_levels: options.num_levels }
    }
}

/// What the MANIFEST says of a family that somebody must say how to open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FamilyRecord<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The name of its comparator, if the MANIFEST states one.
    pub(crate) comparator: Option<&'a str>,
    /// How many levels it needs for the tables that it has.
    pub(crate) levels: usize,
}

/// One column family.
#[derive(Debug)]
pub(crate) struct Family {
    pub(super) id: ColumnFamilyId,
    pub(super) name: String,
    pub(super) comparator: InternalKeyComparator,
    pub(super) log_number: u64,
    pub(super) current: Arc<Version>,
    /// What was true at earlier timestamps of its keys may be gone.
    pub(super) timestamp_low: u64,
    /// The epoch of the next file that enters level 0.
    pub(super) next_epoch: u64,
}

impl Family {
    /// A family without tables.
    pub(super) fn empty(id: ColumnFamilyId, name: String, config: &FamilyConfig, log_number: u64) -> Self {
        let comparator = InternalKeyComparator::new(Arc::clone(&config.comparator));
        let current = Arc::new(Version::empty(id, comparator.clone(), config.num_levels));
        // Epoch 1 is that of files older than any flush.
        Self { id, name, comparator, log_number, current, timestamp_low: 0, next_epoch: 2 }
    }

    /// Its number.
    pub(crate) fn id(&self) -> ColumnFamilyId {
        self.id
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The smallest WAL that still holds entries of it that no table has.
    pub(crate) fn log_number(&self) -> u64 {
        self.log_number
    }

    /// The timestamp before which it keeps no history; 0 where keys have none.
    pub(crate) fn timestamp_low(&self) -> u64 {
        self.timestamp_low
    }

    /// Its tables.
    pub(crate) fn current(&self) -> &Arc<Version> {
        &self.current
    }

    /// Appends edits that lead from nothing to this family.
    pub(super) fn snapshot(&self, edits: &mut Vec<VersionEdit>) {
        let mut first = VersionEdit::new(self.id);
        first.comparator = Some(self.comparator.user().name().to_owned());
        first.timestamp_low = Some(self.timestamp_low).filter(|low| *low != 0);
        first.add_family = (self.id.0 != 0).then(|| self.name.clone());
        edits.push(first);
        let mut edit = VersionEdit::new(self.id);
        edit.log_number = Some(self.log_number);
        let mut bytes = 0;
        for (level, file) in self.current.all_files() {
            if bytes > EDIT_BYTES {
                edits.push(std::mem::replace(&mut edit, VersionEdit::new(self.id)));
                bytes = 0;
            }
            let data = file.data();
            bytes += FILE_BYTES + data.smallest.as_bytes().len() + data.largest.as_bytes().len();
            edit.add_file(level, data);
        }
        edit.blob_files.extend(self.current.blob_files().snapshot());
        edits.push(edit);
    }
}
