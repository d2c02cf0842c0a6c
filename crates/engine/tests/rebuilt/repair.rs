//! Pages that are damaged, older than they were written, or not there at all: rebuilt from the log where it has
//! what that takes, and otherwise an error; never other rows.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::open::open_recovered as open;
use crate::common::{key, row};
use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, Lie, LyingWrite, OpenMode, SimVfs, Vfs};
use resurgam_xstore::{FolderStore, Store, StoreResult, Upload};

/// A store that does something at its next read, once.
struct Interrupted {
    below: FolderStore,
    at_read: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Store for Interrupted {
    fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>> {
        self.below.create(name)
    }
    fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>> {
        let work = self.at_read.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(work) = work {
            work();
        }
        self.below.read(name, offset, len)
    }
    fn len(&self, name: &str) -> StoreResult<u64> {
        self.below.len(name)
    }
    fn list(&self, prefix: &str) -> StoreResult<Vec<String>> {
        self.below.list(prefix)
    }
    fn delete(&self, name: &str) -> StoreResult<()> {
        self.below.delete(name)
    }
    fn sync_deletes(&self, folder: &str) -> StoreResult<()> {
        self.below.sync_deletes(folder)
    }
    fn tidy(&self, folder: &str) -> StoreResult<()> {
        self.below.tidy(folder)
    }
    fn place(&self) -> String {
        self.below.place()
    }
}

const PAGE: usize = limits::PAGE_SIZE;
const ROWS: i64 = 3000;

fn options(traditional: bool) -> Options {
    Options {
        buffer_bytes: 64 * PAGE,
        log_segment_bytes: 512 << 10,
        accelerated_database_recovery: !traditional,
        short_rollback_operations: 0,
        background: false,
        ..Options::default()
    }
}

fn in_transaction(db: &Database, work: impl FnOnce(&Transaction, &Arc<Table>) -> Result<()>) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    work(&tx, &t)?;
    tx.commit(Durability::Sync)?.wait()
}

/// A table many times larger than memory: of each third row the third version, of one transaction that rolled back the
/// other thirds.
fn fill(db: &Database) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("v", ColumnType::Int8);
    let table =
        tx.create_table(spec.column("note", ColumnType::Text).primary_key(&["id"]).index("i", &["v"], false))?;
    let table = table.done()?;
    let note = "n".repeat(300);
    tx.statement(StatementKind::BulkWrite)?;
    for id in 0..ROWS {
        tx.insert(&table, &row(id, id, &note))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    for round in 1..=2 {
        in_transaction(db, |tx, t| update(tx, t, 0, round))?;
    }
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    update(&tx, &t, 1, 77)?;
    tx.rollback()
}

fn update(tx: &Transaction, t: &Arc<Table>, third: i64, round: i64) -> Result<()> {
    tx.statement(StatementKind::BulkWrite)?;
    let note = format!("{round}").repeat(250);
    for id in (third..ROWS).step_by(3) {
        let change = tx.update(t, &key(t, id)?, Seen::Snapshot, &row(id, id + round * 10_000, &note))?.done()?;
        assert_eq!(change, Change::Done);
    }
    Ok(())
}

/// What is wrong with any row, in words; the first error otherwise.
fn check(db: &Database) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    let statement = tx.statement(StatementKind::Read)?;
    let mut found = RowBuf::default();
    for id in 0..ROWS {
        let there = statement.get(&t, &key(&t, id)?, &mut found)?;
        assert!(there, "row {id} is not there");
        let right = if id % 3 == 0 { id + 20_000 } else { id };
        match t.column(found.raw(), 1)? {
            DatumRef::Int8(v) if v == right => {}
            other => panic!("row {id} is {other:?}, not {right}"),
        }
    }
    Ok(())
}

