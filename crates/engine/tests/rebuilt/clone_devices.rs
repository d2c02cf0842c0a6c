//! Devices of databases that were made of another one, whose pages are not all in their files yet: they are replaced, their damaged
//! pages are rebuilt, and their files may be missing at a start, all in layers, from the parent's archive and their own.
//!
//! `RESURGAM_DEVICE_SEEDS=n` makes n histories, `RESURGAM_FIRST_SEED=s` says which is the first.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common;
use crate::common::hooked::{Call, Hooked};
use crate::history::{ARCHIVE, DIR, History, Rows, Shape, open, read};
use crate::rng::Rng;
use resurgam_archive::{Archive, Lease, LeaseKind};
use resurgam_engine::*;
use resurgam_page::{PageBuf, PageType};
use resurgam_vfs::{Failing, FaultPlan, OpenMode, SimVfs, Vfs};
use resurgam_xstore::{FolderStore, Store};

const MADE: &str = "/new/clone";
const OWN_ARCHIVE: &str = "/disk6/archive";
const LOG: &str = "/disk7/log";
const SPARE: &str = "/disk8/spare";

/// A database with some thousand rows besides those of its random history: several segments.
fn parent(seed: u64) -> Result<(History, Rows)> {
    let shape =
        Shape { seed, traditional: seed.is_multiple_of(2), version_file: seed % 4 < 2, events: 200, keep_log: false };
    let history = History::make(shape)?;
    for dir in ["/new", "/disk6", "/disk7", "/disk8"] {
        history.sim.make_folder(Path::new(dir))?;
    }
    let db = open(&history.sim, DIR, history.options.clone())?;
    for gid in db.prepared().iter().map(|tx| tx.gid.clone()) {
        db.commit_prepared(&gid)?.wait()?;
    }
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "big").column("id", ColumnType::Int8).column("v", ColumnType::Int8);
    let table = tx.create_table(spec.column("note", ColumnType::Text).primary_key(&["id"]))?.done()?;
    let note = "n".repeat(700);
    for id in 0..3000 {
        tx.insert(&table, &common::row(id, id, &note))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    let mut tables = history.tables.clone();
    tables.push("big".to_owned());
    let rows = read(&db, &tables)?;
    // Never committed.
    let tx = db.begin(Isolation::ReadCommitted);
    tx.insert(&table_of(&tx, "big")?, &common::row(5_000_000, 0, "never"))?.done()?;
    db.checkpoint()?;
    db.archive_now()?;
    drop(tx);
    db.close()?;
    Ok((History { tables, ..history }, rows))
}

fn table_of(tx: &Transaction, name: &str) -> Result<Arc<Table>> {
    tx.table("public", name)?.ok_or_else(|| Error::internal("no table"))
}

/// Changes some rows of the big table, and says what the rows are then.
fn write(db: &Database, rows: &mut Rows, value: i64, rng: &mut Rng) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = table_of(&tx, "big")?;
    let of_table = rows.get_mut("big").expect("it is there");
    for _ in 0..40 {
        let id = rng.below(400) as i64;
        let mut key = Vec::new();
        table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        tx.statement(StatementKind::PointWrite)?;
        tx.update(&table, &key, Seen::Snapshot, &common::row(id, value, "changed"))?.done()?;
        of_table.insert(id, (value, "changed".to_owned()));
    }
    tx.commit(Durability::Sync)?.wait()
}

/// Changes forty rows in one transaction, in the `round`th time: log of pages that are few.
fn change_forty(db: &Database, rows: &mut Rows, round: i64) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = table_of(&tx, "big")?;
    for id in 2000..2040 {
        let mut key = Vec::new();
        table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        tx.statement(StatementKind::PointWrite)?;
        tx.update(&table, &key, Seen::Snapshot, &common::row(id, round, "changed"))?.done()?;
        rows.get_mut("big").expect("it is there").insert(id, (round, "changed".to_owned()));
    }
    tx.commit(Durability::Sync)?.wait()
}

fn same(what: &str, db: &Database, history: &History, rows: &Rows) -> Result<()> {
    let found = read(db, &history.tables)?;
    for (name, wanted) in rows {
        let of = found.get(name);
        assert!(of == Some(wanted), "{what}: table {name}: {:?} rows, wanted {}", of.map(|of| of.len()), wanted.len());
    }
    assert_eq!(found.len(), rows.len(), "{what}");
    Ok(())
}

