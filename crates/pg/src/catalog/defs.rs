//! The relations of `pg_catalog` and `information_schema`: names, oids, columns.
//!
//! `relations.txt` has a line a relation: schema, name, oid, kind (`r` table, `v` view), then
//! `column:type` with `!` behind the type where the column is never null.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};

use crate::types::{TEXT, field_of_oid, oid, type_by_name, with_pg_type};

/// A column of a system relation.
#[derive(Debug)]
pub struct SystemColumn {
    pub name: &'static str,
    /// PostgreSQL type.
    pub oid: u32,
    pub not_null: bool,
}

/// A relation of `pg_catalog` or `information_schema`.
#[derive(Debug)]
pub struct SystemRelation {
    pub schema_name: &'static str,
    pub name: &'static str,
    pub oid: u32,
    /// `r` or `v`.
    pub kind: char,
    pub columns: Vec<SystemColumn>,
    /// The columns as Arrow has them.
    pub schema: SchemaRef,
}

struct Definitions {
    all: Vec<SystemRelation>,
    by_name: HashMap<(&'static str, &'static str), usize>,
}

fn definitions() -> &'static Definitions {
    static DEFINITIONS: OnceLock<Definitions> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let all: Vec<SystemRelation> = include_str!("relations.txt").lines().filter_map(parse).collect();
        let by_name = all.iter().enumerate().map(|(at, r)| ((r.schema_name, r.name), at)).collect();
        Definitions { all, by_name }
    })
}

/// All of them.
pub fn system_relations() -> &'static [SystemRelation] {
    &definitions().all
}

/// Those that are listed. Schema `sys` is not: tools for PostgreSQL would take it for the user's.
pub(super) fn listed_relations() -> impl Iterator<Item = &'static SystemRelation> {
    system_relations().iter().filter(|system| system.schema_name != "sys")
}

/// The one of that schema and name.
pub fn system_relation(schema: &str, name: &str) -> Option<&'static SystemRelation> {
    let definitions = definitions();
    // a key of borrowed strings of shorter life is looked up as well
    let at = definitions.by_name.get(&(schema, name) as &(&str, &str))?;
    definitions.all.get(*at)
}

fn parse(line: &'static str) -> Option<SystemRelation> {
    let mut words = line.split(' ');
    let schema_name = words.next()?;
    let name = words.next()?;
    let relation_oid = words.next()?.parse().ok()?;
    let kind = words.next()?.chars().next()?;
    let mut columns = Vec::new();
    let mut fields = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        let (column, ty) = word.split_once(':')?;
        let (ty, not_null) = match ty.strip_suffix('!') {
            Some(ty) => (ty, true),
            None => (ty, false),
        };
        let ty = match ty {
            "sql_identifier" => oid::NAME,
            "character_data" | "yes_or_no" => oid::VARCHAR,
            "cardinal_number" => oid::INT4,
            "time_stamp" => oid::TIMESTAMPTZ,
            "_pg_statistic" => oid::TEXT_ARRAY,
            other => match type_by_name_exact(other) {
                Some(found) => found,
                None => oid::TEXT,
            },
        };
        let field =
            field_of_oid(column, ty, -1).unwrap_or_else(|| with_pg_type(Field::new(column, TEXT, true), ty, -1));
        fields.push(field);
        columns.push(SystemColumn { name: column, oid: ty, not_null });
    }
    Some(SystemRelation { schema_name, name, oid: relation_oid, kind, columns, schema: Arc::new(Schema::new(fields)) })
}

/// Names as `pg_type` has them: there `char` is the one-byte type.
fn type_by_name_exact(name: &str) -> Option<u32> {
    match name {
        "char" => Some(oid::CHAR),
        _ => type_by_name(name)
            .filter(|ty| ty.name == name && ty.oid < crate::user_types::FIRST_USER_OID)
            .map(|ty| ty.oid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_complete() {
        assert!(system_relations().len() > 190);
        let class = system_relation("pg_catalog", "pg_class").expect("pg_class");
        assert_eq!((class.oid, class.kind, class.columns.len()), (1259, 'r', 33));
        assert_eq!(class.columns[0].oid, oid::OID);
        assert!(system_relation("information_schema", "columns").is_some());
        assert!(system_relation("pg_catalog", "nosuch").is_none());
    }
}
