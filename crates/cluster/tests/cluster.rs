//! A database over page servers, with real sockets and files: nothing that is committed is lost, and no statement fails, whichever of
//! them goes.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Cluster, Rows, until};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use resurgam_engine::*;

#[path = "common/proxy.rs"]
mod proxy;
use proxy::Proxy;

const ROWS: i64 = 4000;

#[test]
fn pages_come_from_a_page_server() -> Result<()> {
    let cluster = Cluster::new(1);
    let node = cluster.page_server(0);
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = Rows::create(&db, ROWS)?;
    rows.change(&db, (0..ROWS).step_by(7), 1)?;
    rows.check(&db)?;
    let status = primary.status().expect("it is open");
    assert!(status.replicas[0].pages > 60, "{status:?}");
    assert!(status.consumers[0].name == "page server 0", "{status:?}");
    let held = db.log_status().held_by;
    // Where all have gone on, whoever has not asked yet.
    let holders = ["page server 0", "archive", "page servers that have not asked"];
    assert!(holders.iter().any(|holder| format!("{held:?}").contains(holder)), "{held:?}");
    // The primary is opened again: it has nothing but its log.
    db.close()?;
    drop(db);
    let db = cluster.open(&primary)?;
    let rows = rows.again(&db)?;
    rows.check(&db)?;
    db.close()?;
    drop(db);
    let alone = Database::open(cluster.path("primary"), Options::default()).err().expect("it has no pages");
    assert_eq!(alone.kind(), ErrorKind::NotInPrerequisiteState, "{alone}");
    let file = std::fs::read(cluster.path("primary").join("data")).expect("the boot page");
    let others = &file[limits::PAGE_SIZE.min(file.len())..];
    let others = others.chunks(limits::PAGE_SIZE).filter(|page| page.iter().any(|byte| *byte != 0)).count();
    assert!(others < 10, "the primary has {others} pages of its own: more than what the database was made with");
    drop(node);
    Ok(())
}

#[test]
fn a_page_server_comes_back_or_is_made_anew() -> Result<()> {
    let cluster = Cluster::new(1);
    let mut node = Some(cluster.page_server(0));
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = Rows::create(&db, ROWS)?;
    for (round, lost) in [false, true, false, true].into_iter().enumerate() {
        // Without a last checkpoint.
        drop(node.take());
        if lost {
            std::fs::remove_dir_all(cluster.path("pages-0")).expect("its folder");
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| -> Result<()> {
            let starting = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                let node = cluster.page_server(0);
                until("the statements", || done.load(Ordering::SeqCst));
                node
            });
            let outcome =
                rows.change(&db, (round as i64..ROWS).step_by(5), round as i64 + 1).and_then(|()| rows.check(&db));
            done.store(true, Ordering::SeqCst);
            node = Some(starting.join().expect("the page server"));
            outcome
        })?;
        let pages = node.as_ref().and_then(|node| node.status().pages).expect("it has pages");
        assert!(pages.segments_seeded > 0 || !lost, "{pages:?}");
    }
    db.close()
}

/// Two have the pages: no statement waits for long when one of them goes.
#[test]
fn one_of_two_page_servers_goes() -> Result<()> {
    let cluster = Cluster::new(2);
    let mut nodes = [Some(cluster.page_server(0)), Some(cluster.page_server(1))];
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = Rows::create(&db, ROWS)?;
    for round in 0..6 {
        let number = round as usize % 2;
        nodes[number] = None;
        rows.change(&db, (round..ROWS).step_by(11), round + 1)?;
        rows.check(&db)?;
        nodes[number] = Some(cluster.page_server(number));
        until("both are asked", || {
            let _ = rows.check(&db);
            primary.status().is_some_and(|status| status.replicas.iter().all(|replica| replica.error.is_none()))
        });
    }
    let status = primary.status().expect("it is open");
    assert!(status.replicas.iter().all(|replica| replica.pages > 100), "{status:?}");
    db.close()
}

