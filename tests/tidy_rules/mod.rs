//! The rules, one a file. A finding is a sentence that names the file.

pub mod code;
pub mod examples;
pub mod headers;
pub mod links;
pub mod locks;
pub mod modules;
pub mod paths;
pub mod ranks;
pub mod source;
pub mod unsafe_count;
pub mod words;

/// One file: its path from the root of the repository, with slashes, and its text.
#[derive(Debug, Clone)]
pub struct SourceFile {
    pub path: String,
    pub text: String,
}

impl SourceFile {
    /// A file for a test of a rule.
    #[cfg(test)]
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Whether the file holds only tests or what only tests use.
    pub fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "tests.rs" | "testing" | "benches" | "fuzz"))
    }
}
