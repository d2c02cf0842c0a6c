//! Resurgam as a library for C; `include/resurgam.h` is what C programs see, and says what each function does.
//!
//! # Invariants
//! 1. No panic crosses the border: each function runs under [`guarded`].
//! 2. A pointer that must not be null is checked before it is used, and no length is believed that a slice cannot have. That pointers are
//!    valid beyond that is the caller's promise, in C as ever.
//! 3. An `out` pointer is written in any case, so that nobody frees what was there before.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use resurgam_embedded::{Db, Error, ReadTx, Result, Table, WriteTx};

const OK: c_int = 0;
const NOT_FOUND: c_int = 1;
const INVALID: c_int = 2;
const CONFLICT: c_int = 3;
const DUPLICATE: c_int = 4;
const IN_USE: c_int = 5;
const MISMATCH: c_int = 6;
const TOO_LONG: c_int = 7;
const READ_ONLY: c_int = 8;
const TIMEOUT: c_int = 9;
const FAILED: c_int = 10;
const BUG: c_int = 11;

type Bytes = Table<Vec<u8>, Vec<u8>>;

/// An open database, as C has it.
#[expect(non_camel_case_types, reason = "it is C's name")]
pub struct rsg_db(Db);

/// A transaction, as C has it.
#[expect(non_camel_case_types, reason = "it is C's name")]
pub struct rsg_tx(Tx);

enum Tx {
    Read(ReadTx),
    Write(WriteTx),
}

/// Bytes that are given to C.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct rsg_bytes {
    pub data: *mut u8,
    pub len: usize,
}

/// What is called with each row of a range.
#[expect(non_camel_case_types, reason = "it is C's name")]
pub type rsg_row = Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int>;

/// Why a call was not done: a status and words.
struct Failure(c_int, String);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::NoTable { .. } | Error::NoRow { .. } => NOT_FOUND,
            Error::Setting { .. } | Error::Definition { .. } | Error::Value { .. } | Error::Nested => INVALID,
            Error::Conflict { .. } => CONFLICT,
            Error::Duplicate { .. } => DUPLICATE,
            Error::InUse { .. } => IN_USE,
            Error::Mismatch { .. } => MISMATCH,
            Error::TooLong { .. } => TOO_LONG,
            Error::ReadOnly { .. } => READ_ONLY,
            Error::LockTimeout { .. } => TIMEOUT,
            _ => FAILED,
        };
        Self(status, error.to_string())
    }
}

fn invalid(what: &str) -> Failure {
    Failure(INVALID, what.to_owned())
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

fn say(message: &str) {
    // C's strings end at a zero byte.
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // Where a thread ends, in whose last steps C may still call, there is no message any more.
    let _ = MESSAGE.try_with(|message| message.replace(text));
}

/// Runs what a function does, and says why it was not done. What is done leaves the message alone: that of the failure before is
/// still asked for after what clears up.
fn guarded(work: impl FnOnce() -> std::result::Result<c_int, Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(status)) => status,
        Ok(Err(Failure(status, message))) => {
            say(&message);
            status
        }
        Err(_) => {
            say("a bug in the library: it panicked");
            BUG
        }
    }
}

/// # Safety
/// `text` is null, or a string that ends with a zero byte.
unsafe fn text<'a>(text: *const c_char, what: &str) -> std::result::Result<&'a str, Failure> {
    if text.is_null() {
        return Err(invalid(&format!("{what} is NULL")));
    }
    // SAFETY: it is not null, and ends with a zero byte, as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| invalid(&format!("{what} is not UTF-8")))
}

/// # Safety
/// `data` is null, or points to `len` bytes.
unsafe fn bytes<'a>(data: *const c_void, len: usize, what: &str) -> std::result::Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(invalid(&format!("{what} is NULL, and its length is not 0")));
    }
    if isize::try_from(len).is_err() {
        return Err(invalid(&format!("{what} has an impossible length")));
    }
    // SAFETY: it is not null, and points to so many bytes, as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

/// # Safety
/// `tx` is null, or came of `rsg_begin` or `rsg_begin_read` and was not ended.
unsafe fn open<'a>(tx: *mut rsg_tx) -> std::result::Result<&'a Tx, Failure> {
    // SAFETY: it is null or a transaction, as the caller promises.
    unsafe { tx.as_ref() }.map(|tx| &tx.0).ok_or_else(|| invalid("the transaction is NULL"))
}

fn writing(tx: &Tx) -> std::result::Result<&WriteTx, Failure> {
    match tx {
        Tx::Write(tx) => Ok(tx),
        Tx::Read(_) => Err(invalid("the transaction only reads: rsg_begin begins one that writes")),
    }
}

