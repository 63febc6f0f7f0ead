//! LogData that callers cannot write: what the engine itself says of WALs in their records.

/// First bytes of the note about the WAL before.
pub(crate) const PREDECESSOR: &[u8; 8] = b"SLTPRED1";
/// First bytes of the note of a WAL's own number.
pub(crate) const OWN_NUMBER: &[u8; 8] = b"SLTSELF1";
/// First bytes of the note that what follows was prepared in older WALs.
pub(crate) const REPETITION: &[u8; 8] = b"SLTAGAN1";
/// First bytes of a promise.
pub(crate) const PROMISE: &[u8; 8] = b"SLTSYNC1";

/// Whether a LogData blob is a note of the engine.
pub(crate) fn is_note(blob: &[u8]) -> bool {
    [PREDECESSOR, OWN_NUMBER, REPETITION, PROMISE].iter().any(|first| blob.starts_with(*first))
}
