//! Operator classes of btree indexes.
//!
//! They are names only: an index orders values as their type does, and texts by their bytes, which is the order of the
//! `pattern` classes, too.

use datafusion::sql::sqlparser::ast::ObjectName;

use crate::types::{format_type, oid, type_by_oid};
use crate::wire::SqlError;

/// A row of `pg_opclass`.
#[derive(Clone, Copy, Debug)]
pub struct OperatorClass {
    pub oid: u32,
    pub name: &'static str,
    pub family: u32,
    /// The type whose values it orders.
    pub input: u32,
    /// It is what an index of such a column has that names none.
    pub is_default: bool,
}

/// That of the extension `citext`, where a database has it.
pub const CITEXT_FAMILY: u32 = 16_381;

const ANY_ARRAY: u32 = 2277;
const ANY_ENUM: u32 = 3500;
const ANY_RANGE: u32 = 3831;
const fn class(oid: u32, name: &'static str, family: u32, input: u32, is_default: bool) -> OperatorClass {
    OperatorClass { oid, name, family, input, is_default }
}

/// Those of the types that columns can have, as PostgreSQL 15 numbers them.
pub const OPERATOR_CLASSES: [OperatorClass; 35] = [
    class(10_000, "array_ops", 397, ANY_ARRAY, true),
    class(10_002, "bit_ops", 423, oid::BIT, true),
    class(10_003, "bool_ops", 424, oid::BOOL, true),
    class(10_004, "bpchar_ops", 426, oid::BPCHAR, true),
    class(4219, "bpchar_pattern_ops", 2097, oid::BPCHAR, false),
    class(10_006, "bytea_ops", 428, oid::BYTEA, true),
    class(10_007, "char_ops", 429, oid::CHAR, true),
    class(10_009, "cidr_ops", 1974, oid::INET, false),
    class(16_380, "citext_ops", CITEXT_FAMILY, oid::CITEXT, true),
    class(3122, "date_ops", 434, oid::DATE, true),
    class(10_069, "enum_ops", 3522, ANY_ENUM, true),
    class(10_012, "float4_ops", 1970, oid::FLOAT4, true),
    class(3123, "float8_ops", 1970, oid::FLOAT8, true),
    class(10_015, "inet_ops", 1974, oid::INET, true),
    class(1979, "int2_ops", 1976, oid::INT2, true),
    class(1978, "int4_ops", 1976, oid::INT4, true),
    class(3124, "int8_ops", 1976, oid::INT8, true),
    class(10_022, "interval_ops", 1982, oid::INTERVAL, true),
    class(10_088, "jsonb_ops", 4033, oid::JSONB, true),
    class(10_026, "macaddr8_ops", 3371, oid::MACADDR8, true),
    class(10_024, "macaddr_ops", 1984, oid::MACADDR, true),
    class(10_028, "name_ops", 1994, oid::NAME, true),
    class(3125, "numeric_ops", 1988, oid::NUMERIC, true),
    class(1981, "oid_ops", 1989, oid::OID, true),
    class(10_076, "range_ops", 3901, ANY_RANGE, true),
    class(3126, "text_ops", 1994, oid::TEXT, true),
    class(4217, "text_pattern_ops", 2095, oid::TEXT, false),
    class(10_038, "time_ops", 1996, oid::TIME, true),
    class(3128, "timestamp_ops", 434, oid::TIMESTAMP, true),
    class(3127, "timestamptz_ops", 434, oid::TIMESTAMPTZ, true),
    class(10_041, "timetz_ops", 2000, oid::TIMETZ, true),
    class(10_065, "uuid_ops", 2968, oid::UUID, true),
    class(10_043, "varbit_ops", 2002, oid::VARBIT, true),
    class(10_044, "varchar_ops", 1994, oid::TEXT, false),
    class(4218, "varchar_pattern_ops", 2095, oid::TEXT, false),
];

/// Rows of `pg_opfamily`: the families of these classes.
pub const FAMILIES: [(u32, &str); 26] = [
    (397, "array_ops"),
    (423, "bit_ops"),
    (424, "bool_ops"),
    (426, "bpchar_ops"),
    (428, "bytea_ops"),
    (429, "char_ops"),
    (434, "datetime_ops"),
    (1970, "float_ops"),
    (1974, "network_ops"),
    (1976, "integer_ops"),
    (1982, "interval_ops"),
    (1984, "macaddr_ops"),
    (1988, "numeric_ops"),
    (1989, "oid_ops"),
    (1994, "text_ops"),
    (1996, "time_ops"),
    (2000, "timetz_ops"),
    (2002, "varbit_ops"),
    (2095, "text_pattern_ops"),
    (2097, "bpchar_pattern_ops"),
    (2968, "uuid_ops"),
    (3371, "macaddr8_ops"),
    (3522, "enum_ops"),
    (3901, "range_ops"),
    (4033, "jsonb_ops"),
    (CITEXT_FAMILY, "citext_ops"),
];

impl OperatorClass {
    /// Whether values of a type are values of its own, as they are stored.
    fn accepts(&self, ty: u32) -> bool {
        match self.input {
            ANY_ARRAY => type_by_oid(ty).is_some_and(|ty| ty.category == 'A'),
            ANY_ENUM => type_by_oid(ty).is_some_and(|ty| ty.category == 'E'),
            ANY_RANGE => type_by_oid(ty).is_some_and(|ty| ty.category == 'R'),
            oid::TEXT => matches!(ty, oid::TEXT | oid::VARCHAR),
            oid::INET => matches!(ty, oid::INET | oid::CIDR),
            oid::BIT | oid::VARBIT => matches!(ty, oid::BIT | oid::VARBIT),
            input => input == ty,
        }
    }
}

/// The class with that oid.
pub fn class_of(oid: u32) -> Option<&'static OperatorClass> {
    OPERATOR_CLASSES.iter().find(|class| class.oid == oid)
}

/// The class that an index has of a column of a type, where none is named; 0: there is none.
pub fn default_class(ty: u32) -> u32 {
    let mut defaults = OPERATOR_CLASSES.iter().filter(|class| class.is_default);
    let own = defaults.clone().find(|class| class.input == ty);
    own.or_else(|| defaults.find(|class| class.accepts(ty))).map_or(0, |class| class.oid)
}

/// `42804` where a class is not for values of a type.
///
/// # Errors
/// `42804`
pub fn check(class: &OperatorClass, ty: u32) -> Result<(), SqlError> {
    match class.accepts(ty) {
        true => Ok(()),
        false => {
            let (name, ty) = (class.name, format_type(ty, None));
            Err(SqlError::new("42804", format!("operator class \"{name}\" does not accept data type {ty}")))
        }
    }
}

/// The class that an index names for a column of a type.
///
/// # Errors
/// `42704`, `42804`
pub fn named(name: &ObjectName, ty: u32) -> Result<u32, SqlError> {
    let parts = name.0.iter().filter_map(|part| part.as_ident()).map(|part| match part.quote_style {
        Some(_) => part.value.clone(),
        None => part.value.to_ascii_lowercase(),
    });
    let parts: Vec<String> = parts.collect();
    let found = match parts.as_slice() {
        [name] => Some(name),
        [schema, name] if schema == "pg_catalog" => Some(name),
        _ => None,
    };
    let found = found.and_then(|name| OPERATOR_CLASSES.iter().find(|class| class.name == *name));
    let Some(found) = found else {
        let name = parts.join(".");
        let text = format!("operator class \"{name}\" does not exist for access method \"btree\"");
        return Err(SqlError::new("42704", text));
    };
    check(found, ty)?;
    Ok(found.oid)
}