/// The message of the last call that failed on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn rsg_message() -> *const c_char {
    let message = || MESSAGE.try_with(|message| message.borrow().as_ptr()).ok();
    catch_unwind(message).ok().flatten().unwrap_or(c"".as_ptr())
}

/// # Safety
/// `path` is null or a string, `out` null or where a pointer can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_open(path: *const c_char, memory: u64, out: *mut *mut rsg_db) -> c_int {
    guarded(|| {
        // SAFETY: as this function's.
        let out = unsafe { out.as_mut() }.ok_or_else(|| invalid("out is NULL"))?;
        *out = std::ptr::null_mut();
        // SAFETY: as this function's.
        let path = unsafe { text(path, "the path") }?;
        let options = Db::options();
        let options = if memory == 0 { options } else { options.memory(memory) };
        *out = Box::into_raw(Box::new(rsg_db(options.open(path)?)));
        Ok(OK)
    })
}

/// # Safety
/// `db` is null or an open database.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_set_lock_timeout(db: *mut rsg_db, milliseconds: u64) -> c_int {
    guarded(|| {
        // SAFETY: as this function's.
        let db = unsafe { db.as_ref() }.ok_or_else(|| invalid("the database is NULL"))?;
        db.0.set_lock_timeout((milliseconds != 0).then(|| Duration::from_millis(milliseconds)));
        Ok(OK)
    })
}

/// # Safety
/// `db` is null or an open database, `bytes` null or where a number can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_compact(db: *mut rsg_db, bytes: *mut u64) -> c_int {
    guarded(|| {
        // SAFETY: as this function's.
        let bytes = unsafe { bytes.as_mut() }.ok_or_else(|| invalid("bytes is NULL"))?;
        *bytes = 0;
        // SAFETY: as this function's.
        let db = unsafe { db.as_ref() }.ok_or_else(|| invalid("the database is NULL"))?;
        *bytes = db.0.compact()?;
        Ok(OK)
    })
}

/// # Safety
/// `db` is null, or came of `rsg_open` and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_close(db: *mut rsg_db) -> c_int {
    guarded(|| {
        if db.is_null() {
            return Err(invalid("the database is NULL"));
        }
        // SAFETY: it was made of a box, and is given back once, as the caller promises.
        let db = unsafe { Box::from_raw(db) };
        db.0.close()?;
        Ok(OK)
    })
}

/// # Safety
/// `db` is null or an open database, `out` null or where a pointer can be written.
unsafe fn begin(db: *mut rsg_db, out: *mut *mut rsg_tx, begin: impl FnOnce(&Db) -> Tx) -> c_int {
    guarded(|| {
        // SAFETY: as this function's.
        let out = unsafe { out.as_mut() }.ok_or_else(|| invalid("out is NULL"))?;
        *out = std::ptr::null_mut();
        // SAFETY: as this function's.
        let db = unsafe { db.as_ref() }.ok_or_else(|| invalid("the database is NULL"))?;
        *out = Box::into_raw(Box::new(rsg_tx(begin(&db.0))));
        Ok(OK)
    })
}

/// # Safety
/// As [`rsg_begin_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_begin(db: *mut rsg_db, out: *mut *mut rsg_tx) -> c_int {
    // SAFETY: as this function's.
    unsafe { begin(db, out, |db| Tx::Write(db.begin())) }
}

/// # Safety
/// `db` is null or an open database, `out` null or where a pointer can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_begin_read(db: *mut rsg_db, out: *mut *mut rsg_tx) -> c_int {
    // SAFETY: as this function's.
    unsafe { begin(db, out, |db| Tx::Read(db.begin_read())) }
}

/// # Safety
/// `tx` is null, or a transaction that was not ended.
unsafe fn end(tx: *mut rsg_tx, end: impl FnOnce(Tx) -> Result<()>) -> c_int {
    guarded(|| {
        if tx.is_null() {
            return Err(invalid("the transaction is NULL"));
        }
        // SAFETY: it was made of a box, and is given back once, as the caller promises.
        let tx = unsafe { Box::from_raw(tx) };
        end(tx.0)?;
        Ok(OK)
    })
}

/// # Safety
/// `tx` is null, or a transaction that was not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_commit(tx: *mut rsg_tx) -> c_int {
    let commit = |tx| match tx {
        Tx::Write(tx) => tx.commit(),
        Tx::Read(_) => Ok(()),
    };
    // SAFETY: as this function's.
    unsafe { end(tx, commit) }
}

/// # Safety
/// `tx` is null, or a transaction that was not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_rollback(tx: *mut rsg_tx) -> c_int {
    let roll_back = |tx| {
        if let Tx::Write(tx) = tx {
            tx.rollback();
        }
        Ok(())
    };
    // SAFETY: as this function's.
    unsafe { end(tx, roll_back) }
}

