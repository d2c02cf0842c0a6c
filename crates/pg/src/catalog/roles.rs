//! Roles, memberships and rights: `pg_roles` and its kin, `pg_default_acl`, and the views of `information_schema` about
//! grants.

use std::collections::{BTreeMap, HashMap};

use resurgam_engine::{Access, Grant, Table};

use super::model::{Model, Relation, RelationKind};
use super::rows::{Rows, V};
use crate::context::PgContext;
use crate::roles::acl::{self, Object};
use crate::roles::{EVERYBODY, Rights, Role};
use crate::wire::SqlError;

/// Owners and rights of what a model has, by the engine's ids.
pub(super) struct Accesses<'m>(HashMap<u32, &'m Table>);

static FIRST: Access = Access::FIRST;

impl<'m> Accesses<'m> {
    pub(super) fn of(model: &'m Model) -> Self {
        let entries = model.tables.iter().chain(&model.views).chain(&model.sequences);
        let mut all: HashMap<u32, &Table> = entries.map(|entry| (entry.id, entry.as_ref())).collect();
        for index in &model.indexes {
            if let Some(id) = index.oid.checked_sub(super::relation_oid(0)).filter(|_| !index.primary) {
                all.insert(id, &index.table);
            }
        }
        Self(all)
    }

    /// Of a relation; of an index those of its table.
    pub(super) fn get(&self, relation: &Relation) -> &'m Access {
        let entry = relation.id.and_then(|id| self.0.get(&id));
        entry.and_then(|entry| entry.access.as_deref()).unwrap_or(&FIRST)
    }
}

/// The owner and rights of an entry.
pub(super) fn access_of(entry: &Table) -> &Access {
    entry.access.as_deref().unwrap_or(&FIRST)
}

/// `relacl` and its kin: NULL while nobody has said anything.
pub(super) fn shown(grants: Option<&[Grant]>, rights: &Rights) -> V {
    grants.map(|grants| acl::texts(grants, rights)).into()
}

/// Rights to a column as `attacl` has them.
pub(super) fn shown_column(access: &Access, at: usize, rights: &Rights) -> V {
    shown(Some(access.column(at)).filter(|grants| !grants.is_empty()), rights)
}

/// The rights to a schema.
pub(super) fn shown_schema(access: &Access, rights: &Rights) -> V {
    shown(access.grants.as_deref(), rights)
}

fn until(role: &Role) -> V {
    role.valid_until.map_or(V::Null, V::Time)
}

fn config(role: &Role) -> V {
    let all: Vec<String> = role.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if all.is_empty() { V::Null } else { all.into() }
}

