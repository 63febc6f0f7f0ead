//! A latch: a short lock for many readers or one writer, with a version for readers who take none.

use super::Signal;
use super::atomic::{AtomicU64, Ordering, fence};

const SHARED_ONE: u64 = 1;
const SHARED: u64 = 0xffff;
const EXCLUSIVE: u64 = 1 << 16;
const WAITING: u64 = 1 << 17;
const VERSION_ONE: u64 = 1 << 18;

/// Tries before a thread parks.
const SPINS: u32 = 200;

/// A latch of one word. It guards data that lies elsewhere; whoever waits parks on a [`Signal`] that many latches may share.
///
/// An optimistic reader takes the version, reads the data by atomic loads, and believes what it read if
/// [`validate`](Self::validate) says that the version still stands. Nothing it does is seen by others.
///
/// Latches have no rank: whoever holds several keeps an order of their own.
#[derive(Debug, Default)]
pub struct Latch {
    /// Holders that share; a bit for the one that excludes; a bit that somebody waits; the version.
    state: AtomicU64,
}

/// The state of the data at one moment, for [`Latch::validate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatchVersion(u64);

impl Latch {
    /// A latch that nobody holds.
    pub const fn new() -> Self {
        Self { state: AtomicU64::new(0) }
    }

    /// The version, unless somebody changes the data now.
    #[inline]
    pub fn version(&self) -> Option<LatchVersion> {
        let state = self.state.load(Ordering::Acquire);
        (state & EXCLUSIVE == 0).then_some(LatchVersion(state / VERSION_ONE))
    }

    /// Whether the data is as it was at `version`, and was while everything before this call was read.
    #[inline]
    pub fn validate(&self, version: LatchVersion) -> bool {
        fence(Ordering::Acquire);
        let state = self.state.load(Ordering::Relaxed);
        state & EXCLUSIVE == 0 && state / VERSION_ONE == version.0
    }

