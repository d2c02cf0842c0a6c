//! The log service archives: whoever dies, the archive has all that was hardened, once, and everything can be made of it.

use std::time::Duration;

use resurgam_archive::{Archive, Lease, verify};
use resurgam_base::{Lsn, Result};
use resurgam_cluster::XlogNode;
use resurgam_engine::{Database, LogZone};

use super::common::{Cluster, Rows, Zoned, free_address, until};

pub const ROWS: i64 = 2000;

pub fn archiving() -> Cluster {
    let mut cluster = Cluster::with_log_service(1);
    cluster.log_service_archives = true;
    cluster
}

pub fn hardened(zoned: &Zoned) -> Lsn {
    zoned.zone.status().expect("it is open").hardened
}

/// It gives out the log up to there.
fn disseminated(xlog: &XlogNode) -> Lsn {
    xlog.status().positions.map_or(Lsn::NONE, |at| at.disseminated)
}

/// The archive's end now.
fn archived(cluster: &Cluster) -> Lsn {
    let view = Archive::open_view(cluster.store("archive"), None).ok().flatten();
    view.map_or(Lsn::NONE, |view| view.end())
}

/// Everything that is hardened is in it, and it is whole.
pub fn is_whole(cluster: &Cluster, hardened: Lsn) -> Result<()> {
    until("everything is archived", || archived(cluster) >= hardened);
    let report = verify(cluster.store("archive"), None)?;
    assert!(report.problems.is_empty(), "{report}");
    let view = Archive::open_view(cluster.store("archive"), None)?.expect("an archive");
    assert_eq!(view.start(), Lsn(1 << 20), "from the first block on");
    Ok(())
}

/// A page server that has lost everything, and a primary with an empty folder: pages come from the archive alone, and the log behind it.
pub fn can_be_made_of_it(cluster: &Cluster, rows: Rows, folder: &str) -> Result<()> {
    std::fs::remove_dir_all(cluster.path("pages-0")).expect("its folder");
    let node = cluster.page_server(0);
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, folder)?;
    rows.again(&db)?.check(&db)?;
    let pages = node.status().pages.expect("it has pages");
    assert!(pages.segments_seeded > 0, "{pages:?}");
    db.close()
}

#[test]
fn the_log_service_archives() -> Result<()> {
    let cluster = archiving();
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    for round in 1..20 {
        rows.change(&db, (0..ROWS).step_by(3), round)?;
        std::thread::sleep(Duration::from_millis(60));
    }
    let upto = hardened(&zoned);
    until("the primary knows that it is archived", || {
        db.archive_status().is_some_and(|status| status.archived.is_some_and(|end| end >= upto))
    });
    let status = db.archive_status().expect("there is one");
    let archiver = status.archiver.clone().expect("one that archives");
    assert!(status.elsewhere && archiver.service == cluster.log && status.error.is_none(), "{status:?}");
    assert!(status.runs_written == 0 && status.runs > 0, "{status:?}");
    let shown = xlog.status().archive.expect("it archives");
    assert!(shown.works && shown.runs > 3 && shown.error.is_none(), "{shown:?}");
    assert!(status.merged_elsewhere && status.merge_error.is_none(), "{status:?}");
    // It is no page server, and holds nothing in the zone.
    assert!(db.page_servers().iter().all(|server| server.name.as_deref() != Some("the archive")));
    assert!(!db.log_status().held_by.contains("the archive"), "{:?}", db.log_status().held_by);
    // Merged beside it as well, while it goes on, as a primary of before does.
    rows.change(&db, 0..ROWS, 20)?;
    db.merge_archive()?;
    let name = db.backup(false, &|| false)?;
    assert!(!name.is_empty());
    assert!(Lease::list(&*cluster.store("archive"))?.is_empty(), "that of the backup was given back");
    // The primary dies, and nothing more is needed of it.
    rows.change(&db, (0..ROWS).step_by(2), 21)?;
    let upto = hardened(&zoned);
    // What a dead primary could not say to be hardened its successor settles.
    until("it is said to be hardened", || disseminated(&xlog) >= upto);
    drop((db, zoned));
    is_whole(&cluster, upto)?;
    drop(node);
    can_be_made_of_it(&cluster, rows, "elsewhere")
}

