//! Rows are followed to other primary keys, against a model of who is where.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{open_as, small_log};

const KEYS: i64 = 7;

fn open(vfs: &SimVfs, accelerated: bool) -> Result<Database> {
    open_as(vfs, small_log(!accelerated))
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as i64
    }
}

fn key(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

fn row(id: i64, who: i64, changes: i64) -> [DatumRef<'static>; 3] {
    [DatumRef::Int8(id), DatumRef::Int8(who), DatumRef::Int8(changes)]
}

/// Who is under which key, and how often that row was changed.
type Model = BTreeMap<i64, (i64, i64)>;

/// A few transactions that change, move, delete and insert rows, some of them taken back.
fn others(db: &Database, table: &Arc<Table>, model: &mut Model, next: &mut i64, random: &mut Random) -> Result<()> {
    for _ in 0..=random.below(4) {
        let tx = db.begin(Isolation::ReadCommitted);
        let mut now = model.clone();
        let mut savepoint = None;
        for _ in 0..=random.below(6) {
            let kind = if random.below(2) == 0 { StatementKind::PointWrite } else { StatementKind::BulkWrite };
            tx.statement(kind)?;
            let (at, to) = (random.below(KEYS), random.below(KEYS));
            match (random.below(8), now.get(&at).copied(), now.contains_key(&to)) {
                (0..=3, Some((who, changes)), false) => {
                    let done =
                        tx.update(table, &key(table, at)?, Seen::Snapshot, &row(to, who, changes + 1))?.done()?;
                    assert_eq!(done, Change::Done);
                    now.remove(&at);
                    now.insert(to, (who, changes + 1));
                }
                (4, Some((who, changes)), _) => {
                    let done =
                        tx.update(table, &key(table, at)?, Seen::Snapshot, &row(at, who, changes + 1))?.done()?;
                    assert_eq!(done, Change::Done);
                    now.insert(at, (who, changes + 1));
                }
                (5, Some(_), _) => {
                    assert_eq!(tx.delete(table, &key(table, at)?, Seen::Snapshot)?.done()?, Change::Done);
                    now.remove(&at);
                }
                (6, _, false) => {
                    *next += 1;
                    tx.insert(table, &row(to, *next, 0))?.done()?;
                    now.insert(to, (*next, 0));
                }
                (7, _, _) => match savepoint.take() {
                    None => savepoint = Some((tx.savepoint()?, now.clone())),
                    Some((savepoint, before)) => {
                        tx.rollback_to(savepoint)?;
                        now = before;
                    }
                },
                _ => {}
            }
        }
        if random.below(4) == 0 {
            tx.rollback()?;
        } else {
            tx.commit(Durability::Sync)?.wait()?;
            *model = now;
        }
    }
    Ok(())
}

fn follow(seed: u64, accelerated: bool) -> Result<usize> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let vfs = SimVfs::new(seed);
    let db = open(&vfs, accelerated)?;
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::BulkWrite)?;
    let spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("who", ColumnType::Int8)
        .column("changes", ColumnType::Int8)
        .primary_key(&["id"])
        .index("by_who", &["who"], true);
    let table = tx.create_table(spec)?.done()?;
    let (mut model, mut next) = (Model::new(), 0);
    for id in 0..KEYS - 2 {
        next += 1;
        tx.insert(&table, &row(id, next, 0))?.done()?;
        model.insert(id, (next, 0));
    }
    tx.commit(Durability::Sync)?.wait()?;
    let table = db.begin(Isolation::ReadCommitted).table("public", "t")?.expect("the table");
    let mut followed = 0;
    for round in 0..8 {
        others(&db, &table, &mut model, &mut next, &mut random)?;
        let follower = db.begin(Isolation::ReadCommitted);
        let view = follower.statement(StatementKind::BulkWrite)?;
        let mut seen: Vec<(i64, Vec<u8>, Trail)> = Vec::new();
        for (id, (who, _)) in &model {
            let key = key(&table, *id)?;
            assert!(view.get(&table, &key, &mut RowBuf::default())?);
            seen.push((*who, key, Trail::default()));
        }
        follower.lock_rows(&table)?.done()?;
        for step in 0..3 {
            others(&db, &table, &mut model, &mut next, &mut random)?;
            seen = seen
                .into_iter()
                .filter_map(|(who, key_then, mut trail)| {
                    let mut row = RowBuf::default();
                    let what = format!("seed {seed}, round {round}, step {step}: {who} in {model:?}");
                    let found = follower.successor(&table, &key_then, &mut trail, &mut row).expect("an answer");
                    let place = model.iter().find(|(_, (there, _))| *there == who);
                    assert_eq!(found.is_some(), place.is_some(), "{what}");
                    let (id, (_, changes)) = place?;
                    assert_eq!(row.raw().key, key(&table, *id).expect("a key"), "{what}");
                    assert_eq!(table.column(row.raw(), 1).expect("who"), DatumRef::Int8(who), "{what}");
                    assert_eq!(table.column(row.raw(), 2).expect("changes"), DatumRef::Int8(*changes), "{what}");
                    followed += usize::from(row.raw().key != key_then);
                    Some((who, row.raw().key.to_vec(), trail))
                })
                .collect();
        }
        drop(view);
        follower.rollback()?;
    }
    Ok(followed)
}

