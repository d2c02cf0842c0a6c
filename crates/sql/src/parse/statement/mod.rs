//! Statements that the parser does not know: what each says, and how it is read from its words.
//!
//! What they do is in the folders above, in files of the same names.
//!
//! | module | statements |
//! |---|---|
//! | `access` | Which statement about roles or rights a text is |
//! | `alter_index` | ALTER INDEX of how entries are stored |
//! | `alter_sequence` | ALTER SEQUENCE |
//! | `alter_view` | ALTER VIEW |
//! | `cleaning` | VACUUM, ANALYZE, and SQL Server's procedure |
//! | `cursor` | DECLARE, FETCH, MOVE and CLOSE |
//! | `database` | CREATE, ALTER, DROP and COMMENT ON DATABASE |
//! | `do_block` | DO, and its block |
//! | `domain` | CREATE, ALTER and DROP DOMAIN |
//! | `extension` | CREATE, ALTER, DROP and COMMENT ON EXTENSION |
//! | `function` | CREATE, ALTER, DROP and COMMENT ON FUNCTION |
//! | `grant` | GRANT, REVOKE and ALTER DEFAULT PRIVILEGES |
//! | `lock` | LOCK TABLE |
//! | `notify` | LISTEN, UNLISTEN and NOTIFY |
//! | `owner` | ALTER … OWNER TO |
//! | `recovery` | ALTER DATABASE … SET accelerated_database_recovery |
//! | `reindex` | REINDEX |
//! | `role` | CREATE, ALTER, DROP ROLE, memberships, SET ROLE |
//! | `schema` | CREATE and ALTER SCHEMA |
//! | `sequence_options` | What a sequence may be told, and what it is by that |
//! | `set_constraints` | SET CONSTRAINTS |
//! | `set_schema` | ALTER … SET SCHEMA |
//! | `two_phase` | PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED |
//! | `user_type` | ALTER TYPE |

pub(crate) mod access;
pub(crate) mod alter_index;
pub(crate) mod alter_sequence;
pub(crate) mod alter_view;
pub(crate) mod cleaning;
pub(crate) mod cursor;
pub(crate) mod database;
pub(crate) mod do_block;
pub(crate) mod domain;
pub(crate) mod extension;
pub(crate) mod function;
pub(crate) mod grant;
pub(crate) mod lock;
pub(crate) mod notify;
pub(crate) mod owner;
pub(crate) mod recovery;
pub(crate) mod reindex;
pub(crate) mod role;
pub(crate) mod schema;
pub(crate) mod sequence_options;
pub(crate) mod set_constraints;
pub(crate) mod set_schema;
pub(crate) mod two_phase;
pub(crate) mod user_type;
