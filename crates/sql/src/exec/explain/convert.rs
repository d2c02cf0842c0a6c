//! A physical plan as a tree of nodes.
//!
//! Operators that PostgreSQL's nodes do themselves (they project, filter, hand batches on) are no nodes of their own: they
//! change the one below them. What is left keeps the order of PostgreSQL's tree: an outer input first, then an inner one.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::datatypes::Fields;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use resurgam_engine::Table;

use super::DIRECT_IF_SHORT;
use super::cost;
use super::look::Look;
use super::node::{Actual, Estimate, INDEX_NAME, Node, On, Property, Value};
use super::options::Options;
use super::words::{self, LENGTH_MAX, Words};
use crate::exec::access_path::{AccessPath, alternatives, is_of_one_tree};
use crate::exec::apply::ShownSubquery;
use crate::exec::estimate::{TableEstimate, physical};
use crate::exec::filter::ByteFilterExec;
use crate::exec::found_keys::AnyOfWays;
use crate::exec::kept_limits::held_limit;
use crate::exec::late::{self, FetchRowsExec};
use crate::exec::measured::{self, Measured};
use crate::exec::scan::ScanExec;
use crate::exec::{apply, bridge};
use crate::pg::functions::quote_ident;
use crate::plan::planner::Instance;

pub(super) type Plan = Arc<dyn ExecutionPlan>;

/// Operators that hand on what they get, for the engine's reasons.
const PASSING: [&str; 12] = [
    "WatchExec",
    "CooperativeExec",
    "PacedExec",
    "InOrderExec",
    "SplitExec",
    "CompactExec",
    "OuterSideExec",
    "OutputRequirementExec",
    "CoalescePartitionsExec",
    "CoalesceBatchesExec",
    "RepartitionExec",
    "BufferExec",
];

/// The plan of a statement, or of one of its WITH queries.
pub(crate) fn node(instance: &Instance, how: Options, look: &Look<'_>, locked: &[Node]) -> Node {
    let subqueries = instance.subqueries();
    let scans = |plan: &Plan| leaves(plan);
    let relations = scans(instance.plan()) + subqueries.iter().map(|sub| scans(&sub.plan)).sum::<usize>();
    let known = |scan: &ScanExec| scan.estimate().cloned().or_else(|| look.estimate(&scan.table));
    let convert = Convert {
        how,
        known: &known,
        subqueries: &subqueries,
        are_qualified: relations > 1 || how.verbose,
        locked,
        met: RefCell::default(),
        shown: RefCell::default(),
    };
    let made = convert.made(instance.plan());
    convert.finished(made)
}

fn leaves(plan: &Plan) -> usize {
    let inputs = plan.children();
    match inputs.is_empty() {
        true => usize::from(!plan.is::<PlaceholderRowExec>() && !plan.is::<EmptyExec>()),
        false => inputs.into_iter().map(leaves).sum(),
    }
}

/// What the plan calls an operator, on one line.
fn one_line(plan: &Plan) -> String {
    DisplayableExecutionPlan::new(plan.as_ref()).one_line().to_string().trim_end().to_owned()
}

pub(super) struct Convert<'a> {
    how: Options,
    pub(super) known: physical::Known<'a>,
    subqueries: &'a [ShownSubquery],
    are_qualified: bool,
    /// The plans of the rows that are locked first.
    locked: &'a [Node],
    /// Subqueries in the order in which they are met: their numbers.
    pub(super) met: RefCell<Vec<usize>>,
    /// How many of them have a node, and which are shown where they are run.
    shown: RefCell<usize>,
}

/// A node to which operators above it may add.
pub(super) struct Made {
    pub node: Node,
    /// What each column is, in words.
    pub columns: Vec<String>,
    pub rows: Option<physical::Estimate>,
    pub measured: Option<Measured>,
    /// It can have a condition on what it gives.
    pub takes_filter: bool,
    /// What its index or key is read by: a condition that says the same is not said again.
    pub conditions: Vec<String>,
}

