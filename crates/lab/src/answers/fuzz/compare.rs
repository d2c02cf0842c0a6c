//! Whether two answers are the same.

use super::case::Kind;
use super::types::Ty;
use crate::answers::client::{Column, Outcome, Reply, Value};

/// `pg_type.oid` of `real` and of `double precision`.
const FLOAT4: u32 = 700;
const FLOAT8: u32 = 701;
/// Of `char(n)`.
const BPCHAR: u32 = 1042;
/// Of `integer[]`, `text[]` and `date[]`.
const ARRAYS: [u32; 3] = [1007, 1009, 1182];

/// In what two answers differ; the first are the gravest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Difference {
    /// The connection ended, or nothing was answered in time.
    Broken,
    /// Tables differ after the statement.
    Table,
    /// Other rows.
    Rows,
    /// An error is due, and there is none.
    ErrorMissing,
    /// No error is due, and there is one.
    ErrorAdded,
    /// The same rows in another order than ORDER BY says.
    Order,
    /// Types of columns, or another number of them.
    Types,
    /// Both are errors, with other SQLSTATEs.
    Code,
    /// The tag: how many rows it says.
    Tag,
    /// Types of parameters.
    Parameters,
    /// Names of columns.
    Names,
}

/// The first difference, and both sides of it in words.
#[derive(Clone, Debug)]
pub struct Differs {
    pub what: Difference,
    pub theirs: String,
    pub ours: String,
    /// What is different about it, without names and constants: `numeric for float8`.
    pub about: String,
}

impl Differs {
    pub fn new(what: Difference, theirs: String, ours: String) -> Self {
        let error = |text: &str| {
            if text.contains("ERROR ") { shape(text).chars().take(90).collect() } else { "an answer".to_owned() }
        };
        let about = match what {
            Difference::Code | Difference::ErrorAdded | Difference::ErrorMissing | Difference::Broken => {
                format!("{} | {}", error(&theirs), error(&ours))
            }
            _ => String::new(),
        };
        Self { what, theirs, ours, about }
    }
}

/// What two servers answered to one statement: PostgreSQL first.
pub fn compare(theirs: &Reply, ours: &Reply, kind: Kind) -> Option<Differs> {
    let empty = Outcome::default();
    let (a, b) = (theirs.outcomes.last().unwrap_or(&empty), ours.outcomes.last().unwrap_or(&empty));
    let found = |what, theirs: String, ours: String| Some(Differs::new(what, theirs, ours));
    match (&a.error, &b.error) {
        (Some(x), Some(y)) => {
            let several = matches!(kind, Kind::Dml { several: true }) && is_of_data(&x.code) && is_of_data(&y.code);
            if x.code == y.code || several {
                return None;
            }
            return found(Difference::Code, x.to_string(), y.to_string());
        }
        (Some(x), None) => return found(Difference::ErrorMissing, x.to_string(), brief(b)),
        (None, Some(y)) => return found(Difference::ErrorAdded, brief(a), y.to_string()),
        (None, None) => {}
    }
    if let Some(differs) = columns(a.columns.as_deref(), b.columns.as_deref()) {
        return Some(differs);
    }
    if a.rows_dropped > 0 || b.rows_dropped > 0 {
        // Too many to be kept, and which of them were is nobody's promise: their number is in the tags.
        return tags(a, b);
    }
    let ordered = matches!(kind, Kind::Query { ordered: true });
    if a.rows != b.rows {
        let (a_rows, b_rows) = (with_one_nan(a), with_one_nan(b));
        if a_rows == b_rows {
            return tags(a, b);
        }
        let (x, y) = (sorted(&a_rows), sorted(&b_rows));
        if x != y {
            return found(Difference::Rows, only(&x, &y, a.rows.len()), only(&y, &x, b.rows.len()));
        }
        if ordered && with_equal_blanks(a, &a_rows) != with_equal_blanks(b, &b_rows) {
            return found(Difference::Order, brief(a), brief(b));
        }
    }
    tags(a, b)
}

/// A difference of the tags.
fn tags(theirs: &Outcome, ours: &Outcome) -> Option<Differs> {
    let text = |outcome: &Outcome| format!("{:?}", outcome.tag);
    (theirs.tag != ours.tag).then(|| Differs::new(Difference::Tag, text(theirs), text(ours)))
}

