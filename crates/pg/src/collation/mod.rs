//! Collations: what orders texts, by its names.
//!
//! There is one order of stored texts, that of bytes, and the collations "default", "C", "POSIX" and "ucs_basic" are names of
//! it. Those of ICU order texts as a language does; they are deterministic, so that texts are equal if their bytes are. Whatever
//! goes by equality (keys, indexes, groups, joins) need not know them; what goes by order has keys of theirs ([`Order`]).

mod icu;
mod locales;

use std::collections::HashMap;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::ObjectName;
use resurgam_dialect::intern;
use resurgam_engine::Table;

use crate::types::{column_oid, oid, type_by_oid};
use crate::wire::SqlError;

pub use icu::{Order, in_case, text_of_key};

/// A row of `pg_collation`.
#[derive(Clone, Copy, Debug)]
pub struct Collation {
    pub oid: u32,
    pub name: &'static str,
    /// Its encoding as PostgreSQL numbers them; -1: any.
    pub encoding: i32,
    /// `None`: the database's.
    pub locale: Option<&'static str>,
    /// It is one of ICU.
    pub icu: bool,
}

/// The oid of `default`.
pub const DEFAULT: u32 = 100;
/// The oid of `C`.
pub const C: u32 = 950;

/// Those that order texts by their bytes.
const BY_BYTES: [Collation; 4] = [
    Collation { oid: DEFAULT, name: "default", encoding: -1, locale: None, icu: false },
    Collation { oid: C, name: "C", encoding: -1, locale: Some("C"), icu: false },
    Collation { oid: 951, name: "POSIX", encoding: -1, locale: Some("POSIX"), icu: false },
    Collation { oid: 12_340, name: "ucs_basic", encoding: 6, locale: Some("C"), icu: false },
];

/// The oid of the first locale. Definitions keep these oids.
const FIRST_LOCALE: u32 = 15_000;

/// All of them, and where they are by their names.
static ALL: LazyLock<(Vec<Collation>, HashMap<&'static str, usize>)> = LazyLock::new(|| {
    let mut all = BY_BYTES.to_vec();
    let locales = locales::LOCALES.split_ascii_whitespace().zip(FIRST_LOCALE..);
    all.extend(locales.map(|(locale, oid)| {
        let name = intern(&format!("{locale}-x-icu"));
        Collation { oid, name, encoding: -1, locale: Some(locale), icu: true }
    }));
    let names = all.iter().enumerate().map(|(at, collation)| (collation.name, at)).collect();
    (all, names)
});

/// All collations that there are.
pub fn all() -> &'static [Collation] {
    &ALL.0
}

/// The collation of that oid.
pub fn by_oid(oid: u32) -> Option<&'static Collation> {
    match oid.checked_sub(FIRST_LOCALE) {
        Some(at) => all().get(BY_BYTES.len() + usize::try_from(at).ok()?),
        None => all()[..BY_BYTES.len()].iter().find(|collation| collation.oid == oid),
    }
}

/// Whether texts have an order of ICU by that collation.
pub fn is_icu(oid: u32) -> bool {
    oid >= FIRST_LOCALE && by_oid(oid).is_some_and(|collation| collation.icu)
}

/// Whether a column of a table has a collation of ICU.
pub fn has_icu(table: &Table) -> bool {
    table.collations.iter().any(|(_, oid)| is_icu(*oid))
}

/// The name of a collation.
pub fn name_of(oid: u32) -> Option<&'static str> {
    by_oid(oid).map(|collation| collation.name)
}

/// What COLLATE names.
///
/// # Errors
/// `42704`
pub fn find(collation: &ObjectName) -> Result<&'static Collation, SqlError> {
    let name = plain_name(collation);
    let name = match name.as_str() {
        // Names of the system's for the order of bytes.
        "C.UTF-8" | "C.utf8" => "C",
        name => name,
    };
    ALL.1.get(name).map(|at| &all()[*at]).ok_or_else(|| unknown(collation))
}

fn unknown(collation: &ObjectName) -> SqlError {
    let parts = collation.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.as_str());
    let shown = parts.collect::<Vec<_>>().join(".");
    SqlError::new("42704", format!("collation \"{shown}\" for encoding \"UTF8\" does not exist"))
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
    let found = ALL.1.get(name.as_str()).map(|at| &all()[*at]).ok_or_else(|| unknown(collation))?;
    match of_type(ty) {
        0 => Err(SqlError::new("42804", format!("collations are not supported by type {shown}"))),
        _ => Ok(found.oid),
    }
}

/// The collation that values of a type have; 0: they have none.
pub fn of_type(ty: u32) -> u32 {
    match ty {
        oid::TEXT | oid::VARCHAR | oid::BPCHAR => DEFAULT,
        oid::NAME => C,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Definitions keep them: they may not change.
    #[test]
    fn oids_are_what_they_were() {
        for (oid, name) in [
            (100, "default"),
            (950, "C"),
            (12_340, "ucs_basic"),
            (15_000, "und-x-icu"),
            (15_001, "af-x-icu"),
            (15_109, "de-x-icu"),
            (15_235, "en-US-x-icu"),
            (15_773, "zu-ZA-x-icu"),
        ] {
            assert_eq!(name_of(oid), Some(name));
            assert_eq!(is_icu(oid), name.ends_with("icu"));
        }
        assert_eq!(all().len(), 778);
        assert!(all().iter().all(|one| by_oid(one.oid).is_some_and(|found| found.name == one.name)));
    }

    #[test]
    fn each_locale_has_an_order() {
        for collation in all().iter().filter(|collation| collation.icu) {
            let locale = collation.locale.expect(collation.name);
            let order = Order::of(locale).expect(locale);
            let mut key = Vec::new();
            order.put_key("a", &mut key);
            assert_eq!(text_of_key(&key), Some("a"));
        }
    }
}
