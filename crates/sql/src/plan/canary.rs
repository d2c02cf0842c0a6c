//! The canary of kept plans: with `RESURGAM_PLAN_CANARY=1` in the environment, or
//! [`Planning::canary`](crate::Planning), each run of a kept plan is compared with plans that are made
//! for that run alone.
//!
//! A kept plan runs twice: first with *other* values than the statement's (and is compared with a
//! plan made for those), then, reset as it always is between two runs, with the statement's (and is
//! compared again). What is executed directly is compared in `session/direct_canary.rs`. So a value that a run leaves in the plan shows, whichever test runs the
//! statement, and if it does so only once. A difference ends the statement with `XX000`.
//!
//! Not compared is what may differ from run to run: plans with volatile functions, rows that a limit
//! cut off (these are counted), the order of rows, results of many rows; reads of one given row in
//! the place of a table (they can be read once); plans that run subqueries with a limit, or sums of floats, in them; errors, as a plan made with its values may have
//! one where no row would have come to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, SubqueryAlias};
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

use crate::exec::cell::ParamCell;
use crate::exec::table::engine_table;
use crate::exec::{apply, bridge};
use crate::plan::planner::{Instance, Made};
use crate::wire::SqlError;

/// Rows of a result that is compared, at most.
const ROWS_MAX: usize = 20_000;

/// Runs that were compared since the process began.
static COMPARED: AtomicU64 = AtomicU64::new(0);

/// How many runs were compared since the process began: a test that compares nothing proves nothing.
#[doc(hidden)]
pub fn plans_compared() -> u64 {
    COMPARED.load(Ordering::Relaxed)
}

/// One more was compared.
pub(crate) fn compared() {
    COMPARED.fetch_add(1, Ordering::Relaxed);
}

/// A plan for a statement's values alone, which something else than a kept plan is compared with.
pub(crate) struct Fresh {
    pub instance: Instance,
    /// Rows are only counted.
    pub is_limited: bool,
}

/// What a run of a kept plan is compared with.
#[derive(Debug)]
pub(crate) struct Canary {
    /// A plan for the statement's values; `None` if there is none (an error that it may not have).
    pub fresh: Option<Made>,
    /// Other values and a plan for them.
    pub other: Option<(Arc<[ScalarValue]>, Made)>,
    /// Rows are only counted.
    pub is_limited: bool,
}

