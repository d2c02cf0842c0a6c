//! Statements that find false orders: what is taken for sorted by something and is not loses groups, gives them twice, or
//! comes in another order than ORDER BY says.
//!
//! One round in six is of these alone ([`is_round`]). Its tables have the shape that makes planners leave sorts out, and leaves
//! room for mistakes about it: keys and indexes of several columns, of which the first have few values, NULLs in the others, and
//! enough rows that several of one key meet several of another. Its queries put relations into each other (`shapes.rs`) that have an order, lose it,
//! keep a part of it or pin columns to a value, and ask for another order, for groups or for windows over columns of all sides.
//!
//! Answers are determined: an order that picks rows, numbers them or strings them together has all columns of what it is of, so that rows that
//! are equal in it are the same; what is computed from a part of an order counts peers as one (rank, the usual frame).
//!
//! | file | concept |
//! |---|---|
//! | `tables.rs` | tables and rows |
//! | `relation.rs` | what stands in FROM, and expressions over it |
//! | `shapes.rs` | queries |
//! | `plans.rs` | how many plans leave a sort out |

mod plans;
mod relation;
mod shapes;
mod tables;

pub use plans::Plans;
pub use tables::Size;

use super::case::{RUNS, Step};

/// Rounds of which one is of these statements.
const ROUNDS: usize = 6;

/// Whether a round is.
pub fn is_round(round: usize) -> bool {
    round % ROUNDS == ROUNDS - 1
}

/// Their runs: fewer than other texts have, as it is the plan that is asked for, not its constants.
pub fn steps() -> Vec<Step> {
    let prepared = |at, binary| Step::Extended { run: RUNS + at, parameters: binary, results: binary };
    vec![Step::Simple(0), prepared(0, false), prepared(1, true)]
}
