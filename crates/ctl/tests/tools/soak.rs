//! Random work with power losses at random moments: whatever a crash leaves is sound, also
//! one during recovery or cleaning. `RESURGAM_SOAK=N` runs N seeds.

use crate::common::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs};

/// A burst of work; ends early when the disk dies.
fn work(db: &Database, rng: &mut SmallRng) -> Result<()> {
    for _ in 0..rng.random_range(1..12) {
        match rng.random_range(0..20) {
            0 => db.checkpoint()?,
            1 => drop(db.write_back()?),
            2 => drop(db.clean()?),
            3 => definitions(db, rng)?,
            _ => rows(db, rng)?,
        }
    }
    Ok(())
}

fn definitions(db: &Database, rng: &mut SmallRng) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let name = format!("t{}", rng.random_range(0..3));
    match tx.table("public", &name)? {
        Some(table) if rng.random() => drop(tx.drop_table(&table)?.done()?),
        Some(table) => drop(tx.truncate(&table)?.done()?),
        None => {
            let spec = TableSpec::new("public", &name)
                .column("id", ColumnType::Int4)
                .column("name", ColumnType::Text)
                .column("born", ColumnType::Date)
                .primary_key(&["id"])
                .index(&format!("{name}_born"), &["born"], rng.random());
            drop(tx.create_table(spec)?.done()?);
        }
    }
    end(tx, rng)
}

fn rows(db: &Database, rng: &mut SmallRng) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let name = format!("t{}", rng.random_range(0..3));
    let Some(table) = tx.table("public", &name)? else { return end(tx, rng) };
    for _ in 0..rng.random_range(1..4) {
        tx.statement(StatementKind::BulkWrite)?;
        for _ in 0..rng.random_range(1..60) {
            let id = rng.random_range(0..300);
            let len = [5, 40, 300, 1200, 9000][rng.random_range(0..5)];
            let text = "n".repeat(rng.random_range(0..len));
            let row = [DatumRef::Int4(id), DatumRef::Text(&text), DatumRef::Date(rng.random_range(0..1000))];
            let done = match rng.random_range(0..4) {
                0 => tx.delete(&table, &key(&table, id), Seen::Snapshot).map(drop),
                1 => tx.update(&table, &key(&table, id), Seen::Snapshot, &row).map(drop),
                _ => tx.insert(&table, &row).map(drop),
            };
            match done {
                Err(error) if error.kind() != ErrorKind::UniqueViolation => return Err(error),
                _ => {}
            }
        }
    }
    end(tx, rng)
}

fn end(tx: Transaction, rng: &mut SmallRng) -> Result<()> {
    match rng.random_range(0..10) {
        0 | 1 => tx.rollback(),
        2 => {
            std::mem::forget(tx);
            Ok(())
        }
        _ => tx.commit(Durability::Sync)?.wait(),
    }
}

#[test]
fn whatever_a_crash_leaves_is_sound() {
    let seeds = std::env::var("RESURGAM_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(40u64);
    let (mut redone, mut awaiting, mut blocked) = (0, 0, 0);
    for seed in 0..seeds {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut vfs = SimVfs::new(seed);
        drop(open(&vfs));
        for round in 0..8 {
            vfs.set_faults(FaultPlan { crash_after_ops: Some(rng.random_range(1..250)), ..FaultPlan::default() });
            let opened =
                Database::open_with(std::sync::Arc::new(vfs.clone()), std::path::Path::new(DIR), options(), |_| {});
            // It works until the power goes, and nothing else stops it but those who keep their locks for ever.
            let worked = opened.as_ref().map_err(Clone::clone).and_then(|db| {
                if rng.random() {
                    db.finish_recovery()?;
                }
                let mut blocked = 0;
                while blocked < 40 {
                    match work(db, &mut rng) {
                        Err(error) if error.kind() == ErrorKind::LockNotAvailable => blocked += 1,
                        outcome => outcome?,
                    }
                }
                Ok(())
            });
            match worked {
                Ok(()) => blocked += 1,
                Err(error) => assert!(vfs.power_lost(), "seed {seed} round {round}: {error:?}"),
            }
            vfs = vfs.crash();
            drop(opened);
            let (report, text) = checked(&vfs);
            assert!(report.is_sound(), "seed {seed} round {round}: {text}");
            redone += report.counts.pages_to_redo;
            awaiting += report.counts.awaiting_cleaner;
        }
        let db = open(&vfs);
        db.finish_recovery().unwrap();
        for _ in 0..3 {
            db.clean().unwrap();
        }
        db.close().unwrap();
        let (report, text) = checked(&vfs);
        assert!(report.is_sound(), "seed {seed}, cleaned: {text}");
        assert_eq!(report.leaked, 0, "seed {seed}, cleaned: {text}");
    }
    assert!(blocked < seeds * 2, "most lives end with power lost at work: {blocked} of {} do not", seeds * 8);
    assert!(redone > 1000 && awaiting > 10, "the interesting cases were not reached: {redone} {awaiting}");
}
