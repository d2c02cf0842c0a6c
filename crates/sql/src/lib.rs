//! SQL over the engine, planned by Apache DataFusion.
//!
//! A [`SqlDatabase`] wraps an engine database; a [`Session`] of it parses, plans and runs
//! statements, keeps transaction state as PostgreSQL does, and hands out encoded rows
//! (see [`wire`]). PostgreSQL's types, formats, catalogs, functions and errors are a crate of
//! their own below, [`pg`].
//!
//! | module | concept |
//! |---|---|
//! | `database`, `session`, `shared` | what all sessions share; one session; what others see of it |
//! | `again` | statements that are run again because a definition changed |
//! | `lexer`, `cache`, `statement` | literals lifted out of texts; kept statements; parse and plan |
//! | `coercion` | operands of different types |
//! | `analyze` | names, operators, functions and casts resolved by PostgreSQL's rules |
//! | `apply` | subqueries that are run for the rows around them |
//! | `planner`, `scopes` | names and plans |
//! | `table`, `scan`, `access` | tables as DataFusion sees them; reading; from predicates to the part of a tree |
//! | `params`, `cell`, `any_of` | parameters: placeholders; their values in kept plans; lists of them |
//! | `plans` | how often, by what and how long planned statements run; what they weigh |
//! | `canary` | comparing kept plans with fresh ones, in tests |
//! | `filter`, `weight`, `watch` | filters that are bounded by bytes; bytes of rows; recursion that is stopped |
//! | `planning`, `key_order`, `lookup_join` | what is planned here beyond DataFusion; the order of trees; joins by key |
//! | `dml`, `direct` | INSERT, UPDATE, DELETE; statements about few rows, without running a plan |
//! | `locking`, `with_write` | SELECT … FOR UPDATE; WITH before INSERT, UPDATE, DELETE |
//! | `with_recursive`, `symmetric` | what WITH RECURSIVE may say; BETWEEN SYMMETRIC |
//! | `ddl`, `alter`, `retype` | CREATE and DROP; ALTER; rows written anew for it |
//! | `foreign` | FOREIGN KEY constraints |
//! | `check`, `expression` | CHECK constraints; expressions that definitions hold |
//! | `utility`, `copy` | everything else that is not planned |
//! | `depth` | how deep a statement may be |
//! | `words`, `script` | statements that the parser does not know: their tokens; strings that have some |
//! | `alter_database`, `two_phase`, `cleaning`, `clean_function`, `apart` | such statements; their long work and its end |
//! | `execution`, `stream`, `wait`, `context` | outcomes; results; waiting for locks; what a running statement carries |

mod access;
mod again;
mod alter;
mod alter_database;
mod analyze;
mod any_of;
mod apart;
mod apply;
mod bridge;
mod cache;
mod canary;
mod cell;
mod check;
mod clean_function;
mod cleaning;
mod coercion;
mod context;
mod copy;
mod database;
mod ddl;
mod depth;
mod direct;
mod dml;
mod embedded;
mod execution;
mod expression;
mod filter;
mod foreign;
mod key_order;
mod lexer;
mod locking;
mod lookup_join;
mod params;
mod planner;
mod planning;
mod plans;
mod retype;
mod scan;
mod scopes;
mod script;
mod session;
mod settings;
mod shared;
mod statement;
mod stream;
mod symmetric;
mod table;
mod two_phase;
mod utility;
mod wait;
mod watch;
mod weight;
mod with_recursive;
mod with_write;
mod words;

pub use resurgam_pg as pg;
use resurgam_pg::{computed, naming};

/// What a protocol server needs: everything of [`pg::wire`], and the outcome of an execution.
pub mod wire {
    pub use resurgam_pg::wire::*;

    pub use crate::execution::Execution;
}

#[doc(hidden)]
pub use canary::plans_compared;
pub use copy::{CopyIn, CopyOut};
pub use database::{CancelHandle, SessionOptions, SqlDatabase};
pub use depth::STACK_BYTES;
pub use embedded::QueryResult;
pub use planning::Planning;
pub use plans::PlanTotals;
pub use session::{Session, SimpleStatement};
pub use settings::{ServerSetting, SqlSettings};
pub use stream::RowStream;
pub use wire::*;
