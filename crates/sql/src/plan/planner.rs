//! From syntax to plans: name lookup against a transaction, DataFusion's session state,
//! and kept physical plans.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::config::Dialect;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, TableReference, plan_datafusion_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::provider_as_source;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};
use datafusion::optimizer::Optimizer;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use resurgam_engine::{Database, Table, Transaction};

use crate::exec::cell::{ParamCell, made_without_values};
use crate::exec::compute::{Pace, aside, beside};
use crate::exec::context::{StatementContext, StopFlag};
use crate::exec::early::EarlyConditions;
use crate::exec::estimate::{self, Counted};
use crate::exec::filter::ByteFilters;
use crate::exec::late::LateRows;
use crate::exec::memory::ServerPool;
use crate::exec::once::OnceTable;
use crate::exec::pieces::Pieces;
use crate::exec::planners::plan_apart;
use crate::exec::planning::Planning;
use crate::exec::split::Splits;
use crate::exec::table::{EngineTable, engine_table};
use crate::exec::watch::Watches;
use crate::exec::window_orders::WindowOrders;
use crate::exec::{apply, bridge, dependencies, measured};
use crate::parse::names::parts_of;
use crate::pg::context::PgContext;
use crate::pg::functions::parameters_that_leave_out;
use crate::pg::running::{self, Stop};
use crate::plan::analyze::Analyzed;
use crate::plan::canary::{self, Canary, Fresh};
use crate::plan::key_order::KeyOrder;
use crate::plan::lookup::Lookup;
use crate::plan::params::{bind_to_cell, bind_to_values, is_typed_by_literals, must_plan_each_time};
use crate::plan::plans::{Counts, RunBy};
use crate::plan::{in_lists, join_order, merge_join, projections, rules};
use crate::planted::Planted;
use crate::wire::SqlError;

/// Bytes of these that are kept in any case.
const POOL_BYTES: usize = 256 << 10;
/// Catalog name under which planning finds the target of an UPDATE or DELETE.
pub(crate) const TARGET: &str = "resurgam$target";
/// Kept physical plans of one statement, for as many concurrent executions.
const INSTANCES_MAX: usize = 16;

fn config(runtime: &RuntimeEnv) -> SessionConfig {
    let mut options = ConfigOptions::new();
    if let Some(pool) = ServerPool::of(runtime) {
        options.execution.sort_spill_reservation_bytes = pool.merge_bytes();
    }
    options.execution.target_partitions = 1;
    options.execution.collect_statistics = false;
    options.execution.time_zone = Some("UTC".to_owned());
    // A filter that an operator fills while it runs, in another operator of a plan that is kept, would
    // go into the next run. Each has a switch of its own, which the common one is no master of here.
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // It takes the limit of a sort for one of the groups below, also below windows, which need all groups, and below columns that are
    // called as one of these. And it makes room for as many groups as the limit says, without asking whether there is any.
    options.optimizer.enable_topk_aggregation = false;
    // Of windows over each other it adds no frames up.
    options.optimizer.enable_window_limits = false;
    // It would refuse plans over a promise about NULLs that an optimiser rule has made or taken back.
    options.execution.skip_physical_aggregate_schema_check = true;
    options.optimizer.repartition_joins = false;
    options.optimizer.repartition_aggregations = false;
    options.optimizer.repartition_windows = false;
    options.optimizer.repartition_sorts = false;
    options.sql_parser.dialect = Dialect::PostgreSQL;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = true;
    options.sql_parser.collect_spans = true;
    options.sql_parser.default_null_ordering = "nulls_max".to_owned();
    options.catalog.create_default_catalog_and_schema = false;
    options.catalog.information_schema = false;
    SessionConfig::from(options)
}

