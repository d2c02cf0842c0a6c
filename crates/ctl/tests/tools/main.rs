//! The printers, the checkers, and what compares and makes archives and backups: on sound folders and on damaged ones. One program, since
//! each would link the engine once more.

mod common;

mod against;
mod archive;
mod backup;
mod check;
mod damage;
mod golden;
mod log_place;
mod soak;
