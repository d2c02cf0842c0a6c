//! From a statement's text to the plan that runs: one that is kept (by the session or the database) as long as it is current,
//! or one that is made now.
//!
//! A plan is current while definitions, search path, settings that it was made with and sizes of tables are as they were. It
//! is kept for all sessions unless it is of this one's settings alone; plans over definitions that a transaction has changed
//! itself are nobody's.

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::Statement;
use resurgam_engine::{Isolation, Transaction};

use crate::exec::compute::aside;
use crate::exec::planners::plan_apart;
use crate::exec::planning::Planning;
use crate::exec::{panics, weight};
use crate::parse::own::{Own, Parsed};
use crate::parse::read;
use crate::parse::shape::is_optimizable;

use crate::pg::running::{self, Stop};
use crate::pg::{errors, memory};
use crate::plan::analyze::is_heavy;
use crate::plan::lookup::Lookup;
use crate::plan::planner::{self, Names};
use crate::plan::statement::{self, Kind, PathId, Prepared};
use crate::session::Session;

use crate::session::transaction::aborted;
use crate::wire::SqlError;

/// Statements that belong to one session, kept by text.
pub(super) const LOCAL_MAX: usize = 256;

/// Bytes that these have together, about.
pub(super) const LOCAL_BYTES_MAX: usize = 8 << 20;

/// Longest text of a BEGIN or COMMIT that is kept.
pub(super) const FRAME_TEXT_MAX: usize = 64;

/// Bytes of a text that is parsed on its session's thread; a longer one may take so long that a stop does not wait for it.
pub(super) const PARSED_HERE_MAX: usize = 8 << 10;

/// How often a statement is planned again whose planning failed while definitions changed.
pub(super) const PLANS_MAX: u32 = 100;

/// Version of the catalog, and number of the open transaction's own changes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PlannedAt(u64, u64);

impl Session {
    pub(crate) fn state(&mut self) -> Result<Arc<SessionState>, SqlError> {
        {
            let variables = self.shared.variables.lock();
            self.shared.stop.limits.set(variables.work_mem, variables.temp_file_limit, variables.scan_workers);
        }
        if self.shared.stop.limits.is_lean() {
            // Joins that spill (`merge_join.rs`) wait for a test that shows their answers.
            let planning = Planning { spilling_joins: true, ..self.db.settings.planning };
            let state = planner::session_state(&self.db.runtime, &self.cx, planning, &self.shared.stop);
            return state.map(Arc::new).map_err(|error| errors::from_datafusion(error, ""));
        }
        if let Some(state) = &self.state {
            return Ok(Arc::clone(state));
        }
        let state = planner::session_state(&self.db.runtime, &self.cx, self.db.settings.planning, &self.shared.stop)
            .map_err(|error| errors::from_datafusion(error, ""))?;
        let state = Arc::new(state);
        self.state = Some(Arc::clone(&state));
        Ok(state)
    }

    /// As [`Session::state`], with small batches: whoever wants a few rows does not wait for
    /// thousands.
    pub(crate) fn state_for_few(&mut self) -> Result<Arc<SessionState>, SqlError> {
        const BATCH_ROWS: usize = 64;
        if let Some(state) = &self.few {
            return Ok(Arc::clone(state));
        }
        let mut state = self.state()?.as_ref().clone();
        *state.config_mut() = state.config().clone().with_batch_size(BATCH_ROWS);
        let state = Arc::new(state);
        self.few = Some(Arc::clone(&state));
        Ok(state)
    }

