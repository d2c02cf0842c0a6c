//! What is made again from the log, the archive and backups, and what cannot be: pages, files of a device that died, databases as of
//! a point in time; and how archive and backups come about. One program, since each would link the engine once more.

#[path = "../harness/archived.rs"]
mod archived;
#[path = "../harness/backed_up.rs"]
mod backed_up;
#[path = "../common/mod.rs"]
mod common;
mod history;
#[path = "../harness/rng.rs"]
#[allow(dead_code)]
mod rng;

mod archiving;
mod backup;
mod capped;
mod chains;
mod clone_devices;
mod keeping;
mod lsn_order;
mod newer_pages;
mod points;
mod repair;
mod restore;
mod retention;
mod set_aside;
mod slow_stores;
