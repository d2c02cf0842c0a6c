//! All parts with TLS: over a bad network, with a part whose certificate does not count, with certificates that are replaced; and what it
//! costs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use resurgam_base::{Lsn, PageId};
use resurgam_cluster::Tls;
use resurgam_engine::*;
use resurgam_rbio::{Answer, Client, Connection, Peer, Request, Role};

use super::common::certificates::{GOOD, Of};
use super::common::{Cluster, Rows, tls, tls_of, until};
use super::proxy::Proxy;

const ROWS: i64 = 3000;

/// Connections are cut, delayed, and bytes in them flipped: nothing is wrong, and nothing of the rows can be read on the way. Without TLS
/// all of it can.
#[test]
fn a_bad_network_spoils_nothing_and_hears_nothing() -> Result<()> {
    let Some((_made, tls)) = tls() else { return Ok(()) };
    for (seed, tls) in [(1, Some(tls.clone())), (2, Some(tls)), (3, None)] {
        let mut cluster = Cluster::with_log_service(2);
        cluster.tls = tls;
        let from_primary = Proxy::start(&cluster.log, seed, 60);
        let from_pages = Proxy::start(&cluster.log, seed + 100, 10);
        let pages = [0, 1].map(|number: usize| Proxy::start(&cluster.pages[number], seed + 200 + number as u64, 20));
        cluster.xlog = Some((cluster.log.clone(), from_primary.address.clone()));
        cluster.log_seen = from_pages.address.clone();
        cluster.pages_seen = pages.iter().map(|proxy| proxy.address.clone()).collect();
        let nodes = [cluster.page_server(0), cluster.page_server(1)];
        let xlog = cluster.log_service();
        let zoned = cluster.zoned();
        let db = cluster.open_zoned(&zoned, "primary")?;
        let mut rows = Rows::create(&db, ROWS)?;
        let mut rng = SmallRng::seed_from_u64(seed);
        for round in 0..8 {
            rows.change(&db, (0..ROWS).filter(|_| rng.random_bool(0.1)), round)?;
            rows.check(&db)?;
        }
        let all = [&from_primary, &from_pages, &pages[0], &pages[1]];
        let faults: u64 = all.iter().map(|proxy| proxy.faults.load(Ordering::SeqCst)).sum();
        assert!(faults > 20, "{faults}");
        let heard = all.map(|proxy| proxy.heard.load(Ordering::SeqCst));
        match &cluster.tls {
            Some(tls) => {
                assert_eq!(heard, [false; 4]);
                assert!(tls.stats().handshakes > 10, "{:?}", tls.stats());
            }
            None => assert!(heard.contains(&true), "{heard:?}"),
        }
        db.close()?;
        drop((nodes, xlog));
    }
    Ok(())
}

/// One of two page servers has a certificate of another authority: it gets no log and is asked for nothing, both sides say why, and the
/// other one has all the work. It gets a good one, and nothing is started again.
#[test]
fn a_part_with_a_bad_certificate_is_left_out_until_it_has_a_good_one() -> Result<()> {
    let Some((made, tls)) = tls() else { return Ok(()) };
    let replace = |name: &str| {
        for end in ["crt", "key"] {
            std::fs::copy(made.path(&format!("{name}.{end}")), made.path(&format!("used.{end}"))).expect("a file");
        }
    };
    made.add("foreign", Of { authority: "other-ca", ..GOOD });
    replace("foreign");
    let mut cluster = Cluster::with_log_service(2);
    cluster.tls = Some(tls_of(&made, "used"));
    let foreign = cluster.page_server(1);
    cluster.tls = Some(Arc::clone(&tls));
    let _good = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    rows.change(&db, 0..ROWS, 1)?;
    rows.check(&db)?;
    let of_foreign = || {
        let all = db.page_servers();
        all.into_iter().find(|server| server.address.as_ref() == Some(&cluster.pages[1])).expect("it is named")
    };
    until("the primary says why", || {
        rows.check(&db).is_ok() && of_foreign().error.is_some_and(|error| error.contains("is of another authority"))
    });
    let says = |text: &str| foreign.status().error.is_some_and(|error| error.contains(text));
    until("it says why", || says("refuses this side's certificate") || says("is of another authority"));
    until("the log service counts it", || xlog.status().server.refused > 0);
    until("it counts the primary", || foreign.status().server.refused > 0);
    assert!(foreign.status().pages.is_none() && of_foreign().pages == 0);
    replace("part");
    until("it follows the log", || foreign.status().pages.is_some() && foreign.status().error.is_none());
    until("it is asked", || rows.check(&db).is_ok() && of_foreign().pages > 0);
    assert!(foreign.status().tls.is_some_and(|stats| stats.reloads > 0));
    db.close()
}

