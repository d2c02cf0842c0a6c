//! Pages from afar: asked for ahead, and waits for them that are given up.

mod afar;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use afar::{FRAMES, afar, new_page};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_buffer::{Access, Copied, PageCache, PageCacheStatus, Patience, Planted};
use resurgam_page::PageBuf;

/// Half of an eighth.
const AHEAD_MAX: u64 = FRAMES as u64 / 16;

fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not come to that");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn pages_that_came_ahead_are_used() -> Result<()> {
    let afar = afar()?;
    afar.evict(0..8)?;
    let before = afar.server.one_by_one.load(Ordering::SeqCst);
    afar.ask(0..4);
    assert_eq!(afar.server.requests.load(Ordering::SeqCst), 1, "all in one");
    for n in 0..4 {
        assert!(afar.pool.is_resident(afar.ids[n]));
        assert_eq!(afar.content(n)?, n as u32);
    }
    assert_eq!(afar.server.one_by_one.load(Ordering::SeqCst), before);
    // What is there is not asked for again, and what was used is not counted twice.
    afar.ask(0..4);
    assert_eq!(afar.content(1)?, 1);
    let stats = afar.pool.stats();
    assert_eq!((stats.ahead_asked, stats.ahead_used, stats.ahead_wasted, stats.ahead_not_had), (4, 4, 0, 0));
    Ok(())
}

#[test]
fn what_is_asked_for_ahead_is_bounded_and_goes_first() -> Result<()> {
    let afar = afar()?;
    afar.evict(0..100)?;
    let hot: Vec<_> = afar.ids.iter().filter(|id| afar.pool.is_resident(**id)).copied().take(60).collect();
    for _ in 0..3 {
        hot.iter().try_for_each(|id| afar.pool.read(*id, Access::Point).map(drop))?;
    }
    afar.ask(0..100);
    afar.ask(50..100);
    assert_eq!(afar.pool.stats().ahead_asked, AHEAD_MAX);
    // Scans take the place of those that nobody used.
    for n in 20..100 {
        assert_eq!(afar.content(n)?, n as u32);
    }
    let stats = afar.pool.stats();
    assert_eq!((stats.ahead_used, stats.ahead_wasted), (0, AHEAD_MAX), "{stats:?}");
    let stay = hot.iter().filter(|id| afar.pool.is_resident(**id)).count();
    assert!(stay > 55, "{stay} of 60 that are used stay");
    afar.ask(0..4);
    assert_eq!(afar.pool.stats().ahead_asked, AHEAD_MAX + 4, "there is room again");
    Ok(())
}

#[test]
fn they_are_as_new_as_others() -> Result<()> {
    let afar = afar()?;
    for round in 0..3 {
        for n in 0..4 {
            afar.mark(n)?;
        }
        // In memory, and newer than what the server has.
        afar.ask(0..4);
        assert!(afar.is_marked(2)?, "round {round}");
        afar.evict(0..4)?;
        afar.ask(0..4);
        for n in 0..4 {
            assert!(afar.pool.is_resident(afar.ids[n]) && afar.is_marked(n)?, "round {round}, page {n}");
        }
        afar.evict(0..4)?;
    }
    assert!(afar.pool.stats().ahead_used >= 12);
    Ok(())
}

#[test]
fn what_does_not_come_is_no_error() -> Result<()> {
    let afar = afar()?;
    afar.evict(0..8)?;
    afar.server.forgets.store(true, Ordering::SeqCst);
    afar.ask(0..4);
    // A page that nobody has, none, and one that is no page's number.
    afar.pool.ask_ahead(vec![PageId(1 << 30), PageId::NONE, afar.ids[4]]);
    assert!(!afar.pool.is_resident(PageId(1 << 30)) && !afar.pool.is_resident(afar.ids[1]));
    for n in 0..8 {
        assert_eq!(afar.content(n)?, n as u32);
    }
    let stats = afar.pool.stats();
    assert_eq!(stats.ahead_asked, stats.ahead_used + stats.ahead_not_had, "{stats:?}");
    assert!(stats.ahead_not_had >= 3, "{stats:?}");
    Ok(())
}

#[test]
fn who_needs_a_page_that_is_on_its_way_waits_for_it() -> Result<()> {
    let afar = afar()?;
    afar.evict(0..4)?;
    let before = afar.server.one_by_one.load(Ordering::SeqCst);
    afar.server.silent.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| -> Result<()> {
        scope.spawn(|| afar.ask(0..4));
        until(|| afar.pool.is_resident(afar.ids[3]));
        let reader = scope.spawn(|| afar.content(3));
        // One that is told to stop does.
        let stopped = Patience::new(|| Err(Error::new(ErrorKind::Cancelled, "stop")));
        let begun = Instant::now();
        let error = stopped.during(|| afar.content(2)).expect_err("it was stopped");
        assert!(error.kind() == ErrorKind::Cancelled && begun.elapsed() < Duration::from_secs(5), "{error}");
        assert!(!reader.is_finished());
        afar.server.silent.store(false, Ordering::SeqCst);
        assert_eq!(reader.join().expect("no panic")?, 3);
        Ok(())
    })?;
    assert_eq!(afar.content(2)?, 2);
    assert_eq!(afar.server.one_by_one.load(Ordering::SeqCst), before);
    assert_eq!(afar.pool.stats().page_waits_given_up, 1);
    Ok(())
}

