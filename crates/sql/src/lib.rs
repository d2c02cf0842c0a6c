//! SQL over the engine, planned by Apache DataFusion.
//!
//! A [`SqlDatabase`] wraps an engine database; a [`Session`] of it parses, plans and runs
//! statements, keeps transaction state as PostgreSQL does, and hands out encoded rows
//! (see [`wire`]). PostgreSQL's types, formats, catalogs, functions and errors are a crate of
//! their own below, [`pg`].
//!
//! | folder | station |
//! |---|---|
//! | `session` | Who asks: sessions, their settings and transactions, and what they share |
//! | `command` | Statements that are run from their syntax and change no definitions |
//! | `ddl` | What changes definitions |
//! | `dml` | What writes rows, and what has to hold of them |
//! | `plan` | From syntax to a plan that can be kept |
//! | `exec` | What runs: operators, direct execution, locks, values across the layers |
//! | `parse` | From text to syntax |
//!
//! A statement comes from the top and is handed down. What needs the session (its transaction, its
//! settings) is a method of [`Session`], written in the folder that it is about.

mod access;
mod command;
mod ddl;
mod dml;
mod exec;
mod parse;
mod plan;
mod session;

pub use resurgam_pg as pg;
use resurgam_pg::{computed, naming};

/// What a protocol server needs: everything of [`pg::wire`], and the outcome of an execution.
pub mod wire {
    pub use resurgam_pg::wire::*;

    pub use crate::session::execution::Execution;
}

pub use access::{Login, LoginRefused};
pub use dml::copy::{CopyIn, CopyOut};
pub use exec::compute::{plans_moved, plans_running};
pub use exec::context::InMessage;
pub use exec::memory::measured_bytes;
pub use exec::planners::{plannings, plannings_ever, plannings_left};
pub use exec::spill::TempTotals;
pub use parse::depth::STACK_BYTES;
#[doc(hidden)]
pub use plan::canary::plans_compared;
pub use plan::planning::Planning;
pub use plan::plans::PlanTotals;
pub use session::database::{CancelHandle, Host, Reserved, SessionOptions, SqlDatabase};
pub use session::embedded::QueryResult;
#[doc(hidden)]
pub use session::panics::plant_panics;
pub use session::panics::{panics, watch_panics};
pub use session::settings::{ConnectionSettings, ServerSetting, SqlSettings};
pub use session::stream::RowStream;
pub use session::{Session, SimpleStatement};
pub use wire::*;
