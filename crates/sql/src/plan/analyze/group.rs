//! GROUP BY and aggregates.

use std::collections::{HashMap, HashSet};

use datafusion::common::Column as PlanColumn;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::utils::find_aggregate_exprs;
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder, Subquery, lit};
use datafusion::sql::sqlparser::ast::{self, GroupByExpr, GroupByWithModifier, Spanned};

use super::bound::Bound;
use super::expr::Clause;
use super::scope::{Scope, folded};
use super::select::Target;
use super::sets::has_set;
use super::{Analyzer, Result, unknown};
use crate::pg::errors::find_identifier;
use crate::plan::alike_constants;
use crate::wire::SqlError;

/// What GROUP BY says.
#[derive(Default)]
pub(super) struct Groups {
    /// Plain expressions, or one grouping set.
    exprs: Vec<Expr>,
    is_given: bool,
}

/// Replaces expressions by the columns that hold their values.
pub(super) struct Rebase(HashMap<Expr, Expr>);

impl Rebase {
    pub(super) fn pairs(pairs: Vec<(Expr, Expr)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// `exprs` as `plan`, which computes them, names them.
    pub(super) fn over(exprs: &[Expr], plan: &LogicalPlan) -> Result<Self> {
        let mut map = HashMap::with_capacity(exprs.len());
        for expr in exprs {
            let name = expr.schema_name().to_string();
            let (qualifier, field) = match expr {
                Expr::Column(column) => plan.schema().qualified_field_from_column(column)?,
                _ => plan.schema().qualified_field_with_unqualified_name(&name)?,
            };
            // An alias is the plan's name for it.
            let known = match expr {
                Expr::Alias(alias) => alias.expr.as_ref(),
                known => known,
            };
            map.insert(known.clone(), Expr::Column(PlanColumn::from((qualifier, field))));
        }
        Ok(Self(map))
    }

    pub(super) fn apply(&self, expr: &mut Expr) -> Result<()> {
        *expr = self.applied(std::mem::take(expr))?;
        Ok(())
    }

    fn applied(&self, expr: Expr) -> datafusion::common::Result<Expr> {
        let changed = expr.transform_down(|expr| {
            Ok(match self.0.get(&expr) {
                Some(column) => Transformed::new(column.clone(), true, TreeNodeRecursion::Jump),
                None => Transformed::no(expr),
            })
        })?;
        Ok(changed.data)
    }
}

/// The subquery that an expression is, itself.
pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(within) => Some(&within.subquery),
        Expr::SetComparison(compared) => Some(&compared.subquery),
        _ => None,
    }
}

