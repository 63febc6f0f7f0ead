//! The B-tree engine with the settings of a run.

use super::lsm::env_of;
use super::{Device, EngineKind, EngineSettings};
use siltstone_base::env::Env;
use siltstone_btree::{DbOptions, FlushNeighbors, PageCompression};
use std::sync::Arc;

/// Pages a second that `btree-ssd` writes in the background, and at most twice as many: what the profile of MySQL 8.4 has, where that of 5.6 has a hard disk's.
const SSD_PAGES: usize = 10_000;

/// Bytes of the redo log: as many as a run of the length at hand needs, so that pages are written for their own sake.
pub(super) const REDO_BYTES: u64 = 2 << 30;

/// What the engine is opened with: a profile, and for the sake of comparison one redo log and one way to the disk in all of them. All memory of the run is its
/// buffer pool.
pub(super) fn options(kind: EngineKind, settings: &EngineSettings) -> (Arc<dyn Env>, DbOptions) {
    let env = env_of(settings.device, settings.background_load);
    let memory = settings.cache_bytes + settings.write_buffers * settings.write_buffer_bytes;
    let profile = match kind {
        EngineKind::BtreeMysql84 => DbOptions::mysql84(),
        EngineKind::BtreeSsd => DbOptions::mysql56().io_capacity(SSD_PAGES).io_capacity_max(2 * SSD_PAGES),
        EngineKind::BtreeCompressed => DbOptions::mysql56().page_compression(PageCompression::Zlib),
        _ => DbOptions::mysql56(),
    };
    let mut options = profile
        .create_if_missing(true)
        .buffer_pool_bytes(memory)
        .redo_capacity_bytes(REDO_BYTES)
        .durability(settings.durability)
        .use_direct_io(settings.direct)
        // Only a disk with a head is helped by pages beside those that must go.
        .flush_neighbors(if settings.device == Device::Hdd { FlushNeighbors::Adjacent } else { FlushNeighbors::None })
        .env(Some(Arc::clone(&env)));
    if let Some(pages) = settings.io_capacity {
        options = options.io_capacity(pages).io_capacity_max(2 * pages);
    }
    if let Some(buffering) = settings.change_buffering {
        options = options.change_buffering(buffering);
    }
    (env, options)
}
