//! What cursors and point reads find beside writers, against a plain map: leaves are split, emptied, merged, packed and taken from the front
//! meanwhile, and pages go out of memory and come back in other frames.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};

use crate::common::{key, row};
use crate::rng::Rng;

type Rows = BTreeMap<i64, (i64, usize)>;

/// Ids of a writer are those of its class, so that writers are in nobody's way.
const WRITERS: i64 = 3;
const READERS: u64 = 2;
const IDS: i64 = 4000;

fn options(bytes: usize) -> Options {
    Options {
        buffer_bytes: bytes,
        accelerated_database_recovery: std::env::var("RESURGAM_MODE").as_deref() != Ok("traditional"),
        cleaner_interval_s: 0.02,
        log_segment_bytes: 1 << 20,
        checkpoint_log_bytes: 1 << 20,
        ..Options::default()
    }
}

struct Shared {
    db: Database,
    table: Arc<Table>,
    /// What is committed. A commit changes it while it is locked, and so a snapshot is taken.
    rows: Mutex<Rows>,
    stop: AtomicBool,
}

fn note(len: usize) -> String {
    "x".repeat(len)
}

/// One transaction of a writer.
fn change(shared: &Shared, rng: &mut Rng, class: i64, grow: bool) -> Result<()> {
    let Shared { db, table, .. } = shared;
    let tx = db.begin(Isolation::ReadCommitted);
    let mut changes: Vec<(i64, Option<(i64, usize)>)> = Vec::new();
    let own: Rows =
        shared.rows.lock().iter().filter(|(id, _)| **id % WRITERS == class).map(|(i, r)| (*i, *r)).collect();
    let mut seen = own;
    let mut put = |seen: &mut Rows, id: i64, rng: &mut Rng| -> Result<()> {
        let (v, len) = (rng.below(1_000_000) as i64, rng.below(400) as usize);
        if seen.insert(id, (v, len)).is_some() {
            tx.statement(StatementKind::PointWrite)?;
            let text = note(len);
            let change = tx.update(table, &key(table, id)?, Seen::Snapshot, &row(id, v, &text))?.done()?;
            assert_eq!(change, Change::Done);
        } else {
            tx.insert(table, &row(id, v, &note(len)))?.done()?;
        }
        changes.push((id, Some((v, len))));
        Ok(())
    };
    let count = rng.range(1, 60) as i64;
    let random_id = |rng: &mut Rng| rng.below(IDS as u64) as i64 * WRITERS + class;
    match (rng.below(10), grow) {
        // A run, and single ones.
        (0..=3, true) => {
            let from = random_id(rng);
            for at in 0..count {
                put(&mut seen, (from + at * WRITERS) % (IDS * WRITERS), rng)?;
            }
        }
        (4..=7, true) => {
            for _ in 0..count {
                let id = random_id(rng);
                put(&mut seen, id, rng)?;
            }
        }
        (which, _) => {
            // Rows go: from the front, from the end, or from the middle.
            let going: Vec<i64> = match which % 3 {
                0 => seen.keys().take(count as usize * 3).copied().collect(),
                1 => seen.keys().rev().take(count as usize).copied().collect(),
                _ => seen.range(random_id(rng)..).map(|(id, _)| *id).take(count as usize * 3).collect(),
            };
            for id in going {
                tx.statement(StatementKind::PointWrite)?;
                assert_eq!(tx.delete(table, &key(table, id)?, Seen::Snapshot)?.done()?, Change::Done);
                changes.push((id, None));
            }
        }
    }
    if rng.one_in(10) {
        return tx.rollback();
    }
    let mut rows = shared.rows.lock();
    tx.commit(Durability::Async)?.wait()?;
    for (id, now) in changes {
        match now {
            Some(now) => rows.insert(id, now),
            None => rows.remove(&id),
        };
    }
    Ok(())
}

fn found(shared: &Shared, batch: &RowBatch, at: usize) -> Result<(i64, (i64, usize))> {
    let raw = batch.row(at);
    match (shared.table.column(raw, 0)?, shared.table.column(raw, 1)?, shared.table.column(raw, 2)?) {
        (DatumRef::Int8(id), DatumRef::Int8(v), DatumRef::Text(note)) => Ok((id, (v, note.len()))),
        other => panic!("{other:?}"),
    }
}

