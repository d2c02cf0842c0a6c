//! EXPLAIN: the tree of a statement, put together from what it runs by, and what ANALYZE has measured.
//!
//! ANALYZE runs what the statement runs. What is measured of a statement that runs directly is the whole of it: its nodes have
//! rows of their own, and the same time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::Statement;

use crate::dml::{Around, WritePlan};
use crate::exec::context::{Beside, StatementContext, task_context};
use crate::exec::direct::{DirectSelect, Touched};
use crate::exec::explain::document::Document;
use crate::exec::explain::node::{Actual, Estimate, Node, On, Value};
use crate::exec::explain::{DIRECT_IF_SHORT, Format, Look, Options, convert, cost, text};
use crate::exec::once::OnceDoes;
use crate::exec::wait::guarded;
use crate::pg::errors;
use crate::plan::planner::{Instance, QueryPlan};
use crate::plan::statement::{Kind, Prepared, Query};
use crate::session::Session;
use crate::wire::SqlError;

/// Who runs a statement that is not run by planned operators.
const DIRECT: &str = "Direct";

/// What EXPLAIN tells.
struct Told {
    plan: Node,
    /// What it runs by, if not by planned operators.
    execution: Option<&'static str>,
    planning: Duration,
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Session {
    /// The rows of EXPLAIN; `planned` is what planning took.
    ///
    /// # Errors
    /// Those of what the statement needs; with ANALYZE, the statement's.
    pub(crate) async fn explain(
        &mut self,
        inner: &Arc<Prepared>,
        values: &[ScalarValue],
        how: Options,
        planned: Duration,
    ) -> Result<Vec<String>, SqlError> {
        let mut planning = planned;
        let executed;
        let (inner, values) = match &inner.kind {
            Kind::Utility(statement) => {
                let Statement::Execute { name: Some(name), parameters, .. } = &**statement else {
                    return Err(SqlError::internal("EXPLAIN of nothing"));
                };
                let begun = Instant::now();
                executed = self.execute_named(name, parameters)?;
                planning += begun.elapsed();
                self.check_allowed(&executed.0)?;
                (&executed.0, executed.1.as_slice())
            }
            _ => (inner, values),
        };
        let mut locked = Vec::with_capacity(inner.locks.len());
        for lock in &inner.locks {
            locked.push(self.planned_node(lock.source(), values, &inner.text, how, &[], &mut planning).await?);
        }
        let begun = Instant::now();
        let mut told = match &inner.kind {
            Kind::Write(write) => self.explained_write(inner, write, values, how, &locked).await?,
            Kind::Query(query) => Box::pin(self.explained_query(inner, query, values, how, &locked)).await?,
            Kind::Call(_) if !how.analyze => {
                let estimate = Estimate { startup: 0.0, total: cost::ROW, rows: 1.0, width: 32 };
                let plan = Node { estimate: Some(estimate), ..Node::new("Result") };
                Told { plan, execution: None, planning: Duration::ZERO }
            }
            _ => return Err(SqlError::internal("EXPLAIN of nothing")),
        };
        let ran = begun.elapsed().saturating_sub(told.planning);
        planning += told.planning;
        let mut queries = Vec::with_capacity(inner.once.plans.len());
        for once in &inner.once.plans {
            let of = match &once.does {
                OnceDoes::Read(query) => query,
                OnceDoes::Write(write) => &write.stream,
            };
            let mut node = self.planned_node(of, values, &inner.text, how, &locked, &mut planning).await?;
            if let OnceDoes::Write(write) = &once.does {
                node = modifying(write, node);
            }
            let (relationship, subplan) = (Some("InitPlan"), Some(format!("CTE {}", once.name)));
            queries.push(Node { relationship, subplan, ..node });
        }
        told.plan.inputs.splice(0..0, queries);
        let execution = how.analyze.then_some(ran);
        Ok(written(&told, how, planning, execution))
    }

    /// A plan that is not run, as a node.
    async fn planned_node(
        &mut self,
        plan: &QueryPlan,
        values: &[ScalarValue],
        text: &str,
        how: Options,
        locked: &[Node],
        planning: &mut Duration,
    ) -> Result<Node, SqlError> {
        let state = self.state()?;
        let begun = Instant::now();
        let instance = plan.instance(&state, values).await.map_err(|error| errors::from_datafusion(error, text))?;
        *planning += begun.elapsed();
        let node = convert::node(&instance, how, &Look::new(&state), locked);
        plan.give_back(instance);
        Ok(node)
    }

    async fn explained_write(
        &mut self,
        prepared: &Prepared,
        write: &WritePlan,
        values: &[ScalarValue],
        how: Options,
        locked: &[Node],
    ) -> Result<Told, SqlError> {
        let mut planning = Duration::ZERO;
        let state = self.state()?;
        if !how.analyze {
            return Ok(match &write.tree {
                Some(tree) => {
                    let execution = Some(if tree.may_be_long() { DIRECT_IF_SHORT } else { DIRECT });
                    Told { plan: modifying(write, tree.node(&Look::new(&state))), execution, planning }
                }
                None => {
                    let rows =
                        self.planned_node(&write.stream, values, &prepared.text, how, locked, &mut planning).await?;
                    Told { plan: modifying(write, rows), execution: None, planning }
                }
            });
        }
        let begun = Instant::now();
        let modified = self.modify(prepared, write, values, &[], Some(how)).await?;
        let time = how.timing.then(|| milliseconds(begun.elapsed())).map(|time| (time, time));
        let (rows, execution) = match (modified.plan, &write.tree) {
            (Some(rows), _) => (rows, None),
            (None, Some(tree)) => {
                let actual = Actual { time, rows: modified.rows as f64, loops: 1 };
                (Node { actual: Some(actual), ..tree.node(&Look::new(&state)) }, Some(DIRECT))
            }
            (None, None) => return Err(SqlError::internal("a statement that writes without its plan")),
        };
        let mut plan = modifying(write, rows);
        plan.actual = Some(Actual { time, rows: modified.returned.len() as f64, loops: 1 });
        plan.pair("Rows Written", Value::Count(modified.rows));
        Ok(Told { plan, execution, planning })
    }

    async fn explained_query(
        &mut self,
        prepared: &Prepared,
        query: &Query,
        values: &[ScalarValue],
        how: Options,
        locked: &[Node],
    ) -> Result<Told, SqlError> {
        let mut planning = Duration::ZERO;
        let text = &prepared.text;
        let begun = Instant::now();
        let time = |begun: Instant| how.timing.then(|| milliseconds(begun.elapsed()));
        let leaves_out = how.analyze && query.plan.leaves_out(values);
        if let Some(lock) = query.direct_lock.as_ref().filter(|_| !leaves_out) {
            let given = match how.analyze {
                true => self.lock_directly(lock, values, &[]).await?.map(|chunk| chunk.len()),
                false => Some(0),
            };
            if let Some(rows) = given {
                let touched = Touched { read: rows, kept: rows };
                let done = how.analyze.then(|| (touched, rows, time(begun)));
                let state = self.state()?;
                let row = lock.select.node(how, &Look::new(&state), done);
                let (estimate, actual) = (row.estimate, row.actual);
                let plan = Node { estimate, actual, ..Node::over("LockRows", [row]) };
                return Ok(Told { plan, execution: Some(DIRECT), planning });
            }
        }
        let direct = query.direct.as_ref();
        let with_writes = prepared.once.any_writes();
        if !how.analyze {
            if let Some(select) = direct.filter(|_| !with_writes) {
                let state = self.state()?;
                let execution = Some(if select.may_be_long() { DIRECT_IF_SHORT } else { DIRECT });
                return Ok(Told { plan: select.node(how, &Look::new(&state), None), execution, planning });
            }
            let plan = self.planned_node(&query.plan, values, text, how, locked, &mut planning).await?;
            return Ok(Told { plan, execution: None, planning });
        }
        if with_writes {
            let gathered = self.gather_and_modify(prepared, query, values, Some(how)).await?;
            let plan = gathered.plan.ok_or_else(|| SqlError::internal("a statement without its plan"))?;
            return Ok(Told { plan, execution: None, planning });
        }
        let beside = self.beside(Around::of(prepared), values, text).await?;
        let mut touched = Touched::default();
        if let Some(select) = direct.filter(|_| !leaves_out)
            && let Some((chunk, _)) = self.select_directly(select, values, &[], 0, &mut touched)?
        {
            let state = self.state()?;
            let plan = DirectSelect::node(select, how, &Look::new(&state), Some((touched, chunk.len(), time(begun))));
            return Ok(Told { plan, execution: Some(DIRECT), planning });
        }
        let plan = self.analyzed(prepared, &query.plan, values, beside, how, locked, &mut planning).await?;
        Ok(Told { plan, execution: None, planning })
    }

    /// Runs a query by its plan, and shows that with what was measured.
    async fn analyzed(
        &mut self,
        prepared: &Prepared,
        plan: &QueryPlan,
        values: &[ScalarValue],
        beside: Beside,
        how: Options,
        locked: &[Node],
        planning: &mut Duration,
    ) -> Result<Node, SqlError> {
        let failed = |error| errors::from_datafusion(error, &prepared.text);
        let state = self.state()?;
        let (stop, deadline) = (Arc::clone(&self.shared.stop), self.deadline());
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(resurgam_engine::StatementKind::Read)?;
        let begun = Instant::now();
        let mut instance: Instance = plan.instance(&state, values).await.map_err(failed)?;
        *planning += begun.elapsed();
        instance.measure(how.timing).map_err(failed)?;
        let once = beside.once();
        let context = StatementContext { view, stop: Arc::clone(&stop), target: None, locked: beside.locked, once };
        let mut stream = instance.start(task_context(&state, Arc::new(context))).map_err(failed)?;
        let work = async {
            while let Some(batch) = futures::StreamExt::next(&mut stream).await {
                batch.map_err(failed)?;
                stop.check()?;
            }
            Ok(())
        };
        guarded(&stop, deadline, work).await?;
        drop(stream);
        Ok(convert::node(&instance, how, &Look::new(&state), locked))
    }
}

/// A statement that writes these rows.
fn modifying(write: &WritePlan, rows: Node) -> Node {
    let below = rows.estimate;
    let name = match write.op.name() {
        "INSERT" => "Insert",
        "UPDATE" => "Update",
        "DELETE" => "Delete",
        _ => "Merge",
    };
    let mut node = Node::over("ModifyTable", [rows]).named(name);
    node.operation = Some(name);
    let table = &write.table;
    let (schema, alias) = (Some(table.schema.clone()), table.name.clone());
    node.on = Some(On { key: "Relation Name", name: table.name.clone(), schema, alias });
    let is_silent = write.returning.is_none();
    node.estimate = below.map(|below| Estimate {
        total: below.total + below.rows * cost::ROW,
        rows: if is_silent { 0.0 } else { below.rows },
        width: if is_silent { 0 } else { below.width },
        ..below
    });
    if let Some(conflict) = &write.conflict {
        let what = if conflict.update.is_some() { "UPDATE" } else { "NOTHING" };
        node.pair("Conflict Resolution", Value::Text(what.to_owned()));
        let name = |key: &Option<usize>| match key.and_then(|at| table.indexes.get(at)) {
            Some(index) => index.name.clone(),
            None => table.primary_key_name.clone(),
        };
        // DO NOTHING may be of all keys, or of those that it names.
        if conflict.update.is_some() {
            node.list("Conflict Arbiter Indexes", conflict.keys.iter().map(name).collect());
        }
    }
    node
}

/// The rows of the answer.
fn written(told: &Told, how: Options, planning: Duration, execution: Option<Duration>) -> Vec<String> {
    let shown = how.shown();
    let planning = how.summary.then(|| milliseconds(planning));
    let execution = execution.filter(|_| how.summary).map(milliseconds);
    if how.format == Format::Text {
        let mut lines = text::lines(&told.plan, shown);
        lines.extend(told.execution.map(|by| format!("Execution: {by}")));
        lines.extend(planning.map(|time| format!("Planning Time: {time:.3} ms")));
        lines.extend(execution.map(|time| format!("Execution Time: {time:.3} ms")));
        // A value may break a line: each is a row.
        return lines.iter().flat_map(|line| line.split('\n')).map(|line| line.replace('\0', "$")).collect();
    }
    let mut pairs = vec![("Plan", told.plan.document(shown))];
    pairs.extend(told.execution.map(|by| ("Execution", Document::Text(by.to_owned()))));
    pairs.extend(planning.map(|time| ("Planning Time", Document::number(time, 3))));
    if how.analyze {
        pairs.push(("Triggers", Document::Groups("Trigger", Vec::new())));
    }
    pairs.extend(execution.map(|time| ("Execution Time", Document::number(time, 3))));
    let answer = Document::Group(pairs);
    let answer = match how.format {
        Format::Json => answer.json(),
        Format::Xml => answer.xml(),
        Format::Yaml | Format::Text => answer.yaml(),
    };
    vec![answer.replace('\0', "$")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::explain::node::Property;

    #[test]
    fn what_runs_directly_and_how_long_it_took_stand_behind_the_tree() {
        let mut plan = Node::new("Result");
        plan.properties.push(Property::Pair("Filter", Value::Text("(a = 'b\nc'::text)".to_owned())));
        let told = Told { plan, execution: Some(DIRECT), planning: Duration::ZERO };
        let mut how =
            Options { analyze: true, verbose: false, costs: true, timing: true, summary: true, format: Format::Text };
        let (planning, ran) = (Duration::from_micros(1500), Some(Duration::from_micros(20)));
        let wanted = [
            "Result",
            "  Filter: (a = 'b",
            "c'::text)",
            "Execution: Direct",
            "Planning Time: 1.500 ms",
            "Execution Time: 0.020 ms",
        ];
        assert_eq!(written(&told, how, planning, ran), wanted);
        how.format = Format::Json;
        let json = written(&told, how, planning, ran);
        let wanted = r#"[
  {
    "Plan": {
      "Node Type": "Result",
      "Parallel Aware": false,
      "Async Capable": false,
      "Filter": "(a = 'b\nc'::text)"
    },
    "Execution": "Direct",
    "Planning Time": 1.500,
    "Triggers": [
    ],
    "Execution Time": 0.020
  }
]"#;
        assert_eq!(json, [wanted]);
        how.summary = false;
        assert!(!written(&told, how, planning, ran)[0].contains("Time"));
    }
}
