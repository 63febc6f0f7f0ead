//! Unsafe code is pinned: each file that has any is listed with the number of its blocks, functions and implementations.

use super::SourceFile;
use super::code::{code_only, word_positions};

/// Files with unsafe code, and how often the word stands in each. Add a line only for code that was measured to need it.
pub const PINNED: &[(&str, usize)] = &[
    ("crates/base/src/allocator/mod.rs", 5),
    ("crates/base/src/block_pool/buffers.rs", 1),
    ("crates/base/src/block_pool/memory.rs", 6),
    ("crates/base/src/block_pool/slab.rs", 1),
    ("crates/base/src/env/posix/mmap.rs", 1),
    ("crates/base/src/env/posix/range.rs", 1),
    // Its test maps a file, too.
    ("crates/base/src/env/posix/remove.rs", 3),
    ("crates/base/src/executor/turn.rs", 3),
    ("crates/base/src/prefetch/mod.rs", 1),
    ("crates/btree/src/buffer/frame.rs", 1),
    ("crates/compare/src/lmdb/mod.rs", 1),
    ("crates/lsm/src/memtable/arena.rs", 12),
    ("crates/lsm/src/memtable/block.rs", 15),
    ("crates/lsm/src/memtable/skiplist/cursor.rs", 12),
    ("crates/lsm/src/memtable/skiplist/mod.rs", 16),
    ("crates/lsm/src/memtable/skiplist/node.rs", 15),
    ("crates/lsm/src/memtable/skiplist/splice.rs", 7),
    ("crates/lsm/src/memtable/skiplist/tests.rs", 1),
    ("crates/lsm/src/memtable/skiplist/writers.rs", 10),
    ("tests/damage_support/counting.rs", 7),
];

/// Findings among all Rust files.
pub fn check(files: &[SourceFile], pinned: &[(&str, usize)]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        let code = code_only(&file.text);
        let is = word_positions(&code, "unsafe").count();
        let was = pinned.iter().find(|(path, _)| *path == file.path).map_or(0, |(_, count)| *count);
        if is != was {
            findings.push(format!("{}: {is} times unsafe, pinned at {was}", file.path));
        }
    }
    let gone = pinned.iter().filter(|(path, _)| !files.iter().any(|file| file.path == *path));
    findings.extend(gone.map(|(path, _)| format!("{path}: pinned, but does not exist")));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_fewer_and_elsewhere_are_found() {
        let files = [
            SourceFile::new(
                "a.rs",
                "// unsafe\nfn f() { unsafe { g() } }\nunsafe impl Send for A {}\n#![deny(unsafe_code)]",
            ),
            SourceFile::new("b.rs", "fn f() {}"),
        ];
        assert_eq!(check(&files, &[("a.rs", 2)]), Vec::<String>::new());
        assert_eq!(check(&files, &[("a.rs", 1)]).len(), 1);
        assert_eq!(check(&files, &[("a.rs", 3)]).len(), 1);
        assert_eq!(check(&files, &[]).len(), 1);
        assert_eq!(check(&files, &[("a.rs", 2), ("c.rs", 1)]).len(), 1);
    }
}
