//! In which order inner joins are done. In place of DataFusion's `EliminateCrossJoin`, which goes by FROM.
//!
//! Tables that inner joins and commas put together are a *region*: its inputs, and the conditions over
//! them. The order is the cheapest of a few, by estimates of rows ([`super::estimate`]):
//!
//! 1. It begins with each of the inputs in turn, as far as these are few.
//! 2. It goes on with an input that an equality connects with those before, of several with the one that makes the least
//!    work now: rows that are read (all that its own conditions leave by a key, or by lookups of the rows before) and
//!    rows that come out.
//! 3. Inputs that no equality connects begin anew. Such groups are put together by what conditions there are
//!    between them, and only at last as a product: the smallest group is held in memory beside the
//!    next, so that no product is.
//!
//! Where estimates are alike (small tables count as being of one size) the definitions decide: first the input that
//! conditions of its own bound most (one row by a key, values of leading key columns, bounds, other conditions), at last the
//! first of FROM; then one of one row, one of which at most one row matches (a unique key), one that is bounded.
//!
//! Equalities that follow from others (`a.x = b.x AND b.x = c.x`: [`super::equal_columns`]) connect as those do that are written. What is
//! asked of the rows above a semi-join is asked below it, where it belongs to a region.
//!
//! Invariants: the same rows with the same columns in the same order. Outer joins, semi-joins and whatever
//! else is below are inputs as they are. No value of a constant has a say, so a plan that is kept is as
//! good for others. The work is the number of inputs times that of those that wait to be joined, for each of at most [`STARTS_MAX`]
//! beginnings, and there is no limit as PostgreSQL's `join_collapse_limit`, which bounds a search that is exponential.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, ExprSchema, JoinConstraint, JoinType, NullEquality, Result, internal_err,
};
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::utils::{
    can_hash, conjunction, split_binary, split_conjunction, split_conjunction_owned,
};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Filter, Join, LogicalPlan, Operator, Projection};
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};
use resurgam_engine::Table;

use crate::exec::access_path::{AccessPath, FETCH, Probe, probe_column, probes, trees};
use crate::exec::estimate::{self, Origin, TableEstimate};
use crate::exec::planning::Planning;
use crate::exec::row_rule::{is_barrier, is_policy_mark};
use crate::exec::table::{engine_table, estimate_of};
use crate::plan::equal_columns::{EqualColumns, is_transitive};
use crate::plan::expression::has_subquery;

/// The rule that it replaces.
const REPLACED: &str = "eliminate_cross_join";

/// See the module's head.
#[derive(Debug)]
pub(crate) struct JoinOrder;

/// DataFusion's rules, with this one in its place.
pub(crate) fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    for rule in rules.iter_mut().filter(|rule| rule.name() == REPLACED) {
        *rule = Arc::new(JoinOrder);
    }
    rules
}

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &str {
        "resurgam_join_order"
    }
    fn supports_rewrite(&self) -> bool {
        true
    }
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        ordered(plan)
    }
}

/// A join that belongs to a region.
fn is_inner(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if is_inner_join(join))
}
fn is_inner_join(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing && !join.null_aware
}

/// `plan` with its regions in order, and those of its inputs and subqueries.
fn ordered(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(filter) if is_semi(&filter.input) && !is_of_view(&filter.predicate) => {
            below_semi_join(filter)?.transform_data(|plan| match plan {
                // Nothing is left to be asked of its rows here.
                LogicalPlan::Filter(filter) if is_semi(&filter.input) => children_ordered(LogicalPlan::Filter(filter)),
                plan => ordered(plan),
            })
        }
        LogicalPlan::Filter(filter) if is_inner(&filter.input) => {
            let Filter { predicate, input, .. } = filter;
            Region::new(Arc::unwrap_or_clone(input), Some(predicate))?.joined().map(Transformed::yes)
        }
        plan if is_inner(&plan) => Region::new(plan, None)?.joined().map(Transformed::yes),
        plan => children_ordered(plan),
    }
}

fn children_ordered(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let done = plan.map_uncorrelated_subqueries(ordered)?;
    let done = done.transform_sibling(|plan| plan.map_children(ordered))?;
    if done.transformed { done.map_data(|plan| plan.recompute_schema()) } else { Ok(done) }
}

