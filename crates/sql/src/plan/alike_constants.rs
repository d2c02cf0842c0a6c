//! Constants of different types that DataFusion takes for equal, told apart where expressions are compared.
//!
//! Its equality of values leaves out some of what their types say: in how many bytes each value is kept (by which `inet` and `daterange` differ,
//! `pg/src/ordered.rs`), which matters for NULLs, and the zone, by which `timestamp` and `timestamptz`, and enumerated types, differ.
//! Its rule that computes once what a node computes several times would take `CASE … THEN NULL::inet END` for
//! `CASE … THEN NULL::daterange END`. Where a plan has such constants, they go through the rule as calls of functions that it leaves
//! alone, with all that they are in, and come out as they were. Analysis, which finds groups and aggregates again by what they are,
//! makes casts of them there ([`set_apart`]).

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{Cast, FieldMetadata, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The name of the rule.
pub(crate) const WRAPPED: &str = "common_sub_expression_eliminate";

/// See the module's head.
#[derive(Debug)]
pub(crate) struct AlikeConstants(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for AlikeConstants {
    fn name(&self) -> &str {
        WRAPPED
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_alike(&plan)? {
            return self.0.rewrite(plan, config);
        }
        self.0.rewrite(each(plan, &hidden)?, config)?.map_data(|plan| each(plan, &shown))
    }
}

/// Whether a value's equality leaves out what its type says.
fn is_loose(value: &ScalarValue) -> bool {
    matches!(
        value,
        ScalarValue::FixedSizeBinary(_, None)
            | ScalarValue::TimestampSecond(..)
            | ScalarValue::TimestampMillisecond(..)
            | ScalarValue::TimestampMicrosecond(..)
            | ScalarValue::TimestampNanosecond(..)
    )
}

/// Constants that were met, by their values, with their types.
#[derive(Default)]
struct Met(HashMap<ScalarValue, DataType>);

impl Met {
    /// Whether an expression has one that equals another one, and is of another type.
    fn has_alike(&mut self, expr: &Expr) -> Result<bool> {
        expr.exists(|expr| {
            Ok(match expr {
                Expr::Literal(value, _) if is_loose(value) => {
                    let ty = value.data_type();
                    *self.0.entry(value.clone()).or_insert_with(|| ty.clone()) != ty
                }
                _ => false,
            })
        })
    }
}

/// Whether a plan has constants that are equal, and of different types.
fn has_alike(plan: &LogicalPlan) -> Result<bool> {
    let (mut met, mut found) = (Met::default(), false);
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = found || met.has_alike(expr)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// The types of such constants in an expression, in order: two expressions are the same if these are, too.
pub(crate) fn types_in(expr: &Expr) -> Result<Vec<DataType>> {
    let mut types = Vec::new();
    expr.apply(|expr| {
        if let Expr::Literal(value, _) = expr
            && is_loose(value)
        {
            types.push(value.data_type());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(types)
}

/// Makes casts of such constants, to the types that they have, where expressions have several that are equal: casts to
/// different types are not.
pub(crate) fn set_apart(exprs: &mut [&mut Expr]) -> Result<()> {
    let (mut met, mut found) = (Met::default(), false);
    for expr in exprs.iter() {
        found = found || met.has_alike(expr)?;
    }
    for expr in exprs.iter_mut().filter(|_| found) {
        **expr = std::mem::take(*expr)
            .transform_up(|expr| {
                Ok(match expr {
                    Expr::Literal(value, said) if is_loose(&value) => {
                        let field = Field::new("", value.data_type(), value.is_null());
                        let field = Arc::new(said.iter().fold(field, |field, said| said.add_to_field(field)));
                        let value = Box::new(Expr::Literal(value, said));
                        Transformed::yes(Expr::Cast(Cast::new_from_field(value, field)))
                    }
                    other => Transformed::no(other),
                })
            })
            .data()?;
    }
    Ok(())
}

/// A plan with each of its expressions changed so, where the rule looks at them.
fn each(plan: LogicalPlan, change: &dyn Fn(Expr) -> Result<Transformed<Expr>>) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Aggregate(_) => node.map_expressions(|expr| expr.transform_up(change)),
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// The place of such a constant.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Hidden {
    value: ScalarValue,
    ty: DataType,
    said: Option<FieldMetadata>,
    /// Volatile: what it is in is not computed once for others.
    signature: Signature,
}

impl ScalarUDFImpl for Hidden {
    fn name(&self) -> &str {
        "resurgam_constant"
    }
    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        // As the constant's.
        Ok(Expr::Literal(self.value.clone(), self.said.clone()).schema_name().to_string())
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.ty.clone())
    }
    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = Field::new(self.name(), self.ty.clone(), self.value.is_null());
        Ok(Arc::new(match &self.said {
            Some(said) => said.add_to_field(field),
            None => field,
        }))
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a constant stayed hidden")
    }
}

fn hidden(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Literal(value, said) if is_loose(&value) => {
            let (ty, signature) = (value.data_type(), Signature::nullary(Volatility::Volatile));
            let function = Arc::new(ScalarUDF::new_from_impl(Hidden { value, ty, said, signature }));
            Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![])))
        }
        other => Transformed::no(other),
    })
}

