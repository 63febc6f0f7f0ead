//! Merging agrees with sorting, in both directions, and never hides an error of a child.

use super::vec_iter::VecIter;
use crate::iterator::{InternalIterator, MergingIter};
use crate::key::{InternalKey, ValueType};
use crate::sst::test_util::comparator;
use proptest::prelude::*;

type Entry = (Vec<u8>, Vec<u8>);

/// Entries of several children; the value says which child. Some keys are in more than one.
fn children() -> impl Strategy<Value = Vec<Vec<Entry>>> {
    let key = (prop::collection::vec(prop::sample::select(&b"abc"[..]), 0..3), 0u64..4);
    prop::collection::vec(prop::collection::vec(key, 0..12), 0..6).prop_map(|children| {
        let order = comparator();
        let child = |(index, keys): (usize, Vec<(Vec<u8>, u64)>)| {
            let mut keys: Vec<_> =
                keys.iter().map(|(key, seqno)| InternalKey::new(key, *seqno, ValueType::Put)).collect();
            keys.sort_by(|a, b| order.compare(a.as_bytes(), b.as_bytes()));
            keys.dedup();
            keys.into_iter().map(|key| (key.as_bytes().to_vec(), vec![index as u8])).collect()
        };
        children.into_iter().enumerate().map(child).collect()
    })
}

fn sorted(children: &[Vec<Entry>]) -> Vec<Entry> {
    let order = comparator();
    let mut all: Vec<Entry> = children.concat();
    all.sort_by(|a, b| order.compare(&a.0, &b.0).then_with(|| a.1.cmp(&b.1)));
    all
}

fn merge(children: Vec<Vec<Entry>>) -> MergingIter<VecIter> {
    MergingIter::new(comparator(), children.into_iter().map(VecIter::new).collect())
}

fn here(iter: &MergingIter<VecIter>) -> Option<Entry> {
    iter.status().unwrap();
    iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_walk_agrees_with_the_sorted_whole(
        children in children(),
        steps in prop::collection::vec((0u8..8, prop::collection::vec(prop::sample::select(&b"abc"[..]), 0..3), 0u64..4), 40),
    ) {
        let order = comparator();
        let all = sorted(&children);
        let mut iter = merge(children);
        let mut position: Option<usize> = None;
        for (step, user_key, seqno) in steps {
            let target = InternalKey::new(&user_key, seqno, ValueType::Put);
            let target = target.as_bytes();
            match step {
                0 => {
                    iter.seek(target);
                    position = Some(all.partition_point(|(key, _)| order.compare(key, target).is_lt()));
                }
                1 => {
                    iter.seek_for_prev(target);
                    position = all.partition_point(|(key, _)| order.compare(key, target).is_le()).checked_sub(1);
                }
                2 => {
                    iter.seek_to_first();
                    position = Some(0);
                }
                3 => {
                    iter.seek_to_last();
                    position = all.len().checked_sub(1);
                }
                4 | 5 if iter.valid() => {
                    iter.next();
                    position = position.map(|position| position + 1);
                }
                6 | 7 if iter.valid() => {
                    iter.prev();
                    position = position.and_then(|position| position.checked_sub(1));
                }
                _ => {}
            }
            prop_assert_eq!(here(&iter), position.and_then(|position| all.get(position).cloned()));
        }
    }

    #[test]
    fn an_error_of_a_child_ends_the_walk(
        children in children(),
        fails: (prop::sample::Index, prop::sample::Index),
        backward: bool,
    ) {
        let candidates: Vec<usize> = (0..children.len()).filter(|index| !children[*index].is_empty()).collect();
        prop_assume!(!candidates.is_empty());
        let failing = candidates[fails.0.index(candidates.len())];
        let fails_at = fails.1.index(children[failing].len());
        let (failing_key, failing_value) = children[failing][fails_at].clone();
        let mut all = sorted(&children);
        let mut iters: Vec<VecIter> = children.into_iter().map(VecIter::new).collect();
        iters[failing].fails_at = Some(fails_at);
        let mut iter = MergingIter::new(comparator(), iters);
        if backward {
            all.reverse();
            iter.seek_to_last();
        } else {
            iter.seek_to_first();
        }
        let mut yielded = 0;
        while iter.valid() {
            prop_assert_eq!((iter.key(), iter.value()), (&all[yielded].0[..], &all[yielded].1[..]));
            yielded += 1;
            if backward { iter.prev() } else { iter.next() }
        }
        prop_assert!(iter.status().is_err());
        let place = all.iter().position(|(key, value)| *key == failing_key && *value == failing_value).unwrap();
        prop_assert!(yielded <= place, "nothing behind the error is yielded");
    }
}
