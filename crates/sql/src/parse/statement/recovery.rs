//! `ALTER DATABASE name SET accelerated_database_recovery = on | off`, which changes how the
//! database rolls back and recovers, for good. Both PostgreSQL's spelling and that of SQL
//! Server (`ALTER DATABASE CURRENT SET ACCELERATED_DATABASE_RECOVERY = ON`) are understood.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// Name of the setting.
pub(crate) const SETTING: &str = "accelerated_database_recovery";

/// Reads the statement, whose first two words are taken already.
pub(crate) fn parse(mut words: Words<'_>) -> Result<Own, SqlError> {
    let unsupported = || {
        SqlError::new("0A000", "ALTER DATABASE can only set accelerated_database_recovery")
            .with_hint("ALTER DATABASE postgres SET accelerated_database_recovery = on")
    };
    let bracketed = words.take(&Token::LBracket);
    let (name, exact) = match words.next() {
        Some(Token::Word(word)) => (word.value.clone(), bracketed || word.quote_style.is_some()),
        _ => return Err(unsupported()),
    };
    if bracketed && !words.take(&Token::RBracket) {
        return Err(unsupported());
    }
    if !words.take_words(&["set", SETTING]) {
        return Err(unsupported());
    }
    if !words.take(&Token::Eq) && !words.take_word("to") {
        return Err(words.unexpected());
    }
    let database = Some(name).filter(|name| exact || !name.eq_ignore_ascii_case("current"));
    let value = match words.next() {
        Some(Token::Word(word)) => word.value.to_ascii_lowercase(),
        Some(Token::SingleQuotedString(value)) => value.to_ascii_lowercase(),
        Some(Token::Number(value, _)) => value.clone(),
        _ => return Err(unsupported()),
    };
    // SQL Server's ways of treating what runs: `(PERSISTENT_VERSION_STORE_FILEGROUP = …)` and `WITH …`.
    if words.take(&Token::LParen) {
        return Err(SqlError::new("0A000", "row versions have no file group of their own to be put in")
            .with_hint("The server's setting version_store_path gives them a file of their own."));
    }
    if words.take_word("with") {
        return Err(SqlError::new("0A000", "ALTER DATABASE … SET … WITH is not supported")
            .with_hint("The statement waits for transactions that write; it can be cancelled."));
    }
    words.expect_end()?;
    match value.as_str() {
        "on" | "true" | "yes" | "1" => Ok(Own::SetRecovery { database, accelerated: true }),
        "off" | "false" | "no" | "0" => Ok(Own::SetRecovery { database, accelerated: false }),
        _ => Err(SqlError::new("22023", format!("parameter \"{SETTING}\" requires a Boolean value"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Own, SqlError> {
        let mut words = Words::of(text).unwrap_or_else(|| panic!("{text}"));
        assert!(words.take_words(&["alter", "database"]), "{text}");
        super::parse(words)
    }

    #[test]
    fn spellings() {
        for text in [
            "ALTER DATABASE postgres SET accelerated_database_recovery = off",
            "alter database postgres set accelerated_database_recovery to 'off'",
            "ALTER DATABASE CURRENT SET ACCELERATED_DATABASE_RECOVERY=OFF",
            "ALTER DATABASE [postgres] SET ACCELERATED_DATABASE_RECOVERY = OFF",
            "/* x */ ALTER -- y\n DATABASE/* = */postgres SET accelerated_database_recovery = -- on\n off /* on */",
        ] {
            let database = Some("postgres".to_owned()).filter(|_| !text.contains("CURRENT"));
            assert_eq!(parse(text).ok(), Some(Own::SetRecovery { database, accelerated: false }), "{text}");
        }
        let code = |text: &str| parse(text).err().map(|e| e.sqlstate.clone());
        assert_eq!(code("ALTER DATABASE postgres SET accelerated_database_recovery = 7").as_deref(), Some("22023"));
        for rest in ["WITH ROLLBACK IMMEDIATE", "WITH NO_WAIT", "(PERSISTENT_VERSION_STORE_FILEGROUP = [PRIMARY])"] {
            let text = format!("ALTER DATABASE postgres SET ACCELERATED_DATABASE_RECOVERY = ON {rest}");
            assert_eq!(code(&text).as_deref(), Some("0A000"), "{text}");
        }
        assert_eq!(code("ALTER DATABASE postgres SET accelerated_database_recovery = on x").as_deref(), Some("42601"));
        assert_eq!(code("ALTER DATABASE postgres SET work_mem = 7").as_deref(), Some("0A000"));
        assert_eq!(code("ALTER DATABASE postgres RENAME TO x").as_deref(), Some("0A000"));
    }
}
