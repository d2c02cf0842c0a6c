//! A grouped bar chart as SVG: groups side by side, in each a bar for every series.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 50.0;
/// Told apart by the colour-blind as well; the line plots use the same.
pub const COLOURS: [&str; 4] = ["#2b6cb0", "#a0aec0", "#dd6b20", "#38a169"];

/// One series: its name, and a value for each group (`None`: not measured).
pub struct Series {
    pub name: String,
    pub values: Vec<Option<f64>>,
}

/// Draws the chart; `unit` labels the axis.
pub fn bars(title: &str, unit: &str, groups: &[String], series: &[Series]) -> String {
    let highest = series.iter().flat_map(|s| s.values.iter().flatten()).copied().fold(0.0, f64::max);
    let step = tick(highest);
    let top = (highest / step).ceil().max(1.0) * step;
    let (plot_width, plot_height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let y_of = |value: f64| TOP + plot_height * (1.0 - value / top);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>", escape(title));
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{}\" fill=\"#555\">{}</text>", TOP - 8.0, escape(unit));
    let mut value = 0.0;
    while value <= top + step / 2.0 {
        let y = y_of(value);
        let _ =
            writeln!(out, "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>", WIDTH - RIGHT);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            number(value)
        );
        value += step;
    }
    let group_width = plot_width / groups.len().max(1) as f64;
    let bar_width = (group_width * 0.8 / series.len().max(1) as f64).min(80.0);
    for (g, group) in groups.iter().enumerate() {
        let middle = LEFT + group_width * (g as f64 + 0.5);
        let _ = writeln!(
            out,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM + 18.0,
            escape(group)
        );
        let first = middle - bar_width * series.len() as f64 / 2.0;
        for (s, one) in series.iter().enumerate() {
            let Some(value) = one.values.get(g).copied().flatten() else { continue };
            let (x, y) = (first + bar_width * s as f64, y_of(value));
            let colour = COLOURS[s % COLOURS.len()];
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                bar_width * 0.92,
                TOP + plot_height - y
            );
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">{}</text>",
                x + bar_width * 0.46,
                y - 4.0,
                number(value)
            );
        }
    }
    let mut x = LEFT;
    for (s, one) in series.iter().enumerate() {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>",
            HEIGHT - 20.0,
            COLOURS[s % COLOURS.len()]
        );
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\">{}</text>", x + 17.0, HEIGHT - 10.0, escape(&one.name));
        x += 40.0 + 6.6 * one.name.len() as f64;
    }
    out.push_str("</svg>\n");
    out
}

/// A round distance between about five lines of the grid.
pub fn tick(highest: f64) -> f64 {
    if !(highest > 0.0 && highest.is_finite()) {
        return 1.0;
    }
    let rough = highest / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|m| m * power).find(|step| *step >= rough).unwrap_or(power * 10.0)
}

/// A number as short as its size allows.
pub fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 || v == 0.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v < 0.01 => "&lt;0.01".into(),
        v => format!("{v:.2}"),
    }
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        assert_eq!(tick(10.0), 2.0);
        assert_eq!(tick(4700.0), 1000.0);
        assert_eq!(tick(0.0), 1.0);
        assert_eq!(tick(f64::NAN), 1.0);
    }

    #[test]
    fn a_chart_has_a_bar_for_each_value() {
        let series = [
            Series { name: "a <b>".into(), values: vec![Some(1.0), None] },
            Series { name: "c".into(), values: vec![Some(3.0), Some(2.0)] },
        ];
        let svg = bars("t & u", "ms", &["x".into(), "y".into()], &series);
        // Background, three bars, two keys of the legend.
        assert_eq!(svg.matches("<rect").count(), 6);
        assert!(svg.contains("a &lt;b&gt;") && svg.contains("t &amp; u") && svg.ends_with("</svg>\n"));
    }
}
