//! Rows around the longest that a page takes whole: with keys of any length they are inserted, changed, moved, deleted, rolled back, cleaned
//! and packed, in both modes, and what is too long is outside exactly where it would not fit.

use std::collections::BTreeMap;

use resurgam_base::limits::{KEY_BYTES_MAX, PAGE_SIZE, RECORD_BYTES_MAX};
use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::give_back::{large, remove};
use crate::support::{commit, create, delete, insert, note, open_as, options, table, update, verify};

/// Longest text in a key of one column: marker, and the end.
const KEY_MAX: usize = KEY_BYTES_MAX - 3;

/// Longest note that stays in a row of this key: what a record has besides, the number of columns, which are NULL, `n`, and the note's end.
fn note_max(key: &str) -> usize {
    RECORD_BYTES_MAX - 32 - (key.len() + 3) - (2 + 1 + 8 + 2)
}

type Model = BTreeMap<String, (i64, String)>;

fn keyed(db: &Database) -> Result<()> {
    commit(db, |tx| {
        let spec = TableSpec::new("public", "t")
            .column("k", ColumnType::Text)
            .column("n", ColumnType::Int8)
            .column("note", ColumnType::Text);
        tx.create_table(spec.primary_key(&["k"]))?.done().map(drop)
    })
}

fn encoded(table: &Table, key: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    table.encode_key(&[DatumRef::Text(key)], &mut bytes)?;
    Ok(bytes)
}

fn put(tx: &Transaction, key: &str, n: i64, note: &str) -> Result<()> {
    tx.insert(&table(tx)?, &[DatumRef::Text(key), DatumRef::Int8(n), DatumRef::Text(note)])?.done()
}

fn set(tx: &Transaction, key: &str, to: &str, n: i64, note: &str) -> Result<()> {
    let table = table(tx)?;
    tx.statement(StatementKind::PointWrite)?;
    let row = [DatumRef::Text(to), DatumRef::Int8(n), DatumRef::Text(note)];
    assert_eq!(tx.update(&table, &encoded(&table, key)?, Seen::Snapshot, &row)?.done()?, Change::Done);
    Ok(())
}

/// Gives a row another `n`, and passes its note on as it is stored.
fn set_n(tx: &Transaction, key: &str, n: i64) -> Result<()> {
    let table = table(tx)?;
    let view = tx.statement(StatementKind::PointWrite)?;
    let (mut row, bytes) = (RowBuf::default(), encoded(&table, key)?);
    assert!(view.get(&table, &bytes, &mut row)?);
    let new = [DatumRef::Text(key), DatumRef::Int8(n), table.column(row.raw(), 2)?];
    assert_eq!(tx.update(&table, &bytes, Seen::Snapshot, &new)?.done()?, Change::Done);
    Ok(())
}

fn take(tx: &Transaction, key: &str) -> Result<()> {
    let table = table(tx)?;
    tx.statement(StatementKind::PointWrite)?;
    assert_eq!(tx.delete(&table, &encoded(&table, key)?, Seen::Snapshot)?.done()?, Change::Done);
    Ok(())
}

/// A row as `tx` sees it, and whether its note is in it.
fn row_of(tx: &Transaction, key: &str) -> Result<Option<(i64, String, bool)>> {
    let table = table(tx)?;
    let view = tx.statement(StatementKind::Read)?;
    let mut row = RowBuf::default();
    if !view.get(&table, &encoded(&table, key)?, &mut row)? {
        return Ok(None);
    }
    read(&table, &view, row.raw()).map(Some)
}

fn read(table: &Table, view: &ReadView, row: RawRow<'_>) -> Result<(i64, String, bool)> {
    let DatumRef::Int8(n) = table.column(row, 1)? else { panic!("no number") };
    text_of(table, view, row, 2).map(|(note, in_row)| (n, note, in_row))
}

/// A text, and whether it is in the row.
fn text_of(table: &Table, view: &ReadView, row: RawRow<'_>, column: usize) -> Result<(String, bool)> {
    Ok(match table.column(row, column)? {
        DatumRef::Text(text) => (text.to_owned(), true),
        DatumRef::External(large) => (String::from_utf8(view.read_external(large)?).expect("text"), false),
        other => panic!("{other:?}"),
    })
}

