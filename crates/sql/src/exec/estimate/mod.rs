//! How many rows: what plans are chosen by. No answer depends on it.
//!
//! Rows of tables are counted roughly when a statement that joins is planned ([`table`]), and what part of them satisfies
//! conditions follows from what is known of the columns ([`condition`]), without values of parameters: a plan that is kept is
//! made for all of them (`docs/parameters.md`). Defaults are PostgreSQL's (selfuncs.h).
//!
//! | file | concept |
//! |---|---|
//! | `table.rs` | What is known of a table |
//! | `condition.rs` | What part of the rows satisfies conditions |
//! | `written.rs` | Conditions as they are written, in logical and in physical expressions |
//! | `logical.rs` | Rows of a logical plan, for the order of joins |
//! | `physical.rs` | Rows of a physical plan |
//! | `sides.rs` | Which side of a join is held in memory |

pub(crate) mod condition;
pub(crate) mod logical;
pub(crate) mod physical;
pub(crate) mod sides;
pub(crate) mod table;
pub(crate) mod written;

pub(crate) use table::{Counted, Origin, TableEstimate};

/// More rows than that are so many: products of estimates stay numbers.
pub(crate) const ROWS_MAX: f64 = 1e30;

/// The part of the rows that a condition leaves of which nothing is known, and a bound on one side, whatever it is.
pub(crate) const PART_UNKNOWN: f64 = 1.0 / 3.0;

/// The part of the rows between two bounds, whatever they are.
pub(crate) const PART_BETWEEN: f64 = 0.005;

/// Rows of what nothing is known of: PostgreSQL's guess for functions.
pub(crate) const ROWS_UNKNOWN: f64 = 1000.0;