#[test]
fn rows_are_followed() -> Result<()> {
    let first: u64 = std::env::var("RESURGAM_SUCCESSOR_FIRST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("RESURGAM_SUCCESSOR_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(60);
    let mut followed = 0;
    for seed in first..first + count {
        for accelerated in [true, false] {
            followed += follow(seed, accelerated)?;
        }
    }
    assert!(followed > 100, "{followed}");
    Ok(())
}

/// A move that was rolled back leaves nothing but what is remembered of it, whatever has been forgotten of the transaction by then.
#[test]
fn a_move_that_was_rolled_back_is_not_followed_later() -> Result<()> {
    let options = Options {
        short_rollback_operations: 1 << 20,
        short_rollback_bytes: 1 << 30,
        log_segment_bytes: 4 << 20,
        ..small_log(false)
    };
    let db = open_as(&SimVfs::new(3), options)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("who", ColumnType::Int8)
        .column("changes", ColumnType::Int8)
        .primary_key(&["id"]);
    let table = tx.create_table(spec)?.done()?;
    tx.statement(StatementKind::PointWrite)?;
    tx.insert(&table, &row(1, 7, 0))?.done()?;
    tx.insert(&table, &row(50, 50, 0))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;

    let update = |tx: &Transaction, from: i64, new: [DatumRef<'_>; 3]| -> Result<()> {
        tx.statement(StatementKind::PointWrite)?;
        assert_eq!(tx.update(&table, &key(&table, from)?, Seen::Snapshot, &new)?.done()?, Change::Done);
        Ok(())
    };
    let waiting = db.begin(Isolation::ReadCommitted);
    let _view = waiting.statement(StatementKind::PointWrite)?;
    let moved = db.begin(Isolation::ReadCommitted);
    update(&moved, 1, row(2, 7, 1))?;
    moved.commit(Durability::Sync)?.wait()?;
    // It takes more ids than one part of the table of states has, and is undone.
    let back = db.begin(Isolation::ReadCommitted);
    for change in 0..20_000 {
        back.savepoint()?;
        if change == 10_000 {
            update(&back, 2, row(3, 7, 2))?;
        } else {
            update(&back, 50, row(50, 50, change))?;
        }
    }
    back.rollback()?;
    assert_eq!(db.stats().transactions.undone, 1, "by being undone");
    // What is known of its ids goes with a sweep.
    for _ in 0..3 {
        db.clean()?;
    }
    let (mut trail, mut found) = (Trail::default(), RowBuf::default());
    let seen = waiting.successor(&table, &key(&table, 1)?, &mut trail, &mut found)?;
    assert!(seen.is_some() && found.raw().key == key(&table, 2)?, "{seen:?}");
    Ok(())
}