impl Convert<'_> {
    pub(super) fn made(&self, plan: &Plan) -> Made {
        let met = self.met.borrow().len();
        let mut made = self.operator(plan);
        self.add_subplans(met, &mut made.node);
        made
    }

    fn operator(&self, plan: &Plan) -> Made {
        if let Some(scan) = plan.downcast_ref::<ScanExec>() {
            return self.scan(plan, scan);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return self.filter(plan, filter);
        }
        if let Some(filter) = plan.downcast_ref::<ByteFilterExec>() {
            return self.filter(plan, filter.filter());
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            return self.projection(plan, projection);
        }
        if let Some(sort) = plan.downcast_ref::<SortExec>() {
            let below = self.made(sort.input());
            let keys = Words { columns: &below.columns, subplans: &self.met }.order(sort.expr());
            let node = Node::new("Sort");
            return self.sort(plan, below, node, keys, sort.fetch());
        }
        if let Some(fetch) = plan.downcast_ref::<FetchRowsExec>() {
            return self.fetched(plan, fetch);
        }
        if let Some(sort) = plan.downcast_ref::<PartialSortExec>() {
            let below = self.made(sort.input());
            let keys = Words { columns: &below.columns, subplans: &self.met }.order(sort.expr());
            let mut node = Node::new("Incremental Sort");
            node.list("Presorted Key", keys.iter().take(sort.common_prefix_length()).cloned().collect());
            return self.sort(plan, below, node, keys, sort.fetch());
        }
        if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
            return self.limit(self.made(limit.input()), limit.skip(), limit.fetch(), measured::of(plan));
        }
        if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
            return self.limit(self.made(limit.input()), 0, Some(limit.fetch()), measured::of(plan));
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate(plan, aggregate);
        }
        if let Some(join) = self.join(plan) {
            return join;
        }
        if let Some((id, left)) = apply::lateral_of(plan) {
            return self.lateral(plan, id, left);
        }
        if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
            let names: Vec<String> = window.window_expr().iter().map(|expr| window_words(expr.name())).collect();
            return self.window(plan, window.input(), names);
        }
        if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
            let names: Vec<String> = window.window_expr().iter().map(|expr| window_words(expr.name())).collect();
            return self.window(plan, window.input(), names);
        }
        self.other(plan)
    }

    /// Operators that need no more than their names.
    fn other(&self, plan: &Plan) -> Made {
        let inputs = plan.children();
        if let ([input], true) = (inputs.as_slice(), PASSING.contains(&plan.name())) {
            let below = self.made(input);
            let measured = measured::of(plan).or(below.measured);
            return match plan.fetch() {
                Some(fetch) => self.limit(below, 0, Some(fetch), measured),
                None => Made { measured, ..below },
            };
        }
        if let ([input], Some((skip, fetch))) = (inputs.as_slice(), held_limit(plan)) {
            return self.limit(self.made(input), skip, fetch, measured::of(plan));
        }
        if plan.is::<UnionExec>() {
            let made: Vec<Made> = inputs.into_iter().map(|input| self.made(input)).collect();
            return self.several(plan, Node::new("Append"), made, "Member");
        }
        if let Some(recursive) = plan.downcast_ref::<RecursiveQueryExec>() {
            let made = vec![self.made(recursive.static_term()), self.made(recursive.recursive_term())];
            return self.several(plan, Node::new("Recursive Union"), made, "Outer");
        }
        if inputs.is_empty() {
            return self.leaf(plan);
        }
        let shown = one_line(plan);
        if let ([input], Some(sets)) = (inputs.as_slice(), shown.strip_prefix("ProjectSetExec: ")) {
            return self.sets(plan, input, &words::plain(sets));
        }
        let made: Vec<Made> = inputs.into_iter().map(|input| self.made(input)).collect();
        self.several(plan, Node::new(spaced(plan.name())), made, "Outer")
    }

    /// What stands before names of a table's columns.
    fn prefix(&self, alias: &str) -> String {
        if self.are_qualified { format!("{}.", quote_ident(alias)) } else { String::new() }
    }

    /// What a column of a table is called; an expression has names of columns in it.
    pub(super) fn column_of(&self, table: &Table, alias: &str, at: usize) -> String {
        match table.columns.get(at) {
            Some(column) if column.is_hidden() => bridge::key_name(table, at),
            Some(column) => format!("{}{}", self.prefix(alias), quote_ident(&column.name)),
            None => "?".to_owned(),
        }
    }

    fn scan(&self, plan: &Plan, scan: &ScanExec) -> Made {
        let table = &scan.table;
        let prefix = self.prefix(scan.alias());
        let name = |at: usize, field: &str| match scan.table_column(at) {
            Some(column) => self.column_of(table, scan.alias(), column),
            None => words::name(field),
        };
        let columns = scan.schema().fields().iter().enumerate().map(|(at, field)| name(at, field.name())).collect();
        let words = Words { columns: &[], subplans: &self.met };
        let mut conditions = scan.access().conditions(table, &prefix, |value| words.of(value));
        let is_alone = scan.covering().is_some();
        let mut node = scan_node(table, scan.alias(), scan.access(), is_alone);
        match scan.alternatives() {
            Some(any) => {
                let ways = any.ways.iter().map(|way| way.conditions(table, &prefix, |value| words.of(value)));
                let ways: Vec<Option<String>> = ways.map(|way| all_of(&way)).collect();
                node = Node { on: node.on.take(), ..Node::new("Bitmap Heap Scan") };
                conditions = vec![format!("({})", ways.iter().flatten().cloned().collect::<Vec<_>>().join(" OR "))];
                node.condition("Recheck Cond", all_of(&conditions));
                let measured = measured::of(plan).is_some();
                node.add("Outer", bitmap_or(any, ways, table, (self.known)(scan).as_deref(), measured));
            }
            None => node.condition("Index Cond", all_of(&conditions)),
        }
        let rows = physical::of_scan(scan, self.known);
        let by_index = scan.alternatives().is_some() || scan.access().index.is_some() && !is_alone;
        let width = cost::width(scan.schema().fields());
        let before = node.inputs.first().map_or(0.0, |input| cost::input(input).total);
        node.estimate = rows.as_ref().map(|rows| {
            let scan = cost::scan(rows.rows, by_index, width);
            Estimate { startup: before, total: before + scan.total, ..scan }
        });
        let measured = measured::of(plan);
        if measured.is_some() && scan.helped() > 0 {
            node.pair("Workers Launched", Value::Count(scan.helped() as u64));
        }
        let made = Made { node, columns, rows, measured, takes_filter: true, conditions };
        match scan.fetch() {
            Some(fetch) => self.limit(made, 0, Some(fetch), measured),
            None => made,
        }
    }

    fn filter(&self, plan: &Plan, filter: &FilterExec) -> Made {
        let mut below = self.made(filter.input());
        let measured = measured::of(plan);
        let words = Words { columns: &below.columns, subplans: &self.met };
        let mut terms: Vec<String> = Vec::new();
        for term in split_conjunction(filter.predicate()) {
            // A bound that a sort above tells while it runs.
            if !term.is::<DynamicFilterPhysicalExpr>() {
                terms.extend(words.conjuncts(term));
            }
        }
        terms.retain(|term| !below.conditions.contains(term));
        let condition = all_of(&terms);
        // A scan drops by the same condition what it need not decode.
        let early = filter.input().downcast_ref::<ScanExec>().map_or(0, ScanExec::dropped_early);
        let removed = match (below.measured, measured) {
            (Some(before), Some(after)) if filter.fetch().is_none() => {
                Some((before.rows + early, after.rows, after.runs))
            }
            _ => None,
        };
        let rows = below.rows.take().map(|rows| physical::without_limit(plan, vec![rows], self.known));
        let width = cost::width(plan.schema().fields());
        let estimate = rows.as_ref().map(|rows| cost::passed(cost::input(&below.node), rows.rows, width));
        if let Some(projection) = filter.projection() {
            below.columns = projection.iter().filter_map(|at| below.columns.get(*at).cloned()).collect();
        }
        let takes = below.takes_filter && !below.node.has("Filter");
        let mut made = match takes || condition.is_none() {
            true => Made { rows, measured, ..below },
            false => {
                let columns = below.columns.clone();
                let node = Node::over("Filter", [self.finished(below)]);
                Made { node, columns, rows, measured, takes_filter: false, conditions: Vec::new() }
            }
        };
        made.node.estimate = estimate;
        if condition.is_some() {
            made.node.condition("Filter", condition);
            if let Some((before, after, runs)) = removed {
                made.node.removed("Rows Removed by Filter", before.saturating_sub(after) as f64 / runs.max(1) as f64);
            }
        }
        match filter.fetch() {
            Some(fetch) => self.limit(made, 0, Some(fetch), measured),
            None => made,
        }
    }

    fn projection(&self, plan: &Plan, projection: &ProjectionExec) -> Made {
        let mut below = self.made(projection.input());
        let words = Words { columns: &below.columns, subplans: &self.met };
        let exprs = projection.expr().iter();
        let columns = exprs.map(|projected| short(words.of(&projected.expr), &projected.alias)).collect();
        let rows = below.rows.take().map(|rows| physical::without_limit(plan, vec![rows], self.known));
        if let Some(estimate) = &mut below.node.estimate {
            estimate.width = cost::width(plan.schema().fields());
        }
        let measured = measured::of(plan).or(below.measured);
        Made { columns, rows, measured, ..below }
    }

    fn sort(&self, plan: &Plan, below: Made, mut node: Node, keys: Vec<String>, fetch: Option<usize>) -> Made {
        let measured = measured::of(plan);
        let columns = below.columns.clone();
        let rows = below.rows.clone();
        let input = cost::input(&below.node);
        node.list("Sort Key", keys);
        let presorted = node.properties.iter().position(|property| matches!(property, Property::Pair("Sort Key", _)));
        // PostgreSQL says first by what is sorted.
        if let Some(at) = presorted {
            node.properties.rotate_left(at);
        }
        node.estimate = rows
            .as_ref()
            .map(|_| cost::held(input, cost::comparisons(input.rows), input.rows, cost::width(plan.schema().fields())));
        if measured.is_some_and(|measured| measured.runs > 0) {
            node.properties.extend(sort_method(plan, fetch.is_some()));
        }
        node.add("Outer", self.finished(below));
        let made = Made { node, columns, rows, measured, takes_filter: false, conditions: Vec::new() };
        match fetch {
            Some(fetch) => self.limit(made, 0, Some(fetch), measured),
            None => made,
        }
    }

    /// A sort whose other columns come late.
    fn fetched(&self, plan: &Plan, fetch: &FetchRowsExec) -> Made {
        let Some(sorted) = plan.children().first().map(|sorted| self.made(sorted)) else { return self.leaf(plan) };
        let scan = fetch.scan();
        let columns = fetch.columns().iter().map(|from| match (*from, scan.late_column(*from)) {
            (late::From::Sorted(at), _) => sorted.columns.get(at).cloned().unwrap_or_default(),
            (_, Some(column)) => self.column_of(&scan.table, scan.alias(), column),
            _ => String::new(),
        });
        let columns = columns.collect();
        Made { columns, measured: measured::of(plan).or(sorted.measured), ..sorted }
    }

    /// The first rows of something, as a node of its own.
    pub(super) fn limit(&self, below: Made, skip: usize, fetch: Option<usize>, measured: Option<Measured>) -> Made {
        let (skip, fetch) = (skip as f64, fetch.map(|fetch| fetch as f64));
        let columns = below.columns.clone();
        let rows = below.rows.clone().map(|mut rows| {
            let after = (rows.rows - skip).max(0.0);
            rows.rows = fetch.map_or(after, |fetch| after.min(fetch));
            rows
        });
        let estimate = below.node.estimate.map(|estimate| cost::limited(estimate, skip, fetch));
        let mut node = Node::over("Limit", [self.finished(below)]);
        node.estimate = estimate;
        Made { node, columns, rows, measured, takes_filter: false, conditions: Vec::new() }
    }

    fn aggregate(&self, plan: &Plan, aggregate: &AggregateExec) -> Made {
        let mut below = self.made(aggregate.input());
        let words = Words { columns: &below.columns, subplans: &self.met };
        let keys: Vec<String> =
            aggregate.group_expr().expr().iter().map(|(expr, name)| short(words.of(expr), name)).collect();
        let mut columns = keys.clone();
        for (of, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
            columns.push(short(words.aggregate(of, filter.as_ref()), of.name()));
        }
        // Of grouping sets, and in parts, there are more.
        let fields = plan.schema();
        columns.extend(fields.fields().iter().skip(columns.len()).map(|field| words::name(field.name())));
        columns.truncate(fields.fields().len());
        let is_sorted = *aggregate.input_order_mode() == InputOrderMode::Sorted;
        let (kind, name, strategy) = match (keys.is_empty(), is_sorted, aggregate.aggr_expr().is_empty()) {
            (true, ..) => ("Aggregate", "Aggregate", Some("Plain")),
            (false, true, true) => ("Group", "Group", None),
            (false, true, false) => ("Aggregate", "GroupAggregate", Some("Sorted")),
            (false, false, _) => ("Aggregate", "HashAggregate", Some("Hashed")),
        };
        let mut node = Node::new(kind).named(name);
        node.strategy = strategy;
        node.partial = strategy.map(|_| match aggregate.mode() {
            AggregateMode::Partial => "Partial",
            AggregateMode::Final | AggregateMode::FinalPartitioned => "Finalize",
            _ => "Simple",
        });
        node.list("Group Key", keys);
        let rows = below.rows.take().map(|rows| physical::without_limit(plan, vec![rows], self.known));
        let input = cost::input(&below.node);
        let width = cost::width(fields.fields());
        node.estimate = rows.as_ref().map(|rows| match strategy {
            Some("Hashed" | "Plain") => cost::held(input, 1.0, rows.rows, width),
            _ => cost::passed(input, rows.rows, width),
        });
        let measured = measured::of(plan);
        if strategy == Some("Hashed") && measured.is_some_and(|measured| measured.runs > 0) {
            node.properties.extend(hash_disk(plan));
        }
        node.add("Outer", self.finished(below));
        Made { node, columns, rows, measured, takes_filter: true, conditions: Vec::new() }
    }

    fn window(&self, plan: &Plan, input: &Plan, names: Vec<String>) -> Made {
        let below = self.made(input);
        let mut columns = below.columns.clone();
        columns.extend(names);
        let mut made = self.several(plan, Node::new("WindowAgg"), vec![below], "Outer");
        made.columns = columns;
        made
    }

    /// A LATERAL item is read anew for each row.
    fn lateral(&self, plan: &Plan, id: usize, left: bool) -> Made {
        let mut made: Vec<Made> = plan.children().into_iter().map(|input| self.made(input)).collect();
        let inner = self.subqueries.iter().find(|known| known.id == id);
        made.extend(inner.map(|inner| self.made(&inner.plan)));
        let columns: Vec<String> = made.iter().flat_map(|made| made.columns.iter().cloned()).collect();
        let mut node = Node::new("Nested Loop");
        node.join = Some(if left { "Left" } else { "Inner" });
        let mut out = self.several(plan, node, made, "Outer");
        if let Some(inner) = out.node.inputs.get_mut(1) {
            inner.relationship = Some("Inner");
        }
        if columns.len() == out.columns.len() {
            out.columns = columns;
        }
        out.takes_filter = true;
        out
    }

    fn sets(&self, plan: &Plan, input: &Plan, call: &str) -> Made {
        let function = call.split('(').next().unwrap_or(call).to_owned();
        if !input.is::<PlaceholderRowExec>() {
            let below = self.made(input);
            let mut columns = below.columns.clone();
            let mut made = self.several(plan, Node::new("ProjectSet"), vec![below], "Outer");
            columns.extend(made.columns.iter().skip(columns.len()).cloned());
            made.columns = columns;
            return made;
        }
        let mut made = self.several(plan, Node::new("Function Scan"), Vec::new(), "Outer");
        made.node.on = Some(On { key: "Function Name", name: function.clone(), schema: None, alias: function.clone() });
        if self.how.verbose {
            made.node.pair("Function Call", Value::Text(call.to_owned()));
        }
        if let [column] = made.columns.as_mut_slice() {
            *column = function;
        }
        made.takes_filter = true;
        made
    }

    fn leaf(&self, plan: &Plan) -> Made {
        let shown = words::plain(&one_line(plan));
        let on = |key, name: &str| Some(On { key, name: name.to_owned(), schema: None, alias: name.to_owned() });
        let mut node = if plan.is::<PlaceholderRowExec>() {
            Node::new("Result")
        } else if plan.is::<EmptyExec>() {
            let mut node = Node::new("Result");
            node.condition("One-Time Filter", Some("false".to_owned()));
            node
        } else if plan.name() == "DataSourceExec" {
            Node { on: on("", "*VALUES*"), ..Node::new("Values Scan") }
        } else if plan.is::<WorkTableExec>() {
            let name = shown.split_once("name=").map_or("", |(_, name)| name);
            Node { on: on("CTE Name", &words::name(name)), ..Node::new("WorkTable Scan") }
        } else if let Some(name) = shown.strip_prefix("CTE Scan on ") {
            Node { on: on("CTE Name", name), ..Node::new("CTE Scan") }
        } else if let Some((schema, name)) = shown.strip_prefix("SystemScan: ").and_then(|of| of.split_once('.')) {
            let on = on("Relation Name", name).map(|on| On { schema: Some(schema.to_owned()), ..on });
            Node { on, ..Node::new("Seq Scan") }
        } else if let Some(number) = shown.strip_prefix("Locked Rows ").and_then(|at| at.parse::<usize>().ok()) {
            let of = number.checked_sub(1).and_then(|at| self.locked.get(at)).cloned();
            Node::over("LockRows", of)
        } else if plan.name() == "ComputedExec" {
            Node { on: on("Function Name", &shown), ..Node::new("Function Scan") }
        } else {
            Node::new(spaced(plan.name()))
        };
        let rows = physical::without_limit(plan, Vec::new(), self.known);
        let width = cost::width(plan.schema().fields());
        let below = node.inputs.first().and_then(|input| input.estimate);
        node.estimate = Some(match below {
            Some(below) => cost::passed(below, below.rows, width),
            None if node.kind == "Result" => Estimate { total: cost::ROW, rows: rows.rows, width, startup: 0.0 },
            None => cost::scan(rows.rows, false, width),
        });
        let columns = plan.schema().fields().iter().map(|field| words::name(field.name())).collect();
        let takes_filter = node.kind != "Result" && node.kind != "LockRows";
        let measured = measured::of(plan);
        Made { node, columns, rows: Some(rows), measured, takes_filter, conditions: Vec::new() }
    }

    /// A node over inputs as they are.
    pub(super) fn several(&self, plan: &Plan, mut node: Node, mut inputs: Vec<Made>, are: &'static str) -> Made {
        let fields = plan.schema();
        let names = inputs.first().map(|input| input.columns.clone()).unwrap_or_default();
        let columns = match names.len() == fields.fields().len() {
            true => names,
            false => named(fields.fields()),
        };
        let known: Option<Vec<physical::Estimate>> = inputs.iter_mut().map(|input| input.rows.take()).collect();
        let rows = known.map(|known| physical::without_limit(plan, known, self.known));
        let below: Vec<Estimate> = inputs.iter().map(|input| cost::input(&input.node)).collect();
        let width = cost::width(fields.fields());
        node.estimate = rows.as_ref().map(|rows| Estimate {
            startup: below.first().map_or(0.0, |first| first.startup),
            total: below.iter().map(|input| input.total).sum::<f64>() + rows.rows * cost::ROW,
            rows: rows.rows.round().max(1.0),
            width,
        });
        for (at, input) in inputs.into_iter().enumerate() {
            let inner = if are == "Outer" && at > 0 { "Inner" } else { are };
            node.add(inner, self.finished(input));
        }
        Made { node, columns, rows, measured: measured::of(plan), takes_filter: false, conditions: Vec::new() }
    }

    /// A node that is not added to any more.
    pub(super) fn finished(&self, made: Made) -> Node {
        let Made { mut node, columns, measured, .. } = made;
        if self.how.verbose && !columns.is_empty() {
            node.properties.insert(0, Property::Pair("Output", Value::List(columns)));
        }
        node.actual = measured.map(actual);
        node
    }

    /// Nodes for the subqueries that were met since there were `from` of them.
    fn add_subplans(&self, from: usize, node: &mut Node) {
        let met: Vec<(usize, usize)> = self.met.borrow().iter().copied().enumerate().skip(from).collect();
        for (at, id) in met {
            // A node below may have it already.
            if at < *self.shown.borrow() {
                continue;
            }
            *self.shown.borrow_mut() = at + 1;
            let Some(sub) = self.subqueries.iter().find(|known| known.id == id) else { continue };
            let mut made = self.made(&sub.plan);
            if let Some(direct) = sub.direct {
                made.node.pair("Execution", Value::Text(DIRECT_IF_SHORT.to_owned()));
                made.measured = made.measured.map(|planned| planned.and(direct));
            }
            let subplan = Node { subplan: Some(format!("SubPlan {}", at + 1)), ..self.finished(made) };
            node.add("SubPlan", subplan);
        }
    }
}

