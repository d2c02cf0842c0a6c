//! COPY: rows from the client into a table, and rows of a table or query to the client.
//! Nothing is kept but the record at hand and one batch, so memory does not grow with rows.

use std::sync::{Arc, Weak};

use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::Ident;
use futures::StreamExt;
use resurgam_engine::{ColumnType, Datum, DatumRef, ReadView, StatementKind, Table};

use crate::dml::check::{Checks, Part};
use crate::dml::foreign::{Help, References};
use crate::dml::{Around, Constraints, How, Modify, Paused, Writer};
use crate::exec::context::{Beside, StatementContext, StopFlag, task_context};
use crate::exec::direct::{Row, Values};
use crate::exec::wait::{Waiting, guarded, settle};
use crate::exec::weight;
use crate::parse::copy::{Condition, Copy, Source};
use crate::pg::copy::{CopyChunk, CopyOptions, CopyWriter, Records};
use crate::pg::datetime::Zone;
use crate::pg::encode::RowEncoder;
use crate::pg::{errors, user_types};
use crate::plan::analyze::over_row_in;
use crate::plan::expression::{Place, TableExpr, parse_expression};
use crate::plan::lookup::{Lookup, find_column};
use crate::plan::planner::{Instance, Names};
use crate::plan::statement::{Kind, Prepared};
use crate::session::Session;
use crate::session::stream::{Rest, STEP_BYTES, Unsent};
use crate::wire::{Execution, Format, SqlError, Tag};

/// Bytes after which rows are handed out.
const CHUNK_BYTES: usize = 64 << 10;

/// So many rows, and bytes of their lines, PostgreSQL inserts together. Here it may be more; but these numbers decide which of two
/// errors is told, and so they do here.
const TOGETHER: usize = 1000;
const BYTES_TOGETHER: usize = 65_535;

/// The lines of rows that are not in yet.
#[derive(Default)]
struct Lines {
    of: Vec<u64>,
    /// So many of them are in by now where PostgreSQL does it: what is wrong with these is told before what is wrong with a later row.
    due: usize,
    /// Rows, and bytes of lines, since it has inserted any.
    rows: usize,
    bytes: usize,
}

impl Lines {
    /// A row was taken; `kept`: so many are not in. True: PostgreSQL inserts them.
    fn took(&mut self, (line, bytes): (u64, usize), kept: usize) -> bool {
        self.of.push(line);
        self.rows += 1;
        self.bytes += bytes;
        if kept == 0 {
            self.inserted();
        }
        if self.rows < TOGETHER && self.bytes < BYTES_TOGETHER {
            return false;
        }
        (self.rows, self.bytes, self.due) = (0, 0, self.of.len());
        true
    }

    /// All of them are in.
    fn inserted(&mut self) {
        self.of.clear();
        self.due = 0;
    }
}

/// COPY … FROM STDIN under way.
pub struct CopyIn {
    table: Arc<Table>,
    /// Target columns, in the order of the data.
    columns: Vec<usize>,
    types: Vec<ColumnType>,
    /// A whole row with the defaults of columns that the data does not have.
    template: Vec<Datum>,
    /// Those of them that give each row another value.
    volatile: Vec<(usize, TableExpr)>,
    reader: Records,
    /// WHERE: the other rows are passed over.
    condition: Option<TableExpr>,
    checks: Checks,
    /// Of the statement, until that ends.
    view: Option<ReadView>,
    /// The executor between two pieces of data; `None`: it has ended.
    modify: Option<Paused>,
    lines: Lines,
    zone: Zone,
    autocommit: bool,
}

impl CopyIn {
    /// The format of the data.
    pub fn format(&self) -> Format {
        self.reader.format()
    }
    /// Number of columns in the data.
    pub fn columns(&self) -> u16 {
        self.columns.len() as u16
    }

    /// Takes some data, whose rows go in with the next piece's, or in the end: many short ones are better taken together.
    pub fn push(&mut self, data: &[u8]) {
        self.reader.push(data);
    }

