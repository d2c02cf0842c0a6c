//! Consequences: which objects are not what they are in PostgreSQL, because an earlier
//! statement was refused or answered differently, and why.
//!
//! A difference is a consequence if the statement names such an object and the difference is
//! one that the object's absence or other content explains. It is charged to the reason of
//! the first difference in the chain, its root.

use std::collections::HashMap;

use super::judge::{Said, Verdict};
use super::words::{self, Token};

/// Codes that are reasons of their own, whatever else is missing.
const OWN_REASONS: &[&str] = &["0A000", "42601", "XX000", "57014", "53200", "54001"];

/// Codes that say by name what is missing.
const MISSING: &[&str] = &["42P01", "42883", "42704", "3F000", "26000", "34000", "42P03", "3B001"];

#[derive(Default)]
pub struct Taint {
    /// Root by name.
    names: HashMap<String, String>,
    /// What a session has lost: by its setting, or by a crash.
    session: Vec<(Setting, String)>,
    /// The first difference in the block that is open.
    block: Option<String>,
}

impl Taint {
    /// The root if this difference is a consequence; not of the names that are `fine` for it.
    pub fn root(&self, sql: &str, verdict: Verdict, reason: &str, resurgam: &Said, fine: &[String]) -> Option<&str> {
        if self.names.is_empty() && self.session.is_empty() && self.block.is_none() {
            return None;
        }
        let session =
            || self.session.iter().find(|(setting, _)| setting.explains(reason)).map(|(_, root)| root.as_str());
        // What a transaction did is judged at its end.
        let ends = matches!(words::first(&words::tokens(sql)), "commit" | "end" | "prepare" | "set");
        let named = || self.named_but(sql, fine).or(self.block.as_deref().filter(|_| ends));
        let root = match verdict {
            Verdict::Rows | Verdict::Order | Verdict::Accepted | Verdict::Types => named(),
            Verdict::Refused | Verdict::OtherCode => {
                let (code, message) = resurgam.error()?;
                if OWN_REASONS.contains(&code) {
                    return None;
                }
                if code == "25P02" {
                    return session().or_else(named).or(Some("a block that had failed"));
                }
                if MISSING.contains(&code) { self.named_but(message, fine) } else { named() }
            }
            _ => return None,
        };
        root.or_else(session)
    }

    /// The names in a text that are not as they should be.
    pub fn names_in(&self, text: &str) -> Vec<String> {
        let mut names: Vec<String> = words::all_words(text).filter(|word| self.names.contains_key(word)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The root of the first name in a text that is not as it should be.
    fn named(&self, text: &str) -> Option<&str> {
        self.named_but(text, &[])
    }

    fn named_but(&self, text: &str, fine: &[String]) -> Option<&str> {
        let word = words::all_words(text).filter(|word| !fine.contains(word)).find_map(|word| self.names.get(&word));
        let operators = || {
            let signs = text.split(|c: char| !"+-*/<>=~!@#%^&|`?".contains(c));
            signs.filter(|signs| signs.len() > 1).find_map(|signs| self.names.get(signs))
        };
        word.or_else(operators).map(String::as_str)
    }

    /// Learns from a statement's verdict: `reason` is its root if it is a difference.
    pub fn learn(&mut self, sql: &str, tokens: &[Token], verdict: Verdict, reason: &str) {
        let differs =
            !matches!(verdict, Verdict::Same | Verdict::SameCode | Verdict::Plan | Verdict::Types | Verdict::Order);
        let first = words::first(tokens);
        if let Some(setting) = Setting::of(tokens) {
            self.session.retain(|(other, _)| *other != setting);
            if differs {
                self.session.push((setting, reason.to_owned()));
            }
        }
        if words::only_reads(tokens) || verdict == Verdict::SameCode {
            return;
        }
        let targets = words::targets(tokens);
        if differs {
            // What PostgreSQL refused and Resurgam did not is there now.
            for name in targets {
                self.names.entry(name).or_insert_with(|| reason.to_owned());
            }
        } else if matches!(first, "drop" | "truncate") || first == "create" && !sql.to_lowercase().contains(" as ") {
            for name in targets {
                self.names.remove(&name);
            }
        } else if let Some(root) = self.named(sql).map(str::to_owned) {
            // Filled from what is not as it should be.
            for name in targets {
                self.names.entry(name).or_insert_with(|| root.clone());
            }
        }
    }

    /// After a statement: whether a block is open, and the reason if it was a difference.
    pub fn in_block(&mut self, is_open: bool, difference: Option<&str>) {
        if !is_open {
            self.block = None;
        } else if self.block.is_none() {
            self.block = difference.map(str::to_owned);
        }
    }

    /// Whether a statement changes a temporary table that Resurgam refused: a table of the same
    /// name there is another one.
    pub fn is_of_other_table(&self, tokens: &[Token]) -> bool {
        let is_temporary = |name: &String| self.names.get(name).is_some_and(|root| root.contains("TEMPORARY"));
        !words::only_reads(tokens)
            && words::first(tokens) != "create"
            && words::targets(tokens).iter().any(is_temporary)
    }

    /// A name is not what it is in PostgreSQL.
    pub fn mark(&mut self, name: &str, root: &str) {
        self.names.entry(name.to_owned()).or_insert_with(|| root.to_owned());
    }

    /// Forgets all names but these, those of objects that are still there.
    pub fn keep(&mut self, names: &[String]) {
        self.names.retain(|name, _| names.contains(name));
    }

    /// A new session; `why` if it does not begin as PostgreSQL's does.
    pub fn new_session(&mut self, why: Option<&str>) {
        self.session = why.map(|why| (Setting::Everything, why.to_owned())).into_iter().collect();
    }

    /// The session has lost something.
    pub fn lose_session(&mut self, why: &str) {
        self.session.push((Setting::Everything, why.to_owned()));
    }
}

/// A part of a session's state that a statement sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    /// Role and search path, and whatever a crash took away.
    Everything,
    /// How dates and times look, and where.
    Times,
    /// How floating point numbers look.
    Floats,
    Bytes,
}

impl Setting {
    /// What SET and RESET of a statement are about; none if it hardly matters for answers.
    fn of(tokens: &[Token]) -> Option<Self> {
        if !matches!(words::first(tokens), "set" | "reset") {
            return None;
        }
        let word = |i: usize| if let Some(Token::Word(word)) = tokens.get(i) { word.as_str() } else { "" };
        let at = 1 + usize::from(matches!(word(1), "local" | "session") && word(2) != "authorization");
        Some(match word(at) {
            "role" | "session" | "search_path" | "schema" => Self::Everything,
            "timezone" | "time" | "datestyle" | "intervalstyle" | "timezone_abbreviations" => Self::Times,
            "extra_float_digits" => Self::Floats,
            "bytea_output" => Self::Bytes,
            _ => return None,
        })
    }

