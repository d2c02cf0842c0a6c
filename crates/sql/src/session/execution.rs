//! The outcome of an execution.

use std::sync::Arc;

use crate::dml::copy::{CopyIn, CopyOut};
use crate::session::stream::RowStream;
use crate::wire::{Field, RowChunk, SqlError, Tag};

/// What an execution gives back.
#[allow(clippy::large_enum_variant)] // one for each statement, and not kept
pub enum Execution {
    /// The statement text was empty: `EmptyQueryResponse`.
    Empty,
    /// Rows. A small result is complete: all of it in `first`, `rows` is `None`
    /// and `tag` is final. Otherwise `first` comes before what `rows` yields, and
    /// the tag is [`RowStream::tag`] at its end.
    Rows { fields: Arc<[Field]>, first: Option<RowChunk>, rows: Option<Box<RowStream>>, tag: Tag },
    /// A statement without result rows.
    Command { tag: Tag },
    /// The client now sends `CopyData`.
    CopyIn(Box<CopyIn>),
    /// The client now receives `CopyData`.
    CopyOut(CopyOut),
}

pub(crate) fn command(name: &'static str) -> Result<Execution, SqlError> {
    Ok(Execution::Command { tag: Tag::Fixed(name) })
}
