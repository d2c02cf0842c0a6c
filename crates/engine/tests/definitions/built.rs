//! Indexes and tables that are made of more rows than the memory for it holds: they are merged from runs in a temporary file, and what comes
//! of it is what a plain sort of all rows comes to.

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, OpenMode, SimVfs, Vfs};

use super::alter::nothing_left;

/// Memory for some rows of each table here.
const SMALL: usize = 4000;

fn open(vfs: &SimVfs, build_bytes: usize) -> Result<Database> {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = Options { background: false, buffer_bytes: 4 << 20, build_bytes, ..Options::default() };
    Database::open_with(vfs, Path::new("/db"), options, |_| {})
}

type Row = (i64, Option<i32>, Option<String>);

/// Some rows in no order: numbers that come again and that are missing, short and long texts, most of them with the same begin.
fn rows(count: i64) -> Vec<Row> {
    let row = |at: i64| {
        let id = at * 7919 % count;
        let n = (id % 11 != 3).then_some((id * 31 % 97) as i32 - 40);
        let text = (id % 13 != 5).then(|| match id % 5 {
            0 => format!("{}{}", "long ".repeat(60), id % 17),
            1 => String::new(),
            _ => format!("a common begin {:03}", id * 37 % 211),
        });
        (id, n, text)
    };
    (0..count).map(row).collect()
}

fn filled(db: &Database, rows: &[Row]) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "b")
        .column("id", ColumnType::Int8)
        .column("n", ColumnType::Int4)
        .column("t", ColumnType::Text);
    let table = tx.create_table(spec)?.done()?;
    tx.statement(StatementKind::BulkWrite)?;
    for (id, n, text) in rows {
        let n = n.map_or(DatumRef::Null, DatumRef::Int4);
        let text = text.as_deref().map_or(DatumRef::Null, DatumRef::Text);
        tx.insert(&table, &[DatumRef::Int8(*id), n, text])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()
}

fn table(tx: &Transaction) -> Result<Arc<Table>> {
    Ok(tx.table("public", "b")?.expect("the table is there"))
}

fn index(columns: &[usize], orders: &[ColumnOrder], unique: bool) -> IndexSpec {
    let name = format!("b_{columns:?}_{}_{unique}", orders.len());
    let spec = TableSpec::new("public", "b").index(&name, &[], unique).indexes.remove(0);
    IndexSpec { columns: columns.to_vec(), orders: orders.to_vec(), ..spec }
}

/// The rows as an index (`None`: the table) has them.
fn read(db: &Database, index: Option<usize>) -> Result<Vec<Row>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = table(&tx)?;
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = match index {
        None => view.scan(&table, KeyRange::all(), Direction::Forward),
        Some(at) => view.scan_index(&table, at, KeyRange::all(), Direction::Forward),
    };
    let (mut batch, mut all) = (RowBatch::default(), Vec::new());
    while cursor.next_batch(&mut batch, 100)? {
        for raw in (0..batch.len()).map(|i| batch.row(i)) {
            let id = match table.column(raw, 0)? {
                DatumRef::Int8(id) => id,
                other => panic!("{other:?}"),
            };
            let n = match table.column(raw, 1)? {
                DatumRef::Int4(n) => Some(n),
                _ => None,
            };
            let text = match table.column(raw, 2)? {
                DatumRef::Text(text) => Some(text.to_owned()),
                _ => None,
            };
            all.push((id, n, text));
        }
        batch.clear();
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(all)
}

fn is_sound(db: &Database) -> Result<()> {
    nothing_left(db, "built")
}

fn add_key(tx: &Transaction, columns: &[usize]) -> Result<Arc<Table>> {
    let change = TableChange::AddPrimaryKey { name: "b_pkey".into(), columns: columns.to_vec() };
    tx.alter_table(&table(tx)?, change)?.done()
}

