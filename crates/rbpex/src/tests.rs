//! The cache over the simulated disk.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng, rngs::SmallRng};
use resurgam_base::{Lsn, ObjectId, PageId, limits::PAGE_SIZE};
use resurgam_buffer::{Copied, PageCache, PageCacheState as State};
use resurgam_page::{PageBuf, PageType, op};
use resurgam_vfs::{Failing, FaultPlan, OpenMode, RealVfs, SimVfs, Vfs};

use crate::format::{HEADER_BYTES, Header, RECORD_BYTES, Record};
use crate::{Config, Planted, Rbpex};

const DIR: &str = "/cache";
const DATABASE: [u8; 16] = [5; 16];

fn page(id: u64, lsn: u64) -> PageBuf {
    let (mut page, mut ops) = (PageBuf::zeroed(), Vec::new());
    op::format(&mut ops, PageType::Leaf, 0, ObjectId(7), &[], None);
    op::apply(&mut page, PageId(id), &ops, Lsn(lsn)).expect("a page");
    page
}

fn config(pages: u64) -> Config {
    let mut config = Config::new(PathBuf::from(DIR), HEADER_BYTES as u64 + pages * (PAGE_SIZE + RECORD_BYTES) as u64);
    (config.background, config.patience, config.queue_pages) = (false, Duration::ZERO, 8);
    config
}

fn open(vfs: &SimVfs, config: Config) -> Arc<Rbpex> {
    Rbpex::open(Arc::new(vfs.clone()), config, DATABASE)
}

fn find(cache: &Rbpex, id: u64) -> Option<Copied> {
    let mut buf = PageBuf::zeroed();
    let copied = cache.find(PageId(id), &mut buf)?;
    buf.verify(PageId(id)).expect("a whole page, and this one");
    assert_eq!(buf.lsn(), copied.lsn);
    Some(copied)
}

fn give(cache: &Rbpex, id: u64, lsn: u64, as_of: u64) {
    cache.evicted(PageId(id), &page(id, lsn), Lsn(as_of), true);
}

fn of_this_life(lsn: u64) -> Option<Copied> {
    Some(Copied { lsn: Lsn(lsn), as_of: None })
}

#[test]
fn a_page_is_had_as_it_left_memory_last() {
    let vfs = SimVfs::new(1);
    let cache = open(&vfs, config(20));
    assert_eq!(find(&cache, 1), None);
    give(&cache, 1, 100, 150);
    assert_eq!(find(&cache, 1), of_this_life(100), "while it waits");
    give(&cache, 1, 200, 250);
    assert_eq!(find(&cache, 1), of_this_life(200));
    assert_eq!(cache.work(10), 1, "once");
    assert_eq!(find(&cache, 1), of_this_life(200), "from its slot");
    give(&cache, 1, 200, 300);
    assert_eq!((cache.status().known, cache.status().waiting), (1, 0), "it is there");
    give(&cache, 1, 300, 350);
    assert_eq!(find(&cache, 1), of_this_life(300), "not the older one in its slot");
    cache.work(10);
    assert_eq!((find(&cache, 1), cache.status().pages), (of_this_life(300), 1));
    cache.refuted(PageId(1));
    assert_eq!(find(&cache, 1), None);
    // Nobody has used it.
    cache.evicted(PageId(2), &page(2, 10), Lsn(20), false);
    assert_eq!((find(&cache, 2), cache.status().rejected), (None, 1));
}

#[test]
fn what_finds_no_room_takes_its_older_copy_along() {
    let vfs = SimVfs::new(1);
    let cache = open(&vfs, config(20));
    give(&cache, 1, 100, 100);
    cache.work(1);
    (2..10).for_each(|id| give(&cache, id, 100, 100));
    give(&cache, 1, 200, 200);
    assert_eq!(find(&cache, 1), None);
    give(&cache, 10, 200, 200);
    assert_eq!((find(&cache, 10), cache.status().rejected), (None, 2));
    // One that waits already has a place.
    give(&cache, 2, 300, 300);
    assert_eq!(find(&cache, 2), of_this_life(300));
    assert_eq!(cache.work(100), 8);
    assert_eq!((find(&cache, 2), find(&cache, 9)), (of_this_life(300), of_this_life(100)));
}

