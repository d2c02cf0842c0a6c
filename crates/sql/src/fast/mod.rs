//! The short path: statements that touch one row by its full key, or insert a few rows.
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

mod expr;
mod run;
mod shape;

pub(crate) use run::{Key, has_index_key};
pub(crate) use shape::{Fast, FastWrite};