/// Both with runs and all at once: NULLs first and last, descending, several columns, long keys.
#[test]
fn rows_are_in_the_order_of_a_plain_sort() -> Result<()> {
    let rows = rows(3001);
    for build_bytes in [SMALL, 0] {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, build_bytes)?;
        filled(&db, &rows)?;
        let tx = db.begin(Isolation::ReadCommitted);
        for spec in [
            index(&[1], &[], false),
            index(&[1, 2], &[ColumnOrder::DESCENDING], false),
            index(&[2], &[ColumnOrder { descending: false, nulls_first: true }], false),
            index(&[0], &[], true),
        ] {
            tx.create_index(&table(&tx)?, spec)?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        assert_eq!(db.stats().sort_files > 0, build_bytes > 0);
        is_sound(&db)?;
        // Of a table without a key the order of equal ones is that in which they came.
        let sorted = |compare: &dyn Fn(&Row, &Row) -> std::cmp::Ordering| {
            let mut sorted = rows.clone();
            sorted.sort_by(compare);
            sorted
        };
        let last = |value: &Option<i32>| (value.is_none(), *value);
        let text_last = |value: &Option<String>| (value.is_none(), value.clone());
        let orders: [&dyn Fn(&Row, &Row) -> std::cmp::Ordering; 4] = [
            &|a, b| last(&a.1).cmp(&last(&b.1)),
            &|a, b| last(&b.1).cmp(&last(&a.1)).then(text_last(&a.2).cmp(&text_last(&b.2))),
            &|a, b| a.2.cmp(&b.2),
            &|a, b| a.0.cmp(&b.0),
        ];
        for (at, order) in orders.into_iter().enumerate() {
            assert!(read(&db, Some(at))? == sorted(order), "index {at} with {build_bytes} bytes");
        }
        // All of it once more, in the order of another key.
        let files = db.stats().sort_files;
        let tx = db.begin(Isolation::ReadCommitted);
        add_key(&tx, &[0])?;
        tx.commit(Durability::Sync)?.wait()?;
        assert_eq!(db.stats().sort_files > files, build_bytes > 0);
        is_sound(&db)?;
        let mut by_key = rows.clone();
        by_key.sort();
        assert!(read(&db, None)? == by_key);
        by_key.sort_by_key(|row| last(&row.1));
        assert!(read(&db, Some(0))? == by_key);
        let names = vfs.list(Path::new("/db"))?;
        assert!(!names.iter().any(|name| name.starts_with("sort")), "{names:?}");
        db.close()?;
        is_sound(&open(&vfs, 0)?)?;
    }
    Ok(())
}

/// Rows that come in order need no file, however many there are; one that does not is merged with those behind it.
#[test]
fn rows_in_order_are_not_put_aside() -> Result<()> {
    for (late, files) in [(false, 0), (true, 1)] {
        let mut rows: Vec<Row> = (1..3000).map(|id| (id, Some(id as i32), Some(format!("text {id}")))).collect();
        if late {
            rows.insert(2000, (0, None, None));
        }
        let db = open(&SimVfs::new(2), SMALL)?;
        filled(&db, &rows)?;
        let tx = db.begin(Isolation::ReadCommitted);
        add_key(&tx, &[0])?;
        tx.commit(Durability::Sync)?.wait()?;
        assert_eq!(db.stats().sort_files, files);
        rows.sort();
        assert!(read(&db, None)? == rows);
        is_sound(&db)?;
    }
    Ok(())
}