    /// Takes some data; rows may be cut anywhere.
    ///
    /// # Errors
    /// What is wrong with a row, with its line; the transaction has then failed.
    pub async fn data(&mut self, session: &mut Session, data: &[u8]) -> Result<(), SqlError> {
        self.reader.push(data);
        let result = user_types::scope(session.type_source(), self.drain(session, false)).await;
        if result.is_err() {
            session.statement_failed();
        }
        result
    }

    async fn drain(&mut self, session: &mut Session, is_end: bool) -> Result<(), SqlError> {
        let stop = Arc::clone(&session.shared.stop);
        let lock_timeout = session.shared.variables.lock().lock_timeout;
        let waiting = Waiting { stop: &stop, lock_timeout };
        let txn = session.transaction().txn.clone();
        let (Some(paused), Some(view)) = (self.modify.take(), self.view.clone()) else {
            return Err(SqlError::internal("COPY has ended"));
        };
        let Self { table, columns, types, template, volatile, reader, condition, checks, zone, lines, .. } = self;
        let statement = txn.resume_statement(view);
        let writer = Writer { statement: &statement, table, checks, waiting: &waiting };
        let mut modify = Modify::resume(writer, *zone, paused);
        let rows = take_rows(
            &mut modify,
            (reader, types, columns),
            (template, volatile),
            condition.as_ref(),
            zone,
            lines,
            &stop,
        );
        let mut taken = rows.await;
        if is_end && taken.is_ok() {
            taken = modify.flush().await;
        }
        if let Err(error) = taken {
            let error = first_of(&mut modify, lines, error).await;
            let line = modify.refused_at().and_then(|at| lines.of.get(at)).filter(|_| is_of_row(&error));
            let error = session.discreet(error, [&*table]);
            return Err(match line {
                Some(line) => error.with_context(format!("COPY {}, line {line}", table.name)),
                None => error,
            });
        }
        self.modify = Some(modify.pause());
        Ok(())
    }

    /// The data is complete.
    ///
    /// # Errors
    /// As [`CopyIn::data`], and those of the commit.
    pub async fn finish(mut self, session: &mut Session) -> Result<Tag, SqlError> {
        self.reader.end();
        let types = session.type_source();
        let mut result = user_types::scope(Arc::clone(&types), self.drain(session, true)).await;
        let rows = self.modify.as_ref().map_or(0, |modify| modify.rows);
        if result.is_ok() {
            result = user_types::scope(types, self.check_foreign(session)).await;
        }
        let done = match result {
            Ok(()) => session.statement_done(self.autocommit).await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            session.statement_failed();
            return Err(error);
        }
        Ok(Tag::Count("COPY", rows))
    }

    /// What foreign keys leave to the end of the statement.
    async fn check_foreign(&mut self, session: &mut Session) -> Result<(), SqlError> {
        // With it goes the snapshot.
        let (Some(paused), Some(view)) = (self.modify.take(), self.view.take()) else { return Ok(()) };
        let stop = Arc::clone(&session.shared.stop);
        let lock_timeout = session.shared.variables.lock().lock_timeout;
        let waiting = Waiting { stop: &stop, lock_timeout };
        let (state, cx) = (session.state()?, Arc::clone(&session.cx));
        let txn = session.transaction().txn.clone();
        let Self { table, checks, zone, .. } = self;
        let statement = txn.resume_statement(view);
        let writer = Writer { statement: &statement, table, checks, waiting: &waiting };
        let mut modify = Modify::resume(writer, *zone, paused);
        let help = Help { names: Names { state: &state, txn: &txn, cx: &cx }, waiting, zone: *zone };
        modify.finish(&help).await.map_err(|error| session.discreet(error, [&*table]))
    }

    /// The client gives up.
    pub async fn fail(mut self, session: &mut Session, reason: &str) -> SqlError {
        self.modify = None;
        session.statement_failed();
        SqlError::new("57014", format!("COPY from stdin failed: {reason}"))
    }
}

