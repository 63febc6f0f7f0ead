//! Looks into a directory of the B-tree engine.
//!
//! ```text
//! pages DIR                 checks everything, and shows the shape of each tree
//! pages DIR SPACE:NUMBER    shows one page as it is on disk, of a database that need not open
//! ```

use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoPriority, PosixEnv, read_file};
use siltstone_btree::page::{MAX_PAGE_LEN, dump};
use siltstone_btree::{Db, DbOptions, Error, Result, TreeShape};
use std::path::Path;

/// Bytes of a page of the database, as its identity says.
fn page_size(env: &dyn Env, dir: &Path) -> Result<usize> {
    let path = dir.join("IDENTITY");
    let bytes = read_file(env, &path, FileKind::Other, 4096).map_err(|error| Error::io("read", &path, error))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let size = text.lines().find_map(|line| line.strip_prefix("page_size ")?.parse().ok());
    size.filter(|size| (512..=MAX_PAGE_LEN).contains(size))
        .ok_or_else(|| Error::corrupt("the identity has no page size"))
}

/// One page as text.
fn show_page(dir: &Path, space: u32, number: u32) -> Result<String> {
    let env = PosixEnv::new();
    let mut page = vec![0; page_size(&env, dir)?];
    let path = dir.join(format!("{space:06}.pages"));
    let file = env.open_random(&path, &FileOptions::new(FileKind::Page));
    let file = file.map_err(|error| Error::io("open", &path, error))?;
    let offset = u64::from(number) * page.len() as u64;
    let read = file.read_at(offset, &mut page, IoContext::new(FileKind::Page, IoPriority::User));
    let read = read.map_err(|error| Error::io("read", &path, error).with_offset(offset))?;
    Ok(dump(&page[..read]))
}

/// A tree as text: a line for each level.
fn show_shape(name: &str, shape: &TreeShape, page_len: usize) -> String {
    let mut out = format!("tree {name:?}, tablespace {}\n", shape.space);
    for (index, level) in shape.levels.iter().enumerate() {
        let height = shape.levels.len() - 1 - index;
        let fill = level.bytes_used as f64 / (level.pages.max(1) * page_len as u64) as f64 * 100.0;
        let tenths = level.fill.map(|pages| pages.to_string()).join(" ");
        let (pages, cells) = (level.pages, level.cells);
        out += &format!("  level {height}: {pages} pages, {cells} cells, {fill:.0} % full; by tenths: {tenths}\n");
    }
    out
}

/// The whole database as text.
fn show_all(dir: &Path) -> Result<String> {
    let page_len = page_size(&PosixEnv::new(), dir)?;
    let db = Db::open(dir, &DbOptions::default())?;
    let mut out = String::new();
    for name in db.tree_names() {
        if let Some(tree) = db.tree(&name) {
            out += &show_shape(&name, &db.shape(&tree)?, page_len);
        }
    }
    out += &format!("{:#?}\n", db.check()?);
    db.close()?;
    Ok(out)
}

/// What the arguments ask for.
fn run(arguments: &[String]) -> Result<String> {
    const USAGE: &str = "pages DIR [SPACE:NUMBER]";
    match arguments {
        [dir] => show_all(Path::new(dir)),
        [dir, page] => {
            let numbers =
                page.split_once(':').and_then(|(space, number)| Some((space.parse().ok()?, number.parse().ok()?)));
            let (space, number) = numbers.ok_or_else(|| Error::invalid_argument(USAGE))?;
            show_page(Path::new(dir), space, number)
        }
        _ => Err(Error::invalid_argument(USAGE)),
    }
}

#[expect(clippy::print_stdout, reason = "shows what was asked for")]
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("{}", run(&arguments)?.trim_end());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_shown_as_a_whole_and_page_by_page() {
        let dir = tempfile::tempdir().unwrap();
        let options = DbOptions::default().create_if_missing(true).page_size(4096).buffer_pool_bytes(1 << 20);
        let db = Db::open(dir.path(), &options).unwrap();
        let rows = (0..2_000_u32).map(|number| (number.to_be_bytes(), [7; 40]));
        db.bulk_load(&db.default_tree(), rows).unwrap();
        db.close().unwrap();
        drop(db);
        let name = dir.path().to_string_lossy().into_owned();
        let all = run(std::slice::from_ref(&name)).unwrap();
        let space = all.strip_prefix("tree \"default\", tablespace ").and_then(|rest| rest.split_once('\n')).unwrap().0;
        assert!(all.contains("\n  level 1: 1 pages, ") && all.contains("rows: 2000,"), "{all}");
        let root = run(&[name.clone(), format!("{space}:2")]).unwrap();
        let about = format!("page {space}:2, inner, level 1, LSN ");
        assert!(root.starts_with(&about) && root.contains("-> page 3\n"), "{root}");
        let leaf = run(&[name.clone(), format!("{space}:3")]).unwrap();
        assert!(leaf.contains("0 @") && leaf.contains("= 40 bytes"), "{leaf}");
        assert!(run(&[name, "3".to_owned()]).is_err());
    }
}
