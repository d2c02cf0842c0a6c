//! What shows statistics: `pg_stats`, and columns of `pg_class` and `pg_stat_user_tables`.

use bytes::BytesMut;
use resurgam_engine::{ColumnStatistics, ColumnType, Datum, Table};

use super::model::{Model, relation_oid};
use super::roles::access_of;
use super::rows::{Rows, V};
use crate::context::PgContext;
use crate::datetime::{Zone, us_from_engine};
use crate::encode::{put_datum_text, put_element};
use crate::policies::apply_to;
use crate::roles::acl;
use crate::wire::SqlError;

/// `pg_stats`: the columns that the role may read, of tables all of whose rows it may see.
pub(super) fn pg_stats(rows: &mut Rows<'_>, cx: &dyn PgContext, model: &Model) -> Result<(), SqlError> {
    let (rights, role, zone) = (cx.rights()?, cx.role(), cx.zone());
    let select = acl::privilege::SELECT;
    for table in &model.tables {
        let Some(known) = cx.statistics(table) else { continue };
        if apply_to(table, &rights, role, None)? {
            continue;
        }
        let access = access_of(table);
        let may_read_all = rights.allowed(role, access, acl::Object::Table, select) != 0;
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_hidden()) {
            let Some(of) = known.column(&column.name, column.ty) else { continue };
            if may_read_all || rights.allowed_column(role, access, at, select) != 0 {
                add(rows, table, of, &zone)?;
            }
        }
    }
    Ok(())
}

fn add(rows: &mut Rows<'_>, table: &Table, of: &ColumnStatistics, zone: &Zone) -> Result<(), SqlError> {
    let (mut common, mut parts, mut bounds) = (V::Null, V::Null, V::Null);
    if !of.common.is_empty() {
        common = texts(of.common.iter().map(|(value, _)| value), &of.ty, zone)?;
        parts = V::List(of.common.iter().map(|(_, part)| V::Float(f64::from(*part))).collect());
    }
    if !of.histogram.is_empty() {
        bounds = texts(of.histogram.iter(), &of.ty, zone)?;
    }
    rows.add([
        ("schemaname", table.schema.as_str().into()),
        ("tablename", table.name.as_str().into()),
        ("attname", of.name.as_str().into()),
        ("inherited", false.into()),
        ("null_frac", f64::from(of.nulls).into()),
        ("avg_width", of.width.into()),
        ("n_distinct", f64::from(of.distinct).into()),
        ("most_common_vals", common),
        ("most_common_freqs", parts),
        ("histogram_bounds", bounds),
        ("correlation", of.correlation.map(f64::from).into()),
    ]);
    Ok(())
}

/// An array of values, as its text.
fn texts<'v>(values: impl Iterator<Item = &'v Datum>, ty: &ColumnType, zone: &Zone) -> Result<V, SqlError> {
    let mut out = BytesMut::new();
    for value in values {
        out.extend_from_slice(if out.is_empty() { b"{" } else { b"," });
        let mut text = BytesMut::new();
        put_datum_text(value.as_ref(), ty, zone, &mut text)?;
        put_element(&text, &mut out);
    }
    out.extend_from_slice(b"}");
    Ok(V::Text(String::from_utf8_lossy(&out).into_owned()))
}

/// What `pg_stat_user_tables` says of one.
pub(super) fn of_table(cx: &dyn PgContext, table: &Table) -> impl IntoIterator<Item = (&'static str, V)> {
    let known = cx
        .statistics(table)
        .map(|known| (known.analyzed_at, known.analyzed_itself_at, known.analyzed, known.analyzed_itself));
    let (at, itself_at, times, times_itself) = known.unwrap_or_default();
    let time = |at: i64| if at == 0 { V::Null } else { V::Time(us_from_engine(at)) };
    [
        ("relid", relation_oid(table.id).into()),
        ("schemaname", table.schema.as_str().into()),
        ("relname", table.name.as_str().into()),
        ("n_live_tup", cx.row_estimate(table).into()),
        ("n_mod_since_analyze", table.rows_changed().into()),
        ("last_analyze", time(at)),
        ("last_autoanalyze", time(itself_at)),
        ("analyze_count", times.into()),
        ("autoanalyze_count", times_itself.into()),
    ]
}