/// One snapshot, looked at in several ways.
fn look(shared: &Shared, rng: &mut Rng) -> Result<()> {
    let tx = shared.db.begin(Isolation::RepeatableRead);
    let (view, expected) = {
        let rows = shared.rows.lock();
        (tx.statement(StatementKind::Read)?, rows.clone())
    };
    let any_id = |rng: &mut Rng| rng.below((IDS * WRITERS) as u64 + 4) as i64 - 2;
    for _ in 0..6 {
        let (a, b) = (any_id(rng), any_id(rng));
        let (low, high) = (a.min(b), a.max(b));
        let bound = |rng: &mut Rng, id: i64| -> Result<(Bound<Vec<u8>>, Bound<i64>)> {
            Ok(match rng.below(3) {
                0 => (Bound::Unbounded, Bound::Unbounded),
                1 => (Bound::Included(key(&shared.table, id)?), Bound::Included(id)),
                _ => (Bound::Excluded(key(&shared.table, id)?), Bound::Excluded(id)),
            })
        };
        let (from, to) = (bound(rng, low)?, bound(rng, high.max(low + 1))?);
        let range = KeyRange { low: from.0, high: to.0 };
        let wanted: Vec<(i64, (i64, usize))> = expected.range((from.1, to.1)).map(|(id, row)| (*id, *row)).collect();
        assert_eq!(view.count(&shared.table, range.clone())?, wanted.len() as u64, "count of {range:?}");
        // Again: of what it has passed before it knows more.
        assert_eq!(view.count(&shared.table, range.clone())?, wanted.len() as u64, "second count of {range:?}");
        for direction in [Direction::Forward, Direction::Backward] {
            let (mut rows, mut rest) = (Vec::new(), Some(range.clone()));
            while let Some(range) = rest.take() {
                let mut batch = RowBatch::default();
                rest = view.first_rows(&shared.table, range, direction, &mut batch, rng.range(1, 200) as usize)?;
                for at in 0..batch.len() {
                    rows.push(found(shared, &batch, at)?);
                }
            }
            if direction == Direction::Backward {
                rows.reverse();
            }
            assert_eq!(rows, wanted, "first rows of {range:?} {direction:?}");
            let mut cursor = view.scan(&shared.table, range.clone(), direction);
            let (mut batch, mut rows) = (RowBatch::default(), Vec::new());
            // Sometimes it is left before its end, and sometimes the rest is counted.
            let most = if rng.one_in(3) { rng.range(1, 50) as usize } else { usize::MAX };
            let mut rest = None;
            while rows.len() < most {
                batch.clear();
                if !cursor.next_batch(&mut batch, rng.range(1, 200) as usize)? {
                    break;
                }
                for at in 0..batch.len() {
                    rows.push(found(shared, &batch, at)?);
                }
                if rng.one_in(20) {
                    rest = Some(cursor.count()?);
                    break;
                }
            }
            let inside: Vec<_> = match direction {
                Direction::Forward => wanted.iter().copied().take(rows.len()).collect(),
                Direction::Backward => wanted.iter().rev().copied().take(rows.len()).collect(),
            };
            assert_eq!(rows, inside, "{range:?} {direction:?}");
            match rest {
                Some(rest) => assert_eq!(rows.len() as u64 + rest, wanted.len() as u64, "{range:?} {direction:?}"),
                None if most == usize::MAX => assert_eq!(rows.len(), wanted.len(), "{range:?} {direction:?}"),
                None => {}
            }
        }
    }
    let mut buf = RowBuf::default();
    for _ in 0..100 {
        let id = any_id(rng);
        let there = view.get(&shared.table, &key(&shared.table, id)?, &mut buf)?;
        let row = match there {
            true => match (shared.table.column(buf.raw(), 1)?, shared.table.column(buf.raw(), 2)?) {
                (DatumRef::Int8(v), DatumRef::Text(note)) => Some((v, note.len())),
                other => panic!("{other:?}"),
            },
            false => None,
        };
        assert_eq!(row, expected.get(&id).copied(), "row {id}");
    }
    Ok(())
}

/// Runs writers and readers beside each other for so many transactions of each writer.
pub fn run(seed: u64, transactions: usize, pages: usize) -> Result<()> {
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(seed));
    let db = Database::open_with(vfs, Path::new("/db"), options(pages * limits::PAGE_SIZE), |_| {})?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("v", ColumnType::Int8);
    let table = tx.create_table(spec.column("note", ColumnType::Text).primary_key(&["id"]))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let shared = Shared { db, table, rows: Mutex::default(), stop: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let shared = &shared;
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                scope.spawn(move || -> Result<()> {
                    let mut rng = Rng::new(seed << 8 | reader);
                    while !shared.stop.load(Ordering::Relaxed) {
                        look(shared, &mut rng)?;
                    }
                    look(shared, &mut rng)
                })
            })
            .collect();
        let writers: Vec<_> = (0..WRITERS)
            .map(|class| {
                scope.spawn(move || -> Result<()> {
                    let mut rng = Rng::new(seed << 16 | class as u64);
                    for at in 0..transactions {
                        // It grows for a while, and shrinks for a while.
                        change(shared, &mut rng, class, at / 60 % 3 != 2)?;
                    }
                    Ok(())
                })
            })
            .collect();
        // Rows are put together on fewer leaves all the time.
        let packer = scope.spawn(move || -> Result<()> {
            while !shared.stop.load(Ordering::Relaxed) {
                shared.db.pack()?;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Ok(())
        });
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        shared.stop.store(true, Ordering::Relaxed);
        let read: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        for ended in written.into_iter().chain(read).chain([packer.join()]) {
            match ended {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<(), Error>(())
    })?;
    assert_eq!(shared.db.verify()?, Vec::<String>::new());
    shared.db.close()
}
