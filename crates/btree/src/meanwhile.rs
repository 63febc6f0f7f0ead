//! What other threads may do in between, under a test's control.
//!
//! Crash tests run an engine on one thread, whose jobs step when somebody waits. Threads do more: the page cleaner writes, syncs and notes checkpoints between two records of a group, and beside a write of the
//! log. A test that says so has that happen, on a thread that it starts and waits for while the one at work stands still, so that each run is the same.
//!
//! In a build without the feature `testing` nothing of this remains.

/// Where other threads may come in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moment {
    /// A record is about to be appended to the redo log. Its group may be open.
    Record,
    /// A part of the redo log is about to be handed to the operating system.
    Write,
}

/// What another thread does then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Makes the redo log durable, the records of an open group included; at [`Moment::Write`] what is written.
    Sync,
    /// Writes the oldest pages that may be written, and lets some go. Nothing at [`Moment::Write`].
    Flush,
    /// Notes from where recovery would begin. Nothing at [`Moment::Write`].
    Checkpoint,
}

/// Where a test of one room may have something happen, once, on the thread that comes there next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gap {
    /// A new page was found in a frame that is not latched yet.
    NewPage,
    /// A descent has found a child, and not yet confirmed that the page says so.
    Descent,
    /// A reader has the next leaf, and not yet confirmed that it is the next one.
    NextLeaf,
    /// A reader of a long value has read all of it, and said nothing of it yet.
    LongValue,
    /// The frame of a page was found, and is not latched yet.
    Found,
    /// Who needs a frame found none, and nothing to write.
    NoFrame,
}

#[cfg(test)]
pub(crate) use once::{has_happened, once_at};

/// This thread is at `gap`.
#[cfg(test)]
pub(crate) fn passing(gap: Gap) {
    if let Some(act) = once::take(gap) {
        act();
    }
}

/// This thread is at a gap: nothing happens in this build.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn passing(_: Gap) {}

#[cfg(feature = "testing")]
mod enabled {
    use super::{Moment, Step};
    use siltstone_base::sync::Weak;
    use std::cell::RefCell;

    /// Who can do all that.
    pub(crate) trait Background: Send + Sync {
        fn step(&self, moment: Moment, step: Step);
    }

    /// Has a step done. To be called on another thread: the one at work holds locks.
    pub type Act<'a> = &'a (dyn Fn(Step) + Sync);

    type Choose = Box<dyn FnMut(Moment, Act<'_>)>;

    thread_local! {
        static CHOOSE: RefCell<Option<Choose>> = const { RefCell::new(None) };
        /// The database that this thread opened last.
        static OPENED: RefCell<Option<Weak<dyn Background>>> = const { RefCell::new(None) };
    }

    /// Runs `body`. Wherever other threads may come in between on this thread, `choose` is asked what is done there by the database that it opened last.
    pub fn with_meanwhile<T>(choose: impl FnMut(Moment, Act<'_>) + 'static, body: impl FnOnce() -> T) -> T {
        struct Clear;
        impl Drop for Clear {
            fn drop(&mut self) {
                CHOOSE.set(None);
                OPENED.set(None);
            }
        }
        let _clear = Clear;
        CHOOSE.set(Some(Box::new(choose)));
        body()
    }

    /// Says whom to ask on this thread.
    pub(crate) fn opened(background: Weak<dyn Background>) {
        OPENED.set(Some(background));
    }

    /// Where other threads may come in between.
    pub(crate) fn meanwhile(moment: Moment) {
        let background = OPENED.with_borrow(|opened| opened.as_ref().and_then(Weak::upgrade));
        if let Some(background) = background {
            CHOOSE.with_borrow_mut(|choose| {
                if let Some(choose) = choose {
                    choose(moment, &|step| background.step(moment, step));
                }
            });
        }
    }
}

#[cfg(feature = "testing")]
pub use enabled::{Act, with_meanwhile};
#[cfg(feature = "testing")]
pub(crate) use enabled::{Background, meanwhile, opened};

/// Where other threads may come in between: nothing happens in this build.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub(crate) fn meanwhile(_: Moment) {}

#[cfg(test)]
mod once {
    use super::Gap;
    use std::cell::RefCell;

    type Act = Box<dyn FnOnce()>;

    thread_local! {
        static ACTS: RefCell<Vec<(Gap, Act)>> = const { RefCell::new(Vec::new()) };
    }

    /// Has `act` done when this thread comes to `gap` next.
    pub(crate) fn once_at(gap: Gap, act: impl FnOnce() + 'static) {
        ACTS.with_borrow_mut(|acts| acts.push((gap, Box::new(act))));
    }

    /// Whether nothing is left to be done at `gap`.
    pub(crate) fn has_happened(gap: Gap) -> bool {
        ACTS.with_borrow(|acts| acts.iter().all(|(other, _)| *other != gap))
    }

    pub(super) fn take(gap: Gap) -> Option<Act> {
        ACTS.with_borrow_mut(|acts| {
            let position = acts.iter().position(|(other, _)| *other == gap)?;
            Some(acts.remove(position).1)
        })
    }
}