/// The row that is not unique is named: of a key, of an index, and of a constraint that is judged later.
#[test]
fn equal_keys_are_told() -> Result<()> {
    for (build_bytes, in_order) in [(SMALL, false), (SMALL, true), (0, false)] {
        let mut rows = rows(3001);
        rows.iter_mut().for_each(|row| row.1 = Some(row.0 as i32 + 10));
        if in_order {
            rows.sort();
        }
        for (at, first, second) in [(0, 1, 2), (1, 20, 2900)] {
            let mut rows = rows.clone();
            match at {
                0 => rows[second].0 = rows[first].0,
                _ => rows[second].1 = rows[first].1,
            }
            let value = if at == 0 { rows[first].0 } else { rows[first].1.unwrap_or_default().into() };
            let db = open(&SimVfs::new(3), build_bytes)?;
            filled(&db, &rows)?;
            let (name, column) = [("b_pkey", "id"), ("b_[1]_0_true", "n")][at];
            let is_told = |error: Error| {
                assert_eq!(error.kind(), ErrorKind::UniqueViolation, "{error}");
                assert_eq!(error.message(), format!("could not create unique index \"{name}\""));
                assert_eq!(error.detail(), Some(format!("Key ({column})=({value}) is duplicated.").as_str()));
            };
            let tx = db.begin(Isolation::ReadCommitted);
            let made = match at {
                0 => add_key(&tx, &[0]),
                _ => tx.create_index(&table(&tx)?, index(&[1], &[], true)).and_then(Attempt::done),
            };
            is_told(made.expect_err("there are two of it"));
            tx.rollback()?;
            if at == 1 {
                // Of a constraint that is judged later the tree takes both.
                let tx = db.begin(Isolation::ReadCommitted);
                let deferred = IndexSpec { deferral: Deferral::Statement, constraint: true, ..index(&[1], &[], true) };
                let made = tx.create_index(&table(&tx)?, deferred).and_then(Attempt::done);
                is_told(made.expect_err("there are two of it"));
                tx.rollback()?;
            }
            let mut plain = rows.clone();
            plain.sort();
            let mut all = read(&db, None)?;
            all.sort();
            assert!(all == plain, "a rollback left something");
            is_sound(&db)?;
        }
    }
    Ok(())
}

/// An entry is refused while the rows of its table are still in a file.
#[test]
fn an_index_of_a_table_that_is_rewritten() -> Result<()> {
    for build_bytes in [SMALL, 0] {
        let db = open(&SimVfs::new(4), build_bytes)?;
        let mut rows = rows(2003);
        // Entries come in order, rows of the new key do not.
        rows.iter_mut().enumerate().for_each(|(at, row)| row.1 = Some(at as i32));
        filled(&db, &rows)?;
        let tx = db.begin(Isolation::ReadCommitted);
        tx.create_index(&table(&tx)?, index(&[1], &[], true))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        // By hand, as a change of a type is: two rows get one number.
        let tx = db.begin(Isolation::ReadCommitted);
        add_key(&tx, &[0])?;
        tx.commit(Durability::Sync)?.wait()?;
        let tx = db.begin(Isolation::ReadCommitted);
        let mut rewrite = tx.rewrite_table(&table(&tx)?, &[], &[])?.done()?;
        let put = || -> Result<Arc<Table>> {
            let mut batch = RowBatch::default();
            let mut at = 0;
            while rewrite.read(&mut batch)? {
                for raw in (0..batch.len()).map(|i| batch.row(i)) {
                    // The rows come in the order of the key, and go in the other one.
                    let values: Vec<DatumRef<'_>> =
                        (0..3).map(|i| rewrite.old().column(raw, i)).collect::<Result<_>>()?;
                    let values: Vec<Datum> = values.iter().map(DatumRef::to_owned).collect();
                    at += 1;
                    let n = if at == 30 { 29 } else { at };
                    rewrite.put(raw, &[DatumRef::Int8(-i64::from(at)), DatumRef::Int4(n), values[2].as_ref()])?;
                }
            }
            rewrite.finish()
        };
        let error = put().expect_err("two rows have one number");
        assert_eq!(error.kind(), ErrorKind::UniqueViolation, "{error}");
        assert_eq!(error.detail(), Some("Key (n)=(29) is duplicated."));
        tx.rollback()?;
        rows.sort();
        assert!(read(&db, None)? == rows);
        is_sound(&db)?;
    }
    Ok(())
}

