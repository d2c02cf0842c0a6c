//! GRANT and REVOKE (aclchk.c).

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use resurgam_engine::{Access, Grant, ObjectKind, Table, TableChange, Transaction};

use crate::parse::statement::grant::{DefaultsCommand, GrantCommand, Target, Written};
use crate::parse::statement::role::Spec;
use crate::pg::roles::acl::{self, Object, grants_of, privilege_named};
use crate::pg::roles::{Rights, no_role};
use crate::pg::user_functions::UserFunction;
use crate::plan::needs::{access_of, denied, object_of, width_of, word_of};
use crate::session::Session;
use crate::wire::{Execution, SqlError, Tag};

/// Rights to be given or taken, by oids and bits.
pub(super) struct Change {
    pub is_grant: bool,
    /// Only the grant options, of REVOKE; with them, of GRANT.
    pub option: bool,
    pub cascade: bool,
    pub grantees: Vec<u32>,
}

/// What is given of the whole, and of columns.
struct Wanted {
    /// They were named by ALL.
    all: bool,
    whole: u32,
    columns: Vec<(String, u32, bool)>,
}

/// The privileges of a list, for objects of a kind.
fn wanted(list: &[Written], object: Object) -> Result<Wanted, SqlError> {
    let mut out = Wanted { all: false, whole: 0, columns: Vec::new() };
    for Written { word, columns } in list {
        let Some(word) = word else {
            match columns.is_empty() {
                true => (out.all, out.whole) = (true, object.all()),
                false => {
                    let all = columns.iter().map(|column| (column.clone(), Object::Column.all(), true));
                    out.columns.extend(all);
                }
            }
            continue;
        };
        let bit =
            privilege_named(word).ok_or_else(|| SqlError::syntax(format!("unrecognized privilege type \"{word}\"")))?;
        let shown = acl::words(bit).next().map_or("", |(_, word)| word);
        let invalid = |what: &str| SqlError::new("0LP01", format!("invalid privilege type {shown} for {what}"));
        if columns.is_empty() {
            // By name a sequence may be meant as well.
            let relation = object == Object::Table;
            if object.all() & bit == 0 && !(relation && Object::Sequence.all() & bit != 0) {
                return Err(invalid(if relation { "relation" } else { object.word() }));
            }
            out.whole |= bit;
        } else if object != Object::Table {
            return Err(SqlError::new("0LP01", "column privileges are only valid for relations"));
        } else if Object::Column.all() & bit == 0 {
            return Err(invalid("column"));
        } else {
            out.columns.extend(columns.iter().map(|column| (column.clone(), bit, false)));
        }
    }
    Ok(out)
}