/// Of two that have the pages the one that is far away is asked now and then only, and when it is near it is asked as well.
#[test]
fn the_faster_of_two_is_asked() -> Result<()> {
    let mut cluster = Cluster::new(2);
    let nodes = [cluster.page_server(0), cluster.page_server(1)];
    // Further than a busy machine makes the near one.
    cluster.pages_seen[0] = proxy::distant(&cluster.pages[0], Duration::from_millis(10));
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let rows = Rows::create(&db, ROWS)?;
    let replicas = || primary.status().expect("it is open").replicas;
    until("enough is asked", || {
        let _ = rows.check(&db);
        let [far, near] = &replicas()[..] else { panic!("two") };
        near.pages > 2000 && far.tried_again > 0
    });
    let replicas = replicas();
    let [far, near] = &replicas[..] else { panic!("two") };
    assert!(far.pages * 4 < near.pages, "{far:?} {near:?}");
    assert!(near.applied.is_some() && far.applied.is_some(), "{far:?} {near:?}");
    drop(nodes);
    db.close()
}

/// Of two the slower one falls silent: no reader gives up on it, for each looks before that whether to go on, and asks the other one. It is left
/// for long all the same.
#[test]
fn a_slow_one_that_falls_silent_is_left() -> Result<()> {
    let mut cluster = Cluster::new(2);
    let nodes = [cluster.page_server(0), cluster.page_server(1)];
    let silent = Proxy::start(&proxy::distant(&cluster.pages[1], Duration::from_millis(2)), 1, 0);
    cluster.pages_seen[1] = silent.address.clone();
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let rows = Rows::create(&db, ROWS)?;
    let replica = || primary.status().expect("it is open").replicas[1].clone();
    until("both were asked", || rows.check(&db).is_ok() && replica().pages > 0);
    silent.silent.store(true, Ordering::SeqCst);
    let (before, begun) = (replica(), Instant::now());
    while begun.elapsed() < Duration::from_secs(4) {
        rows.check(&db)?;
    }
    let after = replica();
    println!("tried {} times, {after:?}", after.tried_again - before.tried_again);
    assert!(after.failures > before.failures, "it is not noticed: {after:?}");
    // Every 256 milliseconds as long as it answered.
    assert!(after.tried_again - before.tried_again <= 6, "{before:?} {after:?}");
    silent.silent.store(false, Ordering::SeqCst);
    until("it is asked again", || rows.check(&db).is_ok() && replica().pages > after.pages);
    drop(nodes);
    db.close()
}

/// The one that is fast gets no log, and the one that is slow has all of it. How often the fast one was asked in vain meanwhile, and
/// how often it was passed over.
fn with_one_that_lags(ignores_lag: bool) -> Result<(u64, u64)> {
    let mut cluster = Cluster::new(2);
    (cluster.ignores_lag, cluster.read_ahead_pages) = (ignores_lag, 0);
    let current = cluster.page_server(0);
    let log = Proxy::start(&cluster.log, 1, 0);
    cluster.log_seen = log.address.clone();
    let lags = cluster.page_server(1);
    cluster.pages_seen[0] = proxy::distant(&cluster.pages[0], Duration::from_millis(5));
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = Rows::create(&db, ROWS)?;
    rows.check(&db)?;
    let replica = || primary.status().expect("it is open").replicas[1].clone();
    let before = replica();
    assert!(before.pages > 20, "{before:?}");
    log.silent.store(true, Ordering::SeqCst);
    for round in 0..2 {
        rows.change(&db, (0..ROWS).step_by(3), round + 1)?;
        rows.check(&db)?;
    }
    let after = replica();
    log.silent.store(false, Ordering::SeqCst);
    // When it has caught up it is asked again, though nobody has asked it for a page meanwhile.
    until("it is asked again", || rows.check(&db).is_ok() && replica().pages > after.pages + 100);
    rows.check(&db)?;
    db.close()?;
    drop((current, lags));
    Ok((after.failures - before.failures, after.passed_over - before.passed_over))
}

