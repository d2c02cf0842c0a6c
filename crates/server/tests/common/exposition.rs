//! A reader of Prometheus' text format that accepts nothing but what the format says, and what
//! this server promises beyond it.

use std::collections::BTreeMap;

/// A family: its type, and its samples by their labels as written.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    pub samples: BTreeMap<String, f64>,
}

/// All families by name.
#[derive(Debug, Default)]
pub struct Scrape(pub BTreeMap<String, Family>);

impl Scrape {
    /// The value of a sample: `name`, or `name{label="value"}`; of a histogram `name_count` and its kin are samples of `name`.
    pub fn value(&self, sample: &str) -> f64 {
        let (name, labels) = sample.split_at(sample.find('{').unwrap_or(sample.len()));
        let family = self.0.get(name).unwrap_or_else(|| panic!("there is no {name}"));
        *family.samples.get(labels).unwrap_or_else(|| panic!("no sample {sample} in {family:?}"))
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Only `\\`, `\n` and, in labels, `\"` are escapes.
fn check_escapes(text: &str, quoted: bool) {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\\' | 'n') => {}
                Some('"') if quoted => {}
                other => panic!("bad escape {other:?} in {text:?}"),
            },
            '"' if quoted => panic!("a quote in {text:?}"),
            _ => {}
        }
    }
}

fn check_labels(text: &str) {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).expect("braces");
    for pair in inner.split(',') {
        let (name, value) = pair.split_once('=').expect("label=value");
        assert!(is_name(name) && !name.starts_with("__"), "label {name:?}");
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).expect("quotes");
        check_escapes(value, true);
    }
}

/// Reads a whole answer; panics at whatever is not as it must be.
pub fn read(text: &str) -> Scrape {
    assert!(text.ends_with('\n') && !text.contains('\r'), "the last line ends with a newline, and only with that");
    let mut out = Scrape::default();
    let mut helped = None;
    let mut current: Option<String> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(helped.is_none(), "HELP without TYPE before {line:?}");
            let (name, help) = rest.split_once(' ').expect("name and help");
            assert!(is_name(name) && name.starts_with("resurgam_"), "{name:?}");
            assert!(help.ends_with('.'), "help is a sentence: {line:?}");
            check_escapes(help, false);
            helped = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("name and type");
            assert_eq!(helped.take().as_deref(), Some(name), "HELP comes first");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line:?}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
            let family = Family { kind: kind.to_owned(), ..Family::default() };
            assert!(out.0.insert(name.to_owned(), family).is_none(), "{name} is there twice");
            current = Some(name.to_owned());
        } else {
            assert!(!line.starts_with('#') && !line.is_empty(), "{line:?}");
            let (sample, value) = line.rsplit_once(' ').expect("sample and value");
            let (name, labels) = sample.split_at(sample.find('{').unwrap_or(sample.len()));
            let family = current.as_deref().expect("a sample belongs below its TYPE");
            let is_histogram = out.0[family].kind == "histogram";
            let part = name.strip_prefix(family).expect("a sample belongs below its TYPE");
            assert!(part.is_empty() != is_histogram, "{line:?}");
            assert!(["", "_bucket", "_sum", "_count"].contains(&part), "{line:?}");
            if !labels.is_empty() {
                check_labels(labels);
            }
            let value: f64 = value.parse().unwrap_or_else(|error| panic!("{line:?}: {error}"));
            assert!(value.is_finite() && value >= 0.0, "{line:?}");
            let samples = &mut out.0.get_mut(family).expect("family").samples;
            if part == "_bucket" {
                let before = samples.values().copied().fold(0.0, f64::max);
                assert!(value >= before, "buckets count those below, too: {line:?}");
            }
            assert_eq!(part == "_count", line.starts_with(&format!("{family}_count ")), "{line:?}");
            if part == "_count" {
                assert_eq!(samples.get("_bucket{le=\"+Inf\"}"), Some(&value), "all are in the last bucket: {line:?}");
            }
            let sample = format!("{part}{labels}");
            assert!(samples.insert(sample, value).is_none(), "{line:?} is there twice");
        }
    }
    assert!(helped.is_none());
    out
}
