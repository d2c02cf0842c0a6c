//! Pages from whichever page server answers best.
//!
//! A page server says which partitions it has; it is asked again now and then, and says it with its refusal when it is asked for a page of
//! another one. Of those that have a page the one that has answered fastest of late is asked; one that fails is left alone for a moment, which
//! doubles while its failures take long: one that says no at once, as a process does that is not there or is about to begin, is asked again
//! soon, by one reader at a time. When none answers, the reader waits: a page server that dies is started again, or another one in its
//! place, and statements do not fail meanwhile. A statement that is told to stop waits no longer.
//!
//! Pages that nobody waits for yet are asked for many at once, from one of those who have them, for each partition; what is not given at once
//! is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_engine::{Had, RemotePages};
use resurgam_page::PageBuf;
use resurgam_pageserver::{PARTITION_PAGES_DEFAULT, Partitions};
use resurgam_rbio::{Answer, Client, Coverage, PAGES_MAX, Pages, Part, Peer, Request, Role, Tls};

use crate::part;

/// An answer is waited for for so long, before it is asked for again: the page server may have yet to apply log, or to fetch the page.
const ANSWER: Duration = Duration::from_secs(2);
/// Where there is another one to be asked, for so many times what an answer takes of late, but so long at least.
const SLOW: u32 = 50;
const ANSWER_LEAST: Duration = Duration::from_millis(100);
/// A page server waits for so long for the log that pages lack which are asked for ahead; others wait for those that it has.
const AHEAD_WAIT: Duration = Duration::from_millis(20);
/// A server that has failed is left alone for so long at first, and at most; and for so long between two questions until it answers.
const ALONE_FIRST: Duration = Duration::from_millis(20);
const ALONE_MAX: Duration = Duration::from_secs(1);
/// What failed within this has kept nobody waiting: it is tried again as soon as the first time.
const QUICK: Duration = Duration::from_millis(20);
/// Between two looks for a server that may be asked again.
const LOOK: Duration = Duration::from_millis(10);
/// Every so many requests another server is asked than the best one: it may have become better.
const EXPLORE: u64 = 64;
/// What a page server has is asked again after so long; where nobody has a page, after this.
const COVERAGE: Duration = Duration::from_secs(5);
const COVERAGE_MISSED: Duration = Duration::from_millis(200);

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct PageClientConfig {
    /// A reader waits for a page for so long when no page server answers; then its statement fails.
    pub patience: Duration,
    /// Pages of a partition. A page server that has partitions of another size is not asked.
    pub partition_pages: u64,
    /// A mistake that tests make on purpose: pages of a batch that was split are given under their numbers in what was split off.
    #[doc(hidden)]
    pub splits_badly: bool,
}

impl Default for PageClientConfig {
    fn default() -> Self {
        Self { patience: Duration::from_secs(60), partition_pages: PARTITION_PAGES_DEFAULT, splits_badly: false }
    }
}

/// A page server, as the primary sees it.
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    pub address: String,
    /// Pages that it has given, and requests that have failed.
    pub pages: u64,
    pub failures: u64,
    /// A moving mean of what an answer took.
    pub latency: Duration,
    /// Why it is left alone now.
    pub error: Option<String>,
    /// Which pages it has, how many of them it has to fetch yet, and how often it was asked for others, by anybody, as it has said last.
    pub partitions: Option<Partitions>,
    pub missing: u64,
    pub refused: u64,
    /// Times that it met a record before which one had been left out, as it has said last.
    pub gaps: u64,
    /// Times that it was asked from here for pages that it had no more.
    pub elsewhere: u64,
}

/// What a page server has said of itself.
#[derive(Default)]
struct Said {
    partitions: Option<Partitions>,
    /// When it was asked last.
    asked: Option<Instant>,
    missing: u64,
    refused: u64,
    gaps: u64,
    elsewhere: u64,
}