#[test]
fn one_that_lags_is_not_asked_first() -> Result<()> {
    // That it lags is known when it has said so once.
    let (failures, passed_over) = with_one_that_lags(false)?;
    println!("asked {failures} times in vain, passed over {passed_over} times");
    assert!(failures <= 3 && passed_over > 50, "asked {failures} times in vain, passed over {passed_over} times");
    let (planted, passed_over) = with_one_that_lags(true)?;
    println!("asked {planted} times in vain where how far it is does not matter");
    assert!(planted > failures + 2 && passed_over == 0, "{planted} times in vain would not be noticed");
    Ok(())
}

/// Connections are cut, delayed, and bytes in them flipped, both ways between both.
#[test]
fn a_bad_network_spoils_nothing() -> Result<()> {
    for seed in 1..3 {
        let mut cluster = Cluster::new(1);
        let log = Proxy::start(&cluster.log, seed, 8);
        let pages = Proxy::start(&cluster.pages[0], seed + 100, 30);
        (cluster.log_seen, cluster.pages_seen) = (log.address.clone(), vec![pages.address.clone()]);
        let node = cluster.page_server(0);
        let primary = cluster.primary();
        let db = cluster.open(&primary)?;
        let mut rows = Rows::create(&db, ROWS)?;
        let mut rng = SmallRng::seed_from_u64(seed);
        // How often the log is asked for is a matter of time: on until something was done to it.
        for round in 0..200 {
            if round >= 8 && log.faults.load(Ordering::SeqCst) > 0 {
                break;
            }
            rows.change(&db, (0..ROWS).filter(|_| rng.random_bool(0.1)), round)?;
            if round % 7 == 3 {
                // Nothing goes through for a moment: who asks waits.
                pages.silent.store(true, Ordering::SeqCst);
                log.silent.store(true, Ordering::SeqCst);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        std::thread::sleep(Duration::from_millis(300));
                        pages.silent.store(false, Ordering::SeqCst);
                        log.silent.store(false, Ordering::SeqCst);
                    });
                    rows.check(&db)
                })?;
            }
        }
        rows.check(&db)?;
        let faults = (log.faults.load(Ordering::SeqCst), pages.faults.load(Ordering::SeqCst));
        assert!(faults.0 > 0 && faults.1 > 50, "{faults:?}");
        db.close()?;
        drop(node);
    }
    Ok(())
}

/// A page server that was away for longer than its lease begins anew, and the log was not kept for it.
#[test]
fn a_page_server_returns_too_late() -> Result<()> {
    let mut cluster = Cluster::new(2);
    cluster.lease = Duration::from_millis(400);
    let stays = cluster.page_server(0);
    let goes = cluster.page_server(1);
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = Rows::create(&db, ROWS)?;
    rows.check(&db)?;
    drop(goes);
    until("it is forgotten", || primary.status().is_some_and(|status| status.consumers.len() == 1));
    let before = db.log_status().oldest;
    // More than a segment of log, and it is given up.
    for round in 0..12 {
        rows.change(&db, 0..ROWS, round)?;
        db.checkpoint()?;
    }
    until("the log is truncated", || db.checkpoint().is_ok() && db.log_status().oldest > before);
    let goes = cluster.page_server(1);
    until("it is made anew", || {
        let status = goes.status();
        status.made_anew > 0 && status.pages.is_some_and(|pages| pages.segments_missing == 0)
    });
    drop(stays);
    rows.change(&db, 0..ROWS, 77)?;
    rows.check(&db)?;
    db.close()
}

/// Without any page server a statement waits, and then says why.
#[test]
fn without_page_servers_statements_say_so() -> Result<()> {
    let mut cluster = Cluster::new(1);
    let node = cluster.page_server(0);
    cluster.patience = Duration::from_millis(500);
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let rows = Rows::create(&db, ROWS)?;
    drop(node);
    let error = rows.check(&db).expect_err("no page server");
    assert!(error.kind() == ErrorKind::Io && error.message().contains(&cluster.pages[0]), "{error}");
    assert!(error.hint().is_some());
    // And goes on when there is one.
    let _node = cluster.page_server(0);
    until("pages again", || rows.check(&db).is_ok());
    db.close()
}