fn data(vfs: &SimVfs) -> Result<Vec<u8>> {
    let file = vfs.open(Path::new("/db/data"), OpenMode::ReadOnly)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn put(vfs: &SimVfs, page: usize, bytes: &[u8]) -> Result<()> {
    vfs.open(Path::new("/db/data"), OpenMode::ReadWrite)?.write_at(bytes, (page * PAGE) as u64)
}

/// All pages but the boot page are lost, in one way or another, while the database is open: each is made anew from
/// the log, which has all of them from their first record on.
#[test]
fn every_page_is_made_anew() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, options(traditional))?;
        fill(&db)?;
        while db.write_back()? > 0 {}
        let bytes = data(&vfs)?;
        for page in 1..bytes.len() / PAGE {
            match page % 3 {
                0 => put(&vfs, page, &[0; PAGE])?,
                1 => put(&vfs, page, &[0xEE; 512])?,
                _ => put(&vfs, page, &bytes[(page - 1) * PAGE..page * PAGE])?,
            }
        }
        check(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "traditional: {traditional}");
        let repairs = db.repairs();
        let repaired = db.stats().pool.repaired_pages;
        assert!(repaired > 100 && repairs.len() == 100, "{repaired} pages, {} listed", repairs.len());
        assert!(repairs.iter().all(|of| of.repair.records > 0 && of.repair.path == Path::new("/db/data")));
        // They are written again, and the next open finds nothing of it.
        db.close()?;
        drop(db);
        let db = open(&vfs, Options { page_repair: false, ..options(traditional) })?;
        check(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// The data file is gone, but for the boot page, while a crash left records to be redone.
#[test]
fn a_data_file_that_is_gone_after_a_crash() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(2);
        let db = open(&vfs, options(traditional))?;
        fill(&db)?;
        while db.write_back()? > 0 {}
        in_transaction(&db, |tx, t| {
            tx.statement(StatementKind::BulkWrite)?;
            (ROWS..ROWS + 500).try_for_each(|id| tx.insert(t, &row(id, id, "new"))?.done())
        })?;
        drop(db);
        let crashed = vfs.crash();
        let pages = data(&crashed)?.len() / PAGE;
        for page in 1..pages {
            put(&crashed, page, &[0; PAGE])?;
        }
        let db = open(&crashed, options(traditional))?;
        check(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "traditional: {traditional}");
        assert!(db.stats().pool.redone_pages + db.stats().pool.repaired_pages > 100, "{:?}", db.stats().pool);
    }
    Ok(())
}

/// With an archive that was begun with the database the log may be gone as well: every page is made anew.
#[test]
fn a_data_file_that_is_gone_with_its_log() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(5);
        vfs.make_folder(Path::new("/archive"))?;
        let archived = || Options {
            archive: Some("/archive".into()),
            log_bytes_wanted: 1 << 20,
            log_bytes_max: 4 << 20,
            ..options(traditional)
        };
        let db = open(&vfs, archived())?;
        fill(&db)?;
        for round in 0..12 {
            in_transaction(&db, |tx, t| update(tx, t, 0, 1 + round % 2))?;
            while db.write_back()? > 0 {}
            db.archive_now()?;
            db.checkpoint()?;
        }
        assert!(db.log_status().oldest > Lsn(4 << 20), "the log does not reach back");
        // Some of it is in the log only.
        in_transaction(&db, |tx, t| update(tx, t, 0, 2))?;
        while db.write_back()? > 0 {}
        let lose = |vfs: &SimVfs| -> Result<()> {
            (1..data(vfs)?.len() / PAGE).try_for_each(|page| put(vfs, page, &[0; PAGE]))
        };
        lose(&vfs)?;
        check(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "traditional: {traditional}");
        assert!(db.stats().pool.repaired_pages > 100, "{:?}", db.stats().pool);
        while db.write_back()? > 0 {}
        drop(db);
        // Once more behind a crash, with what redo finds missing.
        let crashed = vfs.crash();
        lose(&crashed)?;
        let db = open(&crashed, archived())?;
        check(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "traditional: {traditional}");
        assert!(db.stats().pool.repaired_pages > 100, "{:?}", db.stats().pool);
        db.close()?;
        drop(db);
        let db = open(&crashed, Options { page_repair: false, ..archived() })?;
        check(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// Writes that the device acknowledged and lost: the file is as it was some time ago.
#[test]
fn writes_that_were_lost() -> Result<()> {
    for (traditional, repair) in [(false, true), (true, true), (false, false)] {
        let vfs = SimVfs::new(3);
        let db = open(&vfs, Options { page_repair: repair, ..options(traditional) })?;
        fill(&db)?;
        while db.write_back()? > 0 {}
        let before = data(&vfs)?;
        in_transaction(&db, |tx, t| update(tx, t, 0, 1))?;
        in_transaction(&db, |tx, t| update(tx, t, 0, 2))?;
        while db.write_back()? > 0 {}
        for (page, old) in before.chunks(PAGE).enumerate().skip(1) {
            put(&vfs, page, old)?;
        }
        match check(&db) {
            Ok(()) if repair => assert!(db.stats().pool.repaired_pages > 50, "{:?}", db.stats().pool),
            Err(error) if !repair => {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.message().contains("lost a write"), "{error}");
            }
            other => panic!("repair {repair}: {other:?}"),
        }
        assert!(db.stats().pool.lost_writes > 0);
    }
    Ok(())
}

