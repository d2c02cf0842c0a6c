//! Statements that write rows: INSERT, UPDATE, DELETE.
//!
//! | file | concept |
//! |---|---|
//! | `plan.rs` | from syntax to a [`WritePlan`]: its source, conflicts, RETURNING, constraints |
//! | `modify.rs` | running it |

mod modify;
mod plan;

pub(crate) use modify::{ROWS_PER_TURN, WriteRun, Written, conflicting};
pub(crate) use plan::{Conflict, Op, WritePlan, find_column, find_table, plan, requalify, table_name};
