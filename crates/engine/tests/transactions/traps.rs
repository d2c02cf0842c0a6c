//! Traps of versioned storage, each with a test that fails when its guard is taken away.
//!
//! | trap | file | guard |
//! |---|---|---|
//! | a row of an aborted transaction moves behind the sweep | `moved.rs` | pages that receive versioned rows during a sweep are visited before FORGET |
//! | a committed version found under an aborted one serves a newer writer | `rehomed.rs` | it is pushed again under the new writer's id |
//! | a checkpoint while pages await redo | `unredone.rs` | they are in the checkpoint's dirty pages, and hold the log |
//! | a statement meets its own rows | `halloween.rs` | ids from the statement's on are hidden from it |
//! | a version on a page that is not marked | `marks.rs` | header mark, map byte and version are one log group |
//! | a transaction in doubt after a restart | `in_doubt.rs` | it is active again, with its table locks: its rows wait for it, the database does not |
//! | disk full | `full.rs` | an error of that transaction alone; the rest goes on, the sweep too |
//! | a page that cannot be read | `unreadable.rs` | recovery and the sweep pass over it, and forget nothing |
//!
//! Everything runs in one thread on the simulated disk, so each test is the same each time.

mod full;
mod halloween;
mod in_doubt;
mod marks;
mod moved;
mod rehomed;
mod unreadable;
mod unredone;