    /// Names of relations along the session's path, as a transaction sees them.
    pub(crate) fn lookup<'t>(&self, txn: &'t Transaction) -> Lookup<'t> {
        Lookup { txn, path: self.cx.search_path() }
    }

    /// Parses or plans, which may take long: others go on meanwhile, and a cancel and `statement_timeout` end it. A bug in
    /// it is an error of the statement.
    pub(crate) fn planning<T>(&self, work: impl FnOnce() -> Result<T, SqlError>) -> Result<T, SqlError> {
        let stop = &self.shared.stop;
        // Within a statement that runs (EXECUTE, another run) it is a part of that.
        let alone = !stop.is_running();
        if alone {
            stop.begin();
            if let Some(deadline) = self.deadline() {
                stop.set_deadline(deadline);
            }
        }
        let running = Arc::clone(stop) as Arc<dyn Stop>;
        let done = running::with(&running, || aside(|| panics::caught(work)));
        // A stop that came after the last question must not be lost.
        let stopped = if alone { stop.check_time() } else { Ok(()) };
        if alone {
            stop.end();
        }
        let done = done??;
        stopped?;
        Ok(done)
    }

    /// Parses a text as [`Session::planning`] plans.
    pub(super) fn parsed<T: Send + 'static>(
        &self,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        if text.len() <= PARSED_HERE_MAX {
            return self.planning(|| parse(text));
        }
        let (stop, text) = (Arc::clone(&self.shared.stop), text.to_owned());
        self.planning(move || plan_apart(&stop, move || parse(&text))?)
    }

    /// The statement of that text, planned now or before.
    pub(crate) fn prepare_text(&mut self, text: &str, declared: &[u32]) -> Result<Arc<Prepared>, SqlError> {
        if let Some(found) = self.kept(text, declared) {
            self.refuse_if_failed(&found.kind)?;
            return Ok(found);
        }
        let statement = self.parsed(text, read::parse_one)?;
        self.plan(statement, text, declared, true)
    }

    /// Settings changed: plans that were made with them go.
    pub(crate) fn forget_local(&mut self) {
        self.local.clear();
        self.local_bytes = 0;
    }

    /// The number of the session's search path, and of the styles of dates and intervals.
    pub(super) fn path_id(&self) -> PathId {
        let of = self.shared.path_of(self.hot().role);
        let mut known = self.path_known.lock();
        if known.0 != of {
            let styles = self.shared.signals.styles();
            *known = (of, self.db.statements.path_id(self.db.oid(), styles, &self.cx.search_path()));
        }
        known.1
    }

    pub(super) fn has_catalog_overlay(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.txn.has_catalog_changes())
    }

    /// Version of the catalog that statements are planned with now: in REPEATABLE READ that of the
    /// snapshot.
    pub(super) fn catalog_version(&self) -> u64 {
        match &self.open {
            Some(open) if open.txn.isolation() == Isolation::RepeatableRead => open.txn.catalog_version(),
            _ => self.db.engine.catalog_version(),
        }
    }

    /// A text is about to be read: if it is long, what it will take is counted, until the next one comes.
    ///
    /// # Errors
    /// `53200`
    pub(super) fn count_text(&mut self, text: &str) -> Result<(), SqlError> {
        let bytes = if text.len() > PARSED_HERE_MAX { aside(|| weight::of_text(text)) } else { weight::of_text(text) };
        if bytes == 0 {
            self.text_memory = None;
            return Ok(());
        }
        let pool = &self.db.runtime.memory_pool;
        let memory = self.text_memory.get_or_insert_with(|| MemoryConsumer::new("text of a statement").register(pool));
        memory.try_resize(bytes).map_err(|error| errors::from_datafusion(error, ""))
    }

    pub(super) fn kept(&self, text: &str, declared: &[u32]) -> Option<Arc<Prepared>> {
        if self.has_catalog_overlay() || self.is_run_again() {
            return None;
        }
        let version = self.catalog_version();
        if let Some(found) = self.db.statements.get(text, self.path_id(), declared, version) {
            return (!found.is_outgrown(&self.db.engine)).then_some(found);
        }
        if self.local.is_empty() || self.local_generation != self.shared.variables.lock().generation {
            return None;
        }
        let found = self.local.get(&(text.to_owned(), declared.to_vec()))?;
        let is_current = found.catalog_version == version && !found.is_outgrown(&self.db.engine);
        is_current.then(|| Arc::clone(found))
    }

    pub(super) fn plan(
        &mut self,
        statement: Option<Parsed>,
        text: &str,
        declared: &[u32],
        keep: bool,
    ) -> Result<Arc<Prepared>, SqlError> {
        self.plan_by(statement, text, declared, keep, statement::prepare)
    }

    /// The same, planned in that way.
    pub(super) fn plan_by(
        &mut self,
        statement: Option<Parsed>,
        text: &str,
        declared: &[u32],
        keep: bool,
        prepare: statement::Prepare,
    ) -> Result<Arc<Prepared>, SqlError> {
        if self.failed && !statement.as_ref().is_some_and(Parsed::is_allowed_when_failed) {
            return Err(aborted());
        }
        if let Some(Parsed::Own(Own::Declare(declare))) = &statement {
            return self.plan_cursor(declare, text, declared);
        }
        let planned = matches!(
            &statement,
            Some(Parsed::Known(known)) if is_optimizable(known) || matches!(known, Statement::Explain { .. })
        );
        if !planned {
            let mut prepared = Prepared::new(text, Kind::Empty, self.db.engine.catalog_version());
            match statement {
                Some(Parsed::Known(statement)) => {
                    prepared.fields = self.utility_fields(&statement)?;
                    prepared.kind = Kind::Utility(Box::new(statement));
                }
                Some(Parsed::Own(own)) => {
                    prepared.fields = match &own {
                        Own::Fetch(fetch) if !fetch.is_move => {
                            self.portals.get(&fetch.name).and_then(|portal| portal.prepared.fields.clone())
                        }
                        other => crate::command::own::fields(other),
                    };
                    prepared.kind = Kind::Own(Box::new(own));
                }
                None => {}
            }
            let is_frequent = matches!(
                &prepared.kind,
                Kind::Utility(statement) if matches!(
                    **statement,
                    Statement::StartTransaction { .. } | Statement::Commit { .. } | Statement::Rollback { .. }
                )
            );
            prepared.bytes = crate::plan::plans::bytes_of(&prepared);
            let prepared = Arc::new(prepared);
            // What frames each transaction is not parsed each time.
            if is_frequent && keep && text.len() <= FRAME_TEXT_MAX && !self.has_catalog_overlay() {
                self.db.statements.put(text, self.path_id(), declared, &prepared);
            }
            return Ok(prepared);
        }
        let statement = match statement {
            Some(Parsed::Known(statement)) => Some(statement),
            _ => None,
        };
        let state = self.state()?;
        let cx = Arc::clone(&self.cx);
        let path = self.path_id();
        let txn = self.transaction().txn.clone();
        let mut tries = 0;
        let begun = std::time::Instant::now();
        let is_heavy = statement.as_ref().is_some_and(|statement| {
            let names = Names { state: &state, txn: &txn, cx: &cx };
            is_heavy(text, statement, &names)
        });
        let (version, mut prepared) = loop {
            // Behind that of others in REPEATABLE READ: then the plan is nobody else's.
            let version = txn.catalog_version();
            // Made with definitions that nobody else has, and that may be taken back: never current.
            let made_at = if txn.has_catalog_changes() { 0 } else { version };
            let planned = match is_heavy {
                false => self.planning(|| {
                    panics::planted("planning", text);
                    let names = Names { state: &state, txn: &txn, cx: &cx };
                    weighed(|| prepare(&names, statement.clone(), text, declared, made_at))
                }),
                true => {
                    let stop = Arc::clone(&self.shared.stop);
                    let (state, txn, cx) = (Arc::clone(&state), txn.clone(), Arc::clone(&cx));
                    let (statement, text, declared) = (statement.clone(), text.to_owned(), declared.to_vec());
                    self.planning(move || {
                        plan_apart(&stop, move || {
                            panics::planted("planning", &text);
                            let names = Names { state: &state, txn: &txn, cx: &cx };
                            weighed(|| prepare(&names, statement, &text, &declared, made_at))
                        })?
                    })
                }
            };
            match planned {
                Ok(prepared) => break (version, prepared),
                // It looks at definitions more than once; one may have changed in between.
                Err(error) if tries < PLANS_MAX && !ends(&error) && txn.catalog_version() != version => tries += 1,
                Err(error) => return Err(error),
            }
        };
        prepared.path = path;
        if !prepared.shareable {
            prepared.settings = Some(self.shared.variables.lock().planned_with);
        }
        if let Some(counts) = &prepared.counts {
            counts.planned(begun.elapsed());
        }
        let prepared = Arc::new(prepared);
        self.db.plans.add(&prepared);
        if keep && !txn.has_catalog_changes() && self.db.engine.catalog_version() == version {
            if prepared.shareable {
                self.db.statements.put(text, prepared.path, declared, &prepared);
            } else if !matches!(prepared.kind, Kind::Explain { .. }) {
                let generation = self.shared.variables.lock().generation;
                if self.local.len() >= LOCAL_MAX
                    || self.local_bytes.saturating_add(prepared.bytes) > LOCAL_BYTES_MAX
                    || self.local_generation != generation
                {
                    self.forget_local();
                    self.local_generation = generation;
                }
                if prepared.bytes <= LOCAL_BYTES_MAX / 2 {
                    self.local_bytes += prepared.bytes;
                    self.local.insert((text.to_owned(), declared.to_vec()), Arc::clone(&prepared));
                }
            }
        }
        Ok(prepared)
    }

    /// Whether a statement was planned with the definitions of this moment, with the settings if it has to do with
    /// them, and for tables of about the size that they have.
    pub(super) fn is_current(&self, prepared: &Prepared) -> bool {
        !self.has_catalog_overlay()
            && prepared.catalog_version == self.catalog_version()
            && prepared.path == self.path_id()
            && prepared.settings.is_none_or(|made_with| made_with == self.shared.variables.lock().planned_with)
            && !prepared.is_outgrown(&self.db.engine)
    }

    /// The statement planned against the present catalog.
    pub(super) fn current(&mut self, prepared: Arc<Prepared>, declared: &[u32]) -> Result<Arc<Prepared>, SqlError> {
        let planned = !matches!(prepared.kind, Kind::Utility(_) | Kind::Own(_) | Kind::Empty);
        if planned && (self.is_run_again() || !self.is_current(&prepared)) {
            let text = Arc::clone(&prepared.text);
            return self.prepare_text(&text, declared);
        }
        Ok(prepared)
    }

    pub(super) fn definitions_now(&self) -> PlannedAt {
        let own = self.open.as_ref().map_or(0, |open| open.txn.catalog_changes());
        PlannedAt(self.catalog_version(), own)
    }

    /// The statement of a portal, planned anew after a change of definitions. Its values are
    /// there already, and its columns are known.
    pub(super) fn planned_again(&mut self, prepared: Arc<Prepared>) -> Result<Arc<Prepared>, SqlError> {
        let oids = Arc::clone(&prepared.param_oids);
        let planned = !matches!(prepared.kind, Kind::Utility(_) | Kind::Own(_) | Kind::Empty);
        if planned && prepared.path != self.path_id() {
            return Err(SqlError::unsupported("a portal that was made with another search path and other definitions"));
        }
        let newer = self.current(Arc::clone(&prepared), &oids)?;
        same_result(&prepared, &newer)?;
        if newer.param_oids != oids {
            return Err(SqlError::unsupported("cached plan must not change parameter types"));
        }
        Ok(newer)
    }

    /// Plans the query of a cursor.
    pub(crate) fn plan_query_of_cursor(
        &mut self,
        query: Statement,
        text: &str,
        declared: &[u32],
    ) -> Result<Arc<Prepared>, SqlError> {
        self.plan_by(Some(Parsed::Known(query)), text, declared, false, statement::prepare_cursor)
    }
}