/// It is killed again and again while there is log to be archived, and so is the primary, which merges.
#[test]
fn who_archives_is_killed() -> Result<()> {
    let cluster = archiving();
    let node = cluster.page_server(0);
    let mut xlog = Some(cluster.log_service());
    let zoned = cluster.zoned();
    let mut now: Option<(Database, Zoned)> = Some((cluster.open_zoned(&zoned, "primary-0")?, zoned));
    let mut rows = Rows::create(&now.as_ref().expect("open").0, ROWS)?;
    let mut upto = Lsn::NONE;
    for round in 0..8 {
        let (db, zoned) = now.take().expect("open");
        for step in 0..6 {
            rows.change(&db, (step..ROWS).step_by(5), round * 10 + step)?;
            std::thread::sleep(Duration::from_millis(30));
        }
        if round % 2 == 0 {
            drop(xlog.take());
            xlog = Some(cluster.log_service());
        }
        rows.change(&db, (round..ROWS).step_by(7), 1000 + round)?;
        upto = hardened(&zoned);
        if round % 3 == 2 {
            // What was not archived yet is, without it.
            until("it is said to be hardened", || xlog.as_ref().is_some_and(|xlog| disseminated(xlog) >= upto));
            drop((db, zoned));
            until("it goes on without a primary", || archived(&cluster) >= upto);
            let zoned = cluster.zoned();
            let db = cluster.open_zoned(&zoned, &format!("primary-{round}"))?;
            rows = rows.again(&db)?;
            now = Some((db, zoned));
        } else {
            now = Some((db, zoned));
        }
    }
    let (db, zoned) = now.take().expect("open");
    rows.check(&db)?;
    upto = upto.max(hardened(&zoned));
    until("the primary can merge", || db.merge_archive().is_ok());
    is_whole(&cluster, upto)?;
    db.close()?;
    drop((db, zoned, node));
    can_be_made_of_it(&cluster, rows, "elsewhere")
}

/// Two log services have the archive to write: one does, and the other one takes over when it is gone; that one stands aside when it is back.
#[test]
fn another_log_service_takes_over() -> Result<()> {
    let mut cluster = archiving();
    let second_log = free_address();
    cluster.second_log = Some(second_log.clone());
    let node = cluster.page_server(0);
    let mut first = Some(cluster.log_service());
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    until("the first one archives", || {
        first.as_ref().and_then(|first| first.status().archive).is_some_and(|shown| shown.works)
    });
    let second = cluster.log_service_at("xlog-2", &second_log);
    let works = |of: &XlogNode| of.status().archive.is_some_and(|shown| shown.works);
    let mut change = |round: i64| {
        let outcome = rows.change(&db, (0..ROWS).step_by(5), round);
        std::thread::sleep(Duration::from_millis(50));
        outcome
    };
    for round in 0..30 {
        change(round)?;
    }
    assert!(!works(&second), "the first one is at work");
    drop(first.take());
    let begun = std::time::Instant::now();
    for round in 30.. {
        change(round)?;
        if works(&second) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", second.status().archive);
    }
    let first = cluster.log_service();
    for round in 100..130 {
        change(round)?;
    }
    assert!(works(&second) && !works(&first), "{:?} {:?}", second.status().archive, first.status().archive);
    until("the primary knows who archives", || {
        db.archive_status().and_then(|status| status.archiver).is_some_and(|of| of.service == second_log)
    });
    is_whole(&cluster, hardened(&zoned))?;
    rows.check(&db)?;
    db.close()?;
    drop((db, zoned, node));
    can_be_made_of_it(&cluster, rows, "elsewhere")
}

/// The archive's place is away for longer than the long-term log is kept: that is kept all the same, and nobody waits.
#[test]
fn the_long_term_log_is_kept_until_it_is_archived() -> Result<()> {
    let mut cluster = archiving();
    cluster.long_term_retention = Duration::from_millis(300);
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    let oldest = || xlog.status().positions.map_or(Lsn::NONE, |at| at.oldest);
    for round in 0..40 {
        rows.change(&db, (0..ROWS).step_by(2), round)?;
    }
    let begin = Lsn(1 << 20);
    until("what is archived goes", || oldest() > begin);
    let (here, away) = (cluster.path("archive"), cluster.path("archive.away"));
    std::fs::rename(&here, &away).and_then(|()| std::fs::write(&here, b"away")).expect("it is away");
    let end = {
        let view = Archive::open_view(cluster.store("archive.away"), None)?.expect("it is there");
        view.end()
    };
    for round in 40..80 {
        rows.change(&db, (0..ROWS).step_by(2), round)?;
    }
    until("it is known", || xlog.status().archive.is_some_and(|shown| shown.error.is_some()));
    std::thread::sleep(Duration::from_secs(2));
    let at = xlog.status().positions.expect("it has the log");
    assert!(at.oldest <= end && at.destaged.0 > end.0 + (1 << 20), "the archive ends at {end}: {at:?}");
    std::fs::remove_file(&here).and_then(|()| std::fs::rename(&away, &here)).expect("it is back");
    is_whole(&cluster, hardened(&zoned))?;
    until("what is archived goes again", || oldest() > end);
    rows.check(&db)?;
    db.close()?;
    drop((db, zoned, node));
    can_be_made_of_it(&cluster, rows, "elsewhere")
}
