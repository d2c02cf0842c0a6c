//! VACUUM, ANALYZE, and what SQL Server's users call for the same.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// A table that ANALYZE or VACUUM names, and the columns of it that are named.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub table: ObjectName,
    pub columns: Vec<String>,
}

/// VACUUM in all its forms, whose first word is taken already: the sweep is always one of the
/// whole database.
///
/// # Errors
/// `42601`; `0A000` for columns without ANALYZE.
pub(crate) fn parse_vacuum(mut words: Words<'_>) -> Result<Own, SqlError> {
    const OPTIONS: [&str; 10] = [
        "full",
        "freeze",
        "verbose",
        "analyze",
        "disable_page_skipping",
        "skip_locked",
        "index_cleanup",
        "process_toast",
        "truncate",
        "parallel",
    ];
    let Wanted { mut verbose, mut analyze, truncate } = options(&mut words, "VACUUM", &OPTIONS)?;
    while let Some(word) = ["full", "freeze", "verbose", "analyze"].into_iter().find(|word| words.take_word(word)) {
        verbose |= word == "verbose";
        analyze |= word == "analyze";
    }
    let tables = tables(&mut words)?;
    if !analyze && tables.iter().any(|named| !named.columns.is_empty()) {
        return Err(SqlError::unsupported("ANALYZE option must be specified when a column list is provided"));
    }
    Ok(Own::Vacuum { verbose, analyze, truncate, tables })
}

/// ANALYZE, whose first word is taken already.
///
/// # Errors
/// `42601`
pub(crate) fn parse_analyze(mut words: Words<'_>) -> Result<Own, SqlError> {
    let Wanted { mut verbose, .. } = options(&mut words, "ANALYZE", &["verbose", "skip_locked"])?;
    verbose |= words.take_word("verbose");
    Ok(Own::Analyze { verbose, tables: tables(&mut words)? })
}

/// What options say.
pub(crate) struct Wanted {
    pub verbose: bool,
    pub analyze: bool,
    /// Free space goes back to the file system.
    pub truncate: bool,
}

/// Options in parentheses, if there are any.
pub(crate) fn options(words: &mut Words<'_>, statement: &str, known: &[&str]) -> Result<Wanted, SqlError> {
    let mut wanted = Wanted { verbose: false, analyze: false, truncate: true };
    if !words.take(&Token::LParen) {
        return Ok(wanted);
    }
    loop {
        let name = words.name()?;
        if !known.contains(&name.as_str()) {
            return Err(SqlError::syntax(format!("unrecognized {statement} option \"{name}\"")));
        }
        let is_end = |words: &Words<'_>| matches!(words.peek(), Some(Token::Comma | Token::RParen) | None);
        let value = if is_end(words) { None } else { words.next().map(|token| token.to_string().to_ascii_lowercase()) };
        let is_on = !value.is_some_and(|value| ["false", "off", "0"].contains(&value.as_str()));
        match name.as_str() {
            "verbose" => wanted.verbose = is_on,
            "analyze" => wanted.analyze = is_on,
            "truncate" => wanted.truncate = is_on,
            _ => {}
        }
        if words.take(&Token::RParen) {
            return Ok(wanted);
        }
        if !words.take(&Token::Comma) {
            return Err(words.unexpected());
        }
    }
}

/// Tables, each perhaps with columns, to the end.
pub(crate) fn tables(words: &mut Words<'_>) -> Result<Vec<Named>, SqlError> {
    let mut tables = Vec::new();
    if words.is_at_end() {
        return Ok(tables);
    }
    loop {
        let mut parts = vec![Ident::with_quote('"', words.name()?)];
        while words.take(&Token::Period) {
            parts.push(Ident::with_quote('"', words.name()?));
        }
        let mut named = Named { table: ObjectName::from(parts), columns: Vec::new() };
        if words.take(&Token::LParen) {
            named.columns.push(words.name()?);
            while words.take(&Token::Comma) {
                named.columns.push(words.name()?);
            }
            if !words.take(&Token::RParen) {
                return Err(words.unexpected());
            }
        }
        tables.push(named);
        if !words.take(&Token::Comma) {
            return words.expect_end().map(|()| tables);
        }
    }
}

/// A call of SQL Server's procedure, whose first word is taken already; `None` if it calls
/// something else.
///
/// ```text
/// EXEC sys.sp_persistent_version_cleanup [ [@dbname =] [N]'postgres' | [postgres] ]
/// CALL sys.sp_persistent_version_cleanup( ['postgres'] )
/// ```
pub(crate) fn parse_call(first: &str, mut words: Words<'_>) -> Option<Result<Own, SqlError>> {
    let mut name = identifier(&mut words)?;
    if name.eq_ignore_ascii_case("sys") && words.take(&Token::Period) {
        name = identifier(&mut words)?;
    }
    if !name.eq_ignore_ascii_case("sp_persistent_version_cleanup") {
        return None;
    }
    Some(arguments(first, words).map(|database| Own::CleanupProcedure { database }))
}