/// Takes the rows that are there.
///
/// # Errors
/// What is wrong with a row, with its line; with one that was taken before, without.
async fn take_rows(
    modify: &mut Modify<'_>,
    (reader, types, columns): (&mut Records, &[ColumnType], &[usize]),
    (template, volatile): (&mut [Datum], &[(usize, TableExpr)]),
    condition: Option<&TableExpr>,
    zone: &Zone,
    lines: &mut Lines,
    stop: &StopFlag,
) -> Result<(), SqlError> {
    let (table, mut scratch) = (modify.table(), Vec::new());
    let (is_plain, mut room) = (modify.is_plain(), Vec::new());
    let mut since_check = 0;
    while reader.next_record()? {
        since_check += 1;
        if since_check == 1000 {
            since_check = 0;
            stop.check()?;
            // A long piece of data must not keep a worker from its other connections.
            tokio::task::yield_now().await;
        }
        for (at, default) in volatile {
            template[*at] = default.assigned(&table.columns[*at].ty, zone)?;
        }
        let line = reader.line();
        let mut row = DatumRef::room(std::mem::take(&mut room));
        row.extend(template.iter().map(Datum::as_ref));
        reader.put_datums(types, zone, &mut scratch, |at, datum| row[columns[at]] = datum)?;
        let wanted = match condition {
            Some(condition) => {
                holds(condition, modify.checks(), Row { table, values: Values::Given(&row), view: modify.view() })
            }
            None => Ok(true),
        };
        let taken = match wanted {
            // Without a future, which most rows do not need.
            Ok(true) if is_plain && modify.keep_plain(&row) => Ok(()),
            Ok(true) => modify.insert_row(&row).await,
            Ok(false) => {
                room = DatumRef::room(row);
                continue;
            }
            Err(error) => Err(error),
        };
        room = DatumRef::room(row);
        if let Err(error) = taken {
            let of_present = is_of_row(&error) && modify.refused_at().is_none();
            let context = match error.sqlstate.as_str() {
                // Where rows go in together PostgreSQL no longer has the line by then.
                "23505" if modify.loads() => format!("COPY {}, line {}", table.name, line.0),
                _ => reader.context(),
            };
            return Err(if of_present { error.with_context(context) } else { error });
        }
        if modify.loads() && lines.took(line, modify.kept()) && modify.is_full() {
            modify.flush().await?;
            lines.inserted();
        }
    }
    Ok(())
}

/// Whether an error is one of a row. (What was waited for is no fault of it.)
fn is_of_row(error: &SqlError) -> bool {
    error.sqlstate.starts_with("23") || error.sqlstate.starts_with("22")
}

/// The error of a row, or that of a row before it which PostgreSQL has inserted by then.
#[cold]
async fn first_of(modify: &mut Modify<'_>, lines: &Lines, error: SqlError) -> SqlError {
    // One of a row that was taken before is the first already.
    if lines.due == 0 || modify.refused_at().is_some() || error.sqlstate.starts_with("57") {
        return error;
    }
    modify.forget_behind(lines.due);
    modify.flush().await.err().unwrap_or(error)
}

/// What a result needs until its end.
#[allow(dead_code)] // it is held
enum Held {
    Plan(Instance, Beside),
    Rows(MemoryReservation),
}

/// COPY … TO STDOUT under way.
pub struct CopyOut {
    stream: Option<(SendableRecordBatchStream, Held)>,
    prepared: Arc<Prepared>,
    encoder: RowEncoder,
    writer: CopyWriter,
    pending: Option<Rest>,
    unsent: Unsent,
    started: bool,
    /// The last row was written, and what follows it.
    ended: bool,
    rows: u64,
    columns: u16,
    autocommit: bool,
}

impl CopyOut {
    /// The format of the data.
    pub fn format(&self) -> Format {
        self.writer.format()
    }
    /// Number of columns in the data.
    pub fn columns(&self) -> u16 {
        self.columns
    }

