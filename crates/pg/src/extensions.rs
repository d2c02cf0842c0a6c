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

use crate::functions::quote_ident;
use crate::search_path::{PG_CATALOG, PUBLIC, SearchPath};
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
}

/// All of them, by name. Whoever may create things in the database may create them (they are `trusted`), and they can be in
/// any schema (`relocatable`).
pub const AVAILABLE: [Extension; 2] = [
    Extension { name: "pgcrypto", version: "1.3", comment: "cryptographic functions" },
    Extension { name: "uuid-ossp", version: "1.1", comment: "generate universally unique identifiers (UUIDs)" },
];

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
            assert!(extension_functions(extension.name).count() > 5, "{}", extension.name);
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
