//! What pg_dump asks for beside catalogs: `acldefault`, `aclexplode`, `pg_options_to_table`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, ListBuilder, StringViewArray, StringViewBuilder, UInt32Array};
use datafusion::arrow::datatypes::DataType;
use resurgam_engine::Grant;

use super::define::{Call, P, PgFunction, f, oid};
use crate::context::PgContext;
use crate::roles::Rights;
use crate::roles::acl::{self, Object, default_grants};
use crate::types::oid as t;
use crate::wire::SqlError;

/// Those that are bound to a session.
pub(super) const NAMES: &[&str] =
    &["acldefault", "pg_pg_acl_grantor", "pg_pg_acl_grantee", "pg_pg_acl_privilege_type", "pg_pg_acl_is_grantable"];

/// The rights of a list one by one (`aclexplode`): who gave them and has them, the word, and whether they may be given on.
fn exploded(items: &[Option<String>], rights: &Rights) -> Result<Vec<(Grant, &'static str, bool)>, SqlError> {
    let mut out = Vec::new();
    for item in items {
        let item = item.as_deref().ok_or_else(|| SqlError::new("22004", "ACL arrays must not contain null values"))?;
        let grant = acl::parse(item, rights)?;
        out.extend(acl::words(grant.privileges).map(|(bit, word)| (grant, word, grant.options & bit != 0)));
    }
    Ok(out)
}

/// One column of what `aclexplode` gives.
fn exploded_column(
    cx: &Arc<dyn PgContext>,
    name: &'static str,
    list: u32,
    values: impl Fn(&[(Grant, &'static str, bool)]) -> ArrayRef + Send + Sync + 'static,
) -> PgFunction {
    let cx = Arc::clone(cx);
    f(name, &[P::Any], oid(list), move |call| {
        let rights = cx.rights()?;
        let mut all = Vec::new();
        let (lengths, nulls) = call.collected(|row| {
            let Some(items) = call.words(0, row)? else { return Ok(None) };
            let rights = exploded(&items, &rights)?;
            let count = rights.len();
            all.extend(rights);
            Ok(Some(count))
        })?;
        call.list_of(lengths, nulls, values(&all))
    })
}

/// The rights to an object of that kind while nobody has said anything, as texts.
/// `kind` is a "char" in PostgreSQL, which has one letter only of a longer text.
fn defaults(cx: &dyn PgContext, kind: &str, owner: u32) -> Result<Vec<String>, SqlError> {
    let letter = kind.char_indices().nth(1).map_or(kind, |(second, _)| &kind[..second]);
    let rights = cx.rights()?;
    // There are none of these here: what only their owner may.
    let only_owner = match letter {
        "L" => Some("rw"),
        "F" | "S" => Some("U"),
        "p" => Some("sA"),
        _ => None,
    };
    if let Some(letters) = only_owner {
        let grant = default_grants(Object::Schema, owner).into_iter().next();
        let text = grant.map(|grant| acl::text(&grant, &rights)).unwrap_or_default();
        return Ok(vec![text.replacen("=UC/", &format!("={letters}/"), 1)]);
    }
    let object = Object::of_letter(letter)
        .ok_or_else(|| SqlError::new("22023", format!("unrecognized objtype abbreviation: {letter}")))?;
    Ok(acl::texts(&default_grants(object, owner), &rights))
}

/// The part of an option before its equals sign, or behind it.
fn part(option: &str, name: bool) -> Option<&str> {
    match (option.split_once('='), name) {
        (Some((name, _)), true) => Some(name),
        (Some((_, value)), false) => Some(value),
        (None, true) => Some(option),
        (None, false) => None,
    }
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let mut out = Vec::new();
    let of = Arc::clone(cx);
    let body = move |call: &Call<'_>| {
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        if let DataType::List(field) = call.returns.data_type() {
            lists = lists.with_field(field.clone());
        }
        for row in 0..call.rows {
            let (Some(letter), Some(owner)) = (call.text(0, row), call.oid(1, row)) else {
                lists.append(false);
                continue;
            };
            defaults(of.as_ref(), letter, owner)?.iter().for_each(|item| lists.values().append_value(item));
            lists.append(true);
        }
        Ok(Arc::new(lists.finish()) as _)
    };
    out.push(f("acldefault", &[P::Text, P::Oid], oid(t::ACLITEM_ARRAY), body));
    let oids = |of: fn(&Grant) -> u32| {
        move |all: &[(Grant, &'static str, bool)]| -> ArrayRef {
            Arc::new(all.iter().map(|(grant, ..)| of(grant)).collect::<UInt32Array>())
        }
    };
    out.push(exploded_column(cx, "pg_pg_acl_grantor", t::OID_ARRAY, oids(|grant| grant.grantor)));
    out.push(exploded_column(cx, "pg_pg_acl_grantee", t::OID_ARRAY, oids(|grant| grant.grantee)));
    out.push(exploded_column(cx, "pg_pg_acl_privilege_type", t::TEXT_ARRAY, |all| {
        Arc::new(all.iter().map(|(_, word, _)| Some(*word)).collect::<StringViewArray>())
    }));
    out.push(exploded_column(cx, "pg_pg_acl_is_grantable", t::BOOL_ARRAY, |all| {
        Arc::new(all.iter().map(|(.., may)| Some(*may)).collect::<BooleanArray>())
    }));
    for (name, of_name) in [("pg_pg_option_names", true), ("pg_pg_option_values", false)] {
        out.push(f(name, &[P::Any], oid(t::TEXT_ARRAY), move |call| {
            let mut texts = StringViewBuilder::new();
            let (lengths, nulls) = call.collected(|row| {
                let Some(options) = call.words(0, row)? else { return Ok(None) };
                for option in &options {
                    texts.append_option(option.as_deref().and_then(|option| part(option, of_name)));
                }
                Ok(Some(options.len()))
            })?;
            call.list_of(lengths, nulls, Arc::new(texts.finish()))
        }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::TestContext;

    #[test]
    fn default_rights_are_those_of_postgresql() {
        let cx = TestContext::default();
        let of = |letter| defaults(&cx, letter, 10).expect(letter).join(",");
        assert_eq!(of("r"), "postgres=arwdDxt/postgres");
        assert_eq!(of("s"), "postgres=rwU/postgres");
        assert_eq!(of("n"), "postgres=UC/postgres");
        assert_eq!(of("d"), "=Tc/postgres,postgres=CTc/postgres");
        assert_eq!(of("f"), "=X/postgres,postgres=X/postgres");
        assert_eq!(of("T"), "=U/postgres,postgres=U/postgres");
        assert_eq!(of("L"), "postgres=rw/postgres");
        assert_eq!(of("F"), "postgres=U/postgres");
        assert_eq!(of("c"), "");
        assert_eq!(defaults(&cx, "q", 10).expect_err("none").sqlstate, "22023");
        assert_eq!(defaults(&cx, "rest", 10).expect("one letter"), defaults(&cx, "r", 10).expect("it"));
    }

    #[test]
    fn options_are_cut_at_their_first_equals_sign() {
        assert_eq!((part("a=b=c", true), part("a=b=c", false)), (Some("a"), Some("b=c")));
        assert_eq!((part("a", true), part("a", false)), (Some("a"), None));
    }
}
