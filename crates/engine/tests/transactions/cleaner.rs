//! The cleaner: what it leaves, what it frees without a sweep, what it goes on with after a
//! crash, several threads and several callers, and what operators see of it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::*;
use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs, Vfs};

/// Every earlier version goes off-row.
fn off_row() -> Options {
    Options { versions: VersionCaps { in_row: false, ..VersionCaps::default() }, ..options() }
}

fn large(options: Options) -> Options {
    Options { buffer_bytes: 64 << 20, log_segment_bytes: 4 << 20, ..options }
}

fn filled(db: &Database, ids: std::ops::Range<i64>, len: usize) -> Result<Rows> {
    let rows: Rows = ids.map(|id| (id, note(id, len))).collect();
    commit(db, |tx| rows.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    Ok(rows)
}

/// Lets the horizon move, and the cleaner see it move.
fn tick(db: &Database, round: i64) -> Result<()> {
    commit(db, |tx| insert(tx, 1_000_000 + round, "moves the horizon"))
}

fn update_all(db: &Database, ids: std::ops::Range<i64>, text: &str, end: bool) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    for id in ids {
        assert_eq!(update(&tx, id, text)?, Change::Done);
    }
    if end { tx.commit(Durability::Sync)?.wait() } else { tx.rollback() }
}

/// Pages that the data file has in use, by the space maps.
fn pages_in_use(db: &Database) -> u64 {
    let space = db.stats().space;
    space.high_water - space.extents * limits::EXTENT_PAGES - space.pages_in_owned_extents
}

/// The root of a table was a leaf when its first versions were written, and marked for them.
#[test]
fn a_sweep_leaves_no_marks() -> Result<()> {
    let db = open_as(&SimVfs::new(1), large(options()))?;
    create(&db)?;
    filled(&db, 0..500, 300)?;
    assert!(db.clean_now()?.pages > 10, "the tree has leaves below its root");
    assert_eq!(db.clean_now()?.pages, 0, "nothing has been written since");
    Ok(())
}

/// One aborted transaction that no sweep has come to, and much work of others since.
#[test]
fn an_old_aborted_transaction_pins_only_its_own_versions() -> Result<()> {
    let db = open_as(&SimVfs::new(1), large(off_row()))?;
    create(&db)?;
    let mut expected = filled(&db, 0..300, 700)?;
    db.clean_now()?;
    update_all(&db, 0..100, "aborted", false)?;
    let pinned = db.stats().versions.pages;
    assert!(pinned > 0 && db.aborted_count() > 0);
    for round in 0..5 {
        update_all(&db, 100..300, &note(round, 700), true)?;
    }
    expected.extend((100..300).map(|id| (id, note(4, 700))));
    let before = db.stats().versions.pages;
    assert!(before > 4 * pinned, "{before} pages, {pinned} of the aborted transaction");
    let mut freed = 0;
    for round in 0..4 {
        tick(&db, round)?;
        freed += db.free_versions()?;
        expected.insert(1_000_000 + round, "moves the horizon".into());
    }
    assert_eq!(db.stats().sweeps, 1, "no sweep since");
    // Its extents, and those that are being filled, are what may be left.
    let left = db.stats().versions.pages;
    assert!(freed >= before - pinned - 16 && left <= pinned + 16, "{freed} of {before} freed, {left} left");
    let held = db.version_store_holders();
    assert!(held.aborted.is_some_and(|aborted| aborted.ids == 1 && aborted.pages >= pinned), "{held:?}");
    compare(&rows(&db)?, &expected, "with the aborted rows");
    // What it pins is what its rows need.
    assert_eq!(db.clean_now()?.reverted, 100);
    for _ in 0..3 {
        update_all(&db, 200..201, "x", true)?;
        db.free_versions()?;
    }
    expected.insert(200, "x".into());
    assert!(db.stats().versions.pages <= 8, "{:?}", db.stats().versions);
    compare(&rows(&db)?, &expected, "afterwards");
    verify(&db, "at last")
}

