//! A database over page servers that have some partitions each: they go, are emptied, and come back with others; nothing that is committed is
//! lost, and no statement fails where somebody has the page.

mod common;

use std::time::{Duration, Instant};

use common::{Cluster, Rows, until};
use resurgam_cluster::PageServerNode;
use resurgam_engine::*;
use resurgam_rbio::{Answer, Connection, Part, Peer, Request, Role};

/// Some five hundred pages, in partitions of 128.
const ROWS: i64 = 20_000;

fn cluster(partitions: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(partitions.len());
    cluster.partitions = partitions.iter().map(|text| (*text).to_owned()).collect();
    cluster
}

fn files(cluster: &Cluster, number: usize) -> Vec<u64> {
    let names = std::fs::read_dir(cluster.path(&format!("pages-{number}"))).expect("its folder").flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter_map(|name| name.strip_prefix("pages-")?.parse().ok()).collect()
}

fn caught_up(nodes: &[PageServerNode], db: &Database) {
    until("all log is applied, and all pages are there", || {
        let end = db.log_status().flushed;
        nodes
            .iter()
            .all(|node| node.status().pages.is_some_and(|pages| pages.applied >= end && pages.segments_missing == 0))
    });
}

#[test]
fn each_has_its_own_pages() -> Result<()> {
    for log_service in [false, true] {
        let mut cluster = cluster(&["0/3", "1/3", "2/3"]);
        cluster.partition_pages = 64;
        if log_service {
            cluster.xlog = Some((cluster.log.clone(), cluster.log.clone()));
        }
        let service = log_service.then(|| cluster.log_service());
        let nodes: Vec<_> = (0..3).map(|number| cluster.page_server(number)).collect();
        let (zoned, primary) = match log_service {
            true => (Some(cluster.zoned()), None),
            false => (None, Some(cluster.primary())),
        };
        let db = match (&zoned, &primary) {
            (Some(zoned), _) => cluster.open_zoned(zoned, "primary")?,
            (_, Some(primary)) => cluster.open(primary)?,
            _ => unreachable!("one of them"),
        };
        let mut rows = Rows::create(&db, ROWS)?;
        rows.change(&db, (0..ROWS).step_by(7), 1)?;
        // Few pages: most blocks of the log matter to one of them.
        for round in 2..40 {
            rows.change(&db, round * 10..round * 10 + 2, round)?;
        }
        rows.check(&db)?;
        caught_up(&nodes, &db);
        db.checkpoint()?;
        std::thread::sleep(Duration::from_millis(500));
        for (number, node) in nodes.iter().enumerate() {
            let status = node.status();
            let pages = status.pages.expect("it has pages");
            assert!(pages.pages_served > 50 && pages.refused == 0 && pages.gaps == 0, "{number}: {pages:?}");
            assert!(status.blocks_left_out > 5 && status.blocks > 5, "{number}: {status:?}");
            let files = files(&cluster, number);
            assert!(files.len() > 1 && files.iter().all(|of| of % 3 == number as u64), "{number}: {files:?}");
        }
        let status =
            zoned.as_ref().map_or_else(|| primary.as_ref().expect("a primary"), |zoned| &zoned.primary).clone();
        let shown = PageService::status(&*status);
        for (number, server) in shown.iter().filter(|server| server.address.is_some()).enumerate() {
            assert_eq!(server.partitions.as_deref(), Some(format!("{number}/3").as_str()), "{server:?}");
            let ranges = server.page_ranges.as_deref().unwrap_or_default();
            let first = format!("{}-{},{}-", number * 64, number * 64 + 63, (number + 3) * 64);
            assert!(ranges.starts_with(&first) && server.elsewhere == 0, "{server:?}");
        }
        db.close()?;
        drop((db, nodes, service));
    }
    Ok(())
}

