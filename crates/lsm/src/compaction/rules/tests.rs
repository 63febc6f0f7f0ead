//! Tests of the drop rules: scripts, and a comparison with what every reader sees.

use super::*;
use crate::expiry::Expiring;
use crate::expiry::test_policy::AtItsStamp;
use crate::key::ParsedKey;
use crate::merge::MergeFailure;
use crate::range_tombstones::{RangeTombstone, retained};
use proptest::prelude::*;
use siltstone_base::comparator::Bytewise;
use siltstone_base::plant::with_planted;
use siltstone_base::script::{Command, run_file};

/// Removes values `gone`, replaces values `old` by `new`.
#[derive(Debug)]
struct ByValue;

impl EntryFilter for ByValue {
    fn name(&self) -> &str {
        "by value"
    }

    fn filter(&self, level: usize, _: &[u8], value: &[u8]) -> Decision {
        assert_eq!(level, 6);
        match value {
            b"gone" => Decision::Remove,
            b"old" => Decision::Change(b"new".to_vec()),
            _ => Decision::Keep,
        }
    }

    fn filter_operand(&self, level: usize, key: &[u8], operand: &[u8]) -> Decision {
        self.filter(level, key, operand)
    }
}

/// Joins with a comma; fails where it meets `bad`, and joins no operands with `lone` among them.
#[derive(Debug)]
struct Join;

impl MergeOperator for Join {
    fn name(&self) -> &str {
        "join"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeFailure> {
        let parts: Vec<&[u8]> = existing.into_iter().chain(operands.iter().copied()).collect();
        match parts.contains(&b"bad".as_slice()) {
            true => Err(MergeFailure::new("bad")),
            false => Ok(parts.join(&b","[..])),
        }
    }

    fn partial_merge(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let is_lone = |operand: &&[u8]| [&b"lone"[..], b"bad"].contains(operand);
        (!operands.iter().any(is_lone)).then(|| operands.join(&b","[..]))
    }
}

/// What a run of the rules depends on.
#[derive(Debug, Clone, Default)]
struct Setting {
    snapshots: Vec<SeqNo>,
    bottommost: bool,
    filters: bool,
    merges: bool,
    ranges: Vec<RangeTombstone>,
    expired_until: Option<u64>,
}

fn rules(setting: Setting) -> DropRules {
    let filter: Option<Arc<dyn EntryFilter>> = if setting.filters { Some(Arc::new(ByValue)) } else { None };
    let merge_operator: Option<Arc<dyn MergeOperator>> = if setting.merges { Some(Arc::new(Join)) } else { None };
    let order = InternalKeyComparator::new(Arc::new(Bytewise));
    let Setting { snapshots, bottommost, ranges, expired_until, .. } = setting;
    let ranges = Fragments::new(&order, &ranges);
    let mut rules = DropRules::new(RulesOptions {
        order,
        snapshots,
        bottommost,
        filter,
        expiring: expired_until.map(|time| Expiring { policy: Arc::new(AtItsStamp), time }),
        merge_operator,
        output_level: 6,
    });
    rules.set_ranges(ranges);
    rules
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    key: String,
    seqno: SeqNo,
    value_type: ValueType,
    value: String,
}

/// What became of a row: why it was dropped, or what was written for it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Dropped(DropReason),
    Written(Row),
    /// It is an operand that went into a newer entry.
    Merged,
}

fn written(internal_key: &[u8], value: &[u8]) -> Fate {
    let parsed = ParsedKey::parse(internal_key).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (seqno, value_type) = (parsed.seqno, parsed.value_type);
    Fate::Written(Row { key: text(parsed.user_key), seqno, value_type, value: text(value) })
}

