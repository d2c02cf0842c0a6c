//! How definitions keep the names of users' types: by oid.
//!
//! Where an expression that is kept casts to a type of users, `pg_type_<oid>` stands in the place of the schema: a name that
//! no schema can have. So another name of the type, another schema, or another search path change nothing (PostgreSQL keeps
//! the oid as well); what is shown has the name as whoever reads it has to write it ([`shown_type`]).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType, Expr, Ident, ObjectName, TableAlias, TableFactor, VisitorMut,
};
use resurgam_ast::AstWalkMut;

use super::current;
use crate::functions::quote_ident;
use crate::types::type_from_sql;

const MARKER: &str = "pg_type_";

/// The type that a name in a definition means, by what stands in the place of its schema.
pub fn marked(schema: &str) -> Option<u32> {
    schema.strip_prefix(MARKER)?.parse().ok()
}

/// Whether a word can stand in a definition that is kept only.
pub fn is_marker(word: &str) -> bool {
    marked(word).is_some() || crate::user_functions::marked(word).is_some()
}

/// The same of a type as SQL writes it, or of its elements.
pub fn marked_type(data_type: &DataType) -> Option<u32> {
    match data_type {
        DataType::Custom(name, _) => match name.0.as_slice() {
            [schema, _] => marked(&schema.as_ident()?.value),
            _ => None,
        },
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _) | ArrayElemTypeDef::AngleBracket(inner)) => {
            marked_type(inner)
        }
        _ => None,
    }
}

/// The types of a list of columns behind an item of FROM: `f() AS t (a int, b text)`.
pub fn column_types(factor: &TableFactor) -> impl Iterator<Item = &DataType> {
    let alias: Option<&TableAlias> = match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias.as_ref(),
        _ => None,
    };
    alias.into_iter().flat_map(|alias| &alias.columns).filter_map(|column| column.data_type.as_ref())
}

/// The same, to be changed.
pub fn column_types_mut(factor: &mut TableFactor) -> impl Iterator<Item = &mut DataType> {
    let alias: Option<&mut TableAlias> = match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias.as_mut(),
        _ => None,
    };
    alias.into_iter().flat_map(|alias| &mut alias.columns).filter_map(|column| column.data_type.as_mut())
}

/// A type of that name, or its arrays, in the place of `data_type`, with the bounds that this has.
fn named(data_type: &DataType, is_array: bool, name: Vec<Ident>) -> DataType {
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(inner, bound)) = data_type {
        let is_array = matches!(inner.as_ref(), DataType::Array(_));
        return DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(named(inner, is_array, name)), *bound));
    }
    let name = DataType::Custom(ObjectName::from(name), Vec::new());
    match is_array {
        true => DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(name), None)),
        false => name,
    }
}

/// Has a type of users, or of their arrays, named by its oid; what that is. `None`: it is none of theirs.
fn mark(data_type: &mut DataType) -> Option<u32> {
    let (oid, _) = type_from_sql(data_type).ok().filter(|(oid, _)| *oid >= super::FIRST_USER_OID)?;
    let types = current()?;
    let (ty, is_array) = match types.by_oid(oid) {
        Some(ty) => (ty, false),
        None => (types.by_array(oid)?, true),
    };
    let parts = vec![Ident::new(format!("{MARKER}{}", ty.oid)), Ident::new(quote_ident(&ty.name))];
    *data_type = named(data_type, is_array, parts);
    Some(ty.oid)
}

/// Names the types of all casts, and of columns of items of FROM, by their oids; each type once.
pub fn mark_types(node: &mut impl AstWalkMut) -> Vec<u32> {
    struct Walk(Vec<u32>);
    impl Walk {
        fn found(&mut self, oid: Option<u32>) {
            self.0.extend(oid.filter(|oid| !self.0.contains(oid)));
        }
    }
    impl VisitorMut for Walk {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            for data_type in column_types_mut(factor) {
                self.found(mark(data_type));
            }
            ControlFlow::Continue(())
        }
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let found = match expr {
                Expr::Cast { data_type, .. } => mark(data_type),
                // Which could not be read again with such a name.
                Expr::TypedString(typed) => {
                    let found = mark(&mut typed.data_type);
                    if found.is_some() {
                        *expr = Expr::Cast {
                            kind: CastKind::DoubleColon,
                            expr: Box::new(Expr::Value(typed.value.clone())),
                            data_type: typed.data_type.clone(),
                            array: false,
                            format: None,
                        };
                    }
                    found
                }
                _ => None,
            };
            self.found(found);
            ControlFlow::Continue(())
        }
    }
    if current().is_none_or(|types| types.is_empty()) {
        return Vec::new();
    }
    let mut walk = Walk(Vec::new());
    let _ = node.walk_mut(&mut walk);
    walk.0
}

/// Gives a type in a kept definition the name that a statement here has to write.
pub fn shown_type(data_type: &mut DataType) {
    let Some(types) = marked_type(data_type).and_then(|_| current()) else { return };
    let Some(ty) = marked_type(data_type).and_then(|oid| types.by_oid(oid)) else { return };
    let name = Ident::new(quote_ident(&ty.name));
    let parts = match types.is_visible(ty) {
        true => vec![name],
        false => vec![Ident::new(quote_ident(&ty.schema)), name],
    };
    *data_type = named(data_type, false, parts);
}