/// Whether runs of a plan can be compared; if so, whether their rows are only counted.
pub(crate) fn is_comparable(plan: &LogicalPlan) -> Option<bool> {
    let (mut comparable, mut limited) = (true, false);
    // The subqueries that the plan runs, which are in its expressions.
    let mut within = Vec::new();
    let _ = plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => {
                comparable &= engine_table(&scan.source).is_some();
                limited |= scan.fetch.is_some();
            }
            LogicalPlan::Limit(_) | LogicalPlan::Distinct(Distinct::On(_)) => limited = true,
            LogicalPlan::Distinct(Distinct::All(input)) => {
                limited |= input.schema().fields().iter().any(|field| has_forms(field.data_type()));
            }
            LogicalPlan::Sort(sort) => limited |= sort.fetch.is_some(),
            // What these gather comes in the order of the rows.
            LogicalPlan::Window(_) => limited = true,
            LogicalPlan::Aggregate(aggregate) => {
                let groups = aggregate.schema.fields().iter().take(aggregate.group_expr.len());
                limited |= groups.into_iter().any(|field| has_forms(field.data_type()));
                limited |= aggregate.aggr_expr.iter().any(|expr| {
                    let name = expr.schema_name().to_string();
                    ["array_agg", "string_agg", "first_value", "last_value", "json"].iter().any(|n| name.contains(n))
                });
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { .. }) => {}
            LogicalPlan::Extension(_) | LogicalPlan::RecursiveQuery(_) => comparable = false,
            _ => {}
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                match apply::plan_of_call(expr) {
                    Some((plan, is_exists)) => within.push((plan.clone(), is_exists)),
                    None => comparable &= !expr.is_volatile_node(),
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    // What is chosen, or summed, in one of them in some order may decide about rows around it.
    comparable &= within.iter().all(|(plan, is_exists)| match if *is_exists { below_limit(plan) } else { plan } {
        LogicalPlan::TableScan(scan) if *is_exists => {
            engine_table(&scan.source).is_some() && !scan.filters.iter().any(Expr::is_volatile)
        }
        plan => !sums_floats(plan) && is_comparable(plan) == Some(false),
    });
    comparable.then_some(limited)
}

/// What has rows if a plan of EXISTS, which reads only the first of them, has one.
fn below_limit(plan: &LogicalPlan) -> &LogicalPlan {
    let mut plan = plan;
    loop {
        plan = match plan {
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Limit(limit) => &limit.input,
            _ => return plan,
        }
    }
}

/// Whether a plan computes floats of many rows, which are as exact as the order that these come in.
fn sums_floats(plan: &LogicalPlan) -> bool {
    plan.exists(|node| {
        let is_float = |ty: &DataType| matches!(ty, DataType::Float32 | DataType::Float64);
        Ok(matches!(node, LogicalPlan::Aggregate(aggregate)
            if aggregate.schema.fields().iter().any(|field| is_float(field.data_type()))))
    })
    .unwrap_or(true)
}

/// Whether equal values of a type are shown in several ways (1.0 and 1.00, a month and 30 days): which of them stands
/// for a group depends on the order in which its rows come.
fn has_forms(ty: &DataType) -> bool {
    match ty {
        // Bare numerics, documents, intervals, `character` with its blanks.
        DataType::LargeBinary | DataType::Binary | DataType::Interval(_) | DataType::LargeUtf8 => true,
        // `citext`
        DataType::LargeList(_) => true,
        DataType::List(item) | DataType::FixedSizeList(item, _) => has_forms(item.data_type()),
        _ => false,
    }
}

/// Other values of the same types: those of the other parameters of a type, and near ones.
pub(crate) fn other_values(values: &[ScalarValue]) -> Option<Arc<[ScalarValue]>> {
    let other = |(at, value): (usize, &ScalarValue)| {
        let next = values.iter().cycle().skip(at + 1).take(values.len().saturating_sub(1));
        let of_type = |other: &&ScalarValue| other.data_type() == value.data_type() && *other != value;
        match next.into_iter().find(of_type) {
            // Every other one comes from somewhere else in the list, the rest is new.
            Some(found) if at % 2 == 0 => found.clone(),
            _ => near(value),
        }
    };
    let others: Vec<ScalarValue> = values.iter().enumerate().map(other).collect();
    (others != values).then(|| others.into())
}

fn near(value: &ScalarValue) -> ScalarValue {
    use ScalarValue as V;
    match value {
        V::Int16(Some(v)) => V::Int16(Some(v.wrapping_add(1))),
        V::Int32(Some(v)) => V::Int32(Some(v.wrapping_add(1))),
        V::Int64(Some(v)) => V::Int64(Some(v.wrapping_add(1))),
        V::Float32(Some(v)) => V::Float32(Some(v + 1.0)),
        V::Float64(Some(v)) => V::Float64(Some(v + 1.0)),
        V::Boolean(Some(v)) => V::Boolean(Some(!v)),
        V::Decimal128(Some(v), precision, scale) => V::Decimal128(Some(v / 2), *precision, *scale),
        V::Date32(Some(v)) => V::Date32(Some(v.wrapping_add(1))),
        V::TimestampMicrosecond(Some(v), zone) => {
            V::TimestampMicrosecond(Some(v.wrapping_add(86_400_000_000)), zone.clone())
        }
        V::Utf8(Some(text)) => V::Utf8(Some(near_text(text))),
        V::Utf8View(Some(text)) => V::Utf8View(Some(near_text(text))),
        other => other.clone(),
    }
}

/// A text with its last letter changed; a number in text stays one.
fn near_text(text: &str) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    if let Some(last) = letters.last_mut() {
        *last = match *last {
            '0'..='8' => char::from_u32(*last as u32 + 1).unwrap_or(*last),
            '9' => '0',
            'a'..='y' => char::from_u32(*last as u32 + 1).unwrap_or(*last),
            other => other,
        };
    }
    letters.into_iter().collect()
}

