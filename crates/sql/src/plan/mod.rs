//! From syntax to a plan that can be kept.
//!
//! | module | concept |
//! |---|---|
//! | `alike_constants` | Constants of different types that DataFusion takes for equal, told apart |
//! | `analyze` | Analysis |
//! | `call` | Calls of functions that stand alone in their statement |
//! | `canary` | The canary of kept plans |
//! | `domain_params` | Parameters of domains, held against them when they are bound |
//! | `equal_columns` | Columns that equalities make equal to each other |
//! | `expression` | Expressions over the rows of one table that a definition holds or a change of one needs |
//! | `extremes` | `min` and `max` of key columns, read at the ends of an order |
//! | `implied` | Whether conditions imply another |
//! | `in_lists` | Lists of IN, kept from DataFusion's simplification of several of them |
//! | `infer` | Which unique keys ON CONFLICT means |
//! | `join_order` | In which order inner joins are done |
//! | `kept` | What sessions keep between statements, bounded by its bytes |
//! | `key_order` | A physical rule that knows the order of trees (and calls the one about joins) |
//! | `locking` | What a query with a locking clause may be, and which of its tables it locks |
//! | `lookup` | Which relation a name means |
//! | `merge_join` | Joins that go to temporary files |
//! | `needs` | What a planned statement needs, and whether a role is allowed it |
//! | `order_readers` | Which inputs of an operator are read in the order that they declare |
//! | `params` | Placeholders in logical plans |
//! | `planner` | From syntax to plans |
//! | `plans` | What is known about the statements that are planned |
//! | `projections` | Projections stay above filters |
//! | `rules` | DataFusion's analyzer rules, with what has to be done before them |
//! | `statement` | A prepared statement |
//! | `tally` | What statements have cost, by their text |

mod alike_constants;
pub(crate) mod analyze;
pub(crate) mod call;
pub(crate) mod canary;
pub(crate) mod domain_params;
mod equal_columns;
pub(crate) mod expression;
pub(crate) mod extremes;
pub(crate) mod implied;
pub(crate) mod in_lists;
pub(crate) mod infer;
pub(crate) mod join_order;
pub(crate) mod kept;
pub(crate) mod key_order;
pub(crate) mod locking;
pub(crate) mod lookup;
pub(crate) mod merge_join;
pub(crate) mod needs;
pub(crate) mod order_readers;
pub(crate) mod params;
pub(crate) mod planner;
pub(crate) mod plans;
pub(crate) mod projections;
pub(crate) mod rules;
pub(crate) mod statement;
pub(crate) mod tally;
