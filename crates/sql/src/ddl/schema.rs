//! CREATE, ALTER and COMMENT ON SCHEMA, and where things are made.
//!
//! A schema is an object of the catalog, but `public`, which is there without one until something is said of it
//! (`pg/src/catalog/namespaces.rs`). Whoever makes something in a schema keeps it until the transaction has ended; whoever drops
//! or renames it has it alone (`engine/src/schemas.rs`).

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ObjectName, Statement};
use resurgam_engine::{Access, CatalogObject, Isolation, ObjectKind, StatementKind, Table, Transaction};

use crate::parse::names::{last_name, no_schema, parts_of};
use crate::parse::statement::schema::SchemaStatement;
use crate::pg::catalog::{is_dropped, is_system_schema, schema_body};
use crate::pg::roles::Rights;
use crate::pg::roles::acl::{Object, privilege};
use crate::pg::search_path::{PG_TEMP, PUBLIC, SearchPath, is_temporary};
use crate::plan::lookup::has_schema;
use crate::session::Session;
use crate::session::shared::SessionShared;
use crate::wire::{SqlError, Tag};

/// `42939` for a name that is the system's.
fn refuse_reserved(name: &str) -> Result<(), SqlError> {
    match name.starts_with("pg_") || name == "sys" {
        true => Err(SqlError::new("42939", format!("unacceptable schema name \"{name}\""))
            .with_detail("The prefix \"pg_\" is reserved for system schemas.")),
        false => Ok(()),
    }
}

/// `42P06`
fn taken(name: &str) -> SqlError {
    SqlError::new("42P06", format!("schema \"{name}\" already exists"))
}

/// Gives a session its own search path back.
struct OwnPath(Arc<SessionShared>);

impl Drop for OwnPath {
    fn drop(&mut self) {
        self.0.set_path_for_now(None);
    }
}

impl Session {
    /// Runs CREATE or ALTER SCHEMA.
    pub(crate) async fn schema_statement(&mut self, statement: &SchemaStatement) -> Result<Tag, SqlError> {
        self.ddl_deadline = self.deadline();
        match statement {
            SchemaStatement::Create { if_not_exists, name, owner, elements } => {
                self.create_schema(*if_not_exists, name.as_deref(), owner.as_deref(), elements).await
            }
            SchemaStatement::Rename { name, to } => self.rename_schema(name, to).await,
        }
    }

    /// `42501` unless it may make schemas.
    fn may_make_schemas(&self, rights: &Rights) -> Result<(), SqlError> {
        match rights.allowed(self.role(), &rights.database, Object::Database, privilege::CREATE) {
            0 => Err(crate::plan::needs::denied("database", &self.shared.database_name)),
            _ => Ok(()),
        }
    }

    /// `42501` unless it owns the schema.
    fn must_own_schema(&self, name: &str) -> Result<(), SqlError> {
        let rights = self.rights()?;
        match rights.has_rights_of(self.role(), rights.schema(name).owner) {
            true => Ok(()),
            false => Err(crate::plan::needs::not_owner("schema", name)),
        }
    }