/// All of it is there after a restart, each as of when it was written, or noted.
#[test]
fn copies_outlive_a_restart_with_what_is_known_of_them() {
    for kill in [false, true] {
        let vfs = SimVfs::new(1);
        let cache = open(&vfs, config(20));
        (1..5).for_each(|id| give(&cache, id, 100 + id, 200 + id));
        cache.work(10);
        cache.note_current(Lsn(500), &|page, lsn, as_of| {
            assert_eq!((lsn, as_of), (Lsn(100 + page.0), None));
            page.0 != 3
        });
        give(&cache, 4, 600, 700);
        cache.work(10);
        give(&cache, 2, 800, 900);
        let vfs = match kill {
            true => vfs.kill(),
            false => {
                cache.close();
                vfs
            }
        };
        let cache = open(&vfs, config(20));
        let copied = |lsn, as_of| Some(Copied { lsn: Lsn(lsn), as_of: Some(Lsn(as_of)) });
        assert_eq!(find(&cache, 1), copied(101, 500));
        assert_eq!(find(&cache, 2), if kill { copied(102, 500) } else { copied(800, 900) }, "closed, it is written");
        assert_eq!(find(&cache, 3), copied(103, 203));
        assert_eq!(find(&cache, 4), copied(600, 700));
        assert_eq!(cache.status().recovered, 4);
        cache.confirmed(PageId(1), Lsn(101));
        assert_eq!(find(&cache, 1), of_this_life(101));
        // It was in memory, and has come out as it was.
        give(&cache, 3, 103, 1000);
        assert_eq!(find(&cache, 3), of_this_life(103));
    }
}

#[test]
fn only_its_own_database_and_its_own_size() {
    let vfs = SimVfs::new(1);
    let cache = open(&vfs, config(100));
    (1..=100).for_each(|id| {
        give(&cache, id, 10, 20);
        cache.work(1);
    });
    // A second one may not use the folder.
    let second = open(&vfs, config(100));
    assert_eq!((second.status().state, find(&second, 1)), (State::Off, None));
    cache.close();
    // Smaller: what does not fit goes.
    let cache = open(&vfs, config(40));
    assert_eq!((cache.status().recovered, cache.status().pages), (40, 40));
    assert!(vfs.open(Path::new("/cache/pages"), OpenMode::ReadOnly).unwrap().len().unwrap() <= 40 * PAGE_SIZE as u64);
    give(&cache, 1000, 10, 20);
    cache.work(1);
    assert_eq!((find(&cache, 1000), cache.status().pages), (of_this_life(10), 40));
    cache.close();
    // Larger again.
    let cache = open(&vfs, config(100));
    assert_eq!(cache.status().recovered, 40);
    (2000..2060).for_each(|id| {
        give(&cache, id, 10, 20);
        cache.work(1);
    });
    assert_eq!(cache.status().pages, 100);
    cache.close();
    let other = Rbpex::open(Arc::new(vfs.clone()), config(100), [6; 16]);
    assert_eq!((other.status().state, other.status().recovered), (State::On, 0), "another database's");
    other.close();
    let cache = open(&vfs, config(100));
    assert_eq!(cache.status().recovered, 0);
    give(&cache, 1, 10, 20);
    cache.work(1);
    cache.close();
    vfs.flip_bit(Path::new("/cache/directory"), 8 * 40).unwrap();
    let cache = open(&vfs, config(100));
    assert_eq!((cache.status().state, cache.status().recovered), (State::On, 0), "a damaged header");
}

/// What is somebody's is left alone.
#[test]
fn other_folders_are_refused() {
    for (names, bytes) in [(vec!["pages", "mark"], "pages"), (vec!["pages"], "pages"), (vec!["directory"], "names")] {
        let vfs = SimVfs::new(1);
        vfs.make_folder(Path::new(DIR)).unwrap();
        for name in &names {
            let file = vfs.open(&Path::new(DIR).join(name), OpenMode::Create).unwrap();
            file.write_at(bytes.as_bytes(), 0).unwrap();
        }
        assert!(off(&open(&vfs, config(20))), "{names:?}");
        for name in &names {
            let file = vfs.open(&Path::new(DIR).join(name), OpenMode::ReadOnly).unwrap();
            assert_eq!(file.len().unwrap(), bytes.len() as u64, "{name}");
        }
    }
}

/// Records of a cache that was made anew do not come to life again when a crash leaves them in their places.
#[test]
fn records_of_another_cache_are_none() {
    let vfs = SimVfs::new(1);
    let cache = open(&vfs, config(20));
    give(&cache, 1, 10, 20);
    cache.work(1);
    cache.close();
    let file = vfs.open(Path::new("/cache/directory"), OpenMode::ReadWrite).unwrap();
    file.write_at(&Header { database: DATABASE, number: 77 }.encode(), 0).unwrap();
    let cache = open(&vfs, config(20));
    assert_eq!((cache.status().recovered, find(&cache, 1)), (0, None));
}

