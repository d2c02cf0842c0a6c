//! CREATE, ALTER, DROP and COMMENT ON EXTENSION.
//!
//! An extension is an object of the catalog, in the schema where its functions are ([`crate::pg::extensions`]). Whoever makes
//! something that calls one of them keeps the extension until the transaction has ended; whoever drops or moves it has it
//! alone and looks afterwards for what calls them ([`super::extension_users`]). So either finds the other.
//!
//! `plpgsql`, which PostgreSQL has from the start, is not here, since the language is not. Dumps of old programs and
//! frameworks ask for it all the same, IF NOT EXISTS, and use nothing of it: that is taken, with a warning.

use std::sync::Arc;

use futures::future::BoxFuture;
use resurgam_engine::{Access, CatalogObject, ObjectKind, StatementKind, Table, Transaction};

use super::extension_users::{Callee, User, users_of};
use super::needed::{Needed, needed_by};
use crate::parse::names::no_schema;
use crate::parse::own::{Own, Parsed};
use crate::parse::read::parse as parse_statements;
use crate::parse::statement::extension::ExtensionStatement;
use crate::pg::extensions::{self, AVAILABLE, Installed};
use crate::pg::functions::quote_ident;
use crate::pg::roles::acl::{Object, privilege};
use crate::pg::search_path::{PG_CATALOG, PG_TEMP, is_temporary};
use crate::pg::user_types;
use crate::plan::lookup::has_schema;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// The language that PostgreSQL has from the start.
const PLPGSQL: &str = "plpgsql";

fn missing(name: &str) -> SqlError {
    SqlError::new("42704", format!("extension \"{name}\" does not exist"))
}

fn exists(name: &str) -> SqlError {
    SqlError::new("42710", format!("extension \"{name}\" already exists"))
}

fn not_available(name: &str) -> SqlError {
    let names: Vec<&str> = AVAILABLE.iter().map(|extension| extension.name).collect();
    let hint = match name {
        PLPGSQL => "Functions in this language are not supported.".to_owned(),
        _ => format!("Extensions that are built in: {}.", names.join(", ")),
    };
    SqlError::unsupported(format!("extension \"{name}\" is not available")).with_hint(hint)
}

impl Session {
    /// Runs one.
    pub(crate) async fn extension_statement(&mut self, statement: &ExtensionStatement) -> Result<Tag, SqlError> {
        use ExtensionStatement as S;
        self.ddl_deadline = self.deadline();
        match statement {
            S::Create { name, if_not_exists, schema, version } => {
                self.create_extension(name, *if_not_exists, schema.as_deref(), version.as_deref()).await
            }
            S::Update { name, version } => self.update_extension(name, version.as_deref()).await,
            S::SetSchema { name, schema } => self.move_extension(name, schema).await,
            S::Drop { names, if_exists, cascade } => self.drop_extensions(names, *if_exists, *cascade).await,
            S::Comment { name, comment } => self.comment_on_extension(name, comment.as_deref()).await,
        }
    }

    /// Says that the language is not here to those who ask for it by habit.
    fn tell_of_plpgsql(&mut self) {
        let text = format!("extension \"{PLPGSQL}\" is not available, and the statement has no effect");
        let hint = "Functions in this language are not supported.";
        self.notice(SqlError::notice("WARNING", "01000", text).with_hint(hint));
    }