/// A join that gives rows of its left side as they are, each once or not at all.
fn is_semi(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti))
}

/// Whether what is asked of rows here has a place that views or policies give it.
fn is_of_view(predicate: &Expr) -> bool {
    split_conjunction(predicate).into_iter().any(|part| is_barrier(part) || is_policy_mark(part))
}

/// The conditions of a filter above a semi-join, which subqueries have become, go below it, to what they belong to: the inner joins
/// there, whose order follows from them.
fn below_semi_join(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = filter.input.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let goes = |part: &Expr| !part.is_volatile() && !has_subquery(part) && part.any_column_refs();
    let (below, above): (Vec<Expr>, Vec<Expr>) =
        split_conjunction_owned(filter.predicate.clone()).into_iter().partition(goes);
    let Some(below) = conjunction(below) else { return Ok(Transformed::no(LogicalPlan::Filter(filter))) };
    let left = LogicalPlan::Filter(Filter::try_new(below, Arc::clone(&join.left))?);
    let plan = LogicalPlan::Join(Join { left: Arc::new(left), ..join.clone() });
    Ok(Transformed::yes(match conjunction(above) {
        Some(above) => LogicalPlan::Filter(Filter::try_new(above, Arc::new(plan))?),
        None => plan,
    }))
}

/// Which of the inputs of a region.
#[derive(Clone, Debug, Default, PartialEq)]
struct Inputs(Vec<u64>);

impl Inputs {
    fn one(at: usize) -> Self {
        let mut new = Self::default();
        new.insert(at);
        new
    }
    fn insert(&mut self, at: usize) {
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        self.0[at / 64] |= 1 << (at % 64);
    }
    fn add(&mut self, other: &Self) {
        for (at, bits) in other.0.iter().enumerate() {
            if self.0.len() <= at {
                self.0.push(0);
            }
            self.0[at] |= bits;
        }
    }
    fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }
    fn is_in(&self, other: &Self) -> bool {
        self.0.iter().enumerate().all(|(at, bits)| bits & !other.0.get(at).copied().unwrap_or(0) == 0)
    }
    fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|bits| bits >> (at % 64) & 1 == 1)
    }
    fn each(&self) -> impl Iterator<Item = usize> {
        let bits = self.0.iter().enumerate().filter(|(_, bits)| **bits != 0);
        bits.flat_map(|(at, bits)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| at * 64 + bit))
    }
    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }
    /// The only one of them.
    fn only(&self) -> Option<usize> {
        let mut bits = self.0.iter().enumerate().filter(|(_, bits)| **bits != 0);
        match (bits.next(), bits.next()) {
            (Some((at, bits)), None) if bits.is_power_of_two() => Some(at * 64 + bits.trailing_zeros() as usize),
            _ => None,
        }
    }
}

/// A condition over the inputs.
struct Condition {
    expr: Expr,
    /// Those that it reads; `None`: it cannot be told.
    inputs: Option<Inputs>,
    /// The sides of an equality that a join can be by, and what each reads.
    key: Option<[(Expr, Inputs); 2]>,
    /// It follows from others: it is a key or nothing.
    is_implied: bool,
    /// The set of equal columns that both sides are of.
    set: Option<usize>,
    /// A join is by it, or by what it follows from.
    is_done: bool,
}

/// How far an input's own conditions bound it; the least is best. Of those of one class, by the score of the
/// path that they give.
type Bounds = (u8, Reverse<usize>);
const ONE: u8 = 0;
const EQUAL: u8 = 1;
const BETWEEN: u8 = 2;
const FILTERED: u8 = 3;
const UNBOUNDED: u8 = 4;

struct Input {
    plan: Option<LogicalPlan>,
    bounds: Bounds,
    /// The engine's table that it is, by whose columns' names its own go.
    table: Option<Arc<Table>>,
    /// Columns of it that have one value.
    pinned: HashSet<usize>,
    /// What is known of the table.
    estimate: Option<Arc<TableEstimate>>,
    /// Rows that its own conditions leave.
    rows: f64,
    /// What it takes to read them.
    read: f64,
}

