//! What EXPLAIN looks up of tables that were planned without their sizes: statements that go by a key never ask.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use resurgam_engine::Table;

use crate::exec::estimate::TableEstimate;
use crate::exec::estimate::table::Asked;

/// See the module's head.
pub(crate) struct Look<'a> {
    state: &'a SessionState,
    found: RefCell<Vec<Arc<TableEstimate>>>,
}

impl<'a> Look<'a> {
    pub(crate) fn new(state: &'a SessionState) -> Self {
        Self { state, found: RefCell::default() }
    }

    /// What is known of a table's rows now.
    pub(crate) fn estimate(&self, table: &Arc<Table>) -> Option<Arc<TableEstimate>> {
        if let Some(known) = self.found.borrow().iter().find(|known| known.table.id == table.id) {
            return Some(Arc::clone(known));
        }
        let asked = self.state.config().get_extension::<Asked>()?;
        let records = asked.0.row_estimate(table)?;
        let found = TableEstimate::new(Arc::clone(table), records, asked.0.newest_statistics(table));
        let found = Arc::new(found);
        self.found.borrow_mut().push(Arc::clone(&found));
        Some(found)
    }
}
