//! Servers that are killed with their data and come back when all of it was made again: what a restore on demand is compared with.
//!
//! The clients work, the server is killed, the data is made again, the server is started, and the clients go on. With Resurgam the same
//! state is made twice: in a single pass over the archive, which is sorted by page, and in the order of ARIES (the whole backup, then the
//! log in order of LSN, from copies of its segments); both have to come to the same pages.

use std::fs;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::drive::{Done, Tally, drive};
use super::super::segments::Following;
use super::starts::tool;
use super::{Options, Places};
use crate::Result;
use crate::mix::tpcc::TpcC;
use crate::mix::{Mix, Terminal, check};
use crate::servers::{Kind, Server, output};
use crate::setup::bytes_of;

/// Bytes that are compared at a time.
const PART: usize = 1 << 20;
/// The first page says whose file it is.
const PAGE_BYTES: usize = 8192;

/// How the data is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    SinglePass,
    LsnOrder,
    Postgres,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SinglePass => "single pass",
            Self::LsnOrder => "in order of LSN (ARIES)",
            Self::Postgres => "PostgreSQL",
        }
    }

    fn slug(self) -> &'static str {
        match self {
            Self::SinglePass => "single-pass",
            Self::LsnOrder => "lsn-order",
            Self::Postgres => "postgres",
        }
    }
}

/// What is measured, at one size of the pool.
pub(super) struct Scene<'a> {
    pub(super) options: &'a Options,
    pub(super) mix: &'a TpcC,
    pub(super) part: f64,
    pub(super) buffer_mb: u64,
}

impl Scene<'_> {
    fn seconds(&self) -> Duration {
        Duration::from_secs_f64(self.options.seconds.max(0.1))
    }
}

/// What clients saw of it.
pub(super) struct Outage {
    pub(super) way: Way,
    pub(super) part: f64,
    pub(super) buffer_mb: u64,
    pub(super) data_mb: f64,
    /// Seconds from the failure until the data was made, until the first answer, and until the first transaction that wrote.
    pub(super) made: f64,
    pub(super) answer: f64,
    pub(super) transaction: f64,
    /// On one clock: before the failure, which is at the end of this, and from when clients work again.
    pub(super) before: Range<Duration>,
    pub(super) after: Range<Duration>,
    pub(super) tally: Tally,
}

/// Clients that have worked for a while: what they saw, and when what counts of it was.
pub(super) struct Before {
    counted: Range<Duration>,
    tally: Tally,
}

/// The clients work until the server is to fail, for `warm_up` before what counts.
pub(super) fn before(
    scene: &Scene<'_>,
    warm_up: f64,
    server: &Server,
    terminals: &mut [Box<dyn Terminal>],
) -> Result<Before> {
    let (counted, tally) = drive(server.port, scene.mix, terminals, |run| {
        run.pause(Duration::from_secs_f64(warm_up.max(0.0)));
        let begun = run.elapsed();
        run.pause(scene.seconds());
        let counted = begun..run.elapsed();
        run.stop();
        Ok(counted)
    })?;
    Ok(Before { counted, tally })
}

/// The data is there after `made`: the server is started, and the clients from number `from` on go on; all of them have to find
/// what they committed.
pub(super) fn after(
    scene: &Scene<'_>,
    way: Way,
    made: Duration,
    before: &Before,
    terminals: &mut [Box<dyn Terminal>],
    from: usize,
    start: impl FnOnce() -> Result<Server>,
) -> Result<(Outage, Server)> {
    let begun = Instant::now();
    let server = start()?;
    let answer = made + begun.elapsed();
    first_write(&server)?;
    let transaction = made + begun.elapsed();
    let data = server.dir.join(if server.kind.is_resurgam() { "data" } else { "base" });
    let data_mb = bytes_of(&data) as f64 / 1e6;
    let going_on = terminals.get_mut(from..).unwrap_or_default();
    let ((shift, took), tally) = drive(server.port, scene.mix, going_on, |run| {
        let shift = made + begun.elapsed().saturating_sub(run.elapsed());
        run.pause(scene.seconds());
        Ok((shift, run.elapsed()))
    })?;
    check(scene.mix, &server, terminals)?;
    let failed = before.counted.end;
    let shift = failed + shift;
    let mut all = Tally { done: before.tally.done.clone(), ..Tally::default() };
    // Those that ended after the last look at the clock are of the time before.
    all.done.retain(|done| done.at <= failed);
    all.done.extend(tally.done.iter().map(|done| Done { at: done.at + shift, ..*done }));
    eprintln!(
        "{}, buffer pool of {} MB: made in {:.2} s, first write after {:.2} s",
        way.name(),
        scene.buffer_mb,
        made.as_secs_f64(),
        transaction.as_secs_f64()
    );
    let outage = Outage {
        way,
        part: scene.part,
        buffer_mb: scene.buffer_mb,
        data_mb,
        made: made.as_secs_f64(),
        answer: answer.as_secs_f64(),
        transaction: transaction.as_secs_f64(),
        before: before.counted.clone(),
        after: shift..shift + took,
        tally: all,
    };
    Ok((outage, server))
}