    /// More data; `None` at the end.
    ///
    /// # Errors
    /// The query's; the transaction has then failed.
    pub async fn next(&mut self, session: &mut Session) -> Result<Option<CopyChunk>, SqlError> {
        let mut out = CopyChunk::default();
        let filled = match user_types::scope(session.type_source(), self.fill(session, &mut out)).await {
            Ok(()) => self.unsent.count(&session.db, self.pending.as_ref(), out.len()),
            Err(error) => Err(error),
        };
        match filled {
            Ok(()) if out.is_empty() => {
                if self.stream.take().is_some() {
                    session.statement_done(self.autocommit).await?;
                }
                Ok(None)
            }
            Ok(()) => Ok(Some(out)),
            Err(error) => {
                self.stream = None;
                session.statement_failed();
                Err(error)
            }
        }
    }

    async fn fill(&mut self, session: &mut Session, out: &mut CopyChunk) -> Result<(), SqlError> {
        if !self.started {
            self.started = true;
            self.writer.header(out);
        }
        let stop = Arc::clone(&session.shared.stop);
        while out.len() < CHUNK_BYTES {
            let rest = match self.pending.take() {
                Some(rest) => rest,
                None => {
                    let Some((stream, _)) = &mut self.stream else { return Ok(()) };
                    let next = async {
                        match stream.next().await {
                            Some(Ok(batch)) => Ok(Some(batch)),
                            Some(Err(error)) => Err(errors::from_datafusion(error, &self.prepared.text)),
                            None => Ok(None),
                        }
                    };
                    match guarded(&stop, stop.deadline(), next).await? {
                        Some(batch) => Rest::new(batch),
                        None => {
                            if !std::mem::replace(&mut self.ended, true) {
                                self.writer.trailer(out);
                            }
                            return Ok(());
                        }
                    }
                }
            };
            let take = weight::fitting(&rest.batch, rest.from, 512, STEP_BYTES);
            self.writer.rows(&self.encoder, &rest.batch, rest.from..rest.from + take, out)?;
            self.rows += take as u64;
            self.pending = rest.after(take);
        }
        Ok(())
    }

    /// The command tag, final after the end.
    pub fn tag(&self) -> Tag {
        Tag::Count("COPY", self.rows)
    }
}

/// Whether a row is wanted. What domains demand is asked before, as where a value becomes one of a domain.
fn holds(condition: &TableExpr, checks: &Checks, row: Row<'_>) -> Result<bool, SqlError> {
    checks.refuse(Part::Given, row)?;
    Ok(condition.truth_of(row)? == Some(true))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Names of columns that an option lists have to be of columns that are copied.
///
/// # Errors
/// `42703`, `42701`, `42P10`
fn check_forced(table: Option<&Table>, copied: &[String], forced: &[String], option: &str) -> Result<(), SqlError> {
    for (at, name) in forced.iter().enumerate() {
        let is_there = match table {
            Some(table) => {
                copied_column(table, &Ident::with_quote('"', name.as_str()))?;
                true
            }
            None => copied.contains(name),
        };
        if !is_there {
            return Err(SqlError::new("42703", format!("column \"{name}\" does not exist")));
        }
        if forced[..at].contains(name) {
            return Err(SqlError::new("42701", format!("column \"{name}\" specified more than once")));
        }
    }
    match forced.iter().find(|name| !copied.contains(name)) {
        None => Ok(()),
        Some(name) => Err(SqlError::new("42P10", format!("{option} column \"{name}\" not referenced by COPY"))),
    }
}

/// The columns that COPY names, each once.
///
/// # Errors
/// Those of [`copied_column`]; `42701`
fn copied_columns(table: &Table, idents: &[Ident]) -> Result<Vec<usize>, SqlError> {
    let mut columns = Vec::with_capacity(idents.len());
    for ident in idents {
        let at = copied_column(table, ident)?;
        if columns.contains(&at) {
            let name = &table.columns[at].name;
            return Err(SqlError::new("42701", format!("column \"{name}\" specified more than once")));
        }
        columns.push(at);
    }
    Ok(columns)
}

/// A column that COPY names.
fn copied_column(table: &Table, ident: &Ident) -> Result<usize, SqlError> {
    let at = find_column(table, ident)?;
    match table.generated(at) {
        None => Ok(at),
        Some(_) => {
            let message = format!("column \"{}\" is a generated column", table.columns[at].name);
            Err(SqlError::new("42P10", message).with_detail("Generated columns cannot be used in COPY."))
        }
    }
}

/// The last part of a name.
fn last_name(name: &datafusion::sql::sqlparser::ast::ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone()).unwrap_or_default()
}

