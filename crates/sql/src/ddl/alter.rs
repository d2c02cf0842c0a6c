//! ALTER TABLE and ALTER INDEX.
//!
//! The table is locked first, against everyone else; every operation then works on the newest
//! definition, so that the operations of one statement see each other's results. What changes
//! only the definition is constant time; what has to look at the rows, or to write them anew
//! (`retype.rs`), runs apart from the other connections and can be cancelled.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterIndexOperation, AlterTable, AlterTableOperation, ColumnDef, ConstraintUsingIndex,
    DropBehavior, Expr, ObjectName, RenameTableNameKind, Statement, TableConstraint,
};
use resurgam_engine::{
    CheckSpec, ColumnOrder, Datum, Deferral, Direction, IndexSpec, KeyRange, RowBatch, Table, TableChange, Transaction,
};

use crate::ddl::foreign::{Depends, ForeignParts};
use crate::ddl::generated::{is_drop_expression, refuse_default, refuse_type};
use crate::ddl::{KeyColumns, column_parts, default_text, free_name, full_name, is_relation, refuse_system_column};
use crate::dml::check::some_row_breaks;
use crate::exec::bridge::RowColumns;
use crate::parse::names::{last_name, name_of, unsupported};
use crate::pg::decode::scalar_text;
use crate::pg::definition::parse_expression;
use crate::pg::encode::TextStyle;
use crate::pg::errors;
use crate::pg::styles::{self, Styles};
use crate::plan::expression::{
    Place, TableExpr, cast_times, fix_time, kept_text, rename_column, unqualify, written_times,
};
use crate::plan::lookup::find_column;
use crate::plan::planner::Names;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// Rows that are looked at together.
const BATCH: usize = 1000;

/// A CHECK constraint as it was written.
pub(crate) struct CheckParts {
    pub name: Option<String>,
    pub expr: Expr,
}

fn associated(index: &str) -> SqlError {
    SqlError::new("55000", format!("index \"{index}\" is already associated with a constraint"))
}

/// `42710`.
pub(crate) fn constraint_exists(table: &Table, name: &str) -> SqlError {
    SqlError::new("42710", format!("constraint \"{name}\" for relation \"{}\" already exists", table.name))
}

pub(crate) fn is_constraint(table: &Table, name: &str) -> bool {
    !name.is_empty()
        && (table.primary_key_name == name
            || table.foreign_keys.iter().any(|foreign| foreign.name == name)
            || table.indexes.iter().any(|index| index.constraint && index.name == name)
            || table.checks.iter().any(|check| check.name == name))
}

/// `0A000` for another type of a column that a view reads.
fn refuse_if_read_by_view(txn: &Transaction, table: &Table, at: usize) -> Result<(), SqlError> {
    let reads = |view: &&Arc<Table>| view.view.as_ref().is_some_and(|view| view.reads(table.id, at));
    match txn.dependent_views(table.id)?.iter().find(reads) {
        Some(policy) if policy.policy_of().is_some() => {
            let text = "cannot alter type of a column used in a policy definition";
            let detail = format!(
                "policy {} on table {} depends on column \"{}\"",
                policy.name, table.name, table.columns[at].name
            );
            Err(SqlError::unsupported(text).with_detail(detail))
        }
        Some(view) => Err(SqlError::unsupported("cannot alter type of a column used by a view or rule").with_detail(
            format!("rule _RETURN on view {} depends on column \"{}\"", view.name, table.columns[at].name),
        )),
        None => Ok(()),
    }
}

fn no_constraint(table: &Table, name: &str) -> SqlError {
    SqlError::new("42704", format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name))
}

