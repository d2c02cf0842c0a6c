//! The short path: statements that touch one row by its full key, or a few by the beginning of one, or
//! insert a few rows, with RETURNING and (of one row) ON CONFLICT.
//!
//! It is recognised in the *planned* statement, so names, types and coercions are DataFusion's;
//! what it cannot do exactly as the general path does, it does not take. Rows go from the
//! engine's encoding to the wire's without Arrow; see [`expr`] for what is computed directly.
//!
//! | file | concept |
//! |---|---|
//! | `expr.rs` | expressions over one row |
//! | `shape.rs` | plans that qualify |
//! | `run.rs` | running them |
//! | `upsert.rs` | ON CONFLICT |
//! | `range.rs` | a few rows in the order of a key |
//! | `range_write.rs` | UPDATE and DELETE of a few rows by the beginning of a key |
//! | `output.rs` | what is sent of a row |

mod expr;
mod output;
mod range;
mod range_write;
mod run;
mod shape;
mod upsert;

pub(crate) use output::Output;
pub(crate) use range::FastRange;
pub(crate) use run::{Key, has_index_key};
pub(crate) use shape::{Fast, FastWrite};
pub(crate) use upsert::Resolution;
