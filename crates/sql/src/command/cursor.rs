//! Cursors: DECLARE, FETCH, MOVE and CLOSE.
//!
//! A cursor is a portal of the session, as PostgreSQL has it: FETCH may read one that Bind has made and that was begun, Execute
//! and Describe one that was declared. Its rows are those of the moment of DECLARE, whatever its transaction writes later. It goes
//! forward only.
//!
//! WITH HOLD: its rows are computed by DECLARE and kept in memory, within what a session may keep
//! ([`kept`](crate::session::kept)). PostgreSQL computes them at COMMIT: the same rows. It goes with its transaction if that is
//! rolled back, otherwise with CLOSE or the session.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, Statement};
use datafusion::sql::sqlparser::tokenizer::Token;
use resurgam_engine::StatementKind;

use crate::dml::Around;
use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::plan::statement::{Kind, Prepared, parse_known};
use crate::session::Session;
use crate::session::stream::RowStream;
use crate::wire::{Execution, Format, RowChunk, SqlError, Tag};

/// DECLARE as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declare {
    pub name: String,
    pub binary: bool,
    pub hold: bool,
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

/// How far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Rows(u64),
    All,
    /// Back, or to a place that may be behind: a cursor that only goes forward cannot.
    Back,
    /// FETCH 0: the row where it is.
    Here,
}

