//! The header is that of the library, and a C program on both works.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};

use resurgam_capi::*;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Names of functions, of which `text` says `before(name)(`.
fn functions(text: &str, before: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let at = line.find(before)? + before.len();
        let name: String = line[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        line[at + name.len()..]
            .starts_with('(')
            .then(|| format!("{}{name}", before.trim_start_matches("extern \"C\" fn ")))
    };
    text.lines().filter_map(name).collect()
}

#[test]
fn the_header_has_the_functions_of_the_library() {
    let header = std::fs::read_to_string(here("include/resurgam.h")).unwrap();
    let library = std::fs::read_to_string(here("src/lib.rs")).unwrap();
    let code: String = header
        .lines()
        .filter(|line| !line.starts_with(['/', ' ']) && !line.starts_with("typedef"))
        .map(|l| format!("{l}\n"))
        .collect();
    let declared = functions(&code, "rsg_");
    let defined = functions(&library, "extern \"C\" fn rsg_");
    assert_eq!(declared, defined);
    assert!(declared.len() >= 12, "{declared:?}");
    // And its statuses.
    for (name, status) in
        [("OK", 0), ("NOT_FOUND", 1), ("INVALID", 2), ("CONFLICT", 3), ("DUPLICATE", 4), ("IN_USE", 5)]
            .into_iter()
            .chain([("MISMATCH", 6), ("TOO_LONG", 7), ("READ_ONLY", 8), ("TIMEOUT", 9), ("FAILED", 10), ("BUG", 11)])
    {
        assert!(header.contains(&format!("RSG_{name} = {status}")), "{name}");
        assert!(library.contains(&format!("const {name}: c_int = {status};")), "{name}");
    }
}

/// Where the library is that this test was built with.
fn library() -> Option<PathBuf> {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let name = format!("{}resurgam_capi{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    [deps.clone(), deps.parent().unwrap().to_path_buf()].into_iter().find(|dir| dir.join(&name).exists())
}

#[test]
fn a_c_program_works() {
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if !Command::new(&cc).arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no C compiler, {cc}");
        return;
    }
    let library = library().expect("the library is built with its tests");
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("counter");
    let compiled = Command::new(&cc)
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here("include"))
        .arg(here("examples/counter.c"))
        .arg("-L")
        .arg(&library)
        .arg("-lresurgam_capi")
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    for run in 1..=3 {
        let output = Command::new(&program).arg(dir.path().join("data")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(text, format!("runs: 8 bytes\na: 0 bytes\nrun {run}, 2 rows\n"));
    }
}

fn message() -> String {
    // SAFETY: it is a string of the library's, until the next call.
    unsafe { std::ffi::CStr::from_ptr(rsg_message()) }.to_str().unwrap().to_owned()
}

/// Null pointers, impossible lengths and calls in the wrong place are statuses, not crashes.
#[test]
fn misuse_is_a_status() {
    const OK: i32 = 0;
    const NOT_FOUND: i32 = 1;
    const INVALID: i32 = 2;
    let dir = tempfile::tempdir().unwrap();
    let path = std::ffi::CString::new(dir.path().join("db").to_str().unwrap()).unwrap();
    let (mut db, mut tx, mut reader) = (null_mut(), null_mut(), null_mut());
    let mut out = rsg_bytes { data: null_mut(), len: 5 };
    let key = b"k".as_ptr().cast::<c_void>();
    let t = c"t".as_ptr();
    // SAFETY: all pointers are null, or of what they should be.
    unsafe {
        assert_eq!(rsg_open(null(), 0, &raw mut db), INVALID);
        assert_eq!(message(), "the path is NULL");
        assert_eq!(rsg_open(path.as_ptr(), 0, null_mut()), INVALID);
        assert_eq!(rsg_open(path.as_ptr(), 1, &raw mut db), INVALID);
        assert!(message().contains("`memory`") && db.is_null());
        assert_eq!(rsg_open(path.as_ptr(), 2 << 20, &raw mut db), OK);
        // What is done does not change the message.
        assert!(message().contains("`memory`"));
        let mut twice = null_mut();
        assert_eq!(rsg_open(path.as_ptr(), 0, &raw mut twice), 5);
        assert!(twice.is_null());
        assert_eq!(rsg_begin(null_mut(), &raw mut tx), INVALID);
        assert_eq!(rsg_begin(db, null_mut()), INVALID);
        assert_eq!(rsg_commit(null_mut()), INVALID);
        assert_eq!(rsg_begin_read(db, &raw mut reader), OK);
        assert_eq!(rsg_get(reader, t, key, 1, &raw mut out), NOT_FOUND);
        assert!(out.data.is_null() && out.len == 0);
        rsg_free(out);
        assert_eq!(rsg_put(reader, t, key, 1, null(), 0), INVALID);
        assert_eq!(rsg_rollback(reader), OK);
        assert_eq!(rsg_begin(db, &raw mut tx), OK);
        assert_eq!(rsg_put(tx, null(), key, 1, null(), 0), INVALID);
        assert_eq!(rsg_put(tx, c"\xff".as_ptr(), key, 1, null(), 0), INVALID);
        assert_eq!(rsg_put(tx, c"".as_ptr(), key, 1, null(), 0), INVALID);
        assert_eq!(rsg_put(tx, t, key, usize::MAX, null(), 0), INVALID);
        assert_eq!(rsg_put(tx, t, vec![b'x'; 3000].as_ptr().cast(), 3000, null(), 0), 7);
        assert_eq!(rsg_range(tx, t, null(), 0, null(), 0, 0, None, null_mut()), INVALID);
        assert_eq!(rsg_put(tx, t, null(), 0, null(), 0), OK);
        assert_eq!(rsg_get(tx, t, null(), 0, &raw mut out), OK);
        assert_eq!(out.len, 0);
        rsg_free(out);
        // It outlives its database, and then fails.
        assert_eq!(rsg_close(db), OK);
        assert_ne!(rsg_commit(tx), OK);
        assert_eq!(rsg_close(null_mut()), INVALID);
    }
}

