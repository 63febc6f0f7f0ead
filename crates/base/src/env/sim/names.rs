//! Directories: which names exist and what they lead to.

use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Number of a file, independent of its names.
pub(super) type InodeId = u64;

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    File(InodeId),
    Dir,
}

type Entries = BTreeMap<Arc<str>, Node>;

/// All directories of a disk by path. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Names(BTreeMap<Arc<str>, Arc<Entries>>);

/// One change of a directory. Atomic, and durable only when the directory is synced.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Insert { dir: Arc<str>, name: Arc<str>, node: Node },
    Remove { dir: Arc<str>, name: Arc<str>, node: Node },
    Rename { from_dir: Arc<str>, from: Arc<str>, to_dir: Arc<str>, to: Arc<str>, inode: InodeId },
}

impl NameChange {
    /// The directory whose sync makes the change durable.
    pub(super) fn dir(&self) -> &str {
        match self {
            Self::Insert { dir, .. } | Self::Remove { dir, .. } => dir,
            Self::Rename { to_dir, .. } => to_dir,
        }
    }

    /// The file that the change concerns.
    pub(super) fn inode(&self) -> Option<InodeId> {
        match self {
            Self::Insert { node, .. } | Self::Remove { node, .. } => match node {
                Node::File(inode) => Some(*inode),
                Node::Dir => None,
            },
            Self::Rename { inode, .. } => Some(*inode),
        }
    }
}

/// The path of an entry.
pub(super) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() || dir.ends_with('/') { format!("{dir}{name}") } else { format!("{dir}/{name}") }
}

impl Names {
    /// A root for absolute paths and one for relative paths, both empty.
    pub(super) fn new() -> Self {
        Self(["/", ""].into_iter().map(|root| (Arc::from(root), Arc::default())).collect())
    }

    pub(super) fn has_dir(&self, dir: &str) -> bool {
        self.0.contains_key(dir)
    }

    pub(super) fn get(&self, dir: &str, name: &str) -> Option<Node> {
        self.0.get(dir)?.get(name).copied()
    }

    /// The entries of a directory by name.
    pub(super) fn entries(&self, dir: &str) -> Option<&BTreeMap<Arc<str>, Node>> {
        self.0.get(dir).map(|entries| &**entries)
    }

    pub(super) fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Insert { dir, name, node } => self.insert(dir, name, *node),
            NameChange::Remove { dir, name, node } => self.remove(dir, name, *node),
            NameChange::Rename { from_dir, from, to_dir, to, inode } => {
                self.remove(from_dir, from, Node::File(*inode));
                self.insert(to_dir, to, Node::File(*inode));
            }
        }
    }

    fn insert(&mut self, dir: &Arc<str>, name: &Arc<str>, node: Node) {
        let entries = self.0.entry(Arc::clone(dir)).or_default();
        Arc::make_mut(entries).insert(Arc::clone(name), node);
        if node == Node::Dir {
            self.0.entry(join(dir, name).into()).or_default();
        }
    }

    /// Removes a name if it still leads to `node`: in a crash state that lost the change which brought it there,
    /// it may lead elsewhere.
    fn remove(&mut self, dir: &Arc<str>, name: &Arc<str>, node: Node) {
        let Some(entries) = self.0.get_mut(dir) else { return };
        if entries.get(name) == Some(&node) {
            Arc::make_mut(entries).remove(name);
            if node == Node::Dir {
                self.0.remove(join(dir, name).as_str());
            }
        }
    }

    /// Forgets directories that no path leads to, as a crash may leave them.
    pub(super) fn prune(&mut self) {
        let unreachable = |names: &BTreeMap<Arc<str>, Arc<Entries>>| {
            let lost = |dir: &&Arc<str>| match split(dir) {
                None => false,
                Some((parent, name)) => names.get(parent).is_none_or(|entries| entries.get(name) != Some(&Node::Dir)),
            };
            names.keys().find(lost).cloned()
        };
        while let Some(dir) = unreachable(&self.0) {
            self.0.remove(&dir);
        }
    }

    /// Every file that some name leads to.
    pub(super) fn inodes(&self) -> impl Iterator<Item = InodeId> {
        self.0.values().flat_map(|entries| entries.values()).filter_map(|node| match node {
            Node::File(inode) => Some(*inode),
            Node::Dir => None,
        })
    }

    /// A hash of all names and of what `content` says that they lead to.
    pub(super) fn hash(&self, content: impl Fn(InodeId) -> u64) -> u64 {
        let mut hash = 0;
        for (dir, entries) in &self.0 {
            if !dir.is_empty() && &**dir != "/" {
                hash = xxh3_64_with_seed(dir.as_bytes(), hash);
            }
            for (name, node) in &**entries {
                let leads_to = match node {
                    Node::File(inode) => content(*inode),
                    Node::Dir => 1,
                };
                let key = [hash.to_le_bytes(), xxh3_64(name.as_bytes()).to_le_bytes(), leads_to.to_le_bytes()];
                hash = xxh3_64(key.as_flattened());
            }
        }
        hash
    }
}

/// Directory and name of a path; `None` for a root.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    if path.is_empty() || path == "/" {
        return None;
    }
    match path.rfind('/') {
        None => Some(("", path)),
        Some(0) => Some(("/", &path[1..])),
        Some(at) => Some((&path[..at], &path[at + 1..])),
    }
}
