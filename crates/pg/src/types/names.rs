//! The table of types that `pg_type` shows, and the names that SQL has for them.

use resurgam_dialect::{Catalog, Schema, TypeId};

use super::oid;
use crate::user_types;

/// A row of `pg_type`.
#[derive(Clone, Copy, Debug)]
pub struct PgType {
    pub oid: u32,
    /// Name in `pg_type`, for instance `int4`, `_text`.
    pub name: &'static str,
    /// Name in SQL, for instance `integer`, `text[]`.
    pub sql_name: &'static str,
    /// Bytes, -1 for variable length, -2 for a C string.
    pub len: i16,
    pub by_value: bool,
    pub align: char,
    /// `typcategory`.
    pub category: char,
    pub preferred: bool,
    /// Oid of its array type, 0 for none.
    pub array: u32,
    /// Element type of an array type, 0 for others.
    pub elem: u32,
}

const fn base(
    oid: u32,
    name: &'static str,
    sql_name: &'static str,
    len: i16,
    align: char,
    category: char,
    array: u32,
) -> PgType {
    let preferred = matches!(
        oid,
        oid::BOOL | oid::TEXT | oid::FLOAT8 | oid::OID | oid::TIMESTAMPTZ | oid::INTERVAL | oid::INET | oid::VARBIT
    );
    let by_value = matches!(len, 1 | 2 | 4 | 8) && oid != oid::MACADDR8;
    PgType { oid, name, sql_name, len, by_value, align, category, preferred, array, elem: 0 }
}

const fn array(oid: u32, name: &'static str, sql_name: &'static str, elem: u32, align: char) -> PgType {
    PgType { oid, name, sql_name, len: -1, by_value: false, align, category: 'A', preferred: false, array: 0, elem }
}