/// Somebody who has written and does not go on (as he is, or prepared) pins what he pushed, and
/// nothing of what others pushed since; neither does the snapshot of a statement that has ended.
#[test]
fn who_does_not_go_on_pins_only_his_own_versions() -> Result<()> {
    for (prepared, commits) in [(false, false), (false, true), (true, false), (true, true)] {
        let what = format!("prepared {prepared}, commits {commits}");
        let db = open_as(&SimVfs::new(1), large(off_row()))?;
        create(&db)?;
        let mut expected = filled(&db, 0..300, 700)?;
        db.clean_now()?;
        let idle = db.begin(Isolation::ReadCommitted);
        let mut pending = expected.clone();
        let mut pinned = db.stats().versions.pages;
        for id in 0..50 {
            assert_eq!(update(&idle, id, "pending")?, Change::Done);
        }
        pinned = db.stats().versions.pages - pinned;
        for round in 0..5 {
            update_all(&db, 100..300, &note(round, 700), true)?;
            if round == 2 {
                // Under ids of sub-transactions, far from its own.
                let before = db.stats().versions.pages;
                for id in 50..100 {
                    idle.savepoint()?;
                    assert_eq!(update(&idle, id, "pending")?, Change::Done);
                }
                let savepoint = idle.savepoint()?;
                assert_eq!(update(&idle, 99, "taken back")?, Change::Done);
                idle.rollback_to(savepoint)?;
                pinned += db.stats().versions.pages - before;
            }
        }
        (0..100).for_each(|id| drop(pending.insert(id, "pending".into())));
        (100..300).for_each(|id| drop(expected.insert(id, note(4, 700))));
        (100..300).for_each(|id| drop(pending.insert(id, note(4, 700))));
        let all = db.stats().versions.pages;
        assert!(pinned > 0 && all > 4 * pinned, "{what}: {all} pages, {pinned} of the idle one");
        let idle = if prepared {
            idle.prepare("idle", "owner", "database")?.wait()?;
            None
        } else {
            assert_eq!(db.free_versions()?, 0, "{what}: its last statement's snapshot needs them");
            assert!(db.version_store_holders().snapshot.is_some());
            idle.end_statement();
            Some(idle)
        };
        assert_eq!(db.version_store_holders().snapshot, None, "{what}");
        let freed = (0..3).try_fold(0, |freed, _| db.free_versions().map(|more| freed + more))?;
        let left = db.stats().versions.pages;
        assert!(freed >= all - pinned - 32 && left <= pinned + 32, "{what}: {freed} of {all} freed, {left} left");
        compare(&rows(&db)?, &expected, &format!("{what}: others see what was there before"));
        if let Some(idle) = &idle {
            compare(&rows_of(idle)?, &pending, &format!("{what}: it sees what it wrote"));
        }
        match (idle, commits) {
            (Some(idle), true) => idle.commit(Durability::Sync)?.wait()?,
            (Some(idle), false) => idle.rollback()?,
            (None, true) => db.commit_prepared("idle")?.wait()?,
            (None, false) => db.rollback_prepared("idle")?.wait()?,
        }
        let expected = if commits { &pending } else { &expected };
        compare(&rows(&db)?, expected, &format!("{what}: at its end"));
        (0..2).try_for_each(|_| db.clean_now().map(drop))?;
        compare(&rows(&db)?, expected, &format!("{what}: after a sweep"));
        (0..3).try_for_each(|_| db.free_versions().map(drop))?;
        assert_eq!(db.stats().versions.pages, 0, "{what}: then all go");
        verify(&db, &what)?;
    }
    Ok(())
}

/// The same after a power loss, which finds one transaction prepared: what the others had pushed
/// goes, though the store has forgotten who pushed where.
#[test]
fn what_a_restart_finds_prepared_pins_only_its_own_versions() -> Result<()> {
    let vfs = SimVfs::new(4);
    let db = open_as(&vfs, large(off_row()))?;
    create(&db)?;
    let mut expected = filled(&db, 0..300, 700)?;
    db.clean_now()?;
    update_all(&db, 0..100, &note(77, 700), true)?;
    let idle = db.begin(Isolation::ReadCommitted);
    for id in 0..100 {
        assert_eq!(update(&idle, id, "pending")?, Change::Done);
    }
    let own = db.stats().versions.pages / 2;
    idle.prepare("idle", "owner", "database")?.wait()?;
    for round in 0..5 {
        update_all(&db, 100..300, &note(round, 700), true)?;
    }
    expected.extend((0..100).map(|id| (id, note(77, 700))));
    expected.extend((100..300).map(|id| (id, note(4, 700))));
    let vfs = vfs.crash();
    drop((idle, db));
    let db = open_as(&vfs, large(off_row()))?;
    db.finish_recovery()?;
    let all = db.stats().versions.pages;
    assert!(all > 6 * own, "{all} pages, {own} of the prepared one");
    let freed = (0..4).try_fold(0, |freed, _| db.free_versions().map(|more| freed + more))?;
    let left = db.stats().versions.pages;
    assert!(freed >= all - own - 16 && left >= own - 2, "{freed} of {all} freed, {left} left, {own} its own");
    compare(&rows(&db)?, &expected, "beside it");
    db.clean_now()?;
    compare(&rows(&db)?, &expected, "after a sweep");
    db.rollback_prepared("idle")?.wait()?;
    compare(&rows(&db)?, &expected, "taken back");
    (0..2).try_for_each(|_| db.clean_now().map(drop))?;
    assert_eq!(db.stats().versions.pages, 0, "then all go");
    compare(&rows(&db)?, &expected, "at last");
    verify(&db, "at last")
}