/// More runs than are merged at once become one in between.
#[test]
fn many_runs() -> Result<()> {
    let rows = rows(9001);
    let vfs = SimVfs::new(5);
    let db = open(&vfs, 600)?;
    filled(&db, &rows)?;
    let tx = db.begin(Isolation::ReadCommitted);
    add_key(&tx, &[0])?;
    tx.create_index(&table(&tx)?, index(&[2], &[], false))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    // A file for each time that there were too many, and one.
    assert!(db.stats().sort_files > 4, "{}", db.stats().sort_files);
    let mut sorted = rows.clone();
    sorted.sort();
    assert!(read(&db, None)? == sorted);
    sorted.sort_by_key(|row| (row.2.is_none(), row.2.clone()));
    assert!(read(&db, Some(0))? == sorted);
    is_sound(&db)
}

/// It is told to stop wherever it is, and leaves nothing.
#[test]
fn stopped_at_each_look() -> Result<()> {
    let vfs = SimVfs::new(6);
    let db = open(&vfs, SMALL)?;
    let rows = rows(2003);
    filled(&db, &rows)?;
    let mut stops = 0;
    for patience in (0..).step_by(7) {
        let looks = AtomicU32::new(0);
        let tx = db.begin(Isolation::ReadCommitted);
        tx.set_interrupt(Some(Arc::new(move || match looks.fetch_add(1, Ordering::Relaxed) < patience {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Cancelled, "stop")),
        })));
        let made = tx.create_index(&table(&tx)?, index(&[1], &[], false)).and_then(|_| add_key(&tx, &[0]));
        tx.set_interrupt(None);
        tx.rollback()?;
        match made {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
        }
        stops += 1;
        assert!(db.builds().is_empty());
    }
    assert!(stops > 5, "{stops}");
    assert!(db.stats().sort_files > stops);
    assert_eq!(read(&db, None)?.len(), rows.len());
    is_sound(&db)
}

/// Bytes of all files of the database.
fn used(vfs: &SimVfs) -> Result<u64> {
    let mut bytes = 0;
    for folder in ["/db", "/db/log"].map(Path::new) {
        for name in vfs.list(folder)?.iter().filter(|name| *name != "log") {
            bytes += vfs.open(&folder.join(name), OpenMode::ReadOnly)?.len()?;
        }
    }
    Ok(bytes)
}

/// Power is lost, a write or a read fails, or the disk is full, at some moment of it: what was there is there, or all of the new.
#[test]
fn the_old_or_the_new_whatever_fails() -> Result<()> {
    let rows = rows(401);
    let mut sorted = rows.clone();
    sorted.sort();
    let mut left_over = 0;
    for what in 0..4 {
        let (mut old, mut new, mut of_sorts) = (0, 0, 0);
        for at in (0..400).step_by(if what == 0 { 1 } else { 3 }) {
            let vfs = SimVfs::new(at);
            let db = open(&vfs, 2000)?;
            filled(&db, &rows)?;
            while db.write_back()? > 0 {}
            let faults = FaultPlan::default();
            vfs.set_faults(match what {
                0 => FaultPlan { crash_after_ops: Some(at + 1), ..faults },
                1 => FaultPlan { fail_write_at: Some(at + 1), ..faults },
                2 => FaultPlan { fail_read_at: Some(at + 1), ..faults },
                _ => FaultPlan { small_disk: Some(("/db".into(), used(&vfs)? + (at << 4))), ..faults },
            });
            let run = || -> Result<()> {
                let tx = db.begin(Isolation::ReadCommitted);
                add_key(&tx, &[0])?;
                tx.create_index(&table(&tx)?, index(&[1], &[], false))?.done()?;
                tx.commit(Durability::Sync)?.wait()
            };
            let outcome = run();
            of_sorts += u32::from(outcome.as_ref().is_err_and(|error| error.to_string().contains("sort.")));
            drop(db);
            let vfs = vfs.crash();
            left_over += vfs.list(Path::new("/db"))?.iter().filter(|name| name.starts_with("sort.")).count();
            let db = open(&vfs, 2000)?;
            db.finish_recovery()?;
            let is_new = !table(&db.begin(Isolation::ReadCommitted))?.primary_key.is_empty();
            assert!(is_new || outcome.is_err(), "fault {what} at {at}: committed, and not there");
            assert!(read(&db, None)? == if is_new { &sorted } else { &rows }[..], "fault {what} at {at}");
            is_sound(&db)?;
            if is_new {
                new += 1;
            } else {
                old += 1;
                // What a file was left of is in nobody's way.
                let tx = db.begin(Isolation::ReadCommitted);
                add_key(&tx, &[0])?;
                tx.commit(Durability::Sync)?.wait()?;
                assert!(read(&db, None)? == sorted, "fault {what} at {at}");
            }
            if outcome.is_ok() && what == 0 {
                break;
            }
        }
        assert!(old > 1 && new > 0 && of_sorts > 0, "fault {what}: {old} old, {new} new, {of_sorts} in files of sorts");
    }
    assert!(left_over > 0, "no crash left a name");
    Ok(())
}