impl Session {
    /// Runs one.
    pub(crate) async fn run_grant(&mut self, command: &GrantCommand) -> Result<Execution, SqlError> {
        let tag = if command.is_grant { "GRANT" } else { "REVOKE" };
        self.ddl_deadline = self.deadline();
        let txn = self.ddl_transaction(tag)?;
        let rights = self.db.rights(Some(&txn))?;
        self.check_grantor(command.granted_by.as_ref(), &rights)?;
        let change = self.change_of(&txn, command, &rights).await?;
        match &command.target {
            Target::Relations(names, is_sequence) => {
                let object = if *is_sequence { Object::Sequence } else { Object::Table };
                let wanted = wanted(&command.privileges, object)?;
                for name in names {
                    let entry = self.relation_to_grant(&txn, name, *is_sequence)?;
                    self.change_relation(&txn, &entry, &wanted, &change).await?;
                }
            }
            Target::AllIn(object, schemas) => {
                let wanted = wanted(&command.privileges, *object)?;
                for schema in schemas {
                    self.schema_must_exist(&txn, schema)?;
                    if *object == Object::Function {
                        let mut all = txn.objects(ObjectKind::FUNCTION)?;
                        all.retain(|entry| entry.schema == *schema);
                        for entry in all {
                            self.change_function(&txn, entry, &wanted, &change).await?;
                        }
                        continue;
                    }
                    let mut all: Vec<Arc<Table>> = match object {
                        Object::Sequence => txn.sequences()?,
                        _ => txn.tables()?.into_iter().chain(txn.views()?).collect(),
                    };
                    all.retain(|entry| entry.schema == *schema);
                    for entry in all {
                        self.change_relation(&txn, &entry, &wanted, &change).await?;
                    }
                }
            }
            Target::Functions(names) => {
                let wanted = wanted(&command.privileges, Object::Function)?;
                for name in names {
                    let entry = self.function_named(&txn, name)?;
                    self.change_function(&txn, entry, &wanted, &change).await?;
                }
            }
            Target::Schemas(names) => {
                let wanted = wanted(&command.privileges, Object::Schema)?;
                for name in names {
                    self.schema_must_exist(&txn, name)?;
                    let access = self.db.rights(Some(&txn))?.schema(name);
                    let access = self.changed(&txn, access, Object::Schema, name, &wanted, &change)?;
                    self.store_schema_access(&txn, name, access).await?;
                }
            }
            Target::Databases(names) => {
                let wanted = wanted(&command.privileges, Object::Database)?;
                for name in names {
                    let (entry, database) = self.locked_database(&txn, name).await?;
                    let access = database.access;
                    let access = self.changed(&txn, access, Object::Database, name, &wanted, &change)?;
                    self.store_access(&txn, &entry, access).await?;
                }
            }
            Target::Defaults(_) => return Err(SqlError::internal("default privileges in a GRANT")),
        }
        Ok(Execution::Command { tag: Tag::Fixed(tag) })
    }

    /// `0A000` for another grantor than the role itself.
    fn check_grantor(&self, by: Option<&Spec>, rights: &Rights) -> Result<(), SqlError> {
        let Some(by) = by else { return Ok(()) };
        match self.role_of(rights, by)? == self.role() {
            true => Ok(()),
            false => Err(SqlError::unsupported("grantor must be current user")),
        }
    }

    /// Who gets or loses, and how. Roles that get something are kept from being dropped.
    pub(super) async fn change_of(
        &mut self,
        txn: &Transaction,
        command: &GrantCommand,
        rights: &Rights,
    ) -> Result<Change, SqlError> {
        let mut grantees = Vec::with_capacity(command.grantees.len());
        for spec in &command.grantees {
            let role = match spec {
                Spec::Public => 0,
                spec => self.role_of(rights, spec)?,
            };
            if role == 0 && command.is_grant && command.option {
                return Err(SqlError::new("0LP01", "grant options can only be granted to roles"));
            }
            if role != 0 && command.is_grant {
                self.keep_role(txn, role).await?;
            }
            grantees.push(role);
        }
        Ok(Change { is_grant: command.is_grant, option: command.option, cascade: command.cascade, grantees })
    }

    fn relation_to_grant(
        &self,
        txn: &Transaction,
        name: &ObjectName,
        is_sequence: bool,
    ) -> Result<Arc<Table>, SqlError> {
        let entry = self.relation_named(txn, name)?;
        if is_sequence && entry.sequence.is_none() {
            return Err(SqlError::new("42809", format!("\"{}\" is not a sequence", entry.name)));
        }
        Ok(entry)
    }

    /// A table, a view or a sequence.
    ///
    /// # Errors
    /// `42P01`; `42809` for an index.
    pub(crate) fn relation_named(&self, txn: &Transaction, name: &ObjectName) -> Result<Arc<Table>, SqlError> {
        let (schema, wanted) = self.lookup(txn).place(name)?;
        if matches!(schema.as_str(), "pg_catalog" | "information_schema" | "sys") {
            return Err(denied("table", &wanted));
        }
        let found = match txn.table(&schema, &wanted)? {
            Some(table) => Some(table),
            None => match txn.view_named(&schema, &wanted)? {
                Some(view) => Some(view),
                None => txn.sequence_named(&schema, &wanted)?,
            },
        };
        if let Some(found) = found {
            return Ok(found);
        }
        if txn.table_of_index(&schema, &wanted)?.is_some() {
            return Err(SqlError::new("42809", format!("\"{wanted}\" is an index")));
        }
        Err(self.lookup(txn).undefined(name, "relation")?)
    }

