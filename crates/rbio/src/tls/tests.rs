//! Both sides' certificates over real sockets: good and bad ones, peers without, peers that are slow or silent, and certificates that
//! are replaced.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_base::{ErrorKind, Lsn, PageId, Result};
use rustls::pki_types::ServerName;

use super::certificates::{Certificates, GOOD, Of};
use super::{Tls, TlsFiles};
use crate::deadline::Timed;
use crate::message::{Answer, BlocksAnswer, Hello, Request, Role};
use crate::{Client, Connection, Peer, Server, ServerConfig, Service};

pub(super) const ME: Peer = Peer { role: Role::Primary, database: [5; 16] };
pub(super) const TIME: Duration = Duration::from_secs(20);

/// Answers a page with its number in it, and one block of as many bytes as are asked for.
struct Numbers;

impl Service for Numbers {
    fn hello(&self, _: Role) -> Result<Hello> {
        Ok(Hello { version: 0, role: Role::PageServer, database: ME.database, first: Lsn(1), segment_bytes: 1 << 20 })
    }
    fn answer(&self, request: &Request, _: &dyn Fn() -> bool) -> Result<Answer> {
        let page = |page: &PageId| page.0.to_le_bytes().repeat(1024);
        Ok(match request {
            Request::GetPage { page: number, .. } => Answer::Page(page(number)),
            Request::GetPages { pages, .. } => Answer::Pages(pages.iter().map(|(number, _)| page(number)).collect()),
            Request::PullBlocks { bytes_max, .. } => {
                let bytes = (0..*bytes_max).map(|at| (at % 251) as u8).collect();
                Answer::Blocks(BlocksAnswer { blocks: vec![bytes], complete_to: Lsn(2), durable: Lsn(2) })
            }
            _ => Answer::Position { applied: Lsn(1), durable: Lsn(1) },
        })
    }
}

fn files(made: &Certificates, name: &str, ca: &str) -> TlsFiles {
    TlsFiles {
        cert: made.path(&format!("{name}.crt")),
        key: made.path(&format!("{name}.key")),
        ca: made.path(&format!("{ca}.crt")),
        read_key: |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display())),
    }
}

pub(super) fn tls(made: &Certificates, name: &str) -> Arc<Tls> {
    Tls::open(files(made, name, "ca")).expect("certificates that fit")
}

pub(super) fn start(tls: Option<&Arc<Tls>>) -> Server {
    let config = ServerConfig { request_bytes_max: 1 << 20, ..ServerConfig::default() };
    Server::start_with("127.0.0.1:0", config, tls.cloned(), Arc::new(Numbers)).expect("a server")
}

pub(super) fn client(address: &str, tls: &Arc<Tls>) -> Client {
    Client::new(address, ME).with_tls(Some(Arc::clone(tls)))
}

pub(super) fn page(number: u64) -> Request {
    Request::GetPage { page: PageId(number), at_least: Lsn(1), have: Lsn::NONE, wait_ms: 0 }
}

