//! Types that users make: CREATE, ALTER, DROP and COMMENT ON TYPE. (Domains have more: `domain.rs`.)
//!
//! A type is an object of the catalog, and is locked as a table is: whoever makes something of it keeps it until he ends,
//! whoever changes it or drops it has it for himself.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterTableOperation, DropBehavior, Ident, ObjectName, UserDefinedTypeRepresentation,
};
use resurgam_engine::{CatalogObject, ColumnType, ObjectKind, StatementKind, Table, Transaction};

use super::needed::needed_by;
use super::type_texts::Renamed;
use super::type_users::{Needing, called, needing_type};
use super::{full_name, name_of, unsupported};
use crate::parse::names::{no_schema, parts_of};
use crate::parse::statement::user_type::{Action, AlterType, Place};
use crate::pg::citext;
use crate::pg::functions::quote_ident;
use crate::pg::roles::acl::Object;
use crate::pg::search_path::is_temporary;
use crate::pg::types::oid;
use crate::pg::user_types::definition::{Kind, LABEL_BYTES_MAX};
use crate::pg::user_types::{Body, EnumType, LabelPlace, UserType, UserTypes, current};
use crate::plan::lookup::has_schema;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// As errors name a type that is not there.
fn missing(name: &ObjectName) -> SqlError {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
    SqlError::new("42704", format!("type \"{}\" does not exist", parts.join(".")))
}

/// Whether a name means the type of the extension `citext`.
fn is_of_extension(name: &ObjectName) -> Result<bool, SqlError> {
    let (schema, name) = parts_of(name)?;
    let named = |types: std::sync::Arc<UserTypes>| types.named(schema.as_deref(), &name).map(|ty| ty.oid);
    Ok(current().and_then(named) == Some(oid::CITEXT))
}

