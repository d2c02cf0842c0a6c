//! Names of sequences in calls.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};

use super::Analyzer;
use super::bound::{Bound, Type};
use crate::pg::catalog::{relation_oid, split_name};
use crate::pg::types::oid;

impl Analyzer<'_> {
    /// A constant that names a sequence as the `regclass` that it is, so that `nextval('s')` looks nothing up when it runs.
    /// `None`: it is none; a cast finds out when the statement runs.
    pub(super) fn sequence_constant(&self, bound: &Bound) -> Option<Bound> {
        let Expr::Literal(ScalarValue::Utf8View(Some(text)) | ScalarValue::Utf8(Some(text)), _) = &bound.expr else {
            return None;
        };
        let lookup = self.lookup();
        let parts = split_name(text).filter(|parts| parts.len() <= 2)?;
        let name = ObjectName::from(parts.into_iter().map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>());
        let (schema, name) = lookup.place(&name).ok()?;
        let sequence = self.names.txn.sequence_named(&schema, &name).ok()??;
        let oid_value = ScalarValue::UInt32(Some(relation_oid(sequence.id)));
        Some(Bound::literal(oid_value, Type::of(oid::REGCLASS)))
    }
}