/// Every type that is known, by oid.
pub static TYPES: &[PgType] = &[
    base(oid::BOOL, "bool", "boolean", 1, 'c', 'B', oid::BOOL_ARRAY),
    base(oid::BYTEA, "bytea", "bytea", -1, 'i', 'U', oid::BYTEA_ARRAY),
    base(oid::CHAR, "char", "\"char\"", 1, 'c', 'Z', oid::CHAR_ARRAY),
    base(oid::NAME, "name", "name", 64, 'c', 'S', oid::NAME_ARRAY),
    base(oid::INT8, "int8", "bigint", 8, 'd', 'N', oid::INT8_ARRAY),
    base(oid::INT2, "int2", "smallint", 2, 's', 'N', oid::INT2_ARRAY),
    PgType {
        oid: oid::INT2VECTOR,
        name: "int2vector",
        sql_name: "int2vector",
        len: -1,
        by_value: false,
        align: 'i',
        category: 'A',
        preferred: false,
        array: 0,
        elem: oid::INT2,
    },
    base(oid::INT4, "int4", "integer", 4, 'i', 'N', oid::INT4_ARRAY),
    base(oid::REGPROC, "regproc", "regproc", 4, 'i', 'N', 0),
    base(oid::TEXT, "text", "text", -1, 'i', 'S', oid::TEXT_ARRAY),
    base(oid::OID, "oid", "oid", 4, 'i', 'N', oid::OID_ARRAY),
    base(oid::XID, "xid", "xid", 4, 'i', 'U', 0),
    base(oid::CID, "cid", "cid", 4, 'i', 'U', 0),
    PgType {
        oid: oid::OIDVECTOR,
        name: "oidvector",
        sql_name: "oidvector",
        len: -1,
        by_value: false,
        align: 'i',
        category: 'A',
        preferred: false,
        array: 0,
        elem: oid::OID,
    },
    base(oid::JSON, "json", "json", -1, 'i', 'U', oid::JSON_ARRAY),
    base(oid::PG_NODE_TREE, "pg_node_tree", "pg_node_tree", -1, 'i', 'Z', 0),
    array(oid::JSON_ARRAY, "_json", "json[]", oid::JSON, 'i'),
    base(oid::FLOAT4, "float4", "real", 4, 'i', 'N', oid::FLOAT4_ARRAY),
    base(oid::FLOAT8, "float8", "double precision", 8, 'd', 'N', oid::FLOAT8_ARRAY),
    base(oid::UNKNOWN, "unknown", "unknown", -2, 'c', 'X', 0),
    base(oid::CIDR, "cidr", "cidr", -1, 'i', 'I', oid::CIDR_ARRAY),
    array(oid::CIDR_ARRAY, "_cidr", "cidr[]", oid::CIDR, 'i'),
    base(oid::MACADDR8, "macaddr8", "macaddr8", 8, 'i', 'U', oid::MACADDR8_ARRAY),
    array(oid::MACADDR8_ARRAY, "_macaddr8", "macaddr8[]", oid::MACADDR8, 'i'),
    base(oid::MACADDR, "macaddr", "macaddr", 6, 'i', 'U', oid::MACADDR_ARRAY),
    base(oid::INET, "inet", "inet", -1, 'i', 'I', oid::INET_ARRAY),
    array(oid::MACADDR_ARRAY, "_macaddr", "macaddr[]", oid::MACADDR, 'i'),
    array(oid::INET_ARRAY, "_inet", "inet[]", oid::INET, 'i'),
    array(oid::BOOL_ARRAY, "_bool", "boolean[]", oid::BOOL, 'i'),
    array(oid::BYTEA_ARRAY, "_bytea", "bytea[]", oid::BYTEA, 'i'),
    array(oid::CHAR_ARRAY, "_char", "\"char\"[]", oid::CHAR, 'i'),
    array(oid::NAME_ARRAY, "_name", "name[]", oid::NAME, 'i'),
    array(oid::INT2_ARRAY, "_int2", "smallint[]", oid::INT2, 'i'),
    array(oid::INT4_ARRAY, "_int4", "integer[]", oid::INT4, 'i'),
    array(oid::TEXT_ARRAY, "_text", "text[]", oid::TEXT, 'i'),
    array(oid::BPCHAR_ARRAY, "_bpchar", "character[]", oid::BPCHAR, 'i'),
    array(oid::VARCHAR_ARRAY, "_varchar", "character varying[]", oid::VARCHAR, 'i'),
    array(oid::INT8_ARRAY, "_int8", "bigint[]", oid::INT8, 'd'),
    array(oid::FLOAT4_ARRAY, "_float4", "real[]", oid::FLOAT4, 'i'),
    array(oid::FLOAT8_ARRAY, "_float8", "double precision[]", oid::FLOAT8, 'd'),
    array(oid::OID_ARRAY, "_oid", "oid[]", oid::OID, 'i'),
    base(oid::ACLITEM, "aclitem", "aclitem", 12, 'i', 'U', oid::ACLITEM_ARRAY),
    array(oid::ACLITEM_ARRAY, "_aclitem", "aclitem[]", oid::ACLITEM, 'i'),
    base(oid::BPCHAR, "bpchar", "character", -1, 'i', 'S', oid::BPCHAR_ARRAY),
    base(oid::VARCHAR, "varchar", "character varying", -1, 'i', 'S', oid::VARCHAR_ARRAY),
    base(oid::DATE, "date", "date", 4, 'i', 'D', oid::DATE_ARRAY),
    base(oid::TIME, "time", "time without time zone", 8, 'd', 'D', oid::TIME_ARRAY),
    base(oid::TIMESTAMP, "timestamp", "timestamp without time zone", 8, 'd', 'D', oid::TIMESTAMP_ARRAY),
    array(oid::TIMESTAMP_ARRAY, "_timestamp", "timestamp without time zone[]", oid::TIMESTAMP, 'd'),
    array(oid::DATE_ARRAY, "_date", "date[]", oid::DATE, 'i'),
    array(oid::TIME_ARRAY, "_time", "time without time zone[]", oid::TIME, 'd'),
    base(oid::TIMESTAMPTZ, "timestamptz", "timestamp with time zone", 8, 'd', 'D', oid::TIMESTAMPTZ_ARRAY),
    array(oid::TIMESTAMPTZ_ARRAY, "_timestamptz", "timestamp with time zone[]", oid::TIMESTAMPTZ, 'd'),
    base(oid::INTERVAL, "interval", "interval", 16, 'd', 'T', oid::INTERVAL_ARRAY),
    array(oid::INTERVAL_ARRAY, "_interval", "interval[]", oid::INTERVAL, 'd'),
    array(oid::NUMERIC_ARRAY, "_numeric", "numeric[]", oid::NUMERIC, 'i'),
    base(oid::TIMETZ, "timetz", "time with time zone", 12, 'd', 'D', oid::TIMETZ_ARRAY),
    array(oid::TIMETZ_ARRAY, "_timetz", "time with time zone[]", oid::TIMETZ, 'd'),
    array(oid::CSTRING_ARRAY, "_cstring", "cstring[]", oid::CSTRING, 'i'),
    base(oid::BIT, "bit", "bit", -1, 'i', 'V', oid::BIT_ARRAY),
    array(oid::BIT_ARRAY, "_bit", "bit[]", oid::BIT, 'i'),
    base(oid::VARBIT, "varbit", "bit varying", -1, 'i', 'V', oid::VARBIT_ARRAY),
    array(oid::VARBIT_ARRAY, "_varbit", "bit varying[]", oid::VARBIT, 'i'),
    base(oid::NUMERIC, "numeric", "numeric", -1, 'i', 'N', oid::NUMERIC_ARRAY),
    base(oid::REGPROCEDURE, "regprocedure", "regprocedure", 4, 'i', 'N', 0),
    base(oid::REGCLASS, "regclass", "regclass", 4, 'i', 'N', oid::REGCLASS_ARRAY),
    base(oid::REGTYPE, "regtype", "regtype", 4, 'i', 'N', oid::REGTYPE_ARRAY),
    array(oid::REGCLASS_ARRAY, "_regclass", "regclass[]", oid::REGCLASS, 'i'),
    array(oid::REGTYPE_ARRAY, "_regtype", "regtype[]", oid::REGTYPE, 'i'),
    base(oid::RECORD, "record", "record", -1, 'd', 'P', oid::RECORD_ARRAY),
    base(oid::CSTRING, "cstring", "cstring", -2, 'c', 'P', oid::CSTRING_ARRAY),
    base(oid::VOID, "void", "void", 4, 'i', 'P', 0),
    array(oid::RECORD_ARRAY, "_record", "record[]", oid::RECORD, 'd'),
    base(oid::UUID, "uuid", "uuid", 16, 'c', 'U', oid::UUID_ARRAY),
    array(oid::UUID_ARRAY, "_uuid", "uuid[]", oid::UUID, 'i'),
    base(oid::JSONB, "jsonb", "jsonb", -1, 'i', 'U', oid::JSONB_ARRAY),
    array(oid::JSONB_ARRAY, "_jsonb", "jsonb[]", oid::JSONB, 'i'),
    base(oid::JSONPATH, "jsonpath", "jsonpath", -1, 'i', 'U', oid::JSONPATH_ARRAY),
    array(oid::JSONPATH_ARRAY, "_jsonpath", "jsonpath[]", oid::JSONPATH, 'i'),
    base(oid::INT4RANGE, "int4range", "int4range", -1, 'i', 'R', oid::INT4RANGE_ARRAY),
    array(oid::INT4RANGE_ARRAY, "_int4range", "int4range[]", oid::INT4RANGE, 'i'),
    base(oid::TSRANGE, "tsrange", "tsrange", -1, 'd', 'R', oid::TSRANGE_ARRAY),
    array(oid::TSRANGE_ARRAY, "_tsrange", "tsrange[]", oid::TSRANGE, 'd'),
    base(oid::TSTZRANGE, "tstzrange", "tstzrange", -1, 'd', 'R', oid::TSTZRANGE_ARRAY),
    array(oid::TSTZRANGE_ARRAY, "_tstzrange", "tstzrange[]", oid::TSTZRANGE, 'd'),
    base(oid::DATERANGE, "daterange", "daterange", -1, 'i', 'R', oid::DATERANGE_ARRAY),
    array(oid::DATERANGE_ARRAY, "_daterange", "daterange[]", oid::DATERANGE, 'i'),
    base(oid::INT8RANGE, "int8range", "int8range", -1, 'd', 'R', oid::INT8RANGE_ARRAY),
    array(oid::INT8RANGE_ARRAY, "_int8range", "int8range[]", oid::INT8RANGE, 'd'),
    base(oid::REGNAMESPACE, "regnamespace", "regnamespace", 4, 'i', 'N', 0),
    base(oid::REGROLE, "regrole", "regrole", 4, 'i', 'N', 0),
];

