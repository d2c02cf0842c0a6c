//! DataFusion's analyzer rules, with what has to be done before them, and those of its optimiser that are not followed
//! everywhere.
//!
//! Analysis has written out every cast, so DataFusion's coercion of types finds nothing to do: it checks. But it knows
//! no RANGE over numerics that show different digits, which are bytes: their windows go by their keys before it comes.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DataFusionError, ExprSchema, Result, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, Join, JoinType, LogicalPlan, Operator};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::simplify_expressions::simplify_predicates;
use datafusion::optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::apply::may_fail;
use crate::exec::bridge;
use crate::exec::estimate::sides;
use crate::exec::in_order::InOrder;
use crate::exec::kept_limits::{self, KeptLimits};
use crate::exec::missing_sorts::{CHECK, MissingSorts};
use crate::exec::outer_side::{BuildSides, OuterSides};
use crate::exec::row_rule::{is_barrier, is_policy_mark};
use crate::exec::zeroes::{has_signed_keys, tells_signs};
use crate::pg::functions::numeric::keys::NumericKeys;
use crate::pg::running;
use crate::plan::alike_constants::{self, AlikeConstants};
use crate::plan::expression::has_subquery;
use crate::plan::in_lists;

/// DataFusion's rule of coercion.
const COERCION: &str = "type_coercion";

/// The optimiser's rule that [`mend`] is about.
const SINGLE_DISTINCT: &str = "single_distinct_aggregation_to_group_by";

/// The physical rule that has no place here; see [`physical`].
const FROM_STATISTICS: &str = "aggregate_statistics";

/// The optimiser's rule that [`AboveGroups`] is about.
const PUSH_DOWN: &str = "push_down_filter";

/// The optimiser's rule that [`GroupKeys`] is about.
const GROUP_BY_CONSTANT: &str = "eliminate_group_by_constant";

/// The rules of a session, to which its functions add theirs.
pub(crate) fn rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    if crate::exec::planning::is_canary_wanted() {
        for rule in rules.iter_mut().filter(|rule| rule.name() == COERCION) {
            *rule = Arc::new(NothingToDo(Arc::clone(rule)));
        }
    }
    if let Some(keys) = NumericKeys::new() {
        let at = rules.iter().position(|rule| rule.name() == COERCION).unwrap_or(0);
        rules.insert(at, Arc::new(WindowKeys(keys)));
    }
    rules
}

/// These rules of the optimizer, with a question before each whether the statement was told to stop.
pub(crate) fn stoppable(rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let ask = Arc::new(Ask) as Arc<dyn OptimizerRule + Send + Sync>;
    rules.into_iter().flat_map(|rule| [Arc::clone(&ask), rule]).collect()
}

/// See [`stoppable`].
#[derive(Debug)]
struct Ask;

impl OptimizerRule for Ask {
    fn name(&self) -> &str {
        "ask"
    }
    fn supports_rewrite(&self) -> bool {
        true
    }
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        running::check().map_err(bridge::failure)?;
        Ok(Transformed::no(plan))
    }
}

/// DataFusion's coercion under the canary of plans: that it finds anything to do is an error, which says what.
#[derive(Debug)]
struct NothingToDo(Arc<dyn AnalyzerRule + Send + Sync>);

impl AnalyzerRule for NothingToDo {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        // It moves NOT into IN, which is no cast.
        let text = |plan: &LogicalPlan| plan.display_indent().to_string().replace("NOT ", "");
        let lines = |plan: &LogicalPlan| text(plan).lines().map(str::to_owned).collect::<Vec<_>>();
        let before = lines(&plan);
        let plan = self.0.analyze(plan, config)?;
        let after = lines(&plan);
        if let Some((before, after)) = before.iter().zip(&after).find(|(before, after)| before != after) {
            return internal_err!("a cast was left to the query engine: {before} became {after}");
        }
        Ok(plan)
    }
}

/// An expression over `schema` that is in no plan, as DataFusion's coercion leaves it.
pub(crate) fn coerced(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.rewrite(&mut TypeCoercionRewriter::new(schema)).data()
}

/// See the module's head.
#[derive(Debug)]
struct WindowKeys(NumericKeys);

