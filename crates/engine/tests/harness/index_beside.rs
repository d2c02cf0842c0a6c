//! Indexes that are made while clients write: a client adds one, or finishes one that has all rows; in between, rows get their
//! entries in transactions that no client has. None of them changes what anybody reads, but for an index that is there at last.

use std::sync::Arc;

use resurgam_engine::*;

use super::Found;
use super::ddl::forget;
use super::model::*;
use super::schedule::World;

/// So often one is added, or finished, among changes of definitions, ...
const CHANGES: u64 = 3;
/// ... and so often rows of one get entries, among steps.
const STEPS: u64 = 3;

impl World {
    /// Adds or finishes one; `None`: neither is to be done now.
    pub fn random_index_beside(
        &mut self,
        at: usize,
        name: &str,
        table: &Arc<Table>,
        model: &TableModel,
    ) -> Option<Found<()>> {
        // Without a draw, which would make other schedules of all seeds.
        if !self.turn.is_multiple_of(CHANGES) {
            return None;
        }
        let tx = self.clients[at].tx.clone();
        let mut model = model.clone();
        if let Some(index) = table.indexes.iter().find(|index| !index.valid) {
            let (_, build) = self.builds.iter().find(|(id, build)| *id == index.id && build.has_all_rows())?;
            let result = tx.finish_index(table, build);
            self.met.indexes_finished += u64::from(matches!(result, Ok(Attempt::Done(_))));
            return Some(self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model))));
        }
        self.serial += 1;
        let columns = if self.serial % 2 == 0 { vec![N] } else { vec![N, 1] };
        let index = IndexModel {
            name: format!("i{}", self.serial),
            orders: vec![ColumnOrder::ASCENDING; columns.len()],
            columns,
            unique: false,
            included: Vec::new(),
        };
        let spec = IndexSpec {
            name: index.name.clone(),
            columns: index.columns.clone(),
            orders: Vec::new(),
            unique: false,
            constraint: false,
            nulls_alike: false,
            deferral: Deferral::Never,
        };
        let result = tx.add_index(table, spec);
        model.indexes.push(index);
        Some(self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model))))
    }

    /// Gives some rows their entries, of one that is committed.
    pub fn step_of_indexes(&mut self) -> Found<()> {
        if !self.turn.is_multiple_of(STEPS) {
            return Ok(());
        }
        match self.fill_some() {
            Ok(()) => Ok(()),
            // What was done is rolled back: another one begins from the start.
            Err(error) => {
                self.builds.clear();
                self.judge_any(error, "making an index")
            }
        }
    }

    fn fill_some(&mut self) -> Result<()> {
        let tx = self.db.begin(Isolation::ReadCommitted);
        let tables = tx.tables()?;
        let made = |table: &Arc<Table>| Some((Arc::clone(table), table.indexes.iter().find(|index| !index.valid)?.id));
        let to_make: Vec<(Arc<Table>, u32)> = tables.iter().filter_map(made).collect();
        self.builds.retain(|(id, _)| to_make.iter().any(|(_, index)| index == id));
        let Some((table, index)) = to_make.get((self.turn / STEPS) as usize % to_make.len().max(1)) else {
            return tx.rollback();
        };
        let known = self.builds.iter().position(|(id, _)| id == index);
        let which = known.unwrap_or_else(|| {
            self.builds.push((*index, IndexBuild::begin(&self.db, table, *index)));
            self.builds.len() - 1
        });
        match tx.fill_some(&mut self.builds[which].1)? {
            Attempt::Done(_) => drop(tx.commit(Durability::Async)?),
            // It goes on when it is asked again.
            Attempt::Wait(_) => tx.rollback()?,
        }
        self.met.index_steps += 1;
        Ok(())
    }
}
