//! Where the stamp of a row lies in its value.

use siltstone_base::{Error, Result};

/// Bytes of a stamp of RocksDB's `DBWithTTL`.
const SUFFIX_LEN: usize = 4;
/// Bytes of a stamp of MyRocks.
const PREFIX_LEN: usize = 8;

/// Where stamps lie in values, and in which form. Both forms are those of others, whose rows are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StampLayout {
    /// 8 bytes before the rest of the value, big-endian: MyRocks' rows with `ttl_duration`.
    Prefix,
    /// 4 bytes behind the rest of the value, little-endian and signed: RocksDB's `DBWithTTL`. It ends in the year 2038. A negative one is no stamp.
    Suffix,
}

impl StampLayout {
    /// The largest stamp that it can hold.
    pub const fn max_stamp(self) -> u64 {
        match self {
            Self::Prefix => u64::MAX,
            Self::Suffix => i32::MAX as u64,
        }
    }

    /// The name under which stamps are collected.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Prefix => "siltstone.ttl.prefix",
            Self::Suffix => "siltstone.ttl.suffix",
        }
    }

    /// The value with its stamp, in Unix seconds.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a stamp that the layout has no room for.
    pub fn stamped(self, value: &[u8], seconds: u64) -> Result<Vec<u8>> {
        let mut stamped = Vec::with_capacity(value.len() + PREFIX_LEN);
        match self {
            Self::Prefix => {
                stamped.extend_from_slice(&seconds.to_be_bytes());
                stamped.extend_from_slice(value);
            }
            Self::Suffix => {
                let Ok(seconds) = i32::try_from(seconds) else {
                    return Err(Error::invalid_argument(format!("stamp: {seconds} s is beyond the year 2038")));
                };
                stamped.extend_from_slice(value);
                stamped.extend_from_slice(&seconds.to_le_bytes());
            }
        }
        Ok(stamped)
    }

    /// The value without its stamp, and the stamp in Unix seconds.
    ///
    /// # Errors
    ///
    /// `Corruption` for a value that is too short to have one, or of which what should be the stamp is a time before 1970.
    pub fn split(self, stamped: &[u8]) -> Result<(&[u8], u64)> {
        self.try_split(stamped).ok_or_else(|| Error::corrupt("a value has no stamp"))
    }

    /// The same; `None` for a value without a stamp.
    #[inline]
    pub(crate) fn try_split(self, stamped: &[u8]) -> Option<(&[u8], u64)> {
        match self {
            Self::Prefix => {
                let (stamp, value) = stamped.split_first_chunk::<PREFIX_LEN>()?;
                Some((value, u64::from_be_bytes(*stamp)))
            }
            Self::Suffix => {
                let (value, stamp) = stamped.split_last_chunk::<SUFFIX_LEN>()?;
                // A time before 1970 is none that anybody wrote: what has it never was stamped.
                Some((value, u64::try_from(i32::from_le_bytes(*stamp)).ok()?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siltstone_base::ErrorKind;

    #[test]
    fn the_bytes_are_those_of_myrocks_and_rocksdb() {
        let stamped = StampLayout::Prefix.stamped(b"row", 0x0102_0304).unwrap();
        assert_eq!(stamped, b"\0\0\0\0\x01\x02\x03\x04row");
        let stamped = StampLayout::Suffix.stamped(b"row", 0x0102_0304).unwrap();
        assert_eq!(stamped, b"row\x04\x03\x02\x01");
    }

    #[test]
    fn what_has_no_room_is_refused() {
        let error = StampLayout::Suffix.stamped(b"", 1 << 31).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(StampLayout::Suffix.split(b"abc").unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(StampLayout::Prefix.split(b"abcdefg").unwrap_err().kind(), ErrorKind::Corruption);
    }

    #[test]
    fn a_value_that_ends_in_a_negative_number_has_no_stamp() {
        for stamp in [i32::MIN, -2, -1] {
            let value = [&b"row"[..], &stamp.to_le_bytes()].concat();
            assert_eq!(StampLayout::Suffix.try_split(&value), None);
            assert_eq!(StampLayout::Suffix.split(&value).unwrap_err().kind(), ErrorKind::Corruption);
        }
        assert_eq!(StampLayout::Suffix.split(b"row\0\0\0\0").unwrap(), (&b"row"[..], 0));
    }

    proptest! {
        #[test]
        fn what_is_stamped_is_split(value in proptest::collection::vec(any::<u8>(), 0..40), seconds in any::<u64>()) {
            for layout in [StampLayout::Prefix, StampLayout::Suffix] {
                let seconds = seconds & layout.max_stamp();
                let stamped = layout.stamped(&value, seconds).unwrap();
                prop_assert_eq!(layout.split(&stamped).unwrap(), (&value[..], seconds));
            }
        }
    }
}
