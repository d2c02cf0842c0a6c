//! What calls functions of an extension, or of users, or casts to a type of users: DEFAULTs, constraints, generated columns,
//! indexes, views, domains, and functions.
//!
//! Definitions keep expressions as texts, in which a function of an extension that is not in `public` has its schema, and one
//! of users its oid, as a type of users has ([`super::qualify`]). So the texts are searched; nothing else remembers who calls
//! what.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, DataType, Expr, ObjectName, TableFactor, Visitor};
use resurgam_ast::AstWalk;
use resurgam_dialect::{Catalog, Function, Schema};
use resurgam_engine::{ColumnType, ObjectKind, Table};

use super::function::drop_text;
use super::needed::called;
use crate::parse::names::parts_of;
use crate::pg::citext;
use crate::pg::definition::parse_expression;
use crate::pg::extensions::Installed;
use crate::pg::functions::quote_ident;
use crate::pg::search_path::{PG_CATALOG, PUBLIC};
use crate::pg::types::oid;
use crate::pg::user_functions::{UserFunction, marked_name};
use crate::pg::user_types::{UserType, column_types, marked_type};
use crate::plan::analyze::view_query;
use crate::plan::lookup::Lookup;
use crate::wire::SqlError;

/// Something that calls such a function, or casts to such a type.
pub(super) struct User {
    /// The id of the table, view or domain that it is or is a part of.
    pub entry: u32,
    /// As errors call it.
    pub name: String,
    /// The function or the type, as errors call it.
    needs: String,
    /// Of a part of a table: the columns with each of which it goes.
    pub columns: Vec<usize>,
    /// The statement that drops it.
    pub drop: Option<String>,
}

impl User {
    /// As DETAIL tells of it.
    pub(super) fn line(&self) -> String {
        format!("{} depends on {}", self.name, self.needs)
    }
}

/// Whether `pg_catalog` has a function of that name, which goes before all others.
pub(super) fn is_builtin(function: &str) -> bool {
    Catalog::postgres().functions_named(Schema::PgCatalog, function).next().is_some()
}

/// What is looked for.
pub(super) enum Callee<'a> {
    Extension(&'a Installed),
    /// Oids, and signatures as errors have them.
    Functions(Vec<(u32, String)>),
    /// Oids, and as errors call them.
    Types(Vec<(u32, String)>),
}

/// Finds the first call of such a function, or cast to such a type.
struct Find<'a> {
    callee: &'a Callee<'a>,
    shown: &'a dyn Fn(&Installed, &Function) -> String,
}

impl Find<'_> {
    /// What is called, as errors call it.
    fn called(&self, name: &ObjectName, args: usize) -> Option<String> {
        let extension = match self.callee {
            Callee::Extension(extension) => extension,
            Callee::Functions(functions) => {
                let oid = marked_name(name)?;
                let found = functions.iter().find(|(known, _)| *known == oid);
                return found.map(|(_, shown)| format!("function {shown}"));
            }
            Callee::Types(_) => return None,
        };
        let (schema, name) = parts_of(name).ok()?;
        let is_its = match schema.as_deref() {
            Some(schema) => schema == extension.schema,
            None => matches!(extension.schema.as_str(), PUBLIC | PG_CATALOG) && !is_builtin(&name),
        };
        let mut named = extension.functions().filter(|function| is_its && function.name == name);
        let first = named.next()?;
        let found = std::iter::once(first).chain(named).find(|function| function.args.len() == args).unwrap_or(first);
        Some(format!("function {}", (self.shown)(extension, found)))
    }

    /// The type that is cast to.
    fn type_of(&self, data_type: &DataType) -> Option<String> {
        let oid = marked_type(data_type)?;
        let types = match self.callee {
            Callee::Types(types) => types,
            Callee::Extension(one) if one.has_type(oid) => return Some(format!("type {}", quote_ident(&one.name))),
            Callee::Extension(_) | Callee::Functions(_) => return None,
        };
        types.iter().find(|(known, _)| *known == oid).map(|(_, shown)| shown.clone())
    }
}