    /// Takes the latch shared if that is possible at once.
    #[inline]
    pub fn try_lock_shared(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & (EXCLUSIVE | WAITING) == 0 && state & SHARED != SHARED {
            let taken = state + SHARED_ONE;
            match self.state.compare_exchange_weak(state, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Waits for the latch, shared.
    #[inline]
    pub fn lock_shared(&self, signal: &Signal) {
        if !self.try_lock_shared() {
            self.wait(signal, &|| self.try_lock_shared(), &|| true, EXCLUSIVE | WAITING);
        }
    }

    /// Waits for the latch, shared, as long as `is_wanted`. Returns whether it was taken. Whoever makes that false while holding the latch calls [`dismiss`](Self::dismiss).
    #[inline]
    pub fn lock_shared_while(&self, signal: &Signal, is_wanted: impl Fn() -> bool) -> bool {
        self.try_lock_shared() || self.wait(signal, &|| self.try_lock_shared(), &is_wanted, EXCLUSIVE | WAITING)
    }

    /// Takes the latch exclusively if nobody holds it.
    #[inline]
    pub fn try_lock_exclusive(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        if state & (EXCLUSIVE | SHARED) != 0 {
            return false;
        }
        let taken = self.state.compare_exchange(state, state | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Readers that see a change by the new holder see it holding.
        fence(Ordering::Release);
        taken
    }

    /// Waits for the latch, exclusively.
    #[inline]
    pub fn lock_exclusive(&self, signal: &Signal) {
        if !self.try_lock_exclusive() {
            self.wait(signal, &|| self.try_lock_exclusive(), &|| true, EXCLUSIVE | SHARED);
        }
    }

    /// The same as [`lock_shared_while`](Self::lock_shared_while), exclusively.
    #[inline]
    pub fn lock_exclusive_while(&self, signal: &Signal, is_wanted: impl Fn() -> bool) -> bool {
        self.try_lock_exclusive() || self.wait(signal, &|| self.try_lock_exclusive(), &is_wanted, EXCLUSIVE | SHARED)
    }

    /// Has those who wait look whether they still want the latch. For who holds it exclusively, and goes on holding it.
    #[inline]
    pub fn dismiss(&self, signal: &Signal) {
        // Who announces to wait after this sees what was done before it.
        if self.state.fetch_and(!WAITING, Ordering::AcqRel) & WAITING != 0 {
            signal.notify_all();
        }
    }

    /// Gives the latch back that was taken shared.
    #[inline]
    pub fn unlock_shared(&self, signal: &Signal) {
        let before = self.state.fetch_sub(SHARED_ONE, Ordering::Release);
        debug_assert!(before & SHARED > 0, "nobody shares the latch");
        if before & WAITING != 0 && before & SHARED == SHARED_ONE {
            self.wake(signal);
        }
    }

    /// Gives the latch back that was taken exclusively. The version changes.
    #[inline]
    pub fn unlock_exclusive(&self, signal: &Signal) {
        let before = self.state.fetch_add(VERSION_ONE - EXCLUSIVE, Ordering::Release);
        debug_assert!(before & EXCLUSIVE != 0, "nobody holds the latch exclusively");
        if before & WAITING != 0 {
            self.wake(signal);
        }
    }

    /// Whether somebody holds the latch exclusively at this moment.
    #[inline]
    pub fn is_exclusive(&self) -> bool {
        self.state.load(Ordering::Relaxed) & EXCLUSIVE != 0
    }

    #[cold]
    fn wake(&self, signal: &Signal) {
        self.state.fetch_and(!WAITING, Ordering::Relaxed);
        signal.notify_all();
    }

    /// Tries again and again, as long as it is wanted; parks when that takes long. `blocking`: the bits in whose presence it can't be taken. Returns whether it was taken.
    #[cold]
    fn wait(&self, signal: &Signal, take: &dyn Fn() -> bool, is_wanted: &dyn Fn() -> bool, blocking: u64) -> bool {
        loop {
            for _ in 0..SPINS {
                if take() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if !is_wanted() {
                return false;
            }
            let state = self.state.load(Ordering::Relaxed);
            // Whoever gives the latch back sees the bit, for the state is still one in which somebody holds it.
            let is_held = state & (EXCLUSIVE | SHARED) != 0;
            if state & blocking == 0 || !is_held {
                // A bit that is left without a holder is taken away by the one who just let go.
                std::hint::spin_loop();
                continue;
            }
            let announced = self.state.compare_exchange(state, state | WAITING, Ordering::AcqRel, Ordering::Relaxed);
            if announced.is_ok() {
                signal.wait_while(None, &mut || self.state.load(Ordering::Relaxed) & WAITING != 0 && is_wanted());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Arc;

    #[test]
    fn versions_change_with_exclusive_holders_only() {
        let (latch, signal) = (Latch::new(), Signal::new());
        let before = latch.version().unwrap();
        latch.lock_shared(&signal);
        assert!(latch.try_lock_shared() && !latch.try_lock_exclusive());
        assert!(latch.validate(before));
        latch.unlock_shared(&signal);
        latch.unlock_shared(&signal);
        assert!(latch.validate(before));
        latch.lock_exclusive(&signal);
        assert!(latch.is_exclusive() && !latch.try_lock_shared() && !latch.try_lock_exclusive());
        assert!(latch.version().is_none() && !latch.validate(before));
        latch.unlock_exclusive(&signal);
        assert!(!latch.validate(before));
        assert!(latch.validate(latch.version().unwrap()));
    }

    #[test]
    fn who_does_not_want_the_latch_any_more_waits_no_longer() {
        struct World(Latch, Signal, AtomicU64);
        let world = World(Latch::new(), Signal::new(), AtomicU64::new(0));
        for round in 1..=200 {
            world.0.lock_exclusive(&world.1);
            std::thread::scope(|scope| {
                let world = &world;
                let is_wanted = move || world.2.load(Ordering::Relaxed) < round;
                let shared = scope.spawn(move || world.0.lock_shared_while(&world.1, is_wanted));
                let exclusive = scope.spawn(move || world.0.lock_exclusive_while(&world.1, is_wanted));
                if round % 2 == 0 {
                    std::thread::yield_now();
                }
                world.2.store(round, Ordering::Relaxed);
                world.0.dismiss(&world.1);
                assert!(!shared.join().unwrap() && !exclusive.join().unwrap(), "its holder still has it");
            });
            world.0.unlock_exclusive(&world.1);
        }
        assert!(world.0.lock_exclusive_while(&world.1, || false), "it is free");
    }

    #[test]
    fn threads_exclude_each_other_and_readers_see_whole_states() {
        const ROUNDS: u64 = 20_000;
        struct World(Latch, Signal, [AtomicU64; 2]);
        let world = Arc::new(World(Latch::new(), Signal::new(), [const { AtomicU64::new(0) }; 2]));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        world.0.lock_exclusive(&world.1);
                        let value = world.2[0].load(Ordering::Relaxed) + 1;
                        world.2.iter().for_each(|cell| cell.store(value, Ordering::Relaxed));
                        world.0.unlock_exclusive(&world.1);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    world.0.lock_shared(&world.1);
                    let [one, other] = [0, 1].map(|index: usize| world.2[index].load(Ordering::Relaxed));
                    world.0.unlock_shared(&world.1);
                    assert_eq!(one, other);
                }
            });
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let Some(version) = world.0.version() else { continue };
                    let [one, other] = [0, 1].map(|index: usize| world.2[index].load(Ordering::Relaxed));
                    assert!(!world.0.validate(version) || one == other);
                }
            });
        });
        assert_eq!(world.2[0].load(Ordering::Relaxed), 2 * ROUNDS);
    }
}