/// Whether it is the page; anything else but an error is a failure.
pub(super) fn is_page(answer: Result<Answer>, number: u64) -> Result<()> {
    match answer? {
        Answer::Page(bytes) => assert_eq!(bytes, number.to_le_bytes().repeat(1024)),
        other => panic!("{other:?}"),
    }
    Ok(())
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIME, "waited for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn many_ask_side_by_side_and_long_messages_arrive() -> Result<()> {
    let Some(made) = Certificates::make() else { return Ok(()) };
    made.add("good", GOOD);
    let tls = tls(&made, "good");
    let server = start(Some(&tls));
    // By address, by name.
    for host in ["127.0.0.1", "localhost"] {
        let client = client(&format!("{host}:{}", server.address().port()), &tls);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let client = &client;
                scope.spawn(move || {
                    for number in 0..200 {
                        is_page(client.call(&page(thread * 1000 + number), TIME), thread * 1000 + number).expect("it");
                    }
                });
            }
        });
        let pages: Vec<_> = (0..128).map(|number| (PageId(number), Lsn(1))).collect();
        let Answer::Pages(all) = client.call(&Request::GetPages { pages, wait_ms: 0 }, TIME)? else {
            panic!("no pages")
        };
        assert!(all.iter().zip(0u64..).all(|(page, number)| *page == number.to_le_bytes().repeat(1024)));
        let pull = |bytes_max| Request::PullBlocks {
            consumer: "x".repeat(8000),
            from: Lsn(1),
            durable: Lsn(1),
            bytes_max,
            wait_ms: 0,
        };
        for bytes in [0, 1, 16 << 10, (16 << 10) + 1, (64 << 10) - 3, 20 << 20] {
            let Answer::Blocks(answer) = client.call(&pull(bytes), TIME)? else { panic!("no blocks") };
            assert!(answer.blocks[0].len() == bytes as usize);
            assert!(answer.blocks[0].iter().zip(0u32..).all(|(byte, at)| *byte == (at % 251) as u8));
        }
        // One that is long as a request.
        let blocks = vec![(Lsn(1), vec![7; 900 << 10])];
        let long = Request::Disseminate { epoch: 1, start: Lsn(1), hardened: Lsn(1), zone_bound: 1, blocks };
        assert!(matches!(client.call(&long, TIME)?, Answer::Position { .. }));
    }
    let stats = server.stats();
    assert!(stats.connections <= 8 && stats.bad_connections == 0 && stats.refused == 0, "{stats:?}");
    assert_eq!((tls.stats().handshakes, tls.stats().refused), (2 * stats.connections, 0));
    Ok(())
}

/// Who is refused is told why, and whoever refuses says whom and why, and counts it.
#[test]
fn certificates_that_do_not_count_are_refused_by_name() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    made.add("expired", Of { valid: ("20200101000000Z", "20200102000000Z"), ..GOOD });
    made.add("early", Of { valid: ("20980101000000Z", "20991231000000Z"), ..GOOD });
    made.add("foreign", Of { authority: "other-ca", ..GOOD });
    made.add("elsewhere", Of { names: "DNS:db.example.com,IP:10.0.0.1", ..GOOD });
    made.add("nameless", Of { names: "", ..GOOD });
    made.add("server-only", Of { usage: "serverAuth", ..GOOD });
    made.add("client-only", Of { usage: "clientAuth", ..GOOD });
    let good = tls(&made, "good");
    // Clients: what they hear, and what the server says. (Theirs may be for any name.)
    for (name, heard, said) in [
        ("good", "", ""),
        ("elsewhere", "", ""),
        ("nameless", "", ""),
        ("client-only", "", ""),
        ("expired", "refuses this side's certificate: expired, or not valid yet", "its certificate has expired, "),
        ("early", "refuses this side's certificate: expired, or not valid yet", "its certificate is not valid yet"),
        ("foreign", "refuses this side's certificate: of another authority", "its certificate is of another authority"),
        ("server-only", "its extendedKeyUsage must have both", "its extendedKeyUsage must have both"),
    ] {
        let server = start(Some(&good));
        let other = tls(&made, name);
        let outcome = is_page(client(&server.address().to_string(), &other).call(&page(7), TIME), 7);
        if said.is_empty() {
            outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(server.stats().refused, 0);
            continue;
        }
        let error = outcome.expect_err(name);
        assert!(error.kind() == ErrorKind::Io && error.message().contains(heard), "{name}: {error}");
        assert!(error.message().contains(&server.address().to_string()), "{name}: {error}");
        until("it is counted", || server.stats().refused == 1);
        let words = server.refused();
        assert!(words.len() == 1 && words[0].contains(said), "{name}: {words:?}");
        assert_eq!((server.stats().bad_connections, server.stats().requests), (1, 0), "{name}");
        // The client had keys before the server looked at its certificate: that is no connection all the same.
        assert_eq!((other.stats().refused, other.stats().handshakes), (1, 0), "{name}");
    }
    // Servers.
    for (name, heard, said) in [
        ("server-only", "", ""),
        ("expired", "its certificate has expired, ", "refuses this side's certificate: expired"),
        ("early", "its certificate is not valid yet", "refuses this side's certificate: expired, or not valid yet"),
        ("foreign", "its certificate is of another authority", "refuses this side's certificate: of another authority"),
        ("elsewhere", "and 127.0.0.1 was dialled", "refuses this side's certificate: damaged, or for another name"),
        ("nameless", "is for no name, and 127.0.0.1 was dialled", "for another name"),
        ("client-only", "its extendedKeyUsage must have both", "its extendedKeyUsage must have both"),
    ] {
        let other = tls(&made, name);
        let server = start(Some(&other));
        let before = good.stats().refused;
        let outcome = is_page(client(&server.address().to_string(), &good).call(&page(7), TIME), 7);
        if said.is_empty() {
            outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
            continue;
        }
        let error = outcome.expect_err(name);
        assert!(error.kind() == ErrorKind::Io && error.message().contains(heard), "{name}: {error}");
        assert_eq!(good.stats().refused, before + 1);
        until("it is counted", || server.stats().refused == 1);
        let words = server.refused();
        assert!(words.len() == 1 && words[0].contains(said), "{name}: {words:?}");
        assert_eq!(other.stats().handshakes, 0, "{name}");
    }
}

