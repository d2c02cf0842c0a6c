//! What must hold of rows that are inserted several at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{is_traditional, open, small_log};
use crate::support::{Rows, commit, compare, create, delete, insert, note, rows, rows_of, table};

const ROWS: i64 = 600;

/// A few rows are as long as rows get, most are short.
fn content(id: i64) -> String {
    note(id, if id % 50 == 7 { 1400 } else { 20 + id as usize % 50 })
}

fn all(ids: impl Iterator<Item = i64>) -> Rows {
    ids.map(|id| (id, content(id))).collect()
}

/// Inserts rows in one statement; how many are in, and what became of the one behind them.
fn insert_many(tx: &Transaction, ids: &[i64]) -> Result<(usize, Result<Attempt<()>>)> {
    let table = table(tx)?;
    tx.statement(StatementKind::BulkWrite)?;
    let notes: Vec<String> = ids.iter().map(|id| content(*id)).collect();
    let rows: Vec<[DatumRef<'_>; 2]> =
        ids.iter().zip(&notes).map(|(id, note)| [DatumRef::Int8(*id), DatumRef::Text(note)]).collect();
    let rows: Vec<&[DatumRef<'_>]> = rows.iter().map(|row| &row[..]).collect();
    let mut done = 0;
    let outcome = tx.insert_many(&table, &rows, &mut done);
    Ok((done, outcome))
}

fn insert_all(tx: &Transaction, ids: &[i64]) -> Result<()> {
    let (done, outcome) = insert_many(tx, ids)?;
    outcome?.done()?;
    assert_eq!(done, ids.len());
    Ok(())
}

/// An order in which neighbours are far apart.
fn shuffled(ids: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut ids: Vec<i64> = ids.collect();
    ids.sort_by_key(|id| (id.wrapping_mul(0x9E37_79B9) >> 3) & 0xFFFF);
    ids
}

pub fn who_looks_sees_them_or_not_as_of_his_time() -> Result<()> {
    for in_order in [true, false] {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, is_traditional())?;
        create(&db)?;
        // Between rows that are there, over some that are no more, and behind them.
        commit(&db, |tx| (0..ROWS).step_by(3).try_for_each(|id| insert(tx, id, &content(id))))?;
        commit(&db, |tx| (0..ROWS).step_by(30).try_for_each(|id| delete(tx, id).map(drop)))?;
        let before = all((0..ROWS).step_by(3).filter(|id| id % 30 != 0));
        let new = (0..ROWS + 200).filter(|id| !before.contains_key(id));
        let new: Vec<i64> = if in_order { new.collect() } else { shuffled(new) };
        let after = all(0..ROWS + 200);

        let old = db.begin(Isolation::RepeatableRead);
        compare(&rows_of(&old)?, &before, "before");
        let tx = db.begin(Isolation::ReadCommitted);
        insert_all(&tx, &new)?;
        compare(&rows_of(&tx)?, &after, "its own");
        compare(&rows(&db)?, &before, "another's");
        tx.rollback()?;
        compare(&rows(&db)?, &before, "after a rollback");

        let tx = db.begin(Isolation::ReadCommitted);
        let savepoint = tx.savepoint()?;
        insert_all(&tx, &new[..new.len() / 2])?;
        tx.rollback_to(savepoint)?;
        compare(&rows_of(&tx)?, &before, "after going back");
        insert_all(&tx, &new)?;
        tx.commit(Durability::Sync)?.wait()?;
        compare(&rows(&db)?, &after, "after the commit");
        compare(&rows_of(&old)?, &before, "of an older snapshot");
        drop(old);
        let in_runs = db.stats().rows_inserted_in_runs;
        match is_traditional() {
            true => assert_eq!(in_runs, 0, "undo through the log is row by row"),
            // What was rolled back still lies where some of them go again.
            false => assert!(in_runs > new.len() as u64 / 2, "{in_runs} rows in runs"),
        }
        db.clean()?;
        compare(&rows(&db)?, &after, "cleaned");
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

pub fn a_run_is_one_record() -> Result<()> {
    if is_traditional() {
        return Ok(());
    }
    let logged = |runs: bool| -> Result<(u64, u64)> {
        let vfs = SimVfs::new(2);
        let db = open(&vfs, false)?;
        create(&db)?;
        let ids: Vec<i64> = (0..400).collect();
        let (before, end) = (db.stats().log.records, db.log_status().end.0);
        commit(&db, |tx| match runs {
            true => insert_all(tx, &ids),
            false => ids.iter().try_for_each(|id| insert(tx, *id, &content(*id))),
        })?;
        Ok((db.stats().log.records - before, db.log_status().end.0 - end))
    };
    let ((one, bytes), (many, fewer)) = (logged(false)?, logged(true)?);
    assert!(one >= 400 && many < 60, "{one} records one by one, {many} in runs");
    assert!(fewer < bytes * 4 / 5, "{bytes} bytes one by one, {fewer} in runs");
    Ok(())
}

pub fn what_is_in_the_way_ends_it_there() -> Result<()> {
    for in_order in [true, false] {
        let vfs = SimVfs::new(3);
        let db = open(&vfs, is_traditional())?;
        create(&db)?;
        commit(&db, |tx| (0..ROWS).try_for_each(|id| insert(tx, id * 10, &content(id * 10))))?;
        let there = all((0..ROWS).map(|id| id * 10));
        let ids: Vec<i64> = match in_order {
            true => (1001..1010).chain(1011..1020).chain([1021, 1022]).collect(),
            false => shuffled((1001..1010).chain(1011..1020).chain([1021, 1022])),
        };
        let with = |given: &[i64]| {
            let mut rows = there.clone();
            rows.extend(all(given.iter().copied()));
            rows
        };
        for at in [0, 1, ids.len() / 2, ids.len() - 1] {
            // A row is there, in the middle of those that are not.
            let mut twice = ids.clone();
            twice[at] = 1010;
            let tx = db.begin(Isolation::ReadCommitted);
            let (done, outcome) = insert_many(&tx, &twice)?;
            let error = outcome.err().expect("a duplicate");
            assert_eq!((done, error.kind()), (at, ErrorKind::UniqueViolation), "{error}");
            assert_eq!(error.detail(), Some("Key (id)=(1010) already exists."));
            compare(&rows_of(&tx)?, &with(&twice[..at]), "before the duplicate");
            tx.rollback()?;

            // It is given twice.
            let mut twice = ids.clone();
            twice.insert(at + 1, ids[at]);
            let tx = db.begin(Isolation::ReadCommitted);
            let (done, outcome) = insert_many(&tx, &twice)?;
            assert_eq!((done, outcome.err().map(|error| error.kind())), (at + 1, Some(ErrorKind::UniqueViolation)));
            compare(&rows_of(&tx)?, &with(&ids[..=at]), "before the second");
            tx.rollback()?;

            // Somebody is putting it in, and goes on or not.
            for goes_on in [true, false] {
                let holder = db.begin(Isolation::ReadCommitted);
                insert(&holder, ids[at], "held")?;
                let tx = db.begin(Isolation::ReadCommitted);
                let (done, outcome) = insert_many(&tx, &ids)?;
                let Attempt::Wait(wait) = outcome? else { panic!("it did not wait") };
                assert_eq!((done, Some(wait.holder())), (at, holder.id()));
                drop(wait);
                compare(&rows_of(&tx)?, &with(&ids[..at]), "so far");
                if goes_on {
                    holder.commit(Durability::Sync)?.wait()?;
                    let (done, outcome) = insert_many(&tx, &ids[at..])?;
                    assert_eq!((done, outcome.err().map(|e| e.kind())), (0, Some(ErrorKind::UniqueViolation)));
                    tx.rollback()?;
                    commit(&db, |tx| delete(tx, ids[at]).map(drop))?;
                } else {
                    holder.rollback()?;
                    insert_all(&tx, &ids[at..])?;
                    compare(&rows_of(&tx)?, &with(&ids), "all");
                    tx.rollback()?;
                }
                compare(&rows(&db)?, &there, "after all");
            }
        }
        // A row that a snapshot still sees is not put in once more in it.
        let tx = db.begin(Isolation::RepeatableRead);
        rows_of(&tx)?;
        commit(&db, |other| delete(other, 1010).map(drop))?;
        let mut given = ids.clone();
        given.insert(2, 1010);
        let (done, outcome) = insert_many(&tx, &given)?;
        assert_eq!((done, outcome.err().map(|e| e.kind())), (2, Some(ErrorKind::SerializationFailure)));
        tx.rollback()?;
        db.clean()?;
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

pub fn a_crash_takes_back_what_was_not_committed() -> Result<()> {
    for committed in [false, true] {
        let vfs = SimVfs::new(5);
        let options = || small_log(is_traditional());
        let db = crate::common::open::open_as(&vfs, options())?;
        create(&db)?;
        commit(&db, |tx| (0..ROWS).step_by(5).try_for_each(|id| insert(tx, id, &content(id))))?;
        let before = all((0..ROWS).step_by(5));
        db.checkpoint()?;
        let new: Vec<i64> = (0..2 * ROWS).filter(|id| !before.contains_key(id)).collect();
        let tx = db.begin(Isolation::ReadCommitted);
        insert_all(&tx, &new)?;
        let expected = if committed { all(0..2 * ROWS) } else { before };
        if committed {
            tx.commit(Durability::Sync)?.wait()?;
        } else {
            db.sync_log()?;
        }
        let vfs = vfs.crash();
        let db = crate::common::open::open_recovered(&vfs, options())?;
        compare(&rows(&db)?, &expected, "after a crash");
        db.clean()?;
        compare(&rows(&db)?, &expected, "cleaned");
        assert_eq!(db.verify()?, Vec::<String>::new());
        // What the crash took back can be done again.
        if !committed {
            commit(&db, |tx| insert_all(tx, &new))?;
            compare(&rows(&db)?, &all(0..2 * ROWS), "once more");
        }
    }
    Ok(())
}

/// A short transaction takes back row by row what it inserted: nothing of it is known afterwards.
pub fn a_short_one_takes_back_all_of_it() -> Result<()> {
    let vfs = SimVfs::new(6);
    let options = || small_log(is_traditional());
    let db = crate::common::open::open_as(&vfs, options())?;
    create(&db)?;
    commit(&db, |tx| (0..ROWS).step_by(2).try_for_each(|id| insert(tx, id, &content(id))))?;
    let before = all((0..ROWS).step_by(2));
    let tx = db.begin(Isolation::ReadCommitted);
    insert_all(&tx, &(200..230).filter(|id| id % 2 == 1).collect::<Vec<_>>())?;
    tx.rollback()?;
    assert_eq!(db.stats().transactions.aborted_in_map, 0);
    db.shorten_log()?;
    let db = crate::common::open::open_recovered(&vfs.crash(), options())?;
    compare(&rows(&db)?, &before, "after a rollback and a restart");
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

/// Many rows in no order: leaves are about as full as they are of as many in order, and all rows are there.
pub fn rows_in_no_order_fill_leaves_in_order() -> Result<()> {
    let vfs = SimVfs::new(9);
    let db = open(&vfs, is_traditional())?;
    create(&db)?;
    let ids = shuffled(0..4000);
    commit(&db, |tx| {
        let table = table(tx)?;
        tx.statement(StatementKind::BulkWrite)?;
        let mut load = tx.load(&table);
        for id in &ids {
            load.push(&[DatumRef::Int8(*id), DatumRef::Text(&content(*id))])?.done()?;
        }
        load.flush()?.done()?;
        assert_eq!(load.inserted(), ids.len() as u64);
        Ok(())
    })?;
    compare(&rows(&db)?, &all(0..4000), "after the load");
    if !is_traditional() {
        let in_runs = db.stats().rows_inserted_in_runs;
        assert!(in_runs > 3500, "{in_runs} rows in runs");
    }
    db.clean()?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

/// Cursors that were begun before, and are read while rows come in, see what was there, each row once, in order.
pub fn cursors_beside_it_see_each_row_once() -> Result<()> {
    let vfs = SimVfs::new(12);
    let db = open(&vfs, is_traditional())?;
    create(&db)?;
    commit(&db, |tx| (0..ROWS).step_by(2).try_for_each(|id| insert(tx, id, &content(id))))?;
    let before = all((0..ROWS).step_by(2));
    for direction in [Direction::Forward, Direction::Backward] {
        let reader = db.begin(Isolation::RepeatableRead);
        let of = table(&reader)?;
        let view = reader.statement(StatementKind::Read)?;
        let mut cursor = view.scan(&of, KeyRange::all(), direction);
        let (mut found, mut batch) = (Vec::new(), RowBatch::default());
        let writer = db.begin(Isolation::ReadCommitted);
        let odd: Vec<i64> = (0..ROWS).filter(|id| id % 2 == 1).collect();
        let mut parts = odd.chunks(40).enumerate();
        while cursor.next_batch(&mut batch, 17)? {
            for i in 0..batch.len() {
                let DatumRef::Int8(id) = of.column(batch.row(i), 0)? else { panic!("no id") };
                found.push(id);
            }
            batch.clear();
            if let Some((at, part)) = parts.next() {
                let savepoint = writer.savepoint()?;
                insert_all(&writer, part)?;
                // Every other part goes again.
                if at % 2 == 1 {
                    writer.rollback_to(savepoint)?;
                }
            }
        }
        if direction == Direction::Backward {
            found.reverse();
        }
        assert_eq!(found, before.keys().copied().collect::<Vec<_>>());
        writer.rollback()?;
    }
    db.clean()?;
    compare(&rows(&db)?, &before, "after all");
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A row of `(id, u, note)`.
type Wide = (i64, Option<i64>, Option<String>);

fn wide(rng: &mut Rng) -> Wide {
    let id = rng.below(400) as i64;
    let u = (rng.below(4) > 0).then(|| rng.below(3000) as i64);
    let len = match rng.below(40) {
        0 => 1450,
        1 => 4000,
        _ => rng.below(60) as usize,
    };
    (id, u, (rng.below(60) > 0).then(|| note(rng.below(1 << 30) as i64, len)))
}

/// A table that has a primary key or none, a unique index, and one that is not; `note` must be given.
fn create_wide(db: &Database, name: &str, has_key: bool) -> Result<()> {
    let mut spec = TableSpec::new("public", name)
        .column("id", ColumnType::Int8)
        .column("u", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .index(&format!("{name}_1"), &["u"], true)
        .index(&format!("{name}_0"), &["id"], false);
    spec.columns[2].nullable = false;
    if has_key {
        spec = spec.primary_key(&["id"]);
    }
    commit(db, |tx| tx.create_table(spec)?.done().map(drop))
}

fn datums(row: &Wide) -> [DatumRef<'_>; 3] {
    [
        DatumRef::Int8(row.0),
        row.1.map_or(DatumRef::Null, DatumRef::Int8),
        row.2.as_deref().map_or(DatumRef::Null, DatumRef::Text),
    ]
}

/// What a row by itself comes to, in words: of whom it waits, or why it is refused.
fn said(outcome: Result<Attempt<()>>, holder: Option<TxId>) -> String {
    match outcome {
        Ok(Attempt::Done(())) => "done".to_owned(),
        Ok(Attempt::Wait(wait)) => format!("waits, for the holder: {}", Some(wait.holder()) == holder),
        Err(error) => {
            let words = |text: &str| {
                text.replace("one_", "t_").replace("many_", "t_").replace("\"one\"", "t").replace("\"many\"", "t")
            };
            format!("{:?}: {} {:?}", error.kind(), words(error.message()), error.detail())
        }
    }
}

fn all_wide(tx: &Transaction, table: &Arc<Table>) -> Result<Vec<Wide>> {
    let view = tx.statement(StatementKind::Read)?;
    let mut of_index = BTreeMap::new();
    let mut found = Vec::new();
    for index in [None, Some(0), Some(1)] {
        let mut cursor = match index {
            None => view.scan(table, KeyRange::all(), Direction::Forward),
            Some(at) => view.scan_index(table, at, KeyRange::all(), Direction::Forward),
        };
        let (mut batch, mut rows) = (RowBatch::default(), Vec::new());
        while cursor.next_batch(&mut batch, 50)? {
            for i in 0..batch.len() {
                let column = |at| table.column(batch.row(i), at);
                let DatumRef::Int8(id) = column(0)? else { panic!("no id") };
                let u = if let DatumRef::Int8(u) = column(1)? { Some(u) } else { None };
                let note = match column(2)? {
                    DatumRef::Text(text) => Some(text.to_owned()),
                    DatumRef::External(large) => String::from_utf8(view.read_external(large)?).ok(),
                    _ => None,
                };
                rows.push((id, u, note));
            }
            batch.clear();
        }
        rows.sort();
        of_index.insert(index, rows.clone());
        found = rows;
    }
    assert!(of_index.values().all(|rows| *rows == found), "indexes have other rows than the table");
    Ok(found)
}

/// The same batches by one call and row by row, in two tables, beside somebody who holds some rows: done, refused and waited for are the
/// same rows, for the same reasons, and what is there is the same.
pub fn it_is_as_one_after_the_other() -> Result<()> {
    for seed in 0..12 {
        let mut rng = Rng(seed * 7919 + 1);
        let has_key = seed % 4 != 3;
        let vfs = SimVfs::new(seed);
        let db = open(&vfs, is_traditional())?;
        create_wide(&db, "one", has_key)?;
        create_wide(&db, "many", has_key)?;
        for round in 0..40 {
            let isolation = if rng.below(3) == 0 { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
            let tx = db.begin(isolation);
            let find = |tx: &Transaction, name: &str| -> Result<Arc<Table>> {
                tx.table("public", name)?.ok_or_else(|| Error::internal("the table is gone"))
            };
            let (one, many) = (find(&tx, "one")?, find(&tx, "many")?);
            tx.statement(StatementKind::Read)?;
            // Somebody holds rows, and somebody has deleted some.
            let holder = db.begin(Isolation::ReadCommitted);
            for _ in 0..rng.below(4) {
                let row = wide(&mut rng);
                let held = holder.insert(&one, &datums(&row)).and_then(Attempt::done);
                let same = holder.insert(&many, &datums(&row)).and_then(Attempt::done);
                assert_eq!(held.is_ok(), same.is_ok());
            }
            if has_key && rng.below(2) == 0 {
                let id = rng.below(400) as i64;
                commit(&db, |tx| {
                    for table in [&one, &many] {
                        tx.statement(StatementKind::PointWrite)?;
                        let mut key = Vec::new();
                        table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
                        let _ = tx.delete(table, &key, Seen::Snapshot)?;
                    }
                    Ok(())
                })?;
            }
            let mut batch: Vec<Wide> = (0..1 + rng.below(60)).map(|_| wide(&mut rng)).collect();
            if rng.below(3) > 0 {
                // Side by side, none of them twice.
                let first = rng.below(400) as i64;
                batch.iter_mut().zip(first..).for_each(|(row, id)| row.0 = id);
            }
            if rng.below(2) == 0 {
                batch.iter_mut().for_each(|row| row.1 = None);
            }
            let saved = tx.savepoint()?;
            tx.statement(StatementKind::BulkWrite)?;
            let mut done_one = 0;
            let mut outcome = Ok(Attempt::Done(()));
            for row in &batch {
                outcome = tx.insert(&one, &datums(row));
                if !matches!(outcome, Ok(Attempt::Done(()))) {
                    break;
                }
                done_one += 1;
            }
            let one_said = said(outcome, holder.id());
            let rows: Vec<[DatumRef<'_>; 3]> = batch.iter().map(datums).collect();
            let rows: Vec<&[DatumRef<'_>]> = rows.iter().map(|row| &row[..]).collect();
            let mut done_many = 0;
            let many_said = said(tx.insert_many(&many, &rows, &mut done_many), holder.id());
            let what = format!("seed {seed}, round {round}");
            assert_eq!((done_one, one_said), (done_many, many_said), "{what}");
            assert_eq!(all_wide(&tx, &one)?, all_wide(&tx, &many)?, "{what}");
            match rng.below(4) {
                0 => tx.rollback()?,
                1 => {
                    tx.rollback_to(saved)?;
                    tx.commit(Durability::Sync)?.wait()?;
                }
                _ => tx.commit(Durability::Sync)?.wait()?,
            }
            match rng.below(2) {
                0 => holder.rollback()?,
                _ => holder.commit(Durability::Sync)?.wait()?,
            }
            let look = db.begin(Isolation::ReadCommitted);
            assert_eq!(all_wide(&look, &one)?, all_wide(&look, &many)?, "{what}, afterwards");
            if rng.below(6) == 0 {
                db.clean()?;
            }
        }
        db.clean()?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed}");
        let db = crate::common::open::open_recovered(&vfs.crash(), crate::common::open::small(is_traditional()))?;
        let look = db.begin(Isolation::ReadCommitted);
        let find = |name| look.table("public", name).map(|table| table.expect("a table"));
        assert_eq!(all_wide(&look, &find("one")?)?, all_wide(&look, &find("many")?)?, "seed {seed}, after a crash");
        assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed}");
    }
    Ok(())
}