fn check_label(label: &str) -> Result<(), SqlError> {
    if label.len() > LABEL_BYTES_MAX {
        return Err(SqlError::new("42602", format!("invalid enum label \"{label}\""))
            .with_detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less.")));
    }
    Ok(())
}

fn label_exists(label: &str) -> SqlError {
    SqlError::new("42710", format!("enum label \"{label}\" already exists"))
}

impl Session {
    /// The type of that name, as the transaction has it now: without a schema that of the first of the search path that has
    /// one.
    ///
    /// # Errors
    /// `3F000` for a schema that is not there.
    pub(crate) fn type_named(&self, txn: &Transaction, name: &ObjectName) -> Result<Option<Arc<Table>>, SqlError> {
        let (schema, wanted) = parts_of(name)?;
        let path = self.cx.search_path();
        let Some(schema) = schema else {
            for schema in path.schemas() {
                if let Some(found) = txn.object_named(ObjectKind::TYPE, schema, &wanted)? {
                    return Ok(Some(found));
                }
            }
            return Ok(None);
        };
        let schema = path.meant(&schema);
        match txn.object_named(ObjectKind::TYPE, schema, &wanted)? {
            None if !has_schema(txn, schema)? => Err(no_schema(schema)),
            found => Ok(found),
        }
    }

    /// Schema and name of a type that is made.
    ///
    /// # Errors
    /// Those of [`Session::place_for`]; `42710` for a name that is taken, `0A000` for the session's own schema.
    pub(super) async fn place_for_type(
        &mut self,
        txn: &Transaction,
        name: &ObjectName,
    ) -> Result<(String, String), SqlError> {
        let (schema, name) = self.place_for(txn, name).await?;
        if is_temporary(&schema) {
            return Err(unsupported("a temporary type"));
        }
        self.refuse_taken(txn, &schema, &name)?;
        Ok((schema, name))
    }

    /// Moves a type, which is locked, into another schema.
    ///
    /// # Errors
    /// `3F000`, `42501`; `42710` where the name is taken.
    pub(super) async fn move_type(&mut self, txn: &Transaction, object: &Arc<Table>, to: &str) -> Result<(), SqlError> {
        if !has_schema(txn, to)? {
            return Err(no_schema(to));
        }
        self.keep_schema(txn, to, &object.name).await?;
        if is_temporary(to) {
            return Err(SqlError::unsupported("cannot move objects into or out of temporary schemas"));
        }
        if to == object.schema {
            return Ok(());
        }
        if txn.object_named(ObjectKind::TYPE, to, &object.name)?.is_some()
            || self.refuse_taken(txn, to, &object.name).is_err()
        {
            let text = format!("type \"{}\" already exists in schema \"{to}\"", object.name);
            return Err(SqlError::new("42710", text));
        }
        self.settle_ddl(|| txn.rename_object(object, to, &object.name)).await?;
        Ok(())
    }

    /// The newest definition of a type, locked against everyone else.
    ///
    /// # Errors
    /// `42704`; `42809` for one of the system.
    pub(super) async fn locked_type(
        &mut self,
        txn: &Transaction,
        name: &ObjectName,
    ) -> Result<(Arc<Table>, UserType), SqlError> {
        let find = |session: &mut Self| {
            let Some(object) = session.type_named(txn, name)? else {
                return Err(match is_of_extension(name)? {
                    true => unsupported("changing a type of an extension"),
                    false => missing(name),
                });
            };
            session.may_drop(&object, "type", &object.name)?;
            Ok(object)
        };
        let object = self.locked_newest(txn, find).await?;
        let ty = UserType::of_object(&object)?;
        Ok((object, ty))
    }

    /// The error of a type that is not there, or is that of a relation's rows.
    pub(super) fn or_relation(
        &self,
        txn: &Transaction,
        error: SqlError,
        name: &ObjectName,
        wanted: &str,
    ) -> Result<SqlError, SqlError> {
        let (schema, name) = self.lookup(txn).place(name)?;
        Ok(match txn.relation(&schema, &name)? {
            Some((_, false)) => SqlError::new("42809", format!("{} is not {wanted}", quote_ident(&name))),
            _ => error,
        })
    }

    /// Keeps the types of columns from being changed or dropped until the transaction ends.
    pub(super) async fn keep_types(
        &mut self,
        txn: &Transaction,
        types: impl IntoIterator<Item = ColumnType>,
    ) -> Result<(), SqlError> {
        let id_of = |ty: ColumnType| match ty {
            ColumnType::Folded => Some(oid::CITEXT),
            ty => ty.user_type(),
        };
        for id in types.into_iter().filter_map(id_of) {
            self.keep_type(txn, id).await?;
        }
        Ok(())
    }

    /// The same of one, by its id; what is kept: the type's object, or the extension's that it is of.
    pub(super) async fn keep_type(&mut self, txn: &Transaction, id: u32) -> Result<Arc<Table>, SqlError> {
        let gone = || SqlError::new("42704", format!("type with OID {id} does not exist"));
        if id == oid::CITEXT {
            // It goes with its extension.
            let find = |_: &mut Self| txn.object_named(ObjectKind::EXTENSION, "", citext::NAME)?.ok_or_else(gone);
            return self.kept_newest(txn, find).await;
        }
        self.kept_newest(txn, |_| txn.object_by_id(id)?.ok_or_else(gone)).await
    }

    /// Refuses a name that a type has, or a relation, whose rows' type it would be.
    pub(super) fn refuse_taken(&self, txn: &Transaction, schema: &str, name: &str) -> Result<(), SqlError> {
        let is_relation = txn.relation(schema, name)?.is_some_and(|(_, is_index)| !is_index)
            && txn.sequence_named(schema, name)?.is_none();
        if is_relation || txn.object_named(ObjectKind::TYPE, schema, name)?.is_some() {
            return Err(SqlError::new("42710", format!("type \"{name}\" already exists")));
        }
        let extension = match name {
            citext::NAME => txn.object_named(ObjectKind::EXTENSION, "", citext::NAME)?,
            _ => None,
        };
        match extension.is_some_and(|extension| extension.schema == schema) {
            true => Err(SqlError::new("42710", format!("type \"{name}\" already exists"))),
            false => Ok(()),
        }
    }

    /// An oid for a part of a type, above all that parts of types have.
    pub(super) fn part_id(&self, txn: &Transaction) -> Result<u32, SqlError> {
        let types = self.shared.types_now()?;
        let highest = types.iter().map(|ty| ty.body.highest_id()).max().unwrap_or(0);
        Ok(txn.new_part_id(highest)?)
    }

    /// CREATE TYPE.
    pub(super) async fn create_type(
        &mut self,
        name: &ObjectName,
        representation: Option<&UserDefinedTypeRepresentation>,
    ) -> Result<Tag, SqlError> {
        let Some(UserDefinedTypeRepresentation::Enum { labels }) = representation else {
            return Err(unsupported(match representation {
                Some(UserDefinedTypeRepresentation::Composite { .. }) => "a composite type",
                Some(UserDefinedTypeRepresentation::Range { .. }) => "a range type of one's own",
                _ => "a base type of one's own",
            }));
        };
        let txn = self.ddl_transaction("CREATE TYPE")?;
        let (schema, name) = self.place_for_type(&txn, name).await?;
        let array = self.part_id(&txn)?;
        let mut named: Vec<(String, u32)> = Vec::with_capacity(labels.len());
        for label in labels {
            if label.quote_style != Some('\'') {
                return Err(SqlError::syntax(format!("syntax error at or near \"{label}\"")));
            }
            let label = label.value.clone();
            check_label(&label)?;
            if named.iter().any(|(known, _)| *known == label) {
                let text = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
                return Err(
                    SqlError::new("23505", text).with_detail(format!("Key (enumlabel)=({label}) already exists."))
                );
            }
            named.push((label, txn.new_part_id(array)?));
        }
        let body = Body { array, comment: None, kind: Kind::Enum(EnumType::new(named)) };
        let object = CatalogObject::new(ObjectKind::TYPE, body.encode());
        let made = self.settle_ddl(|| txn.create_object(&schema, &name, object.clone())).await?;
        self.own_new_object(&txn, made, Object::Type).await?;
        Ok(Tag::Fixed("CREATE TYPE"))
    }

    /// ALTER TYPE.
    pub(crate) async fn alter_type(&mut self, alter: &AlterType) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("ALTER TYPE");
        self.ddl_deadline = self.deadline();
        let txn = self.ddl_transaction("ALTER TYPE")?;
        let (object, ty) = match self.locked_type(&txn, &alter.name).await {
            Err(error) if error.sqlstate == "42704" => {
                return Err(self.or_relation(&txn, error, &alter.name, "an enum")?);
            }
            found => found?,
        };
        let mut body = ty.body.clone();
        let not_enum = || SqlError::new("42809", format!("{} is not an enum", quote_ident(&ty.name)));
        match &alter.action {
            Action::Rename(to) => {
                self.refuse_taken(&txn, &object.schema, to)?;
                self.reword_type(&txn, &ty, Renamed::Type { to }).await?;
                self.settle_ddl(|| txn.rename_object(&object, &object.schema, to)).await?;
                return Ok(TAG);
            }
            Action::SetSchema(to) => {
                self.move_type(&txn, &object, to).await?;
                return Ok(TAG);
            }
            Action::AddValue { label, if_not_exists, place } => {
                let Kind::Enum(labels) = &mut body.kind else { return Err(not_enum()) };
                check_label(label)?;
                if labels.named(label).is_some() {
                    if *if_not_exists {
                        self.skip(format!("enum label \"{label}\" already exists, skipping"));
                        return Ok(TAG);
                    }
                    return Err(label_exists(label));
                }
                let oid = self.part_id(&txn)?;
                let place = match place {
                    Place::Last => LabelPlace::Last,
                    Place::Before(label) => LabelPlace::Before(label),
                    Place::After(label) => LabelPlace::After(label),
                };
                let by = txn.id().map_or(0, |id| id.0);
                labels.add(label, oid, place, by)?;
            }
            Action::RenameValue { from, to } => {
                let Kind::Enum(labels) = &mut body.kind else { return Err(not_enum()) };
                check_label(to)?;
                if labels.named(from).is_none() {
                    return Err(SqlError::new("22023", format!("\"{from}\" is not an existing enum label")));
                }
                if labels.named(to).is_some() {
                    return Err(label_exists(to));
                }
                labels.rename(from, to);
                self.reword_type(&txn, &ty, Renamed::Label { from, to }).await?;
            }
        }
        self.store_type(&txn, &object, &body).await?;
        Ok(TAG)
    }

    /// Gives a type, which is locked, another body.
    pub(super) async fn store_type(
        &mut self,
        txn: &Transaction,
        object: &Arc<Table>,
        body: &Body,
    ) -> Result<Arc<Table>, SqlError> {
        let needs = object.object.as_ref().map(|object| object.needs.clone()).unwrap_or_default();
        let body = body.encode();
        self.settle_ddl(|| txn.replace_object(object, needs.clone(), body.clone())).await
    }

    /// COMMENT ON TYPE, COMMENT ON DOMAIN.
    pub(super) async fn comment_on_type(
        &mut self,
        domain: bool,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<Tag, SqlError> {
        let comment = super::comment::checked(comment)?;
        let txn = self.ddl_transaction("COMMENT")?;
        let (object, ty) = self.locked_type(&txn, name).await?;
        if domain && ty.as_domain().is_none() {
            return Err(SqlError::new("42809", format!("\"{}\" is not a domain", ty.name)));
        }
        let body = Body { comment: comment.map(str::to_owned), ..ty.body };
        self.store_type(&txn, &object, &body).await?;
        Ok(Tag::Fixed("COMMENT"))
    }

    /// DROP TYPE, DROP DOMAIN.
    pub(crate) async fn drop_types(
        &mut self,
        domains: bool,
        if_exists: bool,
        names: &[ObjectName],
        cascade: bool,
    ) -> Result<Tag, SqlError> {
        let tag = if domains { "DROP DOMAIN" } else { "DROP TYPE" };
        let txn = self.ddl_transaction(tag)?;
        let mut types: Vec<(Arc<Table>, UserType)> = Vec::new();
        for name in names {
            if is_of_extension(name)? {
                let text = format!("cannot drop type {0} because extension {0} requires it", citext::NAME);
                let hint = format!("You can drop extension {} instead.", citext::NAME);
                return Err(SqlError::new("2BP01", text).with_hint(hint));
            }
            match self.locked_type(&txn, name).await {
                Ok((object, _)) if types.iter().any(|(known, _)| known.id == object.id) => {}
                Ok((_, ty)) if domains && ty.as_domain().is_none() => {
                    return Err(SqlError::new("42809", format!("\"{}\" is not a domain", ty.name)));
                }
                Ok(found) => types.push(found),
                Err(error) if if_exists && matches!(error.sqlstate.as_str(), "42704" | "3F000") => {
                    self.skip(format!("{}, skipping", error.message));
                }
                Err(error) => return Err(error),
            }
        }
        self.drop_all_types(&txn, types, cascade).await?;
        Ok(Tag::Fixed(tag))
    }

    /// Drops types, and with `cascade` what needs them.
    async fn drop_all_types(
        &mut self,
        txn: &Transaction,
        types: Vec<(Arc<Table>, UserType)>,
        cascade: bool,
    ) -> Result<(), SqlError> {
        // What others have made with them while they were waited for.
        txn.statement(StatementKind::PointWrite)?;
        let asked = types.len();
        let first = types.first().map(|(_, ty)| called(ty));
        let (mut all, mut at): (Vec<Arc<Table>>, _) = (types.into_iter().map(|(object, _)| object).collect(), 0);
        let mut needing: Vec<Needing> = Vec::new();
        let mut lines = Vec::new();
        while at < all.len() {
            let object = Arc::clone(&all[at]);
            at += 1;
            let ty = UserType::of_object(&object)?;
            for one in needing_type(&self.lookup(txn), &object, &ty)? {
                let is_told = |known: &Needing| known.covers(&one);
                if all.iter().any(|known| known.id == one.entry()) || needing.iter().any(is_told) {
                    continue;
                }
                if let Needing::Domain(entry, _) | Needing::Function(entry, _) = &one {
                    self.settle_ddl(|| txn.lock_for_change(entry)).await?;
                }
                if let Needing::Domain(entry, _) = &one {
                    all.push(Arc::clone(entry));
                }
                lines.push(one.line(&called(&ty)));
                needing.push(one);
            }
        }
        if !lines.is_empty() && !cascade {
            return Err(needed_by(first.as_deref().filter(|_| asked == 1), lines));
        }
        self.tell_of_cascade(&needing.iter().map(|one| one.name().to_owned()).collect::<Vec<_>>());
        self.drop_needing(txn, needing).await?;
        // Those that others are of come last: they are older.
        all.sort_by_key(|object| std::cmp::Reverse(object.id));
        for object in &all {
            if let Some(object) = txn.object_by_id(object.id)? {
                self.settle_ddl(|| txn.drop_object(&object)).await?;
            }
        }
        Ok(())
    }

    /// Drops what needs a type, but for domains.
    pub(super) async fn drop_needing(&mut self, txn: &Transaction, needing: Vec<Needing>) -> Result<(), SqlError> {
        let notices = self.notices.len();
        let (mut users, mut views, mut columns, mut functions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for one in needing {
            match one {
                Needing::User(user) => users.push(user),
                Needing::View(view, _) => views.push(view),
                Needing::Column { table, column, .. } => columns.push((table, column)),
                Needing::Function(entry, _) => functions.push(entry),
                Needing::Domain(..) => {}
            }
        }
        self.drop_users(users).await?;
        for view in views {
            if txn.view_by_id(view.id)?.is_some() {
                self.drop_views(true, &[full_name(&view)], true).await?;
            }
        }
        for (table, column) in columns {
            let Some(table) = txn.table_by_id(table)? else { continue };
            let operation = AlterTableOperation::DropColumn {
                has_column_keyword: true,
                column_names: vec![Ident::with_quote('"', column)],
                if_exists: true,
                drop_behavior: Some(DropBehavior::Cascade),
            };
            let table = self.locked_table(txn, &full_name(&table)).await?;
            self.alter(txn, &table, &operation).await?;
        }
        functions.retain(|entry| txn.object_by_id(entry.id).is_ok_and(|entry| entry.is_some()));
        Box::pin(self.drop_function_entries(txn, functions, true)).await?;
        // What went with these has been told of already.
        self.notices.truncate(notices);
        Ok(())
    }
}