/// An authority that was made anew under the same name is another one, and both sides hear that it is about certificates.
#[test]
fn an_authority_of_the_same_name_is_another_one() {
    let Some(made) = Certificates::make() else { return };
    made.authority("again", "ca");
    made.add("good", GOOD);
    made.add("new", Of { authority: "again", ..GOOD });
    let good = tls(&made, "good");
    let (its, own) =
        ("its certificate or a signature with it is not good", "it refuses this side's certificate, or a signature");
    // As a client, and as a server.
    let server = start(Some(&good));
    let new = tls(&made, "new");
    let error = client(&server.address().to_string(), &new).call(&page(7), TIME).expect_err("another key");
    assert!(error.kind() == ErrorKind::Io && error.message().contains(own), "{error}");
    until("it is said", || {
        server.refused().iter().any(|words| words.contains(its) && words.contains("different keys"))
    });
    let server = start(Some(&new));
    let error = client(&server.address().to_string(), &good).call(&page(7), TIME).expect_err("another key");
    assert!(error.kind() == ErrorKind::Io && error.message().contains(its), "{error}");
    until("it is said", || server.refused().iter().any(|words| words.contains(own)));
}

/// A client of another kind, with no certificate at all, and one that would have an older TLS.
#[test]
fn a_client_without_a_certificate_is_refused() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let good = tls(&made, "good");
    let server = start(Some(&good));
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(made.path("ca.crt")).expect("a file");
    roots.add(super::certificates(&made.path("ca.crt"), &pem).expect("one").remove(0)).expect("an authority");
    let bare = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    for (protocols, said) in [
        (vec![super::PROTOCOL.to_vec()], "it has shown no certificate"),
        (vec![b"http/1.1".to_vec()], "another program"),
    ] {
        let mut config = bare.clone();
        config.alpn_protocols = protocols;
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut socket = TcpStream::connect(server.address()).expect("a connection");
        socket.set_read_timeout(Some(TIME)).expect("a socket");
        let hello = Request::Hello { oldest: 1, newest: 4, role: Role::Primary, database: ME.database };
        let mut stream = rustls::Stream::new(&mut tls, &mut socket);
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        let mut outcome = stream.write_all(&bytes);
        // It goes on to speak for a while, and finds why it is refused all the same.
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(50));
            outcome = outcome.and_then(|()| stream.write_all(&[0; 1000]));
        }
        let error = outcome.and_then(|()| stream.read(&mut [0; 100])).expect_err("it is refused");
        let alerts = ["CertificateRequired", "NoApplicationProtocol"];
        assert!(alerts.iter().any(|alert| error.to_string().contains(alert)), "{error}");
        drop(socket);
        until("it is said", || server.refused().iter().any(|words| words.contains(said)));
    }
    assert_eq!((server.stats().refused, server.stats().requests), (2, 0));
}

