//! SELECT of a few rows of one table: from the cursor to the wire, row by row, if they are wanted in the order
//! of a key (or its reverse, or none); otherwise they are gathered first, and sorted or aggregated.

use std::ops::ControlFlow;

use datafusion::arrow::datatypes::Fields;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use resurgam_engine::{ReadView, RowBatch, RowBuf};

use crate::exec::access_path::AccessPath;
use crate::exec::context::StopFlag;
use crate::exec::direct::expr::{Input, Row, Values};
use crate::exec::direct::fold::{Distinct, Groups, Sort};
use crate::exec::direct::output::Output;
use crate::exec::direct::parts::Parts;
use crate::exec::direct::rows::{Located, ROWS_MAX, Rows, Touched};
use crate::exec::explain::node::{Actual, Property, Value};
use crate::exec::explain::{Look, Node, Options, cost};
use crate::exec::planning::Planning;
use crate::pg::encode::TextStyle;
use crate::plan::planner::QueryPlan;
use crate::wire::{Format, RowChunk, SqlError};

/// Bytes of a result beyond which planned operators do it.
pub(crate) const BYTES_MAX: usize = 48 << 10;
/// Bytes of rows that are held to be sorted or aggregated.
const GATHERED_MAX: usize = 256 << 10;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct DirectSelect {
    pub rows: Rows,
    pub output: Output,
    groups: Option<Groups>,
    /// Of the rows, without groups.
    distinct: Option<Distinct>,
    /// Their order is not that of the path.
    sort: Option<Sort>,
    pub skip: usize,
    pub fetch: Option<usize>,
    is_plain_point: bool,
    /// It calls functions that may do something each time (`nextval`). Not told of subqueries, which are not run directly then.
    is_volatile: bool,
}

impl DirectSelect {
    /// Whether its rows have to be together before the first of them is answered.
    pub(crate) fn is_gathered(&self) -> bool {
        self.groups.is_some() || self.distinct.is_some() || self.sort.is_some()
    }

    pub(crate) fn new(state: &SessionState, plan: &QueryPlan) -> Option<Self> {
        if !Planning::of(state.config()).direct || plan.is_planned_each_time() {
            return None;
        }
        let mut select = Self::over(&plan.logical, plan.schema.fields())?;
        select.is_volatile = is_volatile(&plan.logical);
        // What calls them is not given up, lest the plan calls them again: it is about one row.
        (!select.is_volatile || (select.rows.path.is_one() && !select.is_gathered())).then_some(select)
    }

    /// The same of a plan in which all casts and the like are, whose columns are `fields`.
    pub(super) fn over(plan: &LogicalPlan, fields: &Fields) -> Option<Self> {
        let mut parts = Parts::of(plan).filter(|parts| !parts.target)?;
        let columns = parts.columns();
        let distinct = Distinct::take(&mut parts);
        let (mut groups, output) = match &parts.group {
            None => (None, Output::new(&parts.output, fields, &parts.table, &parts.schema)?),
            Some(group) => {
                let output = Output::of_groups(&parts.output, fields, &group.schema)?;
                (Some(Groups::new(&parts, group)?), output)
            }
        };
        let (skip, fetch) = (parts.skip, parts.fetch);
        let paths = parts.paths();
        let is_gathered = groups.is_some() || distinct.is_some();
        let done = |path: &AccessPath<Expr>, groups, sort| {
            let rows = Rows::new(&parts, path)?.of_columns(columns.as_deref());
            let is_plain_point = rows.is_by_key_alone()
                && output.is_of_columns()
                && !is_gathered
                && (skip, fetch.is_none_or(|rows| rows > 0)) == (0, true);
            let is_volatile = false;
            Some(Self { rows, groups, distinct, sort, output, skip, fetch, is_plain_point, is_volatile })
        };
        // One row is in any order.
        if let Some(path) = paths.iter().filter(|path| path.is_one()).max_by_key(|path| path.score()) {
            let sort = if groups.is_some() { Some(Sort::new(&parts)?) } else { None };
            return done(path, groups, sort);
        }
        let most_equal = paths.iter().map(|path| path.equal.len()).max().unwrap_or(0);
        let in_order = |wanted: &dyn Fn(&AccessPath<Expr>) -> Option<bool>| {
            let mut found: Option<AccessPath<Expr>> = None;
            for path in &paths {
                if let Some(backward) = wanted(path)
                    && found.as_ref().is_none_or(|known| path.score() > known.score())
                {
                    found = Some(AccessPath { backward, ..path.clone() });
                }
            }
            found.filter(|path| path.equal.len() >= most_equal)
        };
        if let Some(groups) = &mut groups
            && let Some((column, greatest)) = groups.extreme()
        {
            // The first row in that order; where there is no such order, it is the plan's to find.
            let path = in_order(&|path| parts.extreme_first(path, column, greatest))
                .filter(|path| path.is_bounded() || parts.filter.is_none())?
                .without_nulls(&parts.table, column);
            groups.first = true;
            return done(&path, Some(std::mem::take(groups)), Some(Sort::new(&parts)?));
        }
        // Where all rows have to be read they must be bounded on both sides.
        let is_short = |path: &&AccessPath<Expr>| !path.equal.is_empty() || (path.low.is_some() && path.high.is_some());
        let short = paths.iter().max_by_key(|path| path.score()).filter(is_short);
        if !is_gathered && let Some(path) = in_order(&|path| parts.direction(path)) {
            // Whole tables are read by planned operators, but for their first rows. A path that bounds the
            // rows better is worth a sort.
            let first = parts.filter.is_none() && fetch.is_some_and(|rows| rows.saturating_add(skip) <= ROWS_MAX);
            let is_better = fetch.is_none() && short.is_some_and(|short| short.score() / 2 > path.score() / 2);
            if (path.is_bounded() || first) && !is_better {
                return done(&path, None, None);
            }
        }
        let path = short?.clone();
        let sort = Sort::new(&parts)?;
        done(&path, groups, Some(sort))
    }

