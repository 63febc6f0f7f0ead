//! The page as a whole.

use super::{RunRecord, ads, heat, provenance, sections, verdicts};
use crate::engines::durabilities::{COLUMNS, KNOBS, Knobs};
use siltstone_base::Result;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#0f172a;--soft:#475569;--line:#e2e8f0;--paper:#fff;--back:#f8fafc;--good:#15803d;--bad:#b91c1c;--doubt:#a16207}\
@media (prefers-color-scheme:dark){:root{--ink:#e2e8f0;--soft:#94a3b8;--line:#334155;--paper:#111827;--back:#0b1120;--good:#4ade80;--bad:#f87171;--doubt:#facc15}}\
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);\
font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
main{max-width:1280px;margin:0 auto;padding:40px 20px 80px}\
h1{font-size:30px;letter-spacing:-.02em;margin:0 0 4px}h2{font-size:21px;margin:44px 0 12px;letter-spacing:-.01em}\
h3{font-size:16px;margin:0 0 4px}section>.scroll+h3{margin-top:28px}h3 small{color:var(--soft);font-weight:400}p{color:var(--soft);margin:6px 0;overflow-wrap:anywhere}\
article,details{background:var(--paper);border:1px solid var(--line);border-radius:12px;padding:18px 20px;margin:14px 0}\
summary{cursor:pointer;font-weight:600}svg{min-width:600px;max-width:100%;height:auto;display:block;margin-top:10px;color:var(--ink)}\
svg [stroke='#E2E8F0']{stroke:var(--line)}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;width:100%;\
margin-top:10px}th,td{padding:5px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}\
th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left}tbody tr:last-child td{border-bottom:0}\
.verdicts td:nth-child(2),.verdicts th:nth-child(2),details.verdicts td:nth-child(3),details.verdicts th:nth-child(3){text-align:left;white-space:normal;min-width:300px}.verdicts td small{white-space:normal}small{color:var(--soft)}\
.told{white-space:normal;min-width:190px}\
.several{border-color:var(--doubt)}.several b{color:var(--doubt)}\
.words td,.words th{text-align:left;white-space:normal;vertical-align:top}\
.yes b{color:var(--good)}.no b{color:var(--bad)}.either b,.few{color:var(--doubt)}\
article details{padding:8px 12px;margin:10px 0}\
.maps{display:flex;flex-wrap:wrap;gap:8px 28px;overflow-x:auto}table.heat{width:auto}.heat caption{text-align:left;color:var(--soft);padding-bottom:4px}\
.heat td,.heat th{border:1px solid var(--line);min-width:58px}\
.legend span{display:inline-flex;align-items:center;margin-right:18px;color:var(--ink)}\
.legend i{width:12px;height:12px;border-radius:3px;margin-right:7px;display:inline-block}\
@media (max-width:1320px){th,td{padding:5px 4px}th{white-space:normal}}@media (max-width:700px){main{padding:20px 10px 40px}article,details{padding:12px 10px}}\
@media print{:root{--back:#fff}details::details-content{content-visibility:visible;block-size:auto}main{max-width:none;padding:0}article,tr{break-inside:avoid}h2,h3{break-after:avoid}\
.scroll{overflow:visible}svg{min-width:0}th,td{padding:2px 4px;font-size:8px;white-space:normal}*{print-color-adjust:exact}}";

/// Under which conditions all that was measured.
fn conditions(records: &[RunRecord]) -> String {
    let mut html = String::new();
    let machines = provenance::machines(records);
    if !machines.is_empty() {
        html += &format!("<article>{machines}</article>");
    }
    if records.iter().any(|record| record.result.durability.is_some()) {
        html += &durabilities();
    }
    if html.is_empty() { html } else { format!("<section><h2>Conditions</h2>{html}</section>") }
}

/// Which knob of each engine a durability means.
fn durabilities() -> String {
    let plain = |cells: &Knobs| cells.map(|cell| cell.replace('`', ""));
    let columns = plain(&COLUMNS);
    let rows = KNOBS.iter().map(|knobs| plain(knobs).to_vec());
    let table = sections::table(&columns.each_ref().map(String::as_str), rows);
    format!("<details class=\"words\"><summary>What each durability means to each engine</summary>{table}</details>")
}

/// The whole page.
pub(super) fn render(records: &[RunRecord]) -> Result<String> {
    let mut body = String::from(
        "<h1>Siltstone</h1><p>What the laboratory measured. Where an engine ran more than once, \
         figures are medians of its runs; a rate relative to the first engine is a ratio only if the runs were at least \
         five alternating pairs.</p>",
    );
    body += &sections::legend(records);
    body += &provenance::several(records);
    body += &verdicts::shapes(records);
    body += &sections::published_and_measured(records);
    body += &sections::experiment(records, "kv", "Keys and values")?;
    body += &sections::experiment(records, "insert", "Insert benchmark")?;
    body += &sections::experiment(records, "ycsb", "YCSB")?;
    body += &sections::experiment(records, "sysbench", "sysbench")?;
    body += &heat::sysbench(records);
    body += &sections::experiment(records, "mariadb", "Beside MariaDB")?;
    body += &sections::experiment(records, "redmine", "Redmine")?;
    body += &sections::experiment(records, "stalls", "Evenness under load")?;
    body += &ads::ladder(records)?;
    body += &conditions(records);
    body += &sections::published_tables();
    Ok(whole(&body))
}

/// The page of the control, and how many comparisons hold on it that must not.
pub(super) fn render_control(records: &[RunRecord]) -> (String, usize) {
    let (table, hold) = verdicts::control(records);
    let body = format!(
        "<h1>Siltstone</h1><p>The control of the table of shapes: what becomes of its comparisons when engines are taken for each other.</p>{table}"
    );
    (whole(&body), hold)
}

fn whole(body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>Siltstone: measurements</title><style>{STYLE}</style></head>\
         <body><main>{body}</main></body></html>\n"
    )
}