    pub(super) fn schema_must_exist(&self, txn: &Transaction, name: &str) -> Result<(), SqlError> {
        match crate::plan::lookup::has_schema(txn, name)? {
            true => Ok(()),
            false => Err(crate::parse::names::no_schema(name)),
        }
    }

    /// A relation as it is now, locked against everyone else.
    pub(super) async fn locked_entry(&mut self, txn: &Transaction, entry: &Arc<Table>) -> Result<Arc<Table>, SqlError> {
        let name = crate::ddl::full_name(entry);
        if entry.view.is_some() {
            self.locked_view(txn, &name, "relation").await
        } else if entry.sequence.is_some() {
            self.locked_sequence(txn, &name).await
        } else {
            self.locked_table(txn, &name).await
        }
    }

    /// Gives an entry other rights, or another owner.
    pub(crate) async fn store_access(
        &mut self,
        txn: &Transaction,
        entry: &Arc<Table>,
        access: Access,
    ) -> Result<Arc<Table>, SqlError> {
        if access_of(entry) == &access {
            return Ok(Arc::clone(entry));
        }
        self.change(txn, entry, TableChange::SetAccess(Box::new(access))).await
    }

    async fn change_relation(
        &mut self,
        txn: &Transaction,
        entry: &Arc<Table>,
        wanted: &Wanted,
        change: &Change,
    ) -> Result<(), SqlError> {
        let object = object_of(entry);
        let mut whole = wanted.whole;
        if wanted.all {
            whole = object.all();
        } else if object == Object::Sequence && whole & !object.all() != 0 {
            let text = format!("sequence \"{}\" only supports USAGE, SELECT, and UPDATE privileges", entry.name);
            self.notice(SqlError::notice("WARNING", "0LP01", text));
            whole &= object.all();
        } else if object == Object::Table && whole & !object.all() != 0 {
            let word = acl::words(whole & !object.all()).next().map_or("", |(_, word)| word);
            return Err(SqlError::new("0LP01", format!("invalid privilege type {word} for table")));
        }
        let mut columns: Vec<(usize, u32, bool)> = Vec::new();
        for (name, bits, all) in &wanted.columns {
            let position = match &entry.view {
                Some(view) => view.columns.iter().position(|column| column.name == *name),
                None if entry.sequence.is_some() => {
                    return Err(SqlError::unsupported("privileges on columns of sequences are not supported"));
                }
                None => entry.columns.iter().position(|column| column.name == *name),
            };
            let at = position.ok_or_else(|| {
                let text = format!("column \"{name}\" of relation \"{}\" does not exist", entry.name);
                SqlError::new("42703", text)
            })?;
            match columns.iter_mut().find(|(known, ..)| *known == at) {
                Some(known) => (known.1, known.2) = (known.1 | bits, known.2 || *all),
                None => columns.push((at, *bits, *all)),
            }
        }
        // What is taken of the whole is taken of each column, too.
        if !change.is_grant && whole & Object::Column.all() != 0 && object == Object::Table {
            for at in 0..width_of(entry) {
                let bits = whole & Object::Column.all();
                match columns.iter_mut().find(|(known, ..)| *known == at) {
                    Some(known) => known.1 |= bits,
                    None if !access_of(entry).column(at).is_empty() => columns.push((at, bits, true)),
                    None => {}
                }
            }
        }
        // Who may not is told before anything is locked.
        let dry = self.relation_access(txn, entry, whole, &columns, change)?;
        if dry == *access_of(entry) {
            self.tell_grant(txn, entry, whole, wanted, &columns, change)?;
            return Ok(());
        }
        let entry = self.locked_entry(txn, entry).await?;
        self.tell_grant(txn, &entry, whole, wanted, &columns, change)?;
        let access = self.relation_access(txn, &entry, whole, &columns, change)?;
        self.store_access(txn, &entry, access).await?;
        Ok(())
    }

