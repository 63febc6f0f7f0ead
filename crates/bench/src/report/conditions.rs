//! Under which conditions a run took place, as far as comparisons ask.

use super::RunRecord;
use crate::ResultLine;

/// The device of a run on the machine's own.
pub(super) const OWN_DEVICE: &str = "none";

/// The part of a run's time by which rows may come in late at most.
const MOST_LAG: f64 = 0.05;

/// Whether all data has room in the engine's memory.
pub(super) fn fits(run: &ResultLine) -> bool {
    run.data_bytes.zip(run.memory_bytes).is_some_and(|(data, memory)| data <= memory)
}

/// Three times memory and more: what a rate over the whole run says is then mostly about the part beyond.
pub(super) fn exceeds(run: &ResultLine) -> bool {
    run.data_bytes.zip(run.memory_bytes).is_some_and(|(data, memory)| data >= 3 * memory)
}

/// Whether this device was beneath.
pub(super) fn is_on(run: &ResultLine, device: &str) -> bool {
    run.device.as_deref() == Some(device)
}

/// Whether LSM trees compacted level 0 and held writers up by their own limits.
pub(super) fn has_own_level0(run: &ResultLine) -> bool {
    run.level0.is_none()
}

/// Whether memory is all but for a tenth the cache, as where it is the cache alone that was enlarged: other runs have a third of it for write buffers.
pub(super) fn is_cache_alone(run: &ResultLine) -> bool {
    let setting = |name: &str| run.config.as_ref()?.get("settings")?.get(name)?.as_u64();
    let buffers = setting("write_buffers").zip(setting("write_buffer_bytes")).map(|(number, bytes)| number * bytes);
    buffers.zip(run.memory_bytes).is_some_and(|(buffers, memory)| buffers * 10 < memory)
}

/// Whether memory holds half of the data at most.
pub(super) fn is_half(run: &ResultLine) -> bool {
    run.data_bytes.zip(run.memory_bytes).is_some_and(|(data, memory)| data >= 2 * memory)
}

/// Whether it kept up with the rows that came in: those of `ads` are due at their times, and an engine that falls behind has other rows than one that does not.
pub(super) fn kept_up(run: &ResultLine) -> bool {
    run.replication_lag_s.is_none_or(|lag| lag <= run.seconds * MOST_LAG)
}

/// Whether it did all that it was to do.
pub(super) fn is_whole(run: &ResultLine) -> bool {
    run.rows_left_out.is_none()
}

/// The step that was ended early on the database of a run: the run itself, or one before it, without whose rows the later ones have less to do. `None` where all is there.
pub(super) fn ended_early<'a>(records: &'a [RunRecord], run: &RunRecord) -> Option<&'a ResultLine> {
    let is_of_database = |other: &&ResultLine| {
        let of = &run.result;
        other.experiment == of.experiment
            && other.config_hash == of.config_hash
            && other.engine == of.engine
            && other.pair == of.pair
    };
    let end = records.iter().position(|other| std::ptr::eq(other, run))?;
    let steps = records.iter().take(end + 1).map(|record| &record.result).filter(is_of_database);
    steps.fold(None, |early, step| match (step.workload.as_str(), is_whole(step)) {
        (_, false) => Some(step),
        // A load begins with an empty database.
        ("l" | "l.i0", true) => None,
        _ => early,
    })
}