/// Runs the rules over `rows`. Writing happens in the order of the rows: a held one is written before the next.
fn run_with_figures(
    mut rules: DropRules,
    rows: &[Row],
    mut beneath: impl FnMut(&[u8]) -> bool,
) -> (Vec<Fate>, Figures) {
    let mut fates = Vec::new();
    let mut held = None;
    let mut gathered: Vec<usize> = Vec::new();
    // Of the last row that was not covered.
    let mut last_key = None;
    // What operands became: one entry for all, or one for each.
    let settle_run = |fates: &mut Vec<Option<Fate>>, rules: &DropRules, gathered: &mut Vec<usize>| {
        let (user_key, entries) = rules.merged();
        let entry = |(trailer, value): (u64, &[u8])| written(&[user_key, &trailer.to_le_bytes()].concat(), value);
        let entries: Vec<Fate> = entries.map(entry).collect();
        assert!(entries.len() == gathered.len() || entries.len() == 1);
        let fate_of = entries.into_iter().map(Some).chain(std::iter::repeat(Some(Fate::Merged)));
        for (row, fate) in gathered.drain(..).zip(fate_of) {
            fates[row] = fate;
        }
    };
    let settle = |fates: &mut Vec<Option<Fate>>, row: usize, verdict, key: &[u8]| {
        fates[row] = Some(match verdict {
            Verdict::Drop(reason) => Fate::Dropped(reason),
            Verdict::Keep { .. } => written(key, b""),
            Verdict::Hold | Verdict::Gather => panic!("held twice"),
        });
    };
    for (index, row) in rows.iter().enumerate() {
        let entry = Entry { user_key: row.key.as_bytes(), seqno: row.seqno, value_type: row.value_type };
        let step = rules.next(entry, row.value.as_bytes(), &mut beneath);
        if step.verdict == Verdict::Drop(DropReason::Covered) {
            assert!(!step.is_new_key && !step.has_merged && step.held.is_none());
        } else {
            assert_eq!(step.is_new_key, last_key != Some(&row.key));
            last_key = Some(&row.key);
        }
        fates.push(None);
        if let Some(verdict) = step.held {
            settle(&mut fates, held.take().unwrap(), verdict, rules.released_key());
        }
        if step.has_merged {
            settle_run(&mut fates, &rules, &mut gathered);
        }
        match step.verdict {
            Verdict::Drop(reason) => fates[index] = Some(Fate::Dropped(reason)),
            Verdict::Hold => held = Some(index),
            Verdict::Gather => gathered.push(index),
            Verdict::Keep { trailer, changed } => {
                let key = [row.key.as_bytes(), &trailer.to_le_bytes()].concat();
                let value = if changed { rules.changed_value() } else { row.value.as_bytes() };
                fates[index] = Some(written(&key, value));
            }
        }
    }
    let (verdict, has_merged) = rules.finish();
    if let Some(verdict) = verdict {
        settle(&mut fates, held.take().unwrap(), verdict, rules.released_key());
    }
    if has_merged {
        settle_run(&mut fates, &rules, &mut gathered);
    }
    assert_eq!(held, None, "a tombstone was forgotten");
    (fates.into_iter().map(Option::unwrap).collect(), rules.figures())
}

fn run(rules: DropRules, rows: &[Row], beneath: impl FnMut(&[u8]) -> bool) -> Vec<Fate> {
    run_with_figures(rules, rows, beneath).0
}

/// `key seqno Type value`.
fn row_of(words: &[&str]) -> Row {
    let value_type = match words[2] {
        "Put" => ValueType::Put,
        "Delete" => ValueType::Delete,
        "SingleDelete" => ValueType::SingleDelete,
        "Merge" => ValueType::Merge,
        other => panic!("unknown type {other}"),
    };
    let value = words.get(3).copied().unwrap_or("").to_owned();
    Row { key: words[0].to_owned(), seqno: words[1].parse().unwrap(), value_type, value }
}

/// `a-c@7`.
fn range_of(word: &str) -> RangeTombstone {
    let (range, seqno) = word.split_once('@').unwrap();
    let (start, end) = range.split_once('-').unwrap();
    RangeTombstone::new(start.as_bytes(), end.as_bytes(), seqno.parse().unwrap())
}

fn run_command(command: &Command) -> String {
    assert_eq!(command.name, "compact");
    let rows: Vec<_> = command.input_words().map(|words| row_of(&words)).collect();
    let snapshots = command.values("snapshots").unwrap_or_default();
    let snapshots: Vec<SeqNo> = snapshots.iter().map(|seqno| seqno.parse().unwrap()).collect();
    let below = command.values("beneath").unwrap_or_default();
    let bottommost = command.has("bottommost");
    assert!(!bottommost || below.is_empty());
    let beneath = |key: &[u8]| below.iter().any(|other| other.as_bytes() == key);
    // Without an operator operands stay as they are.
    let (filters, merges) = (command.has("filter"), command.has("merge"));
    let ranges: Vec<_> = command.values("ranges").unwrap_or_default().iter().map(|word| range_of(word)).collect();
    let order = InternalKeyComparator::new(Arc::new(Bytewise));
    let has_beneath =
        |start: &[u8], end: &[u8]| below.iter().any(|key| start <= key.as_bytes() && key.as_bytes() < end);
    let kept = retained(&order, ranges.clone(), &snapshots, has_beneath);
    let expired_until = command.get("expired");
    let setting = Setting { snapshots, bottommost, filters, merges, ranges, expired_until };
    let (fates, figures) = run_with_figures(rules(setting), &rows, beneath);
    let lines = rows.iter().zip(fates).map(|(row, fate)| {
        let from = format!("{} {} {:?}", row.key, row.seqno, row.value_type);
        match fate {
            Fate::Dropped(reason) => format!("{from}: {reason:?}\n"),
            Fate::Merged => format!("{from}: Merged\n"),
            Fate::Written(new) if new == *row => format!("{from}: kept\n"),
            Fate::Written(new) => {
                format!("{from}: {} {:?} {}", new.seqno, new.value_type, new.value).trim_end().to_owned() + "\n"
            }
        }
    });
    let mut text: String = lines.collect();
    for tombstone in kept {
        text.push_str(&format!("{tombstone:?}\n"));
    }
    for (count, what) in
        [(figures.merge_failures, "merge failures"), (figures.single_delete_mismatches, "single delete mismatches")]
    {
        if count > 0 {
            text.push_str(&format!("{what}: {count}\n"));
        }
    }
    text
}

