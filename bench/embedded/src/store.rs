//! What a store must do to be measured. Keys are 24 bytes, values 150; two tables.
//!
//! A failure ends the run: a store that does not work is not measured.

/// Any error of any store.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
pub type Outcome<T> = Result<T, Failure>;

/// A table of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Random keys.
    Main,
    /// Ascending keys.
    Sorted,
}

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    Durable,
    /// A crash may lose it, but not break the store.
    Later,
}

pub trait Store: Sync {
    /// One transaction: it commits when `work` is done.
    fn write(&self, table: Of, commit: Commit, work: &mut dyn FnMut(&mut dyn Writer) -> Outcome<()>) -> Outcome<()>;
    /// Reads of one snapshot.
    fn read(&self, table: Of, work: &mut dyn FnMut(&mut dyn Reader) -> Outcome<()>) -> Outcome<()>;
    /// Gives back what it can. False: it has nothing of the kind.
    fn compact(&mut self) -> Outcome<bool>;
}

pub trait Writer {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()>;
    /// Whether there was such a row.
    fn remove(&mut self, key: &[u8]) -> Outcome<bool>;
    /// Removes the row with the lowest key. False: there is none.
    fn pop_first(&mut self) -> Outcome<bool>;
    /// Removes the rows whose keys are not to be kept; how many.
    fn retain(&mut self, keep: &dyn Fn(&[u8]) -> bool) -> Outcome<u64>;
}

/// Called with a row's key and value.
pub type Each<'e> = &'e mut dyn FnMut(&[u8], &[u8]);

pub trait Reader {
    /// Whether there is such a row.
    fn get(&mut self, key: &[u8], each: Each<'_>) -> Outcome<bool>;
    /// Up to `most` rows with keys from `from` on; how many there were.
    fn range(&mut self, from: &[u8], most: usize, each: Each<'_>) -> Outcome<usize>;
    /// All rows.
    fn scan(&mut self, each: Each<'_>) -> Outcome<u64>;
    /// How many rows there are, exactly.
    fn count(&mut self) -> Outcome<u64>;
}