/// What is used stays while a scan of ten times the cache goes by.
#[test]
fn scans_push_out_each_other() {
    let vfs = SimVfs::new(1);
    let cache = open(&vfs, config(400));
    let get = |id: u64| {
        let had = find(&cache, id).is_some();
        if !had {
            give(&cache, id, 10, 20);
            cache.work(1);
        }
        had
    };
    for _ in 0..3 {
        (1..=300).for_each(|id| {
            let _ = get(id);
        });
    }
    let mut hits = 0;
    for step in 0..4000u64 {
        get(10_000 + step);
        hits += u64::from(step % 4 == 0 && get(1 + step / 4 % 300));
    }
    assert!(hits > 900, "{hits} of 1000 hits");
    let had = (0..300).filter(|id| find(&cache, 1 + id).is_some()).count();
    assert!(had > 290, "{had} of 300 are left");
    assert_eq!(cache.status().pages, 400);
}

/// What comes back soon after it has gone is worth more than what comes for the first time.
#[test]
fn who_comes_back_stays() {
    let vfs = SimVfs::new(1);
    let cache = open(&vfs, config(100));
    let put = |id: u64| {
        give(&cache, id, 10, 20);
        cache.work(1);
    };
    (1..=150).for_each(put);
    assert_eq!(find(&cache, 20), None);
    put(20);
    (1000..1080).for_each(put);
    assert!(find(&cache, 20).is_some());
}

fn off(cache: &Rbpex) -> bool {
    let status = cache.status();
    status.state == State::Off && status.error.is_some() && status.pages == 0
}

#[test]
fn a_disk_that_is_full_or_dead_switches_it_off() {
    let failing = |reads, writes| FaultPlan {
        failing: vec![Failing { path: DIR.into(), reads, writes, syncs: true }],
        ..FaultPlan::default()
    };
    let full = FaultPlan { small_disk: Some((DIR.into(), 100_000)), ..FaultPlan::default() };
    for (what, plan) in [("full", full), ("writes", failing(false, true)), ("reads", failing(true, false))] {
        let vfs = SimVfs::new(1);
        let cache = open(&vfs, config(100));
        give(&cache, 1, 10, 20);
        cache.work(1);
        vfs.set_faults(plan);
        for id in 2..40 {
            give(&cache, id, 10, 20);
            cache.work(1);
            let _ = find(&cache, 1);
        }
        assert!(off(&cache), "{what}: {:?}", cache.status());
        assert_eq!((find(&cache, 1), find(&cache, 39), cache.work(5)), (None, None, 0));
        cache.note_current(Lsn(100), &|_, _, _| true);
        cache.close();
    }
    // It cannot even be opened.
    let vfs = SimVfs::new(1);
    vfs.set_faults(failing(true, true));
    assert!(off(&open(&vfs, config(100))));
    // What was there before is there when the disk is well again.
    let vfs = SimVfs::new(1);
    let cache = open(&vfs, config(100));
    give(&cache, 1, 10, 20);
    cache.work(1);
    vfs.set_faults(failing(true, true));
    assert_eq!((find(&cache, 1), off(&cache)), (None, true));
    vfs.set_faults(FaultPlan::default());
    cache.close();
    assert_eq!(find(&open(&vfs, config(100)), 1), Some(Copied { lsn: Lsn(10), as_of: Some(Lsn(20)) }));
}

