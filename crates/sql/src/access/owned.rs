//! Owners: OWNER TO, REASSIGN OWNED, DROP OWNED, and what keeps a role from being dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_engine::{Access, Grant, ObjectKind, Table, Transaction};

use crate::parse::statement::owner::{OwnerCommand, What};
use crate::parse::statement::role::Spec;
use crate::pg::policies::Policy;
use crate::pg::roles::acl::{self, Object, privilege as p};
use crate::pg::roles::{DefaultPrivileges, Rights};
use crate::pg::user_functions::UserFunction;
use crate::pg::user_types::UserType;
use crate::plan::needs::{access_of, word_of};
use crate::session::Session;
use crate::wire::{Execution, SqlError, Tag};

/// One thing that has to do with a role, as DETAIL tells of it.
pub(super) struct Held {
    text: String,
}

/// How many of them are told.
const SHOWN_MAX: usize = 100;

/// The lines of DETAIL.
pub(super) fn shown(held: &[Held]) -> String {
    let lines: Vec<&str> = held.iter().take(SHOWN_MAX).map(|held| held.text.as_str()).collect();
    lines.join("\n")
}

/// As messages call an entry: with its schema where the search path does not have it.
fn named(entry: &Table) -> String {
    let name = crate::pg::functions::quote_ident(&entry.name);
    format!("{} {}", word_of(entry), in_schema(&entry.schema, &name))
}

fn in_schema(schema: &str, name: &str) -> String {
    match schema {
        "public" | "" => name.to_owned(),
        schema => format!("{}.{name}", crate::pg::functions::quote_ident(schema)),
    }
}

/// Whether rights are that role's, or were given by it.
fn names(grant: &Grant, role: u32) -> bool {
    grant.grantee == role || grant.grantor == role
}

fn is_named(access: &Access, role: u32) -> bool {
    access.roles().any(|named| named == role)
}

/// What a role owns, or has been given rights to, here.
///
/// # Errors
/// Those of reading the catalog.
pub(super) fn what_holds(txn: &Transaction, rights: &Rights, role: u32) -> Result<Vec<Held>, SqlError> {
    let mut out = Vec::new();
    let mut note = |access: &Access, what: String| {
        let named = access.grants.iter().flatten().any(|grant| names(grant, role));
        if access.owner == role {
            out.push(Held { text: format!("owner of {what}") });
        } else if named {
            out.push(Held { text: format!("privileges for {what}") });
        }
    };
    for schema in txn.objects(ObjectKind::SCHEMA)? {
        note(access_of(&schema), format!("schema {}", schema.name));
    }
    let mut entries: Vec<Arc<Table>> = txn.tables()?.into_iter().chain(txn.views()?).chain(txn.sequences()?).collect();
    entries.sort_by_key(|entry| entry.id);
    for entry in &entries {
        note(access_of(entry), named(entry));
    }
    for entry in txn.objects(ObjectKind::TYPE)? {
        note(access_of(&entry), format!("type {}", entry.name));
    }
    for entry in txn.objects(ObjectKind::EXTENSION)? {
        note(access_of(&entry), format!("extension {}", entry.name));
    }
    let mut functions = txn.objects(ObjectKind::FUNCTION)?;
    functions.sort_by_key(|entry| entry.id);
    for entry in &functions {
        let signature = UserFunction::of_object(entry)?.definition.signature();
        note(access_of(entry), format!("function {}", in_schema(&entry.schema, &signature)));
    }
    for database in txn.objects(ObjectKind::DATABASE)? {
        note(access_of(&database), format!("database {}", database.name));
    }
    for entry in &entries {
        for (at, grants) in &access_of(entry).columns {
            if grants.iter().any(|grant| names(grant, role)) {
                let columns = entry.view.as_ref().map(|view| view.columns.get(*at).map(|column| &column.name));
                let column = columns.unwrap_or_else(|| entry.columns.get(*at).map(|column| &column.name));
                let column = column.map_or("", |name| name.as_str());
                out.push(Held { text: format!("privileges for column {column} of {}", named(entry)) });
            }
        }
    }
    for entry in txn.objects(ObjectKind::POLICY)? {
        let policy = Policy::of_entry(&entry)?;
        if policy.rule.roles.contains(&role)
            && let Some(table) = txn.table_by_id(policy.table)?
        {
            let name = crate::pg::functions::quote_ident(policy.name());
            out.push(Held { text: format!("target of policy {name} on {}", named(&table)) });
        }
    }
    for defaults in &rights.defaults {
        let named = defaults.grants.iter().any(|grant| grant.grantee == role || grant.grantor == role);
        if defaults.role == role || named {
            let place = match defaults.schema.as_str() {
                "" => String::new(),
                schema => format!(" in schema {schema}"),
            };
            let what = match defaults.object {
                Object::Sequence => "sequences",
                _ => "relations",
            };
            let of = rights.name(defaults.role);
            let text = format!("privileges for default privileges on new {what} belonging to role {of}{place}");
            let text =
                if defaults.role == role { format!("owner of {}", &text["privileges for ".len()..]) } else { text };
            out.push(Held { text });
        }
    }
    out.extend(held_elsewhere(txn, rights, role)?);
    Ok(out)
}

