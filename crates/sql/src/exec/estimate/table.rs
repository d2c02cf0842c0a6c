//! What is known of a table when a statement is planned.
//!
//! It is looked up once for each table of a statement that joins or sorts out indexes, before the plan is optimised
//! ([`fill`]), and stays with the table in the plan. Statements about one table by its key never ask.
//!
//! A plan that is kept is one for tables of about the size that they had. Whoever takes it asks now and then whether that
//! still is so ([`Counted::is_outgrown`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use resurgam_engine::key::encode_unbounded;
use resurgam_engine::{Column, ColumnStatistics, ColumnType, Database, Datum, Table, TableStatistics};

use crate::exec::access_path::{AccessPath, probes, trees};
use crate::exec::apply;
use crate::exec::planning::Planning;
use crate::exec::table::{EngineTable, engine_table};
use crate::pg::context::PgContext;

/// A table of fewer rows counts as one of so many: it may grow while plans are kept, and it makes no difference.
const ROWS_MIN: f64 = 1000.0;
/// Distinct values of a column of which nothing is known.
const DISTINCT_UNKNOWN: f64 = 200.0;
/// By what factor the size of a table has to change for a plan to be another one.
const OUTGROWN: f64 = 2.0;
/// For so long a plan is not asked again whether its tables have changed.
const ASKED_EVERY_MS: u64 = 250;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct TableEstimate {
    pub table: Arc<Table>,
    /// About how many records there are.
    counted: f64,
    /// What was found out by analysing it, and which of its columns each of the table's is.
    statistics: Option<Arc<TableStatistics>>,
    columns: Vec<Option<usize>>,
}

/// A column of a table, wherever it is in a plan.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub of: Arc<TableEstimate>,
    pub column: usize,
}

impl TableEstimate {
    pub(crate) fn new(table: Arc<Table>, records: u64, statistics: Option<Arc<TableStatistics>>) -> Self {
        let of = |column: &Column| {
            let known = &statistics.as_ref()?.columns;
            known.iter().position(|known| known.name == column.name && known.ty == column.ty)
        };
        let columns = table.columns.iter().map(of).collect();
        Self { table, counted: records as f64, statistics, columns }
    }

    /// Rows that plans reckon with.
    pub(crate) fn rows(&self) -> f64 {
        match &self.statistics {
            Some(known) => known.rows_of(self.counted as u64).max(1.0),
            None => self.counted.max(ROWS_MIN),
        }
    }

    /// What was found out of a column.
    fn known(&self, column: usize) -> Option<&ColumnStatistics> {
        let at = (*self.columns.get(column)?)?;
        self.statistics.as_ref()?.columns.get(at)
    }

    /// Whether something was.
    pub(crate) fn is_known(&self, column: usize) -> bool {
        self.known(column).is_some_and(|known| known.distinct != 0.0)
    }

    /// Distinct values of a column.
    pub(crate) fn distinct(&self, column: usize) -> f64 {
        let rows = self.rows();
        if trees(&self.table).any(|(_, key, is_unique)| is_unique && key == [column]) {
            return rows;
        }
        if let Some(distinct) = self.known(column).and_then(|known| known.distinct_of(rows)) {
            return distinct.max(1.0);
        }
        match self.table.columns.get(column).map(|column| &column.ty) {
            Some(ColumnType::Bool) => 2.0,
            _ => DISTINCT_UNKNOWN.min(rows),
        }
    }

    /// The part of the rows that have one given value in a column, whatever it is. Where values are unevenly spread the rare
    /// ones are asked for as well as those that most rows have: it is between the average and what the least common has.
    pub(crate) fn equal(&self, column: usize) -> f64 {
        let average = self.average(column);
        (average * self.least(column).clamp(f64::MIN_POSITIVE, average.max(f64::MIN_POSITIVE))).sqrt()
    }

    /// The part of the rows that a value has on the average.
    fn average(&self, column: usize) -> f64 {
        let part = (1.0 - self.known(column).map_or(0.0, |known| f64::from(known.nulls))) / self.distinct(column);
        match self.known(column).and_then(|known| known.common.first()) {
            Some((_, most)) => part.min(f64::from(*most)),
            None => part,
        }
    }

    /// The part of the rows that have the least common value in a column, as far as is known.
    pub(crate) fn least(&self, column: usize) -> f64 {
        let Some(known) = self.known(column) else { return self.average(column) };
        let Some((_, least)) = known.common.last() else { return self.average(column) };
        let others = self.distinct(column) - known.common.len() as f64;
        if others < 1.0 {
            return f64::from(*least);
        }
        (rest(known) / others).min(f64::from(*least))
    }

    /// The part of the rows that have this value in a column.
    pub(crate) fn equal_to(&self, column: usize, value: &Datum) -> f64 {
        let (Some(known), Some(key)) = (self.known(column), self.key(column, value)) else { return self.equal(column) };
        let same = |(common, _): &&(Datum, f32)| self.key(column, common).is_some_and(|common| common == key);
        if let Some((_, part)) = known.common.iter().find(same) {
            return f64::from(*part);
        }
        let others = (self.distinct(column) - known.common.len() as f64).max(1.0);
        let part = rest(known) / others;
        // None is as common as the least common of those that are kept.
        known.common.last().map_or(part, |(_, least)| part.min(f64::from(*least)))
    }

