//! The `resurgam` server: settings, the PostgreSQL protocol over TCP, the command line.
//!
//! One task serves one connection until its login, on threads that no statement has ([`front`]), and one from there on:
//!
//! ```text
//! server ──accept──► connection::startup ──► connection::serve ──► session (SQL layer)
//!    │                    │ TLS, SCRAM           │ protocol::{frame, frontend, backend}
//!    │                    └── access: host rules (hba), password, certificates; unauthenticated: places
//!    └── registry: process ids, cancel keys, who is connected, stop
//! ```
//!
//! Beside it, in a thread of its own, `http` answers operators' tools with `metrics` and what
//! `monitor` knows of the process.
//!
//! Nothing here knows SQL; nothing below here knows sockets.

pub mod access;
mod archive_tool;
mod auth;
mod backup_tool;
mod certificate;
pub mod cli;
pub mod connection;
mod events;
mod files;
mod front;
pub mod hba;
pub mod http;
pub mod metrics;
pub mod monitor;
mod network;
pub mod protocol;
pub mod registry;
mod restore_tool;
pub mod roles;
pub mod serve;
pub mod server;
pub mod settings;
pub mod tls;
mod tools;
mod unauthenticated;
