//! Direct execution: statements about few rows of one table, without running a plan.
//!
//! It is recognised in the *planned* statement, so names, types and coercions are those of the plan; rows go
//! from the engine's encoding to the wire's, and expressions are evaluated on datums. What writes rows is
//! [`crate::dml`], which takes them from here or from a plan.
//!
//! | file | concept |
//! |---|---|
//! | `expr.rs` | expressions over one row |
//! | `parts.rs` | plans taken apart |
//! | `rows.rs` | rows by a path, judged |
//! | `select.rs` | SELECT |
//! | `list.rs` | SELECT without FROM |
//! | `compare.rs` | stored values as they are sorted and told apart |
//! | `fold.rs` | aggregates, DISTINCT, sorts of few rows |
//! | `value.rs` | what a subquery gives, for the row around it |
//! | `output.rs` | what is sent of a row |

mod compare;
mod expr;
mod fold;
mod list;
mod output;
mod parts;
mod rows;
mod select;
mod value;

pub(crate) use expr::{Input, Row, RowExpr, Values};
pub(crate) use list::DirectList;
pub(crate) use output::Output;
pub(crate) use parts::Parts;
pub(crate) use rows::{Located, ROWS_MAX, Rows, Touched};
pub(crate) use select::{BYTES_MAX, DirectSelect};
pub(crate) use value::DirectValue;