/// Inputs that are joined already.
struct Group {
    plan: LogicalPlan,
    inputs: Inputs,
    bounds: Bounds,
    rows: f64,
}

/// Beginnings that are tried; and of so many inputs, more than the best one.
const STARTS_MAX: usize = 8;
const INPUTS_TRIED: usize = 64;

/// Another beginning has to be so much better: estimates are rough, and sums of the same costs are not quite equal.
const LESS: f64 = 0.9;

/// What things take, where reading a row in order takes 1: to find a row by a key, to hold a row in a hash table.
const FIND: f64 = 4.0;
const HOLD: f64 = 2.0;

/// An order of inputs that equalities connect, and what it takes.
struct Way {
    order: Vec<usize>,
    cost: f64,
    rows: f64,
}

struct Region {
    schema: DFSchemaRef,
    inputs: Vec<Input>,
    conditions: Vec<Condition>,
    /// Of each input the conditions that it can be joined by.
    keys_of: Vec<Vec<usize>>,
}

impl Region {
    fn new(plan: LogicalPlan, predicate: Option<Expr>) -> Result<Self> {
        let schema = Arc::clone(plan.schema());
        let mut conditions: Vec<Condition> = Vec::new();
        let mut plans = Vec::new();
        let mut rest = vec![plan];
        let mut add = |expr: Expr| conditions.push(Condition::new(expr));
        predicate.into_iter().flat_map(split_conjunction_owned).for_each(&mut add);
        while let Some(plan) = rest.pop() {
            match plan {
                LogicalPlan::Join(join) if is_inner_join(&join) => {
                    for (left, right) in join.on {
                        add(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), Operator::Eq, Box::new(right))));
                    }
                    join.filter.into_iter().flat_map(split_conjunction_owned).for_each(&mut add);
                    rest.push(Arc::unwrap_or_clone(join.right));
                    rest.push(Arc::unwrap_or_clone(join.left));
                }
                other => plans.push(ordered(other)?.data),
            }
        }
        let owners = Owners::new(&plans);
        for condition in &mut conditions {
            condition.find(&owners, &schema)?;
        }
        // What all alternatives demand is demanded.
        let mut implied = Vec::new();
        for condition in conditions.iter().filter(|condition| condition.key.is_none()) {
            for expr in common_equalities(&condition.expr) {
                let mut key = Condition { is_implied: true, ..Condition::new(expr) };
                key.find(&owners, &schema)?;
                implied.extend(key.key.is_some().then_some(key));
            }
        }
        conditions.extend(implied);
        // And so is what follows from several equalities.
        let equal = conditions.iter().filter_map(|condition| condition.columns(&schema));
        let equal = EqualColumns::new(equal, |column| owners.0.get(column).copied());
        for (a, b) in equal.pairs() {
            let expr = Expr::Column(a.clone()).eq(Expr::Column(b.clone()));
            let mut key = Condition { is_implied: true, ..Condition::new(expr) };
            key.find(&owners, &schema)?;
            conditions.push(key);
        }
        for condition in &mut conditions {
            condition.set = condition.columns(&schema).and_then(|(a, b)| equal.set(a, b));
        }
        // A join is by a key once.
        let mut known: HashSet<(Expr, Expr)> = HashSet::new();
        conditions.retain(|condition| match &condition.key {
            Some([(a, _), (b, _)]) => !known.contains(&(b.clone(), a.clone())) && known.insert((a.clone(), b.clone())),
            None => true,
        });
        let mut inputs = Vec::with_capacity(plans.len());
        for (at, plan) in plans.into_iter().enumerate() {
            let own = Inputs::one(at);
            let own = conditions.iter().filter(|condition| condition.inputs.as_ref() == Some(&own));
            inputs.push(Input::new(plan, own.map(|condition| &condition.expr)));
        }
        let mut keys_of = vec![Vec::new(); inputs.len()];
        for (at, condition) in conditions.iter().enumerate() {
            let Some([(_, a), (_, b)]) = &condition.key else { continue };
            for input in a.each().chain(b.each()) {
                keys_of[input].push(at);
            }
        }
        Ok(Self { schema, inputs, conditions, keys_of })
    }

    /// All inputs joined, under what is left of the conditions.
    fn joined(mut self) -> Result<LogicalPlan> {
        let mut groups = Vec::new();
        while let Some(way) = self.best_way() {
            let mut order = way.order.into_iter();
            let Some(first) = order.next() else { break };
            let mut group = self.take(first)?;
            for next in order {
                let next = self.take(next)?;
                group = self.join(group, next)?;
            }
            group.rows = way.rows;
            groups.push(group);
        }
        while let Some((a, b)) = self.connected(&groups) {
            let second = groups.remove(b);
            let first = groups.remove(a);
            groups.insert(a, self.join(first, second)?);
        }
        // The last has the most rows: it is the one that is read as it comes.
        groups.sort_by(|a, b| a.rows.total_cmp(&b.rows).then_with(|| a.bounds.cmp(&b.bounds)));
        let mut all = None;
        while let Some(next) = groups.pop() {
            all = Some(match all {
                None => next,
                Some(rows) => self.join(next, rows)?,
            });
        }
        let Some(all) = all else { return internal_err!("a join of nothing") };
        let mut plan = all.plan;
        if plan.schema() != &self.schema {
            plan = LogicalPlan::Projection(Projection::new_from_schema(Arc::new(plan), Arc::clone(&self.schema)));
        }
        let left = self.conditions.into_iter().filter(|condition| !condition.is_done && !condition.is_implied);
        match conjunction(left.map(|condition| condition.expr)) {
            Some(predicate) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?)),
            None => Ok(plan),
        }
    }

    /// The cheapest of the ways that are tried to join inputs that are not joined yet, and that equalities connect.
    fn best_way(&self) -> Option<Way> {
        let free = self.inputs.iter().enumerate().filter(|(_, input)| input.plan.is_some());
        let first = free.min_by_key(|(_, input)| input.bounds).map(|(at, _)| at)?;
        let mut best = self.way_from(first);
        if best.order.len() > INPUTS_TRIED {
            return Some(best);
        }
        let mut starts: Vec<usize> = best.order.iter().copied().filter(|at| *at != first).collect();
        starts.sort_by(|a, b| {
            let (a, b) = (&self.inputs[*a], &self.inputs[*b]);
            a.rows.total_cmp(&b.rows).then_with(|| a.bounds.cmp(&b.bounds))
        });
        starts.truncate(STARTS_MAX - 1);
        for start in starts {
            let way = self.way_from(start);
            // An equality may need several inputs on one side: from some beginnings less can be reached.
            let is_longer = way.order.len() > best.order.len();
            if is_longer || (way.order.len() == best.order.len() && way.cost < best.cost * LESS) {
                best = way;
            }
        }
        Some(best)
    }

    /// An input with all that equalities connect with it, one after the other.
    fn way_from(&self, first: usize) -> Way {
        let mut joined = Inputs::one(first);
        let mut way = Way { order: vec![first], cost: self.inputs[first].read, rows: self.inputs[first].rows };
        let mut found = HashMap::new();
        self.look_from(first, &joined, &mut found);
        while let Some(Step { next, cost, rows }) = self.next_of(&found, way.rows) {
            joined.insert(next);
            found.remove(&next);
            self.look_from(next, &joined, &mut found);
            way.order.push(next);
            way.cost += cost;
            way.rows = rows;
        }
        way
    }

    /// What equalities connect with those joined, now that `last` is one of them.
    fn look_from(&self, last: usize, joined: &Inputs, found: &mut HashMap<usize, Edges>) {
        let Some(conditions) = self.keys_of.get(last) else { return };
        let conditions = conditions.iter().map(|at| &self.conditions[*at]);
        for condition in conditions.filter(|condition| !condition.is_done) {
            let Some([a, b]) = &condition.key else { continue };
            for ((theirs, known), (expr, ours)) in [(a, b), (b, a)] {
                if known.has(last)
                    && known.is_in(joined)
                    && let Some(at) = ours.only()
                    && !ours.is_in(joined)
                    && self.inputs[at].plan.is_some()
                {
                    let edges = found.entry(at).or_default();
                    // Of a set of equal columns one that is joined says what the others do.
                    if condition.set.is_some_and(|set| !edges.sets.insert(set)) {
                        continue;
                    }
                    edges.columns.extend(self.inputs[at].column(expr));
                    edges.keys.push((self.origin(theirs, known), self.inputs[at].origin(expr)));
                }
            }
        }
    }

    fn take(&mut self, at: usize) -> Result<Group> {
        let input = &mut self.inputs[at];
        match input.plan.take() {
            Some(plan) => Ok(Group { plan, inputs: Inputs::one(at), bounds: input.bounds, rows: input.rows }),
            None => internal_err!("an input that is joined twice"),
        }
    }

    /// The best of the inputs that are connected with those joined, of which there are `rows` rows.
    fn next_of(&self, found: &HashMap<usize, Edges>, rows: f64) -> Option<Step> {
        let rank = |at: usize, edges: &Edges| {
            let input = &self.inputs[at];
            let is_one = input.is_one_by(&edges.columns);
            (input.bounds.0 != ONE, !is_one, input.bounds, !input.is_found_by(&edges.columns), at)
        };
        let mut best: Option<(&Edges, Step)> = None;
        for (&at, edges) in found {
            let (cost, out) = self.inputs[at].joined_to(rows, edges);
            let is_better = best.as_ref().is_none_or(|(known, step)| {
                cost < step.cost || (cost == step.cost && rank(at, edges) < rank(step.next, known))
            });
            if is_better {
                best = Some((edges, Step { next: at, cost, rows: out }));
            }
        }
        best.map(|(_, step)| step)
    }

    /// The column that an expression over one input is.
    fn origin(&self, expr: &Expr, of: &Inputs) -> Option<Origin> {
        self.inputs[of.only()?].origin(expr)
    }

    /// Two groups that a condition connects: an equality, else any.
    fn connected(&self, groups: &[Group]) -> Option<(usize, usize)> {
        let of = |inputs: &Inputs| groups.iter().position(|group| inputs.is_in(&group.inputs));
        let open = || self.conditions.iter().filter(|condition| !condition.is_done);
        let by_key = open().filter_map(|condition| condition.key.as_ref()).find_map(|[(_, a), (_, b)]| {
            let (a, b) = (of(a)?, of(b)?);
            (a != b).then_some((a.min(b), a.max(b)))
        });
        by_key.or_else(|| {
            open().filter_map(|condition| condition.inputs.as_ref()).find_map(|inputs| {
                let mut met = (0..groups.len()).filter(|at| groups[*at].inputs.meets(inputs));
                match (met.next(), met.next(), met.next()) {
                    (Some(a), Some(b), None) => Some((a, b)),
                    _ => None,
                }
            })
        })
    }

    /// The rows of two groups that belong together.
    fn join(&mut self, left: Group, right: Group) -> Result<Group> {
        let (mut on, mut sets) = (Vec::new(), HashSet::new());
        for condition in self.conditions.iter_mut().filter(|condition| !condition.is_done) {
            let Some([a, b]) = &condition.key else { continue };
            let (a, b) = if a.1.is_in(&left.inputs) && b.1.is_in(&right.inputs) {
                (a, b)
            } else if b.1.is_in(&left.inputs) && a.1.is_in(&right.inputs) {
                (b, a)
            } else {
                continue;
            };
            // The columns of a set that are on one side equal each other already: one equality says all.
            if condition.set.is_none_or(|set| sets.insert(set)) {
                on.push((a.0.clone(), b.0.clone()));
            }
            condition.is_done = true;
        }
        let schema = build_join_schema(left.plan.schema(), right.plan.schema(), &JoinType::Inner)?;
        let mut inputs = left.inputs;
        inputs.add(&right.inputs);
        let plan = LogicalPlan::Join(Join {
            left: Arc::new(left.plan),
            right: Arc::new(right.plan),
            on,
            filter: None,
            join_type: JoinType::Inner,
            join_constraint: JoinConstraint::On,
            schema: Arc::new(schema),
            null_equality: NullEquality::NullEqualsNothing,
            null_aware: false,
        });
        Ok(Group { plan, inputs, bounds: left.bounds.min(right.bounds), rows: left.rows.max(right.rows) })
    }
}

