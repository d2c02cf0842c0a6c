//! COMMENT ON a table, a view, a sequence, a column, an index, a constraint or a policy. A comment is part of its relation's definition: it goes with it.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName};
use resurgam_engine::{CommentOn, Table, TableChange, Transaction};

use super::{full_name, unsupported};
use crate::parse::comment::{CONSTRAINT, POLICY};
use crate::parse::names::last_name;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// Bytes of a comment.
const COMMENT_BYTES_MAX: usize = 1 << 16;

/// A comment as it is kept: an empty one is none.
///
/// # Errors
/// `54000` for one that is too long.
pub(crate) fn checked(comment: Option<&str>) -> Result<Option<&str>, SqlError> {
    let comment = comment.filter(|text| !text.is_empty());
    match comment.is_some_and(|text| text.len() > COMMENT_BYTES_MAX) {
        true => Err(SqlError::new("54000", format!("comments can have at most {COMMENT_BYTES_MAX} bytes"))),
        false => Ok(comment),
    }
}

/// The constraint of that name, as comments know it.
fn constraint_named(table: &Table, name: &str) -> Option<CommentOn> {
    if table.primary_key_name == name && !table.primary_key.is_empty() {
        return Some(CommentOn::Constraint(None));
    }
    let check = table.checks.iter().find(|check| check.name == name).map(|check| check.id);
    let foreign = || table.foreign_keys.iter().find(|foreign| foreign.name == name).map(|foreign| foreign.id);
    let unique = || table.indexes.iter().find(|index| index.constraint && index.name == name).map(|index| index.id);
    check.or_else(foreign).or_else(unique).map(|id| CommentOn::Constraint(Some(id)))
}

impl Session {
    pub(super) async fn comment_on(
        &mut self,
        kind: CommentObject,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("COMMENT");
        let comment = checked(comment)?;
        let txn = self.ddl_transaction("COMMENT")?;
        if matches!(kind, CommentObject::Table | CommentObject::View | CommentObject::Sequence) {
            self.must_own_named(&txn, name)?;
        }
        let (entry, on) = match kind {
            CommentObject::Table => (self.locked_table(&txn, name).await?, CommentOn::Relation),
            CommentObject::Sequence => (self.locked_sequence(&txn, name).await?, CommentOn::Relation),
            CommentObject::View => (self.locked_view(&txn, name, "relation").await?, CommentOn::Relation),
            CommentObject::Index => {
                let lookup = self.lookup(&txn);
                let (schema, wanted) = lookup.place(name)?;
                let Some(owner) = txn.table_of_index(&schema, &wanted)? else {
                    return Err(match txn.table(&schema, &wanted)? {
                        Some(_) => SqlError::new("42809", format!("\"{wanted}\" is not an index")),
                        None => lookup.undefined(name, "relation")?,
                    });
                };
                if !self.owns(&owner)? {
                    return Err(crate::plan::needs::not_owner("index", &wanted));
                }
                let table = self.locked_table(&txn, &full_name(&owner)).await?;
                let index = table.indexes.iter().find(|index| index.name == wanted).map(|index| index.id);
                (table, CommentOn::Index(index))
            }
            CommentObject::Column => {
                let mut parts = name.0.clone();
                let begins_with = |word| parts[0].as_ident().is_some_and(|first| first.value == word);
                let (is_constraint, is_policy) = (begins_with(CONSTRAINT), begins_with(POLICY));
                if is_constraint || is_policy {
                    parts.remove(0);
                }
                let Some(column) = parts.pop().and_then(|part| part.as_ident().cloned()).filter(|_| !parts.is_empty())
                else {
                    return Err(SqlError::syntax("column name must be qualified"));
                };
                let relation = ObjectName(parts);
                if is_policy {
                    let policy = self.policy_to_comment(&txn, &relation, &super::name_of(&column)).await?;
                    self.set_comment(&txn, &policy, CommentOn::Relation, comment).await?;
                    return Ok(TAG);
                }
                if let Ok(entry) = self.relation_named(&txn, &relation)
                    && !self.owns(&entry)?
                {
                    return Err(crate::plan::needs::not_owner("relation", &entry.name));
                }
                if is_constraint {
                    let table = self.locked_relation(&txn, &relation).await?;
                    let wanted = super::name_of(&column);
                    let on = constraint_named(&table, &wanted).ok_or_else(|| {
                        let message = format!("constraint \"{wanted}\" for table \"{}\" does not exist", table.name);
                        SqlError::new("42704", message)
                    })?;
                    self.set_comment(&txn, &table, on, comment).await?;
                    return Ok(TAG);
                }
                let entry = self.locked_relation(&txn, &relation).await?;
                let wanted = super::name_of(&column);
                let at = match &entry.view {
                    Some(view) => view.columns.iter().position(|column| column.name == wanted),
                    None => entry.columns.iter().position(|column| column.name == wanted),
                };
                let Some(at) = at else {
                    let message = format!("column \"{wanted}\" of relation \"{}\" does not exist", entry.name);
                    return Err(SqlError::new("42703", message));
                };
                (entry, CommentOn::Column(at))
            }
            CommentObject::Schema => (self.schema_to_change(&txn, &last_name(name)?).await?, CommentOn::Relation),
            other => return Err(unsupported(&format!("COMMENT ON {other}"))),
        };
        self.set_comment(&txn, &entry, on, comment).await?;
        Ok(TAG)
    }

    /// Gives a part of a relation a comment.
    pub(crate) async fn set_comment(
        &mut self,
        txn: &Transaction,
        entry: &Arc<Table>,
        on: CommentOn,
        comment: Option<&str>,
    ) -> Result<Arc<Table>, SqlError> {
        self.change(txn, entry, TableChange::SetComment(on, comment.map(str::to_owned))).await
    }

    /// A table or a view, locked against everyone else.
    async fn locked_relation(&mut self, txn: &Transaction, name: &ObjectName) -> Result<Arc<Table>, SqlError> {
        match self.lookup(txn).table(name) {
            Err(error) if error.sqlstate == "42809" => self.locked_view(txn, name, "relation").await,
            _ => self.locked_table(txn, name).await,
        }
    }
}