impl WindowKeys {
    fn node(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Window(_)) {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        let keyed = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let keyed = expr.transform_up(|expr| match expr {
                Expr::WindowFunction(mut window) => {
                    let changed = self.0.window(&mut window, &schema)?;
                    Ok(Transformed::new_transformed(Expr::WindowFunction(window), changed))
                }
                other => Ok(Transformed::no(other)),
            })?;
            Ok(if keyed.transformed { keyed.update_data(|expr| name.restore(expr)) } else { keyed })
        })?;
        if keyed.transformed { keyed.map_data(LogicalPlan::recompute_schema) } else { Ok(keyed) }
    }
}

/// The rules over physical plans, but for two. One pushes filters down: the logical ones have done that, and this one
/// goes by names. Of `WHERE NULL OR a.x AND b.x` over `a RIGHT JOIN b` it made a filter of `b` alone. The other one puts what is known of rows
/// in the place of aggregates: of an aggregate with FILTER it takes the one below, whatever is between them, and no table says how many rows
/// it has for sure.
pub(crate) fn physical() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !rule.name().starts_with("FilterPushdown") && rule.name() != FROM_STATISTICS);
    for rule in rules.iter_mut().filter(|rule| rule.name() == kept_limits::REPLACED) {
        *rule = Arc::new(KeptLimits(Arc::clone(rule)));
    }
    sides::add(&mut rules);
    let chosen = rules.iter().position(|rule| rule.name() == sides::NAME).map_or(0, |at| at + 1);
    rules.insert(chosen, Arc::new(BuildSides));
    rules.insert(0, Arc::new(OuterSides));
    let check = rules.iter().position(|rule| rule.name() == CHECK).unwrap_or(rules.len());
    rules.insert(check, Arc::new(MissingSorts));
    rules.push(Arc::new(InOrder));
    let ask = Arc::new(Ask) as Arc<dyn PhysicalOptimizerRule + Send + Sync>;
    rules.into_iter().flat_map(|rule| [Arc::clone(&ask), rule]).collect()
}

impl PhysicalOptimizerRule for Ask {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        running::check().map_err(bridge::failure)?;
        Ok(plan)
    }
    fn name(&self) -> &str {
        "ask"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// Keeps those of the optimiser's rules that are wrong about types of aggregates, about lists of IN, about constants, and about signs of zeroes, from that.
pub(crate) fn mend(rules: &mut [Arc<dyn OptimizerRule + Send + Sync>]) {
    for rule in rules.iter_mut().filter(|rule| rule.name() == SINGLE_DISTINCT) {
        *rule = Arc::new(SingleDistinct(SingleDistinctToGroupBy::new()));
    }
    for rule in rules.iter_mut().filter(|rule| rule.name() == in_lists::REPLACED) {
        *rule = Arc::new(in_lists::Simplify::default());
    }
    for rule in rules.iter_mut().filter(|rule| rule.name() == PUSH_DOWN) {
        *rule = Arc::new(AboveGroups(OfEachSide(PushDownFilter::new())));
    }
    for rule in rules.iter_mut().filter(|rule| rule.name() == GROUP_BY_CONSTANT) {
        *rule = Arc::new(GroupKeys(Arc::clone(rule)));
    }
    for rule in rules.iter_mut().filter(|rule| rule.name() == alike_constants::WRAPPED) {
        *rule = Arc::new(AlikeConstants(Arc::clone(rule)));
    }
}

/// A node whose comparisons with constants have the constant on the right. The rule that brings conditions down takes `x = 1 AND 1 = x` for false and
/// `x >= 1 AND 1 < x` for `x >= 1`, since it compares terms as they are written; and what an ON says of one side it says of the other one
/// anew in each pass, beside what was simplified meanwhile.
fn columns_first(mut plan: LogicalPlan) -> LogicalPlan {
    match &mut plan {
        LogicalPlan::Filter(filter) => turn(&mut filter.predicate),
        LogicalPlan::Join(join) => join.filter.iter_mut().for_each(turn),
        _ => {}
    }
    plan
}

fn turn(predicate: &mut Expr) {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = predicate else { return };
    if *op == Operator::And {
        turn(left);
        turn(right);
        return;
    }
    let is_comparison =
        matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq | Operator::NotEq);
    let is_turned = is_comparison && left.as_literal().is_some() && right.as_literal().is_none();
    if let Some(turned) = op.swap().filter(|_| is_turned) {
        *op = turned;
        std::mem::swap(left, right);
    }
}