/// In the traditional mode earlier versions take memory: what others replaced beside an idle
/// writer is given back.
#[test]
fn versions_in_memory_go_beside_an_idle_writer() -> Result<()> {
    let db = open_as(&SimVfs::new(1), Options { accelerated_database_recovery: false, ..large(options()) })?;
    create(&db)?;
    let mut expected = filled(&db, 0..300, 700)?;
    let idle = db.begin(Isolation::ReadCommitted);
    for id in 0..50 {
        assert_eq!(update(&idle, id, "pending")?, Change::Done);
    }
    idle.end_statement();
    let own = db.stats().temporary.bytes;
    for round in 0..10 {
        update_all(&db, 100..300, &note(round, 700), true)?;
    }
    expected.extend((100..300).map(|id| (id, note(9, 700))));
    let all = db.stats().temporary.bytes;
    (0..3).try_for_each(|_| db.free_versions().map(drop))?;
    let left = db.stats().temporary.bytes;
    assert!(own > 0 && all > 10 * own && left <= own + (128 << 10), "{left} of {all} bytes left, {own} its own");
    compare(&rows(&db)?, &expected, "beside it");
    idle.rollback()?;
    (0..3).try_for_each(|_| db.free_versions().map(drop))?;
    assert_eq!(db.stats().temporary.bytes, 0);
    compare(&rows(&db)?, &expected, "taken back");
    verify(&db, "at last")
}

/// A statement's end lets its snapshot go, and nothing else that belongs to the transaction.
#[test]
fn an_ended_statement_holds_no_snapshot() -> Result<()> {
    let db = open_as(&SimVfs::new(1), large(options()))?;
    create(&db)?;
    let mut expected = filled(&db, 0..20, 100)?;
    let held = |round: i64| -> Result<bool> {
        tick(&db, round)?;
        Ok(db.version_store_holders().snapshot.is_some())
    };
    let tx = db.begin(Isolation::ReadCommitted);
    rows_of(&tx)?;
    assert!(held(0)?, "until it is told");
    tx.end_statement();
    assert!(!held(1)?);
    tx.end_statement();
    // A cursor that has not come to its end reads on as of its statement.
    let table = table(&tx)?;
    let view = tx.statement(StatementKind::Read)?;
    expected.extend((0..2).map(|round| (1_000_000 + round, "moves the horizon".to_owned())));
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    drop(view);
    let mut batch = RowBatch::default();
    assert!(cursor.next_batch(&mut batch, 5)?);
    tx.end_statement();
    update_all(&db, 0..20, "newer", true)?;
    assert!(held(2)?, "the cursor needs it");
    db.clean_now()?;
    while cursor.next_batch(&mut batch, 5)? {}
    let mut seen = Rows::new();
    for i in 0..batch.len() {
        if let (DatumRef::Int8(id), DatumRef::Text(note)) =
            (table.column(batch.row(i), 0)?, table.column(batch.row(i), 1)?)
        {
            seen.insert(id, note.to_owned());
        }
    }
    compare(&seen, &expected, "through the cursor");
    drop(cursor);
    tx.end_statement();
    assert!(!held(3)?);
    // Statements after it: each sees what was written before, its own work included, and a bulk
    // statement does not meet its own rows again.
    assert_eq!(update(&tx, 3, "mine")?, Change::Done);
    tx.end_statement();
    assert!(!held(4)?, "nor does one that writes hold one");
    assert_eq!(update(&tx, 3, "mine again")?, Change::Done);
    let savepoint = tx.savepoint()?;
    tx.end_statement();
    // A statement that holds its view goes on with its snapshot: what has changed since has changed.
    let view = tx.statement(StatementKind::PointWrite)?;
    commit(&db, |other| update(other, 5, "changed").map(drop))?;
    tx.end_statement();
    let row = [DatumRef::Int8(5), DatumRef::Text("over it")];
    let key = key_of(&table, 5)?;
    assert_eq!(tx.update(&table, &key, Seen::Snapshot, &row)?.done()?, Change::Changed);
    drop(view);
    let view = tx.statement(StatementKind::BulkWrite)?;
    let key = key_of(&table, 3)?;
    let row = [DatumRef::Int8(3), DatumRef::Text("bulk")];
    tx.end_statement();
    assert_eq!(tx.update(&table, &key, Seen::Snapshot, &row)?.done()?, Change::Done);
    tx.end_statement();
    assert_eq!(tx.update(&table, &key, Seen::Snapshot, &row)?.done()?, Change::SelfModified, "one statement");
    drop(view);
    tx.end_statement();
    assert_eq!(rows_of(&tx)?.get(&3).map(String::as_str), Some("bulk"));
    tx.rollback_to(savepoint)?;
    tx.end_statement();
    assert_eq!(rows_of(&tx)?.get(&3).map(String::as_str), Some("mine again"));
    tx.end_statement();
    assert_eq!(update(&tx, 4, "mine")?, Change::Done);
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(note_of(&db, 3)?.as_deref(), Some("mine again"));
    let tx = db.begin(Isolation::RepeatableRead);
    let before = rows_of(&tx)?;
    tx.end_statement();
    assert!(held(5)?, "of the whole transaction");
    update_all(&db, 0..20, "newest", true)?;
    compare(&rows_of(&tx)?, &before, "REPEATABLE READ");
    tx.commit(Durability::Sync)?.wait()?;
    verify(&db, "at last")
}

