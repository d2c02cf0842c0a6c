//! Names of relations in constants of what a definition keeps: `nextval('s')`, `'t'::regclass`; and of functions of extensions
//! and of users, and of users' types.
//!
//! They mean what they mean to whoever makes the definition, so they get their schemas there and then. PostgreSQL keeps the
//! oid. A function of an extension in `public` needs none: there a name without a schema is looked for in what is stored. One
//! of users gets its oid ([`crate::pg::user_functions::marker`]): of an expression by its name and the number of its
//! arguments, so it is refused where these are of several; of a query when that is analysed ([`name_functions`](super::view::name_functions)).
//! A type of users in a cast gets its oid as well ([`user_types::mark_types`]).

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, TableFactor, Value, VisitorMut,
};
use resurgam_ast::AstWalkMut;
use resurgam_engine::Transaction;

use super::extension_users::is_builtin;
use crate::parse::names::parts_of;
use crate::pg::catalog::split_name;
use crate::pg::functions::quote_ident;
use crate::pg::search_path::{PG_CATALOG, PUBLIC};
use crate::pg::sequence_names::relation_constant;
use crate::pg::types::{oid, type_from_sql};
use crate::pg::user_functions::{UserFunction, marker};
use crate::pg::user_types::{self, UserTypes};
use crate::plan::lookup::Lookup;
use crate::session::Session;
use crate::wire::SqlError;

/// What is called.
#[derive(Debug, Default)]
pub(super) struct Called {
    /// Ids of the extensions whose functions are.
    pub extensions: Vec<u32>,
    /// Oids of functions of users.
    pub functions: Vec<u32>,
    /// Oids of types of users, of casts.
    pub types: Vec<u32>,
}

impl Called {
    pub(super) fn extend(&mut self, more: Self) {
        self.extensions.extend(more.extensions);
        self.functions.extend(more.functions);
        self.types.extend(more.types);
    }
}

impl Session {
    /// Keeps what something that is made calls until the transaction has ended.
    pub(super) async fn keep_called(&mut self, txn: &Transaction, called: &Called) -> Result<(), SqlError> {
        for ty in &called.types {
            self.keep_type(txn, *ty).await?;
        }
        self.keep_extensions(txn, &called.extensions).await?;
        self.keep_functions(txn, &called.functions).await
    }
}

/// The text of a constant of the type `regtype`.
fn type_constant(expr: &Expr) -> Option<&str> {
    let (value, data_type) = match expr {
        Expr::Cast { expr, data_type, .. } => match expr.as_ref() {
            Expr::Value(value) => (value, data_type),
            _ => return None,
        },
        Expr::TypedString(typed) => (&typed.value, &typed.data_type),
        _ => return None,
    };
    match (&value.value, type_from_sql(data_type)) {
        (Value::SingleQuotedString(text), Ok((oid::REGTYPE, _))) => Some(text),
        _ => None,
    }
}

