//! DROP SCHEMA, and what goes with it.
//!
//! What needs what is walked as PostgreSQL walks it: from each thing to what needs it, the newest first, each thing once. What
//! was found last is told of first, so that each stands behind the one by which it was found.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use resurgam_engine::{ObjectKind, Table, TableChange, Transaction};

use super::extension_users::{Callee, User, users_of};
use super::full_name;
use super::needed::{called, needed_by};
use super::sequence::defaults_of;
use super::type_users::{Needing, needing_type};
use crate::pg::catalog::schema_body;
use crate::pg::extensions::Installed;
use crate::pg::functions::quote_ident;
use crate::pg::search_path::PUBLIC;
use crate::pg::user_functions::UserFunction;
use crate::pg::user_types::UserType;
use crate::plan::lookup::Lookup;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

fn is_extension(entry: &Table) -> bool {
    entry.object.as_ref().is_some_and(|object| object.kind == ObjectKind::EXTENSION)
}

fn is_function(entry: &Table) -> bool {
    entry.object.as_ref().is_some_and(|object| object.kind == ObjectKind::FUNCTION)
}

/// Something that goes with a schema.
enum Going {
    /// What calls a function of an extension.
    User(User),
    Entry(Arc<Table>),
    /// A foreign key of a table that stays.
    ForeignKey {
        child: u32,
        name: String,
    },
    /// What needs a type, and is no entry or in another schema.
    Needing(Needing),
    /// A DEFAULT of a column of a table that stays.
    Default {
        table: u32,
        column: String,
    },
}

/// A thing that goes, what errors call it, and what it needs.
struct Found {
    going: Going,
    name: String,
    needs: String,
}

/// The walk.
struct Walk<'t> {
    lookup: Lookup<'t>,
    /// Ids of all relations that go.
    all: HashSet<u32>,
    seen: HashSet<(u32, String)>,
    found: Vec<Found>,
}

