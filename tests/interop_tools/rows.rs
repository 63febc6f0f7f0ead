//! Rows as the judges print them, and reproducible scripts of writes.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Live rows by family and key.
pub type Rows = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Bytes as hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

/// Hex as bytes.
pub fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "odd number of digits");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// One write, flush or compaction.
#[derive(Debug, Clone)]
pub enum Step {
    Create(&'static str),
    Put(&'static str, Vec<u8>, Vec<u8>),
    /// Adds a number of 64 bits.
    Merge(&'static str, Vec<u8>, u64),
    Delete(&'static str, Vec<u8>),
    /// From a key to another one, exclusive.
    DeleteRange(&'static str, Vec<u8>, Vec<u8>),
    Flush(&'static str),
    Compact(&'static str),
}

/// A list of steps that depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Script {
    pub steps: Vec<Step>,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Keys of a few forms that come back: short and long, with zeros, with bytes that are no text, and the empty one.
    fn key(&mut self) -> Vec<u8> {
        let number = self.below(2_000);
        match self.below(20) {
            0 => vec![0xFF; self.below(12) as usize],
            1 => [&number.to_be_bytes()[..], &[0; 3]].concat(),
            2 => format!("a key with a long common beginning that blocks can share/{number:08}").into_bytes(),
            _ => format!("key{number:06}").into_bytes(),
        }
    }

    /// Values that compress, values that do not, empty ones, and some longer than a block.
    fn value(&mut self) -> Vec<u8> {
        let len = match self.below(50) {
            0 => 0,
            1 => 10_000,
            _ => 20 + self.below(180) as usize,
        };
        if self.below(2) == 0 {
            return vec![b'a' + self.below(26) as u8; len];
        }
        (0..len).map(|_| self.next() as u8).collect()
    }
}

impl Script {
    /// `writes` puts and deletes spread over `families`, which must include `default` or be created first, with flushes and
    /// compactions now and then. The last writes stay in the WAL.
    pub fn new(seed: u64, families: &[&'static str], writes: usize) -> Self {
        Self::draw(seed, families, writes, false)
    }

    /// The same, with range deletes among the writes.
    pub fn with_ranges(seed: u64, families: &[&'static str], writes: usize) -> Self {
        Self::draw(seed, families, writes, true)
    }

    /// `writes` puts, deletes and additions of numbers of 64 bits in `default`, with flushes and compactions now and then.
    pub fn with_merges(seed: u64, writes: usize) -> Self {
        let mut random = Random(seed);
        let steps = Self::draw(seed, &["default"], writes, false).steps.into_iter().map(|step| match step {
            Step::Put(family, key, _) if random.below(4) == 0 => {
                Step::Put(family, key, random.next().to_le_bytes().to_vec())
            }
            Step::Put(family, key, _) => Step::Merge(family, key, random.next()),
            step => step,
        });
        Self { steps: steps.collect() }
    }

    fn draw(seed: u64, families: &[&'static str], writes: usize, ranges: bool) -> Self {
        let mut random = Random(seed);
        let mut steps: Vec<Step> = Vec::new();
        for at in 0..writes {
            let family = families[random.below(families.len() as u64) as usize];
            let key = random.key();
            if ranges && random.below(60) == 0 {
                // Most ranges are narrow, some span many tables.
                let end = match random.below(6) {
                    0 => random.key(),
                    _ => [&key[..key.len().saturating_sub(1)], &[b'0' + random.below(12) as u8]].concat(),
                };
                let (begin, end) = if key <= end { (key, end) } else { (end, key) };
                steps.push(Step::DeleteRange(family, begin, end));
            } else if random.below(4) == 0 {
                steps.push(Step::Delete(family, key));
            } else {
                steps.push(Step::Put(family, key, random.value()));
            }
            if at + 20 < writes && random.below(writes as u64 / 6) == 0 {
                steps.push(Step::Flush(family));
            }
            if at + 20 < writes && random.below(writes as u64 / 2) == 0 {
                steps.push(Step::Compact(family));
            }
        }
        Self { steps }
    }

    /// The same, creating the families other than `default` first.
    pub fn creating(self, families: &[&'static str]) -> Self {
        let create = families.iter().filter(|family| **family != "default").map(|family| Step::Create(family));
        Self { steps: create.chain(self.steps).collect() }
    }

    /// Ends with a range delete and a flush, which leaves its tombstone in a table, and a write behind it.
    pub fn ending_with_a_range(mut self) -> Self {
        let key = |text: &str| text.as_bytes().to_vec();
        self.steps.push(Step::DeleteRange("default", key("key0004"), key("key0009")));
        self.steps.push(Step::Flush("default"));
        self.steps.push(Step::Put("default", key("key000700"), key("behind the range")));
        self
    }

    /// Does to `rows` what the steps do to a database.
    pub fn apply(&self, rows: &mut Rows) {
        for step in &self.steps {
            match step {
                Step::Create(family) => {
                    rows.entry((*family).to_owned()).or_default();
                }
                Step::Put(family, key, value) => {
                    rows.entry((*family).to_owned()).or_default().insert(key.clone(), value.clone());
                }
                Step::Merge(family, key, number) => {
                    let value = rows.entry((*family).to_owned()).or_default().entry(key.clone()).or_default();
                    let before = value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                    *value = before.wrapping_add(*number).to_le_bytes().to_vec();
                }
                Step::Delete(family, key) => {
                    rows.entry((*family).to_owned()).or_default().remove(key);
                }
                Step::DeleteRange(family, begin, end) => {
                    rows.entry((*family).to_owned()).or_default().retain(|key, _| key < begin || key >= end);
                }
                Step::Flush(_) | Step::Compact(_) => {}
            }
        }
    }
}