#[derive(Default)]
struct Health {
    pages: u64,
    failures: u64,
    latency: Duration,
    /// In a row.
    failed: u32,
    alone_until: Option<Instant>,
    error: Option<Error>,
}

struct Replica {
    client: Client,
    health: Mutex<Health>,
    said: Mutex<Said>,
    /// Pages of a partition of this database.
    partition_pages: u64,
}

/// Who may have a page.
enum Choice<'r> {
    /// The best one, and how long to wait for its answer.
    Ask(&'r Replica, Duration),
    /// Nobody that can be asked now.
    Wait,
    /// Nobody that has said what it has.
    Nobody,
}

/// See the module.
pub(crate) struct PageClient {
    replicas: Vec<Replica>,
    config: PageClientConfig,
    asked: AtomicU64,
    /// Behind the highest page that was asked for.
    end: AtomicU64,
}

impl PageClient {
    /// Nothing is connected yet.
    pub fn new(addresses: &[String], database: [u8; 16], config: PageClientConfig, tls: Option<&Arc<Tls>>) -> Self {
        let me = Peer { role: Role::Primary, database };
        let replicas = addresses.iter().map(|address| Replica {
            client: Client::new(address, me).with_tls(tls.cloned()),
            health: Mutex::default(),
            said: Mutex::default(),
            partition_pages: config.partition_pages,
        });
        Self { replicas: replicas.collect(), config, asked: Default::default(), end: Default::default() }
    }

    pub fn status(&self) -> Vec<ReplicaStatus> {
        self.replicas
            .iter()
            .map(|replica| {
                let said = replica.said.lock();
                let health = replica.health.lock();
                ReplicaStatus {
                    partitions: said.partitions.clone(),
                    missing: said.missing,
                    refused: said.refused,
                    gaps: said.gaps,
                    elsewhere: said.elsewhere,
                    address: replica.client.address().to_owned(),
                    pages: health.pages,
                    failures: health.failures,
                    latency: health.latency,
                    error: health.error.as_ref().map(ToString::to_string),
                }
            })
            .collect()
    }

    /// Behind the highest page that was asked for: the database is at least as long.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// The best one of those that are not left alone and have the page, or have not said what they have.
    fn choose(&self, page: PageId) -> Choice<'_> {
        let now = Instant::now();
        let others = self.asked.fetch_add(1, Ordering::Relaxed);
        let mut up = Vec::new();
        let mut nobody = true;
        for replica in self.replicas.iter().filter(|replica| replica.may_have(page)) {
            nobody = false;
            let health = replica.health.lock();
            if health.alone_until.is_none_or(|until| until <= now) {
                up.push((health.latency, replica));
            }
        }
        let explored = (others % EXPLORE == EXPLORE - 1 && !up.is_empty())
            .then(|| up.swap_remove((others / EXPLORE) as usize % up.len()));
        let is_one_of_many = up.len() + usize::from(explored.is_some()) > 1;
        match explored.or_else(|| up.into_iter().min_by_key(|(latency, _)| *latency)) {
            Some((latency, replica)) => {
                replica.is_tried(now);
                let time = if is_one_of_many { (latency * SLOW).clamp(ANSWER_LEAST, ANSWER) } else { ANSWER };
                Choice::Ask(replica, time)
            }
            None if nobody => Choice::Nobody,
            None => Choice::Wait,
        }
    }

    /// Nobody has the page who can be asked: whether one of the others says now that it does.
    fn look_again(&self, page: PageId, stop: Stop<'_>) -> bool {
        let mut found = false;
        for replica in self.replicas.iter().filter(|replica| !replica.may_have(page)) {
            let is_up = replica.health.lock().alone_until.is_none_or(|until| until <= Instant::now());
            found |= is_up && replica.learn(page, COVERAGE_MISSED, ANSWER_LEAST, stop).is_ok_and(|has| has);
        }
        found
    }

    /// A page, with its partition where there are several.
    fn name(&self, page: PageId) -> String {
        if self.replicas.iter().all(|replica| replica.said.lock().partitions.as_ref().is_none_or(Partitions::is_all)) {
            return format!("page {page}");
        }
        let pages = self.config.partition_pages;
        let number = page.0 / pages;
        let first = number * pages;
        format!("page {page} of partition {number} (pages {first} to {})", first.saturating_add(pages - 1))
    }

    #[cold]
    fn not_had(&self, page: PageId, nobody: bool) -> Error {
        let (name, count, patience) = (self.name(page), self.replicas.len(), self.config.patience);
        if nobody {
            return Error::new(
                ErrorKind::Io,
                format!("{name} was not had within {patience:?}: none of the {count} page servers has that partition"),
            )
            .with_hint("Start a page server that has it (--partitions), or name the one that does (--page-servers); the statement can be tried again.");
        }
        let last = self.replicas.iter().find_map(|replica| replica.health.lock().error.clone());
        let last = last.map_or_else(String::new, |error| format!(": {}", error.message()));
        Error::new(
            ErrorKind::Io,
            format!("{name} was not had within {patience:?} from any of {count} page servers{last}"),
        )
        .with_hint("See that a page server runs, and that it can reach this server; the statement can be tried again.")
    }
}

