//! The table of shapes.

use super::RunRecord;
use super::sections::{escape, table};
use super::shapes::{Control, Course, Judged, Lead, SPREAD, Sameness, Shape, Verdict, crossings, judge};
use crate::figures::{short, thousands};
use std::fmt::Write;

/// What was published, what was measured, and whether its shape holds.
pub(super) fn shapes(records: &[RunRecord]) -> String {
    let judged = judge(records);
    let measured: Vec<_> = judged.iter().filter(|one| one.verdict != Verdict::NotMeasured).collect();
    let missing = not_measured(&judged, records);
    if measured.is_empty() {
        return if missing.is_empty() { missing } else { format!("<section><h2>Shapes</h2>{missing}</section>") };
    }
    let count = |verdict| measured.iter().filter(|one| one.verdict == verdict).count();
    let (holds, either_way, alone) = (count(Verdict::Holds), count(Verdict::Insensitive), count(Verdict::Uncontrolled));
    let is_published = |one: &&&Judged| one.shape.published.is_some() && one.shape.relative_to.is_none();
    let is_asked = |one: &&&Judged| one.verdict != Verdict::Shown;
    let of_published = measured.iter().filter(is_published).filter(is_asked).count();
    let published_hold = || measured.iter().filter(is_published).filter(|one| one.verdict == Verdict::Holds);
    let of_library =
        measured.iter().filter(|one| one.verdict == Verdict::Holds && one.shape.is_beside_server()).count();
    let beside_servers = match of_library {
        0 => String::new(),
        count => format!(
            "{count} of all that hold have one of our engines as a library beside one in a server, which takes its time for SQL. "
        ),
    };
    let (of_publication, far) = (published_hold().count(), published_hold().filter(|one| one.is_far).count());
    let mut html = format!(
        "<section><h2>Does the published shape hold?</h2><p>{holds} of {} comparisons hold: their ratio is within its bounds or, where there are none, the same side leads as in the publication. \
         Of those that have a published figure beside them, {of_publication} of {of_published} do, {far} of them by a factor that is more than twice the published one or less than half of it; what is asked of the others is a goal of this project. {beside_servers}{either_way} hold with \
         labels exchanged as well and say nothing, {alone} would hold and lack the run that their control needs, {} are shown without anything that is asked of this machine, {} could not be measured. Each is computed \
         from the results; as a control those that hold are computed once more with the labels of two engines exchanged, and must then fail.</p>{}<div class=\"scroll\"><table class=\"verdicts\"><thead><tr><th>experiment</th><th>what is compared</th>\
         <th>published</th><th>measured</th><th>asked</th><th>holds</th><th>labels exchanged</th></tr></thead><tbody>",
        holds + either_way + alone + count(Verdict::Differs),
        count(Verdict::Shown),
        judged.len() - measured.len(),
        few_legend(&measured),
    );
    for one in measured {
        html += &row(one);
    }
    html + "</tbody></table></div>" + &crossing_table(records) + &missing + "</section>"
}

/// Where the lines of two engines cross; nothing, where no line was measured.
fn crossing_table(records: &[RunRecord]) -> String {
    let found = crossings(records);
    if found.is_empty() {
        return String::new();
    }
    let rows = found.into_iter().map(|one| {
        let word = match one.sameness {
            Sameness::Same => "yes",
            Sameness::Elsewhere => "no: elsewhere",
            Sameness::OtherLead => "no: the other leads first",
            Sameness::Shown => "too few cores here",
        };
        vec![one.experiment.to_owned(), one.claim, course(&one.published), course(&one.measured), word.to_owned()]
    });
    let columns = ["experiment", "lines", "published", "measured", "the same"];
    format!("<h3>Where the lines cross</h3><div class=\"words\">{}</div>", table(&columns, rows))
}

/// A course in words.
fn course(course: &Course) -> String {
    let (start, end) = &course.ends;
    let turns: Vec<_> = course.turns.iter().map(|(one, other)| format!("between {one} and {other}")).collect();
    let leader = match course.first {
        Lead::First => "LSM tree",
        Lead::Second => "B-tree",
    };
    match turns.is_empty() {
        true => format!("the {leader} leads from {start} to {end}"),
        false => format!("the {leader} leads at {start}; they cross {}", turns.join(" and ")),
    }
}

