//! `pg_am`, `pg_collation` and other relations that are the same everywhere.

use super::rows::Rows;
use super::{BTREE_AM_OID, HEAP_AM_OID, PG_CATALOG_OID, SUPERUSER_OID};
use crate::collation::{self, Collation};
use crate::operator_classes::{FAMILIES, OPERATOR_CLASSES};

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
            for &Collation { oid, name, encoding, locale, icu } in collation::all() {
                let provider = match locale {
                    None => 'd',
                    Some(_) if icu => 'i',
                    Some(_) => 'c',
                };
                let (of_system, of_icu) = if icu { (None, locale) } else { (locale, None) };
                rows.add([
                    ("oid", oid.into()),
                    ("collname", name.into()),
                    ("collnamespace", PG_CATALOG_OID.into()),
                    ("collowner", SUPERUSER_OID.into()),
                    ("collprovider", provider.into()),
                    ("collisdeterministic", true.into()),
                    ("collencoding", encoding.into()),
                    ("collcollate", of_system.into()),
                    ("collctype", of_system.into()),
                    ("colliculocale", of_icu.into()),
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
            for class in OPERATOR_CLASSES {
                rows.add([
                    ("oid", class.oid.into()),
                    ("opcmethod", BTREE_AM_OID.into()),
                    ("opcname", class.name.into()),
                    ("opcnamespace", PG_CATALOG_OID.into()),
                    ("opcowner", SUPERUSER_OID.into()),
                    ("opcfamily", class.family.into()),
                    ("opcintype", class.input.into()),
                    ("opcdefault", class.is_default.into()),
                    ("opckeytype", 0u32.into()),
                ]);
            }
        }
        "pg_opfamily" => {
            for (oid, name) in FAMILIES {
                rows.add([
                    ("oid", oid.into()),
                    ("opfmethod", BTREE_AM_OID.into()),
                    ("opfname", name.into()),
                    ("opfnamespace", PG_CATALOG_OID.into()),
                    ("opfowner", SUPERUSER_OID.into()),
                ]);
            }
        }
        _ => return false,
    }
    true
}
