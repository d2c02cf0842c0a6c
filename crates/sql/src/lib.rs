//! SQL over the engine, planned by Apache DataFusion.
//!
//! A [`SqlDatabase`] wraps an engine database; a [`Session`] of it parses, plans and runs
//! statements, keeps transaction state as PostgreSQL does, and hands out encoded rows
//! (see [`wire`]). PostgreSQL's types, formats, catalogs, functions and errors are a crate of
//! their own below, [`pg`].
//!
//! | folder | station |
//! |---|---|
//! | `parse` | From text to syntax, of all statements |
//! | `exec` | What runs: operators, ways to rows, estimates, direct execution, values across the layers |
//! | `plan` | From syntax to a plan that can be kept |
//! | `dml` | What writes and locks rows, and what has to hold of them |
//! | `ddl` | What changes definitions |
//! | `access` | Roles and rights: the statements about them, and who a session is |
//! | `command` | Statements that are run from their syntax and change no definitions |
//! | `session` | Who asks: sessions, their settings and transactions, and what they share |
//!
//! A file names what is in its own folder and in those before it, nothing after it (`scripts/folders.py` holds that, and has
//! what is left against it). Operators come before planning, since a plan is made of them. A statement comes in at the end, and is
//! handed towards the beginning. What needs the session (its transaction, its settings) is a method of [`Session`], written in
//! the folder that it is about: so `dml`, `ddl`, `access` and `command` name the session as well.

mod access;
mod command;
mod ddl;
mod dml;
mod exec;
mod parse;
mod plan;
mod planted;
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
pub use exec::gather::scan_workers_begun;
pub use exec::memory::measured_bytes;
#[doc(hidden)]
pub use exec::panics::plant_panics;
pub use exec::panics::{panics, watch_panics};
pub use exec::planners::{plannings, plannings_ever, plannings_left};
pub use exec::planning::Planning;
pub use exec::spill::TempTotals;
pub use parse::depth::STACK_BYTES;
#[doc(hidden)]
pub use plan::canary::plans_compared;
pub use plan::plans::PlanTotals;
pub use session::database::{CancelHandle, Host, Reserved, SessionOptions, SqlDatabase};
pub use session::embedded::QueryResult;
pub use session::settings::{ConnectionSettings, ServerSetting, SqlSettings};
pub use session::stream::RowStream;
pub use session::{Session, SimpleStatement};
pub use wire::*;
