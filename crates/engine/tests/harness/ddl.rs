//! Changes of definitions: run, predict, compare. Only by READ COMMITTED transactions.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_engine::*;

use super::Found;
use super::alter;
use super::constrain;
use super::model::*;
use super::objects;
use super::schedule::World;
use super::views;
use crate::broken;

/// Names that tables have.
const NAMES: [&str; 5] = ["t0", "t1", "t2", "t3", "t4"];
const TABLES_MAX: usize = 4;

fn columns() -> Vec<(String, ColumnType)> {
    [("cnt", ColumnType::Int8), ("u", ColumnType::Text), ("n", ColumnType::Int4), ("pay", ColumnType::Text)]
        .map(|(n, t)| (n.to_owned(), t))
        .into()
}

impl World {
    fn index_name(&mut self) -> String {
        self.serial += 1;
        format!("i{}", self.serial)
    }

    fn random_index(&mut self) -> IndexModel {
        let (columns, unique) = match self.rng.below(4) {
            0 | 1 => (vec![U], true),
            2 => (vec![N], false),
            _ => (vec![N, 1], false),
        };
        let order =
            |world: &mut Self| ColumnOrder { descending: world.rng.one_in(2), nulls_first: world.rng.one_in(2) };
        let orders =
            columns.iter().map(|_| if self.rng.one_in(2) { ColumnOrder::ASCENDING } else { order(self) }).collect();
        IndexModel { name: self.index_name(), columns, orders, unique, included: Vec::new() }
    }

    /// A random table, without rows.
    pub fn random_table(&mut self) -> (TableModel, Option<String>) {
        let kind = if self.rng.one_in(3) { KeyKind::Text } else { KeyKind::Int };
        let has_key = !self.rng.one_in(3);
        let mut all = vec![("k".to_owned(), if kind == KeyKind::Int { ColumnType::Int8 } else { ColumnType::Text })];
        all.extend(columns());
        let mut indexes = Vec::new();
        for _ in 0..self.rng.below(4) {
            let index = self.random_index();
            indexes.push(index);
        }
        self.serial += 1;
        let key_name = has_key.then(|| format!("pk{}", self.serial));
        let table = TableModel {
            kind,
            has_key,
            columns: all,
            indexes,
            not_null: has_key.then(|| "k".to_owned()).into_iter().collect(),
            defaults: BTreeMap::new(),
            checks: Vec::new(),
            foreign: Vec::new(),
            rows: BTreeMap::new(),
            generation: self.next_generation(),
        };
        (table, key_name)
    }

