//! Types, and of each some values: ordinary ones, and those at its ends.

/// Types that have to be made.
pub const OWN: &[&str] = &["CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN posint AS int CHECK (value > 0)"];

/// A type as it is written, and texts of its values.
pub const TYPES: &[(&str, &[&str])] = &[
    ("bool", &["true", "false"]),
    ("int2", &["0", "-32768", "32767"]),
    ("int4", &["0", "-2147483648", "2147483647", "65"]),
    ("int8", &["0", "-9223372036854775808", "9223372036854775807", "5"]),
    ("float4", &["0", "-0", "1.5", "3.4028235e38", "NaN", "-Infinity", "2.5", "-0.5"]),
    ("float8", &["0", "-0", "1.5", "1e300", "NaN", "Infinity", "2.5", "9223372036854775807", "2147483647.5"]),
    ("numeric", &["0", "1.50", "NaN", "Infinity", "-2.5", "99999999999999999999", "0.000001", "32767.5"]),
    ("numeric(5,2)", &["1.255", "-999.99"]),
    ("text", &["", "a", "1", " 12 ", "true", "2020-01-01", "NaN", "\\x41", "{1,2}", "1 day", "sad"]),
    ("varchar(3)", &["abc", "1"]),
    ("char(4)", &["ab", "1"]),
    ("bpchar", &["ab "]),
    ("\"char\"", &["a", "1", ""]),
    ("name", &["abc", "1"]),
    ("bytea", &["\\x", "\\x4142"]),
    ("date", &["2020-02-29", "infinity", "0001-01-01 BC"]),
    ("time", &["00:00", "24:00", "12:34:56.789"]),
    ("time(0)", &["12:00:00.7"]),
    ("timetz", &["12:00+02", "23:59:59.9-08"]),
    ("timestamp", &["2020-02-29 12:34:56.5", "infinity", "epoch"]),
    ("timestamp(0)", &["2020-01-01 00:00:00.5"]),
    ("timestamptz", &["2020-02-29 12:34:56.5+02", "-infinity"]),
    ("interval", &["1 day", "-1 mon 2 days 03:04:05.6", "0"]),
    ("interval day", &["1 day 3 hours"]),
    ("uuid", &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    ("json", &["{\"a\": 1}", "1", "\"x\"", "null", "[1,2]"]),
    ("jsonb", &["{\"a\": 1}", "1", "1.50", "\"x\"", "null", "true", "[1, 2]"]),
    ("bit(3)", &["101"]),
    ("varbit", &["", "1011"]),
    ("oid", &["0", "4294967295", "1259"]),
    ("xid", &["5"]),
    ("regclass", &["pg_class", "0"]),
    ("regtype", &["int4"]),
    ("int4[]", &["{}", "{1,NULL,3}"]),
    ("text[]", &["{a,\"b c\"}"]),
    ("float8[]", &["{1.5,NaN}"]),
    ("mood", &["sad", "ok"]),
    ("posint", &["5"]),
    ("int4range", &["[1,3)", "(,5]", "empty", "[3,2147483647)", "(,)"]),
    ("int8range", &["[1,3)", "[-9223372036854775808,)"]),
    ("daterange", &["[2020-02-28,2020-02-29]", "(,infinity)", "[2020-01-01,]"]),
    ("tsrange", &["[2020-02-29 12:00,2020-02-29 13:00]", "(2020-02-29 13:00,)"]),
    ("tstzrange", &["[2020-02-29 12:00+02,infinity]"]),
    ("int4range[]", &["{\"[1,3)\",empty,NULL}"]),
    // Types that are not there: what is refused is refused by name.
    ("inet", &["10.0.0.1/8"]),
    ("money", &["1.5"]),
    ("point", &["(1,2)"]),
    ("numrange", &["[1.5,3)"]),
    ("int4multirange", &["{[1,3)}"]),
];

/// The types of second arguments of functions.
pub const SECOND: &[&str] = &[
    "int4",
    "text",
    "numeric",
    "float8",
    "jsonb",
    "date",
    "interval",
    "timestamptz",
    "int4[]",
    "bytea",
    "bool",
    "timestamp",
    "varbit",
    "text[]",
    "int4range",
    "daterange",
];

/// A value as a statement has it.
pub fn value(ty: &str, text: &str) -> String {
    format!("cast('{}' as {ty})", text.replace('\'', "''"))
}
