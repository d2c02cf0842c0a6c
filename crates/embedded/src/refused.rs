//! What the compiler refuses, so that nobody meets it when a program runs. Each example that must not compile stands beside one that
//! does, and is the same but for the mistake: it is not refused for something else.
//!
//! # Rows that outlive their transaction
//! An iterator may be read while its transaction writes (it sees the table as it was when it was made), and not once that has ended:
//! ```
//! # use resurgam_embedded::{Db, Result, Table};
//! # const VISITS: Table<String, u64> = Table::new("visits");
//! # fn main() -> Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = Db::open(dir.path().join("db"))?;
//! let tx = db.begin();
//! let visits = tx.table(&VISITS)?;
//! visits.put("/", &1)?;
//! let mut rows = visits.range(..)?;
//! visits.put("/a", &2)?;
//! assert_eq!(rows.next().unwrap()?, ("/".to_owned(), 1));
//! assert!(rows.next().is_none());
//! tx.commit()?;
//! # Ok(()) }
//! ```
//! ```compile_fail,E0505
//! # use resurgam_embedded::{Db, Result, Table};
//! # const VISITS: Table<String, u64> = Table::new("visits");
//! # fn main() -> Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = Db::open(dir.path().join("db"))?;
//! let tx = db.begin();
//! let visits = tx.table(&VISITS)?;
//! visits.put("/", &1)?;
//! let mut rows = visits.range(..)?;
//! visits.put("/a", &2)?;
//! assert_eq!(rows.next().unwrap()?, ("/".to_owned(), 1));
//! tx.commit()?;
//! assert!(rows.next().is_none());
//! # Ok(()) }
//! ```
//! Nor the table, nor what a closure has of them:
//! ```
//! # use resurgam_embedded::{Db, Result, Table};
//! # const VISITS: Table<String, u64> = Table::new("visits");
//! fn all(db: &Db) -> Result<Vec<Result<(String, u64)>>> {
//!     db.read(|tx| Ok(tx.table(&VISITS)?.range(..)?.collect()))
//! }
//! ```
//! ```compile_fail
//! # use resurgam_embedded::{Db, Result, Table};
//! # const VISITS: Table<String, u64> = Table::new("visits");
//! fn all(db: &Db) -> Result<impl Iterator<Item = Result<(String, u64)>>> {
//!     db.read(|tx| Ok(tx.table(&VISITS)?.range(..)?))
//! }
//! ```
//!
//! # Writes where it is only read
//! ```
//! # use resurgam_embedded::{Db, Result, Table};
//! # const VISITS: Table<String, u64> = Table::new("visits");
//! fn visit(db: &Db) -> Result<()> {
//!     db.write(|tx| tx.table(&VISITS)?.put("/", &1).map(drop))
//! }
//! ```
//! ```compile_fail,E0599
//! # use resurgam_embedded::{Db, Result, Table};
//! # const VISITS: Table<String, u64> = Table::new("visits");
//! fn visit(db: &Db) -> Result<()> {
//!     db.read(|tx| tx.table(&VISITS)?.put("/", &1).map(drop))
//! }
//! ```
//!
//! # Keys and values of other types
//! ```
//! # use resurgam_embedded::{Db, Result, Table};
//! # const VISITS: Table<String, u64> = Table::new("visits");
//! fn visits(db: &Db) -> Result<Option<u64>> {
//!     db.read(|tx| tx.table(&VISITS)?.get("/"))
//! }
//! ```
//! ```compile_fail,E0277
//! # use resurgam_embedded::{Db, Result, Table};
//! # const VISITS: Table<String, u64> = Table::new("visits");
//! fn visits(db: &Db) -> Result<Option<u64>> {
//!     db.read(|tx| tx.table(&VISITS)?.get(&7))
//! }
//! ```
//! ```compile_fail,E0308
//! # use resurgam_embedded::{Db, Result, Table};
//! # const VISITS: Table<String, u64> = Table::new("visits");
//! fn visits(db: &Db) -> Result<Option<i64>> {
//!     db.read(|tx| tx.table(&VISITS)?.get("/"))
//! }
//! ```
//!
//! # Structs that are no rows of their table
//! ```
//! resurgam_embedded::row! {
//!     pub struct User in "users" {
//!         pub id: i64,
//!         pub email: String,
//!     }
//!     key(id: i64);
//!     unique email(email);
//! }
//! # fn main() {}
//! ```
//! A key of another type than the field:
//! ```compile_fail,E0308
//! resurgam_embedded::row! {
//!     pub struct User in "users" {
//!         pub id: i64,
//!         pub email: String,
//!     }
//!     key(id: i32);
//!     unique email(email);
//! }
//! # fn main() {}
//! ```
//! A key, or an index, of a column that is not there:
//! ```compile_fail,E0609
//! resurgam_embedded::row! {
//!     pub struct User in "users" {
//!         pub id: i64,
//!         pub email: String,
//!     }
//!     key(number: i64);
//!     unique email(email);
//! }
//! # fn main() {}
//! ```
//! ```compile_fail,E0609
//! resurgam_embedded::row! {
//!     pub struct User in "users" {
//!         pub id: i64,
//!         pub email: String,
//!     }
//!     key(id: i64);
//!     unique email(address);
//! }
//! # fn main() {}
//! ```
//! A field that is no column:
//! ```compile_fail,E0277
//! resurgam_embedded::row! {
//!     pub struct User in "users" {
//!         pub id: i64,
//!         pub email: std::path::PathBuf,
//!     }
//!     key(id: i64);
//!     unique email(email);
//! }
//! # fn main() {}
//! ```
