//! A database whose log is a tier of its own: landing zone, log service, long-term log; with real sockets and files.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Cluster, Rows, until};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use resurgam_base::Lsn;
use resurgam_engine::*;

#[path = "common/proxy.rs"]
mod proxy;
use proxy::Proxy;

#[path = "xlog/archiving.rs"]
mod archiving;
#[path = "xlog/bad_input.rs"]
mod bad_input;
#[path = "xlog/flights.rs"]
mod flights;
#[path = "xlog/merging.rs"]
mod merging;
#[path = "xlog/tls.rs"]
mod tls;

const ROWS: i64 = 3000;

/// Files of the log in the landing zone, in bytes.
fn zone_bytes(cluster: &Cluster) -> u64 {
    let files = std::fs::read_dir(cluster.path("zone/log")).expect("the zone").flatten();
    files.map(|file| file.metadata().map_or(0, |data| data.len())).sum()
}

#[test]
fn the_log_goes_through_zone_and_log_service() -> Result<()> {
    let cluster = Cluster::with_log_service(1);
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    for round in 1..12 {
        rows.change(&db, (0..ROWS).step_by(2), round)?;
    }
    rows.check(&db)?;
    let hardened = zoned.zone.status().expect("it is open").hardened;
    until("everything is destaged", || xlog.status().positions.is_some_and(|at| at.destaged >= hardened));
    let at = xlog.status().positions.expect("it has the log");
    assert!(at.from_pending > at.from_zone, "most blocks come from the primary: {at:?}");
    until("the page server has applied it", || {
        node.status().pages.is_some_and(|pages| pages.applied.0 + 4096 > hardened.0)
    });
    // Only what was destaged is given up.
    let before = db.log_status().oldest;
    until("the zone is given up", || db.checkpoint().is_ok() && db.log_status().oldest > before);
    assert!(db.log_status().oldest <= xlog.status().positions.expect("it has the log").destaged);
    assert!(zone_bytes(&cluster) < 16 << 20);
    until("it is known who pulls", || {
        db.page_servers()
            .iter()
            .any(|server| server.name.as_deref() == Some("page server 0") && server.applied.is_some())
    });
    let status = db.log_service().expect("there is one");
    assert!(status.epoch == 2 && status.services[0].blocks > 0 && status.services[0].error.is_none(), "{status:?}");
    rows.check(&db)?;
    // An empty machine, after a clean end: nobody waits.
    db.close()?;
    drop(db);
    std::fs::remove_dir_all(cluster.path("primary")).expect("its folder");
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "elsewhere")?;
    let rows = rows.again(&db)?;
    rows.check(&db)?;
    assert_eq!(zoned.zone.status().expect("it is open").epoch, 4);
    assert!(!std::fs::exists(cluster.path("elsewhere/log")).unwrap_or(true), "no log of its own");
    db.close()
}

/// It dies, and another one is started with nothing: the same answer. The first one comes back to life, and acknowledges nothing.
#[test]
fn a_second_primary_takes_over_with_an_empty_folder() -> Result<()> {
    let cluster = Cluster::with_log_service(1);
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let first = cluster.zoned();
    let db = cluster.open_zoned(&first, "primary-1")?;
    let mut rows = Rows::create(&db, ROWS)?;
    rows.change(&db, 0..ROWS, 1)?;
    // It is cut off from the record, and does not know yet.
    first.record.cut.store(true, Ordering::SeqCst);
    let second = cluster.zoned();
    let taken_over = cluster.open_zoned(&second, "primary-2")?;
    assert!(second.zone.status().expect("it is open").epoch > first.zone.status().expect("it was open").epoch);
    let mut copy = Rows { table: Arc::clone(&rows.table), values: rows.values.clone() }.again(&taken_over)?;
    copy.check(&taken_over)?;
    // What the first one writes becomes durable in files that do not count, and is not acknowledged.
    let refused = rows.change(&db, 0..10, 99).expect_err("it has lost the log");
    assert!(matches!(refused.kind(), ErrorKind::Stopped | ErrorKind::Io), "{refused}");
    copy.change(&taken_over, (0..ROWS).step_by(3), 2)?;
    first.record.cut.store(false, Ordering::SeqCst);
    // (Rows that its last transaction has not touched.)
    let outcomes = (rows.change(&db, 20..30, 100), db.checkpoint());
    assert!(outcomes.0.is_err() && outcomes.1.is_err(), "{refused:?}: {outcomes:?} {:?}", first.zone.status());
    drop(db);
    copy.change(&taken_over, (0..ROWS).step_by(4), 3)?;
    copy.check(&taken_over)?;
    taken_over.close()?;
    drop(taken_over);
    // And once more, from the long-term log and the zone.
    drop((node, xlog));
    std::fs::remove_dir_all(cluster.path("pages-0")).expect("its folder");
    let _xlog = cluster.log_service();
    let _node = cluster.page_server(0);
    let third = cluster.zoned();
    let db = cluster.open_zoned(&third, "primary-3")?;
    copy.again(&db)?.check(&db)?;
    db.close()
}