/// The log does not reach back far enough: the page is an error as before, and is not looked for again and again.
#[test]
fn what_the_log_has_no_more() -> Result<()> {
    let vfs = SimVfs::new(4);
    let db = open(&vfs, options(false))?;
    fill(&db)?;
    db.close()?;
    drop(db);
    let small = Options { log_bytes_wanted: 1 << 20, log_bytes_max: 4 << 20, ..options(false) };
    let db = open(&vfs, small)?;
    for round in 0..40 {
        in_transaction(&db, |tx, t| update(tx, t, 0, 1 + round % 2))?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
    }
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    let pages = data(&vfs)?.len() / PAGE;
    for page in 1..pages {
        put(&vfs, page, &[0xEE; 512])?;
    }
    let mut errors = 0;
    for _ in 0..3 {
        if let Err(error) = check(&db) {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.message().contains("could not be rebuilt"), "{error}");
            errors += 1;
        }
    }
    assert_eq!(errors, 3);
    // However many they are, the log is read once; and for a while they are not looked for at all.
    let cost = || -> Result<(u64, usize)> {
        let before = vfs.stats().bytes_read;
        let (mut found, mut said) = (RowBuf::default(), std::collections::BTreeSet::new());
        for id in 0..ROWS {
            let statement = tx.statement(StatementKind::Read)?;
            if let Err(error) = statement.get(&t, &key(&t, id)?, &mut found) {
                said.insert(error.message().to_owned());
            }
        }
        Ok((vfs.stats().bytes_read - before, said.len()))
    };
    let (first, pages) = cost()?;
    let log = db.log_status().bytes_in_use;
    let (second, again) = cost()?;
    assert_eq!(again, pages);
    let more = first.saturating_sub(second);
    assert!(
        pages > 20 && more < 2 * log,
        "{first} and then {second} bytes were read for {pages} pages, the log has {log}"
    );
    Ok(())
}

