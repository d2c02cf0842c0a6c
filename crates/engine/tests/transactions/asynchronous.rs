//! Commits that are acknowledged before they are durable: how soon they are, and what they show of
//! others'.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::hooked::{Call, Hooked};
use crate::common::open::open_as;
use crate::common::{key, row, rows_table};
use resurgam_engine::*;
use resurgam_vfs::SimVfs;

fn open(vfs: &SimVfs, options: Options) -> Result<Database> {
    open_as(vfs, Options { buffer_bytes: 1 << 20, ..options })
}

fn table(db: &Database) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = rows_table("t");
    tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()
}

fn insert(db: &Database, id: i64) -> Result<Transaction> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    tx.insert(&t, &row(id, id, "x"))?.done()?;
    Ok(tx)
}

/// The ids in the table.
fn ids(db: &Database) -> Result<Vec<i64>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&t, KeyRange::all(), Direction::Forward);
    let (mut batch, mut found) = (RowBatch::default(), Vec::new());
    while cursor.next_batch(&mut batch, 100)? {
        for at in 0..batch.len() {
            let DatumRef::Int8(id) = t.column(batch.row(at), 0)? else { panic!("not a number") };
            found.push(id);
        }
        batch.clear();
    }
    Ok(found)
}

/// With nothing coming after it, a power loss soon afterwards does not take it back.
#[test]
fn silence_makes_asynchronous_commits_durable() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(1);
        let delay = Duration::from_millis(20);
        let options =
            || Options { wal_writer_delay: delay, accelerated_database_recovery: !traditional, ..Options::default() };
        let db = open(&vfs, options())?;
        table(&db)?;
        for round in 1..6 {
            insert(&db, round)?.commit(Durability::Async)?.wait()?;
            let begun = Instant::now();
            loop {
                // What a power loss at this moment would leave.
                let after = open(&vfs.crash_clone(round as u64), Options { background: false, ..options() })?;
                if ids(&after)?.len() == round as usize {
                    break;
                }
                assert!(begun.elapsed() < Duration::from_secs(20), "round {round}: still not durable");
            }
        }
        // A new delay counts at once.
        db.set_wal_writer_delay(Duration::from_secs(3600));
        std::thread::sleep(delay * 3);
        insert(&db, 6)?.commit(Durability::Async)?.wait()?;
        std::thread::sleep(delay * 5);
        assert_eq!(ids(&open(&vfs.crash_clone(9), Options { background: false, ..options() })?)?.len(), 5);
        assert_eq!(ids(&db)?.len(), 6, "whoever is told of it sees it");
    }
    Ok(())
}

/// Two sessions, one of them asynchronous: whatever a third one sees of the first was durable when it
/// saw it, and it sees the second's as soon as that is acknowledged.
#[test]
fn an_asynchronous_commit_shows_nobody_elses_before_it_is_durable() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(2);
        let options = || Options { accelerated_database_recovery: !traditional, ..Options::default() };
        let db = open(&vfs, options())?;
        table(&db)?;
        let mut early = 0;
        for round in 0..300i64 {
            let (sync, other) = (round * 2 + 1, round * 2 + 2);
            let (first, second) = (insert(&db, sync)?, insert(&db, other)?);
            let ticket = first.commit(Durability::Sync)?;
            let acknowledged = second.commit(Durability::Async)?;
            early += usize::from(!acknowledged.is_done());
            let seen = ids(&db)?.contains(&sync);
            let kept = open(&vfs.crash_clone(round as u64), Options { background: false, ..options() });
            if seen {
                assert!(
                    ids(&kept?)?.contains(&sync),
                    "traditional: {traditional}, round {round}: seen, and a power loss takes it back"
                );
            }
            acknowledged.wait()?;
            assert!(ids(&db)?.contains(&other), "traditional: {traditional}, round {round}: acknowledged and not seen");
            ticket.wait()?;
            if round % 20 == 19 {
                db.checkpoint()?;
            }
        }
        assert!(early > 0, "traditional: {traditional}: no asynchronous commit came while another was not durable");
    }
    Ok(())
}

