//! `pg_depend`: what of a database needs what, as far as tools ask for it.

use resurgam_engine::Identity;

use super::model::{CLASS_CONSTRAINT, CLASS_RELATION, Model, RelationKind, relation_oid};
use super::namespaces::CLASS_SCHEMA;
use super::relations::{defaults, rule_oid};
use super::rows::Rows;
use super::user_types::CLASS_TYPE;
use crate::sequence_names;

/// Oid of `pg_attrdef`.
const CLASS_DEFAULT: u32 = 2604;
/// Oid of `pg_rewrite`.
const CLASS_RULE: u32 = 2618;

/// An object of a catalog, or a part of it: class, oid, number of a column.
type Object = (u32, u32, usize);

pub(super) fn fill(rows: &mut Rows<'_>, model: &Model) {
    let mut depends = |what: Object, on: Object, kind: char| {
        rows.add([
            ("classid", what.0.into()),
            ("objid", what.1.into()),
            ("objsubid", what.2.into()),
            ("refclassid", on.0.into()),
            ("refobjid", on.1.into()),
            ("refobjsubid", on.2.into()),
            ("deptype", kind.into()),
        ]);
    };
    // What a view's rule reads, and the view itself, whose part the rule is.
    for view in &model.views {
        let rule = (CLASS_RULE, rule_oid(view.id), 0);
        depends(rule, (CLASS_RELATION, relation_oid(view.id), 0), 'i');
        depends(rule, (CLASS_RELATION, relation_oid(view.id), 0), 'n');
        for relation in view.view.iter().flat_map(|view| &view.relations) {
            let used: Vec<usize> =
                relation.columns.iter().filter(|column| column.used).map(|column| column.at + 1).collect();
            if used.is_empty() {
                depends(rule, (CLASS_RELATION, relation_oid(relation.id), 0), 'n');
            }
            for column in used {
                depends(rule, (CLASS_RELATION, relation_oid(relation.id), column), 'n');
            }
        }
    }
    // An index of a constraint belongs to it.
    for constraint in model.constraints() {
        depends((CLASS_RELATION, constraint.index.oid, 0), (CLASS_CONSTRAINT, constraint.oid, 0), 'i');
    }
    // A sequence goes with its column; that of an identity column is a part of it.
    for table in &model.tables {
        for owned in &table.owned {
            let kind = if owned.identity == Identity::No { 'a' } else { 'i' };
            let column = (CLASS_RELATION, relation_oid(table.id), owned.column + 1);
            depends((CLASS_RELATION, relation_oid(owned.sequence), 0), column, kind);
        }
    }
    // A type is in a schema, and a domain of a type.
    for ty in crate::user_types::current().iter().flat_map(|types| types.iter()) {
        let own = (CLASS_TYPE, ty.oid, 0);
        depends(own, (CLASS_SCHEMA, model.schema_oid(&ty.schema), 0), 'n');
        if let Some(base) = super::user_types::own_base(Some(ty.oid)) {
            depends(own, (CLASS_TYPE, base, 0), 'n');
        }
    }
    // A column needs its type.
    for table in &model.tables {
        for (at, column) in table.columns.iter().enumerate() {
            if let Some(ty) = table.domain(at).or(column.ty.user_type()) {
                let of = (CLASS_RELATION, relation_oid(table.id), at + 1);
                depends(of, (CLASS_TYPE, ty, 0), 'n');
            }
        }
    }
    for (oid, table, column, text) in defaults(model) {
        let default = (CLASS_DEFAULT, oid, 0);
        depends(default, (CLASS_RELATION, table, column), 'a');
        for name in sequence_names::named(&text) {
            if let Some(sequence) = model.find_stored(&name).filter(|found| found.kind == RelationKind::Sequence) {
                depends(default, (CLASS_RELATION, sequence.oid, 0), 'n');
            }
        }
    }
}