/// Reads DECLARE, whose first word is taken.
pub(crate) fn parse_declare(text: &str, mut words: Words<'_>) -> Result<Own, SqlError> {
    let name = words.name()?;
    let (mut binary, mut scroll, mut hold) = (false, false, false);
    loop {
        if words.take_word("binary") {
            binary = true;
            continue;
        }
        if words.take_word("scroll") {
            scroll = true;
            continue;
        }
        // That is how it is in any case.
        let other = words.take_word("insensitive") || words.take_word("asensitive");
        if !other && !words.take_words(&["no", "scroll"]) {
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
    if scroll {
        return Err(SqlError::unsupported("SCROLL cursors are not supported")
            .with_hint("Cursors go forward: leave SCROLL out."));
    }
    let Some(from) = words.position() else { return Err(words.unexpected()) };
    let before = (from as usize).saturating_sub(1);
    let rest: String = text.chars().skip(before).collect();
    let text = format!("{}{}", " ".repeat(before), rest.trim_end().trim_end_matches(';'));
    let mut statements = parse_known(&text)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => {
            Ok(Own::Declare(Box::new(Declare { name, binary, hold, query, text })))
        }
        _ => Err(words.unexpected()),
    }
}

/// Reads FETCH or MOVE, whose first word is taken.
pub(crate) fn parse_fetch(mut words: Words<'_>, is_move: bool) -> Result<Own, SqlError> {
    let count = if words.take_word("next") {
        Count::Rows(1)
    } else if words.take_word("all") {
        Count::All
    } else if words.take_word("forward") {
        match number(&mut words)? {
            Some(count) => rows(count),
            None if words.take_word("all") => Count::All,
            None => Count::Rows(1),
        }
    } else if words.take_word("backward") {
        match number(&mut words)? {
            Some(count) => rows(count.saturating_neg()),
            None => {
                words.take_word("all");
                Count::Back
            }
        }
    } else if ["prior", "first", "last"].into_iter().any(|word| words.take_word(word)) {
        Count::Back
    } else if words.take_word("absolute") || words.take_word("relative") {
        number(&mut words)?.ok_or_else(|| words.unexpected())?;
        Count::Back
    } else {
        match number(&mut words)? {
            Some(count) => rows(count),
            None => Count::Rows(1),
        }
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

fn rows(count: i64) -> Count {
    match u64::try_from(count) {
        Ok(0) => Count::Here,
        Ok(count) => Count::Rows(count),
        Err(_) => Count::Back,
    }
}

/// An integer with its sign, if that is next.
fn number(words: &mut Words<'_>) -> Result<Option<i64>, SqlError> {
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

fn no_such(name: &str) -> SqlError {
    SqlError::new("34000", format!("cursor \"{name}\" does not exist"))
}

impl Session {
    /// The statement that declares a cursor, with its query planned.
    ///
    /// # Errors
    /// As the query deserves.
    pub(crate) fn plan_cursor(
        &mut self,
        declare: &Declare,
        text: &str,
        declared: &[u32],
    ) -> Result<Arc<Prepared>, SqlError> {
        let query = Statement::Query(declare.query.clone());
        let inner = self.plan_known(query, &declare.text, declared)?;
        let mut prepared = Prepared::new(text, Kind::Empty, inner.catalog_version);
        prepared.param_oids = Arc::clone(&inner.param_oids);
        prepared.settings = inner.settings;
        prepared.typed_by_literals = inner.typed_by_literals;
        prepared.bytes = inner.bytes;
        prepared.kind = Kind::Declare { cursor: Box::new(declare.clone()), inner };
        Ok(Arc::new(prepared))
    }

    /// Makes the cursor.
    ///
    /// # Errors
    /// `25P01` outside of a transaction block, `42P03` for a name in use, and the query's.
    pub(crate) async fn declare(
        &mut self,
        cursor: &Declare,
        inner: &Arc<Prepared>,
        values: &[ScalarValue],
        text: &Arc<str>,
    ) -> Result<(), SqlError> {
        if !cursor.hold {
            self.block_for("DECLARE CURSOR")?;
        }
        if self.has_portal(&cursor.name) {
            return Err(SqlError::new("42P03", format!("cursor \"{}\" already exists", cursor.name)));
        }
        if matches!(inner.kind, Kind::Call(_)) {
            let text = "DECLARE CURSOR of a function whose body is more than a query is not supported";
            return Err(SqlError::unsupported(text));
        }
        let Kind::Query(query) = &inner.kind else { return Err(SqlError::internal("a cursor of no query")) };
        if inner.once.any_writes() {
            let text = "DECLARE CURSOR must not contain data-modifying statements in WITH";
            return Err(SqlError::unsupported(text));
        }
        if cursor.hold && !inner.locks.is_empty() {
            return Err(SqlError::unsupported("DECLARE CURSOR WITH HOLD … FOR UPDATE is not supported")
                .with_detail("Holdable cursors must be READ ONLY."));
        }
        self.note_undo(false)?;
        let beside = self.beside(Around::of(inner), values, &inner.text).await?;
        let formats: &[Format] = if cursor.binary { &[Format::Binary] } else { &[] };
        let kind = StatementKind::Cursor;
        let mut active = self.start_plan(inner, query, beside, values, formats, kind).await?;
        let mut kept = Vec::new();
        if cursor.hold {
            let room = self.room();
            active
                .gather(&mut |bytes| {
                    kept.push(room.take(bytes)?);
                    Ok(())
                })
                .await?;
        }
        self.add_cursor(&cursor.name, Arc::clone(inner), formats.to_vec(), active, cursor.hold, kept, text);
        Ok(())
    }

    /// The next rows of a cursor, or their number.
    ///
    /// # Errors
    /// `34000` for a name that is none, `55000` when it cannot go on, and the query's.
    pub(crate) async fn fetch(
        &mut self,
        fetch: &Fetch,
        formats: &[Format],
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        let name = fetch.name.as_str();
        let taken = self.take_rows(name).ok_or_else(|| no_such(name))??;
        let verb = if fetch.is_move { "MOVE" } else { "FETCH" };
        let limit = match fetch.count {
            Count::Rows(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Count::All => usize::MAX,
            Count::Back | Count::Here => {
                if let Some(active) = taken.active {
                    self.suspend(name, active);
                }
                return Err(match fetch.count {
                    Count::Here => SqlError::unsupported(format!("{verb} 0 is not supported")),
                    _ => SqlError::new("55000", "cursor can only scan forward")
                        .with_hint("Declare it with SCROLL option to enable backward scan."),
                });
            }
        };
        let fields = taken.fields;
        let width = fields.len() as i16;
        let empty = || RowChunk { fields: width, ..RowChunk::default() };
        let Some(mut active) = taken.active else {
            // It is at its end.
            self.statement_done(autocommit).await?;
            return Ok(match fetch.is_move {
                true => Execution::Command { tag: Tag::Count(verb, 0) },
                false => Execution::Rows { fields, first: Some(empty()), rows: None, tag: Tag::Count(verb, 0) },
            });
        };
        let formats = if taken.formats.is_empty() { formats } else { taken.formats.as_slice() };
        let (style, deadline) = (self.style(), self.deadline());
        active.shown(formats, &style, deadline)?;
        let (mut count, mut more, mut first) = (0, true, empty());
        while more && count < limit {
            first = empty();
            match active.fill(&self.db, &mut first, limit - count).await {
                Ok(there_is) => more = there_is,
                Err(error) => {
                    self.portal_failed(name);
                    return Err(error);
                }
            }
            count += first.len();
            if !fetch.is_move {
                break;
            }
        }
        let tag = Tag::Count(verb, count as u64);
        if more && count < limit {
            let rows = RowStream {
                active: Some(active),
                portal: Some(name.to_owned()),
                left: limit - count,
                count: count as u64,
                suspended: false,
                autocommit,
                verb,
            };
            return Ok(Execution::Rows { fields, first: Some(first), rows: Some(Box::new(rows)), tag });
        }
        match more {
            true => self.suspend(name, active),
            false => active.finish(),
        }
        self.statement_done(autocommit).await?;
        Ok(match fetch.is_move {
            true => Execution::Command { tag },
            false => Execution::Rows { fields, first: Some(first), rows: None, tag },
        })
    }

    /// Closes a cursor, or all of them.
    ///
    /// # Errors
    /// `34000` for a name that is none.
    pub(crate) fn close_cursor(&mut self, name: Option<&str>) -> Result<Tag, SqlError> {
        let Some(name) = name else {
            self.close_all_portals();
            return Ok(Tag::Fixed("CLOSE CURSOR ALL"));
        };
        if !self.has_portal(name) {
            return Err(no_such(name));
        }
        self.close_portal(name);
        Ok(Tag::Fixed("CLOSE CURSOR"))
    }
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
            ("FETCH -1 FROM c", Count::Back),
            ("FETCH PRIOR FROM c", Count::Back),
            ("FETCH ABSOLUTE 4 FROM c", Count::Back),
            ("FETCH 0 FROM c", Count::Here),
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
