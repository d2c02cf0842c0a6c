//! Joins that go to temporary files.
//!
//! DataFusion's hash join holds one side in memory and ends the statement when that is more than it may have. A
//! statement that met its limit is therefore run once more ([`Session::runs_again`](crate::session::Session::runs_again)), with
//! sorts of both sides and a merge in the place of each hash join: both spill. Rows are the same; their order is another one, which
//! is why this comes before the rule that looks after orders.
//!
//! So do sorts that keep the rows of a LIMIT in memory. Sorts get batches that are as small as those that they give ([`compact::small`]).
//!
//! Left as they are: joins for NOT IN, whose NULLs a merge does not know, and keys that it cannot compare as `=` does.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, TimeUnit};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::exec::compact;
use crate::exec::outer_side::OuterSideExec;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// DataFusion's rule of orders, before which joins have to be what they will be.
const ORDERS: &str = "EnsureRequirements";

/// Puts this rule among DataFusion's.
pub(crate) fn add(rules: &mut Vec<Rule>) {
    let at = rules.iter().position(|rule| rule.name() == ORDERS).unwrap_or(0);
    rules.insert(at, Arc::new(MergeJoins));
    rules.push(Arc::new(SmallBatches));
}

/// Rows that a sort with a LIMIT may keep; if it wants more of them it sorts all, which spills.
const FEW_ROWS: usize = 100;

/// Brings sorts that spill batches of few rows, whoever put them in the plan; and has those with a LIMIT spill.
#[derive(Debug)]
struct SmallBatches;

impl PhysicalOptimizerRule for SmallBatches {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match plan.downcast_ref::<SortExec>() {
            Some(sort) => match sort.fetch() {
                None => compact::small(sort).map(Transformed::yes),
                Some(rows) if rows > FEW_ROWS => {
                    let all = compact::small(&sort.with_fetch(None))?;
                    let first: Arc<dyn ExecutionPlan> = match sort.preserve_partitioning() {
                        true => Arc::new(LocalLimitExec::new(all, rows)),
                        false => Arc::new(GlobalLimitExec::new(all, 0, Some(rows))),
                    };
                    Ok(Transformed::yes(first))
                }
                Some(_) => Ok(Transformed::no(plan)),
            },
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }
    fn name(&self) -> &str {
        "small_batches"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// See the module's head.
#[derive(Debug)]
struct MergeJoins;

impl PhysicalOptimizerRule for MergeJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(plan)) };
            match merged(join)? {
                Some(merged) => Ok(Transformed::yes(merged)),
                None => Ok(Transformed::no(plan)),
            }
        })
        .data()
    }
    fn name(&self) -> &str {
        "merge_joins"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

fn merged(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if join.null_aware || join.contains_projection() || join.fetch().is_some() {
        return Ok(None);
    }
    let (left, right) = (join.left().schema(), join.right().schema());
    for (a, b) in join.on() {
        let (a, b) = (a.data_type(&left)?, b.data_type(&right)?);
        if a != b || !is_comparable(&a) {
            return Ok(None);
        }
    }
    let merged = SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        join.filter().map(left_first).transpose()?,
        *join.join_type(),
        vec![SortOptions::default(); join.on().len()],
        join.null_equality(),
    )?;
    if merged.schema() != join.schema() {
        return Ok(None);
    }
    // It says that rows are ordered by what the left side is ordered by, and then by what the right one is; but the right rows with a key come again for each
    // left row that has it. Nobody is to go by that.
    Ok(Some(Arc::new(OuterSideExec::new(Arc::new(merged)))))
}

/// The same condition with the left side's columns before those of the right one. A merge gives it its columns in that order, whatever
/// order it names them in, and a join whose sides were swapped names them in the other one. Any of them may be NULL: an outer
/// one asks about rows without a partner, too.
fn left_first(filter: &JoinFilter) -> Result<JoinFilter> {
    let columns = filter.column_indices();
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|at| columns[*at].side != JoinSide::Left);
    let mut place = vec![0; order.len()];
    for (now, before) in order.iter().enumerate() {
        place[*before] = now;
    }
    let expression = Arc::clone(filter.expression()).transform(|expr| match expr.downcast_ref::<Column>() {
        Some(column) => {
            let Some(now) = place.get(column.index()) else { return internal_err!("a condition of other columns") };
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), *now)) as Arc<dyn PhysicalExpr>))
        }
        None => Ok(Transformed::no(expr)),
    });
    let field = |at: &usize| Arc::new(filter.schema().field(*at).clone().with_nullable(true));
    let fields: Vec<FieldRef> = order.iter().map(field).collect();
    let columns = order.iter().map(|at| columns[*at].clone()).collect();
    Ok(JoinFilter::new(expression.data()?, columns, Arc::new(Schema::new(fields))))
}

/// Whether a merge compares values of a type as `=` does. Not floats: a NaN equals itself.
fn is_comparable(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt32
            | DataType::Utf8View
            | DataType::BinaryView
            | DataType::Date32
            | DataType::Decimal128(..)
            | DataType::Timestamp(TimeUnit::Microsecond, None)
    )
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::BinaryExpr;
    use datafusion::physical_plan::joins::utils::ColumnIndex;

    use super::*;

    #[test]
    fn it_comes_before_the_rule_of_orders() {
        let names: Vec<String> = {
            let mut rules = crate::plan::rules::physical();
            add(&mut rules);
            rules
        }
        .iter()
        .map(|rule| rule.name().to_owned())
        .collect();
        let at = |name: &str| names.iter().position(|known| known == name);
        assert!(at("merge_joins").is_some() && at(ORDERS).is_some(), "{names:?}");
        assert!(at("merge_joins") < at(ORDERS) && at("merge_joins") > at("join_selection"), "{names:?}");
    }

    #[test]
    fn conditions_have_the_left_side_first() {
        let field = |name: &str, ty: DataType| Arc::new(Field::new(name, ty, false));
        let schema = Schema::new(vec![field("r", DataType::Int16), field("l", DataType::Int32)]);
        let of = |index, side| ColumnIndex { index, side };
        let columns = vec![of(3, JoinSide::Right), of(7, JoinSide::Left)];
        let (r, l) = (Arc::new(Column::new("r", 0)), Arc::new(Column::new("l", 1)));
        let less: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(r, Operator::Lt, l));
        let filter = JoinFilter::new(less, columns, Arc::new(schema));
        let turned = left_first(&filter).expect("a condition");
        assert_eq!(turned.expression().to_string(), "r@1 < l@0");
        assert_eq!(turned.column_indices(), [of(7, JoinSide::Left), of(3, JoinSide::Right)]);
        assert_eq!(turned.schema().field(0).data_type(), &DataType::Int32);
        assert!(turned.schema().fields().iter().all(|field| field.is_nullable()));
        // One that is in order already stays.
        let again = left_first(&turned).expect("a condition");
        assert_eq!(again.expression().to_string(), "r@1 < l@0");
    }
}