/// The rule that brings conditions down. One without columns (`HAVING NULL AND …`) it would bring below an aggregate of all
/// rows, which has a row also where there are none. And one that calls a volatile function (`nextval`) it would bring below what makes one row
/// of several, or gives each row a value by the others: it would be called for other rows than those that the statement names
/// (PostgreSQL's `unsafeVolatile`, allpaths.c).
#[derive(Debug)]
struct AboveGroups(OfEachSide);

impl OptimizerRule for AboveGroups {
    fn name(&self) -> &str {
        PUSH_DOWN
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let plan = columns_first(plan);
        if matches!(&plan, LogicalPlan::Filter(filter) if is_barrier(&filter.predicate)) {
            return Ok(Transformed::no(plan));
        }
        if let LogicalPlan::Filter(outer) = &plan
            && let LogicalPlan::Filter(inner) = outer.input.as_ref()
        {
            // The rule would make one of them, and bring that further down without asking here again.
            let below = split_conjunction(&inner.predicate);
            let tells = |part: &&Expr| part.is_volatile() || has_subquery(part) || may_fail(part);
            let of_outer = || split_conjunction(&outer.predicate).into_iter().partition::<Vec<&Expr>, _>(tells);
            if is_barrier(&inner.predicate) {
                // PostgreSQL's security barrier, of a view: what can end in an error is asked of its rows, the rest below.
                let (telling, silent) = of_outer();
                let Some(silent) = conjunction(silent.into_iter().cloned()) else { return Ok(Transformed::no(plan)) };
                let filter = |part, input| {
                    Ok::<_, DataFusionError>(Arc::new(LogicalPlan::Filter(Filter::try_new(part, input)?)))
                };
                let mut rows = filter(inner.predicate.clone(), filter(silent, Arc::clone(&inner.input))?)?;
                if let Some(telling) = conjunction(telling.into_iter().cloned()) {
                    rows = filter(telling, rows)?;
                }
                return Ok(Transformed::yes(Arc::unwrap_or_clone(rows)));
            }
            if below.iter().any(|part| is_policy_mark(part)) {
                // The same of policies.
                let (telling, silent) = of_outer();
                if let Some(above) = conjunction(telling.into_iter().cloned()) {
                    if silent.is_empty() {
                        return Ok(Transformed::no(plan));
                    }
                    let parts = below.into_iter().chain(silent).cloned();
                    let Some(below) = conjunction(parts) else { return Ok(Transformed::no(plan)) };
                    let below = LogicalPlan::Filter(Filter::try_new(below, Arc::clone(&inner.input))?);
                    return Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(above, Arc::new(below))?)));
                }
            }
            // What is below goes first.
            let mut parts: Vec<&Expr> = split_conjunction(&inner.predicate);
            let mut known: HashSet<&Expr> = parts.iter().copied().collect();
            parts.extend(split_conjunction(&outer.predicate).into_iter().filter(|part| known.insert(part)));
            let Some(both) = conjunction(parts.into_iter().cloned()) else { return Ok(Transformed::no(plan)) };
            let merged = LogicalPlan::Filter(Filter::try_new(both, Arc::clone(&inner.input))?);
            return Ok(Transformed::yes(self.rewrite(merged, config)?.data));
        }
        if let LogicalPlan::Filter(filter) = &plan
            && let LogicalPlan::Aggregate(group) = filter.input.as_ref()
            && (group.group_expr.is_empty() || group.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))))
            // What the rule would bring down, which simplifies first: of `n = 1 AND n = 3` it makes `false`.
            && simplify_predicates(split_conjunction_owned(filter.predicate.clone()))?
                .iter()
                .any(|part| part.column_refs().is_empty())
        {
            return Ok(Transformed::no(plan));
        }
        if let LogicalPlan::Filter(filter) = &plan
            && matches!(filter.input.as_ref(), LogicalPlan::Join(_))
            && split_conjunction(&filter.predicate).into_iter().any(is_policy_mark)
        {
            // A policy's subquery has become this join: its mark stays above, so that what may end in an error is asked of the rows that it lets through.
            let parts = split_conjunction_owned(filter.predicate.clone());
            let (marks, others): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(is_policy_mark);
            let (Some(marks), Some(others)) = (conjunction(marks), conjunction(others)) else {
                return Ok(Transformed::no(plan));
            };
            let below = LogicalPlan::Filter(Filter::try_new(others, Arc::clone(&filter.input))?);
            let below = self.rewrite(below, config)?.data;
            return Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(marks, Arc::new(below))?)));
        }
        match plan {
            LogicalPlan::Filter(filter) if filter.predicate.is_volatile() && keeps_above(&filter.input) => {
                let parts = split_conjunction_owned(filter.predicate.clone());
                let (volatile, others): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(Expr::is_volatile);
                let (Some(volatile), Some(others)) = (conjunction(volatile), conjunction(others)) else {
                    return Ok(Transformed::no(LogicalPlan::Filter(filter)));
                };
                let below = Filter::try_new(others, filter.input)?;
                let below = self.0.rewrite(LogicalPlan::Filter(below), config)?.data;
                Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(volatile, Arc::new(below))?)))
            }
            LogicalPlan::Filter(filter) if filter.predicate.is_volatile() => match filter.input.as_ref() {
                LogicalPlan::Join(join) => {
                    let (plan, asked) = ask_of_sides(join.clone(), filter.predicate.clone())?;
                    match asked {
                        true => Ok(Transformed::yes(plan)),
                        false => Ok(Transformed::no(LogicalPlan::Filter(filter))),
                    }
                }
                _ => self.0.rewrite(LogicalPlan::Filter(filter), config),
            },
            LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(Expr::is_volatile) => {
                Ok(Transformed::no(LogicalPlan::Join(join)))
            }
            plan => self.0.rewrite(plan, config),
        }
    }
}