fn make(history: &History, clone: bool) -> Result<RestoredPoint> {
    let vfs: Arc<dyn Vfs> = Arc::new(history.sim.clone());
    let request = RestoreRequest { whole: false, clone, ..RestoreRequest::new(ARCHIVE, MADE) };
    restore_point(&vfs, &request, &mut |_| {})
}

fn options(history: &History, spare: bool) -> Options {
    Options {
        archive: Some(OWN_ARCHIVE.into()),
        version_store_path: None,
        log_dir: spare.then(|| LOG.into()),
        spare_data: spare.then(|| SPARE.into()),
        buffer_bytes: 64 * limits::PAGE_SIZE,
        ..history.options.clone()
    }
}

/// Moves the log out of the folder.
fn move_log(sim: &SimVfs) -> Result<()> {
    let (from, to) = (PathBuf::from(MADE).join("log"), Path::new(LOG));
    sim.make_folder(to)?;
    for name in sim.list(&from)? {
        sim.rename(&from.join(&name), &to.join(&name))?;
    }
    sim.sync_dir(&from)?;
    sim.sync_dir(to)
}

/// But for that of the clone's archive.
fn leases(sim: &SimVfs) -> Result<usize> {
    let store: Arc<dyn Store> = Arc::new(FolderStore::open(Arc::new(sim.clone()), Path::new(ARCHIVE))?);
    Ok(Lease::list(&*store)?.into_iter().filter(|lease| lease.kind != LeaseKind::Archive).count())
}

/// A clone and a restored database write pages once as soon as what they were made of answers, and twice while it does not; what a power loss tears is
/// made of both archives.
#[test]
fn pages_are_written_once() -> Result<()> {
    let mut torn = 0;
    for seed in 0..6u64 {
        let (history, mut rows) = parent(seed)?;
        let mut sim = history.sim.clone();
        let mut rng = Rng::new(seed);
        make(&history, seed % 2 == 0)?;
        // How often a page is written that was there before.
        let mut work = |db: &Database, rows: &mut Rows, value: i64| -> Result<bool> {
            let of = |db: &Database| {
                let pool = db.stats().pool;
                (2 * pool.pages_written - pool.fresh_pages_written, pool.pages_written)
            };
            while db.write_back()? > 0 {}
            let before = of(db);
            write(db, rows, value, &mut rng)?;
            while db.write_back()? > 0 {}
            let after = of(db);
            assert!(after.1 > before.1, "nothing was written");
            Ok(after.0 - before.0 == after.1 - before.1)
        };
        for life in 0..3 {
            let db = open(&sim, MADE, options(&history, false))?;
            same("at once", &db, &history, &rows)?;
            db.archive_now()?;
            assert!(!work(&db, &mut rows, 10 * life)?, "seed {seed}: nobody has looked yet");
            db.look_at_parent()?;
            assert!(work(&db, &mut rows, 10 * life + 1)?, "seed {seed}: life {life}");
            db.archive_now()?;
            assert!(work(&db, &mut rows, 10 * life + 2)?, "seed {seed}: life {life}");
            // The parent's archive is away, and is back.
            away(&sim, ARCHIVE, "/away")?;
            let told = db.look_at_parent().expect_err("it does not answer");
            assert!(told.message().contains(ARCHIVE), "{told}");
            assert!(!work(&db, &mut rows, 10 * life + 3)?, "seed {seed}: life {life}, without the parent");
            away(&sim, "/away", ARCHIVE)?;
            db.look_at_parent()?;
            assert!(work(&db, &mut rows, 10 * life + 4)?, "seed {seed}: life {life}, the parent is back");
            db.checkpoint()?;
            // Pages that are on their way when the power is lost.
            write(&db, &mut rows, 10 * life + 5, &mut rng_of(seed, life))?;
            db.write_back()?;
            torn += db.stats().pool.repaired_pages;
            drop(db);
            sim = sim.crash();
        }
        let db = open(&sim, MADE, options(&history, false))?;
        same("in the end", &db, &history, &rows)?;
        db.finish_restore()?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed}");
        torn += db.stats().pool.repaired_pages;
        db.close()?;
    }
    assert!(torn > 0, "no page was torn");
    Ok(())
}

