//! `nextval`, `currval`, `setval`, `lastval`, `pg_sequence_last_value`.

use std::sync::Arc;

use super::define::{Call, P, PgFunction, f, oid};
use crate::context::{PgContext, SequenceCall};
use crate::types::oid as t;

/// Every function here.
pub(super) const NAMES: &[&str] = &["nextval", "currval", "setval", "lastval", "pg_sequence_last_value"];

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let mut out = Vec::with_capacity(NAMES.len());
    for (name, what) in [("nextval", SequenceCall::Next), ("currval", SequenceCall::Current)] {
        let cx = Arc::clone(cx);
        let body = move |call: &Call<'_>| {
            call.ints(|row| call.oid(0, row).map(|sequence| cx.sequence_value(sequence, what)).transpose())
        };
        out.push(f(name, &[P::Any], oid(t::INT8), body).each_row());
    }
    let captured = Arc::clone(cx);
    let body = move |call: &Call<'_>| {
        call.ints(|row| {
            let called = if call.given(2) { call.bool(2, row) } else { Some(true) };
            let (Some(sequence), Some(to), Some(called)) = (call.oid(0, row), call.int(1, row), called) else {
                return Ok(None);
            };
            captured.sequence_value(sequence, SequenceCall::Set(to, called)).map(Some)
        })
    };
    out.push(f("setval", &[P::Any, P::Int, P::Bool], oid(t::INT8), body).required(2).each_row());
    let captured = Arc::clone(cx);
    let body = move |call: &Call<'_>| {
        call.ints(|row| {
            let state = call.oid(0, row).map(|sequence| captured.sequence_state_asked(sequence)).transpose()?;
            Ok(state.filter(|state| state.called).map(|state| state.last))
        })
    };
    out.push(f("pg_sequence_last_value", &[P::Any], oid(t::INT8), body).each_row());
    let cx = Arc::clone(cx);
    let body = move |call: &Call<'_>| call.ints(|_| cx.sequence_value(0, SequenceCall::Last).map(Some));
    out.push(f("lastval", &[], oid(t::INT8), body).each_row());
    out
}