    /// EXECUTE on a function, to be given or taken.
    async fn change_function(
        &mut self,
        txn: &Transaction,
        entry: Arc<Table>,
        wanted: &Wanted,
        change: &Change,
    ) -> Result<(), SqlError> {
        let name = UserFunction::of_object(&entry)?.definition.name;
        // Who may not is told before anything is locked.
        let rights = self.db.rights(Some(txn))?;
        let access = access_of(&entry);
        let grants = grants_of(access, Object::Function);
        let may_give = acl::best_grantor(&grants, access.owner, &rights, self.role(), wanted.whole).1 != 0;
        if !may_give && !self.holds_any(&rights, &grants, access.owner, Object::Function.all()) {
            return Err(denied(Object::Function.word(), &name));
        }
        let gone = || SqlError::new("42883", format!("function {name} was dropped meanwhile"));
        let find = |_: &mut Self| txn.object_by_id(entry.id)?.ok_or_else(gone);
        let entry = self.locked_newest(txn, find).await?;
        let access = access_of(&entry).clone();
        let access = self.changed(txn, access, Object::Function, &name, wanted, change)?;
        self.store_access(txn, &entry, access).await?;
        Ok(())
    }

    /// Warnings about what is not given, or not taken.
    fn tell_grant(
        &mut self,
        txn: &Transaction,
        entry: &Table,
        whole: u32,
        wanted: &Wanted,
        columns: &[(usize, u32, bool)],
        change: &Change,
    ) -> Result<(), SqlError> {
        let rights = self.db.rights(Some(txn))?;
        let access = access_of(entry);
        let grants = grants_of(access, object_of(entry));
        if whole != 0 {
            let (_, options) = acl::best_grantor(&grants, access.owner, &rights, self.role(), whole);
            self.warn(whole, options, wanted.all, change.is_grant, &format!("\"{}\"", entry.name));
        }
        for (at, bits, all) in columns {
            let merged = with_column(&grants, access.column(*at));
            let (_, options) = acl::best_grantor(&merged, access.owner, &rights, self.role(), *bits);
            let name = match &entry.view {
                Some(view) => view.columns[*at].name.as_str(),
                None => entry.columns[*at].name.as_str(),
            };
            self.warn(
                *bits,
                options,
                *all,
                change.is_grant,
                &format!("column \"{name}\" of relation \"{}\"", entry.name),
            );
        }
        Ok(())
    }

    /// `options`: what of `wanted` can be given.
    fn warn(&mut self, wanted: u32, options: u32, all: bool, is_grant: bool, of: &str) {
        let (code, none, some) = match is_grant {
            true => ("01007", "no privileges were granted for", "not all privileges were granted for"),
            false => ("01006", "no privileges could be revoked for", "not all privileges could be revoked for"),
        };
        let this = wanted & options;
        if this == 0 {
            self.notice(SqlError::notice("WARNING", code, format!("{none} {of}")));
        } else if !all && this != wanted {
            self.notice(SqlError::notice("WARNING", code, format!("{some} {of}")));
        }
    }

    /// The access of a relation with a change.
    fn relation_access(
        &self,
        txn: &Transaction,
        entry: &Table,
        whole: u32,
        columns: &[(usize, u32, bool)],
        change: &Change,
    ) -> Result<Access, SqlError> {
        let rights = self.db.rights(Some(txn))?;
        let mut access = access_of(entry).clone();
        let object = object_of(entry);
        let before = grants_of(&access, object).into_owned();
        if whole != 0 {
            let mut grants = before.clone();
            self.change_grants(&rights, &mut grants, access.owner, object.all(), whole, change, || {
                denied(word_of(entry), &entry.name)
            })?;
            access.grants = Some(grants);
        }
        for (at, bits, _) in columns {
            let mut grants = access.column(*at).to_vec();
            // Who may give of the whole may give of its columns.
            let merged = with_column(&before, &grants);
            let (grantor, options) = acl::best_grantor(&merged, access.owner, &rights, self.role(), *bits);
            if options == 0 && !self.holds_any(&rights, &merged, access.owner, Object::Column.all()) {
                return Err(denied(word_of(entry), &entry.name));
            }
            put(&rights, &mut grants, access.owner, grantor, bits & options, change)?;
            access.columns.retain(|(known, _)| known != at);
            if !grants.is_empty() {
                access.columns.push((*at, grants));
                access.columns.sort_by_key(|(at, _)| *at);
            }
        }
        Ok(access)
    }

