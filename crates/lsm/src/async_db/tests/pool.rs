//! What threads of the pool answer, and who drops it.

use super::super::pool::Pool;
use siltstone_base::executor::Priority;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ThreadId;

/// Tells which thread drops it.
struct Tells(Sender<ThreadId>);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.send(std::thread::current().id());
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn an_answer_that_nobody_takes_is_not_dropped_on_the_thread_of_the_task() {
    let pool = Pool::new(1, Path::new("/")).unwrap();
    let (sender, dropped) = channel();
    let mut answer = pool.ask(Priority::Medium, move || Tells(sender));
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    match Pin::new(&mut answer).poll(&mut Context::from_waker(&waker)) {
        // The thread was there first: the answer is taken, and there is nothing to see.
        Poll::Ready(_) => return,
        Poll::Pending => {
            while !woken.0.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
    }
    drop(answer);
    assert_ne!(dropped.recv().unwrap(), std::thread::current().id());
}

#[test]
fn an_answer_that_is_taken_belongs_to_who_took_it() {
    let pool = Pool::new(1, Path::new("/")).unwrap();
    let (sender, dropped) = channel();
    let answer = pool.ask(Priority::Medium, move || Tells(sender));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    drop(runtime.block_on(answer).unwrap());
    assert_eq!(dropped.recv().unwrap(), std::thread::current().id());
}
