//! Functions that return sets: rows are repeated for the values that they give.
//!
//! [`ProjectSet`] has each row of its input as often as the longest of its sets has values, beside the next value of
//! each; those that end before get NULLs (PostgreSQL's node of that name, and its function scan where the
//! input is one row). A row whose sets are all empty is gone, unless a LEFT JOIN keeps it. A number of the row is counted beside them for WITH
//! ORDINALITY.
//!
//! A set is a list, whose elements are its values, or a call of `generate_series`, whose values are made as they are
//! asked for ([`series_function`](crate::pg::functions::series_function)).

mod exec;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, DFSchemaRef, Result, TableReference, internal_err, plan_err};
use datafusion::logical_expr::{Expr, ExprSchemable, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
pub(crate) use exec::SetsPlanner;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProjectSet {
    input: LogicalPlan,
    /// Over the input: lists and series.
    sets: Vec<Expr>,
    /// Of the columns with their values, which have no qualifier.
    names: Vec<String>,
    /// Of the column that counts them, if there is one.
    ordinality: Option<String>,
    /// A row without values stays, with NULLs in their place.
    outer: bool,
    /// Functions in FROM, of which PostgreSQL makes all rows before it reads the first.
    whole: bool,
    schema: DFSchemaRef,
}

impl ProjectSet {
    /// `input` with the values of `sets`, each under its name. `whole`: they are functions in FROM.
    pub(crate) fn plan(
        input: LogicalPlan,
        sets: Vec<(Expr, String)>,
        ordinality: Option<String>,
        whole: bool,
    ) -> Result<LogicalPlan> {
        let (sets, names) = sets.into_iter().unzip();
        let node = Self { whole, ..Self::new(input, sets, names, ordinality, false)? };
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }

    /// The node, if a plan is one of one row alone: a function in FROM.
    pub(crate) fn of_one_row(plan: &LogicalPlan) -> Option<&Self> {
        let LogicalPlan::Extension(extension) = plan else { return None };
        let node = extension.node.as_any().downcast_ref::<Self>()?;
        matches!(&node.input, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row).then_some(node)
    }

    /// The same sets for each row of another input, with their expressions changed. `outer`: a row without values
    /// stays.
    pub(crate) fn over(
        &self,
        input: LogicalPlan,
        outer: bool,
        change: impl Fn(Expr) -> Result<Expr>,
    ) -> Result<LogicalPlan> {
        let sets = self.sets.iter().cloned().map(change).collect::<Result<_>>()?;
        let node = Self::new(input, sets, self.names.clone(), self.ordinality.clone(), outer)?;
        let node = Self { whole: self.whole, ..node };
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }

    /// Its sets.
    pub(crate) fn sets(&self) -> &[Expr] {
        &self.sets
    }

    fn new(
        input: LogicalPlan,
        sets: Vec<Expr>,
        names: Vec<String>,
        ordinality: Option<String>,
        outer: bool,
    ) -> Result<Self> {
        type Fields = Vec<(Option<TableReference>, FieldRef)>;
        let mut fields: Fields =
            input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
        for (set, name) in sets.iter().zip(&names) {
            let DataType::List(item) = set.get_type(input.schema())? else { return plan_err!("{set} is no set") };
            let field = item.as_ref().clone().with_name(name).with_nullable(true);
            fields.push((None, Arc::new(field)));
        }
        if let Some(name) = &ordinality {
            fields.push((None, Arc::new(Field::new(name, DataType::Int64, true))));
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?);
        Ok(Self { input, sets, names, ordinality, outer, whole: false, schema })
    }
}

/// Whether an extension of a plan is one.
pub(crate) fn is_project_set(extension: &Extension) -> bool {
    extension.node.as_any().is::<ProjectSet>()
}

impl Hash for ProjectSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.input, &self.sets, &self.names, &self.ordinality, self.outer, self.whole).hash(state);
    }
}

impl PartialOrd for ProjectSet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|order| *order != Ordering::Equal || self == other)
    }
}

impl UserDefinedLogicalNodeCore for ProjectSet {
    fn name(&self) -> &str {
        "ProjectSet"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }
    fn expressions(&self) -> Vec<Expr> {
        self.sets.clone()
    }
    /// What is said of a column of the input is said of each of its repetitions.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.names.iter().chain(&self.ordinality).cloned().collect()
    }
    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        let schema = self.input.schema();
        let mut wanted: Vec<usize> = output.iter().copied().filter(|at| *at < schema.fields().len()).collect();
        for set in &self.sets {
            for column in set.column_refs() {
                wanted.push(schema.maybe_index_of_column(column)?);
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        Some(vec![wanted])
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let sets: Vec<String> = self.sets.iter().map(ToString::to_string).collect();
        write!(f, "ProjectSet: {}", sets.join(", "))
    }
    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
            return internal_err!("sets without an input");
        };
        let sets = exprs.into_iter().map(Expr::unalias).collect();
        let node = Self::new(input, sets, self.names.clone(), self.ordinality.clone(), self.outer)?;
        Ok(Self { whole: self.whole, ..node })
    }
}
