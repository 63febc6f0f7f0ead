//! The front page of every crate has an example that `cargo test` runs.

use super::SourceFile;

/// Whether the front page has one.
fn has_runnable_example(text: &str) -> bool {
    let mut inside = false;
    for line in text.lines().filter_map(|line| line.strip_prefix("//!")) {
        if let Some(tags) = line.trim().strip_prefix("```") {
            let runs = tags.split(',').all(|tag| matches!(tag.trim(), "" | "rust" | "should_panic"));
            if !inside && runs {
                return true;
            }
            inside = !inside;
        }
    }
    false
}

/// Findings among the root files of library crates.
pub fn check(front_pages: &[SourceFile]) -> Vec<String> {
    let without = front_pages.iter().filter(|page| !has_runnable_example(&page.text));
    without.map(|page| format!("{}: no runnable example", page.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_examples_that_run_count() {
        for (text, fine) in [
            ("//! A.\n//!\n//! ```\n//! a();\n//! ```\n", true),
            ("//! A.\n//! ```text\n//! x\n//! ```\n//! ```rust\n//! a();\n//! ```\n", true),
            ("//! A.\n//! ```no_run\n//! a();\n//! ```\n", false),
            ("//! A.\n//! ```ignore\n//! a();\n//! ```\n", false),
            ("/// ```\n/// a();\n/// ```\nfn a() {}", false),
        ] {
            assert_eq!(check(&[SourceFile::new("src/lib.rs", text)]).is_empty(), fine, "{text}");
        }
    }
}
