//! Pages from whichever page server answers best.
//!
//! A page server says which partitions it has; it is asked again now and then, and says it with its refusal when it is asked for a page of
//! another one. Of those that have a page the best one is asked, by what its answers take, by how much it has to do, and by how far it has applied
//! the log, which it says with each answer (`choice.rs`); one that fails is left alone for a moment, which
//! doubles while its failures take long: one that says no at once, as a process does that is not there or is about to begin, is asked again
//! soon, by one reader at a time. When none answers, the reader waits: a page server that dies is started again, or another one in its
//! place, and statements do not fail meanwhile. A statement that is told to stop waits no longer.
//!
//! Pages that nobody waits for yet are asked for many at once, from one of those who have them, for each partition; what is not given at once
//! is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_engine::{Had, RemotePages};
use resurgam_page::PageBuf;
use resurgam_pageserver::{PARTITION_PAGES_DEFAULT, Partitions};
use resurgam_rbio::{Answer, Client, Coverage, PAGES_MAX, Pages, Part, Peer, Request, Role, Tls};

use crate::choice::{self, Candidate, Choice as Chosen};
use crate::part;

/// An answer is waited for for so long, before it is asked for again: the page server may have yet to apply log, or to fetch the page.
const ANSWER: Duration = Duration::from_secs(2);
/// Where there is another one to be asked, for so many times what an answer takes of late, but so long at least.
const SLOW: u32 = 50;
const ANSWER_LEAST: Duration = Duration::from_millis(100);
/// Where another one may have the page, a page server waits for so long for the log that it lacks: less than a reader waits without a look
/// whether to go on.
const BRIEF: Duration = Duration::from_millis(15);
/// A page server waits for so long for the log that pages lack which are asked for ahead; others wait for those that it has.
const AHEAD_WAIT: Duration = Duration::from_millis(20);
/// A server that has failed is left alone for so long at first, and at most; and for so long between two questions until it answers.
const ALONE_FIRST: Duration = Duration::from_millis(20);
const ALONE_MAX: Duration = Duration::from_secs(1);
/// What failed within this has kept nobody waiting: it is tried again as soon as the first time.
const QUICK: Duration = Duration::from_millis(20);
/// Between two looks for a server that may be asked again.
const LOOK: Duration = Duration::from_millis(10);
/// What a page server has said to have to do counts for so long; what is asked of it from here counts while it is.
const LOAD: Duration = Duration::from_secs(1);
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
    /// A mistake that tests make on purpose: how far a page server is does not matter to the choice.
    #[doc(hidden)]
    pub ignores_lag: bool,
}

impl Default for PageClientConfig {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(60),
            partition_pages: PARTITION_PAGES_DEFAULT,
            splits_badly: false,
            ignores_lag: false,
        }
    }
}

/// A page server, as the primary sees it.
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    pub address: String,
    /// Pages that it has given, and requests that have failed, or that nobody has waited for when it was tried again.
    pub pages: u64,
    pub failures: u64,
    /// A moving mean of what an answer took.
    pub latency: Duration,
    /// Requests that it works on, as it has said last, or from here.
    pub load: u32,
    /// It has applied all log below, as it has said last; none: it has not said so.
    pub applied: Option<Lsn>,
    /// Times that it was asked though it was not the best, to see whether it is now; and that it was not asked though it answers fastest,
    /// because it lagged.
    pub tried_again: u64,
    pub passed_over: u64,
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
    /// When it was asked last.
    asked: Option<Instant>,
    /// As it has said last, and when: requests that it works on.
    load: Option<(Instant, u32)>,
    /// All log below is applied there, and how far that was behind the furthest of all.
    applied: Lsn,
    behind: u64,
    /// It has refused a page because it lagged, when all log below that was applied there.
    refused: Option<Lsn>,
    tried_again: u64,
    passed_over: u64,
}

struct Replica {
    client: Client,
    health: Mutex<Health>,
    said: Mutex<Said>,
    /// Requests that are asked of it from here.
    in_flight: AtomicU32,
    /// It is asked how far it is.
    looking: AtomicBool,
    /// Of all page servers: how far the furthest has said to be.
    furthest: Arc<Furthest>,
    /// Pages of a partition of this database.
    partition_pages: u64,
}

