//! `pg_depend`: what of a database needs what, as far as tools ask for it.

use resurgam_engine::{ColumnType, Identity};

use super::extensions::CLASS_EXTENSION;
use super::model::{CLASS_CONSTRAINT, CLASS_RELATION, IndexInfo, Model, RelationKind, relation_oid, row_type_oid};
use super::namespaces::CLASS_SCHEMA;
use super::relations::{defaults, has_row_type, rule_oid};
use super::rows::Rows;
use super::user_types::CLASS_TYPE;
use crate::sequence_names;
use crate::types::oid;

/// Oid of `pg_attrdef`.
pub(super) const CLASS_DEFAULT: u32 = 2604;
/// Oid of `pg_rewrite`.
pub(super) const CLASS_RULE: u32 = 2618;

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
    // A relation is in a schema, and its rows' type goes with it.
    for relation in model.relations.iter().filter(|relation| relation.id.is_some()) {
        if relation.kind != RelationKind::Index {
            let schema = (CLASS_SCHEMA, model.schema_oid(&relation.schema), 0);
            depends((CLASS_RELATION, relation.oid, 0), schema, 'n');
        }
        if has_row_type(relation) {
            depends((CLASS_TYPE, row_type_oid(relation.oid), 0), (CLASS_RELATION, relation.oid, 0), 'i');
        }
    }
    // An index of a constraint belongs to it.
    for constraint in model.constraints() {
        depends((CLASS_RELATION, constraint.index.oid, 0), (CLASS_CONSTRAINT, constraint.oid, 0), 'i');
        for at in &constraint.index.columns {
            let column = (CLASS_RELATION, relation_oid(constraint.index.table.id), at + 1);
            depends((CLASS_CONSTRAINT, constraint.oid, 0), column, 'a');
        }
    }
    // Any other to its table's columns: those that it has, and those that its expressions read.
    for index in model.indexes.iter().filter(|index| !index.constraint) {
        let table = (CLASS_RELATION, relation_oid(index.table.id));
        let columns = index_columns(index);
        for at in &columns {
            depends((CLASS_RELATION, index.oid, 0), (table.0, table.1, at + 1), 'a');
        }
        // As there: on the table as well where it is not columns alone.
        if columns.is_empty() || index.expressions().is_some() || index.predicate(false).is_some() {
            depends((CLASS_RELATION, index.oid, 0), (table.0, table.1, 0), 'a');
        }
    }
    for info in model.checks() {
        let (check, table) = ((CLASS_CONSTRAINT, info.oid, 0), relation_oid(info.table.id));
        for at in &info.check().columns {
            depends(check, (CLASS_RELATION, table, at + 1), 'a');
            depends(check, (CLASS_RELATION, table, at + 1), 'n');
        }
        if info.check().columns.is_empty() {
            depends(check, (CLASS_RELATION, table, 0), 'a');
        }
    }
    for info in model.foreign_keys() {
        let foreign = (CLASS_CONSTRAINT, info.oid, 0);
        for at in &info.foreign.columns {
            depends(foreign, (CLASS_RELATION, relation_oid(info.table.id), at + 1), 'a');
        }
        for at in &info.referenced {
            depends(foreign, (CLASS_RELATION, relation_oid(info.parent.id), at + 1), 'n');
        }
        depends(foreign, (CLASS_RELATION, info.index_oid(), 0), 'n');
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
        if ty.oid == oid::CITEXT
            && let Some(types) = crate::user_types::current()
            && let Some(one) = types.extensions().iter().find(|one| one.has_type(ty.oid))
        {
            depends(own, (CLASS_EXTENSION, relation_oid(one.id), 0), 'e');
        }
        if let Some(base) = super::user_types::own_base(Some(ty.oid)) {
            depends(own, (CLASS_TYPE, base, 0), 'n');
        }
    }
    // A column needs its type.
    for table in &model.tables {
        for (at, column) in table.columns.iter().enumerate() {
            let citext = (column.ty == ColumnType::Folded).then_some(oid::CITEXT);
            if let Some(ty) = table.domain(at).or(column.ty.user_type()).or(citext) {
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

/// The columns of a table that an index has, or that its expressions and its condition read, in their order.
fn index_columns(index: &IndexInfo) -> Vec<usize> {
    let table = &index.table;
    let mut out: Vec<usize> = Vec::new();
    for &at in index.columns.iter().chain(&index.included) {
        match table.generated(at).filter(|_| table.columns.get(at).is_some_and(|column| column.is_hidden())) {
            Some(generated) => out.extend_from_slice(&generated.reads),
            None => out.push(at),
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}