    fn next_generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    /// One random change of a definition by client `at`.
    pub fn random_ddl(&mut self, at: usize) -> Found<()> {
        if self.clients[at].isolation != Isolation::ReadCommitted {
            return Ok(());
        }
        self.clients[at].bulk = None;
        if let Err(error) = self.clients[at].tx.statement(StatementKind::PointWrite) {
            return self.judge(at, error, "starting a statement");
        }
        let state = self.clients[at].own.over(&self.model.committed);
        let names: Vec<String> = state.tables.keys().cloned().collect();
        if names.len() < 2 || (names.len() < TABLES_MAX && self.rng.one_in(5)) {
            return self.create_table(at);
        }
        let Some(name) = self.rng.pick(&names).cloned() else { return Ok(()) };
        self.clients[at].wanted.insert(name.clone());
        let table = match self.clients[at].tx.table("public", &name) {
            Ok(Some(table)) => table,
            Ok(None) => broken!("table {name} is not found"),
            Err(error) => return self.judge(at, error, "looking a table up"),
        };
        let mut model = TableModel::clone(&state.tables[&name]);
        let tx = self.clients[at].tx.clone();
        if self.rng.one_in(8) {
            let choice = self.rng.below(objects::CHOICES);
            return self.random_object(at, choice);
        }
        if let Some(done) = self.random_index_beside(at, &name, &table, &model) {
            return done;
        }
        let choice = self.rng.below(16 + alter::CHOICES + constrain::CHOICES + views::CHOICES);
        self.log(|| format!("client {at}: ddl {choice} on {name}"));
        match choice {
            0 | 1 => {
                let result = tx.drop_table(&table);
                if self.is_viewed(at, table.id) {
                    return self.depended_on(at, &name, result);
                }
                self.ddl_done(at, &name, result, |_| Ok(None))
            }
            2..=4 => {
                let result = tx.truncate(&table);
                model.rows.clear();
                self.ddl_done(at, &name, result, |_| Ok(Some(model)))
            }
            5..=7 => {
                let index = self.random_index();
                let spec = IndexSpec {
                    name: index.name.clone(),
                    columns: index.columns.clone(),
                    orders: index.orders.clone(),
                    unique: index.unique,
                    constraint: false,
                    nulls_alike: false,
                    deferral: Deferral::Never,
                };
                let duplicate = index.unique && {
                    let mut values: Vec<_> = model.rows.values().map(|r| &r[U]).filter(|u| !u.is_null()).collect();
                    let count = values.len();
                    values.sort_by(|a, b| a.as_ref().key_cmp(&b.as_ref()).unwrap_or(std::cmp::Ordering::Equal));
                    values.dedup();
                    values.len() < count
                };
                let result = tx.create_index(&table, spec);
                match result {
                    Err(error) if error.kind() == ErrorKind::UniqueViolation => {
                        if !duplicate {
                            broken!("unique index on {name} finds duplicates where there are none: {error}");
                        }
                        self.clients[at].failed = true;
                        Ok(())
                    }
                    Ok(Attempt::Done(_)) if duplicate => broken!("unique index on {name} was made over duplicates"),
                    result => {
                        model.indexes.push(index);
                        self.ddl_done(at, &name, result.map(forget), |_| Ok(Some(model)))
                    }
                }
            }
            8 | 9 => {
                let Some(mut index) = self.rng.pick(&model.indexes).cloned() else { return Ok(()) };
                // One that a foreign key refers to, if there is one: it must stay.
                if let Some(referenced) = model.indexes.iter().find(|i| model.is_referenced(Some(&i.name)))
                    && self.rng.one_in(2)
                {
                    index = referenced.clone();
                }
                let result = tx.drop_index(&table, &index.name);
                if model.is_referenced(Some(&index.name)) {
                    return self.depended_on(at, &name, result.map(forget));
                }
                model.indexes.retain(|i| *i != index);
                self.ddl_done(at, &name, result.map(forget), |_| Ok(Some(model)))
            }
            10 | 11 => {
                if model.columns.len() > FIXED_COLUMNS + 2 {
                    return Ok(());
                }
                self.serial += 1;
                let column = format!("x{}", self.serial);
                let ty = if self.rng.one_in(2) { ColumnType::Int4 } else { ColumnType::Text };
                let spec = ColumnSpec { name: column.clone(), ty, nullable: true, default_sql: None };
                let result = tx.alter_table(&table, TableChange::AddColumn(spec));
                model.columns.push((column, ty));
                for row in model.rows.values_mut() {
                    Arc::make_mut(row).push(Datum::Null);
                }
                self.ddl_done(at, &name, result.map(forget), |_| Ok(Some(model)))
            }
            12 => {
                if model.columns.len() <= FIXED_COLUMNS {
                    return Ok(());
                }
                let column = self.rng.range(FIXED_COLUMNS as u64, model.columns.len() as u64) as usize;
                let result = tx.alter_table(&table, TableChange::DropColumn(column));
                if matches!(result, Ok(Attempt::Done(_))) {
                    self.column_dropped(at, table.id, column);
                }
                // Indexes that include it go with it, unless a foreign key needs one.
                let includes = |index: &IndexModel| index.included.contains(&column);
                if model.indexes.iter().any(|index| includes(index) && model.is_referenced(Some(&index.name))) {
                    return self.depended_on(at, &name, result.map(forget));
                }
                model.indexes.retain(|index| !includes(index));
                let included = model.indexes.iter_mut().flat_map(|index| &mut index.included);
                included.for_each(|at| *at -= usize::from(*at > column));
                let (dropped, _) = model.columns.remove(column);
                model.not_null.remove(&dropped);
                model.defaults.remove(&dropped);
                model.checks.retain(|check| !check.columns.contains(&dropped));
                for row in model.rows.values_mut() {
                    Arc::make_mut(row).remove(column);
                }
                self.ddl_done(at, &name, result.map(forget), |_| Ok(Some(model)))
            }
            13 => {
                if model.has_key {
                    return Ok(());
                }
                self.serial += 1;
                let change = TableChange::AddPrimaryKey { name: format!("pk{}", self.serial), columns: vec![0] };
                let result = tx.alter_table(&table, change);
                model.has_key = true;
                model.not_null.insert(model.columns[0].0.clone());
                self.ddl_done(at, &name, result.map(forget), |_| Ok(Some(model)))
            }
            14 => {
                let Some(to) = self.rng.pick(&NAMES).map(|n| (*n).to_owned()) else { return Ok(()) };
                if to == name {
                    return Ok(());
                }
                self.clients[at].wanted.insert(to.clone());
                let result = tx.alter_table(&table, TableChange::RenameTable(to.clone()));
                match result {
                    Err(error) if error.kind() == ErrorKind::DuplicateTable => {
                        if !state.tables.contains_key(&to) {
                            broken!("name {to} is said to be taken, and is not");
                        }
                        self.clients[at].failed = true;
                        Ok(())
                    }
                    Ok(Attempt::Done(_)) if state.tables.contains_key(&to) => broken!("name {to} was given twice"),
                    result => {
                        let done = matches!(result, Ok(Attempt::Done(_)));
                        self.ddl_done(at, &name, result.map(forget), |_| Ok(None))?;
                        if done {
                            model.generation = self.next_generation();
                            self.clients[at].own.tables.insert(to, Some(Arc::new(model)));
                        }
                        Ok(())
                    }
                }
            }
            15 => self.create_table(at),
            _ if choice < 16 + alter::CHOICES => self.random_alter(at, choice - 16, &name, &table, model),
            _ if choice < 16 + alter::CHOICES + constrain::CHOICES => {
                self.random_constraint(at, choice - 16 - alter::CHOICES, &name, &table, model)
            }
            _ => self.random_view(at, choice - 16 - alter::CHOICES - constrain::CHOICES, &name, &table, &model),
        }
    }

