//! Cursors: DECLARE, FETCH, MOVE and CLOSE.
//!
//! A cursor is a portal of the session, as PostgreSQL has it: FETCH may read one that Bind has made and that was begun, Execute
//! and Describe one that was declared. Its rows are those of the moment of DECLARE, whatever its transaction writes later. It goes
//! forward only, unless it is declared SCROLL: then the rows that it has read are kept ([`scroll`](crate::session::scroll)).
//! (PostgreSQL lets others go back, too, if their plans can by chance.)
//!
//! WITH HOLD: its rows are computed by DECLARE and kept likewise. PostgreSQL computes them at COMMIT: the same rows. It goes with
//! its transaction if that is rolled back, otherwise with CLOSE or the session.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::Statement;
use resurgam_engine::StatementKind;

use crate::dml::Around;
use crate::exec::memory;
use crate::parse::statement::cursor::{Count, Declare, Fetch};
use crate::plan::statement::{Kind, Prepared};
use crate::session::Session;
use crate::session::portals::{Fetched, NewCursor, TakenRows};
use crate::session::scroll::Scroll;
use crate::session::stream::{ActiveRows, FETCH, RowStream};
use crate::wire::{Execution, Field, Format, RowChunk, SqlError, Tag};

/// Whether FETCH gives the row that the cursor is on.
fn is_here(count: Count) -> bool {
    matches!(count, Count::Rows(0) | Count::Relative(0))
}

