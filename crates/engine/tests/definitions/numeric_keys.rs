//! Numerics that show digits of their own, as keys of the clustered tree and of indexes: random values beside a
//! comparison of their decimal texts, which shares nothing with the encoding.

use std::cmp::Ordering;

use resurgam_engine::*;
use resurgam_numeric::Numeric;
use resurgam_vfs::SimVfs;

use crate::common::open::{is_traditional, open_as, small_log};

fn open(vfs: &SimVfs) -> Result<Database> {
    open_as(vfs, small_log(is_traditional()))
}

/// A sequence without a pattern (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Plain digits, with zeros at the ends, and the values that are no numbers.
    fn text(&mut self) -> String {
        let digits = |random: &mut Self, most: u64| -> String {
            (0..random.below(most)).map(|_| char::from(b'0' + random.below(10) as u8)).collect()
        };
        let sign = if self.below(2) == 0 { "-" } else { "" };
        match self.below(12) {
            0 => ["NaN", "Infinity", "-Infinity"][self.below(3) as usize].to_owned(),
            // Few values, of many scales.
            1..=4 => format!("{sign}{}.{}{}", self.below(3), self.below(3), "0".repeat(self.below(5) as usize)),
            5 => format!("{sign}0.{}{}", "0".repeat(self.below(40) as usize), digits(self, 40)),
            6 => format!("{sign}1{}{}", digits(self, 60), "0".repeat(self.below(60) as usize)),
            _ => format!("{sign}{}.{}", self.below(1000), digits(self, 30)),
        }
    }
}

/// Order of two such texts, by their digits.
fn compare(a: &str, b: &str) -> Ordering {
    fn rank(text: &str) -> i32 {
        match text {
            "-Infinity" => -2,
            "Infinity" => 2,
            "NaN" => 3,
            text if !text.contains(|c: char| ('1'..='9').contains(&c)) => 0,
            text if text.starts_with('-') => -1,
            _ => 1,
        }
    }
    fn parts(text: &str) -> (&str, &str) {
        let text = text.trim_start_matches('-');
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        (whole.trim_start_matches('0'), fraction.trim_end_matches('0'))
    }
    rank(a).cmp(&rank(b)).then_with(|| {
        if rank(a).abs() != 1 {
            return Ordering::Equal;
        }
        let ((a_whole, a_fraction), (b_whole, b_fraction)) = (parts(a), parts(b));
        let size = a_whole.len().cmp(&b_whole.len()).then(a_whole.cmp(b_whole)).then(a_fraction.cmp(b_fraction));
        if rank(a) < 0 { size.reverse() } else { size }
    })
}

fn encoded(text: &str) -> Vec<u8> {
    text.parse::<Numeric>().expect(text).encoded()
}

fn shown(datum: DatumRef<'_>) -> String {
    match datum {
        DatumRef::Bytes(bytes) => Numeric::decode(bytes).expect("a numeric").to_string(),
        other => panic!("{other:?}"),
    }
}

/// Both columns of all rows, in the order of a tree.
fn rows(db: &Database, index: Option<usize>, direction: Direction) -> Result<Vec<(String, String)>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?.expect("table");
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = match index {
        None => view.scan(&table, KeyRange::all(), direction),
        Some(index) => view.scan_index(&table, index, KeyRange::all(), direction),
    };
    let (mut batch, mut rows) = (RowBatch::default(), Vec::new());
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 7)? {
            return Ok(rows);
        }
        for at in 0..batch.len() {
            let raw = batch.row(at);
            rows.push((shown(table.column(raw, 0)?), shown(table.column(raw, 1)?)));
        }
    }
}