/// What only looks makes no table; waits can be bounded; the message of a failure outlives what clears up.
#[test]
fn tables_waits_and_messages() {
    const OK: i32 = 0;
    const NOT_FOUND: i32 = 1;
    const TIMEOUT: i32 = 9;
    unsafe extern "C" fn never(
        _: *mut c_void,
        _: *const c_void,
        _: usize,
        _: *const c_void,
        _: usize,
    ) -> std::ffi::c_int {
        std::process::abort()
    }
    let dir = tempfile::tempdir().unwrap();
    let path = std::ffi::CString::new(dir.path().join("db").to_str().unwrap()).unwrap();
    let (mut db, mut tx, mut other) = (null_mut(), null_mut(), null_mut());
    let mut out = rsg_bytes { data: null_mut(), len: 5 };
    let key = b"k".as_ptr().cast::<c_void>();
    let t = c"t".as_ptr();
    // SAFETY: all pointers are null, or of what they should be.
    unsafe {
        assert_eq!(rsg_open(path.as_ptr(), 2 << 20, &raw mut db), OK);
        assert_eq!(message(), "");
        assert_eq!(rsg_begin(db, &raw mut tx), OK);
        assert_eq!(rsg_get(tx, t, key, 1, &raw mut out), NOT_FOUND);
        assert!(out.data.is_null() && out.len == 0);
        assert_eq!(rsg_delete(tx, t, key, 1), NOT_FOUND);
        assert_eq!(rsg_range(tx, t, null(), 0, null(), 0, 0, Some(never), null_mut()), OK);
        assert_eq!(rsg_commit(tx), OK);
        assert_eq!(rsg_begin_read(db, &raw mut tx), OK);
        assert_eq!(rsg_range(tx, t, null(), 0, null(), 0, 0, Some(never), null_mut()), OK);
        assert_eq!(rsg_get(tx, t, key, 1, &raw mut out), NOT_FOUND);
        assert!(message().contains("table \"t\" does not exist"), "{}", message());
        assert_eq!(rsg_rollback(tx), OK);

        assert_eq!(rsg_set_lock_timeout(null_mut(), 20), 2);
        assert_eq!(rsg_set_lock_timeout(db, 20), OK);
        assert_eq!(rsg_begin(db, &raw mut tx), OK);
        assert_eq!(rsg_put(tx, t, key, 1, null(), 0), OK);
        assert_eq!(rsg_commit(tx), OK);
        assert_eq!(rsg_begin(db, &raw mut tx), OK);
        assert_eq!(rsg_begin(db, &raw mut other), OK);
        assert_eq!(rsg_put(tx, t, key, 1, null(), 0), OK);
        assert_eq!(rsg_put(other, t, key, 1, null(), 0), TIMEOUT);
        assert_eq!(rsg_rollback(other), OK);
        assert_eq!(rsg_commit(tx), OK);
        assert!(message().contains("did not end in time"), "{}", message());
        assert_eq!(rsg_close(db), OK);
    }
}

/// What C does when a thread ends may be a call, where the message is gone already.
#[test]
fn calls_of_a_thread_that_ends() {
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            // SAFETY: all pointers are null.
            let status = unsafe { rsg_open(null(), 0, null_mut()) };
            assert_eq!(status, 2);
            let _ = rsg_message();
        }
    }
    thread_local! {
        static LAST: Last = const { Last };
    }
    for last_is_first in [true, false] {
        let thread = std::thread::spawn(move || {
            let touch = || LAST.with(|_| ());
            if last_is_first {
                touch();
            }
            // SAFETY: it is null.
            assert_eq!(unsafe { rsg_commit(null_mut()) }, 2);
            touch();
        });
        thread.join().unwrap();
    }
}