/// One side with TLS and the other without: both say so.
#[test]
fn with_and_without_do_not_meet() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let good = tls(&made, "good");
    let server = start(Some(&good));
    let error = Connection::open(&server.address().to_string(), ME, TIME).err().expect("it has no certificate");
    assert!(error.kind() == ErrorKind::Io && error.message().contains("speaks with TLS only"), "{error}");
    assert!(error.message().contains(&server.address().to_string()), "{error}");
    until("it is said", || server.refused().iter().any(|words| words.contains("it speaks without TLS")));
    assert_eq!((server.stats().refused, server.stats().requests), (1, 0));
    let plain = start(None);
    let error = client(&plain.address().to_string(), &good).call(&page(1), TIME).expect_err("it has none");
    assert!(error.kind() == ErrorKind::Io && error.message().contains("it speaks without TLS"), "{error}");
    until("it is said", || plain.refused().iter().any(|words| words.contains("what came is TLS")));
    assert_eq!((plain.stats().refused, plain.stats().bad_connections, plain.stats().requests), (1, 1, 0));
    // Others are served as before.
    is_page(client(&server.address().to_string(), &good).call(&page(2), TIME), 2).expect("it is good");
    is_page(Client::new(&plain.address().to_string(), ME).call(&page(2), TIME), 2).expect("it is good");
}

/// A connection is over when the certificate of either side is: the next question is refused as it would be on a new one.
#[test]
fn a_connection_ends_with_its_certificates() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let soon = std::process::Command::new("date").args(["-u", "-d", "+5 seconds", "+%Y%m%d%H%M%SZ"]).output();
    let soon = String::from_utf8(soon.expect("a date").stdout).expect("digits");
    made.add("short", Of { valid: ("20200101000000Z", soon.trim()), ..GOOD });
    let (good, short) = (tls(&made, "good"), tls(&made, "short"));
    let server = start(Some(&good));
    let of_short = client(&server.address().to_string(), &short);
    is_page(of_short.call(&page(1), TIME), 1).expect("it is valid yet");
    let short_server = start(Some(&short));
    let of_good = client(&short_server.address().to_string(), &good);
    is_page(of_good.call(&page(2), TIME), 2).expect("it is valid yet");
    let is_over = || short.stats().left() == Some(Duration::ZERO);
    assert!(!is_over(), "this machine is too slow for this test");
    until("it has expired", is_over);
    std::thread::sleep(Duration::from_millis(1100));
    let before = server.stats().requests;
    let error = of_short.call(&page(3), TIME).expect_err("its certificate has expired");
    assert!(error.message().contains("expired"), "{error}");
    assert_eq!(server.stats().requests, before, "nothing is answered any more");
    let error = of_good.call(&page(4), TIME).expect_err("the server's certificate has expired");
    assert!(error.message().contains("expired"), "{error}");
    // A connection of parts whose certificates are valid goes on.
    let both = client(&server.address().to_string(), &good);
    is_page(both.call(&page(5), TIME), 5).expect("it is good");
    assert_eq!(server.stats().connections, 3);
}

