//! Tests that ask which recovery mode this run of them is about (`RESURGAM_MODE`, by which `.ci/run` finds this file, to run it in the
//! traditional mode as well). Tests in other programs go through both modes by themselves.

mod common;

#[path = "modes/basic.rs"]
mod basic;
#[path = "modes/interrupted.rs"]
mod interrupted;
#[path = "modes/newest_view.rs"]
mod newest_view;
#[path = "modes/open_errors.rs"]
mod open_errors;
#[path = "modes/queues.rs"]
mod queues;
