//! What needs a type of users: columns, domains, functions and views that have values of it, and what casts to it.
//!
//! Columns and views know the types of their values by oid; domains and functions are found by what the catalog says that
//! they need; casts by their texts, in which a type has its oid ([`super::extension_users`]).

use std::sync::Arc;

use resurgam_engine::{ColumnType, ObjectKind, Table};

use super::extension_users::{Callee, User, users_of};
use crate::pg::functions::quote_ident;
use crate::pg::user_functions::UserFunction;
use crate::pg::user_types::{UserType, current};
use crate::plan::lookup::Lookup;
use crate::wire::SqlError;

/// Something that needs a type, with what errors call it.
pub(super) enum Needing {
    Function(Arc<Table>, String),
    Domain(Arc<Table>, String),
    View(Arc<Table>, String),
    Column {
        /// The table's id.
        table: u32,
        at: usize,
        column: String,
        /// It is of arrays of the type.
        arrays: bool,
        name: String,
    },
    /// An expression that casts to it.
    User(User),
}

impl Needing {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Function(_, name) | Self::Domain(_, name) | Self::View(_, name) | Self::Column { name, .. } => name,
            Self::User(user) => &user.name,
        }
    }

    /// That it depends on the type that errors call so, as DETAIL tells of it.
    pub(super) fn line(&self, called: &str) -> String {
        let arrays = if matches!(self, Self::Column { arrays: true, .. }) { "[]" } else { "" };
        format!("{} depends on {called}{arrays}", self.name())
    }

    /// Whether it is the entry with that id.
    pub(super) fn is_entry(&self, id: u32) -> bool {
        match self {
            Self::Function(entry, _) | Self::Domain(entry, _) | Self::View(entry, _) => entry.id == id,
            Self::Column { .. } | Self::User(_) => false,
        }
    }

    /// The table, view or object that it is or is a part of.
    pub(super) fn entry(&self) -> u32 {
        match self {
            Self::Function(entry, _) | Self::Domain(entry, _) | Self::View(entry, _) => entry.id,
            Self::Column { table, .. } => *table,
            Self::User(user) => user.entry,
        }
    }

    /// Whether `other` is the same, or goes with it: an expression over a column that goes.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Column { table, at, .. }, Self::User(user)) => user.entry == *table && user.columns.contains(at),
            (own, Self::User(user)) if !matches!(own, Self::User(_)) => own.is_entry(user.entry),
            (own, other) => own.entry() == other.entry() && own.name() == other.name(),
        }
    }
}

/// A type as errors call it.
pub(super) fn called(ty: &UserType) -> String {
    let name = current().map_or_else(|| quote_ident(&ty.name), |types| types.sql_name(ty));
    format!("type {name}")
}

/// What needs the type directly: what has values of it by age, then what casts to it.
///
/// # Errors
/// Those of reading the catalog.
pub(super) fn needing_type(lookup: &Lookup<'_>, object: &Table, ty: &UserType) -> Result<Vec<Needing>, SqlError> {
    let txn = lookup.txn;
    let mut out = Vec::new();
    for entry in txn.dependents(object.id)? {
        match entry.object.as_ref().map(|object| object.kind) {
            Some(kind) if kind == ObjectKind::FUNCTION => {
                let function = UserFunction::of_object(&entry)?;
                let shown = match current() {
                    Some(types) if types.is_function_visible(&function) => function.definition.signature(),
                    _ => format!("{}.{}", quote_ident(&function.schema), function.definition.signature()),
                };
                out.push(Needing::Function(entry, format!("function {shown}")));
            }
            Some(_) => {
                let name = called(&UserType::of_object(&entry)?);
                out.push(Needing::Domain(entry, name));
            }
            None => {
                for (at, column) in entry.columns.iter().enumerate() {
                    let of = entry.domain(at).or(column.ty.user_type());
                    if of == Some(object.id) && !column.is_hidden() {
                        let shown = lookup.shown(&entry)?;
                        let name = format!("column {} of table {shown}", quote_ident(&column.name));
                        let arrays = matches!(column.ty, ColumnType::Array(_));
                        out.push(Needing::Column { table: entry.id, at, column: column.name.clone(), arrays, name });
                    }
                }
            }
        }
    }
    for view in txn.views()? {
        let of_it = |oid: u32| oid == object.id || oid == ty.body.array;
        if view.view.as_ref().is_some_and(|view| view.columns.iter().any(|column| of_it(column.oid))) {
            let name = format!("view {}", lookup.shown(&view)?);
            out.push(Needing::View(view, name));
        }
    }
    let callee = Callee::Types(vec![(object.id, called(ty))]);
    for user in users_of(lookup, &callee)? {
        let user = Needing::User(user);
        if user.entry() != object.id && !out.iter().any(|known| known.covers(&user)) {
            out.push(user);
        }
    }
    Ok(out)
}
