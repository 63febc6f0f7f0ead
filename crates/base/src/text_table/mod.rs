//! Tables of fixed-width text for people: metrics, dumps and reports.
//!
//! ```
//! use siltstone_base::text_table::TextTable;
//!
//! let mut table = TextTable::new(["level", "files", "size"]);
//! table.row(["L0", "3", "12.0 MiB"]);
//! table.rule();
//! table.row(["total", "3", "12.0 MiB"]);
//! assert_eq!(
//!     table.to_string(),
//!     "level  files      size\n\
//!      ----------------------\n\
//!      L0         3  12.0 MiB\n\
//!      ----------------------\n\
//!      total      3  12.0 MiB\n"
//! );
//! ```

use std::fmt;

/// The blanks between two columns.
const GAP: usize = 2;

/// Rows of cells, each column as wide as its widest cell. The first column stands left, the others right.
#[derive(Debug, Clone, Default)]
pub struct TextTable {
    header: Vec<String>,
    /// `None` is a rule.
    rows: Vec<Option<Vec<String>>>,
}

impl TextTable {
    /// A table with these column names.
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells are blank, and surplus ones make columns without a name.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Self {
        self.rows.push(Some(cells.into_iter().map(Into::into).collect()));
        self
    }

    /// Adds a line across.
    pub fn rule(&mut self) -> &mut Self {
        self.rows.push(None);
        self
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for row in std::iter::once(&self.header).chain(self.rows.iter().flatten()) {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        widths
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let rule = "-".repeat(widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1));
        let write_row = |f: &mut fmt::Formatter<'_>, row: &[String]| {
            let mut line = String::with_capacity(rule.len());
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                match column {
                    0 => line.push_str(&format!("{cell:<width$}")),
                    _ => line.push_str(&format!("{:GAP$}{cell:>width$}", "")),
                }
            }
            writeln!(f, "{}", line.trim_end())
        };
        write_row(f, &self.header)?;
        writeln!(f, "{rule}")?;
        for row in &self.rows {
            match row {
                Some(cells) => write_row(f, cells)?,
                None => writeln!(f, "{rule}")?,
            }
        }
        Ok(())
    }
}

/// Bytes of a key or a value for people: as text in quotes, what is not printable escaped, and no more than the first 24 of them.
///
/// ```
/// use siltstone_base::text_table::Shown;
///
/// assert_eq!(Shown(b"one\0").to_string(), r#""one\x00""#);
/// assert_eq!(Shown(&[b'a'; 25]).to_string(), r#""aaaaaaaaaaaaaaaaaaaaaaaa...""#);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 24;
        let shown = self.0.get(..MOST).unwrap_or(self.0);
        let rest = if shown.len() < self.0.len() { "..." } else { "" };
        write!(f, "\"{}{rest}\"", shown.escape_ascii())
    }
}

/// A number of bytes with a binary unit and one decimal: `512 B`, `1.5 KiB`, `2.0 GiB`.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be printed as 1024.0 is printed in the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A number with its thousands apart: `1,234,567`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests;