/// Another primary is started while the first one is well: it waits for as long as that is so, and the first one is told when it ends.
#[test]
fn a_primary_that_has_lost_the_log_is_told() -> Result<()> {
    let cluster = Cluster::with_log_service(1);
    let _node = cluster.page_server(0);
    let _xlog = cluster.log_service();
    let first = cluster.zoned();
    let db = cluster.open_zoned(&first, "primary-1")?;
    let mut rows = Rows::create(&db, 100)?;
    let second = cluster.zoned();
    let opened = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let other = scope.spawn(|| {
            let db = cluster.open_zoned(&second, "primary-2");
            opened.store(true, Ordering::SeqCst);
            db
        });
        for round in 0..15 {
            rows.change(&db, 0..100, round)?;
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(!opened.load(Ordering::SeqCst) && !first.lost.load(Ordering::SeqCst));
        first.record.cut.store(true, Ordering::SeqCst);
        until("the second one has it", || opened.load(Ordering::SeqCst));
        first.record.cut.store(false, Ordering::SeqCst);
        until("the first one is told", || first.lost.load(Ordering::SeqCst));
        let taken_over = other.join().expect("the thread")?;
        rows.again(&taken_over)?.check(&taken_over)?;
        taken_over.close()
    })
}

/// It is killed again and again, and its folder goes: nothing is lost, and no statement fails.
#[test]
fn the_log_service_has_nothing_that_could_be_lost() -> Result<()> {
    let cluster = Cluster::with_log_service(1);
    let _node = cluster.page_server(0);
    let mut xlog = Some(cluster.log_service());
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    for round in 0..6 {
        drop(xlog.take());
        if round % 2 == 0 {
            std::fs::remove_dir_all(cluster.path("xlog")).expect("its folder");
        }
        std::thread::scope(|scope| {
            let starting = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(200));
                cluster.log_service()
            });
            let outcome = rows.change(&db, (round..ROWS).step_by(5), round + 1).and_then(|()| rows.check(&db));
            xlog = Some(starting.join().expect("the log service"));
            outcome
        })?;
    }
    let hardened = zoned.zone.status().expect("it is open").hardened;
    until("everything is destaged", || {
        let at = xlog.as_ref().and_then(|xlog| xlog.status().positions);
        at.is_some_and(|at| at.destaged >= hardened)
    });
    db.close()
}

/// The log service is away: the zone fills, and writers wait; who holds the log can be seen.
#[test]
fn writers_wait_at_a_full_zone() -> Result<()> {
    let mut cluster = Cluster::with_log_service(1);
    cluster.log_bytes_max = 8 << 20;
    // No page has to be had from the page server, which gets no log.
    cluster.buffer_pages = 2000;
    let _node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    drop(xlog);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| {
            let outcome = (0..60).try_for_each(|round| rows.change(&db, 0..ROWS, round));
            done.store(true, Ordering::SeqCst);
            outcome
        });
        until("they wait", || {
            let before = db.log_status();
            std::thread::sleep(Duration::from_millis(400));
            before.held_by.contains("log service")
                && before.flushed.0 > 6 << 20
                && before.flushed == db.log_status().flushed
        });
        assert!(!done.load(Ordering::SeqCst));
        assert!(zone_bytes(&cluster) < 14 << 20);
        let _xlog = cluster.log_service();
        writer.join().expect("the writer")?;
        db.checkpoint()
    })?;
    db.close()
}

/// Connections to the log service are cut, delayed, and bytes in them flipped.
#[test]
fn a_bad_network_to_the_log_service_spoils_nothing() -> Result<()> {
    for seed in 1..3 {
        let mut cluster = Cluster::with_log_service(1);
        let from_primary = Proxy::start(&cluster.log, seed, 60);
        let from_pages = Proxy::start(&cluster.log, seed + 100, 10);
        cluster.xlog = Some((cluster.log.clone(), from_primary.address.clone()));
        cluster.log_seen = from_pages.address.clone();
        let node = cluster.page_server(0);
        let xlog = cluster.log_service();
        let zoned = cluster.zoned();
        let db = cluster.open_zoned(&zoned, "primary")?;
        let mut rows = Rows::create(&db, ROWS)?;
        let mut rng = SmallRng::seed_from_u64(seed);
        for round in 0..10 {
            rows.change(&db, (0..ROWS).filter(|_| rng.random_bool(0.1)), round)?;
            if round == 5 {
                from_primary.silent.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(700));
                from_primary.silent.store(false, Ordering::SeqCst);
            }
        }
        rows.check(&db)?;
        let faults = from_primary.faults.load(Ordering::SeqCst) + from_pages.faults.load(Ordering::SeqCst);
        assert!(faults > 3, "{faults}");
        let at = xlog.status().positions.expect("it has the log");
        assert!(at.from_zone > 0 && at.disseminated > Lsn(0), "{at:?}");
        db.close()?;
        drop(node);
    }
    Ok(())
}

/// A zone has the log of one database: another one is refused, and so is one with pages of its own.
#[test]
fn what_does_not_go_together_is_refused() -> Result<()> {
    let cluster = Cluster::with_log_service(1);
    let _node = cluster.page_server(0);
    let _xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    db.close()?;
    drop(db);
    // The folder of another database.
    let other = Cluster::with_log_service(1);
    let others = other.zoned();
    let alone = Options {
        log_dir: Some(other.path("zone/log")),
        log_zone: Some(LogZoneHandle(Arc::clone(&others.zone) as Arc<dyn LogZone>)),
        ..Options::default()
    };
    let error = Database::open(other.path("alone"), alone).err().expect("it has pages of its own");
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    let plain = Options { log_dir: Some(cluster.path("zone/log")), ..Options::default() };
    let error = Database::open(cluster.path("plain"), plain).err().expect("it is another one's log");
    assert!(matches!(error.kind(), ErrorKind::InvalidParameter | ErrorKind::NotInPrerequisiteState), "{error}");
    Ok(())
}