/// Whether a volatile condition of these rows stays above what makes them: of several rows one, of each a value by the others, or of one
/// several (sets, LATERAL).
fn keeps_above(plan: &LogicalPlan) -> bool {
    use LogicalPlan as P;
    matches!(plan, P::Aggregate(_) | P::Distinct(_) | P::Window(_) | P::Extension(_) | P::Unnest(_))
}

/// A condition with volatile parts of a join's rows: each part that reads one side alone is asked of that side's rows, once for each, as
/// in PostgreSQL, where the side's rows are all there; the rest of the join's. DataFusion's rule would ask it of the other side, too, by their
/// equality. And whether anything was asked of a side.
fn ask_of_sides(mut join: Join, predicate: Expr) -> Result<(LogicalPlan, bool)> {
    let (left_kept, right_kept) = match join.join_type {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => (true, false),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => (false, true),
        _ => (false, false),
    };
    let (mut of_left, mut of_right, mut of_both) = (Vec::new(), Vec::new(), Vec::new());
    for part in split_conjunction_owned(predicate) {
        let columns = part.column_refs();
        let reads = |schema: &DFSchema| !columns.is_empty() && columns.iter().all(|column| schema.has_column(column));
        if left_kept && reads(join.left.schema()) {
            of_left.push(part);
        } else if right_kept && reads(join.right.schema()) {
            of_right.push(part);
        } else {
            of_both.push(part);
        }
    }
    let asked = !of_left.is_empty() || !of_right.is_empty();
    let with = |side: Arc<LogicalPlan>, parts: Vec<Expr>| match conjunction(parts) {
        Some(condition) => Ok::<_, DataFusionError>(Arc::new(LogicalPlan::Filter(Filter::try_new(condition, side)?))),
        None => Ok(side),
    };
    join.left = with(join.left, of_left)?;
    join.right = with(join.right, of_right)?;
    let join = Arc::new(LogicalPlan::Join(join));
    Ok((with(join, of_both)?.as_ref().clone(), asked))
}