impl Session {
    pub(crate) async fn alter_table(&mut self, alter: &AlterTable) -> Result<Tag, SqlError> {
        let txn = self.ddl_transaction("ALTER TABLE")?;
        self.must_own_named(&txn, &alter.name)?;
        let (schema, name) = self.lookup(&txn).place(&alter.name)?;
        if txn.view_named(&schema, &name)?.is_some() {
            return self.alter_view(alter, true).await;
        }
        if let [AlterTableOperation::RenameTable { table_name: to }] = alter.operations.as_slice()
            && txn.sequence_named(&schema, &name)?.is_some()
        {
            // PostgreSQL renames with the word for tables whatever has a name like one.
            let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = to;
            let sequence = self.locked_sequence(&txn, &alter.name).await?;
            self.rename_sequence(&txn, &sequence, &last_name(to)?).await?;
            return Ok(Tag::Fixed("ALTER TABLE"));
        }
        let mut table = match self.locked_table(&txn, &alter.name).await {
            Ok(table) => table,
            Err(error) if alter.if_exists && matches!(error.sqlstate.as_str(), "42P01" | "3F000") => {
                self.skip(format!("relation \"{name}\" does not exist, skipping"));
                return Ok(Tag::Fixed("ALTER TABLE"));
            }
            Err(error) => return Err(error),
        };
        let renames = |operation: &AlterTableOperation| {
            matches!(
                operation,
                AlterTableOperation::RenameColumn { .. }
                    | AlterTableOperation::RenameTable { .. }
                    | AlterTableOperation::RenameConstraint { .. }
            )
        };
        // Keys that wait know of no names.
        if !alter.operations.iter().all(renames) {
            self.refuse_if_pending(&table, "ALTER TABLE")?;
        }
        let alter = self.qualified(&txn, Statement::AlterTable(alter.clone()), |statement| match statement {
            Statement::AlterTable(alter) => Some(alter),
            _ => None,
        });
        let alter = alter.await?;
        for operation in &alter.operations {
            table = self.alter(&txn, &table, operation).await?;
        }
        Ok(Tag::Fixed("ALTER TABLE"))
    }

    /// The newest definition of a table, locked against everyone else.
    pub(crate) async fn locked_table(&mut self, txn: &Transaction, name: &ObjectName) -> Result<Arc<Table>, SqlError> {
        self.locked_newest(txn, |session| session.lookup(txn).table(name)).await
    }

    pub(crate) async fn change(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        change: TableChange,
    ) -> Result<Arc<Table>, SqlError> {
        self.settle_ddl(|| tokio::task::block_in_place(|| txn.alter_table(table, change.clone()))).await
    }