/// They go one after the other, lose their folders, and come back with other partitions; two have each of them all the time.
#[test]
fn they_come_back_with_others() -> Result<()> {
    let mut cluster = cluster(&["0,1/3", "1,2/3", "0,2/3"]);
    let mut nodes: Vec<_> = (0..3).map(|number| Some(cluster.page_server(number))).collect();
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = Rows::create(&db, ROWS)?;
    for (round, (number, partitions)) in
        [(0, "0,1/3"), (1, "all"), (0, "2/3"), (2, "0-1/3"), (1, "1-2/3"), (0, "0,2/3"), (2, "0,3,1,4/6")]
            .into_iter()
            .enumerate()
    {
        nodes[number] = None;
        rows.change(&db, (round as i64..ROWS).step_by(11), round as i64 + 1)?;
        if round % 3 == 2 {
            std::fs::remove_dir_all(cluster.path(&format!("pages-{number}"))).expect("its folder");
        }
        cluster.partitions[number] = partitions.into();
        nodes[number] = Some(cluster.page_server(number));
        rows.check(&db)?;
        until("it answers", || {
            let _ = rows.check(&db);
            primary.status().is_some_and(|status| status.replicas.iter().all(|replica| replica.error.is_none()))
        });
    }
    let nodes: Vec<_> = nodes.into_iter().flatten().collect();
    caught_up(&nodes, &db);
    // Each by itself, after a restart of the primary.
    db.close()?;
    drop(db);
    let db = cluster.open(&primary)?;
    let mut rows = rows.again(&db)?;
    rows.change(&db, (0..ROWS).step_by(13), 99)?;
    rows.check(&db)?;
    db.close()
}

/// One of three goes: what others have goes on, and what it had is waited for.
#[test]
fn one_goes_and_others_go_on() -> Result<()> {
    let mut cluster = cluster(&["0/3", "1/3", "2/3"]);
    cluster.patience = Duration::from_millis(800);
    let mut nodes: Vec<_> = (0..3).map(|number| Some(cluster.page_server(number))).collect();
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = Rows::create(&db, ROWS)?;
    rows.check(&db)?;
    nodes[1] = None;
    let error = rows.check(&db).expect_err("a third of the pages is away");
    let text = error.message();
    assert!(
        error.kind() == ErrorKind::Io && text.contains("of partition") && text.contains(&cluster.pages[1]),
        "{error}"
    );
    let served = |node: &Option<PageServerNode>| {
        node.as_ref().and_then(|node| node.status().pages).map_or(0, |pages| pages.pages_served)
    };
    let before = (served(&nodes[0]), served(&nodes[2]));
    let tx = db.begin(Isolation::ReadCommitted);
    let view = tx.statement(StatementKind::Read)?;
    let (mut had, mut row) = (0, RowBuf::default());
    for id in (0..ROWS).step_by(400) {
        let mut key = Vec::new();
        rows.table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        match view.get(&rows.table, &key, &mut row) {
            Ok(true) => had += 1,
            Ok(false) => panic!("row {id} is not there"),
            Err(error) => assert!(error.kind() == ErrorKind::Io, "{error}"),
        }
    }
    drop((view, tx));
    assert!(had > 10 && served(&nodes[0]) > before.0 && served(&nodes[2]) > before.1, "{had} rows were had");
    // It comes back, empty.
    std::fs::remove_dir_all(cluster.path("pages-1")).expect("its folder");
    nodes[1] = Some(cluster.page_server(1));
    until("its pages are back", || rows.check(&db).is_ok());
    rows.change(&db, (0..ROWS).step_by(5), 4)?;
    // It comes back with what another one has, and a third one takes its part over.
    cluster.partitions[1] = "0/3".into();
    nodes[1] = None;
    nodes[1] = Some(cluster.page_server(1));
    let error = rows.check(&db).expect_err("nobody has it");
    assert!(error.message().contains("none of the 3 page servers has that partition"), "{error}");
    cluster.partitions[2] = "1-2/3".into();
    nodes[2] = None;
    nodes[2] = Some(cluster.page_server(2));
    until("its pages are back", || rows.check(&db).is_ok());
    db.close()
}

