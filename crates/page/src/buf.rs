//! The page buffer and the 64-byte header that every page starts with.
//!
//! ```text
//!  0 checksum u32        CRC-32C of bytes 4..8192; written by `seal`, stale in memory
//!  4 type u8             PageType
//!  5 flags u8            HAS_VERSIONS, HAS_EXTERNAL
//!  6 level u8            0 leaf, 1.. inner
//!  7 format version u8   PAGE_FORMAT_VERSION
//!  8 page id u64
//! 16 lsn u64             LSN of the last record applied
//! 24 highest xid u64     highest writer of any version ever put on this page
//! 32 object u32
//! 36 slot count u16      (slotted pages, as all fields from here on)
//! 38 heap start u16      lowest byte of the record heap
//! 40 garbage u16         bytes of the heap that no record and no fence uses
//! 42 lower fence offset u16
//! 44 lower fence length u16   0 = minus infinity
//! 46 upper fence offset u16
//! 48 upper fence length u16   0xFFFF = plus infinity
//! 50..52 reserved, zero
//! 52 written by: epoch u32        which opening of the log wrote the page to its file
//! 56 written by: opening u32      and the number that this opening drew; both 0 in memory, and where it is not known
//! 60 records since anew u32         records applied behind the one that made the page anew; 0 as well on a page of an earlier version
//! ```
//! All integers are little-endian.
//!
//! # Invariants
//! 1. A page on disk is sealed: its checksum matches, its id is its position.
//! 2. An all-zero page was never written; it is a fault of its own kind, because
//!    a hole in a file and a damaged page want different answers.

use resurgam_base::limits::PAGE_SIZE;
use resurgam_base::region::{Region, SMALL_PAGE};
use resurgam_base::{Error, Lsn, ObjectId, PageId, TxId, checksum};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of the header.
pub const HEADER_SIZE: usize = 64;
/// Version of the page format that this code writes.
pub const PAGE_FORMAT_VERSION: u8 = 1;
/// Header flag: some record on the page carries a version tag or is a ghost.
pub const HAS_VERSIONS: u8 = 1;
/// Header flag: some row on the page keeps a value on overflow pages.
pub const HAS_EXTERNAL: u8 = 2;
/// Upper fence length that stands for plus infinity.
pub(crate) const FENCE_INFINITE: u16 = 0xffff;

const CHECKSUM: usize = 0;
const TYPE: usize = 4;
const FLAGS: usize = 5;
const LEVEL: usize = 6;
const FORMAT: usize = 7;
const PAGE_ID: usize = 8;
const LSN: usize = 16;
const HIGH_XID: usize = 24;
const OBJECT: usize = 32;
const SLOT_COUNT: usize = 36;
const HEAP_START: usize = 38;
const GARBAGE: usize = 40;
const LOWER_OFFSET: usize = 42;
const LOWER_LEN: usize = 44;
const UPPER_OFFSET: usize = 46;
const UPPER_LEN: usize = 48;
const WRITTEN_BY_EPOCH: usize = 52;
const WRITTEN_BY_OPENING: usize = 56;
pub(crate) const RECORDS_SINCE_ANEW: usize = 60;

const _: () = assert!(RECORDS_SINCE_ANEW + 4 == HEADER_SIZE);
const _: () = assert!(PAGE_SIZE <= u16::MAX as usize);

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageType {
    Free = 0,
    Boot = 1,
    SpaceMap = 2,
    Leaf = 3,
    Inner = 4,
    Overflow = 5,
    Version = 6,
}

impl PageType {
    /// The type with this byte, if there is one.
    pub const fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Free,
            1 => Self::Boot,
            2 => Self::SpaceMap,
            3 => Self::Leaf,
            4 => Self::Inner,
            5 => Self::Overflow,
            6 => Self::Version,
            _ => return None,
        })
    }

    /// Whether pages of this type have a slot array and a record heap.
    #[inline]
    pub const fn is_slotted(self) -> bool {
        matches!(self, Self::Leaf | Self::Inner | Self::Version)
    }
}