/// The keys of rows that several ways name, as EXPLAIN shows them; `conditions`: those of each.
fn bitmap_or(
    any: &AnyOfWays,
    conditions: Vec<Option<String>>,
    table: &Table,
    known: Option<&TableEstimate>,
    measured: bool,
) -> Node {
    let mut or = Node::new("BitmapOr");
    let runs = any.counts.runs.load(Ordering::Relaxed);
    let whole = any.counts.whole.load(Ordering::Relaxed);
    let actual = |keys: u64| {
        let rows = keys as f64 / runs.saturating_sub(whole).max(1) as f64;
        measured.then_some(Actual { time: None, rows, loops: runs - whole.min(runs) })
    };
    // Parts of the table's own tree are read as they are, and no keys are found.
    let counted = measured && !is_of_one_tree(&any.ways);
    for ((way, condition), keys) in any.ways.iter().zip(conditions).zip(&any.counts.keys) {
        let mut node = Node::new("Bitmap Index Scan");
        let name = way.index.map_or(&table.primary_key_name, |at| &table.indexes[at].name);
        node.on = Some(On { key: INDEX_NAME, name: name.clone(), schema: None, alias: name.clone() });
        node.condition("Index Cond", condition);
        node.estimate = known.map(|of| cost::scan(of.rows() * way.part(of), false, 0));
        node.actual = actual(keys.load(Ordering::Relaxed)).filter(|_| counted);
        or.add("Member", node);
    }
    or.estimate = known.map(|of| Estimate {
        startup: 0.0,
        total: or.inputs.iter().map(|input| cost::input(input).total).sum(),
        rows: (of.rows() * alternatives::part(&any.ways, of)).round().max(1.0),
        width: 0,
    });
    or.actual = actual(0).filter(|_| counted);
    if measured && whole > 0 {
        or.pair("Became Seq Scan", Value::Count(whole));
    }
    or
}

