//! A prepared statement: parsed, named, typed and planned.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, Statement, Value, Visitor};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use parking_lot::Mutex;
use resurgam_ast::AstWalk;
use resurgam_engine::Database;

use crate::dml::locking::{DirectLock, LockPlan};
use crate::dml::{self, Planned, WritePlan};
use crate::exec::cell::placeholder_index;
use crate::exec::direct::{DirectList, DirectSelect};
use crate::exec::explain::Options;
use crate::exec::once::OncePlans;
use crate::naming;
use crate::parse::own::Own;

use crate::parse::statement::cursor::Declare;
use crate::pg::datetime::Zone;
use crate::pg::errors;
use crate::pg::types::{self, TEXT, oid};
use crate::pg::user_functions::UserFunction;
use crate::pg::user_types;
use crate::plan::analyze::{self, Origin, RowKey};
use crate::plan::call::{self, CallPlan};
use crate::plan::domain_params::DomainParams;
use crate::plan::kept::{Kept, Room};
use crate::plan::needs::Needs;
use crate::plan::planner::{Names, QueryPlan};
use crate::plan::plans::{self, Counts};

use crate::plan::tally::Tallied;
use crate::wire::{Field, SqlError};

/// Most parameters, as the protocol counts them.
const PARAMS_MAX: usize = 65_535;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub text: Arc<str>,
    pub kind: Kind,
    /// PostgreSQL types of the parameters, of those of domains the types that these are of.
    pub param_oids: Arc<[u32]>,
    /// Of which domains they are, if any is of one.
    pub domains: Option<Arc<DomainParams>>,
    /// Result columns; `None` if there are none.
    pub fields: Option<Arc<[Field]>>,
    /// The catalog that names were looked up in.
    pub catalog_version: u64,
    /// The search path that names were looked up along.
    pub path: PathId,
    /// The generation of the settings that it was made with, if it is one session's.
    pub settings: Option<u64>,
    /// Not bound to one session.
    pub shareable: bool,
    /// Its queries with a locking clause, which are run before it.
    pub locks: Vec<LockPlan>,
    /// Its WITH queries that are computed once.
    pub once: OncePlans,
    /// With literals for its parameters some of its types would be others: it stands for no text that
    /// has them.
    pub typed_by_literals: bool,
    /// Counters of its runs, if it is one that is planned.
    pub counts: Option<Arc<Counts>>,
    /// What its calls have cost.
    pub tally: Tallied,
    /// What whoever runs it has to be allowed.
    pub needs: Needs,
    /// The role that was last found to be allowed it; 0: none. And those before it.
    pub allowed: AtomicU32,
    pub allowed_before: Mutex<Vec<u32>>,
    /// About what it takes in memory.
    pub bytes: usize,
    /// Its part of what the database keeps, while it has a name in some session.
    pub kept: Mutex<Weak<Kept>>,
}

impl Prepared {
    pub(crate) fn new(text: &str, kind: Kind, catalog_version: u64) -> Self {
        Self {
            text: Arc::from(text),
            kind,
            param_oids: Arc::new([]),
            domains: None,
            fields: None,
            catalog_version,
            path: PathId::default(),
            settings: None,
            shareable: false,
            locks: Vec::new(),
            once: OncePlans::default(),
            typed_by_literals: false,
            counts: None,
            tally: Tallied::default(),
            needs: Needs::default(),
            allowed: AtomicU32::new(0),
            allowed_before: Mutex::default(),
            bytes: 0,
            kept: Mutex::default(),
        }
    }

    /// Some session keeps it: it counts against the room of the database, once, until no session does. (That it may stay
    /// in the cache of statements, which has a bound of its own, is another matter.)
    ///
    /// # Errors
    /// `53200`
    pub(crate) fn keep(&self, room: &Arc<Room>) -> Result<Arc<Kept>, SqlError> {
        let mut known = self.kept.lock();
        if let Some(kept) = known.upgrade() {
            return Ok(kept);
        }
        let kept = Arc::new(room.take(self.bytes)?);
        *known = Arc::downgrade(&kept);
        Ok(kept)
    }
}