/// An input to go on with, what that takes, and the rows that come out.
struct Step {
    next: usize,
    cost: f64,
    rows: f64,
}

/// What connects an input with those before.
#[derive(Default)]
struct Edges {
    /// Its columns.
    columns: HashSet<usize>,
    /// Sets of equal columns that they are of.
    sets: HashSet<usize>,
    /// Columns of others, and of its own, that equal each other.
    keys: Vec<(Option<Origin>, Option<Origin>)>,
}

/// Which input a column is of.
struct Owners(HashMap<Column, usize>);

impl Owners {
    fn new(plans: &[LogicalPlan]) -> Self {
        let mut owners = HashMap::new();
        for (at, plan) in plans.iter().enumerate() {
            owners.extend(plan.schema().columns().into_iter().map(|column| (column, at)));
        }
        Self(owners)
    }

    fn of(&self, expr: &Expr) -> Option<Inputs> {
        let mut inputs = Inputs::default();
        for column in expr.column_refs() {
            inputs.insert(*self.0.get(column)?);
        }
        Some(inputs)
    }
}

impl Condition {
    fn new(expr: Expr) -> Self {
        Self { expr, inputs: None, key: None, is_implied: false, set: None, is_done: false }
    }

    /// The columns that it says are equal, if all that equals one of them equals the other.
    fn columns(&self, schema: &DFSchema) -> Option<(&Column, &Column)> {
        let [(Expr::Column(a), _), (Expr::Column(b), _)] = self.key.as_ref()? else { return None };
        let (of_a, of_b) = (schema.data_type(a).ok()?, schema.data_type(b).ok()?);
        (of_a == of_b && is_transitive(of_a)).then_some((a, b))
    }