/// The name of such a file is gone before anything is in it, but a power loss may bring it back: the next open removes it, and nothing else.
#[test]
fn what_a_power_loss_has_left_of_a_sort_goes() -> Result<()> {
    let vfs = SimVfs::new(5);
    open(&vfs, 0)?.close()?;
    for name in ["sort.12", "sort.0", "sort.", "sort.1x"] {
        vfs.open(&Path::new("/db").join(name), OpenMode::CreateNew)?.write_at(b"rows", 0)?;
    }
    let db = open(&vfs, 0)?;
    let there: Vec<String> = vfs.list(Path::new("/db"))?.into_iter().filter(|name| name.starts_with("sort")).collect();
    assert_eq!(there, ["sort.", "sort.1x"]);
    db.close()
}

/// So many runs that those of runs are merged once more; equal keys stay in the order in which they came.
#[test]
fn runs_of_runs_are_merged() -> Result<()> {
    let rows = rows(20_011);
    let vfs = SimVfs::new(6);
    // A run for each entry.
    let db = open(&vfs, 1)?;
    filled(&db, &rows)?;
    let tx = db.begin(Isolation::ReadCommitted);
    tx.create_index(&table(&tx)?, index(&[1], &[], false))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let mut sorted = rows;
    sorted.sort_by_key(|row| (row.1.is_none(), row.1));
    assert!(read(&db, Some(0))? == sorted);
    // The first file, one for each time that it was full, and those of two levels more.
    assert!(db.stats().sort_files > 20_000 / 128, "{}", db.stats().sort_files);
    is_sound(&db)
}

/// Makes files in memory, which together have no more than so many bytes.
struct Made {
    files: AtomicU64,
    bytes: AtomicU64,
    bytes_max: u64,
}

struct InMemory {
    made: Arc<Made>,
    bytes: Mutex<Vec<u8>>,
}

struct Maker(Arc<Made>);

impl SortFiles for Maker {
    fn create(&self) -> Result<Arc<dyn SortFile>> {
        self.0.files.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(InMemory { made: Arc::clone(&self.0), bytes: Mutex::default() }))
    }
}