/// Rows of a long transaction that was aborted, on pages that are full by now, in a table that was
/// dropped after a restart and that an old snapshot sees: reverting them takes a split of a tree
/// that no definition names any more.
#[test]
fn a_dropped_table_that_is_still_seen_is_cleaned() -> Result<()> {
    let vfs = SimVfs::new(6);
    let db = open_as(&vfs, large(off_row()))?;
    create(&db)?;
    let mut expected = Rows::new();
    commit(&db, |tx| {
        (0..200).map(|i| i * 2).try_for_each(|id| {
            expected.insert(id, note(id, 700));
            insert(tx, id, &note(id, 700))
        })
    })?;
    let long = db.begin(Isolation::ReadCommitted);
    for id in expected.keys() {
        assert_eq!(update(&long, *id, "short")?, Change::Done);
    }
    // Others take the room.
    commit(&db, |tx| {
        (0..200).map(|i| i * 2 + 1).try_for_each(|id| {
            expected.insert(id, note(id, 500));
            insert(tx, id, &note(id, 500))
        })
    })?;
    long.rollback()?;
    db.close()?;
    drop((long, db));
    let db = open_as(&vfs, large(off_row()))?;
    db.finish_recovery()?;
    let old = db.begin(Isolation::RepeatableRead);
    let dropped = table(&old)?;
    let view = old.statement(StatementKind::Read)?;
    let tx = db.begin(Isolation::ReadCommitted);
    tx.drop_table(&table(&tx)?)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let report = db.clean_now()?;
    assert_eq!((report.reverted, report.skipped.object_unknown.count), (200, 0), "{report:?}");
    assert_eq!((report.pages_skipped, report.forgotten, db.aborted_count()), (0, 1, 0), "{report:?}");
    let (mut cursor, mut batch) = (view.scan(&dropped, KeyRange::all(), Direction::Forward), RowBatch::default());
    while cursor.next_batch(&mut batch, 100)? {}
    let mut seen = Rows::new();
    for i in 0..batch.len() {
        if let (DatumRef::Int8(id), DatumRef::Text(note)) =
            (dropped.column(batch.row(i), 0)?, dropped.column(batch.row(i), 1)?)
        {
            seen.insert(id, note.to_owned());
        }
    }
    compare(&seen, &expected, "through the old snapshot");
    drop((cursor, view, old));
    db.clean_now()?;
    db.set_accelerated_recovery(false, &|| false)?;
    verify(&db, "at last")
}

/// The same after a power loss: what the store knew is rebuilt so that nothing is freed early.
#[test]
fn after_a_crash_nothing_is_freed_early() -> Result<()> {
    let vfs = SimVfs::new(2);
    let db = open_as(&vfs, large(off_row()))?;
    create(&db)?;
    let expected = filled(&db, 0..200, 300)?;
    update_all(&db, 0..200, "aborted", false)?;
    commit(&db, |tx| insert(tx, 500, "makes the log durable"))?;
    // Made in advance, and never pushed into.
    let unused = db.stats().versions.pages_ready;
    let vfs = vfs.crash();
    drop(db);
    let db = open_as(&vfs, large(off_row()))?;
    db.finish_recovery()?;
    let mut expected = expected;
    expected.insert(500, "makes the log durable".into());
    let (pages, mut freed) = (db.stats().versions.pages, 0);
    for round in 0..4 {
        tick(&db, round)?;
        freed += db.free_versions()?;
        expected.insert(1_000_000 + round, "moves the horizon".into());
    }
    let left = db.stats().versions.pages;
    // Those of the same extents as the aborted transaction's may stay with them.
    assert!(freed <= unused && freed + 16 >= unused, "{freed} of {unused} unused pages freed");
    assert_eq!(left, pages - freed, "all others are the aborted transaction's");
    compare(&rows(&db)?, &expected, "before the sweep");
    assert_eq!(db.clean_now()?.reverted, 200);
    for round in 4..7 {
        tick(&db, round)?;
        db.free_versions()?;
        expected.insert(1_000_000 + round, "moves the horizon".into());
    }
    assert_eq!(db.stats().versions.pages, 0, "then all go");
    compare(&rows(&db)?, &expected, "after the sweep");
    verify(&db, "at last")
}