/// The same of arrays: whether there is a place for NULLs (bytes 4 to 8) says in PostgreSQL what the array was made of, a slice without NULLs
/// of one with some, say. Which elements are NULL their lengths tell.
fn without_flags(bytes: &mut [u8]) {
    if let Some(flags) = bytes.get_mut(4..8) {
        flags.fill(0);
    }
}

/// The rows, with each NaN of a floating-point column in binary without its sign and payload: what PostgreSQL sends there is the processor's
/// (`inf - inf` is negative on x86-64, and positive on AArch64), equal for each comparison and the same as text. Resurgam sends one NaN.
fn with_one_nan(outcome: &Outcome) -> Vec<Vec<Value>> {
    let mut rows = outcome.rows.clone();
    for (at, column) in outcome.columns.iter().flatten().enumerate().filter(|(_, column)| column.binary) {
        for value in rows.iter_mut().filter_map(|row| row.get_mut(at)?.as_mut()) {
            match (column.oid, value.as_slice()) {
                (FLOAT8, bytes) => {
                    if let Ok(bytes) = <[u8; 8]>::try_from(bytes)
                        && f64::from_be_bytes(bytes).is_nan()
                    {
                        *value = f64::NAN.to_be_bytes().to_vec();
                    }
                }
                (FLOAT4, bytes) => {
                    if let Ok(bytes) = <[u8; 4]>::try_from(bytes)
                        && f32::from_be_bytes(bytes).is_nan()
                    {
                        *value = f32::NAN.to_be_bytes().to_vec();
                    }
                }
                (oid, _) if ARRAYS.contains(&oid) => without_flags(value),
                _ => {}
            }
        }
    }
    rows
}

/// The rows, with each `char` without the blanks at its end: these do not count where it is compared, so rows that differ by them alone are equal by ORDER
/// BY (which has all columns), and may come in any order among themselves. That both have the same rows, blanks included, is known by then.
fn with_equal_blanks(outcome: &Outcome, rows: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let columns: Vec<u32> = outcome.columns.iter().flatten().map(|column| column.oid).collect();
    let equal = |(at, value): (usize, &Value)| {
        let value = value.as_ref()?;
        let blanks = value.iter().rev().take_while(|byte| **byte == b' ').count();
        let kept = if columns.get(at) == Some(&BPCHAR) { value.len() - blanks } else { value.len() };
        Some(value[..kept].to_vec())
    };
    rows.iter().map(|row| row.iter().enumerate().map(equal).collect()).collect()
}

/// Whether an error is about values and rows: which comes first may depend on their order.
fn is_of_data(code: &str) -> bool {
    ["21", "22", "23"].iter().any(|class| code.starts_with(class))
}

/// Differences of types and names.
pub fn columns(theirs: Option<&[Column]>, ours: Option<&[Column]>) -> Option<Differs> {
    let oids = |columns: Option<&[Column]>| columns.map(|all| all.iter().map(|c| c.oid).collect::<Vec<_>>());
    if let Some(differs) = types(Difference::Types, oids(theirs).as_deref(), oids(ours).as_deref()) {
        return Some(differs);
    }
    let names = |columns: Option<&[Column]>| columns.map(|all| all.iter().map(|c| c.name.clone()).collect::<Vec<_>>());
    let (a, b) = (names(theirs), names(ours));
    (a != b).then(|| {
        let about = a.iter().flatten().zip(b.iter().flatten()).find(|(x, y)| x != y);
        let about = about.map_or_else(String::new, |(x, y)| format!("{} | {}", shape(x), shape(y)));
        Differs { about, ..Differs::new(Difference::Names, format!("{a:?}"), format!("{b:?}")) }
    })
}

/// Differences of types, of columns or parameters.
pub fn types(what: Difference, theirs: Option<&[u32]>, ours: Option<&[u32]>) -> Option<Differs> {
    if theirs == ours {
        return None;
    }
    let (a, b) = (theirs.unwrap_or_default(), ours.unwrap_or_default());
    let about = if a.len() == b.len() {
        let pair = a.iter().zip(b).find(|(x, y)| x != y);
        pair.map_or_else(String::new, |(x, y)| format!("{} | {}", type_name(*x), type_name(*y)))
    } else {
        format!("{} | {} of them", a.len(), b.len())
    };
    let list = |all: &[u32]| all.iter().map(|oid| type_name(*oid)).collect::<Vec<_>>().join(", ");
    Some(Differs { about, ..Differs::new(what, list(a), list(b)) })
}