    async fn create_extension(
        &mut self,
        name: &str,
        if_not_exists: bool,
        schema: Option<&str>,
        version: Option<&str>,
    ) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("CREATE EXTENSION");
        let txn = self.ddl_transaction("CREATE EXTENSION")?;
        if name == PLPGSQL && if_not_exists {
            self.tell_of_plpgsql();
            return Ok(TAG);
        }
        if txn.object_named(ObjectKind::EXTENSION, "", name)?.is_some() {
            if !if_not_exists {
                return Err(exists(name));
            }
            let text = format!("extension \"{name}\" already exists, skipping");
            self.notice(SqlError::notice("NOTICE", "42710", text));
            return Ok(TAG);
        }
        let extension = extensions::available(name).ok_or_else(|| not_available(name))?;
        if let Some(version) = version.filter(|version| *version != extension.version) {
            let text =
                format!("extension \"{name}\" has no installation script nor update path for version \"{version}\"");
            return Err(SqlError::new("22023", text));
        }
        let schema = match schema {
            Some(schema) => schema.to_owned(),
            None => self.first_schema(&txn)?,
        };
        if !has_schema(&txn, &schema)? {
            return Err(no_schema(&schema));
        }
        if extension.has_type() {
            self.refuse_taken(&txn, &schema, name)?;
        }
        let rights = self.rights()?;
        let hint = match extension.is_trusted {
            true => "Must have CREATE privilege on current database to create this extension.",
            false => "Must be superuser to create this extension.",
        };
        let may = match extension.is_trusted {
            true => rights.allowed(self.role(), &rights.database, Object::Database, privilege::CREATE) != 0,
            false => self.cx.is_superuser(),
        };
        if !may {
            return Err(
                SqlError::new("42501", format!("permission denied to create extension \"{name}\"")).with_hint(hint)
            );
        }
        self.keep_schema_of_extension(&txn, &schema).await?;
        for (view, query) in extension.views {
            let view = format!("{}.{}", quote_ident(&schema), quote_ident(view));
            self.run_own_text(&format!("CREATE VIEW {view} AS {query}")).await?;
            self.run_own_text(&format!("GRANT SELECT ON {view} TO PUBLIC")).await?;
        }
        let object = CatalogObject::new(ObjectKind::EXTENSION, extensions::body(extension.version));
        let made = self.settle_ddl(|| txn.create_object(&schema, name, object.clone())).await;
        let made = made.map_err(|error| if error.sqlstate == "42710" { exists(name) } else { error })?;
        let role = self.role();
        let made = self.store_access(&txn, &made, Access::of(role)).await?;
        self.set_comment(&txn, &made, resurgam_engine::CommentOn::Relation, Some(extension.comment)).await?;
        Ok(TAG)
    }

    /// The schema in which things are made.
    fn first_schema(&self, txn: &Transaction) -> Result<String, SqlError> {
        for schema in self.cx.search_path().listed() {
            if has_schema(txn, schema)? {
                return Ok(schema.to_owned());
            }
        }
        Err(SqlError::new("3F000", "no schema has been selected to create in"))
    }

    /// Keeps a schema from being dropped while an extension comes into it. As in PostgreSQL nobody asks whether its functions
    /// may be made there: who may have the extension does not make them himself.
    async fn keep_schema_of_extension(&mut self, txn: &Transaction, schema: &str) -> Result<(), SqlError> {
        if schema == PG_CATALOG {
            return Ok(());
        }
        if crate::pg::catalog::is_system_schema(schema) || schema == PG_TEMP || is_temporary(schema) {
            return Err(super::unsupported(&format!("an extension in schema \"{schema}\"")));
        }
        self.keep_existing_schema(txn, schema).await
    }

    /// An extension, locked against everyone else, and what it says.
    ///
    /// # Errors
    /// `42704`; `42501` unless it is the role's own.
    pub(super) async fn locked_extension(
        &mut self,
        txn: &Transaction,
        name: &str,
    ) -> Result<(Arc<Table>, Installed), SqlError> {
        let find = |session: &mut Self| {
            let Some(entry) = txn.object_named(ObjectKind::EXTENSION, "", name)? else { return Err(missing(name)) };
            match session.owns(&entry)? {
                true => Ok(entry),
                false => Err(crate::plan::needs::not_owner("extension", name)),
            }
        };
        let entry = self.locked_newest(txn, find).await?;
        let installed = Installed::of_object(&entry)?;
        // What others have made with it while it was waited for.
        txn.statement(StatementKind::PointWrite)?;
        Ok((entry, installed))
    }

    /// Keeps extensions, whose functions something that is made calls, until the transaction has ended.
    pub(super) async fn keep_extensions(&mut self, txn: &Transaction, ids: &[u32]) -> Result<(), SqlError> {
        for id in ids {
            let gone = || {
                let error = SqlError::new("42883", "an extension whose function is called was dropped meanwhile");
                error.with_hint("Retry the statement.")
            };
            let entry = txn.object_by_id(*id)?.ok_or_else(gone)?;
            self.settle_ddl(|| txn.keep(&entry)).await?;
        }
        Ok(())
    }

    async fn update_extension(&mut self, name: &str, version: Option<&str>) -> Result<Tag, SqlError> {
        let txn = self.ddl_transaction("ALTER EXTENSION")?;
        let (_, installed) = self.locked_extension(&txn, name).await?;
        let (own, wanted) = (installed.version.as_str(), version.unwrap_or(&installed.version));
        if own != wanted {
            let text =
                format!("extension \"{name}\" has no update path from version \"{own}\" to version \"{wanted}\"");
            return Err(SqlError::new("22023", text));
        }
        self.skip(format!("version \"{own}\" of extension \"{name}\" is already installed"));
        Ok(Tag::Fixed("ALTER EXTENSION"))
    }

    async fn move_extension(&mut self, name: &str, schema: &str) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("ALTER EXTENSION");
        let txn = self.ddl_transaction("ALTER EXTENSION")?;
        let (entry, installed) = self.locked_extension(&txn, name).await?;
        if !has_schema(&txn, schema)? {
            return Err(no_schema(schema));
        }
        self.may_create_in(schema)?;
        if installed.schema != schema && installed.views().next().is_some() {
            return Err(super::unsupported(&format!("moving extension \"{name}\", which has views,")));
        }
        if installed.schema != schema {
            self.keep_schema_of_extension(&txn, schema).await?;
            self.move_unused_extension(&txn, &entry, schema).await?;
        }
        Ok(TAG)
    }

    /// Moves an extension that is locked.
    ///
    /// # Errors
    /// `0A000` if something calls its functions: what calls them says so by their names.
    pub(super) async fn move_unused_extension(
        &mut self,
        txn: &Transaction,
        entry: &Arc<Table>,
        schema: &str,
    ) -> Result<(), SqlError> {
        let installed = Installed::of_object(entry)?;
        if let Some(user) = users_of(&self.lookup(txn), &Callee::Extension(&installed))?.first() {
            let text = format!("moving extension \"{}\", whose functions are in use, is not supported", entry.name);
            return Err(SqlError::unsupported(text).with_detail(user.line()));
        }
        self.settle_ddl(|| txn.rename_object(entry, schema, &entry.name)).await?;
        Ok(())
    }

    /// DROP EXTENSION.
    pub(crate) async fn drop_extensions(
        &mut self,
        names: &[String],
        if_exists: bool,
        cascade: bool,
    ) -> Result<Tag, SqlError> {
        let txn = self.ddl_transaction("DROP EXTENSION")?;
        let mut all: Vec<(Arc<Table>, Installed)> = Vec::new();
        for name in names {
            match self.locked_extension(&txn, name).await {
                Ok((entry, _)) if all.iter().any(|(known, _)| known.id == entry.id) => {}
                Ok(found) => all.push(found),
                Err(error) if if_exists && error.sqlstate == "42704" => {
                    self.skip(format!("{}, skipping", error.message));
                }
                Err(error) => return Err(error),
            }
        }
        for (_, installed) in &all {
            self.drop_views_of_extension(&txn, installed, cascade).await?;
        }
        let mut users: Vec<User> = Vec::new();
        for (_, installed) in &all {
            users.extend(users_of(&self.lookup(&txn), &Callee::Extension(installed))?);
        }
        if !users.is_empty() && !cascade {
            let one = match all.as_slice() {
                [(entry, _)] => Some(format!("extension {}", entry.name)),
                _ => None,
            };
            return Err(needed_by(one.as_deref(), users.iter().map(User::line).collect()));
        }
        self.tell_of_cascade(&users.iter().map(|user| user.name.clone()).collect::<Vec<_>>());
        self.drop_users(users).await?;
        for (entry, _) in &all {
            self.settle_ddl(|| txn.drop_object(entry)).await?;
        }
        Ok(Tag::Fixed("DROP EXTENSION"))
    }

    /// Drops the views of an extension, and with CASCADE what reads them.
    async fn drop_views_of_extension(
        &mut self,
        txn: &Transaction,
        installed: &Installed,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let mut views = Vec::new();
        for name in installed.views() {
            views.extend(txn.view_named(&installed.schema, name)?);
        }
        if views.is_empty() {
            return Ok(());
        }
        let lookup = self.lookup(txn);
        let roots = views.iter().map(|view| Needed::view(&lookup, view)).collect::<Result<Vec<_>, _>>()?;
        self.drop_needing_views(txn, &roots, cascade, &[]).await?;
        self.drop_all_views(txn, views).await
    }

    /// Refuses to change a view that an extension has.
    ///
    /// # Errors
    /// `2BP01` for dropping it, `0A000` for giving it another name or schema.
    pub(super) fn refuse_of_extension(&self, view: &Table, is_drop: bool) -> Result<(), SqlError> {
        let types = user_types::current();
        let all = types.as_ref().map(|types| types.extensions()).unwrap_or_default();
        let Some(own) = all.iter().find(|one| one.has_view(&view.schema, &view.name)) else { return Ok(()) };
        let of = &own.name;
        if !is_drop {
            let text = format!("another name or schema of a view of extension \"{of}\" is not supported");
            return Err(SqlError::unsupported(text));
        }
        let text = format!("cannot drop view {} because extension {of} requires it", view.name);
        let hint = format!("You can drop extension {of} instead.");
        Err(SqlError::new("2BP01", text).with_hint(hint))
    }

    /// Runs a statement about definitions that is a part of another one.
    fn run_own_text<'a>(&'a mut self, text: &'a str) -> BoxFuture<'a, Result<(), SqlError>> {
        Box::pin(async move {
            match parse_statements(text)?.pop() {
                Some(Parsed::Known(statement)) => _ = self.ddl(&statement, text).await?,
                Some(Parsed::Own(Own::Grant(grant))) => _ = self.run_grant(&grant).await?,
                _ => return Err(SqlError::internal("a statement of an extension that is none")),
            }
            Ok(())
        })
    }

    /// Drops what calls functions of an extension. (By statements, which may drop schemas, and so extensions, themselves.)
    pub(super) fn drop_users(&mut self, users: Vec<User>) -> BoxFuture<'_, Result<(), SqlError>> {
        Box::pin(async move {
            // What goes with these has been told of already.
            let notices = self.notices.len();
            for user in users {
                let Some(text) = user.drop else {
                    return Err(super::unsupported(&format!("dropping {} with what it needs", user.name)));
                };
                match parse_statements(&text)?.pop() {
                    Some(Parsed::Known(statement)) => _ = self.ddl(&statement, &text).await?,
                    Some(Parsed::Own(Own::Function(drop))) => _ = self.function_statement(&drop).await?,
                    _ => return Err(SqlError::internal("a DROP that is none")),
                }
            }
            self.notices.truncate(notices);
            Ok(())
        })
    }

    async fn comment_on_extension(&mut self, name: &str, comment: Option<&str>) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("COMMENT");
        if name == PLPGSQL {
            self.tell_of_plpgsql();
            return Ok(TAG);
        }
        let comment = super::comment::checked(comment)?;
        let txn = self.ddl_transaction("COMMENT")?;
        let (entry, _) = self.locked_extension(&txn, name).await?;
        self.set_comment(&txn, &entry, resurgam_engine::CommentOn::Relation, comment).await?;
        Ok(TAG)
    }
}
