//! Statements that write rows: INSERT, UPDATE, DELETE, MERGE. See docs/execution.md.
//!
//! | file | concept |
//! |---|---|
//! | `plan.rs` | from what is analysed to a [`WritePlan`]: its sources, conflicts, RETURNING, constraints |
//! | `modify.rs` | running it: the one executor |
//! | `source.rs` | where its rows come from: a tree, or a plan's stream |
//! | `assign.rs` | values for columns |
//! | `row.rs` | writing one row |
//! | `recheck.rs` | a row that others changed meanwhile |
//! | `conflict.rs` | ON CONFLICT |
//! | `merge.rs` | what MERGE does with a row, and with one that others changed meanwhile |
//! | `constants.rs` | values that are looked at although no row is written |
//! | `folded.rs` | values that constants decide although columns are written in them |
//! | `returning.rs` | RETURNING |
//! | `within.rs` | statements with WITH queries that write: all of them in one statement of the engine |
//! | `locking/` | queries that lock their rows |
//! | `planned.rs` | expressions over written rows that need a plan: subqueries, columns of FROM |

pub(crate) mod check;
pub(crate) mod copy;
pub(crate) mod foreign;
pub(crate) mod locking;

mod assign;
mod conflict;
mod constants;
mod folded;
mod merge;
mod modify;
mod plan;
mod planned;
mod recheck;
mod returning;
mod row;
mod source;
mod within;

pub(crate) use modify::{Constraints, How, Modify, Paused};
pub(crate) use plan::{Planned, WritePlan, once_plans, plan};
pub(crate) use recheck::{Fate, RowWork, settle_row};
pub(crate) use row::Writer;
pub(crate) use source::{CurrentRow, ROWS_PER_TURN};
pub(crate) use within::Around;
