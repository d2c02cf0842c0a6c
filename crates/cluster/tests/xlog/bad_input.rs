//! What no part of a database would ask is refused by name, in time, and counted; and the parts go on.

use std::time::{Duration, Instant};

use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_engine::LogZone;
use resurgam_rbio::{Answer, Connection, Part, Peer, Request, Role};

use super::common::{Cluster, Rows, until};

const TIME: Duration = Duration::from_secs(20);

fn connect(address: &str, database: [u8; 16]) -> Result<Connection> {
    Connection::open(address, Peer { role: Role::Client, database }, TIME)
}

/// The refusal.
fn refused(connection: &mut Connection, request: &Request) -> Error {
    let begun = Instant::now();
    let answer = connection.call(request, TIME).expect("an answer, and the connection is as good as before");
    assert!(begun.elapsed() < Duration::from_secs(10), "{request:?} took {:?}", begun.elapsed());
    match answer {
        Answer::Error(error) => error,
        other => panic!("{request:?} was answered: {other:?}"),
    }
}

fn says(error: &Error, kind: ErrorKind, words: &str) {
    assert!(error.kind() == kind && error.message().contains(words), "{error} ({:?}), not {words:?}", error.kind());
}

#[test]
fn bad_input_is_refused_by_name() -> Result<()> {
    let cluster = Cluster::with_log_service(1);
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let rows = Rows::create(&db, 500)?;
    let now = zoned.zone.status().expect("it is open");
    until("the log service knows the epoch", || xlog.status().positions.is_some_and(|at| at.epoch == now.epoch));
    let database = connect(&cluster.xlog.as_ref().expect("a log service").1, [0; 16])?.hello().database;

    // The log service.
    let address = cluster.xlog.as_ref().expect("a log service").1.clone();
    says(&connect(&address, [9; 16]).err().expect("another database"), ErrorKind::NotADatabase, "another database");
    let mut log = connect(&address, database)?;
    let before = xlog.status().server.errors;
    let announce =
        |epoch, start, hardened, blocks| Request::Disseminate { epoch, start, hardened, zone_bound: 1, blocks };
    let (hardened, epoch) = (now.hardened, now.epoch);
    let error = refused(&mut log, &announce(epoch - 1, hardened, hardened, vec![]));
    says(&error, ErrorKind::NotInPrerequisiteState, "epoch");
    let error = refused(&mut log, &announce(epoch, Lsn(hardened.0 + 512), hardened, vec![]));
    says(&error, ErrorKind::InvalidParameter, "impossible positions");
    let error = refused(&mut log, &announce(epoch, hardened, hardened, vec![(hardened, vec![7; 600])]));
    assert_eq!(error.kind(), ErrorKind::Corrupt, "a torn block: {error}");
    let get = Request::GetPage { page: PageId(2), at_least: Lsn(1), have: Lsn::NONE, wait_ms: 0 };
    says(&refused(&mut log, &get), ErrorKind::NotSupported, "gives no pages");
    let (consumer, durable) = (String::from("bad"), Lsn::NONE);
    let part = Part { pages: 3, count: 0, numbers: vec![1] };
    let from = hardened;
    let pull = Request::PullPart { consumer, from, durable, bytes_max: 1, wait_ms: 0, part };
    assert!(!refused(&mut log, &pull).message().is_empty());
    // One of another history, or of an old copy of this one.
    let from = Lsn(hardened.0 + (1 << 40));
    let pull = Request::PullBlocks { consumer: "late".into(), from, durable, bytes_max: 1, wait_ms: 8000 };
    says(&refused(&mut log, &pull), ErrorKind::NotADatabase, "behind the end of the log");
    assert!(xlog.status().server.errors >= before + 6, "they are counted");

    // The page server.
    until("it has pages", || node.status().pages.is_some());
    let address = cluster.pages[0].clone();
    says(&connect(&address, [9; 16]).err().expect("another database"), ErrorKind::NotADatabase, "another database");
    let mut pages = connect(&address, database)?;
    let before = node.status().server.errors;
    let get = |page, at_least| Request::GetPage { page: PageId(page), at_least, have: Lsn::NONE, wait_ms: 200 };
    says(&refused(&mut pages, &get(2, Lsn(hardened.0 + (1 << 40)))), ErrorKind::Io, "has applied the log up to");
    let error = refused(&mut pages, &get(1 << 30, Lsn(1)));
    let no_page = [ErrorKind::Corrupt, ErrorKind::NotInPrerequisiteState].contains(&error.kind());
    assert!(no_page, "it does not exist, or the archive cannot say so yet: {error}");
    let pull = Request::PullBlocks { consumer: "x".into(), from: Lsn(1), durable, bytes_max: 1, wait_ms: 0 };
    says(&refused(&mut pages, &pull), ErrorKind::NotSupported, "no log to give");
    says(&refused(&mut pages, &announce(epoch, hardened, hardened, vec![])), ErrorKind::NotSupported, "takes none");
    assert!(node.status().server.errors >= before + 4, "they are counted");

    // All of them go on.
    rows.check(&db)?;
    let services = zoned.zone.status().expect("it is open").services;
    assert!(services[0].error.is_none(), "{services:?}");
    db.close()
}