/// Pages that the cleaner passed over, and that a check found, while the archive was away: they heal once it is back, by being read again, and what
/// had to wait for them is done.
#[test]
fn what_was_passed_over_heals() -> Result<()> {
    for (seed, unreadable) in [(0, false), (1, true)] {
        let vfs = SimVfs::new(30 + seed);
        for place in ["/disk2", "/db"] {
            vfs.make_folder(Path::new(place))?;
        }
        let archived = || Options {
            archive: Some("/disk2/archive".into()),
            log_bytes_wanted: 1 << 20,
            log_bytes_max: 4 << 20,
            ..options(false)
        };
        let db = open(&vfs, archived())?;
        fill(&db)?;
        // The log alone does not reach back to where the pages were made.
        for round in 0..8 {
            in_transaction(&db, |tx, t| update(tx, t, 0, 1 + round % 2))?;
            while db.write_back()? > 0 {}
            db.archive_now()?;
            db.checkpoint()?;
        }
        db.close()?;
        drop(db);
        // Each has rows that were rolled back, and wait for the cleaner.
        let before = data(&vfs)?;
        let note = "n".repeat(100);
        let has_rows = |page: &usize| {
            before[*page * PAGE..(*page + 1) * PAGE].windows(note.len()).any(|bytes| bytes == note.as_bytes())
        };
        let pages: Vec<usize> = (1..before.len() / PAGE).filter(has_rows).step_by(7).take(5).collect();
        assert!(pages.len() > 2, "{pages:?}");
        let db = open(&vfs, archived())?;
        let failing = resurgam_vfs::Failing { path: "/disk2".into(), reads: true, ..Default::default() };
        vfs.set_faults(FaultPlan { failing: vec![failing], ..FaultPlan::default() });
        for page in &pages {
            match unreadable {
                true => vfs.make_unreadable(Path::new("/db/data"), (page * PAGE) as u64..((page + 1) * PAGE) as u64)?,
                false => put(&vfs, *page, &[0xEE; PAGE])?,
            }
        }
        let passed = db.clean()?;
        assert!(passed.pages_skipped > 0 && passed.kept > 0, "{passed:?}");
        let found = db.verify().map_or_else(|error| error.message().to_owned(), |found| found.join("; "));
        assert!(pages.iter().any(|page| found.contains(&format!("page {page} "))), "{found}");
        vfs.set_faults(FaultPlan::default());
        // What could not be made is left alone for a moment.
        std::thread::sleep(Duration::from_millis(1500));
        let healed = db.clean()?;
        assert_eq!((healed.pages_skipped, healed.kept), (0, 0), "{healed:?}");
        assert!(db.stats().pool.repaired_pages > 0 && !db.repairs().is_empty());
        assert_eq!(db.verify()?, Vec::<String>::new());
        check(&db)?;
        db.close()?;
        drop(db);
        // They are in their places again.
        let db = open(&vfs, Options { page_repair: false, ..archived() })?;
        check(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        db.close()?;
    }
    Ok(())
}

/// While a repair reads the archive, what it found not to be there is archived, and goes from the log.
#[test]
fn the_log_stays_while_a_page_is_repaired() -> Result<()> {
    let vfs = SimVfs::new(6);
    vfs.make_folder(Path::new("/archive"))?;
    let below = FolderStore::open(Arc::new(vfs.clone()), Path::new("/archive")).map_err(Error::from)?;
    let store = Arc::new(Interrupted { below, at_read: Mutex::default() });
    let with_store = || Options {
        archive: Some("/archive".into()),
        archive_store: Some(StoreHandle(store.clone())),
        log_bytes_wanted: 1 << 20,
        log_bytes_max: 4 << 20,
        ..options(false)
    };
    let db = open(&vfs, with_store())?;
    fill(&db)?;
    db.archive_now()?;
    // The last records of these pages are in the log only, and the pages are written and not listed by the checkpoint.
    for round in 0..8 {
        in_transaction(&db, |tx, t| update(tx, t, 0, 1 + round % 2))?;
    }
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    drop(db);
    // What was written is not remembered: the pages' own history is all that tells how new they are.
    let db = open(&vfs, with_store())?;
    let archived = db.archive_status().and_then(|status| status.archived).expect("the archive is there");
    assert!(db.log_status().flushed.0 - archived.0 > 2 << 20, "{:?}", db.log_status());
    for page in 1..data(&vfs)?.len() / PAGE {
        put(&vfs, page, &[0xEE; 512])?;
    }
    let truncated = Arc::new(Mutex::new(None));
    let work = {
        let (db, truncated) = (db.clone(), Arc::clone(&truncated));
        move || {
            let work = || -> Result<Lsn> {
                db.archive_now()?;
                while db.write_back()? > 0 {}
                db.checkpoint()?;
                Ok(db.log_status().oldest)
            };
            *truncated.lock().unwrap() = Some(work());
        }
    };
    *store.at_read.lock().unwrap() = Some(Box::new(work));
    check(&db)?;
    let oldest = truncated.lock().unwrap().take().expect("the archive was read")?;
    assert!(oldest <= archived, "the log from {archived} on went: it is kept from {oldest} on");
    // Once the pages are written it goes.
    while db.write_back()? > 0 {}
    assert!(db.log_holders().iter().all(|holder| !holder.name.contains("repair")), "{:?}", db.log_holders());
    db.checkpoint()?;
    assert!(db.log_status().oldest > archived, "{:?}", db.log_status());
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()
}

/// Pages that were rebuilt and not written yet, a checkpoint, and a crash: they are rebuilt once more.
#[test]
fn a_crash_before_rebuilt_pages_are_written() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(7);
        let db = open(&vfs, options(traditional))?;
        let hold = db.hold_log("the test", db.log_status().oldest)?;
        fill(&db)?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        for page in 1..data(&vfs)?.len() / PAGE {
            put(&vfs, page, &[0xEE; 512])?;
        }
        vfs.open(Path::new("/db/data"), OpenMode::ReadWrite)?.sync()?;
        drop(hold);
        assert_eq!(db.verify()?, Vec::<String>::new());
        assert!(db.stats().pool.repaired_pages > 100, "{:?}", db.stats().pool);
        db.checkpoint()?;
        let log = db.log_status();
        drop(db);
        let crashed = vfs.crash();
        let db = open(&crashed, options(traditional))?;
        check(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "{log:?}");
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        assert!(db.log_status().oldest > Lsn(1 << 20), "the log goes on: {:?}", db.log_status());
        db.close()?;
    }
    Ok(())
}

