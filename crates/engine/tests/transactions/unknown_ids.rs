//! A row version of a transaction whose id was never given out: it is neither committed nor aborted, but damage, which no reader and no
//! writer passes over in silence. (The page is one that nothing else tells: sealed, and as of an LSN that the log has.)

use std::path::Path;

use crate::common::open::{open, open_recovered, small};
use crate::common::{self, key, row, rows_table};
use resurgam_base::SlotId;
use resurgam_engine::*;
use resurgam_page::{PageBuf, PageType, leaf};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

const MARK: &str = "the row of nobody";
/// Where a record that is tagged has its writer.
const XID_AT: usize = 3;

fn value(db: &Database, id: i64) -> Result<Option<i64>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    let mut row = RowBuf::default();
    if !tx.statement(StatementKind::Read)?.get(&t, &key(&t, id)?, &mut row)? {
        return Ok(None);
    }
    match t.column(row.raw(), 1)? {
        DatumRef::Int8(value) => Ok(Some(value)),
        other => panic!("{other:?}"),
    }
}

/// Gives the row with that note another writer, in the file.
fn rewrite(vfs: &SimVfs, writer: u64) -> Result<()> {
    let file = vfs.open(Path::new("/db/data"), OpenMode::ReadWrite)?;
    let mut rewritten = 0;
    for number in 0..file.len()? / limits::PAGE_SIZE as u64 {
        let mut page = PageBuf::zeroed();
        file.read_exact_at(page.as_bytes_mut(), number * limits::PAGE_SIZE as u64)?;
        if !page.is(PageType::Leaf) {
            continue;
        }
        for slot in 0..page.slot_count() {
            let record = page.record(SlotId(slot))?;
            if !record.windows(MARK.len()).any(|bytes| bytes == MARK.as_bytes()) || leaf::xid_of(record).is_none() {
                continue;
            }
            let at = record.as_ptr() as usize - page.as_bytes().as_ptr() as usize + XID_AT;
            page.as_bytes_mut()[at..at + 8].copy_from_slice(&writer.to_le_bytes());
            assert_eq!(leaf::xid_of(page.record(SlotId(slot))?), TxId(writer));
            rewritten += 1;
        }
        page.seal();
        file.write_at(page.as_bytes(), number * limits::PAGE_SIZE as u64)?;
    }
    assert_eq!(rewritten, 1);
    file.sync()
}

#[test]
fn a_version_of_nobody_is_no_committed_one() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let t = tx.create_table(rows_table("t"))?.done()?;
        for id in 0..300 {
            tx.insert(&t, &row(id, id, if id == 150 { MARK } else { "a note" }))?.done()?;
        }
        let known = tx.id().expect("it has written");
        tx.commit(Durability::Sync)?.wait()?;
        db.close()?;
        drop((t, db));
        for writer in [known.0 + 1000, u64::MAX - 1] {
            let case = format!("traditional: {traditional}, transaction {writer}");
            rewrite(&vfs, writer)?;
            vfs.remove(Path::new("/db/doublewrite"))?;
            let db = open_recovered(&vfs, small(traditional))?;
            let refused = |outcome: Result<()>, what: &str| {
                let error = outcome.expect_err(&format!("{case}: {what}"));
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{case}: {what}: {error}");
                assert!(error.message().contains(&format!("transaction {writer}")), "{case}: {what}: {error}");
            };
            refused(value(&db, 150).map(|_| ()), "a read");
            refused(common::read(&db).map(|_| ()), "a scan");
            let change = |work: &dyn Fn(&Transaction, &std::sync::Arc<Table>) -> Result<()>| {
                let tx = db.begin(Isolation::ReadCommitted);
                let t = tx.table("public", "t")?.expect("made");
                tx.statement(StatementKind::PointWrite)?;
                work(&tx, &t)?;
                tx.commit(Durability::Sync)?.wait()
            };
            refused(
                change(&|tx, t| tx.update(t, &key(t, 150)?, Seen::Snapshot, &row(150, 1, "new"))?.done().map(|_| ())),
                "an update",
            );
            refused(change(&|tx, t| tx.delete(t, &key(t, 150)?, Seen::Snapshot)?.done().map(|_| ())), "a deletion");
            refused(change(&|tx, t| tx.insert(t, &row(150, 1, "new"))?.done()), "an insert");
            assert_eq!((value(&db, 149)?, value(&db, 151)?), (Some(149), Some(151)), "{case}");
            // The sweep leaves the page as it is, and says so.
            let report = db.clean()?;
            assert!(report.pages_skipped > 0, "{case}: {report:?}");
            refused(value(&db, 150).map(|_| ()), "a read after a sweep");
            db.close()?;
        }
        // Where the id is one that was given out, all is as it was.
        rewrite(&vfs, known.0)?;
        let db = open_recovered(&vfs, small(traditional))?;
        assert_eq!((value(&db, 150)?, common::read(&db)?.len()), (Some(150), 300));
    }
    Ok(())
}
