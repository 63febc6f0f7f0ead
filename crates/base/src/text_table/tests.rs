//! Shapes of tables and numbers.

use super::*;

#[test]
fn ragged_rows_and_wide_letters() {
    let mut table = TextTable::new(["name", "n"]);
    table.row(["größe"]).row(["b", "10", "extra"]).rule();
    assert_eq!(
        table.to_string(),
        "name    n\n\
         ----------------\n\
         größe\n\
         b      10  extra\n\
         ----------------\n"
    );
    assert_eq!(TextTable::default().to_string(), "\n\n");
}

#[test]
fn bytes_have_units() {
    let rows = [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (1 << 20, "1.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (u64::MAX, "16.0 EiB"),
    ];
    for (bytes, text) in rows {
        assert_eq!(format_bytes(bytes), text);
    }
}

#[test]
fn counts_have_their_thousands_apart() {
    for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567"), (100_000, "100,000")] {
        assert_eq!(format_count(count), text);
    }
}