/// Moves a folder with all that is in it.
fn away(sim: &SimVfs, from: &str, to: &str) -> Result<()> {
    sim.make_folder(Path::new(to))?;
    for name in sim.list(Path::new(from))? {
        let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
        match sim.list(Path::new(&from)) {
            Ok(_) => away(sim, &from, &to)?,
            Err(_) => sim.rename(Path::new(&from), Path::new(&to))?,
        }
    }
    sim.sync_dir(Path::new(from))?;
    sim.sync_dir(Path::new(to))
}

fn rng_of(seed: u64, life: i64) -> Rng {
    Rng::new(seed * 100 + life as u64)
}

/// The device of a clone is dead at a start, which fails since the archive of what it was made of is away; once that is back the next one goes on. A folder that
/// holds more than such a start leaves is nobody's to clear.
#[test]
fn a_dead_device_of_a_clone_at_a_start() -> Result<()> {
    for seed in [0, 3, 5] {
        let (mut history, mut rows) = parent(seed)?;
        make(&history, seed % 2 == 0)?;
        move_log(&history.sim)?;
        let db = open(&history.sim, MADE, options(&history, true))?;
        write(&db, &mut rows, 1000, &mut Rng::new(seed))?;
        db.archive_now()?;
        db.checkpoint()?;
        write(&db, &mut rows, 1001, &mut Rng::new(seed))?;
        drop(db);
        history.sim = history.sim.crash();
        let dies =
            |failing: Vec<Failing>| FaultPlan { dies: Some((0, "/new".into())), failing, ..FaultPlan::default() };
        let away = Failing { path: ARCHIVE.into(), reads: true, writes: false, syncs: false };
        history.sim.set_faults(dies(vec![away]));
        for _ in 0..2 {
            let told = open(&history.sim, MADE, options(&history, true)).err();
            let told = told.expect("nothing can be made");
            assert!(!told.message().contains("is not empty"), "seed {seed}: {told}");
        }
        let spare = Path::new(SPARE);
        assert!(history.sim.exists(&spare.join("parent"))?, "seed {seed}: the schedule has become blind");
        history.sim.set_faults(dies(Vec::new()));
        let foreign = history.sim.fork(1);
        foreign.open(&spare.join("holiday"), OpenMode::Create)?.sync()?;
        foreign.set_faults(dies(Vec::new()));
        let told = open(&foreign, MADE, options(&history, true)).err().expect("it is not empty");
        assert!(told.message().contains("is not empty") && foreign.exists(&spare.join("parent"))?, "{told}");
        let db = open(&history.sim, MADE, options(&history, true))?;
        same("in the spare folder", &db, &history, &rows)?;
        db.finish_restore()?;
        write(&db, &mut rows, 1002, &mut Rng::new(seed))?;
        same("restored", &db, &history, &rows)?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed}");
        db.close()?;
    }
    Ok(())
}

