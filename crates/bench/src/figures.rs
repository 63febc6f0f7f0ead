//! Numbers for people.

/// A number with a comma every three digits.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if number < 0.0 { format!("-{grouped}") } else { grouped }
}

/// A number with as many decimals as leave about three digits to see; `-` if unknown.
pub(crate) fn short(number: Option<f64>) -> String {
    match number {
        None => "-".to_owned(),
        Some(number) if number.abs() >= 1000.0 => thousands(number),
        Some(number) if number.abs() >= 100.0 => format!("{number:.0}"),
        Some(number) if number.abs() >= 10.0 => format!("{number:.1}"),
        Some(number) => format!("{number:.2}"),
    }
}

/// Bytes in MB; `-` if unknown.
pub(crate) fn megabytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| thousands(bytes as f64 / 1e6))
}
