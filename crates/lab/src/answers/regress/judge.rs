//! Compares what the two servers answered to a statement.
//!
//! Rows are compared as texts: in their order if the statement has ORDER BY, else as a
//! multiset. Types are compared by oid; those that are not built in have other oids on each
//! server and count as equal. Notices, modifiers of types and the texts of errors are not
//! compared.

use super::feature::feature;
use super::words;
use crate::answers::client::{Column, Outcome, Reply, Value};

/// Oids from here on are given as objects are made.
const FIRST_NORMAL_OID: u32 = 16384;

/// What a server did with a statement.
#[derive(Debug)]
pub enum Said {
    Reply(Reply),
    /// No answer in time; in words, how long.
    Hang(String),
    /// The process ended.
    Crash(String),
    /// The process lives, the connection is gone.
    Lost(String),
}

impl Said {
    /// The error that ended the statement: SQLSTATE and message.
    pub fn error(&self) -> Option<(&str, &str)> {
        let Self::Reply(reply) = self else { return None };
        reply.error().map(|error| (error.code.as_str(), error.message.as_str()))
    }
}

/// How the answers compare. The first group is of statements that PostgreSQL accepts, the
/// second of those that it refuses, the last of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    Same,
    /// The same rows; other names or types of columns, or another tag.
    Types,
    /// The same rows in another order.
    Order,
    /// EXPLAIN: both have plans, which are not compared.
    Plan,
    /// Other rows.
    Rows,
    Refused,
    SameCode,
    OtherCode,
    Accepted,
    Hang,
    Crash,
}

/// Compares: the verdict and its reason, by which findings are grouped.
pub fn judge(sql: &str, postgres: &Said, resurgam: &Said) -> (Verdict, String) {
    match resurgam {
        Said::Hang(why) => return (Verdict::Hang, why.clone()),
        Said::Crash(why) => return (Verdict::Crash, why.clone()),
        Said::Lost(why) => return (Verdict::Crash, format!("the connection was closed: {why}")),
        Said::Reply(_) => {}
    }
    let (Said::Reply(theirs), Said::Reply(ours)) = (postgres, resurgam) else {
        return (Verdict::Same, String::new());
    };
    match (postgres.error(), resurgam.error()) {
        (Some((theirs, _)), Some((ours, _))) if theirs == ours => (Verdict::SameCode, String::new()),
        (Some((theirs, _)), Some((ours, _))) => (Verdict::OtherCode, format!("{theirs}, here {ours}")),
        (Some((code, message)), None) => (Verdict::Accepted, format!("{code} {}", normal(message))),
        (None, Some(("57014", _))) => (Verdict::Hang, "57014 statement timeout".into()),
        (None, Some((code @ ("0A000" | "42601"), message))) => {
            let feature = feature(&words::tokens(sql));
            (Verdict::Refused, feature.unwrap_or_else(|| format!("{code} {}", normal(message))))
        }
        (None, Some((code, message))) => (Verdict::Refused, format!("{code} {}", normal(message))),
        (None, None) => compare(sql, theirs, ours),
    }
}

fn compare(sql: &str, theirs: &Reply, ours: &Reply) -> (Verdict, String) {
    let tokens = words::tokens(sql);
    if words::first(&tokens) == "explain" {
        return (Verdict::Plan, "EXPLAIN".into());
    }
    if theirs.outcomes.len() != ours.outcomes.len() {
        return (Verdict::Rows, "another number of results".into());
    }
    let ordered = words::is_ordered(&tokens);
    let all = theirs.outcomes.iter().zip(&ours.outcomes).map(|(theirs, ours)| compare_one(theirs, ours, ordered));
    all.max_by_key(|(verdict, _)| *verdict).unwrap_or((Verdict::Same, String::new()))
}

fn compare_one(theirs: &Outcome, ours: &Outcome, ordered: bool) -> (Verdict, String) {
    let none = Vec::new();
    let (a, b) = (theirs.columns.as_ref().unwrap_or(&none), ours.columns.as_ref().unwrap_or(&none));
    if a.len() != b.len() {
        return (Verdict::Rows, "another number of columns".into());
    }
    let moved = match compare_rows(theirs, ours, a) {
        Some(reason) => return (Verdict::Rows, reason),
        None => ordered && theirs.rows != ours.rows,
    };
    let tags = [theirs, ours].map(|o| o.tag.clone().unwrap_or_default());
    if tags[0] != tags[1] {
        let count = |tag: &str| tag.rsplit(' ').next().and_then(|word| word.parse::<u64>().ok());
        if count(&tags[0]) != count(&tags[1]) {
            return (Verdict::Rows, "another number of rows in the tag".into());
        }
    }
    if moved {
        return (Verdict::Order, "another order".into());
    }
    for (a, b) in a.iter().zip(b) {
        if a.oid != b.oid && (a.oid < FIRST_NORMAL_OID || b.oid < FIRST_NORMAL_OID) {
            return (Verdict::Types, format!("{}, here {}", type_name(a.oid), type_name(b.oid)));
        }
    }
    if a.iter().zip(b).any(|(a, b)| a.name != b.name) {
        return (Verdict::Types, "names of columns".into());
    }
    if tags[0] != tags[1] {
        return (Verdict::Types, format!("tag {}, here {}", tags[0], tags[1]));
    }
    (Verdict::Same, String::new())
}