fn all(tx: &Transaction) -> Result<Model> {
    let table = table(tx)?;
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut rows, mut batch) = (Model::new(), RowBatch::default());
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 7)? {
            return Ok(rows);
        }
        for i in 0..batch.len() {
            let (key, _) = text_of(&table, &view, batch.row(i), 0)?;
            let (n, note, _) = read(&table, &view, batch.row(i))?;
            assert!(rows.insert(key, (n, note)).is_none(), "a row comes twice");
        }
    }
}

fn compare(found: &Model, expected: &Model, what: &str) {
    let brief = |row: Option<&(i64, String)>| row.map(|(n, note)| (*n, note.len()));
    for key in found.keys().chain(expected.keys()) {
        let (found, expected) = (found.get(key), expected.get(key));
        assert!(
            found == expected,
            "{what}: the row of a key of {} bytes is {:?} and should be {:?}",
            key.len(),
            brief(found),
            brief(expected)
        );
    }
}

/// Writes a note, given as text, and looks where it is.
fn assert_in_row(tx: &Transaction, key: &str, what: &str) -> Result<()> {
    let (_, note, in_row) = row_of(tx, key)?.expect("the row");
    let fits = note.len() <= note_max(key);
    assert_eq!(in_row, fits, "{what}: a note of {} bytes with a key of {}", note.len(), key.len());
    Ok(())
}

fn in_both_modes(test: impl Fn(bool) -> Result<()>) -> Result<()> {
    test(false)?;
    test(true)
}

fn opened(vfs: &SimVfs, traditional: bool, short: u64) -> Result<Database> {
    let accelerated_database_recovery = !traditional;
    let options = Options { accelerated_database_recovery, short_rollback_operations: short, ..options() };
    open_as(vfs, options)
}

