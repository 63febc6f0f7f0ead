//! Several reads at the same time.
//!
//! Buffered files: what the page cache holds is copied at once (`RWF_NOWAIT`); the kernel is told of all the rest before any
//! of it is waited for, so that the device sees the requests together. Direct files: the first read shows how fast the device
//! is; where it is slow enough a few scoped threads share the others. A ring of the kernel can take the place of both behind [`read_many`].

use std::io::{self, IoSliceMut};

use rustix::io::{Errno, ReadWriteFlags};

use super::random::PosixFile;
use super::transfer;
use crate::env::{IoContext, RandomFile, ReadRequest};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, Rank};

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX - 2);

/// Threads that read one list, the caller's among them.
const THREADS: usize = 8;

/// A device that answers sooner is asked one by one: starting and joining a thread costs as much as a read of it.
const SLOW_MICROS: u64 = 80;

/// What starting and joining a thread costs, roughly, in microseconds.
const THREAD_MICROS: u64 = 50;

/// Whether the kernel and the file system know `RWF_NOWAIT`.
static NOWAIT: AtomicBool = AtomicBool::new(true);

/// Fills every request and its result.
pub(super) fn read_many(file: &PosixFile, requests: &mut [ReadRequest<'_>], context: IoContext) {
    match requests {
        [] => {}
        [request] => read(file, request, context),
        [first, others @ ..] if file.handle().is_direct() => {
            let begin = file.handle().clock().now_micros();
            read(file, first, context);
            let micros = file.handle().clock().now_micros().saturating_sub(begin);
            read_on_threads(file, others, context, helpers(micros, others.len()));
        }
        _ => read_overlapped(file, requests, context),
    }
}

fn read(file: &PosixFile, request: &mut ReadRequest<'_>, context: IoContext) {
    request.result = file.read_at(request.offset, request.buffer, context);
}

/// The threads that pay for `count` reads beside the caller, when one took `micros`: each must save twice what it costs.
pub(super) fn helpers(micros: u64, count: usize) -> usize {
    if micros < SLOW_MICROS {
        return 0;
    }
    let paid = micros.saturating_mul(count as u64) / (2 * THREAD_MICROS);
    usize::try_from(paid).unwrap_or(usize::MAX).min(count.saturating_sub(1)).min(THREADS - 1)
}

/// Reads a list by the caller and `helpers` more threads, each taking the next request.
pub(super) fn read_on_threads(file: &PosixFile, requests: &mut [ReadRequest<'_>], context: IoContext, helpers: usize) {
    let waiting = Mutex::new(RANK, requests.iter_mut());
    let read_next = || {
        let request = waiting.lock().next();
        request.map(|request| read(file, request, context))
    };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            // Without the thread the others read its share.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || while read_next().is_some() {});
        }
        while read_next().is_some() {}
    });
}

fn read_overlapped(file: &PosixFile, requests: &mut [ReadRequest<'_>], context: IoContext) {
    for request in requests.iter_mut() {
        let cached = read_cached(file, request);
        if let Ok(done) = cached
            && done < request.buffer.len()
        {
            file.will_need(request.offset + done as u64, (request.buffer.len() - done) as u64);
        }
        request.result = cached;
    }
    let fd = file.handle().fd();
    for request in requests {
        let result = match request.result {
            Ok(done) if done == request.buffer.len() => Ok(done),
            Ok(done) => {
                transfer::read_at(fd, request.offset + done as u64, &mut request.buffer[done..]).map(|rest| done + rest)
            }
            Err(_) => transfer::read_at(fd, request.offset, request.buffer),
        };
        if let Ok(read) = result {
            file.handle().stats().record_read(context, read as u64);
        }
        request.result = result;
    }
}

/// Copies what the page cache holds of the range, from its front. Zero where the kernel cannot tell.
fn read_cached(file: &PosixFile, request: &mut ReadRequest<'_>) -> io::Result<usize> {
    if !NOWAIT.load(Ordering::Relaxed) {
        return Ok(0);
    }
    let mut slices = [IoSliceMut::new(request.buffer)];
    match rustix::io::preadv2(file.handle().fd(), &mut slices, request.offset, ReadWriteFlags::NOWAIT) {
        Ok(count) => Ok(count),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            NOWAIT.store(false, Ordering::Relaxed);
            Ok(0)
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
pub(super) fn set_nowait_for_test(known: bool) {
    NOWAIT.store(known, Ordering::Relaxed);
}
