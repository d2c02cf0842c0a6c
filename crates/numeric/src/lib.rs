//! PostgreSQL's `numeric`: values of arbitrary precision, each with a display scale of its own.
//!
//! What a result *is* is arithmetic; how many digits it *shows* is PostgreSQL's rule for each operation
//! (`src/backend/utils/adt/numeric.c` of version 15), and both are here, independent of any SQL engine.
//! Integers of any size come from `num-bigint`; values whose digits fit an `i128` never touch it.
//!
//! | module | owns |
//! |---|---|
//! | [`coef`] | signed integers, small or large, and powers of ten |
//! | [`dec`] | integer times a power of ten: exact sums, products, rounded quotients and roots |
//! | [`number`] | [`Numeric`]: a [`dec::Dec`] in PostgreSQL's limits, or NaN, or an infinity |
//! | [`arith`], [`rounding`], [`whole`] | operators; round, trunc, ceil, floor; gcd, lcm, factorial, buckets |
//! | [`transcendental`], [`power`] | sqrt, exp, ln, log; power |
//! | [`text`], [`typmod`], [`convert`] | parsing and printing, `numeric(p,s)`, other number types |
//! | [`wire`], [`key`] | binary protocol format; order-preserving bytes |
//! | [`aggregate`] | exact states of sum, avg, variance, stddev, with removal for window frames |
//!
//! Invariants of a finite [`Numeric`]: `0 <= scale <= 16383`, fewer than 131,073 digits before the point,
//! zero has no sign, and a coefficient that fits `i128` is stored as one (so equal values of equal scale are
//! structurally equal).

pub mod aggregate;
pub mod arith;
pub mod coef;
pub mod convert;
pub mod dec;
mod error;
pub mod key;
pub mod number;
pub mod power;
pub mod rounding;
pub mod text;
pub mod transcendental;
pub mod typmod;
pub mod whole;
pub mod wire;

pub use error::{Error, Result};
pub use number::Numeric;
pub use typmod::Typmod;

/// Most digits before the decimal point.
pub const DIGITS_BEFORE_POINT_MAX: i64 = 131_072;
/// Most digits after the decimal point (`NUMERIC_DSCALE_MAX`).
pub const SCALE_MAX: i32 = 16_383;
/// Fewest significant digits that a division or a function gives (`NUMERIC_MIN_SIG_DIGITS`).
pub(crate) const SIG_DIGITS_MIN: i32 = 16;
/// Most digits after the point that a division or a function chooses (`NUMERIC_MAX_DISPLAY_SCALE`).
pub(crate) const DISPLAY_SCALE_MAX: i32 = 1000;
/// Beyond this a result's exponent overflows or is zero (`NUMERIC_MAX_RESULT_SCALE`).
pub(crate) const RESULT_SCALE_MAX: i32 = 2000;
