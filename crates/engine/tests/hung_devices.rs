//! Devices that hang: no call to them ends. What is under way ends late, when all that it was for is elsewhere, and changes nothing.
//!
//! `RESURGAM_FIRST_SEED=s` makes other histories.

#[path = "rebuilt/restore/support.rs"]
#[allow(dead_code)]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs, Vfs};
use support::*;

const KINDS: [Kind; 3] = [
    Kind { traditional: false, version_file: false, spare: true, no_repair: false, records_max: 0 },
    Kind { traditional: true, version_file: false, spare: true, no_repair: false, records_max: 9 },
    Kind { traditional: false, version_file: true, spare: true, no_repair: false, records_max: 30 },
];

const TIMEOUT: Duration = Duration::from_millis(40);

/// Longer than a busy machine lets a device that is well wait.
const PATIENCE: Duration = Duration::from_secs(10);

fn opened(sim: &SimVfs, kind: Kind) -> Result<Database> {
    let mut tries = 0;
    loop {
        match open_with(sim, Options { device_timeout: TIMEOUT, ..options(kind) }) {
            // The machine did something else for so long.
            Err(error) if error.kind() == ErrorKind::Io && tries < 5 => tries += 1,
            done => return done,
        }
    }
}

/// Where no device hangs.
fn opened_patiently(sim: &SimVfs, kind: Kind) -> Result<Database> {
    open_with(sim, Options { device_timeout: PATIENCE, ..options(kind) })
}

fn hang(sim: &SimVfs, at: u64, below: &str) {
    sim.set_faults(FaultPlan { hangs: Some((at, below.into())), ..FaultPlan::default() });
}

/// What a life does, tried again where a device that hangs failed it.
fn live(db: &Database, model: &mut Model, rounds: u64) -> Result<()> {
    for round in 0..rounds {
        let mut tries = 0;
        while let Err(error) = (|| {
            model.work(db)?;
            db.write_back()?;
            if round % 3 == 1 {
                db.checkpoint()?;
            }
            if round % 4 == 2 {
                db.archive_now()?;
            }
            db.restore_step().map(drop)
        })() {
            tries += 1;
            assert!(error.kind() == ErrorKind::Io && tries < 20, "it goes on: {error}");
            // The background would.
            let _ = db.replace_dead_devices();
        }
    }
    Ok(())
}

fn look(db: &Database, model: &mut Model, when: &str) -> Result<()> {
    let mut tries = 0;
    while let Err(error) = model.check(db, when) {
        tries += 1;
        assert!(error.kind() == ErrorKind::Io && tries < 20, "{when}: it goes on: {error}");
        let _ = db.replace_dead_devices();
    }
    Ok(())
}

/// The device of the data, or that of the version store, hangs from each call in turn. It answers again while the work goes on
/// elsewhere, or at a power loss only, or never; then a restart with the same command line, and more crashes.
#[test]
fn a_device_hangs_at_every_step() -> Result<()> {
    let first = std::env::var("RESURGAM_FIRST_SEED").ok().and_then(|n| n.parse::<u64>().ok()).unwrap_or(130);
    for (seed, kind) in KINDS.into_iter().enumerate() {
        let base = machine(seed as u64 + first)?;
        let mut model = Model::new(seed as u64 + first);
        let db = opened_patiently(&base, kind)?;
        model.fill(&db)?;
        (0..4).try_for_each(|_| model.work(&db))?;
        db.archive_now()?;
        db.checkpoint()?;
        model.work(&db)?;
        drop(db);
        let base = base.crash();
        let (mut hung, mut replaced, mut late) = (0, 0, 0);
        for at in (1..260).step_by(7) {
            let mut sim = base.fork(at);
            let mut model = model.copy(at);
            let db = opened(&sim, kind)?;
            let device = if kind.version_file && at % 2 == 0 { "/disk4" } else { "/db" };
            hang(&sim, at, device);
            live(&db, &mut model, 6)?;
            hung += 1;
            let there = |name: &str| -> Result<bool> { sim.exists(&Path::new(SPARE).join(name)) };
            replaced += u32::from(there("data")? || there("version-store-file")?);
            look(&db, &mut model, "after the device hung")?;
            if at % 3 != 0 {
                // What was under way ends now.
                sim.set_faults(FaultPlan::default());
                std::thread::sleep(Duration::from_millis(5));
                late += 1;
                live(&db, &mut model, 3)?;
                look(&db, &mut model, "after it answered again")?;
            }
            drop(db);
            for step in 0..3 {
                sim = if model.random(3) == 0 { sim.kill() } else { sim.crash() };
                let db = opened_patiently(&sim, kind)?;
                look(&db, &mut model, "after a restart")?;
                live(&db, &mut model, 2)?;
                if step == 1 {
                    db.finish_restore()?;
                }
            }
            let sim = sim.crash();
            let db = opened_patiently(&sim, kind)?;
            db.finish_restore()?;
            db.finish_recovery()?;
            model.check(&db, "in the end")?;
            assert_eq!(db.verify()?, Vec::<String>::new());
            db.close()?;
        }
        eprintln!("{kind:?}: {hung} hung, {replaced} replaced, {late} answered late");
        assert!(replaced > hung / 4 && late > hung / 2, "the schedule has become blind");
    }
    Ok(())
}

