//! Restoring the files that hold pages, segment by segment, under running transactions.
//!
//! | file | concept |
//! |---|---|
//! | `origin.rs` | the file that says that a folder is being restored, and from where |

mod origin;

pub use origin::{ORIGIN, Origin, OriginKind};