fn shown(expr: Expr) -> Result<Transformed<Expr>> {
    let constant = match &expr {
        Expr::ScalarFunction(call) => call.func.inner().downcast_ref::<Hidden>(),
        _ => None,
    };
    Ok(match constant {
        Some(Hidden { value, said, .. }) => Transformed::yes(Expr::Literal(value.clone(), said.clone())),
        None => Transformed::no(expr),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;
    use datafusion::logical_expr::{ExprSchemable, LogicalPlanBuilder, col, lit, when};
    use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
    use datafusion::optimizer::{Optimizer, OptimizerContext};

    use super::*;

    #[test]
    fn the_rule_is_there() {
        let rules = Optimizer::new().rules;
        assert_eq!(rules.iter().filter(|rule| rule.name() == WRAPPED).count(), 1);
    }

    /// Types of the columns that a plan with these in CASEs has after the rule.
    fn types(rule: &dyn OptimizerRule, constants: &[ScalarValue]) -> Vec<DataType> {
        let of = |(at, value): (usize, &ScalarValue)| {
            let value = Expr::Literal(value.clone(), None);
            when(col("x").gt(lit(1)), value).end().expect("a CASE").alias(format!("of{at}"))
        };
        let one = LogicalPlanBuilder::empty(true).project(vec![lit(1).alias("x")]).expect("x");
        let all: Vec<Expr> = constants.iter().enumerate().map(of).collect();
        let plan = one.project(all).expect("all").build().expect("a plan");
        let plan = rule.rewrite(plan, &OptimizerContext::new()).expect("rewritten").data;
        let LogicalPlan::Projection(last) = plan else { panic!("{plan}") };
        let schema = last.input.schema();
        last.expr.iter().map(|expr| expr.get_type(schema.as_ref()).expect("a type")).collect()
    }

    #[test]
    fn constants_of_other_types_stay_apart() {
        let at = |zone: Option<&str>| ScalarValue::TimestampMicrosecond(Some(7), zone.map(Into::into));
        for (constants, wanted) in [
            (
                [ScalarValue::FixedSizeBinary(20, None), ScalarValue::FixedSizeBinary(28, None)],
                [DataType::FixedSizeBinary(20), DataType::FixedSizeBinary(28)],
            ),
            (
                [at(None), at(Some("UTC"))],
                [None, Some("UTC")].map(|zone| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into))),
            ),
        ] {
            let rule = CommonSubexprEliminate::new();
            assert_ne!(
                types(&rule, &constants),
                wanted,
                "the query engine tells them apart: there is nothing to do here"
            );
            assert_eq!(types(&AlikeConstants(Arc::new(rule)), &constants), wanted);
        }
    }
}