impl Walk<'_> {
    /// Errors' name of an entry.
    fn name_of(&self, entry: &Table) -> Result<String, SqlError> {
        let word = match entry {
            entry if entry.view.is_some() => return called(&self.lookup, entry),
            entry if entry.sequence.is_some() => "sequence",
            entry if is_extension(entry) => return Ok(format!("extension {}", entry.name)),
            entry if is_function(entry) => {
                let function = UserFunction::of_object(entry)?;
                let signature = function.definition.signature();
                return Ok(match self.lookup.path.place(&function.schema) {
                    Some(_) => format!("function {signature}"),
                    None => format!("function {}.{signature}", quote_ident(&function.schema)),
                });
            }
            entry if entry.object.is_some() => return Ok(super::type_users::called(&UserType::of_object(entry)?)),
            _ => "table",
        };
        Ok(format!("{word} {}", self.lookup.shown(entry)?))
    }

    /// What goes with a schema, without what is a part of another thing.
    fn of_schema(&self, schema: &str) -> Result<Vec<Arc<Table>>, SqlError> {
        let mut all = self.lookup.txn.in_schema(schema)?;
        let is_part = |entry: &Table| entry.sequence.as_ref().is_some_and(|sequence| sequence.owner.is_some());
        all.retain(|entry| !is_part(entry));
        Ok(all)
    }

    /// Collects the ids of everything that goes with an entry.
    fn collect(&mut self, entry: &Arc<Table>) -> Result<(), SqlError> {
        if !self.all.insert(entry.id) {
            return Ok(());
        }
        for owned in &entry.owned {
            self.all.insert(owned.sequence);
        }
        for view in self.lookup.txn.dependent_views(entry.id)? {
            self.collect(&view)?;
        }
        Ok(())
    }

    /// What calls a function, or functions of an extension, and stays itself.
    fn visit_users(&mut self, entry: &Table, name: &str) -> Result<(), SqlError> {
        let installed;
        let callee = if is_extension(entry) {
            installed = Installed::of_object(entry)?;
            Callee::Extension(&installed)
        } else {
            let function = UserFunction::of_object(entry)?;
            Callee::Functions(vec![(function.oid(), function.definition.signature())])
        };
        for user in users_of(&self.lookup, &callee)?.into_iter().rev() {
            if !self.all.contains(&user.entry) && self.seen.insert((user.entry, user.name.clone())) {
                let (name, needs) = (user.name.clone(), name.to_owned());
                self.found.push(Found { going: Going::User(user), name, needs });
            }
        }
        Ok(())
    }

    /// What needs a type and is not visited by itself, newest first.
    fn visit_needing_type(&mut self, entry: &Arc<Table>, name: &str) -> Result<(), SqlError> {
        let ty = UserType::of_object(entry)?;
        for one in needing_type(&self.lookup, entry, &ty)?.into_iter().rev() {
            if self.all.contains(&one.entry()) {
                continue;
            }
            match one {
                Needing::Function(entry, _) | Needing::Domain(entry, _) | Needing::View(entry, _) => {
                    self.collect(&entry)?;
                    self.visit(&entry, name)?;
                }
                one => {
                    if self.seen.insert((one.entry(), one.name().to_owned())) {
                        let (shown, needs) = (one.name().to_owned(), name.to_owned());
                        self.found.push(Found { going: Going::Needing(one), name: shown, needs });
                    }
                }
            }
        }
        Ok(())
    }

    fn visit(&mut self, entry: &Arc<Table>, needs: &str) -> Result<(), SqlError> {
        if !self.seen.insert((entry.id, String::new())) {
            return Ok(());
        }
        let name = self.name_of(entry)?;
        self.visit_needing(entry, &name)?;
        self.found.push(Found { going: Going::Entry(Arc::clone(entry)), name, needs: needs.to_owned() });
        Ok(())
    }

    /// What needs an entry, newest first.
    fn visit_needing(&mut self, entry: &Arc<Table>, name: &str) -> Result<(), SqlError> {
        let txn = self.lookup.txn;
        let mut views = txn.dependent_views(entry.id)?;
        // Policies go with their table.
        views.retain(|view| view.policy_of() != Some(entry.id));
        let mut keys: Vec<(u32, Arc<Table>, String)> = Vec::new();
        for child in txn.referrers(entry.id)? {
            if !self.all.contains(&child.id) {
                let of_it = child.foreign_keys.iter().filter(|key| key.parent == entry.id);
                keys.extend(of_it.map(|key| (key.id, Arc::clone(&child), key.name.clone())));
            }
        }
        keys.sort_by_key(|(id, ..)| *id);
        loop {
            let view = views.last().map(|view| view.id);
            let key = keys.last().map(|(id, ..)| *id);
            if key > view {
                let Some((_, child, key)) = keys.pop() else { break };
                if self.seen.insert((child.id, key.clone())) {
                    let shown = format!("constraint {key} on table {}", self.lookup.shown(&child)?);
                    let going = Going::ForeignKey { child: child.id, name: key };
                    self.found.push(Found { going, name: shown, needs: name.to_owned() });
                }
            } else {
                let Some(view) = views.pop() else { break };
                self.visit(&view, name)?;
            }
        }
        if is_extension(entry) || is_function(entry) {
            self.visit_users(entry, name)?;
        } else if entry.object.is_some() {
            self.visit_needing_type(entry, name)?;
        }
        if entry.sequence.is_some() {
            self.visit_defaults(entry, name)?;
        }
        for owned in entry.owned.iter().rev() {
            if let Some(sequence) = txn.sequence_by_id(owned.sequence)? {
                let name = self.name_of(&sequence)?;
                self.visit_defaults(&sequence, &name)?;
            }
        }
        Ok(())
    }

    fn visit_defaults(&mut self, sequence: &Arc<Table>, name: &str) -> Result<(), SqlError> {
        for (table, at) in defaults_of(self.lookup.txn, sequence)?.into_iter().rev() {
            let column = table.columns[at].name.clone();
            if self.all.contains(&table.id) || !self.seen.insert((table.id, format!("default {column}"))) {
                continue;
            }
            let shown = format!("default value for column {column} of table {}", self.lookup.shown(&table)?);
            let going = Going::Default { table: table.id, column };
            self.found.push(Found { going, name: shown, needs: name.to_owned() });
        }
        Ok(())
    }
}