/// Pages that a power loss tears, with double writes and without: with an archive from the beginning on they are off by
/// themselves, half of the bytes are written, and what is torn is rebuilt.
#[test]
fn torn_pages_without_double_writes() -> Result<()> {
    for traditional in [false, true] {
        let mut written = Vec::new();
        for double_writes in [DoubleWrites::On, DoubleWrites::Auto] {
            let (mut torn, mut bytes, mut pages) = (0, 0, 0);
            for seed in 0..12_u64 {
                let vfs = SimVfs::new(seed);
                vfs.make_folder(Path::new("/archive"))?;
                let archived = || Options {
                    archive: Some("/archive".into()),
                    log_bytes_wanted: 1 << 20,
                    log_bytes_max: 4 << 20,
                    double_writes,
                    ..options(traditional)
                };
                let db = open(&vfs, archived())?;
                fill(&db)?;
                while db.write_back()? > 0 {}
                db.archive_now()?;
                db.checkpoint()?;
                let copies = |db: &Database| {
                    let pool = db.stats().pool;
                    (2 * pool.pages_written - pool.fresh_pages_written, pool.pages_written)
                };
                let before = copies(&db);
                for round in 0..4_u64 {
                    in_transaction(&db, |tx, t| update(tx, t, 0, 1 + round as i64 % 2))?;
                    if seed % 3 != round % 3 {
                        db.archive_now()?;
                    }
                    if seed % 4 == round {
                        db.checkpoint()?;
                    }
                }
                // Some are written and not synced when the power goes.
                db.write_back()?;
                let after = copies(&db);
                bytes += (after.0 - before.0) * PAGE as u64;
                pages += after.1 - before.1;
                drop(db);
                let crashed = vfs.crash_clone(seed + 100);
                let db = open(&crashed, archived())?;
                check(&db)?;
                assert_eq!(db.verify()?, Vec::<String>::new(), "traditional: {traditional} seed {seed}");
                torn += db.stats().pool.repaired_pages;
                db.close()?;
                drop(db);
                let db = open(&crashed, Options { page_repair: false, ..archived() })?;
                assert_eq!(db.verify()?, Vec::<String>::new(), "traditional: {traditional} seed {seed}");
            }
            match double_writes {
                DoubleWrites::On => assert_eq!(torn, 0, "the double-write area has them"),
                _ => assert!(torn > 20, "{torn} torn pages were met"),
            }
            written.push(bytes / pages);
        }
        eprintln!("bytes written for each page, with double writes and without: {written:?}");
        assert!(written[0] > PAGE as u64 * 3 / 2 && written[1] == PAGE as u64, "{written:?}");
    }
    Ok(())
}