/// Why a page read from disk cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// Every byte is zero: never written, or lost.
    Zero { expected: PageId },
    /// Torn or damaged.
    Checksum { expected: PageId, stored: u32, computed: u32 },
    /// A sound page, but another one: a lost or misdirected write.
    WrongId { expected: PageId, found: PageId },
    /// A sound page of a type that this code does not know.
    BadType { expected: PageId, byte: u8 },
    /// A sound page of a format version that this code does not know.
    BadFormat { expected: PageId, version: u8 },
}

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Zero { expected } => write!(f, "page {expected} is all zero"),
            Self::Checksum { expected, stored, computed } => {
                write!(f, "page {expected} has checksum {stored:#010x}, its bytes give {computed:#010x}")
            }
            Self::WrongId { expected, found } => {
                write!(f, "page {expected} holds page {found}")
            }
            Self::BadType { expected, byte } => {
                write!(f, "page {expected} has unknown type {byte}")
            }
            Self::BadFormat { expected, version } => {
                write!(f, "page {expected} has unknown format version {version}")
            }
        }
    }
}

impl std::error::Error for PageFault {}

impl From<PageFault> for Error {
    fn from(fault: PageFault) -> Self {
        Error::corrupt(fault.to_string())
    }
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Aligned([u8; PAGE_SIZE]);

const _: () = assert!(size_of::<Aligned>() == PAGE_SIZE && align_of::<Aligned>() == SMALL_PAGE);

/// One page in memory: 8192 bytes, aligned for direct I/O; on the heap, or one of many that are beside each other.
pub struct PageBuf {
    at: NonNull<Aligned>,
    /// What it is a part of; none: it is on the heap, by itself.
    region: Option<Arc<Region>>,
}

// SAFETY: nobody else has the page's bytes, as with a box.
unsafe impl Send for PageBuf {}
// SAFETY: as above.
unsafe impl Sync for PageBuf {}

impl Drop for PageBuf {
    fn drop(&mut self) {
        if self.region.is_none() {
            // SAFETY: it comes of a box, and this is its end.
            drop(unsafe { Box::from_raw(self.at.as_ptr()) });
        }
    }
}

impl Clone for PageBuf {
    /// On the heap.
    fn clone(&self) -> Self {
        let mut page = Box::<Aligned>::new_uninit();
        // SAFETY: both are a page long, and the new one is nobody's.
        unsafe { std::ptr::copy_nonoverlapping(self.at.as_ptr(), page.as_mut_ptr(), 1) };
        // SAFETY: it was written just now.
        let page = unsafe { page.assume_init() };
        Self::on_heap(page)
    }
}

macro_rules! field {
    ($(#[$doc:meta])* $get:ident, $set:ident, $offset:ident, $int:ty) => {
        $(#[$doc])*
        #[inline]
        pub fn $get(&self) -> $int {
            <$int>::from_le_bytes(self.array::<$offset, { size_of::<$int>() }>())
        }
        #[doc = concat!("Sets what [`Self::", stringify!($get), "`] reads.")]
        #[inline]
        pub fn $set(&mut self, value: $int) {
            self.as_bytes_mut()[$offset..$offset + size_of::<$int>()].copy_from_slice(&value.to_le_bytes());
        }
    };
    (id $(#[$doc:meta])* $get:ident, $set:ident, $offset:ident, $int:ty, $id:ident) => {
        $(#[$doc])*
        #[inline]
        pub fn $get(&self) -> $id {
            $id(<$int>::from_le_bytes(self.array::<$offset, { size_of::<$int>() }>()))
        }
        #[doc = concat!("Sets what [`Self::", stringify!($get), "`] reads.")]
        #[inline]
        pub fn $set(&mut self, value: $id) {
            self.as_bytes_mut()[$offset..$offset + size_of::<$int>()].copy_from_slice(&value.0.to_le_bytes());
        }
    };
}

impl PageBuf {
    /// A page of zero bytes.
    pub fn zeroed() -> Self {
        Self::on_heap(Box::new(Aligned([0; PAGE_SIZE])))
    }

    fn on_heap(page: Box<Aligned>) -> Self {
        Self { at: NonNull::from(Box::leak(page)), region: None }
    }

    /// So many pages of zero bytes, beside each other in memory that is given back when the last of them goes. `large`: see
    /// [`Region::zeroed`].
    pub fn many_zeroed(count: usize, large: bool) -> Vec<Self> {
        if count == 0 {
            return Vec::new();
        }
        let region = Arc::new(Region::zeroed(count * PAGE_SIZE, large));
        let first = region.begin().cast::<Aligned>();
        let page = |at| {
            // SAFETY: the region has so many pages. Each is handed out once, aligned as the region begins, and zero, which is a page.
            let at = unsafe { first.add(at) };
            Self { at, region: Some(Arc::clone(&region)) }
        };
        (0..count).map(page).collect()
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: the bytes are there as long as this is, and only this has them.
        unsafe { &self.at.as_ref().0 }
    }
    #[inline]
    pub fn as_bytes_mut(&mut self) -> &mut [u8; PAGE_SIZE] {
        // SAFETY: as above, and this is borrowed exclusively.
        unsafe { &mut self.at.as_mut().0 }
    }
    /// Overwrites this page with `other`.
    #[inline]
    pub fn copy_from(&mut self, other: &PageBuf) {
        self.as_bytes_mut().copy_from_slice(other.as_bytes());
    }

    /// `OFFSET + N` is a constant below the header size: the range check folds away.
    #[inline]
    fn array<const OFFSET: usize, const N: usize>(&self) -> [u8; N] {
        const { assert!(OFFSET + N <= HEADER_SIZE) };
        let mut out = [0; N];
        out.copy_from_slice(&self.as_bytes()[OFFSET..OFFSET + N]);
        out
    }

    field!(
        /// The stored checksum; stale while the page is in memory.
        stored_checksum, set_stored_checksum, CHECKSUM, u32
    );
    field!(
        /// The raw type byte; [`Self::page_type`] decodes it.
        type_byte, set_type_byte, TYPE, u8
    );
    field!(
        /// Header flags: [`HAS_VERSIONS`], [`HAS_EXTERNAL`].
        flags, set_flags, FLAGS, u8
    );
    field!(
        /// Height above the leaves: 0 for a leaf.
        level, set_level, LEVEL, u8
    );
    field!(
        /// Version of the page format.
        format_version, set_format_version, FORMAT, u8
    );
    field!(id
        /// The page's own number.
        page_id, set_page_id, PAGE_ID, u64, PageId
    );
    field!(id
        /// LSN of the last log record applied to the page.
        lsn, set_lsn, LSN, u64, Lsn
    );
    field!(id
        /// Highest xid of any version that was ever put on the page.
        highest_xid, set_highest_xid, HIGH_XID, u64, TxId
    );
    field!(id
        /// The object that owns the page.
        object, set_object, OBJECT, u32, ObjectId
    );
    field!(
        /// The stored slot count, not bounded; [`Self::slot_count`] is.
        raw_slot_count, set_raw_slot_count, SLOT_COUNT, u16
    );
    field!(
        /// Lowest byte of the record heap.
        heap_start, set_heap_start, HEAP_START, u16
    );
    field!(
        /// Heap bytes that no record and no fence uses.
        garbage, set_garbage, GARBAGE, u16
    );
    field!(
        /// Offset of the lower fence.
        lower_offset, set_lower_offset, LOWER_OFFSET, u16
    );
    field!(
        /// Length of the lower fence; 0 = minus infinity.
        lower_len, set_lower_len, LOWER_LEN, u16
    );
    field!(
        /// Offset of the upper fence.
        upper_offset, set_upper_offset, UPPER_OFFSET, u16
    );
    field!(
        /// Length of the upper fence; 0xFFFF = plus infinity.
        upper_len, set_upper_len, UPPER_LEN, u16
    );
    field!(
        /// The log's epoch under which the page was written to its file; 0 = not known. Set in what is written only:
        /// a page in memory, and what redo makes, has none.
        written_by_epoch, set_written_by_epoch, WRITTEN_BY_EPOCH, u32
    );
    field!(
        /// The number that this opening of the log drew; 0 = not known.
        written_by_opening, set_written_by_opening, WRITTEN_BY_OPENING, u32
    );
    field!(
        /// Records that were applied behind the one that made the page anew (a Format or an Image): so many, and that one, make
        /// the page. A page that a program before this field has written counts from 0 on: its chain is longer by what it
        /// had then, once.
        records_since_anew, set_records_since_anew, RECORDS_SINCE_ANEW, u32
    );
    /// Forgets who wrote the page, which is sealed and stays so: its content is the same for whoever did.
    pub fn forget_writer(&mut self) {
        if self.written_by_epoch() != 0 || self.written_by_opening() != 0 {
            self.set_written_by_epoch(0);
            self.set_written_by_opening(0);
            self.seal();
        }
    }

    /// The page's type, or `None` if the byte is unknown.
    #[inline]
    pub fn page_type(&self) -> Option<PageType> {
        PageType::from_u8(self.type_byte())
    }
    /// Whether the page is of type `ty`.
    #[inline]
    pub fn is(&self, ty: PageType) -> bool {
        self.type_byte() == ty as u8
    }
    #[inline]
    pub fn set_page_type(&mut self, ty: PageType) {
        self.set_type_byte(ty as u8);
    }
    /// Whether the page carries [`HAS_VERSIONS`].
    #[inline]
    pub fn has_versions(&self) -> bool {
        self.flags() & HAS_VERSIONS != 0
    }
    /// Raises the highest xid to at least `xid`.
    #[inline]
    pub fn raise_highest_xid(&mut self, xid: TxId) {
        if xid > self.highest_xid() {
            self.set_highest_xid(xid);
        }
    }

    /// Makes this an empty page: header written, all else zero. The LSN is zero.
    pub fn format(&mut self, ty: PageType, id: PageId, level: u8, object: ObjectId) {
        self.as_bytes_mut().fill(0);
        self.set_page_type(ty);
        self.set_format_version(PAGE_FORMAT_VERSION);
        self.set_level(level);
        self.set_page_id(id);
        self.set_object(object);
        if ty.is_slotted() {
            self.set_heap_start(PAGE_SIZE as u16);
            self.set_upper_len(FENCE_INFINITE);
        }
    }

    /// The checksum that the page's bytes give.
    pub fn computed_checksum(&self) -> u32 {
        checksum(&self.as_bytes()[4..])
    }
    /// Stores the checksum; the last step before the page is written.
    pub fn seal(&mut self) {
        let sum = self.computed_checksum();
        self.set_stored_checksum(sum);
    }
    /// Appends the page as [`PageBuf::seal`] would leave it, which need not be done to it for that.
    pub fn put_sealed(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.computed_checksum().to_le_bytes());
        out.extend_from_slice(&self.as_bytes()[4..]);
    }
    /// Whether every byte is zero.
    pub fn is_all_zero(&self) -> bool {
        // In pieces, each without a branch: as new files are read, this is asked of every page.
        self.as_bytes().chunks(64).all(|piece| piece.iter().fold(0, |all, &byte| all | byte) == 0)
    }
    /// Whether two pages hold the same content; checksums, stale in memory, are not compared.
    pub fn same_content(&self, other: &PageBuf) -> bool {
        self.as_bytes()[4..] == other.as_bytes()[4..]
    }

    /// Checks a page just read from position `expected`: checksum, id, type, format.
    /// Converts into a `Corrupt` error with `?`.
    pub fn verify(&self, expected: PageId) -> Result<(), PageFault> {
        let stored = self.stored_checksum();
        let computed = self.computed_checksum();
        if stored != computed {
            if self.is_all_zero() {
                return Err(PageFault::Zero { expected });
            }
            return Err(PageFault::Checksum { expected, stored, computed });
        }
        if self.page_id() != expected {
            return Err(PageFault::WrongId { expected, found: self.page_id() });
        }
        if self.page_type().is_none() {
            return Err(PageFault::BadType { expected, byte: self.type_byte() });
        }
        if self.format_version() != PAGE_FORMAT_VERSION {
            return Err(PageFault::BadFormat { expected, version: self.format_version() });
        }
        Ok(())
    }
}

impl Default for PageBuf {
    fn default() -> Self {
        Self::zeroed()
    }
}

impl fmt::Debug for PageBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PageBuf({:?} {:?} {:?} {:?} slots {})",
            self.page_id(),
            self.page_type(),
            self.lsn(),
            self.object(),
            self.raw_slot_count()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resurgam_base::ErrorKind;

    fn sealed() -> PageBuf {
        let mut page = PageBuf::zeroed();
        page.format(PageType::Leaf, PageId(7), 0, ObjectId(3));
        page.seal();
        page
    }

    #[test]
    fn pages_beside_each_other_are_apart() {
        let mut pages = PageBuf::many_zeroed(5, true);
        assert!(PageBuf::many_zeroed(0, true).is_empty());
        for (n, page) in pages.iter_mut().enumerate() {
            assert!(page.is_all_zero());
            page.as_bytes_mut().fill(n as u8 + 1);
        }
        let (last, copy) = (pages.pop().unwrap(), pages[1].clone());
        drop(pages);
        assert!(last.as_bytes().iter().all(|byte| *byte == 5), "it keeps its memory");
        assert!(copy.as_bytes().iter().all(|byte| *byte == 2));
        let mut filled = sealed();
        filled.copy_from(&last);
        assert!(filled.same_content(&last));
    }

    #[test]
    fn header_bytes_are_where_the_table_says() {
        let mut page = PageBuf::zeroed();
        page.format(PageType::Inner, PageId(0x0102), 2, ObjectId(9));
        page.set_lsn(Lsn(0x0304));
        page.set_highest_xid(TxId(0x0506));
        page.set_flags(HAS_VERSIONS);
        let b = page.as_bytes();
        assert_eq!(&b[4..8], &[4, 1, 2, 1]);
        assert_eq!(&b[8..10], &[2, 1]);
        assert_eq!(&b[16..18], &[4, 3]);
        assert_eq!(&b[24..26], &[6, 5]);
        assert_eq!(b[32], 9);
        assert_eq!(&b[36..50], &[0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    }

    #[test]
    fn verify_tells_faults_apart() {
        let id = PageId(7);
        assert_eq!(sealed().verify(id), Ok(()));
        assert_eq!(PageBuf::zeroed().verify(id), Err(PageFault::Zero { expected: id }));
        assert_eq!(sealed().verify(PageId(8)), Err(PageFault::WrongId { expected: PageId(8), found: id }));
        let mut bad = sealed();
        bad.set_type_byte(99);
        bad.seal();
        assert_eq!(bad.verify(id), Err(PageFault::BadType { expected: id, byte: 99 }));
        let mut bad = sealed();
        bad.set_format_version(2);
        bad.seal();
        assert_eq!(bad.verify(id), Err(PageFault::BadFormat { expected: id, version: 2 }));
        let error: Error = bad.verify(id).unwrap_err().into();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let page = sealed();
        for byte in (0..PAGE_SIZE).step_by(61).chain(0..HEADER_SIZE) {
            let mut bad = page.clone();
            bad.as_bytes_mut()[byte] ^= 1 << (byte % 8);
            assert!(matches!(bad.verify(PageId(7)), Err(PageFault::Checksum { .. })), "{byte}");
        }
    }
}
