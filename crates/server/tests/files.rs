//! Whose the files are, and whose the folder.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::process::{self, Process};

/// Everything below a folder, with its mode.
fn modes(dir: &Path, out: &mut Vec<(PathBuf, bool, u32)>) {
    let found = fs::symlink_metadata(dir).unwrap();
    out.push((dir.to_owned(), found.is_dir(), found.mode() & 0o7777));
    if found.is_dir() {
        for entry in fs::read_dir(dir).unwrap() {
            modes(&entry.unwrap().path(), out);
        }
    }
}

fn check_modes(dir: &Path) -> usize {
    let mut found = Vec::new();
    modes(dir, &mut found);
    for (path, is_dir, mode) in &found {
        let expected = if *is_dir { 0o700 } else { 0o600 };
        assert_eq!(*mode, expected, "{} has mode {mode:04o}", path.display());
    }
    found.len()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What the server says when it does not start on a folder.
fn refusal(data: &Path) -> String {
    process::refusal(&["--data".as_ref(), data.as_os_str()])
}

#[test]
fn all_that_is_made_is_the_servers_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (data, spill, versions) = (dir.path().join("data"), dir.path().join("spill"), dir.path().join("versions"));
    fs::create_dir(&spill).unwrap();
    fs::create_dir(&versions).unwrap();
    set_mode(&spill, 0o700);
    set_mode(&versions, 0o700);
    let store = versions.join("store");
    let server = Process::start_with(
        &data,
        &["--query-memory-bytes", "20MB", "--version-store-path", store.to_str().unwrap()],
        &[("TMPDIR", spill.to_str().unwrap())],
    );
    let mut client = server.client();
    client.rows("create table t (id int primary key, text text)");
    client.rows("insert into t select i, repeat('x', 1000) from generate_series(1, 20000) i");
    client.rows("update t set text = repeat('y', 1500)");
    client.rows("checkpoint");
    let watch = std::thread::spawn({
        let spill = spill.clone();
        move || {
            let mut most = 0;
            for _ in 0..200 {
                let mut found = Vec::new();
                // Files come and go meanwhile.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| modes(&spill, &mut found)));
                for (path, is_dir, mode) in &found {
                    assert_eq!(mode & 0o077, 0, "{} has mode {mode:04o}, {is_dir}", path.display());
                }
                most = most.max(found.len());
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            most
        }
    });
    client.rows("select count(*) from (select * from t order by text || id::text) s");
    watch.join().unwrap();
    assert!(check_modes(&data) > 5);
    check_modes(&versions);
    // Started again after a kill, on files that an earlier version left open to all.
    server.kill();
    for name in ["control", "data", "doublewrite", "lock"] {
        set_mode(&data.join(name), 0o644);
    }
    drop(Process::start(&data, &[]));
    for name in ["control", "data", "lock"] {
        assert_eq!(fs::metadata(data.join(name)).unwrap().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_folder_that_others_can_enter_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // Empty, it is the server's to close.
    fs::create_dir(&data).unwrap();
    set_mode(&data, 0o777);
    drop(Process::start(&data, &[]));
    assert_eq!(fs::metadata(&data).unwrap().mode() & 0o777, 0o700);
    for mode in [0o755, 0o770, 0o777, 0o701] {
        set_mode(&data, mode);
        let text = refusal(&data);
        let expected = format!("data directory \"{}\" has invalid permissions", data.display());
        assert!(text.contains(&expected), "{mode:o}: {text}");
        assert!(text.contains("Permissions should be u=rwx (0700) or u=rwx,g=rx (0750)."), "{text}");
    }
    set_mode(&data, 0o750);
    drop(Process::start(&data, &[]));
}

#[test]
fn whoever_holds_the_lock_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Process::start(&data, &[]);
    let text = refusal(&data);
    assert!(text.contains("is in use by another process"), "{text}");
    assert!(text.contains(&format!("process {} (resurgam) holds the lock", server.id())), "{text}");
    server.kill();
    // A shared lock, as a stranger could have taken one while the file was open to all.
    let stranger = File::open(data.join("lock")).unwrap();
    stranger.lock_shared().unwrap();
    let text = refusal(&data);
    assert!(text.contains(&format!("process {} (", std::process::id())), "{text}");
    assert!(text.contains("holds a shared lock"), "{text}");
    drop(stranger);
    // A link instead of the file.
    fs::remove_file(data.join("lock")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("elsewhere"), data.join("lock")).unwrap();
    refusal(&data);
    assert!(!dir.path().join("elsewhere").exists(), "the link was followed");
}

/// A stranger, where the test runs as a user who can be one.
#[test]
fn strangers_cannot_reach_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), 0o755);
    let data = dir.path().join("data");
    let server = Process::start(&data, &[]);
    let lock = data.join("lock");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "flock", "--shared", "--nonblock"])
        .arg(&lock)
        .arg("true")
        .output();
    let Ok(output) = output else { return println!("skipped: setpriv is not there") };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if text.contains("Operation not permitted") {
        return println!("skipped: {text}");
    }
    assert!(!output.status.success() && text.contains("Permission denied"), "{text}");
    drop(server);
}