fn type_name(oid: u32) -> String {
    let known = Ty::COLUMNS.iter().chain(&Ty::MORE).find(|ty| ty.oid() == oid && oid != 0);
    known.map_or_else(|| oid.to_string(), |ty| ty.name().to_owned())
}

/// A text without names and constants.
pub fn shape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                while chars.next().is_some_and(|c| c != '\'') {}
                out.push_str("''");
            }
            '"' => {
                while chars.next().is_some_and(|c| c != '"') {}
                out.push_str("\"\"");
            }
            // The letters of an SQLSTATE stay, numbers go.
            _ if c.is_ascii_digit() && !out.ends_with(|last: char| last.is_ascii_alphanumeric()) => {
                let mut word = c.to_string();
                while let Some(next) = chars.next_if(char::is_ascii_alphanumeric) {
                    word.push(next);
                }
                let is_state = word.len() == 5 && (out.ends_with("ERROR ") || out.ends_with("FATAL "));
                out.push_str(if is_state { &word } else { "0" });
            }
            _ if c.is_ascii_digit() && !out.ends_with(" XX") => {}
            _ => out.push(c),
        }
    }
    out
}

fn sorted(rows: &[Vec<Value>]) -> Vec<&Vec<Value>> {
    let mut rows: Vec<&Vec<Value>> = rows.iter().collect();
    rows.sort();
    rows
}

/// The rows that only the first of two sorted lists has.
fn only(a: &[&Vec<Value>], b: &[&Vec<Value>], count: usize) -> String {
    let mut rest: Vec<&Vec<Value>> = b.to_vec();
    let mut text = format!("{count} rows");
    let mut shown = 0;
    for row in a {
        if let Ok(at) = rest.binary_search(row) {
            rest.remove(at);
        } else if shown < 5 {
            shown += 1;
            text.push_str(&format!("; only here {}", row_text(row)));
        }
    }
    text
}

fn brief(outcome: &Outcome) -> String {
    let rows: Vec<String> = outcome.rows.iter().take(5).map(|row| row_text(row)).collect();
    format!("{} rows: {} [{}]", outcome.rows.len(), rows.join(" "), outcome.tag.as_deref().unwrap_or(""))
}

