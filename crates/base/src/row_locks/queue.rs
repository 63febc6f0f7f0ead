//! The queue of one row: who holds its lock, and who waits. Pure, but for the waiters, that are told elsewhere.

use super::LockMode;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Signal};
use std::collections::VecDeque;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) owner: u64,
    pub(super) mode: LockMode,
    is_granted: AtomicBool,
    pub(super) signal: Signal,
}

impl Waiter {
    pub(super) fn new(owner: u64, mode: LockMode) -> Self {
        Self { owner, mode, is_granted: AtomicBool::new(false), signal: Signal::new() }
    }

    /// Whether the lock was given.
    pub(super) fn is_granted(&self) -> bool {
        self.is_granted.load(Ordering::Acquire)
    }

    /// Tells the waiter that it has the lock.
    pub(super) fn grant(&self) {
        self.is_granted.store(true, Ordering::Release);
        self.signal.notify_all();
    }
}

/// What a queue says to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The owner had it already, or had it shared alone and has it exclusively now.
    Held,
    /// The owner has it now and had not before.
    Granted,
    /// Others have it, or were first.
    Wait,
}

/// A waiter that was given the lock.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) waiter: Arc<Waiter>,
    /// Whether it had no lock of the row before.
    pub(super) is_new: bool,
}

/// Who holds the lock of one row, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// In no order; each owner once.
    holders: Vec<(u64, LockMode)>,
    /// In the order in which they are served: those first that have the lock shared and want it exclusively.
    waiters: VecDeque<Arc<Waiter>>,
}

impl Queue {
    /// How an owner holds the lock.
    pub(super) fn mode_of(&self, owner: u64) -> Option<LockMode> {
        self.holders.iter().find(|(holder, _)| *holder == owner).map(|(_, mode)| *mode)
    }

    /// Whether someone but `owner` holds the lock or waits for it.
    pub(super) fn has_other(&self, owner: u64) -> bool {
        self.holders.iter().any(|(holder, _)| *holder != owner) || self.waiters.iter().any(|w| w.owner != owner)
    }

    /// Whether nobody holds the lock.
    pub(super) fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    fn is_admitted(&self, owner: u64, mode: LockMode) -> bool {
        self.holders.iter().all(|(holder, held)| *holder == owner || held.is_compatible(mode))
    }

    /// Takes the lock if that is possible at once.
    pub(super) fn ask(&mut self, owner: u64, mode: LockMode) -> Answer {
        match self.mode_of(owner) {
            Some(held) if held == LockMode::Exclusive || held == mode => Answer::Held,
            // Who holds it and wants more passes those who wait for it anyway.
            Some(_) if self.is_admitted(owner, mode) => {
                self.hold(owner, mode);
                Answer::Held
            }
            None if self.waiters.is_empty() && self.is_admitted(owner, mode) => {
                self.holders.push((owner, mode));
                Answer::Granted
            }
            _ => Answer::Wait,
        }
    }

    /// Makes an owner hold the lock; returns whether it did before, in any mode.
    pub(super) fn hold(&mut self, owner: u64, mode: LockMode) -> bool {
        match self.holders.iter_mut().find(|(holder, _)| *holder == owner) {
            Some((_, held)) => {
                if mode == LockMode::Exclusive {
                    *held = mode;
                }
                true
            }
            None => {
                self.holders.push((owner, mode));
                false
            }
        }
    }

    /// Lets a request wait in its place.
    pub(super) fn enqueue(&mut self, waiter: Arc<Waiter>) {
        let place = if self.mode_of(waiter.owner).is_some() {
            self.waiters.iter().take_while(|other| self.mode_of(other.owner).is_some()).count()
        } else {
            self.waiters.len()
        };
        self.waiters.insert(place, waiter);
    }

    /// Takes the lock from an owner; returns whether it had it.
    pub(super) fn release(&mut self, owner: u64, granted: &mut Vec<Granted>) -> bool {
        let place = self.holders.iter().position(|(holder, _)| *holder == owner);
        if let Some(place) = place {
            self.holders.swap_remove(place);
            self.serve(granted);
        }
        place.is_some()
    }

    /// Takes a request out; returns whether it still waited.
    pub(super) fn cancel(&mut self, waiter: &Waiter, granted: &mut Vec<Granted>) -> bool {
        let place = self.waiters.iter().position(|other| std::ptr::eq(&raw const **other, waiter));
        if let Some(place) = place {
            self.waiters.remove(place);
            self.serve(granted);
        }
        place.is_some()
    }

    /// Gives the lock to those in front, as far as they bear one another.
    fn serve(&mut self, granted: &mut Vec<Granted>) {
        while let Some(waiter) = self.waiters.front()
            && self.is_admitted(waiter.owner, waiter.mode)
            && let Some(waiter) = self.waiters.pop_front()
        {
            let is_new = !self.hold(waiter.owner, waiter.mode);
            granted.push(Granted { waiter, is_new });
        }
    }

    /// The owners that a waiter waits for: holders, and those in front of it, that its request does not bear.
    pub(super) fn blockers(&self, waiter: &Waiter) -> Vec<u64> {
        let is_other = |owner: u64, mode: LockMode| owner != waiter.owner && !waiter.mode.is_compatible(mode);
        if !self.waiters.iter().any(|other| std::ptr::eq(&raw const **other, waiter)) {
            return Vec::new();
        }
        let holders = self.holders.iter().copied().filter(|(owner, mode)| is_other(*owner, *mode));
        let before = self.waiters.iter().take_while(|other| !std::ptr::eq(&raw const ***other, waiter));
        let before = before.map(|other| (other.owner, other.mode)).filter(|(owner, mode)| is_other(*owner, *mode));
        holders.chain(before).map(|(owner, _)| owner).collect()
    }
}
