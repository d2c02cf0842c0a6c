//! SET CONSTRAINTS.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// `SET CONSTRAINTS { ALL | name [, ...] } { DEFERRED | IMMEDIATE }`, behind its SET; `None`: another
/// statement.
pub(crate) fn parse(mut words: Words<'_>) -> Option<Result<Own, SqlError>> {
    words.take_word("constraints").then(|| Wanted::parse(words).map(Own::SetConstraints))
}

/// What SET CONSTRAINTS wants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    /// Empty: all.
    pub names: Vec<(Option<String>, String)>,
    pub deferred: bool,
}

impl Wanted {
    /// What stands behind SET CONSTRAINTS.
    fn parse(mut words: Words<'_>) -> Result<Self, SqlError> {
        let mut names = Vec::new();
        if !words.take_word("all") {
            loop {
                let (mut schema, mut name) = (None, words.name()?);
                while words.take(&Token::Period) {
                    schema = Some(std::mem::replace(&mut name, words.name()?));
                }
                names.push((schema, name));
                if !words.take(&Token::Comma) {
                    break;
                }
            }
        }
        let deferred = words.take_word("deferred");
        if !deferred && !words.take_word("immediate") {
            return Err(words.unexpected());
        }
        words.expect_end()?;
        Ok(Self { names, deferred })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let read = |text: &str| {
            let mut words = Words::of(text).expect("words");
            words.take_words(&["set", "constraints"]);
            Wanted::parse(words)
        };
        let parsed = |text: &str| read(text).map(|w| (w.names, w.deferred)).ok();
        assert_eq!(parsed("SET CONSTRAINTS ALL DEFERRED"), Some((vec![], true)));
        assert_eq!(
            parsed("set constraints \"A b\", s.c immediate"),
            Some((vec![(None, "A b".into()), (Some("s".into()), "c".into())], false))
        );
        assert_eq!(parsed("SET CONSTRAINTS \"all\" DEFERRED"), Some((vec![(None, "all".into())], true)));
        assert_eq!(
            parsed("SET /* ; */ CONSTRAINTS A . b -- c\n, d IMMEDIATE ;"),
            Some((vec![(Some("a".into()), "b".into()), (None, "d".into())], false))
        );
        for (bad, at) in [
            ("SET CONSTRAINTS ALL", "end of input"),
            ("SET CONSTRAINTS a b DEFERRED", "\"b\""),
            ("SET CONSTRAINTS ALL, b DEFERRED", "\",\""),
            ("SET CONSTRAINTS a, DEFERRED", "end of input"),
            ("SET CONSTRAINTS 'a' DEFERRED", "\"'a'\""),
            ("SET CONSTRAINTS a DEFERRED now", "\"now\""),
        ] {
            let message = read(bad).err().map(|error| error.into_fields().message).unwrap_or_default();
            assert!(message.contains(at), "{bad}: {message}");
        }
        assert!(parse(Words::of("constraint TO x").expect("words")).is_none());
    }
}