/// Rows at the bound, a byte below and a byte above it, many side by side on full pages: whatever is done to them in place has room.
#[test]
fn rows_of_exactly_the_bound() -> Result<()> {
    in_both_modes(|traditional| {
        for (round, (key_len, short)) in [(1, 200), (60, 0), (900, 200), (KEY_MAX, 0)].into_iter().enumerate() {
            let what = format!("traditional: {traditional}, keys of {key_len} bytes");
            let vfs = SimVfs::new(round as u64);
            let db = opened(&vfs, traditional, short)?;
            keyed(&db)?;
            let letters = (b'a'..=b'x').map(char::from);
            let keys: Vec<String> = letters.map(|letter| format!("{letter}{}", "k".repeat(key_len - 1))).collect();
            let text = |at: usize, seed: i64| note(seed, note_max(&keys[at]) + at % 3 - 1);
            let expected = |seed: i64| -> Model {
                (0..keys.len()).map(|at| (keys[at].clone(), (at as i64, text(at, seed + at as i64)))).collect()
            };
            let each = |tx: &Transaction, work: &dyn Fn(&Transaction, usize) -> Result<()>| {
                (0..keys.len()).try_for_each(|at| work(tx, at))
            };
            commit(&db, |tx| each(tx, &|tx, at| put(tx, &keys[at], at as i64, &text(at, at as i64))))?;
            let now = db.begin(Isolation::ReadCommitted);
            each(&now, &|tx, at| assert_in_row(tx, &keys[at], &what))?;
            now.rollback()?;
            let old = db.begin(Isolation::RepeatableRead);
            compare(&all(&old)?, &expected(0), &what);
            // Each by itself rolled back, and by going back to a savepoint; then committed, each over the one before.
            let replace = |seed: i64| {
                let (keys, text) = (&keys, &text);
                move |tx: &Transaction, at: usize| set(tx, &keys[at], &keys[at], at as i64, &text(at, seed + at as i64))
            };
            let touch = |tx: &Transaction, at: usize| set_n(tx, &keys[at], 1000 + at as i64);
            let shorten = |tx: &Transaction, at: usize| set(tx, &keys[at], &keys[at], at as i64, "short");
            let gone = |tx: &Transaction, at: usize| take(tx, &keys[at]);
            let between = |n: usize| format!("{}!", &keys[n % keys.len()][..1]).repeat(n / keys.len() + 1);
            let steps: [&dyn Fn(&Transaction, usize) -> Result<()>; 4] = [&replace(500), &touch, &shorten, &gone];
            for (number, step) in steps.into_iter().enumerate() {
                let tx = db.begin(Isolation::ReadCommitted);
                each(&tx, step)?;
                if number == 2 {
                    // What others put where there is room now must not keep the rows from coming back.
                    commit(&db, |tx| (0..60).try_for_each(|n| put(tx, &between(n), 7, "between")))?;
                }
                tx.rollback()?;
                if number == 2 {
                    commit(&db, |tx| (0..60).try_for_each(|n| take(tx, &between(n))))?;
                }
                let tx = db.begin(Isolation::ReadCommitted);
                let savepoint = tx.savepoint()?;
                each(&tx, step)?;
                tx.rollback_to(savepoint)?;
                compare(&all(&tx)?, &expected(0), &format!("{what}, step {number} taken back"));
                tx.commit(Durability::Sync)?.wait()?;
            }
            verify(&db, &what)?;
            commit(&db, |tx| each(tx, &touch))?;
            commit(&db, |tx| each(tx, &replace(500)))?;
            compare(&all(&old)?, &expected(0), &format!("{what}, an old snapshot"));
            commit(&db, |tx| {
                each(tx, &gone)?;
                each(tx, &|tx, at| put(tx, &keys[at], at as i64, &text(at, 900 + at as i64)))?;
                each(tx, &|tx, at| assert_in_row(tx, &keys[at], &what))
            })?;
            compare(&all(&old)?, &expected(0), &format!("{what}, an old snapshot"));
            db.clean()?;
            compare(&all(&old)?, &expected(0), &format!("{what}, an old snapshot, cleaned"));
            old.rollback()?;
            db.clean()?;
            verify(&db, &what)?;
            drop(db);
            let db = opened(&vfs.crash(), traditional, short)?;
            compare(&all(&db.begin(Isolation::ReadCommitted))?, &expected(900), &format!("{what}, after a crash"));
            commit(&db, |tx| each(tx, &gone))?;
            for _ in 0..3 {
                db.clean()?;
            }
            verify(&db, &what)?;
        }
        Ok(())
    })
}

/// Numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
    /// Of any length, many with begins of any length in common.
    fn key(&mut self) -> String {
        let len = match self.below(4) {
            0 => 1 + self.below(KEY_MAX),
            1 => KEY_MAX - self.below(30),
            _ => 1 + self.below(40),
        };
        let mut key = ["a", "b"][self.below(2)].repeat(self.below(len));
        while key.len() < len {
            key.push(char::from(b'a' + self.below(26) as u8));
        }
        key
    }
    fn note(&mut self, key: &str) -> String {
        let bound = note_max(key);
        let len = match self.below(8) {
            0 => self.below(40),
            1 => self.below(2500),
            2 => 2500 + self.below(15_000),
            _ => (bound + self.below(24)).saturating_sub(12),
        };
        note(self.below(1 << 30) as i64, len)
    }
}

fn pick(random: &mut Random, model: &Model) -> Option<String> {
    let skip = random.below(model.len());
    model.keys().nth(skip).cloned()
}

