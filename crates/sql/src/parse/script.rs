//! Strings of several statements, some of which the parser does not know.
//!
//! The parser reads the whole string, with `SHOW x` in the place of each statement that is
//! ours, as wide as that was; then ours are put back. So positions in errors and in plans stay
//! those of the string that the client sent.

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::tokenizer::{Location, Token};

use crate::parse::lexer::is_single;
use crate::parse::own::{self, Parsed, SPECIAL};
use crate::parse::words::separators;
use crate::wire::SqlError;

/// First words of the statements that [`own::parse`] may know.
fn first_words() -> impl Iterator<Item = &'static str> {
    SPECIAL.iter().copied()
}

/// A statement of a string, in characters.
struct Part {
    from: usize,
    to: usize,
}

/// Counts characters up to places given as line and column, in ascending order.
struct Counter<'a> {
    rest: std::str::Chars<'a>,
    index: usize,
    at: Location,
}

impl Counter<'_> {
    fn index_of(&mut self, place: Location) -> usize {
        while (self.at.line, self.at.column) < (place.line, place.column) {
            match self.rest.next() {
                Some('\n') => self.at = Location { line: self.at.line + 1, column: 1 },
                Some(_) => self.at.column += 1,
                None => break,
            }
            self.index += 1;
        }
        self.index
    }
}

/// The statements between semicolons, without empty ones, and their first words.
fn parts(text: &str) -> Option<Vec<(Part, String)>> {
    let tokens = crate::pg::lexer::tokens(text).ok()?;
    let mut counter = Counter { rest: text.chars(), index: 0, at: Location { line: 1, column: 1 } };
    let mut out = Vec::new();
    let mut open: Option<(Part, String)> = None;
    let mut separators = separators(tokens.iter().map(|token| &token.token)).into_iter().peekable();
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::Whitespace(_) | Token::EOF => {}
            Token::SemiColon if separators.next_if_eq(&at).is_some() => out.extend(open.take()),
            other => {
                let from = counter.index_of(token.span.start);
                let to = counter.index_of(token.span.end);
                let (part, _) = open.get_or_insert_with(|| {
                    let word = match other {
                        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
                        _ => String::new(),
                    };
                    (Part { from, to }, word)
                });
                part.to = to;
            }
        }
    }
    out.extend(open);
    Some(out)
}

/// The statements of a string that has one of ours among several, or one of ours behind a
/// comment; `None` leaves the string to the parser. `parser` reads what is the parser's.
pub(crate) fn parse(
    text: &str,
    parser: impl Fn(&str) -> Result<Vec<Statement>, SqlError>,
) -> Option<Result<Vec<Parsed>, SqlError>> {
    // Most texts need no second look.
    let start = text.trim_start();
    if is_single(text) && !start.starts_with("--") && !start.starts_with("/*") {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    if !first_words().any(|word| lower.contains(word)) {
        return None;
    }
    let parts = parts(text)?;
    let may_be_ours = |word: &str| first_words().any(|first| first == word);
    if !parts.iter().any(|(_, word)| may_be_ours(word)) {
        return None;
    }
    let chars: Vec<char> = text.chars().collect();
    let mut shown = chars.clone();
    let mut ours = Vec::new();
    for (at, (part, word)) in parts.iter().enumerate() {
        if !may_be_ours(word) {
            continue;
        }
        let own: String = chars[part.from..part.to].iter().collect();
        // Behind COPY FROM STDIN the parser takes the rest of the string for its data.
        let alone = || {
            let data = word == "copy" && own.to_ascii_lowercase().contains("stdin");
            data.then(|| parser(&own).map(|mut all| all.pop().map(Parsed::Known)))
        };
        match own::parse(&own).map(|found| found.map(Some)).or_else(alone) {
            None => continue,
            Some(Err(mut error)) => {
                error.position = error.position.map(|position| position + part.from as u32);
                return Some(Err(error));
            }
            Some(Ok(statement)) => ours.push((at, statement?)),
        }
        let place = &mut shown[part.from..part.to];
        place.iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
        place.iter_mut().zip("SHOW".chars()).for_each(|(to, c)| *to = c);
        *place.last_mut()? = 'x';
    }
    if ours.is_empty() {
        return None;
    }
    Some(parser(&shown.into_iter().collect::<String>()).and_then(|statements| {
        if statements.len() != parts.len() {
            return Err(SqlError::internal("the statements of a string were miscounted"));
        }
        let mut statements: Vec<_> = statements.into_iter().map(Parsed::Known).collect();
        for (at, statement) in ours {
            statements[at] = statement;
        }
        Ok(statements)
    }))
}

#[cfg(test)]
mod tests {
    use crate::parse::own::Own;
    use crate::parse::read;

    #[test]
    fn ours_are_found_among_others() {
        let names = |text: &str| {
            let statements = read::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            statements.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let vacuum =
            format!("{:?}", Own::Vacuum { verbose: false, analyze: false, truncate: true, tables: Vec::new() });
        assert_eq!(names("begin; vacuum"), ["BEGIN".to_owned(), vacuum.clone()]);
        assert_eq!(names("/* x; */ vacuum ; ; select ';'")[0], vacuum);
        assert_eq!(names("/* x; */ vacuum ; ; select ';'").len(), 2);
        assert_eq!(names("begin;\n-- vacuum;\nselect 'vacuum; x'; commit").len(), 3);
        assert_eq!(names("begin; prepare transaction 'a;b'; commit prepared 'a;b'").len(), 3);
        assert_eq!(names("prepare p as select 1; execute p; commit; rollback").len(), 4);
        assert_eq!(names("begin; copy t from stdin; commit").len(), 3, "not its data");
        assert_eq!(names("copy t from stdin; vacuum").len(), 2);
        assert_eq!(names("copy t from stdin").len(), 1);
    }

    #[test]
    fn nothing_is_dropped_or_changed_unasked() {
        assert!(read::parse("insert into t values (1) end; delete from t").is_err());
        let text = |text: &str| read::parse(text).map(|all| format!("{all:?}")).unwrap_or_default();
        assert!(text("copy a to stdout; insert into t values ('freeze on')").contains("freeze on"));
        assert!(text("copy (select * from t where a = 'freeze on') to stdout").contains("freeze on"));
        assert!(!text("copy t from stdin with (freeze on)").is_empty(), "as pgbench has it");
        // Once it took a level of recursion each.
        assert!(read::parse(&format!("copy {}", "freeze on ".repeat(5000))).is_err());
    }

    #[test]
    fn positions_are_those_of_the_string() {
        let position = |text: &str| read::parse(text).expect_err(text).position;
        assert_eq!(position("vacuum;\nvacuum; selec 1"), Some(17));
        assert!(position("ä; vacuum").is_some());
        assert_eq!(position("select 1; commit prepared 17"), Some(27));
        assert_eq!(position("commit prepared 17; select 1"), Some(17));
    }
}
