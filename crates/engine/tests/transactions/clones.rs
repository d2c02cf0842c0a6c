//! A handle of a transaction is cloned and used by several threads: what one of them writes while
//! another ends the transaction is part of it, or is refused; it never lands behind its end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::hooked::{Call, Hooked};
use crate::common::open::open_as;
use crate::common::{row, rows_table};
use resurgam_engine::*;
use resurgam_vfs::SimVfs;

fn open(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    let options = Options {
        buffer_bytes: 4 << 20,
        background: false,
        accelerated_database_recovery: !traditional,
        ..Options::default()
    };
    open_as(vfs, options)
}

fn spec(name: &str) -> TableSpec {
    rows_table(name).index(&format!("{name}_v"), &["v"], false)
}

fn ids(db: &Database) -> Result<Vec<i64>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&t, KeyRange::all(), Direction::Forward);
    let (mut batch, mut found) = (RowBatch::default(), Vec::new());
    while cursor.next_batch(&mut batch, 1000)? {
        for at in 0..batch.len() {
            let DatumRef::Int8(id) = t.column(batch.row(at), 0)? else { panic!("not a number") };
            found.push(id);
        }
        batch.clear();
    }
    Ok(found)
}

/// One write waits for the disk while another thread ends the transaction.
#[test]
fn a_write_that_waits_for_the_disk_is_in_its_transaction_or_refused() -> Result<()> {
    for traditional in [false, true] {
        for end in [End::Commit, End::Rollback, End::Prepare, End::BackToSavepoint] {
            let disk = SimVfs::new(3);
            {
                let db = open(&disk, traditional)?;
                let tx = db.begin(Isolation::ReadCommitted);
                let t = tx.create_table(spec("t"))?.done()?;
                (0..2000).try_for_each(|id| tx.insert(&t, &row(id, id, &"x".repeat(300)))?.done())?;
                tx.commit(Durability::Sync)?.wait()?;
                db.close()?;
            }
            // One read of the data file, when told, takes until it is told to go on.
            let (next_read, reading) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let hook = {
                let (next_read, reading) = (Arc::clone(&next_read), Arc::clone(&reading));
                move |call: Call, path: &Path| {
                    if call == Call::Read && path.ends_with("data") && next_read.swap(false, Ordering::SeqCst) {
                        reading.store(true, Ordering::SeqCst);
                        while reading.load(Ordering::SeqCst) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            };
            let slow = Hooked::new(disk.clone(), hook);
            let options = Options { background: false, ..Options::default() };
            let db = Database::open_with(Arc::new(slow), Path::new("/db"), options, |_| {})?;
            let tx = db.begin(Isolation::ReadCommitted);
            let t = tx.table("public", "t")?.expect("made");
            let savepoint = tx.savepoint()?;
            tx.statement(StatementKind::PointWrite)?;
            let mut key = Vec::new();
            t.encode_key(&[DatumRef::Int8(1000)], &mut key)?;
            let (written, ended) = std::thread::scope(|scope| {
                next_read.store(true, Ordering::SeqCst);
                let writer = scope.spawn(|| tx.update(&t, &key, Seen::Snapshot, &row(1000, -1, "written")));
                while !reading.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                let ender = scope.spawn(|| match end {
                    End::Commit => tx.commit(Durability::Sync).and_then(CommitTicket::wait),
                    End::Rollback => tx.rollback(),
                    End::Prepare => tx.prepare("p", "o", "d").and_then(CommitTicket::wait),
                    End::BackToSavepoint => tx.rollback_to(savepoint),
                });
                std::thread::sleep(Duration::from_millis(60));
                reading.store(false, Ordering::SeqCst);
                (writer.join().expect("no panic"), ender.join().expect("no panic"))
            });
            ended?;
            let written = matches!(written, Ok(Attempt::Done(Change::Done)));
            let kept = match end {
                End::Commit => written,
                End::Rollback => false,
                End::Prepare => {
                    db.commit_prepared("p")?.wait()?;
                    written
                }
                End::BackToSavepoint => {
                    tx.commit(Durability::Sync)?.wait()?;
                    false
                }
            };
            let what = format!("{end:?}, traditional: {traditional}, acknowledged: {written}");
            let found = |db: &Database| -> Result<bool> {
                let tx = db.begin(Isolation::ReadCommitted);
                let t = tx.table("public", "t")?.expect("made");
                let mut row = RowBuf::default();
                assert!(tx.statement(StatementKind::Read)?.get(&t, &key, &mut row)?, "{what}");
                Ok(t.column(row.raw(), 1)? == DatumRef::Int8(-1))
            };
            assert_eq!(found(&db)?, kept, "{what}");
            (0..2).try_for_each(|_| db.clean().map(|_| ()))?;
            db.checkpoint()?;
            assert_eq!(found(&db)?, kept, "{what}, cleaned");
            drop((tx, db));
            let db = open(&disk.crash(), traditional)?;
            db.finish_recovery()?;
            assert_eq!(found(&db)?, kept, "{what}, restarted");
            assert_eq!(db.verify()?, Vec::<String>::new(), "{what}");
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Commit,
    Rollback,
    Prepare,
    BackToSavepoint,
}

/// Three threads insert, one ends. Whatever was acknowledged before the end shares its outcome;
/// nothing else is there. Then the aborted are forgotten and power is lost: nothing changes.
#[test]
fn writes_never_land_behind_the_end_of_their_transaction() -> Result<()> {
    for (at, (traditional, end)) in [End::Commit, End::Rollback, End::Prepare, End::BackToSavepoint]
        .into_iter()
        .flat_map(|end| [(false, end), (true, end)])
        .enumerate()
    {
        let vfs = SimVfs::new(at as u64);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        tx.create_table(spec("t"))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        let (mut expected, mut refused) = (Vec::new(), 0);
        for round in 0..400i64 {
            let tx = db.begin(Isolation::ReadCommitted);
            let t = tx.table("public", "t")?.expect("made");
            let savepoint = tx.savepoint()?;
            let (written, failed, ended) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
            let acknowledged = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3i64)
                    .map(|thread| {
                        let (tx, t, written, failed, ended) = (tx.clone(), &t, &written, &failed, &ended);
                        scope.spawn(move || {
                            let mut mine = Vec::new();
                            for i in 0..50 {
                                let after = ended.load(Ordering::SeqCst);
                                let id = round * 1000 + thread * 100 + i;
                                match tx.insert(t, &row(id, id % 7, "x")).and_then(Attempt::done) {
                                    Ok(()) => mine.push((id, after)),
                                    Err(error) => {
                                        assert_eq!(error.kind(), ErrorKind::InvalidTransactionState, "{error}");
                                        failed.fetch_add(1, Ordering::Relaxed);
                                        break;
                                    }
                                }
                                written.fetch_add(1, Ordering::SeqCst);
                            }
                            mine
                        })
                    })
                    .collect();
                while written.load(Ordering::SeqCst) < (round as u64 % 40) {
                    std::hint::spin_loop();
                }
                match end {
                    End::Commit => tx.commit(Durability::Sync).and_then(CommitTicket::wait),
                    End::Rollback => tx.rollback(),
                    End::Prepare => tx.prepare("p", "o", "d").and_then(CommitTicket::wait),
                    End::BackToSavepoint => tx.rollback_to(savepoint),
                }
                .expect("ended");
                ended.store(true, Ordering::SeqCst);
                threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
            });
            refused += failed.into_inner();
            match end {
                End::Commit => expected.extend(acknowledged.iter().map(|(id, _)| *id)),
                End::Rollback => {}
                End::Prepare => {
                    if round % 2 == 0 {
                        db.commit_prepared("p")?.wait()?;
                        expected.extend(acknowledged.iter().map(|(id, _)| *id));
                    } else {
                        db.rollback_prepared("p")?.wait()?;
                    }
                }
                // What began after it is the transaction's.
                End::BackToSavepoint => {
                    let seen = ids_in(&tx, &t, round)?;
                    let late = acknowledged.iter().filter(|(_, after)| *after).map(|(id, _)| *id);
                    assert!(late.clone().all(|id| seen.contains(&id)), "round {round}: written after it and gone");
                    tx.commit(Durability::Sync)?.wait()?;
                    expected.extend(seen);
                }
            }
        }
        expected.sort_unstable();
        assert_eq!(ids(&db)?, expected, "{end:?}, traditional: {traditional}");
        assert_eq!(db.verify()?, Vec::<String>::new(), "{end:?}, traditional: {traditional}");
        db.finish_recovery()?;
        for _ in 0..3 {
            db.clean()?;
        }
        assert_eq!(ids(&db)?, expected, "{end:?}, traditional: {traditional}: cleaned");
        db.checkpoint()?;
        drop(db);
        let db = open(&vfs.crash(), traditional)?;
        db.finish_recovery()?;
        assert_eq!(ids(&db)?, expected, "{end:?}, traditional: {traditional}: restarted");
        assert_eq!(db.verify()?, Vec::<String>::new(), "{end:?}, traditional: {traditional}: restarted");
        assert!(refused > 0 || end == End::BackToSavepoint, "no write met the end: {end:?}");
    }
    Ok(())
}

/// The round's rows as the transaction itself sees them.
fn ids_in(tx: &Transaction, t: &Arc<Table>, round: i64) -> Result<Vec<i64>> {
    let view = tx.statement(StatementKind::Read)?;
    let (mut batch, mut found) = (RowBatch::default(), Vec::new());
    let mut cursor = view.scan(t, KeyRange::all(), Direction::Forward);
    while cursor.next_batch(&mut batch, 1000)? {
        for at in 0..batch.len() {
            let DatumRef::Int8(id) = t.column(batch.row(at), 0)? else { panic!("not a number") };
            if id / 1000 == round {
                found.push(id);
            }
        }
        batch.clear();
    }
    Ok(found)
}

/// The same for changes of definitions, which take many steps: a transaction that is ended in the
/// middle of one has all of it or nothing.
#[test]
fn definitions_are_whole_whenever_the_transaction_ends() -> Result<()> {
    for traditional in [false, true] {
        let db = open(&SimVfs::new(7), traditional)?;
        let mut made = [0, 0];
        for round in 0..300 {
            let tx = db.begin(Isolation::ReadCommitted);
            let name = format!("t{round}");
            let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
            // In some rounds it has ended before.
            let late = round % 10 == 0;
            let done = std::thread::scope(|scope| {
                let maker = scope.spawn(|| {
                    begun.store(true, Ordering::SeqCst);
                    while late && !ended.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    tx.create_table(spec(&name)).and_then(Attempt::done).is_ok()
                });
                while !begun.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                for _ in 0..round * 30 {
                    std::hint::spin_loop();
                }
                let end = || match round % 3 {
                    0 => tx.rollback(),
                    _ => tx.commit(Durability::Sync)?.wait(),
                };
                let outcome = end();
                ended.store(true, Ordering::SeqCst);
                let made = maker.join().expect("no panic");
                outcome.map(|()| made)
            })?;
            made[usize::from(done)] += 1;
            let other = db.begin(Isolation::ReadCommitted);
            assert_eq!(other.table("public", &name)?.is_some(), done && round % 3 != 0, "round {round}");
            assert_eq!(other.relation("public", &name)?.is_some(), done && round % 3 != 0, "round {round}: its name");
        }
        assert!(made[0] > 0 && made[1] > 0, "{made:?}");
        assert_eq!(db.verify()?, Vec::<String>::new());
        // Nobody is counted as writing any more, or this would wait for ever.
        db.set_accelerated_recovery(traditional, &|| false)?;
    }
    Ok(())
}
