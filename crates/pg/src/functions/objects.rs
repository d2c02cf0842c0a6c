//! What the catalogs' objects are called, and what is counted of tables.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, TimestampMicrosecondArray};
use resurgam_engine::Table;

use super::define::{Call, P, PgFunction, f, oid};
use crate::catalog::{Described, Model, describe, relation_oid};
use crate::context::PgContext;
use crate::datetime::us_from_engine;
use crate::types::{UTC, oid as t};
use crate::wire::SqlError;

/// Those that tell what an object is called.
const WORDS: [&str; 5] = [
    "pg_describe_object",
    "pg_pg_identify_object_type",
    "pg_pg_identify_object_schema",
    "pg_pg_identify_object_name",
    "pg_pg_identify_object_identity",
];

/// Functions of what PostgreSQL counts by table or index: NULL where nobody counts, as in `pg_stat_user_tables`.
const COUNTERS: [&str; 17] = [
    "pg_stat_get_numscans",
    "pg_stat_get_tuples_returned",
    "pg_stat_get_tuples_fetched",
    "pg_stat_get_tuples_inserted",
    "pg_stat_get_tuples_updated",
    "pg_stat_get_tuples_deleted",
    "pg_stat_get_tuples_hot_updated",
    "pg_stat_get_live_tuples",
    "pg_stat_get_dead_tuples",
    "pg_stat_get_mod_since_analyze",
    "pg_stat_get_ins_since_vacuum",
    "pg_stat_get_blocks_fetched",
    "pg_stat_get_blocks_hit",
    "pg_stat_get_vacuum_count",
    "pg_stat_get_autovacuum_count",
    "pg_stat_get_analyze_count",
    "pg_stat_get_autoanalyze_count",
];

/// Functions of when something was done to a table.
const TIMES: [&str; 4] = [
    "pg_stat_get_last_vacuum_time",
    "pg_stat_get_last_autovacuum_time",
    "pg_stat_get_last_analyze_time",
    "pg_stat_get_last_autoanalyze_time",
];

/// Whether a function is one of these, which are all bound to a session.
pub(super) fn is_of_session(name: &str) -> bool {
    WORDS.contains(&name) || COUNTERS.contains(&name) || TIMES.contains(&name)
}

/// What a counter has for a table.
fn counted(cx: &dyn PgContext, name: &str, table: &Table) -> Option<i64> {
    let number = match name {
        "pg_stat_get_live_tuples" => cx.row_estimate(table),
        "pg_stat_get_mod_since_analyze" => Some(table.rows_changed()),
        "pg_stat_get_analyze_count" => Some(cx.statistics(table).map_or(0, |known| known.analyzed)),
        "pg_stat_get_autoanalyze_count" => Some(cx.statistics(table).map_or(0, |known| known.analyzed_itself)),
        _ => None,
    };
    number.map(|number| i64::try_from(number).unwrap_or(i64::MAX))
}

/// By the number that each has in the catalogs.
fn by_oid(cx: &dyn PgContext) -> Result<HashMap<u32, Arc<Table>>, SqlError> {
    Ok(cx.tables()?.into_iter().map(|table| (relation_oid(table.id), table)).collect())
}

/// The objects that three arguments name, one for each row.
fn described(
    cx: &dyn PgContext,
    call: &Call<'_>,
    part: impl Fn(Described) -> Result<Option<String>, SqlError>,
) -> Result<ArrayRef, SqlError> {
    let model = Model::load(cx)?;
    call.texts(|row| {
        let (Some(class), Some(oid), Some(column)) = (call.oid(0, row), call.oid(1, row), call.int(2, row)) else {
            return Ok(None);
        };
        match describe(cx, &model, class, oid, column)? {
            Some(found) => part(found),
            None => Ok(None),
        }
    })
}

/// A part of what `pg_identify_object` says of an object.
fn identified(part: &str, found: Described) -> Result<Option<String>, SqlError> {
    let Some(identity) = found.identity else {
        let what = found.text.split(' ').next().unwrap_or_default();
        return Err(SqlError::unsupported(format!("pg_identify_object of a {what} is not supported")));
    };
    Ok(match part {
        "type" => Some(identity.kind),
        "schema" => identity.schema,
        "name" => identity.name,
        _ => Some(identity.identity),
    })
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let mut out = Vec::new();
    let of = Arc::clone(cx);
    let words = move |call: &Call<'_>| described(of.as_ref(), call, |found| Ok(Some(found.text)));
    out.push(f("pg_describe_object", &[P::Oid, P::Oid, P::Int], oid(t::TEXT), words).volatile());
    for (name, part) in [
        ("pg_pg_identify_object_type", "type"),
        ("pg_pg_identify_object_schema", "schema"),
        ("pg_pg_identify_object_name", "name"),
        ("pg_pg_identify_object_identity", "identity"),
    ] {
        let of = Arc::clone(cx);
        let words = move |call: &Call<'_>| described(of.as_ref(), call, |found| identified(part, found));
        out.push(f(name, &[P::Oid, P::Oid, P::Int], oid(t::TEXT), words).volatile());
    }
    for name in COUNTERS {
        let of = Arc::clone(cx);
        let counts = move |call: &Call<'_>| {
            let tables = by_oid(of.as_ref())?;
            call.ints(|row| Ok(call.oid(0, row).and_then(|oid| counted(of.as_ref(), name, tables.get(&oid)?))))
        };
        out.push(f(name, &[P::Oid], oid(t::INT8), counts).volatile());
    }
    for name in TIMES {
        let of = Arc::clone(cx);
        let times = move |call: &Call<'_>| -> Result<ArrayRef, SqlError> {
            let tables = by_oid(of.as_ref())?;
            let at = |row: usize| {
                let known = of.statistics(tables.get(&call.oid(0, row)?)?)?;
                let at = match name {
                    "pg_stat_get_last_analyze_time" => known.analyzed_at,
                    "pg_stat_get_last_autoanalyze_time" => known.analyzed_itself_at,
                    _ => 0,
                };
                (at != 0).then(|| us_from_engine(at))
            };
            let times: TimestampMicrosecondArray = (0..call.rows).map(at).collect();
            Ok(Arc::new(times.with_timezone(UTC)))
        };
        out.push(f(name, &[P::Oid], oid(t::TIMESTAMPTZ), times).volatile());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::TestContext;

    #[test]
    fn all_are_known_as_the_sessions() {
        let cx: Arc<dyn PgContext> = Arc::new(TestContext::default());
        for function in all(&cx) {
            assert!(super::super::is_session_function(function.name()), "{}", function.name());
        }
    }

    #[test]
    fn objects_have_their_words() {
        let cx = TestContext::default();
        let model = Model::load(&cx).expect("model");
        let words = |class, oid, column| describe(&cx, &model, class, oid, column).map(|it| it.map(|it| it.text));
        let text = |class, oid, column| words(class, oid, column).expect("words");
        assert_eq!(text(1259, 1259, 0).as_deref(), Some("table pg_class"));
        assert_eq!(text(1259, 1259, 2).as_deref(), Some("column relname of table pg_class"));
        assert_eq!(text(1259, 1259, 500), None);
        assert_eq!(text(1247, 23, 0).as_deref(), Some("type integer"));
        assert_eq!(text(2615, 2200, 0).as_deref(), Some("schema public"));
        assert_eq!(words(77, 1, 0).expect_err("no class").sqlstate, "XX000");
        assert_eq!(words(2602, 1, 0).expect_err("not told of").sqlstate, "0A000");
    }
}
