//! Whose operands a family has, as an OPTIONS file knows it.
//!
//! RocksDB's `merge_operator` says what the family was opened with last; RocksDB compares it with nothing. This engine says in `merge_operator_name`, which is its own, moreover
//! that it has looked: a bare name is that of all operands there are, and `nullptr` says that there are none. Behind a `*` the family may have operands of others, too.

use super::values::{NOTHING, id, is_nothing};
use super::{FAMILY, OptionsFile};
use crate::merge::{self, MergeOperator};
use crate::options::ColumnFamilyOptions;
use std::fmt::Write;
use std::sync::Arc;

/// The name of the engine's own entry.
pub(super) const OWN_NAME: &str = "merge_operator_name";

/// What stands before a name that does not hold for all operands.
const AMONG_OTHERS: char = '*';

/// What an OPTIONS file says of a family's merge operator.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperatorRecord {
    /// The name of the operator that the family was opened with, as [`plain`] has it; `None` if there was none, or if the file does not say.
    pub(crate) name: Option<String>,
    /// Whether no table has operands of another name.
    pub(crate) is_of_all: bool,
    /// The operator, if it is one that comes with RocksDB and this engine.
    pub(crate) built_in: Option<Arc<dyn MergeOperator>>,
}

impl OptionsFile {
    /// What the file says of the merge operator of `family`.
    pub(crate) fn merge_operator(&self, family: &str) -> OperatorRecord {
        let Some(section) = self.ini.section(FAMILY, Some(family)) else { return OperatorRecord::default() };
        let value = |name, is_own| section.get(name, is_own).map(|entry| entry.value.as_str());
        let of_rocksdb = value("merge_operator", false).filter(|text| !is_nothing(text));
        let built_in = of_rocksdb.and_then(merge::built_in);
        let (name, is_of_all) = match value(OWN_NAME, true) {
            None => {
                let name = || built_in.as_ref().map(|operator| operator.name()).or(of_rocksdb.map(id));
                (name().map(plain), false)
            }
            Some(own) => match own.strip_prefix(AMONG_OTHERS) {
                Some(name) => (Some(name.to_owned()), false),
                None => (Some(own.to_owned()), true),
            },
        };
        let name = name.filter(|name| !is_nothing(name));
        let built_in = built_in.filter(|operator| name.as_ref() == Some(&plain(operator.name())));
        OperatorRecord { name, is_of_all, built_in }
    }
}

/// What the engine's own entry says of a family with these options. Opening has compared.
pub(super) fn own_text(options: &ColumnFamilyOptions) -> String {
    let name = options.merge_operator.as_ref().map(|operator| plain(operator.name()));
    match (name, options.allow_other_merge_operator) {
        (name, true) => format!("{AMONG_OTHERS}{}", name.unwrap_or_default()),
        (Some(name), false) => name,
        (None, false) => NOTHING.to_owned(),
    }
}

/// A name of an operator such that a line can hold it, and that nothing else is written like it.
pub(crate) fn plain(name: &str) -> String {
    let is_plain = |at: usize, byte: u8| match byte {
        b'%' | b'#' | b'\\' => false,
        _ if at == 0 && (name == NOTHING || byte == AMONG_OTHERS as u8) => false,
        _ => byte.is_ascii_graphic(),
    };
    let mut text = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        match is_plain(at, byte) {
            true => text.push(char::from(byte)),
            false => {
                let _ = write!(text, "%{byte:02x}");
            }
        }
    }
    text
}