/// Gives such names in a statement or a part of one their schemas, functions of users in expressions and types in casts their
/// oids; what it calls.
///
/// # Errors
/// `42P01`, `3F000`: there is no such relation. `0A000`: a call that could be of several functions of users.
pub(super) fn qualify(node: &mut impl AstWalkMut, lookup: &Lookup<'_>) -> Result<Called, SqlError> {
    struct Qualify<'a> {
        lookup: &'a Lookup<'a>,
        types: Option<Arc<UserTypes>>,
        called: Called,
        /// Queries around: their calls are named when they are analysed.
        queries: usize,
    }
    impl Qualify<'_> {
        /// A call with so many arguments, in an expression that is in no query.
        fn user_function(&mut self, name: &mut ObjectName, args: usize) -> Result<(), SqlError> {
            let Some(types) = self.types.as_ref().filter(|types| !types.functions().is_empty()) else { return Ok(()) };
            let Ok((schema, function)) = parts_of(name) else { return Ok(()) };
            let fits = |found: &&Arc<UserFunction>| {
                let inputs: Vec<_> = found.definition.inputs().collect();
                let wanted = inputs.iter().filter(|param| param.default_sql.is_none()).count();
                (wanted..=inputs.len()).contains(&args)
            };
            let found: Vec<_> = types.functions_named(schema.as_deref(), &function).filter(fits).collect();
            let one = match found.as_slice() {
                [] => return Ok(()),
                [one] if schema.is_some() || !is_builtin(&function) => one,
                _ => {
                    let text = format!("a call of {function}, which may be one of several functions, in a definition");
                    return Err(super::unsupported(&text));
                }
            };
            if !self.called.functions.contains(&one.oid()) {
                self.called.functions.push(one.oid());
            }
            mark(name, one.oid());
            Ok(())
        }

        fn function(&mut self, name: &mut ObjectName) {
            let Some(types) = self.types.as_ref().filter(|types| !types.extensions().is_empty()) else { return };
            let Ok((schema, function)) = parts_of(name) else { return };
            if schema.is_none() && is_builtin(&function) {
                return;
            }
            let Some(found) = types.extension_with(schema.as_deref(), &function) else { return };
            if schema.is_none() && !matches!(found.schema.as_str(), PUBLIC | PG_CATALOG) {
                name.0.insert(0, ObjectNamePart::Identifier(Ident::new(quote_ident(&found.schema))));
            }
            if !self.called.extensions.contains(&found.id) {
                self.called.extensions.push(found.id);
            }
        }

        /// The name with its schema; `None` for what has one, or is no name.
        fn qualified(&self, text: &str) -> Result<Option<String>, SqlError> {
            if text == "-" || text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Ok(None);
            }
            let Some(parts) = split_name(text) else { return Ok(None) };
            let idents = parts.iter().map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>();
            let name = ObjectName::from(idents);
            let (schema, last) = self.lookup.place(&name)?;
            let is_known = !schema.is_empty()
                && (self.lookup.txn.relation(&schema, &last)?.is_some()
                    || crate::pg::catalog::system_relation(&schema, &last).is_some());
            if !is_known {
                return Err(self.lookup.undefined(&name, "relation")?);
            }
            Ok((parts.len() == 1).then(|| format!("{}.{}", quote_ident(&schema), quote_ident(&last))))
        }
    }
    impl VisitorMut for Qualify<'_> {
        type Break = SqlError;
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
            if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = factor {
                self.function(name);
            }
            ControlFlow::Continue(())
        }
        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
            self.queries += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
            if let Expr::Function(call) = expr {
                self.function(&mut call.name);
                let args = match &call.args {
                    FunctionArguments::List(list) => list.args.len(),
                    _ => 0,
                };
                if self.queries == 0
                    && let Err(error) = self.user_function(&mut call.name, args)
                {
                    return ControlFlow::Break(error);
                }
            }
            if let Some(name) = type_constant(expr)
                && crate::pg::types::type_by_name(name).is_some_and(|ty| ty.oid >= user_types::FIRST_USER_OID)
            {
                return ControlFlow::Break(super::unsupported(&format!("'{name}'::regtype in a definition")));
            }
            let Some(text) = relation_constant(expr) else { return ControlFlow::Continue(()) };
            match self.qualified(text) {
                Ok(Some(name)) => *text = name,
                Ok(None) => {}
                Err(error) => return ControlFlow::Break(error),
            }
            ControlFlow::Continue(())
        }
    }
    let called = Called { types: user_types::mark_types(node), ..Called::default() };
    let mut walk = Qualify { lookup, types: user_types::current(), called, queries: 0 };
    match node.walk_mut(&mut walk) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(walk.called),
    }
}

/// Has a call mean the function with that oid.
pub(super) fn mark(name: &mut ObjectName, oid: u32) {
    let Some(last) = name.0.pop() else { return };
    name.0 = vec![ObjectNamePart::Identifier(Ident::new(marker(oid))), last];
}
