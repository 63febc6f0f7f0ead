//! The progress bar of a load: by operations, or by time where that ends it.

use super::Load;
use crate::figures::thousands;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// Steps of a second of a bar that shows time.
const STEPS_PER_SECOND: f64 = 10.0;

/// How often what has no end is drawn anew.
const TICK: Duration = Duration::from_millis(500);

pub(super) struct Bar {
    bar: ProgressBar,
    is_timed: bool,
}

impl Bar {
    pub(super) fn new(load: &Load<'_>) -> Self {
        let target = if load.bar { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let timed = load.most_seconds.filter(|_| load.expected_ops == 0);
        let len = timed.map_or(load.expected_ops, |seconds| (seconds * STEPS_PER_SECOND).ceil() as u64);
        let bar = ProgressBar::with_draw_target(Some(len), target);
        if let Ok(style) = ProgressStyle::with_template("{msg:32} {bar:40} {percent:>3}% {prefix:>16} {eta:>5}") {
            bar.set_style(style);
        }
        bar.set_message(load.label.to_owned());
        Self { bar, is_timed: timed.is_some() }
    }

    /// What shows that an engine ends its work by itself, for how long already: nobody knows how long it takes.
    pub(super) fn of_rest(is_shown: bool) -> Self {
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{msg:32} {spinner} {elapsed:>5}") {
            bar.set_style(style);
        }
        bar.set_message("the engine ends its work");
        if is_shown {
            bar.enable_steady_tick(TICK);
        }
        Self { bar, is_timed: true }
    }

    /// What was done in how much time, and the rate of the last second.
    pub(super) fn show(&self, seconds: f64, ops: u64, rate: f64) {
        self.bar.set_prefix(format!("{}/s", thousands(rate)));
        self.bar.set_position(if self.is_timed { (seconds * STEPS_PER_SECOND) as u64 } else { ops });
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;
    use super::*;

    #[test]
    fn what_has_no_known_end_shows_none() {
        let rest = Bar::of_rest(false);
        assert_eq!((rest.bar.length(), rest.bar.is_hidden()), (None, true));
        rest.clear();
        assert!(rest.bar.is_finished());
    }

    #[test]
    fn a_load_that_time_ends_shows_time() {
        let bar = |expected_ops, most_seconds| {
            let bar = Bar::new(&Load { expected_ops, most_seconds, ..load(1, 0) });
            bar.show(3.0, 40, 13.0);
            (bar.bar.position(), bar.bar.length())
        };
        assert_eq!(bar(0, Some(12.0)), (30, Some(120)));
        assert_eq!(bar(100, None), (40, Some(100)));
        assert_eq!(bar(100, Some(12.0)), (40, Some(100)));
    }
}