/// The rule that makes groups within groups of an aggregate with DISTINCT. Of `sum` beside it it makes a sum of sums:
/// in PostgreSQL the sum of integers is a bigint, and the sum of these a numeric.
#[derive(Debug)]
struct SingleDistinct(SingleDistinctToGroupBy);

impl OptimizerRule for SingleDistinct {
    fn name(&self) -> &str {
        SINGLE_DISTINCT
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_sum = |expr: &Expr| match expr {
            Expr::AggregateFunction(call) => call.func.name() == "sum" && !call.params.distinct,
            _ => false,
        };
        match &plan {
            LogicalPlan::Aggregate(group) if group.aggr_expr.iter().any(is_sum) => Ok(Transformed::no(plan)),
            _ => self.0.rewrite(plan, config),
        }
    }
}

/// The rule that brings conditions down, but for one thing: what is asked of one side of a join it asks of the other side as well, of the columns that
/// an equality makes equal. Of floating point, equal values may have different signs, so what tells these (`a.f = b.f AND b.f::text = '-0'`)
/// is asked of the side that it names. Hidden within aliases, columns of equalities are no columns to the rule.
#[derive(Debug)]
struct OfEachSide(PushDownFilter);

impl OfEachSide {
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !asks_for_signs(&plan) {
            return self.0.rewrite(plan, config);
        }
        const HIDDEN: &str = "resurgam$signed";
        let hide = |side: &mut Expr| *side = std::mem::take(side).alias(HIDDEN);
        let show = |side: &mut Expr| {
            if let Expr::Alias(alias) = side
                && alias.name == HIDDEN
            {
                *side = std::mem::take(alias.expr.as_mut());
            }
        };
        let hidden = each_side(plan, &|(left, right)| {
            hide(left);
            hide(right);
        });
        let done = self.0.rewrite(hidden, config)?;
        Ok(done.update_data(|plan| {
            each_side(plan, &|(left, right)| {
                show(left);
                show(right);
            })
        }))
    }
}

/// The plan, a join or a filter of one, with its equalities changed.
fn each_side(plan: LogicalPlan, change: &dyn Fn(&mut (Expr, Expr))) -> LogicalPlan {
    match plan {
        LogicalPlan::Join(mut join) => {
            join.on.iter_mut().for_each(change);
            LogicalPlan::Join(join)
        }
        LogicalPlan::Filter(mut filter) if matches!(filter.input.as_ref(), LogicalPlan::Join(_)) => {
            filter.input = Arc::new(each_side(Arc::unwrap_or_clone(filter.input), change));
            LogicalPlan::Filter(filter)
        }
        other => other,
    }
}

/// Whether conditions of a join, or above it, tell signs of zeroes in columns that its equalities make equal.
fn asks_for_signs(plan: &LogicalPlan) -> bool {
    let (join, above) = match plan {
        LogicalPlan::Join(join) => (join, None),
        LogicalPlan::Filter(filter) => match filter.input.as_ref() {
            LogicalPlan::Join(join) => (join, Some(&filter.predicate)),
            _ => return false,
        },
        _ => return false,
    };
    let mut equal: HashSet<&Column> = HashSet::new();
    for (side, schema) in
        join.on.iter().flat_map(|(left, right)| [(left, join.left.schema()), (right, join.right.schema())])
    {
        if let Some(column) = side.try_as_col()
            && schema.field_from_column(column).is_ok_and(|field| field.data_type().is_floating())
        {
            equal.insert(column);
        }
    }
    !equal.is_empty() && join.filter.iter().chain(above).any(|condition| tells_signs(condition, &equal))
}

/// The rule that leaves out keys of groups that are constants, or made of other keys alone, which are columns. Rows of one group by a column of
/// floating point have zeroes of both signs, so of what is made of it (`GROUP BY f, atan2(f, -1)`) they may differ.
#[derive(Debug)]
struct GroupKeys(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for GroupKeys {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Aggregate(group) if has_signed_keys(group) => Ok(Transformed::no(plan)),
            _ => self.0.rewrite(plan, config),
        }
    }
}

impl AnalyzerRule for WindowKeys {
    fn name(&self) -> &str {
        "window_keys"
    }
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| self.node(plan)).data()
    }
}
