//! `pg_am`, `pg_collation` and other relations that are the same everywhere.

use super::rows::Rows;
use super::{BTREE_AM_OID, HEAP_AM_OID, PG_CATALOG_OID, SUPERUSER_OID};
use crate::types::oid;

/// Fills a relation; false if it is not one of these.
pub(super) fn fill(name: &str, rows: &mut Rows<'_>) -> bool {
    match name {
        "pg_am" => {
            for (oid, name, handler, kind) in
                [(HEAP_AM_OID, "heap", "heap_tableam_handler", 't'), (BTREE_AM_OID, "btree", "bthandler", 'i')]
            {
                rows.add([
                    ("oid", oid.into()),
                    ("amname", name.into()),
                    ("amhandler", handler.into()),
                    ("amtype", kind.into()),
                ]);
            }
        }
        "pg_collation" => {
            for (oid, name, provider) in [(100u32, "default", 'd'), (950, "C", 'c'), (951, "POSIX", 'c')] {
                let locale = (provider == 'c').then_some(name);
                rows.add([
                    ("oid", oid.into()),
                    ("collname", name.into()),
                    ("collnamespace", PG_CATALOG_OID.into()),
                    ("collowner", SUPERUSER_OID.into()),
                    ("collprovider", provider.into()),
                    ("collisdeterministic", true.into()),
                    ("collencoding", (-1).into()),
                    ("collcollate", locale.into()),
                    ("collctype", locale.into()),
                ]);
            }
        }
        "pg_tablespace" => {
            for (oid, name) in [(1663u32, "pg_default"), (1664, "pg_global")] {
                rows.add([("oid", oid.into()), ("spcname", name.into()), ("spcowner", SUPERUSER_OID.into())]);
            }
        }
        "pg_language" => {
            for (oid, name, trusted) in [(12u32, "internal", false), (13, "c", false), (14, "sql", true)] {
                rows.add([
                    ("oid", oid.into()),
                    ("lanname", name.into()),
                    ("lanowner", SUPERUSER_OID.into()),
                    ("lanpltrusted", trusted.into()),
                ]);
            }
        }
        "pg_opclass" => {
            for (oid, name, ty) in [
                (1978u32, "int4_ops", oid::INT4),
                (1979, "int2_ops", oid::INT2),
                (3124, "int8_ops", oid::INT8),
                (1970, "float4_ops", oid::FLOAT4),
                (3123, "float8_ops", oid::FLOAT8),
                (3125, "numeric_ops", oid::NUMERIC),
                (3126, "text_ops", oid::TEXT),
                (426, "bpchar_ops", oid::BPCHAR),
                (428, "bytea_ops", oid::BYTEA),
                (424, "bool_ops", oid::BOOL),
                (3122, "date_ops", oid::DATE),
                (3129, "time_ops", oid::TIME),
                (3128, "timestamp_ops", oid::TIMESTAMP),
                (3127, "timestamptz_ops", oid::TIMESTAMPTZ),
                (2968, "uuid_ops", oid::UUID),
                (10015, "inet_ops", oid::INET),
                (10024, "macaddr_ops", oid::MACADDR),
                (10026, "macaddr8_ops", oid::MACADDR8),
            ] {
                rows.add([
                    ("oid", oid.into()),
                    ("opcmethod", BTREE_AM_OID.into()),
                    ("opcname", name.into()),
                    ("opcnamespace", PG_CATALOG_OID.into()),
                    ("opcowner", SUPERUSER_OID.into()),
                    ("opcintype", ty.into()),
                    ("opcdefault", true.into()),
                ]);
            }
        }
        _ => return false,
    }
    true
}
