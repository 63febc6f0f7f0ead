//! The table of shapes.

use super::RunRecord;
use super::sections::{escape, table};
use super::shapes::{Judged, Shape, Verdict, judge};
use crate::figures::short;
use std::fmt::Write;

/// What was published, what was measured, and whether its shape holds.
pub(super) fn shapes(records: &[RunRecord]) -> String {
    let judged = judge(records);
    let measured: Vec<_> = judged.iter().filter(|one| one.verdict != Verdict::NotMeasured).collect();
    if measured.is_empty() {
        return String::new();
    }
    let count = |verdict| measured.iter().filter(|one| one.verdict == verdict).count();
    let mut html = format!(
        "<section><h2>Does the published shape hold?</h2><p>{} of {} comparisons that have bounds are as published, {} are shown \
         without one, {} could not be measured. Each is computed from the results; as a control it is computed once more with the labels of the two engines \
         swapped, and must then fail; where the bounds hold a ratio and its inverse, it may instead fail with those of an engine and its counterpart swapped.</p><div class=\"scroll\"><table class=\"verdicts\"><thead><tr><th>experiment</th><th>what is compared</th>\
         <th>published</th><th>measured</th><th>bounds</th><th>holds</th><th>swapped</th></tr></thead><tbody>",
        count(Verdict::Holds),
        count(Verdict::Holds) + count(Verdict::Differs),
        count(Verdict::Shown),
        judged.len() - measured.len(),
    );
    for one in measured {
        html += &row(one);
    }
    html + "</tbody></table></div>" + &not_measured(&judged) + "</section>"
}

/// The comparisons that could not be measured, and why.
fn not_measured(judged: &[Judged]) -> String {
    let rows: Vec<_> = judged
        .iter()
        .filter_map(|one| Some((one.shape, one.reason.clone()?)))
        .map(|(shape, reason)| vec![shape.experiment.to_owned(), shape.claim.to_owned(), reason])
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<details class=\"verdicts\"><summary>{} that could not be measured, and why</summary>{}</details>",
        rows.len(),
        table(&["experiment", "what is compared", "why it is missing"], rows)
    )
}

fn row(judged: &Judged) -> String {
    let Shape { experiment, claim, published, otherwise, .. } = judged.shape;
    let published = match published() {
        Some((least, most)) if short(Some(least)) == short(Some(most)) => short(Some(least)),
        Some((least, most)) => format!("{} to {}", short(Some(least)), short(Some(most))),
        None => "-".to_owned(),
    };
    let (class, word) = match judged.verdict {
        Verdict::Holds => ("yes", "yes"),
        Verdict::Differs => ("no", "no"),
        Verdict::Shown | Verdict::NotMeasured => ("", "-"),
    };
    let control = match judged.is_sensitive {
        Some(true) => "fails, as it must",
        Some(false) => "holds: the row cannot tell them apart",
        None => "-",
    };
    let mut html = format!("<tr class=\"{class}\"><td>{}</td><td>{}", escape(experiment), escape(claim));
    if judged.verdict == Verdict::Differs {
        let _ = write!(html, "<br><small>{}</small>", escape(otherwise));
    }
    let _ = write!(
        html,
        "</td><td>{published}</td><td>{}{}</td><td>{}</td><td><b>{word}</b></td><td>{control}</td></tr>",
        short(judged.measured),
        judged.finer.map_or_else(String::new, |finer| format!("<br><small>{}</small>", escape(finer))),
        bounds(judged.shape),
    );
    html
}

fn bounds(shape: &Shape) -> String {
    match (shape.at_least, shape.at_most) {
        (Some(least), Some(most)) => format!("{} to {}", short(Some(least)), short(Some(most))),
        (Some(least), None) => format!("at least {}", short(Some(least))),
        (None, Some(most)) => format!("at most {}", short(Some(most))),
        (None, None) => "-".to_owned(),
    }
}