/// A statement that waits for a page ends when it is told to, whether it asks for the page or waits for who does.
#[test]
fn a_wait_for_a_page_is_given_up() -> Result<()> {
    let cluster = Cluster::new(1);
    let node = cluster.page_server(0);
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let rows = Rows::create(&db, ROWS)?;
    rows.check(&db)?;
    drop(node);
    let stop: Vec<_> = (0..4).map(|_| Arc::new(AtomicBool::new(false))).collect();
    let transactions: Vec<_> = stop
        .iter()
        .map(|stop| {
            let (tx, stop) = (db.begin(Isolation::ReadCommitted), Arc::clone(stop));
            tx.set_interrupt(Some(Arc::new(move || match stop.load(Ordering::SeqCst) {
                true => Err(Error::new(ErrorKind::Cancelled, "stop")),
                false => Ok(()),
            })));
            tx
        })
        .collect();
    let node = std::thread::scope(|scope| -> Result<_> {
        let rows = &rows;
        let scans: Vec<_> = transactions
            .iter()
            .map(|tx| scope.spawn(move || rows.scan(&tx.statement(StatementKind::Read)?, Direction::Forward)))
            .collect();
        let unstoppable = scope.spawn(|| rows.check(&db));
        until("all wait", || transactions.iter().all(Transaction::waits_for_page));
        for n in 0..3 {
            let begun = Instant::now();
            stop[n].store(true, Ordering::SeqCst);
            until("it has stopped", || scans[n].is_finished());
            assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
            assert!(!transactions[n].waits_for_page());
            assert!(!unstoppable.is_finished() && scans[n + 1..].iter().all(|scan| !scan.is_finished()));
        }
        let node = cluster.page_server(0);
        for (n, scan) in scans.into_iter().enumerate() {
            match scan.join().expect("no panic") {
                Ok(found) => assert!(n == 3 && found.len() == ROWS as usize, "{n}"),
                Err(error) => assert!(n < 3 && error.kind() == ErrorKind::Cancelled, "{n}: {error}"),
            }
        }
        unstoppable.join().expect("no panic")?;
        Ok(node)
    })?;
    // The transaction is as good as before; it is stopped still.
    let view = transactions[0].statement(StatementKind::Read)?;
    stop[0].store(false, Ordering::SeqCst);
    assert_eq!(rows.scan(&view, Direction::Backward)?.len(), ROWS as usize);
    assert!(db.stats().pool.page_waits_given_up >= 3);
    rows.check(&db)?;
    drop((view, transactions, node));
    db.close()
}

/// Pages of a scan come many at once, before it needs them, and it does not take more of memory than others.
#[test]
fn a_scan_asks_ahead() -> Result<()> {
    let mut cluster = Cluster::new(2);
    cluster.buffer_pages = 256;
    let nodes = [cluster.page_server(0), cluster.page_server(1)];
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = Rows::create(&db, 5 * ROWS)?;
    rows.change(&db, (0..ROWS).step_by(3), 1)?;
    rows.scan_ahead(&db)?;
    // A short one asks for little, when those before have nothing asked for any more.
    std::thread::sleep(Duration::from_millis(300));
    let after = db.stats().pool;
    let tx = db.begin(Isolation::ReadCommitted);
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&rows.table, KeyRange::all(), Direction::Forward);
    cursor.next_batch(&mut RowBatch::default(), 40)?;
    std::thread::sleep(Duration::from_millis(300));
    let asked = db.stats().pool.ahead_asked - after.ahead_asked;
    assert!(asked <= 8, "{asked} asked for ahead by a short scan");
    drop((cursor, view, tx));
    rows.check(&db)?;
    drop(nodes);
    db.close()
}

/// Waits until the cache knows what it has from before.
fn cache_is_read(db: &Database) {
    until("the cache to be read", || db.page_cache().expect("a cache").state != PageCacheState::Reading);
}

