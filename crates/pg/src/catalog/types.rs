//! `pg_am`, `pg_collation` and other relations that are the same everywhere.

use super::rows::Rows;
use super::{BTREE_AM_OID, HEAP_AM_OID, PG_CATALOG_OID, SUPERUSER_OID};
use crate::collation::{self, Collation};
use crate::operator_classes::{CITEXT_FAMILY, FAMILIES, OPERATOR_CLASSES};
use crate::types::{oid, type_by_oid};

/// Whether a type is one that the database has, if it is one of an extension.
fn is_there(ty: u32) -> bool {
    ty != oid::CITEXT || type_by_oid(ty).is_some()
}

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
            for class in OPERATOR_CLASSES.into_iter().filter(|class| is_there(class.input)) {
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
            for (oid, name) in FAMILIES.into_iter().filter(|(oid, _)| *oid != CITEXT_FAMILY || is_there(oid::CITEXT)) {
                rows.add([
                    ("oid", oid.into()),
                    ("opfmethod", BTREE_AM_OID.into()),
                    ("opfname", name.into()),
                    ("opfnamespace", PG_CATALOG_OID.into()),
                    ("opfowner", SUPERUSER_OID.into()),
                ]);
            }
        }
        "pg_amop" => {
            for member in members('o') {
                let Ok(operator) = member.what.parse::<u32>() else { continue };
                rows.add([
                    ("oid", member.oid.into()),
                    ("amopfamily", member.family.into()),
                    ("amoplefttype", member.left.into()),
                    ("amoprighttype", member.right.into()),
                    ("amopstrategy", member.number.into()),
                    ("amoppurpose", 's'.into()),
                    ("amopopr", operator.into()),
                    ("amopmethod", BTREE_AM_OID.into()),
                ]);
            }
        }
        "pg_amproc" => {
            for member in members('f') {
                rows.add([
                    ("oid", member.oid.into()),
                    ("amprocfamily", member.family.into()),
                    ("amproclefttype", member.left.into()),
                    ("amprocrighttype", member.right.into()),
                    ("amprocnum", member.number.into()),
                    ("amproc", member.what.into()),
                ]);
            }
        }
        _ => return false,
    }
    true
}

/// An operator or a function of a family of operators.
struct Member {
    oid: u32,
    family: u32,
    left: u32,
    right: u32,
    number: i16,
    /// The operator's oid, or the function's name.
    what: &'static str,
}

/// Those of `families.txt` that begin with a letter.
fn members(letter: char) -> impl Iterator<Item = Member> {
    include_str!("families.txt").lines().filter_map(move |line| {
        let mut words = line.strip_prefix(letter)?.split_ascii_whitespace();
        let mut number = || words.next()?.parse::<u32>().ok();
        let (oid, family, left, right, at) = (number()?, number()?, number()?, number()?, number()?);
        Some(Member { oid, family, left, right, number: i16::try_from(at).ok()?, what: words.next()? })
    })
}
