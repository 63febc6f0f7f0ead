//! A page-based B+tree storage engine in the manner of InnoDB.
//!
//! ```
//! use siltstone_btree::page::{self, Cell, Change, Header, PageId, PageKind};
//!
//! // A leaf of 4 KiB with one row, changed as the redo log would change it.
//! let mut leaf = vec![0; 4096];
//! Change::Format { kind: PageKind::Leaf, level: 0, left: 0, right: 0 }.apply(leaf.as_mut_slice()).unwrap();
//! let cell = Cell { flags: 0, key: b"granite", value: b"igneous" };
//! Change::Insert { slot: 0, cell }.apply(leaf.as_mut_slice()).unwrap();
//! assert_eq!(page::find(&leaf, b"granite"), Some(Ok((0, cell))));
//!
//! // On disk a page states its name and its LSN, and is summed up.
//! page::seal(&mut leaf, PageId::new(1, 2), 4711);
//! assert_eq!(page::verify(&leaf, PageId::new(1, 2)), Ok(4711));
//! assert_eq!(Header::read(leaf.as_slice()).count, 1);
//! ```

pub mod page;

pub use siltstone_base::{Error, ErrorKind, Result};
