//! Processes that are one part of a database (docs/page-servers.md): page servers, and all parts on one machine.

pub mod cluster;
pub mod page_server;
pub mod tls;
pub mod xlog;
