//! Options. Every struct is a builder: `DbOptions::default().create_if_missing(true)`.

use crate::event::EventListener;
use siltstone_base::clock::Clock;
use siltstone_base::engine::Durability;
use siltstone_base::env::Env;
use siltstone_base::executor::Executor;
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::{Error, Result};
use std::sync::Arc;

/// What protects pages from being torn when the machine stops while they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doublewrite {
    /// Every page is written to the doublewrite file, which is synced, before it goes to its place. A torn page is restored.
    On,
    /// Only the names of the pages are written there first, at a fraction of the bytes. After a crash those pages are looked at, and a torn one is refused when
    /// the database is opened, not when it is read.
    DetectOnly,
    /// Pages go to their places at once. A torn page is noticed by its checksum and refused.
    Off,
}

/// How the pages of a tree are stored: compressed when they are written, whole in memory. Each takes a multiple of 4 KiB in the file; the rest of its place is given back to the file
/// system where that can take it. A page that does not shrink by a block is stored as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PageCompression {
    /// As they are.
    #[default]
    None,
    /// Deflate.
    Zlib,
    /// LZ4: the fastest.
    Lz4,
    /// Zstandard: the smallest.
    Zstd,
}

impl PageCompression {
    /// The number that stands for it on disk.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Zlib => 1,
            Self::Lz4 => 2,
            Self::Zstd => 3,
        }
    }

    /// That of a number on disk.
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Zlib),
            2 => Some(Self::Lz4),
            3 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// How [`Db::close`](crate::Db::close) ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shutdown {
    /// Writes what is dirty. History that waits for purge waits on.
    Fast,
    /// Before that, removes everything that nobody needs any more: history, as far as no view needs it, and rows of transactions that are being rolled back.
    Slow,
}

/// Which pages the page cleaner writes along with one, where they are dirty too: on a disk with a head they cost little more than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushNeighbors {
    /// None.
    None,
    /// Those that lie next to it without a gap, within its extent: 64 pages, fewer in a small pool.
    Adjacent,
    /// All of its extent.
    Extent,
}

/// Which changes of secondary indexes, but for unique ones, may wait in the change buffer for their pages to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeBuffering {
    /// None: pages are read.
    None,
    /// Entries that are added.
    Inserts,
    /// Entries that are marked as deleted.
    Deletes,
    /// Entries that are added or marked.
    Changes,
    /// Entries that are marked, or removed.
    Purges,
    /// All.
    All,
}

impl ChangeBuffering {
    /// Whether an operation may wait.
    pub(crate) const fn covers(self, is_insert: bool, is_mark: bool) -> bool {
        match self {
            Self::None => false,
            Self::Inserts => is_insert,
            Self::Deletes => is_mark,
            Self::Changes => is_insert || is_mark,
            Self::Purges => !is_insert,
            Self::All => true,
        }
    }
}

