//! What make-believe tables hold, and what comes of it when they are merged.

/// A range of keys, of which a share is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Segment {
    pub(super) first: u64,
    /// Exclusive.
    pub(super) end: u64,
    /// Of the keys in the range: how many are there. 1: all.
    pub(super) share: f64,
}

impl Segment {
    /// How many keys are there.
    pub(super) fn entries(&self) -> f64 {
        self.share * (self.end - self.first) as f64
    }
}

/// What a sorted run holds: ascending, disjoint.
pub(super) type Content = Vec<Segment>;

/// What is there when `runs` are merged, each key once. Ends at every border of every run.
pub(super) fn union(runs: &[Content]) -> Content {
    let mut borders: Vec<u64> = runs.iter().flatten().flat_map(|segment| [segment.first, segment.end]).collect();
    borders.sort_unstable();
    borders.dedup();
    let mut places = vec![0; runs.len()];
    let mut merged = Content::with_capacity(borders.len());
    for pair in borders.windows(2) {
        let (first, end) = (pair[0], pair[1]);
        let mut missing = 1.0;
        for (place, run) in places.iter_mut().zip(runs) {
            while run.get(*place).is_some_and(|segment| segment.end <= first) {
                *place += 1;
            }
            if let Some(segment) = run.get(*place)
                && segment.first <= first
            {
                missing *= 1.0 - segment.share;
            }
        }
        if missing < 1.0 {
            merged.push(Segment { first, end, share: 1.0 - missing });
        }
    }
    merged
}

/// `content` with borders at `keys` too, which ascend, and in pieces of at most `max_entries`.
pub(super) fn refine(content: &Content, keys: &[u64], max_entries: f64) -> Content {
    let mut keys = keys.iter().copied().peekable();
    let mut refined = Content::with_capacity(content.len() * 2);
    for segment in content {
        let mut first = segment.first;
        while first < segment.end {
            while keys.next_if(|key| *key <= first).is_some() {}
            let end = keys.peek().map_or(segment.end, |key| segment.end.min(*key));
            let rest = Segment { first, end, share: segment.share };
            let steps = (rest.entries() / max_entries).ceil().max(1.0) as u64;
            let step = (end - first).div_ceil(steps).max(1);
            while first < end {
                let next = (first + step).min(end);
                refined.push(Segment { first, end: next, share: segment.share });
                first = next;
            }
        }
    }
    refined
}