/// The state that a session plans with.
pub(crate) fn session_state(
    runtime: &Arc<RuntimeEnv>,
    cx: &Arc<dyn PgContext>,
    planning: Planning,
    stop: &Arc<StopFlag>,
) -> Result<SessionState> {
    let mut builder = SessionStateBuilder::new()
        .with_analyzer_rules(rules::rules())
        .with_config(
            config(runtime)
                .with_extension(Arc::new(planning))
                .with_extension(Arc::clone(stop))
                .with_extension(Arc::new(estimate::table::Asked(Arc::clone(cx)))),
        )
        .with_runtime_env(Arc::clone(runtime))
        .with_default_features()
        .with_query_planner(Arc::new(apply::Planner));
    let mut optimizer = if planning.join_order { join_order::rules() } else { Optimizer::new().rules };
    rules::mend(&mut optimizer);
    dependencies::mend(&mut optimizer);
    builder = builder.with_optimizer_rules(rules::stoppable(optimizer));
    let mut physical = projections::fenced(rules::physical());
    if planning.spilling_joins {
        merge_join::add(&mut physical);
    }
    builder = builder.with_physical_optimizer_rules(physical);
    if planning.key_order || planning.lookup_rows > 0 {
        builder = builder.with_physical_optimizer_rule(Arc::new(KeyOrder(planning)));
    }
    if planning.late_rows {
        builder = builder.with_physical_optimizer_rule(Arc::new(LateRows));
    }
    builder = builder.with_physical_optimizer_rule(Arc::new(WindowOrders));
    let builder = builder.with_physical_optimizer_rule(Arc::new(Watches));
    let builder = builder.with_physical_optimizer_rule(Arc::new(ByteFilters));
    let builder = builder.with_physical_optimizer_rule(Arc::new(Pieces));
    let mut builder = builder.with_physical_optimizer_rule(Arc::new(Splits));
    if planning.early_conditions {
        builder = builder.with_physical_optimizer_rule(Arc::new(EarlyConditions));
    }
    let mut state = builder.build();
    bridge::register_functions(&mut state, cx)?;
    // The last one: what the others do to a subquery has to be done before it is taken out.
    state.add_analyzer_rule(Arc::new(apply::Extract));
    Ok(state)
}

/// Looks names up for one statement.
pub(crate) struct Names<'a> {
    pub state: &'a SessionState,
    pub txn: &'a Transaction,
    pub cx: &'a Arc<dyn PgContext>,
}

impl Names<'_> {
    /// The table of that name, system catalogs excluded.
    pub(crate) fn table(&self, name: &TableReference) -> Result<Option<Arc<Table>>> {
        let Some(schema) = self.schema_named(name)? else { return Ok(None) };
        self.txn.table(&schema, name.table()).map_err(bridge::storage)
    }

    /// The sequence of that name.
    fn sequence(&self, name: &TableReference) -> Result<Option<Arc<Table>>> {
        let Some(schema) = self.schema_named(name)? else { return Ok(None) };
        self.txn.sequence_named(&schema, name.table()).map_err(bridge::storage)
    }

    /// The schema that a name has, or is found in.
    fn schema_named(&self, name: &TableReference) -> Result<Option<String>> {
        match name.schema() {
            Some(schema) => Ok(Some(schema.to_owned())),
            None => self.lookup().schema_of(name.table()).map_err(bridge::failure),
        }
    }

    /// Names of relations along the session's path.
    pub(crate) fn lookup(&self) -> Lookup<'_> {
        Lookup { txn: self.txn, path: self.cx.search_path() }
    }

    /// The table that a statement writes or locks.
    ///
    /// # Errors
    /// `42P01`; `42501` for one of the system's.
    pub(crate) fn target(&self, name: &ast::ObjectName) -> std::result::Result<Arc<Table>, SqlError> {
        self.lookup().table(name).map_err(|error| match error.sqlstate.as_str() {
            // Only statements about definitions tell of the schema.
            "3F000" => SqlError::new("42P01", format!("relation \"{}\" does not exist", shown(name))),
            _ => error,
        })
    }
}