/// Power is lost at many points of a sweep. The next one does the rest, and no more.
#[test]
fn a_crash_in_the_middle_of_a_sweep() -> Result<()> {
    let mut cut = 0;
    for step in 0..12 {
        let vfs = SimVfs::new(10 + step);
        // Few pages in memory: what is cleaned is written out in between.
        let small = Options { log_segment_bytes: 264 << 10, ..options() };
        let db = open_as(&vfs, small.clone())?;
        create(&db)?;
        let mut expected = filled(&db, 0..4000, 200)?;
        db.clean_now()?;
        let tx = db.begin(Isolation::ReadCommitted);
        for id in 0..4000 {
            match id % 3 {
                0 => assert_eq!(update(&tx, id, &note(-id, 220))?, Change::Done),
                1 => assert_eq!(delete(&tx, id)?, Change::Done),
                _ => insert(&tx, 10_000 + id, &note(id, 200))?,
            }
        }
        tx.rollback()?;
        commit(&db, |tx| insert(tx, -1, "makes the log durable"))?;
        expected.insert(-1, "makes the log durable".into());
        vfs.set_faults(FaultPlan { crash_after_ops: Some(1 + step * 4), ..FaultPlan::default() });
        if let Err(error) = db.clean_now() {
            assert!(vfs.power_lost(), "step {step}: {error:?}");
        }
        cut += u64::from(vfs.power_lost());
        let vfs = vfs.crash();
        drop(db);
        vfs.set_faults(FaultPlan::default());
        let db = open_as(&vfs, small)?;
        compare(&rows(&db)?, &expected, "at once");
        db.finish_recovery()?;
        let report = db.clean_now()?;
        assert!(report.forgotten <= 1 && db.aborted_count() == 0, "{report:?}");
        assert!(report.reverted <= 4000, "{report:?}");
        compare(&rows(&db)?, &expected, "after the rest");
        let again = db.clean_now()?;
        assert_eq!((again.reverted, again.forgotten), (0, 0), "nothing is left to do: {again:?}");
        verify(&db, "after the rest")?;
    }
    assert!(cut > 3, "{cut} sweeps were cut off");
    Ok(())
}

/// Waits for what background threads will do.
fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// After a crash nobody has to ask: once pages are redone the cleaner begins by itself, though its
/// interval is long.
#[test]
fn the_cleaner_starts_by_itself_after_a_crash() -> Result<()> {
    let background = || Options { background: true, cleaner_interval_s: 3600.0, ..large(options()) };
    let vfs = SimVfs::new(3);
    let db = open_as(&vfs, background())?;
    create(&db)?;
    let expected = filled(&db, 0..500, 200)?;
    let tx = db.begin(Isolation::ReadCommitted);
    for id in 0..500 {
        assert_eq!(update(&tx, id, "cut off")?, Change::Done);
    }
    commit(&db, |tx| insert(tx, 1000, "makes the log durable"))?;
    let crashed = vfs.crash();
    drop((tx, db));
    let db = open_as(&crashed, background())?;
    until("the cleaner forgets what the crash cut off", || db.aborted_count() == 0 && db.stats().sweeps > 0);
    let last = db.cleaner_status().last.expect("a sweep ended");
    assert!(last.complete && last.report.reverted == 500, "{last:?}");
    assert_eq!(rows(&db)?.len(), expected.len() + 1);
    db.close()?;
    let db = open_as(&crashed, large(options()))?;
    verify(&db, "after the sweep")
}

/// What a table takes when all its rows are gone.
#[test]
fn a_table_without_rows_keeps_a_handful_of_pages() -> Result<()> {
    for (seed, step) in [(4, 1), (5, 7919)] {
        let db = open_as(&SimVfs::new(seed), large(options()))?;
        create(&db)?;
        db.finish_recovery()?; // knows its free space
        let empty = pages_in_use(&db);
        let ids = || (0..20_000i64).map(|i| i * step % 20_000);
        commit(&db, |tx| ids().try_for_each(|id| insert(tx, id, &note(id, 150))))?;
        let full = pages_in_use(&db);
        assert!(full > 300, "{full}");
        commit(&db, |tx| ids().try_for_each(|id| delete(tx, id).map(|_| ())))?;
        for _ in 0..3 {
            db.clean_now()?;
        }
        let left = pages_in_use(&db);
        assert!(left <= empty + 8, "step {step}: {left} pages after a deletion of {full}, {empty} at first");
        // The same by a rollback of what was inserted.
        let tx = db.begin(Isolation::ReadCommitted);
        ids().try_for_each(|id| insert(&tx, id, &note(id, 150)))?;
        tx.rollback()?;
        let report = db.clean_now()?;
        assert_eq!((report.reverted, report.forgotten), (20_000, 1), "{report:?}");
        db.clean_now()?;
        let left = pages_in_use(&db);
        assert!(left <= empty + 8, "step {step}: {left} pages after a rollback, {empty} at first");
        assert_eq!(rows(&db)?.len(), 0);
        commit(&db, |tx| (0..2000).try_for_each(|id| insert(tx, id, "again")))?;
        assert_eq!(rows(&db)?.len(), 2000);
        verify(&db, "at last")?;
    }
    Ok(())
}

