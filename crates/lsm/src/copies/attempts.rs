//! Opening a directory that somebody writes, at one [moment](super::moment) after another until nothing is in the way any more.

use super::moment::{self, Marks, MomentEnv};
use siltstone_base::env::Env;
use siltstone_base::sync::{Arc, Signal};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::Path;
use std::time::Duration;

/// Times that opening is begun anew because of what somebody wrote or deleted meanwhile.
const ATTEMPTS: u32 = 100;

/// Times that the same damage is met before it is taken for damage: what is being written may look like it for a moment.
const SAME_DAMAGE: u32 = 10;

/// The longest pause between two of them; the first is a thousandth of it, and each twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// What `open` makes of the directory at `first` or, where what is in the way may be what somebody was just writing or deleting, at a later moment; and the marks of that moment. `open` is
/// told whether it is a later one.
///
/// # Errors
///
/// Those of `open` and of [`now`](moment::now); `Busy` if the directory changed again and again meanwhile.
pub(super) fn open_at<T>(
    dir: &Path,
    env: &Arc<dyn Env>,
    first: (Marks, Arc<MomentEnv>),
    mut open: impl FnMut(Arc<dyn Env>, bool) -> Result<T>,
) -> Result<(T, Marks)> {
    let mut first = Some(first);
    let mut damage: Option<(Error, u32)> = None;
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let (marks, moment) = match first.take() {
            Some(first) => first,
            None => moment::now(dir, env)?,
        };
        match open(Arc::clone(&moment) as Arc<dyn Env>, attempt > 0) {
            Ok(opened) => {
                moment.release();
                return Ok((opened, marks));
            }
            Err(error) if error.kind() == ErrorKind::MissingFile || error.kind() == ErrorKind::Corruption => {
                let is_same = |(other, _): &(Error, u32)| {
                    (other.kind(), other.file(), other.offset()) == (error.kind(), error.file(), error.offset())
                };
                let times = damage.take().filter(is_same).map_or(0, |(_, times)| times) + 1;
                let is_unchanged = moment::now(dir, env).is_ok_and(|(now, _)| now == marks);
                // Nothing happened that could have caused it.
                if is_unchanged || times >= SAME_DAMAGE {
                    return Err(error);
                }
                damage = Some((error, times));
            }
            Err(error) => return Err(error),
        }
    }
    let busy = Error::new(ErrorKind::Busy, "the directory changed again and again before it could be opened");
    let busy = busy.with_file(dir);
    Err(match damage {
        Some((error, _)) => busy.with_source(error),
        None => busy,
    })
}

/// Waits before an attempt that is not the first.
fn pause(attempt: u32) {
    if let Some(retry) = attempt.checked_sub(1) {
        let pause = (LONGEST_PAUSE / 1000).saturating_mul(1_u32.checked_shl(retry).unwrap_or(u32::MAX));
        Signal::new().wait_while(Some(pause.min(LONGEST_PAUSE)), &mut || true);
    }
}