/// A name as errors have it.
fn shown(name: &ast::ObjectName) -> String {
    match parts_of(name) {
        Ok((Some(schema), name)) => format!("{schema}.{name}"),
        Ok((None, name)) => name,
        Err(_) => name.to_string(),
    }
}

fn undefined(name: &TableReference) -> datafusion::common::DataFusionError {
    let name = match name.schema() {
        Some(schema) => format!("{schema}.{}", name.table()),
        None => name.table().to_owned(),
    };
    bridge::failure(SqlError::new("42P01", format!("relation \"{name}\" does not exist")))
}

impl Names<'_> {
    /// What a relation's name means: a table, a relation of the system, or, under [`TARGET`], a table with the keys
    /// of its rows.
    ///
    /// # Errors
    /// `42P01`
    pub(crate) fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        if name.catalog() == Some(TARGET) {
            let table = self.table(&name)?.ok_or_else(|| undefined(&name))?;
            return Ok(provider_as_source(Arc::new(EngineTable::new(table, true))));
        }
        let system = |schema: &str| bridge::catalog_table(self.cx, schema, name.table());
        let found: Option<Arc<dyn TableProvider>> = match name.schema() {
            Some(schema @ ("pg_catalog" | "information_schema" | "sys")) => system(schema)?,
            Some(_) => None,
            None => system("pg_catalog")?,
        };
        if let Some(provider) = found {
            return Ok(provider_as_source(provider));
        }
        match self.table(&name)? {
            Some(table) => Ok(provider_as_source(Arc::new(EngineTable::new(table, false)))),
            None => match self.sequence(&name)? {
                Some(sequence) => Ok(provider_as_source(crate::pg::catalog::sequence_table(self.cx, &sequence))),
                None => Err(undefined(&name)),
            },
        }
    }

    /// A function that is a table, of constants.
    pub(crate) fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let function = self
            .state
            .table_functions()
            .get(name)
            .cloned()
            .ok_or_else(|| plan_datafusion_err!("table function '{name}' not found"))?;
        if args.iter().any(crate::plan::analyze::says_any) {
            return Err(bridge::failure(SqlError::unsupported(
                "COLLATE in the arguments of this function is not supported",
            )));
        }
        let schema = DFSchema::empty();
        let args = args
            .into_iter()
            .map(|arg| simplified(self.state, as_in_plan(self.state, arg, &schema)?, &schema))
            .collect::<Result<Vec<_>>>()?;
        let args = datafusion::catalog::TableFunctionArgs::new(&args, self.state);
        Ok(provider_as_source(function.create_table_provider_with_args(args)?))
    }
}

impl Names<'_> {
    /// The value of an argument of EXECUTE, number `at` from 0, for a parameter of that type.
    ///
    /// # Errors
    /// `42804` for another type; those of evaluating it.
    pub(crate) fn argument(&self, expr: &ast::Expr, at: usize, oid: u32) -> std::result::Result<ScalarValue, SqlError> {
        let expr = crate::plan::analyze::argument(self, expr, at, oid)?;
        let schema = DFSchema::empty();
        as_in_plan(self.state, expr, &schema)
            .and_then(|expr| crate::exec::access_path::evaluate_constant(&crate::exec::access_path::constant(&expr)?))
            .map_err(|error| crate::pg::errors::from_datafusion(error, ""))
    }
}

/// An expression over `schema` as the analyzer would leave it in a plan.
pub(crate) fn as_in_plan(_: &SessionState, expr: Expr, schema: &DFSchema) -> Result<Expr> {
    bridge::checked_arithmetic(rules::coerced(expr, schema)?, schema)
}

/// The same, folded.
pub(crate) fn simplified(state: &SessionState, expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        .build();
    in_lists::apart(expr, |expr| ExprSimplifier::new(context).simplify(expr))
}