/// The device dies, declared or at a call, the power is lost, it dies once more, and all of it is restored in the end.
#[test]
fn a_device_of_a_clone_is_replaced() -> Result<()> {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (first, count) = (number("RESURGAM_FIRST_SEED").unwrap_or(0), number("RESURGAM_DEVICE_SEEDS").unwrap_or(12));
    let mut replaced = 0;
    for seed in first..first + count {
        let (mut history, mut rows) = parent(seed)?;
        let mut rng = Rng::new(seed + 5);
        let (spare, clone) = (seed % 3 != 0, seed % 5 != 0);
        let what = format!("seed {seed}, spare: {spare}, clone: {clone}");
        let made = make(&history, clone)?;
        if spare {
            move_log(&history.sim)?;
        }
        let db = open(&history.sim, MADE, options(&history, spare))?;
        // Some of its own, archived or not, written or not.
        for round in 0..1 + rng.below(4) as i64 {
            write(&db, &mut rows, 1000 + round, &mut rng)?;
            match rng.below(4) {
                0 => drop(db.archive_now()?),
                1 => db.checkpoint()?,
                2 => drop(db.write_back()?),
                _ => {}
            }
        }
        assert!(db.restore_status().is_some_and(|status| status.restored < status.segments), "{what}");
        let version_file = made.version_pages > 0 && rng.below(2) == 0;
        if rng.below(2) == 0 || version_file {
            db.fail_device(if version_file { "version store" } else { "data" })?;
        } else {
            let plan = match spare {
                true => FaultPlan { dies: Some((rng.below(30), MADE.into())), ..FaultPlan::default() },
                // The log is beside it.
                false => {
                    let data = Failing { path: format!("{MADE}/data").into(), reads: false, writes: true, syncs: true };
                    FaultPlan { failing: vec![data], ..FaultPlan::default() }
                }
            };
            history.sim.set_faults(plan);
            let mut tries = 0;
            while let Err(error) = write(&db, &mut rows, 2000, &mut Rng::new(seed)).and_then(|()| db.checkpoint()) {
                tries += 1;
                assert!(error.kind() == ErrorKind::Io && tries < 40, "{what}: {error}");
                if !spare {
                    // It is well again, and takes the files anew.
                    history.sim.set_faults(FaultPlan::default());
                }
                let _ = db.replace_dead_devices();
            }
            history.sim.set_faults(FaultPlan::default());
        }
        let status = db.restore_status();
        replaced += u64::from(status.is_some_and(|status| status.kind == OriginKind::Media));
        same(&what, &db, &history, &rows)?;
        write(&db, &mut rows, 3000, &mut rng)?;
        while db.write_back()? > 0 {}
        if rng.below(2) == 0 {
            db.restore_step()?;
            db.checkpoint()?;
        }
        drop(db);
        history.sim = history.sim.crash();
        let db = open(&history.sim, MADE, options(&history, spare))?;
        same(&format!("{what}, after a crash"), &db, &history, &rows)?;
        // It may die once more.
        if rng.below(2) == 0 && db.restore_status().is_some() {
            db.fail_device("data")?;
            write(&db, &mut rows, 4000, &mut rng)?;
        }
        let wanted = usize::from(db.restore_status().is_some());
        assert_eq!(leases(&history.sim)?, wanted, "{what}: it lasts as long as it is needed");
        db.finish_restore()?;
        db.finish_recovery()?;
        same(&format!("{what}, restored"), &db, &history, &rows)?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "{what}");
        if db.restore_status().is_none() {
            assert_eq!(leases(&history.sim)?, 0, "{what}: nothing of the parent is needed any more");
        }
        db.close()?;
        drop(db);
        let db = open(&history.sim, MADE, options(&history, spare))?;
        same(&format!("{what}, opened again"), &db, &history, &rows)?;
        db.close()?;
    }
    assert!(replaced >= count / 2, "{replaced} of {count}");
    Ok(())
}

/// The data file of a clone is missing at a start; power is lost at call after call of that.
#[test]
fn files_of_a_clone_are_missing() -> Result<()> {
    for seed in 20..24 {
        let (mut history, mut rows) = parent(seed)?;
        let mut rng = Rng::new(seed);
        make(&history, true)?;
        let db = open(&history.sim, MADE, options(&history, false))?;
        write(&db, &mut rows, 1000, &mut rng)?;
        if seed % 2 == 0 {
            db.archive_now()?;
        }
        db.checkpoint()?;
        write(&db, &mut rows, 1001, &mut rng)?;
        drop(db);
        history.sim = history.sim.crash();
        let data = Path::new(MADE).join("data");
        history.sim.remove(&data)?;
        history.sim.sync_dir(Path::new(MADE))?;
        let refused = open(&history.sim, MADE, Options { archive: None, ..options(&history, false) }).err();
        assert!(refused.is_some_and(|error| error.message().contains("is missing")));
        let base = history.sim.fork(seed);
        for at in (1..60).step_by(3) {
            let sim = base.fork(at);
            sim.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
            let first = open(&sim, MADE, options(&history, false)).and_then(|db| same("at once", &db, &history, &rows));
            assert!(first.is_ok() || sim.power_lost(), "seed {seed}, call {at}: {first:?}");
            let sim = sim.crash();
            let db = open(&sim, MADE, options(&history, false))?;
            same(&format!("seed {seed}, call {at}"), &db, &history, &rows)?;
            if at % 9 == 1 {
                db.finish_restore()?;
                db.finish_recovery()?;
                assert_eq!(db.verify()?, Vec::<String>::new());
                assert_eq!(leases(&sim)?, 0);
            }
            db.close()?;
        }
    }
    Ok(())
}

