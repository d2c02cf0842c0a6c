//! Changes of a definition that leave the rows as they are: names of columns, defaults, NOT NULL, CHECK
//! constraints and foreign keys. Beside the others in `ddl.rs`, which call these.

use std::collections::BTreeSet;
use std::sync::Arc;

use resurgam_engine::*;

use super::Found;
use super::ddl::forget;
use super::model::*;
use super::schedule::World;
use crate::broken;

/// Number of choices in [`World::random_constraint`].
pub const CHOICES: u64 = 10;

impl World {
    fn fresh_name(&mut self, begins: &str) -> String {
        self.serial += 1;
        format!("{begins}{}", self.serial)
    }

    /// A change that must be refused since a foreign key depends on what it takes away. It may have to
    /// wait first.
    pub fn depended_on(&mut self, at: usize, name: &str, result: Result<Attempt<()>>) -> Found<()> {
        match result {
            Err(error) if error.kind() == ErrorKind::DependentObjects => {
                self.clients[at].failed = true;
                Ok(())
            }
            Ok(Attempt::Done(())) => broken!("a key of {name} went although a foreign key refers to it"),
            result => self.ddl_done(at, name, result, |_| Ok(None)),
        }
    }

    /// Change number `choice` of the table `name` by client `at`; `model` is what it is now.
    pub fn random_constraint(
        &mut self,
        at: usize,
        choice: u64,
        name: &str,
        table: &Arc<Table>,
        mut model: TableModel,
    ) -> Found<()> {
        let column = self.rng.below(model.columns.len() as u64) as usize;
        let of_column = model.columns[column].0.clone();
        let change = match choice {
            0 | 1 => {
                let to = self.fresh_name("r");
                model.columns[column].0.clone_from(&to);
                if model.not_null.remove(&of_column) {
                    model.not_null.insert(to.clone());
                }
                if let Some(default) = model.defaults.remove(&of_column) {
                    model.defaults.insert(to.clone(), default);
                }
                for check in &mut model.checks {
                    if check.columns.remove(&of_column) {
                        check.columns.insert(to.clone());
                    }
                }
                TableChange::RenameColumn(column, to)
            }
            2 => {
                let default = (!model.defaults.contains_key(&of_column)).then(|| format!("{}", self.serial));
                match &default {
                    Some(sql) => model.defaults.insert(of_column, sql.clone()),
                    None => model.defaults.remove(&of_column),
                };
                TableChange::SetDefault(column, default)
            }
            3 | 4 => {
                if column == 0 && model.has_key {
                    return Ok(());
                }
                let not_null = !model.is_not_null(column);
                let has_nulls = model.rows.values().any(|row| row[column].is_null());
                let result = self.clients[at].tx.alter_table(table, TableChange::SetNotNull(column, not_null));
                match result {
                    Err(error) if error.kind() == ErrorKind::NotNullViolation => {
                        if !not_null || !has_nulls {
                            broken!("column {column} of {name} is said to hold NULLs, and does not: {error}");
                        }
                        self.clients[at].failed = true;
                        return Ok(());
                    }
                    Ok(Attempt::Done(_)) if not_null && has_nulls => {
                        broken!("column {column} of {name} is NOT NULL over NULLs")
                    }
                    _ => {}
                }
                if not_null {
                    model.not_null.insert(of_column);
                } else {
                    model.not_null.remove(&of_column);
                }
                return self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model)));
            }
            5 => {
                if model.checks.len() > 2 {
                    return Ok(());
                }
                let mut columns = BTreeSet::from([column, self.rng.below(model.columns.len() as u64) as usize]);
                if self.rng.one_in(4) {
                    columns.clear();
                }
                let check = CheckModel {
                    name: self.fresh_name("c"),
                    sql: format!("{}", self.serial),
                    columns: columns.iter().map(|at| model.columns[*at].0.clone()).collect(),
                    validated: self.rng.one_in(2),
                };
                model.checks.push(check.clone());
                TableChange::AddCheck(CheckSpec {
                    name: check.name,
                    sql: check.sql,
                    columns: columns.into_iter().collect(),
                    validated: check.validated,
                })
            }
            6 => {
                if model.checks.is_empty() {
                    return Ok(());
                }
                let which = self.rng.below(model.checks.len() as u64) as usize;
                let to = self.fresh_name("c");
                let check = &mut model.checks[which];
                let known = check.name.clone();
                match self.rng.below(4) {
                    0 => {
                        check.name.clone_from(&to);
                        TableChange::RenameCheck(known, to)
                    }
                    1 => {
                        check.validated = true;
                        TableChange::ValidateCheck(known)
                    }
                    2 => {
                        check.sql.clone_from(&to);
                        TableChange::RewordCheck(known, to)
                    }
                    _ => {
                        model.checks.remove(which);
                        TableChange::DropCheck(known)
                    }
                }
            }
            7 | 8 => return self.add_foreign(at, name, table, model),
            _ => {
                if model.foreign.is_empty() {
                    return Ok(());
                }
                let which = self.rng.below(model.foreign.len() as u64) as usize;
                let to = self.fresh_name("f");
                let foreign = &mut model.foreign[which];
                let known = foreign.name.clone();
                match self.rng.below(3) {
                    0 => {
                        foreign.name.clone_from(&to);
                        TableChange::RenameForeignKey(known, to)
                    }
                    1 => {
                        foreign.validated = true;
                        TableChange::ValidateForeignKey(known)
                    }
                    _ => {
                        model.foreign.remove(which);
                        let result = self.clients[at].tx.drop_foreign_key(table, &known);
                        return self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model)));
                    }
                }
            }
        };
        let result = self.clients[at].tx.alter_table(table, change);
        self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model)))
    }

    /// A foreign key to the table itself, by one of its keys: what the engine keeps of it is the
    /// definition.
    fn add_foreign(&mut self, at: usize, name: &str, table: &Arc<Table>, mut model: TableModel) -> Found<()> {
        let mut keys: Vec<(Option<String>, Vec<usize>)> =
            model.indexes.iter().filter(|i| i.unique).map(|i| (Some(i.name.clone()), i.columns.clone())).collect();
        keys.extend(model.has_key.then(|| (None, vec![0])));
        let Some((key, columns)) = self.rng.pick(&keys).cloned() else { return Ok(()) };
        if model.foreign.len() > 1 {
            return Ok(());
        }
        let foreign = ForeignModel {
            name: self.fresh_name("f"),
            key: key.clone(),
            columns: columns.clone(),
            validated: self.rng.one_in(2),
        };
        let index = key.and_then(|key| table.indexes.iter().find(|index| index.name == key)).map(|index| index.id);
        let spec = ForeignKey {
            id: 0,
            name: foreign.name.clone(),
            parent: 0,
            index,
            key: (0..columns.len()).collect(),
            columns,
            on_delete: ReferentialAction::NoAction,
            on_update: ReferentialAction::Cascade,
            match_full: false,
            deferrable: true,
            deferred: false,
            validated: foreign.validated,
        };
        let result = self.clients[at].tx.add_foreign_key(table, table, spec);
        model.foreign.push(foreign);
        self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model)))
    }
}