/// What stands behind the procedure's name.
pub(crate) fn arguments(first: &str, mut words: Words<'_>) -> Result<Option<String>, SqlError> {
    let parentheses = first == "call";
    if parentheses && !words.take(&Token::LParen) {
        return Err(SqlError::syntax("CALL needs parentheses behind the procedure's name"));
    }
    let others = || SqlError::unsupported("sp_persistent_version_cleanup takes the name of the database only");
    if words.take(&Token::AtSign) && !(words.take_word("dbname") && words.take(&Token::Eq)) {
        return Err(others());
    }
    let is_end = |words: &Words<'_>| words.is_at_end() || parentheses && words.peek() == Some(&Token::RParen);
    let given = match words.peek() {
        _ if is_end(&words) => None,
        Some(Token::SingleQuotedString(text) | Token::NationalStringLiteral(text)) => {
            let text = text.clone();
            words.next();
            Some(text)
        }
        _ => match identifier(&mut words) {
            Some(name) => Some(name),
            None => return Err(words.unexpected()),
        },
    };
    if !is_end(&words) {
        return Err(others());
    }
    if parentheses && !words.take(&Token::RParen) {
        return Err(words.unexpected());
    }
    words.expect_end()?;
    Ok(given)
}

/// A name as SQL Server writes it: plain, in double quotes, or in brackets.
pub(crate) fn identifier(words: &mut Words<'_>) -> Option<String> {
    let bracketed = words.take(&Token::LBracket);
    let Some(Token::Word(word)) = words.peek() else { return None };
    let name = word.value.clone();
    words.next();
    (!bracketed || words.take(&Token::RBracket)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::words::first_word;

    fn parse_call(text: &str) -> Option<Result<Own, SqlError>> {
        let mut words = Words::of(text)?;
        words.next();
        super::parse_call(&first_word(text), words)
    }

    #[test]
    fn calls() {
        for text in [
            "EXEC sys.sp_persistent_version_cleanup",
            "exec [sys].[sp_persistent_version_cleanup] [postgres]",
            "EXECUTE sp_persistent_version_cleanup N'postgres'",
            "EXEC sys.sp_persistent_version_cleanup @dbname = N'postgres'",
            "CALL sys.sp_persistent_version_cleanup()",
            "call sys.sp_persistent_version_cleanup('postgres')",
            "exec/*x*/sys . /* other */ sp_persistent_version_cleanup -- 'other'\n [postgres] -- , 1",
        ] {
            let found = parse_call(text).and_then(Result::ok);
            let named = text.contains("postgres").then(|| "postgres".to_owned());
            assert_eq!(found, Some(Own::CleanupProcedure { database: named }), "{text}");
        }
        let code = |text| parse_call(text).and_then(Result::err).map(|error| error.into_fields().sqlstate);
        assert_eq!(code("EXEC sys.sp_persistent_version_cleanup 'postgres', 1").as_deref(), Some("0A000"));
        assert_eq!(code("EXEC sys.sp_persistent_version_cleanup @scanallpages = 1").as_deref(), Some("0A000"));
        assert_eq!(code("CALL sys.sp_persistent_version_cleanup").as_deref(), Some("42601"));
        assert!(parse_call("EXECUTE p(1)").is_none());
        assert!(parse_call("EXEC sp_who").is_none());
    }

    #[test]
    fn space_goes_back_unless_it_is_said_not_to() {
        let truncates = |text: &str| {
            let mut words = Words::of(text)?;
            words.next();
            match parse_vacuum(words) {
                Ok(Own::Vacuum { truncate, .. }) => Some(truncate),
                _ => None,
            }
        };
        assert_eq!(truncates("vacuum"), Some(true));
        assert_eq!(truncates("vacuum (truncate) t"), Some(true));
        assert_eq!(truncates("vacuum (verbose, truncate false)"), Some(false));
    }

    #[test]
    fn vacuums() {
        let parse = |text: &str| {
            let mut words = Words::of(text)?;
            words.next();
            match parse_vacuum(words) {
                Ok(Own::Vacuum { verbose, analyze, .. }) => Some((verbose, analyze)),
                _ => None,
            }
        };
        assert_eq!(parse("vacuum (analyze, Verbose) t"), Some((true, true)));
        assert_eq!(parse("vacuum freeze /**/ verbose analyze t, public.u (a)"), Some((true, true)));
        assert_eq!(parse("VACUUM FULL t"), Some((false, false)));
        assert_eq!(parse("VACUUM -- verbose"), Some((false, false)));
        assert_eq!(parse("VACUUM (verbose off) /* verbose */ \"verbose\""), Some((false, false)));
        assert_eq!(parse("VACUUM (analyze false) t"), Some((false, false)));
        assert_eq!(parse("VACUUM t (a)"), None);
        assert_eq!(parse("VACUUM 7"), None);
        assert_eq!(parse("VACUUM (verbose"), None);
    }
}