/// Why the rows differ, or none.
fn compare_rows(theirs: &Outcome, ours: &Outcome, columns: &[Column]) -> Option<String> {
    let lines = |outcome: &Outcome| {
        let mut lines: Vec<Vec<u8>> = outcome.copied.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    if lines(theirs) != lines(ours) {
        return Some("COPY: other lines".into());
    }
    let (mut a, mut b) = (theirs.rows.clone(), ours.rows.clone());
    a.sort();
    b.sort();
    if a == b && theirs.rows_dropped == ours.rows_dropped {
        return None;
    }
    let counts = [theirs, ours].map(|o| o.rows.len() as u64 + o.rows_dropped);
    if counts[0] != counts[1] {
        return Some(if counts[1] < counts[0] { "fewer rows" } else { "more rows" }.into());
    }
    // What differs is best told of the rows as they came.
    let pairs = theirs.rows.iter().zip(&ours.rows).flat_map(|(a, b)| a.iter().zip(b).zip(columns));
    let different = pairs.filter(|((a, b), _)| a != b).map(|((a, b), column)| {
        let how = difference(a, b);
        (how, column)
    });
    // The gravest first.
    let (how, column) = different.max_by_key(|(how, _)| how.0)?;
    Some(format!("{}: {}", type_name(column.oid), how.1))
}

/// How two values differ, and how grave that is.
fn difference(a: &Value, b: &Value) -> (u8, &'static str) {
    let (Some(a), Some(b)) = (a, b) else {
        return (5, if a.is_none() { "a value instead of NULL" } else { "NULL instead of a value" });
    };
    let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
    match (a.trim().parse::<f64>(), b.trim().parse::<f64>()) {
        (Ok(x), Ok(y)) if x == y || x.is_nan() && y.is_nan() => (1, "the same number, other digits"),
        (Ok(x), Ok(y)) if (x - y).abs() <= 1e-9 * x.abs().max(y.abs()) => (2, "nearly the same number"),
        (Ok(_), Ok(_)) => (4, "another number"),
        _ if a.trim_end() == b.trim_end() => (2, "blanks at the end"),
        _ if a.to_lowercase() == b.to_lowercase() => (2, "capital letters"),
        _ => (3, "another text"),
    }
}

/// Names of the types that are met most; others by their oid.
pub fn type_name(oid: u32) -> String {
    let name = match oid {
        16 => "boolean",
        17 => "bytea",
        18 => "\"char\"",
        19 => "name",
        20 => "bigint",
        21 => "smallint",
        23 => "integer",
        25 => "text",
        26 => "oid",
        114 => "json",
        142 => "xml",
        600 => "point",
        700 => "real",
        701 => "double precision",
        705 => "unknown",
        790 => "money",
        869 => "inet",
        1000 => "boolean[]",
        1005 => "smallint[]",
        1007 => "integer[]",
        1009 => "text[]",
        1015 => "varchar[]",
        1016 => "bigint[]",
        1022 => "double precision[]",
        1231 => "numeric[]",
        1042 => "char(n)",
        1043 => "varchar",
        1082 => "date",
        1083 => "time",
        1114 => "timestamp",
        1184 => "timestamptz",
        1186 => "interval",
        1266 => "timetz",
        1560 => "bit",
        1562 => "varbit",
        1700 => "numeric",
        2205 => "regclass",
        2206 => "regtype",
        2249 => "record",
        2277 => "anyarray",
        2950 => "uuid",
        3802 => "jsonb",
        FIRST_NORMAL_OID.. => "a type of its own",
        _ => return format!("type {oid}"),
    };
    name.to_owned()
}

/// A message without what is of this one statement only: names and values in quotes, numbers,
/// the types of a function's arguments.
pub fn normal(message: &str) -> String {
    let keep =
        ["type ", "unrecognized configuration", "syntax error", "collation", "access method", "language", "role"]
            .iter()
            .any(|begin| message.starts_with(begin));
    let message = match message.strip_prefix("function ").and_then(|rest| rest.split_once('(')) {
        Some((name, rest)) if rest.ends_with("does not exist") => format!("function {name}(…) does not exist"),
        _ => message.to_owned(),
    };
    let mut out = String::new();
    let mut chars = message.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' | '\'' if !keep => {
                // An apostrophe is none.
                let closes = c == '"' || chars.clone().any(|d| d == c);
                out.push(c);
                if closes {
                    chars.by_ref().find(|d| *d == c);
                    out.push('…');
                    out.push(c);
                }
            }
            '0'..='9' if !out.ends_with(char::is_alphabetic) => {
                while chars.next_if(char::is_ascii_digit).is_some() {}
                out.push('N');
            }
            '\n' => out.push(' '),
            _ => out.push(c),
        }
    }
    if out.chars().count() > 110 {
        out = out.chars().take(110).chain(['…']).collect();
    }
    out
}