/// A physical plan for one run.
#[derive(Debug)]
pub(crate) struct Instance {
    plan: Arc<dyn ExecutionPlan>,
    subqueries: apply::Run,
    /// What its parameters read; `None` if their values are in the plan, which then serves this run only.
    cell: Option<Arc<ParamCell>>,
    canary: Mutex<Option<Box<(Canary, Arc<[ScalarValue]>)>>>,
    pace: Arc<Pace>,
}

/// A planned query that can be run any number of times.
#[derive(Debug)]
pub(crate) struct QueryPlan {
    /// Optimised, with placeholders; or as planned, when every execution plans anew.
    pub(crate) logical: LogicalPlan,
    /// Physical plans of it may take long to make.
    is_large: bool,
    /// No physical plan of it can be kept.
    each_time: AtomicBool,
    pub(crate) leaving_out: LeavingOut,
    /// With literals for its parameters some of its types would be others.
    pub(crate) typed_by_literals: bool,
    /// It has a value in it, maybe folded to a constant, that depends on the session.
    of_session: bool,
    /// The tables' sizes that it was made by.
    counted: Counted,
    pub(crate) params: Arc<[DataType]>,
    pub(crate) schema: SchemaRef,
    pub(crate) counts: Arc<Counts>,
    pool: Mutex<VecDeque<Kept>>,
    /// What one physical plan took when it was made, as far as it was measured, and all that are kept may take.
    made_bytes: AtomicUsize,
    pool_bytes_max: AtomicUsize,
    pace: Arc<Pace>,
}

/// Parameters of a statement which, where they are NULL, leave out what may fail: it is planned with them then.
#[derive(Clone, Debug)]
pub(crate) struct LeavingOut(Box<[usize]>);

/// A physical plan that is not running, with its cell, which is empty.
#[derive(Debug)]
struct Kept {
    made: Made,
    cell: Arc<ParamCell>,
}

/// A physical plan and the subqueries that it runs itself.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) subqueries: apply::Run,
}

impl QueryPlan {
    /// Optimises `logical`; `params` are the types of all parameters.
    pub(crate) fn new(state: &SessionState, logical: LogicalPlan, params: Arc<[DataType]>) -> Result<Self> {
        let analyzed = state.analyzer().execute_and_check(logical.clone(), state.config_options(), |_, _| {})?;
        let schema = Arc::new(analyzed.schema().as_arrow().clone());
        let of_session = has_session_values(state, &analyzed);
        let typed_by_literals = is_typed_by_literals(&analyzed);
        let counted = estimate::table::fill(state, &analyzed);
        name_tables(&analyzed);
        let leaving_out = LeavingOut::of(&analyzed);
        let each_time = must_plan_each_time(&logical);
        let logical = if each_time { logical } else { apply::optimize(state, analyzed)? };
        // The optimiser can bring parameters into places that need their values.
        let each_time = each_time || must_plan_each_time(&logical);
        let each_time = AtomicBool::new(each_time);
        let (counts, pool) = (Arc::default(), Mutex::default());
        let pace = Arc::new(Pace::of(&logical));
        let is_large = is_large(&logical);
        let (made_bytes, pool_bytes_max) = (AtomicUsize::new(0), AtomicUsize::new(POOL_BYTES));
        Ok(Self {
            logical,
            is_large,
            each_time,
            leaving_out,
            typed_by_literals,
            of_session,
            counted,
            params,
            schema,
            counts,
            pool,
            made_bytes,
            pool_bytes_max,
            pace,
        })
    }

    /// The same of an analysed query, which says what its columns are.
    pub(crate) fn analyzed(state: &SessionState, query: Analyzed, params: Arc<[DataType]>) -> Result<Self> {
        let Analyzed { plan, columns, locks: _, once: _, needs: _, keys: _ } = query;
        let mut out = Self::new(state, plan, params)?;
        let fields = out
            .schema
            .fields()
            .iter()
            .zip(&columns)
            .map(|(field, column)| Arc::new(column.ty.field(&column.name, field.data_type())) as FieldRef);
        out.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(out)
    }