/// How much of other databases has to do with a role, by database. What is left of dropped ones does not count.
fn held_elsewhere(txn: &Transaction, rights: &Rights, role: u32) -> Result<Vec<Held>, SqlError> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for entry in txn.entries_everywhere()? {
        let Some(database) = entry.database().filter(|database| *database != txn.database()) else { continue };
        let access = access_of(&entry);
        let named = |grants: &[Grant]| grants.iter().any(|grant| names(grant, role));
        let whole = access.owner == role || named(access.grants.as_deref().unwrap_or_default());
        let columns = access.columns.iter().filter(|(_, grants)| named(grants)).count();
        let defaults = match &entry.object {
            Some(object) if object.kind == ObjectKind::DEFAULT_PRIVILEGES => {
                let defaults = DefaultPrivileges::decode(entry.id, &object.body)?;
                defaults.role == role || named(&defaults.grants)
            }
            _ => false,
        };
        let count = usize::from(whole) + columns + usize::from(defaults);
        if count > 0 {
            *counts.entry(database).or_default() += count;
        }
    }
    let lines = counts.into_iter().filter_map(|(oid, count)| {
        let name = &rights.database_by_oid(oid)?.name;
        let objects = if count == 1 { "object" } else { "objects" };
        Some(Held { text: format!("{count} {objects} in database {name}") })
    });
    Ok(lines.collect())
}

/// A sequence that belongs to a column has its table's owner, and is told of by that.
fn goes_with_table(entry: &Table) -> bool {
    entry.sequence.as_ref().is_some_and(|sequence| sequence.owner.is_some())
}

impl Session {
    /// Gives an object that is no relation to a role; errors call it so.
    ///
    /// # Errors
    /// `42501`, `42704`.
    pub(crate) async fn give_object(
        &mut self,
        txn: &Transaction,
        entry: &Arc<Table>,
        (word, name): (&str, &str),
        to: &Spec,
    ) -> Result<(), SqlError> {
        let rights = self.db.rights(Some(txn))?;
        let to = self.role_of(&rights, to)?;
        let access = access_of(entry);
        if access.owner == to {
            return Ok(());
        }
        if !rights.is_superuser(self.role()) {
            if !rights.has_rights_of(self.role(), access.owner) {
                return Err(crate::plan::needs::not_owner(word, name));
            }
            self.may_give_to(&rights, to)?;
            if rights.allowed(to, &rights.schema(&entry.schema), Object::Schema, p::CREATE) == 0 {
                return Err(crate::plan::needs::denied("schema", &entry.schema));
            }
        }
        self.keep_role(txn, to).await?;
        let access = given_to(access, to);
        self.store_access(txn, entry, access).await?;
        Ok(())
    }

