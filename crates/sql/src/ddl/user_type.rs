//! Types that users make: CREATE, ALTER, DROP and COMMENT ON TYPE. (Domains have more: `domain.rs`.)
//!
//! A type is an object of the catalog, and is locked as a table is: whoever makes something of it keeps it until he ends,
//! whoever changes it or drops it has it for himself.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterTableOperation, DropBehavior, Ident, ObjectName, UserDefinedTypeRepresentation,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use resurgam_engine::{CatalogObject, ColumnType, ObjectKind, Table, Transaction};

use super::needed::needed_by;
use super::type_texts::Renamed;
use super::{check_schema, full_name, name_of, unsupported};
use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::pg::functions::quote_ident;
use crate::pg::roles::acl::Object;
use crate::pg::user_functions::UserFunction;
use crate::pg::user_types::definition::{Kind, LABEL_BYTES_MAX};
use crate::pg::user_types::{Body, EnumType, LabelPlace, UserType};
use crate::plan::lookup::name_in_public;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// ALTER TYPE as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterType {
    name: ObjectName,
    action: Action,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    AddValue { label: String, if_not_exists: bool, place: Place },
    RenameValue { from: String, to: String },
    Rename(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Place {
    Last,
    Before(String),
    After(String),
}

/// The next token as a text in quotes.
pub(crate) fn quoted(words: &mut Words<'_>) -> Result<String, SqlError> {
    let text = match words.peek() {
        Some(Token::SingleQuotedString(text)) => text.clone(),
        Some(Token::EscapedStringLiteral(text)) => text.clone(),
        Some(Token::DollarQuotedString(text)) => text.value.clone(),
        _ => return Err(words.unexpected()),
    };
    words.next();
    Ok(text)
}

/// A name with its schema.
pub(super) fn object_name(words: &mut Words<'_>) -> Result<ObjectName, SqlError> {
    let mut parts = vec![Ident::with_quote('"', words.name()?)];
    while words.take(&Token::Period) {
        parts.push(Ident::with_quote('"', words.name()?));
    }
    Ok(ObjectName::from(parts))
}

/// Reads ALTER TYPE, whose two words are taken already.
///
/// # Errors
/// `42601`, `0A000`.
pub(crate) fn parse(mut words: Words<'_>) -> Result<Own, SqlError> {
    let name = object_name(&mut words)?;
    let action = if words.take_words(&["add", "value"]) {
        let if_not_exists = words.take_words(&["if", "not", "exists"]);
        let label = quoted(&mut words)?;
        let place = if words.take_word("before") {
            Place::Before(quoted(&mut words)?)
        } else if words.take_word("after") {
            Place::After(quoted(&mut words)?)
        } else {
            Place::Last
        };
        Action::AddValue { label, if_not_exists, place }
    } else if words.take_words(&["rename", "value"]) {
        let from = quoted(&mut words)?;
        if !words.take_word("to") {
            return Err(words.unexpected());
        }
        Action::RenameValue { from, to: quoted(&mut words)? }
    } else if words.take_words(&["rename", "to"]) {
        Action::Rename(words.name()?)
    } else if words.take_words(&["rename", "attribute"]) || words.take_words(&["add", "attribute"]) {
        return Err(unsupported("ALTER TYPE of a composite type"));
    } else if words.take_words(&["owner", "to"]) {
        return Err(unsupported("ALTER TYPE … OWNER TO"));
    } else if words.take_word("set") {
        return Err(unsupported("ALTER TYPE … SET"));
    } else {
        return Err(words.unexpected());
    };
    words.expect_end()?;
    Ok(Own::AlterType(Box::new(AlterType { name, action })))
}

/// As errors name a type that is not there.
fn missing(name: &ObjectName) -> SqlError {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
    SqlError::new("42704", format!("type \"{}\" does not exist", parts.join(".")))
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

/// A type as errors call it.
pub(super) fn called(ty: &UserType) -> String {
    match ty.schema.as_str() {
        "public" => format!("type {}", quote_ident(&ty.name)),
        schema => format!("type {}.{}", quote_ident(schema), quote_ident(&ty.name)),
    }
}

impl Session {
    /// The type of that name, as the transaction has it now.
    pub(super) fn type_named(&self, txn: &Transaction, name: &ObjectName) -> Result<Option<Arc<Table>>, SqlError> {
        let (schema, wanted) = name_in_public(name)?;
        Ok(txn.object_named(ObjectKind::TYPE, &schema, &wanted)?)
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
            let Some(object) = session.type_named(txn, name)? else { return Err(missing(name)) };
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
        let (schema, name) = name_in_public(name)?;
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
        for id in types.into_iter().filter_map(ColumnType::user_type) {
            self.keep_type(txn, id).await?;
        }
        Ok(())
    }

    /// The same of one, by its id.
    pub(super) async fn keep_type(&mut self, txn: &Transaction, id: u32) -> Result<Arc<Table>, SqlError> {
        let gone = || SqlError::new("42704", format!("type with OID {id} does not exist"));
        self.kept_newest(txn, |_| txn.object_by_id(id)?.ok_or_else(gone)).await
    }

    /// Refuses a name that a type has, or a relation, whose rows' type it would be.
    pub(super) fn refuse_taken(&self, txn: &Transaction, schema: &str, name: &str) -> Result<(), SqlError> {
        let is_relation = txn.relation(schema, name)?.is_some_and(|(_, is_index)| !is_index)
            && txn.sequence_named(schema, name)?.is_none();
        if is_relation || txn.object_named(ObjectKind::TYPE, schema, name)?.is_some() {
            return Err(SqlError::new("42710", format!("type \"{name}\" already exists")));
        }
        Ok(())
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
        let (schema, name) = self.place_for(&txn, name).await?;
        check_schema(&schema)?;
        self.refuse_taken(&txn, &schema, &name)?;
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
            match self.locked_type(&txn, name).await {
                Ok((object, _)) if types.iter().any(|(known, _)| known.id == object.id) => {}
                Ok((_, ty)) if domains && ty.as_domain().is_none() => {
                    return Err(SqlError::new("42809", format!("\"{}\" is not a domain", ty.name)));
                }
                Ok(found) => types.push(found),
                Err(error) if if_exists && error.sqlstate == "42704" => {
                    self.skip(format!("{}, skipping", error.message));
                }
                Err(error) => return Err(error),
            }
        }
        self.drop_all_types(&txn, types, cascade).await?;
        Ok(Tag::Fixed(tag))
    }

    /// Drops types, and with `cascade` what is of them.
    async fn drop_all_types(
        &mut self,
        txn: &Transaction,
        types: Vec<(Arc<Table>, UserType)>,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let (mut lines, mut told) = (Vec::new(), Vec::new());
        let (mut columns, mut all): (Vec<(u32, String)>, Vec<_>) = (Vec::new(), types);
        let mut functions = Vec::new();
        let asked = all.len();
        let mut at = 0;
        while at < all.len() {
            let (object, ty) = (Arc::clone(&all[at].0), all[at].1.clone());
            at += 1;
            for entry in txn.dependents(object.id)? {
                if entry.object.as_ref().is_some_and(|object| object.kind == ObjectKind::FUNCTION) {
                    let function = UserFunction::of_object(&entry)?;
                    let shown = format!("function {}", self.shown_function(&function));
                    if !told.contains(&shown) {
                        lines.push(format!("{shown} depends on {}", called(&ty)));
                        told.push(shown);
                        self.settle_ddl(|| txn.lock_for_change(&entry)).await?;
                        functions.push(entry);
                    }
                    continue;
                }
                if entry.object.is_some() {
                    if all.iter().any(|(known, _)| known.id == entry.id) {
                        continue;
                    }
                    let domain = UserType::of_object(&entry)?;
                    lines.push(format!("{} depends on {}", called(&domain), called(&ty)));
                    told.push(called(&domain));
                    self.settle_ddl(|| txn.lock_for_change(&entry)).await?;
                    all.push((entry, domain));
                    continue;
                }
                for (number, column) in entry.columns.iter().enumerate() {
                    let is_of = column.ty.user_type() == Some(object.id) || entry.domain(number) == Some(object.id);
                    if !is_of || column.is_hidden() || columns.contains(&(entry.id, column.name.clone())) {
                        continue;
                    }
                    let shown = format!("column {} of table {}", quote_ident(&column.name), quote_ident(&entry.name));
                    lines.push(format!("{shown} depends on {}", called(&ty)));
                    told.push(shown);
                    columns.push((entry.id, column.name.clone()));
                }
            }
            for view in txn.views()? {
                let of_it = |oid: u32| oid == object.id || oid == ty.body.array;
                if view.view.as_ref().is_some_and(|view| view.columns.iter().any(|column| of_it(column.oid)))
                    && !told.contains(&format!("view {}", view.name))
                {
                    lines.push(format!("view {} depends on {}", quote_ident(&view.name), called(&ty)));
                    told.push(format!("view {}", view.name));
                }
            }
        }
        if !lines.is_empty() && !cascade {
            let one = all.first().filter(|_| asked == 1).map(|(_, ty)| called(ty));
            return Err(needed_by(one.as_deref(), lines));
        }
        self.tell_of_cascade(&told);
        let notices = self.notices.len();
        for view in txn.views()? {
            if told.contains(&format!("view {}", view.name)) {
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
        Box::pin(self.drop_function_entries(txn, functions, true)).await?;
        // What went with these has been told of already.
        self.notices.truncate(notices);
        // Those that others are of come last: they are older.
        all.sort_by_key(|(object, _)| std::cmp::Reverse(object.id));
        for (object, _) in &all {
            if let Some(object) = txn.object_by_id(object.id)? {
                self.settle_ddl(|| txn.drop_object(&object)).await?;
            }
        }
        Ok(())
    }
}
