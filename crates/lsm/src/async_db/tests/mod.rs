//! A database in the hands of tasks, on threads.

mod pool;
mod rows;
mod writes;

use super::{AsyncDb, AsyncDbOptions};
use crate::{DbOptions, ErrorKind, Result};
use siltstone_base::env::Env;
use siltstone_base::env::sim::SimDisk;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Runs a test's tasks on two threads.
fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(work)
}

fn options(disk: &SimDisk) -> DbOptions {
    let env: Arc<dyn Env> = disk.env();
    DbOptions::default().create_if_missing(true).env(Some(env))
}

async fn open_with(disk: &SimDisk, tasks: AsyncDbOptions) -> AsyncDb {
    AsyncDb::open("/db", &options(disk), &tasks).await.unwrap()
}

async fn open(disk: &SimDisk) -> AsyncDb {
    open_with(disk, AsyncDbOptions::default()).await
}

/// What one poll says.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets others run until `condition` holds.
async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

fn kind<T>(outcome: &Result<T>) -> Option<ErrorKind> {
    outcome.as_ref().err().map(crate::Error::kind)
}

async fn value(db: &AsyncDb, key: &str) -> Option<String> {
    db.get(key).await.unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}
