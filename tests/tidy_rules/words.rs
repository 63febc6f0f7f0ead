//! Words that do not stand in this repository, with what to write instead.

use super::SourceFile;
use super::code::code_only;

/// Phrases that stand nowhere, in any case of letters.
const NOWHERE: &[(&str, &str)] = &[
    ("fixme", "mend it"),
    ("//! to come", "say what the file is"),
    ("todo!(", "write it"),
    ("unimplemented!(", "return `NotSupported`"),
    ("dbg!(", "remove it"),
    ("#[ignore", "a test runs or is removed"),
    ("allow(dead_code)", "remove the dead code"),
    ("issue #", "say what was wrong; the project speaks of itself alone"),
];

/// Words that the glossary replaces, looked for in comments and names of engine crates, as whole words.
const GLOSSARY: &[(&str, &str)] = &[
    ("keyspace", "column family"),
    ("minor compaction", "flush"),
    ("major compaction", "manual compaction"),
    ("raw key", "user key"),
    ("delete marker", "tombstone"),
    ("sstable", "table, or SST"),
    ("backpressure", "write stall"),
];

/// What the engines leave to the substrate.
const SUBSTRATE: &[(&str, &str)] = &[
    ("std::fs", "base::env"),
    ("std::thread::", "base::executor"),
    ("Instant::now", "base::clock"),
    ("SystemTime::now", "base::clock"),
    ("parking_lot::", "base::sync"),
];

/// Files that must name what they ban or explain.
fn is_excused(path: &str) -> bool {
    path.starts_with("tests/tidy_rules/") || path.ends_with("glossary.md") || path == "clippy.toml"
}

fn is_word_at(text: &str, at: usize, word: &str) -> bool {
    let letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
    !letter(before) && !letter(text.as_bytes().get(at + word.len()))
}

/// Findings among all texts.
pub fn check(files: &[SourceFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !is_excused(&file.path)) {
        let is_engine = |path: &str| path.starts_with("crates/lsm/src") || path.starts_with("crates/btree/src");
        let engine = is_engine(&file.path) && !file.is_test();
        let code = if engine { code_only(&file.text) } else { String::new() };
        for (number, line) in file.text.lines().enumerate() {
            let mut say = |word: &str, instead: &str| {
                findings.push(format!("{}:{}: `{word}`: {instead}", file.path, number + 1));
            };
            let lower = line.to_lowercase();
            for (word, instead) in NOWHERE.iter().filter(|(word, _)| lower.contains(word)) {
                say(word, instead);
            }
            if !engine {
                continue;
            }
            let is_word = |word: &str| lower.match_indices(word).any(|(at, _)| is_word_at(&lower, at, word));
            for (word, instead) in GLOSSARY.iter().filter(|(word, _)| is_word(word)) {
                say(word, instead);
            }
            let code_line = code.lines().nth(number).unwrap_or("");
            for (word, instead) in SUBSTRATE.iter().filter(|(word, _)| code_line.contains(word)) {
                say(word, instead);
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&[SourceFile::new(path, text)]).len()
    }

    #[test]
    fn banned_words_are_found_where_they_are_banned() {
        assert_eq!(findings("docs/a.md", "Fine.\nFixMe: later"), 1);
        assert_eq!(findings("crates/lsm/src/a.rs", "// One keyspace each.\nuse std::fs;"), 2);
        assert_eq!(findings("crates/compare/src/a.rs", "// One keyspace each."), 0);
        assert_eq!(findings("crates/lsm/src/a.rs", "// std::fs is not used here\nlet keyspaces = 1;"), 0);
        assert_eq!(findings("crates/lsm/src/a/tests.rs", "use std::fs;"), 0);
        assert_eq!(findings("crates/lsm/src/a.rs", "#[ignore = \"slow\"]"), 1);
    }
}
