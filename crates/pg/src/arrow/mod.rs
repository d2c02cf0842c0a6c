//! Engine datums to Arrow columns and back.
//!
//! Reading: [`ColumnBuilder`]. Writing: [`assignment_cast`] brings an expression's
//! result to the column's Arrow type by PostgreSQL's rules of assignment (numbers are
//! rounded, never truncated; text is checked against its length), and [`DatumColumn`]
//! hands out its cells as datums without copying.

mod assign;
mod builder;
mod datums;

pub use assign::{assignment_cast, cast_array, fit_text};
pub(crate) use assign::{each_element, local_us, must_be_read};
pub use builder::ColumnBuilder;
pub use datums::{DatumColumn, datum_of_scalar, scalar_of_datum};
