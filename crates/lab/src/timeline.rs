//! Line plots over time as SVG: panels below each other, all with the same time axis, each with
//! its own linear vertical axis from 0.

use std::fmt::Write;

use crate::svg::{COLOURS, escape, number, tick};

const WIDTH: f64 = 760.0;
const PANEL_HEIGHT: f64 = 110.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 56.0;
const GAP: f64 = 34.0;
const BOTTOM: f64 = 44.0;
/// Of the legend, where there is one.
const LEGEND: f64 = 22.0;

/// A plot of the stack; each line has its points (seconds, value), in order of time.
pub struct Panel {
    pub title: String,
    pub lines: Vec<Vec<(f64, f64)>>,
}

/// Draws the panels; `marks`, in order of time, are vertical lines through all of them, with
/// their names on top.
pub fn stack(title: &str, panels: &[Panel], marks: &[(f64, &str)]) -> String {
    stack_of(title, panels, marks, &[])
}

/// The same with a legend: what the first, second, … line of each panel is. An empty name has no place in it.
pub fn stack_of(title: &str, panels: &[Panel], marks: &[(f64, &str)], names: &[&str]) -> String {
    let all = panels.iter().flat_map(|panel| &panel.lines).flatten();
    let last = all.map(|point| point.0).chain(marks.iter().map(|mark| mark.0)).fold(1.0, f64::max);
    let legend = if names.is_empty() { 0.0 } else { LEGEND };
    let height = TOP + BOTTOM + legend + (PANEL_HEIGHT + GAP) * panels.len() as f64 - GAP;
    let x_of = |seconds: f64| LEFT + (WIDTH - LEFT - RIGHT) * seconds / last;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"20\" font-size=\"15\">{}</text>", escape(title));
    for (at, panel) in panels.iter().enumerate() {
        draw(&mut out, panel, TOP + (PANEL_HEIGHT + GAP) * at as f64, x_of);
    }
    let bottom = height - BOTTOM - legend;
    let mut taken = f64::NEG_INFINITY;
    for (seconds, name) in marks {
        let x = x_of(*seconds);
        // A name that has no room beside the one before it is left out.
        let half = 3.2 * name.len() as f64;
        let middle = x.min(WIDTH - half - 2.0);
        let name = if middle - half > taken { *name } else { "" };
        taken = if name.is_empty() { taken } else { middle + half };
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#c53030\" stroke-dasharray=\"5 4\"/>\n\
             <text x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#c53030\">{}</text>",
            TOP - 18.0,
            escape(name)
        );
    }
    let step = tick(last);
    let mut seconds = 0.0;
    while seconds <= last + step / 1000.0 {
        let x = x_of(seconds);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            number(seconds)
        );
        seconds += step;
    }
    let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">seconds</text>",
        bottom + 32.0
    );
    let (mut x, y) = (LEFT, bottom + 52.0);
    for (at, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        let colour = COLOURS[at % COLOURS.len()];
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <text x=\"{}\" y=\"{}\">{}</text>",
            x + 22.0,
            x + 27.0,
            y + 4.0,
            escape(name)
        );
        x += 46.0 + 6.2 * name.len() as f64;
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, panel: &Panel, top: f64, x_of: impl Fn(f64) -> f64) {
    let highest = panel.lines.iter().flatten().map(|point| point.1).fold(0.0, f64::max);
    // Fewer lines of the grid than a tall plot has.
    let step = tick(highest) * 2.0;
    let high = (highest / step).ceil().max(1.0) * step;
    let y_of = |value: f64| top + PANEL_HEIGHT * (1.0 - value / high);
    let _ =
        writeln!(out, "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>", top - 6.0, escape(&panel.title));
    let mut value = 0.0;
    while value <= high + step / 1000.0 {
        let y = y_of(value);
        let (right, beside) = (WIDTH - RIGHT, LEFT - 6.0);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{beside}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            y + 4.0,
            number(value)
        );
        value += step;
    }
    for (at, line) in panel.lines.iter().enumerate() {
        let points: Vec<String> =
            line.iter().map(|(seconds, value)| format!("{:.1},{:.1}", x_of(*seconds), y_of(*value))).collect();
        let colour = COLOURS[at % COLOURS.len()];
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            points.join(" ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_a_line_for_each_series_and_stays_in_its_frame() {
        let panel = |title: &str| Panel {
            title: title.into(),
            lines: vec![vec![(0.0, 0.0), (10.0, 5.0)], vec![(0.0, 2.0), (5.0, 1.0)]],
        };
        let svg = stack("t & u", &[panel("a"), panel("b <c>")], &[(7.0, "the end")]);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains("t &amp; u") && svg.contains("b &lt;c&gt;") && svg.contains("the end"));
        // The last moment is at the right edge, the highest value is not above the panel.
        assert!(svg.contains(&format!("{:.1},", WIDTH - RIGHT)) && svg.ends_with("</svg>\n"));
        let named = stack_of("t", &[panel("a")], &[], &["one & all", ""]);
        assert!(named.contains("one &amp; all") && named.matches("stroke-width=\"2\"").count() == 1);
        let empty = stack("t", &[Panel { title: "none".into(), lines: vec![] }], &[]);
        assert!(!empty.contains("NaN"));
    }
}
