//! Modules of an engine use only modules of a lower or the same rank, and some pairs never see each other.

use super::SourceFile;
use super::code::{code_only, paths_from};

/// The order of one engine's modules.
#[derive(Debug)]
pub struct Order {
    /// Rank by module; the longest matching prefix decides.
    ranks: &'static [(&'static str, u8)],
    /// Modules (with all below them) that never see each other.
    strangers: &'static [(&'static str, &'static str)],
    /// What a module (with all below it) must not know outside its own crate.
    blind: &'static [(&'static str, &'static [&'static str])],
}

/// The order of the LSM engine.
pub const LSM: Order = Order { ranks: LSM_RANKS, strangers: LSM_STRANGERS, blind: LSM_BLIND };

/// The order of the B-tree engine.
pub const BTREE: Order = Order {
    ranks: &[
        ("event", 0),
        ("options", 0),
        ("health", 0),
        ("meanwhile", 0),
        ("metrics", 0),
        ("sync_needed", 0),
        ("page", 1),
        ("space", 2),
        ("redo", 3),
        ("buffer", 3),
        ("mtr", 4),
        ("tree", 5),
        ("undo", 6),
        ("change_buffer", 6),
        ("db", 7),
    ],
    strangers: &[("space", "redo"), ("redo", "tree")],
    blind: &[(
        "page",
        &["siltstone_base::env", "siltstone_base::clock", "siltstone_base::executor", "siltstone_base::sync"],
    )],
};

const LSM_RANKS: &[(&str, u8)] = &[
    ("event", 0),
    ("file_names", 0),
    ("holders", 0),
    ("heads", 0),
    ("key", 0),
    ("metrics", 0),
    ("range_tombstones", 0),
    ("wide_columns", 0),
    ("snapshot", 0),
    ("trace", 1),
    // Options name the block cache, which is part of `sst`.
    ("options", 1),
    ("expiry", 1),
    ("batch", 1),
    ("memtable", 1),
    ("merge", 1),
    ("wal", 1),
    ("sst", 1),
    ("iterator", 1),
    ("file_copy", 1),
    ("external", 2),
    ("file_meta", 2),
    ("table_cache", 2),
    ("blob", 2),
    ("iterator::*", 2),
    ("version", 3),
    ("compaction", 4),
    ("compaction::job", 5),
    ("compaction::outputs", 5),
    ("compaction::simulator", 5),
    ("db", 6),
    ("bulk_load", 7),
    ("copies", 7),
    ("engine", 7),
    ("transaction", 7),
    ("async_db", 8),
    ("probes", 8),
    ("tables", 8),
    ("testing", 8),
];

const LSM_STRANGERS: &[(&str, &str)] = &[("wal", "sst"), ("wal", "memtable"), ("memtable", "sst")];

const LSM_BLIND: &[(&str, &[&str])] = &[(
    "compaction::picker",
    &["siltstone_base::env", "siltstone_base::clock", "siltstone_base::executor", "siltstone_base::sync"],
)];

fn rank(order: &Order, module: &str) -> Option<u8> {
    let matches = |pattern: &str| match pattern.strip_suffix("::*") {
        Some(parent) => module.strip_prefix(parent).is_some_and(|rest| rest.starts_with("::")),
        None => module == pattern || module.strip_prefix(pattern).is_some_and(|rest| rest.starts_with("::")),
    };
    order
        .ranks
        .iter()
        .filter(|(pattern, _)| matches(pattern))
        .max_by_key(|(pattern, _)| pattern.len())
        .map(|(_, rank)| *rank)
}

fn is_within(module: &str, room: &str) -> bool {
    module == room || module.strip_prefix(room).is_some_and(|rest| rest.starts_with("::"))
}

/// The module of a file: `…/src/db/flush.rs` is `db::flush`, `…/src/db/mod.rs` is `db`.
fn module_of(path: &str) -> Option<String> {
    let (_, inside) = path.split_once("/src/")?;
    let module = inside.strip_suffix(".rs")?;
    Some(module.strip_suffix("/mod").unwrap_or(module).replace('/', "::"))
}

