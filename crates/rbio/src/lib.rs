//! Remote block I/O (RBIO): what primary, log service and page servers say to each other (*Socrates*, section 3.4: typed,
//! versioned, stateless).
//!
//! ```text
//!   client --frame: request--> server
//!   client <--frame: answer--  server      one after the other on a connection; several connections side by side
//! ```
//!
//! | file | concept |
//! |---|---|
//! | `frame.rs` | lengths and checksums around messages |
//! | `message.rs` | requests and answers, and their bytes |
//! | `client.rs` | a connection, and the connections to one server that are kept |
//! | `server.rs` | listening, a thread for each connection, bounded |
//! | `deadline.rs` | reads and writes that end in time |
//! | `socket.rs` | a socket whose waits are bounded |
//! | `tls/` | certificates of both sides, and what is encrypted |
//! | `refusals.rs` | who was refused: counted, and said, but not again and again |
//!
//! # Invariants
//! 1. Nothing that came from the network is used before its frame's checksum was right; a length is bounded before memory is given
//!    for it.
//! 2. A request can be sent again, to any server: none changes what a later answer means, but how far a consumer is, which only grows.
//! 3. Every wait has an end: connecting, reading, writing, and what the server waits for on behalf of a request.
//! 4. Two neighbouring versions work together: the highest that both know is agreed upon at the first message.
//! 5. What a server says of how it does (its load, how far it is) is for the choice between servers alone: nothing that is read is taken
//!    for new enough by it.
//! 6. With TLS nothing is said, and nothing that was said is used, before each side has checked the other's certificate: the client's
//!    first message is answered by a server that has. Without it the way is as short as before.
//!
//! The frames are our own, over blocking sockets, in place of gRPC: a page is asked for on a thread that waits for it
//! with a latch in its hand, so an answer should cost two system calls and no change of threads
//! (`docs/page-servers.md` has the figures), and the crates below the server stay free of async.

mod client;
mod deadline;
mod frame;
mod message;
mod refusals;
mod server;
mod socket;
#[cfg(test)]
mod tests;
mod tls;

pub use client::{Client, Connection, Peer};
pub use message::{
    Announced, Answer, BlocksAnswer, Consumer, Coverage, Hello, Keeping, PAGES_MAX, PART_NUMBERS_MAX, Pages, Part,
    PartOfBlocks, Request, Role, SentBlock, Standing, VERSION, VERSION_OLDEST,
};
pub use server::{Server, ServerConfig, ServerStats, Service};
pub use tls::{Tls, TlsFiles, TlsStats};
