//! Whether a directory is opened with the merge operators that it was written with.
//!
//! Compared before a WAL is replayed: what a flush makes of operands it writes under the name of the operator that it has. A family's OPTIONS say the name. If RocksDB wrote them, or if they are
//! lost, the tables that have operands say theirs. Operands in a WAL name nobody; who has no operator is refused when one is met (see [recovery](super::recovery)).

use super::column_family::Family;
use crate::options::ColumnFamilyOptions;
use crate::options::file::{OperatorRecord, OptionsFile, plain};
use crate::version::Version;
use siltstone_base::{Error, ErrorKind, Result};

/// `options` with the operator that `found` says for the family `name`, where they have none, if it comes with RocksDB and this engine.
pub(super) fn with_known_operator(
    mut options: ColumnFamilyOptions,
    name: &str,
    found: Option<&OptionsFile>,
) -> ColumnFamilyOptions {
    if options.merge_operator.is_none() && options.expiry.is_none() && !options.allow_other_merge_operator {
        options.merge_operator = found.and_then(|found| found.merge_operator(name).built_in);
    }
    options
}

/// Refuses a family that was written with another operator than it is opened with.
pub(super) fn check(family: &Family, version: &Version, found: Option<&OptionsFile>) -> Result<()> {
    let options = family.options();
    if options.allow_other_merge_operator {
        return Ok(());
    }
    let record = found.map(|found| found.merge_operator(&family.name)).unwrap_or_default();
    check_record(&family.name, &options, &record)?;
    if record.is_of_all {
        return Ok(());
    }
    for (_, file) in version.all_files() {
        // One that is open was asked when it was opened.
        if file.reader.get().is_some() {
            continue;
        }
        // They are not kept open: there may be more of them than files may be open. What else is wrong with one concerns whoever reads it.
        match family.table_cache.open_anew(file) {
            Err(error) if error.kind() == ErrorKind::InvalidArgument => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn check_record(family: &str, options: &ColumnFamilyOptions, record: &OperatorRecord) -> Result<()> {
    let ours = options.merge_operator.as_ref().map(|operator| operator.name());
    // RocksDB's tools name an operator whether or not anything is merged: without one, what tables and WALs have is asked.
    let is_idle = ours.is_none() && !record.is_of_all;
    match &record.name {
        _ if is_idle => Ok(()),
        Some(theirs) if ours.map(plain).as_ref() != Some(theirs) => {
            let ours = ours.unwrap_or("none");
            Err(Error::invalid_argument(format!(
                "merge_operator: column family {family} was written with {theirs} and is opened with {ours}; allow_other_merge_operator opens it all the same"
            )))
        }
        _ => Ok(()),
    }
}

/// The error of a WAL with operands of a family that has no operator.
#[cold]
pub(super) fn no_operator_for_log(family: &str) -> Error {
    Error::invalid_argument(format!(
        "merge_operator: the log has operands of column family {family}, which is opened with none; allow_other_merge_operator opens it all the same"
    ))
}