/// Pages of a clone that were restored and then damaged in its file are rebuilt, whether or not they were changed since.
#[test]
fn damaged_pages_of_a_clone_are_rebuilt() -> Result<()> {
    for seed in 30..33 {
        let (history, mut rows) = parent(seed)?;
        let mut rng = Rng::new(seed);
        make(&history, true)?;
        let db = open(&history.sim, MADE, options(&history, false))?;
        // All but a few segments are brought.
        same("all", &db, &history, &rows)?;
        write(&db, &mut rows, 1000, &mut rng)?;
        db.archive_now()?;
        write(&db, &mut rows, 1001, &mut rng)?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        if db.restore_status().is_none() {
            continue;
        }
        drop(db);
        let sim = history.sim.crash();
        let data = Path::new(MADE).join("data");
        for page in (20..300u64).step_by(9) {
            sim.flip_bit(&data, (page * limits::PAGE_SIZE as u64 + 100) * 8)?;
        }
        let db = open(&sim, MADE, options(&history, false))?;
        same(&format!("seed {seed}, damaged"), &db, &history, &rows)?;
        assert!(db.repairs().len() > 5, "{} pages were rebuilt", db.repairs().len());
        db.close()?;
    }
    Ok(())
}

/// A page of a clone that was changed since the cut, and of which no record is kept any more, does not come back as it was at the cut.
#[test]
fn a_changed_page_whose_log_is_gone_is_not_the_parents() -> Result<()> {
    let (history, mut rows) = parent(35)?;
    let mut rng = Rng::new(35);
    make(&history, true)?;
    let without = || Options { archive: None, ..options(&history, false) };
    let db = open(&history.sim, MADE, without())?;
    same("all", &db, &history, &rows)?;
    let begun = db.log_status().oldest;
    // Once, and never again.
    write(&db, &mut rows, 999, &mut rng)?;
    for round in 0..1000 {
        change_forty(&db, &mut rows, round)?;
        if round % 50 == 49 {
            while db.write_back()? > 0 {}
            db.checkpoint()?;
            if db.log_status().oldest > begun {
                break;
            }
        }
    }
    assert!(db.log_status().oldest > begun, "the log is kept from {begun} on");
    drop(db);
    let sim = history.sim.crash();
    for page in 20..300u64 {
        sim.flip_bit(&Path::new(MADE).join("data"), (page * limits::PAGE_SIZE as u64 + 100) * 8)?;
    }
    let db = open(&sim, MADE, without())?;
    let tx = db.begin(Isolation::ReadCommitted);
    let table = table_of(&tx, "big")?;
    let statement = tx.statement(StatementKind::Read)?;
    let mut told = 0;
    for (id, (value, _)) in &rows["big"] {
        let (mut key, mut found) = (Vec::new(), RowBuf::default());
        table.encode_key(&[DatumRef::Int8(*id)], &mut key)?;
        match statement.get(&table, &key, &mut found) {
            Ok(there) => assert!(there && table.column(found.raw(), 1)? == DatumRef::Int8(*value), "row {id} is old"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                told += 1;
            }
        }
    }
    assert!(told > 0, "nothing is damaged");
    Ok(())
}

