//! The simulated-crash harness: a seeded workload on a simulated disk, a reference model
//! that says what every read must return and what must be there after a crash, and the
//! comparison of the two.
//!
//! | file | concept |
//! |---|---|
//! | `rng.rs` | the one source of chance |
//! | `model.rs` | tables as ordered maps; what is durable, what may be |
//! | `client.rs` | one open transaction and what it should see |
//! | `rows.rs` | statements on rows: run, predict, compare |
//! | `two_phase.rs` | prepare, commit and roll back what is prepared |
//! | `ddl.rs` | changes of definitions: run, predict, compare |
//! | `alter.rs` | those that write rows anew or are cut off |
//! | `constrain.rs` | names, defaults and constraints of columns |
//! | `views.rs` | views |
//! | `objects.rs` | objects of the catalog that are no relations |
//! | `sequences.rs` | sequences and their values |
//! | `temporary.rs` | temporary tables of sessions, and what a crash leaves of them |
//! | `check.rs` | a whole database against a state of the model |
//! | `archived.rs` | the archive against the log |
//! | `remote.rs` | a page server in place of the data file |
//! | `troubles.rs` | what goes wrong besides: stores, lying writes, devices that die; with chances of its own |
//! | `hangs.rs` | devices and stores that do not answer, and do late what they were asked for |
//! | `schedule.rs` | lives of a database: workload, faults, crash, recovery |
//!
//! Everything runs in one thread and is a pure function of the seed, but for the schedules in which
//! sweeps go on beside the clients, on several threads. To extend it: a new
//! statement is a function beside those in `rows.rs` with its prediction; a new setting is
//! a field of `Setup`; a new fault is a variant of `Fault`.

#![allow(dead_code)]

pub mod alter;
pub mod archived;
mod backed_up;
pub mod check;
pub mod client;
pub mod constrain;
pub mod ddl;
mod hangs;
mod index_beside;
pub mod model;
pub mod objects;
pub mod remote;
pub mod rng;
pub mod rows;
pub mod schedule;
pub mod sequences;
pub mod temporary;
pub mod troubles;
pub mod two_phase;
pub mod views;

/// What the harness found: a broken promise, in words.
pub type Found<T> = Result<T, String>;

/// Says what was broken.
#[macro_export]
macro_rules! broken {
    ($($arg:tt)*) => { return Err(format!($($arg)*)) };
}
