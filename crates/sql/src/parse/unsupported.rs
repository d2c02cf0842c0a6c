//! PostgreSQL's syntax that neither the parser nor anything here knows: it is no syntax error.
//!
//! Statements are told by the words that they begin with ([`statement`]), before the parser sees them, and refused when they
//! are run; clauses by words within a text that could not be parsed ([`found`]).

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::parse::words::Words;
use crate::wire::SqlError;

/// A statement of PostgreSQL's that there is not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refused {
    /// Its name.
    pub what: String,
    /// Only a superuser may run it.
    pub superuser: bool,
}

impl Refused {
    fn new(what: impl Into<String>, superuser: bool) -> Self {
        Self { what: what.into(), superuser }
    }
}

/// What CREATE, ALTER, DROP and COMMENT ON can be about, and whether only a superuser may make one; longer ones before
/// what they begin with.
const KINDS: &[(&[&str], bool)] = &[
    (&["access", "method"], true),
    (&["aggregate"], false),
    (&["cast"], false),
    (&["collation"], false),
    (&["constraint", "trigger"], false),
    (&["conversion"], false),
    (&["default", "conversion"], false),
    (&["event", "trigger"], true),
    (&["foreign", "data", "wrapper"], true),
    (&["foreign", "table"], false),
    (&["language"], false),
    (&["procedural", "language"], false),
    (&["trusted", "language"], false),
    (&["trusted", "procedural", "language"], false),
    (&["large", "object"], false),
    (&["materialized", "view"], false),
    (&["operator", "class"], true),
    (&["operator", "family"], true),
    (&["operator"], false),
    (&["publication"], false),
    (&["rule"], false),
    (&["server"], false),
    (&["statistics"], false),
    (&["subscription"], true),
    (&["tablespace"], true),
    (&["text", "search", "configuration"], false),
    (&["text", "search", "dictionary"], false),
    (&["text", "search", "parser"], true),
    (&["text", "search", "template"], true),
    (&["transform"], false),
    (&["trigger"], false),
    (&["user", "mapping"], false),
];

/// The statement that begins with the word `first` and goes on with `words`, if it is one that there is not.
pub(crate) fn statement(first: &str, words: &Words<'_>) -> Option<Refused> {
    let mut words = words.clone();
    let named = |what: &str, superuser| Some(Refused::new(what, superuser));
    match first {
        "create" | "alter" | "drop" => {
            if first == "create" {
                words.take_words(&["or", "replace"]);
            }
            if first == "alter" && words.take_word("system") {
                return named("ALTER SYSTEM", true);
            }
            let (kind, superuser) = KINDS.iter().find(|(kind, _)| words.take_words(kind))?;
            let what = format!("{} {}", first, kind.join(" ")).to_ascii_uppercase();
            // Who owns such a thing changes it; there are none.
            Some(Refused::new(what, *superuser && first == "create"))
        }
        "comment" if words.take_word("on") => {
            if words.take_word("procedure") {
                return named("COMMENT ON PROCEDURE", false);
            }
            let (kind, _) = KINDS.iter().find(|(kind, _)| words.take_words(kind))?;
            Some(Refused::new(format!("COMMENT ON {}", kind.join(" ").to_ascii_uppercase()), false))
        }
        "refresh" if words.take_words(&["materialized", "view"]) => named("REFRESH MATERIALIZED VIEW", false),
        "import" if words.take_words(&["foreign", "schema"]) => named("IMPORT FOREIGN SCHEMA", false),
        "security" if words.take_word("label") => named("SECURITY LABEL", false),
        "load" if matches!(words.peek(), Some(Token::SingleQuotedString(_))) => named("LOAD", true),
        // CLUSTER alone is about tables that were clustered before, and there are none.
        "cluster" if matches!(words.peek(), Some(Token::Word(_) | Token::LParen)) => named("CLUSTER", false),
        _ => None,
    }
}

/// Words in a row (the last may be a parenthesis), and what they are.
const PHRASES: &[(&[&str], &str)] = &[
    (&["rows", "from", "("], "ROWS FROM"),
    (&["using", ""], "ORDER BY ... USING"),
    (&["variadic"], "VARIADIC in calls"),
    (&["exclude", "current"], "EXCLUDE in the frame of a window"),
    (&["exclude", "group"], "EXCLUDE in the frame of a window"),
    (&["exclude", "ties"], "EXCLUDE in the frame of a window"),
    (&["exclude", "no"], "EXCLUDE in the frame of a window"),
    (&["exclude", "using"], "an EXCLUDE constraint"),
    (&["exclude", "("], "an EXCLUDE constraint"),
    (&["tablesample"], "TABLESAMPLE"),
    (&["search", "depth"], "SEARCH"),
    (&["search", "breadth"], "SEARCH"),
    (&["is", "document"], "XML"),
    (&["xmlelement", "("], "XML"),
    (&["xmlforest", "("], "XML"),
    (&["xmltable", "("], "XML"),
    (&["is", "normalized"], "IS NORMALIZED"),
    (&["is", "not", "normalized"], "IS NORMALIZED"),
    (&["no", "inherit"], "NO INHERIT"),
    (&["include", "(", "("], "an expression in INCLUDE"),
    (&["using", "index", "tablespace"], "USING INDEX TABLESPACE"),
    (&["set", "tablespace"], "SET TABLESPACE"),
    (&["set", "access", "method"], "SET ACCESS METHOD"),
    (&["set", "schema"], "SET SCHEMA"),
    (&["cluster", "on"], "CLUSTER ON"),
    (&["xml", "option"], "XML"),
    (&["cycle"], "CYCLE"),
    (&["similar", ""], "SIMILAR in substring"),
    (&["group", "by", "distinct"], "GROUP BY DISTINCT"),
    (&["collation", "for", "("], "COLLATION FOR"),
    (&["set", "null", "("], "a list of columns of ON DELETE SET NULL"),
    (&["set", "default", "("], "a list of columns of ON DELETE SET DEFAULT"),
    (&["compression", "pglz"], "COMPRESSION"),
    (&["compression", "lz4"], "COMPRESSION"),
    (&["compression", "default"], "COMPRESSION"),
];