/// A page of reverted rows is a few bytes of log.
#[test]
fn cleaning_a_page_takes_little_log() -> Result<()> {
    let db = open_as(&SimVfs::new(6), large(options()))?;
    create(&db)?;
    let expected = filled(&db, 0..4000, 200)?;
    db.clean_now()?;
    let log = || db.log_status().end.0;
    let tx = db.begin(Isolation::ReadCommitted);
    for id in 0..4000 {
        match id % 2 {
            0 => assert_eq!(update(&tx, id, &format!("{}!", note(id, 199)))?, Change::Done),
            _ => assert_eq!(delete(&tx, id)?, Change::Done),
        }
    }
    tx.rollback()?;
    let before = log();
    let report = db.clean_now()?;
    assert_eq!(report.reverted, 4000);
    let each = (log() - before) as f64 / 4000.0;
    // Alternating treatments are the worst there is: a run for each row.
    assert!(each < 20.0, "{each} bytes a row");
    compare(&rows(&db)?, &expected, "after the sweep");
    verify(&db, "after the sweep")
}

/// A row that was inserted and changed, or deleted again, while an old snapshot is held: it sees
/// neither, and what lies in between goes.
#[test]
fn versions_between_snapshots_go() -> Result<()> {
    let db = open_as(&SimVfs::new(7), options())?;
    create(&db)?;
    let old_rows = filled(&db, 0..20, 50)?;
    db.clean_now()?;
    let old = db.begin(Isolation::RepeatableRead);
    assert_eq!(rows_of(&old)?, old_rows);
    commit(&db, |tx| (100..140).try_for_each(|id| insert(tx, id, &note(id, 60))))?;
    // One that sees the first version of the rows that come next.
    commit(&db, |tx| (200..220).try_for_each(|id| insert(tx, id, &note(id, 60))))?;
    let middle = db.begin(Isolation::RepeatableRead);
    let middle_rows = rows_of(&middle)?;
    commit(&db, |tx| (200..220).try_for_each(|id| update(tx, id, "changed since").map(|_| ())))?;
    let seen_by_none = |from: i64| {
        commit(&db, |tx| (from..from + 20).try_for_each(|id| insert(tx, id, &note(id, 60))))?;
        commit(&db, |tx| (from..from + 10).try_for_each(|id| update(tx, id, "changed").map(|_| ())))?;
        commit(&db, |tx| (from + 10..from + 20).try_for_each(|id| delete(tx, id).map(|_| ())))
    };
    seen_by_none(300)?;
    let expected = rows(&db)?;
    let report = db.clean_now()?;
    assert_eq!(report.removed, 10, "rows that nobody sees any more: {report:?}");
    assert_eq!(report.stripped, 10, "earlier versions that nobody sees: {report:?}");
    compare(&rows(&db)?, &expected, "now");
    compare(&rows_of(&old)?, &old_rows, "the oldest snapshot");
    compare(&rows_of(&middle)?, &middle_rows, "the snapshot in the middle");
    drop((old, middle));
    for _ in 0..2 {
        db.clean_now()?;
    }
    compare(&rows(&db)?, &expected, "at last");
    verify(&db, "at last")
}

/// Sweeps of several threads beside writers that split pages, then everything at rest.
#[test]
fn several_threads_share_a_sweep() -> Result<()> {
    let vfs = SimVfs::new(8);
    let threads = Options {
        background: true,
        cleaner_threads: 4,
        cleaner_interval_s: 3600.0,
        short_rollback_operations: 0,
        ..large(options())
    };
    let db = open_as(&vfs, threads)?;
    create(&db)?;
    let mut expected = filled(&db, 0..20_000, 200)?;
    db.clean_now()?;
    for round in 0..4i64 {
        let tx = db.begin(Isolation::ReadCommitted);
        for id in 0..20_000 {
            match (id + round) % 4 {
                // Short versions hide long ones: pages are split when they are reverted.
                0 => assert_eq!(update(&tx, id, "aborted")?, Change::Done),
                1 => assert_eq!(delete(&tx, id)?, Change::Done),
                2 => insert(&tx, 100_000 + id, &note(id, 100))?,
                _ => {}
            }
        }
        tx.rollback()?;
        let added = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|w| {
                    let db = &db;
                    scope.spawn(move || -> Result<Rows> {
                        // Negative ids in between: every page of the table's start is split.
                        let rows: Rows = (0..4000).map(|i| (-1 - (i * 2 + w) - round * 10_000, note(i, 150))).collect();
                        commit(db, |tx| rows.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
                        Ok(rows)
                    })
                })
                .collect();
            let sweeps: Vec<_> = (0..3).map(|_| scope.spawn(|| db.clean_now())).collect();
            for sweep in sweeps {
                sweep.join().expect("no panic")?;
            }
            writers.into_iter().map(|w| w.join().expect("no panic")).collect::<Result<Vec<Rows>>>()
        })?;
        added.into_iter().for_each(|rows| expected.extend(rows));
        db.clean_now()?;
        assert_eq!(db.aborted_count(), 0, "round {round}");
        compare(&rows(&db)?, &expected, &format!("round {round}"));
    }
    assert!(db.cleaner_status().last.is_some_and(|last| last.complete));
    commit(&db, |tx| insert(tx, 900_000, "makes the log durable"))?;
    expected.insert(900_000, "makes the log durable".into());
    let crashed = vfs.crash();
    drop(db);
    let db = open_as(&crashed, large(options()))?;
    compare(&rows(&db)?, &expected, "after a power loss");
    verify(&db, "after a power loss")
}