/// Whoever says nothing, or little by little, is waited for for as long as for any first message, and no longer.
#[test]
fn slow_and_silent_peers_end_in_time() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let good = tls(&made, "good");
    let server = start(Some(&good));
    // What a client would say first.
    let trap = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = trap.local_addr().expect("its address").to_string();
    let begun = Instant::now();
    let error = client(&address, &good).call(&page(1), Duration::from_millis(400)).expect_err("it is silent");
    assert!(error.kind() == ErrorKind::Io && error.message().contains("in time"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let (mut taken, _) = trap.accept().expect("the client");
    let mut hello = Vec::new();
    taken.read_to_end(&mut hello).expect("what it has said");
    assert!(hello.len() > 100);
    // Who waits is told to stop.
    let begun = Instant::now();
    let stopped = client(&address, &good).call_unless(&page(1), TIME, &|| begun.elapsed() > Duration::from_millis(100));
    assert!(stopped.expect_err("it is silent").message().contains("any longer"));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    std::thread::scope(|scope| {
        let silent = scope.spawn(|| {
            let mut stream = TcpStream::connect(server.address()).expect("a connection");
            stream.set_read_timeout(Some(TIME)).expect("a socket");
            assert_eq!(stream.read(&mut [0; 10]).expect("the end"), 0);
        });
        let slow = scope.spawn(|| {
            let mut stream = TcpStream::connect(server.address()).expect("a connection");
            stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
            let begun = Instant::now();
            for byte in hello.iter().cycle() {
                assert!(begun.elapsed() < TIME, "it is listened to for ever");
                if stream.write_all(&[*byte]).is_err() || matches!(stream.read(&mut [0; 10]), Ok(0)) {
                    break;
                }
            }
        });
        // It has a good certificate, and says nothing after that: the end comes with a closing notice.
        let mute = scope.spawn(|| {
            let stream = TcpStream::connect(server.address()).expect("a connection");
            let mut stream = Timed::new(stream, "the server".into()).expect("a socket");
            stream.set_time(TIME);
            stream.encrypt_as_client(&good, &server.address().to_string(), None).expect("keys");
            assert!(!stream.read_first(&mut [0], None).expect("the end"));
        });
        // A server that answers little by little.
        let trickle = scope.spawn(|| {
            let (mut here, _) = trap.accept().expect("the client");
            for _ in 0..1000 {
                if here.write_all(&[22]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let begun = Instant::now();
        let trapped = client(&address, &good).call(&page(1), Duration::from_millis(400));
        assert!(trapped.is_err() && begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        for thread in [silent, slow, mute, trickle] {
            thread.join().expect("it has ended");
        }
        is_page(client(&server.address().to_string(), &good).call(&page(2), TIME), 2).expect("others are served");
    });
}

/// Whoever waits for keys can be told to stop also while something comes all the time, and that is no refusal.
#[test]
fn a_handshake_that_trickles_is_stopped() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let good = tls(&made, "good");
    let trap = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = trap.local_addr().expect("its address").to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut here, _) = trap.accept().expect("the client");
            // A record of 16 KB, of which something comes at each look.
            let mut outcome = here.write_all(&[22, 3, 3, 64, 0]);
            while outcome.is_ok() {
                outcome = here.write_all(&[2]);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let begun = Instant::now();
        let stop = || begun.elapsed() > Duration::from_millis(200);
        let error = client(&address, &good).call_unless(&page(1), TIME, &stop).expect_err("it is slow");
        assert!(error.message().contains("any longer"), "{error}");
    });
    assert_eq!((good.stats().refused, good.stats().handshakes), (0, 0));
}

/// A peer with a good certificate that sends something else is told so, and hears that this was all.
#[test]
fn what_is_no_request_is_answered_before_the_end() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let good = tls(&made, "good");
    let server = start(Some(&good));
    let stream = TcpStream::connect(server.address()).expect("a connection");
    let mut stream = Timed::new(stream, "the server".into()).expect("a socket");
    stream.set_time(TIME);
    stream.encrypt_as_client(&good, &server.address().to_string(), None).expect("keys");
    stream.write_all(&[b'x'; 1000]).expect("what is no frame");
    let mut message = Vec::new();
    assert!(crate::frame::read(&mut stream, 1 << 20, &mut message, None).expect("an answer"));
    assert!(matches!(Answer::decode(&message), Ok(Answer::Error(_))));
    assert!(!stream.read_first(&mut [0], None).expect("a closing notice"));
}

/// A server that is ended does not wait for peers that have yet to say something, or to agree.
#[test]
fn a_server_ends_in_the_middle_of_a_handshake() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let server = start(Some(&tls(&made, "good")));
    let silent = TcpStream::connect(server.address()).expect("a connection");
    let mut half = TcpStream::connect(server.address()).expect("a connection");
    half.write_all(&[22, 3, 1, 0, 200, 1, 0]).expect("a beginning");
    until("both are there", || server.stats().connections == 2);
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    drop((silent, half));
}

/// Bytes of any kind, records and messages of any length.
#[test]
fn what_is_no_tls_harms_nobody() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let good = tls(&made, "good");
    let server = start(Some(&good));
    let record = |kind: u8, len: u16, body: &[u8]| {
        let mut bytes = vec![kind, 3, 3];
        bytes.extend(len.to_be_bytes());
        bytes.extend(body);
        bytes
    };
    let mut all: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"R".to_vec(),
        b"RBIX, and some more".to_vec(),
        vec![0; 100],
        vec![255; 100 << 10],
        // A record that is too long, one of no kind, one with nothing in it, an alert, data before keys.
        record(22, u16::MAX, &[1; 70_000]),
        record(99, 10, &[0; 10]),
        record(22, 0, &[]).repeat(1000),
        record(21, 2, &[2, 40]),
        record(23, 100, &[7; 100]),
        // A message of the handshake that says it is 16 MB long, and as much of it as is taken.
        record(22, 16_384, &[&[1, 255, 255, 255][..], &[0; 16_380]].concat()).repeat(20),
    ];
    let mut seed = 1u64;
    all.extend((0..60).map(|len| {
        let random = (0..len * 5).map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 56) as u8
        });
        [&[22, 3, 3][..], &random.collect::<Vec<u8>>()].concat()
    }));
    let count = all.len();
    for bytes in all {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.set_read_timeout(Some(TIME)).expect("a socket");
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut back = Vec::new();
        let _ = stream.read_to_end(&mut back);
        assert!(back.len() < 200, "{} bytes for {:?}", back.len(), &bytes[..bytes.len().min(20)]);
    }
    is_page(client(&server.address().to_string(), &good).call(&page(5), TIME), 5).expect("others are served");
    let stats = server.stats();
    assert!(
        stats.requests == 2 && stats.refused as usize > count * 9 / 10 && stats.refused as usize <= count,
        "{stats:?}"
    );
}

