//! FIFO: tables are never merged for space; the oldest are deleted when there are too many bytes, or when they are too old.
//!
//! Everything stays in level 0. What another style left below is older, and goes first.

use super::inputs::Scene;
use crate::compaction::{Compaction, LevelInputs, compression_of_level, max_compaction_bytes};
use crate::event::CompactionReason;
use crate::file_meta::FileMeta;
use crate::options::ColumnFamilyOptions;
use crate::version::Version;
use std::sync::Arc;

/// What is due; `None` if nothing is, or a table that it is about is busy.
pub(super) fn pick(scene: &Scene<'_>) -> Option<Compaction> {
    if let Some((files, reason)) = deletion(scene.version, scene.options, scene.now) {
        let is_busy = files.iter().flat_map(|inputs| &inputs.files).any(|file| file.is_being_compacted());
        return (!is_busy).then(|| compaction(scene, files, reason, true));
    }
    let files = merge(scene)?;
    Some(compaction(scene, vec![LevelInputs { level: 0, files }], CompactionReason::L0FileCount, false))
}

/// Whether something may be due.
pub(super) fn is_due(version: &Version, options: &ColumnFamilyOptions, now: u64) -> bool {
    let merges = options.compaction_options_fifo.allow_compaction
        && version.files(0).len() >= options.level0_file_num_compaction_trigger;
    merges || deletion(version, options, now).is_some()
}

/// The oldest tables that are to be deleted, upper levels first, and why.
fn deletion(
    version: &Version,
    options: &ColumnFamilyOptions,
    now: u64,
) -> Option<(Vec<LevelInputs>, CompactionReason)> {
    let limit = options.compaction_options_fifo.max_table_files_size;
    let mut left = version.total_bytes();
    let mut deleted: Vec<LevelInputs> = Vec::new();
    let mut reason = CompactionReason::FifoTtl;
    for level in (0..version.num_levels()).rev() {
        let mut files: Vec<&Arc<FileMeta>> = version.files(level).iter().rev().collect();
        if level > 0 {
            files.sort_by_key(|file| file.file_creation_time);
        }
        for file in files {
            let is_old = options.ttl > 0
                && file.file_creation_time > 0
                && file.file_creation_time.saturating_add(options.ttl) <= now;
            if left > limit {
                reason = CompactionReason::FifoMaxSize;
            } else if !is_old {
                deleted.reverse();
                return (!deleted.is_empty()).then_some((deleted, reason));
            }
            left = left.saturating_sub(file.file_size);
            match deleted.last_mut().filter(|inputs| inputs.level == level) {
                Some(inputs) => inputs.files.push(Arc::clone(file)),
                None => deleted.push(LevelInputs { level, files: vec![Arc::clone(file)] }),
            }
        }
    }
    deleted.reverse();
    (!deleted.is_empty()).then_some((deleted, reason))
}

/// Neighbours in level 0 that are no larger than a flush makes them; as many as the trigger says at least. Where they are more than one compaction should read, the oldest: those that
/// stay are neighbours still, and their turn comes.
fn merge(scene: &Scene<'_>) -> Option<Vec<Arc<FileMeta>>> {
    let options = scene.options;
    let trigger = options.level0_file_num_compaction_trigger.max(2);
    if !options.compaction_options_fifo.allow_compaction || scene.running.has_level0() {
        return None;
    }
    let is_small =
        |file: &&Arc<FileMeta>| file.file_size <= options.write_buffer_size as u64 && !file.is_being_compacted();
    let mut files: Vec<_> = scene.version.files(0).iter().take_while(is_small).cloned().collect();
    let limit = max_compaction_bytes(options);
    let mut bytes = 0_u64;
    let fits = |file: &&Arc<FileMeta>| {
        bytes = bytes.saturating_add(file.file_size);
        bytes <= limit
    };
    let fitting = files.iter().rev().take_while(fits).count();
    files.drain(..files.len() - fitting);
    (files.len() >= trigger).then_some(files)
}

fn compaction(scene: &Scene<'_>, inputs: Vec<LevelInputs>, reason: CompactionReason, deletes: bool) -> Compaction {
    let (options, version) = (scene.options, scene.version);
    Compaction {
        family: version.family(),
        reason,
        output_level: 0,
        input_version: Arc::clone(version),
        grandparents: Vec::new(),
        target_file_size: u64::MAX,
        max_output_file_size: u64::MAX,
        max_compaction_bytes: max_compaction_bytes(options),
        compression: compression_of_level(options, 0, 1, false),
        trivial_move: false,
        deletes,
        bottommost: false,
        fences: Vec::new(),
        merge: None,
        inputs,
    }
}