impl Session {
    /// DROP SCHEMA.
    pub(super) async fn drop_schemas(
        &mut self,
        if_exists: bool,
        names: &[ObjectName],
        cascade: bool,
    ) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("DROP SCHEMA");
        let txn = self.ddl_transaction("DROP SCHEMA")?;
        let mut schemas: Vec<Arc<Table>> = Vec::new();
        for name in names {
            let name = Self::schema_name(name)?;
            if crate::pg::catalog::is_system_schema(&name) {
                let text = format!("cannot drop schema {name} because it is required by the database system");
                return Err(SqlError::new("2BP01", text));
            }
            match self.schema_alone(&txn, &name).await {
                Ok(schema) if schemas.iter().any(|known| known.id == schema.id) => {}
                Ok(schema) => schemas.push(schema),
                Err(error) if error.sqlstate == "3F000" && if_exists => {
                    self.skip(format!("schema \"{name}\" does not exist, skipping"));
                }
                Err(error) => return Err(error),
            }
        }
        let lookup = self.lookup(&txn);
        let mut walk = Walk { lookup, all: HashSet::new(), seen: HashSet::new(), found: Vec::new() };
        for schema in &schemas {
            for entry in walk.of_schema(&schema.name)? {
                walk.collect(&entry)?;
            }
        }
        for schema in &schemas {
            let needs = format!("schema {}", quote_ident(&schema.name));
            for entry in walk.of_schema(&schema.name)?.iter().rev() {
                walk.visit(entry, &needs)?;
            }
        }
        let all = walk.all;
        let mut found = walk.found;
        found.reverse();
        if !found.is_empty() && !cascade {
            let dropped = match schemas.as_slice() {
                [one] => Some(format!("schema {}", quote_ident(&one.name))),
                _ => None,
            };
            let lines = found.iter().map(|one| format!("{} depends on {}", one.name, one.needs)).collect();
            return Err(needed_by(dropped.as_deref(), lines));
        }
        self.tell_of_cascade(&found.iter().map(|one| one.name.clone()).collect::<Vec<_>>());
        self.drop_found(&txn, found, &all).await?;
        for schema in &schemas {
            self.move_defaults(&txn, &schema.name, None).await?;
            // It may have changed with what was in it.
            let schema = self.schema_to_change(&txn, &schema.name).await?;
            match schema.name == PUBLIC {
                true => _ = self.settle_ddl(|| txn.replace_object(&schema, Vec::new(), schema_body(true))).await?,
                false => self.settle_ddl(|| txn.drop_object(&schema)).await?,
            }
        }
        Ok(TAG)
    }

    /// Drops what goes: what needs others first.
    async fn drop_found(&mut self, txn: &Transaction, found: Vec<Found>, all: &HashSet<u32>) -> Result<(), SqlError> {
        let (mut views, mut tables, mut sequences, mut objects) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut users, mut needing) = (Vec::new(), Vec::new());
        for one in found {
            match one.going {
                Going::User(user) => users.push(user),
                Going::Needing(one) => needing.push(one),
                Going::Entry(entry) if entry.view.is_some() => views.push(entry),
                Going::Entry(entry) if entry.sequence.is_some() => sequences.push(entry),
                Going::Entry(entry) if entry.object.is_some() => objects.push(entry),
                Going::Entry(entry) => tables.push(entry),
                Going::ForeignKey { child, name } => {
                    let Some(child) = txn.table_by_id(child)? else { continue };
                    let child = self.locked_table(txn, &full_name(&child)).await?;
                    self.settle_ddl(|| txn.drop_foreign_key(&child, &name)).await?;
                }
                Going::Default { table, column } => {
                    let Some(table) = txn.table_by_id(table)? else { continue };
                    let table = self.locked_table(txn, &full_name(&table)).await?;
                    if let Some(at) = table.columns.iter().position(|known| known.name == column) {
                        self.change(txn, &table, TableChange::SetDefault(at, None)).await?;
                    }
                }
            }
        }
        self.drop_users(users).await?;
        self.drop_needing(txn, needing).await?;
        views.retain(|view| txn.view_by_id(view.id).is_ok_and(|view| view.is_some()));
        self.drop_all_views(txn, views).await?;
        // Keys between tables that go together.
        for table in &tables {
            while let Some(now) = txn.table_by_id(table.id)? {
                let among = now.foreign_keys.iter().find(|key| key.parent != now.id && all.contains(&key.parent));
                let Some(name) = among.map(|key| key.name.clone()) else { break };
                let now = self.locked_table(txn, &full_name(&now)).await?;
                self.refuse_if_pending(&now, "DROP TABLE")?;
                self.settle_ddl(|| txn.drop_foreign_key(&now, &name)).await?;
            }
        }
        for table in &tables {
            let Some(now) = txn.table_by_id(table.id)? else { continue };
            let now = self.locked_table(txn, &full_name(&now)).await?;
            self.refuse_if_pending(&now, "DROP TABLE")?;
            self.drop_policies_of(txn, &now).await?;
            self.settle_ddl(|| txn.drop_table(&now)).await?;
            for owned in &now.owned {
                sequences.extend(txn.sequence_by_id(owned.sequence)?);
            }
        }
        for sequence in &sequences {
            let sequence = self.locked_sequence(txn, &full_name(sequence)).await?;
            self.settle_ddl(|| txn.drop_sequence(&sequence)).await?;
        }
        // Functions need types, and domains those that they are of, which are older.
        objects.sort_by_key(|entry| (is_function(entry), entry.id));
        for object in objects.iter().rev() {
            self.settle_ddl(|| txn.drop_object(object)).await?;
        }
        Ok(())
    }
}