    fn create_table(&mut self, at: usize) -> Found<()> {
        let Some(name) = self.rng.pick(&NAMES).map(|n| (*n).to_owned()) else { return Ok(()) };
        let (model, key_name) = self.random_table();
        let spec = TableSpec {
            schema: "public".into(),
            name: name.clone(),
            columns: model
                .columns
                .iter()
                .map(|(n, t)| ColumnSpec { name: n.clone(), ty: *t, nullable: true, default_sql: None })
                .collect(),
            primary_key: key_name.map(|n| (n, vec![0])),
            indexes: model
                .indexes
                .iter()
                .map(|i| IndexSpec {
                    name: i.name.clone(),
                    columns: i.columns.clone(),
                    orders: i.orders.clone(),
                    unique: i.unique,
                    constraint: false,
                    nulls_alike: false,
                    deferral: Deferral::Never,
                })
                .collect(),
        };
        self.log(|| format!("client {at}: create {name}"));
        let taken = self.clients[at].own.over(&self.model.committed).tables.contains_key(&name);
        self.clients[at].wanted.insert(name.clone());
        let result = self.clients[at].tx.create_table(spec);
        match result {
            Err(error) if error.kind() == ErrorKind::DuplicateTable => {
                if !taken {
                    broken!("table {name} is said to exist, and does not: {error}");
                }
                self.clients[at].failed = true;
                Ok(())
            }
            Ok(Attempt::Done(_)) if taken => broken!("table {name} was created twice"),
            result => self.ddl_done(at, &name, result.map(forget), |_| Ok(Some(model))),
        }
    }

    /// What follows any change of a definition. `new` is the table from now on.
    pub fn ddl_done(
        &mut self,
        at: usize,
        name: &str,
        result: Result<Attempt<()>>,
        new: impl FnOnce(&Self) -> Found<Option<TableModel>>,
    ) -> Found<()> {
        match result {
            Ok(Attempt::Done(())) => {
                let held = self.clients.iter().enumerate().any(|(i, c)| {
                    let defines = |own: &Option<_>| own.is_some() || self.model.committed.tables.contains_key(name);
                    let rows = c.own.rows.keys().any(|(t, _)| t == name);
                    // Of one that it made and dropped itself nothing is left.
                    i != at && c.own.tables.get(name).map_or(rows, defines)
                });
                if held {
                    broken!("a change of {name} did not wait for the transaction that writes to it");
                }
                let new = new(self)?;
                let generation = self.next_generation();
                let client = &mut self.clients[at];
                client.changed_definitions = true;
                client.own.rows.retain(|(t, _), _| t != name);
                match new {
                    // Made and dropped again: it was never there.
                    None if !self.model.committed.tables.contains_key(name) => {
                        client.own.tables.remove(name);
                    }
                    new => {
                        let new = new.map(|t| Arc::new(TableModel { generation, ..t }));
                        client.own.tables.insert(name.to_owned(), new);
                    }
                }
                Ok(())
            }
            Ok(Attempt::Wait(wait)) => {
                let someone = self
                    .clients
                    .iter()
                    .enumerate()
                    .any(|(i, c)| i != at && (c.locked.contains(name) || !c.wanted.is_empty()));
                if !someone && !self.undo_may_hold(at, wait.holder()) {
                    broken!("a change of {name} waits for nobody's transaction {}", wait.holder());
                }
                // The half-done change is given up with the transaction.
                self.clients[at].failed = true;
                Ok(())
            }
            Err(error) => self.judge(at, error, "a change of a definition"),
        }
    }
}

pub fn forget<T>(attempt: Attempt<T>) -> Attempt<()> {
    match attempt {
        Attempt::Done(_) => Attempt::Done(()),
        Attempt::Wait(wait) => Attempt::Wait(wait),
    }
}
