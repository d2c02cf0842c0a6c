//! The server by itself: random pages and records, crashes, a seed that is ahead or behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result, TxId, limits::PAGE_SIZE};
use resurgam_log::{RecordHeader, RecordKind, RecordRef};
use resurgam_page::{PageBuf, PageType, op};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

use crate::{Gap, PageServer, PageServerConfig, Partitions, Planted, Seed};

const DATABASE: [u8; 16] = [7; 16];
const DIR: &str = "/pages";
const FIRST: Lsn = Lsn(512);
/// Bytes of a block, and of a record in it.
const BLOCK: u64 = 512;
const RECORD: u64 = 64;

/// A log: blocks of records of pages, and what each page is after each of them.
#[derive(Clone, Default)]
struct History {
    /// Of each block: its records.
    blocks: Vec<Vec<(Lsn, PageId, Lsn, Vec<u8>)>>,
    /// Of each page: what it is from each LSN on.
    pages: BTreeMap<PageId, Vec<(Lsn, PageBuf)>>,
}

impl History {
    fn block_lsn(number: usize) -> Lsn {
        Lsn(FIRST.0 + number as u64 * BLOCK)
    }

    fn add_block(&mut self, rng: &mut SmallRng) {
        self.add_block_of(rng, 2000);
    }

    /// The same of pages below one.
    fn add_block_of(&mut self, rng: &mut SmallRng, end: u64) {
        let at = Self::block_lsn(self.blocks.len());
        let mut records = Vec::new();
        for i in 0..rng.random_range(1..6) {
            let lsn = Lsn(at.0 + 32 + i * RECORD);
            // Some far from the others.
            let page = PageId(if rng.random_bool(0.2) { rng.random_range(1..end) } else { rng.random_range(1..40) });
            let (previous, mut now) = match self.pages.get(&page).and_then(|states| states.last()) {
                Some((lsn, page)) => (*lsn, page.clone()),
                None => (Lsn::NONE, PageBuf::zeroed()),
            };
            let mut body = Vec::new();
            if previous.is_none() || rng.random_bool(0.1) {
                op::format(&mut body, PageType::SpaceMap, 0, ObjectId(3), &[], None);
                now.as_bytes_mut().fill(0);
            }
            op::set_bytes(&mut body, rng.random_range(100..4000), &rng.random::<u64>().to_le_bytes());
            op::apply(&mut now, page, &body, lsn).unwrap();
            now.seal();
            self.pages.entry(page).or_default().push((lsn, now));
            records.push((lsn, page, previous, body));
        }
        self.blocks.push(records);
    }

    /// The page with all records below `below`.
    fn page(&self, page: PageId, below: Lsn) -> Option<&PageBuf> {
        self.pages.get(&page)?.iter().rev().find(|(lsn, _)| *lsn < below).map(|(_, page)| page)
    }

    fn apply(&self, server: &PageServer) -> Result<()> {
        let at = server.position();
        server.apply(at, Lsn(at.0 + BLOCK), self.records(at))
    }

    /// The next block with something for the server, as a log service gives it; false: there is none, and it is at the end.
    fn apply_filtered(&self, server: &PageServer) -> Result<(bool, Option<Gap>)> {
        let position = server.position();
        for number in ((position.0 - FIRST.0) / BLOCK) as usize..self.blocks.len() {
            let at = Self::block_lsn(number);
            if self.blocks[number].iter().any(|(_, page, ..)| server.partitions().covers(*page)) {
                return server.apply_filtered(at, Lsn(at.0 + BLOCK), self.records(at)).map(|gap| (true, gap));
            }
        }
        server.skip_to(Self::block_lsn(self.blocks.len())).map(|()| (false, None))
    }

    /// The next blocks, so many at most, by several threads; of a server that filters, those with something for it.
    fn apply_batch(&self, server: &PageServer, most: usize, workers: usize, planted: Planted) -> Result<Option<Gap>> {
        let filtered = !server.partitions().is_all();
        let first = ((server.position().0 - FIRST.0) / BLOCK) as usize;
        let mut batch = server.batch(workers, filtered).planted(planted);
        for number in first..self.blocks.len().min(first + most) {
            let matters = self.blocks[number].iter().any(|(_, page, ..)| server.partitions().covers(*page));
            if matters || !filtered {
                let at = Self::block_lsn(number);
                batch.add(at, Lsn(at.0 + BLOCK), self.records(at))?;
            }
        }
        let gap = batch.apply()?;
        if gap.is_none() && filtered {
            server.skip_to(Self::block_lsn(self.blocks.len().min(first + most)))?;
        }
        Ok(gap)
    }

