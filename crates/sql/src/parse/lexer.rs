//! Literals lifted out of statement texts ("forced parameterisation").
//!
//! `SELECT a FROM t WHERE id = 7 AND n = 'x'` becomes `… WHERE id = $1 AND n = $2` with
//! the values beside it, so that texts that differ in their literals share one plan.
//!
//! Only integers and plain strings of SELECT, INSERT, UPDATE and DELETE are lifted, and only
//! where a parameter means the same as a literal:
//! 1. not behind a word that makes a literal part of a type or keyword (`interval '…'`, `date '…'`);
//! 2. not in or after ORDER BY, GROUP BY, LIMIT, OFFSET, FETCH (a number may be a position);
//! 3. not in a text that has parameters, dollar quotes, escape strings, comments or a second statement.
//!
//! An integer is typed as PostgreSQL types a literal (int4, else int8); a string is unknown,
//! and takes the type that its place wants. What is uncertain is left as it is, and the caller
//! plans the original text when the lifted one does not plan.

use crate::pg::types::oid;

/// A lifted literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub text: String,
    /// Declared parameter type; 0 is unknown.
    pub oid: u32,
    /// Where it stands in the whole text, in characters from 1.
    pub position: u32,
}

/// A text with its literals lifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lifted {
    pub text: String,
    pub oids: Vec<u32>,
    pub literals: Vec<Literal>,
}

/// Most literals that are lifted: longer lists are planned as they are. Many rows of an INSERT are
/// better planned with their values.
const LITERALS_MAX: usize = 2000;
const INSERTED_MAX: usize = 100;
/// Longest text that is looked at.
const TEXT_MAX: usize = 32 << 10;