/// # Safety
/// Pointers are null, or what `resurgam.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_get(
    tx: *mut rsg_tx,
    table: *const c_char,
    key: *const c_void,
    key_len: usize,
    out: *mut rsg_bytes,
) -> c_int {
    guarded(|| {
        // SAFETY: as this function's.
        let out = unsafe { out.as_mut() }.ok_or_else(|| invalid("out is NULL"))?;
        *out = rsg_bytes { data: std::ptr::null_mut(), len: 0 };
        // SAFETY: as this function's.
        let (tx, table, key) =
            unsafe { (open(tx)?, text(table, "the table's name")?, bytes(key, key_len, "the key")?) };
        let table = Bytes::named(table);
        let value = match tx {
            Tx::Read(tx) => tx.table(&table)?.get(key)?,
            Tx::Write(tx) => match tx.find_table(&table)? {
                Some(table) => table.get(key)?,
                None => None,
            },
        };
        let Some(value) = value else { return Ok(NOT_FOUND) };
        let value = value.into_boxed_slice();
        let len = value.len();
        *out = rsg_bytes { data: Box::into_raw(value).cast(), len };
        Ok(OK)
    })
}

/// # Safety
/// The bytes came of this library and were not given back; or their pointer is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_free(bytes: rsg_bytes) {
    if bytes.data.is_null() {
        return;
    }
    // SAFETY: `rsg_get` made them of a box of this length, and they are given back once, as the caller promises.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes.data, bytes.len)) });
}

/// # Safety
/// Pointers are null, or what `resurgam.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_put(
    tx: *mut rsg_tx,
    table: *const c_char,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: as this function's.
        let (tx, table, key) =
            unsafe { (open(tx)?, text(table, "the table's name")?, bytes(key, key_len, "the key")?) };
        // SAFETY: as this function's.
        let value = unsafe { bytes(value, value_len, "the value") }?;
        writing(tx)?.table(&Bytes::named(table))?.put(key, value)?;
        Ok(OK)
    })
}

/// # Safety
/// Pointers are null, or what `resurgam.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_insert(
    tx: *mut rsg_tx,
    table: *const c_char,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: as this function's.
        let (tx, table, key) =
            unsafe { (open(tx)?, text(table, "the table's name")?, bytes(key, key_len, "the key")?) };
        // SAFETY: as this function's.
        let value = unsafe { bytes(value, value_len, "the value") }?;
        writing(tx)?.table(&Bytes::named(table))?.insert(key, value)?;
        Ok(OK)
    })
}

/// # Safety
/// Pointers are null, or what `resurgam.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_delete(
    tx: *mut rsg_tx,
    table: *const c_char,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: as this function's.
        let (tx, table, key) =
            unsafe { (open(tx)?, text(table, "the table's name")?, bytes(key, key_len, "the key")?) };
        let deleted = match writing(tx)?.find_table(&Bytes::named(table))? {
            Some(table) => table.delete(key)?,
            None => false,
        };
        Ok(if deleted { OK } else { NOT_FOUND })
    })
}

/// # Safety
/// Pointers are null, or what `resurgam.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsg_range(
    tx: *mut rsg_tx,
    table: *const c_char,
    low: *const c_void,
    low_len: usize,
    high: *const c_void,
    high_len: usize,
    backward: c_int,
    row: rsg_row,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        let row = row.ok_or_else(|| invalid("what is to be called with the rows is NULL"))?;
        // SAFETY: as this function's.
        let (tx, table) = unsafe { (open(tx)?, text(table, "the table's name")?) };
        let low = match low.is_null() && low_len == 0 {
            true => Bound::Unbounded,
            // SAFETY: as this function's.
            false => Bound::Included(unsafe { bytes(low, low_len, "the lower bound") }?),
        };
        let high = match high.is_null() && high_len == 0 {
            true => Bound::Unbounded,
            // SAFETY: as this function's.
            false => Bound::Excluded(unsafe { bytes(high, high_len, "the upper bound") }?),
        };
        let table = Bytes::named(table);
        let mut rows = match tx {
            Tx::Read(tx) => match tx.table(&table) {
                Err(Error::NoTable { .. }) => return Ok(OK),
                table => table?.range((low, high))?,
            },
            Tx::Write(tx) => match tx.find_table(&table)? {
                Some(table) => table.range((low, high))?,
                None => return Ok(OK),
            },
        };
        while let Some((key, value)) = if backward == 0 { rows.next() } else { rows.next_back() }.transpose()? {
            // SAFETY: it is a function of this type, as the caller promises; the bytes live until it returns.
            let stop = unsafe { row(context, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len()) };
            if stop != 0 {
                break;
            }
        }
        Ok(OK)
    })
}