fn row_text(row: &[Value]) -> String {
    let values: Vec<String> = Outcome::texts(row)
        .into_iter()
        .zip(row)
        .map(|(text, value)| match (text, value) {
            (Some(text), _) if !text.chars().any(|c| c.is_control() || c == '\u{fffd}') => {
                text.chars().take(80).collect()
            }
            (_, Some(bytes)) => bytes.iter().map(|b| format!("{b:02x}")).collect(),
            (_, None) => "NULL".into(),
        })
        .collect();
    format!("({})", values.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::client::Complaint;

    fn reply(rows: &[&str], code: Option<&str>) -> Reply {
        let column = Column { name: "a".into(), oid: 23, size: 4, typmod: -1, binary: false };
        let error = code.map(|code| Complaint { code: code.into(), ..Complaint::default() });
        let rows: Vec<Vec<Value>> = rows.iter().map(|r| vec![Some(r.as_bytes().to_vec())]).collect();
        let tag = Some(format!("SELECT {}", rows.len()));
        Reply {
            outcomes: vec![Outcome { columns: Some(vec![column]), rows, tag, error, ..Outcome::default() }],
            ..Reply::default()
        }
    }

    #[test]
    fn shapes_have_no_constants() {
        assert_eq!(shape("ERROR 42P01: relation \"t1\" 12"), "ERROR 42P01: relation \"\" 0");
        assert_eq!(shape("a1.c0 = 'x' + 15.5"), "a.c = '' + 0.0");
        assert_eq!(shape("ERROR 22012: division"), "ERROR 22012: division");
    }

    #[test]
    fn a_nan_is_a_nan() {
        let of = |oid, binary, bytes: &[u8]| {
            let mut reply = reply(&["x"], None);
            let outcome = &mut reply.outcomes[0];
            outcome.rows[0][0] = Some(bytes.to_vec());
            outcome.columns.as_mut().expect("it has one").iter_mut().for_each(|c| (c.oid, c.binary) = (oid, binary));
            reply
        };
        let differ = |oid, binary, a: &[u8], b: &[u8]| {
            compare(&of(oid, binary, a), &of(oid, binary, b), Kind::Query { ordered: true }).map(|d| d.what)
        };
        let (plus, minus) = (f64::NAN.to_be_bytes(), (-f64::NAN).to_be_bytes());
        assert_eq!(differ(FLOAT8, true, &plus, &minus), None);
        assert_eq!(differ(FLOAT4, true, &f32::NAN.to_be_bytes(), &(-f32::NAN).to_be_bytes()), None);
        // Whether there is a place for NULLs in an array.
        let array = |flag: u8, element: u8| [0, 0, 0, 1, 0, 0, 0, flag, 0, 0, 0, 23, 0, 0, 0, 0, element].to_vec();
        assert_eq!(differ(1007, true, &array(0, 5), &array(1, 5)), None);
        assert_eq!(differ(1007, true, &array(0, 5), &array(1, 6)), Some(Difference::Rows));
        assert_eq!(differ(20, true, &array(0, 5), &array(1, 5)), Some(Difference::Rows));
        // Neither text, nor another type, nor another number.
        assert_eq!(differ(FLOAT8, false, &plus, &minus), Some(Difference::Rows));
        assert_eq!(differ(20, true, &plus, &minus), Some(Difference::Rows));
        assert_eq!(differ(FLOAT8, true, &0f64.to_be_bytes(), &(-0f64).to_be_bytes()), Some(Difference::Rows));
        assert_eq!(differ(FLOAT8, true, &plus, &1f64.to_be_bytes()), Some(Difference::Rows));
    }

    #[test]
    fn blanks_of_char_are_equal_in_an_order() {
        let of = |oid, rows: &[&str]| {
            let mut reply = reply(rows, None);
            let columns = reply.outcomes[0].columns.as_mut().expect("it has some");
            columns.iter_mut().for_each(|column| column.oid = oid);
            reply
        };
        let whole = Kind::Query { ordered: true };
        let what = |oid, a: &[&str], b: &[&str]| compare(&of(oid, a), &of(oid, b), whole).map(|d| d.what);
        assert_eq!(what(BPCHAR, &["a", "a ", "b"], &["a ", "a", "b"]), None);
        assert_eq!(what(BPCHAR, &["a", "b"], &["b", "a"]), Some(Difference::Order));
        // The blanks themselves count, and those of other types make an order.
        assert_eq!(what(BPCHAR, &["a"], &["a "]), Some(Difference::Rows));
        assert_eq!(what(25, &["a", "a "], &["a ", "a"]), Some(Difference::Order));
    }

    #[test]
    fn differences_are_named() {
        let (whole, any) = (Kind::Query { ordered: true }, Kind::Query { ordered: false });
        let what = |a: &Reply, b: &Reply, kind| compare(a, b, kind).map(|d| d.what);
        let (ab, ba) = (reply(&["a", "b"], None), reply(&["b", "a"], None));
        assert_eq!(what(&ab, &ab, whole), None);
        assert_eq!(what(&ab, &ba, any), None);
        assert_eq!(what(&ab, &ba, whole), Some(Difference::Order));
        assert_eq!(what(&ab, &reply(&["a", "a"], None), any), Some(Difference::Rows));
        let failed = reply(&[], Some("22012"));
        assert_eq!(what(&failed, &ab, any), Some(Difference::ErrorMissing));
        assert_eq!(what(&ab, &failed, any), Some(Difference::ErrorAdded));
        let otherwise = reply(&[], Some("23505"));
        assert_eq!(what(&failed, &otherwise, any), Some(Difference::Code));
        assert_eq!(what(&failed, &otherwise, Kind::Dml { several: true }), None);
        let mut typed = ab.clone();
        typed.outcomes[0].columns.as_mut().unwrap()[0].oid = 20;
        assert_eq!(what(&ab, &typed, any), Some(Difference::Types));
    }
}
