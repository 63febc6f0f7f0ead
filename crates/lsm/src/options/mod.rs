//! Options. Every struct is a builder: `DbOptions::default().create_if_missing(true)`.

/// Defines an options struct: public documented fields, defaults, one builder method a field, and the list of names.
macro_rules! options {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $(#[$field_meta:meta])* $field:ident : $type:ty = $default:expr, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $name {
            /// The names of all options of this struct.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($field), )*];

            $(
                $(#[$field_meta])*
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

mod column_family;
mod database;
pub(crate) mod file;
mod operation;
mod table;
#[cfg(test)]
mod tests;
mod validate;

pub use column_family::ColumnFamilyOptions;
pub use database::{DbOptions, FileChecksum, WalRecoveryMode, WriteAdmission};
pub use file::{IgnoredOption, LoadedOptions};
pub use operation::{CompactRangeOptions, FlushOptions, ReadOptions, ReadTier, WriteOptions};
pub use siltstone_base::compression::CompressionType;
pub use table::{ChecksumType, DataBlockIndexType, FilterPolicy, IndexType, TableOptions};