/// The type with that oid, those of users that are meant here among them.
pub fn type_by_oid(oid: u32) -> Option<PgType> {
    if oid >= user_types::FIRST_USER_OID {
        return user_types::current()?.row(oid);
    }
    TYPES.iter().find(|ty| ty.oid == oid).copied()
}

/// The type with that name, as `pg_type` or SQL spells it; aliases such as `int`,
/// `decimal`, `float` included. Case does not matter.
pub fn type_by_name(name: &str) -> Option<PgType> {
    builtin_by_name(name).copied().or_else(|| user_by_name(name))
}

/// A type of users, or of their arrays, by a name as SQL writes it.
fn user_by_name(name: &str) -> Option<PgType> {
    let (name, is_array) = match name.trim().strip_suffix("[]") {
        Some(element) => (element, true),
        None => (name.trim(), false),
    };
    let types = user_types::current().filter(|types| !types.is_empty())?;
    let parts = crate::catalog::split_name(name)?;
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name),
        [schema, name] => (Some(schema.as_str()), name),
        _ => return None,
    };
    match is_array {
        true => types.row(types.named(schema, name)?.body.array),
        false => types.row(types.oid_named(schema, name)?),
    }
}

fn builtin_by_name(name: &str) -> Option<&'static PgType> {
    let lower = name.trim().to_ascii_lowercase();
    let lower = lower.strip_prefix("pg_catalog.").unwrap_or(&lower);
    let (lower, is_array) = match lower.strip_suffix("[]") {
        Some(element) => (element.trim_end(), true),
        None => (lower, false),
    };
    let alias = match lower {
        "int" => "int4",
        "decimal" | "dec" => "numeric",
        "float" => "float8",
        "character varying" => "varchar",
        "char" => "bpchar",
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        "time without time zone" => "time",
        "time with time zone" => "timetz",
        "bit varying" => "varbit",
        other => other,
    };
    let found = TYPES.iter().find(|ty| ty.name == alias || ty.sql_name == alias)?;
    if is_array { TYPES.iter().find(|ty| ty.oid == found.array) } else { Some(found) }
}