/// Two devices hang at once.
#[test]
fn data_and_version_store_hang_together() -> Result<()> {
    let kind = Kind { version_file: true, ..KINDS[0] };
    for at in [1, 2, 5, 9, 20] {
        let sim = machine(at + 150)?;
        let mut model = Model::new(at);
        // Both on one disk.
        let on_one =
            Options { device_timeout: TIMEOUT * 6, version_store_path: Some("/db/versions".into()), ..options(kind) };
        let db = open_with(&sim, on_one)?;
        model.fill(&db)?;
        model.work(&db)?;
        db.archive_now()?;
        db.checkpoint()?;
        hang(&sim, at, "/db");
        live(&db, &mut model, 8)?;
        look(&db, &mut model, "after both hung")?;
        sim.set_faults(FaultPlan::default());
        live(&db, &mut model, 2)?;
        db.finish_restore()?;
        look(&db, &mut model, "restored")?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        db.close()?;
    }
    Ok(())
}

/// Without a place for another file the device is waited for, and nothing fails; so it is without a bound.
#[test]
fn a_device_that_nothing_can_replace_is_waited_for() -> Result<()> {
    for (kind, timeout) in [(Kind { spare: false, ..KINDS[0] }, TIMEOUT), (KINDS[0], Duration::ZERO)] {
        let sim = machine(160)?;
        let mut model = Model::new(160);
        let db = open_with(&sim, Options { device_timeout: timeout, ..options(kind) })?;
        model.fill(&db)?;
        db.archive_now()?;
        db.checkpoint()?;
        hang(&sim, 3, "/db");
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(TIMEOUT * 4);
                sim.set_faults(FaultPlan::default());
            });
            (0..4).try_for_each(|_| {
                model.work(&db)?;
                db.write_back()?;
                db.checkpoint()
            })
        })?;
        assert!(begun.elapsed() > TIMEOUT * 2, "it was waited for");
        assert!(db.restore_status().is_none() && db.troubles().is_empty());
        model.check(&db, "after that")?;
        db.close()?;
    }
    Ok(())
}

/// An operator who sees that a device hangs need not wait.
#[test]
fn an_operator_gives_up_a_device_that_hangs() -> Result<()> {
    const LONG: Duration = Duration::from_secs(20);
    let sim = machine(170)?;
    let mut model = Model::new(170);
    let db = open_with(&sim, Options { device_timeout: LONG, ..options(KINDS[0]) })?;
    model.fill(&db)?;
    db.archive_now()?;
    model.work(&db)?;
    hang(&sim, 1, "/db");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| db.checkpoint());
        // It is known to be slow from a twentieth of the bound on, counted from when the checkpoint has reached it.
        std::thread::sleep(LONG / 8);
        assert!(!checkpoint.is_finished());
        db.fail_device("data")?;
        // It is taken of what has taken its place.
        checkpoint.join().expect("no panic")
    })?;
    assert!(begun.elapsed() < LONG / 2);
    live(&db, &mut model, 2)?;
    sim.set_faults(FaultPlan::default());
    db.finish_restore()?;
    model.check(&db, "restored")?;
    db.close()
}

/// Who allocates a page has allocation locked, and waits with it for the replacement where memory is full of changed pages: what makes
/// the replacement, and a checkpoint beside it, may not wait for that in turn.
#[test]
fn who_allocates_pages_holds_up_no_replacement() -> Result<()> {
    const BOUND: Duration = Duration::from_secs(10);
    for (at, traditional) in [(1, false), (4, true), (9, false), (16, true), (25, false)] {
        let sim = machine(at + 180)?;
        let mut model = Model::new(at);
        let kind = Kind { traditional, ..KINDS[0] };
        let db = open_with(&sim, Options { device_timeout: TIMEOUT, background: true, ..options(kind) })?;
        model.fill(&db)?;
        db.archive_now()?;
        db.checkpoint()?;
        hang(&sim, at, "/db");
        let begun = Instant::now();
        let fill = |name: &str| -> Result<()> {
            let tx = db.begin(Isolation::ReadCommitted);
            let spec = TableSpec::new("public", name).column("id", ColumnType::Int8).column("note", ColumnType::Text);
            let table = tx.create_table(spec.primary_key(&["id"]))?.done()?;
            let note = "n".repeat(3000);
            for id in 0..1000 {
                tx.statement(StatementKind::BulkWrite)?;
                tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Text(&note)])?.done()?;
                assert!(begun.elapsed() < BOUND, "the replacement is held up: {:?}", db.troubles());
            }
            tx.commit(Durability::Sync)?.wait()
        };
        let fill = &fill;
        std::thread::scope(|scope| {
            let others = ["a", "b"].map(|name| scope.spawn(move || fill(name)));
            while sim.exists(Path::new(LOG).join("data-place").as_path()).is_ok_and(|there| !there) {
                assert!(begun.elapsed() < BOUND, "the replacement is held up: {:?}", db.troubles());
                db.checkpoint()?;
            }
            others.into_iter().try_for_each(|other| other.join().expect("no panic"))
        })?;
        sim.set_faults(FaultPlan::default());
        while db.restore_status().is_some() {
            assert!(begun.elapsed() < BOUND * 3, "the restore ends: {:?}", db.troubles());
            std::thread::sleep(Duration::from_millis(5));
        }
        model.check(&db, "restored")?;
        db.close()?;
    }
    Ok(())
}