    /// What it reads, and whether a join can be by it.
    fn find(&mut self, owners: &Owners, schema: &DFSchema) -> Result<()> {
        self.inputs = owners.of(&self.expr);
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = &self.expr else { return Ok(()) };
        let (Some(a), Some(b)) = (owners.of(left), owners.of(right)) else { return Ok(()) };
        let sides = !a.is_empty() && !b.is_empty() && !a.meets(&b) && !self.expr.is_volatile();
        if sides && can_hash(&left.get_type(schema)?) {
            self.key = Some([(left.as_ref().clone(), a), (right.as_ref().clone(), b)]);
        }
        Ok(())
    }
}

/// The equalities that each alternative of a condition has.
fn common_equalities(expr: &Expr) -> Vec<Expr> {
    fn equalities(expr: &Expr) -> Vec<Expr> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => common_equalities(expr),
            Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => {
                split_conjunction(expr).into_iter().flat_map(equalities).collect()
            }
            Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }) => vec![expr.clone()],
            _ => Vec::new(),
        }
    }
    let Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) = expr else { return Vec::new() };
    let mut alternatives = split_binary(expr, Operator::Or).into_iter();
    let mut common = alternatives.next().map(equalities).unwrap_or_default();
    for alternative in alternatives {
        if common.is_empty() {
            break;
        }
        let known: HashSet<Expr> = equalities(alternative).into_iter().collect();
        common.retain(|expr| known.contains(expr) || known.contains(&swapped(expr)));
    }
    common
}