    /// Runs ALTER … OWNER TO.
    pub(crate) async fn run_owner(&mut self, command: &OwnerCommand) -> Result<Execution, SqlError> {
        self.ddl_deadline = self.deadline();
        let txn = self.ddl_transaction(command.tag)?;
        let done = Ok(Execution::Command { tag: Tag::Fixed(command.tag) });
        match command.what {
            What::Schema | What::Database => {
                let rights = self.db.rights(Some(&txn))?;
                let name = command.name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone());
                let name = name.unwrap_or_default();
                let to = self.role_of(&rights, &command.to)?;
                if command.what == What::Database {
                    let database = rights.database_named(&name)?;
                    if database.access.owner == to {
                        return done;
                    }
                    self.must_own_database(&rights, database)?;
                    self.may_give_to(&rights, to)?;
                    if !self.may_create_databases(&rights) {
                        let text = "permission denied to change owner of database";
                        return Err(SqlError::new("42501", text));
                    }
                    self.keep_role(&txn, to).await?;
                    let (entry, database) = self.locked_database(&txn, &name).await?;
                    let access = given_to(&database.access, to);
                    self.store_access(&txn, &entry, access).await?;
                    return done;
                }
                self.schema_must_exist(&txn, &name)?;
                let access = rights.schema(&name);
                if access.owner == to {
                    return done;
                }
                if !rights.has_rights_of(self.role(), access.owner) {
                    return Err(crate::plan::needs::not_owner("schema", &name));
                }
                self.may_give_to(&rights, to)?;
                if rights.allowed(self.role(), &rights.database, Object::Database, p::CREATE) == 0 {
                    return Err(crate::plan::needs::denied("database", &self.shared.database_name));
                }
                self.keep_role(&txn, to).await?;
                self.store_schema_access(&txn, &name, given_to(&access, to)).await?;
                done
            }
            What::Type | What::Domain => {
                let entry = self.type_to_give(&txn, command)?;
                self.give_object(&txn, &entry, ("type", &entry.name), &command.to).await?;
                done
            }
            _ => {
                let entry = match command.what {
                    What::Index => {
                        let (schema, wanted) = self.lookup(&txn).place(&command.name)?;
                        match txn.table_of_index(&schema, &wanted)? {
                            Some(table) => {
                                self.must_own(&table)?;
                                let text = format!("cannot change owner of index \"{wanted}\"");
                                return Err(SqlError::new("42809", text)
                                    .with_hint("Change the ownership of the index's table instead."));
                            }
                            None => self.relation_named(&txn, &command.name),
                        }
                    }
                    _ => self.relation_named(&txn, &command.name),
                };
                let entry = match entry {
                    Err(error) if command.if_exists && error.sqlstate == "42P01" => {
                        let shown = crate::parse::names::last_name(&command.name)?;
                        self.skip(format!("relation \"{shown}\" does not exist, skipping"));
                        return done;
                    }
                    entry => entry?,
                };
                let word = match command.what {
                    What::View if entry.view.is_none() => Some("a view"),
                    What::Sequence if entry.sequence.is_none() => Some("a sequence"),
                    _ => None,
                };
                if let Some(word) = word {
                    return Err(SqlError::new("42809", format!("\"{}\" is not {word}", entry.name)));
                }
                let rights = self.db.rights(Some(&txn))?;
                let to = self.role_of(&rights, &command.to)?;
                self.give_relation(&txn, &entry, to).await?;
                done
            }
        }
    }

    /// The type that a statement gives another owner.
    fn type_to_give(&self, txn: &Transaction, command: &OwnerCommand) -> Result<Arc<Table>, SqlError> {
        let parts = command.name.0.iter().filter_map(|part| part.as_ident());
        let shown: Vec<&str> = parts.map(|part| part.value.as_str()).collect();
        let missing = || SqlError::new("42704", format!("type \"{}\" does not exist", shown.join(".")));
        let entry = self.type_named(txn, &command.name)?.ok_or_else(missing)?;
        if command.what == What::Domain && UserType::of_object(&entry)?.as_domain().is_none() {
            return Err(SqlError::new("42809", format!("\"{}\" is not a domain", entry.name)));
        }
        Ok(entry)
    }

    /// # Errors
    /// `42501` unless it is a member of the role that it gives something to.
    pub(crate) fn may_give_to(&self, rights: &Rights, to: u32) -> Result<(), SqlError> {
        if rights.is_member_of(self.role(), to) {
            return Ok(());
        }
        Err(SqlError::new("42501", format!("must be member of role \"{}\"", rights.name(to))))
    }

    /// Gives a relation another owner, with what is allowed to whoever asks for it (`ATExecChangeOwner`).
    async fn give_relation(&mut self, txn: &Transaction, entry: &Arc<Table>, to: u32) -> Result<(), SqlError> {
        if access_of(entry).owner == to {
            return Ok(());
        }
        let rights = self.db.rights(Some(txn))?;
        if !rights.is_superuser(self.role()) {
            self.must_own(entry)?;
            self.may_give_to(&rights, to)?;
            if rights.allowed(to, &rights.schema(&entry.schema), Object::Schema, p::CREATE) == 0 {
                return Err(crate::plan::needs::denied("schema", &entry.schema));
            }
        }
        if let Some(owner) = entry.sequence.as_ref().and_then(|sequence| sequence.owner)
            && let Some(table) = txn.table_by_id(owner)?
        {
            let detail = format!("Sequence \"{}\" is linked to table \"{}\".", entry.name, table.name);
            return Err(SqlError::unsupported("cannot change owner of sequence \"".to_owned() + &entry.name + "\"")
                .with_detail(detail));
        }
        self.keep_role(txn, to).await?;
        self.hand_over_relation(txn, entry, to).await
    }

    /// The same without a question: with the sequences of its columns.
    async fn hand_over_relation(&mut self, txn: &Transaction, entry: &Arc<Table>, to: u32) -> Result<(), SqlError> {
        let entry = self.locked_entry(txn, entry).await?;
        let access = given_to(access_of(&entry), to);
        let entry = self.store_access(txn, &entry, access).await?;
        for owned in &entry.owned {
            if let Some(sequence) = txn.sequence_by_id(owned.sequence)? {
                let sequence = self.locked_entry(txn, &sequence).await?;
                let access = given_to(access_of(&sequence), to);
                self.store_access(txn, &sequence, access).await?;
            }
        }
        Ok(())
    }

    /// The roles of a list, whose objects it may treat as its own.
    fn roles_that_are_ours(&self, rights: &Rights, specs: &[Spec], what: &str) -> Result<Vec<u32>, SqlError> {
        let mut roles = Vec::with_capacity(specs.len());
        for spec in specs {
            let role = self.role_of(rights, spec)?;
            if !rights.has_rights_of(self.role(), role) {
                return Err(SqlError::new("42501", format!("permission denied to {what} objects")));
            }
            if role == resurgam_engine::FIRST_ROLE || rights.get(role).is_some_and(|role| role.is_reserved()) {
                let text = format!(
                    "cannot {what} objects owned by role {} because they are required by the database system",
                    rights.name(role)
                );
                return Err(SqlError::new("2BP01", text));
            }
            roles.push(role);
        }
        Ok(roles)
    }

    pub(super) async fn reassign_owned(&mut self, from: &[Spec], to: &Spec) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("REASSIGN OWNED")?;
        let rights = self.db.rights(Some(&txn))?;
        let from = self.roles_that_are_ours(&rights, from, "reassign")?;
        let to = self.role_of(&rights, to)?;
        if !rights.has_rights_of(self.role(), to) {
            return Err(SqlError::new("42501", "permission denied to reassign objects"));
        }
        self.keep_role(&txn, to).await?;
        let entries = txn.tables()?.into_iter().chain(txn.views()?).chain(txn.sequences()?);
        let entries: Vec<Arc<Table>> =
            entries.filter(|entry| from.contains(&access_of(entry).owner) && !goes_with_table(entry)).collect();
        for entry in entries {
            self.hand_over_relation(&txn, &entry, to).await?;
        }
        let kinds =
            [ObjectKind::SCHEMA, ObjectKind::TYPE, ObjectKind::EXTENSION, ObjectKind::FUNCTION, ObjectKind::DATABASE];
        for kind in kinds {
            for entry in txn.objects(kind)? {
                if from.contains(&access_of(&entry).owner) {
                    let access = given_to(access_of(&entry), to);
                    self.store_access(&txn, &entry, access).await?;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn drop_owned_by(&mut self, specs: &[Spec], cascade: bool) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("DROP OWNED")?;
        let rights = self.db.rights(Some(&txn))?;
        let roles = self.roles_that_are_ours(&rights, specs, "drop")?;
        let of = |entry: &Arc<Table>| roles.contains(&access_of(entry).owner) && !goes_with_table(entry);
        let quoted = |entry: &Table| {
            let quote = crate::pg::functions::quote_ident;
            format!("{}.{}", quote(&entry.schema), quote(&entry.name))
        };
        // Views first: they read what goes with them.
        let views: Vec<String> = txn.views()?.iter().filter(|entry| of(entry)).map(|entry| quoted(entry)).collect();
        let tables: Vec<String> = txn.tables()?.iter().filter(|entry| of(entry)).map(|entry| quoted(entry)).collect();
        for (kind, names) in [("VIEW", views), ("TABLE", tables)] {
            self.drop_named(kind, &names, cascade).await?;
        }
        let sequences = txn.sequences()?;
        let sequences: Vec<String> = sequences.iter().filter(|entry| of(entry)).map(|entry| quoted(entry)).collect();
        self.drop_named("SEQUENCE", &sequences, cascade).await?;
        let mut functions = txn.objects(ObjectKind::FUNCTION)?;
        functions.retain(&of);
        for function in &functions {
            self.settle_ddl(|| txn.lock_for_change(function)).await?;
        }
        Box::pin(self.drop_function_entries(&txn, functions, cascade)).await?;
        let types = txn.objects(ObjectKind::TYPE)?;
        let types: Vec<String> = types.iter().filter(|entry| of(entry)).map(|entry| quoted(entry)).collect();
        self.drop_named("TYPE", &types, cascade).await?;
        let extensions = txn.objects(ObjectKind::EXTENSION)?;
        let extensions =
            extensions.iter().filter(|entry| of(entry)).map(|entry| entry.name.clone()).collect::<Vec<_>>();
        Box::pin(self.drop_extensions(&extensions, false, cascade)).await?;
        for entry in txn.tables()?.into_iter().chain(txn.views()?).chain(txn.sequences()?) {
            let access = access_of(&entry);
            if roles.iter().any(|role| is_named(access, *role)) {
                let access = without(access, crate::plan::needs::object_of(&entry), &rights, &roles)?;
                let entry = self.locked_entry(&txn, &entry).await?;
                self.store_access(&txn, &entry, access).await?;
            }
        }
        let kinds = [
            (ObjectKind::SCHEMA, Object::Schema),
            (ObjectKind::DATABASE, Object::Database),
            (ObjectKind::FUNCTION, Object::Function),
        ];
        for (kind, object) in kinds {
            for entry in txn.objects(kind)? {
                let access = access_of(&entry);
                // What is theirs stays as it is, and of what nobody has granted nothing is taken.
                let is_others = access.grants.is_some() && !roles.contains(&access.owner);
                if is_others && roles.iter().any(|role| is_named(access, *role)) {
                    let access = without(access, object, &rights, &roles)?;
                    self.store_access(&txn, &entry, access).await?;
                }
            }
        }
        self.drop_roles_of_policies(&txn, &roles).await?;
        for mut defaults in rights.defaults.clone() {
            let drop = roles.contains(&defaults.role);
            let before = defaults.grants.len();
            defaults.grants.retain(|grant| !roles.contains(&grant.grantee) && !roles.contains(&grant.grantor));
            if drop || defaults.grants.len() != before {
                self.store_defaults(&txn, &defaults, drop).await?;
            }
        }
        Ok(())
    }

    async fn drop_named(&mut self, kind: &str, names: &[String], cascade: bool) -> Result<(), SqlError> {
        if names.is_empty() {
            return Ok(());
        }
        let text = format!("DROP {kind} {}{}", names.join(", "), if cascade { " CASCADE" } else { "" });
        let mut statements = crate::parse::read::parse_known(&text)?;
        let Some(statement) = statements.pop() else { return Err(SqlError::internal("a DROP that is none")) };
        Box::pin(self.ddl(&statement, &text)).await.map(|_| ())
    }

    /// Gives a schema other rights, or another owner.
    pub(super) async fn store_schema_access(
        &mut self,
        txn: &Transaction,
        name: &str,
        access: Access,
    ) -> Result<(), SqlError> {
        let Some(entry) = txn.object_named(ObjectKind::SCHEMA, "", name)? else {
            if name != "public" {
                return Err(SqlError::unsupported("rights to schemas of the system do not change"));
            }
            let object = resurgam_engine::CatalogObject::new(ObjectKind::SCHEMA, Vec::new());
            let entry = self.settle_ddl(|| txn.create_object("", name, object.clone())).await?;
            return self.store_access(txn, &entry, access).await.map(|_| ());
        };
        self.settle_ddl(|| txn.lock_for_change(&entry)).await?;
        self.store_access(txn, &entry, access).await.map(|_| ())
    }
}

/// An access with another owner.
fn given_to(access: &Access, to: u32) -> Access {
    let from = access.owner;
    let mut out = access.clone();
    out.owner = to;
    if let Some(grants) = &mut out.grants {
        acl::change_owner(grants, from, to);
    }
    for (_, grants) in &mut out.columns {
        acl::change_owner(grants, from, to);
    }
    out
}

/// An access without these roles, who own nothing of it.
fn without(access: &Access, object: Object, rights: &Rights, roles: &[u32]) -> Result<Access, SqlError> {
    let mut out = access.clone();
    let mut grants = acl::grants_of(access, object).into_owned();
    let strip = |grants: &mut Vec<Grant>| -> Result<(), SqlError> {
        while let Some(grant) = grants.iter().find(|grant| roles.contains(&grant.grantee)).copied() {
            let taken = Grant { privileges: u32::MAX, options: u32::MAX, ..grant };
            acl::revoke(grants, access.owner, rights, taken, true)?;
        }
        grants.retain(|grant| !roles.contains(&grant.grantor));
        Ok(())
    };
    strip(&mut grants)?;
    out.grants = Some(grants);
    for (_, grants) in &mut out.columns {
        strip(grants)?;
    }
    out.columns.retain(|(_, grants)| !grants.is_empty());
    Ok(out)
}
