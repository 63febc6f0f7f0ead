//! Charts as inline SVG.

use super::sections::escape;
use crate::figures::{short, thousands};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::fmt::Write;

#[cfg(test)]
mod tests;

/// The colours of engines, by their order on the page, on light paper and on dark. The first seven are told apart by people who see few colours, too; the lines of the others are dashed.
const COLOURS: [RGBColor; 16] = [
    RGBColor(0x1f, 0x77, 0xb4),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x7f, 0x7f, 0x7f),
    RGBColor(0x99, 0x00, 0xff),
    RGBColor(0xff, 0x22, 0xff),
    RGBColor(0xaa, 0x22, 0x66),
    RGBColor(0x66, 0xcc, 0x00),
    RGBColor(0x44, 0x66, 0x00),
    RGBColor(0x00, 0x44, 0xff),
    RGBColor(0xff, 0x00, 0x66),
    RGBColor(0x88, 0x77, 0xff),
    RGBColor(0x77, 0x44, 0xaa),
];

/// So many of them have whole lines.
const WHOLE_LINES: usize = 7;

/// The dashes of the others, and the gaps between them.
const DASHES: &str = "stroke-dasharray=\"9 4\"";

const INK: RGBColor = RGBColor(0x33, 0x41, 0x55);
/// The same as the charts have it.
const INK_IN_SVG: &str = "#334155";
const GRID: RGBColor = RGBColor(0xe2, 0xe8, 0xf0);

const WIDTH: u32 = 860;
const BAR_HEIGHT: i32 = 26;
const LABEL_WIDTH: i32 = 170;
const FIGURE_WIDTH: i32 = 110;

/// The colour of the engine at `position`.
fn colour(position: usize) -> RGBColor {
    COLOURS[position % COLOURS.len()]
}

/// The colour of the engine at `position` as pages have it, with the dashes of its lines.
pub(super) fn swatch(position: usize) -> String {
    let RGBColor(r, g, b) = colour(position);
    match position % COLOURS.len() < WHOLE_LINES {
        true => format!("rgb({r},{g},{b})"),
        false => format!("repeating-linear-gradient(90deg,rgb({r},{g},{b}) 0 5px,transparent 5px 7px)"),
    }
}

#[cold]
fn failed(error: impl std::error::Error) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("draw a chart: {error}"))
}

/// What a chart shows, for those who see it and for those who are read it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caption<'a> {
    /// What it is, in a few words.
    pub title: &'a str,
    /// What the lines are of, by their positions.
    pub names: &'a [&'a str],
}

impl Caption<'_> {
    /// The colours of these positions.
    fn legend(&self, positions: impl Iterator<Item = usize>) -> String {
        let positions: BTreeSet<usize> = positions.collect();
        legend(positions.into_iter().filter_map(|position| Some((*self.names.get(position)?, position))))
    }
}

/// The colours of what has these names, by their positions.
pub(super) fn legend<'a>(names: impl IntoIterator<Item = (&'a str, usize)>) -> String {
    let mut html = String::from("<p class=\"legend\">");
    for (name, position) in names {
        let swatch = swatch(position);
        let _ = write!(html, "<span><i style=\"background:{swatch}\"></i>{}</span>", escape(name));
    }
    html + "</p>"
}

/// The chart within what scrolls where it is too wide, under its title, its text in the colour of the page's, and those of its lines dashed that are.
fn on_any_paper(svg: &str, title: &str) -> String {
    let title = escape(title);
    let (head, rest) = svg.split_once('>').unwrap_or_default();
    let head = head.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1);
    let svg = format!("{head}><title>{title}</title>{rest}");
    let mut svg = svg.replace(INK_IN_SVG, "currentColor");
    for RGBColor(r, g, b) in COLOURS.into_iter().skip(WHOLE_LINES) {
        let stroke = format!("stroke=\"#{r:02X}{g:02X}{b:02X}\"");
        svg = svg.replace(&stroke, &format!("{stroke} {DASHES}"));
    }
    format!("<div class=\"scroll\">{svg}</div>")
}

/// A bar for each label: its length is the figure, its colour that of the engine at the position given.
pub(super) fn bars(bars: &[(String, f64, usize)], title: &str) -> Result<String> {
    let mut svg = String::new();
    {
        let height = BAR_HEIGHT * bars.len().max(1) as i32 + 8;
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height as u32)).into_drawing_area();
        let longest = bars.iter().map(|(_, figure, _)| *figure).fold(0.0, f64::max).max(1e-9);
        let room = f64::from(WIDTH as i32 - LABEL_WIDTH - FIGURE_WIDTH);
        let text = ("sans-serif", 13).into_font().color(&INK);
        for (row, (label, figure, position)) in bars.iter().enumerate() {
            let top = BAR_HEIGHT * row as i32 + 4;
            let middle = top + BAR_HEIGHT / 2;
            let end = LABEL_WIDTH + (room * figure / longest) as i32;
            let shape = Rectangle::new(
                [(LABEL_WIDTH, top + 3), (end.max(LABEL_WIDTH + 1), top + BAR_HEIGHT - 3)],
                colour(*position).filled(),
            );
            root.draw(&shape).map_err(failed)?;
            let right = text.pos(Pos::new(HPos::Right, VPos::Center));
            root.draw(&Text::new(label.clone(), (LABEL_WIDTH - 8, middle), right)).map_err(failed)?;
            let left = text.pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Text::new(short(Some(*figure)), (end + 8, middle), left)).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(on_any_paper(&svg, title))
}

/// A line of a chart: its points, and the position of its engine.
pub(super) type Line = (Vec<(f64, f64)>, usize);