/// One statement on `tx`, which sees `own`.
fn step(tx: &Transaction, random: &mut Random, own: &mut Model, seed: u64) -> Result<()> {
    let n = random.below(1000) as i64;
    let what = random.below(20);
    let Some(key) = pick(random, own).filter(|_| what >= 7) else {
        let key = random.key();
        let note = random.note(&key);
        if own.contains_key(&key) {
            return Ok(());
        }
        put(tx, &key, n, &note)?;
        own.insert(key.clone(), (n, note));
        return assert_in_row(tx, &key, &format!("seed {seed}, inserted"));
    };
    match what {
        7..=11 => {
            let note = random.note(&key);
            set(tx, &key, &key, n, &note)?;
            own.insert(key.clone(), (n, note));
            assert_in_row(tx, &key, &format!("seed {seed}, changed"))
        }
        12..=13 => {
            set_n(tx, &key, n)?;
            own.get_mut(&key).expect("it is there").0 = n;
            Ok(())
        }
        14..=15 => {
            let to = random.key();
            let note = own[&key].1.clone();
            if own.contains_key(&to) {
                return Ok(());
            }
            set(tx, &key, &to, n, &note)?;
            own.remove(&key);
            own.insert(to.clone(), (n, note));
            assert_in_row(tx, &to, &format!("seed {seed}, moved"))
        }
        _ => {
            take(tx, &key)?;
            own.remove(&key);
            Ok(())
        }
    }
}

fn history(seed: u64) -> Result<()> {
    let mut random = Random(seed);
    let traditional = random.below(2) == 0;
    let versions = match random.below(4) {
        0 => VersionCaps { in_row: false, ..VersionCaps::default() },
        1 => VersionCaps { record_bytes_max: 1600, ..VersionCaps::default() },
        2 => VersionCaps { diff_bytes_max: 2000, ..VersionCaps::default() },
        _ => VersionCaps::default(),
    };
    let options = Options {
        accelerated_database_recovery: !traditional,
        short_rollback_operations: [0, 200][random.below(2)],
        versions,
        ..options()
    };
    let mut vfs = SimVfs::new(seed);
    let mut db = open_as(&vfs, options.clone())?;
    keyed(&db)?;
    let mut model = Model::new();
    let mut old: Option<(Transaction, Model)> = None;
    for round in 0..70 {
        let what = format!("seed {seed}, round {round}");
        let tx = db.begin(Isolation::ReadCommitted);
        let mut own = model.clone();
        for _ in 0..=random.below(14) {
            if random.below(6) > 0 {
                step(&tx, &mut random, &mut own, seed)?;
                continue;
            }
            let (savepoint, mut within) = (tx.savepoint()?, own.clone());
            for _ in 0..=random.below(5) {
                step(&tx, &mut random, &mut within, seed)?;
            }
            if random.below(2) == 0 {
                tx.rollback_to(savepoint)?;
            } else {
                own = within;
            }
        }
        compare(&all(&tx)?, &own, &format!("{what}, its own"));
        if random.below(5) < 3 {
            tx.commit(Durability::Sync)?.wait()?;
            model = own;
        } else {
            tx.rollback()?;
        }
        compare(&all(&db.begin(Isolation::ReadCommitted))?, &model, &what);
        match random.below(12) {
            0 | 1 => drop(db.clean()?),
            2 => drop(db.pack()?),
            3 => db.evict_pages(),
            4 => {
                old = None;
                drop(db);
                vfs = vfs.crash();
                db = open_as(&vfs, options.clone())?;
                compare(&all(&db.begin(Isolation::ReadCommitted))?, &model, &format!("{what}, after a crash"));
            }
            5 | 6 => {
                let tx = db.begin(Isolation::RepeatableRead);
                compare(&all(&tx)?, &model, &what);
                old = Some((tx, model.clone()));
            }
            _ => {}
        }
        if let Some((tx, seen)) = &old {
            compare(&all(tx)?, seen, &format!("{what}, an old snapshot"));
        }
        if round % 10 == 9 {
            verify(&db, &what)?;
        }
    }
    drop(old);
    for _ in 0..3 {
        commit(&db, |tx| put(tx, "~", 0, "moves the horizon"))?;
        commit(&db, |tx| take(tx, "~"))?;
        db.clean()?;
    }
    compare(&all(&db.begin(Isolation::ReadCommitted))?, &model, &format!("seed {seed}, cleaned"));
    verify(&db, &format!("seed {seed}"))
}

/// `RESURGAM_SEED=s` replays one; `RESURGAM_SCHEDULES=n` runs so many.
#[test]
fn histories() -> Result<()> {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = variable("RESURGAM_SEED") {
        return history(seed);
    }
    (1..=variable("RESURGAM_SCHEDULES").unwrap_or(12)).try_for_each(history)
}

