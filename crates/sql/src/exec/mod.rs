//! What runs: operators, direct execution, locks, values across the layers.
//!
//! | module | concept |
//! |---|---|
//! | `access_path` | From predicates to the part of a tree that is read |
//! | `any_of` | `x IN ($1, $2, …)`, `x NOT IN (…)` and `x = ANY ($1)` of a kept plan |
//! | `apply` | Subqueries that are run for the rows around them |
//! | `array_compare` | A value against the elements of an array: ANY, ALL |
//! | `bridge` | Values across the three representations that a statement meets |
//! | `cell` | The values of a kept plan's parameters |
//! | `clean_function` | `resurgam_clean()` in FROM |
//! | `collate` | Functions that plans have for collations |
//! | `compact` | Few rows in no more memory than they need |
//! | `compute` | Where plans run: beside the threads that serve connections |
//! | `computed_limit` | LIMIT and OFFSET that are known only when they run |
//! | `context` | What a running statement carries |
//! | `dependencies` | DataFusion's functional dependencies, which are not believed |
//! | `direct` | Direct execution |
//! | `early` | Conditions that a scan looks at before it decodes what else is wanted of a row |
//! | `estimate` | How many rows: what plans are chosen by |
//! | `explain` | EXPLAIN: plans as trees of nodes in PostgreSQL's words |
//! | `filter` | A filter that bounds what it gathers by bytes |
//! | `fold` | Long chains of operators as calls of as many arguments as there are terms |
//! | `late` | Columns that are fetched when it is known which rows are wanted |
//! | `locked_rows` | Locked rows as a table that the rest of the statement reads |
//! | `lookup_join` | A join that looks up the rows of one side by the keys of the other |
//! | `measured` | What EXPLAIN ANALYZE measures of operators |
//! | `memory` | What statements may take of memory and of temporary files |
//! | `order_claims` | What DataFusion holds for ordered by a comparison, which is not believed |
//! | `paced` | Fewer rows at a time for joins that compare many pairs before they give any |
//! | `panics.rs` | bugs that end a statement and no more |
//! | `pieces` | Columns that are computed are split by their bytes before they grow |
//! | `found_keys` | The rows that several trees name together: the alternatives of a condition with OR |
//! | `gather` | A long range of a table, read by several threads |
//! | `in_order` | Inputs of a union one after another |
//! | `once` | WITH queries that are computed once for a statement |
//! | `kept_limits` | Limits beside sorts, and sorts somebody goes by, that would be taken away |
//! | `missing_sorts` | Sorts that a plan needs and does not have |
//! | `one_input` | What operators with one input tell whoever changes plans |
//! | `outer_side` | What DataFusion takes for so of the sides of joins, and is not |
//! | `planners` | Parsing and planning on threads of their own, which may be left |
//! | `planning` | What this crate's own planning does beyond DataFusion's |
//! | `record` | Rows as values |
//! | `row_rule` | Conditions of policies of row security in plans |
//! | `same_value` | A function that gives its argument, of which DataFusion knows nothing |
//! | `scan` | The operator that reads a table |
//! | `scan_chain` | A scan below a chain of filters and projections |
//! | `sets` | Functions that return sets: rows are repeated for the values that they give |
//! | `spill` | Temporary files |
//! | `split` | Fewer rows at a time for operators that compute long values themselves |
//! | `table` | A table of the engine as DataFusion sees it |
//! | `wait` | Waiting for other transactions, and for a statement's work, cancellable and bounded |
//! | `watch` | An operator that ends a statement whose plan never waits |
//! | `weight` | How many bytes the rows of a batch have, to gather no more of them than fit |
//! | `window_orders` | Windows whose input does not say any more that it comes partition by partition |
//! | `zeroes` | Minus zero is zero wherever values are ordered or told apart |

pub(crate) mod access_path;
pub(crate) mod any_of;
pub(crate) mod apply;
pub(crate) mod array_compare;
pub(crate) mod bridge;
pub(crate) mod cell;
pub(crate) mod clean_function;
pub(crate) mod collate;
pub(crate) mod compact;
pub(crate) mod compute;
pub(crate) mod computed_limit;
pub(crate) mod context;
pub(crate) mod dependencies;
pub(crate) mod direct;
pub(crate) mod early;
pub(crate) mod estimate;
pub(crate) mod explain;
pub(crate) mod filter;
pub(crate) mod fold;
mod found_keys;
pub(crate) mod gather;
pub(crate) mod in_order;
pub(crate) mod kept_limits;
pub(crate) mod late;
pub(crate) mod locked_rows;
pub(crate) mod lookup_join;
pub(crate) mod measured;
pub(crate) mod memory;
pub(crate) mod missing_sorts;
pub(crate) mod once;
pub(crate) mod one_input;
pub(crate) mod order_claims;
pub(crate) mod outer_side;
pub(crate) mod paced;
pub(crate) mod panics;
pub(crate) mod pieces;
pub(crate) mod planners;
pub(crate) mod planning;
pub(crate) mod record;
pub(crate) mod row_rule;
mod same_value;
pub(crate) mod scan;
pub(crate) mod scan_chain;
pub(crate) mod sets;
pub(crate) mod spill;
pub(crate) mod split;
pub(crate) mod table;
pub(crate) mod wait;
pub(crate) mod watch;
pub(crate) mod weight;
pub(crate) mod window_orders;
pub(crate) mod zeroes;