fn is_sequence(lookup: &Lookup<'_>, name: &datafusion::sql::sqlparser::ast::ObjectName) -> bool {
    let named = lookup.place(name).ok();
    let txn = lookup.txn;
    named.is_some_and(|(schema, name)| txn.sequence_named(&schema, &name).is_ok_and(|found| found.is_some()))
}

/// WHERE, over the columns that are not generated.
///
/// # Errors
/// Those of its analysis; `42P10`
fn planned_condition(names: &Names<'_>, table: &Table, condition: &Condition) -> Result<TableExpr, SqlError> {
    let over = over_row_in(names, table, &condition.expr, Place::Copied, &condition.text)?;
    let expr = TableExpr::over(names, table, over)?;
    if let Some(at) = expr.columns().iter().find(|at| table.generated(**at).is_some()) {
        let message = "generated columns are not supported in COPY FROM WHERE conditions";
        let name = &table.columns[*at].name;
        return Err(SqlError::new("42P10", message).with_detail(format!("Column \"{name}\" is a generated column.")));
    }
    if !expr.is_of_row() {
        return Err(SqlError::unsupported("this condition in COPY FROM is not supported"));
    }
    Ok(expr)
}

impl Session {
    pub(crate) async fn copy(&mut self, copy: &Copy, autocommit: bool) -> Result<Execution, SqlError> {
        let options = CopyOptions::parse(&copy.options, copy.from)?;
        if copy.of_server {
            return Err(SqlError::unsupported("COPY with a file or a program on the server is not supported")
                .with_hint("Use COPY FROM STDIN or COPY TO STDOUT; in psql, \\copy."));
        }
        match (&copy.source, copy.from) {
            (Source::Table(name, columns), true) => {
                self.copy_in((name, columns), copy.condition.as_ref(), options, autocommit).await
            }
            (source, _) => self.copy_out(source, options, autocommit).await,
        }
    }