siltstone_base::define_options! {
    /// Options of a whole database. [`mysql56`](Self::mysql56) and [`mysql84`](Self::mysql84) set them as InnoDB's are.
    DbOptions {
        /// Creates the database if there is none.
        create_if_missing: bool = false,
        /// Refuses to open a database that exists.
        error_if_exists: bool = false,
        /// Bytes of a page: 4, 8, 16, 32 or 64 KiB. A database that exists keeps its own.
        page_size: usize = 16 << 10,
        /// How the pages of trees are stored that are created from now on; each tree keeps its own. Only for pages of 8 KiB or more.
        page_compression: PageCompression = PageCompression::None,
        /// Bytes of pages that are kept in memory. At least 64 pages.
        buffer_pool_bytes: usize = 128 << 20,
        /// Percentage of the pool's pages in the sublist of old ones, where pages that are read come in. 5 to 95.
        old_blocks_percent: usize = 37,
        /// Milliseconds that a page must be in the old sublist before another use makes it young: a scan touches its pages
        /// several times at once, and should leave no trace.
        old_blocks_time_millis: u64 = 1000,
        /// Writes the names of pages that are in memory to a file when the database is closed.
        buffer_pool_dump_at_shutdown: bool = false,
        /// Percentage of the pages in memory, the youngest, that the file names. 1 to 100.
        buffer_pool_dump_percent: usize = 100,
        /// Reads the pages that the file names when the database is opened, in the background, `io_capacity` a second.
        buffer_pool_load_at_startup: bool = false,
        /// How closing ends.
        shutdown: Shutdown = Shutdown::Fast,
        /// Pages of an extent of 64 that a scan reads one after the other before the extent behind is read ahead of it. 0 to 64; 0: never.
        read_ahead_threshold: usize = 56,
        /// Reads the rest of an extent when many of its pages are in use.
        random_read_ahead: bool = false,
        /// Bytes of the redo log, over all its files. The more, the later pages must be written. At least 256 KiB and 64 pages. A database that was closed takes the new
        /// capacity when it is opened; one that must be recovered keeps its own until then.
        redo_capacity_bytes: u64 = 100 << 20,
        /// How long a write has to be safe before its call returns.
        durability: Durability = Durability::Commit,
        /// What protects pages from being torn.
        doublewrite: Doublewrite = Doublewrite::On,
        /// Batches of pages that may be written at the same time, each by way of a doublewrite file of its own, and jobs that write them. Each takes a thread, where the database brings its own, and memory
        /// for 64 pages, twice as much where they are compressed. 1 to 16.
        page_cleaners: usize = 4,
        /// Pages that one doublewrite file holds, or batches of names: so many are written by way of it between two syncs of the tablespaces. 16 to 4096.
        doublewrite_pages: usize = 128,
        /// Pages that the page cleaner writes in a second when the engine is idle, and the unit of its haste otherwise. At least 1.
        io_capacity: usize = 10_000,
        /// Pages that the page cleaner writes in a second at most. At least `io_capacity`.
        io_capacity_max: usize = 20_000,
        /// Percentage of dirty pages above which the page cleaner writes at `io_capacity`. 1 to 99.
        max_dirty_pages_percent: usize = 90,
        /// Percentage of dirty pages from which the page cleaner writes the faster the more there are. Below `max_dirty_pages_percent`; 0: it does not.
        max_dirty_pages_low_percent: usize = 0,
        /// Percentage of `io_capacity` at which the page cleaner writes when the engine is idle. 1 to 100.
        idle_flush_percent: usize = 100,
        /// The page cleaners keep a quarter of so many frames free, and at most a sixteenth of all, so that who needs one finds it at once: the oldest pages
        /// in the order of use go, after they were written. At least 16.
        lru_scan_depth: usize = 1024,
        /// Pages that the page cleaner writes along with others.
        flush_neighbors: FlushNeighbors = FlushNeighbors::None,
        /// Bytes of older versions of rows that are kept in memory for cursors and transactions; more of them go to the undo log.
        max_version_bytes: usize = 16 << 20,
        /// Bytes that the table of row locks may take. A row that a transaction changed is locked without, until somebody else wants it.
        max_lock_bytes: usize = 64 << 20,
        /// Milliseconds that a write waits for the lock of a row, unless its transaction says otherwise.
        lock_timeout_millis: u64 = 10_000,
        /// Committed transactions that may wait for purge before writers are slowed down: a write waits 10 ms for each time that there are so many, less 5 ms. 0: they
        /// are not.
        max_history_len: usize = 0,
        /// Milliseconds that one write waits for that at most.
        max_history_delay_millis: u64 = 300,
        /// Percentage of a page that [`bulk_load`](crate::Db::bulk_load) fills: what it leaves is for rows that come between or grow. 50 to 100.
        bulk_fill_percent: usize = 94,
        /// Which changes of secondary indexes may wait for pages that are not in memory.
        change_buffering: ChangeBuffering = ChangeBuffering::None,
        /// Percentage of the pool's pages that such changes may take. 0 to 50.
        change_buffer_max_percent: usize = 25,
        /// Lets rows of the default tree expire: reads do not see them from then on, and a walk through the tree removes them. One policy serves one open database.
        expiry: Option<Arc<dyn ExpiryPolicy>> = None,
        /// The clock by which rows expire, where that is not the executor's: for tests and simulations, in which rows age faster than the machine does. `None`: that one.
        expiry_clock: Option<Arc<dyn Clock>> = None,
        /// Where rows expire: how far the clock may have gone forward, in seconds, since a time that this database knows of, when it is opened. After a longer jump
        /// nothing that is expired is removed until [`confirm_clock`](crate::Db::confirm_clock) says that the time is right. 0: as far as it likes.
        max_clock_jump_seconds: u64 = 30 * 86_400,
        /// Reads and writes pages past the operating system's page cache.
        use_direct_io: bool = false,
        /// Who is told what the engine does.
        listeners: Vec<Arc<dyn EventListener>> = Vec::new(),
        /// Where the files are. `None`: the operating system's file system.
        env: Option<Arc<dyn Env>> = None,
        /// Who runs background jobs. `None`: threads of this database alone.
        executor: Option<Arc<dyn Executor>> = None,
    }
}

