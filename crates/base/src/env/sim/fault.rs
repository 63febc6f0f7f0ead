//! Faults: which operation fails, how, and for how long.

use crate::env::FileKind;
use std::io;

/// What an operation does, for picking the one that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OpClass {
    /// Opening an existing file.
    Open,
    /// Reading bytes of a file.
    Read,
    /// Asking for a length, for existence or for the entries of a directory.
    Stat,
    /// Creating or truncating a file by opening it.
    Create,
    /// Creating a directory.
    MakeDir,
    /// Appending to a file, or writing at a position.
    Write,
    /// Setting a length, reserving space, punching a hole.
    Resize,
    /// Syncing a file.
    Sync,
    /// Starting the write-back of a range.
    SyncRange,
    /// Syncing a directory.
    SyncDir,
    /// Renaming a file.
    Rename,
    /// Giving a file a second name.
    Link,
    /// Removing a file or a directory.
    Unlink,
    /// Closing a file that was appended to.
    Finish,
    /// Taking a lock on a file.
    Lock,
}

impl OpClass {
    /// Whether an operation of the class can change what the disk holds.
    pub const fn is_mutating(self) -> bool {
        !matches!(self, Self::Open | Self::Read | Self::Stat)
    }

    /// Whether an operation of the class may need space.
    pub const fn needs_space(self) -> bool {
        self.is_mutating() && !matches!(self, Self::Unlink | Self::SyncDir)
    }
}

/// One operation, as counted and as traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpInfo {
    /// What it does.
    pub class: OpClass,
    /// The kind of its file; [`FileKind::Other`] for directories.
    pub file: FileKind,
    /// The phase that the workload was in.
    pub phase: &'static str,
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// With `EIO`, without any effect. A sync that fails leaves its blocks dirty: a later one may write them.
    Io,
    /// With `ENOSPC`, without any effect. Operations that never need space do not fail.
    NoSpace,
    /// A write reaches the disk with the first half of its bytes, then fails with `EIO`. Other operations do not fail.
    ShortWrite,
    /// The same with `ENOSPC`.
    ShortWriteNoSpace,
    /// A sync fails with `EIO`; the new content stays visible but is not durable, and the system takes it for clean: no
    /// later sync makes it durable. Other operations do not fail.
    SyncFailsVisible,
    /// A sync fails with `EIO`, and the file shows its durable content again, with its length kept. Other operations do
    /// not fail.
    SyncFailsReverted,
    /// A write succeeds but can't be written back: its blocks are clean, not durable, and the file's next sync
    /// fails, once. Other operations do not fail.
    WriteBackFails,
    /// A sync succeeds and does nothing. Other operations do not fail.
    SyncLies,
    /// The operation panics, without any effect: as an Env with a mistake of its own.
    Panics,
}

impl FaultKind {
    /// Whether an operation of the class can fail this way.
    pub const fn applies_to(self, class: OpClass) -> bool {
        match self {
            Self::Io | Self::Panics => true,
            Self::NoSpace => class.needs_space(),
            Self::ShortWrite | Self::ShortWriteNoSpace | Self::WriteBackFails => matches!(class, OpClass::Write),
            Self::SyncFailsVisible | Self::SyncFailsReverted | Self::SyncLies => matches!(class, OpClass::Sync),
        }
    }

    /// The error that the caller sees.
    pub(super) fn error(self) -> io::Error {
        let errno = match self {
            Self::NoSpace | Self::ShortWriteNoSpace => libc::ENOSPC,
            _ => libc::EIO,
        };
        io::Error::from_raw_os_error(errno)
    }
}

/// Which operations a plan looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpFilter {
    /// Only those of one class.
    pub class: Option<OpClass>,
    /// Only those on files of one kind.
    pub file: Option<FileKind>,
    /// Only those in one phase.
    pub phase: Option<&'static str>,
    /// Only those that can change what the disk holds.
    pub mutating_only: bool,
}

impl OpFilter {
    /// Whether the plan looks at `op`.
    pub fn matches(&self, op: &OpInfo) -> bool {
        self.class.is_none_or(|class| class == op.class)
            && self.file.is_none_or(|file| file == op.file)
            && self.phase.is_none_or(|phase| phase == op.phase)
            && (!self.mutating_only || op.class.is_mutating())
    }
}

/// A fault to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultPlan {
    /// How the operation fails.
    pub kind: FaultKind,
    /// How many operations that match, and that can fail this way, succeed first.
    pub after: u64,
    /// Which operations are counted, and fail.
    pub filter: OpFilter,
    /// How many matching operations fail, unless the plan is taken away before.
    pub times: u64,
}

impl FaultPlan {
    /// Fails the operation behind the next `after` ones that can fail this way, once.
    pub const fn once(kind: FaultKind, after: u64) -> Self {
        let filter = OpFilter { class: None, file: None, phase: None, mutating_only: false };
        Self { kind, after, filter, times: 1 }
    }

    /// The same, and all further ones.
    pub const fn sticky(kind: FaultKind, after: u64) -> Self {
        Self { times: u64::MAX, ..Self::once(kind, after) }
    }

    /// The same, but for no more than so many operations: the fault ends by itself.
    #[must_use]
    pub const fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// The same for operations that `filter` matches.
    #[must_use]
    pub const fn filter(mut self, filter: OpFilter) -> Self {
        self.filter = filter;
        self
    }
}

/// A plan at work.
#[derive(Debug, Default)]
pub(super) struct Faults {
    plan: Option<FaultPlan>,
    hits: Vec<OpInfo>,
    count: u64,
    trace: Option<Vec<OpInfo>>,
}

impl Faults {
    pub(super) fn install(&mut self, plan: Option<FaultPlan>) {
        self.plan = plan;
        self.hits.clear();
    }

    pub(super) fn clear(&mut self) {
        self.plan = None;
    }

    /// Counts an operation and says how it fails.
    pub(super) fn strike(&mut self, op: OpInfo) -> Option<FaultKind> {
        self.count += 1;
        if let Some(trace) = &mut self.trace {
            trace.push(op);
        }
        let plan = self.plan.as_mut()?;
        if !plan.filter.matches(&op) || !plan.kind.applies_to(op.class) {
            return None;
        }
        if plan.after > 0 {
            plan.after -= 1;
            return None;
        }
        let kind = plan.kind;
        plan.times = plan.times.saturating_sub(1);
        if plan.times == 0 {
            self.plan = None;
        }
        self.hits.push(op);
        assert!(kind != FaultKind::Panics, "the plan has {op:?} panic");
        Some(kind)
    }

    pub(super) fn hits(&self) -> &[OpInfo] {
        &self.hits
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn start_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    pub(super) fn take_trace(&mut self) -> Vec<OpInfo> {
        self.trace.take().unwrap_or_default()
    }
}
