//! Names of relations in constants of what a definition keeps: `nextval('s')`, `'t'::regclass`.
//!
//! They mean what they mean to whoever makes the definition, so they get their schemas there and then. PostgreSQL keeps the
//! relation's oid.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, VisitorMut};
use resurgam_ast::AstWalkMut;

use crate::pg::catalog::split_name;
use crate::pg::functions::quote_ident;
use crate::pg::sequence_names::relation_constant;
use crate::plan::lookup::Lookup;
use crate::wire::SqlError;

/// Gives such names in a statement or a part of one their schemas.
///
/// # Errors
/// `42P01`, `3F000`: there is no such relation.
pub(super) fn qualify(node: &mut impl AstWalkMut, lookup: &Lookup<'_>) -> Result<(), SqlError> {
    struct Qualify<'a>(&'a Lookup<'a>);
    impl Qualify<'_> {
        /// The name with its schema; `None` for what has one, or is no name.
        fn qualified(&self, text: &str) -> Result<Option<String>, SqlError> {
            if text == "-" || text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Ok(None);
            }
            let Some(parts) = split_name(text) else { return Ok(None) };
            let idents = parts.iter().map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>();
            let name = ObjectName::from(idents);
            let (schema, last) = self.0.place(&name)?;
            let is_known = !schema.is_empty()
                && (self.0.txn.relation(&schema, &last)?.is_some()
                    || crate::pg::catalog::system_relation(&schema, &last).is_some());
            if !is_known {
                return Err(self.0.undefined(&name, "relation")?);
            }
            Ok((parts.len() == 1).then(|| format!("{}.{}", quote_ident(&schema), quote_ident(&last))))
        }
    }
    impl VisitorMut for Qualify<'_> {
        type Break = SqlError;
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
            let Some(text) = relation_constant(expr) else { return ControlFlow::Continue(()) };
            match self.qualified(text) {
                Ok(Some(name)) => *text = name,
                Ok(None) => {}
                Err(error) => return ControlFlow::Break(error),
            }
            ControlFlow::Continue(())
        }
    }
    match node.walk_mut(&mut Qualify(lookup)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}