    fn records(&self, at: Lsn) -> impl Iterator<Item = Result<RecordRef<'_>>> {
        let records = &self.blocks[((at.0 - FIRST.0) / BLOCK) as usize];
        records.iter().map(move |(lsn, page, prev_page, body)| {
            let header = RecordHeader {
                len: body.len() as u32,
                offset_in_block: (lsn.0 - at.0) as u32,
                kind: RecordKind::Page,
                first_of_group: true,
                last_of_group: true,
                object: ObjectId(3),
                tx: TxId(1),
                prev_tx: Lsn::NONE,
                page: *page,
                prev_page: *prev_page,
            };
            Ok(RecordRef { lsn: *lsn, block: at, header, body })
        })
    }

    /// Every page is what it is as of the server's position, or newer where pages ahead came from the seed.
    fn check(&self, server: &PageServer) {
        let (position, mut buf) = (server.position(), PageBuf::zeroed());
        for page in self.pages.keys() {
            let got = server.get_page(*page, Lsn::NONE, Duration::ZERO, &mut buf);
            if !server.partitions().covers(*page) {
                assert_eq!(got.unwrap_err().kind(), ErrorKind::InvalidParameter, "page {page} is another server's");
                continue;
            }
            match self.page(*page, position) {
                Some(expected) if buf.lsn() <= expected.lsn() || got.is_err() => {
                    got.unwrap();
                    assert!(buf.as_bytes() == expected.as_bytes(), "page {page} at {position}");
                }
                // From the seed, which is ahead.
                _ if got.is_ok() => {
                    assert!(self.page(*page, Lsn(buf.lsn().0 + 1)).is_some_and(|p| p.as_bytes() == buf.as_bytes()))
                }
                _ => {}
            }
        }
    }
}

/// A seed that has the history up to some block.
struct UpTo {
    history: Arc<Mutex<History>>,
    blocks: Mutex<usize>,
}

impl Seed for UpTo {
    fn end(&self) -> Result<Lsn> {
        let blocks = *self.blocks.lock();
        Ok(if blocks == 0 { Lsn::NONE } else { History::block_lsn(blocks) })
    }
    fn pages(&self) -> Result<u64> {
        let end = self.end()?;
        let history = self.history.lock();
        Ok(history.pages.keys().rev().find(|page| history.page(**page, end).is_some()).map_or(0, |page| page.0 + 1))
    }
    fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<()> {
        let end = self.end()?;
        if end.is_none() {
            // As that of an archive.
            return Err(Error::new(ErrorKind::NotInPrerequisiteState, "the seed has nothing yet"));
        }
        let history = self.history.lock();
        for (i, page) in pages.iter_mut().enumerate() {
            if let Some(made) = history.page(PageId(first.0 + i as u64), end) {
                page.as_bytes_mut().copy_from_slice(made.as_bytes());
            }
        }
        Ok(())
    }
}

fn open(vfs: &SimVfs, seed: Option<&Arc<UpTo>>) -> Result<PageServer> {
    open_with(vfs, seed, &Partitions::all())
}

fn open_with(vfs: &SimVfs, seed: Option<&Arc<UpTo>>, partitions: &Partitions) -> Result<PageServer> {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let seed = seed.map(|seed| Arc::clone(seed) as Arc<dyn Seed>);
    PageServer::open(
        vfs,
        Path::new(DIR),
        DATABASE,
        FIRST,
        seed,
        PageServerConfig { memory_bytes: 0, partitions: partitions.clone(), ..PageServerConfig::default() },
    )
}

/// Crashes at any time, servers made anew, seeds that lag behind or are ahead of what is applied.
#[test]
fn pages_are_what_the_log_makes_of_them() {
    for seed in seeds() {
        let mut rng = SmallRng::seed_from_u64(seed);
        let history = Arc::new(Mutex::new(History::default()));
        (0..rng.random_range(1..40)).for_each(|_| history.lock().add_block(&mut rng));
        let blocks = history.lock().blocks.len();
        let archive = Arc::new(UpTo { history: Arc::clone(&history), blocks: Mutex::new(rng.random_range(0..blocks)) });
        let (mut vfs, mut spoilt) = (SimVfs::new(seed), false);
        let mut server = open(&vfs, Some(&archive)).unwrap();
        for _ in 0..300 {
            match rng.random_range(0..20) {
                0..=11 => {
                    let behind = server.position() < History::block_lsn(history.lock().blocks.len());
                    if behind {
                        if let Err(error) = copy(&history).apply(&server) {
                            // A page that cannot be read waits for the archive, which gets there.
                            assert!(spoilt && error.kind() == ErrorKind::Io, "{error}");
                            *archive.blocks.lock() = history.lock().blocks.len();
                            copy(&history).apply(&server).unwrap();
                        }
                    } else {
                        history.lock().add_block(&mut rng);
                    }
                }
                12 => {
                    // The archive never has what is not durable; it may be ahead of the server.
                    let most = history.lock().blocks.len();
                    let mut archived = archive.blocks.lock();
                    *archived = rng.random_range(*archived..=most);
                }
                13 | 14 => drop(server.checkpoint().unwrap()),
                15 => {
                    server.fill(3).unwrap();
                }
                16 => check_some(&history, &server, &mut rng, spoilt),
                19 if rng.random_bool(0.5) => {
                    // Sectors of a page cannot be read any more.
                    let from = rng.random_range(1..40) * PAGE_SIZE as u64;
                    let file = vfs.open(Path::new("/pages/pages"), OpenMode::ReadOnly).unwrap();
                    if file.len().unwrap() >= from + PAGE_SIZE as u64 {
                        vfs.make_unreadable(Path::new("/pages/pages"), from..from + 600).unwrap();
                        spoilt = true;
                    }
                }
                17 | 18 => {
                    drop(server);
                    vfs = if rng.random_bool(0.8) { vfs.crash() } else { vfs.kill() };
                    server = open(&vfs, Some(&archive)).unwrap();
                }
                _ if rng.random_bool(0.2) => {
                    // Its disk is gone.
                    drop(server);
                    vfs = SimVfs::new(rng.random());
                    server = open(&vfs, Some(&archive)).unwrap();
                }
                _ => {}
            }
        }
        *archive.blocks.lock() = history.lock().blocks.len();
        while server.position() < History::block_lsn(history.lock().blocks.len()) {
            copy(&history).apply(&server).unwrap();
        }
        while server.fill(2).unwrap() > 0 {}
        copy(&history).check(&server);
        assert_eq!(server.stats().segments_missing, 0);
    }
}

