//! From syntax to a plan that can be kept.
//!
//! | module | concept |
//! |---|---|
//! | `access` | From predicates to the part of a tree that is read |
//! | `analyze` | Analysis |
//! | `call` | Calls of functions that stand alone in their statement |
//! | `canary` | The canary of kept plans |
//! | `dependencies` | DataFusion's functional dependencies, which are not believed |
//! | `equal_columns` | Columns that equalities make equal to each other |
//! | `estimate` | How many rows: what plans are chosen by |
//! | `explain` | EXPLAIN: plans as trees of nodes in PostgreSQL's words |
//! | `expression` | Expressions over the rows of one table that a definition holds or a change of one needs |
//! | `extremes` | `min` and `max` of key columns, read at the ends of an order |
//! | `implied` | Whether conditions imply another |
//! | `in_lists` | Lists of IN, kept from DataFusion's simplification of several of them |
//! | `join_order` | In which order inner joins are done |
//! | `key_order` | A physical rule that knows the order of trees (and calls the one about joins) |
//! | `lookup` | Which relation a name means |
//! | `merge_join` | Joins that go to temporary files |
//! | `order_claims` | What DataFusion holds for ordered by a comparison, which is not believed |
//! | `order_readers` | Which inputs of an operator are read in the order that they declare |
//! | `params` | Placeholders in logical plans |
//! | `planner` | From syntax to plans |
//! | `planning` | What this crate's own planning does beyond DataFusion's |
//! | `plans` | What is known about the statements that are planned |
//! | `projections` | Projections stay above filters |
//! | `rules` | DataFusion's analyzer rules, with what has to be done before them |
//! | `statement` | A prepared statement |
//! | `tally` | What statements have cost, by their text |
//! | `zeroes` | Minus zero is zero wherever values are ordered or told apart |

pub(crate) mod access;
pub(crate) mod analyze;
pub(crate) mod call;
pub(crate) mod canary;
pub(crate) mod dependencies;
mod equal_columns;
pub(crate) mod estimate;
pub(crate) mod explain;
pub(crate) mod expression;
pub(crate) mod extremes;
pub(crate) mod implied;
pub(crate) mod in_lists;
pub(crate) mod join_order;
pub(crate) mod key_order;
pub(crate) mod lookup;
pub(crate) mod merge_join;
pub(crate) mod order_claims;
pub(crate) mod order_readers;
pub(crate) mod params;
pub(crate) mod planner;
pub(crate) mod planning;
pub(crate) mod plans;
pub(crate) mod projections;
pub(crate) mod rules;
pub(crate) mod statement;
pub(crate) mod tally;
pub(crate) mod zeroes;
