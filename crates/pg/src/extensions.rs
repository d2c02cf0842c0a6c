//! Extensions: which there are, and what the catalog keeps of one that a database has.
//!
//! What an extension brings along is built in; CREATE EXTENSION says that this database has it, and in which schema. Its
//! functions are found from then on, by the rules of names, and until DROP EXTENSION. The entry is an object of the engine's
//! catalog ([`ObjectKind::EXTENSION`]), in the extension's schema; so it commits, rolls back and recovers as others do.
//!
//! ```text
//! body of an entry    version u8 = 1 | the extension's version, counted
//! ```

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, ObjectNamePart, TableFactor, VisitorMut};
use resurgam_ast::AstWalkMut;
use resurgam_dialect::{Catalog, Function, Schema, extension_functions, intern};
use resurgam_engine::codec::{Reader, put_counted};
use resurgam_engine::{CommentOn, Error, ErrorKind, FIRST_ROLE, ObjectKind, Result, Table};

use crate::citext;
use crate::functions::quote_ident;
use crate::search_path::{PG_CATALOG, PUBLIC, SearchPath};
use crate::types::oid;
use crate::user_functions::{self, UserFunction};
use crate::user_types;

/// Version of a body.
const BODY: u8 = 1;

/// An extension that a database can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    pub name: &'static str,
    /// The only one that there is.
    pub version: &'static str,
    pub comment: &'static str,
    /// Whoever may create things in the database may create it; otherwise superusers.
    pub is_trusted: bool,
    /// Views that come with it, with their queries.
    pub views: &'static [(&'static str, &'static str)],
}

/// The views of `pg_stat_statements`. NULL is what is not counted.
const STATEMENT_VIEWS: [(&str, &str); 2] = [
    (
        "pg_stat_statements",
        "SELECT userid, dbid, toplevel, queryid, query, plans, total_plan_time, min_plan_time, max_plan_time, \
         mean_plan_time, stddev_plan_time, calls, total_exec_time, min_exec_time, max_exec_time, mean_exec_time, \
         stddev_exec_time, rows, shared_blks_hit, shared_blks_read, shared_blks_dirtied, shared_blks_written, \
         local_blks_hit, local_blks_read, local_blks_dirtied, local_blks_written, temp_blks_read, temp_blks_written, \
         blk_read_time, blk_write_time, temp_blk_read_time, temp_blk_write_time, wal_records, wal_fpi, wal_bytes, \
         jit_functions, jit_generation_time, jit_inlining_count, jit_inlining_time, jit_optimization_count, \
         jit_optimization_time, jit_emission_count, jit_emission_time FROM pg_catalog.resurgam_statements",
    ),
    ("pg_stat_statements_info", "SELECT dealloc, stats_reset FROM pg_catalog.resurgam_statements_info"),
];

/// All of them, by name. They can be in any schema (`relocatable`).
pub const AVAILABLE: [Extension; 4] = [
    Extension {
        name: citext::NAME,
        version: "1.6",
        comment: "data type for case-insensitive character strings",
        is_trusted: true,
        views: &[],
    },
    Extension {
        name: "pg_stat_statements",
        version: "1.10",
        comment: "track planning and execution statistics of all SQL statements executed",
        is_trusted: false,
        views: &STATEMENT_VIEWS,
    },
    Extension { name: "pgcrypto", version: "1.3", comment: "cryptographic functions", is_trusted: true, views: &[] },
    Extension {
        name: "uuid-ossp",
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
        is_trusted: true,
        views: &[],
    },
];

impl Extension {
    /// Whether a type of its name comes with it.
    pub fn has_type(&self) -> bool {
        self.name == citext::NAME
    }
}

/// The extension of that name.
pub fn available(name: &str) -> Option<&'static Extension> {
    AVAILABLE.iter().find(|extension| extension.name == name)
}

/// An extension that the database has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The id of its entry.
    pub id: u32,
    pub name: String,
    pub version: String,
    pub schema: String,
    pub owner: u32,
    pub comment: Option<String>,
}

/// The body of an entry.
pub fn body(version: &str) -> Vec<u8> {
    let mut out = vec![BODY];
    put_counted(&mut out, version.as_bytes());
    out
}

impl Installed {
    /// # Errors
    /// `Corrupt`, `NewerFormat` for a body that cannot be read; `Internal` for the entry of something else.
    pub fn of_object(object: &Table) -> Result<Self> {
        let Some(inner) = object.object.as_ref().filter(|inner| inner.kind == ObjectKind::EXTENSION) else {
            return Err(Error::internal(format!("\"{}\" is no extension", object.name)));
        };
        let mut reader = Reader::new(&inner.body, "extension");
        let body = reader.u8()?;
        if body > BODY {
            return Err(Error::new(ErrorKind::NewerFormat, format!("an extension of version {body}")));
        }
        let version = reader.counted()?.to_vec();
        let version = String::from_utf8(version).map_err(|_| reader.bad("a text that is not UTF-8"))?;
        let comment = object.comments.iter().find(|(on, _)| *on == CommentOn::Relation).map(|(_, text)| text.clone());
        Ok(Self {
            id: object.id,
            name: object.name.clone(),
            version,
            schema: object.schema.clone(),
            owner: object.access.as_ref().map_or(FIRST_ROLE, |access| access.owner),
            comment,
        })
    }

