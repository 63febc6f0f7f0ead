//! Reads the repository.

#![expect(clippy::disallowed_methods, reason = "reads the source tree, not the data of an engine")]

use super::SourceFile;
use std::path::{Path, PathBuf};

/// Directories that hold nothing of ours.
const SKIPPED: [&str; 4] = ["target", ".git", "node_modules", "data"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                walk(&path, files);
            }
        } else {
            files.push(path);
        }
    }
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/")
}

/// Every file of the repository, sorted.
pub fn all_paths() -> Vec<String> {
    let mut files = Vec::new();
    walk(&root(), &mut files);
    let mut paths: Vec<String> = files.iter().map(|path| relative(path)).collect();
    paths.sort();
    paths
}

fn read(paths: impl Iterator<Item = String>) -> Vec<SourceFile> {
    paths
        .map(|path| {
            let text = std::fs::read_to_string(root().join(&path)).unwrap();
            SourceFile { path, text }
        })
        .collect()
}

fn with_extensions(extensions: &[&str]) -> Vec<SourceFile> {
    let wanted = |path: &String| path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension));
    read(all_paths().into_iter().filter(wanted))
}

/// The Rust files below a folder.
pub fn rust_files(folder: &str) -> Vec<SourceFile> {
    let files = all_rust_files().into_iter().filter(|file| file.path.starts_with(folder)).collect::<Vec<_>>();
    assert!(!files.is_empty(), "no Rust file below {folder}");
    files
}

/// All Rust files.
pub fn all_rust_files() -> Vec<SourceFile> {
    with_extensions(&["rs"])
}

/// All texts that people read or write by hand.
pub fn all_texts() -> Vec<SourceFile> {
    with_extensions(&["rs", "md", "toml", "sh"])
}

/// All pages in Markdown.
pub fn markdown_files() -> Vec<SourceFile> {
    with_extensions(&["md"])
}

/// The root file of every library crate.
pub fn front_pages() -> Vec<SourceFile> {
    let is_front_page = |path: &String| {
        path == "src/lib.rs"
            || (path.starts_with("crates/") && path.ends_with("/src/lib.rs") && path.matches('/').count() == 3)
    };
    read(all_paths().into_iter().filter(is_front_page))
}