/// Rows of 1,940 bytes of text are four to a page, and again when every second one is gone and pages were packed.
#[test]
fn four_to_a_page() -> Result<()> {
    const ROWS: i64 = 4000;
    let sim = SimVfs::new(1);
    let db = open_as(&sim, large())?;
    // What is free is known then.
    db.finish_recovery()?;
    create(&db)?;
    let of_a_row = |rows: i64| db.stats().space.high_water * PAGE_SIZE as u64 / rows as u64;
    for from in (0..ROWS).step_by(500) {
        commit(&db, |tx| (from..from + 500).try_for_each(|id| insert(tx, id, &note(id, 1940))))?;
        db.checkpoint()?;
    }
    assert!(of_a_row(ROWS) < 2200, "{} bytes a row", of_a_row(ROWS));
    remove(&db, (0..ROWS).filter(|id| id % 2 == 0))?;
    db.clean()?;
    assert!(of_a_row(ROWS / 2) < 2400, "{} bytes a row", of_a_row(ROWS / 2));
    verify(&db, "packed")?;
    // A page that is packed has room for the versions of its rows.
    let leaves = db.stats().space.high_water;
    let n = |id: i64| {
        let mut text = note(id, 1940);
        text.replace_range(900..902, "!!");
        text
    };
    commit(&db, |tx| (1..ROWS).step_by(2).try_for_each(|id| update(tx, id, &n(id)).map(drop)))?;
    assert!(
        db.stats().space.high_water <= leaves + leaves / 50,
        "{} pages, then {}",
        leaves,
        db.stats().space.high_water
    );
    commit(&db, |tx| (1..ROWS).step_by(2).try_for_each(|id| delete(tx, id).map(drop)))?;
    verify(&db, "deleted")
}

/// A value that is outside and would fit stays there when it is passed on, and comes in when it is given anew; one that an
/// earlier program moved out is such a value.
#[test]
fn values_that_are_outside_already() -> Result<()> {
    in_both_modes(|traditional| {
        let vfs = SimVfs::new(5);
        let db = opened(&vfs, traditional, 0)?;
        commit(&db, |tx| {
            let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8);
            let spec = spec.column("a", ColumnType::Text).column("b", ColumnType::Text);
            tx.create_table(spec.primary_key(&["id"]).index("on_a", &["a"], false))?.done().map(drop)
        })?;
        let (long, pad) = (note(1, 1600), note(2, 1000));
        commit(&db, |tx| {
            tx.insert(&table(tx)?, &[DatumRef::Int8(1), DatumRef::Text(&long), DatumRef::Text(&pad)])?.done()
        })?;
        let change = |a: Option<&str>, b: &str| {
            commit(&db, |tx| {
                let table = table(tx)?;
                let view = tx.statement(StatementKind::PointWrite)?;
                let (mut row, mut key) = (RowBuf::default(), Vec::new());
                table.encode_key(&[DatumRef::Int8(1)], &mut key)?;
                assert!(view.get(&table, &key, &mut row)?);
                let a = a.map_or(table.column(row.raw(), 1), |a| Ok(DatumRef::Text(a)))?;
                let new = [DatumRef::Int8(1), a, DatumRef::Text(b)];
                assert_eq!(tx.update(&table, &key, Seen::Snapshot, &new)?.done()?, Change::Done);
                Ok(())
            })
        };
        let is_outside = || -> Result<bool> {
            let tx = db.begin(Isolation::ReadCommitted);
            let table = table(&tx)?;
            let view = tx.statement(StatementKind::Read)?;
            let (mut row, mut key) = (RowBuf::default(), Vec::new());
            table.encode_key(&[DatumRef::Int8(1)], &mut key)?;
            assert!(view.get(&table, &key, &mut row)?);
            match table.column(row.raw(), 1)? {
                DatumRef::Text(text) => {
                    assert_eq!(text, long);
                    Ok(false)
                }
                DatumRef::External(large) => {
                    assert_eq!(view.read_external(large)?, long.as_bytes());
                    Ok(true)
                }
                other => panic!("{other:?}"),
            }
        };
        assert!(is_outside()?);
        change(None, "")?;
        assert!(is_outside()?, "passed on");
        change(Some(&long), "")?;
        assert!(!is_outside()?, "given anew");
        change(None, &pad)?;
        assert!(is_outside()?, "it does not fit any more");
        change(Some(&long), "x")?;
        assert!(!is_outside()?, "given anew");
        // Written anew with its index, whose entry is made of the value.
        change(None, &pad)?;
        for commits in [false, true] {
            let tx = db.begin(Isolation::ReadCommitted);
            tx.statement(StatementKind::PointWrite)?;
            tx.alter_table(&table(&tx)?, TableChange::DropPrimaryKey)?.done()?;
            if commits {
                tx.commit(Durability::Sync)?.wait()?
            } else {
                tx.rollback()?
            }
            for _ in 0..4 {
                db.clean()?;
            }
            assert_eq!(db.pending_frees_len()?, 0);
            verify(&db, &format!("written anew: {commits}"))?;
        }
        Ok(())
    })
}