    /// The part of the rows that have less than this value in a column.
    pub(crate) fn below(&self, column: usize, value: &Datum) -> Option<f64> {
        let (known, key) = (self.known(column)?, self.key(column, value)?);
        if known.common.is_empty() && known.histogram.len() < 2 {
            return None;
        }
        let is_less = |other: &Datum| self.key(column, other).is_some_and(|other| other < key);
        let less: f64 = known.common.iter().filter(|(value, _)| is_less(value)).map(|(_, part)| f64::from(*part)).sum();
        let groups = known.histogram.len().saturating_sub(1);
        let bounds_less = known.histogram.iter().filter(|bound| is_less(bound)).count();
        // In the middle of the group that it is in.
        let part = match bounds_less {
            _ if groups == 0 => 0.5,
            0 => 0.0,
            all if all > groups => 1.0,
            some => (some as f64 - 0.5) / groups as f64,
        };
        Some((less + rest(known) * part).clamp(0.0, 1.0))
    }

    /// The part of the rows that have NULL in a column.
    pub(crate) fn null(&self, column: usize) -> f64 {
        match self.known(column) {
            Some(known) => f64::from(known.nulls),
            None if self.table.columns.get(column).is_some_and(|column| column.nullable) => 0.005,
            None => 0.0,
        }
    }

    /// Whether at most one row has given values in these columns.
    pub(crate) fn is_one_by(&self, given: impl Fn(usize) -> bool) -> bool {
        trees(&self.table)
            .any(|(_, key, is_unique)| is_unique && !key.is_empty() && key.iter().all(|column| given(*column)))
    }

    /// What values of a column are compared by.
    fn key(&self, column: usize, value: &Datum) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        encode_unbounded(value.as_ref(), self.table.columns.get(column)?.ty, &mut key).ok()?;
        Some(key)
    }

    /// When it was analysed last.
    fn analyzed_at(&self) -> i64 {
        self.statistics.as_ref().map_or(0, |known| known.last())
    }
}

/// The part of the rows that have neither a common value of a column nor NULL.
fn rest(known: &ColumnStatistics) -> f64 {
    let common: f64 = known.common.iter().map(|(_, part)| f64::from(*part)).sum();
    (1.0 - common - f64::from(known.nulls)).max(0.0)
}

/// What tables are looked up by: part of the state that a session plans with.
pub(crate) struct Asked(pub Arc<dyn PgContext>);

/// Has the tables of a plan know their sizes, if it is one that goes by them.
pub(crate) fn fill(state: &SessionState, plan: &LogicalPlan) -> Counted {
    if !Planning::of(state.config()).estimates {
        return Counted::default();
    }
    let Some(asked) = state.config().get_extension::<Asked>() else { return Counted::default() };
    let (mut tables, mut sources) = (Vec::new(), 0);
    // The closure returns no error.
    let _ = apply::walk(plan, &mut |node| {
        if let LogicalPlan::TableScan(scan) = node {
            sources += 1;
            if engine_table(&scan.source).is_some() {
                tables.push(Arc::clone(&scan.source));
            }
        } else if node.inputs().is_empty() {
            sources += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let mut counted = Counted { asked: AtomicU64::new(milliseconds()), ..Counted::default() };
    // One row by a key, and a table that can be read in one way only, are told without.
    if sources < 2 && tables.iter().all(|source| reads_one_way(plan, source)) {
        return counted;
    }
    for source in tables {
        let Ok(provider) = source_as_provider(&source) else { continue };
        let Some(engine) = provider.downcast_ref::<EngineTable>() else { continue };
        let estimate = engine.estimate_by(|table| {
            let records = asked.0.row_estimate(table)?;
            Some(Arc::new(TableEstimate::new(Arc::clone(table), records, asked.0.newest_statistics(table))))
        });
        if let Some(estimate) = estimate
            && !counted.tables.iter().any(|known| known.table.id == estimate.table.id)
        {
            counted.tables.push(estimate);
        }
    }
    counted
}

/// Whether how the only table of a plan is read does not depend on its rows.
fn reads_one_way(plan: &LogicalPlan, source: &Arc<dyn TableSource>) -> bool {
    let Some((table, _)) = engine_table(source) else { return true };
    let mut found = Vec::new();
    // The closure returns no error.
    let _ = plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            found.extend(probes(&table, &filter.predicate));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    AccessPath::choose(&table, &found).is_one()
}

/// The sizes that a plan was made by.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    tables: Vec<Arc<TableEstimate>>,
    /// It was found to be outgrown, and is from there on.
    is_outgrown: AtomicBool,
    /// How often statistics had been stored when it was asked last.
    changes: AtomicU64,
    /// When that was, in milliseconds since a moment that all have in common.
    asked: AtomicU64,
}

impl Counted {
    /// Whether a table has got so much larger or smaller that another plan may be better.
    pub(crate) fn is_outgrown(&self, engine: &Database) -> bool {
        if self.tables.is_empty() {
            return false;
        }
        if self.is_outgrown.load(Ordering::Relaxed) {
            return true;
        }
        let now = milliseconds();
        let (asked, changes) = (self.asked.load(Ordering::Relaxed), engine.statistics_changes());
        if now < asked.saturating_add(ASKED_EVERY_MS) && changes == self.changes.load(Ordering::Relaxed) {
            return false;
        }
        self.asked.store(now, Ordering::Relaxed);
        self.changes.store(changes, Ordering::Relaxed);
        let is_outgrown = self.tables.iter().any(|known| {
            let now = engine.row_count_estimate(&known.table).map_or(known.counted, |rows| rows as f64).max(ROWS_MIN);
            let then = known.counted.max(ROWS_MIN);
            let analyzed_at = engine.statistics(&known.table).ok().flatten().map_or(0, |known| known.last());
            // A plan by what its own transaction found out is newer than what is committed.
            now > then * OUTGROWN || now * OUTGROWN < then || analyzed_at > known.analyzed_at()
        });
        self.is_outgrown.store(is_outgrown, Ordering::Relaxed);
        is_outgrown
    }
}

fn milliseconds() -> u64 {
    static BEGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    u64::try_from(BEGIN.elapsed().as_millis()).unwrap_or(u64::MAX)
}
