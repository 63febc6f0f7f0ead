//! Pages have one title, the book lists all its pages, and links within the repository lead somewhere.

use super::SourceFile;

/// Where the book's pages are.
const BOOK: &str = "docs/src/";

/// The targets of the links in a page, without anchors; those to other places are left out.
fn local_targets(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut targets = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split(')').next().unwrap_or("");
            let target = target.split('#').next().unwrap_or("");
            if !target.is_empty() && !target.contains("://") {
                targets.push(target);
            }
        }
    }
    targets
}

/// A path relative to the folder of `page`, made absolute within the repository.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Titles: lines that begin with a single `#`, outside of code.
fn titles(text: &str) -> usize {
    let mut fenced = false;
    let is_title = |line: &&str| {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        !fenced && line.starts_with("# ")
    };
    text.lines().filter(is_title).count()
}

/// Findings among all pages, given every path of the repository.
pub fn check(pages: &[SourceFile], paths: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut listed = Vec::new();
    for page in pages {
        if titles(&page.text) != 1 {
            findings.push(format!("{}: {} titles, not one", page.path, titles(&page.text)));
        }
        for target in local_targets(&page.text) {
            let path = resolve(&page.path, target);
            if !paths.iter().any(|other| *other == path || other.starts_with(&format!("{path}/"))) {
                findings.push(format!("{}: the link to {target} leads nowhere", page.path));
            }
            if page.path == format!("{BOOK}SUMMARY.md") {
                listed.push(path);
            }
        }
    }
    let in_book = pages.iter().filter(|page| page.path.starts_with(BOOK) && !page.path.ends_with("SUMMARY.md"));
    for page in in_book.filter(|page| !listed.contains(&page.path)) {
        findings.push(format!("{}: not in the book's summary", page.path));
    }
    findings
}

/// Findings among texts that name pages of the repository: `docs/….md` must exist.
pub fn check_mentions(files: &[SourceFile], paths: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.path.starts_with("tests/tidy_rules/")) {
        for (at, _) in file.text.match_indices("docs/") {
            let outside = |c: char| !(c.is_ascii_alphanumeric() || "_/.-".contains(c));
            let name = file.text[at..].split(outside).next().unwrap_or("").trim_end_matches('.');
            let whole = !file.text[..at].ends_with(|c: char| !outside(c));
            if whole && name.ends_with(".md") && !paths.iter().any(|path| path == name) {
                findings.push(format!("{}: names {name}, which does not exist", file.path));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(pages: &[(&str, &str)]) -> Vec<String> {
        let pages: Vec<_> = pages.iter().map(|(path, text)| SourceFile::new(path, text)).collect();
        let paths: Vec<_> = pages.iter().map(|page| page.path.clone()).collect();
        check(&pages, &paths)
    }

    #[test]
    fn a_book_in_order_is_fine() {
        let found = findings(&[
            (
                "README.md",
                "# A\n[book](docs/src/a.md#part) [web](https://example.org) [folder](docs)\n```\n# no title [x](y)\n```\n",
            ),
            ("docs/src/SUMMARY.md", "# Summary\n- [a](a.md)\n"),
            ("docs/src/a.md", "# A\n[up](../../README.md)\n"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn dead_links_unlisted_pages_and_titles_are_found() {
        assert_eq!(findings(&[("a.md", "# A\n[b](b.md)")]).len(), 1);
        assert_eq!(findings(&[("docs/src/SUMMARY.md", "# S\n"), ("docs/src/a.md", "# A\n")]).len(), 1);
        assert_eq!(findings(&[("a.md", "# A\n# B\n")]).len(), 1);
        assert_eq!(findings(&[("a.md", "no title\n")]).len(), 1);
    }

    #[test]
    fn mentions_of_missing_pages_are_found() {
        let paths = ["docs/src/a.md".to_owned()];
        let found = |text: &str| check_mentions(&[SourceFile::new("a.rs", text)], &paths).len();
        assert_eq!(found("//! See `docs/src/a.md`, and docs/src/a.md."), 0);
        assert_eq!(found("//! See docs/a.md"), 1);
        assert_eq!(found("//! See other/docs/a.md, docs/src and docs/x.txt"), 0);
    }
}
