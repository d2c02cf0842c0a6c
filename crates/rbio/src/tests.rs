//! Client and server over real sockets: bad frames, slow and silent peers, versions, a server that is started again.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, checksum_append};

use crate::frame::FRAME_HEADER_BYTES;
use crate::message::{Announced, Answer, Coverage, Hello, Part, Request, Role, SentBlock};
use crate::{Client, Connection, Pages, Peer, Server, ServerConfig, Service};

const DATABASE: [u8; 16] = [5; 16];
const ME: Peer = Peer { role: Role::Primary, database: DATABASE };
const TIME: Duration = Duration::from_secs(10);

/// Answers a page with its number in it; page 13 panics, page 14 waits for as long as it may.
struct Numbers;

impl Service for Numbers {
    fn hello(&self, _: Role) -> Result<Hello> {
        Ok(Hello { version: 0, role: Role::PageServer, database: DATABASE, first: Lsn(4096), segment_bytes: 1 << 20 })
    }
    fn answer(&self, request: &Request, goes_on: &dyn Fn() -> bool) -> Result<Answer> {
        match request {
            Request::GetPage { page: PageId(13), .. } => panic!("planted"),
            Request::GetPage { page: PageId(14), .. } => {
                while goes_on() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(Error::new(ErrorKind::Stopped, "the end"))
            }
            Request::GetPages { pages, .. } => {
                Ok(Answer::Pages(pages.iter().map(|(page, _)| page.0.to_le_bytes().to_vec()).collect()))
            }
            Request::Coverage => Ok(Answer::Coverage(Coverage {
                part: Part { pages: 128, count: 4, numbers: vec![1, 3] },
                ..Coverage::default()
            })),
            Request::GetPage { page, .. } => Ok(Answer::Page(page.0.to_le_bytes().repeat(1024))),
            _ => Err(Error::new(ErrorKind::NotSupported, "no")),
        }
    }
    fn applied(&self) -> Lsn {
        Lsn(77)
    }
}

fn start(config: ServerConfig) -> Server {
    Server::start("127.0.0.1:0", config, Arc::new(Numbers)).unwrap()
}

fn page(number: u64) -> Request {
    Request::GetPage { page: PageId(number), at_least: Lsn(1), have: Lsn::NONE, wait_ms: 0 }
}

fn is_page(answer: Result<Answer>, number: u64) {
    match answer.unwrap() {
        Answer::Page(bytes) => assert_eq!((bytes.len(), &bytes[..8]), (8192, &number.to_le_bytes()[..])),
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_ask_side_by_side() {
    let server = start(ServerConfig::default());
    let client = Client::new(&server.address().to_string(), ME);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let client = &client;
            scope.spawn(move || {
                (100..400).for_each(|i| is_page(client.call(&page(thread * 1000 + i), TIME), thread * 1000 + i))
            });
        }
    });
    let stats = server.stats();
    assert!(stats.connections <= 8 && stats.requests == 2400 + stats.connections, "{stats:?}");
}

#[test]
fn errors_and_panics_are_answers() {
    let server = start(ServerConfig::default());
    let client = Client::new(&server.address().to_string(), ME);
    assert_eq!(client.call(&Request::Position, TIME).unwrap_err().kind(), ErrorKind::NotSupported);
    assert!(client.call(&page(13), TIME).is_err());
    is_page(client.call(&page(12), TIME), 12);
    assert_eq!(server.stats().connections, 1, "the connection is as good as before");
}

