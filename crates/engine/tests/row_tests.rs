//! A cursor that is told a test gives the rows that satisfy it, in any batches: beside one without, over versions that only old snapshots see.

mod common;

use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use common::open::{is_traditional, open_as, small};

struct Random(u64);
impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % n as u64) as i64
    }
}

const MONEY: ColumnType = ColumnType::Numeric { precision: 15, scale: 2 };

fn row<'r>(random: &mut Random, id: i64, note: &'r str) -> [DatumRef<'r>; 6] {
    let mut unless = |datum: DatumRef<'r>| if random.below(8) == 0 { DatumRef::Null } else { datum };
    let n = id * 7919 % 100 - 50;
    [
        DatumRef::Int8(id),
        unless(DatumRef::Int4(n as i32)),
        unless(DatumRef::Date(n as i32 * 3)),
        DatumRef::Text(note),
        unless(DatumRef::Numeric(i128::from(n) * 101)),
        unless(DatumRef::TimestampTz(n * 1_000_000_007)),
    ]
}

fn number(datum: DatumRef<'_>) -> Option<i128> {
    Some(match datum {
        DatumRef::Int4(v) | DatumRef::Date(v) => v.into(),
        DatumRef::Int8(v) | DatumRef::TimestampTz(v) => v.into(),
        DatumRef::Numeric(v) => v,
        DatumRef::Null => return None,
        other => panic!("{other:?}"),
    })
}

fn rows(mut cursor: Cursor, table: &Table, batch: usize) -> Result<Vec<i64>> {
    let (mut rows, mut ids) = (RowBatch::default(), Vec::new());
    while cursor.next_batch(&mut rows, batch)? {
        for at in 0..rows.len() {
            ids.push(number(table.column(rows.row(at), 0)?).expect("a key") as i64);
        }
        rows.clear();
    }
    assert!(cursor.rest().is_none());
    Ok(ids)
}

#[test]
fn a_test_gives_what_satisfies_it() -> Result<()> {
    let db = open_as(&SimVfs::new(1), small(is_traditional()))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("n", ColumnType::Int4)
        .column("d", ColumnType::Date)
        .column("note", ColumnType::Text)
        .column("m", MONEY)
        .column("at", ColumnType::TimestampTz(Some(6)))
        .primary_key(&["id"]);
    let table = tx.create_table(spec)?.done()?;
    let mut random = Random(99);
    tx.statement(StatementKind::BulkWrite)?;
    let note = "n".repeat(40);
    for id in 0..3000 {
        tx.insert(&table, &row(&mut random, id, &note[..(id % 40) as usize]))?.done()?;
    }
    tx.commit(Durability::Async)?.wait()?;
    let old = db.begin(Isolation::RepeatableRead);
    let before = old.statement(StatementKind::Read)?;
    let tx = db.begin(Isolation::ReadCommitted);
    for _ in 0..700 {
        let id = random.below(3000);
        let mut key = Vec::new();
        table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        tx.statement(StatementKind::PointWrite)?;
        match random.below(3) {
            0 => drop(tx.delete(&table, &key, Seen::Snapshot)?.done()?),
            _ => drop(tx.update(&table, &key, Seen::Snapshot, &row(&mut random, id, "changed"))?.done()?),
        }
    }
    tx.commit(Durability::Async)?.wait()?;
    let new = db.begin(Isolation::RepeatableRead);
    let after = new.statement(StatementKind::Read)?;
    let mut rejected = 0;
    for _ in 0..300 {
        let view = if random.below(2) == 0 { &before } else { &after };
        let bounds: Vec<ColumnBounds> = (0..1 + random.below(3))
            .map(|_| {
                let (column, unit) = [(1, 1), (2, 3), (4, 101), (5, 1_000_000_007), (0, 1)][random.below(5) as usize];
                let mut bound = || i128::from(random.below(130) - 65) * unit + i128::from(random.below(3)) - 1;
                let (low, high) = (bound(), bound());
                let whole = random.below(4);
                ColumnBounds {
                    column,
                    low: if whole == 0 { i128::MIN } else { low },
                    high: if whole == 1 { i128::MAX } else { high },
                }
            })
            .collect();
        let direction = if random.below(2) == 0 { Direction::Forward } else { Direction::Backward };
        let scan = || view.scan(&table, KeyRange::all(), direction);
        // Of the key nothing is asked of the bytes.
        let asked = bounds.iter().filter(|bounds| bounds.column > 0);
        let mut expected = Vec::new();
        let (mut all, mut cursor) = (RowBatch::default(), scan());
        while cursor.next_batch(&mut all, 1000)? {}
        for at in 0..all.len() {
            let value = |column| table.column(all.row(at), column).map(number);
            let mut passes = true;
            for bounds in asked.clone() {
                passes &= value(bounds.column)?.is_some_and(|v| bounds.low <= v && v <= bounds.high);
            }
            if passes {
                expected.push(value(0)?.expect("a key") as i64);
            }
        }
        let Some(test) = RowTest::new(&table, bounds.iter().copied()) else {
            assert_eq!(asked.count(), 0);
            continue;
        };
        let test = Some(Arc::new(test));
        let mut cursor = scan();
        cursor.set_test(test.clone());
        assert_eq!(rows(cursor, &table, 1 + random.below(500) as usize)?, expected, "{bounds:?}");
        // Stopped somewhere, and gone on with by the rest of its range; the test is given up in between.
        let (mut cursor, mut some) = (scan(), RowBatch::default());
        cursor.set_test(test.clone());
        let more = cursor.next_batch(&mut some, 1 + random.below(100) as usize)?;
        let tested = cursor.take_tested();
        assert_eq!(tested.rows - tested.rejected, some.len() as u64);
        rejected += tested.rejected;
        let mut found: Vec<i64> = (0..some.len())
            .map(|at| Ok(number(table.column(some.row(at), 0)?).expect("a key") as i64))
            .collect::<Result<_>>()?;
        if let Some(rest) = cursor.rest().cloned().filter(|_| more) {
            let mut others = view.scan(&table, rest, direction);
            others.set_test(test);
            found.extend(rows(others, &table, 100)?);
        }
        assert_eq!(found, expected, "{bounds:?}");
    }
    assert!(rejected > 1000, "{rejected}");
    Ok(())
}
