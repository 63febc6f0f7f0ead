//! Heat maps: one engine over another by clients and memory, measured beside published.

use super::conditions::{OWN_DEVICE, is_on};
use super::published::tables;
use super::sections::escape;
use super::{RunRecord, shapes};
use crate::figures::short;
use crate::load::median;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The mixes that are shown.
const MIXES: [&str; 3] = ["read_only", "read_write", "write_only"];

/// Both set-ups of the B-tree, and what tells the second from the first.
const BTREES: [(&str, &str); 2] = [(shapes::BTREE, ""), (shapes::MYSQL84, " (B-tree as MySQL 8.4)")];

/// A map of ratios: what is above 1 is the LSM tree's.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Heat {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The names of the rows with their ratios.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

/// The maps of the mixes of sysbench; nothing, if none was run.
pub(super) fn sysbench(records: &[RunRecord]) -> String {
    let measured = |mix| BTREES.map(|(btree, beside)| Some((beside, measured(records, mix, btree)?)));
    let maps: Vec<_> = MIXES.iter().map(|mix| (mix, measured(mix).into_iter().flatten().collect::<Vec<_>>())).collect();
    let maps: Vec<_> = maps.into_iter().filter(|(_, maps)| !maps.is_empty()).collect();
    if maps.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<article><h3>LSM tree over B-tree, by clients and memory</h3><p>Transactions a second; blue where the LSM tree \
         leads, amber where the B-tree does. Published: MyRocks over InnoDB, by the machine's memory in GB for 640 million rows.</p>\
         <div class=\"maps\">",
    );
    for (mix, maps) in maps {
        for (beside, map) in maps {
            html += &table(&format!("{mix}, measured{beside}"), &map);
        }
        if let Some(map) = published(mix) {
            html += &table(&format!("{mix}, published"), &map);
        }
    }
    html + "</div></article>"
}

/// The measured ratios of a mix over such a B-tree: a row for each part of the data that is in memory.
pub(super) fn measured(records: &[RunRecord], mix: &str, btree: &str) -> Option<Heat> {
    let runs: Vec<_> = records
        .iter()
        .map(|record| &record.result)
        .filter(|run| run.experiment == "sysbench" && run.workload == mix && run.page_cache != Some(true))
        .collect();
    // Where a device was modelled, the map is of that: on the machine's own there are cells beside other engines.
    let is_modelled = runs.iter().any(|run| !is_on(run, OWN_DEVICE));
    let runs: Vec<_> = runs.into_iter().filter(|run| !is_modelled || !is_on(run, OWN_DEVICE)).collect();
    let clients: BTreeSet<u32> = runs.iter().map(|run| run.threads).collect();
    let parts: BTreeSet<u64> =
        runs.iter().filter_map(|run| part_in_memory(run.memory_bytes?, run.data_bytes?)).collect();
    let ratio = |part: u64, clients: u32| {
        let rate = |engine: &str| {
            let of_cell = runs.iter().filter(|run| {
                run.engine == engine
                    && run.threads == clients
                    && run.memory_bytes.zip(run.data_bytes).and_then(|(memory, data)| part_in_memory(memory, data))
                        == Some(part)
            });
            median(&of_cell.map(|run| run.ops_per_s).collect::<Vec<_>>())
        };
        Some(rate(shapes::LSM)? / rate(btree).filter(|rate| *rate > 0.0)?)
    };
    let rows: Vec<_> = parts
        .into_iter()
        .map(|part| {
            (format!("{part} % in memory"), clients.iter().map(|&clients| ratio(part, clients)).collect::<Vec<_>>())
        })
        .collect();
    let is_empty = rows.iter().all(|(_, ratios)| ratios.iter().all(Option::is_none));
    (!is_empty).then(|| Heat { columns: clients.iter().map(ToString::to_string).collect(), rows })
}

/// How much of the data memory holds, in percent.
fn part_in_memory(memory: u64, data: u64) -> Option<u64> {
    (data > 0).then(|| (memory as f64 / data as f64 * 100.0).round() as u64)
}

/// The published ratios of a mix.
fn published(mix: &str) -> Option<Heat> {
    let table = tables().into_iter().find(|table| table.name == "sysbench")?;
    let columns = ["t8", "t16", "t32", "t64"];
    let rows = ["32", "64", "128"].into_iter().map(|memory| {
        let of = |engine, column| table.figure(&[("workload", mix), ("engine", engine), ("memory_gb", memory)], column);
        let ratios = columns.iter().map(|column| Some(of("myrocks", column)? / of("innodb", column)?)).collect();
        (format!("{memory} GB"), ratios)
    });
    Some(Heat {
        rows: rows.collect(),
        columns: columns.map(|column| column.trim_start_matches('t').to_owned()).to_vec(),
    })
}

fn table(title: &str, map: &Heat) -> String {
    let mut html = format!("<table class=\"heat\"><caption>{}</caption><thead><tr><th>clients</th>", escape(title));
    for column in &map.columns {
        let _ = write!(html, "<th>{}</th>", escape(column));
    }
    html += "</tr></thead><tbody>";
    for (name, ratios) in &map.rows {
        let _ = write!(html, "<tr><th>{}</th>", escape(name));
        for ratio in ratios {
            match ratio {
                Some(ratio) => {
                    let _ = write!(html, "<td style=\"background:{}\">{}</td>", shade(*ratio), short(Some(*ratio)));
                }
                None => html += "<td>-</td>",
            }
        }
        html += "</tr>";
    }
    html + "</tbody></table>"
}

/// The colour of a ratio: the stronger, the further from 1; twice and half are equally far.
fn shade(ratio: f64) -> String {
    let strength = (ratio.max(1e-3).log2().abs() / 1.5).min(1.0) * 0.6;
    let colour = if ratio >= 1.0 { "31,119,180" } else { "230,159,0" };
    format!("rgba({colour},{strength:.2})")
}