/// Files that change are in force for connections from then on; those that are wrong are not; connections that exist go on.
#[test]
fn certificates_are_replaced_while_it_runs() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    made.add("next", GOOD);
    made.add("expired", Of { valid: ("20200101000000Z", "20200102000000Z"), ..GOOD });
    made.add("foreign", Of { authority: "other-ca", ..GOOD });
    let copy = |from: &str, to: &str| {
        std::fs::copy(made.path(from), made.path(to)).expect("a file");
    };
    let replace = |name: &str| {
        copy(&format!("{name}.crt"), "used.crt");
        copy(&format!("{name}.key"), "used.key");
    };
    replace("expired");
    copy("ca.crt", "used-ca.crt");
    // One that has expired already is no reason not to start.
    let used = Tls::open(files(&made, "used", "used-ca")).expect("it can be read");
    let server = start(Some(&used));
    let address = server.address().to_string();
    let good = tls(&made, "good");
    let client = client(&address, &good);
    assert!(client.call(&page(1), TIME).expect_err("it has expired").message().contains("has expired"));
    // The ends of 2020-01-02 and 2099-12-31, as they were asked for.
    assert_eq!((used.stats().expires, used.stats().left()), (Some(1_577_923_200), Some(Duration::ZERO)));
    assert_eq!(good.stats().expires, Some(4_102_358_400));
    assert!(good.stats().left() > Some(Duration::from_secs(86_400)));
    // Nobody tells it.
    replace("good");
    until("it is read again", || client.call(&page(1), TIME).is_ok());
    assert!(used.stats().reloads >= 1, "{:?}", used.stats());
    let mut old = Connection::open_with(&address, ME, Some(&good), TIME).expect("a connection");
    // Half of it: the one before stays in force.
    let reloads = used.stats().reloads;
    copy("next.crt", "used.crt");
    assert!(!used.reload());
    assert!(used.stats().reload_failures >= 1);
    is_page(Connection::open_with(&address, ME, Some(&good), TIME).and_then(|mut new| new.call(&page(3), TIME)), 3)
        .expect("the one before");
    std::fs::write(made.path("used.crt"), "nothing").expect("a file");
    assert!(!used.reload());
    std::fs::remove_file(made.path("used.crt")).expect("it goes");
    assert!(!used.reload());
    replace("next");
    assert!(used.reload() && used.stats().reloads == reloads + 1);
    assert!(used.reload() && used.stats().reloads == reloads + 1, "nothing has changed");
    is_page(Connection::open_with(&address, ME, Some(&good), TIME).and_then(|mut new| new.call(&page(4), TIME)), 4)
        .expect("the next one");
    // Another authority: what exists goes on, what is new must be of it.
    copy("other-ca.crt", "used-ca.crt");
    assert!(used.reload());
    is_page(old.call(&page(5), TIME), 5).expect("it exists");
    assert!(Connection::open_with(&address, ME, Some(&good), TIME).is_err());
    // Both for a time.
    let both = [
        std::fs::read(made.path("ca.crt")).expect("a file"),
        std::fs::read(made.path("other-ca.crt")).expect("a file"),
    ];
    std::fs::write(made.path("used-ca.crt"), both.concat()).expect("a file");
    assert!(used.reload());
    assert!(Connection::open_with(&address, ME, Some(&good), TIME).is_ok());
    is_page(old.call(&page(6), TIME), 6).expect("it exists");
}

