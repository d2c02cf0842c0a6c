//! Values to the wire's text and binary formats.
//!
//! Contract: every `put_*` appends one value's bytes without a length; the row
//! encoders put the `i32` big-endian length (or -1 for null) before it. Nothing
//! allocates per value except for arrays and `reg…` names.
//!
//! Text is what PostgreSQL 15 prints with `DateStyle = ISO`, `IntervalStyle =
//! postgres`, `bytea_output = hex`, `extra_float_digits = 1`.

mod array;
mod binary;
mod cell;
mod datum;
mod record;
mod row;
mod text;

use std::sync::Arc;

pub(crate) use array::put_element;
pub use binary::put_numeric_binary;
pub use cell::Cell;
pub use datum::{encode_datum, put_datum_text};
pub use row::RowEncoder;
pub(crate) use text::uuid_bytes;
pub use text::{
    put_bytea, put_date, put_float4, put_float8, put_int, put_interval, put_iso_date, put_iso_timestamp,
    put_iso_timestamptz, put_numeric, put_time, put_timestamp, put_timestamptz, put_uint, put_uuid, put_zone,
    uuid_text,
};

use crate::context::PgContext;
use crate::datetime::Zone;

/// What the text format depends on.
#[derive(Clone, Debug, Default)]
pub struct TextStyle {
    /// Zone in which `timestamptz` is printed.
    pub zone: Zone,
    /// Where names for `regclass` and its kin come from; without it they print as numbers.
    pub names: Option<Arc<dyn PgContext>>,
}

impl TextStyle {
    /// The style of a session.
    pub fn of(cx: &Arc<dyn PgContext>) -> Self {
        Self { zone: cx.zone(), names: Some(cx.clone()) }
    }
}
