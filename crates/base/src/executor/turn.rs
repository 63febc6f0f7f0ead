//! Short turns of threads that compute.
//!
//! A kernel that does not preempt takes a processor away from a thread only at its next tick, milliseconds after somebody else woke up to write or read. So a thread that steps jobs asks every [`TURN`] whether somebody waits. To ask
//! costs a thread the rest of its turn where somebody does (Linux 6.18 takes the whole of it off what it is due), so its turns must be as short, or it would get next to nothing.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "the length of a thread's turns is set by a call that libc has no name for")
)]

use std::time::Duration;

/// How long a thread computes before it lets others have the processor, and how long its turns are.
pub(super) const TURN: Duration = Duration::from_micros(200);

/// What `sched_setattr` reads, in its first version.
#[cfg(target_os = "linux")]
#[repr(C)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    niceness: i32,
    priority: u32,
    /// Of a thread of the usual policy: the length of its turns, in nanoseconds (Linux 6.12; unused before).
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Makes the turns of the calling thread short, which stays as nice as it is. False where that is not to be had: it then should not give way by itself.
#[cfg(target_os = "linux")]
pub(super) fn shorten() -> bool {
    let Ok(niceness) = rustix::process::getpriority_process(None) else { return false };
    // SAFETY: asks for the policy of the calling thread, and changes nothing.
    if unsafe { libc::sched_getscheduler(0) } != libc::SCHED_OTHER {
        // Somebody has decided on another one for the whole process.
        return false;
    }
    let attributes = SchedulingAttributes {
        size: size_of::<SchedulingAttributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        niceness,
        priority: 0,
        runtime: TURN.as_nanos() as u64,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the call reads as many bytes as the first field says, and is about the calling thread alone.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

/// Nothing is known of other systems.
#[cfg(not(target_os = "linux"))]
pub(super) fn shorten() -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what is set is of the thread that sets it")]
    fn short_turns_leave_a_thread_as_nice_as_it_was() {
        let thread = std::thread::spawn(|| {
            let nicer = rustix::process::setpriority_process(None, 7).is_ok();
            let before = rustix::process::getpriority_process(None);
            let shortened = shorten();
            // SAFETY: asks for the policy of the calling thread, and changes nothing.
            let policy = unsafe { libc::sched_getscheduler(0) };
            (nicer, before, shortened, rustix::process::getpriority_process(None), policy)
        });
        let (nicer, before, shortened, after, policy) = thread.join().unwrap();
        assert_eq!(after, before);
        assert!(!nicer || after == Ok(7));
        assert!(!shortened || policy == libc::SCHED_OTHER);
    }
}
