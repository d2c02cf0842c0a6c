//! A database in parts, each a process: they are killed one after the other and are back by themselves; what must not be started is
//! refused in words.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::Client;
use common::process::refusal;

const LONG: Duration = Duration::from_secs(60);

/// `resurgam cluster dev`; dropping it kills it, and its parts with it.
struct Dev {
    child: Child,
    port: u16,
}

impl Dev {
    fn start(data: &Path, port: u16) -> Self {
        Self::start_with(data, port, &["--page-servers", "2"], &["--page-cache-bytes", "64MB"])
    }

    fn start_with(data: &Path, port: u16, page_servers: &[&str], primary: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_resurgam"))
            .args(["cluster", "dev", "--listen", &format!("127.0.0.1:{port}")])
            .args(page_servers)
            .arg("--data")
            .arg(data)
            .args(["--", "--buffer-bytes", "4MB"])
            .args(primary)
            .stdout(Stdio::piped())
            .spawn()
            .expect("start");
        let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        // Whoever prints more must not be stopped by a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port }
    }

    /// As soon as the primary answers.
    fn client(&self) -> Client {
        first_client(self.port)
    }

    /// The process of a part, by its folder.
    fn part(&self, name: &str) -> Option<i32> {
        let is_it = |id: &i32| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            status.contains(&format!("PPid:\t{}\n", self.child.id())) && String::from_utf8_lossy(&line).contains(name)
        };
        let all = fs::read_dir("/proc").expect("processes").flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_it)
    }

    fn kill(&self, name: &str) {
        let begun = Instant::now();
        let id = loop {
            if let Some(id) = self.part(name) {
                break id;
            }
            assert!(begun.elapsed() < LONG, "{name} does not run");
            std::thread::sleep(Duration::from_millis(5));
        };
        // SAFETY: it takes numbers; the process is a child of one that has not waited for it.
        assert_eq!(unsafe { libc::kill(id, libc::SIGKILL) }, 0);
    }

    fn stop(mut self) {
        let id = i32::try_from(self.child.id()).expect("a process's number");
        // SAFETY: it takes numbers, of a child that was not waited for.
        assert_eq!(unsafe { libc::kill(id, libc::SIGTERM) }, 0);
        let status = self.child.wait().expect("wait");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As soon as the primary on this port answers.
fn first_client(port: u16) -> Client {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < LONG, "the primary does not answer");
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            stream.set_read_timeout(Some(LONG)).expect("timeout");
            let mut client = Client { stream, process_id: 0, secret: 0, parameters: Vec::new() };
            client.startup(&[("user", "postgres"), ("database", "postgres")]);
            if client.next().is_some_and(|message| message.tag == b'R') {
                client.until_ready();
                return client;
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Five ports in a row that nobody has.
fn free_ports() -> u16 {
    let listen = |port| TcpListener::bind(("127.0.0.1", port));
    // Below those that the system gives to connections, one of which may have a port that was free a moment ago.
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id() as u16 % 2000;
    for _ in 0..1000 {
        let first = 12_000 + (start + TAKEN.fetch_add(1, Ordering::Relaxed)) % 2000 * 10;
        if (first..first + 5).all(|port| listen(port).is_ok()) {
            return first;
        }
    }
    panic!("there are no free ports");
}

#[test]
fn parts_are_killed_and_come_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(dir.path(), free_ports());
    let mut client = dev.client();
    client.rows("create table t (id int primary key, n int, text text)");
    client.rows("insert into t select i, 0, repeat('x', 300) from generate_series(1, 50000) i");
    for round in 1..=4 {
        // More than the primary has in memory is read and changed while a page server is down.
        let name = ["pageserver-1", "pageserver-2"][round % 2];
        dev.kill(name);
        if round == 3 {
            fs::remove_dir_all(dir.path().join(name)).expect("its folder");
        }
        dev.kill("xlog-1");
        if round == 2 {
            fs::remove_dir_all(dir.path().join("xlog-1")).expect("its folder");
        }
        client.rows(&format!("update t set n = n + 1 where id % 4 = {}", round % 4));
        assert_eq!(client.rows("select sum(n) || ',' || count(*) from t"), [format!("{},50000", 12500 * round)]);
        dev.kill("primary-1");
        if round % 2 == 0 {
            // An empty machine: everything is in the landing zone and with the others.
            fs::rename(dir.path().join("primary-1"), dir.path().join(format!("gone-{round}"))).expect("its folder");
        }
        client = dev.client();
        assert_eq!(client.rows("select sum(n) || ',' || count(*) from t"), [format!("{},50000", 12500 * round)]);
    }
    let begun = Instant::now();
    let serving = "select count(*) from resurgam_page_servers where state = 'serving' and address is not null";
    while client.rows(serving) != ["2"] {
        assert!(
            begun.elapsed() < LONG,
            "{:?}",
            client.rows("select address || state || error from resurgam_page_servers")
        );
        client.rows("select count(text) from t");
    }
    let service = "select (disseminated_lsn <= hardened_lsn and destaged_lsn <= disseminated_lsn and epoch > 8)::text \
                   from resurgam_log_service where error is null";
    until(&mut client, service, "true");
    until(&mut client, "select (hardened_lsn = destaged_lsn)::text from resurgam_log_service", "true");
    // The log service archives, and has done so over all of that: page servers without a folder were made of it.
    let archived = "select (archived_lsn = durable_lsn and archiver like 'log service %' and error is null and runs_written = 0 \
                    and merger = archiver and merge_error is null)::text from resurgam_archive";
    until(&mut client, archived, "true");
    assert_eq!(client.rows("select count(*) from resurgam_page_servers where name = 'the archive'"), ["0"]);
    let cache = "select (pages > 100 and hits > 100 and bytes = pages * 8192 and bytes <= bytes_max and error is null)::text \
                 from resurgam_page_cache where state = 'on'";
    until(&mut client, cache, "true");
    assert!(!dir.path().join("primary-1/log").exists());
    // Its pages are in no file of its own.
    assert!(fs::metadata(dir.path().join("primary-1/data")).expect("the boot page").len() <= 8 << 20);
    drop(client);
    dev.stop();
    let dev = Dev::start(dir.path(), free_ports());
    assert_eq!(dev.client().rows("select sum(n) || ',' || count(*) from t"), ["50000,50000"]);
    dev.stop();
    let verified = Command::new(env!("CARGO_BIN_EXE_resurgam"))
        .args(["archive", "verify"])
        .arg(dir.path().join("archive"))
        .output()
        .expect("start");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

/// The primary is killed in the middle of its work: what was acknowledged is archived without it, and the database can be restored from archive alone.
#[test]
fn a_dead_primarys_log_is_archived() {
    let dir = tempfile::tempdir().expect("a folder");
    let dev = Dev::start_with(dir.path(), free_ports(), &["--page-servers", "1"], &[]);
    let mut client = dev.client();
    client.rows("create table t (id int primary key, n int, text text)");
    client.rows("insert into t select i, 0, repeat('x', 300) from generate_series(1, 20000) i");
    for round in 1..=3 {
        client.rows(&format!("update t set n = n + 1 where id % 3 = {}", round % 3));
        dev.kill("xlog-1");
    }
    // The parent is stopped, so that nobody starts the primary again.
    let parent = i32::try_from(dev.child.id()).expect("a process's number");
    let primary = dev.part("primary-1").expect("it runs");
    let begun = Instant::now();
    while dev.part("xlog-1").is_none() {
        assert!(begun.elapsed() < LONG, "the log service is started again");
        std::thread::sleep(Duration::from_millis(50));
    }
    client.rows("update t set n = n + 10 where id <= 1000");
    let end: u64 = client.rows("select flushed_lsn from resurgam_log")[0].parse().expect("a position");
    // What a dead primary could not say to be hardened its successor settles.
    until(&mut client, &format!("select (disseminated_lsn >= {end})::text from resurgam_log_service"), "true");
    // SAFETY: it takes numbers; these processes are ours.
    unsafe {
        assert_eq!(libc::kill(parent, libc::SIGSTOP), 0);
        assert_eq!(libc::kill(primary, libc::SIGKILL), 0);
    }
    let archived = || {
        let listed = Command::new(env!("CARGO_BIN_EXE_resurgam"))
            .args(["archive", "list"])
            .arg(dir.path().join("archive"))
            .output()
            .expect("start");
        String::from_utf8_lossy(&listed.stdout).into_owned()
    };
    let begun = Instant::now();
    let reaches = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("LSN "));
        let ends = line.and_then(|line| line.split_once(" to ")?.1.split_once(':')?.0.parse::<u64>().ok());
        ends.is_some_and(|ends| ends >= end)
    };
    while !reaches(&archived()) {
        assert!(begun.elapsed() < LONG, "the log ends at {end}; {}", archived());
        std::thread::sleep(Duration::from_millis(100));
    }
    // SAFETY: as above.
    unsafe {
        assert_eq!(libc::kill(parent, libc::SIGCONT), 0);
    }
    drop(client);
    dev.stop();
    let restored = dir.path().join("restored");
    let made = Command::new(env!("CARGO_BIN_EXE_resurgam"))
        .args(["restore", "--whole", "--archive"])
        .arg(dir.path().join("archive"))
        .arg("--target")
        .arg(&restored)
        .output()
        .expect("start");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let port = free_ports();
    let child = Command::new(env!("CARGO_BIN_EXE_resurgam"))
        .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data"])
        .arg(&restored)
        .stdout(Stdio::null())
        .spawn()
        .expect("start");
    let alone = Dev { child, port };
    assert_eq!(alone.client().rows("select sum(n) || ',' || count(*) from t"), ["30000,20000"]);
}

