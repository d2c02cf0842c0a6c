//! SQL over the engine, planned by Apache DataFusion.
//!
//! A [`SqlDatabase`] wraps an engine database; a [`Session`] of it parses, plans and runs
//! statements, keeps transaction state as PostgreSQL does, and hands out encoded rows
//! (see [`wire`]).
//!
//! | module | concept |
//! |---|---|
//! | `database`, `session`, `shared` | what all sessions share; one session; what others see of it |
//! | `again` | statements that are run again because a definition changed |
//! | `lexer`, `cache`, `statement` | literals lifted out of texts; kept statements; parse and plan |
//! | `coercion` | operands of different types |
//! | `apply` | subqueries that are run for the rows around them |
//! | `planner`, `naming`, `scopes`, `params` | names and plans; result column names; parameters of kept plans |
//! | `table`, `scan`, `range`, `computed` | tables as DataFusion sees them; reading; predicates to key ranges; tables without rows of their own |
//! | `filter`, `weight`, `watch` | filters that are bounded by bytes; bytes of rows; recursion that is stopped |
//! | `planning`, `key_order`, `lookup_join` | what is planned here beyond DataFusion; the order of trees; joins by key |
//! | `write`, `fast` | INSERT, UPDATE, DELETE; the short path for one row |
//! | `locking`, `with_write` | SELECT … FOR UPDATE; WITH before INSERT, UPDATE, DELETE |
//! | `with_recursive`, `symmetric` | what WITH RECURSIVE may say; BETWEEN SYMMETRIC |
//! | `ddl`, `alter`, `retype` | CREATE and DROP; ALTER; rows written anew for it |
//! | `foreign` | FOREIGN KEY constraints |
//! | `check`, `expression` | CHECK constraints; expressions that definitions hold |
//! | `utility`, `copy` | everything else that is not planned |
//! | `words`, `script` | statements that the parser does not know: their tokens; strings that have some |
//! | `alter_database`, `two_phase`, `cleaning`, `apart` | such statements; their long work and its end |
//! | `stream`, `wait`, `context` | results; waiting for locks; what a running statement carries |
//! | `pg` | PostgreSQL's types, formats, catalogs, functions, errors |

mod again;
mod alter;
mod alter_database;
mod apart;
mod apply;
mod bridge;
mod cache;
mod check;
mod cleaning;
mod coercion;
mod computed;
mod context;
mod copy;
mod database;
mod ddl;
mod embedded;
mod expression;
mod fast;
mod filter;
mod foreign;
mod key_order;
mod lexer;
mod locking;
mod lookup_join;
mod naming;
mod params;
pub mod pg;
mod planner;
mod planning;
mod range;
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
pub mod wire;
mod with_recursive;
mod with_write;
mod words;
mod write;

pub use copy::{CopyIn, CopyOut};
pub use database::{CancelHandle, SessionOptions, SqlDatabase};
pub use embedded::QueryResult;
pub use planning::Planning;
pub use session::{Session, SimpleStatement};
pub use settings::{ServerSetting, SqlSettings};
pub use stream::RowStream;
pub use wire::*;
