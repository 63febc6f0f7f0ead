//! Pictures of trees.

use crate::version::Version;
use std::fmt;

/// Characters of the range of all keys.
const WIDTH: u64 = 64;

/// A tree, drawn: a line a sorted run, newest first, from the smallest key of all to the largest. `[` is where a table begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    lines: Vec<String>,
}

impl Picture {
    pub(super) fn of(version: &Version, key_of: impl Fn(&[u8]) -> u64) -> Self {
        let ranges = |level| {
            let files = version.files(level).iter();
            files.map(|file| (key_of(file.smallest.user_key()), key_of(file.largest.user_key()), file.file_size))
        };
        let all = || (0..version.num_levels()).flat_map(ranges);
        let smallest = all().map(|(smallest, ..)| smallest).min().unwrap_or(0);
        let width = all().map(|(_, largest, _)| largest).max().unwrap_or(0).saturating_sub(smallest) + 1;
        let place = |key: u64| ((key - smallest) as u128 * u128::from(WIDTH) / u128::from(width)) as usize;
        let line = |level: usize, files: &[(u64, u64, u64)]| {
            let mut drawn = vec![b' '; WIDTH as usize];
            for (first, last, _) in files {
                let (first, last) = (place(*first), place(*last));
                for (at, letter) in drawn.iter_mut().enumerate().take(last + 1).skip(first) {
                    *letter = match () {
                        () if at == first => b'[',
                        () if *letter == b' ' => b'-',
                        () => *letter,
                    };
                }
            }
            let bytes: u64 = files.iter().map(|(_, _, bytes)| bytes).sum();
            let drawn = String::from_utf8_lossy(&drawn).into_owned();
            format!("L{level} {drawn} {} in {}", size(bytes), files.len())
        };
        let mut lines: Vec<String> = ranges(0).map(|file| line(0, &[file])).collect();
        for level in 1..version.num_levels() {
            let files: Vec<_> = ranges(level).collect();
            if !files.is_empty() {
                lines.push(line(level, &files));
            }
        }
        Self { lines }
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_240_000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