/// What rows are marked with that rest on one pair of runs, and on two.
const FEW: [&str; 2] = ["one run", "two runs"];

/// The mark of a row, unless it rests on three pairs of runs or more.
fn few(judged: &Judged) -> Option<String> {
    let mark = FEW.get(judged.pairs?.checked_sub(1)?)?;
    Some(format!("<small class=\"few\">{mark}</small>"))
}

/// Of which builds a row is that is of several.
fn several_builds(judged: &Judged) -> Option<String> {
    (judged.builds.len() > 1).then(|| format!("builds {}", judged.builds.join(", ")))
}

/// What the marks mean, where there are any.
fn few_legend(judged: &[&Judged]) -> String {
    if !judged.iter().any(|one| few(one).is_some()) {
        return String::new();
    }
    let [one, two] = FEW.map(|mark| format!("<small class=\"few\">{mark}</small>"));
    format!(
        "<p>A row marked {one} or {two} rests on no more pairs of runs than that, and chance may be in it; the others compare medians of three runs or more.</p>"
    )
}

/// The control by itself: every row that is within its bounds, and what became of it once labels were exchanged. Beside it how many of them did not fail then: they hold all the same, or there was nothing to exchange labels with.
pub(super) fn control(records: &[RunRecord]) -> (String, usize) {
    let judged = judge(records);
    let rows: Vec<_> = judged.iter().filter_map(|one| Some((one, one.control?))).collect();
    let hold = rows.iter().filter(|(_, control)| !matches!(control, Control::Fails(..))).count();
    let mut html = format!(
        "<section><h2>Labels exchanged</h2><p>{} comparisons are as they should be. With the labels of two engines exchanged each must fail; {hold} do not.</p>\
         <div class=\"scroll\"><table class=\"verdicts\"><thead><tr><th>experiment</th><th>what is compared</th><th>measured</th><th>labels exchanged</th>\
         <th>asked</th><th>holds then</th></tr></thead><tbody>",
        rows.len()
    );
    for (one, control) in rows {
        let (class, word) = match control {
            Control::Fails(..) => ("no", "no"),
            Control::Holds | Control::FailsBesideTheirs(..) => ("yes", "yes"),
            Control::NotMeasured => ("either", "not known"),
        };
        let _ = write!(
            html,
            "<tr class=\"{class}\"><td>{}</td><td>{}</td><td>{}</td><td class=\"told\">{}</td><td>{}</td><td><b>{word}</b></td></tr>",
            escape(one.shape.experiment),
            escape(&one.shape.claim),
            short(one.measured),
            escape(&outcome(control)),
            bounds(&one.shape),
        );
    }
    (html + "</tbody></table></div></section>", hold)
}

/// What became of a row once labels were exchanged, in words.
fn outcome(control: Control) -> String {
    match control {
        Control::Fails((one, other), ratio) => format!("{one} and {other}: {}, fails as it must", short(Some(ratio))),
        Control::FailsBesideTheirs((one, other), ratio) => {
            let ratio = short(Some(ratio));
            format!("holds with our two exchanged: it cannot tell them apart; {one} and {other}: {ratio}, fails")
        }
        Control::Holds => "holds all the same: it cannot tell them apart".to_owned(),
        Control::NotMeasured => "there is no run to exchange labels with".to_owned(),
    }
}