    async fn create_schema(
        &mut self,
        if_not_exists: bool,
        name: Option<&str>,
        owner: Option<&str>,
        elements: &[Statement],
    ) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("CREATE SCHEMA");
        let txn = self.ddl_transaction("CREATE SCHEMA")?;
        let rights = self.rights()?;
        let owner = match owner {
            None | Some("current_user" | "current_role") => self.role(),
            Some("session_user") => self.hot().session_role,
            Some(name) => rights.named(name)?.oid,
        };
        let user = rights.name(owner);
        let name = name.unwrap_or(&user);
        self.may_make_schemas(&rights)?;
        self.may_give_to(&rights, owner)?;
        refuse_reserved(name)?;
        if has_schema(&txn, name)? {
            if if_not_exists {
                self.notice(SqlError::notice("NOTICE", "42P06", format!("schema \"{name}\" already exists, skipping")));
                return Ok(TAG);
            }
            return Err(taken(name));
        }
        self.make_schema(&txn, name, Access::of(owner)).await?;
        if !elements.is_empty() {
            self.make_elements(name, elements).await?;
        }
        Ok(TAG)
    }

    /// Makes a schema of a name that none has.
    pub(super) async fn make_schema(&mut self, txn: &Transaction, name: &str, access: Access) -> Result<(), SqlError> {
        // What earlier versions left of another of its name.
        self.move_defaults(txn, name, None).await?;
        let entry = match txn.object_named(ObjectKind::SCHEMA, "", name)? {
            // That it was dropped is said here.
            Some(entry) => self.settle_ddl(|| txn.replace_object(&entry, Vec::new(), schema_body(false))).await?,
            None => {
                let object = CatalogObject::new(ObjectKind::SCHEMA, schema_body(false));
                let made = self.settle_ddl(|| txn.create_object("", name, object.clone())).await;
                made.map_err(|error| if error.sqlstate == "42710" { taken(name) } else { error })?
            }
        };
        self.store_access(txn, &entry, access).await?;
        Ok(())
    }

    /// What CREATE SCHEMA has behind it: first what others can name. Names without a schema are looked for in the new one
    /// first.
    async fn make_elements(&mut self, schema: &str, elements: &[Statement]) -> Result<(), SqlError> {
        let rank = |statement: &&Statement| match statement {
            Statement::CreateSequence { .. } => 0,
            Statement::CreateTable(_) => 1,
            Statement::CreateView(_) => 2,
            _ => 3,
        };
        let mut ordered: Vec<&Statement> = elements.iter().collect();
        ordered.sort_by_key(rank);
        for statement in &ordered {
            let made = match statement {
                Statement::CreateTable(create) => Some(&create.name),
                Statement::CreateView(create) => Some(&create.name),
                Statement::CreateSequence { name, .. } => Some(name),
                _ => None,
            };
            if let Some((Some(other), _)) = made.map(parts_of).transpose()?
                && other != schema
            {
                let text =
                    format!("CREATE specifies a schema ({other}) different from the one being created ({schema})");
                return Err(SqlError::new("42P15", text));
            }
        }
        let before = self.cx.search_path();
        let path = Arc::new(SearchPath::with_first(schema, &before));
        self.shared.set_path_for_now(Some(path));
        // However it ends.
        let _own_again = OwnPath(Arc::clone(&self.shared));
        for statement in ordered {
            Box::pin(self.ddl(statement, "")).await?;
        }
        Ok(())
    }

    /// The schema that something is to be made in, which stays until the transaction has ended, and the new name.
    ///
    /// # Errors
    /// `3F000`; `42501` for one of the system's.
    pub(super) async fn place_for(
        &mut self,
        txn: &Transaction,
        name: &ObjectName,
    ) -> Result<(String, String), SqlError> {
        let path = self.cx.search_path();
        let is_own = |schema: &str| schema == PG_TEMP || path.temporary() == Some(schema);
        let full = name;
        let (schema, name) = parts_of(name)?;
        let schema = match schema {
            Some(schema) if is_own(&schema) => return self.temporary_place_for(txn, full).await,
            Some(schema) => schema,
            None => {
                let mut found = None;
                for schema in path.listed() {
                    if is_own(schema) {
                        return Box::pin(self.temporary_place_for(txn, full)).await;
                    }
                    if has_schema(txn, schema)? {
                        found = Some(schema.to_owned());
                        break;
                    }
                }
                found.ok_or_else(|| SqlError::new("3F000", "no schema has been selected to create in"))?
            }
        };
        self.keep_schema(txn, &schema, &name).await?;
        Ok((schema, name))
    }

    /// Keeps a schema from being dropped until the transaction has ended, for whoever makes `name` in it.
    pub(super) async fn keep_schema(&mut self, txn: &Transaction, schema: &str, name: &str) -> Result<(), SqlError> {
        let is_own = self.cx.search_path().temporary() == Some(schema);
        if !is_own && !is_system_schema(schema) && has_schema(txn, schema)? {
            self.may_create_in(schema)?;
        }
        if is_system_schema(schema) {
            let error = SqlError::new("42501", format!("permission denied to create \"{schema}.{name}\""));
            return Err(error.with_detail("System catalog modifications are currently disallowed."));
        }
        if !is_own && (schema == PG_TEMP || is_temporary(schema)) {
            return Err(SqlError::new("42P16", "cannot create relations in temporary schemas of other sessions"));
        }
        self.keep_existing_schema(txn, schema).await
    }

    /// The same of a schema in which it may make things.
    pub(crate) async fn keep_existing_schema(&mut self, txn: &Transaction, schema: &str) -> Result<(), SqlError> {
        if schema == PUBLIC {
            self.settle_ddl(|| txn.keep_public()).await?;
            txn.statement(StatementKind::PointWrite)?;
            return if has_schema(txn, schema)? { Ok(()) } else { Err(no_schema(schema)) };
        }
        let find = |_: &mut Self| txn.object_named(ObjectKind::SCHEMA, "", schema)?.ok_or_else(|| no_schema(schema));
        self.kept_newest(txn, find).await?;
        Ok(())
    }

    /// The entry of a schema, locked against everyone else; `public` gets one if it has none.
    ///
    /// # Errors
    /// `3F000`; `42501` for one of the system's.
    pub(super) async fn schema_to_change(&mut self, txn: &Transaction, name: &str) -> Result<Arc<Table>, SqlError> {
        if is_system_schema(name) {
            return Err(SqlError::new("42501", format!("permission denied for schema {name}")));
        }
        let mut lookups = 0;
        loop {
            lookups += 1;
            let entry = match txn.object_named(ObjectKind::SCHEMA, "", name)? {
                Some(entry) if is_dropped(&entry) => return Err(no_schema(name)),
                Some(entry) => {
                    self.must_own_schema(name)?;
                    entry
                }
                None if name == PUBLIC => {
                    self.must_own_schema(name)?;
                    let object = CatalogObject::new(ObjectKind::SCHEMA, schema_body(false));
                    match self.settle_ddl(|| txn.create_object("", name, object.clone())).await {
                        Err(error) if error.sqlstate == "42710" && lookups < super::newest::LOOKUPS_MAX => {
                            txn.statement(StatementKind::PointWrite)?;
                            continue;
                        }
                        made => made?,
                    }
                }
                None => return Err(no_schema(name)),
            };
            match self.settle_ddl(|| txn.lock_for_change(&entry)).await {
                Ok(()) => return Ok(entry),
                Err(error)
                    if error.definition_changed
                        && txn.isolation() == Isolation::ReadCommitted
                        && lookups < super::newest::LOOKUPS_MAX =>
                {
                    txn.statement(StatementKind::PointWrite)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`Session::schema_to_change`], and nobody makes anything in it until the transaction has ended.
    pub(super) async fn schema_alone(&mut self, txn: &Transaction, name: &str) -> Result<Arc<Table>, SqlError> {
        if name == PUBLIC {
            self.settle_ddl(|| txn.lock_public_alone()).await?;
            txn.statement(StatementKind::PointWrite)?;
        }
        self.schema_to_change(txn, name).await
    }

    async fn rename_schema(&mut self, name: &str, to: &str) -> Result<Tag, SqlError> {
        let txn = self.ddl_transaction("ALTER SCHEMA")?;
        let entry = self.schema_alone(&txn, name).await?;
        if has_schema(&txn, to)? {
            return Err(taken(to));
        }
        let rights = self.rights()?;
        self.may_make_schemas(&rights)?;
        refuse_reserved(to)?;
        let access = rights.schema(name);
        if name == PUBLIC {
            self.make_schema(&txn, to, access.clone()).await?;
            self.settle_ddl(|| txn.replace_object(&entry, Vec::new(), schema_body(true))).await?;
        } else if to == PUBLIC {
            self.make_schema(&txn, to, access.clone()).await?;
            self.settle_ddl(|| txn.drop_object(&entry)).await?;
        } else {
            self.move_defaults(&txn, to, None).await?;
            self.settle_ddl(|| txn.rename_object(&entry, "", to)).await?;
        }
        self.move_defaults(&txn, name, Some(to)).await?;
        self.move_all(&txn, name, to).await?;
        Ok(Tag::Fixed("ALTER SCHEMA"))
    }

    /// Tells of a relation that a statement names and that is not there, or of its schema.
    ///
    /// # Errors
    /// What it tells, unless it does not matter.
    pub(super) fn not_there(
        &mut self,
        error: &SqlError,
        word: &str,
        name: &ObjectName,
        if_exists: bool,
    ) -> Result<(), SqlError> {
        let (schema, name) = parts_of(name)?;
        let message = match (error.sqlstate.as_str(), schema) {
            ("3F000", Some(schema)) => format!("schema \"{schema}\" does not exist"),
            _ => format!("{word} \"{name}\" does not exist"),
        };
        if if_exists {
            self.skip(format!("{message}, skipping"));
            return Ok(());
        }
        let state = match (error.sqlstate.as_str(), word) {
            ("3F000", _) => "3F000",
            (_, "index") => "42704",
            _ => "42P01",
        };
        Err(SqlError::new(state, message))
    }

    /// The name of a schema in a statement.
    pub(super) fn schema_name(name: &ObjectName) -> Result<String, SqlError> {
        match parts_of(name)? {
            (None, name) => Ok(name),
            (Some(_), _) => Err(SqlError::syntax(format!("syntax error at or near \"{}\"", last_name(name)?))),
        }
    }
}
