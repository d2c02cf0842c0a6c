//! Tests of the archive as a whole, against a log that is really written and read.

mod backups;
mod crash;
mod damage;
mod faults;
mod fuzz;
mod layers;
mod making;
mod merging;
mod model;
mod retaining;
mod several;
mod speed;
mod support;
