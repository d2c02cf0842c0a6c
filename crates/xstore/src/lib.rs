//! Where archive and backups are kept: immutable objects in a named place.
//!
//! One small synchronous trait, [`Store`]. An object is created once, under a name that did not exist, and is never
//! changed: what is read under a name is what was published under it, or an error. That is what folders and object
//! stores have in common, and with it numbered objects are a compare-and-swap: of several that create the same name,
//! one is told `Ok`.
//!
//! | file | concept |
//! |---|---|
//! | `error.rs` | what can go wrong, at the grain at which a caller can react |
//! | `name.rs` | what a name may look like |
//! | `place.rs` | which store a URL names: a folder, or a kind that a crate above has registered |
//! | `folder.rs` | a folder of a [`Vfs`](resurgam_vfs::Vfs): the real disk, or the simulated one |
//! | `faulty.rs` | for tests: a store that is slow, fails, or applies what it says has failed |
//!
//! The implementation on object stores is the crate `objects`, which registers its kinds of places: it needs a network and
//! a runtime, and nothing below the server depends on it.
//!
//! # What an implementation promises
//! 1. After [`Upload::publish`] returned `Ok` the object is there, whole and durable.
//! 2. A name leads to a whole object or to nothing, also after a crash at any moment: nothing torn is ever seen.
//! 3. After an error of kind [`Uncertain`](StoreErrorKind::Uncertain) the object may be there, whole, or not; after any
//!    other error of `publish` it is not there by this call.
//! 4. Who is told [`Exists`](StoreErrorKind::Exists) may rely on the object that is there being durable, whoever made it.
//! 5. Objects that were published before a call to [`Store::list`] are in its answer.

mod error;
mod faulty;
mod folder;
mod name;
mod place;

pub use error::{StoreError, StoreErrorKind, StoreResult};
pub use faulty::{FaultyStore, LateCall, Misdeed, StoreCall};
pub use folder::FolderStore;
pub use name::check_name;
pub use place::{Access, Place, Scheme, register};

/// A place for immutable objects. Names are relative, with `/` between folders ([`check_name`]). Every call may be made
/// from several threads at once.
pub trait Store: Send + Sync {
    /// Begins an object of that name. Nothing can be seen of it before it is published.
    ///
    /// # Errors
    /// `Exists` when the name is known to be taken (it may as well come out when it is published); `Invalid` for a name
    /// that cannot be; `Full`, `Unavailable`.
    fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>>;

    /// Reads exactly `len` bytes at `offset`.
    ///
    /// # Errors
    /// `Missing`; `Short` when the object ends before that; `Unavailable`.
    fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>>;

    /// As [`Store::read`], into memory that was used before. What was in it is gone, also after an error.
    ///
    /// # Errors
    /// Those of [`Store::read`].
    fn read_into(&self, name: &str, offset: u64, len: usize, into: &mut Vec<u8>) -> StoreResult<()> {
        *into = self.read(name, offset, len)?;
        Ok(())
    }

    /// Length of an object in bytes.
    ///
    /// # Errors
    /// `Missing`, `Unavailable`.
    fn len(&self, name: &str) -> StoreResult<u64>;

    /// Names of the objects directly in the folder of `prefix` (up to its last `/`) that begin with it, sorted. Of a
    /// folder that is not there, none.
    ///
    /// # Errors
    /// `Unavailable`.
    fn list(&self, prefix: &str) -> StoreResult<Vec<String>>;

    /// Deletes an object; it may be gone already. A crash may bring it back until [`Store::sync_deletes`].
    ///
    /// # Errors
    /// `Unavailable`.
    fn delete(&self, name: &str) -> StoreResult<()>;

    /// What was deleted in a folder (its name without a `/` at the end) before this call stays deleted.
    ///
    /// # Errors
    /// `Unavailable`.
    fn sync_deletes(&self, folder: &str) -> StoreResult<()>;

    /// Deletes what unfinished creations have left in a folder (its name without a `/` at the end). Only for who is the
    /// only one that creates objects there: an upload that is under way fails.
    ///
    /// # Errors
    /// `Unavailable`.
    fn tidy(&self, folder: &str) -> StoreResult<()>;

    /// The place, in words, for messages.
    fn place(&self) -> String;

    /// Creates an object of these bytes and publishes it.
    ///
    /// # Errors
    /// Those of [`Store::create`] and of [`Upload`].
    fn put(&self, name: &str, bytes: &[u8]) -> StoreResult<()> {
        let mut upload = self.create(name)?;
        upload.append(bytes)?;
        upload.publish()
    }

    /// Reads a whole object of at most `len_max` bytes.
    ///
    /// # Errors
    /// Those of [`Store::read`]; `Invalid` when it is longer.
    fn get(&self, name: &str, len_max: u64) -> StoreResult<Vec<u8>> {
        let len = self.len(name)?;
        match usize::try_from(len) {
            Ok(bytes) if len <= len_max => self.read(name, 0, bytes),
            _ => Err(StoreError::new(
                StoreErrorKind::Invalid,
                format!("object \"{name}\" in {} has {len} bytes; at most {len_max} were expected", self.place()),
            )),
        }
    }
}

/// An object that is being written. Dropped before it is published, it was never there.
pub trait Upload: Send {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// `Full`, `Unavailable`; the upload is then of no use.
    fn append(&mut self, bytes: &[u8]) -> StoreResult<()>;

    /// Makes the object whole, durable and visible.
    ///
    /// # Errors
    /// `Exists`, when the name is taken; `Full`, `Unavailable`: it is not there; `Uncertain`: it may be there.
    fn publish(self: Box<Self>) -> StoreResult<()>;
}