/// Who waits for one page does not wait for its segment; what was made alone is in no file, and is not lost with what is.
#[test]
fn a_page_is_there_before_its_segment() {
    let mut alone = 0;
    for seed in 0..40 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let history = Arc::new(Mutex::new(History::default()));
        (0..60).for_each(|_| history.lock().add_block(&mut rng));
        let archive = Arc::new(UpTo { history: Arc::clone(&history), blocks: Mutex::new(50) });
        let vfs = SimVfs::new(seed);
        let server = open(&vfs, Some(&archive)).unwrap();
        let (page, mut buf) = (copy(&history).blocks[3][0].1, PageBuf::zeroed());
        server.get_page(page, Lsn::NONE, Duration::ZERO, &mut buf).unwrap();
        let expected = history.lock().page(page, History::block_lsn(50)).cloned().unwrap();
        assert!(buf.as_bytes() == expected.as_bytes(), "page {page}");
        let stats = server.stats();
        assert_eq!((stats.segments_seeded, stats.pages_seeded_alone, stats.pages_written), (0, 1, 0));
        // Changed while their segment is not there; some leave memory, for which it is made.
        for _ in 0..rng.random_range(0..10) {
            copy(&history).apply(&server).unwrap();
        }
        alone += server.stats().pages_seeded_alone;
        assert!(server.checkpoint().unwrap() <= History::block_lsn(50), "not behind what segments can be made of");
        if rng.random_bool(0.5) {
            drop(server);
            let vfs = if rng.random_bool(0.5) { vfs.crash() } else { vfs.kill() };
            let server = open(&vfs, Some(&archive)).unwrap();
            finish(&history, &server);
        } else {
            finish(&history, &server);
        }
    }
    assert!(alone > 80, "{alone}");
}

/// The rest is applied and fetched, and all is compared.
fn finish(history: &Mutex<History>, server: &PageServer) {
    let history = copy(history);
    while server.position() < History::block_lsn(history.blocks.len()) {
        history.apply(server).unwrap();
    }
    history.check(server);
    while server.fill(1).unwrap() > 0 {}
    // Twice: all of them have left memory in between.
    (0..2).for_each(|_| history.check(server));
}

/// While the archive has nothing, pages that a crash has torn, and sectors that cannot be read, cost nothing: the log is applied from its
/// beginning on. A page that never was does not exist.
#[test]
fn torn_pages_before_there_is_an_archive() {
    for seed in 0..40 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let history = Arc::new(Mutex::new(History::default()));
        (0..30).for_each(|_| history.lock().add_block_of(&mut rng, 40));
        let archive = Arc::new(UpTo { history: Arc::clone(&history), blocks: Mutex::new(0) });
        let vfs = SimVfs::new(seed);
        let server = open(&vfs, Some(&archive)).unwrap();
        let file = Path::new("/pages/pages");
        for _ in 0..2 {
            (0..15).for_each(|_| copy(&history).apply(&server).unwrap());
            // Who reads all pages has those that were changed written; the system writes some of that out.
            let written = server.stats().pages_written;
            if written > 0 {
                vfs.open(file, OpenMode::ReadWrite).unwrap().sync().unwrap();
                vfs.sync_dir(Path::new(DIR)).unwrap();
            }
            (0..2).for_each(|_| copy(&history).check(&server));
        }
        drop(server);
        let vfs = vfs.crash();
        let pages = vfs.open(file, OpenMode::ReadOnly).unwrap().len().unwrap() / PAGE_SIZE as u64;
        let at = rng.random_range(0..pages) * PAGE_SIZE as u64;
        vfs.make_unreadable(file, at..at + 600).unwrap();
        let server = open(&vfs, Some(&archive)).unwrap();
        assert_eq!(server.position(), FIRST);
        let never = server.get_page(PageId(41), Lsn::NONE, Duration::ZERO, &mut PageBuf::zeroed()).unwrap_err();
        assert_eq!(never.kind(), ErrorKind::Corrupt, "{never}");
        finish(&history, &server);
    }
}

