//! Primary and page servers as processes of their own (*Socrates*, section 4): what connects the engine over page servers
//! (`resurgam-engine`'s `page_service.rs`) and the page server (`resurgam-pageserver`) by [RBIO](resurgam_rbio).
//!
//! ```text
//!               GetPage(page, LSN)
//!   primary  ------------------------>  page server
//!   engine   <--- durable blocks ----   (pulls)
//!     log                                 pages        archive, backups: what is not there yet
//! ```
//!
//! With a log service ([XLOG](resurgam_xlog)) the log is no part of the primary either:
//!
//! ```text
//!   primary ---> landing zone ---> log service ---> page server    (pulls)
//!      \---- blocks, ahead ------->    |
//!                                  long-term log
//! ```
//!
//! | file | concept | runs in |
//! |---|---|---|
//! | `zone.rs` | the lease on the landing zone, and blocks on their way to the log service | primary |
//! | `xlog_node.rs` | the log service: its state machine with threads, files and sockets | log service |
//! | `archiving.rs` | the archive as a consumer of the log service | log service |
//! | `keeping.rs` | merging its runs, and giving up what is not promised | log service |
//! | `log_service.rs` | durable blocks for who pulls them, and the log that is kept for them | primary |
//! | `page_client.rs` | pages from whichever page server has them and answers best | primary |
//! | `choice.rs` | which of several page servers is asked | primary |
//! | `part.rs` | parts of the pages in messages, and which blocks of the log matter to one | all |
//! | `primary.rs` | both, as what an open of the database asks for | primary |
//! | `node.rs` | a page server that pulls, applies, checkpoints, fills and answers | page server |
//!
//! # Invariants
//! 1. Only durable blocks leave the primary: a page server is never ahead of what a crash of the primary leaves.
//! 2. What a page server needs after a crash of its own is held in the log, or it is in the archive: one that was away for longer than
//!    its lease begins anew from there.
//! 3. A page server's loss costs the time to start another one; nothing is kept for it but log.

mod archiving;
mod choice;
mod keeping;
mod log_service;
mod node;
mod page_client;
mod part;
mod primary;
mod xlog_node;
mod zone;

pub use archiving::{ArchiveTarget, ArchivingShown};
pub use log_service::{ConsumerStatus, LogServiceConfig};
pub use node::{NodeConfig, NodeStatus, PageServerNode, SeedSource};
pub use page_client::{PageClientConfig, ReplicaStatus};
pub use primary::{Primary, PrimaryConfig, PrimaryStatus};
pub use resurgam_rbio::{Tls, TlsFiles, TlsStats};
pub use xlog_node::{Puller, XlogConfig, XlogNode, XlogStatus};
pub use zone::{LandingZone, ZoneConfig};