impl Prepared {
    /// The types of its parameters as clients are told.
    pub(crate) fn described_oids(&self) -> Vec<u32> {
        match &self.domains {
            Some(domains) => domains.described(&self.param_oids),
            None => self.param_oids.to_vec(),
        }
    }

    /// Holds the values of its parameters, which are bound, against the domains that they are of.
    ///
    /// # Errors
    /// See [`DomainParams::check`].
    pub(crate) fn check_domains(&self, values: &[ScalarValue], zone: &Zone) -> Result<(), SqlError> {
        self.domains.as_ref().map_or(Ok(()), |domains| domains.check(values, zone))
    }

    /// Whether its tables have become so much larger or smaller that it should be planned anew.
    pub(crate) fn is_outgrown(&self, engine: &Database) -> bool {
        match &self.kind {
            Kind::Query(query) => query.plan.is_outgrown(engine),
            Kind::Write(write) => write.stream.is_outgrown(engine),
            _ => false,
        }
    }

    /// Planning it has left so many bytes allocated (0: it was not measured). A physical plan takes about as much again.
    pub(crate) fn weighs(&mut self, bytes: usize) {
        self.bytes = self.bytes.max(bytes.saturating_mul(2));
        match &self.kind {
            Kind::Query(query) => query.plan.set_weight(self.bytes),
            Kind::Write(write) => write.stream.set_weight(self.bytes),
            _ => {}
        }
    }
}

#[derive(Debug)]
pub(crate) enum Kind {
    Empty,
    Query(Box<Query>),
    Write(Box<WritePlan>),
    /// A call of a function, alone in its statement.
    Call(Box<CallPlan>),
    Explain {
        how: Options,
        /// What planning took.
        planned: Duration,
        inner: Arc<Prepared>,
    },
    /// A cursor of a query.
    Declare {
        cursor: Box<Declare>,
        inner: Arc<Prepared>,
    },
    /// Run from its syntax.
    Utility(Box<Statement>),
    /// The same, of a statement that the parser does not know.
    Own(Box<Own>),
}

#[derive(Debug)]
pub(crate) struct Query {
    pub plan: QueryPlan,
    pub schema: Arc<Schema>,
    /// It is done without running the plan, if few rows are read.
    pub direct: Option<DirectSelect>,
    /// It has no FROM, and is computed without a plan.
    pub list: Option<DirectList>,
    /// It locks one row by its key.
    pub direct_lock: Option<DirectLock>,
    /// Of a cursor: tables whose rows' keys its plan gives behind the columns of `schema`.
    pub keys: Vec<RowKey>,
}