/// Fills a relation of `pg_catalog`; false if it is not one of these.
pub(super) fn fill(name: &str, cx: &dyn PgContext, rows: &mut Rows<'_>) -> Result<bool, SqlError> {
    match name {
        "pg_roles" | "pg_authid" => {
            let rights = cx.rights()?;
            for role in rights.roles() {
                rows.add([
                    ("oid", role.oid.into()),
                    ("rolname", role.name.as_str().into()),
                    ("rolsuper", role.superuser.into()),
                    ("rolinherit", role.inherit.into()),
                    ("rolcreaterole", role.create_role.into()),
                    ("rolcreatedb", role.create_db.into()),
                    ("rolcanlogin", role.login.into()),
                    ("rolreplication", role.replication.into()),
                    ("rolbypassrls", role.bypass_rls.into()),
                    ("rolconnlimit", role.connection_limit.into()),
                    ("rolvaliduntil", until(role)),
                    (
                        "rolpassword",
                        if name == "pg_roles" { "********".into() } else { role.password.as_deref().into() },
                    ),
                ]);
                if name == "pg_roles" {
                    rows.put("rolconfig", config(role));
                }
            }
        }
        "pg_user" | "pg_shadow" => {
            let rights = cx.rights()?;
            for role in rights.roles().filter(|role| role.login) {
                let password: V = if name == "pg_user" { "********".into() } else { role.password.as_deref().into() };
                rows.add([
                    ("usename", role.name.as_str().into()),
                    ("usesysid", role.oid.into()),
                    ("usecreatedb", role.create_db.into()),
                    ("usesuper", role.superuser.into()),
                    ("userepl", role.replication.into()),
                    ("usebypassrls", role.bypass_rls.into()),
                    ("passwd", password),
                    ("valuntil", until(role)),
                    ("useconfig", config(role)),
                ]);
            }
        }
        "pg_group" => {
            let rights = cx.rights()?;
            for role in rights.roles().filter(|role| !role.login) {
                let members: Vec<u32> = rights.members_of(role.oid).map(|(member, _)| member.oid).collect();
                rows.add([
                    ("groname", role.name.as_str().into()),
                    ("grosysid", role.oid.into()),
                    ("grolist", members.into()),
                ]);
            }
        }
        "pg_auth_members" => {
            let rights = cx.rights()?;
            for member in rights.roles() {
                for to in &member.member_of {
                    rows.add([
                        ("roleid", to.role.into()),
                        ("member", member.oid.into()),
                        ("grantor", to.grantor.into()),
                        ("admin_option", to.admin.into()),
                    ]);
                }
            }
        }
        "pg_db_role_setting" => {
            let rights = cx.rights()?;
            let mut of_database: BTreeMap<(u32, u32), Vec<String>> = BTreeMap::new();
            for database in &rights.databases {
                for setting in &database.settings {
                    let place = if setting.role == EVERYBODY { (0, 0) } else { (database.oid, setting.role) };
                    let all = of_database.entry(place).or_default();
                    all.push(format!("{}={}", setting.name, setting.value));
                }
            }
            let everywhere = rights.roles().filter(|role| !role.settings.is_empty());
            let everywhere = everywhere.map(|role| (0, role.oid, config(role)));
            let here = of_database.into_iter().map(|((database, role), all)| (database, role, V::from(all)));
            for (database, role, all) in everywhere.chain(here) {
                rows.add([("setdatabase", database.into()), ("setrole", role.into()), ("setconfig", all)]);
            }
        }
        "pg_default_acl" => {
            let (rights, model) = (cx.rights()?, Model::load(cx)?);
            for defaults in &rights.defaults {
                let schema = if defaults.schema.is_empty() { 0 } else { model.schema_oid(&defaults.schema) };
                rows.add([
                    ("oid", super::relation_oid(defaults.entry).into()),
                    ("defaclrole", defaults.role.into()),
                    ("defaclnamespace", schema.into()),
                    // `S`: the letter of sequences is `s` elsewhere.
                    (
                        "defaclobjtype",
                        (if defaults.object == Object::Sequence { 'S' } else { defaults.object.letter() }).into(),
                    ),
                    ("defaclacl", acl::texts(&defaults.grants, &rights).into()),
                ]);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Fills a view of `information_schema`; false if it is not one of these.
pub(super) fn information(
    name: &str,
    cx: &dyn PgContext,
    rows: &mut Rows<'_>,
    model: &mut dyn FnMut() -> Result<Model, SqlError>,
) -> Result<bool, SqlError> {
    match name {
        "enabled_roles" => {
            let rights = cx.rights()?;
            for role in rights.roles().filter(|role| rights.has_rights_of(cx.role(), role.oid)) {
                rows.add([("role_name", role.name.as_str().into())]);
            }
        }
        "applicable_roles" | "administrable_role_authorizations" => {
            let rights = cx.rights()?;
            for member in rights.roles().filter(|role| rights.has_rights_of(cx.role(), role.oid)) {
                for to in member.member_of.iter().filter(|to| name == "applicable_roles" || to.admin) {
                    rows.add([
                        ("grantee", member.name.as_str().into()),
                        ("role_name", rights.name(to.role).into()),
                        ("is_grantable", (if to.admin { "YES" } else { "NO" }).into()),
                    ]);
                }
            }
        }
        "role_table_grants" | "table_privileges" => {
            let (rights, model) = (cx.rights()?, model()?);
            each_relation(&model, |relation, access| {
                if relation.kind == RelationKind::Sequence {
                    return;
                }
                let grants = acl::grants_of(access, Object::Table);
                for grant in visible(&grants, cx, &rights, name == "table_privileges") {
                    for (bit, word) in acl::words(grant.privileges) {
                        rows.add(given(cx, &rights, access, grant, relation, bit, word));
                        rows.put("with_hierarchy", (if word == "SELECT" { "YES" } else { "NO" }).into());
                    }
                }
            });
        }
        "role_column_grants" | "column_privileges" => {
            let (rights, model) = (cx.rights()?, model()?);
            let names = names_of_columns(&model);
            let wanted = Object::Column.all();
            each_relation(&model, |relation, access| {
                let Some(columns) = relation.id.and_then(|id| names.get(&id)) else { return };
                let whole = acl::grants_of(access, Object::Table);
                for (at, column) in columns {
                    let grants: Vec<Grant> = whole.iter().chain(access.column(*at)).copied().collect();
                    let grants = merged(&grants);
                    for grant in visible(&grants, cx, &rights, name == "column_privileges") {
                        for (bit, word) in acl::words(grant.privileges & wanted) {
                            rows.add(given(cx, &rights, access, grant, relation, bit, word));
                            rows.put("column_name", (*column).into());
                        }
                    }
                }
            });
        }
        "usage_privileges" | "role_usage_grants" => {
            let (rights, model) = (cx.rights()?, model()?);
            each_relation(&model, |relation, access| {
                if relation.kind != RelationKind::Sequence {
                    return;
                }
                let grants = acl::grants_of(access, Object::Sequence);
                for grant in visible(&grants, cx, &rights, name == "usage_privileges") {
                    if grant.privileges & acl::privilege::USAGE == 0 {
                        continue;
                    }
                    let can_give = grant.options & acl::privilege::USAGE != 0 || grant.grantee == access.owner;
                    rows.add([
                        ("grantor", rights.name(grant.grantor).into()),
                        ("grantee", grantee(grant, &rights)),
                        ("object_catalog", cx.database().into()),
                        ("object_schema", relation.schema.as_str().into()),
                        ("object_name", relation.name.as_str().into()),
                        ("object_type", "SEQUENCE".into()),
                        ("privilege_type", "USAGE".into()),
                        ("is_grantable", (if can_give { "YES" } else { "NO" }).into()),
                    ]);
                }
            });
        }
        "role_routine_grants" | "routine_privileges" => {
            let rights = cx.rights()?;
            for function in super::functions::user_functions() {
                let grants = acl::grants_of(&function.access, Object::Function);
                for grant in visible(&grants, cx, &rights, name == "routine_privileges") {
                    let bit = acl::privilege::EXECUTE;
                    if grant.privileges & bit == 0 {
                        continue;
                    }
                    let can_give =
                        grant.options & bit != 0 || rights.has_rights_of(grant.grantee, function.access.owner);
                    let (specific, schema) = (super::functions::specific_name(&function), function.schema.as_str());
                    rows.add([
                        ("grantor", rights.name(grant.grantor).into()),
                        ("grantee", grantee(grant, &rights)),
                        ("specific_catalog", cx.database().into()),
                        ("specific_schema", schema.into()),
                        ("specific_name", specific.into()),
                        ("routine_catalog", cx.database().into()),
                        ("routine_schema", schema.into()),
                        ("routine_name", function.name().into()),
                        ("privilege_type", "EXECUTE".into()),
                        ("is_grantable", (if can_give { "YES" } else { "NO" }).into()),
                    ]);
                }
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Tables, views and sequences of users.
fn each_relation<'m>(model: &'m Model, mut each: impl FnMut(&'m Relation, &'m Access)) {
    let accesses = Accesses::of(model);
    let of_users = |relation: &&Relation| relation.id.is_some() && relation.kind != RelationKind::Index;
    for relation in model.relations.iter().filter(of_users) {
        each(relation, accesses.get(relation));
    }
}

/// Those that one of the roles whose rights the session has gave or got; `everybody`: or PUBLIC got.
fn visible<'g>(
    grants: &'g [Grant],
    cx: &dyn PgContext,
    rights: &'g Rights,
    everybody: bool,
) -> impl Iterator<Item = &'g Grant> {
    let role = cx.role();
    grants.iter().filter(move |grant| {
        let enabled = |of: u32| of != 0 && rights.has_rights_of(role, of);
        enabled(grant.grantee) || enabled(grant.grantor) || everybody && grant.grantee == 0
    })
}

fn grantee(grant: &Grant, rights: &Rights) -> V {
    if grant.grantee == 0 { "PUBLIC".into() } else { rights.name(grant.grantee).into() }
}

fn given(
    cx: &dyn PgContext,
    rights: &Rights,
    access: &Access,
    grant: &Grant,
    relation: &Relation,
    bit: u32,
    word: &'static str,
) -> [(&'static str, V); 7] {
    let can_give = grant.options & bit != 0 || rights.has_rights_of(grant.grantee, access.owner);
    [
        ("grantor", rights.name(grant.grantor).into()),
        ("grantee", grantee(grant, rights)),
        ("table_catalog", cx.database().into()),
        ("table_schema", relation.schema.as_str().into()),
        ("table_name", relation.name.as_str().into()),
        ("privilege_type", word.into()),
        ("is_grantable", (if can_give { "YES" } else { "NO" }).into()),
    ]
}

/// Rights of one grantor to one grantee together.
fn merged(grants: &[Grant]) -> Vec<Grant> {
    let mut out: Vec<Grant> = Vec::with_capacity(grants.len());
    for grant in grants {
        match out.iter_mut().find(|known| (known.grantee, known.grantor) == (grant.grantee, grant.grantor)) {
            Some(known) => {
                known.privileges |= grant.privileges;
                known.options |= grant.options;
            }
            None => out.push(*grant),
        }
    }
    out
}

/// Positions and names of the columns of tables and views.
fn names_of_columns(model: &Model) -> HashMap<u32, Vec<(usize, &str)>> {
    let tables = model.tables.iter().map(|table| {
        let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.is_hidden());
        (table.id, columns.map(|(at, column)| (at, column.name.as_str())).collect())
    });
    let views = model.views.iter().map(|view| {
        let columns = view.view.iter().flat_map(|view| &view.columns).enumerate();
        (view.id, columns.map(|(at, column)| (at, column.name.as_str())).collect())
    });
    tables.chain(views).collect()
}
