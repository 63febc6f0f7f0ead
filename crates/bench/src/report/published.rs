//! The published figures, as they are in `crates/bench/published`.

/// A table of published figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedTable {
    /// A short name.
    pub name: &'static str,
    /// What the figures are and where they are from.
    pub notes: Vec<&'static str>,
    /// The names of the columns.
    pub columns: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<&'static str>>,
}

const FILES: [(&str, &str); 8] = [
    ("Insert benchmark, cached", include_str!("../../published/insert_benchmark_inmemory.csv")),
    ("Insert benchmark, slow and fast SSD", include_str!("../../published/insert_benchmark_io.csv")),
    ("Insert benchmark, space", include_str!("../../published/insert_benchmark_size.csv")),
    ("sysbench", include_str!("../../published/sysbench.csv")),
    ("MariaDB, one run", include_str!("../../published/mariadb.csv")),
    ("Redmine", include_str!("../../published/redmine.csv")),
    ("Redmine, space", include_str!("../../published/redmine_space.csv")),
    ("Ad serving", include_str!("../../published/ad_serving.csv")),
];

/// All tables.
pub fn tables() -> Vec<PublishedTable> {
    FILES.into_iter().map(|(name, text)| table(name, text)).collect()
}

fn table(name: &'static str, text: &'static str) -> PublishedTable {
    let (notes, figures): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with('#'));
    let notes = notes.into_iter().map(|line| line.trim_start_matches(['#', ' '])).collect();
    let mut rows = figures.into_iter().filter(|line| !line.is_empty()).map(|line| line.split(',').collect());
    PublishedTable { name, notes, columns: rows.next().unwrap_or_default(), rows: rows.collect() }
}

impl PublishedTable {
    /// The figure in `column` of the first row in which every named column has the value beside it.
    pub fn figure(&self, conditions: &[(&str, &str)], column: &str) -> Option<f64> {
        let position = |name: &str| self.columns.iter().position(|&column| column == name);
        let holds = |row: &&Vec<&str>| {
            conditions.iter().all(|(name, value)| position(name).and_then(|at| row.get(at)) == Some(value))
        };
        self.rows.iter().find(holds)?.get(position(column)?)?.parse().ok()
    }
}
