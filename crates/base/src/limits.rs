//! Sizes and bounds that more than one crate must agree on.

/// Bytes of a page, on disk and in memory.
pub const PAGE_SIZE: usize = 8192;
/// Pages of an extent, the unit in which space is given to an object.
pub const EXTENT_PAGES: u64 = 8;
/// Longest encoded key (clustered or index), in bytes.
pub const KEY_BYTES_MAX: usize = 1800;
/// Longest leaf record (tag, key, value and in-row version), in bytes: four fit a page.
pub const RECORD_BYTES_MAX: usize = 2000;
/// Longest single column value, in bytes (1 GB, as in PostgreSQL).
pub const VALUE_BYTES_MAX: usize = 1 << 30;
/// Most columns of a table (as in PostgreSQL).
pub const COLUMNS_MAX: usize = 1600;
/// Most columns of an index, included ones counted (as in PostgreSQL).
pub const INDEX_COLUMNS_MAX: usize = 32;
/// Longest identifier, in bytes (as in PostgreSQL).
pub const IDENTIFIER_BYTES_MAX: usize = 63;