/// What a server that was killed had written is not durable yet; the one after it finds it in the file, and does not write it again.
#[test]
fn what_a_killed_server_wrote_is_synced_before_it_counts() {
    for seed in 0..60 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut history = History::default();
        // All in one segment, of which few are in memory: the others have been written.
        (0..30).for_each(|_| history.add_block_of(&mut rng, 40));
        let some = Partitions::new(128, 2, &[0]).unwrap();
        for partitions in [Partitions::all(), some] {
            let vfs = SimVfs::new(seed);
            let server = open_with(&vfs, None, &partitions).unwrap();
            (0..30).for_each(|_| history.apply(&server).unwrap());
            // Who reads all pages has those that were changed written.
            (0..2).for_each(|_| history.check(&server));
            drop(server);
            let vfs = vfs.kill();
            let server = open_with(&vfs, None, &partitions).unwrap();
            while server.position() < History::block_lsn(30) {
                history.apply(&server).unwrap();
            }
            assert_eq!(server.checkpoint().unwrap(), History::block_lsn(30));
            drop(server);
            let server = open_with(&vfs.crash(), None, &partitions).unwrap();
            assert_eq!(server.position(), History::block_lsn(30));
            history.check(&server);
        }
    }
}

/// The same of some partitions, which are others now and then, from a log of which what does not matter is left out.
#[test]
fn partitions_are_what_the_log_makes_of_them() {
    let (mut changed, mut gaps, mut refused) = (0, 0, 0);
    for seed in seeds() {
        let mut rng = SmallRng::seed_from_u64(seed + 1_000_000);
        let history = Arc::new(Mutex::new(History::default()));
        (0..rng.random_range(1..40)).for_each(|_| history.lock().add_block(&mut rng));
        let blocks = history.lock().blocks.len();
        let archive = Arc::new(UpTo { history: Arc::clone(&history), blocks: Mutex::new(rng.random_range(0..blocks)) });
        let (pages, count) = ([4, 16, 128, 256][rng.random_range(0..4)], rng.random_range(2..5));
        let some = |rng: &mut SmallRng| match rng.random_range(0..12) {
            0 => Partitions::all(),
            1 => Partitions::new(if pages == 4 { 8 } else { pages / 2 }, 2, &[rng.random_range(0..2)]).unwrap(),
            _ => {
                let first = rng.random_range(0..count);
                Partitions::new(pages, count, &[first, rng.random_range(first..count)]).unwrap()
            }
        };
        let mut partitions = some(&mut rng);
        let (mut vfs, mut spoilt, mut filters) = (SimVfs::new(seed), false, true);
        let mut server = open_with(&vfs, Some(&archive), &partitions).unwrap();
        for _ in 0..300 {
            match rng.random_range(0..20) {
                0..=11 => {
                    if server.position() == History::block_lsn(history.lock().blocks.len()) {
                        history.lock().add_block(&mut rng);
                        continue;
                    }
                    let outcome = match filters && rng.random_bool(0.8) {
                        true => copy(&history).apply_filtered(&server).map(|(_, gap)| gap),
                        false => copy(&history).apply(&server).map(|()| None),
                    };
                    match outcome {
                        Ok(None) => {}
                        // A page that cannot be read is as of the archive's end.
                        Ok(Some(gap)) => {
                            assert!(spoilt && gap.have < gap.previous, "{gap:?}");
                            server.go_back();
                            (filters, gaps) = (false, gaps + 1);
                        }
                        Err(error) => {
                            assert!(spoilt && error.kind() == ErrorKind::Io, "{error}");
                            *archive.blocks.lock() = history.lock().blocks.len();
                        }
                    }
                }
                12 => {
                    let most = history.lock().blocks.len();
                    let mut archived = archive.blocks.lock();
                    *archived = rng.random_range(*archived..=most);
                }
                13 | 14 => drop(server.checkpoint().unwrap()),
                15 => drop(server.fill(3).unwrap()),
                16 => {
                    if !spoilt {
                        copy(&history).check(&server);
                    }
                    refused += server.stats().refused;
                }
                19 if rng.random_bool(0.3) => {
                    // Sectors of a page cannot be read any more.
                    let names = vfs.list(Path::new(DIR)).unwrap();
                    let name = names.iter().find(|name| name.starts_with("pages")).cloned();
                    let path = name.map(|name| Path::new(DIR).join(name));
                    let from = rng.random_range(1..40) * PAGE_SIZE as u64;
                    if let Some(path) = path
                        && vfs.open(&path, OpenMode::ReadOnly).unwrap().len().unwrap() >= from + PAGE_SIZE as u64
                    {
                        vfs.make_unreadable(&path, from..from + 600).unwrap();
                        spoilt = true;
                    }
                }
                17..=19 => {
                    drop(server);
                    vfs = if rng.random_bool(0.8) { vfs.crash() } else { vfs.kill() };
                    filters = true;
                    if rng.random_bool(0.4) {
                        partitions = some(&mut rng);
                        changed += 1;
                    }
                    server = open_with(&vfs, Some(&archive), &partitions).unwrap();
                    let names = vfs.list(Path::new(DIR)).unwrap();
                    let has = |number: &str| number.parse().is_ok_and(|number| partitions.has(number));
                    let strange = names.iter().filter_map(|name| name.strip_prefix("pages-")).find(|name| !has(name));
                    assert!(
                        strange.is_none() && (partitions.is_all() || !names.contains(&"pages".into())),
                        "{names:?}"
                    );
                }
                _ => {}
            }
        }
        *archive.blocks.lock() = history.lock().blocks.len();
        while server.position() < History::block_lsn(history.lock().blocks.len()) {
            copy(&history).apply(&server).unwrap();
        }
        while server.fill(2).unwrap() > 0 {}
        copy(&history).check(&server);
        assert_eq!(server.stats().segments_missing, 0);
    }
    assert!(changed > 50 && refused > 1000, "{changed} changes, {gaps} gaps, {refused} refused");
}