/// A log that forgets blocks in what it leaves out is noticed; all log is applied again, and the pages are right.
#[test]
fn a_filter_that_drops_is_noticed() -> Result<()> {
    let mut cluster = cluster(&["0/2", "1/2"]);
    cluster.forgets = 9;
    // Nothing is read meanwhile: a page that lacks a record is too old until that shows.
    cluster.buffer_pages = 4096;
    cluster.checkpoint = Duration::from_secs(1000);
    let nodes: Vec<_> = (0..2).map(|number| cluster.page_server(number)).collect();
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let mut rows = Rows::create(&db, 4000)?;
    for round in 1..60 {
        rows.change(&db, (0..4000).step_by(40), round)?;
    }
    until("it is noticed", || nodes.iter().all(|node| node.status().pages.is_some_and(|pages| pages.gaps > 0)));
    caught_up(&nodes, &db);
    assert!(nodes.iter().all(|node| node.status().pages.is_some_and(|pages| pages.gaps == 1)));
    db.close()?;
    drop(db);
    cluster.buffer_pages = 64;
    let db = cluster.open(&primary)?;
    rows.again(&db)?.check(&db)?;
    assert!(PageService::status(&*primary).iter().all(|server| server.address.is_none() || server.gaps == 1));
    db.close()
}

/// A scan asks for pages over the borders of partitions.
#[test]
fn a_scan_asks_ahead_over_borders() -> Result<()> {
    let mut cluster = cluster(&["0/2", "1/2"]);
    (cluster.partition_pages, cluster.buffer_pages) = (16, 256);
    let nodes = [cluster.page_server(0), cluster.page_server(1)];
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let rows = Rows::create(&db, ROWS)?;
    rows.scan_ahead(&db)?;
    drop(nodes);
    db.close()
}

/// What leaving out costs: `cargo test --release -p resurgam-cluster --test partitions -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn the_filter_measured() -> Result<()> {
    let mut cluster = cluster(&["all"]);
    cluster.buffer_pages = 1 << 16;
    let node = cluster.page_server(0);
    let primary = cluster.primary();
    let db = cluster.open(&primary)?;
    let from = db.log_status().flushed;
    let mut rows = Rows::create(&db, 400_000)?;
    // Long transactions, whose blocks are of few partitions, and short ones.
    for round in 0..2_000 {
        rows.change(&db, round * 200..round * 200 + 3, round)?;
    }
    let end = db.log_status().flushed;
    let log = (end.0 - from.0) as f64 / 1e6;
    let me = Peer { role: Role::PageServer, database: [0; 16] };
    let of = |count, pages| Part { pages, count, numbers: vec![1] };
    for part in [None, Some(of(2, 128)), Some(of(4, 128)), Some(of(4, 8192)), Some(of(1024, 1 << 20))] {
        let mut connection = Connection::open(&cluster.log, me, Duration::from_secs(5))?;
        let (mut at, mut bytes, mut blocks, mut left_out, begun) = (from, 0, 0, 0, Instant::now());
        while at < end {
            let (consumer, durable, bytes_max, wait_ms) = ("a measurement".to_owned(), Lsn(0), 4 << 20, 100);
            let request = match part.clone() {
                None => Request::PullBlocks { consumer, from: at, durable, bytes_max, wait_ms },
                Some(part) => Request::PullPart { consumer, from: at, durable, bytes_max, wait_ms, part },
            };
            match connection.call(&request, Duration::from_secs(10))? {
                Answer::Blocks(answer) => {
                    bytes += answer.blocks.iter().map(Vec::len).sum::<usize>();
                    blocks += answer.blocks.len();
                    at = answer.complete_to;
                }
                Answer::PartOfBlocks(answer) => {
                    bytes += answer.blocks.iter().map(|(_, block)| block.len()).sum::<usize>();
                    blocks += answer.blocks.len();
                    left_out += answer.left_out;
                    at = answer.complete_to;
                }
                other => panic!("{other:?}"),
            }
        }
        let took = begun.elapsed().as_secs_f64();
        eprintln!(
            "{part:?}: {log:.0} MB of log in {took:.3} s ({:.0} MB/s), {:.0} MB sent, {blocks} blocks, {left_out} left out",
            log / took,
            bytes as f64 / 1e6
        );
    }
    drop(node);
    db.close()
}
