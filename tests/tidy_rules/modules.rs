//! No dead files: every Rust file is a target of Cargo or reachable from one by `mod` declarations.

use super::SourceFile;
use super::code::{code_only, word_positions};
use std::collections::BTreeSet;

/// Whether Cargo compiles the file as the root of a crate.
fn is_crate_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    // The path within its package.
    let inside = match parts.as_slice() {
        ["crates", _, inside @ ..] | ["fuzz", inside @ ..] => inside,
        inside => inside,
    };
    matches!(
        inside,
        ["build.rs" | "fuzz_targets", ..]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    )
}

/// The names that a text declares by `mod name;`.
fn declared(text: &str) -> Vec<String> {
    let code = code_only(text);
    let name_after = |at: usize| {
        let rest = code[at + "mod".len()..].trim_start();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        rest[name.len()..].trim_start().starts_with(';').then_some(name)
    };
    word_positions(&code, "mod").filter_map(name_after).filter(|name| !name.is_empty()).collect()
}

/// Findings among all Rust files of the repository.
pub fn check(files: &[SourceFile]) -> Vec<String> {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&SourceFile> = files.iter().filter(|file| is_crate_root(&file.path)).collect();
    while let Some(file) = open.pop() {
        if !reached.insert(&file.path) {
            continue;
        }
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let below = match name {
            _ if is_crate_root(&file.path) || name == "mod.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
        };
        for module in declared(&file.text) {
            let places = [format!("{below}/{module}.rs"), format!("{below}/{module}/mod.rs")];
            open.extend(files.iter().filter(|other| places.contains(&other.path)));
        }
    }
    let dead = files.iter().filter(|file| !reached.contains(file.path.as_str()));
    dead.map(|file| format!("{}: no `mod` declaration leads here", file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&files.iter().map(|(path, text)| SourceFile::new(path, text)).collect::<Vec<_>>())
    }

    #[test]
    fn declared_files_are_alive() {
        let found = findings(&[
            ("crates/lsm/src/lib.rs", "mod db;\n#[cfg(test)]\npub(crate) mod testing;"),
            ("crates/lsm/src/db/mod.rs", "mod write ;"),
            ("crates/lsm/src/db/write.rs", "mod queue;"),
            ("crates/lsm/src/db/write/queue.rs", ""),
            ("crates/lsm/src/testing/mod.rs", ""),
            ("crates/bench/src/bin/siltstone-bench.rs", ""),
            ("tests/tidy.rs", "mod rules;"),
            ("tests/rules/mod.rs", ""),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn undeclared_files_are_dead() {
        let found = findings(&[
            ("crates/lsm/src/lib.rs", "// mod old;\nmod inline { }\nmod module_path;"),
            ("crates/lsm/src/old.rs", "mod older;"),
            ("crates/lsm/src/old/older.rs", ""),
            ("crates/lsm/src/inline.rs", ""),
        ]);
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
