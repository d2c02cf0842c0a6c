//! Commits that are acknowledged before they are durable: how soon they are, and what they show of
//! others'.

use std::time::{Duration, Instant};

use crate::common::open::open_as;
use crate::common::{row, rows_table};
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
