//! The mark that a page has versions, in the page's header and in its space map, is what the
//! sweep finds versions by. It must be durable no later than the first version on the page:
//! otherwise the sweep passes over an aborted row, forgets its transaction, and the row
//! counts as committed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use resurgam_base::limits::PAGE_SIZE;
use resurgam_engine::*;
use resurgam_log::LogReader;
use resurgam_page::{LeafRecord, PageBuf, PageType, op, space};
use resurgam_recovery::ControlFile;
use resurgam_vfs::{FaultPlan, OpenMode, SimVfs, Vfs};

use crate::support::*;

/// Work of all kinds: updates, deletes, inserts, splits, off-row versions, rollbacks,
/// sweeps with merges.
fn work(db: &Database, expected: &mut Rows) -> Result<()> {
    for round in 0..4i64 {
        let tx = db.begin(Isolation::ReadCommitted);
        let mut after = expected.clone();
        for id in (round..150).step_by(7) {
            let text = if id % 2 == 0 { note(id + round, 600) } else { "short".to_owned() };
            if update(&tx, id, &text)? == Change::Done {
                after.insert(id, text);
            }
        }
        for id in (round * 20..round * 20 + 15).filter(|id| id % 3 == 0) {
            if delete(&tx, id)? == Change::Done {
                after.remove(&id);
            }
        }
        for id in 1000 + round * 40..1000 + round * 40 + 40 {
            insert(&tx, id, &note(id, 500))?;
            after.insert(id, note(id, 500));
        }
        if round % 2 == 0 {
            tx.rollback()?;
        } else {
            tx.commit(Durability::Sync)?.wait()?;
            *expected = after;
        }
        if round > 1 {
            db.clean()?;
        }
    }
    Ok(())
}

fn filled(seed: u64) -> Result<(SimVfs, Rows)> {
    let vfs = SimVfs::new(seed);
    let db = open(&vfs)?;
    create(&db)?;
    let expected: Rows = (0..150).map(|id| (id, note(id, 300))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    for _ in 0..3 {
        db.clean()?;
        commit(&db, |tx| update(tx, 0, &note(0, 300)).map(|_| ()))?;
    }
    db.close()?;
    drop(db);
    Ok((vfs, expected))
}

/// Replays the log group by group, as redo from the log alone would make the pages if it ended
/// there: after each group every page with a tagged row has both marks. So no crash, whatever
/// it leaves of the log, shows a version without its mark.
#[test]
fn after_every_log_group() -> Result<()> {
    let (vfs, mut expected) = filled(1)?;
    let base = vfs.fork(1);
    let disk: Arc<dyn Vfs> = Arc::new(base.clone());
    let (_, control) = ControlFile::open(&disk, &Path::new(DIR).join("control"), true)?;
    let db = open(&vfs)?;
    work(&db, &mut expected)?;
    db.close()?;
    drop(db);
    let data = base.open(&Path::new(DIR).join("data"), OpenMode::ReadOnly)?;
    let mut pages: HashMap<PageId, PageBuf> = HashMap::new();
    let page = |pages: &mut HashMap<PageId, PageBuf>, id: PageId| -> Result<()> {
        if let Entry::Vacant(entry) = pages.entry(id) {
            let mut buf = PageBuf::zeroed();
            let read = data.read_at(buf.as_bytes_mut(), id.0 * PAGE_SIZE as u64)?;
            assert!(read == PAGE_SIZE || read == 0);
            entry.insert(buf);
        }
        Ok(())
    };
    let log: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let mut reader = LogReader::open(log, &Path::new(DIR).join("log"), control.segment_bytes, control.checkpoint, 0)?;
    let (mut groups, mut tagged, mut first_marks) = (0, 0, 0);
    while let Some(group) = reader.next_group()? {
        groups += 1;
        let mut touched = Vec::new();
        for record in group.records().filter(|r| r.header.kind.is_of_page()) {
            let id = record.header.page;
            page(&mut pages, id)?;
            let buf = pages.get_mut(&id).expect("just read");
            let before = buf.has_versions();
            if buf.lsn() < record.lsn {
                op::apply(buf, id, record.body, record.lsn)?;
            }
            first_marks += u64::from(!before && buf.has_versions());
            touched.push(id);
        }
        for id in touched {
            let map_id = space::map_page_of(id);
            page(&mut pages, map_id)?;
            let (buf, map) = (&pages[&id], &pages[&map_id]);
            if !buf.is(PageType::Leaf) {
                continue;
            }
            let mut versions = 0;
            for slot in 0..buf.slot_count() {
                versions += u64::from(LeafRecord::parse(buf.record(resurgam_base::SlotId(slot))?)?.is_tagged());
            }
            tagged += versions;
            if versions > 0 {
                assert!(buf.has_versions(), "after group {groups} page {id} has versions and no mark");
                assert!(
                    space::pfs(map, id) & space::PFS_HAS_VERSIONS != 0,
                    "after group {groups} page {id} has versions, and its space map does not say so"
                );
            }
        }
    }
    assert!(groups > 300 && tagged > 1000 && first_marks > 20, "{groups} {tagged} {first_marks}");
    Ok(())
}

/// Power is lost everywhere in the work, with pages torn, lost and written out of order; what
/// was aborted stays aborted when a sweep has forgotten it.
#[test]
fn after_a_loss_anywhere() -> Result<()> {
    let (start, before) = filled(2)?;
    let mut lost = 0;
    for step in (1..400).step_by(3) {
        let vfs = start.fork(step);
        let mut expected = before.clone();
        let db = open(&vfs)?;
        // Row changes of a transaction that will not end, made durable by another's commit.
        let open_work = |db: &Database| -> Result<Transaction> {
            let tx = db.begin(Isolation::ReadCommitted);
            for id in (0..150).step_by(11) {
                update(&tx, id, "never committed")?;
            }
            insert(&tx, 5000, "never committed")?;
            db.write_back()?;
            commit(db, |tx| insert(tx, 6000, "committed"))?;
            Ok(tx)
        };
        vfs.set_faults(FaultPlan { crash_after_ops: Some(step), ..FaultPlan::default() });
        let mut maybe = expected.clone();
        maybe.insert(6000, "committed".into());
        let tx = open_work(&db);
        if tx.is_ok() {
            expected = maybe.clone();
        }
        let _ = db.write_back().and_then(|_| db.checkpoint()).and_then(|()| db.write_back());
        lost += u64::from(vfs.power_lost());
        let vfs = vfs.crash();
        drop((tx, db));
        let db = open(&vfs)?;
        let found = rows(&db)?;
        // Its commit may be in the log though it was not acknowledged.
        if found.contains_key(&6000) {
            expected = maybe;
        }
        compare(&found, &expected, &format!("power lost at step {step}"));
        db.finish_recovery()?;
        db.clean()?;
        assert_eq!(db.stats().transactions.aborted_in_map, 0, "power lost at step {step}");
        compare(&rows(&db)?, &expected, &format!("power lost at step {step}, after the sweep"));
        verify(&db, &format!("power lost at step {step}"))?;
        if !vfs.power_lost() && step > 60 && lost * 3 + 60 < step {
            break;
        }
    }
    assert!(lost > 5, "power was lost {lost} times");
    Ok(())
}
