//! Every Rust file begins with a `//!` header that says what it is.

use super::SourceFile;

/// Findings among all Rust files.
pub fn check(files: &[SourceFile]) -> Vec<String> {
    let says_nothing = |file: &&SourceFile| {
        let first = file.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        let header = first.strip_prefix("//!").map_or("", str::trim);
        header.len() < 5
    };
    files.iter().filter(says_nothing).map(|file| format!("{}: no `//!` header", file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_must_say_something() {
        for (text, fine) in [
            ("//! Locks that know their place.\nuse a;", true),
            ("\n//! Locks that know their place.", true),
            ("// Locks that know their place.", false),
            ("use a;\n//! Locks that know their place.", false),
            ("//! -", false),
            ("", false),
        ] {
            assert_eq!(check(&[SourceFile::new("a.rs", text)]).is_empty(), fine, "{text}");
        }
    }
}
