//! Parts of the pages in messages.

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_pageserver::Partitions;
use resurgam_rbio::{BlocksAnswer, Part, PartOfBlocks};

/// As a message has it.
pub(crate) fn to_message(partitions: &Partitions) -> Part {
    Part { pages: partitions.pages(), count: partitions.count(), numbers: partitions.numbers() }
}

/// What a message says.
///
/// # Errors
/// `InvalidParameter` for what cannot be.
pub(crate) fn of_message(part: &Part) -> Result<Partitions> {
    Partitions::new(part.pages, part.count, &part.numbers)
}

/// An answer from which nothing was left out, for who knows no others.
pub(crate) fn whole(answer: PartOfBlocks) -> BlocksAnswer {
    let PartOfBlocks { blocks, complete_to, durable, left_out: _ } = answer;
    BlocksAnswer { blocks: blocks.into_iter().map(|(_, bytes)| bytes).collect(), complete_to, durable }
}

/// Refuses partitions of another size than those of the database.
///
/// # Errors
/// `InvalidParameter`.
pub(crate) fn check_size(partitions: &Partitions, pages: u64) -> Result<()> {
    if partitions.is_all() || partitions.pages() == pages {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidParameter,
        format!("it has partitions of {} pages, and those of this database have {pages}", partitions.pages()),
    )
    .with_hint("All parts of a database are started with the same --partition-bytes."))
}
