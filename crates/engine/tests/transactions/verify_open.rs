//! Verifying a database right after its open, while its own threads learn what is in the files.

use std::time::Duration;

use crate::common::open::open_as;
use crate::common::{key, row, rows_table};
use resurgam_engine::*;
use resurgam_vfs::SimVfs;

fn open(vfs: &SimVfs, background: bool) -> Result<Database> {
    let versions = VersionCaps { in_row: false, ..VersionCaps::default() };
    open_as(vfs, Options { buffer_bytes: 4 << 20, background, versions, ..Options::default() })
}

/// The version store's table is filled while the space maps are compared with it.
#[test]
fn what_is_being_found_is_no_damage() -> Result<()> {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, false)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = rows_table("t");
    let table = tx.create_table(spec)?.done()?;
    (0..1500).try_for_each(|id| tx.insert(&table, &row(id, 0, &"x".repeat(400)))?.done())?;
    tx.commit(Durability::Sync)?.wait()?;
    let _old = db.begin(Isolation::RepeatableRead).statement(StatementKind::Read)?;
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::BulkWrite)?;
    for id in 0..1500 {
        let changed = tx.update(&table, &key(&table, id)?, Seen::Snapshot, &row(id, 1, &"y".repeat(400)))?.done()?;
        assert_eq!(changed, Change::Done);
    }
    tx.commit(Durability::Sync)?.wait()?;
    assert!(db.stats().versions.pages > 50, "{:?}", db.stats().versions);
    db.write_back()?;
    db.checkpoint()?;
    for round in 0..20u64 {
        let db = open(&vfs.crash_clone(round), true)?;
        std::thread::sleep(Duration::from_micros(round % 20 * 250));
        assert_eq!(db.verify()?, Vec::<String>::new(), "round {round}");
        db.close()?;
    }
    Ok(())
}
