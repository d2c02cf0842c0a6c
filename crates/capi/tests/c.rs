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

/// Text without C's comments, its spaces and line ends as one space each.
fn without_comments(header: &str) -> String {
    let mut left = String::new();
    let mut rest = header;
    while let Some((code, comment)) = rest.split_once("/*") {
        left.push_str(code);
        rest = comment.split_once("*/").expect("comments end").1;
    }
    left.push_str(rest);
    let code: Vec<&str> = left.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    code.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What C calls a type of the library.
fn type_in_c(rust: &str) -> String {
    let rust = rust.trim();
    match rust {
        "c_int" => "int".into(),
        "c_char" => "char".into(),
        "c_void" => "void".into(),
        "usize" => "size_t".into(),
        "u64" => "uint64_t".into(),
        "u8" => "uint8_t".into(),
        "rsg_db" | "rsg_tx" | "rsg_bytes" | "rsg_row" => rust.into(),
        _ => match (rust.strip_prefix("*mut "), rust.strip_prefix("*const ")) {
            (Some(to), _) => format!("{}*", type_in_c(to)),
            (_, Some(to)) => format!("const {}*", type_in_c(to)),
            _ => panic!("a type that the test does not know: {rust}"),
        },
    }
}

/// `type name` of C as the type, without spaces around its stars, and the name.
fn declared(argument: &str) -> (String, String) {
    let argument = argument.trim();
    let at = argument.rfind([' ', '*']).map_or(0, |at| at + 1);
    (argument[..at].replace(" *", "*").trim().to_owned(), argument[at..].to_owned())
}

type Signatures = std::collections::BTreeMap<String, (String, Vec<(String, String)>)>;

/// The functions of the library: what they return, and their arguments, in C's words.
fn of_library(text: &str) -> Signatures {
    const HEAD: &str = "extern \"C\" fn rsg_";
    let mut found = Signatures::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once(HEAD) {
        let (name, behind) = behind.split_once('(').expect("arguments");
        let (arguments, behind) = behind.split_once(')').expect("they end");
        let (returns, behind) = behind.split_once('{').expect("a body");
        let arguments = arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty());
        let arguments = arguments.map(|argument| {
            let (name, of) = argument.split_once(':').expect("a type");
            (type_in_c(of), name.trim().to_owned())
        });
        let returns = returns.trim().strip_prefix("->").map_or("void".to_owned(), type_in_c);
        found.insert(format!("rsg_{name}"), (returns, arguments.collect()));
        rest = behind;
    }
    found
}

/// Those of the header.
fn of_header(header: &str) -> Signatures {
    let code = without_comments(header);
    let body = code.split_once("rsg_message").expect("the first function").0.len();
    let from = code[..body].rfind([';', '}']).map_or(0, |at| at + 1);
    let mut found = Signatures::new();
    for statement in code[from..].split(';').map(str::trim) {
        let Some((head, arguments)) = statement.strip_suffix(')').and_then(|statement| statement.split_once('('))
        else {
            continue;
        };
        if head.starts_with("typedef") {
            continue;
        }
        let (returns, name) = declared(head);
        let arguments = if arguments == "void" { Vec::new() } else { arguments.split(',').map(declared).collect() };
        found.insert(name, (returns, arguments));
    }
    found
}