    /// The access of something else with a change.
    pub(super) fn changed_access(
        &mut self,
        rights: &Rights,
        mut access: Access,
        object: Object,
        name: &str,
        whole: (u32, bool),
        change: &Change,
    ) -> Result<Access, SqlError> {
        let mut grants = grants_of(&access, object).into_owned();
        let (_, options) = acl::best_grantor(&grants, access.owner, rights, self.role(), whole.0);
        self.change_grants(rights, &mut grants, access.owner, object.all(), whole.0, change, || {
            denied(object.word(), name)
        })?;
        self.warn(whole.0, options, whole.1, change.is_grant, &format!("\"{name}\""));
        access.grants = Some(grants);
        Ok(access)
    }

    fn changed(
        &mut self,
        txn: &Transaction,
        access: Access,
        object: Object,
        name: &str,
        wanted: &Wanted,
        change: &Change,
    ) -> Result<Access, SqlError> {
        let rights = self.db.rights(Some(txn))?;
        self.changed_access(&rights, access, object, name, (wanted.whole, wanted.all), change)
    }

    /// Whether the role holds anything at all of these.
    fn holds_any(&self, rights: &Rights, grants: &[Grant], owner: u32, all: u32) -> bool {
        let (privileges, options) = acl::held(grants, owner, rights, self.role());
        rights.is_superuser(self.role()) || (privileges | options) & all != 0
    }

    #[allow(clippy::too_many_arguments)] // what a list of rights is, and what happens to it
    fn change_grants(
        &self,
        rights: &Rights,
        grants: &mut Vec<Grant>,
        owner: u32,
        all: u32,
        whole: u32,
        change: &Change,
        denied: impl Fn() -> SqlError,
    ) -> Result<(), SqlError> {
        let (grantor, options) = acl::best_grantor(grants, owner, rights, self.role(), whole);
        if options == 0 && !self.holds_any(rights, grants, owner, all) {
            return Err(denied());
        }
        put(rights, grants, owner, grantor, whole & options, change)
    }

    /// ALTER DEFAULT PRIVILEGES changes what objects will have.
    pub(super) fn changed_defaults(
        &self,
        rights: &Rights,
        grants: &mut Vec<Grant>,
        role: u32,
        command: &DefaultsCommand,
        object: Object,
        change: &Change,
    ) -> Result<(), SqlError> {
        let wanted = wanted(&command.grant.privileges, object)?;
        put(rights, grants, role, role, wanted.whole & object.all(), change)
    }
}

/// Rights to the whole and to a column together.
fn with_column(whole: &[Grant], column: &[Grant]) -> Vec<Grant> {
    whole.iter().chain(column).copied().collect()
}

/// Puts a change for all grantees into a list.
fn put(
    rights: &Rights,
    grants: &mut Vec<Grant>,
    owner: u32,
    grantor: u32,
    privileges: u32,
    change: &Change,
) -> Result<(), SqlError> {
    for &grantee in &change.grantees {
        if grantee != 0 && rights.get(grantee).is_none() {
            return Err(no_role(&grantee.to_string()));
        }
        let (given, options) = match (change.is_grant, change.option) {
            (true, true) | (false, false) => (privileges, privileges),
            (true, false) => (privileges, 0),
            (false, true) => (0, privileges),
        };
        let one = Grant { grantee, grantor, privileges: given, options };
        match change.is_grant {
            true => acl::grant(grants, owner, rights, one)?,
            false => acl::revoke(grants, owner, rights, one, change.cascade)?,
        }
    }
    Ok(())
}
