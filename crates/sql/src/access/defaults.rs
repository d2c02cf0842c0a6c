//! What an object has from when it is made: its owner, and the rights that ALTER DEFAULT PRIVILEGES gives to those of its
//! kind.

use std::sync::Arc;

use resurgam_engine::{Access, CatalogObject, FIRST_ROLE, Grant, ObjectKind, Table, Transaction};

use crate::parse::statement::grant::{DefaultsCommand, Target};
use crate::pg::catalog::is_system_schema;
use crate::pg::roles::acl::{Object, default_grants};
use crate::pg::roles::{DefaultPrivileges, Rights};
use crate::pg::search_path::is_temporary;
use crate::plan::needs::{access_of, object_of};
use crate::session::Session;
use crate::wire::{Execution, SqlError, Tag};

/// The access of something that a role makes in a schema.
fn access_of_new(rights: &Rights, role: u32, schema: &str, object: Object) -> Access {
    let find = |schema: &str| {
        rights.defaults.iter().find(|known| known.role == role && known.object == object && known.schema == schema)
    };
    let (everywhere, here) = (find(""), find(schema).filter(|_| !schema.is_empty()));
    if everywhere.is_none() && here.is_none() {
        return Access::of(role);
    }
    let usual = default_grants(object, role);
    let mut grants = everywhere.map_or_else(|| usual.clone(), |known| known.grants.clone());
    for grant in here.iter().flat_map(|known| &known.grants) {
        match grants.iter_mut().find(|known| (known.grantee, known.grantor) == (grant.grantee, grant.grantor)) {
            Some(known) => {
                known.privileges |= grant.privileges;
                known.options |= grant.options;
            }
            None => grants.push(*grant),
        }
    }
    // In the order in which PostgreSQL keeps what it merged.
    let mut usual = usual;
    for list in [&mut grants, &mut usual] {
        list.sort_by_key(|grant| (grant.grantee, grant.grantor));
    }
    let grants = Some(grants).filter(|grants| *grants != usual);
    Access { grants, ..Access::of(role) }
}

impl Session {
    /// Makes a new entry the role's own, with the rights that its objects get.
    pub(crate) async fn own_new(&mut self, txn: &Transaction, entry: Arc<Table>) -> Result<Arc<Table>, SqlError> {
        let role = self.role();
        // Of a transaction that makes many things they are not read again for each.
        let own = role != FIRST_ROLE || self.has_changed_defaults;
        let rights = self.db.rights(Some(txn).filter(|_| own))?;
        if role == FIRST_ROLE && rights.defaults.is_empty() {
            return Ok(entry);
        }
        let access = access_of_new(&rights, role, &entry.schema, object_of(&entry));
        self.store_access(txn, &entry, access).await
    }

    /// The same of an object that is no relation.
    pub(crate) async fn own_new_object(
        &mut self,
        txn: &Transaction,
        entry: Arc<Table>,
        object: Object,
    ) -> Result<Arc<Table>, SqlError> {
        let role = self.role();
        let rights = self.db.rights(Some(txn))?;
        let access = access_of_new(&rights, role, &entry.schema, object);
        self.store_access(txn, &entry, access).await
    }

    /// Whether a view's relations are read with the rights of whoever reads it, and whether its conditions come before others
    /// that could tell of rows.
    pub(crate) async fn set_security(
        &mut self,
        txn: &Transaction,
        view: Arc<Table>,
        (invoker, barrier): (bool, bool),
    ) -> Result<Arc<Table>, SqlError> {
        let access = Access { invoker, barrier, ..access_of(&view).clone() };
        self.store_access(txn, &view, access).await
    }