/// A page of another partition that is given all the same is not what it should be.
#[test]
fn a_page_of_another_partition_that_is_given_is_noticed() {
    let mut rng = SmallRng::seed_from_u64(5);
    let history = Arc::new(Mutex::new(History::default()));
    (0..150).for_each(|_| history.lock().add_block(&mut rng));
    let archive = Arc::new(UpTo { history: Arc::clone(&history), blocks: Mutex::new(20) });
    let config = PageServerConfig {
        memory_bytes: 0,
        partitions: Partitions::new(4, 2, &[1]).unwrap(),
        gives_any: true,
        ..PageServerConfig::default()
    };
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
    let server = PageServer::open(vfs, Path::new(DIR), DATABASE, FIRST, Some(archive), config).unwrap();
    while copy(&history).apply_filtered(&server).unwrap().0 {}
    let history = copy(&history);
    let (mut old, mut buf) = (0, PageBuf::zeroed());
    for page in history.pages.keys().filter(|page| !server.partitions().covers(**page)) {
        let last = history.page(*page, server.position()).map_or(Lsn::NONE, PageBuf::lsn);
        let got = server.get_page(*page, last, Duration::ZERO, &mut buf);
        old += u32::from(got.is_ok() && buf.lsn() < last);
    }
    assert!(old > 10, "{old} pages were given that are too old: a server that gives any page would not be noticed");
}

/// The same by several threads, many blocks at once: crashes, seeds that lag behind or are ahead, partitions.
#[test]
fn batches_are_what_the_log_makes_of_them() {
    let mut batches = 0;
    for seed in seeds() {
        let mut rng = SmallRng::seed_from_u64(seed + 2_000_000);
        let mut made = History::default();
        let count = rng.random_range(20..150);
        (0..count).for_each(|_| made.add_block(&mut rng));
        let history = Arc::new(Mutex::new(made.clone()));
        let archive = Arc::new(UpTo { history, blocks: Mutex::new(rng.random_range(0..count)) });
        let partitions = match rng.random_range(0..3) {
            0 => Partitions::new([4, 16, 128][rng.random_range(0..3)], 2, &[rng.random_range(0..2)]).unwrap(),
            _ => Partitions::all(),
        };
        let mut vfs = SimVfs::new(seed);
        let mut server = open_with(&vfs, Some(&archive), &partitions).unwrap();
        for _ in 0..40 {
            match rng.random_range(0..10) {
                0..=4 => {
                    let (most, workers) = (rng.random_range(1..30), rng.random_range(1..6));
                    let before = server.position();
                    assert_eq!(made.apply_batch(&server, most, workers, Planted::Nothing).unwrap(), None);
                    let end = History::block_lsn(count);
                    assert_eq!(server.position(), Lsn(before.0 + most as u64 * BLOCK).min(end));
                }
                5 => {
                    let mut archived = archive.blocks.lock();
                    *archived = rng.random_range(*archived..=count);
                }
                6 => drop(server.checkpoint().unwrap()),
                7 => drop(server.fill(3).unwrap()),
                8 => made.check(&server),
                _ => {
                    batches += server.stats().batches;
                    drop(server);
                    vfs = if rng.random_bool(0.8) { vfs.crash() } else { vfs.kill() };
                    server = open_with(&vfs, Some(&archive), &partitions).unwrap();
                }
            }
        }
        *archive.blocks.lock() = count;
        while server.position() < History::block_lsn(count) {
            made.apply_batch(&server, 20, 3, Planted::Nothing).unwrap();
        }
        while server.fill(2).unwrap() > 0 {}
        made.check(&server);
    }
    assert!(batches > seeds().count() as u64, "{batches} batches by several threads");
}

