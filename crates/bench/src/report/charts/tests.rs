//! The colours of lines: told from each other, and from both papers.

use super::*;

/// Light and dark.
const PAPERS: [RGBColor; 2] = [RGBColor(0xff, 0xff, 0xff), RGBColor(0x11, 0x18, 0x27)];

/// Red, green and blue as light.
fn light(RGBColor(r, g, b): RGBColor) -> [f64; 3] {
    [r, g, b].map(|part| match f64::from(part) / 255.0 {
        part if part <= 0.04045 => part / 12.92,
        part => ((part + 0.055) / 1.055).powf(2.4),
    })
}

fn contrast(a: RGBColor, b: RGBColor) -> f64 {
    let bright = |colour| {
        let [r, g, b] = light(colour);
        0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05
    };
    let (a, b) = (bright(a), bright(b));
    a.max(b) / a.min(b)
}

/// How far apart two colours are to the eye, as Oklab has it: black and white are by 1.
fn distance(a: RGBColor, b: RGBColor) -> f64 {
    let oklab = |colour| {
        let [r, g, b] = light(colour);
        let [l, m, s] = [
            0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b,
            0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b,
            0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b,
        ]
        .map(f64::cbrt);
        [
            0.210_454_255_3 * l + 0.793_617_785_0 * m - 0.004_072_046_8 * s,
            1.977_998_495_1 * l - 2.428_592_205_0 * m + 0.450_593_709_9 * s,
            0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766_0 * s,
        ]
    };
    oklab(a).iter().zip(oklab(b)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn the_measures_are_those_of_known_colours() {
    let [white, black] = [RGBColor(255, 255, 255), RGBColor(0, 0, 0)];
    assert!((contrast(white, black) - 21.0).abs() < 0.01 && (distance(white, black) - 1.0).abs() < 0.01);
}

#[test]
fn no_two_colours_are_alike_and_each_stands_out_on_light_and_on_dark_paper() {
    for (position, &one) in COLOURS.iter().enumerate() {
        for (other, &another) in COLOURS.iter().enumerate().take(position) {
            assert!(distance(one, another) > 0.12, "{other} and {position}: {}", distance(one, another));
        }
        for paper in PAPERS {
            assert!(contrast(one, paper) >= 2.0, "{position}: {}", contrast(one, paper));
        }
    }
}

/// Lines of so many engines.
fn chart(engines: usize) -> String {
    let run = |position| (vec![(1.0, position as f64), (2.0, 1.0)], position);
    let names: Vec<String> = (0..engines).map(|number| format!("engine {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let caption = Caption { title: "Rates <over> time", names: &names };
    lines(&(0..engines).map(run).collect::<Vec<_>>(), "seconds", caption).unwrap()
}

#[test]
fn every_line_has_a_colour_of_its_own_and_later_ones_have_dashes() {
    let count = COLOURS.len();
    assert!(count >= 12);
    let html = chart(count);
    let strokes: BTreeSet<_> = html
        .split("<polyline")
        .skip(1)
        .filter(|line| line.contains("stroke-width=\"2\""))
        .filter_map(|line| line.split("stroke=\"").nth(1)?.split('"').next())
        .collect();
    assert_eq!(strokes.len(), count, "{strokes:?}");
    assert_eq!(html.matches(DASHES).count(), count - WHOLE_LINES);
    assert_eq!(chart(WHOLE_LINES).matches(DASHES).count(), 0);
    // The legend shows the same.
    let swatches: Vec<_> = (0..count).map(swatch).collect();
    assert_eq!(swatches.iter().filter(|swatch| swatch.contains("gradient")).count(), count - WHOLE_LINES);
    assert_eq!(swatches[0], "rgb(31,119,180)");
}

#[test]
fn a_chart_has_a_title_for_those_who_do_not_see_it_and_its_legend_beside_it() {
    let html = chart(3);
    assert!(html.contains("<svg role=\"img\" aria-label=\"Rates &lt;over&gt; time\" "), "{html}");
    assert!(html.contains("><title>Rates &lt;over&gt; time</title>") && html.ends_with("</svg>\n</div>"), "{html}");
    let (legend, _) = html.split_once("<svg").unwrap();
    assert!((0..3).all(|number| legend.contains(&format!("engine {number}</span>"))), "{legend}");
    let caption = Caption { title: "", names: &["a", "b", "c"] };
    let line = |position| (vec![(1.0, 1.0)], position);
    let html = lines(&[line(2), line(0), line(2)], "seconds", caption).unwrap();
    assert_eq!(html.matches("<span>").count(), 2, "of what is drawn alone");
    assert!(!html.contains("</i>b</span>"));
    let html = bars(&[("a".to_owned(), 2.0, 0)], "Rates").unwrap();
    assert!(html.contains("aria-label=\"Rates\"") && html.contains("<title>Rates</title>"));
}

#[test]
fn latencies_have_an_axis_of_their_logarithms() {
    assert_eq!(decades([150.0, 0.0, 90_000.0].into_iter()), (100.0, 135_000.0));
    let (least, most) = decades([300.0].into_iter());
    assert_eq!((least, most), (200.0, 3_000.0), "a factor of ten and more");
    let (least, most) = decades(std::iter::empty());
    assert!(least > 0.0 && least < most && most.is_finite());
    let caption = Caption { title: "p99 over time", names: &["a"] };
    let html = latencies(&[(vec![(1.0, Some(100.0)), (2.0, Some(90_000.0)), (3.0, Some(0.0))], 0)], caption).unwrap();
    assert!(html.contains("<title>p99 over time</title>") && html.contains("microseconds"), "{html}");
    assert!(html.contains("stroke-width=\"2\"") && !html.contains("NaN"), "{html}");
}

#[test]
fn a_line_of_latencies_breaks_where_none_are_known() {
    let drawn = |figures: &[Option<f64>]| {
        let points = figures.iter().zip(1..).map(|(micros, second)| (f64::from(second), *micros)).collect();
        let html = latencies(&[(points, 0)], Caption { title: "p99 over time", names: &["a"] }).unwrap();
        (html.matches("stroke-width=\"2\"").count(), html.matches("<circle").count())
    };
    let some = Some(100.0);
    assert_eq!(drawn(&[some; 5]), (1, 0));
    assert_eq!(drawn(&[some, some, None, None, some, some]), (2, 0));
    assert_eq!(drawn(&[None, some, some, None]), (1, 0));
    assert_eq!(drawn(&[some, some, None, some]), (1, 1), "what stands alone is a dot");
    assert_eq!(known(&(vec![(1.0, some), (2.0, None), (3.0, some)], 0)), 2);
}