/// Callers that come together share a sweep; each gets one that began after it asked.
#[test]
fn callers_share_a_sweep() -> Result<()> {
    let db = open_as(&SimVfs::new(9), Options { background: true, cleaner_interval_s: 3600.0, ..large(options()) })?;
    create(&db)?;
    filled(&db, 0..3000, 200)?;
    db.clean_now()?;
    let before = db.stats().sweeps;
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|i| {
                let db = &db;
                scope.spawn(move || -> Result<()> {
                    update_all(db, i * 300..i * 300 + 300, "aborted", false)?;
                    let before = db.aborted_transactions();
                    assert!(!before.is_empty());
                    db.clean_now()?;
                    // Whatever was in the map before the call is not any more.
                    let left = db.aborted_transactions();
                    assert!(left.iter().all(|tx| !before.contains(tx)), "{left:?} after {before:?}");
                    Ok(())
                })
            })
            .collect();
        callers.into_iter().try_for_each(|caller| caller.join().expect("no panic"))
    })?;
    assert_eq!(db.aborted_count(), 0);
    assert!(db.stats().sweeps - before <= 8, "{} sweeps", db.stats().sweeps - before);
    verify(&db, "at last")
}

/// What an operator sees.
#[test]
fn status_names_causes_and_holders() -> Result<()> {
    let vfs = Watched::new(SimVfs::new(11));
    let db = open_as(&vfs, options())?;
    create(&db)?;
    filled(&db, 0..200, 200)?;
    assert_eq!(db.version_store_holders(), VersionStoreHolders::default());
    let old = db.begin(Isolation::RepeatableRead);
    drop(old.statement(StatementKind::Read)?);
    let writer = db.begin(Isolation::ReadCommitted);
    assert_eq!(update(&writer, 1, "open")?, Change::Done);
    update_all(&db, 100..150, "aborted", false)?;
    commit(&db, |tx| update(tx, 5, "changed").map(|_| ()))?;
    let held = db.version_store_holders();
    assert_eq!(held.transaction.map(|tx| (Some(tx.id), tx.active)), Some((writer.id(), 1)));
    assert!(held.snapshot.is_some_and(|s| s.commits_behind > 0 && s.in_use >= 1), "{held:?}");
    assert!(held.aborted.is_some_and(|a| a.ids == 1), "{held:?}");
    writer.rollback()?;
    drop((old, writer));
    db.close()?;
    drop(db);
    let db = open_as(&vfs, options())?;
    assert_eq!(db.cleaner_status().current, None);
    // The page of an aborted row: the last that reading it reads.
    let read = Arc::new(parking_lot::Mutex::new(0));
    let last = Arc::clone(&read);
    vfs.on_read(Box::new(move |page| {
        *last.lock() = page;
        false
    }));
    note_of(&db, 120)?;
    vfs.on_read(Box::new(|_| true));
    let page = *read.lock();
    db.close()?;
    drop(db);
    let db = open_as(&vfs, Options { page_repair: false, ..options() })?;
    vfs.sim.flip_bit(&Path::new(DIR).join("data"), page * 8192 * 8 + 40_000)?;
    let report = db.clean_now()?;
    let status = db.cleaner_status();
    let last = status.last.expect("a sweep ended");
    assert_eq!((last.report, status.totals.sweeps), (report, 1));
    assert!(!last.complete && report.skipped.damaged.count == 1, "{report:?}");
    assert_eq!(report.skipped.damaged.example, Some(PageId(page)));
    assert_eq!(report.pages_skipped, report.skipped.total());
    assert!(status.aborted_ids > 0, "nobody is forgotten");
    Ok(())
}

