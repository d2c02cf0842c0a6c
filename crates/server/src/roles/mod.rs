//! Processes that are one part of a database (docs/page-servers.md): page servers, log services, and all parts on one machine.

pub mod cluster;
mod life;
pub mod page_server;
pub mod tls;
pub mod xlog;