    /// Whether it may explain a difference, by its reason.
    fn explains(self, reason: &str) -> bool {
        let has = |words: &[&str]| words.iter().any(|word| reason.contains(word));
        match self {
            Self::Everything => true,
            Self::Times => has(&["time", "date", "interval", "text"]),
            Self::Floats => has(&["double", "real", "text"]),
            Self::Bytes => has(&["bytea", "text"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::client::{Complaint, Outcome, Reply};

    fn error(code: &str, message: &str) -> Said {
        let error = Complaint { code: code.into(), message: message.into(), ..Complaint::default() };
        Said::Reply(Reply { outcomes: vec![Outcome { error: Some(error), ..Outcome::default() }], ..Reply::default() })
    }

    fn learn(taint: &mut Taint, sql: &str, verdict: Verdict, reason: &str) {
        taint.learn(sql, &words::tokens(sql), verdict, reason);
    }

    #[test]
    fn what_is_missing_explains_what_follows() {
        let mut taint = Taint::default();
        learn(&mut taint, "create table t (a box)", Verdict::Refused, "no box");
        let missing = error("42P01", "relation \"t\" does not exist");
        assert_eq!(taint.root("select * from t", Verdict::Refused, "", &missing, &[]), Some("no box"));
        assert_eq!(taint.root("select * from t", Verdict::Refused, "", &error("0A000", "no"), &[]), None);
        // Another name is missing.
        let other = error("42883", "function f(integer) does not exist");
        assert_eq!(taint.root("select f(1) from t", Verdict::Refused, "", &other, &[]), None);
        // What is gone at the end of a script explains nothing in the next one.
        let mut other = Taint::default();
        learn(&mut other, "create table t (a box)", Verdict::Refused, "no box");
        other.keep(&["u".into()]);
        assert_eq!(other.root("select * from t", Verdict::Refused, "", &missing, &[]), None);
        // A stand-in is as it should be.
        assert_eq!(taint.root("select * from t", Verdict::Rows, "", &missing, &["t".into()]), None);
        // What is filled from it is no better.
        learn(&mut taint, "insert into u select 1 from t", Verdict::Same, "");
        assert_eq!(taint.root("select * from u", Verdict::Rows, "", &missing, &[]), Some("no box"));
        // A new one is.
        learn(&mut taint, "drop table t, u", Verdict::Same, "");
        assert_eq!(taint.root("select * from t", Verdict::Rows, "", &missing, &[]), None);
    }

    #[test]
    fn a_temporary_table_hides_another_one() {
        let mut taint = Taint::default();
        learn(&mut taint, "create temp table t (a int)", Verdict::Refused, "CREATE TABLE: TEMPORARY");
        assert!(taint.is_of_other_table(&words::tokens("drop table t")));
        assert!(taint.is_of_other_table(&words::tokens("insert into t values (1)")));
        assert!(!taint.is_of_other_table(&words::tokens("select * from t")));
        assert!(!taint.is_of_other_table(&words::tokens("drop table u")));
    }

    #[test]
    fn operators_and_sessions() {
        let mut taint = Taint::default();
        learn(&mut taint, "create operator ### (procedure = f)", Verdict::Refused, "no operators");
        let missing = error("42883", "operator does not exist: integer ### integer");
        assert_eq!(taint.root("select 1 ### 2", Verdict::Refused, "", &missing, &[]), Some("no operators"));
        let root =
            |taint: &Taint, reason| taint.root("select 1", Verdict::Rows, reason, &missing, &[]).map(str::to_owned);
        learn(&mut taint, "set time zone 3.5", Verdict::Refused, "no zone");
        assert_eq!(root(&taint, "timestamptz: another text").as_deref(), Some("no zone"));
        assert_eq!(root(&taint, "integer: another number"), None);
        learn(&mut taint, "set local time zone 'UTC'", Verdict::Same, "");
        assert_eq!(root(&taint, "timestamptz: another text"), None);
        learn(&mut taint, "set session authorization joe", Verdict::Refused, "no roles");
        assert_eq!(root(&taint, "integer: another number").as_deref(), Some("no roles"));
        taint.new_session(None);
        assert_eq!(root(&taint, "integer: another number"), None);
    }
}