/// A primary without TLS meets page servers with it: its statement waits, and says why in the end.
#[test]
fn a_primary_without_tls_says_why_nobody_answers() -> Result<()> {
    let Some((_made, tls)) = tls() else { return Ok(()) };
    let mut cluster = Cluster::new(1);
    cluster.patience = Duration::from_millis(300);
    cluster.tls = Some(tls);
    let node = cluster.page_server(0);
    cluster.tls = None;
    let error = cluster.open(&cluster.primary()).and_then(|db| Rows::create(&db, ROWS)?.check(&db));
    let error = error.expect_err("there are no pages");
    assert!(error.to_string().contains("speaks with TLS only"), "{error}");
    until("it is counted", || node.status().server.refused > 0);
    until("it says that nobody gives the log with TLS", || {
        node.status().error.is_some_and(|error| error.contains("speaks without TLS"))
    });
    Ok(())
}

/// Processor time of this process, in seconds.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string(Path::new("/proc/self/stat")).expect("numbers");
    let fields: Vec<&str> = text.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

/// What a page, many pages at once, and a connection cost, with TLS and without: client and page server in one process.
#[test]
#[ignore = "a measurement"]
fn tls_measured() -> Result<()> {
    const COUNT: usize = 40_000;
    let Some((_made, tls)) = tls() else { return Ok(()) };
    for round in 0..3 {
        for tls in [None, Some(Arc::clone(&tls))] {
            let what = if tls.is_some() { "TLS" } else { "plain" };
            let mut cluster = Cluster::new(1);
            cluster.tls = tls.clone();
            cluster.buffer_pages = 4096;
            let node = cluster.page_server(0);
            let primary = cluster.primary();
            let db = cluster.open(&primary)?;
            let _rows = Rows::create(&db, 3000)?;
            db.checkpoint()?;
            measure(what, round, &cluster.pages[0], tls, COUNT)?;
            db.close()?;
            drop(node);
        }
    }
    Ok(())
}

fn measure(what: &str, round: u32, address: &str, tls: Option<Arc<Tls>>, count: usize) -> Result<()> {
    let me = Peer { role: Role::Primary, database: [0; 16] };
    let time = Duration::from_secs(10);
    let client = Client::new(address, me).with_tls(tls.clone());
    let get = |page| Request::GetPage { page, at_least: Lsn(1), have: Lsn::NONE, wait_ms: 5000 };
    // Those that the log has made; nothing is in the archive yet.
    let all: Vec<PageId> = (1..1000).map(PageId).filter(|page| client.call(&get(*page), time).is_ok()).collect();
    assert!(all.len() > 64, "{} pages", all.len());
    let page = |number: usize| all[number % 64];
    let ask = |number: usize| -> Result<usize> {
        match client.call(&get(page(number)), time)? {
            Answer::Page(bytes) => Ok(bytes.len()),
            other => panic!("{other:?}"),
        }
    };
    for number in 0..2000 {
        ask(number)?;
    }
    let mut times = Vec::with_capacity(count);
    let (begun, cpu) = (Instant::now(), processor_time());
    for number in 0..count {
        let begun = Instant::now();
        ask(number)?;
        times.push(begun.elapsed());
    }
    let (took, cpu) = (begun.elapsed(), processor_time() - cpu);
    times.sort_unstable();
    eprintln!(
        "{round} {what}: GetPage {:?} in the middle, {:?} p99, mean {:.1} µs, {:.1} µs of processor time of both sides",
        times[count / 2],
        times[count * 99 / 100],
        took.as_secs_f64() * 1e6 / count as f64,
        cpu * 1e6 / count as f64
    );
    let many = Request::GetPages { pages: (0..64).map(|number| (page(number), Lsn(1))).collect(), wait_ms: 5000 };
    let (begun, cpu) = (Instant::now(), processor_time());
    for _ in 0..1000 {
        assert!(matches!(client.call(&many, time)?, Answer::Pages(pages) if pages.len() == 64));
    }
    let (took, cpu) = (begun.elapsed().as_secs_f64(), processor_time() - cpu);
    eprintln!(
        "{round} {what}: 64 pages at once {:.0} µs, {:.0} MB/s, {:.0} µs of processor time",
        took * 1e3,
        64.0 * 8192.0 * 1000.0 / took / 1e6,
        cpu * 1e3
    );
    let (begun, cpu) = (Instant::now(), processor_time());
    for _ in 0..500 {
        drop(Connection::open_with(address, me, tls.as_deref(), time)?);
    }
    let (took, cpu) = (begun.elapsed().as_secs_f64(), processor_time() - cpu);
    eprintln!("{round} {what}: a connection {:.0} µs, {:.0} µs of processor time", took * 2e3, cpu * 2e3);
    Ok(())
}
