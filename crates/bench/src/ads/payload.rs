//! What a row of the ad-serving workload says: how often an advertisement was shown to somebody on a page.
//!
//! A payload is text of named fields, as such systems keep them, and is always of the same length. What it says comes from sets of very different sizes: campaigns of which few have most of the events (2,000, each
//! with 7 creatives), sites (400, as unevenly), pages of a site (100,000), browsers (16), countries (6), somebody's random 16 digits, numbers. The rest are words. So rows
//! have much in common with each other and little within themselves, and how small they become depends on how many a codec sees at once, as with the published data, of which
//! Zstd left little more than half of what Snappy left.

use crate::Rng;
use std::io::Write;

/// Bytes of a payload.
pub(super) const PAYLOAD_BYTES: usize = 300;

const CAMPAIGNS: u64 = 2_000;
const CREATIVES: u64 = 7;
const SITES: u64 = 400;
const PAGES: u64 = 100_000;

const TOPICS: [&str; 20] = [
    "news", "sport", "travel", "music", "games", "shop", "auto", "tech", "health", "food", "video", "mail", "home",
    "world", "local", "finance", "weather", "photo", "style", "kids",
];

const DOMAINS: [&str; 5] = ["com", "com.ar", "net", "com.br", "org"];

const COUNTRIES: [&str; 6] = ["AR", "BR", "CL", "CO", "MX", "PE"];

const PLATFORMS: [&str; 4] = [
    "Windows NT 10.0; Win64; x64",
    "Macintosh; Intel Mac OS X 10_15_4",
    "Linux; Android 9; SM-A505F",
    "iPhone; CPU iPhone OS 13_3 like Mac OS X",
];

const BROWSERS: [&str; 4] = ["79.0.3945.130", "80.0.3987.132", "78.0.3904.108", "81.0.4044.92"];

/// One of `of`, the first ones far more often than the last.
fn uneven(rng: &mut Rng, of: u64) -> u64 {
    let draw = rng.below(1 << 16);
    ((u128::from(draw) * u128::from(draw) * u128::from(of)) >> 32) as u64
}

fn one<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of.get(rng.below(of.len() as u64) as usize).copied().unwrap_or_default()
}

fn word(number: u64) -> &'static str {
    TOPICS.get((number % TOPICS.len() as u64) as usize).copied().unwrap_or_default()
}

/// Appends a payload of [`PAYLOAD_BYTES`].
pub(super) fn append(rng: &mut Rng, out: &mut Vec<u8>) {
    let end = out.len() + PAYLOAD_BYTES;
    let (campaign, site) = (uneven(rng, CAMPAIGNS), uneven(rng, SITES));
    let domain = DOMAINS.get((site % DOMAINS.len() as u64) as usize).copied().unwrap_or_default();
    // Writing to a vector does not fail.
    let _ = write!(
        out,
        "campaign={} creative={} site=www.{}{}{}.{domain} page=/{}/{}.html agent=\"Mozilla/5.0 ({}) Chrome/{} Safari/537.36\" country={} user={:016x} shown={} clicks={} cost={}",
        100_000 + campaign,
        campaign * CREATIVES + rng.below(CREATIVES),
        word(site),
        word(site / 7),
        site,
        one(rng, &TOPICS),
        uneven(rng, PAGES),
        one(rng, &PLATFORMS),
        one(rng, &BROWSERS),
        one(rng, &COUNTRIES),
        rng.next_u64(),
        1 + rng.below(400),
        uneven(rng, 20),
        1 + rng.below(2_000_000),
    );
    while out.len() < end {
        out.push(b' ');
        out.extend_from_slice(one(rng, &TOPICS).as_bytes());
    }
    out.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_of_one_length_and_have_all_their_fields() {
        let mut rng = Rng::new(3, 1);
        for _ in 0..2_000 {
            let mut payload = b"before".to_vec();
            append(&mut rng, &mut payload);
            assert_eq!(payload.len(), 6 + PAYLOAD_BYTES);
            let text = String::from_utf8(payload).unwrap();
            let fields = [
                "campaign=",
                "creative=",
                "site=",
                "page=",
                "agent=",
                "country=",
                "user=",
                "shown=",
                "clicks=",
                "cost=",
            ];
            assert!(fields.iter().all(|field| text.contains(field)), "{text}");
        }
    }

    #[test]
    fn few_campaigns_have_most_events() {
        let mut rng = Rng::new(3, 1);
        let of_few = (0..10_000).filter(|_| uneven(&mut rng, CAMPAIGNS) < CAMPAIGNS / 4).count();
        assert!((4_700..5_300).contains(&of_few), "{of_few}");
    }
}
