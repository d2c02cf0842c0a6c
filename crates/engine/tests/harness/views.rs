//! Views: run, predict, compare. Each reads the first column of one table, which is known by its id.

use std::sync::Arc;

use resurgam_engine::*;

use super::Found;
use super::ddl::forget;
use super::model::*;
use super::schedule::World;
use crate::broken;

/// Number of choices in [`World::random_view`].
pub const CHOICES: u64 = 5;

/// Names that views have.
const NAMES: [&str; 3] = ["v0", "v1", "v2"];

/// The engine's definition of a view of the model.
fn definition(model: &ViewModel, base: &str) -> View {
    let column = |(name, at): &(String, usize)| SeenColumn { name: name.clone(), at: *at, used: *at == 0 };
    View {
        sql: model.sql.clone(),
        columns: vec![ViewColumn { name: "k".into(), oid: 20, typmod: -1, default_sql: None }],
        relations: vec![ViewRelation {
            id: model.base,
            schema: "public".into(),
            name: base.into(),
            columns: model.columns.iter().map(column).collect(),
        }],
        check: CheckOption::Local,
    }
}

/// What the engine says a view is.
pub fn found(view: &Table) -> Option<ViewModel> {
    let view = view.view.as_ref()?;
    let relation = view.relations.first()?;
    let columns = relation.columns.iter().map(|column| (column.name.clone(), column.at)).collect();
    Some(ViewModel { base: relation.id, sql: view.sql.clone(), columns })
}

impl World {
    /// Change number `choice` of a view by client `at`, perhaps of one over `table`, which is called `name`.
    pub fn random_view(
        &mut self,
        at: usize,
        choice: u64,
        name: &str,
        table: &Arc<Table>,
        model: &TableModel,
    ) -> Found<()> {
        let state = self.clients[at].own.over(&self.model.committed);
        let Some(view_name) = self.rng.pick(&NAMES).map(|n| (*n).to_owned()) else { return Ok(()) };
        let tx = self.clients[at].tx.clone();
        self.serial += 1;
        let sql = format!("SELECT k FROM {name} -- {} {}", self.serial, "x".repeat((self.serial as usize * 61) % 3000));
        let columns = model.columns.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        let new = ViewModel { base: table.id, sql, columns };
        self.clients[at].wanted.insert(view_name.clone());
        let old = match tx.view_named("public", &view_name) {
            Ok(old) => old,
            Err(error) => return self.judge(at, error, "looking a view up"),
        };
        let known = state.views.get(&view_name);
        if old.as_deref().and_then(found).as_ref() != known.map(|known| &**known) {
            broken!("view {view_name} is {:?}, expected {known:?}", old.as_deref().and_then(found));
        }
        self.log(|| format!("client {at}: view {choice} {view_name} over {name}"));
        let Some(old) = old else {
            self.clients[at].locked.insert(name.to_owned());
            let result = tx.create_view("public", &view_name, definition(&new, name));
            return self.view_done(at, result.map(forget), vec![(view_name, Some(new))]);
        };
        match choice {
            0 | 1 => {
                let result = tx.drop_view(&old);
                self.view_done(at, result, vec![(view_name, None)])
            }
            2 => {
                let Some(to) = NAMES.iter().find(|to| !state.views.contains_key(**to)) else { return Ok(()) };
                let Some(old_model) = found(&old) else { broken!("a view that is none") };
                let result = tx.rename_view(&old, to);
                self.view_done(at, result.map(forget), vec![(view_name, None), ((*to).to_owned(), Some(old_model))])
            }
            _ => {
                self.clients[at].locked.insert(name.to_owned());
                let result = tx.replace_view(&old, definition(&new, name));
                self.view_done(at, result.map(forget), vec![(view_name, Some(new))])
            }
        }
    }

    fn view_done(
        &mut self,
        at: usize,
        result: Result<Attempt<()>>,
        changes: Vec<(String, Option<ViewModel>)>,
    ) -> Found<()> {
        match result {
            Ok(Attempt::Done(())) => {
                let client = &mut self.clients[at];
                client.changed_definitions = true;
                for (name, new) in changes {
                    client.own.views.insert(name, new.map(Arc::new));
                }
                self.met.views += 1;
                Ok(())
            }
            // It waits for who changes the table or has the name: with the transaction it is given up.
            Ok(Attempt::Wait(_)) => {
                self.clients[at].failed = true;
                Ok(())
            }
            Err(error) => self.judge(at, error, "a change of a view"),
        }
    }

    /// Whether a view that client `at` sees reads a table.
    pub fn is_viewed(&self, at: usize, table: u32) -> bool {
        self.clients[at].own.over(&self.model.committed).views.values().any(|view| view.base == table)
    }

    /// Client `at` has dropped a column of a table: views over it have forgotten it.
    pub fn column_dropped(&mut self, at: usize, table: u32, column: usize) {
        let state = self.clients[at].own.over(&self.model.committed);
        for (name, view) in state.views.iter().filter(|(_, view)| view.base == table) {
            let mut view = ViewModel::clone(view);
            view.columns.retain(|(_, at)| *at != column);
            view.columns.iter_mut().for_each(|(_, at)| *at -= usize::from(*at > column));
            self.clients[at].own.views.insert(name.clone(), Some(Arc::new(view)));
        }
    }
}