/// A client that has prepared a statement knows the columns of its result: they must not be
/// others after a change of a definition.
pub(crate) fn same_result(before: &Prepared, now: &Prepared) -> Result<(), SqlError> {
    let alike = match (&before.fields, &now.fields) {
        (None, None) => true,
        (Some(before), Some(now)) => {
            before.len() == now.len()
                && before
                    .iter()
                    .zip(now.iter())
                    .all(|(a, b)| (&a.name, a.type_oid, a.typmod) == (&b.name, b.type_oid, b.typmod))
        }
        _ => false,
    };
    if alike {
        return Ok(());
    }
    let mut error = SqlError::unsupported("cached plan must not change result type");
    // By this asyncpg and JDBC's driver know that they only have to prepare the statement anew.
    error.routine = Some("RevalidateCachedQuery");
    Err(error)
}

/// Whether a statement is at its end by that: it was told to stop, or has taken too much, and would once more.
pub(super) fn ends(error: &SqlError) -> bool {
    matches!(error.sqlstate.as_str(), "57014" | "57P01" | "53200" | "53400")
}

/// A statement that `plan` makes, with what it weighs.
pub(super) fn weighed(plan: impl FnOnce() -> Result<Prepared, SqlError>) -> Result<Prepared, SqlError> {
    let (prepared, bytes) = memory::measured(plan);
    let mut prepared = prepared?;
    prepared.weighs(bytes);
    Ok(prepared)
}