/// Who asks for pages while several threads apply log gets none that is older than asked for, and none that never was.
fn readers_beside(seed: u64, planted: Planted) -> std::result::Result<u64, String> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut history = History::default();
    // Four in five records are of one segment: its worker is behind the others.
    (0..3000).for_each(|_| history.add_block(&mut rng));
    let server = open(&SimVfs::new(seed), None).unwrap();
    let history = &history;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let mut rng = SmallRng::seed_from_u64(seed * 10 + reader);
                let server = &server;
                scope.spawn(move || {
                    let (mut buf, mut read) = (PageBuf::zeroed(), 0);
                    // All along; and the last ones, when most threads have nothing to do any more.
                    for number in (0..2900).step_by(20).chain(2900..3000) {
                        let block = &history.blocks[number];
                        let (lsn, page, ..) = &block[rng.random_range(0..block.len())];
                        match server.get_page(*page, *lsn, Duration::from_secs(20), &mut buf) {
                            Err(_) if planted != Planted::Nothing => return Ok(read),
                            got => got.map_err(|error| error.to_string())?,
                        }
                        let had = buf.lsn();
                        if had < *lsn {
                            return Err(format!("page {page} is wanted with LSN {lsn}, and was given with LSN {had}"));
                        }
                        if history.page(*page, Lsn(had.0 + 1)).is_none_or(|page| page.as_bytes() != buf.as_bytes()) {
                            return Err(format!("page {page} is not what it is at LSN {had}"));
                        }
                        read += 1;
                    }
                    Ok(read)
                })
            })
            .collect();
        let mut applied = Ok(());
        while server.position() < History::block_lsn(3000) {
            if let Err(error) = history.apply_batch(&server, 1500, 4, planted) {
                applied = Err(error.to_string());
                // Whoever waits is to go on.
                server.skip_to(History::block_lsn(3000)).unwrap();
            }
        }
        let read = readers.into_iter().map(|reader| reader.join().unwrap()).sum::<std::result::Result<u64, String>>();
        applied.and(read)
    })
}

#[test]
fn whoever_reads_beside_a_batch_gets_nothing_old() {
    for seed in 0..3 {
        assert_eq!(readers_beside(seed, Planted::Nothing), Ok(490));
    }
    for planted in [Planted::EarlyByOne, Planted::PageOfTwo] {
        // When threads run is not in the seed: until it is found, which is in half of them or so.
        let found = (0..30).find_map(|seed| readers_beside(seed, planted).err().map(|found| (seed, found)));
        println!("{planted:?}: {found:?}");
        assert!(found.is_some(), "{planted:?} would not be noticed");
    }
}

/// A record that was left out ends all threads, and what is told to be applied does not have it.
#[test]
fn a_gap_in_a_batch_is_noticed() {
    let (mut noticed, mut ahead) = (0, 0);
    for seed in 0..40 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut history = History::default();
        (0..200).for_each(|_| history.add_block(&mut rng));
        let server = open_with(&SimVfs::new(1), None, &Partitions::new(4, 2, &[0]).unwrap()).unwrap();
        let mut dropping = history.clone();
        let number = rng.random_range(1..150);
        let Some(at) = dropping.blocks[number].iter().position(|(_, page, ..)| server.partitions().covers(*page))
        else {
            continue;
        };
        dropping.blocks[number].remove(at);
        let Some(gap) = dropping.apply_batch(&server, 200, 4, Planted::Nothing).unwrap() else { continue };
        assert!(gap.have < gap.previous && gap.previous < gap.record && server.position() <= gap.record, "{gap:?}");
        noticed += 1;
        ahead += u64::from(server.position() > FIRST);
        assert_eq!(server.go_back(), FIRST);
        assert_eq!(history.apply_batch(&server, 200, 4, Planted::Nothing).unwrap(), None);
        history.check(&server);
    }
    assert!(noticed > 15 && ahead > 0, "{noticed} noticed, {ahead} of them with something applied");
    // Blocks in order only, and whole.
    let mut history = History::default();
    (0..3).for_each(|_| history.add_block(&mut SmallRng::seed_from_u64(1)));
    let server = open(&SimVfs::new(1), None).unwrap();
    let mut batch = server.batch(2, false);
    let late = History::block_lsn(1);
    let refused = batch.add(late, Lsn(late.0 + BLOCK), history.records(late)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidParameter);
    batch.add(FIRST, late, history.records(FIRST)).unwrap();
    batch.add(FIRST, late, history.records(FIRST)).unwrap_err();
    let wrong = history.records(late).chain([Err(Error::corrupt("the rest"))]);
    assert_eq!(batch.add(late, Lsn(late.0 + BLOCK), wrong).unwrap_err().kind(), ErrorKind::Corrupt);
    let end = Lsn(late.0 + BLOCK);
    batch.add(late, end, history.records(late)).unwrap();
    assert_eq!(batch.apply().unwrap(), None);
    assert_eq!((server.position(), server.stats().records_applied), (end, records_of(&history.blocks[..2])));
}

fn records_of<T>(blocks: &[Vec<T>]) -> u64 {
    blocks.iter().map(|block| block.len() as u64).sum()
}

