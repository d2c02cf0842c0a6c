//! Names of relations in constants of what a definition keeps: `nextval('s')`, `'t'::regclass`; and of functions of extensions.
//!
//! They mean what they mean to whoever makes the definition, so they get their schemas there and then. PostgreSQL keeps the
//! oid. A function of `public` needs none: there a name without a schema is looked for in what is stored.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, ObjectNamePart, TableFactor, VisitorMut};
use resurgam_ast::AstWalkMut;

use super::extension_users::is_builtin;
use crate::pg::catalog::split_name;
use crate::pg::functions::quote_ident;
use crate::pg::search_path::{PG_CATALOG, PUBLIC};
use crate::pg::sequence_names::relation_constant;
use crate::pg::user_types::{self, UserTypes};
use crate::plan::lookup::{Lookup, parts_of};
use crate::wire::SqlError;

/// Gives such names in a statement or a part of one their schemas; the ids of the extensions whose functions it calls.
///
/// # Errors
/// `42P01`, `3F000`: there is no such relation.
pub(super) fn qualify(node: &mut impl AstWalkMut, lookup: &Lookup<'_>) -> Result<Vec<u32>, SqlError> {
    struct Qualify<'a> {
        lookup: &'a Lookup<'a>,
        types: Option<Arc<UserTypes>>,
        extensions: Vec<u32>,
    }
    impl Qualify<'_> {
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
            if !self.extensions.contains(&found.id) {
                self.extensions.push(found.id);
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
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
            if let Expr::Function(call) = expr {
                self.function(&mut call.name);
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
    let mut walk = Qualify { lookup, types: user_types::current(), extensions: Vec::new() };
    match node.walk_mut(&mut walk) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(walk.extensions),
    }
}
