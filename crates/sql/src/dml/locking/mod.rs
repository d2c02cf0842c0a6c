//! SELECT … FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE, FOR KEY SHARE.
//!
//! A query with a locking clause, wherever it stands in a statement, is analysed by itself
//! (`plan/analyze/lock.rs`), has a plan of its own ([`LockPlan`]) and is run before the statement ([`run`]): it locks its
//! rows and keeps them. In the statement stands a table of those rows in its place ([`crate::exec::locked_rows`]). So it may be a
//! subquery of an UPDATE or DELETE, which then finds its rows locked by its own transaction.
//!
//! A row is locked by the engine (`Transaction::lock_row_as`), in one of PostgreSQL's four modes: the stronger two by a new version of the same
//! content, the weaker two by a note in memory. Whoever wants to change, delete or lock it in a way that the lock excludes waits for the
//! transaction's end, and the lock goes with a rollback to a savepoint like any write.
//!
//! # Invariants
//! 1. As PostgreSQL's LockRows node, which is above Sort and below Limit: rows are locked one after
//!    the other in the order of the result, and no further than LIMIT (and OFFSET) reaches.
//! 2. READ COMMITTED: a row whose newest committed version is not the one that the query saw is
//!    locked and the query is run again on that version alone (for a join: with the versions of
//!    the other tables that it was joined with). What comes out is the row, if anything does.
//!    A row that has another primary key now is followed to it. (FOR KEY SHARE is content with the version that the query saw as long as the
//!    row's keys are the same.)
//! 3. Only a row's lock is passed over by SKIP LOCKED and refused by NOWAIT; a table's (somebody
//!    changes its definition) is waited for.

mod direct;
mod plan;
mod run;

pub(crate) use direct::DirectLock;
pub(crate) use plan::LockPlan;