/// Each function has the arguments, by type, order and name, and returns what the library does.
#[test]
fn the_header_has_the_arguments_of_the_library() {
    let header = std::fs::read_to_string(here("include/resurgam.h")).unwrap();
    let library = std::fs::read_to_string(here("src/lib.rs")).unwrap();
    let (declared, defined) = (of_header(&header), of_library(&library));
    assert!(defined.len() >= 13, "{defined:?}");
    assert_eq!(declared, defined);
    // What is called back, and what is handed over.
    let code = without_comments(&header);
    assert!(code.contains(
        "typedef int (*rsg_row)(void *context, const void *key, size_t key_len, const void *value, size_t value_len);"
    ));
    assert!(
        library.contains("unsafe extern \"C\" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int>;")
    );
    assert!(code.contains("typedef struct rsg_bytes { uint8_t *data; size_t len; } rsg_bytes;"));
    assert!(library.contains("#[repr(C)]\npub struct rsg_bytes {\n    pub data: *mut u8,\n    pub len: usize,\n}"));
    // One that is not that of the library is noticed.
    for (from, to) in [
        ("size_t key_len, rsg_bytes *out", "int key_len, rsg_bytes *out"),
        ("int rsg_close(rsg_db *db)", "void rsg_close(rsg_db *db)"),
        ("uint64_t memory, rsg_db **out", "rsg_db **out, uint64_t memory"),
        ("int backward,", ""),
    ] {
        assert_eq!(header.matches(from).count(), 1, "{from}");
        assert_ne!(of_header(&header.replace(from, to)), defined, "{to}");
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

/// Space goes back, by a call.
#[test]
fn a_database_is_compacted() {
    const OK: i32 = 0;
    const INVALID: i32 = 2;
    let dir = tempfile::tempdir().unwrap();
    let path = std::ffi::CString::new(dir.path().join("db").to_str().unwrap()).unwrap();
    let (mut db, mut tx, mut bytes) = (null_mut(), null_mut(), 7);
    let t = c"t".as_ptr();
    let value = vec![b'v'; 1000];
    let length = || std::fs::metadata(dir.path().join("db/data")).unwrap().len();
    // SAFETY: all pointers are null, or of what they should be.
    unsafe {
        assert_eq!(rsg_compact(null_mut(), &raw mut bytes), INVALID);
        assert_eq!(bytes, 0);
        assert_eq!(rsg_open(path.as_ptr(), 8 << 20, &raw mut db), OK);
        assert_eq!(rsg_compact(db, null_mut()), INVALID);
        let each = |tx: *mut rsg_tx, work: &dyn Fn(*mut rsg_tx, u32, *const c_void) -> i32| {
            for n in 0..20_000u32 {
                assert_eq!(work(tx, n, n.to_be_bytes().as_ptr().cast()), OK, "{}", message());
            }
            assert_eq!(rsg_commit(tx), OK);
        };
        let touch = || {
            let mut tx = null_mut();
            assert_eq!(rsg_begin(db, &raw mut tx), OK);
            assert_eq!(rsg_put(tx, c"other".as_ptr(), null(), 0, null(), 0), OK);
            assert_eq!(rsg_commit(tx), OK);
        };
        // Its root stays where it is: not at the end.
        touch();
        assert_eq!(rsg_begin(db, &raw mut tx), OK);
        each(tx, &|tx, _, key| rsg_put(tx, t, key, 4, value.as_ptr().cast(), value.len()));
        let full = length();
        // Every second one goes: no page is empty by that.
        assert_eq!(rsg_begin(db, &raw mut tx), OK);
        each(tx, &|tx, n, key| if n % 2 == 0 { rsg_delete(tx, t, key, 4) } else { OK });
        // Something moves on, so that what was deleted is past for everybody.
        touch();
        let mut given = 0;
        for _ in 0..3 {
            assert_eq!(rsg_compact(db, &raw mut bytes), OK, "{}", message());
            given += bytes;
        }
        assert!(given > full / 4, "{given} bytes of {full}");
        assert!(length() < full * 3 / 4, "{} bytes of {full}", length());
        assert_eq!(rsg_begin_read(db, &raw mut tx), OK);
        let mut out = rsg_bytes { data: null_mut(), len: 0 };
        assert_eq!(rsg_get(tx, t, 7u32.to_be_bytes().as_ptr().cast(), 4, &raw mut out), OK);
        assert_eq!(out.len, value.len());
        rsg_free(out);
        assert_eq!(rsg_rollback(tx), OK);
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
