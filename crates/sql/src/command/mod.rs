//! Statements that are run from their syntax and change no definitions.
//!
//! | module | concept |
//! |---|---|
//! | `alter_database` | `ALTER DATABASE name SET accelerated_database_recovery = on \| off`, which changes how the database rolls back and recovers, for good |
//! | `analyze` | ANALYZE: what is known of tables is found out anew |
//! | `apart` | Long work of the engine on a thread that may block, beside a statement that can be cancelled |
//! | `cleaning` | Cleaning up now |
//! | `cursor` | Cursors: DECLARE, FETCH, MOVE and CLOSE |
//! | `do_block` | DO: a block of PL/pgSQL without variables |
//! | `explain` | EXPLAIN |
//! | `lock` | LOCK TABLE, and waiting for it before a table is read |
//! | `notify` | LISTEN, UNLISTEN and NOTIFY |
//! | `own` | Running the statements that the parser does not know |
//! | `reindex` | REINDEX: indexes are written anew |
//! | `two_phase` | PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED, as PostgreSQL has them |
//! | `utility` | Statements that are run from their syntax |

pub(crate) mod alter_database;
pub(crate) mod analyze;
pub(crate) mod apart;
pub(crate) mod cleaning;
pub(crate) mod cursor;
pub(crate) mod do_block;
pub(crate) mod explain;
pub(crate) mod lock;
pub(crate) mod notify;
pub(crate) mod own;
pub(crate) mod reindex;
pub(crate) mod two_phase;
pub(crate) mod utility;