/// A disk that answers no more is waited for for so long as is allowed; whoever evicts waits for nothing.
#[test]
fn a_disk_that_hangs_switches_it_off() {
    let vfs = SimVfs::new(1);
    let mut config = config(100);
    (config.background, config.patience, config.queue_pages) = (true, Duration::from_millis(200), 50);
    let cache = open(&vfs, config);
    assert!(cache.wait_until_read(Duration::from_secs(20)));
    give(&cache, 1, 10, 20);
    while cache.status().admitted < 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    vfs.set_faults(FaultPlan { hangs: Some((1, DIR.into())), ..FaultPlan::default() });
    let begun = Instant::now();
    (2..200).for_each(|id| give(&cache, id, 10, 20));
    assert!(begun.elapsed() < Duration::from_millis(150), "{:?}", begun.elapsed());
    while !off(&cache) && begun.elapsed() < Duration::from_secs(20) {
        let _ = find(&cache, 1);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(off(&cache), "{:?}", cache.status());
    cache.close();
    vfs.set_faults(FaultPlan::default());
}

/// Nor is one worth waiting for that is slower than what is allowed, on the average.
#[test]
fn a_disk_that_is_slow_switches_it_off() {
    for (slow, is_off) in [(Duration::from_nanos(1), true), (Duration::from_secs(1), false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(100);
        (config.dir, config.slow) = (dir.path().join("cache"), slow);
        let cache = Rbpex::open(Arc::new(RealVfs::new()), config, DATABASE);
        give(&cache, 1, 10, 20);
        cache.work(1);
        for _ in 0..20 {
            assert_eq!(find(&cache, 1), of_this_life(10), "a few reads say nothing");
        }
        (0..40).for_each(|_| {
            let _ = find(&cache, 1);
        });
        assert_eq!(off(&cache), is_off, "{:?}", cache.status());
    }
}

/// However many copies there are, opening does not wait for them, and what is there is served.
#[test]
fn opening_waits_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let (count, number) = (1_000_000u64, 9);
    let mut config = Config::new(dir.path().join("cache"), 2 * count * PAGE_SIZE as u64);
    config.patience = Duration::from_secs(20);
    vfs.make_folder(&config.dir).unwrap();
    vfs.keep_private(&config.dir, true).unwrap();
    let mut bytes = Header { database: DATABASE, number }.encode();
    for id in 1..=count {
        let record = Record { page: PageId(id), lsn: Lsn(10), as_of: Lsn(20), used_again: id % 2 == 0 };
        bytes.extend_from_slice(&record.encode(number));
    }
    let file = vfs.open(&config.dir.join("directory"), OpenMode::Create).unwrap();
    file.write_at(&bytes, 0).unwrap();
    let file = vfs.open(&config.dir.join("pages"), OpenMode::Create).unwrap();
    file.set_len(count * PAGE_SIZE as u64).unwrap();
    let mut first = page(1, 10);
    first.seal();
    file.write_at(first.as_bytes(), 0).unwrap();
    let begun = Instant::now();
    let cache = Rbpex::open(vfs, config, DATABASE);
    let opened = begun.elapsed();
    let found = loop {
        if let Some(found) = find(&cache, 1) {
            break found;
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    };
    let served = begun.elapsed();
    assert_eq!(found, Copied { lsn: Lsn(10), as_of: Some(Lsn(20)) });
    assert!(cache.wait_until_read(Duration::from_secs(60)), "{:?}", cache.status());
    eprintln!("opened in {opened:?}, served after {served:?}, all {count} copies read after {:?}", begun.elapsed());
    assert!(opened < Duration::from_millis(100), "{opened:?}");
    assert_eq!((cache.status().recovered, find(&cache, 2)), (count, None), "a slot that was not written");
    assert_eq!(cache.status().damaged, 1);
}

/// What is true of the pages: each one's records, and up to where the log is durable.
struct World {
    rng: SmallRng,
    records: HashMap<u64, Vec<u64>>,
    end: u64,
    /// What left memory in this life, or was found to be right, is known to be current.
    vfs: SimVfs,
}

impl World {
    fn last(&self, id: u64) -> u64 {
        self.records.get(&id).and_then(|records| records.last().copied()).unwrap_or(0)
    }

    /// What a copy says is true.
    fn check(&self, id: u64, copied: Copied) -> Result<(), String> {
        let (lsn, last) = (copied.lsn.0, self.last(id));
        let said = match copied.as_of {
            None => last == lsn,
            Some(as_of) => {
                let records = self.records.get(&id).map(Vec::as_slice).unwrap_or_default();
                records.contains(&lsn) && !records.iter().any(|record| *record > lsn && *record < as_of.0)
            }
        };
        if said { Ok(()) } else { Err(format!("page {id}: {copied:?}, its last record is at {last}")) }
    }

    /// One life with any faults, and its end.
    fn live(&mut self, planted: Planted) -> Result<(u64, u64), String> {
        let mut config = config(self.rng.random_range(16..60));
        config.planted = planted;
        let cache = open(&self.vfs, config);
        if self.rng.random_bool(0.5) {
            let ops = Some(self.rng.random_range(1..200));
            let at = Some(self.rng.random_range(1..100));
            let failing = vec![Failing { path: DIR.into(), reads: true, writes: true, syncs: true }];
            let plan = FaultPlan::default();
            self.vfs.set_faults(match self.rng.random_range(0..5) {
                0 => FaultPlan { crash_after_ops: ops, ..plan },
                1 => FaultPlan { fail_write_at: at, ..plan },
                2 => FaultPlan { fail_read_at: at, ..plan },
                3 => FaultPlan { small_disk: Some((DIR.into(), 200_000)), ..plan },
                _ => FaultPlan { failing, ..plan },
            });
        }
        let mut memory: HashMap<u64, u64> = HashMap::new();
        let mut found = 0;
        for _ in 0..self.rng.random_range(10..400) {
            let id = self.rng.random_range(1..80);
            match self.rng.random_range(0..10) {
                // It is needed, perhaps changed, and leaves memory.
                0..=5 => {
                    let mut buf = PageBuf::zeroed();
                    if !memory.contains_key(&id)
                        && let Some(copied) = cache.find(PageId(id), &mut buf)
                    {
                        found += 1;
                        buf.verify(PageId(id)).map_err(|fault| format!("page {id}: {fault}"))?;
                        if buf.lsn() != copied.lsn {
                            return Err(format!("page {id} is there as of {}, not {}", buf.lsn(), copied.lsn));
                        }
                        self.check(id, copied)?;
                        if copied.lsn.0 != self.last(id) {
                            cache.refuted(PageId(id));
                        } else if self.rng.random_bool(0.5) {
                            cache.confirmed(PageId(id), copied.lsn);
                        }
                    }
                    if self.last(id) == 0 || self.rng.random_bool(0.4) {
                        self.end += 10;
                        self.records.entry(id).or_default().push(self.end - 5);
                    }
                    if self.rng.random_bool(0.7) {
                        memory.remove(&id);
                        give(&cache, id, self.last(id), self.end);
                    } else {
                        memory.insert(id, self.last(id));
                    }
                }
                6..=8 => drop(cache.work(self.rng.random_range(0..6))),
                _ => {
                    let (last, seen) = (|id| self.last(id), std::cell::Cell::new(0));
                    cache.note_current(Lsn(self.end), &|page, lsn, _| {
                        seen.set(seen.get() + 1);
                        last(page.0) == lsn.0
                    });
                }
            }
        }
        // Otherwise they leave memory without the cache being told: a crash does that.
        let recovered = cache.status().recovered;
        let end = self.rng.random_range(0..4);
        let before = self.vfs.clone();
        self.vfs = match end {
            0 if !self.vfs.power_lost() => {
                cache.close();
                before
            }
            1 if !self.vfs.power_lost() => before.kill(),
            _ => before.crash(),
        };
        self.vfs.set_faults(FaultPlan::default());
        if self.rng.random_bool(0.3)
            && let Ok(file) = self.vfs.open(Path::new("/cache/pages"), OpenMode::ReadOnly)
            && let Ok(len @ 1..) = file.len()
        {
            for _ in 0..20 {
                let _ = self.vfs.flip_bit(Path::new("/cache/pages"), self.rng.random_range(0..len * 8));
                let records = self.rng.random_range(0..40 * RECORD_BYTES as u64 * 8);
                let _ = self.vfs.flip_bit(Path::new("/cache/directory"), HEADER_BYTES as u64 * 8 + records);
            }
        }
        Ok((found, recovered))
    }
}

fn lives(seed: u64, planted: Planted) -> Result<(u64, u64), String> {
    let vfs = SimVfs::new(seed);
    let rng = SmallRng::seed_from_u64(seed);
    let mut world = World { rng, records: HashMap::new(), end: 1000, vfs };
    let (mut found, mut recovered) = (0, 0);
    for _ in 0..5 {
        let life = world.live(planted)?;
        (found, recovered) = (found + life.0, recovered + life.1);
    }
    Ok((found, recovered))
}

/// Lives with crashes, power losses, full and dead disks, and flipped bits: what is given is what it says it is, and what it says is true.
#[test]
fn nothing_that_is_not_true_is_said() {
    let count = std::env::var("RESURGAM_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let (mut found, mut recovered) = (0, 0);
    for seed in 1..=count {
        let one = lives(seed, Planted::Nothing).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        (found, recovered) = (found + one.0, recovered + one.1);
    }
    eprintln!("{count} schedules: {found} copies found, {recovered} recovered");
    assert!(found > count * 50 && recovered > count * 10, "{found} found, {recovered} recovered");
}

/// And mistakes are noticed.
#[test]
fn planted_mistakes_are_noticed() {
    for (planted, least) in [(Planted::SlotNotCompared, 4), (Planted::StaleKept, 30)] {
        let caught = (1..=300).filter(|seed| lives(*seed, planted).is_err()).count();
        eprintln!("{planted:?}: noticed in {caught} of 300 schedules");
        assert!(caught >= least, "{planted:?}: noticed in {caught} of 300 schedules");
    }
}