/// What leaves memory is had from the cache: in this life, and after a restart without a page server being asked for it.
#[test]
fn pages_are_had_from_the_cache() -> Result<()> {
    let mut cluster = Cluster::new(1);
    cluster.cache_pages = 4096;
    let node = cluster.page_server(0);
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = Rows::create(&db, ROWS)?;
    rows.change(&db, (0..ROWS).step_by(3), 1)?;
    cache_is_read(&db);
    // What is read faster than it is written into the cache is kept the next time.
    let begun = std::time::Instant::now();
    let status = loop {
        let before = db.stats().pool;
        rows.check(&db)?;
        let (after, status) = (db.stats().pool, db.page_cache().expect("a cache"));
        let cached = after.cached_pages - before.cached_pages;
        if cached > 50 && after.remote_pages - before.remote_pages < cached / 10 && status.pages > 50 {
            break status;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{before:?} {after:?} {status:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(status.state == PageCacheState::On && status.error.is_none(), "{status:?}");
    db.close()?;
    drop((db, primary));
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = rows.again(&db)?;
    cache_is_read(&db);
    rows.check(&db)?;
    let (pool, status) = (db.stats().pool, db.page_cache().expect("a cache"));
    assert!(status.recovered > 50 && pool.cached_pages > 50, "{status:?} {pool:?}");
    // What was in memory at last is not in it.
    assert!(pool.remote_pages < pool.cached_pages, "{status:?} {pool:?}");
    rows.change(&db, (0..ROWS).step_by(2), 2)?;
    rows.check(&db)?;
    db.close()?;
    drop((db, primary));
    // A life without it.
    cluster.cache_pages = 0;
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = rows.again(&db)?;
    rows.change(&db, (0..ROWS / 2).step_by(2), 3)?;
    db.checkpoint()?;
    db.close()?;
    drop((db, primary));
    // What it has is asked about then: most is as it was, and only that is said.
    cluster.cache_pages = 4096;
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let rows = rows.again(&db)?;
    cache_is_read(&db);
    rows.check(&db)?;
    let (pool, status) = (db.stats().pool, db.page_cache().expect("a cache"));
    assert!(pool.confirmed_pages > 0 && status.out_of_date > 0, "{status:?} {pool:?}");
    // The next life cannot use its folder: that is no error.
    let folder = cluster.path("cache");
    std::fs::remove_dir_all(&folder).expect("a folder");
    std::fs::write(&folder, b"no folder").expect("a file");
    rows.check(&db)?;
    db.close()?;
    drop((db, primary));
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let rows = rows.again(&db)?;
    rows.check(&db)?;
    let status = db.page_cache().expect("a cache");
    assert!(status.state == PageCacheState::Off && status.error.is_some(), "{status:?}");
    drop(node);
    db.close()
}

/// How long full scans take, with and without asking ahead: `cargo test --release -p resurgam-cluster --test cluster -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn scans_measured() -> Result<()> {
    for delay in [None, Some(Duration::from_micros(100))] {
        let mut took = Vec::new();
        for read_ahead_pages in [0, 128] {
            let mut cluster = Cluster::new(1);
            (cluster.buffer_pages, cluster.read_ahead_pages) = (4096, read_ahead_pages);
            if let Some(delay) = delay {
                cluster.pages_seen = vec![proxy::distant(&cluster.pages[0], delay)];
            }
            let node = cluster.page_server(0);
            let primary = cluster.primary();
            let db = cluster.open(&primary)?;
            // 80 MB or so, two and a half times what there is of memory.
            let rows = Rows::create(&db, 300_000)?;
            let mut times = Vec::new();
            for _ in 0..5 {
                let tx = db.begin(Isolation::ReadCommitted);
                let view = tx.statement(StatementKind::Read)?;
                let begun = Instant::now();
                assert_eq!(view.count(&rows.table, KeyRange::all())?, 300_000);
                times.push(begun.elapsed());
            }
            times.sort_unstable();
            let pool = db.stats().pool;
            eprintln!(
                "{delay:?} each way, {read_ahead_pages} ahead: {times:?}; asked {}, used {}, wasted {}, alone {}",
                pool.ahead_asked, pool.ahead_used, pool.ahead_wasted, pool.remote_pages
            );
            took.push(times[2]);
            db.close()?;
            drop(node);
        }
        eprintln!("{delay:?}: {:.2} times as fast", took[0].as_secs_f64() / took[1].as_secs_f64());
    }
    Ok(())
}

/// Random reads of single rows for so long: how many in each tenth of a second.
fn reads(db: &Database, rows: &Rows, time: Duration, rng: &mut SmallRng) -> Result<Vec<u64>> {
    let (begun, mut counts) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        let tx = db.begin(Isolation::ReadCommitted);
        rows.read_one(&tx.statement(StatementKind::Read)?, rng.random_range(0..rows.values.len() as i64))?;
        let tenth = (begun.elapsed().as_millis() / 100) as usize;
        counts.resize(counts.len().max(tenth + 1), 0);
        counts[tenth] += 1;
    }
    counts.pop();
    Ok(counts)
}

/// What the page cache gives, and what it is worth that it outlives a restart: as [`scans_measured`].
#[test]
#[ignore = "a measurement"]
fn the_cache_measured() -> Result<()> {
    const COUNT: i64 = 300_000;
    for delay in [None, Some(Duration::from_micros(100))] {
        for (what, cached, emptied) in
            [("no cache", 0, false), ("a cache", 16384, false), ("one that is emptied", 16384, true)]
        {
            let mut cluster = Cluster::new(1);
            // Some 10,000 pages; 15 % of them in memory, all in the cache.
            (cluster.buffer_pages, cluster.cache_pages) = (1500, cached);
            if let Some(delay) = delay {
                cluster.pages_seen = vec![proxy::distant(&cluster.pages[0], delay)];
            }
            let node = cluster.page_server(0);
            let primary = cluster.primary();
            let db = cluster.open(&primary)?;
            let rows = Rows::create(&db, COUNT)?;
            db.checkpoint()?;
            let mut rng = SmallRng::seed_from_u64(1);
            let counts = reads(&db, &rows, Duration::from_secs(20), &mut rng)?;
            let steady = counts[counts.len() - 50..].iter().sum::<u64>() / 50;
            let pool = db.stats().pool;
            db.close()?;
            drop((db, primary));
            if emptied {
                std::fs::remove_dir_all(cluster.path("cache")).expect("its folder");
            }
            let primary = cluster.primary();
            let begun = Instant::now();
            let db = cluster.open(&primary)?;
            let rows = rows.again(&db)?;
            rows.read_one(&db.begin(Isolation::ReadCommitted).statement(StatementKind::Read)?, 7)?;
            let first = begun.elapsed();
            let counts = reads(&db, &rows, Duration::from_secs(10), &mut rng)?;
            let (tenth, second) = (counts[0], counts[..10].iter().sum::<u64>());
            let nine_tenths = counts.iter().position(|count| *count * 10 >= steady * 9);
            let (after, cache) = (db.stats().pool, db.page_cache());
            eprintln!(
                "{delay:?} each way, {what}: {} reads a second; before the restart {} of {} misses from the cache; first answer after {first:?}, \
                 {tenth} reads in the first tenth of a second, {second} in the first second, nine tenths of the rate after {nine_tenths:?} \
                 tenths; in the end {} from the cache, {} confirmed, {} from afar; {cache:?}",
                steady * 10,
                pool.cached_pages,
                pool.cached_pages + pool.remote_pages + pool.ahead_used,
                after.cached_pages,
                after.confirmed_pages,
                after.remote_pages,
            );
            db.close()?;
            drop(node);
        }
    }
    Ok(())
}

/// The page server of one database, and the primary of another.
#[test]
fn another_database_is_refused() -> Result<()> {
    let cluster = Cluster::new(1);
    let node = cluster.page_server(0);
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    Rows::create(&db, 10)?;
    db.close()?;
    drop((db, node));
    let mut other = Cluster::new(1);
    other.log.clone_from(&cluster.log);
    other.pages.clone_from(&cluster.pages);
    other.pages_seen.clone_from(&cluster.pages);
    other.patience = Duration::from_secs(1);
    let node = cluster.page_server(0);
    let primary = other.primary();
    let outcome = other.open(&primary).and_then(|db| Rows::create(&db, ROWS).map(drop));
    let said = node.status().error.unwrap_or_default();
    assert!(said.contains("another database"), "{said}");
    // What does not need pages may have gone well; what does was refused.
    if let Err(error) = outcome {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
    Ok(())
}