/// A read of a table by one of its trees, of an index by itself.
pub(crate) fn scan_node<V>(table: &Table, alias: &str, access: &AccessPath<V>, is_alone: bool) -> Node {
    let tree = match access.index {
        Some(at) => Some(&table.indexes[at].name),
        None if table.primary_key.is_empty() || !(access.is_bounded() || access.backward) => None,
        None => Some(&table.primary_key_name),
    };
    let mut node = Node::new(match tree {
        Some(_) if is_alone => "Index Only Scan",
        Some(_) => "Index Scan",
        None => "Seq Scan",
    });
    node.index = tree.cloned();
    node.backward = access.backward;
    node.on = Some(On {
        key: "Relation Name",
        name: table.name.clone(),
        schema: Some(table.schema.clone()),
        alias: alias.to_owned(),
    });
    node
}

/// Conditions that all hold, as one.
pub(crate) fn all_of(conditions: &[String]) -> Option<String> {
    match conditions {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("({})", many.join(" AND "))),
    }
}

pub(crate) fn actual(Measured { runs, rows, time }: Measured) -> Actual {
    let each = |all: f64| all / runs.max(1) as f64;
    let time = time.map(|(first, all)| (each(first), each(all)));
    Actual { time, rows: each(rows as f64), loops: runs }
}

