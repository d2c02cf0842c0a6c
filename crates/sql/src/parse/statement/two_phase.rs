//! PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// Names of the statements.
pub(crate) const PREPARE: &str = "PREPARE TRANSACTION";

pub(crate) const COMMIT: &str = "COMMIT PREPARED";

pub(crate) const ROLLBACK: &str = "ROLLBACK PREPARED";

/// Reads one of the three, whose first word is taken already; `None` if the text is something
/// else (a PREPARE of a statement, a plain COMMIT).
pub(crate) fn parse(first: &str, mut words: Words<'_>) -> Option<Result<Own, SqlError>> {
    let name = [PREPARE, COMMIT, ROLLBACK].into_iter().find(|name| {
        let (one, two) = name.split_once(' ').unwrap_or_default();
        first.eq_ignore_ascii_case(one) && words.take_word(two)
    })?;
    let gid = match words.peek() {
        Some(Token::SingleQuotedString(gid) | Token::EscapedStringLiteral(gid) | Token::UnicodeStringLiteral(gid)) => {
            gid.clone()
        }
        Some(Token::DollarQuotedString(gid)) => gid.value.clone(),
        // A prepared statement may be called "transaction".
        Some(Token::Word(_) | Token::LParen) if name == PREPARE => return None,
        _ => return Some(Err(words.unexpected())),
    };
    words.next();
    Some(words.expect_end().map(|()| match name {
        PREPARE => Own::PrepareTransaction { gid },
        COMMIT => Own::CommitPrepared { gid },
        _ => Own::RollbackPrepared { gid },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::words::first_word;

    fn parse(text: &str) -> Option<Result<Own, SqlError>> {
        let mut words = Words::of(text)?;
        words.next();
        super::parse(&first_word(text), words)
    }

    #[test]
    fn forms() {
        for (text, name, gid) in [
            ("PREPARE TRANSACTION 'a''b'", PREPARE, "a'b"),
            ("prepare\ttransaction e'x\\ty'", PREPARE, "x\ty"),
            ("COMMIT PREPARED'1_x'", COMMIT, "1_x"),
            ("rollback prepared $$a'b$$", ROLLBACK, "a'b"),
            ("ROLLBACK PREPARED /* which */ 'Ä'", ROLLBACK, "Ä"),
            ("/* a /* b */ */ commit -- c; d\n/**/prepared/**/'x'--", COMMIT, "x"),
        ] {
            let found = parse(text).map(|found| found.map_err(|error| error.to_string()));
            let gid = gid.to_owned();
            let own = match name {
                PREPARE => Own::PrepareTransaction { gid },
                COMMIT => Own::CommitPrepared { gid },
                _ => Own::RollbackPrepared { gid },
            };
            assert_eq!(found, Some(Ok(own)), "{text}");
        }
        for text in [
            "PREPARE transaction AS SELECT 1",
            "PREPARE transaction (int) AS SELECT $1",
            "PREPARE transactions AS SELECT 1",
            "COMMIT",
            "COMMIT AND CHAIN",
            "ROLLBACK TO a",
            "",
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
        for (text, position) in [
            ("PREPARE TRANSACTION", None),
            ("PREPARE TRANSACTION $1", Some(21)),
            ("COMMIT PREPARED x", Some(17)),
            ("COMMIT PREPARED 'x' 'y'", Some(21)),
            ("ROLLBACK PREPARED 7", Some(19)),
        ] {
            let error = parse(text).and_then(Result::err).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((error.sqlstate.as_str(), error.position), ("42601", position), "{text}");
        }
    }
}