#[test]
fn another_database_and_other_versions_are_refused() {
    let server = start(ServerConfig::default());
    let address = server.address().to_string();
    let other = Connection::open(&address, Peer { database: [6; 16], ..ME }, TIME);
    assert_eq!(other.err().unwrap().kind(), ErrorKind::NotADatabase);
    assert!(Connection::open(&address, Peer { database: [0; 16], ..ME }, TIME).is_ok(), "whichever it is");
    let mut connection = Connection::open(&address, ME, TIME).unwrap();
    // Neighbouring versions work together; it is the highest that both know.
    for (oldest, newest, fits) in [
        (1, 1, Some(1)),
        (2, 3, Some(3)),
        (3, 4, Some(4)),
        (4, 5, Some(5)),
        (5, 6, Some(6)),
        (6, 7, Some(6)),
        (7, 8, None),
        (0, 0, None),
        (0, 9, Some(6)),
    ] {
        let hello = Request::Hello { oldest, newest, role: Role::Client, database: DATABASE };
        match connection.call(&hello, TIME).unwrap() {
            Answer::Hello(hello) => assert_eq!(Some(hello.version), fits),
            Answer::Error(error) => assert!(fits.is_none() && error.kind() == ErrorKind::NewerFormat, "{error}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Keeps the last request.
#[derive(Default)]
struct Keeps(Mutex<Option<Request>>);

impl Service for Keeps {
    fn hello(&self, role: Role) -> Result<Hello> {
        Numbers.hello(role)
    }
    fn answer(&self, request: &Request, _: &dyn Fn() -> bool) -> Result<Answer> {
        *self.0.lock() = Some(request.clone());
        Ok(Answer::NotModified)
    }
}

/// A block whose sender may be wrong about its checksum.
struct Sent(Lsn, Vec<u8>, u32);

impl SentBlock for Sent {
    fn lsn(&self) -> Lsn {
        self.0
    }
    fn parts(&self) -> [&[u8]; 2] {
        let (head, rest) = self.1.split_at(self.1.len() / 3);
        [head, rest]
    }
    fn checksum_after(&self, seed: u32) -> u32 {
        checksum_append(seed, &self.1) ^ self.2
    }
}

#[test]
fn blocks_in_parts_come_as_one_request() {
    let kept = Arc::new(Keeps::default());
    let config = ServerConfig { request_bytes_max: 80 << 20, ..ServerConfig::default() };
    let server = Server::start("127.0.0.1:0", config, Arc::clone(&kept) as Arc<dyn Service>).unwrap();
    let mut connection = Connection::open(&server.address().to_string(), ME, TIME).unwrap();
    let said = Announced { epoch: 7, start: Lsn(512), hardened: Lsn(1 << 40), zone_bound: 9 };
    // More parts than the system takes at once, more bytes than a socket does, and none.
    let of = |lens: &[usize]| -> Vec<Sent> {
        let block = |(number, len): (usize, &usize)| {
            let bytes = (0..*len).map(|at| (at * 7 + number) as u8).collect();
            Sent(Lsn(number as u64 * 512), bytes, 0)
        };
        lens.iter().enumerate().map(block).collect()
    };
    let many: Vec<usize> = (0..3000).map(|at| at % 50).collect();
    for lens in [&[][..], &[0], &[5, 0, 1], &many[..], &[3_000_000, 1, 5_000_000]] {
        let blocks = of(lens);
        let answer = connection.disseminate(&said, &blocks, TIME).unwrap();
        assert!(matches!(answer, Answer::NotModified), "{answer:?}");
        let blocks = blocks.into_iter().map(|Sent(lsn, bytes, _)| (lsn, bytes)).collect();
        let whole = Request::Disseminate {
            epoch: said.epoch,
            start: said.start,
            hardened: said.hardened,
            zone_bound: said.zone_bound,
            blocks,
        };
        assert!(kept.0.lock().take() == Some(whole), "{} blocks", lens.len());
    }
    // The receiver does not rely on what the sender says.
    let mut blocks = of(&[100, 200]);
    blocks[0].2 = 1;
    let refused = connection.disseminate(&said, &blocks, TIME);
    assert!(refused.is_err() || matches!(refused, Ok(Answer::Error(_))), "{refused:?}");
    assert!(kept.0.lock().is_none());
}

/// What a neighbour of an earlier version does not know is not sent to it, and not taken from it.
#[test]
fn neighbours_agree_on_what_can_be_asked() {
    let pages = Request::GetPages { pages: vec![(PageId(5), Lsn(1)), (PageId(6), Lsn(1))], wait_ms: 0 };
    let new = start(ServerConfig::default());
    let client = Client::new(&new.address().to_string(), ME);
    let Answer::Pages(answer) = client.call(&pages, TIME).unwrap() else { panic!("no pages") };
    assert_eq!((answer.len(), &answer[1][..]), (2, &6u64.to_le_bytes()[..]));
    // A client of the version before, which sends it all the same.
    let mut connection = Connection::open(&new.address().to_string(), ME, TIME).unwrap();
    let hello = Request::Hello { oldest: 1, newest: 2, role: Role::Client, database: DATABASE };
    assert!(matches!(connection.call(&hello, TIME).unwrap(), Answer::Hello(hello) if hello.version == 2));
    let Answer::Error(error) = connection.call(&pages, TIME).unwrap() else { panic!("it was answered") };
    assert_eq!(error.kind(), ErrorKind::InvalidParameter);
    is_page(connection.call(&page(7), TIME), 7);
    // A server of the version before.
    let old = start(ServerConfig { newest: 2, ..ServerConfig::default() });
    let client = Client::new(&old.address().to_string(), ME);
    for _ in 0..2 {
        assert_eq!(client.call(&pages, TIME).unwrap_err().kind(), ErrorKind::NotSupported);
        is_page(client.call(&page(8), TIME), 8);
    }
    assert_eq!((old.stats().connections, old.stats().errors), (1, 0), "the connection is as good as before");
}

/// A server that has a part of the pages says so to those who know what that is, and speaks to no others.
#[test]
fn a_server_may_ask_for_a_newer_client() {
    let new = start(ServerConfig { oldest: 4, ..ServerConfig::default() });
    let client = Client::new(&new.address().to_string(), ME);
    let Answer::Coverage(coverage) = client.call(&Request::Coverage, TIME).unwrap() else { panic!("no coverage") };
    assert_eq!(coverage.part.numbers, [1, 3]);
    let mut connection = Connection::open(&new.address().to_string(), ME, TIME).unwrap();
    let hello = Request::Hello { oldest: 1, newest: 3, role: Role::Client, database: DATABASE };
    match connection.call(&hello, TIME).unwrap() {
        Answer::Error(error) => assert_eq!(error.kind(), ErrorKind::NewerFormat, "{error}"),
        other => panic!("{other:?}"),
    }
    let old = start(ServerConfig { newest: 3, ..ServerConfig::default() });
    let client = Client::new(&old.address().to_string(), ME);
    assert_eq!(client.call(&Request::Coverage, TIME).unwrap_err().kind(), ErrorKind::NotSupported);
    is_page(client.call(&page(8), TIME), 8);
}

/// How a server does comes with each answer, an error too, where both sides know what that is.
#[test]
fn a_server_says_how_it_does() {
    let server = start(ServerConfig::default());
    let address = server.address().to_string();
    let client = Client::new(&address, ME);
    assert!(client.standing().is_none());
    is_page(client.call(&page(7), TIME), 7);
    let said = |client: &Client| client.standing().map(|(_, standing)| (standing.load, standing.applied));
    assert_eq!(said(&client), Some((0, Lsn(77))));
    let (begun, busy) = (Instant::now(), Client::new(&address, ME));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| busy.call_unless(&page(14), TIME, &|| begun.elapsed() > Duration::from_millis(300)));
        }
        while server.stats().in_work < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(client.call(&Request::Position, TIME).unwrap_err().kind(), ErrorKind::NotSupported);
        assert_eq!(said(&client), Some((3, Lsn(77))));
        let two = Request::GetPages { pages: vec![(PageId(5), Lsn(1)), (PageId(6), Lsn(1))], wait_ms: 0 };
        let Answer::Pages(pages) = client.call(&two, TIME).unwrap() else { panic!("no pages") };
        assert_eq!(pages, [5u64.to_le_bytes().to_vec(), 6u64.to_le_bytes().to_vec()]);
    });
    // One of the version before: the same answers, and nothing is said.
    let old = start(ServerConfig { newest: 4, ..ServerConfig::default() });
    let client = Client::new(&old.address().to_string(), ME);
    for number in 0..3 {
        is_page(client.call(&page(number), TIME), number);
        assert!(matches!(client.call(&Request::Coverage, TIME), Ok(Answer::Coverage(_))));
        assert!(client.standing().is_none());
    }
    // A client of the version before, of which the server knows.
    let mut connection = Connection::open(&address, ME, TIME).unwrap();
    let hello = Request::Hello { oldest: 3, newest: 4, role: Role::Client, database: DATABASE };
    assert!(matches!(connection.call(&hello, TIME).unwrap(), Answer::Hello(hello) if hello.version == 4));
    is_page(connection.call(&page(9), TIME), 9);
    assert!(connection.standing().is_none());
}