/// Words after which a literal is ordinary.
const BEFORE_LITERAL: &[&str] = &[
    "select",
    "where",
    "and",
    "or",
    "not",
    "in",
    "values",
    "set",
    "then",
    "else",
    "when",
    "between",
    "like",
    "ilike",
    "having",
    "on",
    "by",
    "is",
    "distinct",
    "all",
    "returning",
    "from",
];

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Lifts the literals of a single statement; `None` if the text is not of the liftable kind.
pub(crate) fn lift(sql: &str) -> Option<Lifted> {
    let bytes = sql.as_bytes();
    if bytes.len() > TEXT_MAX {
        return None;
    }
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace())?;
    let head = bytes.get(start..start + 6)?;
    if ![b"select" as &[u8], b"insert", b"update", b"delete"].iter().any(|w| head.eq_ignore_ascii_case(w)) {
        return None;
    }
    let most = if head.eq_ignore_ascii_case(b"insert") { INSERTED_MAX } else { LITERALS_MAX };
    let mut out = String::with_capacity(sql.len() + 8);
    let mut literals: Vec<Literal> = Vec::new();
    let mut oids = Vec::new();
    let mut i = start;
    let mut copied = start;
    // Whether a literal here is an ordinary value.
    let mut value_place = false;
    let mut lifting = true;
    let mut places = Places { text: sql, at: 0, characters: 0 };
    while i < bytes.len() {
        if literals.len() > most {
            return None;
        }
        let byte = bytes[i];
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => i += 1,
            b'$' | b'\\' | b'`' | 0 => return None,
            b'-' if bytes.get(i + 1) == Some(&b'-') => return None,
            b'/' if bytes.get(i + 1) == Some(&b'*') => return None,
            b';' => {
                if bytes[i + 1..].iter().any(|b| !b.is_ascii_whitespace() && *b != b';') {
                    return None;
                }
                out.push_str(&sql[copied..i]);
                copied = bytes.len();
                i = bytes.len();
            }
            b'"' => {
                i += 1;
                loop {
                    match bytes.get(i)? {
                        b'"' if bytes.get(i + 1) == Some(&b'"') => i += 2,
                        b'"' => break,
                        _ => i += 1,
                    }
                }
                i += 1;
                value_place = false;
            }
            b'\'' => {
                let from = i;
                i += 1;
                let mut doubled = false;
                loop {
                    match bytes.get(i)? {
                        b'\'' if bytes.get(i + 1) == Some(&b'\'') => {
                            doubled = true;
                            i += 2;
                        }
                        b'\'' => break,
                        _ => i += 1,
                    }
                }
                i += 1;
                // A cast behind it, or another string on the next line, belongs to the literal.
                let rest = bytes[i..].iter().find(|b| !b.is_ascii_whitespace());
                if value_place && lifting && !matches!(rest, Some(b':' | b'\'')) {
                    out.push_str(&sql[copied..from]);
                    let text = &sql[from + 1..i - 1];
                    let text = if doubled { text.replace("''", "'") } else { text.to_owned() };
                    push(&mut out, &mut literals, &mut oids, Literal { text, oid: 0, position: places.of(from) })?;
                    copied = i;
                }
                value_place = false;
            }
            b'0'..=b'9' => {
                let from = i;
                while bytes.get(i).is_some_and(u8::is_ascii_digit) {
                    i += 1;
                }
                let integer = !matches!(bytes.get(i), Some(b'.')) && !bytes.get(i).is_some_and(|b| is_word(*b));
                if !integer {
                    while bytes.get(i).is_some_and(|b| is_word(*b) || *b == b'.') {
                        i += 1;
                    }
                    if matches!(bytes.get(i), Some(b'+' | b'-')) && matches!(bytes[i - 1], b'e' | b'E') {
                        i += 1;
                        while bytes.get(i).is_some_and(u8::is_ascii_digit) {
                            i += 1;
                        }
                    }
                } else if value_place && lifting {
                    let text = &sql[from..i];
                    let rest = bytes[i..].iter().find(|b| !b.is_ascii_whitespace());
                    let oid = match text.parse::<i64>() {
                        Ok(v) if i32::try_from(v).is_ok() => Some(oid::INT4),
                        // With a minus before it, an `integer`.
                        Ok(2_147_483_648) => None,
                        Ok(_) => Some(oid::INT8),
                        Err(_) => None,
                    };
                    if let Some(oid) = oid
                        && !matches!(rest, Some(b':'))
                    {
                        out.push_str(&sql[copied..from]);
                        push(
                            &mut out,
                            &mut literals,
                            &mut oids,
                            Literal { text: text.to_owned(), oid, position: places.of(from) },
                        )?;
                        copied = i;
                    }
                }
                value_place = false;
            }
            b'.' if bytes.get(i + 1).is_some_and(u8::is_ascii_digit) => {
                i += 1;
                while bytes.get(i).is_some_and(|b| is_word(*b) || *b == b'.') {
                    i += 1;
                }
                value_place = false;
            }
            _ if is_word(byte) => {
                let from = i;
                while bytes.get(i).is_some_and(|b| is_word(*b)) {
                    i += 1;
                }
                let word = &sql[from..i];
                if bytes.get(i) == Some(&b'\'') {
                    return None; // E'…', B'…', U&'…'
                }
                // An expression of the select list is that of a grouping set by its text, constants and all.
                if ["rollup", "cube", "grouping"].iter().any(|w| word.eq_ignore_ascii_case(w)) {
                    return None;
                }
                if ["order", "group", "limit", "offset", "fetch", "window", "over"]
                    .iter()
                    .any(|w| word.eq_ignore_ascii_case(w))
                {
                    lifting = false;
                }
                value_place = BEFORE_LITERAL.iter().any(|w| word.eq_ignore_ascii_case(w));
            }
            b'(' | b',' | b'=' | b'<' | b'>' | b'+' | b'-' | b'*' | b'/' | b'%' | b'|' => {
                // A type's modifier, as in `numeric(10, 2)`, follows a cast; casts are rare, leave them alone.
                if byte == b'(' && is_type_call(sql, i) {
                    return None;
                }
                value_place = true;
                i += 1;
            }
            b':' => return None, // a cast
            b')' | b']' => {
                value_place = false;
                i += 1;
            }
            _ => {
                value_place = false;
                i += 1;
            }
        }
    }
    out.push_str(&sql[copied..]);
    Some(Lifted { text: out, oids, literals })
}