/// Of a row of short columns nothing moves out: it may be a little longer than others, and then its versions are off-row; longer it is refused.
#[test]
fn short_columns_alone() -> Result<()> {
    const COLUMNS: usize = 16;
    in_both_modes(|traditional| {
        let vfs = SimVfs::new(6);
        let db = opened(&vfs, traditional, 0)?;
        commit(&db, |tx| {
            let spec = TableSpec::new("public", "t").column("k", ColumnType::Text);
            let spec = (0..COLUMNS).fold(spec, |spec, at| spec.column(&format!("c{at}"), ColumnType::Text));
            tx.create_table(spec.primary_key(&["k"]))?.done().map(drop)
        })?;
        let texts = |seed: i64| (0..COLUMNS as i64).map(|at| note(seed + at, 60)).collect::<Vec<_>>();
        let room = RECORD_BYTES_MAX - 21 - (2 + 2 + 2 * COLUMNS + 60 * COLUMNS) - 3;
        let (fits, too_long) = ("f".repeat(room), "t".repeat(room + 1));
        let row = |key: &str, texts: &[String], work: &mut dyn FnMut(&[DatumRef<'_>]) -> Result<()>| {
            let mut row = vec![DatumRef::Text(key)];
            row.extend(texts.iter().map(|text| DatumRef::Text(text)));
            work(&row)
        };
        let inserted = |tx: &Transaction, key: &str, seed: i64| {
            row(key, &texts(seed), &mut |row| tx.insert(&table(tx)?, row)?.done())
        };
        let changed = |tx: &Transaction, seed: i64| {
            row(&fits, &texts(seed), &mut |row| {
                let table = table(tx)?;
                tx.statement(StatementKind::PointWrite)?;
                assert_eq!(tx.update(&table, &encoded(&table, &fits)?, Seen::Snapshot, row)?.done()?, Change::Done);
                Ok(())
            })
        };
        commit(&db, |tx| {
            inserted(tx, &fits, 1)?;
            let refused = inserted(tx, &too_long, 1).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::LimitExceeded, "{refused}");
            // Among others as well.
            let texts = texts(1);
            row(&too_long, &texts, &mut |row| {
                let refused = tx.insert_many(&table(tx)?, &[row], &mut 0).map(drop).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::LimitExceeded, "{refused}");
                Ok(())
            })
        })?;
        let old = db.begin(Isolation::RepeatableRead);
        let first = |tx: &Transaction| -> Result<Option<String>> {
            let table = table(tx)?;
            let view = tx.statement(StatementKind::Read)?;
            let mut row = RowBuf::default();
            if !view.get(&table, &encoded(&table, &fits)?, &mut row)? {
                return Ok(None);
            }
            let DatumRef::Text(text) = table.column(row.raw(), 1)? else { panic!("no text") };
            Ok(Some(text.to_owned()))
        };
        assert_eq!(first(&old)?, Some(note(1, 60)));
        commit(&db, |tx| changed(tx, 100))?;
        let tx = db.begin(Isolation::ReadCommitted);
        changed(&tx, 200)?;
        take(&tx, &fits)?;
        tx.rollback()?;
        assert_eq!(first(&db.begin(Isolation::ReadCommitted))?, Some(note(100, 60)));
        commit(&db, |tx| take(tx, &fits))?;
        assert_eq!((first(&old)?, first(&db.begin(Isolation::ReadCommitted))?), (Some(note(1, 60)), None));
        old.rollback()?;
        db.clean()?;
        verify(&db, "at the end")
    })
}

