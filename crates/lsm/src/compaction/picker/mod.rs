//! Pickers: which compaction should run next. Pure: they see a version, options and what runs, and touch nothing.

mod inputs;
mod leveled;
mod manual;
#[cfg(test)]
mod tests;

pub(crate) use inputs::user_key_range;
pub(crate) use leveled::pick;
pub(crate) use manual::{ManualRange, ManualStep};
