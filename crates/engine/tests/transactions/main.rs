//! How transactions end, the versions that they leave behind and who frees those, the log that they write, its bound and its place.
//! One program, since each would link the engine once more.

#[path = "../common/mod.rs"]
mod common;
mod support;

mod asynchronous;
mod at_rest;
mod cleaner;
mod clones;
mod damaged_pending_frees;
mod delete_runs;
mod give_back;
mod insert_runs;
mod kept_values;
mod loads;
mod log_bound;
mod log_bound_catalog;
mod log_bytes;
mod log_place;
mod long_rows;
mod lost_rows;
mod many_changes;
mod pack;
mod pending_frees;
mod pops;
mod prepared;
mod row_locks;
mod successor;
mod traps;
mod undo;
mod unknown_ids;
mod verify_open;
mod version_file;