    /// The statement takes so many bytes while it is kept: its physical plans may take as many again.
    pub(crate) fn set_weight(&self, bytes: usize) {
        self.pool_bytes_max.store(bytes.max(POOL_BYTES), Ordering::Relaxed);
    }

    /// A physical plan ready to run with `values`.
    pub(crate) async fn instance(&self, state: &SessionState, values: &[ScalarValue]) -> Result<Instance> {
        // What ran into its limit is planned for that run.
        let each_time = self.each_time.load(Ordering::Relaxed)
            || Planning::of(state.config()).spilling_joins
            || self.leaves_out(values);
        if Planted::FoldedParameter.is_planted() && !each_time && self.pool.lock().is_empty() {
            self.plant(state, values).await?;
        }
        let kept = if each_time { None } else { self.pool.lock().pop_front() };
        let kept = match kept {
            Some(kept) => {
                self.counts.run(RunBy::Hit);
                Some(kept)
            }
            None if !each_time => {
                let begun = Instant::now();
                let (made, bytes) = self.make(state, |maker, state| {
                    let (made, bytes) = crate::pg::memory::measured(|| apply::wait(maker.without_values(state)));
                    Ok((made?, bytes))
                })?;
                self.made_bytes.store(bytes, Ordering::Relaxed);
                self.counts.planned(begun.elapsed());
                match made {
                    Some(_) => self.counts.run(RunBy::Miss),
                    None => self.each_time.store(true, Ordering::Relaxed),
                }
                made
            }
            None => None,
        };
        let Some(Kept { made, cell }) = kept else {
            let begun = Instant::now();
            let own = values.to_vec();
            let made = self.make(state, move |maker, state| apply::wait(maker.with_values(state, &own)))?;
            let Made { plan, subqueries } = made;
            self.counts.planned(begun.elapsed());
            self.counts.run(RunBy::EachTime);
            let pace = Arc::clone(&self.pace);
            return Ok(Instance { plan, subqueries, cell: None, canary: Mutex::default(), pace });
        };
        let Made { plan, subqueries } = made;
        let canary = match Planning::of(state.config()).canary {
            true => self.canary(state, values).await,
            false => None,
        };
        cell.fill(values.into());
        let pace = Arc::clone(&self.pace);
        Ok(Instance { plan, subqueries, cell: Some(cell), canary: Mutex::new(canary), pace })
    }

    /// What a run with these values is compared with.
    #[cold]
    async fn canary(&self, state: &SessionState, values: &[ScalarValue]) -> Option<Box<(Canary, Arc<[ScalarValue]>)>> {
        let is_limited = canary::is_comparable(&self.logical)?;
        let maker = self.maker();
        let fresh = maker.with_values(state, values).await.ok();
        let other = match canary::other_values(values) {
            Some(others) => maker.with_values(state, &others).await.ok().map(|made| (others, made)),
            None => None,
        };
        // What reads rows without a plan is compared with plans.
        fresh.iter().chain(other.iter().map(|(_, made)| made)).for_each(|made| made.subqueries.by_plans());
        Some(Box::new((Canary { fresh, other, is_limited }, values.into())))
    }

    /// What direct execution with these values is compared with, if there is anything.
    pub(crate) async fn fresh(&self, state: &SessionState, values: &[ScalarValue]) -> Option<Fresh> {
        let is_limited = canary::is_comparable(&self.logical)?;
        let Made { plan, subqueries } = self.maker().with_values(state, values).await.ok()?;
        subqueries.by_plans();
        let pace = Arc::clone(&self.pace);
        let instance = Instance { plan, subqueries, cell: None, canary: Mutex::default(), pace };
        Some(Fresh { instance, is_limited })
    }