    /// Whether it gives groups of rows.
    pub(super) fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Whether each row of the table gives one of the result.
    pub(crate) fn is_plain(&self) -> bool {
        self.groups.is_none() && self.distinct.is_none()
    }

    /// Whether it is columns of one row by its whole key: nothing of it asks who runs it, or when.
    pub(crate) fn is_plain_point(&self) -> bool {
        self.is_plain_point
    }

    /// Which rows these values find; `None`: left to planned operators.
    ///
    /// # Errors
    /// Those of the values.
    pub(crate) fn locate(&self, params: &[ScalarValue]) -> Result<Option<Located>, SqlError> {
        let located = self.rows.locate(params)?;
        // Of ranges there may be too many rows.
        Ok(located.filter(|located| match located {
            Located::One(_) => true,
            Located::Ranges(ranges) => !self.is_volatile || ranges.is_empty(),
        }))
    }

    /// Whether there may be too many rows.
    pub(crate) fn may_be_long(&self) -> bool {
        !self.rows.path.is_one()
    }

    /// As EXPLAIN shows it. `done`: what was counted of a run, the rows that it gave, and the milliseconds that all of it took.
    pub(crate) fn node(&self, how: Options, look: &Look<'_>, done: Option<(Touched, usize, Option<f64>)>) -> Node {
        let column = |at: usize| self.rows.column(at);
        let actual = |rows: usize| {
            done.map(|(.., time)| Actual { time: time.map(|time| (time, time)), rows: rows as f64, loops: 1 })
        };
        let (kept, given) = done.map_or((0, 0), |(touched, given, _)| (touched.kept, given));
        let mut node = self.rows.node(look, done.map(|(touched, ..)| touched));
        node.actual = actual(kept);
        let grouped = self.groups.as_ref().map(|groups| groups.words(&column));
        let over_groups = |at: usize| {
            let (keys, aggregates) = grouped.as_ref()?;
            keys.iter().chain(aggregates).nth(at).cloned()
        };
        let above = |at: usize| over_groups(at).unwrap_or_else(|| column(at));
        // Those that are skipped come out of what is below the limit.
        let before_limit = given + if given > 0 { self.skip } else { 0 };
        if let Some((keys, _)) = &grouped {
            node = match (keys.is_empty(), self.groups.as_ref().is_some_and(|groups| groups.first)) {
                (true, true) => aggregate(Node::over("Limit", [node.clone()]), &node, 1.0, "Plain"),
                (true, false) => aggregate(node.clone(), &node, 1.0, "Plain"),
                (false, _) => {
                    let rows = node.estimate.map_or(1.0, |estimate| (estimate.rows / 10.0).max(1.0));
                    let mut over = aggregate(node.clone(), &node, rows, "Hashed");
                    over.list("Group Key", keys.clone());
                    over
                }
            };
            if let [limit] = node.inputs.as_mut_slice()
                && limit.kind == "Limit"
            {
                limit.actual = actual(kept);
                limit.estimate = limit.inputs.first().and_then(|input| input.estimate);
                limit.estimate = limit.estimate.map(|estimate| cost::limited(estimate, 0.0, Some(1.0)));
            }
            node.actual = actual(before_limit);
        }
        if let Some(distinct) = &self.distinct {
            let rows = node.estimate.map_or(1.0, |estimate| (estimate.rows / 10.0).max(1.0));
            let mut over = aggregate(node.clone(), &node, rows, "Hashed");
            over.list("Group Key", distinct.words(&column));
            over.actual = actual(before_limit);
            node = over;
        }
        if let Some(sort) = self.sort.as_ref().filter(|sort| !sort.is_empty()) {
            let below = node.estimate;
            let rows = node.actual;
            let mut over = Node::over("Sort", [node]);
            over.list("Sort Key", sort.words(&above));
            over.estimate =
                below.map(|below| cost::held(below, cost::comparisons(below.rows), below.rows, below.width));
            over.actual = rows;
            node = over;
        }
        if self.skip > 0 || self.fetch.is_some() {
            let below = node.estimate;
            let mut over = Node::over("Limit", [node]);
            let fetch = self.fetch.map(|fetch| fetch as f64);
            over.estimate = below.map(|below| cost::limited(below, self.skip as f64, fetch));
            over.actual = actual(given);
            node = over;
        }
        if how.verbose {
            node.properties.insert(0, Property::Pair("Output", Value::List(self.output.words(&above))));
        }
        node
    }
}

