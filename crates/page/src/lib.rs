//! Bytes of every page, row and key: encode, validate, redo, print. Pure: no I/O,
//! no clock, no randomness.
//!
//! | module | owns |
//! |---|---|
//! | [`buf`] | the 8 KiB page buffer, its 64-byte header, checksum |
//! | [`slotted`] | slot array and record heap (methods of [`PageBuf`]) |
//! | [`leaf`], [`inner`], [`version`] | the three kinds of slotted page: their records |
//! | [`overflow`], [`space`], [`boot`] | the pages that are not slotted |
//! | [`version_file`] | the first bytes of a version-store file: whose it is |
//! | [`diff`] | byte diffs: in-row earlier versions and log patches |
//! | [`op`] | page operations, and the one function that applies them: redo |
//! | [`row_change`] | a change of a row as the log has it |
//! | [`clean`] | cleaning the rows of a leaf as one operation |
//! | [`types`], [`key`], [`row`] | SQL values, order-preserving keys, row values |
//! | [`row_copy`] | columns of a row into a row of another layout, as bytes |
//! | [`print`], [`validate`] | human-readable dumps and structural checks |
//!
//! # Trust
//! Everything here may be handed bytes of a damaged page. Decoders answer with a
//! `Corrupt` error that says where; the fast accessors that return no `Result`
//! answer an empty slice for a nonsense slot. Nothing panics on any bytes.

pub mod array;
pub mod boot;
pub mod buf;
pub mod clean;
pub mod codec;
pub mod diff;
pub mod document;
pub mod folded;
pub mod inner;
pub mod key;
pub mod leaf;
pub mod op;
pub mod overflow;
pub mod print;
mod probe;
pub mod row;
pub mod row_change;
pub mod row_copy;
pub mod slotted;
pub mod space;
pub mod types;
pub mod validate;
pub mod version;
pub mod version_file;

pub use buf::{PageBuf, PageFault, PageType};
pub use clean::Treatment;
pub use key::KeyColumn;
pub use leaf::{Earlier, EarlierTag, LeafBuilder, LeafRecord, VersionPtr};
pub use op::PageOp;
pub use row::RowLayout;
pub use row_copy::RowCopy;
pub use types::{ColumnType, Datum, DatumRef, ExternalRef};
