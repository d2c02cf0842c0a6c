//! `pg_notify`, `pg_listening_channels`, `pg_notification_queue_usage`.

use std::sync::Arc;

use datafusion::arrow::array::{ListBuilder, StringViewBuilder};
use datafusion::common::ScalarValue;

use super::define::{Call, P, PgFunction, f, oid};
use crate::context::PgContext;
use crate::types::oid as t;

pub(super) const NAMES: &[&str] = &["pg_notify", "pg_pg_listening_channels", "pg_notification_queue_usage"];

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let mut out = Vec::with_capacity(NAMES.len());
    let of = Arc::clone(cx);
    let body = move |call: &Call<'_>| {
        call.texts(|row| {
            of.notify(call.text(0, row).unwrap_or_default(), call.text(1, row).unwrap_or_default())?;
            Ok(Some(String::new()))
        })
    };
    out.push(f("pg_notify", &[P::Text, P::Text], oid(t::TEXT), body).each_row());
    let of = Arc::clone(cx);
    let body = move |call: &Call<'_>| {
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        if let datafusion::arrow::datatypes::DataType::List(field) = call.returns.data_type() {
            lists = lists.with_field(field.clone());
        }
        let channels = of.listening_channels();
        for _ in 0..call.rows {
            channels.iter().for_each(|channel| lists.values().append_value(channel));
            lists.append(true);
        }
        Ok(Arc::new(lists.finish()) as _)
    };
    out.push(f("pg_pg_listening_channels", &[], oid(t::TEXT_ARRAY), body).volatile());
    let of = Arc::clone(cx);
    let body = move |call: &Call<'_>| call.same(ScalarValue::Float64(Some(of.notification_queue_usage())));
    out.push(f("pg_notification_queue_usage", &[], oid(t::FLOAT8), body).volatile());
    out
}