impl Replica {
    /// Whether it has the page, as far as is known.
    fn may_have(&self, page: PageId) -> bool {
        self.said.lock().partitions.as_ref().is_none_or(|of| of.covers(page))
    }

    /// Asks what it has, if it has not said so, or not of late; whether it has the page.
    fn learn(&self, page: PageId, after: Duration, time: Duration, stop: Stop<'_>) -> Result<bool> {
        {
            let mut said = self.said.lock();
            let is_late = said.asked.is_none_or(|asked| asked.elapsed() >= after);
            if !is_late && let Some(known) = &said.partitions {
                return Ok(known.covers(page));
            }
            // Others go by what is known meanwhile.
            said.asked = Some(Instant::now());
        }
        let begun = Instant::now();
        let outcome = match self.client.call_unless(&Request::Coverage, time, &|| stop().is_err()) {
            Ok(Answer::Coverage(coverage)) => self.says(&coverage.part).map(|()| coverage),
            Ok(_) => Err(Error::corrupt("an answer that is not which pages it has")),
            // One of a version before there were partitions has all.
            Err(error) if error.kind() == ErrorKind::NotSupported => {
                self.said.lock().partitions = Some(Partitions::all());
                Ok(Coverage::default())
            }
            Err(error) => {
                stop()?;
                Err(error)
            }
        };
        let Coverage { missing, refused, gaps, part: _ } =
            outcome.inspect_err(|error| self.failed(page, begun.elapsed(), error))?;
        let mut said = self.said.lock();
        (said.missing, said.refused, said.gaps) = (missing, refused, gaps);
        Ok(said.partitions.as_ref().is_some_and(|of| of.covers(page)))
    }

    /// It has said what it has.
    fn says(&self, part: &Part) -> Result<()> {
        let partitions = part::of_message(part)?;
        part::check_size(&partitions, self.partition_pages)?;
        let mut said = self.said.lock();
        if said.partitions.as_ref().is_some_and(|known| *known != partitions) {
            tracing::info!("the page server at {} has partitions {partitions} now", self.client.address());
        }
        said.partitions = Some(partitions);
        Ok(())
    }

    /// It has refused one of these pages, and said what it has.
    fn is_elsewhere(&self, wanted: &[(PageId, Lsn)], part: &Part) -> Result<()> {
        self.says(part)?;
        self.said.lock().elsewhere += 1;
        if wanted.iter().all(|(page, _)| self.may_have(*page)) {
            return Err(Error::corrupt("it has refused pages that it says it has"));
        }
        Ok(())
    }