/// Number of parameters that a statement mentions.
pub(crate) fn count_params<T: AstWalk>(statement: &T) -> Result<usize, SqlError> {
    struct Count(usize);
    impl Visitor for Count {
        type Break = SqlError;
        fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<SqlError> {
            if let Value::Placeholder(id) = &value.value {
                match placeholder_index(id) {
                    Some(index) if index < PARAMS_MAX => self.0 = self.0.max(index + 1),
                    _ => return ControlFlow::Break(SqlError::new("42P02", format!("there is no parameter {id}"))),
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut count = Count(0);
    match statement.walk(&mut count) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(count.0),
    }
}

/// Types of a statement's parameters while they are found out.
#[derive(Clone)]
pub(crate) struct ParamTypes {
    declared: Vec<u32>,
    pub known: Vec<Option<FieldRef>>,
    /// The domains that they are of; 0: of none. What is known of one is then the type that the domain is of.
    pub domains: Vec<u32>,
    /// The statement is one of a function's body, and its parameters are the function's.
    pub body: Option<BodyStatement>,
}

/// Which statement of a function's body one is.
#[derive(Clone)]
pub(crate) struct BodyStatement {
    pub function: Arc<UserFunction>,
    /// What it gives is what the function returns.
    pub is_last: bool,
}

impl ParamTypes {
    pub(crate) fn new(count: usize, declared: &[u32]) -> Self {
        let count = count.max(declared.len());
        let is_domain = |&ty: &u32| if user_types::is_domain(ty) { ty } else { 0 };
        let mut domains: Vec<u32> = declared.iter().map(is_domain).collect();
        let mut oids: Vec<u32> = declared.iter().map(|&ty| user_types::base_type(ty, -1).0).collect();
        domains.resize(count, 0);
        oids.resize(count, 0);
        let known = oids
            .iter()
            .enumerate()
            .map(|(i, &o)| (o != 0 && o != oid::UNKNOWN).then(|| types::parameter_field(&format!("${}", i + 1), o)))
            .collect();
        Self { declared: oids, known, domains, body: None }
    }
    /// Whether a placeholder is declared as `void`: that of an OUT parameter (JDBC's `{? = call f(?)}`).
    pub(crate) fn is_void(&self, id: &str) -> bool {
        placeholder_index(id).and_then(|at| self.declared.get(at)) == Some(&oid::VOID)
    }
    pub(crate) fn oids(&self) -> Arc<[u32]> {
        self.known
            .iter()
            .zip(&self.declared)
            .map(|(field, &declared)| match field {
                _ if declared != 0 && declared != oid::UNKNOWN => declared,
                Some(field) => types::field_oid(field),
                None => oid::TEXT,
            })
            .collect()
    }
    pub(crate) fn data_types(&self) -> Arc<[DataType]> {
        self.known.iter().map(|f| f.as_ref().map_or(TEXT, |f| f.data_type().clone())).collect()
    }
}

/// `RowDescription` of a result with these columns.
pub(crate) fn result_fields(schema: &Schema, origins: &[Option<Origin>]) -> Arc<[Field]> {
    let origins = origins.iter().copied().chain(std::iter::repeat(None));
    schema
        .fields()
        .iter()
        .zip(origins)
        .map(|(field, origin)| {
            let (relation, number) = origin.map_or((0, 0), |origin| (origin.relation, origin.number));
            let mut out = types::wire_field(field, relation, number);
            naming::shown(&mut out.name);
            out
        })
        .collect()
}

/// The one column of `SHOW`.
pub(crate) fn text_field(name: &str) -> Arc<[Field]> {
    Arc::new([Field { name: name.to_owned(), type_oid: oid::TEXT, type_len: -1, typmod: -1, table_oid: 0, column: 0 }])
}

/// How a statement is planned: [`prepare`], or [`prepare_cursor`].
pub(crate) type Prepare = fn(&Names<'_>, Option<Statement>, &str, &[u32], u64) -> Result<Prepared, SqlError>;

/// Plans one statement.
pub(crate) fn prepare(
    names: &Names<'_>,
    statement: Option<Statement>,
    text: &str,
    declared: &[u32],
    catalog_version: u64,
) -> Result<Prepared, SqlError> {
    prepare_within(names, statement, text, declared, catalog_version, For::Client)
}

/// Plans the query of a cursor.
pub(crate) fn prepare_cursor(
    names: &Names<'_>,
    statement: Option<Statement>,
    text: &str,
    declared: &[u32],
    catalog_version: u64,
) -> Result<Prepared, SqlError> {
    prepare_within(names, statement, text, declared, catalog_version, For::Cursor)
}

/// What a statement is planned for.
pub(crate) enum For {
    Client,
    Cursor,
    /// It is one of a function's body.
    Body(BodyStatement),
}

/// The same, for that.
pub(crate) fn prepare_within(
    names: &Names<'_>,
    statement: Option<Statement>,
    text: &str,
    declared: &[u32],
    catalog_version: u64,
    what_for: For,
) -> Result<Prepared, SqlError> {
    let is_cursor = matches!(what_for, For::Cursor);
    let body = match what_for {
        For::Body(body) => Some(body),
        For::Client | For::Cursor => None,
    };
    let mut prepared = Prepared::new(text, Kind::Empty, catalog_version);
    let text = Arc::clone(&prepared.text);
    let Some(statement) = statement else { return Ok(prepared) };
    let is_aggregate = |name: &str| names.state.aggregate_functions().contains_key(name);
    crate::parse::with_recursive::check(&statement, &is_aggregate)?;
    if let Some((with, write)) = crate::parse::with_write::parts(&statement) {
        let mut params = ParamTypes { body, ..ParamTypes::new(count_params(&statement)?, declared) };
        let Planned { plan, locks, once, needs } = dml::plan(names, with, write, &mut params, &text)?;
        prepared.needs = needs;
        prepared.locks = locks;
        prepared.once = once;
        prepared.fields = plan.returning.as_ref().map(|r| Arc::clone(&r.fields));
        prepared.param_oids = params.oids();
        prepared.domains = DomainParams::of(names, &params);
        prepared.shareable = plan.is_shareable(names.state)
            && prepared.locks.is_empty()
            && prepared.once.is_shareable(names.state)
            && !prepared.needs.of_role;
        prepared.typed_by_literals = plan.typed_by_literals() || prepared.once.typed_by_literals();
        prepared.counts = Some(Arc::clone(&plan.stream.counts));
        prepared.kind = Kind::Write(Box::new(plan));
        prepared.bytes = plans::bytes_of(&prepared);
        return Ok(prepared);
    }
    match statement {
        Statement::Query(query) => {
            let mut params = ParamTypes { body, ..ParamTypes::new(count_params(&query)?, declared) };
            if params.body.is_none()
                && let Some(call) = call::of_alone(names, &query, &text, &mut params, catalog_version)?
            {
                prepared.param_oids = params.oids();
                prepared.domains = DomainParams::of(names, &params);
                prepared.fields = Some(Arc::clone(&call.fields));
                prepared.bytes = call.bytes();
                prepared.needs.functions.push(Arc::clone(&call.function));
                prepared.kind = Kind::Call(Box::new(call));
                return Ok(prepared);
            }
            let mut analyzed = match is_cursor {
                true => analyze::cursor_query(names, &query, &text, &mut params)?,
                false => analyze::query(names, &query, &text, &mut params)?,
            };
            let keys = std::mem::take(&mut analyzed.keys);
            prepared.needs = std::mem::take(&mut analyzed.needs);
            prepared.once = dml::once_plans(names, std::mem::take(&mut analyzed.once), &params, &text)?;
            let locks = std::mem::take(&mut analyzed.locks).into_iter();
            let locks = locks.map(|query| LockPlan::new(names, query, &params, &text));
            prepared.locks = locks.collect::<Result<_, _>>()?;
            // It is read from the syntax, in which parameters may have names, and which knows of no policies.
            let direct_lock = match query.locks.is_empty() || params.body.is_some() || prepared.needs.of_role {
                true => None,
                false => DirectLock::new(names, &query, &params),
            };
            let origins: Vec<_> = analyzed.columns.iter().map(|column| column.origin).collect();
            let plan = QueryPlan::analyzed(names.state, analyzed, params.data_types())
                .map_err(|error| errors::from_datafusion(error, &text))?;
            prepared.param_oids = params.oids();
            prepared.domains = DomainParams::of(names, &params);
            prepared.fields = Some(result_fields(&plan.schema, &origins));
            prepared.shareable = plan.is_shareable(names.state)
                && prepared.locks.is_empty()
                && prepared.once.is_shareable(names.state)
                && !prepared.needs.of_role;
            prepared.typed_by_literals = plan.typed_by_literals || prepared.once.typed_by_literals();
            prepared.counts = Some(Arc::clone(&plan.counts));
            prepared.kind = Kind::Query(match keys.is_empty() {
                true => query_kind(names, plan, direct_lock),
                // A cursor's rows come from its plan.
                false => {
                    let schema = Arc::clone(&plan.schema);
                    Box::new(Query { plan, schema, direct: None, list: None, direct_lock: None, keys })
                }
            });
        }
        Statement::Explain {
            analyze,
            verbose,
            statement,
            options,
            format,
            query_plan,
            estimate,
            describe_alias: _,
        } => {
            if query_plan || estimate {
                let word = if query_plan { "query" } else { "estimate" };
                return Err(SqlError::syntax(format!("syntax error at or near \"{word}\"")));
            }
            let how = Options::new(analyze, verbose, format.is_some(), options.as_deref().unwrap_or(&[]), &text)?;
            let begun = Instant::now();
            let inner = prepare(names, Some(explained(*statement, how)?), &text, declared, catalog_version)?;
            let planned = begun.elapsed();
            // What EXECUTE names is looked for when it is run.
            let is_shown = match &inner.kind {
                Kind::Query(_) | Kind::Write(_) => true,
                Kind::Call(_) => !how.analyze,
                Kind::Utility(statement) => matches!(**statement, Statement::Execute { .. }),
                _ => false,
            };
            if !is_shown {
                return Err(SqlError::unsupported("EXPLAIN of this statement is not supported"));
            }
            prepared.param_oids = Arc::clone(&inner.param_oids);
            prepared.domains = inner.domains.clone();
            prepared.fields = Some(Arc::new([how.format.field()]));
            prepared.needs = inner.needs.clone();
            prepared.kind = Kind::Explain { how, planned, inner: Arc::new(inner) };
        }
        other => {
            prepared.fields = crate::command::utility::fields(&other);
            prepared.kind = Kind::Utility(Box::new(other));
        }
    }
    prepared.bytes = plans::bytes_of(&prepared);
    Ok(prepared)
}

/// What is planned of a statement that EXPLAIN is of: of one that makes something of a query, that query.
///
/// # Errors
/// `0A000`: making a table is not measured.
fn explained(mut statement: Statement, how: Options) -> Result<Statement, SqlError> {
    crate::parse::temporary::made_by_select(&mut statement);
    match statement {
        Statement::CreateTable(mut table) if table.query.is_some() => match table.query.take() {
            Some(query) if !how.analyze => Ok(Statement::Query(query)),
            _ => Err(SqlError::unsupported("EXPLAIN ANALYZE of CREATE TABLE AS is not supported")),
        },
        Statement::Declare { mut stmts } => {
            match stmts.pop().filter(|_| stmts.is_empty()).and_then(|declare| declare.for_query) {
                Some(query) => Ok(Statement::Query(query)),
                None => Err(SqlError::unsupported("EXPLAIN of this statement is not supported")),
            }
        }
        other => Ok(other),
    }
}

pub(crate) fn query_kind(names: &Names<'_>, plan: QueryPlan, direct_lock: Option<DirectLock>) -> Box<Query> {
    let direct = DirectSelect::new(names.state, &plan);
    let list = match plan.is_planned_each_time() {
        true => None,
        false => DirectList::new(names.state, &plan.logical, plan.schema.fields()),
    };
    let schema = Arc::clone(&plan.schema);
    Box::new(Query { plan, schema, direct, list, direct_lock, keys: Vec::new() })
}

/// A query parsed from text that this crate wrote.
pub(crate) fn template(text: &str) -> Result<Box<ast::Query>, SqlError> {
    match Parser::parse_sql(&PostgreSqlDialect {}, text).map(|mut all| all.pop()) {
        Ok(Some(Statement::Query(query))) => Ok(query),
        _ => Err(SqlError::internal(format!("bad template: {text}"))),
    }
}

/// A search path's number: equal ones of a database have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PathId(pub(crate) u64);