/// An archive that was begun later than the database: pages are written twice until a backup has an image of each, then once, and what is
/// torn is rebuilt from that. A place of backups that has none does not count, nor one that cannot be read.
#[test]
fn a_backup_protects_as_the_beginning_does() -> Result<()> {
    let mut torn = 0;
    for seed in 0..8_u64 {
        let vfs = SimVfs::new(seed);
        for place in ["/archive", "/backups"] {
            vfs.make_folder(Path::new(place))?;
        }
        let small = || Options { log_bytes_wanted: 1 << 20, log_bytes_max: 4 << 20, ..options(seed % 2 == 1) };
        let db = open(&vfs, small())?;
        fill(&db)?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        db.close()?;
        drop(db);
        let later = || Options { archive: Some("/archive".into()), backups: Some("/backups".into()), ..small() };
        // How often a page is written that was there before.
        let work = |db: &Database, value: i64| -> Result<(u64, u64)> {
            let of = |db: &Database| {
                let pool = db.stats().pool;
                (2 * pool.pages_written - pool.fresh_pages_written, pool.pages_written)
            };
            while db.write_back()? > 0 {}
            let before = of(db);
            in_transaction(db, |tx, t| update(tx, t, 0, value))?;
            while db.write_back()? > 0 {}
            let after = of(db);
            Ok((after.0 - before.0, after.1 - before.1))
        };
        let db = open(&vfs, later())?;
        db.archive_now()?;
        assert!(db.archive_status().is_some_and(|status| status.state == "current"));
        let (images, pages) = work(&db, 1)?;
        assert!(images > pages, "seed {seed}: {images} images of {pages} pages without a backup");
        let known =
            |db: &Database| (db.recoverable_point_age(), db.backup_totals().and_then(|totals| totals.newest_age));
        assert_eq!(known(&db), (None, None), "seed {seed}: nothing gives the whole database");
        let newest_point = |db: &Database| db.archive_status().and_then(|status| db.newest_point(&status));
        assert_eq!(newest_point(&db), None, "seed {seed}");
        db.backup(false, &|| false)?;
        db.archive_now()?;
        let (images, pages) = work(&db, 2)?;
        assert_eq!(images, pages, "seed {seed}: with a backup");
        assert!(known(&db).0.is_some(), "seed {seed}");
        // All that is durable is archived: as of now; then not any more, and it stays where it is while time passes.
        db.archive_now()?;
        let now = || vfs.wall_clock_us();
        let (age, at) = newest_point(&db).expect("it gives the whole database");
        assert!(age.is_zero() && (at - now()).abs() < 1_000, "seed {seed}: {age:?}, {at}");
        in_transaction(&db, |tx, t| update(tx, t, 0, 3))?;
        let (age, at) = newest_point(&db).expect("it still does");
        assert_eq!(db.archive_status().map(|status| status.lag_bytes > 0), Some(true), "seed {seed}");
        assert!(age < Duration::from_secs(60) && at <= now(), "seed {seed}: {age:?}, {at}");
        let hour = Duration::from_secs(3600);
        assert!(known(&db).1.is_some_and(|age| age < hour), "seed {seed}");
        vfs.advance(hour);
        assert!(known(&db).1.is_some_and(|age| age >= hour), "seed {seed}");
        // Also at the next open.
        drop(db);
        let vfs = vfs.crash_clone(seed + 100);
        let db = open(&vfs, later())?;
        db.archive_now()?;
        let (images, pages) = work(&db, 1)?;
        assert_eq!(images, pages, "seed {seed}: opened again");
        assert!(known(&db).0.is_some() && known(&db).1.is_some(), "seed {seed}: opened again");
        in_transaction(&db, |tx, t| update(tx, t, 0, 2))?;
        db.write_back()?;
        torn += db.stats().pool.repaired_pages;
        drop(db);
        let vfs = vfs.crash_clone(seed + 200);
        let db = open(&vfs, later())?;
        check(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed}");
        torn += db.stats().pool.repaired_pages;
        db.close()?;
        drop(db);
        // A backup that is gone, as its place, protects nothing.
        let gone = || Options { backups: Some("/nothing".into()), ..later() };
        let db = open(&vfs, gone())?;
        db.archive_now()?;
        let (images, pages) = work(&db, 1)?;
        assert!(images > pages, "seed {seed}: {images} images of {pages} pages without the backups");
        db.close()?;
    }
    assert!(torn > 5, "{torn} torn pages were met");
    Ok(())
}