/// How far the furthest has said to be.
#[derive(Default)]
struct Furthest {
    applied: AtomicU64,
    /// Up to where the log is durable here; none: it is not known.
    durable: Option<Durable>,
}

/// Says up to where the log is durable.
type Durable = Box<dyn Fn() -> Lsn + Send + Sync>;

/// A request that is asked of a page server.
struct InFlight<'r>(&'r AtomicU32);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a page server is asked.
#[derive(Clone, Copy)]
struct Terms {
    /// So long its answer is waited for.
    time: Duration,
    /// It is to say soon that it lags.
    is_brief: bool,
    /// It is not the best one, and is tried again.
    is_again: bool,
}

/// Who may have a page.
enum Choice<'r> {
    Ask(&'r Replica, Terms),
    /// Nobody that can be asked now.
    Wait,
    /// Nobody that has said what it has.
    Nobody,
}

/// See the module.
pub(crate) struct PageClient {
    replicas: Vec<Arc<Replica>>,
    config: PageClientConfig,
    furthest: Arc<Furthest>,
    /// Behind the highest page that was asked for.
    end: AtomicU64,
}

impl PageClient {
    /// Nothing is connected yet.
    #[cfg(test)]
    pub fn new(addresses: &[String], database: [u8; 16], config: PageClientConfig, tls: Option<&Arc<Tls>>) -> Self {
        Self::with_log(addresses, database, config, tls, None)
    }