/// Page servers with some partitions each: one is killed, others go on; it comes back, empty, and so do its pages. Then they are others.
#[test]
fn partitions_are_killed_and_come_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let layout = ["--page-servers", "3", "--partitions", "3", "--partition-bytes", "1MB"];
    let dev = Dev::start_with(dir.path(), free_ports(), &layout, &[]);
    let mut client = dev.client();
    client.rows("create table t (id int primary key, n int, text text)");
    client.rows("insert into t select i, 0, repeat('x', 300) from generate_series(1, 50000) i");
    for round in 1..=6 {
        let name = format!("pageserver-{}", round % 3 + 1);
        dev.kill(&name);
        if round > 3 {
            fs::remove_dir_all(dir.path().join(&name)).expect("its folder");
        }
        client.rows(&format!("update t set n = n + 1 where id % 4 = {}", round % 4));
        assert_eq!(client.rows("select sum(n) || ',' || count(*) from t"), [format!("{},50000", 12500 * round)]);
    }
    let shown =
        "select string_agg(partitions || ' ' || partition_bytes, ', ' order by partitions) from resurgam_page_servers";
    until(&mut client, shown, "0/3 1048576, 1/3 1048576, 2/3 1048576");
    let ranges = "select split_part(page_ranges, ',', 1) || ' ' || split_part(page_ranges, ',', 2) from resurgam_page_servers \
                  where partitions = '1/3'";
    assert_eq!(client.rows(ranges), ["128-255 512-639"]);
    // Each has its own pages, and some.
    for number in 0..3u64 {
        let files = fs::read_dir(dir.path().join(format!("pageserver-{}", number + 1))).expect("its folder").flatten();
        let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let partitions: Vec<u64> = names.filter_map(|name| name.strip_prefix("pages-")?.parse().ok()).collect();
        assert!(partitions.len() > 2 && partitions.iter().all(|of| of % 3 == number), "{number}: {partitions:?}");
    }
    drop(client);
    dev.stop();
    // Two of them now, and then all pages with each.
    for layout in
        [&["--page-servers", "2", "--partitions", "2", "--partition-bytes", "1MB"][..], &["--page-servers", "2"]]
    {
        let dev = Dev::start_with(dir.path(), free_ports(), layout, &[]);
        let mut client = dev.client();
        assert_eq!(client.rows("select sum(n) || ',' || count(*) from t"), ["75000,50000"]);
        client.rows("update t set n = n + 1 where id % 5 = 1");
        client.rows("update t set n = n - 1 where id % 5 = 1");
        drop(client);
        dev.stop();
    }
}

