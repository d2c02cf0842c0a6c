//! `COPY` in text and CSV format.
//!
//! Reading: [`CopyReader`] takes bytes in pieces of any size and gives records. It holds at most
//! one record beyond what was pushed; a record may have 1 GB. Writing: [`CopyWriter`].
//!
//! Format errors are `22P04` with a context such as `COPY t, line 3: "text"`.

mod options;
mod reader;
mod writer;

pub use options::{CopyFormat, CopyOptions};
pub use reader::CopyReader;
pub use writer::CopyWriter;