#[test]
fn entries_are_dropped_as_the_scripts_say() {
    run_file(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/drop_rules"), run_command);
}

/// What a reader at `seqno` sees of `key`, in `rows` (newest first within a key) above `beneath`.
fn read(rows: &[Row], key: &str, seqno: SeqNo, beneath: bool) -> Option<String> {
    let mut operands = Vec::new();
    let visible = rows.iter().filter(|row| row.key == key && row.seqno <= seqno);
    let mut base = beneath.then(|| "beneath".to_owned());
    for row in visible {
        match row.value_type {
            ValueType::Merge => {
                operands.push(row.value.clone());
                continue;
            }
            ValueType::Put => base = Some(row.value.clone()),
            _ => base = None,
        }
        break;
    }
    operands.extend(base);
    operands.reverse();
    (!operands.is_empty()).then(|| operands.join(","))
}

/// Histories of one key that keep the contract of single deletes: put, then perhaps a single delete, and so on; or puts, deletes and merges.
fn history() -> impl Strategy<Value = Vec<ValueType>> {
    let singles = (0usize..7).prop_map(|len| {
        (0..len).map(|index| if index % 2 == 0 { ValueType::Put } else { ValueType::SingleDelete }).collect()
    });
    let plain = proptest::collection::vec(
        prop_oneof![Just(ValueType::Put), Just(ValueType::Delete), Just(ValueType::Merge), Just(ValueType::Merge),],
        0..7,
    );
    prop_oneof![singles, plain]
}

proptest! {
    /// No reader can tell that a compaction took place: neither the newest one, nor a snapshot, nor one that later deletes the key by a
    /// single delete.
    #[test]
    fn nobody_sees_a_difference(
        histories in proptest::collection::vec((history(), 0usize..4), 1..5),
        mut snapshots in proptest::collection::btree_set(1u64..60, 0..5),
    ) {
        let (mut above, mut below): (Vec<Row>, Vec<Row>) = Default::default();
        let mut seqno = 0;
        for (index, (types, beneath)) in histories.iter().enumerate() {
            let key = format!("k{index}");
            let mut versions = Vec::new();
            for value_type in types {
                seqno += 1 + seqno % 3;
                let value = if value_type.is_tombstone() { String::new() } else { format!("v{seqno}") };
                versions.push(Row { key: key.clone(), seqno, value_type: *value_type, value });
            }
            // The oldest ones lie beneath.
            let newer = versions.split_off((*beneath).min(versions.len()));
            above.extend(newer.into_iter().rev());
            below.extend(versions.into_iter().rev());
        }
        snapshots.retain(|snapshot| *snapshot <= seqno);
        let snapshots: Vec<SeqNo> = snapshots.into_iter().collect();
        let is_beneath = |key: &[u8]| below.iter().any(|row| row.key.as_bytes() == key);
        let bottommost = below.is_empty();
        let fates = run(rules(Setting { snapshots: snapshots.clone(), bottommost, merges: true, ..Setting::default() }), &above, is_beneath);
        let after: Vec<Row> = fates.into_iter().filter_map(|fate| match fate {
            Fate::Written(row) => Some(row),
            Fate::Dropped(_) | Fate::Merged => None,
        }).collect();
        let order = |rows: &[Row]| {
            rows.windows(2).all(|pair| (&pair[0].key, u64::MAX - pair[0].seqno) < (&pair[1].key, u64::MAX - pair[1].seqno))
        };
        prop_assert!(order(&after), "{:?}", after);
        // The same once more: what the first one left is as good.
        let fates = run(rules(Setting { snapshots: snapshots.clone(), bottommost, merges: true, ..Setting::default() }), &after, is_beneath);
        let twice: Vec<Row> = fates.into_iter().filter_map(|fate| match fate {
            Fate::Written(row) => Some(row),
            Fate::Dropped(_) | Fate::Merged => None,
        }).collect();
        for (index, after) in (0..histories.len()).flat_map(|index| [(index, &after), (index, &twice)]) {
            let key = format!("k{index}");
            for reader in snapshots.iter().copied().chain([SeqNo::MAX]) {
                let all = |rows: &[Row]| rows.iter().chain(&below).filter(|row| row.key == key).cloned().collect::<Vec<_>>();
                let (before, now) = (read(&all(&above), &key, reader, false), read(&all(after), &key, reader, false));
                prop_assert_eq!(before, now, "{} at {}, {:?} became {:?}", key, reader, above, after);
            }
            // Whoever holds a snapshot finds what changed since, also since a later moment.
            for reader in snapshots.first().copied().unwrap_or(SeqNo::MAX)..=seqno {
                let is_changed = |rows: &[Row]| rows.iter().any(|row| row.key == key && row.seqno > reader);
                prop_assert_eq!(is_changed(&above), is_changed(after), "{} since {}, {:?} became {:?}", key, reader, above, after);
            }
        }
        // Later what was written is compacted with nobody looking; then keys are single-deleted, and it meets that. What lies beneath is at hand neither time.
        let again = |rows: &[Row]| -> Vec<Row> {
            let fates = run(rules(Setting { merges: true, ..Setting::default() }), rows, is_beneath);
            fates.into_iter().filter_map(|fate| match fate {
                Fate::Written(row) => Some(row),
                Fate::Dropped(_) | Fate::Merged => None,
            }).collect()
        };
        let mut later = again(&after);
        let is_single = |types: &[ValueType]| {
            let kept = |(index, value_type): (usize, &ValueType)| (*value_type == ValueType::Put) == (index % 2 == 0);
            types.iter().enumerate().all(kept) && types.last() == Some(&ValueType::Put)
                && types.iter().all(|value_type| matches!(value_type, ValueType::Put | ValueType::SingleDelete))
        };
        let gone: Vec<String> = histories.iter().enumerate().filter(|(_, (types, _))| is_single(types))
            .map(|(index, _)| format!("k{index}")).collect();
        later.extend(gone.iter().map(|key| {
            Row { key: key.clone(), seqno: seqno + 1, value_type: ValueType::SingleDelete, value: String::new() }
        }));
        later.sort_by(|a, b| (&a.key, u64::MAX - a.seqno).cmp(&(&b.key, u64::MAX - b.seqno)));
        let later = again(&later);
        for key in &gone {
            let all: Vec<_> = later.iter().chain(&below).filter(|row| row.key == *key).cloned().collect();
            prop_assert_eq!(read(&all, key, SeqNo::MAX, false), None, "{} comes back: {:?} became {:?}", key, above, later);
        }
        // Once more, with all of it at the bottom and nobody looking: at most one value of a key is left.
        let mut everything: Vec<Row> = after.iter().chain(&below).cloned().collect();
        everything.sort_by(|a, b| (&a.key, u64::MAX - a.seqno).cmp(&(&b.key, u64::MAX - b.seqno)));
        let last = run(rules(Setting { bottommost: true, merges: true, ..Setting::default() }), &everything, |_| false);
        for index in 0..histories.len() {
            let key = format!("k{index}");
            let left: Vec<_> = last.iter().filter_map(|fate| match fate {
                Fate::Written(row) if row.key == key => Some(row.value.clone()),
                _ => None,
            }).collect();
            let all: Vec<_> = above.iter().chain(&below).filter(|row| row.key == key).cloned().collect();
            prop_assert_eq!(left, Vec::from_iter(read(&all, &key, SeqNo::MAX, false)));
        }
    }
}

#[test]
fn planted_bugs_lose_data() {
    let rows = [row_of(&["a", "9", "Put", "new"]), row_of(&["a", "3", "Put", "old"])];
    let options = |planted: bool| {
        let make = || run(rules(Setting { snapshots: vec![5], ..Setting::default() }), &rows, |_| false);
        if planted { with_planted(PlantedBug::SnapshotIgnoredByCompaction, make) } else { make() }
    };
    assert!(matches!(options(false)[1], Fate::Written(_)));
    assert_eq!(options(true)[1], Fate::Dropped(DropReason::Hidden));
}