/// The first transaction that writes; PostgreSQL may answer before it accepts one.
fn first_write(server: &Server) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(600);
    let begun = Instant::now();
    loop {
        match server.client()?.query("update warehouse set w_ytd = w_ytd where w_id = 1") {
            Ok(_) => return Ok(()),
            Err(message) if server.kind.is_resurgam() || begun.elapsed() > PATIENCE => return Err(message),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Resurgam: killed under the load, its data made again in both ways from the same archive, backup and log. The server that was killed
/// is left as it is.
pub(super) fn resurgam(
    scene: &Scene<'_>,
    work: &Path,
    places: &Places,
    server: &mut Server,
    copies: &Following,
    terminals: &mut Vec<Box<dyn Terminal>>,
) -> Result<Vec<Outage>> {
    let Scene { options, mix, buffer_mb, .. } = *scene;
    let before = before(scene, options.warm_up, server, terminals)?;
    server.kill();
    copies.take_rest()?;
    let ways = [Way::SinglePass, Way::LsnOrder];
    let folder = |way: Way| work.join(way.slug());
    // Where `Server` has the data.
    let target = |way: Way| folder(way).join("resurgam");
    let mut took = Vec::new();
    for way in ways {
        fs::create_dir_all(folder(way)).map_err(|e| format!("could not make a folder: {e}"))?;
        let mut restore = tool(options, places, "restore", &target(way));
        restore.args(["--whole", "--to", "latest"]);
        match way {
            Way::LsnOrder => {
                restore.arg("--replay-log").arg(copies.folder());
                restore.arg("--replay-buffer-bytes").arg((buffer_mb << 20).to_string());
            }
            Way::SinglePass | Way::Postgres => {
                restore.arg("--log-dir").arg(&places.log);
            }
        }
        let begun = Instant::now();
        output(&mut restore)?;
        took.push(begun.elapsed());
    }
    same_pages(&target(ways[0]).join("data"), &target(ways[1]).join("data"))?;
    let mut common = options.common.clone();
    common.buffer_mb = buffer_mb;
    let mut outages = Vec::new();
    for (way, made) in ways.into_iter().zip(took) {
        // Of its own, as the one before had: so pages are not written twice here either.
        let archive = format!("--archive={}", folder(way).join("archive").display());
        // What the clients go on with is this server's alone.
        let own = terminals.len();
        terminals.extend(mix.terminals(options.clients, options.seed.wrapping_add(1)));
        let start = || Server::create_with(Kind::Resurgam, &common, &folder(way), &[archive]);
        let (outage, server) = after(scene, way, made, &before, terminals, own, start)?;
        outages.push(outage);
        drop(server);
        terminals.truncate(own);
        fs::remove_dir_all(folder(way)).map_err(|e| format!("could not remove a folder: {e}"))?;
    }
    Ok(outages)
}

/// That two files have the same pages, but for their first ones.
fn same_pages(one: &Path, other: &Path) -> Result<()> {
    let failed = |e: std::io::Error| format!("restored files could not be compared: {e}");
    let (mut a, mut b) = (fs::File::open(one).map_err(failed)?, fs::File::open(other).map_err(failed)?);
    let len = a.metadata().map_err(failed)?.len();
    if len != b.metadata().map_err(failed)?.len() {
        return Err("the single pass and the replay in order of LSN made files of different lengths".into());
    }
    let (mut left, mut right) = (vec![0; PART], vec![0; PART]);
    let mut at = 0;
    while at < len {
        let part = (len - at).min(PART as u64) as usize;
        let (left, right) = (&mut left[..part], &mut right[..part]);
        a.read_exact(left).map_err(failed)?;
        b.read_exact(right).map_err(failed)?;
        let pages = left.chunks(PAGE_BYTES).zip(right.chunks(PAGE_BYTES)).enumerate();
        let differs = |(number, (one, other)): &(usize, (&[u8], &[u8]))| (at > 0 || *number > 0) && one != other;
        if let Some((number, _)) = pages.into_iter().find(differs) {
            let page = at / PAGE_BYTES as u64 + number as u64;
            return Err(format!("the single pass and the replay in order of LSN made different pages {page}"));
        }
        at += part as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_differ_are_found() {
        let dir = std::env::temp_dir().join(format!("resurgam-lab-pages-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder for temporary files");
        let (one, other) = (dir.join("one"), dir.join("other"));
        let mut bytes = vec![7; PART + 3 * PAGE_BYTES];
        fs::write(&one, &bytes).expect("a file");
        bytes[5] = 0;
        fs::write(&other, &bytes).expect("a file");
        same_pages(&one, &other).expect("the first page does not count");
        for at in [PAGE_BYTES, PART - 1, PART + 2 * PAGE_BYTES + 1] {
            bytes[at] = 0;
            fs::write(&other, &bytes).expect("a file");
            let message = same_pages(&one, &other).expect_err("they differ");
            assert!(message.ends_with(&format!(" {}", at / PAGE_BYTES)), "{message}");
            bytes[at] = 7;
        }
        fs::write(&other, &bytes[PAGE_BYTES..]).expect("a file");
        assert!(same_pages(&one, &other).is_err());
        fs::remove_dir_all(dir).expect("the folder goes");
    }
}
