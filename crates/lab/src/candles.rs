//! Distributions beside each other as SVG: for each name the least and the most (a line), the first and the third quartile (a box), and
//! the median (a line through it). Panels side by side, each with its own axis from 0.

use std::fmt::Write;

use crate::svg::{COLOURS, escape, number, tick};

const PANEL_WIDTH: f64 = 420.0;
const PANEL_HEIGHT: f64 = 250.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 46.0;
const BOX: f64 = 46.0;

/// Least, first quartile, median, third quartile and most of some values, in any order; none of none.
pub fn five(values: &[f64]) -> Option<[f64; 5]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)? as f64;
    // Between the two nearest.
    let at = |share: f64| {
        let place = last * share;
        let (low, high) = (sorted.get(place.floor() as usize)?, sorted.get(place.ceil() as usize)?);
        Some(low + (high - low) * place.fract())
    };
    Some([at(0.0)?, at(0.25)?, at(0.5)?, at(0.75)?, at(1.0)?])
}

/// A panel: its title, and distributions by the names of what they are of.
pub struct Panel {
    pub title: String,
    pub candles: Vec<(String, [f64; 5])>,
}

/// Draws the panels.
pub fn candles(title: &str, panels: &[Panel]) -> String {
    let width = (LEFT + PANEL_WIDTH + RIGHT) * panels.len().max(1) as f64;
    let height = TOP + PANEL_HEIGHT + BOTTOM;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>", escape(title));
    for (at, panel) in panels.iter().enumerate() {
        draw(&mut out, panel, LEFT + (LEFT + PANEL_WIDTH + RIGHT) * at as f64);
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, panel: &Panel, left: f64) {
    let highest = panel.candles.iter().map(|(_, five)| five[4]).fold(0.0, f64::max);
    let step = tick(highest);
    let top = (highest / step).ceil().max(1.0) * step;
    let y_of = |value: f64| TOP + PANEL_HEIGHT * (1.0 - value / top);
    let _ = writeln!(
        out,
        "<text x=\"{left}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        TOP - 10.0,
        escape(&panel.title)
    );
    let mut value = 0.0;
    while value <= top + step / 2.0 {
        let y = y_of(value);
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left + PANEL_WIDTH,
            left - 6.0,
            y + 4.0,
            number(value)
        );
        value += step;
    }
    let each = PANEL_WIDTH / panel.candles.len().max(1) as f64;
    for (at, (name, five)) in panel.candles.iter().enumerate() {
        let middle = left + each * (at as f64 + 0.5);
        let [least, first, median, third, most] = five.map(y_of);
        let (from, to) = (middle - BOX / 2.0, middle + BOX / 2.0);
        let colour = COLOURS[at % COLOURS.len()];
        let _ = writeln!(
            out,
            "<line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{most:.1}\" y2=\"{least:.1}\" stroke=\"#555\"/>\n\
             <rect x=\"{from:.1}\" y=\"{third:.1}\" width=\"{BOX}\" height=\"{:.1}\" fill=\"{colour}\" stroke=\"#555\"/>\n\
             <line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{median:.1}\" y2=\"{median:.1}\" stroke=\"#1a202c\" stroke-width=\"2\"/>\n\
             <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            first - third,
            TOP + PANEL_HEIGHT + if at % 2 == 0 { 16.0 } else { 30.0 },
            escape(name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_numbers() {
        assert_eq!(five(&[]), None);
        assert_eq!(five(&[3.0]), Some([3.0; 5]));
        assert_eq!(five(&[5.0, 1.0, 4.0, 2.0, 3.0]), Some([1.0, 2.0, 3.0, 4.0, 5.0]));
        assert_eq!(five(&[0.0, 1.0]), Some([0.0, 0.25, 0.5, 0.75, 1.0]));
    }

    #[test]
    fn each_distribution_has_a_box() {
        let panel = Panel {
            title: "a & b".into(),
            candles: vec![("one".into(), [1.0, 2.0, 3.0, 4.0, 5.0]), ("two".into(), [0.0; 5])],
        };
        let svg = candles("t", &[panel]);
        // The background's, and two.
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("a &amp; b") && !svg.contains("NaN") && svg.ends_with("</svg>\n"));
    }
}