/// Where there are no threads one does it all; a panic is an error, after which the same is applied again.
#[test]
fn a_batch_without_threads_and_one_that_panics() {
    let mut rng = SmallRng::seed_from_u64(1);
    let mut history = History::default();
    (0..200).for_each(|_| history.add_block(&mut rng));
    let server = open(&SimVfs::new(1), None).unwrap();
    assert_eq!(history.apply_batch(&server, 100, 4, Planted::NoThread).unwrap(), None);
    assert_eq!(server.position(), History::block_lsn(100));
    for workers in [1, 4] {
        let error = history.apply_batch(&server, 100, workers, Planted::Panic).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
        assert!(server.position() < History::block_lsn(200));
    }
    assert_eq!(history.apply_batch(&server, 100, 4, Planted::Nothing).unwrap(), None);
    assert_eq!(server.position(), History::block_lsn(200));
    history.check(&server);
}

/// What one thread applies in a second, and several: `cargo test --release -p resurgam-pageserver batches_measured -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn batches_measured() {
    const PAGES: u64 = 4000;
    const BLOCKS: usize = 30_000;
    /// Until all pages are in memory.
    const FIRST_BLOCKS: usize = 6000;
    // As an update of a row in a page: a hundred bytes or so.
    let mut rng = SmallRng::seed_from_u64(1);
    for (what, spread) in [("all pages", PAGES), ("pages of one megabyte", 127)] {
        let mut last = BTreeMap::<PageId, Lsn>::new();
        let mut blocks: Vec<Vec<(Lsn, PageId, Lsn, Vec<u8>)>> = Vec::new();
        let mut bytes = 0;
        for number in 0..BLOCKS {
            let at = History::block_lsn(number);
            let records = (0..8u64).map(|i| {
                let (lsn, page) = (Lsn(at.0 + 32 + i * 60), PageId(rng.random_range(1..=spread)));
                let (previous, mut body) = (last.insert(page, lsn).unwrap_or(Lsn::NONE), Vec::new());
                if previous.is_none() {
                    op::format(&mut body, PageType::SpaceMap, 0, ObjectId(3), &[], None);
                }
                op::set_bytes(&mut body, rng.random_range(100..8000), &[7; 100]);
                bytes += if number < FIRST_BLOCKS { 0 } else { body.len() + 60 };
                (lsn, page, previous, body)
            });
            blocks.push(records.collect());
        }
        let history = History { blocks, pages: BTreeMap::new() };
        for round in 0..5 {
            let mut said = Vec::new();
            for workers in [1, 2] {
                let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
                let server =
                    PageServer::open(vfs, Path::new(DIR), DATABASE, FIRST, None, PageServerConfig::default()).unwrap();
                while server.position() < History::block_lsn(FIRST_BLOCKS) {
                    history.apply(&server).unwrap();
                }
                let begun = std::time::Instant::now();
                while server.position() < History::block_lsn(history.blocks.len()) {
                    if workers == 1 {
                        history.apply(&server).unwrap();
                    } else {
                        history.apply_batch(&server, 600, workers, Planted::Nothing).unwrap();
                    }
                }
                said.push(format!("{workers}: {:.0} MB/s", bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()));
            }
            println!("{what}, round {round}, by threads: {said:?}");
        }
    }
}

/// A filter that drops a record shows at the next one of its page; whole log from what is durable on makes the page right.
#[test]
fn a_filter_that_drops_a_record_is_noticed() {
    let (mut noticed, mut unnoticed) = (0, 0);
    for seed in 0..40 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut history = History::default();
        (0..60).for_each(|_| history.add_block(&mut rng));
        let server = open_with(&SimVfs::new(1), None, &Partitions::new(4, 2, &[0]).unwrap()).unwrap();
        let mut dropping = history.clone();
        let number = rng.random_range(1..50);
        let Some(at) = dropping.blocks[number].iter().position(|(_, page, ..)| server.partitions().covers(*page))
        else {
            continue;
        };
        dropping.blocks[number].remove(at);
        let gap = loop {
            match dropping.apply_filtered(&server).unwrap() {
                (_, Some(gap)) => break Some(gap),
                (false, None) => break None,
                (true, None) => {}
            }
        };
        let Some(gap) = gap else {
            unnoticed += 1;
            continue;
        };
        assert!(gap.have < gap.previous && gap.previous < gap.record);
        noticed += 1;
        assert_eq!(server.go_back(), FIRST);
        while server.position() < History::block_lsn(history.blocks.len()) {
            history.apply(&server).unwrap();
        }
        history.check(&server);
        assert_eq!(server.stats().gaps, 1);
    }
    // Where the page has no record behind it, or is made anew by the next one, there is nothing to be noticed by.
    assert!(noticed > 15, "{noticed} noticed, {unnoticed} not");
}

/// Without an archive it begins where the database began; with one that is behind it waits.
#[test]
fn other_partitions_need_an_archive() {
    let mut rng = SmallRng::seed_from_u64(9);
    let history = Arc::new(Mutex::new(History::default()));
    (0..20).for_each(|_| history.lock().add_block(&mut rng));
    let archive = Arc::new(UpTo { history: Arc::clone(&history), blocks: Mutex::new(15) });
    let vfs = SimVfs::new(1);
    let of = |number: u32| Partitions::new(4, 3, &[number]).unwrap();
    let server = open_with(&vfs, Some(&archive), &of(0)).unwrap();
    assert_eq!(server.position(), History::block_lsn(15));
    drop(server);
    *archive.blocks.lock() = 10;
    let behind = open_with(&vfs, Some(&archive), &of(1)).err().unwrap();
    assert!(behind.kind() == ErrorKind::Io && behind.message().contains("1/3"), "{behind}");
    let server = open_with(&vfs, None, &of(1)).unwrap();
    assert_eq!(server.position(), FIRST);
}