/// A checkpoint truncates the log while the parent's image of a page is made: the page's only record goes with it, and the image is none.
#[test]
fn the_log_goes_while_the_parents_page_is_made() -> Result<()> {
    let (history, mut rows) = parent(35)?;
    let mut rng = Rng::new(35);
    make(&history, true)?;
    let without = Options { archive: None, ..options(&history, false) };
    // What is called at the next read of the parent's archive.
    let next: Arc<Mutex<Option<Database>>> = Arc::default();
    let disk = {
        let next = Arc::clone(&next);
        Hooked::new(history.sim.clone(), move |call, path| {
            let of_parent = call == Call::Read && path.starts_with(ARCHIVE);
            let db = of_parent.then(|| next.lock().expect("nobody panicked").take()).flatten();
            // The first one has pages written that the next one need not wait for.
            for db in db.iter().cycle().take(3) {
                while db.write_back().expect("pages are written") > 0 {}
                db.checkpoint().expect("a checkpoint");
            }
        })
    };
    let db = Database::open_with(Arc::new(disk), Path::new(MADE), without, |_| {})?;
    db.finish_restore()?;
    // A walk over all pages brings all segments: what is changed from now on is written to its place.
    assert_eq!(db.verify()?, Vec::<String>::new());
    let begun = db.log_status().oldest;
    // Once, and never again.
    write(&db, &mut rows, 999, &mut rng)?;
    for round in 0.. {
        if db.log_status().flushed > Lsn(begun.0 + (4 << 20)) {
            break;
        }
        change_forty(&db, &mut rows, round)?;
    }
    while db.write_back()? > 0 {}
    same("all", &db, &history, &rows)?;
    assert_eq!(db.log_status().oldest, begun, "no checkpoint was made yet");
    let tx = db.begin(Isolation::ReadCommitted);
    let table = table_of(&tx, "big")?;
    let file = history.sim.open(&Path::new(MADE).join("data"), OpenMode::ReadWrite)?;
    // Other pages push those that were changed out of memory.
    let (mut key, mut found) = (Vec::new(), RowBuf::default());
    for id in (700..3000).chain(700..3000) {
        key.clear();
        table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        assert!(tx.statement(StatementKind::Read)?.get(&table, &key, &mut found)?, "row {id}");
    }
    let mut page = PageBuf::zeroed();
    for number in 1..file.len()? / limits::PAGE_SIZE as u64 {
        file.read_exact_at(page.as_bytes_mut(), number * limits::PAGE_SIZE as u64)?;
        if page.object() == table.rows_object() && page.page_type() == Some(PageType::Leaf) {
            history.sim.flip_bit(&Path::new(MADE).join("data"), (number * limits::PAGE_SIZE as u64 + 100) * 8)?;
        }
    }
    *next.lock().expect("nobody panicked") = Some(db.clone());
    let changed = rows["big"].iter().find(|(_, (value, _))| *value == 999).map(|(id, _)| *id).expect("one");
    key.clear();
    table.encode_key(&[DatumRef::Int8(changed)], &mut key)?;
    let got = tx.statement(StatementKind::Read)?.get(&table, &key, &mut found);
    let armed = next.lock().expect("nobody panicked").is_some();
    assert!(
        !armed,
        "the parent's archive was not read: {got:?}, {:?}, {:?}",
        table.column(found.raw(), 1)?,
        db.repairs()
    );
    assert!(db.log_status().oldest > begun, "the log is kept: {:?}, {got:?}", db.log_status());
    match got {
        Ok(there) => panic!("there: {there}, as of the cut: {:?}", table.column(found.raw(), 1)?),
        Err(error) => assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("needs all"), "{error}"),
    }
    Ok(())
}

/// A run of the parent's archive that is damaged costs the pages that need what is damaged, by name, and nobody else.
#[test]
fn a_damaged_run_costs_its_pages_only() -> Result<()> {
    let (history, rows) = parent(41)?;
    make(&history, true)?;
    let store: Arc<dyn Store> = Arc::new(FolderStore::open(Arc::new(history.sim.clone()), Path::new(ARCHIVE))?);
    let view = Archive::open_view(store, None)?.expect("an archive");
    let longest = *view.manifest().runs.iter().max_by_key(|run| run.len).expect("runs");
    let path = Path::new(ARCHIVE).join(longest.id.name());
    history.sim.flip_bit(&path, longest.len / 3 * 8)?;
    let db = open(&history.sim, MADE, options(&history, false))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let table = table_of(&tx, "big")?;
    let statement = tx.statement(StatementKind::Read)?;
    let (mut right, mut told) = (0, 0);
    for (id, (value, _)) in &rows["big"] {
        let (mut key, mut found) = (Vec::new(), RowBuf::default());
        table.encode_key(&[DatumRef::Int8(*id)], &mut key)?;
        match statement.get(&table, &key, &mut found) {
            Ok(there) => {
                assert!(there && table.column(found.raw(), 1)? == DatumRef::Int8(*value), "row {id}");
                right += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                told += 1;
            }
        }
    }
    let damaged = db.restore_status().map(|status| status.damaged_pages);
    assert!(
        right > 1000 && told > 0 && damaged > Some(0),
        "{right} rows are right, {told} told, {damaged:?} pages damaged"
    );
    Ok(())
}