/// The same of statements that begin with certain words.
const PHRASES_OF: &[(&[&str], &[&str], &str)] = &[
    (&["alter", "table"], &["attach", "partition"], "ATTACH PARTITION"),
    (&["alter", "table"], &["detach", "partition"], "DETACH PARTITION"),
    (&["alter", "table"], &["alter", "constraint"], "ALTER CONSTRAINT"),
    (&["alter", "table"], &["options", "("], "OPTIONS of a table"),
    (&["alter", "table"], &["inherit"], "INHERIT"),
    (&["alter", "table"], &["not", "of"], "a table of a composite type"),
    (&["alter", "table"], &["of"], "a table of a composite type"),
    (&["alter", "index"], &["set", "("], "ALTER INDEX ... SET"),
    (&["alter", "index"], &["reset", "("], "ALTER INDEX ... RESET"),
    (&["alter", "index"], &["attach", "partition"], "ATTACH PARTITION"),
    (&["alter", "index"], &["depends", "on"], "DEPENDS ON EXTENSION"),
    (&["alter", "index"], &["set", "statistics"], "ALTER INDEX ... SET STATISTICS"),
    (&["comment", "on", "constraint"], &["on", "domain"], "COMMENT ON CONSTRAINT of a domain"),
    (&["create", "table"], &["partition", "by"], "a partitioned table"),
    (&["create", "table"], &["partition", "of"], "a partitioned table"),
    (&["create", "table"], &["of"], "a table of a composite type"),
];

/// What a text that could not be parsed has of such syntax.
pub(crate) fn found(text: &str) -> Option<SqlError> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().ok()?;
    let words: Vec<String> = tokens
        .iter()
        .filter_map(|token| match token {
            Token::Whitespace(_) => None,
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_lowercase()),
            Token::LParen => Some("(".to_owned()),
            Token::SemiColon => Some(";".to_owned()),
            _ => Some(String::new()),
        })
        .collect();
    let has = |words: &[String], phrase: &[&str]| words.windows(phrase.len()).any(|part| part.iter().eq(phrase.iter()));
    let begins = |words: &[String], begin: &[&str]| {
        words.len() >= begin.len() && words.iter().zip(begin).all(|(word, wanted)| word == wanted)
    };
    let statements = || words.split(|word| word == ";");
    let what = PHRASES.iter().find(|(phrase, _)| has(&words, phrase)).map(|(_, what)| *what).or_else(|| {
        let is_there = |begin: &[&str], phrase: &[&str]| {
            statements().any(|statement| begins(statement, begin) && has(statement, phrase))
        };
        PHRASES_OF.iter().find(|(begin, phrase, _)| is_there(begin, phrase)).map(|(_, _, what)| *what)
    })?;
    Some(SqlError::unsupported(format!("{what} is not supported")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_names() {
        let refused = |text: &'static str| {
            let mut words = Words::of(text).expect("one statement");
            words.next();
            statement(&crate::parse::words::first_word(text), &words).map(|found| (found.what, found.superuser))
        };
        for (text, what, superuser) in [
            ("CREATE OR REPLACE RULE r AS ON INSERT TO t DO INSTEAD NOTHING", "CREATE RULE", false),
            ("create operator === (leftarg = int)", "CREATE OPERATOR", false),
            ("create operator class c", "CREATE OPERATOR CLASS", true),
            ("drop operator class c", "DROP OPERATOR CLASS", false),
            ("COMMENT ON TEXT SEARCH PARSER p IS 'x'", "COMMENT ON TEXT SEARCH PARSER", false),
            ("refresh materialized view v", "REFRESH MATERIALIZED VIEW", false),
            ("load 'x'", "LOAD", true),
            ("alter system set a = 1", "ALTER SYSTEM", true),
        ] {
            assert_eq!(refused(text), Some((what.to_owned(), superuser)), "{text}");
        }
        for text in ["create table rule (a int)", "create system x", "do", "load x", "refresh x", "drop x", "cluster"] {
            assert_eq!(refused(text), None, "{text}");
        }
    }

    #[test]
    fn clauses_are_of_their_statements() {
        assert!(found("ALTER TABLE t INHERIT u").is_some());
        assert!(found("SELECT 1; ALTER TABLE t ATTACH PARTITION u DEFAULT").is_some());
        assert!(found("SELEC inherit").is_none());
        assert!(found("CREATE TABLE t (EXCLUDE USING gist (a WITH =))").is_some());
        assert!(found("UPDATE t SET").is_none());
    }
}