/// A table that is clustered anew, on longer keys: what fitted beside its row's number does not fit beside those.
#[test]
fn a_longer_key() -> Result<()> {
    in_both_modes(|traditional| {
        let vfs = SimVfs::new(7);
        let db = opened(&vfs, traditional, 0)?;
        commit(&db, |tx| {
            let spec = TableSpec::new("public", "t")
                .column("k", ColumnType::Text)
                .column("n", ColumnType::Int8)
                .column("note", ColumnType::Text);
            tx.create_table(spec)?.done().map(drop)
        })?;
        let key = |n: i64| format!("{n:04}{}", "k".repeat((n as usize * 13) % 1700));
        let expected: Model = (0..200).map(|n| (key(n), (n, note(n, (n as usize * 97) % 2100)))).collect();
        // Those with short keys fit: the row has an id as its key.
        commit(&db, |tx| {
            let mut load = tx.load(&table(tx)?);
            for (key, (n, note)) in &expected {
                load.push(&[DatumRef::Text(key), DatumRef::Int8(*n), DatumRef::Text(note)])?.done()?;
            }
            load.flush()?.done()
        })?;
        compare(&all(&db.begin(Isolation::ReadCommitted))?, &expected, "loaded");
        commit(&db, |tx| {
            tx.statement(StatementKind::PointWrite)?;
            let change = TableChange::AddPrimaryKey { name: "t_pkey".into(), columns: vec![0] };
            tx.alter_table(&table(tx)?, change)?.done().map(drop)
        })?;
        verify(&db, "clustered anew")?;
        compare(&all(&db.begin(Isolation::ReadCommitted))?, &expected, "clustered anew");
        // Each can be changed, and comes back.
        let tx = db.begin(Isolation::ReadCommitted);
        expected.iter().try_for_each(|(key, (n, note))| set(&tx, key, key, n + 1, note))?;
        expected.keys().step_by(2).try_for_each(|key| take(&tx, key))?;
        tx.rollback()?;
        compare(&all(&db.begin(Isolation::ReadCommitted))?, &expected, "rolled back");
        commit(&db, |tx| {
            tx.statement(StatementKind::PointWrite)?;
            tx.alter_table(&table(tx)?, TableChange::DropPrimaryKey)?.done().map(drop)
        })?;
        compare(&all(&db.begin(Isolation::ReadCommitted))?, &expected, "clustered by ids");
        for _ in 0..3 {
            db.clean()?;
        }
        verify(&db, "at the end")
    })
}

/// Rows that are inserted together are where they are when they are inserted one by one.
#[test]
fn loads_move_out_the_same() -> Result<()> {
    let vfs = SimVfs::new(8);
    let db = opened(&vfs, false, 0)?;
    keyed(&db)?;
    let key = |n: usize| format!("{n:05}{}", "k".repeat(n % 7));
    let text = |n: usize| note(n as i64, note_max(&key(n)) + n % 5 - 2);
    commit(&db, |tx| {
        let mut load = tx.load(&table(tx)?);
        for n in 0..300 {
            load.push(&[DatumRef::Text(&key(n)), DatumRef::Int8(n as i64), DatumRef::Text(&text(n))])?.done()?;
        }
        load.flush()?.done()?;
        (0..300).try_for_each(|n| assert_in_row(tx, &key(n), "loaded"))
    })?;
    let expected: Model = (0..300).map(|n| (key(n), (n as i64, text(n)))).collect();
    compare(&all(&db.begin(Isolation::ReadCommitted))?, &expected, "loaded");
    assert!(db.stats().rows_inserted_in_runs > 0);
    verify(&db, "loaded")
}