/// `b = a` for `a = b`.
fn swapped(expr: &Expr) -> Expr {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            Expr::BinaryExpr(BinaryExpr { left: right.clone(), op: *op, right: left.clone() })
        }
        other => other.clone(),
    }
}

impl Input {
    /// `conditions` are those that read nothing else.
    fn new<'c>(plan: LogicalPlan, conditions: impl Iterator<Item = &'c Expr>) -> Self {
        let mut conditions: Vec<&Expr> = conditions.flat_map(split_conjunction).collect();
        let (mut bounds, mut pinned) = ((if is_one_row(&plan) { ONE } else { UNBOUNDED }, Reverse(0)), HashSet::new());
        let (table, estimate) = table_of(&plan, &mut conditions).unzip();
        let estimate = estimate.flatten();
        let mut read = None;
        if let Some(table) = &table {
            let probes: Vec<Probe> = conditions.iter().flat_map(|condition| probes(table, condition)).collect();
            let path = AccessPath::choose_by(table, &probes, estimate.as_deref(), |_| false);
            let class = match (&path.low, &path.high) {
                _ if path.is_one() => ONE,
                _ if !path.equal.is_empty() => EQUAL,
                (Some(_), Some(_)) => BETWEEN,
                _ if path.prefix.is_some() => BETWEEN,
                _ => UNBOUNDED,
            };
            bounds = (class, Reverse(path.score()));
            pinned.extend(probes.iter().filter(|probe| probe.is_one_value()).map(|probe| probe.column));
            read = estimate.as_ref().map(|of| {
                let each = if path.index.is_some() { FETCH } else { 1.0 };
                of.rows() * path.part(of) * each
            });
        }
        if !conditions.is_empty() {
            bounds.0 = bounds.0.min(FILTERED);
        }
        let rows = match &estimate {
            Some(of) => of.rows() * estimate::logical::part(of, &conditions),
            None => match bounds.0 {
                ONE => 1.0,
                _ => estimate::logical::rows(&plan, &table_rows),
            },
        };
        Self { bounds, table, pinned, estimate, rows, read: read.unwrap_or(rows), plan: Some(plan) }
    }

    /// The table's column that an expression over it is, with what is known of it.
    fn origin(&self, expr: &Expr) -> Option<Origin> {
        estimate::logical::origin(self.estimate.as_ref()?, expr)
    }

    /// What it takes to join this input to `rows` rows, and how many rows come out.
    fn joined_to(&self, rows: f64, edges: &Edges) -> (f64, f64) {
        let out = rows * self.rows * estimate::physical::by_keys(&edges.keys, rows, self.rows);
        let out = out.min(estimate::ROWS_MAX);
        let read = self.read + HOLD * rows.min(self.rows) + rows.max(self.rows);
        let found = match &self.estimate {
            Some(of) if rows <= lookups_in(of) && self.is_found_by(&edges.columns) => {
                // All that have the keys are read, before its own conditions drop some.
                let kept = (self.rows / of.rows()).max(f64::MIN_POSITIVE);
                rows * FIND + out / kept * FETCH
            }
            _ => f64::INFINITY,
        };
        (read.min(found) + out, out)
    }

    /// The table's column that an expression over it is.
    fn column(&self, expr: &Expr) -> Option<usize> {
        probe_column(self.table.as_ref()?, expr)
    }

    /// Whether at most one row has given values in these columns.
    fn is_one_by(&self, columns: &HashSet<usize>) -> bool {
        let given = |column: &usize| columns.contains(column) || self.pinned.contains(column);
        let Some(table) = &self.table else { return false };
        trees(table).any(|(_, key, is_unique)| is_unique && !key.is_empty() && key.iter().all(given))
    }

    /// Whether a tree begins with one of these columns.
    fn is_found_by(&self, columns: &HashSet<usize>) -> bool {
        let Some(table) = &self.table else { return false };
        trees(table).any(|(_, key, _)| key.first().is_some_and(|first| columns.contains(first)))
    }
}