/// A file that is found while it is written may be right as far as it goes, and one that is away for a moment is not wrong yet.
#[test]
fn files_that_change_by_themselves_have_to_be_found_twice() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let [one, other] = ["ca.crt", "other-ca.crt"].map(|name| std::fs::read(made.path(name)).expect("a file"));
    let fill = |bytes: &[u8]| std::fs::write(made.path("used-ca.crt"), bytes).expect("a file");
    fill(&one);
    let used = Tls::open(files(&made, "good", "used-ca")).expect("certificates that fit");
    let look = || {
        used.look(&mut used.looked.lock());
        (used.stats().reloads, used.stats().reload_failures)
    };
    let both = [&other[..], &one].concat();
    // The first of them alone is a good file, too.
    fill(&other);
    assert_eq!(look(), (0, 0));
    fill(&both);
    assert_eq!(look(), (0, 0));
    assert_eq!(look(), (1, 0));
    assert_eq!(look(), (1, 0), "nothing has changed");
    std::fs::remove_file(made.path("used-ca.crt")).expect("it goes");
    assert_eq!(look(), (1, 0));
    fill(&both);
    assert_eq!(look(), (1, 0));
    // Back and forth: found twice, and not in a row.
    fill(&one);
    assert_eq!(look(), (1, 0));
    fill(&both);
    assert_eq!(look(), (1, 0));
    fill(&one);
    assert_eq!(look(), (1, 0));
    assert_eq!(look(), (2, 0));
    // What is wrong is counted once, and what stays wrong is not counted again.
    fill(b"half of it");
    assert_eq!(look(), (2, 0));
    for _ in 0..5 {
        assert_eq!(look(), (2, 1));
    }
    // Whoever asks for it has the files as they are.
    fill(&both);
    assert!(used.reload());
    assert_eq!((used.stats().reloads, used.stats().reload_failures), (3, 1));
}

