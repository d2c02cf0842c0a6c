//! How new a page was that leaves memory is known before it can be missed there. (A program of its own: a mistake is planted for all of it.)

mod afar;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use afar::afar;
use resurgam_base::{Lsn, Result};
use resurgam_buffer::{Access, Planted};

/// One thread changes a page and has it leave memory, again and again, another one reads it: how often it finds the page older than it was
/// before, until it was asked for so many times (one that is just being read stays in memory), and how often it was asked for.
fn older(times: u64, most: Duration) -> Result<(u64, u64)> {
    let afar = afar()?;
    let (last, is_over, found) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| -> Result<()> {
        let reader = scope.spawn(|| -> Result<()> {
            while !is_over.load(Ordering::SeqCst) {
                // Who uses it keeps it in memory.
                if afar.pool.is_resident(afar.ids[0]) {
                    std::thread::yield_now();
                    continue;
                }
                let least = Lsn(last.load(Ordering::SeqCst));
                // A page that a change finds older than its log is an error there.
                let is_older = afar.pool.read(afar.ids[0], Access::Point).map_or(true, |page| page.lsn() < least);
                found.fetch_add(u64::from(is_older), Ordering::SeqCst);
            }
            Ok(())
        });
        let begun = Instant::now();
        let asked = || afar.server.one_by_one.load(Ordering::SeqCst);
        while asked() < times && found.load(Ordering::SeqCst) == 0 && begun.elapsed() < most {
            if afar.mark(0).is_err() {
                found.fetch_add(1, Ordering::SeqCst);
                break;
            }
            last.store(afar.pool.read(afar.ids[0], Access::Point)?.lsn().0, Ordering::SeqCst);
            afar.pool.write_all()?;
            afar.pool.evict_all();
        }
        is_over.store(true, Ordering::SeqCst);
        reader.join().expect("no panic")
    })?;
    Ok((found.load(Ordering::SeqCst), afar.server.one_by_one.load(Ordering::SeqCst)))
}

#[test]
fn a_map_that_is_raised_late_is_noticed() -> Result<()> {
    let (found, asked) = older(300, Duration::from_secs(30))?;
    assert_eq!(found, 0, "a page came older than it was");
    assert!(asked >= 300, "it hardly ever left memory: {asked}");
    Planted::RaisedLate.plant();
    let noticed = (0..20).any(|_| older(300, Duration::from_secs(10)).is_ok_and(|(found, _)| found > 0));
    Planted::None.plant();
    assert!(noticed, "nobody notices that the map is raised after a page has left memory");
    Ok(())
}