/// Shutting down does not wait for a sweep that goes slowly.
#[test]
fn stopping_does_not_wait_for_the_pace() -> Result<()> {
    let slow = Options {
        background: true,
        cleaner_interval_s: 0.05,
        cleaner_pages_per_second: 1,
        cleaner_threads: 2,
        ..large(options())
    };
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(12));
    let db = Database::open_with(vfs, Path::new(DIR), slow, |_| {})?;
    create(&db)?;
    filled(&db, 0..10_000, 200)?;
    update_all(&db, 0..10_000, "aborted", false)?;
    until("a sweep has begun", || db.cleaner_status().current.is_some_and(|sweep| sweep.pages_visited > 0));
    let pace = db.cleaner_status().pace;
    assert_eq!((pace.pages_per_second, pace.reason), (1, PaceReason::Settings));
    // At this pace it would take minutes.
    db.close()?;
    let last = db.cleaner_status().last;
    // An earlier one may have come to its end, before there was anything to forget.
    assert!(last.is_none_or(|last| last.report.forgotten == 0) && db.aborted_count() > 0, "{last:?}");
    Ok(())
}

/// One caller's cancel ends its own sweep, also while it waits for its turn, and nobody else's:
/// those who did not cancel get a complete one.
#[test]
fn a_cancelled_sweep_is_nobody_elses() -> Result<()> {
    let db = open_as(&SimVfs::new(21), large(options()))?;
    create(&db)?;
    let expected = filled(&db, 0..1500, 300)?;
    db.clean_now()?;
    assert_eq!(db.clean_unless(&|| true).map_err(|e| e.kind()), Err(ErrorKind::Cancelled));
    for round in 0..30 {
        update_all(&db, 0..1500, &note(round, 250), false)?;
        assert!(db.aborted_count() > 0);
        std::thread::scope(|scope| -> Result<()> {
            let cancelled: Vec<_> = (0..3)
                .map(|i| {
                    let db = &db;
                    scope.spawn(move || {
                        let asked = std::sync::atomic::AtomicI64::new(0);
                        let enough = move || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > round + i;
                        db.clean_unless(&enough).map_err(|e| e.kind()).err()
                    })
                })
                .collect();
            let whole = scope.spawn(|| db.clean_now().map(|_| db.aborted_count()));
            assert_eq!(whole.join().expect("no panic")?, 0, "round {round}");
            for sweep in cancelled {
                assert_eq!(sweep.join().expect("no panic").unwrap_or(ErrorKind::Cancelled), ErrorKind::Cancelled);
            }
            Ok(())
        })?;
    }
    compare(&rows(&db)?, &expected, "at last");
    verify(&db, "at last")
}

/// After a restart no page is in memory; stretches with aborted rows come first all the same.
#[test]
fn aborted_rows_come_first_after_a_restart() -> Result<()> {
    const UNIT: u64 = 64;
    let vfs = Watched::new(SimVfs::new(20));
    let small_units = Options { cleaner_unit_pages: UNIT, ..large(options()) };
    let reopened = |db: Database| -> Result<(Database, Arc<parking_lot::Mutex<Vec<u64>>>)> {
        db.close()?;
        drop(db);
        let read = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let reads = Arc::clone(&read);
        let db = open_as(&vfs, small_units.clone())?;
        vfs.on_read(Box::new(move |page| {
            reads.lock().push(page);
            false
        }));
        Ok((db, read))
    };
    let db = open_as(&vfs, small_units.clone())?;
    create(&db)?;
    // Nothing is cleaned yet: every page is marked.
    filled(&db, 0..5000, 700)?;
    update_all(&db, 3500..4800, "aborted", false)?;
    let mut db = db;
    let mut ends = Vec::new();
    // Their neighbours: an aborted row is read from a version page as well.
    for id in [3499, 4800] {
        let (again, read) = reopened(db)?;
        note_of(&again, id)?;
        ends.push(read.lock().last().copied().unwrap_or(0) / UNIT);
        db = again;
    }
    assert!(ends[0] > 2 && ends[1] > ends[0], "units of the aborted rows: {ends:?}");
    let (db, read) = reopened(db)?;
    let report = db.clean_now()?;
    assert_eq!((report.reverted, report.forgotten), (1300, 1), "{report:?}");
    // One page of each unit is read for the order. (The first unit has other pages as well.)
    let mut asked = std::collections::HashSet::new();
    let units: Vec<u64> = read.lock().iter().map(|page| page / UNIT).filter(|unit| *unit > 0).collect();
    let visited: Vec<u64> = units.into_iter().filter(|unit| !asked.insert(*unit)).collect();
    assert!(
        (ends[0]..=ends[1]).contains(&visited[0]),
        "units in order of visits: {visited:?}, aborted rows in {ends:?}"
    );
    Ok(())
}
