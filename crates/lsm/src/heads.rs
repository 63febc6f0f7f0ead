//! The first search among many sorted keys, the separators of an index or the borders of range tombstones: 8 bytes of each, in a tree of cache
//! lines.
//!
//! A binary search over a large array waits for memory at each of its last steps, and each wait begins when the one before it
//! has ended. Here every 16th head is repeated in a smaller array, every 16th of those in a still smaller one, and so on: a step
//! looks at 16 neighbours, two cache lines that are fetched at once, and all but the last array are small enough to stay
//! in the cache.

/// Heads that one step looks at.
const FANOUT: usize = 16;

/// Ascending 8-byte heads.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    heads: Vec<u64>,
    /// Every 16th head of the array below, whose last is `heads`; the smallest array first.
    above: Vec<Vec<u64>>,
}

impl Heads {
    /// Takes heads, which must ascend.
    pub(crate) fn new(heads: Vec<u64>) -> Self {
        let mut above: Vec<Vec<u64>> = Vec::new();
        loop {
            let below = above.last().unwrap_or(&heads);
            if below.len() <= FANOUT {
                break;
            }
            above.push(below.iter().copied().step_by(FANOUT).collect());
        }
        above.reverse();
        Self { heads, above }
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The first position whose head is not less than `wanted`, and the first behind it whose head is greater.
    #[inline]
    pub(crate) fn equal_range(&self, wanted: u64) -> (usize, usize) {
        let mut low = 0;
        for array in &self.above {
            // The last repeated head before `wanted` begins the part to look at.
            low = step(array, low, wanted).saturating_sub(1) * FANOUT;
        }
        let low = step(&self.heads, low, wanted);
        let equal = self.heads[low..].iter().take_while(|head| **head == wanted).count();
        (low, low + equal)
    }

    /// The bytes of memory that they take.
    pub(crate) fn memory_usage(&self) -> usize {
        let above: usize = self.above.iter().map(Vec::capacity).sum();
        (self.heads.capacity() + above) * size_of::<u64>()
    }
}

/// How many heads are less than `wanted`, of which there are at least `from` and at most `FANOUT` more.
#[inline]
fn step(array: &[u64], from: usize, wanted: u64) -> usize {
    let rest = array.get(from..).unwrap_or_default();
    let less = match rest.first_chunk::<FANOUT>() {
        Some(chunk) => chunk.iter().map(|head| usize::from(*head < wanted)).sum::<usize>(),
        None => rest.iter().map(|head| usize::from(*head < wanted)).sum(),
    };
    from + less
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_binary_search_finds(
            mut heads in prop::collection::vec(0_u64..600, 0..700),
            wanted in prop::collection::vec(0_u64..602, 1..20),
        ) {
            heads.sort_unstable();
            let searched = Heads::new(heads.clone());
            for wanted in wanted {
                let low = heads.partition_point(|head| *head < wanted);
                let high = heads.partition_point(|head| *head <= wanted);
                prop_assert_eq!(searched.equal_range(wanted), (low, high));
            }
        }
    }

    #[test]
    fn sizes_around_the_fanout() {
        for len in (0..40).chain(250..260).chain(4090..4100) {
            let heads: Vec<u64> = (0..len).map(|i| i * 2 + 1).collect();
            let searched = Heads::new(heads.clone());
            for wanted in 0..=2 * len + 1 {
                let low = heads.partition_point(|head| *head < wanted);
                assert_eq!(searched.equal_range(wanted).0, low, "{wanted} of {len}");
            }
        }
    }
}
