//! Resurgam as a library: an embedded transactional store with typed tables, that SQL can read as well.
//!
//! ```
//! use resurgam_embedded::{Db, Result, Table, row};
//!
//! row! {
//!     #[derive(Debug, Clone, PartialEq)]
//!     pub struct User in "users" {
//!         pub id: i64,
//!         pub email: String,
//!         pub city: Option<String>,
//!     }
//!     key(id: i64);
//!     unique email(email);
//! }
//!
//! const VISITS: Table<String, u64> = Table::new("visits");
//!
//! # fn main() -> Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! let db = Db::open(path)?;
//! db.write(|tx| {
//!     tx.rows::<User>()?.insert(&User { id: 1, email: "ada@example.com".into(), city: None })?;
//!     tx.table(&VISITS)?.put("/index.html", &1)?;
//!     Ok(())
//! })?; // on disk from here on
//! let ada = db.read(|tx| tx.rows::<User>()?.by("email")?.get("ada@example.com"))?;
//! assert_eq!(ada.unwrap().id, 1);
//! # Ok(()) }
//! ```
//!
//! The guide is [docs/embedding.md](guide).
//!
//! | file | concept |
//! |---|---|
//! | `db.rs` | an open database; closures as transactions |
//! | `options.rs` | settings |
//! | `tx.rs` | transactions, savepoints |
//! | `retry.rs` | trying again what met others |
//! | `kv.rs`, `rows.rs` | tables of keys and values, and of structs |
//! | `reader.rs`, `range.rs`, `by_index.rs` | finding rows |
//! | `fields.rs` | keys, bounds, and what stands for them |
//! | `value.rs` | Rust types as columns |
//! | `shape.rs` | the table that the types describe, and the one that is there |
//! | `store.rs` | rows as values of columns |
//! | `error.rs` | what can go wrong |
//! | `refused.rs` | what the compiler refuses |

mod by_index;
mod db;
mod error;
mod fields;
mod kv;
mod options;
mod range;
mod reader;
#[cfg(doctest)]
mod refused;
mod retry;
mod rows;
mod shape;
mod store;
mod tx;
mod value;

#[doc = include_str!("../../../docs/embedding.md")]
pub mod guide {}

pub use by_index::ByIndex;
pub use db::{Counts, Db};
pub use error::{Error, Result};
pub use fields::{AsBound, AsKey, AsPrefix, Bounds, ColumnOf, Fields, IndexBounds, IndexColumn, IndexValues};
pub use kv::{ReadTable, Table, WriteTable};
pub use options::{Options, Recovery};
pub use range::Range;
pub use reader::Reader;
/// Limits of the engine.
pub use resurgam_engine::limits;
pub use resurgam_engine::{ColumnType, DatumRef, Durability};
pub use rows::{ReadRows, Row, WriteRows};
pub use tx::{ReadTx, WriteTx};
pub use value::{Column, Timestamp, Unfit, Uuid};

/// What [`row!`] is expanded to.
#[doc(hidden)]
pub mod macros {
    pub use crate::fields::Values;
    pub use crate::shape::Shape;
    pub use crate::store::Source;

    /// A name without the mark of a raw identifier.
    pub fn plain(name: &'static str) -> &'static str {
        name.strip_prefix("r#").unwrap_or(name)
    }
}