/// More rows than that are not looked up in a table, by default.
fn lookups_in(of: &TableEstimate) -> f64 {
    Planning::default().lookups_in(Some(of.rows())) as f64
}

fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}

/// Rows of a table under conditions.
fn table_rows(plan: &LogicalPlan) -> Option<f64> {
    let mut conditions = Vec::new();
    let (_, estimate) = table_of(plan, &mut conditions)?;
    estimate.map(|of| of.rows() * estimate::logical::part(&of, &conditions))
}

/// The engine's table that `plan` reads, columns under their names, and the conditions on its rows.
fn table_of<'p>(
    mut plan: &'p LogicalPlan,
    conditions: &mut Vec<&'p Expr>,
) -> Option<(Arc<Table>, Option<Arc<TableEstimate>>)> {
    loop {
        plan = match plan {
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Projection(projection) => {
                let plain = |expr: &Expr| matches!(expr, Expr::Column(_));
                if !projection.expr.iter().all(plain) {
                    return None;
                }
                &projection.input
            }
            LogicalPlan::Filter(filter) => {
                conditions.extend(split_conjunction(&filter.predicate));
                &filter.input
            }
            LogicalPlan::TableScan(scan) => {
                conditions.extend(&scan.filters);
                return engine_table(&scan.source).map(|(table, _)| (table, estimate_of(&scan.source)));
            }
            _ => return None,
        }
    }
}
