//! The straight lines: each file on one says its number, the file before it and the file after it, and they agree.
//!
//! The form is `//! Path: get 4/7. Before: version/mod.rs. After: sst/reader.rs.` The first station has no `Before`, the last no
//! `After`.

use super::SourceFile;

/// The lines that must close, and the most stations that each may have.
pub const LINES: &[(&str, usize)] = &[("get", 7), ("put", 7)];

/// One header.
#[derive(Debug, PartialEq, Eq)]
struct Station<'a> {
    file: &'a str,
    line: &'a str,
    number: usize,
    of: usize,
    before: Option<&'a str>,
    after: Option<&'a str>,
}

fn parse<'a>(file: &'a str, header: &'a str) -> Option<Station<'a>> {
    let (place, rest) = header.split_once(". ").unwrap_or((header.strip_suffix('.')?, ""));
    let (line, numbers) = place.split_once(' ')?;
    let (number, of) = numbers.split_once('/')?;
    let neighbour = |label: &str| {
        let (_, found) = rest.split_once(label)?;
        found.split_whitespace().next()?.strip_suffix('.')
    };
    Some(Station {
        file,
        line,
        number: number.parse().ok()?,
        of: of.parse().ok()?,
        before: neighbour("Before: "),
        after: neighbour("After: "),
    })
}

/// Findings in the files of one crate for the lines that must close.
pub fn check(files: &[SourceFile], lines: &[(&str, usize)]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut stations = Vec::new();
    for file in files {
        let inside = file.path.split_once("/src/").map_or(file.path.as_str(), |(_, inside)| inside);
        for header in file.text.lines().filter_map(|line| line.strip_prefix("//! Path: ")) {
            match parse(inside, header) {
                Some(station) => stations.push(station),
                None => findings.push(format!("{}: this is no station: {header}", file.path)),
            }
        }
    }
    for (line, most) in lines {
        let mut own: Vec<&Station> = stations.iter().filter(|station| station.line == *line).collect();
        own.sort_by_key(|station| station.number);
        if own.is_empty() || own.len() > *most {
            findings.push(format!("{line}: {} stations; there are 1 to {most}", own.len()));
        }
        for (index, station) in own.iter().enumerate() {
            if station.number != index + 1 || station.of != own.len() {
                findings.push(format!(
                    "{}: says {line} {}/{}, but is {}/{}",
                    station.file,
                    station.number,
                    station.of,
                    index + 1,
                    own.len()
                ));
            }
            let before = index.checked_sub(1).map(|before| own[before].file);
            let after = own.get(index + 1).map(|after| after.file);
            for (label, said, is) in [("before", station.before, before), ("after", station.after, after)] {
                if said != is {
                    findings.push(format!("{}: {line}: says {said:?} {label} it, but it is {is:?}", station.file));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSED: [(&str, &str); 3] = [
        ("crates/lsm/src/db/mod.rs", "//! Db.\n//!\n//! Path: get 1/3. After: db/read.rs.\n"),
        ("crates/lsm/src/db/read.rs", "//! Path: get 2/3. Before: db/mod.rs. After: sst/block.rs.\n"),
        ("crates/lsm/src/sst/block.rs", "//! Path: get 3/3. Before: db/read.rs.\n"),
    ];

    fn findings(files: &[(&str, &str)], most: usize) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| SourceFile::new(path, text)).collect();
        check(&files, &[("get", most)])
    }

    #[test]
    fn a_closed_line_is_fine() {
        assert_eq!(findings(&CLOSED, 3), Vec::<String>::new());
    }

    #[test]
    fn gaps_wrong_neighbours_and_long_lines_are_found() {
        assert!(!findings(&CLOSED[..2], 3).is_empty(), "the last station is missing");
        assert!(!findings(&CLOSED[1..], 3).is_empty(), "the first station is missing");
        assert!(!findings(&[], 3).is_empty(), "the line is missing");
        assert!(!findings(&CLOSED, 2).is_empty(), "the line is too long");
        let mut wrong = CLOSED;
        wrong[2].1 = "//! Path: get 3/3. Before: db/mod.rs.\n";
        assert_eq!(findings(&wrong, 3).len(), 1);
        wrong[2].1 = "//! Path: get three of 3.\n";
        assert!(findings(&wrong, 3).iter().any(|finding| finding.contains("no station")));
    }
}
