//! Prometheus' text exposition format, version 0.0.4.
//!
//! A family is a HELP line, a TYPE line and its samples. A value that is not known (yet) has
//! no sample.

use std::fmt::Write;
use std::time::Duration;

/// What a family's values mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, and starts again at 0 with the process. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many were not above which bound: see [`Exposition::histogram`].
    Histogram,
}

/// A value; whole numbers keep all their digits.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}
impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}
impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}
impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}
/// Seconds.
impl From<std::time::Duration> for Value {
    fn from(value: std::time::Duration) -> Self {
        Self::Real(value.as_secs_f64())
    }
}

/// Collects families.
#[derive(Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// A family without labels; `None`: not known now.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Into<Value>) {
        self.family(Kind::Counter, name, help, &[(&[], value.into())]);
    }

    /// As [`Self::counter`].
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Into<Value>) {
        self.family(Kind::Gauge, name, help, &[(&[], value.into())]);
    }

    /// A gauge that may have no value now.
    pub fn gauge_if(&mut self, name: &str, help: &str, value: Option<impl Into<Value>>) {
        let value = value.map(Into::into);
        let samples: Vec<(&[_], Value)> = value.into_iter().map(|value| (&[][..], value)).collect();
        self.family(Kind::Gauge, name, help, &samples);
    }

    /// How often something took how long: `counts` of those that took at most so long as `bounds` says (ascending) and longer than the bound
    /// before, and one more of those beyond them all; `sum` of all.
    pub fn histogram(&mut self, name: &str, help: &str, bounds: &[Duration], counts: &[u64], sum: Duration) {
        self.family(Kind::Histogram, name, help, &[]);
        let mut total = 0;
        for (at, count) in counts.iter().enumerate() {
            total += count;
            let bound = bounds.get(at).map_or_else(|| "+Inf".to_owned(), |bound| bound.as_secs_f64().to_string());
            let _ = writeln!(self.text, "{name}_bucket{{le=\"{bound}\"}} {total}");
        }
        let _ = writeln!(self.text, "{name}_sum {}\n{name}_count {total}", sum.as_secs_f64());
    }

    /// A family with its samples: labels and value.
    pub fn family(&mut self, kind: Kind, name: &str, help: &str, samples: &[(&[(&str, &str)], Value)]) {
        let word = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "# HELP {name} {}", escaped(help, false));
        let _ = writeln!(self.text, "# TYPE {name} {word}");
        for (labels, value) in samples {
            self.text.push_str(name);
            if !labels.is_empty() {
                let labels: Vec<String> =
                    labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value, true))).collect();
                let _ = write!(self.text, "{{{}}}", labels.join(","));
            }
            let _ = match value {
                Value::Whole(value) => writeln!(self.text, " {value}"),
                Value::Real(value) if value.is_infinite() => {
                    writeln!(self.text, " {}", if *value > 0.0 { "+Inf" } else { "-Inf" })
                }
                Value::Real(value) => writeln!(self.text, " {value}"),
            };
        }
    }

    pub fn finish(self) -> String {
        self.text
    }
}

fn escaped(text: &str, quoted: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quoted { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_as_the_format_says() {
        let mut out = Exposition::default();
        out.counter("a_total", "Back\\slash\nand line.", 7u64);
        out.gauge("b", "B.", 0.5);
        out.gauge_if("c", "C.", None::<u64>);
        out.family(Kind::Gauge, "d", "D.", &[(&[("l", "a\"b\\\n"), ("m", "")], Value::Real(f64::INFINITY))]);
        out.gauge("e", "E.", u64::MAX);
        let bounds = [Duration::from_micros(50), Duration::from_millis(1500)];
        out.histogram("f_seconds", "F.", &bounds, &[3, 0, 2], Duration::from_secs(4));
        assert_eq!(
            out.finish(),
            "# HELP a_total Back\\\\slash\\nand line.\n# TYPE a_total counter\na_total 7\n\
             # HELP b B.\n# TYPE b gauge\nb 0.5\n\
             # HELP c C.\n# TYPE c gauge\n\
             # HELP d D.\n# TYPE d gauge\nd{l=\"a\\\"b\\\\\\n\",m=\"\"} +Inf\n\
             # HELP e E.\n# TYPE e gauge\ne 18446744073709551615\n\
             # HELP f_seconds F.\n# TYPE f_seconds histogram\nf_seconds_bucket{le=\"0.00005\"} 3\n\
             f_seconds_bucket{le=\"1.5\"} 3\nf_seconds_bucket{le=\"+Inf\"} 5\nf_seconds_sum 4\nf_seconds_count 5\n"
        );
    }
}