/// Pages go where they are wanted without a copy in between; whatever else is answered comes as ever.
#[test]
fn pages_are_taken_as_they_came() {
    let server = start(ServerConfig::default());
    let client = Client::new(&server.address().to_string(), ME);
    let mut taken = Vec::new();
    let mut take = |pages: Pages<'_>| {
        match pages {
            Pages::One(page) => taken.push(page.to_vec()),
            Pages::Many(pages) => taken.extend(pages.iter().map(|page| page.to_vec())),
        }
        true
    };
    assert!(client.call_for_pages(&page(7), TIME, &|| false, &mut take).unwrap().is_none());
    let answer = client.call_for_pages(&Request::Coverage, TIME, &|| false, &mut take).unwrap();
    assert!(matches!(answer, Some(Answer::Coverage(_))));
    let two = Request::GetPages { pages: vec![(PageId(5), Lsn(1)), (PageId(6), Lsn(1))], wait_ms: 0 };
    assert!(client.call_for_pages(&two, TIME, &|| false, &mut take).unwrap().is_none());
    assert!(client.call_for_pages(&page(13), TIME, &|| false, &mut take).is_err());
    assert_eq!(taken, [7u64.to_le_bytes().repeat(1024), 5u64.to_le_bytes().into(), 6u64.to_le_bytes().into()]);
    let left = client.call_for_pages(&page(8), TIME, &|| false, &mut |_| false).unwrap();
    is_page(left.ok_or_else(|| Error::internal("nobody took it")), 8);
    assert_eq!(server.stats().connections, 1);
}

