//! Collations: there is one order, that of bytes, under several names.

use datafusion::sql::sqlparser::ast::ObjectName;
use resurgam_engine::Table;

use crate::types::{column_oid, oid, type_by_oid};
use crate::wire::SqlError;

/// A row of `pg_collation`.
#[derive(Clone, Copy, Debug)]
pub struct Collation {
    pub oid: u32,
    pub name: &'static str,
    /// Its encoding as PostgreSQL numbers them; -1: any.
    pub encoding: i32,
    /// `None`: the database's.
    pub locale: Option<&'static str>,
}

/// The oid of `default`.
pub const DEFAULT: u32 = 100;

/// Those that columns and indexes may name: all order texts by their bytes.
pub const COLLATIONS: [Collation; 4] = [
    Collation { oid: DEFAULT, name: "default", encoding: -1, locale: None },
    Collation { oid: 950, name: "C", encoding: -1, locale: Some("C") },
    Collation { oid: 951, name: "POSIX", encoding: -1, locale: Some("POSIX") },
    Collation { oid: 12_340, name: "ucs_basic", encoding: 6, locale: Some("C") },
];

/// What one that [`by_bytes`] takes is called.
pub fn shown_name(collation: &ObjectName) -> &'static str {
    match plain_name(collation).as_str() {
        "C" => "C",
        "POSIX" => "POSIX",
        "ucs_basic" => "ucs_basic",
        "C.UTF-8" | "C.utf8" => "C.utf8",
        _ => "default",
    }
}

/// The name of a collation.
pub fn name_of(oid: u32) -> Option<&'static str> {
    COLLATIONS.iter().find(|collation| collation.oid == oid).map(|collation| collation.name)
}

/// The last part of a collation's name, where it names one of `pg_catalog`; empty otherwise.
fn plain_name(collation: &ObjectName) -> String {
    let parts: Vec<String> = collation
        .0
        .iter()
        .filter_map(|part| part.as_ident())
        .map(|part| if part.quote_style.is_some() { part.value.clone() } else { part.value.to_ascii_lowercase() })
        .collect();
    match parts.as_slice() {
        [name] => name.clone(),
        [schema, name] if schema == "pg_catalog" => name.clone(),
        _ => String::new(),
    }
}

/// The oid of the collation that a definition names for what is of type `ty`, which is shown as `shown`.
///
/// # Errors
/// `42704`, `42804`
pub fn named(collation: &ObjectName, ty: u32, shown: &str) -> Result<u32, SqlError> {
    let name = plain_name(collation);
    let found = COLLATIONS.iter().find(|known| known.name == name);
    let Some(found) = found else {
        let parts = collation.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.as_str());
        let shown = parts.collect::<Vec<_>>().join(".");
        return Err(SqlError::new("42704", format!("collation \"{shown}\" for encoding \"UTF8\" does not exist")));
    };
    match of_type(ty) {
        0 => Err(SqlError::new("42804", format!("collations are not supported by type {shown}"))),
        _ => Ok(found.oid),
    }
}

/// The collation that values of a type have; 0: they have none.
pub fn of_type(ty: u32) -> u32 {
    match ty {
        oid::TEXT | oid::VARCHAR | oid::BPCHAR => DEFAULT,
        oid::NAME => 950,
        _ => match type_by_oid(ty).filter(|ty| ty.category == 'A' && ty.elem != 0) {
            Some(array) => of_type(array.elem),
            None => 0,
        },
    }
}

/// The collation of a table's column, or of an expression that an index keeps: that of the columns which it reads.
pub fn of_column(table: &Table, at: usize) -> u32 {
    let Some(column) = table.columns.get(at) else { return 0 };
    let of_type = of_type(column_oid(&column.ty));
    match table.generated(at).filter(|_| column.is_hidden()) {
        Some(generated) if of_type == DEFAULT => derived(table, &generated.reads).unwrap_or(DEFAULT),
        _ => table.collation(at).unwrap_or(of_type),
    }
}

/// The collation of an expression over columns: of those that are not the default one there must be one.
///
/// # Errors
/// `42P22`
pub fn derived(table: &Table, reads: &[usize]) -> Result<u32, SqlError> {
    let mut found = DEFAULT;
    for collation in reads.iter().map(|at| of_column(table, *at)).filter(|one| ![0, DEFAULT].contains(one)) {
        if found != DEFAULT && found != collation {
            return Err(SqlError::new("42P22", "could not determine which collation to use for index expression")
                .with_hint("Use the COLLATE clause to set the collation explicitly."));
        }
        found = collation;
    }
    Ok(found)
}

/// Texts are ordered by their bytes; other orders are refused.
///
/// # Errors
/// `0A000`.
pub fn by_bytes(collation: &ObjectName) -> Result<(), SqlError> {
    let parts: Vec<&str> =
        collation.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.as_str()).collect();
    let name = match parts.as_slice() {
        [name] => name,
        [schema, name] if schema.eq_ignore_ascii_case("pg_catalog") => name,
        _ => "",
    };
    match name {
        "C" | "POSIX" | "default" | "DEFAULT" | "ucs_basic" | "C.UTF-8" | "C.utf8" => Ok(()),
        _ => Err(SqlError::unsupported(format!("the collation {collation} is not supported"))
            .with_hint("Texts are ordered by their bytes, which is the collation \"C\".")),
    }
}
