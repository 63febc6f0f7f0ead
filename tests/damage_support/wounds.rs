//! What may happen to the bytes of a file.

use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoPriority, read_file};
use std::path::Path;
use std::sync::Arc;

/// A change of one file.
#[derive(Debug, Clone)]
pub enum Wound {
    /// Bits of one byte are flipped.
    Flip(u64, u8),
    /// The file ends earlier.
    Truncate(u64),
    /// A range has another byte everywhere.
    Fill(u64, u64, u8),
    /// Bytes are appended.
    Extend(Vec<u8>),
    /// The file is gone.
    Remove,
    /// The file has other content.
    Replace(Vec<u8>),
    /// Two ranges of the same length trade places.
    Swap(u64, u64, u64),
}

const CONTEXT: IoContext = IoContext::new(FileKind::Other, IoPriority::User);

/// The bytes of a file.
pub fn read(env: &Arc<dyn Env>, path: &Path) -> Vec<u8> {
    read_file(&**env, path, FileKind::Other, 1 << 30).unwrap()
}

/// Replaces a file, durably.
pub fn write(env: &Arc<dyn Env>, path: &Path, data: &[u8]) {
    let mut file = env.create_append(path, &FileOptions::new(FileKind::Other)).unwrap();
    file.append(data, CONTEXT).unwrap();
    file.sync_data(CONTEXT).unwrap();
    file.finish().unwrap();
    env.sync_dir(path.parent().unwrap()).unwrap();
}

impl Wound {
    /// Applies the change. Returns false if it changes nothing.
    pub fn apply(&self, disk: &SimDisk, path: &Path) -> bool {
        let env = disk.env();
        let before = read(&env, path);
        let mut data = before.clone();
        let range = |from: u64, len: u64| from as usize..((from + len) as usize).min(before.len());
        match self {
            Self::Flip(offset, mask) => data[*offset as usize] ^= mask,
            Self::Truncate(len) => data.truncate(*len as usize),
            Self::Fill(from, len, byte) => data[range(*from, *len)].fill(*byte),
            Self::Extend(tail) => data.extend_from_slice(tail),
            Self::Remove => {
                env.remove_file(path).unwrap();
                env.sync_dir(path.parent().unwrap()).unwrap();
                return true;
            }
            Self::Replace(content) => data.clone_from(content),
            Self::Swap(a, b, len) => {
                data[range(*a, *len)].copy_from_slice(&before[range(*b, *len)]);
                data[range(*b, *len)].copy_from_slice(&before[range(*a, *len)]);
            }
        }
        if data != before {
            write(&env, path, &data);
        }
        data != before
    }
}

/// A sample of the wounds that a file of `len` bytes can have: about `count` of each kind.
pub fn sample(len: u64, count: u64, seed: u64) -> Vec<Wound> {
    let mut wounds = vec![Wound::Remove, Wound::Truncate(0)];
    let garbage: Vec<u8> = (0..5_000_u64).map(|index| (index.wrapping_mul(index ^ seed) >> 3) as u8).collect();
    wounds.extend([1, 7, 511, 4_096, 5_000].map(|len| Wound::Extend(garbage[..len].to_vec())));
    wounds.extend([1, 600].map(|len| Wound::Extend(vec![0; len])));
    let step = (len / count.max(1)).max(1);
    for index in 0..count.min(len) {
        // An odd stride away from the step, so that alignment does not repeat.
        let at = (index * step + (index * 7 + seed) % step).min(len - 1);
        wounds.push(Wound::Flip(at, 1 << ((index + seed) % 8)));
        wounds.push(Wound::Truncate(at));
    }
    // The ends, where footers and tails are, byte by byte.
    for at in (len.saturating_sub(60)..len).chain(0..len.min(24)) {
        wounds.push(Wound::Flip(at, 0x40));
    }
    wounds.extend((1..len.min(9)).map(|cut| Wound::Truncate(len - cut)));
    for piece in [512, 4_096] {
        let pieces = len.div_ceil(piece);
        let every = (pieces / count.max(1)).max(1);
        for index in (0..pieces).step_by(every as usize) {
            wounds.extend([0, 0xFF].map(|byte| Wound::Fill(index * piece, piece, byte)));
        }
    }
    wounds
}
