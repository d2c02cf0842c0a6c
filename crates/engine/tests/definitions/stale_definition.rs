//! A writer that finds its definition of a table stale gives the table's lock back: whoever asked for it
//! meanwhile is told.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

#[test]
fn the_lock_that_is_given_back_is_told_of() -> Result<()> {
    let options = Options { background: false, ..Options::default() };
    let db = Database::open_with(Arc::new(SimVfs::new(1)), Path::new("/db"), options, |_| {})?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("v", ColumnType::Int8);
    let stale = tx.create_table(spec.primary_key(&["id"]))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let tx = db.begin(Isolation::ReadCommitted);
    let newest = tx.alter_table(&stale, TableChange::RenameColumn(1, "w".into()))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let mut waited = 0;
    for round in 0..3000 {
        let writer = db.begin(Isolation::ReadCommitted);
        let (done, tries) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| -> Result<()> {
            let trying = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // It goes on afterwards, and does not end for long.
                    match writer.insert(&stale, &[DatumRef::Int8(1), DatumRef::Int8(1)]) {
                        Err(error) => assert_eq!(error.kind(), ErrorKind::DefinitionChanged),
                        // The other has the table by now.
                        Ok(Attempt::Wait(_)) => break,
                        Ok(Attempt::Done(())) => panic!("written by a stale definition"),
                    }
                    tries.fetch_add(1, Ordering::Relaxed);
                    // In most rounds it tries once.
                    if round % 4 != 0 {
                        break;
                    }
                }
            });
            let changer = db.begin(Isolation::ReadCommitted);
            while round % 4 == 0 && tries.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            for _ in 0..round % 97 {
                std::hint::spin_loop();
            }
            let outcome = (|| loop {
                match changer.lock_for_change(&newest)? {
                    Attempt::Done(()) => return Ok(()),
                    Attempt::Wait(wait) => {
                        waited += 1;
                        done.store(true, Ordering::Relaxed);
                        assert!(wait.wait_timeout(Duration::from_secs(3)), "round {round}: nobody told it");
                    }
                }
            })();
            done.store(true, Ordering::Relaxed);
            trying.join().expect("no panic");
            changer.rollback()?;
            outcome
        })?;
        writer.rollback()?;
    }
    assert!(waited > 0, "they never met");
    Ok(())
}