/// The modules that a file names, resolved to paths within the crate. Each path is that of an item; it is cut to the
/// modules in `known`.
fn used(module: &str, code: &str, known: &[String]) -> Vec<String> {
    let mut absolute: Vec<Vec<String>> = paths_from(code, "crate").into_iter().map(|path| path[1..].to_vec()).collect();
    for path in paths_from(code, "super") {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let parts: Vec<String> = module.split("::").map(str::to_owned).collect();
        if let Some(kept) = parts.len().checked_sub(ups) {
            absolute.push(parts[..kept].iter().chain(&path[ups..]).cloned().collect());
        }
    }
    let to_module = |path: Vec<String>| {
        (1..=path.len()).rev().map(|length| path[..length].join("::")).find(|prefix| known.contains(prefix))
    };
    absolute.into_iter().filter_map(to_module).collect()
}

/// Findings in the files of one crate.
pub fn check(files: &[SourceFile], order: &Order) -> Vec<String> {
    let known: Vec<String> = files.iter().filter_map(|file| module_of(&file.path)).collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        let Some(module) = module_of(&file.path).filter(|module| module != "lib" && !module.starts_with("bin::"))
        else {
            continue;
        };
        let Some(own) = rank(order, &module) else {
            findings.push(format!("{}: module {module} has no rank", file.path));
            continue;
        };
        let code = code_only(&file.text);
        for target in used(&module, &code, &known) {
            match rank(order, &target) {
                Some(other) if other > own => findings.push(format!(
                    "{}: {module} (rank {own}) uses {target} (rank {other}), which stands above it",
                    file.path
                )),
                _ => {}
            }
            for (one, other) in order.strangers {
                let meets = |a, b| is_within(&module, a) && is_within(&target, b);
                if meets(one, other) || meets(other, one) {
                    findings.push(format!("{}: {one} and {other} never see each other", file.path));
                }
            }
        }
        for (room, hidden) in order.blind.iter().filter(|(room, _)| is_within(&module, room)) {
            let outside = paths_from(&code, "siltstone_base");
            for path in outside.iter().map(|path| path.join("::")) {
                if hidden.iter().any(|name| is_within(&path, name)) {
                    findings.push(format!("{}: {room} is pure and must not use {path}", file.path));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let with_prefix = |(path, text): &(&str, &str)| SourceFile::new(&format!("crates/lsm/src/{path}"), text);
        check(&files.iter().map(with_prefix).collect::<Vec<_>>(), &LSM)
    }

    #[test]
    fn downward_and_level_uses_are_fine() {
        let found = findings(&[
            ("key.rs", ""),
            ("sst/mod.rs", "use crate::key::SeqNo;"),
            ("sst/reader.rs", "use super::format::Footer; use crate::options::{TableOptions, X};"),
            ("sst/format.rs", ""),
            ("options/mod.rs", "use crate::sst::BlockCache;"),
            ("db/mod.rs", "use crate::{key, sst::reader};"),
            ("lib.rs", "use crate::db::Db;"),
            ("key/tests.rs", "use crate::db::Db;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn upward_uses_are_found_in_every_form() {
        for text in [
            "use crate::db::Db;",
            "use crate::{key::SeqNo, db::{Db, write}};",
            "fn f() { crate::db::open() }",
            "use super::db::Db;",
        ] {
            let found = findings(&[("version.rs", text), ("key.rs", ""), ("db/mod.rs", ""), ("db/write.rs", "")]);
            assert_eq!(
                found.len(),
                if text.contains('{') && text.starts_with("use") { 2 } else { 1 },
                "{text}: {found:?}"
            );
            assert!(found[0].contains("version (rank 3) uses db"), "{found:?}");
        }
        assert_eq!(
            findings(&[
                ("iterator/mod.rs", "use merging::X; use super::iterator::merging::X;"),
                ("iterator/merging.rs", "")
            ])
            .len(),
            1
        );
        assert_eq!(findings(&[("compaction/rules.rs", "use super::job::Job;"), ("compaction/job.rs", "")]).len(), 1);
    }

    #[test]
    fn comments_and_strings_do_not_count() {
        let text = "// use crate::db::Db;\n/* crate::db */ const X: &str = \"crate::db::Db\";";
        assert_eq!(findings(&[("key.rs", text), ("db/mod.rs", "")]), Vec::<String>::new());
    }

    #[test]
    fn strangers_unranked_modules_and_impure_pickers_are_found() {
        assert_eq!(findings(&[("wal/mod.rs", "use crate::sst::X;"), ("sst/mod.rs", "")]).len(), 1);
        assert_eq!(findings(&[("surprise.rs", "")]).len(), 1);
        let picker = "use siltstone_base::{comparator::Comparator, clock::Clock};";
        assert_eq!(findings(&[("compaction/picker/mod.rs", picker)]).len(), 1);
    }
}
