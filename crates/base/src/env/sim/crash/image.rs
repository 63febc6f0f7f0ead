//! From a choice of what is kept to a disk.

use super::CrashModel;
use super::choices::{Choice, Keep, Special};
use crate::env::sim::content::{Content, Page};
use crate::env::sim::names::{InodeId, Names};
use crate::env::sim::volume::{Inode, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a pending item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// A page of a file.
    Page(InodeId, u64),
    /// The length of a file.
    Len(InodeId),
    /// A change of names: its index among the pending ones.
    Name(usize),
}

/// All that is not durable on a disk, in the order in which it was done.
#[derive(Debug)]
pub(super) struct Items {
    pub(super) kinds: Vec<ItemKind>,
    files: BTreeMap<InodeId, FileItems>,
    names: Vec<usize>,
}

/// Where the items of one file are in the list.
#[derive(Debug, Default)]
struct FileItems {
    len: Option<usize>,
    pages: BTreeMap<u64, usize>,
}

impl Items {
    pub(super) fn of(volume: &Volume) -> Self {
        let mut timed: Vec<(u64, ItemKind)> = Vec::new();
        for (inode, file) in &volume.inodes {
            let pages = file.dirty.iter().chain(&file.lost);
            timed.extend(pages.map(|(page, when)| (*when, ItemKind::Page(*inode, *page))));
            timed.extend(file.resized.map(|when| (when, ItemKind::Len(*inode))));
        }
        let names = volume.pending.iter().enumerate();
        timed.extend(names.map(|(index, pending)| (pending.when, ItemKind::Name(index))));
        timed.sort_by_key(|(when, kind)| (*when, matches!(kind, ItemKind::Len(_))));
        let kinds: Vec<ItemKind> = timed.into_iter().map(|(_, kind)| kind).collect();
        let mut files: BTreeMap<InodeId, FileItems> = BTreeMap::new();
        let mut names = vec![0; volume.pending.len()];
        for (index, kind) in kinds.iter().enumerate() {
            match kind {
                ItemKind::Page(inode, page) => {
                    files.entry(*inode).or_default().pages.insert(*page, index);
                }
                ItemKind::Len(inode) => files.entry(*inode).or_default().len = Some(index),
                ItemKind::Name(name) => names[*name] = index,
            }
        }
        Self { kinds, files, names }
    }

    fn is_kept(&self, index: usize, keep: &Keep) -> bool {
        match keep {
            Keep::All => true,
            Keep::None => false,
            Keep::NoPages => !matches!(self.kinds[index], ItemKind::Page(..)),
            Keep::OnlyNames => matches!(self.kinds[index], ItemKind::Name(_)),
            Keep::NoNames => !matches!(self.kinds[index], ItemKind::Name(_)),
            Keep::Some(kept) => kept[index],
        }
    }

    /// What the disk holds if `choice` is what a crash left.
    pub(super) fn build(&self, volume: &Volume, choice: &Choice) -> Candidate {
        let mut names = volume.durable.clone();
        for (pending, index) in volume.pending.iter().zip(&self.names) {
            if self.is_kept(*index, &choice.keep) {
                names.apply(&pending.change);
            }
        }
        if choice.model != CrashModel::ProcessDeath {
            names.prune();
        }
        let mut contents = Vec::with_capacity(self.files.len() + 1);
        for (inode, items) in &self.files {
            if let Some(file) = volume.inodes.get(inode)
                && choice.special.inode() != Some(*inode)
            {
                let stale = matches!(choice.special, Special::Stale).then_some(volume);
                contents.push((*inode, self.content(file, items, &choice.keep, stale)));
            }
        }
        match &choice.special {
            Special::None | Special::Stale => {}
            Special::Content(inode, content) => contents.push((*inode, Arc::clone(content))),
        }
        Candidate { names, contents }
    }

    fn content(&self, file: &Inode, items: &FileItems, keep: &Keep, stale: Option<&Volume>) -> Arc<Content> {
        let page_kept = |page: u64| items.pages.get(&page).is_some_and(|index| self.is_kept(*index, keep));
        let len_kept = items.len.is_none_or(|index| self.is_kept(index, keep));
        let kept = items.pages.values().filter(|index| self.is_kept(**index, keep)).count();
        if len_kept && kept == items.pages.len() {
            return Arc::clone(&file.current);
        }
        let len = if len_kept { file.current.len() } else { file.durable.len() };
        if kept == 0 && len == file.durable.len() {
            return Arc::clone(&file.durable);
        }
        let mut content = file.mixture(len, page_kept);
        if let Some(volume) = stale {
            for page in items.pages.keys().copied() {
                if !page_kept(page) && page < content.page_count() && file.durable.page(page).is_none() {
                    content.put_page(page, Some(stale_page(volume, file, page)));
                }
            }
        }
        Arc::new(content)
    }
}

/// What a page that was never written may show: the same page of the last deleted file, best of the same kind.
fn stale_page(volume: &Volume, file: &Inode, page: u64) -> Arc<Page> {
    let graves = || volume.graves.iter().rev();
    let same_kind = graves().filter(|(kind, _)| *kind == file.kind);
    let found = same_kind.chain(graves()).find_map(|(_, content)| content.page(page).cloned());
    found.unwrap_or_else(|| Arc::new(Page::filled(0xa5)))
}

/// Names, and the files that are not as durable.
#[derive(Debug)]
pub(super) struct Candidate {
    names: Names,
    contents: Vec<(InodeId, Arc<Content>)>,
}

impl Candidate {
    fn content<'a>(&'a self, volume: &'a Volume, inode: InodeId) -> Option<&'a Arc<Content>> {
        let changed = self.contents.iter().find(|(changed, _)| *changed == inode).map(|(_, content)| content);
        changed.or_else(|| volume.inodes.get(&inode).map(|file| &file.durable))
    }

    pub(super) fn hash(&self, volume: &Volume) -> u64 {
        self.names.hash(|inode| self.content(volume, inode).map_or(0, |content| content.hash()))
    }

    pub(super) fn into_volume(self, volume: &Volume) -> Volume {
        volume.settled(self.names.clone(), |inode| self.content(volume, inode).cloned().unwrap_or_default())
    }
}