    /// None: it does not have it, and says so.
    /// `have`: the LSN of a copy, whose page is not sent if it is the same; none: there is none.
    fn ask(
        &self,
        page: PageId,
        at_least: Lsn,
        have: Lsn,
        time: Duration,
        stop: Stop<'_>,
        buf: &mut PageBuf,
    ) -> Result<Option<Had>> {
        if !self.learn(page, COVERAGE, time, stop)? {
            return Ok(None);
        }
        let mut put = |pages: Pages<'_>| match pages {
            Pages::One(bytes) if bytes.len() == PAGE_SIZE => {
                buf.as_bytes_mut().copy_from_slice(bytes);
                true
            }
            _ => false,
        };
        // It says that it has not applied enough before it is given up on.
        let wait_ms = (time / 2).as_millis() as u32;
        let request = Request::GetPage { page, at_least, have, wait_ms };
        let begun = Instant::now();
        let outcome = match self.client.call_for_pages(&request, time, &|| stop().is_err(), &mut put) {
            // The reader looks at it once more. Here it is so that another server is asked for a good one.
            Ok(None) => buf
                .verify(page)
                .map(|()| Some(Had::Page))
                .map_err(|fault| Error::corrupt(format!("page {page}: {fault}"))),
            Ok(Some(Answer::NotModified)) if have.is_some() => Ok(Some(Had::NotModified)),
            Ok(Some(Answer::Elsewhere(part))) => self.is_elsewhere(&[(page, at_least)], &part).map(|()| None),
            Ok(Some(_)) => Err(Error::corrupt("an answer that is no page")),
            Err(error) => {
                // The server may be as good as any.
                stop()?;
                Err(error)
            }
        };
        match &outcome {
            Ok(Some(_)) => self.answered(1, Some(begun.elapsed())),
            Ok(None) => {}
            Err(error) => self.failed(page, begun.elapsed(), error),
        }
        outcome
    }

    /// Asks for pages, the first of which is named where it fails, and gives those that are had to `got`. When it says that it does not have one
    /// of them nothing is had.
    fn ask_for_many(
        &self,
        wanted: &[(PageId, Lsn)],
        time: Duration,
        stop: Stop<'_>,
        got: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let Some((first, _)) = wanted.first() else { return Ok(()) };
        let request = Request::GetPages { pages: wanted.to_vec(), wait_ms: AHEAD_WAIT.as_millis() as u32 };
        let (begun, mut count) = (Instant::now(), 0);
        let mut take = |pages: Pages<'_>| match pages {
            Pages::Many(pages) if pages.len() == wanted.len() => {
                let had = pages.iter().enumerate().filter(|(_, page)| !page.is_empty());
                count = had.map(|(at, page)| got(at, page)).count();
                true
            }
            _ => false,
        };
        let outcome = match self.client.call_for_pages(&request, time, &|| stop().is_err(), &mut take) {
            Ok(None) => {
                self.answered(count as u64, None);
                return Ok(());
            }
            Ok(Some(Answer::Elsewhere(part))) => self.is_elsewhere(wanted, &part),
            Ok(Some(_)) => Err(Error::corrupt("an answer that is not the pages asked for")),
            // One of the version before: one page after the other is better than each when it is needed.
            Err(error) if error.kind() == ErrorKind::NotSupported => {
                let mut buf = PageBuf::zeroed();
                for (at, (page, at_least)) in wanted.iter().enumerate() {
                    if self.ask(*page, *at_least, Lsn::NONE, time, stop, &mut buf)?.is_some() {
                        got(at, buf.as_bytes());
                    }
                }
                return Ok(());
            }
            Err(error) => {
                stop()?;
                Err(error)
            }
        };
        outcome.inspect_err(|error| self.failed(*first, begun.elapsed(), error))
    }

    /// It has given so many pages; `took`: one of them, since it was asked for.
    fn answered(&self, pages: u64, took: Option<Duration>) {
        let mut health = self.health.lock();
        if health.failed > 0 {
            tracing::info!("the page server at {} answers again", self.client.address());
        }
        (health.failed, health.alone_until, health.error) = (0, None, None);
        if let Some(took) = took {
            health.latency = if health.latency.is_zero() { took } else { (health.latency * 7 + took) / 8 };
        }
        health.pages += pages;
    }

    /// It is about to be asked: while it fails, by one after the other.
    fn is_tried(&self, now: Instant) {
        let mut health = self.health.lock();
        if health.failed > 0 {
            health.alone_until = Some(now + ALONE_FIRST);
        }
    }

    /// It has not given the page, which `took` so long.
    fn failed(&self, page: PageId, took: Duration, error: &Error) {
        let mut health = self.health.lock();
        if health.failed == 0 {
            tracing::warn!("the page server at {} does not give page {page}: {error}", self.client.address());
        }
        let alone = match took < QUICK {
            true => ALONE_FIRST,
            false => ALONE_FIRST.saturating_mul(1 << health.failed.min(10)).min(ALONE_MAX),
        };
        health.alone_until = Some(Instant::now() + alone);
        health.failed += 1;
        health.failures += 1;
        health.error = Some(error.clone());
    }
}