/// Who loads a page, and who waits for him, give up; who may not waits on, and has it in the end.
#[test]
fn waits_are_given_up() -> Result<()> {
    let afar = afar()?;
    afar.evict(0..4)?;
    let stop = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let patience: Vec<_> = (0..2)
        .map(|n| {
            let stop = Arc::clone(&stop);
            Patience::new(move || match stop[n].load(Ordering::SeqCst) {
                true => Err(Error::new(ErrorKind::Cancelled, "stop")),
                false => Ok(()),
            })
        })
        .collect();
    for round in 0..3 {
        afar.evict(0..4)?;
        stop.iter().for_each(|stop| stop.store(false, Ordering::SeqCst));
        afar.server.silent.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let (afar, patience) = (&afar, &patience);
            let loader = scope.spawn(move || patience[0].during(|| afar.content(0)));
            until(|| afar.pool.is_resident(afar.ids[0]));
            let waiter = scope.spawn(move || patience[1].during(|| afar.content(0)));
            let to_the_end = scope.spawn(|| afar.content(0));
            until(|| patience.iter().all(|patience| patience.waiting() == 1));
            // In both orders.
            let (first, second) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
            let mut threads = [Some(loader), Some(waiter)];
            for n in [first, second] {
                stop[n].store(true, Ordering::SeqCst);
                let outcome = threads[n].take().expect("one each").join().expect("no panic");
                assert_eq!(outcome.expect_err("it was stopped").kind(), ErrorKind::Cancelled);
                assert!(!to_the_end.is_finished());
            }
            afar.server.silent.store(false, Ordering::SeqCst);
            assert_eq!(to_the_end.join().expect("no panic").expect("the page"), 0);
        });
        assert_eq!(patience[0].waiting() + patience[1].waiting(), 0);
        assert!(afar.pool.failing_since(afar.ids[0]).is_none(), "nothing is known of that");
    }
    assert_eq!(afar.pool.stats().page_waits_given_up, 6);
    // Changes are not stopped.
    stop[0].store(true, Ordering::SeqCst);
    afar.evict(0..4)?;
    patience[0].during(|| afar.mark(0))?;
    assert!(afar.is_marked(0)?);
    Ok(())
}

/// Says how new the copies are that it is told of.
#[derive(Default)]
struct Told(parking_lot::Mutex<Vec<Lsn>>);

impl PageCache for Told {
    fn find(&self, _: PageId, _: &mut PageBuf) -> Option<Copied> {
        None
    }
    fn evicted(&self, _: PageId, content: &PageBuf, as_of: Lsn, _: bool) {
        assert!(content.lsn() < as_of);
        self.0.lock().push(as_of);
    }
    fn confirmed(&self, _: PageId, _: Lsn) {}
    fn refuted(&self, _: PageId) {}
    fn note_current(&self, as_of: Lsn, is_current: &dyn Fn(PageId, Lsn, Option<Lsn>) -> bool) {
        assert!(is_current(PageId(1 << 20), Lsn(1), None), "it is not in memory");
        self.0.lock().push(as_of);
    }
    fn status(&self) -> PageCacheStatus {
        unimplemented!("nobody looks")
    }
    fn close(&self) {}
}

/// What is said of a copy is true whatever a power loss takes: it goes as far as the log is durable.
#[test]
fn copies_are_as_of_what_is_durable() -> Result<()> {
    for planted in [Planted::None, Planted::CopyBeyondDurable] {
        let afar = afar()?;
        let told = Arc::new(Told::default());
        afar.pool.set_page_cache(Arc::clone(&told) as Arc<dyn PageCache>);
        // A change that is not durable yet.
        let changed = new_page(&afar.pool, 9)?;
        let (durable, end) = (afar.pool.log().flushed_lsn(), afar.pool.log().end_lsn());
        assert!(durable < end);
        planted.plant();
        afar.pool.evict_all();
        afar.pool.note_cached();
        Planted::None.plant();
        assert!(afar.pool.is_resident(changed), "it may not leave memory");
        let told = told.0.lock();
        assert!(told.len() > 10, "{} copies", told.len());
        let is_true = told.iter().all(|as_of| *as_of <= durable);
        assert_eq!(is_true, planted == Planted::None, "{planted:?}");
    }
    Ok(())
}
