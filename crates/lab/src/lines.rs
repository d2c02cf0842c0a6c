//! Line plots with logarithmic axes as SVG: panels in a grid; all share the horizontal axis,
//! those of a row the vertical one, so that they can be compared; one legend below. Lines
//! differ in colour and in marker.

use std::fmt::Write;

use crate::svg::{COLOURS, escape};

const PANEL_WIDTH: f64 = 250.0;
const PANEL_HEIGHT: f64 = 190.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 66.0;
const GAP_X: f64 = 40.0;
const GAP_Y: f64 = 46.0;
const BOTTOM: f64 = 76.0;

/// A line: its colour and marker, from 0 to 3, and its points (x, y).
pub struct Line {
    pub entry: usize,
    pub points: Vec<(f64, f64)>,
}

/// A plot of the grid.
pub struct Panel {
    pub title: String,
    pub lines: Vec<Line>,
}

/// Draws the panels, `columns` side by side. Points that are not positive have no place on a
/// logarithmic axis and are left out. A goal is a dashed line in the panels of its row.
pub fn log_log(
    title: &str,
    x_label: &str,
    y_label: &str,
    legend: &[(usize, String)],
    columns: usize,
    panels: &[Panel],
    goals: &[Option<f64>],
) -> String {
    let columns = columns.max(1);
    let points = |panels: &[Panel]| {
        panels.iter().flat_map(|p| &p.lines).flat_map(|l| l.points.clone()).filter(|p| p.0 > 0.0 && p.1 > 0.0).collect()
    };
    let all: Vec<(f64, f64)> = points(panels);
    let x_axis = Axis::around(all.iter().map(|p| p.0));
    let y_axes: Vec<Axis> = panels
        .chunks(columns)
        .enumerate()
        .map(|(row, panels)| {
            let own: Vec<(f64, f64)> = points(panels);
            Axis::around(own.iter().map(|p| p.1).chain(goals.get(row).copied().flatten()))
        })
        .collect();
    let rows = panels.len().div_ceil(columns);
    let width = LEFT + RIGHT + PANEL_WIDTH * columns as f64 + GAP_X * (columns - 1) as f64;
    let height = TOP + BOTTOM + PANEL_HEIGHT * rows as f64 + GAP_Y * rows.saturating_sub(1) as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>", escape(title));
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"40\" fill=\"#555\">{}</text>", escape(y_label));
    for (at, panel) in panels.iter().enumerate() {
        let left = LEFT + (PANEL_WIDTH + GAP_X) * (at % columns) as f64;
        let top = TOP + (PANEL_HEIGHT + GAP_Y) * (at / columns) as f64;
        let goal = goals.get(at / columns).copied().flatten();
        draw(&mut out, panel, left, top, at % columns == 0, &x_axis, &y_axes[at / columns], goal);
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
        LEFT + (width - LEFT - RIGHT) / 2.0,
        height - BOTTOM + 36.0,
        escape(x_label)
    );
    let mut x = LEFT;
    for &(entry, ref name) in legend {
        let y = height - 16.0;
        let colour = COLOURS[entry % COLOURS.len()];
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            x + 26.0
        );
        marker(&mut out, entry, x + 13.0, y);
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\">{}</text>", x + 32.0, y + 4.0, escape(name));
        x += 56.0 + 6.6 * name.len() as f64;
    }
    if goals.iter().any(Option::is_some) {
        let y = height - 16.0;
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#c53030\" stroke-dasharray=\"5 4\"/>\n\
             <text x=\"{}\" y=\"{}\">goal</text>",
            x + 26.0,
            x + 32.0,
            y + 4.0
        );
    }
    out.push_str("</svg>\n");
    out
}

/// A logarithmic axis from one power of ten to another.
struct Axis {
    low: i32,
    high: i32,
}

impl Axis {
    fn around(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|v| v.is_finite() && *v > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        if high == 0.0 {
            return Self { low: 0, high: 1 };
        }
        let low = low.log10().floor() as i32;
        Self { low, high: (high.log10().ceil() as i32).max(low + 1) }
    }

