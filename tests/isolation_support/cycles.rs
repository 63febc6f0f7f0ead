//! Cycles of transactions that depend on one another (Adya's G0, G1c and G-single).
//!
//! An edge says that one transaction comes before another: `ww` replaced a version of it, `wr` read one of it, `rw` replaced a version that it had read. Where
//! they lead in a circle there is no order in which the transactions could have run one by one.

use std::collections::BTreeSet;

/// Most nodes: those that come before or after each are bits of a word.
const MAX_NODES: usize = 64;

/// Edges between transactions, which are numbered from 0.
#[derive(Debug, Default)]
pub struct Edges {
    pub ww: BTreeSet<(usize, usize)>,
    pub wr: BTreeSet<(usize, usize)>,
    pub rw: BTreeSet<(usize, usize)>,
}

/// Circles, each named by one transaction on it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Circles {
    /// Of `ww` alone.
    pub g0: Option<usize>,
    /// Of `ww` and `wr`.
    pub g1c: Option<usize>,
    /// Of those and one `rw`.
    pub g_single: Option<usize>,
}

impl Edges {
    /// Adds an edge, unless it leads to where it begins.
    pub fn add(edges: &mut BTreeSet<(usize, usize)>, from: usize, to: usize) {
        if from != to {
            edges.insert((from, to));
        }
    }

    pub fn circles(&self, nodes: usize) -> Circles {
        let writes = reachable(nodes, self.ww.iter());
        let flow = reachable(nodes, self.ww.iter().chain(&self.wr));
        let own = |reachable: &[u64]| (0..nodes).find(|node| reachable[*node] & (1 << node) != 0);
        let closes = |(from, to): &&(usize, usize)| flow[*to] & (1 << *from) != 0;
        Circles { g0: own(&writes), g1c: own(&flow), g_single: self.rw.iter().find(closes).map(|(from, _)| *from) }
    }
}

/// For each node the nodes that a path leads to.
fn reachable<'a>(nodes: usize, edges: impl Iterator<Item = &'a (usize, usize)>) -> Vec<u64> {
    assert!(nodes <= MAX_NODES, "{nodes} transactions in one history");
    let mut reach = vec![0_u64; nodes];
    edges.for_each(|(from, to)| reach[*from] |= 1 << to);
    for middle in 0..nodes {
        let beyond = reach[middle];
        reach.iter_mut().filter(|reach| **reach & (1 << middle) != 0).for_each(|reach| *reach |= beyond);
    }
    reach
}
