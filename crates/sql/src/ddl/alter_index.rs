//! ALTER INDEX of how entries are stored: SET and RESET of storage parameters, SET TABLESPACE, SET STATISTICS. As with tables,
//! nothing follows from them, which is told. (The parser knows RENAME alone.)

use super::full_name;
use crate::parse::statement::alter_index::{AlterIndex, Change};
use crate::session::Session;
use crate::wire::{SqlError, Tag};

impl Session {
    pub(crate) async fn alter_index_storage(&mut self, alter: &AlterIndex) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("ALTER INDEX");
        self.ddl_deadline = self.deadline();
        let txn = self.ddl_transaction("ALTER INDEX")?;
        let lookup = self.lookup(&txn);
        let (schema, index) = lookup.place(&alter.name)?;
        let Some(owner) = txn.table_of_index(&schema, &index)? else {
            let error = lookup.undefined(&alter.name, "relation")?;
            if alter.if_exists && error.sqlstate == "42P01" {
                self.skip(format!("{}, skipping", error.message));
                return Ok(TAG);
            }
            return Err(error);
        };
        if !self.owns(&owner)? {
            return Err(crate::plan::needs::not_owner("index", &index));
        }
        let table = self.locked_table(&txn, &full_name(&owner)).await?;
        match &alter.change {
            Change::Set(names) => self.warn_of_idle("storage parameter", names),
            Change::Reset => {}
            Change::Tablespace(name) if name == "pg_default" => {}
            Change::Tablespace(name) if name == "pg_global" => {
                return Err(SqlError::new("22023", "only shared relations can be placed in pg_global tablespace"));
            }
            Change::Tablespace(name) => {
                return Err(SqlError::new("42704", format!("tablespace \"{name}\" does not exist")));
            }
            Change::Statistics(number, is_default) => {
                let found = table.indexes.iter().find(|found| found.name == index);
                let columns = found.map_or(table.primary_key.as_slice(), |found| found.columns.as_slice());
                let at = usize::try_from(*number).ok().and_then(|number| columns.get(number.checked_sub(1)?));
                let Some(column) = at.and_then(|at| table.columns.get(*at)).filter(|column| !column.is_predicate())
                else {
                    let message = format!("column number {number} of relation \"{index}\" does not exist");
                    return Err(SqlError::new("42703", message));
                };
                if !column.is_hidden() {
                    let message = format!(
                        "cannot alter statistics on non-expression column \"{}\" of index \"{index}\"",
                        column.name
                    );
                    return Err(SqlError::new("0A000", message).with_hint("Alter statistics on table column instead."));
                }
                if !is_default {
                    self.warn_of_idle("SET STATISTICS of index", &[index]);
                }
            }
        }
        Ok(TAG)
    }
}