/// A database whose log does not become durable while the flag is up.
fn held_back(traditional: bool) -> Result<(Database, Arc<AtomicBool>)> {
    let held = Arc::new(AtomicBool::new(false));
    let is_held = Arc::clone(&held);
    let disk = Hooked::new(SimVfs::new(3), move |call, path| {
        while call == Call::Sync && path.starts_with("/db/log") && is_held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let options = Options { accelerated_database_recovery: !traditional, ..Options::default() };
    let db = Database::open_with(Arc::new(disk), Path::new("/db"), options, |_| {})?;
    table(&db)?;
    for id in [1, 2] {
        insert(&db, id)?.commit(Durability::Sync)?.wait()?;
    }
    Ok((db, held))
}

fn value(tx: &Transaction, id: i64) -> Result<i64> {
    let t = tx.table("public", "t")?.expect("made");
    let (view, mut buf) = (tx.statement(StatementKind::Read)?, RowBuf::default());
    assert!(view.get(&t, &key(&t, id)?, &mut buf)?, "row {id}");
    let DatumRef::Int8(value) = t.column(buf.raw(), 1)? else { panic!("not a number") };
    Ok(value)
}

/// Who has met a commit as a writer sees all of it from the next statement on, durable or not; others do not.
#[test]
fn who_has_met_a_commit_sees_all_of_it() -> Result<()> {
    for traditional in [false, true] {
        let (db, held) = held_back(traditional)?;
        let begin = || db.begin(Isolation::ReadCommitted);
        let t = begin().table("public", "t")?.expect("made");
        held.store(true, Ordering::SeqCst);
        let first = begin();
        for id in [1, 2] {
            first.statement(StatementKind::PointWrite)?;
            let done = first.update(&t, &key(&t, id)?, Seen::Snapshot, &row(id, 10, "x"))?.done()?;
            assert_eq!(done, Change::Done);
        }
        let ticket = first.commit(Durability::Sync)?;
        let (other, third) = (begin(), begin());
        assert_eq!(value(&other, 2)?, 2, "it is not durable");
        other.statement(StatementKind::PointWrite)?;
        let met = other.update(&t, &key(&t, 1)?, Seen::Snapshot, &row(1, 11, "x"))?.done()?;
        assert_eq!((met, value(&other, 2)?), (Change::Changed, 10), "traditional: {traditional}");
        assert_eq!(value(&third, 2)?, 2, "who has not met it");
        // Nor is anybody told before of what he was told.
        let refused = third.insert(&t, &row(1, 1, "x"));
        assert!(refused.is_err_and(|error| error.kind() == ErrorKind::UniqueViolation));
        let told = third.commit(Durability::Sync)?;
        assert!(!told.is_done(), "what it was told of is not durable");
        let rolled_back = begin();
        assert!(rolled_back.insert(&t, &row(1, 1, "x")).is_err());
        rolled_back.rollback()?;
        assert!(rolled_back.had_met());
        // Who has read it, too: with locks and nothing written, and with something that is taken back.
        let locker = begin();
        locker.lock_rows(&t)?.done()?;
        assert_eq!(value(&locker, 2)?, 10);
        let read = locker.commit(Durability::Sync)?;
        assert!(!read.is_done());
        let writer = begin();
        writer.insert(&t, &row(50, 50, "x"))?.done()?;
        writer.statement(StatementKind::PointWrite)?;
        assert!(writer.insert(&t, &row(1, 1, "x")).is_err());
        writer.rollback()?;
        assert!(writer.had_met());
        let seen = db.until_visible()?.expect("there is something to wait for");
        held.store(false, Ordering::SeqCst);
        told.wait()?;
        read.wait()?;
        assert_eq!(value(&begin(), 2)?, 10);
        seen.wait()?;
        ticket.wait()?;
        other.rollback()?;
        assert!(other.had_met());
    }
    Ok(())
}

/// A commit of definitions is seen together with them, by who writes as well; and so is what was decided after it.
#[test]
fn nobody_sees_definitions_early() -> Result<()> {
    for traditional in [false, true] {
        let (db, held) = held_back(traditional)?;
        let begin = || db.begin(Isolation::ReadCommitted);
        let t = begin().table("public", "t")?.expect("made");
        held.store(true, Ordering::SeqCst);
        let maker = begin();
        maker
            .create_table(TableSpec::new("public", "made").column("id", ColumnType::Int8).primary_key(&["id"]))?
            .done()?;
        maker.statement(StatementKind::PointWrite)?;
        assert_eq!(maker.update(&t, &key(&t, 1)?, Seen::Snapshot, &row(1, 10, "x"))?.done()?, Change::Done);
        std::thread::scope(|scope| {
            // It waits for the log.
            let maker = scope.spawn(|| maker.commit(Durability::Sync)?.wait());
            while db.until_visible()?.is_none() {
                std::thread::yield_now();
            }
            let later = begin();
            later.statement(StatementKind::PointWrite)?;
            assert_eq!(later.update(&t, &key(&t, 2)?, Seen::Snapshot, &row(2, 20, "x"))?.done()?, Change::Done);
            let later = later.commit(Durability::Async)?;
            let other = begin();
            other.statement(StatementKind::PointWrite)?;
            other.insert(&t, &row(3, 3, "x"))?.done()?;
            let (seen, made) = ((value(&other, 1)?, value(&other, 2)?), other.table("public", "made")?);
            // Before anything is judged: whoever waits for the log would wait for ever.
            held.store(false, Ordering::SeqCst);
            assert_eq!((seen, made.is_some()), ((1, 2), false), "traditional: {traditional}");
            maker.join().expect("no panic")?;
            later.wait()?;
            assert_eq!((value(&other, 1)?, value(&other, 2)?), (10, 20), "traditional: {traditional}");
            assert!(other.table("public", "made")?.is_some());
            other.rollback()
        })?;
    }
    Ok(())
}