/// What changes with something else, such as rates with time; `x_name` says with what.
pub(super) fn lines(runs: &[Line], x_name: &str, caption: Caption<'_>) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, 260)).into_drawing_area();
        let points = || runs.iter().flat_map(|(points, _)| points);
        let end = points().map(|(time, _)| *time).fold(0.0, f64::max).max(0.01);
        let top = points().map(|(_, rate)| *rate).fold(0.0, f64::max).max(0.01) * 1.1;
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(78)
            .build_cartesian_2d(0.0..end, 0.0..top)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(("sans-serif", 12).into_font().color(&INK))
            .x_desc(x_name)
            .x_label_formatter(&|x| place_label(*x))
            .y_label_formatter(&|y| if top < 20.0 { short(Some(*y)) } else { thousands(*y) })
            .draw()
            .map_err(failed)?;
        for (points, position) in runs {
            let style = colour(*position).stroke_width(2);
            chart.draw_series(LineSeries::new(points.iter().copied(), style)).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    let legend = caption.legend(runs.iter().map(|(_, position)| *position));
    Ok(legend + &on_any_paper(&svg, caption.title))
}

/// A line with gaps: its points, and the position of its engine.
pub(super) type BrokenLine = (Vec<(f64, Option<f64>)>, usize);

/// How many points of a line are known.
pub(super) fn known((points, _): &BrokenLine) -> usize {
    points.iter().filter(|(_, figure)| figure.is_some()).count()
}

/// The parts of a line between its gaps. Figures that have no logarithm are gaps, too.
fn pieces(points: &[(f64, Option<f64>)]) -> Vec<Vec<(f64, f64)>> {
    fn known(point: &(f64, Option<f64>)) -> Option<(f64, f64)> {
        Some((point.0, point.1.filter(|figure| *figure > 0.0)?))
    }
    let pieces = points.split(|point| known(point).is_none());
    pieces.filter(|piece| !piece.is_empty()).map(|piece| piece.iter().filter_map(known).collect()).collect()
}

/// Latencies in microseconds over seconds, a line for each run, which breaks where they are not known. They differ by so much that an axis of their logarithms shows them all.
pub(super) fn latencies(runs: &[BrokenLine], caption: Caption<'_>) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, 260)).into_drawing_area();
        let points = || runs.iter().flat_map(|(points, _)| points).copied();
        let end = points().map(|(time, _)| time).fold(0.0, f64::max).max(0.01);
        let (least, most) = decades(points().filter_map(|(_, micros)| micros));
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(78)
            .build_cartesian_2d(0.0..end, (least..most).log_scale())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(("sans-serif", 12).into_font().color(&INK))
            .x_desc("seconds")
            .x_label_formatter(&|x| place_label(*x))
            .y_labels(5)
            .y_desc("microseconds")
            .y_label_formatter(&|micros| short(Some(*micros)))
            .draw()
            .map_err(failed)?;
        for (points, position) in runs {
            let colour = colour(*position);
            for piece in pieces(points) {
                if let [alone] = piece[..] {
                    let dot = Circle::new(alone, 2, colour.filled());
                    chart.draw_series(std::iter::once(dot)).map_err(failed)?;
                } else {
                    chart.draw_series(LineSeries::new(piece, colour.stroke_width(2))).map_err(failed)?;
                }
            }
        }
        root.present().map_err(failed)?;
    }
    let legend = caption.legend(runs.iter().map(|(_, position)| *position));
    Ok(legend + &on_any_paper(&svg, caption.title))
}

/// The ends of an axis of logarithms for figures above 0, with some room: a factor of ten and more.
fn decades(figures: impl Iterator<Item = f64>) -> (f64, f64) {
    let above_zero = figures.filter(|figure| *figure > 0.0);
    let (least, most) = above_zero.fold((1e9_f64, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)));
    let least = least / 1.5;
    (least, most.max(least * 10.0) * 1.5)
}

/// A place on an axis: short ones have places between whole numbers.
fn place_label(place: f64) -> String {
    match place {
        place if place.fract() == 0.0 => thousands(place),
        place if place < 1.0 => format!("{place:.2}"),
        place => format!("{place:.1}"),
    }
}

/// What is shown of a distribution: the percentiles, and the longest.
pub(super) const PERCENTILES: [&str; 6] = ["p50", "p95", "p99", "p99.9", "p99.99", "longest"];

/// Latencies in microseconds at [`PERCENTILES`], a line for each engine.
pub(super) fn distributions(runs: &[(Vec<Option<f64>>, usize)], caption: Caption<'_>) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, 240)).into_drawing_area();
        let (least, most) = decades(runs.iter().flat_map(|(points, _)| points).flatten().copied());
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(32)
            .x_label_area_size(34)
            .y_label_area_size(78)
            .build_cartesian_2d(0.0..(PERCENTILES.len() - 1) as f64, (least..most).log_scale())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(("sans-serif", 12).into_font().color(&INK))
            .x_labels(PERCENTILES.len())
            .x_label_formatter(&|at| PERCENTILES.get(at.round() as usize).copied().unwrap_or_default().to_owned())
            .y_labels(5)
            .y_desc("microseconds")
            .y_label_formatter(&|micros| short(Some(*micros)))
            .draw()
            .map_err(failed)?;
        for (points, position) in runs {
            let known = points.iter().enumerate().filter_map(|(at, micros)| Some((at as f64, (*micros)?)));
            let style = colour(*position).stroke_width(2);
            chart.draw_series(LineSeries::new(known.filter(|(_, micros)| *micros > 0.0), style)).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    let legend = caption.legend(runs.iter().map(|(_, position)| *position));
    Ok(legend + &on_any_paper(&svg, caption.title))
}