/// What is wrong with files is said with their names.
#[test]
fn files_that_are_wrong_are_named() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    made.add("other", GOOD);
    std::fs::write(made.path("text"), "no certificate").expect("a file");
    std::fs::write(made.path("long"), vec![b'x'; 2 << 20]).expect("a file");
    std::fs::write(made.path("bad"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").expect("a file");
    let good = files(&made, "good", "ca");
    let path = |name: &str| made.path(name);
    for (files, named, said) in [
        (TlsFiles { cert: path("none"), ..good.clone() }, "none", "could not read"),
        (TlsFiles { cert: path("text"), ..good.clone() }, "text", "holds no PEM certificate"),
        (TlsFiles { cert: path("long"), ..good.clone() }, "long", "is longer than"),
        (TlsFiles { cert: path("bad"), ..good.clone() }, "bad", "do not fit"),
        (TlsFiles { key: path("none"), ..good.clone() }, "none", "No such file"),
        (TlsFiles { key: path("text"), ..good.clone() }, "text", "is not a PEM private key"),
        (TlsFiles { key: path("other.key"), ..good.clone() }, "other.key", "do not fit"),
        (TlsFiles { ca: path("none"), ..good.clone() }, "none", "could not read"),
        (TlsFiles { ca: path("text"), ..good.clone() }, "text", "holds no PEM certificate"),
        (TlsFiles { ca: path("bad"), ..good.clone() }, "bad", "cannot be used"),
    ] {
        let error = Tls::open(files).expect_err(said);
        assert!(error.contains(path(named).to_str().expect("a path")) && error.contains(said), "{error}");
    }
    assert!(Tls::open(good).is_ok());
}

/// What stands in the file with the authorities would count as one: a part's certificate, or an authority that has expired, is refused by
/// its number, at the start and when the file changes.
#[test]
fn only_authorities_that_are_valid_are_taken_as_such() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    made.add("below", Of { signs: true, ..GOOD });
    made.add("expired-ca", Of { signs: true, valid: ("20200101000000Z", "20200102000000Z"), ..GOOD });
    made.add("early-ca", Of { signs: true, valid: ("20980101000000Z", "20991231000000Z"), ..GOOD });
    let fill = |names: &[&str]| {
        let all: Vec<_> =
            names.iter().flat_map(|name| std::fs::read(made.path(&format!("{name}.crt"))).expect("a file")).collect();
        std::fs::write(made.path("used-ca.crt"), all).expect("a file");
    };
    let wrong: [(&[&str], &str); 5] = [
        (&["good"], "used-ca.crt: certificate 1 is not an authority's"),
        (&["ca", "other-ca", "good"], "used-ca.crt: certificate 3 is not an authority's"),
        (&["ca", "expired-ca"], "used-ca.crt: certificate 2 has expired"),
        (&["early-ca", "ca"], "used-ca.crt: certificate 1 is not valid yet"),
        (&["below", "below", "expired-ca"], "used-ca.crt: certificate 3 has expired"),
    ];
    for (names, said) in wrong {
        fill(names);
        let error = Tls::open(files(&made, "good", "used-ca")).expect_err(said);
        assert!(error.contains(said), "{error}");
    }
    // One that is below another is one.
    fill(&["below", "ca"]);
    let used = Tls::open(files(&made, "good", "used-ca")).expect("authorities");
    let server = start(Some(&used));
    for (failures, (names, _)) in (1..).zip(wrong) {
        fill(names);
        assert!(!used.reload(), "{names:?}");
        assert_eq!((used.stats().reloads, used.stats().reload_failures), (0, failures), "{names:?}");
    }
    let good = tls(&made, "good");
    is_page(client(&server.address().to_string(), &good).call(&page(3), TIME), 3).expect("those before are in force");
}

/// Too many connections: one with TLS ends at once, and others go on.
#[test]
fn connections_are_bounded() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let good = tls(&made, "good");
    let config = ServerConfig { connections_max: 2, ..ServerConfig::default() };
    let server =
        Server::start_with("127.0.0.1:0", config, Some(Arc::clone(&good)), Arc::new(Numbers)).expect("a server");
    let address = server.address().to_string();
    let open = || Connection::open_with(&address, ME, Some(&good), TIME);
    let mut kept = [open().expect("the first"), open().expect("the second")];
    assert_eq!(open().err().expect("there is no room").kind(), ErrorKind::Io);
    is_page(kept[0].call(&page(4), TIME), 4).expect("it goes on");
    let [one, _other] = kept;
    drop(one);
    until("its place is free", || open().is_ok());
}