/// The rows of a run: sorted, as text; `None` if they are too many.
struct Rows {
    batches: Vec<RecordBatch>,
    rows: usize,
    /// What comes after [`ROWS_MAX`].
    rest: Option<SendableRecordBatchStream>,
}

async fn rows_of(made: &Made, task: &Arc<TaskContext>) -> Result<Rows> {
    made.subqueries.begin(task);
    let mut stream = execute_stream(Arc::clone(&made.plan), Arc::clone(task))?;
    let mut found = Rows { batches: Vec::new(), rows: 0, rest: None };
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        found.rows += batch.num_rows();
        found.batches.push(batch);
        if found.rows > ROWS_MAX {
            found.rest = Some(stream);
            break;
        }
    }
    Ok(found)
}

/// Rows as texts, sorted.
fn shown(batches: &[RecordBatch]) -> Result<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            // Sums of floats are as exact as the order that they come in.
            .filter(|column| !matches!(column.data_type(), DataType::Float32 | DataType::Float64))
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<std::result::Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(cells.join("|"));
        }
    }
    rows.sort_unstable();
    Ok(rows)
}

impl Canary {
    /// Runs a kept plan, whose cell is filled with the statement's values, as its stream would.
    pub(crate) fn start(
        self,
        kept: Made,
        cell: Arc<ParamCell>,
        values: Arc<[ScalarValue]>,
        task: Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let schema = kept.plan.schema();
        let run = async move { self.run(kept, cell, values, task).await };
        let stream = futures::stream::once(run).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(schema, stream.boxed()))
    }

    async fn run(
        self,
        mut made: Made,
        cell: Arc<ParamCell>,
        values: Arc<[ScalarValue]>,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if let Some((others, fresh)) = &self.other {
            cell.fill(Arc::clone(others));
            let kept = rows_of(&made, &task).await;
            let fresh = rows_of(fresh, &task).await;
            self.compare(kept.as_ref().ok(), fresh.as_ref().ok(), others)?;
            drop(kept);
            // As between two runs of a statement.
            cell.clear();
            made.subqueries.end();
            made.plan = reset_plan_states(made.plan)?;
            cell.fill(Arc::clone(&values));
        }
        let kept = rows_of(&made, &task).await?;
        if let Some(fresh) = &self.fresh {
            let fresh = rows_of(fresh, &task).await;
            self.compare(Some(&kept), fresh.as_ref().ok(), &values)?;
        }
        let schema = made.plan.schema();
        let first = futures::stream::iter(kept.batches.into_iter().map(Ok));
        let stream = match kept.rest {
            Some(rest) => first.chain(rest).boxed(),
            None => first.boxed(),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    fn compare(&self, kept: Option<&Rows>, fresh: Option<&Rows>, values: &[ScalarValue]) -> Result<()> {
        let (Some(kept), Some(fresh)) = (kept, fresh) else { return Ok(()) };
        if kept.rest.is_some() || fresh.rest.is_some() {
            return Ok(());
        }
        compared();
        let alike = kept.rows == fresh.rows && (self.is_limited || shown(&kept.batches)? == shown(&fresh.batches)?);
        if alike { Ok(()) } else { Err(differs(kept, fresh, values)) }
    }
}

#[cold]
fn differs(kept: &Rows, fresh: &Rows, values: &[ScalarValue]) -> DataFusionError {
    let some = |rows: &Rows| {
        let rows = shown(&rows.batches).unwrap_or_default();
        rows.into_iter().take(20).collect::<Vec<_>>().join(" / ")
    };
    let message = format!(
        "a kept plan gives other rows than a fresh one, for {values:?}: {} rows, {} | {} rows, {}",
        kept.rows,
        some(kept),
        fresh.rows,
        some(fresh)
    );
    tracing::error!("{message}");
    bridge::failure(SqlError::internal(message))
}

#[cfg(test)]
mod tests {
    use resurgam_engine::{Database, Options};

    use super::*;
    use crate::exec::planning::Planning;
    use crate::plan::statement::Kind;
    use crate::session::Session;
    use crate::session::database::{SessionOptions, SqlDatabase};
    use crate::session::settings::SqlSettings;

    async fn rows(session: &mut Session, text: &str) -> Result<Vec<String>, SqlError> {
        let answer = session.query(text).await?;
        Ok(answer.rows.iter().map(|row| row.iter().flatten().cloned().collect::<Vec<_>>().join("|")).collect())
    }

    /// A parameter that got into a kept plan is found, by the values of the statement and by others.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_folded_parameter_is_found() {
        let dir = tempfile::tempdir().expect("folder");
        let engine = Database::open(dir.path().join("db"), Options::default()).expect("open");
        let planning = Planning { canary: true, direct: false, ..Planning::default() };
        let db = SqlDatabase::new(engine, SqlSettings { planning, ..SqlSettings::default() });
        let mut session = db.session(SessionOptions::default()).expect("session");
        for text in ["CREATE TABLE t (a int, b int)", "INSERT INTO t SELECT i, i FROM generate_series(1, 9) AS s(i)"] {
            session.query(text).await.expect("filled");
        }
        let before = plans_compared();
        let query = |from: i32| format!("SELECT b FROM t WHERE a > {from} AND a IN ({from}, 2, 5, 7, 9) ORDER BY b");
        assert_eq!(rows(&mut session, &query(2)).await.expect("rows"), ["5", "7", "9"]);
        assert_eq!(rows(&mut session, &query(5)).await.expect("rows"), ["7", "9"]);
        assert!(plans_compared() >= before + 4, "each run is compared twice");
        // Planted: a kept plan with the values of one run in it.
        let lifted = crate::parse::lexer::lift(&query(5)).expect("lifted");
        let prepared = session.prepare_text(&lifted.text, &lifted.oids).expect("kept");
        let Kind::Query(found) = &prepared.kind else { panic!("no query") };
        let values: Vec<ScalarValue> =
            lifted.literals.iter().map(|literal| ScalarValue::Int32(literal.text.parse().ok())).collect();
        let state = session.state().expect("a state");
        for text in [query(2), query(5)] {
            found.plan.plant(&state, &values).await.expect("planted");
            let error = rows(&mut session, &text).await.expect_err("a difference");
            assert!(error.sqlstate == "XX000" && error.message.contains("kept plan"), "{error}");
        }
        // What was found out is not kept.
        assert_eq!(rows(&mut session, &query(7)).await.expect("rows"), ["9"]);
        // Plans that run subqueries are compared, too: nothing of one run is left for the next.
        for (from, wanted) in [(2, "4 5 6 7 8 9"), (5, "7 8 9"), (2, "4 5 6 7 8 9")] {
            let before = plans_compared();
            let text = format!(
                "SELECT b FROM t WHERE b > {from} AND (a IN (SELECT x.a + 1 FROM t x WHERE x.a > {from}) OR b = 9) \
                 AND EXISTS (SELECT 1 FROM t y WHERE y.a = t.a AND y.b > {from}) = (b > (SELECT min(a) FROM t WHERE a > {from} - 2))"
            );
            let mut found = rows(&mut session, &text).await.expect("rows");
            found.sort();
            assert_eq!(found.join(" "), wanted);
            assert!(plans_compared() >= before + 2, "{text}");
        }
    }
}