    async fn copy_in(
        &mut self,
        (name, idents): (&datafusion::sql::sqlparser::ast::ObjectName, &[Ident]),
        condition: Option<&Condition>,
        options: CopyOptions,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        self.refuse_if_read_only("COPY FROM")?;
        let open = self.transaction();
        open.used = true;
        let txn = open.txn.clone();
        let table = self.lookup(&txn).table(name).map_err(|error| match error.sqlstate.as_str() {
            "42809" if is_sequence(&self.lookup(&txn), name) => {
                SqlError::new("42809", format!("cannot copy to sequence \"{}\"", last_name(name)))
            }
            "42809" => SqlError::new("42809", format!("cannot copy to view \"{}\"", last_name(name)))
                .with_hint("To enable copying to a view, provide an INSTEAD OF INSERT trigger."),
            _ => error,
        })?;
        let given: Vec<usize> = match idents.is_empty() {
            true => (0..table.columns.len()).filter(|at| table.generated(*at).is_none()).collect(),
            false => idents.iter().filter_map(|ident| copied_column(&table, ident).ok()).collect(),
        };
        self.may_columns(&table, crate::pg::roles::acl::privilege::INSERT, &given)?;
        let setting = self.shared.variables.lock().get("row_security");
        if crate::pg::policies::apply_to(&table, &*self.rights()?, self.role(), setting.as_deref())? {
            let error = SqlError::unsupported("COPY FROM not supported with row-level security");
            return Err(error.with_hint("Use INSERT statements instead."));
        }
        // Once data comes it is too late to find out that the definition is another one.
        let stop = Arc::clone(&self.shared.stop);
        let lock_timeout = self.shared.variables.lock().lock_timeout;
        let waiting = Waiting { stop: &stop, lock_timeout };
        guarded(&stop, self.deadline(), settle(&waiting, || txn.lock_rows(&table))).await?;
        let columns: Vec<usize> = if idents.is_empty() {
            (0..table.columns.len()).filter(|at| table.generated(*at).is_none()).collect()
        } else {
            copied_columns(&table, idents)?
        };
        let copied: Vec<String> = columns.iter().map(|at| table.columns[*at].name.clone()).collect();
        check_forced(Some(&table), &copied, &options.force_not_null, "FORCE_NOT_NULL")?;
        check_forced(Some(&table), &copied, &options.force_null, "FORCE_NULL")?;
        let zone = self.shared.variables.lock().zone;
        let (state, cx) = (self.state()?, Arc::clone(&self.cx));
        let names = Names { state: &state, txn: &txn, cx: &cx };
        let (mut template, mut volatile) = (vec![Datum::Null; table.columns.len()], Vec::new());
        for (at, column) in table.columns.iter().enumerate() {
            let sql = || column.default_sql.clone().or_else(|| table.domain(at).and_then(user_types::domain_default));
            if !columns.contains(&at)
                && let Some(sql) = sql()
            {
                let place = Place::Default(&column.name, column.ty);
                let default = TableExpr::plan(&names, &table, &parse_expression(&sql)?, place)?;
                match default.volatile {
                    true => volatile.push((at, default)),
                    false => template[at] = default.assigned(&column.ty, &zone)?,
                }
            }
        }
        let condition = match condition {
            None => None,
            Some(condition) => {
                let planned = planned_condition(&names, &table, condition)?;
                self.may_columns(&table, crate::pg::roles::acl::privilege::SELECT, planned.columns())?;
                Some(planned)
            }
        };
        let checks = Checks::plan(&names, &table)?;
        let statement = txn.begin_statement(StatementKind::BulkWrite)?;
        let references = Arc::new(References::of_insert(&txn, &table, &[])?);
        let deferred = Arc::clone(&self.transaction().deferred);
        let writer = Writer { statement: &statement, table: &table, checks: &checks, waiting: &waiting };
        let constraints = Constraints { references: &references, deferred: &deferred };
        // As in PostgreSQL each row by itself where something may look at those before it.
        let mut evaluated = volatile.iter().map(|(_, default)| default).chain(&condition);
        let how = if evaluated.any(|expr| expr.may_look) { How::Single } else { How::Copied };
        let modify =
            Modify::begin(writer, &constraints, zone, how).await?.counted(&self.db.runtime.memory_pool).pause();
        Ok(Execution::CopyIn(Box::new(CopyIn {
            reader: Records::new(options, &table.name, copied),
            condition,
            types: columns.iter().map(|c| table.columns[*c].ty).collect(),
            view: Some(statement.view().clone()),
            checks,
            modify: Some(modify),
            lines: Lines::default(),
            table,
            columns,
            template,
            volatile,
            zone,
            autocommit,
        })))
    }