/// Who waits is told to stop, and goes on at once.
#[test]
fn a_wait_is_stopped() {
    let server = start(ServerConfig::default());
    let client = Client::new(&server.address().to_string(), ME);
    is_page(client.call_unless(&page(1), TIME, &|| false), 1);
    let begun = Instant::now();
    let stop = || begun.elapsed() > Duration::from_millis(100);
    assert_eq!(client.call_unless(&page(14), TIME, &stop).unwrap_err().kind(), ErrorKind::Io);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    is_page(client.call(&page(2), TIME), 2);
}

#[test]
fn a_server_that_is_started_again_is_found() {
    let server = start(ServerConfig::default());
    let address = server.address().to_string();
    let client = Client::new(&address, ME);
    is_page(client.call(&page(1), TIME), 1);
    drop(server);
    assert_eq!(client.call(&page(2), TIME).unwrap_err().kind(), ErrorKind::Io);
    let again = Server::start(&address, ServerConfig::default(), Arc::new(Numbers)).unwrap();
    is_page(client.call(&page(3), TIME), 3);
    drop(again);
}

#[test]
fn a_server_ends_while_somebody_waits() {
    let server = start(ServerConfig::default());
    let client = Client::new(&server.address().to_string(), ME);
    let silent = TcpStream::connect(server.address()).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.call(&page(14), TIME));
        std::thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        drop(server);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert!(waiting.join().unwrap().is_err());
    });
    drop(silent);
}