/// Pages were written twice before they were written once: the old images of the double-write area do not come back in
/// the place of a page that is damaged later.
#[test]
fn old_images_of_the_double_write_area_do_not_come_back() -> Result<()> {
    let vfs = SimVfs::new(9);
    vfs.make_folder(Path::new("/archive"))?;
    let with = |double_writes| Options {
        archive: Some("/archive".into()),
        buffer_bytes: 4096 * PAGE,
        double_writes,
        ..options(false)
    };
    let db = open(&vfs, with(DoubleWrites::On))?;
    fill(&db)?;
    while db.write_back()? > 0 {}
    in_transaction(&db, |tx, t| update(tx, t, 0, 1))?;
    db.close()?;
    drop(db);
    let db = open(&vfs, with(DoubleWrites::Auto))?;
    in_transaction(&db, |tx, t| update(tx, t, 0, 2))?;
    while db.write_back()? > 0 {}
    db.archive_now()?;
    db.checkpoint()?;
    drop(db);
    let crashed = vfs.crash();
    for page in 1..data(&crashed)?.len() / PAGE {
        put(&crashed, page, &[0xEE; 512])?;
    }
    let db = open(&crashed, with(DoubleWrites::Auto))?;
    check(&db)?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()
}

/// A device that has sectors that cannot be read, before crashes and in between; or one that acknowledges writes and loses
/// them, or puts them elsewhere, while the database is open (`first_reads.rs` has those that a restart comes between). With an archive from the beginning on every row is there.
#[test]
fn devices_that_lie() -> Result<()> {
    let path = Path::new("/db/data");
    let (mut repaired, mut lost) = (0, 0);
    for seed in 0..16_u64 {
        let vfs = SimVfs::new(seed);
        vfs.make_folder(Path::new("/archive"))?;
        let archived = || Options {
            archive: Some("/archive".into()),
            log_bytes_wanted: 1 << 20,
            log_bytes_max: 4 << 20,
            double_writes: [DoubleWrites::Auto, DoubleWrites::On][seed as usize / 4 % 2],
            ..options(seed % 4 > 1)
        };
        let lies = seed % 2 == 0;
        let mut rng = seed + 1;
        let mut below = |n: u64| {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (rng >> 33) % n
        };
        let mut db = open(&vfs, archived())?;
        fill(&db)?;
        let mut vfs = vfs;
        for round in 0..6_u64 {
            let mut lying = Vec::new();
            for _ in 0..if lies { below(8) } else { 0 } {
                let far = PAGE as i64 * (1 + below(6) as i64);
                let lie = if below(2) == 0 { Lie::Elsewhere(far) } else { Lie::Lost };
                lying.push(LyingWrite { path: path.to_path_buf(), at: 1 + below(60), lie });
            }
            vfs.set_faults(FaultPlan { lying, ..FaultPlan::default() });
            in_transaction(&db, |tx, t| update(tx, t, 0, 1 + round as i64 % 2))?;
            while db.write_back()? > 0 {}
            vfs.set_faults(FaultPlan::default());
            if below(2) == 0 {
                db.archive_now()?;
            }
            if below(2) == 0 {
                db.checkpoint()?;
            }
            let pages = data(&vfs.fork(1)).unwrap_or_default().len() as u64 / PAGE as u64;
            if pages > 1 {
                for _ in 0..below(12) {
                    let from = (1 + below(pages - 1)) * PAGE as u64;
                    vfs.make_unreadable(path, from..from + 1 + below(PAGE as u64))?;
                }
            }
            if !lies && below(2) == 0 {
                (repaired, lost) = (repaired + db.stats().pool.repaired_pages, lost + db.stats().pool.lost_writes);
                drop(db);
                vfs = vfs.crash();
                db = open(&vfs, archived())?;
            }
            assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed} round {round}");
            if round % 2 == 1 {
                check(&db)?;
            }
        }
        (repaired, lost) = (repaired + db.stats().pool.repaired_pages, lost + db.stats().pool.lost_writes);
        db.close()?;
        drop(db);
        if !lies {
            // What could not be read is in its place again.
            let db = open(&vfs, Options { page_repair: false, ..archived() })?;
            check(&db)?;
            assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed}");
        }
    }
    assert!(repaired > 100 && lost > 10, "{repaired} pages were rebuilt, {lost} lost writes were noticed");
    Ok(())
}
