//! DECLARE, FETCH, MOVE and CLOSE.

use datafusion::sql::sqlparser::ast::{self, Statement};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::own::Own;
use crate::parse::read::parse_known;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// How far FETCH and MOVE go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// So many rows, backward if it is negative; 0: the row where it is.
    Rows(i64),
    All,
    AllBackward,
    /// To that row, from the end if it is negative.
    Absolute(i64),
    /// To the row that is so far away.
    Relative(i64),
}

/// DECLARE as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declare {
    pub name: String,
    pub binary: bool,
    pub hold: bool,
    pub scroll: bool,
    /// It said INSENSITIVE, which all are.
    pub insensitive: bool,
    pub query: Box<ast::Query>,
    /// The query, with blanks in the place of all before it: positions stay those of the statement.
    pub text: String,
}

/// FETCH or MOVE as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub name: String,
    pub count: Count,
    pub is_move: bool,
}

/// Reads DECLARE, whose first word is taken.
pub(crate) fn parse_declare(text: &str, mut words: Words<'_>) -> Result<Own, SqlError> {
    let name = words.name()?;
    let (mut binary, mut hold) = (false, false);
    let (mut scroll, mut no_scroll, mut insensitive, mut asensitive) = (false, false, false, false);
    loop {
        if words.take_word("binary") {
            binary = true;
        } else if words.take_word("scroll") {
            scroll = true;
        } else if words.take_words(&["no", "scroll"]) {
            no_scroll = true;
        } else if words.take_word("insensitive") {
            insensitive = true;
        } else if words.take_word("asensitive") {
            asensitive = true;
        } else {
            break;
        }
    }
    if !words.take_word("cursor") {
        return Err(words.unexpected());
    }
    if words.take_words(&["with", "hold"]) {
        hold = true;
    } else {
        words.take_words(&["without", "hold"]);
    }
    if !words.take_word("for") {
        return Err(words.unexpected());
    }
    if scroll && no_scroll {
        return Err(SqlError::new("42P11", "cannot specify both SCROLL and NO SCROLL"));
    }
    if insensitive && asensitive {
        return Err(SqlError::new("42P11", "cannot specify both INSENSITIVE and ASENSITIVE"));
    }
    let Some(from) = words.position() else { return Err(words.unexpected()) };
    let before = (from as usize).saturating_sub(1);
    let rest: String = text.chars().skip(before).collect();
    let text = format!("{}{}", " ".repeat(before), rest.trim_end().trim_end_matches(';'));
    let mut statements = parse_known(&text)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => {
            Ok(Own::Declare(Box::new(Declare { name, binary, hold, scroll, insensitive, query, text })))
        }
        _ => Err(words.unexpected()),
    }
}

/// Reads FETCH or MOVE, whose first word is taken.
pub(crate) fn parse_fetch(mut words: Words<'_>, is_move: bool) -> Result<Own, SqlError> {
    let count = if words.take_word("next") {
        Count::Rows(1)
    } else if words.take_word("prior") {
        Count::Rows(-1)
    } else if words.take_word("first") {
        Count::Absolute(1)
    } else if words.take_word("last") {
        Count::Absolute(-1)
    } else if words.take_word("all") {
        Count::All
    } else if words.take_word("forward") {
        match number(&mut words)? {
            Some(count) => Count::Rows(count),
            None if words.take_word("all") => Count::All,
            None => Count::Rows(1),
        }
    } else if words.take_word("backward") {
        match number(&mut words)? {
            Some(count) => Count::Rows(-count),
            None if words.take_word("all") => Count::AllBackward,
            None => Count::Rows(-1),
        }
    } else if words.take_word("absolute") {
        Count::Absolute(number(&mut words)?.ok_or_else(|| words.unexpected())?)
    } else if words.take_word("relative") {
        Count::Relative(number(&mut words)?.ok_or_else(|| words.unexpected())?)
    } else {
        Count::Rows(number(&mut words)?.unwrap_or(1))
    };
    if !words.take_word("from") {
        words.take_word("in");
    }
    let name = words.name()?;
    words.expect_end()?;
    Ok(Own::Fetch(Fetch { name, count, is_move }))
}

/// Reads CLOSE, whose first word is taken.
pub(crate) fn parse_close(mut words: Words<'_>) -> Result<Own, SqlError> {
    let name = match words.take_word("all") {
        true => None,
        false => Some(words.name()?),
    };
    words.expect_end()?;
    Ok(Own::Close(name))
}

/// An integer with its sign, if that is next.
pub(crate) fn number(words: &mut Words<'_>) -> Result<Option<i64>, SqlError> {
    let negative = words.take(&Token::Minus);
    let signed = negative || words.take(&Token::Plus);
    let value = match words.peek() {
        Some(Token::Number(digits, _)) => digits.parse::<i32>().ok(),
        _ if !signed => return Ok(None),
        _ => None,
    };
    let value = i64::from(value.ok_or_else(|| words.unexpected())?);
    words.next();
    Ok(Some(if negative { -value } else { value }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::own::{Parsed, parse};

    fn fetch(text: &str) -> Option<(String, Count, bool)> {
        match parse(text)? {
            Ok(Parsed::Own(Own::Fetch(Fetch { name, count, is_move }))) => Some((name, count, is_move)),
            _ => None,
        }
    }

    #[test]
    fn how_far() {
        for (text, count) in [
            ("FETCH c", Count::Rows(1)),
            ("fetch next from c", Count::Rows(1)),
            ("FETCH FORWARD 100 FROM \"c\"", Count::Rows(100)),
            ("FETCH 7 IN c;", Count::Rows(7)),
            ("FETCH ALL FROM c", Count::All),
            ("FETCH FORWARD ALL c", Count::All),
            ("FETCH FORWARD c", Count::Rows(1)),
            ("FETCH BACKWARD -3 c", Count::Rows(3)),
            ("FETCH BACKWARD c", Count::Rows(-1)),
            ("FETCH BACKWARD ALL IN c", Count::AllBackward),
            ("FETCH -1 FROM c", Count::Rows(-1)),
            ("FETCH PRIOR FROM c", Count::Rows(-1)),
            ("FETCH FIRST c", Count::Absolute(1)),
            ("FETCH LAST FROM c", Count::Absolute(-1)),
            ("FETCH ABSOLUTE 4 FROM c", Count::Absolute(4)),
            ("FETCH RELATIVE -4 FROM c", Count::Relative(-4)),
            ("FETCH 0 FROM c", Count::Rows(0)),
        ] {
            assert_eq!(fetch(text), Some(("c".to_owned(), count, false)), "{text}");
        }
        assert_eq!(fetch("MOVE 2 C"), Some(("c".to_owned(), Count::Rows(2), true)));
        for text in ["FETCH", "FETCH 3", "FETCH 1.5 FROM c", "FETCH - FROM c", "FETCH c d", "MOVE FORWARD"] {
            assert_eq!(fetch(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_declared() {
        let text = "declare \"A b\" binary no scroll cursor with hold for\n select 1 as x ;";
        let Some(Ok(Parsed::Own(Own::Declare(found)))) = parse(text) else { panic!("not read") };
        assert_eq!((found.name.as_str(), found.binary, found.hold), ("A b", true, true));
        assert_eq!(found.text.trim(), "select 1 as x");
        assert_eq!(found.text.find("select"), text.find("select"));
        for bad in
            ["DECLARE c CURSOR", "DECLARE c FOR SELECT 1", "DECLARE c CURSOR FOR DELETE FROM t", "DECLARE c CURSOR FOR"]
        {
            assert!(matches!(parse(bad), Some(Err(_))), "{bad}");
        }
    }
}