/// Whether an expression of the plan calls a volatile function.
fn is_volatile(plan: &LogicalPlan) -> bool {
    let found = plan.exists(|node| {
        let mut volatile = false;
        node.apply_expressions(|expr| {
            volatile |= expr.is_volatile();
            Ok(if volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(volatile)
    });
    found.unwrap_or(true)
}

/// Groups of the rows of `input`; `counted` says how many there are expected to be.
fn aggregate(input: Node, counted: &Node, rows: f64, strategy: &'static str) -> Node {
    let below = counted.estimate;
    let mut over = Node::over("Aggregate", [input]);
    over.name = if strategy == "Plain" { "Aggregate" } else { "HashAggregate" }.to_owned();
    over.strategy = Some(strategy);
    over.partial = Some("Simple");
    over.estimate = below.map(|below| cost::held(below, 1.0, rows, below.width));
    over
}

impl DirectSelect {
    /// All rows; `None`: there are too many.
    pub(crate) fn gather(
        &self,
        located: Located,
        view: &ReadView,
        params: &[ScalarValue],
        stop: &StopFlag,
        touched: &mut Touched,
    ) -> Result<Option<RowBatch>, SqlError> {
        let mut found = RowBatch::default();
        let ranges = match located {
            Located::One(key) => {
                let mut row = RowBuf::default();
                if self.rows.one(view, &key, params, &mut row)? {
                    found.add(row.raw());
                    *touched = Touched { read: 1, kept: 1 };
                }
                return Ok(Some(found));
            }
            Located::Ranges(ranges) => ranges,
        };
        let table = &self.rows.table;
        let first = self.groups.as_ref().is_some_and(|groups| groups.first);
        let all = self.rows.each(view, ranges, params, stop, first.then_some(1), touched, |raw| {
            let row = Row { table, values: Values::Stored(raw), view };
            if first && self.groups.as_ref().is_some_and(|groups| groups.passes_over(row)) {
                return Ok(ControlFlow::Continue(()));
            }
            found.add(raw);
            Ok(if first {
                ControlFlow::Break(true)
            } else if found.len() > ROWS_MAX || found.bytes() > GATHERED_MAX {
                ControlFlow::Break(false)
            } else {
                ControlFlow::Continue(())
            })
        })?;
        Ok(all.then_some(found))
    }

    /// What becomes of these rows; false: that is left to planned operators.
    pub(crate) fn fold(
        &self,
        rows: &RowBatch,
        view: &ReadView,
        params: &[ScalarValue],
        formats: &[Format],
        style: &TextStyle,
        chunk: &mut RowChunk,
    ) -> Result<bool, SqlError> {
        self.each_folded(rows, view, params, |input| self.output.append(input, formats, style, chunk))
    }

    /// Calls `each` with what becomes of these rows; false: that is left to planned operators.
    pub(super) fn each_folded(
        &self,
        rows: &RowBatch,
        view: &ReadView,
        params: &[ScalarValue],
        mut each: impl FnMut(Input<'_>) -> Result<(), SqlError>,
    ) -> Result<bool, SqlError> {
        let table = &self.rows.table;
        let row = |values| Row { table, values, view };
        let mut rows: Vec<Row<'_>> = (0..rows.len()).map(|at| row(Values::Stored(rows.row(at)))).collect();
        if let Some(distinct) = &self.distinct
            && !distinct.keep(&mut rows)?
        {
            return Ok(false);
        }
        let groups;
        if let Some(of) = &self.groups {
            let Some(found) = of.of(&rows, params)? else { return Ok(false) };
            groups = found;
            rows = groups.iter().map(|values| row(Values::Group(values))).collect();
        }
        let order = match &self.sort {
            Some(sort) => sort.order(&rows, params)?,
            None => Some((0..rows.len()).collect()),
        };
        let Some(order) = order else { return Ok(false) };
        for at in order.into_iter().skip(self.skip).take(self.fetch.unwrap_or(usize::MAX)) {
            each(Input { params, row: Some(rows[at]) })?;
        }
        Ok(true)
    }
}