    /// Keeps a plan with values in it: a mistake, for tests of who finds it.
    pub(crate) async fn plant(&self, state: &SessionState, values: &[ScalarValue]) -> Result<()> {
        let made = self.maker().with_values(state, values).await?;
        self.pool.lock().push_front(Kept { made, cell: Arc::default() });
        Ok(())
    }

    fn maker(&self) -> Maker {
        Maker { logical: self.logical.clone(), params: Arc::clone(&self.params) }
    }

    /// Makes a physical plan, which may take long without a moment at which it lets others go on. A large one is made on
    /// a thread of its own: who is told to stop meanwhile does so at once.
    fn make<T: Send + 'static>(
        &self,
        state: &SessionState,
        make: impl FnOnce(&Maker, &SessionState) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let maker = self.maker();
        match state.config().get_extension::<StopFlag>() {
            Some(stop) if self.is_large => {
                let state = state.clone();
                plan_apart(&stop, move || make(&maker, &state)).map_err(bridge::failure)?
            }
            Some(stop) => running::with(&(stop as Arc<dyn Stop>), || aside(|| make(&maker, state))),
            None => aside(|| make(&maker, state)),
        }
    }

    /// Gives a physical plan back after its stream ended, without what it held: a join's rows, and
    /// the memory that was reserved for them, would stay as long as the plan is kept.
    pub(crate) fn give_back(&self, instance: Instance) {
        let Instance { plan, subqueries, cell: Some(cell), .. } = instance else { return };
        cell.clear();
        subqueries.end();
        let Ok(plan) = reset_plan_states(plan) else { return };
        let mut pool = self.pool.lock();
        let bytes = self.made_bytes.load(Ordering::Relaxed).saturating_mul(pool.len() + 1);
        if pool.len() < INSTANCES_MAX && bytes <= self.pool_bytes_max.load(Ordering::Relaxed) {
            pool.push_back(Kept { made: Made { plan, subqueries }, cell });
        }
    }

    /// Whether tables that it reads have become so much larger or smaller that it should be made anew.
    pub(crate) fn is_outgrown(&self, engine: &Database) -> bool {
        self.counted.is_outgrown(engine)
    }

    /// Whether it is as it was planned first, without casts and the like, since each run plans anew.
    pub(crate) fn is_planned_each_time(&self) -> bool {
        self.each_time.load(Ordering::Relaxed)
    }

    /// Whether something is not to be computed because of these values: it has to be planned with them.
    pub(crate) fn leaves_out(&self, values: &[ScalarValue]) -> bool {
        self.leaving_out.is_by(values)
    }

    /// Whether the plan has no state of a session in it: then all sessions may share it.
    pub(crate) fn is_shareable(&self, state: &SessionState) -> bool {
        let mut shareable = !self.of_session;
        let _ = apply::walk(&self.logical, &mut |node| {
            if let LogicalPlan::TableScan(scan) = node {
                shareable &= engine_table(&scan.source).is_some() || OnceTable::is_it(&scan.source);
            }
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::ScalarFunction(f) = expr {
                        shareable &= !bridge::is_session_function(state, f.name());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        });
        shareable
    }
}

/// What physical plans are made of.
struct Maker {
    logical: LogicalPlan,
    params: Arc<[DataType]>,
}

impl Maker {
    /// A physical plan that reads its parameters from a cell, which is empty; `None` if there is none
    /// that could be kept.
    async fn without_values(&self, state: &SessionState) -> Result<Option<Kept>> {
        let cell = Arc::<ParamCell>::default();
        let bind = |plan| bind_to_cell(plan, &cell, &self.params);
        let made = match bind(self.logical.clone()) {
            Ok(bound) => Self::physical(bound, state, &bind).await,
            Err(error) => Err(error),
        };
        Ok(made_without_values(&cell, made)?.map(|made| Kept { made, cell }))
    }