    /// Where a value is, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low)
    }
}

fn draw(
    out: &mut String,
    panel: &Panel,
    left: f64,
    top: f64,
    first: bool,
    x_axis: &Axis,
    y_axis: &Axis,
    goal: Option<f64>,
) {
    let x_of = |value: f64| left + PANEL_WIDTH * x_axis.place(value);
    let y_of = |value: f64| top + PANEL_HEIGHT * (1.0 - y_axis.place(value));
    let (right, bottom) = (left + PANEL_WIDTH, top + PANEL_HEIGHT);
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>",
        left + PANEL_WIDTH / 2.0,
        top - 6.0,
        escape(&panel.title)
    );
    for power in y_axis.low..=y_axis.high {
        let y = y_of(10f64.powi(power));
        let _ = writeln!(out, "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>");
        if first {
            let (x, y) = (left - 6.0, y + 4.0);
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>", power_of_ten(power));
        }
    }
    for power in x_axis.low..=x_axis.high {
        let x = x_of(10f64.powi(power));
        let _ = writeln!(out, "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            power_of_ten(power)
        );
    }
    if let Some(goal) = goal {
        let y = y_of(goal);
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#c53030\" stroke-dasharray=\"5 4\"/>"
        );
    }
    for line in &panel.lines {
        let places: Vec<(f64, f64)> =
            line.points.iter().filter(|p| p.0 > 0.0 && p.1 > 0.0).map(|p| (x_of(p.0), y_of(p.1))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let colour = COLOURS[line.entry % COLOURS.len()];
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (x, y) in places {
            marker(out, line.entry, x, y);
        }
    }
}

/// A circle, square, triangle or diamond.
fn marker(out: &mut String, entry: usize, x: f64, y: f64) {
    let colour = COLOURS[entry % COLOURS.len()];
    let _ = match entry % 4 {
        0 => writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"),
        1 => {
            writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"{colour}\"/>",
                x - 4.0,
                y - 4.0
            )
        }
        2 => writeln!(out, "<path d=\"M{:.1} {:.1}l5 9h-10z\" fill=\"{colour}\"/>", x, y - 5.0),
        _ => writeln!(out, "<path d=\"M{:.1} {:.1}l5 5l-5 5l-5 -5z\" fill=\"{colour}\"/>", x, y - 5.0),
    };
}

/// 0.01, 1, 100, 10k, 1M.
fn power_of_ten(power: i32) -> String {
    match power {
        ..0 => format!("{:.*}", -power as usize, 10f64.powi(power)),
        0..3 => format!("{:.0}", 10f64.powi(power)),
        3..6 => format!("{:.0}k", 10f64.powi(power - 3)),
        6..9 => format!("{:.0}M", 10f64.powi(power - 6)),
        _ => format!("1e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values() {
        let axis = Axis::around([0.3, 2000.0].into_iter());
        assert_eq!((axis.low, axis.high), (-1, 4));
        assert!((axis.place(0.1), axis.place(10_000.0)) == (0.0, 1.0));
        let one = Axis::around([100.0].into_iter());
        assert_eq!((one.low, one.high), (2, 3));
        let none = Axis::around([f64::NAN, 0.0].into_iter());
        assert_eq!((none.low, none.high), (0, 1));
        assert_eq!([-2, 0, 4, 6].map(power_of_ten), ["0.01", "1", "10k", "1M"]);
    }

    #[test]
    fn a_plot_has_a_marker_for_each_positive_point() {
        let line = Line { entry: 0, points: vec![(1e5, 0.5), (1e6, 0.0), (1e7, 70.0)] };
        let panels = [Panel { title: "a & b".into(), lines: vec![line] }];
        let svg = log_log("t", "x", "y", &[(0, "one".into())], 3, &panels, &[Some(1.0)]);
        // Two points and the legend's.
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("a &amp; b") && svg.contains("goal") && svg.ends_with("</svg>\n"));
    }
}