fn named(fields: &Fields) -> Vec<String> {
    fields.iter().map(|field| words::name(field.name())).collect()
}

/// An expression, or the name of its column if it is a long one.
fn short(words: String, name: &str) -> String {
    if words.len() <= LENGTH_MAX { words } else { words::name(name) }
}

/// "UnnestExec" as words.
fn spaced(name: &str) -> String {
    let mut out = String::new();
    for c in name.trim_end_matches("Exec").chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// A window function without the window, which the plan's name of it has behind.
fn window_words(name: &str) -> String {
    let ends = [" PARTITION BY", " ORDER BY", " ROWS ", " RANGE ", " GROUPS "];
    let end = ends.iter().filter_map(|end| name.find(end)).min().unwrap_or(name.len());
    format!("{} OVER (?)", words::plain(&name[..end]))
}

/// How a sort was done, as far as it was counted.
fn sort_method(plan: &Plan, first_rows: bool) -> Option<Property> {
    let metrics = plan.metrics()?;
    let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize()) as u64;
    let spilled = metrics.spilled_bytes().unwrap_or(0) as u64;
    let (method, space, bytes) = match (spilled, first_rows) {
        (0, true) => ("top-N heapsort", "Memory", sum("output_bytes")),
        (0, false) => ("quicksort", "Memory", sum("output_bytes")),
        (spilled, _) => ("external merge", "Disk", spilled),
    };
    let kilobytes = bytes.div_ceil(1024);
    Some(Property::Line(
        Some(format!("Sort Method: {method}  {space}: {kilobytes}kB")),
        vec![
            ("Sort Method", Value::Text(method.to_owned())),
            ("Sort Space Used", Value::Count(kilobytes)),
            ("Sort Space Type", Value::Text(space.to_owned())),
        ],
    ))
}

/// What a hash table of groups wrote to files.
fn hash_disk(plan: &Plan) -> Option<Property> {
    let kilobytes = (plan.metrics()?.spilled_bytes()? as u64).div_ceil(1024);
    let line = (kilobytes > 0).then(|| format!("Disk Usage: {kilobytes}kB"));
    Some(Property::Line(line, vec![("Disk Usage", Value::Count(kilobytes))]))
}
