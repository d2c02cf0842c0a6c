//! Identifiers. Zero is "none" in every one of them.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $repr:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $repr);
        impl $name {
            /// The value that names nothing.
            pub const NONE: Self = Self(0);
            /// Whether this is [`Self::NONE`].
            #[inline]
            pub const fn is_none(self) -> bool { self.0 == 0 }
            /// Whether this names something.
            #[inline]
            pub const fn is_some(self) -> bool { self.0 != 0 }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// Number of a page. The low 40 bits are its number in its file (byte offset: that times
    /// `PAGE_SIZE`), the bits above are the file: 0 = the data file, *n* = the *n*-th
    /// version-store file that the database was given.
    /// Page 0 is the boot page, so 0 also serves as "no page" in pointers.
    PageId, u64, "page:"
);

impl PageId {
    /// Bits of the page's number in its file.
    pub const FILE_SHIFT: u32 = 40;
    /// Numbers of files are below this: the bit above them marks what is no file's page.
    pub const FILES_MAX: u64 = 1 << 22;

    /// Page `number` of file `file`.
    #[inline]
    pub const fn of_file(file: u64, number: u64) -> Self {
        Self(file << Self::FILE_SHIFT | number)
    }
    /// The file it is in: 0 = the data file, else the number of a version-store file.
    #[inline]
    pub const fn file(self) -> u64 {
        self.0 >> Self::FILE_SHIFT
    }
    /// Its number in that file.
    #[inline]
    pub const fn in_file(self) -> u64 {
        self.0 & ((1 << Self::FILE_SHIFT) - 1)
    }
}

id!(
    /// Log sequence number: a byte position in the one log stream; never reused.
    Lsn, u64, "lsn:"
);
id!(
    /// Transaction (or sub-transaction) id; handed out in increasing order, never reused.
    TxId, u64, "tx:"
);
id!(
    /// Commit timestamp: position in the order of commits. Lives in memory only.
    CommitTs, u64, "ts:"
);
id!(
    /// A storage object: one tree (table or index) or one internal store.
    ObjectId, u32, "obj:"
);

impl PageId {
    /// Marks "page" numbers that name a chunk of the temporary version store: memory, not
    /// a place in a file.
    pub const TEMPORARY: u64 = 1 << 62;

    /// Whether it names a chunk of the temporary version store.
    #[inline]
    pub const fn is_temporary(self) -> bool {
        self.0 & Self::TEMPORARY != 0
    }
}

/// Position of a record in a page's slot array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct SlotId(pub u16);