/// The shortest page that an option may ask for. Tests use less than a sector, so that trees grow high from few keys.
const MIN_PAGE_SIZE: usize = if cfg!(any(test, feature = "testing")) { 512 } else { 4 << 10 };

/// The shortest page that is compressed: file systems have blocks of 4 KiB. The tests' are on disks that have none.
pub(crate) const MIN_COMPRESSED_PAGE: usize = if cfg!(any(test, feature = "testing")) { 512 } else { 8 << 10 };

/// The shortest redo log. That of tests turns often.
const MIN_REDO_CAPACITY: u64 = if cfg!(any(test, feature = "testing")) { 32 << 10 } else { 256 << 10 };

impl DbOptions {
    /// As MySQL 5.6 sets InnoDB up; the book's page on profiles says which variable is which option.
    #[must_use]
    pub fn mysql56() -> Self {
        Self::default()
            .redo_capacity_bytes(96 << 20)
            .io_capacity(200)
            .io_capacity_max(2_000)
            .max_dirty_pages_percent(75)
            .flush_neighbors(FlushNeighbors::Adjacent)
            .change_buffering(ChangeBuffering::All)
            .lock_timeout_millis(50_000)
    }

    /// As MySQL 8.4 sets InnoDB up; the book's page on profiles says which variable is which option.
    #[must_use]
    pub fn mysql84() -> Self {
        Self::default()
            .redo_capacity_bytes(100 << 20)
            .buffer_pool_dump_at_shutdown(true)
            .buffer_pool_dump_percent(25)
            .buffer_pool_load_at_startup(true)
            .doublewrite_pages(256)
            .io_capacity(10_000)
            .io_capacity_max(20_000)
            .max_dirty_pages_percent(90)
            .max_dirty_pages_low_percent(10)
            .flush_neighbors(FlushNeighbors::None)
            .lock_timeout_millis(50_000)
            .use_direct_io(true)
    }

    /// Refuses what cannot work, naming the option and its bounds.
    pub(crate) fn validate(&self) -> Result<()> {
        let page = self.page_size;
        let demands = [
            (
                page.is_power_of_two() && (MIN_PAGE_SIZE..=64 << 10).contains(&page),
                "page_size is 4, 8, 16, 32 or 64 KiB",
            ),
            (
                self.page_compression == PageCompression::None || page >= MIN_COMPRESSED_PAGE,
                "page_compression is for pages of 8 KiB or more",
            ),
            (self.buffer_pool_bytes / 64 >= page, "buffer_pool_bytes holds at least 64 pages"),
            (self.buffer_pool_bytes / page < 1 << 31, "buffer_pool_bytes holds less than 2^31 pages"),
            ((5..=95).contains(&self.old_blocks_percent), "old_blocks_percent is 5 to 95"),
            (
                self.redo_capacity_bytes >= (64 * page as u64).max(MIN_REDO_CAPACITY)
                    && self.redo_capacity_bytes <= 1 << 40,
                "redo_capacity_bytes is at least 256 KiB and 64 pages, and at most 1 TiB",
            ),
            ((1..=100).contains(&self.buffer_pool_dump_percent), "buffer_pool_dump_percent is 1 to 100"),
            (self.read_ahead_threshold <= 64, "read_ahead_threshold is 0 to 64"),
            ((1..=16).contains(&self.page_cleaners), "page_cleaners is 1 to 16"),
            ((16..=4096).contains(&self.doublewrite_pages), "doublewrite_pages is 16 to 4096"),
            (self.io_capacity >= 1, "io_capacity is at least 1"),
            (self.io_capacity_max >= self.io_capacity, "io_capacity_max is at least io_capacity"),
            ((50..=100).contains(&self.bulk_fill_percent), "bulk_fill_percent is 50 to 100"),
            ((1..=99).contains(&self.max_dirty_pages_percent), "max_dirty_pages_percent is 1 to 99"),
            (
                self.max_dirty_pages_low_percent < self.max_dirty_pages_percent,
                "max_dirty_pages_low_percent is less than max_dirty_pages_percent",
            ),
            ((1..=100).contains(&self.idle_flush_percent), "idle_flush_percent is 1 to 100"),
            (self.lru_scan_depth >= 16, "lru_scan_depth is at least 16"),
            (self.change_buffer_max_percent <= 50, "change_buffer_max_percent is 0 to 50"),
        ];
        match demands.iter().find(|(holds, _)| !holds) {
            Some((_, demand)) => Err(Error::invalid_argument(*demand)),
            None => Ok(()),
        }
    }
}