/// A few pages.
fn check_some(history: &Arc<Mutex<History>>, server: &PageServer, rng: &mut SmallRng, spoilt: bool) {
    let (position, mut buf) = (server.position(), PageBuf::zeroed());
    for _ in 0..5 {
        let page = PageId(rng.random_range(1..40));
        let expected = history.lock().page(page, position).cloned();
        let got = server.get_page(page, Lsn::NONE, Duration::ZERO, &mut buf);
        if let Some(expected) = expected {
            match got {
                // Until the archive is there.
                Err(error) if spoilt && error.kind() == ErrorKind::Io => continue,
                got => got.unwrap(),
            }
            let known = history.lock().page(page, Lsn(buf.lsn().0 + 1)).cloned().unwrap();
            assert!(buf.lsn() >= expected.lsn() && known.as_bytes() == buf.as_bytes(), "page {page} at {position}");
        }
    }
}

/// The seed looks at the history while a block is applied: not under its lock.
fn copy(history: &Mutex<History>) -> History {
    history.lock().clone()
}

#[test]
fn what_is_asked_for_is_waited_for() {
    let vfs = SimVfs::new(1);
    let mut history = History::default();
    let mut rng = SmallRng::seed_from_u64(1);
    (0..3).for_each(|_| history.add_block(&mut rng));
    let server = open(&vfs, None).unwrap();
    let (lsn, page) = (history.blocks[1][0].0, history.blocks[1][0].1);
    let mut buf = PageBuf::zeroed();
    let refused = server.get_page(page, lsn, Duration::from_millis(5), &mut buf).unwrap_err();
    assert!(refused.kind() == ErrorKind::Io && refused.message().contains(&lsn.to_string()), "{refused}");
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut buf = PageBuf::zeroed();
            server.get_page(page, lsn, Duration::from_secs(20), &mut buf).map(|()| buf.lsn())
        });
        // Until it waits: a thread that is late to begin would find all of it there.
        while server.stats().waited < 2 && !asking.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        history.apply(&server).unwrap();
        assert!(!asking.is_finished(), "one block is not enough");
        history.apply(&server).unwrap();
        assert!(asking.join().unwrap().unwrap() >= lsn);
    });
    assert_eq!(server.stats().waited, 2);
    // Blocks in order only.
    let twice = server.apply(FIRST, Lsn(FIRST.0 + BLOCK), std::iter::empty()).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidParameter);
    for none in [PageId(1_000_000), PageId::of_file(1, 1)] {
        server.get_page(none, Lsn::NONE, Duration::ZERO, &mut buf).unwrap_err();
    }
}

/// A record that was left out is found at the next one of its page; the page stays as it was.
#[test]
fn a_record_that_is_missing_is_noticed() {
    let vfs = SimVfs::new(1);
    let mut history = History::default();
    let mut rng = SmallRng::seed_from_u64(3);
    while !history.blocks.iter().flatten().any(|(_, _, previous, body)| {
        previous.is_some() && !matches!(op::decode(body).next(), Some(Ok(resurgam_page::PageOp::Format { .. })))
    }) {
        history.add_block(&mut rng);
    }
    let server = open(&vfs, None).unwrap();
    let last = history.blocks.len() - 1;
    let (lsn, page, previous, _) = history.blocks[last]
        .iter()
        .find(|(_, _, previous, body)| {
            previous.is_some() && !matches!(op::decode(body).next(), Some(Ok(resurgam_page::PageOp::Format { .. })))
        })
        .cloned()
        .unwrap();
    history.blocks.iter_mut().for_each(|block| block.retain(|(of, ..)| *of != previous));
    let outcome = (0..=last).try_for_each(|_| history.apply(&server));
    let error = outcome.unwrap_err();
    assert!(error.message().contains(&page.to_string()) || error.message().contains(&lsn.to_string()), "{error}");
    assert!(server.position() <= History::block_lsn(last));
}

#[test]
fn another_database_is_refused() {
    let vfs = SimVfs::new(1);
    drop(open(&vfs, None).unwrap());
    let vfs: Arc<dyn Vfs> = Arc::new(vfs);
    let other = PageServer::open(vfs, Path::new(DIR), [8; 16], FIRST, None, PageServerConfig::default());
    assert_eq!(other.err().unwrap().kind(), ErrorKind::NotADatabase);
}

/// Histories to try: `RESURGAM_HISTORIES` of them, from `RESURGAM_FIRST_SEED` on.
fn seeds() -> std::ops::Range<u64> {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = variable("RESURGAM_FIRST_SEED").unwrap_or(0);
    first..first + variable("RESURGAM_HISTORIES").unwrap_or(60)
}