#[test]
fn keys_are_in_the_order_of_values_and_rows_show_their_digits() -> Result<()> {
    let mut vfs = SimVfs::new(3);
    let mut db = open(&vfs)?;
    let limit = Some(NumericLimit { precision: 1000, scale: 500 });
    let mut spec = TableSpec::new("public", "t")
        .column("k", ColumnType::VarNumeric(None))
        .column("v", ColumnType::VarNumeric(limit))
        .primary_key(&["k"])
        .index("by_v", &["v", "k"], false);
    spec.indexes[0].orders = vec![ColumnOrder::DESCENDING];
    let tx = db.begin(Isolation::ReadCommitted);
    tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;

    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    // What is there, by the reference.
    let mut model: Vec<(String, String)> = Vec::new();
    let (mut duplicates, mut rewritten) = (0, 0);
    for round in 0..600 {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "t")?.expect("table");
        let (k, v) = (random.text(), random.text());
        // As it is printed: a zero has no sign, and there are digits before the point.
        let print = |text: &str| text.parse::<Numeric>().expect("a number").to_string();
        let (k, v) = (print(&k), print(&v));
        let there = model.iter().position(|(known, _)| compare(known, &k).is_eq());
        let (key, value) = (encoded(&k), encoded(&v));
        let row = [DatumRef::Bytes(&key), DatumRef::Bytes(&value)];
        match (there, tx.insert(&table, &row)) {
            (None, Ok(attempt)) => {
                attempt.done()?;
                model.push((k, v));
            }
            (Some(at), Err(error)) if error.kind() == ErrorKind::UniqueViolation => {
                duplicates += 1;
                tx.rollback()?;
                // The same key, with the digits of the new one: the row stays where it is.
                let tx = db.begin(Isolation::ReadCommitted);
                let table = tx.table("public", "t")?.expect("table");
                tx.statement(StatementKind::BulkWrite)?;
                let mut stored = Vec::new();
                table.encode_key(&[row[0]], &mut stored)?;
                let changed = tx.update(&table, &stored, Seen::Snapshot, &row)?.done()?;
                assert_eq!(changed, Change::Done, "{k}");
                tx.commit(Durability::Sync)?.wait()?;
                rewritten += usize::from(model[at].0 != k);
                model[at] = (k, v);
                continue;
            }
            (there, outcome) => panic!("{k} beside {:?}: {:?}", there.map(|at| &model[at]), outcome.err()),
        }
        tx.commit(Durability::Sync)?.wait()?;
        if round % 150 == 149 {
            // The power goes; what was committed is there.
            vfs = vfs.crash();
            drop(db);
            db = open(&vfs)?;
        }
    }
    assert!(duplicates > 50 && rewritten > 20 && model.len() > 200, "{duplicates} {rewritten} {}", model.len());

    model.sort_by(|a, b| compare(&a.0, &b.0));
    assert_eq!(rows(&db, None, Direction::Forward)?, model);
    let backward: Vec<_> = model.iter().rev().cloned().collect();
    assert_eq!(rows(&db, None, Direction::Backward)?, backward);
    model.sort_by(|a, b| compare(&b.1, &a.1).then(compare(&a.0, &b.0)));
    assert_eq!(rows(&db, Some(0), Direction::Forward)?, model);
    Ok(())
}

/// More digits than a row holds are kept as large values; more than a key holds are refused there.
#[test]
fn long_numerics() -> Result<()> {
    let vfs = SimVfs::new(4);
    let db = open(&vfs)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let plain = TableSpec::new("public", "plain").column("v", ColumnType::VarNumeric(None));
    let keyed = TableSpec::new("public", "keyed").column("v", ColumnType::VarNumeric(None)).primary_key(&["v"]);
    let (plain, keyed) = (tx.create_table(plain)?.done()?, tx.create_table(keyed)?.done()?);
    let long = encoded(&format!("{}.{}", "7".repeat(131_072), "3".repeat(16_383)));
    let short = encoded(&format!("1{}", "0".repeat(131_071)));
    tx.insert(&plain, &[DatumRef::Bytes(&long)])?.done()?;
    tx.insert(&keyed, &[DatumRef::Bytes(&short)])?.done()?;
    let refused = tx.insert(&keyed, &[DatumRef::Bytes(&long)]).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded);
    tx.commit(Durability::Sync)?.wait()?;
    let vfs = vfs.crash();
    drop(db);

    let db = open(&vfs)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "plain")?.expect("table");
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let mut batch = RowBatch::default();
    assert!(cursor.next_batch(&mut batch, 7)?);
    let DatumRef::External(reference) = table.column(batch.row(0), 0)? else { panic!("a large value") };
    assert_eq!(view.read_external(reference)?, long);
    Ok(())
}