/// Whether the word before `(` at `at` is a type name or a construct with its own grammar.
fn is_type_call(sql: &str, at: usize) -> bool {
    let before = sql[..at].trim_end();
    let from = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
    let word = &before[from..];
    [
        "numeric",
        "decimal",
        "varchar",
        "char",
        "character",
        "varying",
        "bit",
        "timestamp",
        "timestamptz",
        "time",
        "interval",
        "float",
        "cast",
        "extract",
        "precision",
        "double",
        "try_cast",
        "overlay",
        "trim",
        "position",
        "substring",
        "date_trunc",
        "date_part",
        "generate_series",
        "ntile",
        "lag",
        "lead",
        "nth_value",
        "round",
        "string_agg",
        "array",
        "row",
        "to_char",
        // Of a constant it says that it has no type.
        "pg_typeof",
    ]
    .iter()
    .any(|w| word.eq_ignore_ascii_case(w))
}

/// Counts characters up to places that are asked for in ascending order.
struct Places<'a> {
    text: &'a str,
    at: usize,
    characters: usize,
}

impl Places<'_> {
    /// The number of the character at a byte, from 1.
    fn of(&mut self, byte: usize) -> u32 {
        self.characters += self.text.get(self.at..byte).map_or(0, |between| between.chars().count());
        self.at = byte;
        u32::try_from(self.characters + 1).unwrap_or(u32::MAX)
    }
}

fn push(out: &mut String, literals: &mut Vec<Literal>, oids: &mut Vec<u32>, literal: Literal) -> Option<()> {
    use std::fmt::Write;
    oids.push(literal.oid);
    literals.push(literal);
    write!(out, "${}", literals.len()).ok()
}

/// Whether a text surely holds one statement: no semicolon but at the end.
pub(crate) fn is_single(sql: &str) -> bool {
    let trimmed = sql.trim_end_matches(|c: char| c.is_ascii_whitespace() || c == ';');
    !trimmed.contains(';') && !trimmed.trim_start().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(sql: &str) -> Option<(String, Vec<String>)> {
        lift(sql).map(|l| (l.text, l.literals.into_iter().map(|l| l.text).collect()))
    }

    #[test]
    fn literals_know_their_places() {
        let places = |sql: &str| lift(sql).map(|l| l.literals.into_iter().map(|l| l.position).collect::<Vec<_>>());
        assert_eq!(places(" SELECT 'é', 5, 'x' WHERE 7 = 8"), Some(vec![9, 14, 17, 27, 31]));
    }

    #[test]
    fn literals_become_parameters() {
        assert_eq!(
            lifted("SELECT abalance FROM pgbench_accounts WHERE aid = 42;"),
            Some(("SELECT abalance FROM pgbench_accounts WHERE aid = $1".into(), vec!["42".into()]))
        );
        assert_eq!(
            lifted("INSERT INTO h (a, b) VALUES (1, 'it''s', -5, CURRENT_TIMESTAMP)"),
            Some((
                "INSERT INTO h (a, b) VALUES ($1, $2, -$3, CURRENT_TIMESTAMP)".into(),
                vec!["1".into(), "it's".into(), "5".into()]
            ))
        );
        assert_eq!(
            lifted("UPDATE t SET b = b + 7 WHERE a = 99999999999").map(|l| l.0),
            Some("UPDATE t SET b = b + $1 WHERE a = $2".into())
        );
        assert_eq!(lift("SELECT 99999999999").map(|l| l.oids), Some(vec![oid::INT8]));
    }

    #[test]
    fn what_is_not_a_value_stays() {
        assert_eq!(
            lifted("SELECT a FROM t1 ORDER BY 1 LIMIT 5"),
            Some(("SELECT a FROM t1 ORDER BY 1 LIMIT 5".into(), vec![]))
        );
        assert_eq!(
            lifted("SELECT 1.5, interval '1 day', a1 FROM t WHERE x = 1e5"),
            Some(("SELECT 1.5, interval '1 day', a1 FROM t WHERE x = 1e5".into(), vec![]))
        );
        for whole in [
            "SELECT '1'::int",
            "SELECT $1",
            "SELECT 1; SELECT 2",
            "SELECT 1 -- x",
            "SELECT /* x */ 1",
            "SELECT E'a'",
            "SELECT $$x$$",
            "CREATE TABLE t (a int)",
            "SELECT 'open",
            "SELECT cast(1 as numeric(5, 2))",
            "",
        ] {
            assert_eq!(lifted(whole), None, "{whole}");
        }
    }
}
