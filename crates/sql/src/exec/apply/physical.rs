//! Physical plans of subqueries.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;

use super::function::{SubPlan, called, has_calls, map_calls, walk};
use super::outer::{OuterCell, to_readers};
use super::run::{Current, Ready};
use crate::exec::direct::DirectValue;
use crate::exec::measured::Measured;

/// The subqueries of one physical plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    current: Arc<Current>,
    /// Those within others, too.
    all: Vec<Arc<Ready>>,
}

impl Run {
    /// Before the plan is started.
    pub(crate) fn begin(&self, task: &Arc<TaskContext>) {
        if !self.all.is_empty() {
            self.current.begin(task);
        }
    }

    /// After it has ended: nothing of it is kept.
    pub(crate) fn end(&self) {
        if !self.all.is_empty() {
            self.current.end();
            self.all.iter().for_each(|ready| ready.release());
        }
    }

    /// Subqueries are run by their plans from here on, however few rows they are about.
    pub(crate) fn by_plans(&self) {
        self.current.by_plans();
    }

    /// For EXPLAIN.
    pub(crate) fn shown(&self) -> Vec<ShownSubquery> {
        let of = |ready: &Arc<Ready>| ShownSubquery { id: ready.id(), plan: ready.plan(), direct: ready.directly() };
        self.all.iter().map(of).collect()
    }

    /// Measures them from here on.
    ///
    /// # Errors
    /// See [`crate::exec::measured`].
    pub(crate) fn measure(&self, timed: bool) -> Result<()> {
        self.all.iter().try_for_each(|ready| ready.measure(timed))
    }
}

/// What EXPLAIN shows of a subquery.
pub(crate) struct ShownSubquery {
    pub id: usize,
    pub plan: Arc<dyn ExecutionPlan>,
    /// What was run without the plan, if that may be.
    pub direct: Option<Measured>,
}

/// What binds parameters in a plan.
pub(crate) type Bind<'a> = &'a (dyn Fn(LogicalPlan) -> Result<LogicalPlan> + Sync);

/// `plan` with physical plans for its subqueries. `bind` is applied to each subquery's plan.
pub(crate) async fn physical(plan: LogicalPlan, state: &SessionState, bind: Bind<'_>) -> Result<(LogicalPlan, Run)> {
    let mut run = Run::default();
    let plan = within(plan, state, bind, &mut run).await?;
    Ok((plan, run))
}

fn within<'a>(
    plan: LogicalPlan,
    state: &'a SessionState,
    bind: Bind<'a>,
    run: &'a mut Run,
) -> BoxFuture<'a, Result<LogicalPlan>> {
    Box::pin(async move {
        if !has_calls(&plan) {
            return Ok(plan);
        }
        let mut made = HashMap::new();
        for sub in subqueries(&plan)? {
            let cell = Arc::<OuterCell>::default();
            let inner = bind(to_readers(sub.plan.clone(), sub.id, &cell)?)?;
            let inner = within(inner, state, bind, &mut *run).await?;
            let plan = state.query_planner().create_physical_plan(&inner, state).await?;
            let volatile = is_volatile(&sub.plan);
            // What is begun without the plan may have to be done again by it.
            let direct = if volatile { None } else { DirectValue::new(state, &inner) };
            let ready = Ready::new(&sub, plan, cell, Arc::clone(&run.current), volatile, direct)?;
            let ready = Arc::new(ready);
            run.all.push(Arc::clone(&ready));
            let sub = SubPlan { ready: Some(ready), ..sub.with_plan(sub.plan.clone()) };
            made.insert(sub.id, sub.function());
        }
        map_calls(plan, &mut |sub| match made.get(&sub.id) {
            Some(function) => Ok(Arc::clone(function)),
            None => internal_err!("a subquery that was not there"),
        })
    })
}

/// Those that are called in the plan itself, each once.
fn subqueries(plan: &LogicalPlan) -> Result<Vec<Arc<SubPlan>>> {
    let mut found: Vec<Arc<SubPlan>> = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Some(sub) = called(expr)
                    && !found.iter().any(|known| known.id == sub.id)
                {
                    found.push(Arc::clone(sub));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Whether a run may have another value than the last one for the same outer values.
fn is_volatile(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // The closures return no error.
    let _ = walk(plan, &mut |node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                found |= called(expr).is_none()
                    && matches!(expr, Expr::ScalarFunction(call) if call.name() != "$"
                        && call.func.signature().volatility == Volatility::Volatile);
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    });
    found
}
