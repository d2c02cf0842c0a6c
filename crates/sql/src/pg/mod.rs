//! PostgreSQL's face: type ids, value formats, `COPY` formats, system catalogs,
//! functions, dialect and error codes.
//!
//! Everything here is a translation. It owns no session and no storage; what it
//! needs to know about them comes through [`context::PgContext`].
//!
//! | module | translates |
//! |---|---|
//! | [`types`] | SQL type names, PostgreSQL oids and modifiers, engine column types, Arrow types |
//! | [`datetime`] | calendar arithmetic and time zones |
//! | [`encode`] | Arrow cells and engine datums to the wire's text and binary formats |
//! | [`decode`] | text and binary values to engine datums and DataFusion scalars |
//! | [`arrow`] | engine datums to Arrow columns and back |
//! | [`copy`] | `COPY` text and CSV |
//! | [`functions`] | functions that PostgreSQL has and DataFusion lacks |
//! | [`catalog`] | `pg_catalog` and `information_schema` |
//! | [`rewrite`] | PostgreSQL syntax to syntax that DataFusion plans |
//! | [`errors`] | errors of every layer to SQLSTATE, wording and position |

pub mod arrow;
pub mod catalog;
pub mod context;
pub mod copy;
pub mod datetime;
pub mod decode;
pub mod encode;
pub mod errors;
pub mod functions;
pub mod rewrite;
pub mod types;

#[cfg(test)]
mod psql_tests;