    /// The one value of a query without a table.
    pub(crate) async fn constant(&mut self, text: &str) -> Result<datafusion::common::ScalarValue, SqlError> {
        let prepared = self.prepare_text(text, &[])?;
        let Kind::Query(query) = &prepared.kind else { return Err(SqlError::internal("a default is no expression")) };
        let failed = |error| errors::from_datafusion(error, text);
        let state = self.state()?;
        let view = self.transaction().txn.statement(StatementKind::Read)?;
        let instance = query.plan.instance(&state, &[]).await.map_err(failed)?;
        let context = StatementContext {
            view,
            stop: Arc::clone(&self.shared.stop),
            target: None,
            locked: None,
            once: Weak::new(),
        };
        let mut stream = instance.start(task_context(&state, Arc::new(context))).map_err(failed)?;
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(failed)?;
            if batch.num_rows() > 0 {
                return datafusion::common::ScalarValue::try_from_array(batch.column(0), 0).map_err(failed);
            }
        }
        Err(SqlError::internal("a default gave no value"))
    }

    async fn copy_out(
        &mut self,
        source: &Source,
        options: CopyOptions,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        let text = match source {
            Source::Table(table_name, columns) => {
                let txn = self.transaction().txn.clone();
                let table = self.lookup(&txn).table(table_name).map_err(|error| match error.sqlstate.as_str() {
                    "42809" if is_sequence(&self.lookup(&txn), table_name) => {
                        SqlError::new("42809", format!("cannot copy from sequence \"{}\"", last_name(table_name)))
                    }
                    "42809" => SqlError::new("42809", format!("cannot copy from view \"{}\"", last_name(table_name)))
                        .with_hint("Try the COPY (SELECT ...) TO variant."),
                    _ => error,
                })?;
                let wanted: Vec<usize> = match columns.is_empty() {
                    true => (0..table.columns.len()).filter(|at| table.generated(*at).is_none()).collect(),
                    false => copied_columns(&table, columns)?,
                };
                let copied: Vec<String> = wanted.iter().map(|at| table.columns[*at].name.clone()).collect();
                check_forced(Some(&table), &copied, &options.force_quote, "FORCE_QUOTE")?;
                let wanted: Vec<String> = copied.iter().map(|name| quoted(name)).collect();
                format!("SELECT {} FROM {}.{}", wanted.join(", "), quoted(&table.schema), quoted(&table.name))
            }
            Source::Query(query) => query.clone(),
        };
        let prepared = self.prepare_text(&text, &[])?;
        self.check_allowed(&prepared)?;
        if self.db.engine.is_any_table_closed() {
            self.until_readable(&prepared).await?;
        }
        let Kind::Query(query) = &prepared.kind else {
            return Err(SqlError::unsupported("COPY of a statement that is not a query is not supported"));
        };
        if !prepared.param_oids.is_empty() {
            return Err(SqlError::new("42P02", "there is no parameter $1"));
        }
        let failed = |error| errors::from_datafusion(error, &text);
        let state = self.state()?;
        let style = self.style();
        let beside = match prepared.once.any_writes() {
            true => Beside::default(),
            false => self.beside(Around { locks: &[], ..Around::of(&prepared) }, &[], &text).await?,
        };
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(StatementKind::Read)?;
        self.refuse_older_plan(&prepared, &view)?;
        if let Some(deadline) = self.deadline() {
            self.shared.stop.set_deadline(deadline);
        }
        let (stream, held) = match prepared.once.any_writes() {
            true => {
                drop(view);
                let gathered = self.gather_and_modify(&prepared, query, &[], None).await?;
                let batches = futures::stream::iter(gathered.batches.into_iter().map(Ok));
                let stream = RecordBatchStreamAdapter::new(Arc::clone(&query.schema), batches);
                (Box::pin(stream) as SendableRecordBatchStream, Held::Rows(gathered.memory))
            }
            false => {
                let instance = query.plan.instance(&state, &[]).await.map_err(failed)?;
                let once = beside.once();
                let stop = Arc::clone(&self.shared.stop);
                let context = StatementContext { view, stop, target: None, locked: None, once };
                (instance.start(task_context(&state, Arc::new(context))).map_err(failed)?, Held::Plan(instance, beside))
            }
        };
        let names: Vec<String> =
            prepared.fields.as_ref().map(|f| f.iter().map(|f| f.name.clone()).collect()).unwrap_or_default();
        if let Source::Query(_) = source {
            check_forced(None, &names, &options.force_quote, "FORCE_QUOTE")?;
        }
        let columns = names.len() as u16;
        let writer = CopyWriter::new(options, names);
        let encoder = RowEncoder::new(query.schema.fields(), &[writer.format()], &style)?;
        Ok(Execution::CopyOut(CopyOut {
            columns,
            writer,
            encoder,
            stream: Some((stream, held)),
            pending: None,
            unsent: Unsent::default(),
            started: false,
            ended: false,
            rows: 0,
            prepared: Arc::clone(&prepared),
            autocommit,
        }))
    }
}
