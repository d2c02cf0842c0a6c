//! Names of sequences in calls.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;

use super::Analyzer;
use super::bound::{Bound, Type};
use crate::pg::catalog::relation_oid;
use crate::pg::types::oid;

impl Analyzer<'_> {
    /// A constant that names a sequence as the `regclass` that it is, so that `nextval('s')` looks nothing up when it runs.
    /// `None`: it is none, or spelled in another way than most are; a cast finds out when the statement runs.
    pub(super) fn sequence_constant(&self, bound: &Bound) -> Option<Bound> {
        let Expr::Literal(ScalarValue::Utf8View(Some(text)) | ScalarValue::Utf8(Some(text)), _) = &bound.expr else {
            return None;
        };
        let (schema, name) = match text.strip_prefix("public.") {
            Some(name) => ("public", name),
            None if self.names.has_public() => ("public", text.as_str()),
            None => return None,
        };
        let quoted = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).filter(|name| !name.contains('"'));
        let plain = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
                && !name.starts_with(|first: char| first.is_ascii_digit())
        };
        let name = match quoted {
            Some(name) => name,
            None if plain(name) => name,
            None => return None,
        };
        let sequence = self.names.txn.sequence_named(schema, name).ok()??;
        let oid_value = ScalarValue::UInt32(Some(relation_oid(sequence.id)));
        Some(Bound::literal(oid_value, Type::of(oid::REGCLASS)))
    }
}