    pub(super) async fn alter(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        operation: &AlterTableOperation,
    ) -> Result<Arc<Table>, SqlError> {
        match operation {
            AlterTableOperation::AddConstraint { constraint, not_valid } => {
                self.add_constraint(txn, table, constraint, *not_valid).await
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
                let name = name_of(name);
                if !is_constraint(table, &name) {
                    if *if_exists {
                        let table_name = &table.name;
                        self.skip(format!(
                            "constraint \"{name}\" of relation \"{table_name}\" does not exist, skipping"
                        ));
                        return Ok(Arc::clone(table));
                    }
                    return Err(no_constraint(table, &name));
                }
                if table.foreign_keys.iter().any(|foreign| foreign.name == name) {
                    return self.settle_ddl(|| txn.drop_foreign_key(table, &name)).await;
                }
                let cascade = matches!(drop_behavior, Some(DropBehavior::Cascade));
                let table = &self.drop_dependents(txn, table, &Depends::Index(&name), cascade, &[]).await?;
                if table.primary_key_name == name {
                    return self.change(txn, table, TableChange::DropPrimaryKey).await;
                }
                if table.checks.iter().any(|check| check.name == name) {
                    return self.change(txn, table, TableChange::DropCheck(name)).await;
                }
                self.settle_ddl(|| txn.drop_index(table, &name)).await
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                let (from, to) = (name_of(old_name), name_of(new_name));
                if !is_constraint(table, &from) {
                    return Err(SqlError::new(
                        "42704",
                        format!("constraint \"{from}\" for table \"{}\" does not exist", table.name),
                    ));
                }
                let change = if table.checks.iter().any(|check| check.name == from) {
                    TableChange::RenameCheck(from, to)
                } else if table.foreign_keys.iter().any(|foreign| foreign.name == from) {
                    TableChange::RenameForeignKey(from, to)
                } else {
                    TableChange::RenameIndex(from, to)
                };
                self.change(txn, table, change).await
            }
            AlterTableOperation::ValidateConstraint { name } => {
                let name = name_of(name);
                if !is_constraint(table, &name) {
                    return Err(no_constraint(table, &name));
                }
                if let Some(foreign) = table.foreign_keys.iter().find(|foreign| foreign.name == name) {
                    return self.validate_foreign_key(txn, table, foreign).await;
                }
                match table.checks.iter().find(|check| check.name == name) {
                    Some(check) if !check.validated => {
                        let expr = parse_expression(&check.sql)?;
                        self.validate_check(txn, table, &name, &expr, Place::Check)?;
                        self.change(txn, table, TableChange::ValidateCheck(name)).await
                    }
                    Some(_) => Ok(Arc::clone(table)),
                    None => Err(SqlError::new(
                        "42809",
                        format!(
                            "constraint \"{name}\" of relation \"{}\" is not a foreign key or check constraint",
                            table.name
                        ),
                    )),
                }
            }
            AlterTableOperation::AddColumn { column_def, if_not_exists, .. } => {
                self.add_column(txn, table, column_def, *if_not_exists).await
            }
            AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let cascade = matches!(drop_behavior, Some(DropBehavior::Cascade));
                let mut table = Arc::clone(table);
                for ident in column_names {
                    match find_column(&table, ident) {
                        Ok(at) => {
                            table = self.drop_indexes_made_of(txn, &table, at).await?;
                            let at = find_column(&table, ident)?;
                            table = self.drop_made_of(txn, &table, at, cascade).await?;
                            let at = find_column(&table, ident)?;
                            // So do its own foreign keys; those of others that need it do not.
                            table = self.drop_foreign_keys_of(txn, &table, at).await?;
                            table = self.drop_dependents(txn, &table, &Depends::Column(at), cascade, &[]).await?;
                            // The primary key goes with its column, as other constraints do.
                            if table.primary_key.contains(&at) || table.included(None).contains(&at) {
                                table = self.change(txn, &table, TableChange::DropPrimaryKey).await?;
                            }
                            let gone: Vec<_> = table.owned.iter().filter(|owned| owned.column == at).copied().collect();
                            table = self.change(txn, &table, TableChange::DropColumn(at)).await?;
                            let with = format!("column {} of table {}", name_of(ident), table.name);
                            self.drop_owned(txn, &gone, Some(&with), cascade, &[]).await?;
                        }
                        Err(_) if *if_exists => {
                            self.skip(format!(
                                "column \"{}\" of relation \"{}\" does not exist, skipping",
                                name_of(ident),
                                table.name
                            ));
                        }
                        Err(error) => return Err(error),
                    }
                }
                Ok(table)
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let at = find_column(table, old_column_name)?;
                let (from, to) = (table.columns[at].name.clone(), name_of(new_column_name));
                refuse_system_column(&to)?;
                let mut table = self.change(txn, table, TableChange::RenameColumn(at, to.clone())).await?;
                for check in table.checks.clone() {
                    if check.columns.contains(&at) {
                        let mut expr = parse_expression(&check.sql)?;
                        rename_column(&mut expr, &from, &to);
                        let change = TableChange::RewordCheck(check.name, kept_text(&expr));
                        table = self.change(txn, &table, change).await?;
                    }
                }
                self.reword_generated(txn, table, at, (&from, &to)).await
            }
            AlterTableOperation::RenameTable { table_name: to } => {
                let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = to;
                self.change(txn, table, TableChange::RenameTable(last_name(name)?)).await
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let at = find_column(table, column_name)?;
                if let AlterColumnOperation::SetDefault { value } = op
                    && let Some(clauses) = super::identity::clauses(value)
                {
                    return self.alter_identity(txn, table, at, clauses).await;
                }
                let change = match op {
                    AlterColumnOperation::SetNotNull => TableChange::SetNotNull(at, true),
                    AlterColumnOperation::SetDefault { .. }
                    | AlterColumnOperation::DropDefault
                    | AlterColumnOperation::DropNotNull
                        if table.identity(at) != resurgam_engine::Identity::No =>
                    {
                        let error = super::identity::is_identity(table, at);
                        return Err(match op {
                            AlterColumnOperation::DropDefault => {
                                error.with_hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.")
                            }
                            _ => error,
                        });
                    }
                    AlterColumnOperation::DropNotNull if table.primary_key.contains(&at) => {
                        let name = &table.columns[at].name;
                        return Err(SqlError::new("42P16", format!("column \"{name}\" is in a primary key")));
                    }
                    AlterColumnOperation::DropNotNull => TableChange::SetNotNull(at, false),
                    AlterColumnOperation::SetDefault { value } => {
                        if let Some(if_exists) = is_drop_expression(value) {
                            return self.drop_expression(txn, table, at, if_exists).await;
                        }
                        refuse_default(table, at, false)?;
                        let mut value = value.clone();
                        self.fix_default(&table.columns[at].ty, &mut value).await?;
                        let text = default_text(&value);
                        if let Some(text) = &text {
                            let column = &table.columns[at];
                            self.check_default(txn, table, text, &column.name, column.ty)?;
                        }
                        TableChange::SetDefault(at, text)
                    }
                    AlterColumnOperation::DropDefault => {
                        refuse_default(table, at, true)?;
                        TableChange::SetDefault(at, None)
                    }
                    AlterColumnOperation::SetDataType { data_type, using, .. } => {
                        refuse_if_read_by_view(txn, table, at)?;
                        // ORMs bring tables up to date by saying what they have. (A name may be that of a domain.)
                        let is_plain = table.domain(at).is_none() && table.collation(at).is_none();
                        let is_read = table.generated.iter().any(|generated| {
                            generated.reads.contains(&at) && !table.columns[generated.column].is_hidden()
                        });
                        let is_named = matches!(data_type, datafusion::sql::sqlparser::ast::DataType::Custom(..));
                        let stays =
                            using.is_none() && is_plain && !is_named && !is_read && table.generated(at).is_none();
                        if stays && crate::pg::types::column_type_from_sql(data_type)? == table.columns[at].ty {
                            return Ok(Arc::clone(table));
                        }
                        refuse_type(table, at)?;
                        super::identity::refuse_type(table, at, &crate::pg::types::column_type_from_sql(data_type)?)?;
                        let (collation, using) = super::retype::collation_and_using(using.as_ref());
                        let to = crate::pg::types::column_type_from_sql(data_type)?;
                        let named = collation.map(|name| super::column_collation(name, &to)).transpose()?.flatten();
                        super::retype::check_classes(table, at, &to)?;
                        let table = self.set_type(txn, table, at, data_type, using).await?;
                        let table = self.set_collation(txn, &table, at, named).await?;
                        self.retype_identity(txn, &table, at).await?;
                        self.recheck_foreign_keys(txn, &table, at).await?;
                        return Ok(table);
                    }
                    AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
                        let options = sequence_options.as_deref();
                        return self.add_identity(txn, table, at, generated_as.as_ref(), options).await;
                    }
                };
                self.change(txn, table, change).await
            }
            AlterTableOperation::EnableRowLevelSecurity => {
                self.set_row_security(txn, table, |access| access.row_security = true).await
            }
            AlterTableOperation::DisableRowLevelSecurity => {
                self.set_row_security(txn, table, |access| access.row_security = false).await
            }
            AlterTableOperation::ForceRowLevelSecurity => {
                self.set_row_security(txn, table, |access| access.forced = true).await
            }
            AlterTableOperation::NoForceRowLevelSecurity => {
                self.set_row_security(txn, table, |access| access.forced = false).await
            }
            other => Err(unsupported(&format!("ALTER TABLE {other}"))),
        }
    }

    /// Makes way for a column to be dropped: with `cascade` the generated columns that are made of it go.
    async fn drop_made_of(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
        cascade: bool,
    ) -> Result<Arc<Table>, SqlError> {
        let mut table = Arc::clone(table);
        let wanted = table.columns[at].name.clone();
        let made: Vec<String> = table
            .generated
            .iter()
            .filter(|generated| generated.column != at && generated.reads.contains(&at))
            .map(|generated| table.columns[generated.column].name.clone())
            .collect();
        if !made.is_empty() && !cascade {
            let name = &table.name;
            let lines: Vec<String> = made
                .iter()
                .map(|made| format!("column {made} of table {name} depends on column {wanted} of table {name}"))
                .collect();
            let message = format!("cannot drop column {wanted} of table {name} because other objects depend on it");
            return Err(SqlError::new("2BP01", message)
                .with_detail(lines.join("\n"))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let told: Vec<String> = made.iter().map(|made| format!("column {made} of table {}", table.name)).collect();
        self.tell_of_cascade(&told);
        for name in made {
            let Some(at) = table.columns.iter().position(|column| column.name == name) else { continue };
            table = self.drop_foreign_keys_of(txn, &table, at).await?;
            table = self.drop_dependents(txn, &table, &Depends::Column(at), true, &[]).await?;
            table = self.change(txn, &table, TableChange::DropColumn(at)).await?;
        }
        Ok(table)
    }

    async fn add_constraint(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        constraint: &TableConstraint,
        not_valid: bool,
    ) -> Result<Arc<Table>, SqlError> {
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                crate::ddl::clauses::primary_key(key)?;
                let columns = KeyColumns::read(&names, &key.columns)?;
                self.add_primary_key(txn, table, key.name.as_ref().map(name_of), columns).await
            }
            TableConstraint::Unique(key) => {
                let deferral = crate::ddl::clauses::unique(key)?;
                let columns = KeyColumns::read(&names, &key.columns)?.with_nulls(key.nulls_distinct);
                let columns = KeyColumns { deferral, ..columns };
                self.add_unique(txn, table, key.name.as_ref().map(name_of), columns).await
            }
            TableConstraint::UniqueUsingIndex(key) => self.add_by_index(txn, table, key, false).await,
            TableConstraint::PrimaryKeyUsingIndex(key) => self.add_by_index(txn, table, key, true).await,
            TableConstraint::Check(check) => {
                crate::parse::statement::domain::refuse_not_enforced(check)?;
                let parts = CheckParts { name: check.name.as_ref().map(name_of), expr: Expr::clone(&check.expr) };
                self.add_check(txn, table, &parts, !not_valid).await
            }
            TableConstraint::ForeignKey(foreign) => {
                self.add_foreign_key(txn, table, &ForeignParts::of_table(foreign), !not_valid).await
            }
            other => Err(unsupported(&format!("constraint {other}"))),
        }
    }

    async fn add_primary_key(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        name: Option<String>,
        key: KeyColumns,
    ) -> Result<Arc<Table>, SqlError> {
        if !table.primary_key.is_empty() {
            return Err(SqlError::new(
                "42P16",
                format!("multiple primary keys for table \"{}\" are not allowed", table.name),
            ));
        }
        let is_taken = |n: &str| Ok(is_constraint(table, n) || is_relation(txn, &table.schema, n)?);
        let name = match name {
            Some(name) => name,
            None => free_name(&table.name, &[], "pkey", &is_taken)?,
        };
        let change = TableChange::AddPrimaryKey { name: name.clone(), columns: key.columns };
        let table = self.change(txn, table, change).await?;
        self.detail(txn, &table, &name, key.included, Vec::new()).await
    }

    async fn add_unique(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        name: Option<String>,
        key: KeyColumns,
    ) -> Result<Arc<Table>, SqlError> {
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        let names = key.made_of(&names);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let is_taken = |n: &str| Ok(is_constraint(table, n) || is_relation(txn, &table.schema, n)?);
        let name = match name {
            Some(name) => name,
            None => free_name(&table.name, &names, "key", &is_taken)?,
        };
        let (columns, nulls_alike, deferral) = (key.columns, key.nulls_alike, key.deferral);
        crate::ddl::clauses::judged_later(deferral, columns.iter().map(|at| table.columns[*at].ty))?;
        let (unique, constraint, orders) = (true, true, Vec::new());
        let spec = IndexSpec { name, columns, orders, unique, constraint, nulls_alike, deferral };
        let fill = || tokio::task::block_in_place(|| txn.create_index(table, spec.clone()));
        let table = self.settle_ddl(fill).await?;
        self.detail(txn, &table, &spec.name, key.included, Vec::new()).await
    }

    /// Makes a unique index that of a constraint, which gets its name or gives it its own. A primary key's rows are written
    /// anew, in its order.
    ///
    /// # Errors
    /// `42704`, `55000`, `42809`, `42P16`: it is no index for that.
    async fn add_by_index(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        key: &ConstraintUsingIndex,
        is_primary: bool,
    ) -> Result<Arc<Table>, SqlError> {
        let deferral = crate::ddl::clauses::using_index(key, is_primary)?;
        let wanted = name_of(&key.index_name);
        if is_primary && !table.primary_key.is_empty() {
            let text = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
            return Err(SqlError::new("42P16", text));
        }
        let is_own_key = !table.primary_key.is_empty() && table.primary_key_name == wanted;
        let Some(index) = table.indexes.iter().find(|index| index.name == wanted) else {
            let shown = &table.name;
            return Err(match txn.table_of_index(&table.schema, &wanted)? {
                _ if is_own_key => associated(&wanted),
                Some(_) => SqlError::new("55000", format!("index \"{wanted}\" does not belong to table \"{shown}\"")),
                None => SqlError::new("42704", format!("index \"{wanted}\" does not exist")),
            });
        };
        if index.constraint {
            return Err(associated(&wanted));
        }
        if !index.valid {
            return Err(SqlError::new("55000", format!("index \"{wanted}\" is not valid")));
        }
        let unfit = |text: String| {
            Err(SqlError::new("42809", text)
                .with_detail("Cannot create a primary key or unique constraint using such an index."))
        };
        if !index.unique {
            return unfit(format!("\"{wanted}\" is not a unique index"));
        }
        let hidden = || index.columns.iter().map(|at| &table.columns[*at]).filter(|column| column.is_hidden());
        if hidden().any(|column| !column.is_predicate()) {
            return unfit(format!("index \"{wanted}\" contains expressions"));
        }
        if hidden().next().is_some() {
            return unfit(format!("\"{wanted}\" is a partial index"));
        }
        if let Some(at) = (0..index.columns.len()).find(|at| index.order(*at) != ColumnOrder::ASCENDING) {
            let text = format!("index \"{wanted}\" column number {} does not have default sorting behavior", at + 1);
            return unfit(text);
        }
        let name = key.name.as_ref().map_or_else(|| wanted.clone(), name_of);
        if name != wanted {
            let text = format!("ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{wanted}\" to \"{name}\"");
            self.notice(SqlError::notice("NOTICE", "00000", text));
        }
        if is_primary {
            let (columns, included) = (index.columns.clone(), table.included(Some(index.id)).to_vec());
            let table = self.settle_ddl(|| txn.drop_index(table, &wanted)).await?;
            let table = self.change(txn, &table, TableChange::AddPrimaryKey { name: name.clone(), columns }).await?;
            return self.detail(txn, &table, &name, included, Vec::new()).await;
        }
        if deferral != Deferral::Never {
            // Its entries are others: it is written anew.
            let (columns, included) = (index.columns.clone(), table.included(Some(index.id)).to_vec());
            let key = KeyColumns { columns, included, nulls_alike: index.nulls_alike, deferral };
            let table = self.settle_ddl(|| txn.drop_index(table, &wanted)).await?;
            return self.add_unique(txn, &table, Some(name), key).await;
        }
        let mut table = Arc::clone(table);
        if name != wanted {
            table = self.change(txn, &table, TableChange::RenameIndex(wanted, name.clone())).await?;
        }
        self.change(txn, &table, TableChange::MakeConstraint(name)).await
    }

    /// Adds a CHECK constraint; `validate`: after a look at all rows.
    pub(crate) async fn add_check(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        parts: &CheckParts,
        validate: bool,
    ) -> Result<Arc<Table>, SqlError> {
        let mut expr = parts.expr.clone();
        unqualify(&mut expr, &table.name);
        cast_times(&mut expr, table);
        self.fix_times(&mut expr).await?;
        let planned = self.plan_over(txn, table, &expr, Place::Check)?;
        let taken = |name: &str| is_constraint(table, name);
        let name = match &parts.name {
            Some(name) => name.clone(),
            None => {
                let columns: Vec<&str> = match planned.columns.as_slice() {
                    [one] => vec![table.columns[*one].name.as_str()],
                    _ => Vec::new(),
                };
                free_name(&table.name, &columns, "check", &|name| Ok(taken(name)))?
            }
        };
        if taken(&name) {
            return Err(constraint_exists(table, &name));
        }
        if validate {
            self.validate_check(txn, table, &name, &expr, Place::Check)?;
        }
        let sql = kept_text(&expr);
        // What is kept must say the same when it is read again.
        if !parse_expression(&sql).is_ok_and(|again| kept_text(&again) == sql) {
            return Err(unsupported("this form of a CHECK condition"));
        }
        let spec = CheckSpec { name, sql, columns: planned.columns, validated: validate };
        self.change(txn, table, TableChange::AddCheck(spec)).await
    }

    /// Dates and times that are written in an expression of a definition mean what they mean now, in this
    /// session's zone and order of numbers; others read them in their own.
    pub(super) async fn fix_times(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        for call in written_times(expr) {
            let value = self.constant(&format!("SELECT {call}")).await?;
            if let Some(text) = styles::with(Styles::default(), || scalar_text(&value, &TextStyle::default()))? {
                fix_time(expr, &call, &text);
            }
        }
        Ok(())
    }

    /// Looks whether every row satisfies a condition. The table is locked.
    pub(crate) fn validate_check(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        name: &str,
        expr: &Expr,
        place: Place<'_>,
    ) -> Result<(), SqlError> {
        let expr = self.plan_over(txn, table, expr, place)?;
        let stop = Arc::clone(&self.shared.stop);
        let deadline = self.ddl_deadline;
        tokio::task::block_in_place(|| {
            let view = txn.view_for_change(table)?;
            let mut cursor = view.scan(table, KeyRange::all(), Direction::Forward);
            let mut batch = RowBatch::default();
            loop {
                crate::ddl::check_stop(&stop, deadline)?;
                batch.clear();
                if !cursor.next_batch(&mut batch, BATCH)? {
                    return Ok(());
                }
                let failed = |error| errors::from_datafusion(error, "");
                let mut from = 0;
                while from < batch.len() {
                    let rows = (from..batch.len()).map(|i| batch.row(i));
                    let columns = RowColumns::new(table, &view);
                    let fitting = columns.fitting(expr.columns(), rows.clone()).map_err(failed)?;
                    let holds = expr.holds_rows(table, &view, rows.take(fitting)).map_err(failed)?;
                    if holds.has_false() {
                        return Err(some_row_breaks(table, name));
                    }
                    from += fitting;
                }
            }
        })
    }

    /// Plans an expression over a table that this transaction may have just changed.
    pub(crate) fn plan_over(
        &mut self,
        txn: &Transaction,
        table: &Table,
        expr: &Expr,
        place: Place<'_>,
    ) -> Result<TableExpr, SqlError> {
        let state = self.state()?;
        let cx = Arc::clone(&self.cx);
        TableExpr::plan(&Names { state: &state, txn, cx: &cx }, table, expr, place)
    }

    async fn add_column(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        def: &ColumnDef,
        if_not_exists: bool,
    ) -> Result<Arc<Table>, SqlError> {
        let parts = column_parts(def, &table.name)?;
        let mut spec = parts.spec;
        if table.columns.iter().any(|c| c.name == spec.name) {
            let exists = format!("column \"{}\" of relation \"{}\" already exists", spec.name, table.name);
            if if_not_exists {
                self.skip(format!("{exists}, skipping"));
                return Ok(Arc::clone(table));
            }
            return Err(SqlError::new("42701", exists));
        }
        self.keep_types(txn, [spec.ty]).await?;
        let at = table.columns.len();
        let mut new = None;
        let mut made = None;
        if let Some(expr) = &parts.generated {
            let (planned, sql) = self.generation(txn, table, (&spec.name, spec.ty), expr)?;
            let reads = planned.columns.clone();
            let added = match txn.has_rows(table)? {
                true => self.rewrite(txn, table, &[], &[(spec.clone(), planned)]).await?,
                false => self.change(txn, table, TableChange::AddColumn(spec.clone())).await?,
            };
            new = Some(self.change(txn, &added, TableChange::SetGenerated(at, Some((sql, reads)))).await?);
        }
        if let Some(serial) = parts.serial {
            let name = match serial.name_in(&table.schema)? {
                Some(given) => given,
                None => super::sequence::name_for(txn, &table.schema, &table.name, &spec.name)?,
            };
            spec.default_sql = Some(super::sequence::default_of(&table.schema, &name));
            let options = resurgam_engine::Sequence { owner: Some(table.id), ..serial.options };
            let sequence = self.settle_ddl(|| txn.create_sequence(&table.schema, &name, options.clone())).await?;
            made =
                Some(resurgam_engine::OwnedSequence { column: at, sequence: sequence.id, identity: serial.identity });
        }
        let domain = crate::pg::types::domain_from_sql(&def.data_type);
        if let Some(text) = spec.default_sql.clone().or_else(|| domain.and_then(crate::pg::user_types::domain_default))
        {
            let expr = parse_expression(&text)?;
            let planned = self.plan_over(txn, table, &expr, Place::Default(&spec.name, spec.ty))?;
            if txn.has_rows(table)? {
                if planned.volatile {
                    new = Some(self.rewrite(txn, table, &[], &[(spec.clone(), planned)]).await?);
                } else {
                    // One value for all rows that are there: kept in the definition.
                    let zone = self.shared.variables.lock().zone;
                    let value = planned.assigned(&spec.ty, &zone)?;
                    if value != Datum::Null {
                        let change = TableChange::AddColumnWith(spec.clone(), value);
                        new = match self.change(txn, table, change).await {
                            Ok(new) => Some(new),
                            // Too long for that.
                            Err(error) if error.sqlstate == "54000" => {
                                Some(self.rewrite(txn, table, &[], &[(spec.clone(), planned)]).await?)
                            }
                            Err(error) => return Err(error),
                        };
                    }
                }
            }
        }
        let mut table = match new {
            Some(new) => new,
            None => self.change(txn, table, TableChange::AddColumn(spec)).await?,
        };
        if let Some(collation) = parts.collation {
            table = self.change(txn, &table, TableChange::SetCollation(at, Some(collation))).await?;
        }
        if let Some(domain) = domain {
            table = self.set_domain(txn, &table, at, Some(domain)).await?;
        }
        if let Some(made) = made {
            let mut owned = table.owned.clone();
            owned.push(made);
            table = self.settle_ddl(|| txn.set_owned(&table, owned.clone())).await?;
        }
        if let Some(name) = parts.primary {
            table = self.add_primary_key(txn, &table, name, KeyColumns::one(at)).await?;
        }
        if let Some(name) = parts.unique {
            let (nulls_alike, deferral) = (parts.nulls_alike, parts.deferral);
            let key = KeyColumns { nulls_alike, deferral, ..KeyColumns::one(at) };
            table = self.add_unique(txn, &table, name, key).await?;
        }
        for check in &parts.checks {
            table = self.add_check(txn, &table, check, true).await?;
        }
        for foreign in &parts.foreign {
            table = self.add_foreign_key(txn, &table, foreign, true).await?;
        }
        Ok(table)
    }

    pub(crate) async fn alter_index(
        &mut self,
        name: &ObjectName,
        operation: &AlterIndexOperation,
    ) -> Result<Tag, SqlError> {
        let AlterIndexOperation::RenameIndex { index_name } = operation;
        let txn = self.ddl_transaction("ALTER INDEX")?;
        let lookup = self.lookup(&txn);
        let (schema, from) = lookup.place(name)?;
        let to = last_name(index_name)?;
        let owner = txn.table_of_index(&schema, &from)?.map_or_else(|| Err(lookup.undefined(name, "relation")?), Ok)?;
        if !self.owns(&owner)? {
            return Err(crate::plan::needs::not_owner("index", &from));
        }
        let table = self.locked_table(&txn, &full_name(&owner)).await?;
        self.change(&txn, &table, TableChange::RenameIndex(from, to)).await?;
        Ok(Tag::Fixed("ALTER INDEX"))
    }
}
