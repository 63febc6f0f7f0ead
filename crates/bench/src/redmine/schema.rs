//! The tables of Redmine 3.3.1 that creating and processing tasks touches.
//!
//! Keys are the row's number; values begin with columns of fixed length, integers of four bytes in memcomparable form, so that indexes find them in their places; texts follow.
//! 0 stands for NULL.

use siltstone_base::engine::{Row, TableSpec};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::memcomparable::{get, put};
use siltstone_base::{Error, Result};
use std::ops::Range;

/// A column of four bytes.
const fn column(number: usize) -> Range<usize> {
    number * 4..number * 4 + 4
}

fn index(name: &str, columns: impl IntoIterator<Item = usize>) -> IndexSpec {
    IndexSpec::over_columns(name, columns.into_iter().map(column))
}

/// Columns of `issues`, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Issue {
    Tracker,
    Project,
    Category,
    Status,
    AssignedTo,
    Priority,
    FixedVersion,
    Author,
    LockVersion,
    /// Has no index: the search by it reads the whole table.
    Parent,
    Root,
    Left,
    Right,
    CreatedOn,
    UpdatedOn,
}

/// Columns of `issues` before its texts.
pub(super) const ISSUE_COLUMNS: usize = Issue::UpdatedOn as usize + 1;

/// The position of the index by assignee.
pub(super) const BY_ASSIGNEE: usize = 3;

/// `issues`, with its ten secondary indexes.
pub(super) fn issues() -> TableSpec {
    use Issue::{
        AssignedTo, Author, Category, CreatedOn, FixedVersion, Left, Priority, Project, Right, Root, Status, Tracker,
    };
    let by = |name: &str, column: Issue| index(name, [column as usize]);
    let indexes = vec![
        by("project_id", Project),
        by("status_id", Status),
        by("category_id", Category),
        by("assigned_to_id", AssignedTo),
        by("fixed_version_id", FixedVersion),
        by("tracker_id", Tracker),
        by("priority_id", Priority),
        by("author_id", Author),
        by("created_on", CreatedOn),
        index("root_id_and_lft_and_rgt", [Root as usize, Left as usize, Right as usize]),
    ];
    TableSpec { name: "issues".to_owned(), indexes }
}

/// `journals`: journalized_id, journalized_type, user_id, created_on, notes.
pub(super) fn journals() -> TableSpec {
    let indexes = vec![
        index("journalized", [0, 1]),
        index("user_id", [2]),
        index("journalized_id", [0]),
        index("created_on", [3]),
    ];
    TableSpec { name: "journals".to_owned(), indexes }
}

/// `journal_details`: journal_id, then property, key, old and new value.
pub(super) fn journal_details() -> TableSpec {
    TableSpec { name: "journal_details".to_owned(), indexes: vec![index("journal_id", [0])] }
}

/// `users`: type, then names.
pub(super) fn users() -> TableSpec {
    TableSpec { name: "users".to_owned(), indexes: vec![index("type", [0])] }
}

/// `projects`: lft, rgt, then name and description.
pub(super) fn projects() -> TableSpec {
    TableSpec { name: "projects".to_owned(), indexes: vec![index("lft", [0]), index("rgt", [1])] }
}

/// `members`: user_id, project_id, role.
pub(super) fn members() -> TableSpec {
    let mut both = index("user_id_and_project_id", [0, 1]);
    both.unique = true;
    TableSpec { name: "members".to_owned(), indexes: vec![both, index("user_id", [0]), index("project_id", [1])] }
}

/// A row in memory that is used again.
#[derive(Debug, Clone, Default)]
pub(super) struct RowBuffer {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl RowBuffer {
    /// A row of these columns and this text, in place of the one before.
    pub(super) fn set(&mut self, id: u32, columns: &[u32], text: &[u8]) {
        encode_id(id, &mut self.key);
        self.value.clear();
        for column in columns {
            put::<i32>(&mut self.value, *column as i32);
        }
        self.value.extend_from_slice(text);
    }

    /// Column `place`.
    pub(super) fn get(&self, place: usize) -> Result<u32> {
        decode_column(&self.value, place)
    }

    /// Sets column `place`.
    pub(super) fn put(&mut self, place: usize, number: u32) -> Result<()> {
        let mut encoded = Vec::with_capacity(4);
        put::<i32>(&mut encoded, number as i32);
        self.value.get_mut(column(place)).ok_or_else(cut)?.copy_from_slice(&encoded);
        Ok(())
    }

    pub(super) fn as_row(&self) -> Row<'_> {
        Row { primary_key: &self.key, value: &self.value }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// The key of row `id`.
pub(super) fn encode_id(id: u32, key: &mut Vec<u8>) {
    key.clear();
    put::<i32>(key, id as i32);
}

/// The number of a row, at the end of an index entry.
pub(super) fn id_at_end(entry: &[u8]) -> Result<u32> {
    let start = entry.len().checked_sub(4).ok_or_else(cut)?;
    Ok(get::<i32>(&mut entry.get(start..).ok_or_else(cut)?)? as u32)
}

/// Column `place` of a row's value.
pub(super) fn decode_column(value: &[u8], place: usize) -> Result<u32> {
    Ok(get::<i32>(&mut value.get(column(place)).ok_or_else(cut)?)? as u32)
}

#[cold]
fn cut() -> Error {
    Error::corrupt("a row of Redmine's is cut off")
}