/// What says that the reader waits no longer.
type Stop<'a> = &'a dyn Fn() -> Result<()>;

impl RemotePages for PageClient {
    fn get_page(&self, page: PageId, at_least: Lsn, stop: Stop<'_>, buf: &mut PageBuf) -> Result<()> {
        self.get_page_unless(page, at_least, Lsn::NONE, stop, buf).map(drop)
    }

    fn get_page_unless(
        &self,
        page: PageId,
        at_least: Lsn,
        have: Lsn,
        stop: Stop<'_>,
        buf: &mut PageBuf,
    ) -> Result<Had> {
        let until = Instant::now() + self.config.patience;
        self.end.fetch_max(page.0.saturating_add(1), Ordering::Relaxed);
        let (mut corrupt, mut said) = (0, false);
        loop {
            let choice = self.choose(page);
            let outcome = match choice {
                Choice::Ask(replica, time) => replica.ask(page, at_least, have, time, stop, buf).map_err(|error| {
                    let (name, address) = (self.name(page), replica.client.address());
                    let what = format!("{name} was not had from the page server at {address}: {}", error.message());
                    Error::new(error.kind(), what)
                }),
                Choice::Wait | Choice::Nobody => {
                    let nobody = matches!(choice, Choice::Nobody);
                    if self.look_again(page, stop) {
                        continue;
                    }
                    if nobody && !said {
                        tracing::warn!("{} is waited for: no page server has that partition", self.name(page));
                        said = true;
                    }
                    stop()?;
                    std::thread::sleep(LOOK);
                    if Instant::now() < until {
                        continue;
                    }
                    return Err(self.not_had(page, nobody));
                }
            };
            if outcome.is_err() {
                stop()?;
            }
            match outcome {
                Ok(Some(had)) => return Ok(had),
                Ok(None) if Instant::now() >= until => return Err(self.not_had(page, true)),
                Ok(None) => {}
                // A page that none of them has sound.
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    corrupt += 1;
                    if corrupt > self.replicas.len() {
                        return Err(error);
                    }
                }
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => {}
            }
        }
    }

    fn most_at_once(&self) -> usize {
        PAGES_MAX
    }

    fn get_pages(&self, wanted: &[(PageId, Lsn)], stop: Stop<'_>, got: &mut dyn FnMut(usize, &[u8])) {
        let mut rest: Vec<usize> = (0..wanted.len()).collect();
        while let Some(first) = rest.first().copied() {
            // Nobody is known to have it: it is looked for when it is needed.
            let Choice::Ask(replica, time) = self.choose(wanted[first].0) else {
                rest.remove(0);
                continue;
            };
            if !matches!(replica.learn(wanted[first].0, COVERAGE, time, stop), Ok(true)) {
                rest.remove(0);
                continue;
            }
            let together = |at: &usize| replica.may_have(wanted[*at].0);
            let (now, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(together);
            rest = later;
            if now.is_empty() {
                // It has said otherwise meanwhile.
                continue;
            }
            let some: Vec<_> = now.iter().map(|at| wanted[*at]).collect();
            // They are more bytes than one.
            let _ = replica.ask_for_many(&some, (time * 2).min(ANSWER), stop, &mut |at, page| {
                got(if self.config.splits_badly { at } else { now[at] }, page);
            });
            if stop().is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use resurgam_base::ObjectId;
    use resurgam_page::{PageType, op};
    use resurgam_rbio::{Hello, Server, ServerConfig, Service};

    use super::*;

    /// Has pages with even numbers, and counts what it is asked for: one page, and many.
    #[derive(Default)]
    struct Even(Mutex<(u32, u32)>);

    fn page(id: PageId) -> Vec<u8> {
        let (mut page, mut ops) = (PageBuf::zeroed(), Vec::new());
        op::format(&mut ops, PageType::Leaf, 0, ObjectId(7), &[], None);
        op::apply(&mut page, id, &ops, Lsn(5)).expect("a page");
        page.seal();
        page.as_bytes().to_vec()
    }

    impl Service for Even {
        fn hello(&self, _: Role) -> Result<Hello> {
            Ok(Hello { version: 0, role: Role::PageServer, database: [5; 16], first: Lsn(1), segment_bytes: 1 << 20 })
        }
        fn answer(&self, request: &Request, _: &dyn Fn() -> bool) -> Result<Answer> {
            let mut asked = self.0.lock();
            match request {
                Request::GetPage { page: id, .. } => {
                    asked.0 += 1;
                    Ok(Answer::Page(page(*id)))
                }
                Request::GetPages { pages, .. } => {
                    asked.1 += 1;
                    let even = |id: PageId| if id.0.is_multiple_of(2) { page(id) } else { Vec::new() };
                    Ok(Answer::Pages(pages.iter().map(|(id, _)| even(*id)).collect()))
                }
                Request::Coverage => {
                    Ok(Answer::Coverage(Coverage { part: part::to_message(&Partitions::all()), ..Coverage::default() }))
                }
                _ => Err(Error::new(ErrorKind::NotSupported, "no")),
            }
        }
    }

    /// A page server of this version gives many at once; one of the version before each by itself, all the same.
    #[test]
    fn neighbours_give_pages_ahead() {
        for (newest, had, asked) in
            [(4, vec![0, 2, 4], (0, 1)), (3, vec![0, 2, 4], (0, 1)), (2, vec![0, 1, 2, 3, 4], (5, 0))]
        {
            let service = Arc::new(Even::default());
            let config = ServerConfig { newest, ..ServerConfig::default() };
            let server = Server::start("127.0.0.1:0", config, Arc::clone(&service) as _).expect("a server");
            let client = PageClient::new(&[server.address().to_string()], [5; 16], PageClientConfig::default(), None);
            let wanted: Vec<_> = (2..7).map(|id| (PageId(id), Lsn(1))).collect();
            let mut got = Vec::new();
            client.get_pages(&wanted, &|| Ok(()), &mut |at, bytes| {
                assert_eq!(bytes, page(wanted[at].0));
                got.push(at);
            });
            assert_eq!((got, *service.0.lock()), (had, asked), "version {newest}");
            let status = &client.status()[0];
            assert!(status.failures == 0 && status.pages > 0 && status.error.is_none(), "{status:?}");
        }
    }

    /// Has the pages of some partitions of four pages; those are others after a while.
    struct Some(Mutex<(Partitions, u32)>);

    impl Service for Some {
        fn hello(&self, _: Role) -> Result<Hello> {
            Ok(Hello { version: 0, role: Role::PageServer, database: [5; 16], first: Lsn(1), segment_bytes: 1 << 20 })
        }
        fn answer(&self, request: &Request, _: &dyn Fn() -> bool) -> Result<Answer> {
            let mut state = self.0.lock();
            let has = |id: &PageId| state.0.covers(*id);
            match request {
                Request::GetPage { page: id, .. } if has(id) => Ok(Answer::Page(page(*id))),
                Request::GetPages { pages, .. } if pages.iter().all(|(id, _)| has(id)) => {
                    state.1 += 1;
                    Ok(Answer::Pages(pages.iter().map(|(id, _)| page(*id)).collect()))
                }
                Request::GetPage { .. } | Request::GetPages { .. } => Ok(Answer::Elsewhere(part::to_message(&state.0))),
                Request::Coverage => {
                    Ok(Answer::Coverage(Coverage { part: part::to_message(&state.0), ..Coverage::default() }))
                }
                _ => Err(Error::new(ErrorKind::NotSupported, "no")),
            }
        }
    }

    fn some(partitions: &[(u64, u32, &[u32])]) -> (Vec<Arc<Some>>, Vec<Server>, Vec<String>) {
        let of = |(pages, count, numbers): &(u64, u32, &[u32])| {
            Arc::new(Some(Mutex::new((Partitions::new(*pages, *count, numbers).expect("partitions"), 0))))
        };
        let services: Vec<_> = partitions.iter().map(of).collect();
        let start = |service: &Arc<Some>| {
            Server::start("127.0.0.1:0", ServerConfig::default(), Arc::clone(service) as _).expect("a server")
        };
        let servers: Vec<_> = services.iter().map(start).collect();
        let addresses = servers.iter().map(|server| server.address().to_string()).collect();
        (services, servers, addresses)
    }

    fn client(addresses: &[String], splits_badly: bool) -> PageClient {
        let patience = Duration::from_millis(300);
        PageClient::new(addresses, [5; 16], PageClientConfig { patience, partition_pages: 4, splits_badly }, None)
    }

    /// What a batch over the borders of partitions brings, and whether each page is at its place.
    fn batch(client: &PageClient, first: u64, count: u64) -> (usize, bool) {
        let wanted: Vec<_> = (first..first + count).map(|id| (PageId(id), Lsn(1))).collect();
        let (mut had, mut right) = (0, true);
        client.get_pages(&wanted, &|| Ok(()), &mut |at, bytes| {
            had += 1;
            right &= bytes == page(wanted[at].0);
        });
        (had, right)
    }

    #[test]
    fn a_batch_is_split_over_partitions() {
        let (services, _servers, addresses) = some(&[(4, 3, &[0]), (4, 3, &[1]), (4, 3, &[2])]);
        let right = client(&addresses, false);
        assert_eq!(batch(&right, 2, 40), (40, true));
        assert!(services.iter().all(|service| service.0.lock().1 == 1), "one request each");
        // One of them is not there: what the others have comes all the same.
        let addresses = [addresses[0].clone(), addresses[1].clone(), "127.0.0.1:1".to_owned()];
        assert_eq!(batch(&client(&addresses, false), 0, 24), (16, true));
        // A mistake is seen: pages at other places than their own.
        let (had, is_right) = batch(&client(&addresses, true), 2, 40);
        assert!(had > 0 && !is_right);
    }

    /// Whoever has other partitions than is believed says so, and is believed.
    #[test]
    fn a_stale_map_is_mended() {
        let (services, _servers, addresses) = some(&[(4, 2, &[0]), (4, 2, &[1])]);
        let client = client(&addresses, false);
        let mut buf = PageBuf::zeroed();
        let mut get = |id| client.get_page(PageId(id), Lsn(1), &|| Ok(()), &mut buf);
        (0..64).for_each(|id| get(id).expect("a page"));
        let swap = |a: u32, b: u32| {
            services[0].0.lock().0 = Partitions::new(4, 2, &[a]).expect("partitions");
            services[1].0.lock().0 = Partitions::new(4, 2, &[b]).expect("partitions");
        };
        swap(1, 0);
        (0..64).for_each(|id| get(id).expect("a page"));
        assert!(client.status().iter().any(|status| status.elsewhere > 0));
        assert!(client.status().iter().all(|status| status.failures == 0));
        // A batch that meets it is not insisted on; when the pages were needed the next one is right.
        swap(0, 1);
        assert!(batch(&client, 0, 16).1);
        (0..16).for_each(|id| get(id).expect("a page"));
        assert_eq!(batch(&client, 0, 16), (16, true));
        // A partition that nobody has any more is said, in time, and is had when somebody has it.
        services[1].0.lock().0 = Partitions::new(4, 2, &[0]).expect("partitions");
        let begun = Instant::now();
        let error = get(13).expect_err("nobody has it");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let text =
            "page 13 of partition 3 (pages 12 to 15) was not had within 300ms: none of the 2 page servers has that";
        assert!(error.kind() == ErrorKind::Io && error.message().starts_with(text), "{error}");
        assert!(get(16).is_ok() && error.hint().is_some());
        services[1].0.lock().0 = Partitions::all();
        get(13).expect("a page");
    }

    /// Partitions of another size, or that cannot be, are refused by name.
    #[test]
    fn another_size_of_partitions_is_refused() {
        let (_services, _servers, addresses) = some(&[(8, 2, &[0]), (4, 2, &[1])]);
        let client = client(&addresses, false);
        let mut buf = PageBuf::zeroed();
        let error = client.get_page(PageId(1), Lsn(1), &|| Ok(()), &mut buf).expect_err("another size");
        assert!(error.message().contains("partitions of 8 pages, and those of this database have 4"), "{error}");
        client.get_page(PageId(4), Lsn(1), &|| Ok(()), &mut buf).expect("a page");
        assert!(part::of_message(&Part { pages: 3, count: 2, numbers: vec![0] }).is_err());
    }

    /// One that is not there is asked again soon, however long it stays away, and by one reader at a time.
    #[test]
    fn one_that_comes_back_is_found_soon() {
        let hold = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = hold.local_addr().expect("an address");
        drop(hold);
        let client = client(&[address.to_string()], false);
        let client =
            PageClient { config: PageClientConfig { patience: Duration::from_secs(20), ..client.config }, ..client };
        let readers = 8;
        let (came, found) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..readers)
                .map(|id| {
                    let client = &client;
                    scope.spawn(move || {
                        let mut buf = PageBuf::zeroed();
                        client.get_page(PageId(id), Lsn(1), &|| Ok(()), &mut buf).expect("a page");
                        Instant::now()
                    })
                })
                .collect();
            // With a pause that doubles the next look would be half a second later.
            std::thread::sleep(Duration::from_millis(700));
            let service = Arc::new(Some(Mutex::new((Partitions::new(4, 1, &[0]).expect("partitions"), 0))));
            let server = Server::start(&address.to_string(), ServerConfig::default(), service as _);
            let came = Instant::now();
            let found = threads.into_iter().filter_map(|thread| thread.join().ok()).max();
            drop(server);
            (came, found.expect("a reader"))
        });
        let after = found.saturating_duration_since(came);
        assert!(after < Duration::from_millis(250), "{after:?}");
        // Some 700 / 20, and the first question of each.
        let failures = client.status()[0].failures;
        assert!((8..=35 + readers + 10).contains(&failures), "{failures}");
    }

    /// One that does not answer is left alone, and so is what was asked of it.
    #[test]
    fn pages_ahead_are_not_insisted_on() {
        let client = PageClient::new(&["127.0.0.1:1".to_owned()], [5; 16], PageClientConfig::default(), None);
        let begun = Instant::now();
        client.get_pages(&[(PageId(1), Lsn(1))], &|| Ok(()), &mut |_, _| panic!("nobody is there"));
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(client.status()[0].failures, 1);
    }
}
