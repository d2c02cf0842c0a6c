//! Databases that were made of one another, as clones or of points in time, without a backup of any of them: each is made again from its own archive, which
//! names its parent's; what they need is kept for as long as they need it; and what is missing is said.
//!
//! `RESURGAM_CHAIN_SEEDS=n` makes n histories.

mod machine;

use std::path::Path;
use std::time::Duration;

use crate::rng::Rng;
use machine::*;
use resurgam_archive::{ParentBase, ParentRecord};
use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, OpenMode, SimVfs, Vfs};

const FOREVER: Duration = Duration::ZERO;

fn seeds(default: u64) -> u64 {
    std::env::var("RESURGAM_CHAIN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn make(sim: &SimVfs, request: &RestoreRequest) -> Result<RestoredPoint> {
    restore_point(&vfs(sim), request, &mut |_| {})
}

fn refused(sim: &SimVfs, request: &RestoreRequest) -> (ErrorKind, String) {
    match make(sim, request) {
        Ok(made) => panic!("it was made: {made:?}"),
        Err(error) => (error.kind(), format!("{error} HINT {}", error.hint().unwrap_or("none"))),
    }
}

/// A child of `of`, made of the end of its archive, opened, at work, archived.
fn child(sim: &SimVfs, of: &Node, name: &str, clone: bool, rng: &mut Rng) -> Result<(Node, Database)> {
    let mut node = of.child(name);
    let made = make(sim, &RestoreRequest { clone, ..of.request(&node.dir()) })?;
    let db = node.open(sim)?;
    node.same(&db, &format!("made: {made:?}"))?;
    for round in 1..3 + rng.below(3) as i64 {
        node.write(&db, round * 100, rng)?;
        if rng.below(2) == 0 {
            while db.write_back()? > 0 {}
            db.checkpoint()?;
        }
    }
    db.archive_now()?;
    Ok((node, db))
}

/// A parent, a clone, a clone of that, and one more: each writes, all crash, the folders are lost, and each comes back from its archive alone.
#[test]
fn a_chain_of_clones_comes_back_from_its_archives() -> Result<()> {
    for seed in 0..seeds(8) {
        let mut rng = Rng::new(seed + 1);
        let (mut sim, mut p) = first(seed, false, FOREVER)?;
        let what = format!("seed {seed}");
        let db_p = p.open(&sim)?;
        p.write(&db_p, 7, &mut rng)?;
        db_p.checkpoint()?;
        db_p.archive_now()?;
        let (mut a, db_a) = child(&sim, &p, "a", seed % 3 != 0, &mut rng)?;
        p.write(&db_p, 8, &mut rng)?;
        db_p.archive_now()?;
        db_p.merge_archive()?;
        let (mut b, db_b) = child(&sim, &a, "b", seed % 2 != 0, &mut rng)?;
        let point = (db_b.log_status().flushed, b.clone());
        // Everything goes on, and nobody sees the others.
        for round in 0..3 {
            for (node, db) in [(&mut p, &db_p), (&mut a, &db_a), (&mut b, &db_b)] {
                node.write(db, 1000 + round, &mut rng)?;
                if rng.below(2) == 0 {
                    db.checkpoint()?;
                }
                db.archive_now()?;
                db.merge_archive()?;
            }
        }
        assert_eq!(b.record(&sim)?.map(|record| record.base), Some(ParentBase::Parent), "{what}");
        assert_eq!(a.record(&sim)?.map(|record| record.base), Some(ParentBase::Archive), "{what}");
        drop((db_p, db_a, db_b));
        sim = sim.crash();
        for node in [&p, &a, &b] {
            let db = node.open(&sim)?;
            node.sound(&db, &format!("{what}, after a crash"))?;
            db.archive_now()?;
            db.close()?;
        }
        // What is left of the two are their archives.
        lose(&sim, &a.dir())?;
        lose(&sim, &b.dir())?;
        let c = b.child("c");
        let made = make(&sim, &RestoreRequest { whole: seed % 4 == 1, ..b.request(&c.dir()) })?;
        assert_eq!(made.databases, 3, "{what}: {made:?}");
        let db = c.open(&sim)?;
        let mut c = c;
        c.same(&db, &format!("{what}, made of the clone of a clone"))?;
        c.write(&db, 5000, &mut rng)?;
        db.archive_now()?;
        drop(db);
        sim = sim.crash();
        let db = c.open(&sim)?;
        c.same(&db, &format!("{what}, after another crash"))?;
        db.finish_restore()?;
        c.sound(&db, &what)?;
        c.write(&db, 6000, &mut rng)?;
        db.archive_now()?;
        db.close()?;
        lose(&sim, &c.dir())?;
        // One further, and a point in time in the middle.
        for (target, of, wanted, to) in
            [("r", &c, &c, RestorePoint::Latest), ("s", &b, &point.1, RestorePoint::Lsn(point.0))]
        {
            let made = make(&sim, &RestoreRequest { to, ..of.request(&format!("/{target}/data")) })?;
            assert_eq!(made.databases, if target == "r" { 4 } else { 3 }, "{what}");
            let again = Node { rows: wanted.rows.clone(), ..of.child(target) };
            let db = again.open(&sim)?;
            db.finish_restore()?;
            again.sound(&db, &format!("{what}, {target}"))?;
            db.close()?;
        }
        // The parent is as it was, and so is what it keeps for the others.
        let db = p.open(&sim)?;
        p.sound(&db, &what)?;
        db.close()?;
        assert!(p.leases(&sim)?.iter().any(|name| name.starts_with("archive-")), "{what}: {:?}", p.leases(&sim)?);
    }
    Ok(())
}

/// Files that are lost after all of a clone's pages were in them are made again in place: the data file, a device under work, the whole folder; damaged pages are
/// rebuilt; all from the clone's archive, and its parents'.
#[test]
fn a_whole_clone_loses_its_files() -> Result<()> {
    for seed in 10..10 + seeds(8) {
        let mut rng = Rng::new(seed);
        let (mut sim, p) = first(seed, false, FOREVER)?;
        let what = format!("seed {seed}");
        let (a, db) = child(&sim, &p, "a", false, &mut rng)?;
        db.close()?;
        drop(db);
        let mut b = Node { own_log: true, ..a.child("b") };
        make(&sim, &a.request(&b.dir()))?;
        // The log moves to a disk of its own.
        sim.make_folder(Path::new(&b.log()))?;
        for name in sim.list(&Path::new(&b.dir()).join("log"))? {
            sim.rename(&Path::new(&b.dir()).join("log").join(&name), &Path::new(&b.log()).join(&name))?;
        }
        sim.sync_dir(Path::new(&b.log()))?;
        let db = b.open(&sim)?;
        b.write(&db, 100, &mut rng)?;
        db.archive_now()?;
        b.write(&db, 200, &mut rng)?;
        db.finish_restore()?;
        assert!(db.restore_status().is_none(), "{what}");
        b.sound(&db, &what)?;
        let folder = |of: &Node| -> Result<usize> {
            Ok(of.leases(&sim)?.into_iter().filter(|name| name.starts_with("restore-")).count())
        };
        // The other one is that of the parent, which is not whole.
        assert_eq!((folder(&a)?, folder(&p)?), (0, 1), "{what}: all pages are in the files");
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        b.write(&db, 300, &mut rng)?;
        match seed % 4 {
            0 => {
                drop(db);
                sim = sim.crash();
                sim.remove(&Path::new(&b.dir()).join("data"))?;
            }
            1 => {
                db.fail_device("data")?;
                b.same(&db, &format!("{what}, a device died"))?;
                b.write(&db, 400, &mut rng)?;
                while db.write_back()? > 0 {}
                db.restore_step()?;
                drop(db);
                sim = sim.crash();
            }
            2 => {
                drop(db);
                sim = sim.crash();
                lose(&sim, &b.dir())?;
                b.folder = "another";
            }
            _ => {
                drop(db);
                sim = sim.crash();
                for page in (20..280u64).step_by(7) {
                    let bit = (page * limits::PAGE_SIZE as u64 + 100) * 8;
                    sim.flip_bit(&Path::new(&b.dir()).join("data"), bit)?;
                }
            }
        }
        let db = b.open(&sim)?;
        b.same(&db, &format!("{what}, opened without"))?;
        b.write(&db, 500, &mut rng)?;
        if seed % 4 == 3 {
            assert!(db.repairs().len() > 5, "{what}: {} repairs", db.repairs().len());
        }
        drop(db);
        sim = sim.crash();
        let db = b.open(&sim)?;
        db.finish_restore()?;
        b.sound(&db, &format!("{what}, in the end"))?;
        db.archive_now()?;
        db.close()?;
        // And from its archive alone, without its log.
        let c = Node { own_log: false, ..b.child("c") };
        make(&sim, &b.request(&c.dir()))?;
        let db = c.open(&sim)?;
        c.sound(&db, &what)?;
        db.close()?;
    }
    Ok(())
}

/// What a clone's archive needs of its parent's is kept while it does, whatever the parent's window says; it is given up once the clone's archive begins with a
/// backup of its own.
#[test]
fn the_parent_keeps_what_the_chain_needs_and_no_longer() -> Result<()> {
    for (seed, by_backup) in [(20, false), (21, true), (22, true), (23, false)] {
        let mut rng = Rng::new(seed);
        let (sim, mut p) = first(seed, true, HOUR * 4)?;
        let what = format!("seed {seed}, of a backup: {by_backup}");
        let db_p = p.open(&sim)?;
        for round in 1..7 {
            if by_backup {
                hour(&sim, &mut p, &db_p, round, &mut rng)?;
            }
        }
        // Without a window everything of its own is promised, and so the parent is needed.
        let mut a = Node { backups: false, window: FOREVER, ..p.child("a") };
        let backups = by_backup.then(|| p.backups());
        make(&sim, &RestoreRequest { backups, ..p.request(&a.dir()) })?;
        let db_a = a.open(&sim)?;
        a.write(&db_a, 100, &mut rng)?;
        db_a.archive_now()?;
        db_a.finish_restore()?;
        let leases = p.leases(&sim)?;
        assert!(leases.len() == 1 && leases[0].starts_with("archive-"), "{what}: {leases:?}");
        let from = p.archived_from(&sim)?;
        for round in 10..26 {
            hour(&sim, &mut p, &db_p, round, &mut rng)?;
            hour(&sim, &mut a, &db_a, round, &mut rng)?;
        }
        let record = a.record(&sim)?.unwrap_or_else(|| panic!("{what}: no record"));
        match &record.base {
            ParentBase::Backup { name, .. } => {
                let needed = p.backup_begins(&sim, name)?;
                let begins = p.archived_from(&sim)?;
                assert!(
                    by_backup && begins <= needed,
                    "{what}: {name} needs LSN {needed}, the archive begins at {begins}"
                );
            }
            _ => assert!(!by_backup && p.archived_from(&sim)? == from, "{what}: its beginning is needed"),
        }
        let held = db_p.recoverable_points().map(|points| points.held_by).unwrap_or_default();
        assert!(
            held.iter().any(|by| by.contains("archive of a database that was made of this one")),
            "{what}: {held:?}"
        );
        let earliest = db_a.recoverable_points().and_then(|points| points.earliest);
        assert!(earliest.is_some(), "{what}: its points are made with the parent's pages");
        // All of the clone but its archive is lost.
        let c = a.child("c");
        make(&sim, &a.request(&c.dir()))?;
        let db = c.open(&sim)?;
        db.finish_restore()?;
        c.sound(&db, &what)?;
        db.close()?;
        drop(db);
        let db = c.open(&sim)?;
        c.same(&db, &format!("{what}, opened again"))?;
        db.close()?;
        drop(db);
        // Its lease in the parent's archive is there still, for its own archive.
        let of_c = p.leases(&sim)?.into_iter().filter(|name| name.contains(".via-")).count();
        assert_eq!(of_c, 1, "{what}: {:?}", p.leases(&sim)?);
        let ids = c.record(&sim)?.map(|record| record.database).unwrap_or_default();
        let id: String = ids.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(forget_lease(&vfs(&sim), &a.archive(), &format!("archive-{id}"))?, "{what}");
        assert_eq!((a.leases(&sim)?.len(), p.leases(&sim)?.len()), (0, 1), "{what}");
        // With backups of its own and a window its archive gives up its beginning, and then the parent.
        db_a.close()?;
        drop(db_a);
        a = Node { backups: true, window: HOUR * 4, ..a };
        let db_a = a.open(&sim)?;
        for round in 30..48 {
            hour(&sim, &mut a, &db_a, round, &mut rng)?;
            hour(&sim, &mut p, &db_p, round, &mut rng)?;
        }
        let record = a.record(&sim)?.unwrap_or_else(|| panic!("{what}: no record"));
        assert!(a.archived_from(&sim)? > record.first, "{what}");
        assert_eq!(p.leases(&sim)?, Vec::<String>::new(), "{what}");
        assert!(p.archived_from(&sim)? > from, "{what}: nothing was given up");
        assert!(!sim.exists(&Path::new(&a.dir()).join("parent"))?, "{what}");
        a.sound(&db_a, &what)?;
        db_a.close()?;
        db_p.close()?;
        drop((db_a, db_p));
        // Without its parent's archive.
        lose(&sim, &p.archive())?;
        lose(&sim, &p.backups())?;
        let s = a.child("s");
        make(&sim, &RestoreRequest { backups: Some(a.backups()), ..a.request(&s.dir()) })?;
        let db = s.open(&sim)?;
        s.same(&db, &what)?;
        let (kind, text) = refused(&sim, &a.request("/s/other"));
        assert!(kind == ErrorKind::NotInPrerequisiteState && text.contains("--backups"), "{text}");
    }
    Ok(())
}

/// A lease that an operator gave back is not made again; what is missing then is said, by name.
#[test]
fn a_parent_that_gave_up_what_is_needed_is_named() -> Result<()> {
    let mut rng = Rng::new(30);
    let (sim, mut p) = first(30, true, HOUR * 4)?;
    let db_p = p.open(&sim)?;
    let (a, db_a) = child(&sim, &p, "a", false, &mut rng)?;
    db_a.finish_restore()?;
    db_a.close()?;
    drop(db_a);
    let lease = p.leases(&sim)?.pop().unwrap_or_default();
    assert!(forget_lease(&vfs(&sim), &p.archive(), &lease)?, "{lease}");
    let db_a = a.open(&sim)?;
    assert_eq!(p.leases(&sim)?, Vec::<String>::new(), "it was given back");
    db_a.close()?;
    for round in 1..20 {
        hour(&sim, &mut p, &db_p, round, &mut rng)?;
    }
    let (kind, text) = refused(&sim, &a.request("/c/data"));
    assert!(
        kind == ErrorKind::NotInPrerequisiteState && text.contains("/p/archive") && text.contains("was given up"),
        "{text}"
    );
    assert!(text.contains("--backups"), "{text}");
    // It is well itself.
    let db = a.open(&sim)?;
    a.sound(&db, "without its parent")?;
    db.backup(false, &|| false).map(drop).unwrap_or_else(|error| assert!(error.message().contains("place"), "{error}"));
    db.close()
}

fn rewrite(sim: &SimVfs, node: &Node, record: Option<&ParentRecord>) -> Result<()> {
    let path = Path::new(&node.archive()).join("parent/record");
    if sim.exists(&path)? {
        sim.remove(&path)?;
    }
    match record {
        Some(record) => record.create(&*node.store(sim)?),
        None => Ok(()),
    }
}

/// Records of parents that are damaged, missing, of others, in a circle, too many; places that are not there.
#[test]
fn what_is_wrong_with_a_chain_is_said() -> Result<()> {
    let mut rng = Rng::new(40);
    let (sim, p) = first(40, false, FOREVER)?;
    let (a, db_a) = child(&sim, &p, "a", false, &mut rng)?;
    let (b, db_b) = child(&sim, &a, "b", false, &mut rng)?;
    for db in [db_a, db_b] {
        db.finish_restore()?;
        db.close()?;
    }
    let path = |node: &Node| format!("{}/parent/record", node.archive());
    let of_a = a.record(&sim)?.unwrap_or_else(|| panic!("no record"));
    let of_b = b.record(&sim)?.unwrap_or_else(|| panic!("no record"));
    let request = b.request("/c/data");
    let try_on = |change: &dyn Fn(&SimVfs) -> Result<()>, kind: ErrorKind, words: &[&str]| -> Result<()> {
        let sim = sim.fork(1);
        change(&sim)?;
        let (found, text) = refused(&sim, &request);
        assert!(
            found == kind && words.iter().all(|word| text.contains(word)),
            "{found:?} {text}, not {kind:?} {words:?}"
        );
        assert!(text.contains("HINT") && !text.contains("HINT none"), "{text}");
        // Nothing is left in the parents' archives, nor a database.
        for node in [&p, &a, &b] {
            let left =
                node.leases(&sim).unwrap_or_default().into_iter().filter(|name| name.starts_with("making-")).count();
            assert_eq!(left, 0, "{text}");
        }
        assert!(!sim.exists(Path::new("/c/data/control"))?, "{text}");
        Ok(())
    };
    let flip = |node: &Node| {
        let path = path(node);
        move |sim: &SimVfs| sim.flip_bit(Path::new(&path), 8 * 50)
    };
    try_on(&flip(&b), ErrorKind::Corrupt, &["parent/record", "/b/archive", "checksum"])?;
    try_on(&flip(&a), ErrorKind::Corrupt, &["parent/record", "/a/archive", "checksum"])?;
    try_on(
        &|sim| rewrite(sim, &b, None),
        ErrorKind::NotInPrerequisiteState,
        &["made of another one", "parent/record"],
    )?;
    try_on(&|sim| rewrite(sim, &a, None), ErrorKind::NotInPrerequisiteState, &["/a/archive", "record"])?;
    try_on(&|sim| lose(sim, &p.archive()), ErrorKind::Io, &["/p/archive", "cannot be used"])?;
    try_on(&|sim| lose(sim, &a.archive()), ErrorKind::Io, &["/a/archive", "cannot be used"])?;
    let elsewhere = ParentRecord { archive: "/nowhere".into(), ..of_a.clone() };
    try_on(&|sim| rewrite(sim, &a, Some(&elsewhere)), ErrorKind::Io, &["/nowhere", "cannot be used"])?;
    let unknown = ParentRecord { archive: "tape://x".into(), ..of_a.clone() };
    try_on(&|sim| rewrite(sim, &a, Some(&unknown)), ErrorKind::NotSupported, &["tape"])?;
    // Of another database than the archive; or it names another parent than the log does.
    let stranger = ParentRecord { database: [9; 16], ..of_b.clone() };
    try_on(&|sim| rewrite(sim, &b, Some(&stranger)), ErrorKind::NotADatabase, &["another database"])?;
    let other_cut = ParentRecord { cut: Lsn(of_b.cut.0 - 512), ..of_b.clone() };
    try_on(&|sim| rewrite(sim, &b, Some(&other_cut)), ErrorKind::Corrupt, &["another cut"])?;
    // In a circle: the parent's parent is the child.
    let circle = ParentRecord { parent: of_b.database, archive: b.archive(), base: ParentBase::Parent, ..of_a.clone() };
    try_on(&|sim| rewrite(sim, &a, Some(&circle)), ErrorKind::Corrupt, &["lead back"])?;
    // Where another database is by now.
    let swapped = ParentRecord { archive: b.archive(), ..of_a.clone() };
    try_on(&|sim| rewrite(sim, &a, Some(&swapped)), ErrorKind::NotADatabase, &["/b/archive"])?;
    // What was before the cut is the parent's, and that one's archive has it.
    let before = RestorePoint::Lsn(Lsn(of_b.cut.0 - 1));
    let (kind, text) = refused(&sim, &RestoreRequest { to: before, ..request.clone() });
    assert!(kind == ErrorKind::NotInPrerequisiteState && text.contains("/a/archive"), "{text}");
    // Nothing is wrong with it as it is.
    make(&sim, &request)?;
    // A start that has to make its data file again says the same.
    let broken = sim.fork(2);
    broken.remove(&Path::new(&b.dir()).join("data"))?;
    lose(&broken, &p.archive())?;
    let error = b.open(&broken).err().unwrap_or_else(|| panic!("it opened"));
    assert!(error.message().contains("/p/archive"), "{error}");
    // The file in the folder stands in for a record that is lost, and the other way round.
    let folder = sim.fork(3);
    folder.remove(&Path::new(&b.dir()).join("parent"))?;
    folder.remove(&Path::new(&b.dir()).join("data"))?;
    let db = b.open(&folder)?;
    b.same(&db, "by the archive's record")?;
    db.close()?;
    assert!(folder.exists(&Path::new(&b.dir()).join("parent"))?);
    let torn = sim.fork(4);
    torn.open(&Path::new(&b.dir()).join("parent"), OpenMode::ReadWrite)?.set_len(10)?;
    torn.remove(&Path::new(&b.dir()).join("data"))?;
    let db = b.open(&torn)?;
    b.same(&db, "by the archive's record, the file is torn")?;
    db.close()
}

/// Longer than anybody makes them: refused, with what helps.
#[test]
fn a_chain_that_is_too_long_is_refused() -> Result<()> {
    let mut rng = Rng::new(50);
    let (sim, mut at) = first(51, false, FOREVER)?;
    let (a, db) = child(&sim, &at, "a", true, &mut rng)?;
    db.close()?;
    at = a;
    let mut longest = 0;
    for number in 0..40 {
        let next = at.child(&format!("n{number}"));
        match make(&sim, &RestoreRequest { clone: true, ..at.request(&next.dir()) }) {
            Ok(made) => longest = made.databases,
            Err(error) => {
                assert!(
                    error.kind() == ErrorKind::LimitExceeded
                        && error.hint().is_some_and(|hint| hint.contains("backup")),
                    "{error}"
                );
                assert!(longest >= 32, "{longest}");
                return Ok(());
            }
        }
        let db = next.open(&sim)?;
        db.checkpoint()?;
        db.archive_now()?;
        if number % 10 == 9 {
            next.same(&db, "deep")?;
        }
        db.close()?;
        at = next;
    }
    panic!("{longest} in a row");
}

/// Power is lost at each call from the first start of a clone until its archive has runs: the record is there before the first of them, and the lease before the
/// record.
#[test]
fn crashes_while_an_archive_is_begun() -> Result<()> {
    let mut rng = Rng::new(60);
    let (sim, p) = first(62, false, FOREVER)?;
    let (a, db) = child(&sim, &p, "a", true, &mut rng)?;
    db.close()?;
    drop(db);
    let b = a.child("b");
    make(&sim, &RestoreRequest { clone: true, ..a.request(&b.dir()) })?;
    let (mut begun, mut named, mut calls) = (0, 0, 0);
    for at in 1.. {
        let sim = sim.fork(at);
        sim.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
        let outcome = b.open(&sim).and_then(|db| db.archive_now());
        if !sim.power_lost() {
            outcome?;
            calls = at;
            break;
        }
        let sim = sim.crash();
        let runs = sim.list(&Path::new(&b.archive()).join("runs")).unwrap_or_default();
        let record = b.record(&sim)?;
        let leases = (a.leases(&sim)?, p.leases(&sim)?);
        let leased =
            [&leases.0, &leases.1].iter().all(|of| of.iter().filter(|name| name.starts_with("archive-")).count() > 0);
        assert!(
            record.is_some() || runs.iter().all(|name| !name.ends_with(".run")),
            "call {at}: {runs:?} before the record"
        );
        assert!(record.is_none() || leased, "call {at}: {leases:?}");
        begun += u64::from(!runs.is_empty());
        named += u64::from(record.is_some());
        let db = b.open(&sim)?;
        db.archive_now()?;
        if at % 5 == 0 {
            b.same(&db, &format!("call {at}"))?;
        }
        db.close()?;
        drop(db);
        // One each: what the attempt before has made counts.
        let archives = |of: Vec<String>| of.into_iter().filter(|name| name.starts_with("archive-")).count();
        assert_eq!((archives(a.leases(&sim)?), archives(p.leases(&sim)?)), (1, 2), "call {at}");
        if at % 5 == 0 {
            let c = b.child("c");
            make(&sim, &b.request(&c.dir()))?;
            c.same(&c.open(&sim)?, &format!("call {at}, from the archive"))?;
        }
    }
    assert!(calls > 20 && named > 3 && begun > 0, "{calls} calls, {named} with a record, {begun} with runs");
    Ok(())
}

/// Where the parent cannot be reached as the archive is begun, the database goes on; the record comes later.
#[test]
fn a_parent_that_is_away_as_the_archive_is_begun() -> Result<()> {
    let mut rng = Rng::new(70);
    let (sim, p) = first(70, false, FOREVER)?;
    let mut a = p.child("a");
    make(&sim, &RestoreRequest { whole: true, ..p.request(&a.dir()) })?;
    rename_folder(&sim, "/p/archive", "/p/away")?;
    let db = a.open(&sim)?;
    a.write(&db, 1, &mut rng)?;
    db.archive_now()?;
    assert_eq!(a.record(&sim)?, None);
    assert!(sim.list(Path::new("/p/archive/manifests"))?.is_empty(), "none is made in its place");
    db.close()?;
    drop(db);
    let (kind, text) = refused(&sim, &a.request("/c/data"));
    assert!(kind == ErrorKind::NotInPrerequisiteState && text.contains("made of another one"), "{text}");
    rename_folder(&sim, "/p/away", "/p/archive")?;
    let db = a.open(&sim)?;
    a.write(&db, 2, &mut rng)?;
    db.archive_now()?;
    db.close()?;
    drop(db);
    assert!(a.record(&sim)?.is_some());
    let c = a.child("c");
    make(&sim, &a.request(&c.dir()))?;
    let db = c.open(&sim)?;
    db.finish_restore()?;
    c.sound(&db, "from the archive")?;
    db.close()
}

/// A parent, a clone of it, and a clone of that one, which are whole; the archives of the two begin where their parents' end. From now on they make backups of
/// their own and give up what is older than some hours.
fn three_with_windows(rng: &mut Rng) -> Result<(SimVfs, Node, Node, Node)> {
    let (sim, p) = first(77, false, FOREVER)?;
    let mut nodes = vec![p];
    for name in ["a", "c"] {
        let of = nodes.last().unwrap_or_else(|| panic!("none"));
        let mut node = of.child(name);
        make(&sim, &of.request(&node.dir()))?;
        let db = node.open(&sim)?;
        node.write(&db, 100, rng)?;
        db.archive_now()?;
        db.finish_restore()?;
        db.close()?;
        nodes.push(node);
    }
    let (c, a) = (nodes.pop().unwrap_or_else(|| panic!("none")), nodes.pop().unwrap_or_else(|| panic!("none")));
    let p = nodes.pop().unwrap_or_else(|| panic!("none"));
    let own = |node: Node| Node { backups: true, window: HOUR * 4, ..node };
    assert_eq!((a.leases(&sim)?.len(), p.leases(&sim)?.len()), (1, 2));
    Ok((sim, p, own(a), own(c)))
}

fn knows_its_parent(sim: &SimVfs, node: &Node) -> Result<bool> {
    sim.exists(&Path::new(&node.dir()).join("parent"))
}

/// The last of three has a past of its own, and wants to give the others up, while something on the way to the first one is `away` for a day, and then `back`.
fn given_back_in_the_end(
    away: impl Fn(&SimVfs, &Node, &Node) -> Result<()>,
    back: impl Fn(&SimVfs, &Node, &Node) -> Result<()>,
) -> Result<()> {
    let mut rng = Rng::new(77);
    let (sim, p, mut a, mut c) = three_with_windows(&mut rng)?;
    let (db_a, db_c) = (a.open(&sim)?, c.open(&sim)?);
    away(&sim, &p, &a)?;
    for round in 30..48 {
        hour(&sim, &mut c, &db_c, round, &mut rng)?;
    }
    let first = c.record(&sim)?.map(|record| record.first).unwrap_or_default();
    assert!(c.archived_from(&sim)? > first, "it has a past of its own");
    let from = a.archived_from(&sim)?;
    for round in 30..48 {
        hour(&sim, &mut a, &db_a, round, &mut rng)?;
    }
    // What is left further on is found by what is here.
    assert_eq!(a.leases(&sim)?.len(), 1, "{:?}", a.leases(&sim)?);
    assert_eq!(a.archived_from(&sim)?, from);
    assert!(knows_its_parent(&sim, &a)? && knows_its_parent(&sim, &c)?);
    back(&sim, &p, &a)?;
    assert_eq!(p.leases(&sim)?.len(), 2, "{:?}", p.leases(&sim)?);
    for round in 50..54 {
        hour(&sim, &mut c, &db_c, round, &mut rng)?;
        hour(&sim, &mut a, &db_a, round, &mut rng)?;
    }
    assert_eq!((a.leases(&sim)?, p.leases(&sim)?), (Vec::new(), Vec::new()));
    assert!(a.archived_from(&sim)? > from, "nothing holds it any more");
    assert!(!knows_its_parent(&sim, &a)? && !knows_its_parent(&sim, &c)?);
    db_a.close()?;
    db_c.close()
}

/// Where it cannot be read which database comes next, no lease is given back before those further on.
#[test]
fn a_lease_stays_until_those_further_on_are_given_back() -> Result<()> {
    let flip = |sim: &SimVfs, _: &Node, a: &Node| sim.flip_bit(&Path::new(&a.archive()).join("parent/record"), 400);
    given_back_in_the_end(flip, flip)
}

/// A disk that is not mounted is a place without an archive, and without leases: they are not given back.
#[test]
fn an_empty_place_gives_no_lease_back() -> Result<()> {
    given_back_in_the_end(
        |sim, p, _| rename_folder(sim, &p.archive(), "/p/away"),
        |sim, p, _| rename_folder(sim, "/p/away", &p.archive()),
    )
}

/// What an operator gives back goes at once; what could not be given back further on does so when it is told again, also after the archive on the way gave up
/// its beginning.
#[test]
fn a_lease_that_is_given_back_twice() -> Result<()> {
    let mut rng = Rng::new(77);
    let (sim, p, mut a, c) = three_with_windows(&mut rng)?;
    let lease = a.leases(&sim)?.pop().unwrap_or_default();
    rename_folder(&sim, &p.archive(), "/p/away")?;
    match forget_lease(&vfs(&sim), &a.archive(), &lease) {
        Ok(_) => panic!("the first one's archive is away"),
        Err(error) => assert!(
            error.message().contains("was given back, but not") && error.message().contains("manifest"),
            "{error}"
        ),
    }
    assert_eq!(a.leases(&sim)?, Vec::<String>::new());
    let db_a = a.open(&sim)?;
    let from = a.archived_from(&sim)?;
    for round in 30..48 {
        hour(&sim, &mut a, &db_a, round, &mut rng)?;
    }
    assert!(a.archived_from(&sim)? > from, "nothing holds it");
    rename_folder(&sim, "/p/away", &p.archive())?;
    assert_eq!(p.leases(&sim)?.len(), 2, "{:?}", p.leases(&sim)?);
    assert!(forget_lease(&vfs(&sim), &a.archive(), &lease)?);
    hour(&sim, &mut a, &db_a, 48, &mut rng)?;
    assert_eq!(p.leases(&sim)?, Vec::<String>::new());
    assert!(!forget_lease(&vfs(&sim), &a.archive(), &lease)?, "there is none");
    assert!(knows_its_parent(&sim, &c)?, "it was not asked");
    db_a.close()
}

/// The clone's archive begins anew in another place, and later: what its parent keeps for the first one is told of until an operator gives it back, across
/// restarts, and also where the parent cannot be looked at for a while.
#[test]
fn an_archive_in_another_place_leaves_a_lease_that_is_told_of() -> Result<()> {
    let mut rng = Rng::new(78);
    let (sim, p) = first(78, false, FOREVER)?;
    let mut a = p.child("a");
    make(&sim, &p.request(&a.dir()))?;
    let db = a.open(&sim)?;
    db.finish_restore()?;
    a.write(&db, 1, &mut rng)?;
    db.archive_now()?;
    db.close()?;
    drop(db);
    let lease = p.leases(&sim)?;
    assert!(lease.len() == 1 && lease[0].starts_with("archive-"), "{lease:?}");
    // The log of the time before is truncated.
    let without = Options { archive: None, ..a.options() };
    let db = a.open_with(&sim, without)?;
    let first = a.record(&sim)?.map(|record| record.first).unwrap_or_default();
    for round in 0.. {
        a.write(&db, 10 + round, &mut rng)?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        if db.log_status().oldest > first {
            break;
        }
        assert!(round < 1000, "the log is kept");
    }
    db.close()?;
    drop(db);
    let moved = || Options { archive: Some("/a/archive2".into()), ..a.options() };
    let parent = Path::new(&a.dir()).join("parent");
    for life in 0..2 {
        let db = a.open_with(&sim, moved())?;
        db.archive_now()?;
        for _ in 0..2 {
            let told = db.look_at_parent().expect_err("it is told of");
            let command = format!("resurgam clone --archive \"{}\" --forget {}", p.archive(), lease[0]);
            assert!(told.message().contains(&command), "life {life}: {told}");
        }
        assert_eq!((p.leases(&sim)?, sim.exists(&parent)?), (lease.clone(), true), "life {life}");
        rename_folder(&sim, "/p/archive", "/p/away")?;
        let told = db.look_at_parent().expect_err("it cannot be looked up");
        assert!(told.message().contains("cannot be looked up"), "life {life}: {told}");
        rename_folder(&sim, "/p/away", "/p/archive")?;
        a.sound(&db, "in another place")?;
        db.close()?;
    }
    // The first archive can do all that it could.
    let c = a.child("c");
    make(&sim, &a.request(&c.dir()))?;
    let db = c.open(&sim)?;
    db.finish_restore()?;
    db.close()?;
    assert!(forget_lease(&vfs(&sim), &p.archive(), &lease[0])?);
    let db = a.open_with(&sim, moved())?;
    db.archive_now()?;
    db.look_at_parent()?;
    assert_eq!((p.leases(&sim)?.contains(&lease[0]), sim.exists(&parent)?), (false, false));
    db.close()
}

/// An archive that is moved with all that is in it has the record, and its lease is given back as ever.
#[test]
fn an_archive_that_is_moved_as_a_whole_keeps_its_lease() -> Result<()> {
    let mut rng = Rng::new(79);
    let (sim, p) = first(79, false, FOREVER)?;
    let mut a = p.child("a");
    make(&sim, &p.request(&a.dir()))?;
    let db = a.open(&sim)?;
    db.finish_restore()?;
    a.write(&db, 1, &mut rng)?;
    db.archive_now()?;
    db.close()?;
    drop(db);
    rename_folder(&sim, &a.archive(), "/a/moved")?;
    a = Node { backups: true, window: HOUR * 4, ..a };
    let options = Options { archive: Some("/a/moved".into()), ..a.options() };
    let db = a.open_with(&sim, options)?;
    assert_eq!(p.leases(&sim)?.len(), 1);
    for round in 30..48 {
        hour(&sim, &mut a, &db, round, &mut rng)?;
    }
    assert_eq!(p.leases(&sim)?, Vec::<String>::new());
    db.close()
}

/// A clone of a clone makes its first backup of what it was made of and its archive. From then on it needs none of the others: it is restored from that backup, and
/// its data file is made again. Where one of the others is away, that is said, with what to do.
#[test]
fn a_first_backup_is_made_of_those_that_a_clone_was_made_of() -> Result<()> {
    for seed in 0..4 {
        let mut rng = Rng::new(seed + 80);
        // Also where the first one's pages, and with them a boot page, come from a backup.
        let (sim, mut p) = first(seed, seed % 4 > 1, FOREVER)?;
        let db_p = p.open(&sim)?;
        p.write(&db_p, 7, &mut rng)?;
        let backups = p.backups.then(|| p.backups());
        if p.backups {
            db_p.backup(false, &|| false)?;
        }
        p.write(&db_p, 8, &mut rng)?;
        db_p.archive_now()?;
        let mut a = p.child("a");
        make(&sim, &RestoreRequest { backups, clone: true, ..p.request(&a.dir()) })?;
        let db_a = a.open(&sim)?;
        a.write(&db_a, 100, &mut rng)?;
        db_a.archive_now()?;
        // Of these pages the clone has nothing.
        p.write(&db_p, 9, &mut rng)?;
        db_p.archive_now()?;
        let mut b = Node { backups: true, ..a.child("b") };
        make(&sim, &RestoreRequest { clone: seed % 2 == 0, ..a.request(&b.dir()) })?;
        let db_b = b.open(&sim)?;
        b.write(&db_b, 200, &mut rng)?;
        db_b.archive_now()?;
        rename_folder(&sim, "/p/archive", "/p/away")?;
        let refused = db_b.backup(true, &|| false).expect_err("the first one's archive is away");
        let hint = refused.hint().unwrap_or_default();
        assert!(
            refused.message().contains("/p/archive") && hint.contains("SELECT resurgam_backup()"),
            "seed {seed}: {refused} HINT {hint}"
        );
        rename_folder(&sim, "/p/away", "/p/archive")?;
        let name = db_b.backup(true, &|| false)?;
        b.write(&db_b, 300, &mut rng)?;
        db_b.archive_now()?;
        b.same(&db_b, "backed up")?;
        for db in [db_p, db_a, db_b] {
            db.close()?;
        }
        rename_folder(&sim, "/p/archive", "/p/away")?;
        rename_folder(&sim, "/a/archive", "/a/away")?;
        let c = b.child("c");
        let request = RestoreRequest { backups: Some(b.backups()), ..b.request(&c.dir()) };
        let made = make(&sim, &request)?;
        assert_eq!((made.databases, made.backup), (1, Some(name)), "seed {seed}");
        let db = c.open(&sim)?;
        db.finish_restore()?;
        c.sound(&db, &format!("seed {seed}, from the backup"))?;
        db.close()?;
        drop(db);
        sim.remove(&Path::new(&b.dir()).join("data"))?;
        sim.remove(&Path::new(&b.dir()).join("restore")).ok();
        sim.remove(&Path::new(&b.dir()).join("restored-segments")).ok();
        let db = b.open(&sim)?;
        db.finish_restore()?;
        b.sound(&db, &format!("seed {seed}, its file made again"))?;
        db.close()?;
    }
    Ok(())
}

/// Where the parent cannot be found, and there is no backup, the first one is asked for.
#[test]
fn a_backup_without_files_is_refused_where_nothing_says_what_it_was_made_of() -> Result<()> {
    let mut rng = Rng::new(90);
    let (sim, p) = first(90, false, FOREVER)?;
    let mut a = Node { backups: true, ..p.child("a") };
    make(&sim, &RestoreRequest { whole: true, ..p.request(&a.dir()) })?;
    sim.remove(&Path::new(&a.dir()).join("parent"))?;
    let db = a.open(&sim)?;
    a.write(&db, 1, &mut rng)?;
    db.archive_now()?;
    let refused = db.backup(true, &|| false).expect_err("nothing says it");
    assert_eq!(refused.kind(), ErrorKind::NotInPrerequisiteState, "{refused}");
    assert!(refused.hint().unwrap_or_default().contains("SELECT resurgam_backup()"), "{refused}");
    db.backup(false, &|| false)?;
    a.write(&db, 2, &mut rng)?;
    db.backup(true, &|| false)?;
    db.close()
}