    /// A physical plan for these values alone.
    async fn with_values(&self, state: &SessionState, values: &[ScalarValue]) -> Result<Made> {
        let bound = bind_to_values(self.logical.clone(), values)?;
        let analyzed = state.analyzer().execute_and_check(bound, state.config_options(), |_, _| {})?;
        let bound = apply::optimize(state, analyzed)?;
        Self::physical(bound, state, &|plan| bind_to_values(plan, values)).await
    }

    async fn physical(bound: LogicalPlan, state: &SessionState, bind: apply::Bind<'_>) -> Result<Made> {
        let (bound, subqueries) = apply::physical(bound, state, bind).await?;
        let plan = state.query_planner().create_physical_plan(&bound, state).await?;
        Ok(Made { plan, subqueries })
    }
}

impl LeavingOut {
    fn of(plan: &LogicalPlan) -> Self {
        let mut found = Vec::new();
        // The closures return no error.
        let _ = apply::walk(plan, &mut |node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    let ids = parameters_that_leave_out(expr, &apply::may_fail);
                    found.extend(
                        ids.iter().filter_map(|id| id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)),
                    );
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        });
        found.sort_unstable();
        found.dedup();
        Self(found.into())
    }

    /// Whether one of these values does.
    pub(crate) fn is_by(&self, values: &[ScalarValue]) -> bool {
        self.0.iter().any(|at| values.get(*at).is_some_and(ScalarValue::is_null))
    }
}

/// Operators and expressions from which on a plan may take long to become physical.
const LARGE_PARTS: usize = 500;

/// Whether a plan has so many.
fn is_large(plan: &LogicalPlan) -> bool {
    let mut parts = 0;
    let _ = apply::walk(plan, &mut |node| {
        // A scan's columns, too, are followed through all that is above it.
        parts += 1 + node.schema().fields().len() / 16;
        node.apply_expressions(|expr| {
            expr.apply(|_| {
                parts += 1;
                Ok(if parts > LARGE_PARTS { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if parts > LARGE_PARTS { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    parts > LARGE_PARTS
}

impl Instance {
    pub(crate) fn start(&self, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.subqueries.begin(&task);
        let canary = self.canary.lock().take();
        if let (Some(canary), Some(cell)) = (canary, &self.cell)
            && StatementContext::of(&task)?.target.is_none()
        {
            let (canary, values) = *canary;
            let kept = Made { plan: Arc::clone(&self.plan), subqueries: self.subqueries.clone() };
            return Ok(canary.start(kept, Arc::clone(cell), values, task));
        }
        let stop = Arc::clone(&StatementContext::of(&task)?.stop);
        beside(&self.pace, &stop, || execute_stream(Arc::clone(&self.plan), task))
    }
    pub(crate) fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }
    /// Has EXPLAIN ANALYZE measure what it does from here on. It is not to be given back.
    ///
    /// # Errors
    /// See [`measured::measure`].
    pub(crate) fn measure(&mut self, timed: bool) -> Result<()> {
        // Who is measured runs once.
        *self.canary.lock() = None;
        self.plan = measured::measure(&self.plan, timed)?;
        self.subqueries.measure(timed)
    }
    /// Its subqueries, for EXPLAIN.
    pub(crate) fn subqueries(&self) -> Vec<apply::ShownSubquery> {
        self.subqueries.shown()
    }
}

/// Tells tables what the statement calls them, which EXPLAIN shows.
fn name_tables(plan: &LogicalPlan) {
    // The closure returns no error.
    let _ = apply::walk(plan, &mut |node| {
        if let LogicalPlan::SubqueryAlias(alias) = node
            && let LogicalPlan::TableScan(scan) = alias.input.as_ref()
            && let Ok(provider) = datafusion::datasource::source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<EngineTable>()
        {
            table.called(alias.alias.table());
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

fn has_session_values(state: &SessionState, plan: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = apply::walk(plan, &mut |node| {
        node.apply_expressions(|expr| {
            found |= bridge::is_of_session(state, expr);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found
}