fn until(client: &mut Client, sql: &str, expected: &str) {
    let begun = Instant::now();
    loop {
        let found = client.rows(sql);
        if found == [expected] {
            return;
        }
        assert!(begun.elapsed() < LONG, "{sql}: {found:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Two primaries are started for one landing zone: the second one waits, and takes over when the first one is silent; the first one
/// ends when it comes back to life, and has acknowledged nothing.
#[test]
fn a_primary_that_was_stopped_for_long_is_no_primary_any_more() {
    let dir = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(dir.path(), free_ports());
    let mut client = dev.client();
    client.rows("create table t (id int primary key)");
    client.rows("insert into t values (1)");
    let first = dev.part("primary-1").expect("it runs");
    // SAFETY: it takes numbers; the process is a child of one that has not waited for it.
    assert_eq!(unsafe { libc::kill(first, libc::SIGSTOP) }, 0);
    let line = fs::read(format!("/proc/{first}/cmdline")).expect("its arguments");
    let port = free_ports();
    let arguments: Vec<String> = line
        .split(|byte| *byte == 0)
        .skip(1)
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .filter(|part| !part.is_empty())
        .map(|part| part.replace("primary-1", "primary-2"))
        .map(|part| if part == format!("127.0.0.1:{}", dev.port) { format!("127.0.0.1:{port}") } else { part })
        .collect();
    let second =
        Command::new(env!("CARGO_BIN_EXE_resurgam")).args(&arguments).stdout(Stdio::null()).spawn().expect("start");
    let second = Dev { child: second, port };
    let mut other = second.client();
    assert_eq!(other.rows("select id from t"), ["1"]);
    other.rows("insert into t values (2)");
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(first, libc::SIGCONT) }, 0);
    let begun = Instant::now();
    while dev.part("primary-1") == Some(first) {
        assert!(begun.elapsed() < LONG, "the first one goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    other.rows("insert into t values (3)");
    drop((other, second));
    // It is started again, and waits no longer: the second one was killed.
    assert_eq!(dev.client().rows("select id from t order by id"), ["1", "2", "3"]);
    dev.stop();
}

/// `resurgam serve` with what it says; dropping it kills it.
struct Part {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Part {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_resurgam"))
            .arg("serve")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start");
        let said = Arc::new(Mutex::new(Vec::new()));
        let pipes: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("stdout")), Box::new(child.stderr.take().expect("stderr"))];
        for pipe in pipes {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                BufReader::new(pipe)
                    .lines()
                    .map_while(Result::ok)
                    .for_each(|line| said.lock().expect("lines").push(line));
            });
        }
        Self { child, said }
    }

    fn says(&self, text: &str) {
        let begun = Instant::now();
        while !self.said.lock().expect("lines").iter().any(|line| line.contains(text)) {
            assert!(begun.elapsed() < LONG, "{text:?} is not in {:#?}", self.said.lock().expect("lines"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn hang_up(&mut self) {
        let id = i32::try_from(self.child.id()).expect("a process's number");
        assert!(self.child.try_wait().expect("wait").is_none(), "{:#?}", self.said.lock().expect("lines"));
        // SAFETY: it takes numbers, of a child that was not waited for.
        assert_eq!(unsafe { libc::kill(id, libc::SIGHUP) }, 0);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All parts with certificates, on addresses that other machines reach; one of another authority is refused by name, and taken in when it
/// has a good one, without a restart.
#[test]
fn parts_with_certificates_refuse_who_has_none_of_theirs() {
    let Some(made) = common::certificate::Certificates::make() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let first = free_ports();
    let port = |behind: u16| format!("127.0.0.1:{}", first + behind);
    let open = |behind: u16| format!("0.0.0.0:{}", first + behind);
    let replace = |name: &str| {
        for end in ["crt", "key"] {
            fs::copy(made.path(&format!("{name}.{end}")), made.path(&format!("used.{end}"))).expect("a file");
        }
    };
    replace("stranger");
    let start = |name: &str, arguments: &[&str]| {
        let file = |name: String| made.path(&name).display().to_string();
        let (cert, key, ca) = (file(format!("{name}.crt")), file(format!("{name}.key")), file("ca.crt".into()));
        let tls = ["--tier-tls-cert", &cert, "--tier-tls-key", &key, "--tier-tls-ca", &ca, "--buffer-bytes", "8MB"];
        Part::start(&[arguments, &tls].concat())
    };
    let (zone, archive, long_term) = (path("zone"), path("archive"), path("long-term"));
    let pages = |name: &str, number: u16| {
        let (data, listen, logs) = (path(&format!("pageserver-{number}")), open(number), port(1));
        let own = ["--role", "pageserver", "--data", &data, "--listen", &listen, "--log-services", &logs];
        start(name, &[&own[..], &["--archive", &archive]].concat())
    };
    let (data, listen) = (path("xlog-1"), open(1));
    let own = ["--role", "xlog", "--data", &data, "--listen", &listen, "--landing-zone", &zone];
    let mut xlog = start("server", &[&own[..], &["--long-term-log", &long_term]].concat());
    let _good = pages("server", 2);
    let mut bad = pages("used", 3);
    let (data, page_servers, metrics) = (path("primary-1"), format!("{},{}", port(2), port(3)), port(4));
    let primary = start(
        "server",
        &[
            &["--data", &data, "--listen", &port(0), "--landing-zone", &zone, "--log-services", &port(1)][..],
            &["--page-servers", &page_servers, "--archive", &archive, "--metrics-listen", &metrics],
        ]
        .concat(),
    );
    let mut client = first_client(first);
    client.rows("create table t (id int primary key, text text)");
    client.rows("insert into t select i, repeat('x', 300) from generate_series(1, 50000) i");
    assert_eq!(client.rows("select count(text) from t"), ["50000"]);
    primary.says("its certificate is of another authority");
    xlog.says("its certificate is of another authority");
    bad.says("refuses this side's certificate: of another authority");
    let error =
        format!("select error like '%of another authority%' from resurgam_page_servers where address = '{}'", port(3));
    until(&mut client, &error, "t");
    let text = common::http::get(metrics.parse().expect("an address"), "/metrics").body;
    for (name, least) in
        [("handshakes_total", 2.0), ("refused_total", 1.0), ("certificate_expiry_timestamp_seconds", 1e9)]
    {
        let name = format!("resurgam_tier_tls_{name} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_else(|| panic!("no {name}"));
        assert!(value.parse::<f64>().expect("a number") >= least, "{name}{value}");
    }
    // It gets a good one; and another process takes no harm from being told to read its files.
    replace("server");
    bad.hang_up();
    xlog.hang_up();
    bad.says("were read again");
    let serving =
        format!("select pages > 100 from resurgam_page_servers where address = '{}' and error is null", port(3));
    let begun = Instant::now();
    while client.rows(&serving) != ["t"] {
        assert!(
            begun.elapsed() < LONG,
            "{:?} {:#?}",
            client
                .rows("select concat_ws(' ', address, name, state, pages, failures, error) from resurgam_page_servers"),
            bad.said.lock().expect("lines")
        );
        assert_eq!(client.rows("select count(text) from t"), ["50000"]);
    }
    xlog.hang_up();
    // Who speaks without is refused, and says so.
    let (data, listen, logs) = (path("pageserver-4"), port(4), port(1));
    drop((client, primary));
    let own = ["--role", "pageserver", "--data", &data, "--listen", &listen, "--log-services", &logs];
    let plain = Part::start(&[&own[..], &["--archive", &archive]].concat());
    plain.says("speaks with TLS only");
    xlog.says("it speaks without TLS");
}

/// `cluster dev` gives all of its parts the certificates; one is killed, and has them again.
#[test]
fn all_parts_of_one_machine_have_certificates() {
    let Some(made) = common::certificate::Certificates::make() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let files = ["server.crt", "server.key", "ca.crt"].map(|name| made.path(name).display().to_string());
    let tls = ["--tier-tls-cert", &files[0], "--tier-tls-key", &files[1], "--tier-tls-ca", &files[2]];
    let port = free_ports();
    let metrics = format!("127.0.0.1:{}", port + 4);
    let dev = Dev::start_with(dir.path(), port, &tls, &["--metrics-listen", &metrics]);
    let mut client = dev.client();
    client.rows("create table t (id int primary key, text text)");
    client.rows("insert into t select i, repeat('x', 300) from generate_series(1, 50000) i");
    dev.kill("pageserver-1");
    assert_eq!(client.rows("select count(text) from t"), ["50000"]);
    let text = common::http::get(metrics.parse().expect("an address"), "/metrics").body;
    let agreed = text.lines().find_map(|line| line.strip_prefix("resurgam_tier_tls_handshakes_total "));
    assert!(agreed.is_some_and(|count| count != "0"), "{agreed:?}");
    drop(client);
    dev.stop();
}

#[test]
fn what_cannot_be_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let said = |args: &[&str]| {
        let data = dir.path().join("data");
        let args = args.iter().map(|arg| (*arg).as_ref()).chain(["--data".as_ref(), data.as_os_str()]);
        refusal(&args.collect::<Vec<_>>())
    };
    let place = dir.path().join("archive").display().to_string();
    for (args, expected) in [
        (vec!["--role", "nothing"], "primary, pageserver, xlog"),
        (vec!["--role", "xlog"], "needs the landing zone"),
        (vec!["--role", "xlog", "--landing-zone", &place], "--long-term-log"),
        (vec!["--landing-zone", &place], "page servers only"),
        (vec!["--landing-zone", &place, "--page-servers", "127.0.0.1:7000", "--archive", &place], "--log-services"),
        (
            vec![
                "--landing-zone",
                &place,
                "--page-servers",
                "127.0.0.1:7000",
                "--archive",
                &place,
                "--log-services",
                "127.0.0.1:7001",
                "--log-dir",
                &place,
            ],
            "give one of them",
        ),
        (vec!["--role", "pageserver"], "needs an archive"),
        (vec!["--role", "pageserver", "--archive", &place, "--partitions", "2/2"], "there is no partition 2 modulo 2"),
        (vec!["--role", "pageserver", "--archive", &place, "--partitions", "half"], "names no partitions"),
        (
            vec!["--role", "pageserver", "--archive", &place, "--partitions", "0/2", "--partition-bytes", "1500kB"],
            "whole megabytes",
        ),
        (vec!["--partitions", "0/2"], "for the role pageserver"),
        (vec!["--page-cache-bytes", "64MB"], "for a primary with page servers"),
        (vec!["--page-servers", "127.0.0.1:7000", "--archive", &place, "--page-cache", &place], "at least 1 MB"),
        (vec!["--page-servers", "127.0.0.1:7000"], "needs an archive"),
        (vec!["--page-servers", "nowhere", "--archive", &place], "is not an address and port"),
        (
            vec!["--page-servers", "127.0.0.1:7000", "--archive", &place, "--log-listen", "0.0.0.0:7001"],
            "(--tier-tls-cert, --tier-tls-key, --tier-tls-ca), or use an address of this machine, or a network that nobody else \
             reaches and --insecure-trust",
        ),
        (vec!["--role", "pageserver", "--archive", &place, "--tier-tls-cert", &place], "give all three or none"),
        (vec!["--role", "pageserver", "--archive", &place, "--tier-tls-ca", &place], "give all three or none"),
        (
            vec!["--tier-tls-cert", &place, "--tier-tls-key", &place, "--tier-tls-ca", &place],
            "are for a database in parts",
        ),
        (
            vec![
                "--role",
                "pageserver",
                "--archive",
                &place,
                "--tier-tls-cert",
                "/nothing/there",
                "--tier-tls-key",
                &place,
                "--tier-tls-ca",
                &place,
            ],
            "TLS between the tiers: could not read /nothing/there",
        ),
        (vec!["--role", "pageserver", "--page-servers", "127.0.0.1:7000", "--archive", &place], "for the role primary"),
        (
            vec![
                "--page-servers",
                "127.0.0.1:7000",
                "--archive",
                &place,
                "--log-listen",
                "127.0.0.1:0",
                "--accelerated-database-recovery=off",
            ],
            "traditional recovery mode",
        ),
    ] {
        let text = said(&args);
        assert!(text.contains(expected), "{args:?}: {text}");
    }
}
