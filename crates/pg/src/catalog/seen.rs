//! What `information_schema` shows to a role: what is its own, and what it has been given a right to. (`pg_catalog` shows all of
//! it to everybody, as in PostgreSQL.)

use std::sync::Arc;

use resurgam_engine::{Access, Table};

use super::model::{Model, Relation, RelationKind};
use super::roles::{Accesses, access_of};
use crate::context::PgContext;
use crate::roles::acl::{Object, privilege as p};
use crate::roles::{Rights, of_system_relation};
use crate::user_functions::UserFunction;
use crate::wire::SqlError;

/// A role that looks.
pub(super) struct Seen {
    rights: Arc<Rights>,
    role: u32,
}

impl Seen {
    /// For the session's role.
    pub(super) fn by(cx: &dyn PgContext) -> Result<Self, SqlError> {
        Ok(Self { rights: cx.rights()?, role: cx.role() })
    }

    /// It is the owner, or has the owner's rights.
    pub(super) fn owns(&self, entry: &Table) -> bool {
        self.rights.has_rights_of(self.role, access_of(entry).owner)
    }

    fn has_any(&self, access: &Access, object: Object, privileges: u32) -> bool {
        let of_columns = privileges & Object::Column.all();
        self.rights.has_rights_of(self.role, access.owner)
            || self.rights.allowed(self.role, access, object, privileges) != 0
            || access.columns.iter().any(|(at, _)| self.rights.allowed_column(self.role, access, *at, of_columns) != 0)
    }

    /// It is that role, or has its rights.
    pub(super) fn has_rights_of(&self, role: u32) -> bool {
        self.rights.has_rights_of(self.role, role)
    }

    /// A table or a view of users.
    pub(super) fn entry(&self, entry: &Table) -> bool {
        self.has_any(access_of(entry), Object::Table, Object::Table.all())
    }

    /// What restricts a table is seen by those who may do more than read it.
    pub(super) fn constraints_of(&self, entry: &Table) -> bool {
        self.has_any(access_of(entry), Object::Table, Object::Table.all() & !p::SELECT)
    }

    /// A column of a table or a view of users.
    pub(super) fn column(&self, entry: &Table, at: usize) -> bool {
        let access = access_of(entry);
        let wanted = Object::Column.all();
        self.rights.has_rights_of(self.role, access.owner)
            || self.rights.allowed(self.role, access, Object::Table, wanted) != 0
            || self.rights.allowed_column(self.role, access, at, wanted) != 0
    }

    /// A relation of the system.
    pub(super) fn system(&self, name: &str) -> bool {
        self.has_any(&of_system_relation(name), Object::Table, Object::Table.all())
    }

    /// Those of a model that are no indexes and no sequences.
    pub(super) fn relations<'m>(&self, model: &'m Model) -> impl Iterator<Item = &'m Relation> {
        let accesses = Accesses::of(model);
        model.relations.iter().filter(move |relation| match (relation.kind, relation.id) {
            (RelationKind::Index | RelationKind::Sequence, _) => false,
            (_, None) => self.system(&relation.name),
            (_, Some(_)) => self.has_any(accesses.get(relation), Object::Table, Object::Table.all()),
        })
    }

    pub(super) fn sequence(&self, entry: &Table) -> bool {
        self.has_any(access_of(entry), Object::Sequence, Object::Sequence.all())
    }

    /// Where a sequence is; null for others.
    pub(super) fn place_of_sequence(&self, entry: &Table) -> bool {
        self.rights.allowed(self.role, access_of(entry), Object::Sequence, p::SELECT | p::USAGE) != 0
    }

    pub(super) fn schema(&self, name: &str) -> bool {
        let access = self.rights.schema(name);
        self.rights.has_rights_of(self.role, access.owner)
            || self.rights.allowed(self.role, &access, Object::Schema, Object::Schema.all()) != 0
    }

    pub(super) fn function(&self, function: &UserFunction) -> bool {
        self.owns_function(function)
            || self.rights.allowed(self.role, &function.access, Object::Function, p::EXECUTE) != 0
    }

    pub(super) fn owns_function(&self, function: &UserFunction) -> bool {
        self.rights.has_rights_of(self.role, function.access.owner)
    }
}