/// What a server said, for a reader.
pub fn show(said: &Said) -> String {
    let reply = match said {
        Said::Hang(why) | Said::Crash(why) | Said::Lost(why) => return why.clone(),
        Said::Reply(reply) => reply,
    };
    let mut out = String::new();
    for outcome in &reply.outcomes {
        if let Some(columns) = &outcome.columns {
            let names: Vec<String> = columns.iter().map(|c| format!("{} {}", c.name, type_name(c.oid))).collect();
            out.push_str(&format!("({})\n", names.join(", ")));
        }
        for row in outcome.rows.iter().take(40) {
            let texts = Outcome::texts(row).into_iter().map(|v| v.unwrap_or_else(|| "NULL".into()));
            out.push_str(&format!("  {}\n", texts.collect::<Vec<_>>().join(" | ")));
        }
        if outcome.rows.len() > 40 {
            out.push_str(&format!("  … {} rows\n", outcome.rows.len()));
        }
        let copied = String::from_utf8_lossy(&outcome.copied);
        copied.lines().take(20).for_each(|line| out.push_str(&format!("  {line}\n")));
        if let Some(tag) = &outcome.tag {
            out.push_str(&format!("{tag}\n"));
        }
        if let Some(error) = &outcome.error {
            out.push_str(&format!("{error}\n"));
        }
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::client::Complaint;

    fn rows(values: &[&str], oid: u32) -> Said {
        let column = Column { name: "a".into(), oid, size: 4, typmod: -1, binary: false };
        let outcome = Outcome {
            columns: Some(vec![column]),
            rows: values.iter().map(|v| vec![Some(v.as_bytes().to_vec())]).collect(),
            tag: Some(format!("SELECT {}", values.len())),
            ..Outcome::default()
        };
        Said::Reply(Reply { outcomes: vec![outcome], ..Reply::default() })
    }

    fn error(code: &str, message: &str) -> Said {
        let error = Complaint { code: code.into(), message: message.into(), ..Complaint::default() };
        let outcome = Outcome { error: Some(error), ..Outcome::default() };
        Said::Reply(Reply { outcomes: vec![outcome], ..Reply::default() })
    }

    #[test]
    fn rows_are_compared_as_the_statement_orders_them() {
        let verdict = |sql: &str, a: &Said, b: &Said| judge(sql, a, b).0;
        let (one, two) = (rows(&["1", "2"], 23), rows(&["2", "1"], 23));
        assert_eq!(verdict("select", &one, &two), Verdict::Same);
        assert_eq!(verdict("select order by a", &one, &two), Verdict::Order);
        assert_eq!(verdict("select", &one, &rows(&["1", "1"], 23)), Verdict::Rows);
        assert_eq!(verdict("select", &one, &rows(&["1"], 23)), Verdict::Rows);
        assert_eq!(
            judge("select", &rows(&["1.0"], 1700), &rows(&["1"], 1700)).1,
            "numeric: the same number, other digits"
        );
        assert_eq!(judge("select", &one, &rows(&["1", "2"], 20)), (Verdict::Types, "integer, here bigint".into()));
        assert_eq!(verdict("select", &rows(&[], 20000), &rows(&[], 17000)), Verdict::Same);
        assert_eq!(verdict("explain select", &one, &rows(&["1"], 23)), Verdict::Plan);
    }

    #[test]
    fn errors_are_compared_by_code() {
        let (missing, other) = (error("42P01", "relation \"a\" does not exist"), error("0A000", "no"));
        assert_eq!(judge("x", &missing, &missing).0, Verdict::SameCode);
        assert_eq!(judge("x", &missing, &other), (Verdict::OtherCode, "42P01, here 0A000".into()));
        let accepted = rows(&[], 23);
        assert_eq!(judge("x", &missing, &accepted).0, Verdict::Accepted);
        assert_eq!(judge("x", &accepted, &missing), (Verdict::Refused, "42P01 relation \"…\" does not exist".into()));
        // By what they are about, not by how they are refused.
        assert_eq!(judge("create view v as select 1", &accepted, &other).1, "CREATE VIEW");
        assert_eq!(judge("x", &accepted, &Said::Hang("10 s".into())).0, Verdict::Hang);
    }

    #[test]
    fn messages_lose_what_is_of_one_statement() {
        assert_eq!(normal("relation \"a\" does not exist"), "relation \"…\" does not exist");
        assert_eq!(normal("function f(integer, text) does not exist"), "function f(…) does not exist");
        assert_eq!(normal("type \"box\" does not exist"), "type \"box\" does not exist");
        assert_eq!(normal("column 17 of 3 isn't there"), "column N of N isn't there");
        assert_eq!(normal("int4 out of range"), "int4 out of range");
    }
}
