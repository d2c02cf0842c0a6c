//! ALTER … SET SCHEMA: relations move from schema to schema, with what is a part of them.
//!
//! A table's indexes and the sequences of its columns go with it. DEFAULTs that name a sequence name it by its new schema then;
//! views know what they read by id.

use std::sync::Arc;

use resurgam_engine::{ObjectKind, Table, TableChange, Transaction};

use super::full_name;
use super::sequence::{defaults_of, is_name_of, qualified};
use crate::parse::names::last_name;
use crate::parse::statement::set_schema::{Kind, SetSchema};
use crate::pg::search_path::{PG_TEMP, is_temporary};
use crate::pg::sequence_names;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

impl Session {
    /// ALTER … SET SCHEMA.
    pub(crate) async fn alter_set_schema(&mut self, alter: &SetSchema) -> Result<Tag, SqlError> {
        self.ddl_deadline = self.deadline();
        let tag = match alter.kind {
            Kind::Table => "ALTER TABLE",
            Kind::View => "ALTER VIEW",
            Kind::Sequence => "ALTER SEQUENCE",
        };
        let txn = self.ddl_transaction(tag)?;
        let found = match alter.kind {
            Kind::View => self.locked_view(&txn, &alter.name, "relation").await,
            Kind::Sequence => self.locked_sequence(&txn, &alter.name).await,
            Kind::Table => match self.locked_table(&txn, &alter.name).await {
                // As in PostgreSQL it may be of another kind.
                Err(error) if error.sqlstate == "42809" => {
                    match self.locked_view(&txn, &alter.name, "relation").await {
                        Err(error) if error.sqlstate == "42809" => self.locked_sequence(&txn, &alter.name).await,
                        found => found,
                    }
                }
                found => found,
            },
        };
        let relation = match found {
            Err(error) if alter.if_exists && matches!(error.sqlstate.as_str(), "42P01" | "3F000") => {
                self.skip(format!("relation \"{}\" does not exist, skipping", last_name(&alter.name)?));
                return Ok(Tag::Fixed(tag));
            }
            found => found?,
        };
        self.must_own(&relation)?;
        let owner = relation.sequence.as_ref().and_then(|sequence| sequence.owner);
        if let Some(owner) = owner.map(|owner| txn.table_by_id(owner)).transpose()?.flatten() {
            let detail = format!("Sequence \"{}\" is linked to table \"{}\".", relation.name, owner.name);
            return Err(SqlError::unsupported("cannot move an owned sequence into another schema").with_detail(detail));
        }
        let to = self.cx.search_path().meant(&alter.to).to_owned();
        if to != relation.schema && (is_temporary(&to) || is_temporary(&relation.schema) || to == PG_TEMP) {
            return Err(SqlError::unsupported("cannot move objects into or out of temporary schemas"));
        }
        self.keep_schema(&txn, &alter.to, &relation.name).await?;
        if relation.schema == alter.to {
            return Ok(Tag::Fixed(tag));
        }
        self.refuse_of_extension(&relation, false)?;
        self.refuse_if_pending(&relation, tag)?;
        self.move_relation(&txn, &relation, &alter.to).await?;
        Ok(Tag::Fixed(tag))
    }

    /// Moves a relation that is locked, with the sequences of its columns.
    async fn move_relation(&mut self, txn: &Transaction, relation: &Arc<Table>, to: &str) -> Result<(), SqlError> {
        let moved = self.settle_ddl(|| txn.set_schema(relation, to)).await.map_err(|error| in_schema(error, to))?;
        for owned in &moved.owned {
            if let Some(sequence) = txn.sequence_by_id(owned.sequence)? {
                let sequence = self.locked_sequence(txn, &full_name(&sequence)).await?;
                self.move_sequence(txn, &sequence, to).await?;
            }
        }
        if relation.sequence.is_some() {
            self.reword_defaults(txn, relation, &qualified(to, &relation.name)).await?;
        }
        Ok(())
    }

    async fn move_sequence(&mut self, txn: &Transaction, sequence: &Arc<Table>, to: &str) -> Result<(), SqlError> {
        self.reword_defaults(txn, sequence, &qualified(to, &sequence.name)).await?;
        self.settle_ddl(|| txn.set_schema(sequence, to)).await.map_err(|error| in_schema(error, to))?;
        Ok(())
    }

    /// Writes another name of a sequence into the DEFAULTs that name it.
    pub(super) async fn reword_defaults(
        &mut self,
        txn: &Transaction,
        sequence: &Arc<Table>,
        new_name: &str,
    ) -> Result<(), SqlError> {
        let is_it = |name: &str| is_name_of(name, sequence).then(|| new_name.to_owned());
        for (table, at) in defaults_of(txn, sequence)? {
            let table = self.locked_table(txn, &full_name(&table)).await?;
            let text = table.columns.get(at).and_then(|column| column.default_sql.as_deref());
            if let Some(text) = text.and_then(|text| sequence_names::renamed(text, &is_it)) {
                self.change(txn, &table, TableChange::SetDefault(at, Some(text))).await?;
            }
        }
        Ok(())
    }

    /// Everything in a schema is in another one from now on: the schema has got another name.
    pub(super) async fn move_all(&mut self, txn: &Transaction, from: &str, to: &str) -> Result<(), SqlError> {
        for sequence in txn.in_schema(from)?.iter().filter(|entry| entry.sequence.is_some()) {
            let sequence = self.locked_sequence(txn, &full_name(sequence)).await?;
            self.move_sequence(txn, &sequence, to).await?;
        }
        for entry in txn.in_schema(from)? {
            if entry.object.as_ref().is_some_and(|object| object.kind == ObjectKind::EXTENSION) {
                self.settle_ddl(|| txn.lock_for_change(&entry)).await?;
                self.move_unused_extension(txn, &entry, to).await?;
                continue;
            }
            // Definitions know functions and types by their oids.
            if entry.object.is_some() {
                self.settle_ddl(|| txn.rename_object(&entry, to, &entry.name)).await?;
                continue;
            }
            let entry = match &entry.view {
                Some(_) => self.locked_view(txn, &full_name(&entry), "relation").await?,
                None => self.locked_table(txn, &full_name(&entry)).await?,
            };
            self.settle_ddl(|| txn.set_schema(&entry, to)).await.map_err(|error| in_schema(error, to))?;
        }
        Ok(())
    }
}

/// A name that is taken, as PostgreSQL tells of it here.
fn in_schema(error: SqlError, schema: &str) -> SqlError {
    match error.sqlstate.as_str() {
        "42P07" => SqlError::new("42P07", format!("{} in schema \"{schema}\"", error.into_fields().message)),
        _ => error,
    }
}