impl Visitor for Find<'_> {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        if let Expr::Cast { data_type, .. } = expr
            && let Some(found) = self.type_of(data_type)
        {
            return ControlFlow::Break(found);
        }
        if let Expr::Function(call) = expr {
            let args = match &call.args {
                ast::FunctionArguments::List(list) => list.args.len(),
                _ => 0,
            };
            if let Some(found) = self.called(&call.name, args) {
                return ControlFlow::Break(found);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Self::Break> {
        let found = match factor {
            TableFactor::Table { name, args: Some(args), .. } => self.called(name, args.args.len()),
            TableFactor::Function { name, args, .. } => self.called(name, args.len()),
            _ => None,
        };
        let found = found.or_else(|| column_types(factor).find_map(|data_type| self.type_of(data_type)));
        found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }
}

/// Everything that calls one of the functions, or casts to one of the types, by age.
///
/// # Errors
/// Those of reading the catalog, and of a text that cannot be read.
pub(super) fn users_of(lookup: &Lookup<'_>, callee: &Callee<'_>) -> Result<Vec<User>, SqlError> {
    let shown = |extension: &Installed, function: &Function| -> String {
        let types: Vec<String> = function.args.iter().map(|ty| Catalog::postgres().format_type(*ty)).collect();
        let schema = match lookup.path.place(&extension.schema) {
            Some(_) => String::new(),
            None => format!("{}.", quote_ident(&extension.schema)),
        };
        format!("{schema}{}({})", quote_ident(function.name), types.join(","))
    };
    let calls = |sql: &str| -> Result<Option<String>, SqlError> {
        match parse_expression(sql)?.walk(&mut Find { callee, shown: &shown }) {
            ControlFlow::Break(function) => Ok(Some(function)),
            ControlFlow::Continue(()) => Ok(None),
        }
    };
    let calls_in_query = |sql: &str| -> Result<Option<String>, SqlError> {
        match view_query(sql)?.walk(&mut Find { callee, shown: &shown }) {
            ControlFlow::Break(function) => Ok(Some(function)),
            ControlFlow::Continue(()) => Ok(None),
        }
    };
    let mut out = match callee {
        Callee::Extension(one) if one.has_type(oid::CITEXT) => values_of_citext(lookup, one)?,
        _ => Vec::new(),
    };
    let mut entries = lookup.txn.tables()?;
    entries.extend(lookup.txn.views()?);
    entries.extend(lookup.txn.objects(ObjectKind::TYPE)?);
    entries.extend(lookup.txn.objects(ObjectKind::FUNCTION)?);
    entries.extend(lookup.txn.objects(ObjectKind::POLICY)?);
    entries.sort_by_key(|entry| entry.id);
    // What goes as a whole is named once.
    let whole: Vec<u32> = out.iter().filter(|user| user.columns.is_empty()).map(|user| user.entry).collect();
    entries.retain(|entry| !whole.contains(&entry.id));
    for entry in &entries {
        if entry.object.as_ref().is_some_and(|object| object.kind == ObjectKind::FUNCTION) {
            let own = UserFunction::of_object(entry)?;
            let mut found = None;
            for sql in own.definition.params.iter().filter_map(|param| param.default_sql.as_deref()) {
                found = found.or(calls(sql)?);
            }
            if let Some(view) = own.definition.source.view() {
                found = found.or(calls_in_query(&view.sql)?);
            }
            if let Some(needs) = found {
                let name = format!("function {}", shown_function(lookup, &own));
                out.push(User { entry: entry.id, name, needs, columns: Vec::new(), drop: Some(drop_text(&own)) });
            }
            continue;
        }
        if let Some(table) = entry.policy_of() {
            let sql = entry.view.as_ref().map(|view| view.sql.as_str()).filter(|sql| !sql.is_empty());
            if let Some(needs) = sql.map(&calls_in_query).transpose()?.flatten()
                && let Some(table) = lookup.txn.table_by_id(table)?
            {
                let name = called(lookup, entry)?;
                let drop = Some(format!("DROP POLICY IF EXISTS {} ON {}", quoted(&entry.name), full(&table)));
                out.push(User { entry: entry.id, name, needs, columns: Vec::new(), drop });
            }
            continue;
        }
        if entry.object.is_some() {
            let ty = UserType::of_object(entry)?;
            let Some(domain) = ty.as_domain() else { continue };
            let texts = domain.checks.iter().map(|check| &check.sql).chain(&domain.default_sql);
            for sql in texts {
                if let Some(needs) = calls(sql)? {
                    let name = super::type_users::called(&ty);
                    out.push(User { entry: entry.id, name, needs, columns: Vec::new(), drop: None });
                    break;
                }
            }
            continue;
        }
        if let Some(view) = &entry.view {
            if let Some(needs) = calls_in_query(&view.sql)? {
                let name = format!("view {}", lookup.shown(entry)?);
                let drop = Some(format!("DROP VIEW IF EXISTS {} CASCADE", full(entry)));
                out.push(User { entry: entry.id, name, needs, columns: Vec::new(), drop });
            }
            continue;
        }
        users_in_table(lookup, entry, &calls, &mut out)?;
    }
    Ok(out)
}

/// What has values of the type of the extension `citext`, by age.
fn values_of_citext(lookup: &Lookup<'_>, extension: &Installed) -> Result<Vec<User>, SqlError> {
    let needs = match lookup.path.place(&extension.schema) {
        Some(_) => format!("type {}", citext::NAME),
        None => format!("type {}.{}", quote_ident(&extension.schema), citext::NAME),
    };
    let whole = |entry: &Table, name: String, drop: Option<String>| {
        let needs = needs.clone();
        User { entry: entry.id, name, needs, columns: Vec::new(), drop }
    };
    let mut out = Vec::new();
    for entry in lookup.txn.dependents(extension.id)? {
        match entry.object.as_ref().map(|object| object.kind) {
            Some(kind) if kind == ObjectKind::FUNCTION => {
                let own = UserFunction::of_object(&entry)?;
                out.push(whole(&entry, format!("function {}", shown_function(lookup, &own)), Some(drop_text(&own))));
            }
            Some(kind) if kind == ObjectKind::TYPE => {
                out.push(whole(&entry, super::type_users::called(&UserType::of_object(&entry)?), None));
            }
            _ => {}
        }
    }
    for table in lookup.txn.tables()? {
        for (at, column) in table.columns.iter().enumerate() {
            if column.ty != ColumnType::Folded || column.is_hidden() || table.domain(at).is_some() {
                continue;
            }
            let name = format!("column {} of table {}", quote_ident(&column.name), lookup.shown(&table)?);
            let drop = format!("ALTER TABLE {} DROP COLUMN IF EXISTS {} CASCADE", full(&table), quoted(&column.name));
            out.push(User { entry: table.id, name, needs: needs.clone(), columns: vec![at], drop: Some(drop) });
        }
    }
    for view in lookup.txn.views()? {
        let is_of_it = view.view.as_ref().is_some_and(|view| view.columns.iter().any(|one| one.oid == oid::CITEXT));
        if is_of_it {
            let drop = Some(format!("DROP VIEW IF EXISTS {} CASCADE", full(&view)));
            out.push(whole(&view, format!("view {}", lookup.shown(&view)?), drop));
        }
    }
    out.sort_by_key(|user| user.entry);
    Ok(out)
}

fn shown_function(lookup: &Lookup<'_>, function: &UserFunction) -> String {
    let signature = function.definition.signature();
    match lookup.path.place(&function.schema) {
        Some(_) => signature,
        None => format!("{}.{signature}", quote_ident(&function.schema)),
    }
}

fn full(entry: &Table) -> String {
    format!("{}.{}", quoted(&entry.schema), quoted(&entry.name))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn users_in_table(
    lookup: &Lookup<'_>,
    table: &Table,
    calls: &dyn Fn(&str) -> Result<Option<String>, SqlError>,
    out: &mut Vec<User>,
) -> Result<(), SqlError> {
    let (shown, full) = (lookup.shown(table)?, full(table));
    for (at, column) in table.columns.iter().enumerate() {
        let Some(sql) = column.default_sql.as_deref().filter(|_| table.generated(at).is_none()) else { continue };
        if let Some(needs) = calls(sql)? {
            let name = format!("default value for column {} of table {shown}", quote_ident(&column.name));
            let drop = format!("ALTER TABLE {full} ALTER COLUMN {} DROP DEFAULT", quoted(&column.name));
            out.push(User { entry: table.id, name, needs, columns: vec![at], drop: Some(drop) });
        }
    }
    for check in &table.checks {
        if let Some(needs) = calls(&check.sql)? {
            let name = format!("constraint {} on table {shown}", quote_ident(&check.name));
            let drop = format!("ALTER TABLE {full} DROP CONSTRAINT IF EXISTS {}", quoted(&check.name));
            out.push(User { entry: table.id, name, needs, columns: check.columns.clone(), drop: Some(drop) });
        }
    }
    let mut indexes: Vec<u32> = Vec::new();
    for generated in &table.generated {
        let Some(column) = table.columns.get(generated.column) else { continue };
        let Some(needs) = calls(&generated.sql)? else { continue };
        if !column.is_hidden() {
            let name = format!("column {} of table {shown}", quote_ident(&column.name));
            let drop = format!("ALTER TABLE {full} DROP COLUMN IF EXISTS {} CASCADE", quoted(&column.name));
            let columns = std::iter::once(generated.column).chain(generated.reads.iter().copied()).collect();
            out.push(User { entry: table.id, name, needs, columns, drop: Some(drop) });
            continue;
        }
        for index in table.indexes.iter().filter(|index| index.columns.contains(&generated.column)) {
            if !indexes.contains(&index.id) {
                indexes.push(index.id);
                let drop = format!("DROP INDEX IF EXISTS {}.{}", quoted(&table.schema), quoted(&index.name));
                let schema = match lookup.path.place(&table.schema) {
                    Some(_) => String::new(),
                    None => format!("{}.", quote_ident(&table.schema)),
                };
                let name = format!("index {schema}{}", quote_ident(&index.name));
                let columns = generated.reads.iter().chain(&index.columns).copied().collect();
                out.push(User { entry: table.id, name, needs: needs.clone(), columns, drop: Some(drop) });
            }
        }
    }
    Ok(())
}
