//! The file that says what a directory is: format, page size, features. It is written last when a database is created.

use siltstone_base::checksum::xxh3_64;
use siltstone_base::env::{Env, FileKind, read_file, write_file_atomically};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::Path;

const NAME: &str = "IDENTITY";
const TEMPORARY: &str = "IDENTITY.tmp";
pub(super) const TITLE: &str = "siltstone-btree 3";
const LONGEST: u64 = 4096;

/// Features that this version knows, of each class.
const KNOWN: [(&str, &[&str]); 3] = [("incompatible", &[]), ("read_only_compatible", &[]), ("compatible", &[])];

/// What a directory says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) page_size: usize,
    /// A number that no other database has.
    pub(super) id: u64,
}

impl Identity {
    fn text(&self) -> String {
        let mut text = format!("{TITLE}\npage_size {}\nid {:016x}\n", self.page_size, self.id);
        for (class, _) in KNOWN {
            text += &format!("{class} -\n");
        }
        let sum = xxh3_64(text.as_bytes());
        text + &format!("checksum {sum:016x}\n")
    }

    pub(super) fn write(&self, env: &dyn Env, dir: &Path) -> Result<()> {
        let path = dir.join(NAME);
        let written = write_file_atomically(env, &path, &dir.join(TEMPORARY), self.text().as_bytes(), FileKind::Other);
        written.map_err(|error| Error::io("write", &path, error))
    }

    /// Reads the file, if there is one. An incompatible feature that this version does not know is refused by its name.
    pub(super) fn read(env: &dyn Env, dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(NAME);
        let bytes = match read_file(env, &path, FileKind::Other, LONGEST) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| Error::io("read", &path, error))?,
        };
        let damaged = |what: &'static str| Error::corruption(&path, 0, what);
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged("the identity is no text"))?;
        if text.starts_with("siltstone-btree ") && !text.starts_with(&format!("{TITLE}\n")) {
            return Err(Error::not_supported("a B-tree database of another format version").with_file(&path));
        }
        let body = text.rsplit_once("checksum ").map(|(body, _)| body);
        let body = body.ok_or_else(|| damaged("the identity has no checksum"))?;
        if text != format!("{body}checksum {:016x}\n", xxh3_64(body.as_bytes())) {
            return Err(damaged("the identity's checksum does not fit"));
        }
        let field = |name: &str| {
            let found = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            found.ok_or_else(|| damaged("the identity lacks a line"))
        };
        for (class, known) in KNOWN {
            let names = field(class)?.split(',').filter(|name| *name != "-");
            for name in names.filter(|name| !known.contains(name)) {
                // What is compatible may be ignored; this version has no mode in which it only reads.
                if class != "compatible" {
                    return Err(
                        Error::not_supported(format!("the directory needs the feature {name}")).with_file(&path)
                    );
                }
            }
        }
        let page_size: usize = field("page_size")?.parse().map_err(|_| damaged("the page size is no number"))?;
        let id = u64::from_str_radix(field("id")?, 16).map_err(|_| damaged("the id is no number"))?;
        if !page_size.is_power_of_two() || !(512..=64 << 10).contains(&page_size) {
            return Err(Error::new(ErrorKind::Corruption, "the page size is none that is written").with_file(&path));
        }
        Ok(Some(Self { page_size, id }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_base::env::sim::SimDisk;

    fn rewrite(disk: &SimDisk, change: impl Fn(&str) -> String) {
        let path = Path::new("/db/IDENTITY");
        let text = String::from_utf8(read_file(disk, path, FileKind::Other, LONGEST).unwrap()).unwrap();
        let body = change(text.rsplit_once("checksum ").unwrap().0);
        let text = format!("{body}checksum {:016x}\n", xxh3_64(body.as_bytes()));
        write_file_atomically(disk, path, Path::new("/db/t"), text.as_bytes(), FileKind::Other).unwrap();
    }

    #[test]
    fn what_is_written_is_read_and_the_unknown_is_refused_by_name() {
        let disk = SimDisk::new();
        disk.make_durable_dir(Path::new("/db")).unwrap();
        let dir = Path::new("/db");
        assert_eq!(Identity::read(&disk, dir).unwrap(), None);
        let identity = Identity { page_size: 8192, id: 77 };
        identity.write(&disk, dir).unwrap();
        assert_eq!(Identity::read(&disk, dir).unwrap(), Some(identity));
        rewrite(&disk, |body| body.replace("\ncompatible -", "\ncompatible harmless"));
        assert_eq!(Identity::read(&disk, dir).unwrap(), Some(identity));
        rewrite(&disk, |body| body.replace("incompatible -", "incompatible wings"));
        let error = Identity::read(&disk, dir).unwrap_err();
        assert!(error.kind() == ErrorKind::NotSupported && error.message().contains("wings"), "{error}");
        rewrite(&disk, |body| body.replace("siltstone-btree 3", "siltstone-btree 4"));
        assert_eq!(Identity::read(&disk, dir).unwrap_err().kind(), ErrorKind::NotSupported);
        disk.flip(Path::new("/db/IDENTITY"), 3, 4).unwrap();
        assert_eq!(Identity::read(&disk, dir).unwrap_err().kind(), ErrorKind::Corruption);
    }
}
