//! Names of the files of a database directory, as RocksDB gives them.
//!
//! Every kind of numbered file draws from one counter; numbers are decimal, padded to six digits.

use std::fmt;
use std::path::{Path, PathBuf};

/// The name of the file that names the live MANIFEST.
pub(crate) const CURRENT: &str = "CURRENT";
/// The name of the file that an open database holds a lock on.
pub(crate) const LOCK: &str = "LOCK";
/// The name of the file with the database's id.
pub(crate) const IDENTITY: &str = "IDENTITY";
/// The name of the file with what is remembered of expired rows.
pub(crate) const EXPIRY: &str = "EXPIRY";
/// The name of the info log.
const INFO_LOG: &str = "LOG";

/// What a file of a database directory is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileName {
    /// Names the live MANIFEST.
    Current,
    /// Held locked while the database is open.
    Lock,
    /// The database's id.
    Identity,
    /// What is remembered of expired rows.
    Expiry,
    /// The info log.
    InfoLog,
    /// An info log of the past; the number is the time of its end.
    OldInfoLog(u64),
    /// A write-ahead log.
    Wal(u64),
    /// A table.
    Table(u64),
    /// A table under the name that LevelDB gave it.
    LegacyTable(u64),
    /// A blob file.
    Blob(u64),
    /// A log of version edits.
    Manifest(u64),
    /// Options.
    Options(u64),
    /// Options that are being written.
    TemporaryOptions(u64),
    /// A file that is being written, to be renamed.
    Temporary(u64),
}

impl FileName {
    /// The meaning of `name`, unless it is no name of ours: such files are left alone.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            CURRENT => return Some(Self::Current),
            LOCK => return Some(Self::Lock),
            IDENTITY => return Some(Self::Identity),
            EXPIRY => return Some(Self::Expiry),
            INFO_LOG | "LOG.old" => return Some(Self::InfoLog),
            _ => {}
        }
        if let Some(digits) = name.strip_prefix("MANIFEST-") {
            return number(digits).map(Self::Manifest);
        }
        if let Some(rest) = name.strip_prefix("OPTIONS-") {
            return match rest.strip_suffix(".dbtmp") {
                Some(digits) => number(digits).map(Self::TemporaryOptions),
                None => number(rest).map(Self::Options),
            };
        }
        if let Some(digits) = name.strip_prefix("LOG.old.") {
            return number(digits).map(Self::OldInfoLog);
        }
        let (digits, extension) = name.split_once('.')?;
        let number = number(digits)?;
        Some(match extension {
            "log" => Self::Wal(number),
            "sst" => Self::Table(number),
            "ldb" => Self::LegacyTable(number),
            "blob" => Self::Blob(number),
            "dbtmp" => Self::Temporary(number),
            _ => return None,
        })
    }

    /// The number drawn from the database's counter, if the file has one.
    pub(crate) const fn number(self) -> Option<u64> {
        match self {
            Self::Current | Self::Lock | Self::Identity | Self::Expiry | Self::InfoLog | Self::OldInfoLog(_) => None,
            Self::Wal(number)
            | Self::Table(number)
            | Self::LegacyTable(number)
            | Self::Blob(number)
            | Self::Manifest(number)
            | Self::Options(number)
            | Self::TemporaryOptions(number)
            | Self::Temporary(number) => Some(number),
        }
    }

    /// The path of the file in `dir`.
    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.to_string())
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current => f.write_str(CURRENT),
            Self::Lock => f.write_str(LOCK),
            Self::Identity => f.write_str(IDENTITY),
            Self::Expiry => f.write_str(EXPIRY),
            Self::InfoLog => f.write_str(INFO_LOG),
            Self::OldInfoLog(micros) => write!(f, "LOG.old.{micros}"),
            Self::Wal(number) => write!(f, "{number:06}.log"),
            Self::Table(number) => write!(f, "{number:06}.sst"),
            Self::LegacyTable(number) => write!(f, "{number:06}.ldb"),
            Self::Blob(number) => write!(f, "{number:06}.blob"),
            Self::Manifest(number) => write!(f, "MANIFEST-{number:06}"),
            Self::Options(number) => write!(f, "OPTIONS-{number:06}"),
            Self::TemporaryOptions(number) => write!(f, "OPTIONS-{number:06}.dbtmp"),
            Self::Temporary(number) => write!(f, "{number:06}.dbtmp"),
        }
    }
}

/// Decimal digits only: no sign, no spaces, not empty, at most 64 bits.
fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip() {
        for name in [
            "CURRENT",
            "LOCK",
            "IDENTITY",
            "LOG",
            "LOG.old.1700000000000000",
            "000007.log",
            "123456.sst",
            "1234567.sst",
            "000012.ldb",
            "000013.blob",
            "MANIFEST-000001",
            "OPTIONS-000021",
            "OPTIONS-000021.dbtmp",
            "000001.dbtmp",
        ] {
            let parsed = FileName::parse(name).unwrap_or_else(|| panic!("{name} is a name"));
            assert_eq!(parsed.to_string(), name);
            assert_eq!(parsed.path(Path::new("db")), Path::new("db").join(name));
        }
        assert_eq!(FileName::parse("7.log"), Some(FileName::Wal(7)));
        assert_eq!(FileName::parse("000007.log").and_then(FileName::number), Some(7));
        assert_eq!(FileName::OldInfoLog(9).number(), None);
    }

    #[test]
    fn other_names_are_left_alone() {
        for name in [
            "",
            ".",
            ".sst",
            "CURRENT.bak",
            "MANIFEST-",
            "MANIFEST-1x",
            "MANIFEST-000001.tmp",
            "OPTIONS-",
            "+1.sst",
            "-1.sst",
            "1.sst.trash",
            "000001.SST",
            "00000a.sst",
            "18446744073709551616.log",
            "METADB-1",
            "LOG.old.x",
            "ключ.sst",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