    /// The names of its views, which are in its schema.
    pub fn views(&self) -> impl Iterator<Item = &'static str> {
        available(&self.name).into_iter().flat_map(|extension| extension.views).map(|(name, _)| *name)
    }

    /// Whether a view is a part of it.
    pub fn has_view(&self, schema: &str, name: &str) -> bool {
        self.schema == schema && self.views().any(|own| own == name)
    }

    /// Whether the type with that oid came with it.
    pub fn has_type(&self, ty: u32) -> bool {
        self.name == citext::NAME && ty == oid::CITEXT
    }

    /// Its functions.
    pub fn functions(&self) -> impl Iterator<Item = &'static Function> {
        extension_functions(&self.name)
    }
}

/// The functions of extensions and of users as the dialect has them, those of schemas that are looked in first before the
/// others.
pub fn functions_of(all: &[Arc<Installed>], users: &[Arc<UserFunction>], path: &SearchPath) -> Vec<Function> {
    let mut ordered = user_functions::of_dialect(users, &|schema| path.place(schema));
    for one in all {
        let place = path.place(&one.schema).unwrap_or(usize::MAX);
        let schema = match one.schema.as_str() {
            PG_CATALOG => Schema::PgCatalog,
            name => Schema::User(intern(name), place != usize::MAX),
        };
        ordered.extend(one.functions().map(|function| (place, one.id, Function { schema, ..function.clone() })));
    }
    // Stable: those of one extension stay in their order.
    ordered.sort_by_key(|(place, id, _)| (*place, *id));
    ordered.into_iter().map(|(.., function)| function).collect()
}

/// The name of a function in what a definition keeps as a statement here has to write it: with its schema if it is not found
/// without, and else without. `None`: as it is kept.
pub fn shown_name(name: &ObjectName) -> Option<ObjectName> {
    let types = user_types::current().filter(|types| types.has_functions())?;
    if let Some(oid) = user_functions::marked_name(name) {
        let function = types.function(oid)?;
        let name = Ident::new(quote_ident(function.name()));
        return Some(match types.is_function_visible(function) {
            true => ObjectName::from(vec![name]),
            false => ObjectName::from(vec![Ident::new(quote_ident(&function.schema)), name]),
        });
    }
    let parts: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
    let folded = |ident: &Ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    let (schema, function) = match parts.as_slice() {
        [function] => (PUBLIC.to_owned(), *function),
        [schema, function] => (folded(schema), *function),
        _ => return None,
    };
    let name = folded(function);
    let is_builtin = Catalog::postgres().functions_named(Schema::PgCatalog, &name).next().is_some();
    if is_builtin && parts.len() == 1 {
        return None;
    }
    let own = types.extension_with(Some(&schema), &name)?;
    let is_found = !is_builtin && types.extension_with(None, &name).is_some_and(|found| found.id == own.id);
    match (parts.len(), is_found) {
        (1, false) => Some(ObjectName::from(vec![Ident::new(quote_ident(&schema)), function.clone()])),
        (2, true) => Some(ObjectName::from(vec![function.clone()])),
        _ => None,
    }
}

/// The same of all calls in an expression or a query, and of the types of its casts.
pub fn show_names(node: &mut impl AstWalkMut) {
    struct Walk;
    impl VisitorMut for Walk {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(call) => {
                    if let Some(shown) = shown_name(&call.name) {
                        call.name = shown;
                    }
                }
                Expr::Cast { data_type, .. } => user_types::shown_type(data_type),
                _ => {}
            }
            ControlFlow::Continue(())
        }
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = factor
                && let Some(shown) = shown_name(name)
            {
                *name = shown;
            }
            user_types::column_types_mut(factor).for_each(user_types::shown_type);
            ControlFlow::Continue(())
        }
    }
    if user_types::current().is_some_and(|types| !types.is_builtin()) {
        let _ = node.walk_mut(&mut Walk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_functions_and_a_name() {
        for extension in &AVAILABLE {
            assert_eq!(available(extension.name), Some(extension));
            assert!(extension_functions(extension.name).next().is_some(), "{}", extension.name);
        }
        assert_eq!(available("nope"), None);
    }

    #[test]
    fn functions_are_in_the_order_of_the_path() {
        let one = |id, name: &str, schema: &str| {
            Arc::new(Installed {
                id,
                name: name.into(),
                version: "1".into(),
                schema: schema.into(),
                owner: FIRST_ROLE,
                comment: None,
            })
        };
        let all = [one(1, "uuid-ossp", "a"), one(2, "pgcrypto", "b")];
        let first = |path: &str| {
            let functions = functions_of(&all, &[], &SearchPath::of(path, ""));
            functions.first().map(|function| (function.name, function.schema))
        };
        assert_eq!(first("b, a"), Some(("digest", Schema::User("b", true))));
        assert_eq!(first("a"), Some(("uuid_nil", Schema::User("a", true))));
        assert_eq!(first("c"), Some(("uuid_nil", Schema::User("a", false))));
    }
}