/// `format_type(oid, typmod)`: the SQL name with its modifier. `None` means no modifier
/// was given (bare name); `Some(-1)` that there is none.
pub fn format_type(oid: u32, typmod: Option<i32>) -> String {
    let Some(ty) = type_by_oid(oid) else {
        return if oid == 0 { "-".to_owned() } else { builtin_name(oid).unwrap_or_else(|| "???".to_owned()) };
    };
    let typmod = match typmod {
        Some(m) if m >= 0 => m,
        Some(_) if oid == oid::BPCHAR => return "bpchar".to_owned(),
        // Without a length it would be read as one of a bit.
        Some(_) if oid == oid::BIT => return "\"bit\"".to_owned(),
        Some(m) if matches!(ty.elem, oid::BIT | oid::BPCHAR) => return format!("{}[]", format_type(ty.elem, Some(m))),
        _ => return ty.sql_name.to_owned(),
    };
    match oid {
        oid::VARCHAR | oid::BPCHAR if typmod >= 4 => format!("{}({})", ty.sql_name, typmod - 4),
        oid::NUMERIC if typmod >= 4 => {
            let limits = resurgam_numeric::Typmod::from_pg(typmod);
            limits.map_or_else(
                || ty.sql_name.to_owned(),
                |limits| format!("numeric({},{})", limits.precision(), limits.scale()),
            )
        }
        oid::TIME => format!("time({typmod}) without time zone"),
        oid::TIMETZ => format!("time({typmod}) with time zone"),
        oid::BIT | oid::VARBIT if typmod > 0 => format!("{}({typmod})", ty.sql_name),
        oid::TIMESTAMP => format!("timestamp({typmod}) without time zone"),
        oid::TIMESTAMPTZ => format!("timestamp({typmod}) with time zone"),
        oid::INTERVAL => match typmod & 0xffff {
            digits @ 0..=6 => format!("interval{}({digits})", interval_fields(typmod)),
            _ => format!("interval{}", interval_fields(typmod)),
        },
        user_types::FIRST_USER_OID.. => ty.sql_name.to_owned(),
        // Elements have the array's modifier. (Those of vectors have none.)
        _ if ty.elem != 0 && ty.category == 'A' => format!("{}[]", format_type(ty.elem, Some(typmod))),
        _ => ty.sql_name.to_owned(),
    }
}