#[test]
fn connections_are_bounded() {
    let server = start(ServerConfig { connections_max: 3, ..ServerConfig::default() });
    let address = server.address().to_string();
    let mut kept: Vec<_> = (0..3).map(|_| Connection::open(&address, ME, TIME).unwrap()).collect();
    assert!(Connection::open(&address, ME, TIME).is_err());
    is_page(kept[0].call(&page(4), TIME), 4);
    kept.pop();
    let begun = Instant::now();
    while Connection::open(&address, ME, TIME).is_err() {
        assert!(begun.elapsed() < TIME, "its place is free again");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Who says nothing, however often he connects, keeps nobody away who does.
#[test]
fn silent_connections_make_room() {
    let server = start(ServerConfig { connections_max: 4, ..ServerConfig::default() });
    let client = Client::new(&server.address().to_string(), ME);
    is_page(client.call(&page(1), TIME), 1);
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let begun = Instant::now();
    let mut kept = Vec::new();
    for _ in 0..3 {
        kept.push(Connection::open(&server.address().to_string(), ME, TIME).unwrap());
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    // Those that have said who they are stay.
    is_page(client.call(&page(2), TIME), 2);
    kept.iter_mut().for_each(|one| is_page(one.call(&page(3), TIME), 3));
    assert!(Connection::open(&server.address().to_string(), ME, TIME).is_err(), "all places are taken by such");
    assert_eq!(server.stats().requests, 9);
    drop(silent);
}

/// Whatever comes, the connection ends or is answered, and others are served.
#[test]
fn bytes_of_any_kind_harm_nobody() {
    let server = start(ServerConfig::default());
    let address = server.address();
    let hello = Request::Hello { oldest: 1, newest: 1, role: Role::Client, database: DATABASE };
    let mut frame = Vec::new();
    hello.encode(&mut frame);
    let len = (frame.len() - FRAME_HEADER_BYTES) as u32;
    let seal = |frame: &mut [u8], len: u32| {
        frame[..4].copy_from_slice(b"RBIO");
        frame[4..8].copy_from_slice(&len.to_le_bytes());
        let sum = resurgam_base::checksum(&frame[FRAME_HEADER_BYTES..]);
        frame[8..12].copy_from_slice(&sum.to_le_bytes());
        let sum = resurgam_base::checksum(&frame[..12]);
        frame[12..16].copy_from_slice(&sum.to_le_bytes());
    };
    seal(&mut frame, len);
    let send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIME)).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut back = Vec::new();
        let _ = stream.read_to_end(&mut back);
        back
    };
    let good = send(&frame);
    assert!(matches!(Answer::decode(&good[FRAME_HEADER_BYTES..]), Ok(Answer::Hello(_))));
    // Who does not wait for the answer is answered as well, once for each.
    assert_eq!(send(&[&frame[..], &frame[..], &frame[..9]].concat()), [&good[..], &good[..]].concat());
    for bit in 0..frame.len() * 8 {
        let mut bad = frame.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let back = send(&bad);
        let answer = back.get(FRAME_HEADER_BYTES..).map(Answer::decode);
        assert!(!matches!(answer, Some(Ok(Answer::Hello(_)))), "bit {bit}");
    }
    // A length beyond all bounds, and one that never comes.
    let mut long = frame.clone();
    seal(&mut long, u32::MAX);
    send(&long);
    send(&frame[..7]);
    send(b"GET / HTTP/1.1\r\n\r\n");
    let client = Client::new(&address.to_string(), ME);
    is_page(client.call(&page(5), TIME), 5);
    assert!(server.stats().bad_connections > 0);
}
