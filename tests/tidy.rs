//! Tidy: what the compiler and clippy do not check about the source. Each rule is a pure function over texts in
//! `tidy_rules`, with tests of its own; this file applies them to the repository.

#![expect(clippy::unwrap_used, reason = "a test")]

mod tidy_rules;

use tidy_rules::{examples, headers, links, locks, modules, paths, ranks, source, unsafe_count, words};

/// Fails with every finding on a line of its own.
fn assert_clean(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn modules_use_only_lower_or_equal_ranks() {
    assert_clean(&ranks::check(&source::rust_files("crates/lsm/src"), &ranks::LSM));
    assert_clean(&ranks::check(&source::rust_files("crates/btree/src"), &ranks::BTREE));
}

#[test]
fn straight_lines_close() {
    assert_clean(&paths::check(&source::rust_files("crates/lsm/src"), paths::LINES));
    assert_clean(&paths::check(&source::rust_files("crates/btree/src"), paths::LINES));
}

#[test]
fn every_file_is_part_of_a_crate() {
    assert_clean(&modules::check(&source::all_rust_files()));
}

#[test]
fn every_file_says_what_it_is() {
    assert_clean(&headers::check(&source::all_rust_files()));
}

#[test]
fn words_are_those_of_the_house() {
    assert_clean(&words::check(&source::all_texts()));
}

#[test]
fn every_front_page_has_a_runnable_example() {
    assert_clean(&examples::check(&source::front_pages()));
}

#[test]
fn unsafe_is_where_it_is_allowed_and_as_often_as_it_was() {
    assert_clean(&unsafe_count::check(&source::all_rust_files(), unsafe_count::PINNED));
}

#[test]
fn the_book_lists_its_pages_and_links_lead_somewhere() {
    assert_clean(&links::check(&source::markdown_files(), &source::all_paths()));
}

#[test]
fn pages_named_in_the_source_exist() {
    assert_clean(&links::check_mentions(&source::all_rust_files(), &source::all_paths()));
}

#[test]
fn every_lock_is_on_the_page_about_locking() {
    let pages = source::markdown_files();
    let page = pages.iter().find(|page| page.path == "docs/src/locking.md").unwrap();
    let files: Vec<_> =
        ["crates/base/src", "crates/lsm/src", "crates/btree/src"].into_iter().flat_map(source::rust_files).collect();
    assert_clean(&locks::check(&files, &page.text));
}
