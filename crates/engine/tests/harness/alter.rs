//! Changes of definitions that write rows anew, keep a value for rows that lack a column, or
//! are cut off: run, predict, compare. Beside the others in `ddl.rs`, which call these.

use std::sync::Arc;

use resurgam_engine::*;

use super::Found;
use super::ddl::forget;
use super::model::*;
use super::schedule::World;
use crate::broken;

/// Number of choices in [`World::random_alter`].
pub const CHOICES: u64 = 11;

/// An integer in a column that is int4 or int8.
pub fn integer(ty: ColumnType, value: i64) -> Datum {
    if ty == ColumnType::Int8 { Datum::Int8(value) } else { Datum::Int4(value as i32) }
}

/// Whether a row is one of the table's columns: types of integers change.
pub fn fits(row: &Row, table: &TableModel) -> bool {
    row.len() == table.columns.len()
        && row.iter().zip(&table.columns).all(|(datum, (_, ty))| match datum {
            Datum::Int4(_) => *ty == ColumnType::Int4,
            Datum::Int8(_) => *ty == ColumnType::Int8,
            Datum::Text(_) => *ty == ColumnType::Text,
            _ => true,
        })
}

fn retyped(row: &mut Row, column: usize, ty: ColumnType) {
    row[column] = match row[column] {
        Datum::Int4(v) => integer(ty, v.into()),
        Datum::Int8(v) => integer(ty, v),
        _ => Datum::Null,
    };
}

/// Rewrites `table` with another type for some columns; gives up after `rows_max` rows.
fn rewrite(
    tx: &Transaction,
    table: &Arc<Table>,
    types: &[(usize, ColumnType)],
    rows_max: usize,
) -> Result<Attempt<Option<Arc<Table>>>> {
    let mut rewrite = match tx.rewrite_table(table, types, &[])? {
        Attempt::Done(rewrite) => rewrite,
        Attempt::Wait(wait) => return Ok(Attempt::Wait(wait)),
    };
    let mut batch = RowBatch::default();
    let mut done = 0;
    while rewrite.read(&mut batch)? {
        for i in 0..batch.len() {
            if done >= rows_max {
                return Ok(Attempt::Done(None));
            }
            done += 1;
            let raw = batch.row(i);
            let old = (0..table.columns.len()).map(|c| table.column(raw, c)).collect::<Result<Vec<_>>>()?;
            let mut new = old.clone();
            for (at, ty) in types {
                new[*at] = match (old[*at], ty) {
                    (DatumRef::Int4(v), ColumnType::Int8) => DatumRef::Int8(v.into()),
                    (DatumRef::Int8(v), ColumnType::Int4) => DatumRef::Int4(v as i32),
                    (datum, _) => datum,
                };
            }
            rewrite.put(raw, &new)?;
        }
    }
    rewrite.finish().map(|table| Attempt::Done(Some(table)))
}

