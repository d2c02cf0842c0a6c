//! ALTER SEQUENCE.
//!
//! A sequence that is not told to RESTART goes on with the values that it has (`engine/src/sequence.rs`): those are not
//! rolled back with the definition.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use resurgam_engine::{Identity, OwnedSequence, Table, Transaction};

use crate::ddl::sequence::qualified;
use crate::ddl::{full_name, is_relation};
use crate::parse::names::last_name;
use crate::parse::statement::alter_sequence::{Action, AlterSequence};
use crate::parse::statement::sequence_options::{SequenceOption, altered, refuse_twice};
use crate::plan::lookup::{Lookup, find_column};
use crate::plan::needs::access_of;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// The sequence of that name.
///
/// # Errors
/// `42P01`, `42809`
fn find_sequence(lookup: &Lookup<'_>, name: &ObjectName) -> Result<Arc<Table>, SqlError> {
    let (schema, wanted) = lookup.place(name)?;
    match lookup.txn.sequence_named(&schema, &wanted)? {
        Some(sequence) => Ok(sequence),
        None if is_relation(lookup.txn, &schema, &wanted)? => {
            Err(SqlError::new("42809", format!("\"{wanted}\" is not a sequence")))
        }
        None => Err(lookup.undefined(name, "relation")?),
    }
}

impl Session {
    /// The newest definition of a sequence, locked against everyone else.
    pub(crate) async fn locked_sequence(
        &mut self,
        txn: &Transaction,
        name: &ObjectName,
    ) -> Result<Arc<Table>, SqlError> {
        self.locked_newest(txn, |session| find_sequence(&session.lookup(txn), name)).await
    }

    /// ALTER SEQUENCE.
    pub(crate) async fn alter_sequence(&mut self, alter: &AlterSequence) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("ALTER SEQUENCE");
        self.ddl_deadline = self.deadline();
        let txn = self.ddl_transaction("ALTER SEQUENCE")?;
        self.must_own_named(&txn, &alter.name)?;
        let sequence = match self.locked_sequence(&txn, &alter.name).await {
            Err(error) if alter.if_exists && matches!(error.sqlstate.as_str(), "42P01" | "3F000") => {
                self.skip(format!("relation \"{}\" does not exist, skipping", last_name(&alter.name)?));
                return Ok(TAG);
            }
            locked => locked?,
        };
        match &alter.action {
            Action::Rename(name) => self.rename_sequence(&txn, &sequence, name).await?,
            Action::Options(options) => {
                let sequence = self.change_sequence(&txn, &sequence, options).await?;
                let owner = options.iter().find_map(|option| match option {
                    SequenceOption::OwnedBy(owner) => Some(owner),
                    _ => None,
                });
                if let Some(owner) = owner {
                    self.give_sequence(&txn, &sequence, owner.as_deref()).await?;
                }
            }
        }
        Ok(TAG)
    }

    /// Gives a sequence other options, save OWNED BY.
    pub(super) async fn change_sequence(
        &mut self,
        txn: &Transaction,
        sequence: &Arc<Table>,
        options: &[SequenceOption],
    ) -> Result<Arc<Table>, SqlError> {
        refuse_twice(options)?;
        if options.iter().all(|option| matches!(option, SequenceOption::OwnedBy(_))) {
            return Ok(Arc::clone(sequence));
        }
        let Some(old) = sequence.sequence.as_deref() else { return Err(SqlError::internal("not a sequence")) };
        let (to, anew) = altered(old, txn.sequence_state(sequence)?, options)?;
        self.settle_ddl(|| txn.replace_sequence(sequence, to.clone(), anew)).await
    }

    /// Gives a sequence another name, also where DEFAULTs name it.
    pub(super) async fn rename_sequence(
        &mut self,
        txn: &Transaction,
        sequence: &Arc<Table>,
        to: &str,
    ) -> Result<(), SqlError> {
        if is_relation(txn, &sequence.schema, to)? {
            return Err(SqlError::new("42P07", format!("relation \"{to}\" already exists")));
        }
        self.reword_defaults(txn, sequence, &qualified(&sequence.schema, to)).await?;
        self.settle_ddl(|| txn.rename_sequence(sequence, to)).await?;
        Ok(())
    }

    /// OWNED BY.
    async fn give_sequence(
        &mut self,
        txn: &Transaction,
        sequence: &Arc<Table>,
        to: Option<&[String]>,
    ) -> Result<(), SqlError> {
        let before = match sequence.sequence.as_ref().and_then(|sequence| sequence.owner) {
            Some(owner) => txn.table_by_id(owner)?,
            None => None,
        };
        let to = match to {
            None => None,
            Some(parts) => Some(self.owner_named(txn, parts, (&sequence.schema, access_of(sequence).owner)).await?),
        };
        if let Some(before) = before {
            let before = self.locked_table(txn, &full_name(&before)).await?;
            let of_identity = |owned: &&OwnedSequence| owned.sequence == sequence.id && owned.identity != Identity::No;
            if before.owned.iter().any(|owned| of_identity(&owned)) {
                let detail = format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, before.name);
                return Err(SqlError::unsupported("cannot change ownership of identity sequence").with_detail(detail));
            }
            let mut owned = before.owned.clone();
            owned.retain(|owned| owned.sequence != sequence.id);
            self.settle_ddl(|| txn.set_owned(&before, owned.clone())).await?;
        }
        let Some(mut definition) = sequence.sequence.as_deref().cloned() else { return Ok(()) };
        definition.owner = None;
        if let Some((table, at)) = to {
            // It may be the one that has just lost it.
            let table = self.locked_table(txn, &full_name(&table)).await?;
            definition.owner = Some(table.id);
            let mut owned = table.owned.clone();
            owned.push(OwnedSequence { column: at, sequence: sequence.id, identity: Identity::No });
            self.settle_ddl(|| txn.set_owned(&table, owned.clone())).await?;
        }
        self.settle_ddl(|| txn.replace_sequence(sequence, definition.clone(), false)).await?;
        Ok(())
    }

    /// The column that OWNED BY names, of a table that is locked now. `of`: schema and owner of the sequence, which are the table's:
    /// what changes them changes both.
    ///
    /// # Errors
    /// `42P01`, `42809`, `42703`; `55000` for a table of another schema or owner.
    pub(super) async fn owner_named(
        &mut self,
        txn: &Transaction,
        parts: &[String],
        of: (&str, u32),
    ) -> Result<(Arc<Table>, usize), SqlError> {
        let Some((column, table)) = parts.split_last().filter(|(_, table)| !table.is_empty()) else {
            return Err(SqlError::syntax("invalid OWNED BY option")
                .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
        };
        let quoted = |name: &String| Ident::with_quote('"', name.as_str());
        let name = ObjectName::from(table.iter().map(quoted).collect::<Vec<_>>());
        // Before it is locked: nobody's table is kept from its owner.
        if let Ok(table) = self.lookup(txn).table(&name) {
            fits(&table, of)?;
        }
        let table = self.locked_table(txn, &name).await?;
        fits(&table, of)?;
        let at = find_column(&table, &quoted(column))?;
        Ok((table, at))
    }
}

/// `55000` unless a sequence of that schema and owner can be a part of the table.
fn fits(table: &Table, (schema, owner): (&str, u32)) -> Result<(), SqlError> {
    if access_of(table).owner != owner {
        return Err(SqlError::new("55000", "sequence must have same owner as table it is linked to"));
    }
    match table.schema == schema {
        true => Ok(()),
        false => Err(SqlError::new("55000", "sequence must be in same schema as table it is linked to")),
    }
}