/// The name of a type of PostgreSQL's that there are no values of here: pseudo-types, ranges, shapes.
fn builtin_name(oid: u32) -> Option<String> {
    let ty = Catalog::postgres().type_of(TypeId(oid))?;
    match ty.element.filter(|_| ty.is_true_array()) {
        Some(element) => Some(format!("{}[]", format_type(element.0, None))),
        None => Some(resurgam_dialect::quote_identifier(ty.name).into_owned()),
    }
}

/// Its oid by its name.
pub fn builtin_oid(name: &str) -> Option<u32> {
    let name = name.trim();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name).trim_matches('"');
    Catalog::postgres().type_named(Schema::PgCatalog, name).map(|ty| ty.oid.0)
}

/// The fields that an interval type keeps, as SQL writes them behind its name; nothing for all.
pub fn interval_fields(typmod: i32) -> &'static str {
    use crate::decode::range::{DAY, HOUR, MINUTE, MONTH, SECOND, YEAR};
    const TO: [(i32, &str); 13] = [
        (YEAR, " year"),
        (MONTH, " month"),
        (DAY, " day"),
        (HOUR, " hour"),
        (MINUTE, " minute"),
        (SECOND, " second"),
        (YEAR | MONTH, " year to month"),
        (DAY | HOUR, " day to hour"),
        (DAY | HOUR | MINUTE, " day to minute"),
        (DAY | HOUR | MINUTE | SECOND, " day to second"),
        (HOUR | MINUTE, " hour to minute"),
        (HOUR | MINUTE | SECOND, " hour to second"),
        (MINUTE | SECOND, " minute to second"),
    ];
    TO.iter().find(|(fields, _)| *fields == typmod >> 16).map_or("", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_postgresql_prints_them() {
        assert_eq!(format_type(oid::VARCHAR, Some(24)), "character varying(20)");
        assert_eq!(format_type(oid::NUMERIC, Some(786_438)), "numeric(12,2)");
        assert_eq!(format_type(oid::BPCHAR, Some(7)), "character(3)");
        assert_eq!(format_type(oid::BPCHAR, None), "character");
        assert_eq!(format_type(oid::TIMESTAMPTZ, Some(-1)), "timestamp with time zone");
        assert_eq!(format_type(oid::TEXT_ARRAY, None), "text[]");
        assert_eq!(format_type(999_999, None), "???");
    }

    #[test]
    fn names_are_found() {
        for (name, oid) in [
            ("int", oid::INT4),
            ("INTEGER", oid::INT4),
            ("pg_catalog.text", oid::TEXT),
            ("text[]", oid::TEXT_ARRAY),
            ("character varying", oid::VARCHAR),
            ("timestamp with time zone", oid::TIMESTAMPTZ),
        ] {
            assert_eq!(type_by_name(name).map(|ty| ty.oid), Some(oid), "{name}");
        }
        assert!(type_by_name("nosuch").is_none());
    }
}
