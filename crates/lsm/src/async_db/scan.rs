//! Walking over rows without blocking: a thread of the pool fills one batch after the other.

use super::AsyncDb;
use super::pool::Answer;
use crate::db::{ColumnFamily, Db, Iter};
use crate::options::ReadOptions;
use futures_core::Stream;
use siltstone_base::executor::Priority;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Rows of the first batch: who wants only few does not wait for many.
const FIRST_ROWS: usize = 16;

/// Rows of a batch, at most.
const MOST_ROWS: usize = 4096;

/// Each batch may have so many times the rows of the one before.
const GROWTH: usize = 4;

/// Rows in order, as they were when the scan was made. A stream, and with [`next`](Self::next) without one's help; after an error, and after the last row, it has ended.
///
/// One batch of rows is in memory, and one is being read while it is waited for. A snapshot is held until the scan is dropped, and from the first row on memtables and files are pinned.
#[derive(Debug)]
pub struct AsyncScan {
    db: AsyncDb,
    place: Place,
    /// What was read and not handed out yet.
    rows: std::vec::IntoIter<ScannedRow>,
    /// Rows of the next batch, at most.
    most_rows: usize,
}

/// Where the walk is.
#[derive(Debug)]
enum Place {
    /// Here.
    Resting(Box<Walk>),
    /// With a thread of the pool.
    Away(Answer<Filled>),
    /// At an error, which comes after the rows before it.
    Failed(Error),
    /// At its end.
    Ended,
}

/// A batch, and the walk back if there is more.
#[derive(Debug)]
struct Filled {
    rows: Vec<ScannedRow>,
    walk: Result<Option<Box<Walk>>>,
}

/// An iterator, made by the thread that first needs it.
struct Walk {
    db: Db,
    family: ColumnFamily,
    options: ReadOptions,
    is_backward: bool,
    batch_bytes: usize,
    iter: Option<Iter>,
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("is_backward", &self.is_backward).finish_non_exhaustive()
    }
}

/// A row of a scan. It shares its memory with the other rows of its batch, and keeps that.
#[derive(Clone)]
pub struct ScannedRow {
    bytes: Arc<Vec<u8>>,
    key: Range<usize>,
    value: Range<usize>,
}

impl ScannedRow {
    /// Its key.
    pub fn key(&self) -> &[u8] {
        self.bytes.get(self.key.clone()).unwrap_or_default()
    }

    /// Its value.
    pub fn value(&self) -> &[u8] {
        self.bytes.get(self.value.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for ScannedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScannedRow({} bytes)", self.key.len() + self.value.len())
    }
}

impl AsyncScan {
    pub(super) fn new(db: &AsyncDb, family: &ColumnFamily, options: &ReadOptions, is_backward: bool) -> Self {
        let mut options = options.clone();
        options.snapshot.get_or_insert_with(|| db.snapshot());
        let walk = Walk {
            db: db.db().clone(),
            family: family.clone(),
            options,
            is_backward,
            batch_bytes: db.shared.options.scan_batch_bytes,
            iter: None,
        };
        let place = Place::Resting(Box::new(walk));
        Self { db: db.clone(), place, rows: Vec::new().into_iter(), most_rows: FIRST_ROWS }
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// Those of [`Iter`], `NotFound` if the family was dropped, and `Poisoned`. Nothing follows an error.
    pub async fn next(&mut self) -> Option<Result<ScannedRow>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for AsyncScan {
    type Item = Result<ScannedRow>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(row) = this.rows.next() {
                return Poll::Ready(Some(Ok(row)));
            }
            match std::mem::replace(&mut this.place, Place::Ended) {
                Place::Ended => return Poll::Ready(None),
                Place::Failed(error) => return Poll::Ready(Some(Err(error))),
                Place::Resting(walk) => {
                    let most_rows = this.most_rows;
                    this.most_rows = most_rows.saturating_mul(GROWTH).min(MOST_ROWS);
                    let work = move || fill(walk, most_rows);
                    this.place = Place::Away(this.db.shared.pool.ask(Priority::Medium, work));
                }
                Place::Away(mut answer) => {
                    let Poll::Ready(filled) = Pin::new(&mut answer).poll(context) else {
                        this.place = Place::Away(answer);
                        return Poll::Pending;
                    };
                    let Filled { rows, walk } =
                        filled.unwrap_or_else(|error| Filled { rows: Vec::new(), walk: Err(error) });
                    this.rows = rows.into_iter();
                    this.place = match walk {
                        Ok(Some(walk)) => Place::Resting(walk),
                        Ok(None) => Place::Ended,
                        Err(error) => Place::Failed(error),
                    };
                }
            }
        }
    }
}

impl Drop for AsyncScan {
    /// What an iterator pins is let go by the pool: that may free much. An answer that is on its way sees to that by itself.
    fn drop(&mut self) {
        if let Place::Resting(walk) = std::mem::replace(&mut self.place, Place::Ended)
            && walk.iter.is_some()
        {
            self.db.shared.pool.run(Priority::Medium, move || drop(walk));
        }
    }
}

/// Reads the next rows.
fn fill(mut walk: Box<Walk>, most_rows: usize) -> Filled {
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    let outcome = walk.read(&mut bytes, &mut ends, most_rows);
    let bytes = Arc::new(bytes);
    let mut begin = 0;
    let rows = ends.into_iter().map(|(key_end, end)| {
        let row = ScannedRow { bytes: Arc::clone(&bytes), key: begin..key_end, value: key_end..end };
        begin = end;
        row
    });
    Filled { rows: rows.collect(), walk: outcome.map(|goes_on| goes_on.then_some(walk)) }
}

impl Walk {
    /// Puts keys and values into `bytes`, and where each ends into `ends`. Returns whether there are more.
    fn read(&mut self, bytes: &mut Vec<u8>, ends: &mut Vec<(usize, usize)>, most_rows: usize) -> Result<bool> {
        let iter = match &mut self.iter {
            Some(iter) => iter,
            none => {
                let mut iter = self.db.iter_cf(&self.family, &self.options)?;
                if self.is_backward {
                    iter.seek_to_last()
                } else {
                    iter.seek_to_first()
                }
                none.insert(iter)
            }
        };
        while iter.valid() && ends.len() < most_rows {
            let (key, value) = (iter.key(), iter.value());
            if !ends.is_empty() && bytes.len() + key.len() + value.len() > self.batch_bytes {
                break;
            }
            bytes.extend_from_slice(key);
            let key_end = bytes.len();
            bytes.extend_from_slice(value);
            ends.push((key_end, bytes.len()));
            if self.is_backward { iter.prev() } else { iter.next() }
        }
        iter.status()?;
        Ok(iter.valid())
    }
}