    /// As [`PageClient::new`]; one that says to be ahead of what is durable, as an old copy does or another database's, is not believed.
    pub fn with_log(
        addresses: &[String],
        database: [u8; 16],
        config: PageClientConfig,
        tls: Option<&Arc<Tls>>,
        durable: Option<Durable>,
    ) -> Self {
        let me = Peer { role: Role::Primary, database };
        let furthest = Arc::new(Furthest { applied: AtomicU64::new(0), durable });
        let replica = |address: &String| Replica {
            client: Client::new(address, me).with_tls(tls.cloned()),
            health: Mutex::default(),
            said: Mutex::default(),
            in_flight: AtomicU32::new(0),
            looking: AtomicBool::new(false),
            furthest: Arc::clone(&furthest),
            partition_pages: config.partition_pages,
        };
        let replicas = addresses.iter().map(|address| Arc::new(replica(address)));
        Self { replicas: replicas.collect(), config, furthest, end: Default::default() }
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
                    load: replica.load(&health),
                    applied: health.applied.is_some().then_some(health.applied),
                    tried_again: health.tried_again,
                    passed_over: health.passed_over,
                    error: health.error.as_ref().map(ToString::to_string),
                }
            })
            .collect()
    }

    /// Behind the highest page that was asked for: the database is at least as long.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// The best one of those that are not left alone and have the page, or have not said what they have; now and then another one, where one page
    /// is asked for (`tries`): what many take says little of what one does.
    fn choose(&self, page: PageId, at_least: Lsn, tries: bool) -> Choice<'_> {
        loop {
            let now = Instant::now();
            let (mut up, mut candidates) = (Vec::new(), Vec::new());
            let mut nobody = true;
            for replica in self.replicas.iter().filter(|replica| replica.may_have(page)) {
                nobody = false;
                let health = replica.health.lock();
                if health.alone_until.is_none_or(|until| until <= now) {
                    up.push((replica, health.asked));
                    candidates.push(replica.candidate(&health, now, self.config.ignores_lag));
                }
            }
            let furthest = Lsn(self.furthest.applied.load(Ordering::Relaxed));
            let chosen = match choice::choose(&candidates, at_least, furthest, tries) {
                None if nobody => return Choice::Nobody,
                None => return Choice::Wait,
                Some(chosen) => chosen,
            };
            let (number, is_again) = match chosen {
                Chosen::Best { number, passed } => {
                    if let Some((passed, _)) = passed.and_then(|passed| up.get(passed)) {
                        passed.health.lock().passed_over += 1;
                    }
                    (number, false)
                }
                Chosen::Again(number) | Chosen::Look(number) => (number, true),
            };
            let Some((replica, asked)) = up.get(number).copied() else { return Choice::Wait };
            let (one, is_spare) = (candidates[number], choice::is_spare(&candidates, number));
            let time = match up.len() {
                1 => ANSWER,
                // Who reads is not to lose much by one that fails while another one does not.
                _ if one.fails && is_spare => ANSWER_LEAST,
                // What it takes is to be known once: a first connection takes several times what an answer does.
                _ if one.latency.is_zero() && is_again => ANSWER,
                _ => one.latency.saturating_mul(SLOW).clamp(ANSWER_LEAST, ANSWER),
            };
            // While it fails others go elsewhere until it has answered, where they can.
            let alone = if is_spare { time + QUICK } else { ALONE_FIRST };
            if !replica.is_tried(now, is_again.then_some(asked), alone) {
                // Another reader tries it.
                continue;
            }
            if matches!(chosen, Chosen::Look(_)) {
                replica.look(page);
                continue;
            }
            let is_brief = choice::is_brief(&candidates, number, is_again, at_least, furthest);
            return Choice::Ask(replica, Terms { time, is_brief, is_again });
        }
    }

    /// Nobody has the page who can be asked: whether one of the others says now that it does.
    fn look_again(&self, page: PageId, stop: Stop<'_>) -> bool {
        let mut found = false;
        for replica in self.replicas.iter().filter(|replica| !replica.may_have(page)) {
            let is_up = replica.health.lock().alone_until.is_none_or(|until| until <= Instant::now());
            let terms = Terms { time: ANSWER_LEAST, is_brief: false, is_again: false };
            found |= is_up && replica.learn(page, COVERAGE_MISSED, terms, stop).is_ok_and(|has| has);
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
    /// What is known of it for the choice.
    fn candidate(&self, health: &Health, now: Instant, ignores_lag: bool) -> Candidate {
        Candidate {
            latency: health.latency,
            load: self.load(health),
            applied: health.applied,
            behind: health.behind,
            not_asked_for: health.asked.map(|asked| now.saturating_duration_since(asked)),
            fails: health.failed > 0,
            refused: health.refused.is_some_and(|at| health.applied <= at),
            ignores_lag,
        }
    }

    /// Requests that it works on: from here, or of all, as it has said a moment ago.
    fn load(&self, health: &Health) -> u32 {
        let said = health.load.filter(|(at, _)| at.elapsed() < LOAD).map_or(0, |(_, load)| load);
        said.max(self.in_flight.load(Ordering::Relaxed))
    }

    /// Until that is dropped.
    fn is_asked(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(&self.in_flight)
    }

    /// What it has said of how it does since then, if it has answered.
    fn hears(&self, begun: Instant) {
        let Some((at, standing)) = self.client.standing() else {
            // It speaks a version that does not say so, and may have spoken a later one before.
            let mut health = self.health.lock();
            (health.load, health.applied, health.behind, health.refused) = (None, Lsn::NONE, 0, None);
            return;
        };
        if at < begun {
            return;
        }
        let is_ahead = self.furthest.durable.as_ref().is_some_and(|durable| standing.applied > durable());
        let applied = if is_ahead { Lsn::NONE } else { standing.applied };
        let furthest = self.furthest.applied.fetch_max(applied.0, Ordering::Relaxed);
        let mut health = self.health.lock();
        health.load = Some((at, standing.load));
        health.applied = applied;
        health.behind = if is_ahead { u64::MAX } else { furthest.saturating_sub(applied.0) };
    }

    /// Whether it has the page, as far as is known.
    fn may_have(&self, page: PageId) -> bool {
        self.said.lock().partitions.as_ref().is_none_or(|of| of.covers(page))
    }

    /// Asks what it has, if it has not said so, or not of late; whether it has the page.
    fn learn(&self, page: PageId, after: Duration, terms: Terms, stop: Stop<'_>) -> Result<bool> {
        {
            let mut said = self.said.lock();
            let is_late = said.asked.is_none_or(|asked| asked.elapsed() >= after);
            if !is_late && let Some(known) = &said.partitions {
                return Ok(known.covers(page));
            }
            // Others go by what is known meanwhile.
            said.asked = Some(Instant::now());
        }
        let (begun, _asked) = (Instant::now(), self.is_asked());
        let answer = self.client.call_unless(&Request::Coverage, terms.time, &|| stop().is_err());
        self.hears(begun);
        let outcome = match answer {
            Ok(Answer::Coverage(coverage)) => self.says(&coverage.part).map(|()| coverage),
            Ok(_) => Err(Error::corrupt("an answer that is not which pages it has")),
            // One of a version before there were partitions has all.
            Err(error) if error.kind() == ErrorKind::NotSupported => {
                self.said.lock().partitions = Some(Partitions::all());
                Ok(Coverage::default())
            }
            Err(error) => {
                self.is_waited_for(begun, terms, stop)?;
                Err(error)
            }
        };
        let Coverage { missing, refused, gaps, part: _ } =
            outcome.inspect_err(|error| self.failed(page, begun, error))?;
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
        terms: Terms,
        stop: Stop<'_>,
        buf: &mut PageBuf,
    ) -> Result<Option<Had>> {
        let Terms { time, is_brief, is_again } = terms;
        if !self.learn(page, COVERAGE, terms, stop)? {
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
        let wait_ms = if is_brief { BRIEF } else { time / 2 }.as_millis() as u32;
        let request = Request::GetPage { page, at_least, have, wait_ms };
        let (begun, _asked) = (Instant::now(), self.is_asked());
        let answer = self.client.call_for_pages(&request, time, &|| stop().is_err(), &mut put);
        self.hears(begun);
        let outcome = match answer {
            // The reader looks at it once more. Here it is so that another server is asked for a good one.
            Ok(None) => buf
                .verify(page)
                .map(|()| Some(Had::Page))
                .map_err(|fault| Error::corrupt(format!("page {page}: {fault}"))),
            Ok(Some(Answer::NotModified)) if have.is_some() => Ok(Some(Had::NotModified)),
            Ok(Some(Answer::Elsewhere(part))) => self.is_elsewhere(&[(page, at_least)], &part).map(|()| None),
            Ok(Some(_)) => Err(Error::corrupt("an answer that is no page")),
            Err(error) if is_brief && error.kind() == ErrorKind::Io && self.lags(begun, at_least) => return Err(error),
            Err(error) => {
                self.is_waited_for(begun, terms, stop)?;
                Err(error)
            }
        };
        match &outcome {
            Ok(Some(_)) => self.answered(1, Some((begun.elapsed(), is_again))),
            Ok(None) => {}
            Err(error) => self.failed(page, begun, error),
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
        let (begun, _asked, mut count) = (Instant::now(), self.is_asked(), 0);
        let mut take = |pages: Pages<'_>| match pages {
            Pages::Many(pages) if pages.len() == wanted.len() => {
                let had = pages.iter().enumerate().filter(|(_, page)| !page.is_empty());
                count = had.map(|(at, page)| got(at, page)).count();
                true
            }
            _ => false,
        };
        let answer = self.client.call_for_pages(&request, time, &|| stop().is_err(), &mut take);
        self.hears(begun);
        let outcome = match answer {
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
                    let terms = Terms { time, is_brief: false, is_again: false };
                    if self.ask(*page, *at_least, Lsn::NONE, terms, stop, &mut buf)?.is_some() {
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
        outcome.inspect_err(|error| self.failed(*first, begun, error))
    }

    /// Asks how far it is, beside whoever reads: it says so with its answer. That it fails is noted; that it does not, as well: who lags does
    /// not fail.
    fn look(self: &Arc<Self>, page: PageId) {
        if self.looking.swap(true, Ordering::SeqCst) {
            return;
        }
        let looks = Looks(Arc::clone(self));
        let body = move || {
            let replica = &looks.0;
            let (begun, _asked) = (Instant::now(), replica.is_asked());
            // Of the first version, and answered at once whatever else it does.
            let answer = replica.client.call(&Request::Position, ANSWER);
            replica.hears(begun);
            match answer {
                Err(error) if error.kind() != ErrorKind::NotSupported => replica.failed(page, begun, &error),
                _ => replica.answered(0, None),
            }
        };
        // Where there is no thread to be had it is asked another time.
        let _ = std::thread::Builder::new().name("resurgam-look".into()).spawn(body);
    }

    /// Its answer has failed: whether somebody waits for it still. Nobody does who has tried it again and was to look whether to go on: it takes so
    /// long at least, and is tried again after as many times that.
    ///
    /// # Errors
    /// That of `stop`: the server may be as good as any.
    fn is_waited_for(&self, begun: Instant, terms: Terms, stop: Stop<'_>) -> Result<()> {
        let stopped = stop();
        if stopped.is_err() && terms.is_again {
            let took = begun.elapsed();
            let mut health = self.health.lock();
            health.latency = health.latency.max(took);
            health.failures += 1;
            if health.failed > 0 {
                health.leave_alone(took);
            }
        }
        stopped
    }

    /// It was asked `since` then, and has refused the page because it lags: others are asked until it has gone on.
    fn lags(&self, since: Instant, at_least: Lsn) -> bool {
        let has_said = self.client.standing().is_some_and(|(at, _)| at >= since);
        let mut health = self.health.lock();
        let lags = has_said && health.applied.is_some() && health.applied <= at_least;
        if lags {
            health.refused = Some(health.applied);
            health.failures += 1;
        }
        lags
    }

    /// It has given so many pages; `took`: one of them, since it was asked for, and whether it had not been asked for a while.
    fn answered(&self, pages: u64, took: Option<(Duration, bool)>) {
        let mut health = self.health.lock();
        if health.failed > 0 {
            tracing::info!("the page server at {} answers again", self.client.address());
        }
        (health.failed, health.alone_until, health.error) = (0, None, None);
        if let Some((took, is_again)) = took {
            health.latency = choice::smoothed(health.latency, took, is_again);
        }
        health.pages += pages;
    }

    /// It is about to be asked: while it fails, by one after the other, and by nobody else for `alone`. `again`: it is tried again, for it was
    /// asked last then; false: somebody else has begun to.
    fn is_tried(&self, now: Instant, again: Option<Option<Instant>>, alone: Duration) -> bool {
        let mut health = self.health.lock();
        if let Some(asked) = again {
            if health.asked != asked {
                return false;
            }
            health.tried_again += 1;
        }
        health.asked = Some(now);
        if health.failed > 0 {
            health.alone_until = Some(now + alone);
        }
        true
    }

    /// It has not given the page for which it was asked then.
    fn failed(&self, page: PageId, begun: Instant, error: &Error) {
        let has_said = self.client.standing().is_some_and(|(at, _)| at >= begun);
        let mut health = self.health.lock();
        if !has_said {
            // When it answers again it may be another one, which is less far.
            (health.applied, health.behind, health.refused) = (Lsn::NONE, 0, None);
        }
        if health.failed == 0 {
            tracing::warn!("the page server at {} does not give page {page}: {error}", self.client.address());
        }
        health.leave_alone(begun.elapsed());
        health.failures += 1;
        health.error = Some(error.clone());
    }
}

impl Health {
    /// It has failed, which took so long.
    fn leave_alone(&mut self, took: Duration) {
        let alone = match took < QUICK {
            true => ALONE_FIRST,
            false => ALONE_FIRST.saturating_mul(1 << self.failed.min(10)).min(ALONE_MAX),
        };
        self.alone_until = Some(Instant::now() + alone);
        self.failed += 1;
    }
}

/// A look at one, until that is dropped.
struct Looks(Arc<Replica>);

impl Drop for Looks {
    fn drop(&mut self) {
        self.0.looking.store(false, Ordering::SeqCst);
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
            let choice = self.choose(page, at_least, true);
            let outcome = match choice {
                Choice::Ask(replica, terms) => replica.ask(page, at_least, have, terms, stop, buf).map_err(|error| {
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
            let newest = rest.iter().map(|at| wanted[*at].1).max().unwrap_or_default();
            let Choice::Ask(replica, terms) = self.choose(wanted[first].0, newest, false) else {
                rest.remove(0);
                continue;
            };
            if !matches!(replica.learn(wanted[first].0, COVERAGE, terms, stop), Ok(true)) {
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
            let _ = replica.ask_for_many(&some, (terms.time * 2).min(ANSWER), stop, &mut |at, page| {
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
        for (newest, had, asked) in [
            (5, vec![0, 2, 4], (0, 1)),
            (4, vec![0, 2, 4], (0, 1)),
            (3, vec![0, 2, 4], (0, 1)),
            (2, vec![0, 1, 2, 3, 4], (5, 0)),
        ] {
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
        PageClient::new(
            addresses,
            [5; 16],
            PageClientConfig { patience, partition_pages: 4, splits_badly, ..PageClientConfig::default() },
            None,
        )
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

    /// Says that it has applied more than it has, or is ahead of the log.
    struct Says(u64, Mutex<u32>);

    impl Service for Says {
        fn hello(&self, _: Role) -> Result<Hello> {
            Ok(Hello { version: 0, role: Role::PageServer, database: [5; 16], first: Lsn(1), segment_bytes: 1 << 20 })
        }
        fn answer(&self, request: &Request, _: &dyn Fn() -> bool) -> Result<Answer> {
            *self.1.lock() += 1;
            match request {
                Request::GetPage { page: id, .. } => Ok(Answer::Page(page(*id))),
                _ => Err(Error::new(ErrorKind::NotSupported, "no")),
            }
        }
        fn applied(&self) -> Lsn {
            Lsn(self.0)
        }
    }

    /// One that says to be ahead of the log makes nobody else seem to lag, and is not asked for what is new.
    #[test]
    fn one_that_is_ahead_of_the_log_is_not_believed() {
        let services = [1 << 40, 2000].map(|applied| Arc::new(Says(applied, Mutex::default())));
        let servers = services.each_ref().map(|service| {
            Server::start("127.0.0.1:0", ServerConfig::default(), Arc::clone(service) as _).expect("a server")
        });
        let addresses = servers.each_ref().map(|server| server.address().to_string());
        let durable: Durable = Box::new(|| Lsn(3000));
        let client =
            PageClient::with_log(&addresses, [5; 16], PageClientConfig::default(), None, Option::Some(durable));
        let mut buf = PageBuf::zeroed();
        for number in 0..200 {
            client.get_page(PageId(number), Lsn(2500), &|| Ok(()), &mut buf).expect("a page");
        }
        let status = client.status();
        assert_eq!(status.iter().map(|one| one.applied).collect::<Vec<_>>(), [None, Option::Some(Lsn(2000))]);
        assert!(status[0].pages < 5 && status[1].pages > 190, "{status:?}");
        assert_eq!(client.furthest.applied.load(Ordering::Relaxed), 2000);
        assert!(services.iter().all(|service| *service.1.lock() > 1));
    }

    /// Has what it says to have applied, and waits for the rest as it is asked to.
    #[derive(Default)]
    struct Lags {
        applied: AtomicU64,
        /// What an answer takes, in milliseconds.
        takes: u64,
        /// It does not say what it has: it waits for a lock, as one does that fetches pages.
        seeds: AtomicBool,
        /// How long it has waited, in vain.
        waited: Mutex<Vec<u32>>,
    }

    impl Service for Lags {
        fn hello(&self, _: Role) -> Result<Hello> {
            Ok(Hello { version: 0, role: Role::PageServer, database: [5; 16], first: Lsn(1), segment_bytes: 1 << 20 })
        }
        fn answer(&self, request: &Request, _: &dyn Fn() -> bool) -> Result<Answer> {
            std::thread::sleep(Duration::from_millis(self.takes));
            match request {
                Request::GetPage { at_least, wait_ms, .. } if self.applied() <= *at_least => {
                    self.waited.lock().push(*wait_ms);
                    std::thread::sleep(Duration::from_millis((*wait_ms).into()));
                    Err(Error::new(ErrorKind::Io, "not applied yet"))
                }
                Request::GetPage { page: id, .. } => Ok(Answer::Page(page(*id))),
                Request::Position => Ok(Answer::Position { applied: self.applied(), durable: Lsn(1) }),
                Request::Coverage if self.seeds.load(Ordering::SeqCst) => {
                    std::thread::sleep(Duration::from_secs(1));
                    Err(Error::new(ErrorKind::Io, "too late"))
                }
                Request::Coverage => {
                    Ok(Answer::Coverage(Coverage { part: part::to_message(&Partitions::all()), ..Coverage::default() }))
                }
                _ => Err(Error::new(ErrorKind::NotSupported, "no")),
            }
        }
        fn applied(&self) -> Lsn {
            Lsn(self.applied.load(Ordering::SeqCst))
        }
    }

    fn start(service: &Arc<Lags>, address: &str, newest: u16) -> Server {
        let config = ServerConfig { newest, ..ServerConfig::default() };
        Server::start(address, config, Arc::clone(service) as _).expect("a server")
    }

    /// The faster one stops, near the other one, which goes on: one reader waits for it, for a moment; and it is found when it goes on, by who
    /// asks it how far it is, and nothing else.
    #[test]
    fn one_that_begins_to_lag_is_waited_for_once() {
        let services = [(2, 2000), (0, 2000)]
            .map(|(takes, applied)| Arc::new(Lags { takes, applied: AtomicU64::new(applied), ..Lags::default() }));
        let servers = services.each_ref().map(|service| start(service, "127.0.0.1:0", resurgam_rbio::VERSION));
        let addresses = servers.each_ref().map(|server| server.address().to_string());
        let client = PageClient::new(&addresses, [5; 16], PageClientConfig::default(), None);
        let mut buf = PageBuf::zeroed();
        let mut get = |at_least| client.get_page(PageId(1), Lsn(at_least), &|| Ok(()), &mut buf).expect("a page");
        (0..100).for_each(|_| get(1500));
        assert!(client.status()[1].pages > 90, "{:?}", client.status());
        services[0].applied.store(3000, Ordering::SeqCst);
        (0..20).for_each(|_| get(2050));
        let status = client.status();
        assert_eq!(*services[1].waited.lock(), [BRIEF.as_millis() as u32], "{status:?}");
        assert!(status[1].failures == 1 && status[1].error.is_none(), "that it lags is no failure: {status:?}");
        // What it has it is asked for.
        (0..20).for_each(|_| get(1500));
        let before = client.status()[1].pages;
        assert!(before >= status[1].pages + 10, "{:?}", client.status());
        // Far behind, and back again.
        services[1].seeds.store(true, Ordering::SeqCst);
        services[0].applied.store(100 << 20, Ordering::SeqCst);
        (0..20).for_each(|_| get(99 << 20));
        services[1].applied.store(100 << 20, Ordering::SeqCst);
        let begun = Instant::now();
        while client.status()[1].pages < before + 50 {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", client.status());
            get(99 << 20);
        }
        assert_eq!(services[1].waited.lock().len(), 1);
    }

    /// What one has said of how far it is is true of it no more when it fails, or speaks a version that does not say so.
    #[test]
    fn what_was_said_is_forgotten() {
        let service = Arc::new(Lags { applied: AtomicU64::new(2000), ..Lags::default() });
        let server = start(&service, "127.0.0.1:0", resurgam_rbio::VERSION);
        let address = server.address().to_string();
        let patience = Duration::from_millis(300);
        let config = PageClientConfig { patience, ..PageClientConfig::default() };
        let client = PageClient::new(std::slice::from_ref(&address), [5; 16], config, None);
        client.furthest.applied.store(9000, Ordering::SeqCst);
        let mut buf = PageBuf::zeroed();
        let mut get = || client.get_page(PageId(1), Lsn(1500), &|| Ok(()), &mut buf);
        let known = || {
            let health = client.replicas[0].health.lock();
            (health.applied, health.behind)
        };
        get().expect("a page");
        assert_eq!(known(), (Lsn(2000), 7000));
        drop(server);
        let server = start(&service, &address, 4);
        get().expect("a page of the version before");
        assert_eq!(known(), (Lsn::NONE, 0));
        drop(server);
        let server = start(&service, &address, resurgam_rbio::VERSION);
        get().expect("a page");
        assert_eq!(known(), (Lsn(2000), 7000));
        drop(server);
        get().expect_err("it is not there");
        assert_eq!((known(), client.status()[0].applied), ((Lsn::NONE, 0), None));
    }

    /// One that is silent while another one is not has one reader at a time, for a tenth of a second where it has failed.
    #[test]
    fn one_that_fails_keeps_one_reader() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let service = Arc::new(Lags { applied: AtomicU64::new(2000), ..Lags::default() });
        let server = start(&service, "127.0.0.1:0", resurgam_rbio::VERSION);
        let addresses = [server.address().to_string(), silent.local_addr().expect("an address").to_string()];
        let client = PageClient::new(&addresses, [5; 16], PageClientConfig::default(), None);
        // What they take is asked once, for as long as it may be.
        client.get_page(PageId(1), Lsn(1), &|| Ok(()), &mut PageBuf::zeroed()).expect("a page");
        assert_eq!((client.status()[0].pages, client.status()[1].failures), (1, 1));
        let ends = Instant::now() + Duration::from_secs(3);
        let (most, long) = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4)
                .map(|id| {
                    let client = &client;
                    scope.spawn(move || {
                        let (mut buf, mut long) = (PageBuf::zeroed(), Vec::new());
                        while Instant::now() < ends {
                            let begun = Instant::now();
                            client.get_page(PageId(id), Lsn(1), &|| Ok(()), &mut buf).expect("a page");
                            long.extend(Option::Some(begun.elapsed()).filter(|took| *took > Duration::from_millis(80)));
                        }
                        long
                    })
                })
                .collect();
            let mut most = 0;
            while Instant::now() < ends {
                most = most.max(client.replicas[1].in_flight.load(Ordering::Relaxed));
                std::thread::sleep(Duration::from_millis(1));
            }
            (most, readers.into_iter().flat_map(|reader| reader.join().expect("a reader")).collect::<Vec<_>>())
        });
        let status = client.status();
        assert!(most <= 1, "{most} readers at one time: {status:?}");
        assert!(status[1].failures > 2 && long.len() <= 12, "{long:?} {status:?}");
        assert!(long.iter().all(|took| *took < ANSWER / 2), "{long:?}");
    }

    /// One that is silent and was not asked for a while is left for long, also when the reader leaves before it is given up on.
    #[test]
    fn one_that_is_silent_is_not_tried_all_the_time() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let service = Arc::new(Lags { applied: AtomicU64::new(2000), ..Lags::default() });
        let server = start(&service, "127.0.0.1:0", resurgam_rbio::VERSION);
        let addresses = [server.address().to_string(), silent.local_addr().expect("an address").to_string()];
        let client = PageClient::new(&addresses, [5; 16], PageClientConfig::default(), None);
        let mut buf = PageBuf::zeroed();
        let (ends, mut stopped) = (Instant::now() + Duration::from_secs(2), 0);
        while Instant::now() < ends {
            // As the pool does.
            let begun = Instant::now();
            let stop = || match begun.elapsed() < Duration::from_millis(20) {
                true => Ok(()),
                false => Err(Error::new(ErrorKind::Cancelled, "it takes long")),
            };
            if client.get_page(PageId(1), Lsn(1), &stop, &mut buf).is_err() {
                stopped += 1;
                client.get_page(PageId(1), Lsn(1), &|| Ok(()), &mut buf).expect("a page");
            }
        }
        let status = client.status();
        assert!(stopped <= 4 && status[1].tried_again <= 4, "{stopped} readers have left: {status:?}");
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
