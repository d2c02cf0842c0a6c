//! What is defined (tables, indexes, columns, schemas, databases, sequences, policies, statistics), how it changes, and what
//! of it a crash leaves. One program, since each would link the engine once more.

#[path = "../common/mod.rs"]
mod common;

mod alter;
mod built;
mod catalog_objects;
mod column_types;
mod concurrent_index;
mod databases;
mod dropped;
mod many_definitions;
mod numeric_keys;
mod own_definitions;
mod owners;
mod policies;
mod reference;
mod reindex;
mod schemas;
mod sequences;
mod stale_definition;
mod statistics;
mod wrong_values;
