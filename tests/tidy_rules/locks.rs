//! Every lock with a rank is on the page about locking.

use super::SourceFile;
use super::code::code_only;

/// Findings among the files of the substrate and the engines, given the text of the page.
pub fn check(files: &[SourceFile], page: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.is_test() && file.text.contains("Rank = Rank(")) {
        let code = code_only(&file.text);
        let shown = file.path.strip_prefix("crates/").unwrap_or(&file.path);
        for line in code.lines().filter_map(|line| line.split_once("Rank = Rank(")).map(|(_, rest)| rest) {
            let number = line.split(')').next().unwrap_or("").trim();
            let rank = match number.strip_prefix("u16::MAX") {
                Some(below) => {
                    let below = below.trim_start_matches([' ', '-']);
                    u16::MAX - if below.is_empty() { 0 } else { below.parse().unwrap_or(0) }
                }
                None => number.parse().unwrap_or(0),
            };
            let is_row = |row: &str| row.starts_with(&format!("| {rank} |")) && row.contains(shown);
            if !page.lines().any(is_row) {
                findings.push(format!("{}: the lock of rank {rank} is not on the page about locking", file.path));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_that_the_page_leaves_out_are_found() {
        let page = "| 7 | a | `lsm/src/a.rs` |\n| 65534 | b | `base/src/b.rs` |\n";
        let found = |path: &str, text: &str| check(&[SourceFile::new(path, text)], page).len();
        assert_eq!(found("crates/lsm/src/a.rs", "const RANK: Rank = Rank(7);"), 0);
        assert_eq!(found("crates/base/src/b.rs", "const RANK: Rank = Rank(u16::MAX - 1);"), 0);
        assert_eq!(found("crates/lsm/src/a.rs", "const RANK: Rank = Rank(8);"), 1);
        assert_eq!(found("crates/lsm/src/c.rs", "const RANK: Rank = Rank(7);"), 1);
        assert_eq!(found("crates/lsm/src/tests.rs", "const RANK: Rank = Rank(9);"), 0);
    }
}