    /// ALTER DEFAULT PRIVILEGES.
    pub(crate) async fn run_defaults(&mut self, command: &DefaultsCommand) -> Result<Execution, SqlError> {
        const TAG: &str = "ALTER DEFAULT PRIVILEGES";
        self.ddl_deadline = self.deadline();
        let txn = self.ddl_transaction(TAG)?;
        let rights = self.db.rights(Some(&txn))?;
        let Target::Defaults(object) = command.grant.target else {
            return Err(SqlError::internal("not default privileges"));
        };
        if !matches!(object, Object::Table | Object::Sequence | Object::Function) {
            let what = format!("default privileges on {}s are not supported", object.word());
            return Err(SqlError::unsupported(what));
        }
        let mut roles = Vec::new();
        for spec in command.roles.iter().flatten() {
            let role = self.role_of(&rights, spec)?;
            if !rights.is_member_of(self.role(), role) {
                return Err(SqlError::new("42501", format!("must be member of role \"{}\"", rights.name(role))));
            }
            roles.push(role);
        }
        if command.roles.is_none() {
            roles.push(self.role());
        }
        self.has_changed_defaults = true;
        let change = self.change_of(&txn, &command.grant, &rights).await?;
        let schemas = command.schemas.clone().unwrap_or_else(|| vec![String::new()]);
        for role in roles {
            self.keep_role(&txn, role).await?;
            for schema in &schemas {
                if !schema.is_empty() {
                    // Whoever drops it takes them along.
                    self.schema_must_exist(&txn, schema)?;
                    if !is_system_schema(schema) && !is_temporary(schema) {
                        self.keep_existing_schema(&txn, schema).await?;
                    }
                }
                let rights = self.db.rights(Some(&txn))?;
                let known = rights
                    .defaults
                    .iter()
                    .find(|known| known.role == role && known.object == object && known.schema == *schema);
                let usual = if schema.is_empty() { default_grants(object, role) } else { Vec::new() };
                let mut grants: Vec<Grant> = known.map_or_else(|| usual.clone(), |known| known.grants.clone());
                self.changed_defaults(&rights, &mut grants, role, command, object, &change)?;
                let mut usual = usual;
                for list in [&mut grants, &mut usual] {
                    list.sort_by_key(|grant| (grant.grantee, grant.grantor));
                }
                let entry = known.map_or(0, |known| known.entry);
                let defaults = DefaultPrivileges { entry, role, schema: schema.clone(), object, grants };
                let is_usual = defaults.grants == usual;
                self.store_defaults(&txn, &defaults, is_usual).await?;
            }
        }
        Ok(Execution::Command { tag: Tag::Fixed(TAG) })
    }

    /// `drop`: they are those that there are anyway.
    pub(super) async fn store_defaults(
        &mut self,
        txn: &Transaction,
        defaults: &DefaultPrivileges,
        drop: bool,
    ) -> Result<(), SqlError> {
        let before = match defaults.entry {
            0 => None,
            entry => txn.object_by_id(entry)?,
        };
        let body = defaults.encode();
        match before {
            Some(entry) if drop => self.settle_ddl(|| txn.drop_object(&entry)).await,
            Some(entry) => self.settle_ddl(|| txn.replace_object(&entry, Vec::new(), body.clone())).await.map(drop_it),
            None if drop => Ok(()),
            None => {
                let object = CatalogObject::new(ObjectKind::DEFAULT_PRIVILEGES, body);
                let key = defaults.key();
                self.settle_ddl(|| txn.create_object("", &key, object.clone())).await.map(drop_it)
            }
        }
    }

    /// Default privileges of a schema are its own, though they are kept by its name: they go with it (`to`: `None`), or get its
    /// other name. Otherwise the next schema of that name would have them.
    pub(crate) async fn move_defaults(
        &mut self,
        txn: &Transaction,
        schema: &str,
        to: Option<&str>,
    ) -> Result<(), SqlError> {
        let rights = self.db.rights(Some(txn))?;
        for known in rights.defaults.iter().filter(|known| known.schema == schema) {
            self.has_changed_defaults = true;
            let Some(to) = to else {
                self.store_defaults(txn, known, true).await?;
                continue;
            };
            let moved = DefaultPrivileges { schema: to.to_owned(), ..known.clone() };
            if let Some(entry) = txn.object_by_id(known.entry)? {
                self.settle_ddl(|| txn.rename_object(&entry, "", &moved.key())).await?;
                self.store_defaults(txn, &moved, false).await?;
            }
        }
        Ok(())
    }
}

fn drop_it<T>(_: T) {}
