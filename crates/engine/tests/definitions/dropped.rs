//! A database whose last handle is dropped without `close` goes away by itself: its threads end, its folder is free.
//!
//! Background threads hold the database while they look whether there is work, and one of them always does: so it is the
//! handles of users that count, not references.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_engine::{Database, Durability, Isolation, Options};
use resurgam_vfs::{SimVfs, Vfs};

/// Threads of databases in this process, as many as one look finds: while other tests begin and end threads it may miss some.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("resurgam-")).count()
}

#[test]
fn the_last_handle_takes_the_threads_with_it() {
    let vfs = SimVfs::new(1);
    for round in 0..4 {
        let options = Options {
            buffer_bytes: 1 << 20,
            log_segment_bytes: 1 << 20,
            accelerated_database_recovery: round % 2 == 0,
            ..Options::default()
        };
        let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
        let db = Database::open_with(shared, Path::new("/db"), options, |_| {}).expect("open");
        // A transaction is a handle, too; so is a clone.
        let other = db.clone();
        let tx = db.begin(Isolation::ReadCommitted);
        drop(db);
        drop(other);
        std::thread::sleep(Duration::from_millis(150));
        let most = (0..50).map(|_| threads()).max().unwrap_or(0);
        assert!(most > 5, "round {round}: a transaction is open, and there are {most} threads");
        tx.commit(Durability::Sync).expect("commit").wait().expect("durable");
        drop(tx);
        let begun = Instant::now();
        while threads() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(10), "round {round}: {} threads are left", threads());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