/// The columns of a query.
fn shown_schema(prepared: &Prepared) -> Result<Schema, SqlError> {
    match &prepared.kind {
        Kind::Query(query) => Ok(query.schema.as_ref().clone()),
        _ => Err(SqlError::internal("a cursor of no query")),
    }
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
        let inner = self.plan_query_of_cursor(query, &declare.text, declared)?;
        let mut prepared = Prepared::new(text, Kind::Empty, inner.catalog_version);
        prepared.param_oids = Arc::clone(&inner.param_oids);
        prepared.domains = inner.domains.clone();
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
            self.block_or_string_for("DECLARE CURSOR")?;
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
        if !inner.locks.is_empty() {
            let unsupported = |text, detail: &str| Err(SqlError::unsupported(text).with_detail(detail));
            if cursor.hold {
                let text = "DECLARE CURSOR WITH HOLD … FOR UPDATE is not supported";
                return unsupported(text, "Holdable cursors must be READ ONLY.");
            }
            if cursor.scroll {
                let text = "DECLARE SCROLL CURSOR … FOR UPDATE is not supported";
                return unsupported(text, "Scrollable cursors must be READ ONLY.");
            }
            if cursor.insensitive {
                return Err(SqlError::new("42P11", "DECLARE INSENSITIVE CURSOR … FOR UPDATE is not valid")
                    .with_detail("Insensitive cursors must be READ ONLY."));
            }
        }
        self.note_undo(false)?;
        let beside = self.beside(Around::of(inner), values, &inner.text).await?;
        let formats: &[Format] = if cursor.binary { &[Format::Binary] } else { &[] };
        let kind = StatementKind::Cursor;
        let mut active = self.start_plan(inner, query, beside, values, formats, kind).await?;
        let (mut scroll, view) = (None, active.view());
        if cursor.hold || cursor.scroll {
            let runtime = memory::statement(self.state()?.runtime_env(), &self.shared.stop.limits);
            scroll = Some(Box::new(Scroll::new(active.schema(), self.room(), runtime)));
        }
        let active = match &mut scroll {
            Some(kept) if cursor.hold => {
                active.keep(kept, u64::MAX).await?;
                // It reads nothing any more: its plan may serve others, and its transaction may end.
                active.finish();
                None
            }
            _ => Some(active),
        };
        self.add_cursor(NewCursor {
            name: &cursor.name,
            text,
            prepared: Arc::clone(inner),
            formats: formats.to_vec(),
            active,
            scroll,
            hold: cursor.hold,
            is_scrollable: cursor.scroll,
            view,
        });
        Ok(())
    }

    /// Takes the rows of a cursor, and says how many of them are passed over and given at most if it only goes forward.
    fn begin_fetch(&mut self, fetch: &Fetch) -> Result<(TakenRows, u64, u64), SqlError> {
        let name = fetch.name.as_str();
        let taken = self.take_rows(name).ok_or_else(|| no_such(name))??;
        let onward = if taken.is_scrollable { Some((0, 0)) } else { taken.place.onward(fetch.count) };
        let Some((over, limit)) = onward.or_else(|| (is_here(fetch.count) && fetch.is_move).then_some((0, 0))) else {
            self.portal_failed(name);
            return Err(SqlError::new("55000", "cursor can only scan forward")
                .with_hint("Declare it with SCROLL option to enable backward scan."));
        };
        Ok((taken, over, limit))
    }

    /// FETCH whose rows go to the client in several executions of `portal`: as in PostgreSQL it is done with the first one, and
    /// its rows are kept.
    ///
    /// # Errors
    /// As those of [`Session::fetch`].
    pub(crate) async fn fetch_in_parts(
        &mut self,
        fetch: &Fetch,
        formats: &[Format],
        max_rows: usize,
        portal: String,
    ) -> Result<Execution, SqlError> {
        let name = fetch.name.as_str();
        let (taken, over, limit) = self.begin_fetch(fetch)?;
        let TakenRows { formats: own, active, mut place, scroll, prepared, .. } = taken;
        let formats = if own.is_empty() { formats.to_vec() } else { own };
        let (style, deadline) = (self.style(), self.deadline());
        let runtime = memory::statement(self.state()?.runtime_env(), &self.shared.stop.limits);
        let (room, stop) = (self.room(), Arc::clone(&self.shared.stop));
        let done = match scroll {
            Some(mut scroll) => {
                let mut active = active;
                let kept = async {
                    if let Some(mut source) = active.take() {
                        source.shown(&formats, &style, deadline)?;
                        match source.keep(&mut scroll, place.needs(fetch.count)).await? {
                            true => active = Some(source),
                            false => source.finish(),
                        }
                    }
                    let step = place.step(fetch.count, scroll.rows());
                    let stream = scroll.read(step.rows, step.backward);
                    let mut rows =
                        ActiveRows::of_kept(stream, Arc::clone(&prepared), &formats, &style, stop, deadline)?;
                    let mut kept = Scroll::new(rows.schema(), room, runtime);
                    rows.keep(&mut kept, u64::MAX).await?;
                    place = step.place;
                    Ok(kept)
                }
                .await;
                self.put_rows(name, active, Some(scroll), place);
                kept
            }
            None => {
                let mut active = active.filter(|_| !place.ended);
                let schema = match &active {
                    Some(active) => active.shown_schema(),
                    None => Arc::new(shown_schema(&prepared)?),
                };
                let mut kept = Scroll::new(schema, room, runtime);
                let read = async {
                    let Some(source) = &mut active else { return Ok((0, false)) };
                    source.shown(&formats, &style, deadline)?;
                    let (passed, more) = source.keep_next(None, over).await?;
                    let (count, more) = if more { source.keep_next(Some(&mut kept), limit).await? } else { (0, false) };
                    Ok((passed + count, more))
                }
                .await;
                match read {
                    Ok((rows, more)) => {
                        place.row += rows;
                        if let Some(ended) = active.take_if(|_| !more) {
                            ended.finish();
                        }
                        self.put_rows(name, active, None, place);
                        self.advance(name, 0, !more);
                        Ok(kept)
                    }
                    Err(error) => Err(error),
                }
            }
        };
        match done {
            Ok(kept) => {
                let fetched = Fetched { rows: Box::new(kept), given: 0, formats };
                self.put_fetched(&portal, fetched);
                self.rest_of_fetch(&portal, max_rows).await
            }
            Err(error) => {
                self.portal_failed(name);
                Err(error)
            }
        }
    }

    /// The next rows of a FETCH that is done.
    ///
    /// # Errors
    /// Those of reading what is kept.
    pub(crate) async fn rest_of_fetch(&mut self, portal: &str, max_rows: usize) -> Result<Execution, SqlError> {
        let (prepared, mut fetched) = self.take_fetched(portal)?;
        let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
        let (from, total) = (fetched.given, fetched.rows.rows());
        let wanted = if max_rows == 0 { u64::MAX } else { max_rows as u64 };
        let to = from.saturating_add(wanted).min(total);
        // As PostgreSQL has it, also if that was the last row.
        let suspends = to - from == wanted;
        fetched.given = to;
        let stream = fetched.rows.read(from..to, false);
        let (stop, style, deadline) = (Arc::clone(&self.shared.stop), self.style(), self.deadline());
        let rows = ActiveRows::of_kept(stream, prepared, &fetched.formats, &style, stop, deadline);
        self.put_fetched(portal, fetched);
        let (mut rows, mut first) = (rows?, RowChunk { fields: fields.len() as i16, ..RowChunk::default() });
        let more = rows.fill(&self.db, &mut first, usize::MAX).await?;
        let tag = Tag::Count(FETCH, to - from);
        if !more && !suspends {
            return self.fetched(false, false, fields, first, tag).await;
        }
        let rows = RowStream {
            active: Some(rows),
            portal: None,
            left: if suspends { max_rows - first.len() } else { usize::MAX },
            count: first.len() as u64,
            suspended: false,
            autocommit: false,
            verb: FETCH,
            of_fetch: true,
            call: None,
        };
        Ok(Execution::Rows { fields, first: Some(first), rows: Some(Box::new(rows)), tag })
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
        let (taken, over, limit) = self.begin_fetch(fetch)?;
        let verb = if fetch.is_move { "MOVE" } else { FETCH };
        let place = taken.place;
        let is_here = is_here(fetch.count);
        if taken.scroll.is_some() {
            return self.fetch_kept(fetch, taken, formats, autocommit, verb).await;
        }
        let fields = taken.fields;
        let width = fields.len() as i16;
        let empty = || RowChunk { fields: width, ..RowChunk::default() };
        let Some(mut active) = taken.active.filter(|_| !place.ended) else {
            // It is at its end.
            return self.fetched(autocommit, fetch.is_move, fields, empty(), Tag::Count(verb, 0)).await;
        };
        let formats = if taken.formats.is_empty() { formats } else { taken.formats.as_slice() };
        let (style, deadline) = (self.style(), self.deadline());
        active.shown(formats, &style, deadline)?;
        let (mut passed, mut count, mut more, mut first) = (0, 0, true, empty());
        while more && (passed < over || count < limit) {
            first = empty();
            let passes = passed < over;
            let wanted = if passes { over - passed } else { limit - count };
            match active.fill(&self.db, &mut first, usize::try_from(wanted).unwrap_or(usize::MAX)).await {
                Ok(there_is) => more = there_is,
                Err(error) => {
                    self.portal_failed(name);
                    return Err(error);
                }
            }
            if passes {
                passed += first.len() as u64;
                first = empty();
                continue;
            }
            count += first.len() as u64;
            if !fetch.is_move {
                break;
            }
        }
        self.advance(name, passed, false);
        if is_here && fetch.is_move {
            count = u64::from(place.row > 0);
        }
        if more && count < limit && !fetch.is_move {
            let rows = RowStream {
                active: Some(active),
                portal: Some(name.to_owned()),
                left: usize::try_from(limit - count).unwrap_or(usize::MAX),
                count,
                suspended: false,
                autocommit,
                verb,
                of_fetch: false,
                call: None,
            };
            let (rows, tag) = (Some(Box::new(rows)), Tag::Count(verb, count));
            return Ok(Execution::Rows { fields, first: Some(first), rows, tag });
        }
        self.advance(name, if limit > 0 { count } else { 0 }, !more);
        match more {
            true => self.suspend(name, active),
            false => active.finish(),
        }
        self.fetched(autocommit, fetch.is_move, fields, first, Tag::Count(verb, count)).await
    }

    /// Rows of a cursor that keeps them. `verb`: that of the tag; but for FETCH and MOVE it is suspended until it is at its end.
    pub(crate) async fn fetch_kept(
        &mut self,
        fetch: &Fetch,
        taken: TakenRows,
        formats: &[Format],
        autocommit: bool,
        verb: &'static str,
    ) -> Result<Execution, SqlError> {
        let name = fetch.name.as_str();
        let TakenRows { fields, formats: own, mut active, place, scroll, prepared, .. } = taken;
        let mut scroll = scroll.ok_or_else(|| SqlError::internal("a cursor that keeps no rows"))?;
        let formats = if own.is_empty() { formats } else { own.as_slice() };
        let (style, deadline) = (self.style(), self.deadline());
        if let Some(mut source) = active.take() {
            source.shown(formats, &style, deadline)?;
            match source.keep(&mut scroll, place.needs(fetch.count)).await {
                Ok(true) => active = Some(source),
                Ok(false) => source.finish(),
                Err(error) => {
                    self.portal_failed(name);
                    return Err(error);
                }
            }
        }
        let step = place.step(fetch.count, scroll.rows());
        let count = step.rows.end - step.rows.start;
        let empty = RowChunk { fields: fields.len() as i16, ..RowChunk::default() };
        if fetch.is_move || count == 0 {
            self.put_rows(name, active, Some(scroll), step.place);
            return self.fetched(autocommit, fetch.is_move, fields, empty, Tag::Count(verb, count)).await;
        }
        let stop = Arc::clone(&self.shared.stop);
        let stream = scroll.read(step.rows, step.backward);
        let mut rows = ActiveRows::of_kept(stream, prepared, formats, &style, stop, deadline)?;
        self.put_rows(name, active, Some(scroll), step.place);
        let mut first = empty;
        let more = rows.fill(&self.db, &mut first, usize::MAX).await?;
        let tag = Tag::Count(verb, first.len() as u64);
        let suspends = verb != FETCH && !step.place.ended;
        if !more && !suspends {
            return self.fetched(autocommit, false, fields, first, tag).await;
        }
        let rows = RowStream {
            active: Some(rows),
            portal: None,
            left: match suspends {
                true => usize::try_from(count).unwrap_or(usize::MAX) - first.len(),
                false => usize::MAX,
            },
            count: first.len() as u64,
            suspended: false,
            autocommit,
            verb,
            of_fetch: false,
            call: None,
        };
        Ok(Execution::Rows { fields, first: Some(first), rows: Some(Box::new(rows)), tag })
    }

    /// The answer of a FETCH or MOVE all of whose rows are there.
    async fn fetched(
        &mut self,
        autocommit: bool,
        is_move: bool,
        fields: Arc<[Field]>,
        rows: RowChunk,
        tag: Tag,
    ) -> Result<Execution, SqlError> {
        self.statement_done(autocommit).await?;
        Ok(match is_move {
            true => Execution::Command { tag },
            false => Execution::Rows { fields, first: Some(rows), rows: None, tag },
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