impl World {
    /// Change number `choice` of the table `name` by client `at`; `model` is what it is now.
    pub fn random_alter(
        &mut self,
        at: usize,
        choice: u64,
        name: &str,
        table: &Arc<Table>,
        mut model: TableModel,
    ) -> Found<()> {
        let tx = self.clients[at].tx.clone();
        match choice {
            // The type of an integer column, there and back.
            0..=2 => {
                let mut columns = vec![N];
                let added = FIXED_COLUMNS..model.columns.len();
                columns.extend(added.filter(|at| model.columns[*at].1 != ColumnType::Text));
                let Some(column) = self.rng.pick(&columns).copied() else { return Ok(()) };
                let to = if model.columns[column].1 == ColumnType::Int4 { ColumnType::Int8 } else { ColumnType::Int4 };
                let give_up = self.rng.one_in(6);
                let rows_max = if give_up { self.rng.below(20) as usize } else { usize::MAX };
                match rewrite(&tx, table, &[(column, to)], rows_max) {
                    Ok(Attempt::Done(None)) => {
                        self.clients[at].failed = true;
                        Ok(())
                    }
                    result => {
                        model.columns[column].1 = to;
                        for row in model.rows.values_mut() {
                            retyped(Arc::make_mut(row), column, to);
                        }
                        self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model)))
                    }
                }
            }
            // A column with a value for the rows that are there.
            3 | 4 => {
                if model.columns.len() > FIXED_COLUMNS + 2 {
                    return Ok(());
                }
                self.serial += 1;
                let column = format!("y{}", self.serial);
                let ty = if self.rng.one_in(2) { ColumnType::Int4 } else { ColumnType::Int8 };
                let value = integer(ty, self.rng.below(9) as i64);
                let spec = ColumnSpec { name: column.clone(), ty, nullable: true, default_sql: None };
                let result = tx.alter_table(table, TableChange::AddColumnWith(spec, value.clone()));
                model.columns.push((column, ty));
                for row in model.rows.values_mut() {
                    Arc::make_mut(row).push(value.clone());
                }
                self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model)))
            }
            5 => {
                if !model.has_key {
                    return Ok(());
                }
                let result = tx.alter_table(table, TableChange::DropPrimaryKey);
                if model.is_referenced(None) {
                    return self.depended_on(at, name, result.map(forget));
                }
                model.has_key = false;
                self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model)))
            }
            // An index that is cancelled.
            6 => {
                self.serial += 1;
                let spec = IndexSpec {
                    name: format!("i{}", self.serial),
                    columns: vec![N],
                    orders: Vec::new(),
                    unique: false,
                    constraint: false,
                    nulls_alike: false,
                    deferral: Deferral::Never,
                };
                tx.set_interrupt(Some(Arc::new(|| Err(Error::new(ErrorKind::Cancelled, "cancelled")))));
                let result = tx.create_index(table, spec);
                tx.set_interrupt(None);
                match result {
                    Err(error) if error.kind() == ErrorKind::Cancelled => {
                        self.clients[at].failed = true;
                        Ok(())
                    }
                    Ok(Attempt::Done(_)) => broken!("an index on {name} was not cancelled"),
                    result => self.ddl_done(at, name, result.map(forget), |_| Ok(None)),
                }
            }
            // To another schema and back, or no further.
            7 => {
                let moved = match tx.set_schema(table, "away") {
                    Ok(Attempt::Done(moved)) => moved,
                    result => return self.ddl_done(at, name, result.map(forget), |_| Ok(None)),
                };
                match (tx.table("public", name), tx.table("away", name)) {
                    (Ok(None), Ok(Some(found))) if found.id == table.id => {}
                    found => broken!("table {name} was moved, and is found as {found:?}"),
                }
                if self.rng.one_in(3) {
                    // The name is free for others if nobody has committed it; what it did goes with the transaction.
                    self.ddl_done(at, name, Ok(Attempt::Done(())), |_| Ok(None))?;
                    self.clients[at].failed = true;
                    return Ok(());
                }
                let result = tx.set_schema(&moved, "public");
                self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model)))
            }
            // An index includes other columns than it did.
            8 | 9 => {
                if model.indexes.is_empty() {
                    return Ok(());
                }
                let which = self.rng.below(model.indexes.len() as u64) as usize;
                let included: Vec<usize> = match self.rng.below(model.columns.len() as u64 + 1) as usize {
                    none if none == model.columns.len() => Vec::new(),
                    one => vec![one, model.columns.len() - 1],
                };
                let name_of = &model.indexes[which].name;
                let Some(index) = table.indexes.iter().find(|index| index.name == *name_of).map(|index| index.id)
                else {
                    broken!("table {name} has no index {name_of}");
                };
                let details = IndexDetails { index: Some(index), included: included.clone(), declared: Vec::new() };
                let result = tx.alter_table(table, TableChange::SetIndexDetails(details));
                model.indexes[which].included = included;
                self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model)))
            }
            _ => {
                let Some(which) = self.rng.pick(&model.indexes).map(|index| index.name.clone()) else {
                    return Ok(());
                };
                self.serial += 1;
                let to = format!("i{}", self.serial);
                let result = tx.alter_table(table, TableChange::RenameIndex(which.clone(), to.clone()));
                model.indexes.iter_mut().filter(|index| index.name == which).for_each(|index| index.name = to.clone());
                let foreign = model.foreign.iter_mut().filter(|foreign| foreign.key.as_ref() == Some(&which));
                foreign.for_each(|foreign| foreign.key = Some(to.clone()));
                self.ddl_done(at, name, result.map(forget), |_| Ok(Some(model)))
            }
        }
    }
}
