//! Pages of the tree of pending frees that are damaged: the sweep goes on without them, and forgets
//! who cannot have an entry there.

use std::path::Path;

use resurgam_engine::*;
use resurgam_page::{PageBuf, PageType};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

use crate::support::{DIR, commit, create, insert, open_as, options, update, verify};

fn open(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    open_as(vfs, Options { accelerated_database_recovery: !traditional, ..options() })
}

/// Owner of the pages of that tree.
const PENDING_FREES: u32 = 5;

/// Its leaves in the data file.
fn leaves_of_it(vfs: &SimVfs) -> Result<Vec<u64>> {
    let file = vfs.open(&Path::new(DIR).join("data"), OpenMode::ReadOnly)?;
    let mut found = Vec::new();
    for number in 0..file.len()? / limits::PAGE_SIZE as u64 {
        let mut page = PageBuf::zeroed();
        file.read_exact_at(page.as_bytes_mut(), number * limits::PAGE_SIZE as u64)?;
        if page.is(PageType::Leaf) && page.object() == ObjectId(PENDING_FREES) && page.slot_count() > 10 {
            found.push(number);
        }
    }
    Ok(found)
}

fn make(db: &Database, name: &str) -> Result<()> {
    commit(db, |tx| {
        let spec = TableSpec::new("public", name).column("id", ColumnType::Int8).primary_key(&["id"]);
        tx.create_table(spec)?.done().map(|_| ())
    })
}

#[test]
fn a_damaged_page_of_pending_frees_keeps_few() -> Result<()> {
    [false, true].into_iter().try_for_each(keeps_few)
}

fn keeps_few(traditional: bool) -> Result<()> {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, traditional)?;
    create(&db)?;
    commit(&db, |tx| (0..100).try_for_each(|id| insert(tx, id, "a row")))?;
    (0..900).try_for_each(|n| make(&db, &format!("t{n}")))?;
    db.clean()?;
    // Dropped, and still seen by somebody: their entries wait.
    let old = db.begin(Isolation::RepeatableRead);
    drop(old.statement(StatementKind::Read)?);
    for n in 0..900 {
        commit(&db, |tx| {
            let table = tx.table("public", &format!("t{n}"))?.expect("made");
            tx.drop_table(&table)?.done()
        })?;
    }
    let entries = db.pending_frees_len()?;
    assert!(entries >= 900);
    drop(old);
    // One whose creator rolls back is an entry that must not be forgotten.
    let maker = db.begin(Isolation::ReadCommitted);
    maker.create_table(TableSpec::new("public", "never").column("id", ColumnType::Int8))?.done()?;
    maker.rollback()?;
    db.close()?;
    drop(db);
    let leaves = leaves_of_it(&vfs)?;
    assert!(leaves.len() > 2, "{leaves:?}");
    // The first: whoever comes later has his entries on the last.
    let damaged = leaves[0];
    // Which would mend it.
    vfs.remove(&Path::new(DIR).join("doublewrite"))?;
    let bit = damaged * limits::PAGE_SIZE as u64 * 8 + 40_000;
    vfs.flip_bit(&Path::new(DIR).join("data"), bit)?;
    let db = open(&vfs, traditional)?;
    for round in 0..3 {
        let tx = db.begin(Isolation::ReadCommitted);
        if traditional {
            // Of one that wrote rows only nothing is left to be forgotten.
            tx.create_table(TableSpec::new("public", "undone").column("id", ColumnType::Int8))?.done()?;
        } else {
            assert_eq!(update(&tx, 5, "aborted")?, Change::Done);
        }
        tx.rollback()?;
        let before = db.aborted_count();
        let report = db.clean()?;
        assert!(report.skipped.pending_frees.count > 0, "traditional: {traditional}, round {round}: {report:?}");
        assert!(
            report.forgotten > 0 && db.aborted_count() < before,
            "traditional: {traditional}, round {round}: nobody is forgotten: {report:?}"
        );
    }
    // Whoever comes later has his entries elsewhere, and they are carried out.
    make(&db, "later")?;
    commit(&db, |tx| {
        let table = tx.table("public", "later")?.expect("made");
        tx.drop_table(&table)?.done()
    })?;
    commit(&db, |tx| update(tx, 6, "moves the horizon").map(|_| ()))?;
    let done: u64 = (0..2).map(|_| db.clean().map(|report| report.pending_frees_done)).sum::<Result<u64>>()?;
    assert!(done > 0, "the frees of others are carried out");
    db.close()?;
    drop(db);
    // Mended: all that was kept back is freed.
    vfs.flip_bit(&Path::new(DIR).join("data"), bit)?;
    let db = open(&vfs, traditional)?;
    for _ in 0..3 {
        commit(&db, |tx| update(tx, 6, "moves the horizon").map(|_| ()))?;
        db.clean()?;
    }
    assert_eq!((db.pending_frees_len()?, db.aborted_count()), (0, 0));
    verify(&db, "mended")
}
