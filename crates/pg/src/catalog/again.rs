//! Rows of system tables that one execution of a statement reads again and again: in a subquery that runs for each row,
//! or in a recursion. (Drivers ask so for the types of a result.) They are made anew the second time, and kept from then
//! on until the execution ends; what is read once, as almost all is, takes no memory. Tables only: views show the moment.

use std::collections::HashMap;

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use parking_lot::Mutex;

use super::defs::SystemRelation;
use crate::wire::SqlError;

/// Rows of one table that take more are made each time.
const BYTES_MAX: usize = 32 << 20;

/// What an execution has read; in the configuration of its tasks.
#[derive(Debug, Default)]
pub struct ReadAgain(Mutex<HashMap<u32, Option<Kept>>>);

#[derive(Debug)]
struct Kept {
    rows: RecordBatch,
    _memory: MemoryReservation,
}

impl ReadAgain {
    /// The rows of a relation, made by `make` unless they are kept.
    fn rows(
        &self,
        relation: &SystemRelation,
        task: &TaskContext,
        make: impl FnOnce() -> Result<RecordBatch, SqlError>,
    ) -> Result<RecordBatch, SqlError> {
        let is_second = match self.0.lock().get(&relation.oid) {
            Some(Some(kept)) => return Ok(kept.rows.clone()),
            found => found.is_some(),
        };
        let rows = make()?;
        let kept = if is_second { keep(&rows, task) } else { None };
        self.0.lock().insert(relation.oid, kept);
        Ok(rows)
    }
}

/// Nothing if there is no memory for them.
fn keep(rows: &RecordBatch, task: &TaskContext) -> Option<Kept> {
    let bytes = rows.get_array_memory_size();
    let memory = MemoryConsumer::new("system table").register(task.memory_pool());
    (bytes <= BYTES_MAX && memory.try_grow(bytes).is_ok()).then(|| Kept { rows: rows.clone(), _memory: memory })
}

/// The rows of a relation for a task: those of its execution, if it keeps any.
pub(super) fn rows(
    relation: &SystemRelation,
    task: &TaskContext,
    make: impl FnOnce() -> Result<RecordBatch, SqlError>,
) -> Result<RecordBatch, SqlError> {
    match task.session_config().get_extension::<ReadAgain>() {
        Some(again) if relation.kind == 'r' => again.rows(relation, task, make),
        _ => make(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::execution::config::SessionConfig;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;

    use super::super::tests::TestContext;
    use super::super::{provider, system_relation};
    use super::*;

    fn task(bytes: usize) -> TaskContext {
        let pool = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().expect("a runtime");
        let config = SessionConfig::new().with_extension(Arc::new(ReadAgain::default()));
        TaskContext::new(
            None,
            String::new(),
            config,
            Default::default(),
            Default::default(),
            Default::default(),
            Default::default(),
            runtime,
        )
    }

    /// How often the rows are made in so many reads.
    fn made(relation: &str, task: &TaskContext, reads: usize) -> usize {
        let relation = system_relation("pg_catalog", relation).expect("a relation");
        let mut made = 0;
        for _ in 0..reads {
            let make = || {
                made += 1;
                Ok(RecordBatch::new_empty(Arc::clone(&relation.schema)))
            };
            rows(relation, task, make).expect("rows");
        }
        made
    }

    #[test]
    fn tables_are_made_twice_and_views_each_time() {
        let one = task(1 << 20);
        assert_eq!((made("pg_class", &one, 1), made("pg_class", &one, 9), made("pg_class", &one, 9)), (1, 1, 0));
        assert_eq!(made("pg_attribute", &one, 9), 2, "each by itself");
        assert_eq!(made("pg_settings", &one, 9), 9);
        assert_eq!(made("pg_class", &task(1 << 20), 9), 2, "another execution");
        assert_eq!(made("pg_class", &TaskContext::default(), 9), 9, "who keeps nothing");
    }

    #[test]
    fn what_is_kept_is_counted() {
        let relation = system_relation("pg_catalog", "pg_namespace").expect("a relation");
        let make = || provider::build(relation, &TestContext::default());
        let room = make().expect("rows").get_array_memory_size();
        for (bytes, kept) in [(room, room), (room - 1, 0)] {
            let task = task(bytes);
            for _ in 0..3 {
                rows(relation, &task, make).expect("rows");
            }
            assert_eq!(task.memory_pool().reserved(), kept);
        }
    }
}