impl SortFile for InMemory {
    fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        let mut file = self.bytes.lock().expect("no panic");
        assert_eq!(file.len() as u64, at, "behind what was written before");
        if self.made.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed) + bytes.len() as u64 > self.made.bytes_max {
            self.made.bytes.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
            return Err(Error::new(ErrorKind::ConfigurationLimitExceeded, "no more of it"));
        }
        file.extend_from_slice(bytes);
        Ok(())
    }
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        let file = self.bytes.lock().expect("no panic");
        bytes.copy_from_slice(&file[at as usize..at as usize + bytes.len()]);
        Ok(())
    }
    fn path(&self) -> &Path {
        Path::new("in memory")
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let bytes = self.bytes.lock().map_or(0, |file| file.len() as u64);
        self.made.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The layer above makes the files of its transactions, and says how much they may have; what does not fit leaves nothing.
#[test]
fn files_are_made_elsewhere() -> Result<()> {
    let rows = rows(5003);
    let mut sorted = rows.clone();
    sorted.sort();
    let (mut fitted, mut refused) = (0, 0);
    for bytes_max in [0, 100_000, 400_000, 600_000, 1_000_000, u64::MAX] {
        let vfs = SimVfs::new(7);
        let db = open(&vfs, 600)?;
        filled(&db, &rows)?;
        let made = Arc::new(Made { files: AtomicU64::new(0), bytes: AtomicU64::new(0), bytes_max });
        let tx = db.begin(Isolation::ReadCommitted);
        tx.set_sort_files(Some(Arc::new(Maker(Arc::clone(&made)))));
        let built = add_key(&tx, &[0])
            .and_then(|_| tx.create_index(&table(&tx)?, index(&[2], &[], false)).and_then(Attempt::done));
        assert_eq!(made.files.load(Ordering::Relaxed), db.stats().sort_files);
        assert!(db.builds().is_empty());
        match built {
            Ok(_) => {
                tx.commit(Durability::Sync)?.wait()?;
                fitted += 1;
                assert!(read(&db, None)? == sorted);
                let mut by_text = sorted.clone();
                by_text.sort_by_key(|row| (row.2.is_none(), row.2.clone()));
                assert!(read(&db, Some(0))? == by_text);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConfigurationLimitExceeded, "{error}");
                assert!(tx.commit(Durability::Sync).is_err(), "a part of it cannot be committed");
                tx.rollback()?;
                refused += 1;
                assert!(read(&db, None)? == rows);
            }
        }
        assert_eq!(made.bytes.load(Ordering::Relaxed), 0, "a file is left");
        is_sound(&db)?;
    }
    assert!(fitted > 0 && refused > 1, "{fitted} fitted, {refused} did not");
    Ok(())
}

/// How far it is is shown of each phase by itself.
#[test]
fn phases_are_shown() -> Result<()> {
    let db = open(&SimVfs::new(8), 20_000)?;
    let count = 40_009;
    filled(&db, &rows(count))?;
    for rewritten in [false, true] {
        let seen: Arc<Mutex<Vec<BuildStatus>>> = Arc::default();
        let (log, inside) = (Arc::clone(&seen), db.clone());
        let tx = db.begin(Isolation::ReadCommitted);
        tx.set_interrupt(Some(Arc::new(move || {
            log.lock().expect("no panic").extend(inside.builds());
            Ok(())
        })));
        match rewritten {
            false => drop(tx.create_index(&table(&tx)?, index(&[2], &[], false))?.done()?),
            true => drop(add_key(&tx, &[0])?),
        }
        tx.set_interrupt(None);
        tx.commit(Durability::Sync)?.wait()?;
        let seen = seen.lock().expect("no panic");
        for phase in [BuildPhase::Reading, BuildPhase::Sorting, BuildPhase::Writing] {
            let of_phase: Vec<&BuildStatus> = seen.iter().filter(|build| build.phase == phase).collect();
            // Of a table and its index, which is merged after it, there are two merges.
            let begins = of_phase.windows(2).filter(|pair| pair[1].rows_done < pair[0].rows_done).count();
            assert!(begins <= usize::from(rewritten), "{phase:?} goes back {begins} times");
            let last = of_phase.iter().map(|build| build.rows_done).max().unwrap_or_default();
            assert!(last > 5000, "{phase:?} {last} of {rewritten}");
            assert!(phase == BuildPhase::Reading || of_phase.iter().all(|build| build.rows_done <= build.rows_total));
            if phase == BuildPhase::Writing {
                assert!(of_phase.iter().all(|build| build.rows_total == count as u64));
            }
        }
    }
    is_sound(&db)
}