/// The comparisons that could not be measured, of experiments that were run, and why; and which were not.
fn not_measured(judged: &[Judged], records: &[RunRecord]) -> String {
    let was_run = |shape: &Shape| {
        let experiment = shape.of.runs.experiment;
        records.iter().any(|record| record.result.experiment == experiment)
    };
    let missing: Vec<_> = judged.iter().filter_map(|one| Some((&one.shape, one.reason.clone()?))).collect();
    let rows: Vec<_> = missing
        .iter()
        .filter(|(shape, _)| was_run(shape))
        .map(|(shape, reason)| vec![shape.experiment.to_owned(), shape.claim.clone(), reason.clone()])
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut others: Vec<&str> =
        missing.iter().filter(|(shape, _)| !was_run(shape)).map(|(one, _)| one.experiment).collect();
    others.dedup();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!("<p>Nothing was run of: {}.</p>", escape(&others.join(", "))),
    };
    format!(
        "<details class=\"verdicts\"><summary>{}, of experiments that were run, that could not be measured, and why</summary>{}{others}</details>",
        rows.len(),
        table(&["experiment", "what is compared", "why it is missing"], rows)
    )
}

fn row(judged: &Judged) -> String {
    let Shape { experiment, claim, published, .. } = &judged.shape;
    let published = match published {
        Some((least, most)) if short(Some(*least)) == short(Some(*most)) => short(Some(*least)),
        Some((least, most)) => format!("{} to {}", short(Some(*least)), short(Some(*most))),
        None => "-".to_owned(),
    };
    let of_others = judged.shape.relative_to.filter(|_| judged.shape.published.is_some());
    let earlier = judged.shape.published_amounts.map(|(of, by)| format!(": {} and {} a second", rate(of), rate(by)));
    let earlier = earlier.unwrap_or_default();
    let of_others = of_others.map(|(of, by)| format!("{} over {}, one earlier run{earlier}", of.engine, by.engine));
    let ratios = judged.ratios.map(|(ours, theirs)| format!("{} beside {}", short(Some(ours)), short(Some(theirs))));
    let figures = judged.figures.map(|[(ours, our_other), (theirs, their_other)]| {
        format!("a second: {} and {} beside {} and {}", rate(ours), rate(our_other), rate(theirs), rate(their_other))
    });
    let small =
        |text: Option<String>| text.map_or_else(String::new, |text| format!("<br><small>{}</small>", escape(&text)));
    let (class, word) = match judged.verdict {
        Verdict::Holds => ("yes", "yes"),
        Verdict::Insensitive => ("either", "either way"),
        Verdict::Uncontrolled => ("either", "not controlled"),
        Verdict::Differs => ("no", "no"),
        Verdict::Shown | Verdict::NotMeasured => ("", "-"),
    };
    let control = judged.control.map_or_else(|| "-".to_owned(), outcome);
    let mut html = format!("<tr class=\"{class}\"><td>{}</td><td>{}", escape(experiment), escape(claim));
    if let Some(why) = &judged.why {
        let _ = write!(html, "<br><small>{}</small>", escape(why));
    }
    let _ = write!(
        html,
        "</td><td>{published}{}</td><td>{}{}{}{}{}</td><td>{}</td><td><b>{word}</b></td><td class=\"told\">{}</td></tr>",
        small(of_others),
        short(judged.measured),
        small(ratios),
        small(figures),
        few(judged).map_or_else(String::new, |mark| format!("<br>{mark}")) + &small(several_builds(judged)),
        small(judged.finer.map(str::to_owned)),
        bounds(&judged.shape),
        escape(&control),
    );
    html
}

/// A rate of a server, or of ours beside one.
fn rate(per_second: f64) -> String {
    thousands(per_second.round())
}

fn bounds(shape: &Shape) -> String {
    let bounds = match (shape.at_least, shape.at_most) {
        (Some(least), Some(most)) => {
            let ahead =
                || format!("<br><small>the same side ahead, where theirs is by {}</small>", short(Some(SPREAD)));
            let ahead = shape.relative_to.map_or_else(String::new, |_| ahead());
            format!("{} to {}{ahead}", short(Some(least)), short(Some(most)))
        }
        (Some(least), None) => format!("at least {}", short(Some(least))),
        (None, Some(most)) => format!("at most {}", short(Some(most))),
        (None, None) => match shape.lead() {
            Some(lead) => format!("{lead}, as published"),
            None => return "-".to_owned(),
        },
    };
    match shape.least_cores {
        Some(cores) => format!("{bounds}<br><small>on {cores} cores or more</small>"),
        None => bounds,
    }
}