/// The columns of queries around it that a subquery reads, whether in itself or in one within it: what says so of a plan says nothing
/// of those. Also columns of queries within it, which those within these read.
///
/// # Errors
/// None of its own.
pub(super) fn read_within(subquery: &Subquery) -> Result<Vec<PlanColumn>> {
    let mut read = Vec::new();
    subquery.subquery.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr
                    && !read.contains(column)
                {
                    read.push(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(read)
}

/// Leaves out what is there before.
fn only_once(exprs: &mut Vec<Expr>) -> Result<()> {
    let mut seen = HashSet::new();
    let mut left = Vec::with_capacity(exprs.len());
    for expr in std::mem::take(exprs) {
        if seen.insert((alike_constants::types_in(&expr)?, expr.clone())) {
            left.push(expr);
        }
    }
    *exprs = left;
    Ok(())
}

/// Whether an expression has the same value for all rows.
fn is_constant(expr: &Expr) -> bool {
    let varies = |expr: &Expr| {
        Ok(matches!(expr, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Unnest(_))
            || subquery_of(expr).is_some()
            || expr.is_volatile_node())
    };
    !expr.exists(varies).unwrap_or(true)
}

impl Analyzer<'_> {
    /// The expressions of GROUP BY. A name is an input column first, an output column otherwise.
    pub(super) fn group_clause(
        &mut self,
        group_by: &GroupByExpr,
        scope: &Scope<'_>,
        targets: &mut [Target],
    ) -> Result<Groups> {
        let GroupByExpr::Expressions(list, modifiers) = group_by else {
            return Err(SqlError::syntax("GROUP BY ALL is not PostgreSQL's").into());
        };
        let mut groups = Groups { exprs: Vec::new(), is_given: !list.is_empty() || !modifiers.is_empty() };
        let mut sets: Vec<Vec<Vec<Expr>>> = Vec::new();
        for expr in list {
            match expr {
                ast::Expr::Rollup(lists) => {
                    let lists = self.group_lists(lists, scope, targets)?;
                    sets.push((0..=lists.len()).rev().map(|n| lists[..n].concat()).collect());
                }
                ast::Expr::Cube(lists) => {
                    let lists = self.group_lists(lists, scope, targets)?;
                    if lists.len() > 12 {
                        return Err(SqlError::new("54011", "CUBE is limited to 12 elements").into());
                    }
                    let subsets = (0..1usize << lists.len()).rev().map(|mask| {
                        let chosen = lists.iter().enumerate().filter(|(at, _)| mask >> (lists.len() - 1 - at) & 1 == 1);
                        chosen.flat_map(|(_, list)| list.clone()).collect()
                    });
                    sets.push(subsets.collect());
                }
                ast::Expr::GroupingSets(lists) => sets.push(self.group_lists(lists, scope, targets)?),
                ast::Expr::Tuple(list) if list.is_empty() => sets.push(vec![vec![]]),
                ast::Expr::Tuple(list) => {
                    for expr in list {
                        let bound = self.group_item(expr, scope, targets)?;
                        groups.exprs.push(bound);
                    }
                }
                expr => {
                    let bound = self.group_item(expr, scope, targets)?;
                    groups.exprs.push(bound);
                }
            }
        }
        if modifiers.iter().any(|modifier| !matches!(modifier, GroupByWithModifier::GroupingSets(_))) {
            return Err(SqlError::syntax("this form of GROUP BY is not PostgreSQL's").into());
        }
        for modifier in modifiers {
            if let GroupByWithModifier::GroupingSets(ast::Expr::GroupingSets(lists)) = modifier {
                sets.push(self.group_lists(lists, scope, targets)?);
            }
        }
        only_once(&mut groups.exprs)?;
        if !sets.is_empty() {
            // PostgreSQL tells columns of one value apart there, by which of them a set names.
            let mut named: Vec<&Expr> = Vec::new();
            for target in targets.iter().filter(|target| !target.is_hidden) {
                let expr = &target.bound.expr;
                if groups.exprs.contains(expr) && named.contains(&expr) {
                    return unknown("grouping sets of several columns of one value");
                }
                named.push(expr);
            }
            // Several are multiplied with each other, and with the plain expressions.
            let mut product = vec![std::mem::take(&mut groups.exprs)];
            for set in sets {
                product = product
                    .into_iter()
                    .flat_map(|before| set.iter().map(move |list| [before.clone(), list.clone()].concat()))
                    .collect();
                if product.len() > 4096 {
                    return Err(SqlError::new("54001", "too many grouping sets present (maximum 4096)").into());
                }
            }
            for list in &mut product {
                only_once(list)?;
            }
            groups.exprs = vec![Expr::GroupingSet(GroupingSet::GroupingSets(product))];
        }
        Ok(groups)
    }

    fn group_lists(
        &mut self,
        lists: &[Vec<ast::Expr>],
        scope: &Scope<'_>,
        targets: &mut [Target],
    ) -> Result<Vec<Vec<Expr>>> {
        lists
            .iter()
            .map(|list| list.iter().map(|expr| self.group_item(expr, scope, targets)).collect::<Result<Vec<_>>>())
            .collect()
    }

    fn group_item(&mut self, expr: &ast::Expr, scope: &Scope<'_>, targets: &mut [Target]) -> Result<Expr> {
        if let ast::Expr::Nested(inner) = expr {
            return self.group_item(inner, scope, targets);
        }
        if let ast::Expr::Identifier(ident) = expr
            && self.local_column(scope, ident)?.is_none()
            && let Some(at) = self.target_named(&folded(ident), targets, "GROUP BY", expr)?
        {
            return self.group_target(&mut targets[at]);
        }
        if let Some(at) = self.target_numbered(expr, targets, "GROUP BY")? {
            return self.group_target(&mut targets[at]);
        }
        let bound = self.expr(expr, scope, Clause::GroupBy)?;
        super::record::refuse_record(&bound, "a group")?;
        // The same expression in the select list has to become the same, also when it has no type yet.
        let bound = self.or_text(bound)?;
        self.check_equality(&bound)?;
        Ok(bound.expr)
    }

    fn group_target(&mut self, target: &mut Target) -> Result<Expr> {
        target.bound = self.or_text(target.bound.clone())?;
        self.check_equality(&target.bound)?;
        super::record::refuse_record(&target.bound, "a group")?;
        let aggregates = find_aggregate_exprs(std::iter::once(&target.bound.expr));
        if !aggregates.is_empty() {
            let error = SqlError::new("42803", "aggregate functions are not allowed in GROUP BY");
            return Err(self.at(error, target.bound.span));
        }
        if target.bound.expr.exists(|e| Ok(matches!(e, Expr::WindowFunction(_))))? {
            let error = SqlError::new("42P20", "window functions are not allowed in GROUP BY");
            return Err(self.at(error, target.bound.span));
        }
        Ok(target.bound.expr.clone())
    }

    /// Groups `plan` if there is anything to group for, and brings `exprs` over to the result.
    pub(super) fn aggregate(
        &mut self,
        plan: LogicalPlan,
        mut groups: Groups,
        mut exprs: Vec<&mut Expr>,
        has_having: bool,
        scope: &Scope<'_>,
    ) -> Result<LogicalPlan> {
        let is_found_again = |expr: &Expr| Ok(matches!(expr, Expr::AggregateFunction(_) | Expr::WindowFunction(_)));
        let mut any = groups.is_given;
        for expr in &exprs {
            any = any || expr.exists(is_found_again)?;
        }
        if any {
            let all = groups.exprs.iter_mut().chain(exprs.iter_mut().map(|expr| &mut **expr));
            alike_constants::set_apart(&mut all.collect::<Vec<_>>())?;
        }
        let mut aggregates = find_aggregate_exprs(exprs.iter().map(|expr| &**expr));
        let of_subqueries = self.aggregates_of_subqueries(&plan);
        if aggregates.is_empty() && of_subqueries.is_empty() && !groups.is_given && !has_having {
            return Ok(plan);
        }
        let mut group_exprs = groups.exprs;
        let plan = match group_exprs.iter().any(has_set) {
            true => {
                let mut keys: Vec<&mut Expr> = group_exprs.iter_mut().collect();
                let (plan, rebases, _) = self.sets_of(plan, &mut keys, false, false)?;
                for expr in exprs.iter_mut() {
                    for rebase in &rebases {
                        rebase.apply(expr)?;
                    }
                }
                aggregates = find_aggregate_exprs(exprs.iter().map(|expr| &**expr));
                plan
            }
            false => plan,
        };
        let plan = match group_exprs.as_mut_slice() {
            [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => {
                let plan = self.sets_of_columns(plan, sets, &mut exprs)?;
                aggregates = find_aggregate_exprs(exprs.iter().map(|expr| &**expr));
                plan
            }
            _ => plan,
        };
        if !matches!(group_exprs.as_slice(), [Expr::GroupingSet(_)]) {
            self.add_dependent(&plan, &mut group_exprs, &exprs, &aggregates, scope)?;
        }
        if aggregates.is_empty() && of_subqueries.is_empty() && group_exprs.is_empty() {
            aggregates.push(count(lit(1i64)));
        }
        let input = plan.schema().clone();
        // A subquery would be named as its column is, and so may others be.
        for expr in &mut group_exprs {
            if subquery_of(expr).is_some() {
                let name = self.qualifier(&format!("{}group", crate::naming::MARK));
                *expr = std::mem::take(expr).alias(name);
            }
        }
        let mut taken = HashSet::new();
        if !matches!(group_exprs.as_slice(), [Expr::GroupingSet(_)]) {
            self.name_apart(&mut group_exprs, &mut taken);
        }
        self.name_apart(&mut aggregates, &mut taken);
        let keys: Vec<Expr> = match group_exprs.as_slice() {
            [Expr::GroupingSet(set)] => set.distinct_expr().into_iter().cloned().collect(),
            plain => plain.to_vec(),
        };
        let computed: Vec<Expr> = aggregates.iter().cloned().chain(of_subqueries).collect();
        let plan = LogicalPlanBuilder::from(plan).aggregate(group_exprs, computed)?.build()?;
        let all: Vec<Expr> = keys.into_iter().chain(aggregates).collect();
        let rebase = Rebase::over(&all, &plan)?;
        for expr in &mut exprs {
            rebase.apply(expr)?;
            self.check_grouped(expr, &input, &plan, scope)?;
        }
        Ok(plan)
    }

    /// Gives those a name of their own that would be named as another one is: DataFusion names a cast as what is cast.
    fn name_apart(&mut self, exprs: &mut [Expr], taken: &mut HashSet<String>) {
        for expr in exprs {
            if !taken.insert(expr.schema_name().to_string()) {
                let name = self.qualifier(&format!("{}group", crate::naming::MARK));
                *expr = std::mem::take(expr).alias(name);
            }
        }
    }

    /// `plan` with a column for each expression of grouping sets that is none; these become the sets', and what stands for the
    /// expressions in `exprs`. Where a set does not name an expression it is NULL, whatever the columns are that it is computed of
    /// (`coalesce(x, 0)` of an `x` that is NULL for the same reason would be 0).
    ///
    /// A constant is replaced where it is a whole expression only, as in PostgreSQL (`set_upper_references` in setrefs.c).
    fn sets_of_columns(
        &mut self,
        plan: LogicalPlan,
        sets: &mut [Vec<Expr>],
        exprs: &mut [&mut Expr],
    ) -> Result<LogicalPlan> {
        let mut computed: Vec<(Expr, Expr)> = Vec::new();
        let mut columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        for expr in sets.iter_mut().flatten().filter(|expr| !matches!(expr, Expr::Column(_))) {
            let known = computed.iter().find(|(known, _)| known == expr).map(|(_, column)| column.clone());
            let column = match known {
                Some(column) => column,
                None => {
                    let name = self.qualifier(&format!("{}group", crate::naming::MARK));
                    let column = Expr::Column(PlanColumn::from_name(&name));
                    columns.push(expr.clone().alias(name));
                    computed.push((expr.clone(), column.clone()));
                    column
                }
            };
            *expr = column;
        }
        if computed.is_empty() {
            return Ok(plan);
        }
        let (constants, others): (Vec<_>, Vec<_>) = computed.into_iter().partition(|(expr, _)| is_constant(expr));
        let rebase = Rebase::pairs(others);
        for expr in exprs.iter_mut() {
            match constants.iter().find(|(constant, _)| constant == *expr) {
                Some((_, column)) => **expr = column.clone(),
                None => rebase.apply(expr)?,
            }
        }
        // What asks which set a row is of names them all.
        let grouping = Rebase::pairs(constants);
        for expr in exprs.iter_mut() {
            let before = std::mem::take(*expr);
            **expr = before
                .transform_down(|expr| match expr {
                    Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
                        for arg in &mut call.params.args {
                            *arg = grouping.applied(std::mem::take(arg))?;
                        }
                        Ok(Transformed::new(Expr::AggregateFunction(call), true, TreeNodeRecursion::Jump))
                    }
                    other => Ok(Transformed::no(other)),
                })?
                .data;
        }
        Ok(LogicalPlanBuilder::from(plan).project(columns)?.build()?)
    }

    /// Columns of a table whose whole primary key is grouped by depend on it, and may be used as if they
    /// were grouped by, too (functional dependency; parse_agg.c).
    fn add_dependent(
        &mut self,
        plan: &LogicalPlan,
        groups: &mut Vec<Expr>,
        exprs: &[&mut Expr],
        aggregates: &[Expr],
        scope: &Scope<'_>,
    ) -> Result<()> {
        let mut dependent: Vec<Expr> = Vec::new();
        for item in &scope.items {
            let Some(table) = &item.table else { continue };
            let key: Option<Vec<&Expr>> =
                table.primary_key.iter().map(|at| item.columns.get(*at).map(|column| &column.bound.expr)).collect();
            if !table.primary_key.is_empty() && key.is_some_and(|key| key.iter().all(|column| groups.contains(column)))
            {
                dependent.extend(item.columns.iter().map(|column| column.bound.expr.clone()));
            }
        }
        if dependent.is_empty() {
            return Ok(());
        }
        let mut used: Vec<Expr> = Vec::new();
        let mut subqueries: Vec<Subquery> = Vec::new();
        for expr in exprs {
            expr.apply(|expr| {
                if groups.contains(expr) || aggregates.contains(expr) {
                    return Ok(TreeNodeRecursion::Jump);
                }
                if let Expr::Column(_) = expr
                    && !used.contains(expr)
                {
                    used.push(expr.clone());
                }
                subqueries.extend(subquery_of(expr).cloned());
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        for subquery in &subqueries {
            let read = read_within(subquery)?.into_iter().filter(|column| plan.schema().has_column(column));
            used.extend(read.map(Expr::Column));
        }
        for column in used {
            if dependent.contains(&column) && !groups.contains(&column) {
                groups.push(column);
            }
        }
        Ok(())
    }

    /// `42803` for a column that is neither grouped by nor in an aggregate.
    fn check_grouped(
        &self,
        expr: &Expr,
        input: &datafusion::common::DFSchema,
        grouped: &LogicalPlan,
        scope: &Scope<'_>,
    ) -> Result<()> {
        let mut ungrouped: Option<(PlanColumn, bool)> = None;
        let mut subqueries: Vec<Subquery> = Vec::new();
        expr.apply(|expr| {
            match expr {
                Expr::Column(column) if !grouped.schema().has_column(column) => {
                    ungrouped = Some((column.clone(), false));
                    return Ok(TreeNodeRecursion::Stop);
                }
                _ => {}
            }
            subqueries.extend(subquery_of(expr).cloned());
            Ok(TreeNodeRecursion::Continue)
        })?;
        let is_ungrouped = |column: &PlanColumn| input.has_column(column) && !grouped.schema().has_column(column);
        for subquery in &subqueries {
            if ungrouped.is_none() {
                ungrouped = read_within(subquery)?.into_iter().find(is_ungrouped).map(|column| (column, true));
            }
        }
        let Some((column, in_subquery)) = ungrouped else { return Ok(()) };
        let wanted = Expr::Column(column.clone());
        let found = scope.items.iter().find_map(|item| {
            let column = item.columns.iter().find(|column| column.bound.expr == wanted)?;
            Some((item.name.clone(), column.name.clone()))
        });
        let (relation, name) = found.unwrap_or_else(|| {
            let mut name = column.name.clone();
            crate::naming::shown(&mut name);
            (column.relation.as_ref().map(|relation| relation.table().to_owned()), name)
        });
        let shown = match relation {
            Some(relation) => format!("{relation}.{name}"),
            None => name.clone(),
        };
        let message = match in_subquery {
            false => {
                format!("column \"{shown}\" must appear in the GROUP BY clause or be used in an aggregate function")
            }
            true => format!("subquery uses ungrouped column \"{shown}\" from outer query"),
        };
        let mut error = SqlError::new("42803", message);
        error.position = find_identifier(self.text, &name);
        Err(error.into())
    }

    /// `grouping(…)`.
    pub(super) fn grouping(&mut self, args: &[&ast::Expr], scope: &Scope<'_>) -> Result<Bound> {
        let mut exprs = Vec::with_capacity(args.len());
        for arg in args {
            exprs.push(self.expr(arg, scope, Clause::GroupBy)?.expr);
        }
        if args.is_empty() || args.len() > 31 {
            let error = SqlError::new("54023", "GROUPING must have fewer than 32 arguments");
            let span = args.first().map_or_else(datafusion::sql::sqlparser::tokenizer::Span::empty, |arg| arg.span());
            return Err(self.at(error, span));
        }
        let Some(function) = self.names.state.aggregate_functions().get("grouping").cloned() else {
            return unknown("grouping");
        };
        Ok(Bound::new(function.call(exprs), super::Type::INT4))
    }
}
