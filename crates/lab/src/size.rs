//! What grows with the size of a database that does nothing: how long a restart keeps anybody waiting when much of
//! the file is free, and what a server at rest reads and computes.
//!
//! A database of a gigabyte is made of a small one that was closed, by adding space maps behind its end: the file is
//! sparse, its other pages are never read. In one kind all of it is free; in the other every page is in use by
//! objects that nobody asks for.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use resurgam_base::limits::{EXTENT_PAGES, PAGE_SIZE};
use resurgam_base::{Lsn, ObjectId, PageId};
use resurgam_buffer::{BufferPool, PendingRedo, PoolConfig};
use resurgam_log::{Log, LogConfig};
use resurgam_page::boot::Boot;
use resurgam_page::{PageBuf, PageType, op, space};
use resurgam_recovery::{ControlFile, Identity, analyse, take_checkpoint};
use resurgam_txn::TxManager;
use resurgam_vfs::{OpenMode, RealVfs, Vfs};

use crate::report::{self, table};
use crate::servers::{Kind, Server, Work};
use crate::setup::Setup;
use crate::svg::{Series, bars};
use crate::{Common, Result};

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Gigabytes of the data file; 0 = as it is made
    #[arg(long, value_delimiter = ',', default_values_t = [0u64, 1, 20, 100])]
    gigabytes: Vec<u64>,
    /// Seconds for which each server at rest is watched
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds before that, so that it has read what it reads once
    #[arg(long, default_value_t = 25)]
    settle: u64,
}

/// What the added pages are.
#[derive(Clone, Copy, PartialEq)]
enum Pages {
    Free,
    InUse,
}

struct Case {
    gigabytes: u64,
    pages: Pages,
    /// Seconds to the first answer, and to the end of the first commit that takes new pages.
    answer: f64,
    written: f64,
    /// The longest of the statements of the seconds that followed, in milliseconds.
    longest_ms: f64,
    /// Of a second at rest: processor time in milliseconds, calls that read, bytes from the device.
    cpu_ms: f64,
    reads: f64,
    read_bytes: f64,
}

fn said<T>(result: resurgam_base::Result<T>) -> Result<T> {
    result.map_err(|e| e.to_string())
}

/// Makes the data file of a closed database so large. Its own first interval stays as it is.
fn enlarge(dir: &Path, gigabytes: u64, kind: Pages) -> Result<()> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let maps = (gigabytes << 30) / PAGE_SIZE as u64 / space::INTERVAL_PAGES;
    let data = dir.join("data");
    {
        let file = said(vfs.open(&data, OpenMode::ReadWrite))?;
        said(file.set_len((maps * space::INTERVAL_PAGES + 1) * PAGE_SIZE as u64))?;
        for number in 1..maps {
            let id = PageId(number * space::INTERVAL_PAGES + 1);
            let (mut page, mut body) = (PageBuf::zeroed(), Vec::new());
            op::format(&mut body, PageType::SpaceMap, 0, ObjectId::NONE, &[], None);
            op::set_bytes(&mut body, space::pfs_offset(id) as u16, &[space::PFS_ALLOCATED]);
            if kind == Pages::InUse {
                for extent in 0..space::EXTENTS {
                    // Ids that tables of this small database do not reach.
                    op::set_bytes(&mut body, space::owner_offset(extent) as u16, &(1u32 << 30).to_le_bytes());
                    let first = space::first_page_of_extent(id, extent);
                    let in_use = [space::PFS_ALLOCATED; EXTENT_PAGES as usize];
                    op::set_bytes(&mut body, space::pfs_offset(first) as u16, &in_use);
                }
            }
            said(op::apply(&mut page, id, &body, Lsn(1)))?;
            page.seal();
            said(file.write_at(page.as_bytes(), id.0 * PAGE_SIZE as u64))?;
        }
        said(file.sync())?;
    }
    // The end of used space is in the checkpoint.
    let (mut control_file, mut control) = said(ControlFile::open(&vfs, &dir.join("control"), false))?;
    let analysis = said(analyse(&vfs, &dir.join("log"), &control, &PendingRedo::default(), |_| {}))?;
    control.epoch = control.epoch.max(analysis.end.epoch) + 1;
    control.clean = false;
    said(control_file.write(control))?;
    let config = LogConfig { segment_bytes: control.segment_bytes, ..LogConfig::default() };
    let log = said(Log::open(Arc::clone(&vfs), &dir.join("log"), config, control.epoch, analysis.end))?;
    let config = PoolConfig { bytes: 4 << 20, ..PoolConfig::default() };
    let pool = said(BufferPool::open(&vfs, &data, &dir.join("doublewrite"), Arc::clone(&log), config))?;
    pool.space().restore(maps * space::INTERVAL_PAGES + 1);
    let txs = TxManager::with_epoch(analysis.next_id, control.epoch);
    let next_object = analysis.next_object;
    let mut first = PageBuf::zeroed();
    said(pool.file().read_exact_at(first.as_bytes_mut(), 0))?;
    // It belongs to this opening, as an open of the database would note.
    first.set_written_by_epoch(control.epoch);
    first.seal();
    let file = said(vfs.open(&data, OpenMode::ReadWrite))?;
    said(file.write_at(first.as_bytes(), 0))?;
    said(file.sync())?;
    let identity = Identity::new(said(Boot::read(&first))?, &control, None);
    let (begin, _) = said(take_checkpoint(&log, &pool, &txs, || next_object, Vec::new, identity, None))?;
    said(log.close())?;
    // As a clean close leaves it.
    control.checkpoint = begin;
    control.clean = true;
    said(control_file.write(control))
}

/// Calls that read, and bytes from the device, of a process so far.
fn reads_of(process: u32) -> Result<(u64, u64)> {
    let said = fs::read_to_string(format!("/proc/{process}/io")).map_err(|e| format!("no counters of reads: {e}"))?;
    let value = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    value("syscr:").zip(value("read_bytes:")).ok_or_else(|| "no counters of reads".into())
}

fn one(gigabytes: u64, pages: Pages, options: &Options, setup: &mut Setup) -> Result<Case> {
    let work = Work::new(&options.common)?;
    let mut server = Server::create(Kind::Resurgam, &options.common, work.path())?;
    server.session()?.query("create table t (id bigint primary key, v text)")?;
    server.stop()?;
    if gigabytes > 0 {
        enlarge(&server.dir, gigabytes, pages)?;
    }
    let answer = server.start()?;
    setup.saw(&server);
    let begun = Instant::now();
    let mut session = server.session()?;
    // Several extents.
    let insert = |from: u64| {
        format!("insert into t select i, repeat('x', 700) from generate_series({from}, {}) as s(i)", from + 999)
    };
    session.query(&insert(0))?;
    let written = (answer + begun.elapsed()).as_secs_f64();
    let (mut longest, mut next) = (Duration::ZERO, 1000);
    while begun.elapsed() < Duration::from_secs(10) {
        let one = Instant::now();
        session.query(&insert(next))?;
        longest = longest.max(one.elapsed());
        next += 1000;
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(session);
    // At rest: what was written is clean, and everything was read once that a start reads.
    server.session()?.query("checkpoint")?;
    server.stop()?;
    server.start()?;
    std::thread::sleep(Duration::from_secs(options.settle));
    let process = server.process().ok_or("the server does not run")?;
    let (cpu, (reads, bytes), watched) = (server.cpu_seconds()?, reads_of(process)?, Instant::now());
    std::thread::sleep(Duration::from_secs(options.seconds));
    let seconds = watched.elapsed().as_secs_f64();
    let (cpu_after, (reads_after, bytes_after)) = (server.cpu_seconds()?, reads_of(process)?);
    let case = Case {
        gigabytes,
        pages,
        answer: answer.as_secs_f64(),
        written,
        longest_ms: longest.as_secs_f64() * 1e3,
        cpu_ms: (cpu_after - cpu) * 1e3 / seconds,
        reads: (reads_after - reads) as f64 / seconds,
        read_bytes: (bytes_after - bytes) as f64 / seconds,
    };
    eprintln!(
        "{gigabytes} GB {}: answer {:.3} s, at rest {:.2} ms and {:.2} reads a second",
        pages.name(),
        case.answer,
        case.cpu_ms,
        case.reads
    );
    Ok(case)
}

impl Pages {
    fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::InUse => "in use",
        }
    }
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let mut setup = Setup::new(&options.common)?;
    let mut cases = Vec::new();
    for gigabytes in &options.gigabytes {
        for pages in [Pages::Free, Pages::InUse] {
            if *gigabytes > 0 || pages == Pages::InUse {
                cases.push(one(*gigabytes, pages, options, &mut setup)?);
            }
        }
    }
    let mut text = String::from("# What grows with the size of a database\n\n");
    text += &report::provenance();
    text += &format!(
        "A small database whose data file is made so large, with space maps that are really there; the other pages of the \
         sparse file are never read. *Free*: all of it is free space. *In use*: every page belongs to something. The \
         server is started; the first commit takes new pages, as do the 1000 rows of 700 bytes that are inserted five times a second in \
         the 10 seconds from then on. Then it is started again, and after {} s watched for {} s while nobody does anything (CPU and \
         calls that read by /proc). Goal: nothing at rest grows with the size.\n\n",
        options.settle, options.seconds
    );
    text += &setup.text();
    let rows: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            vec![
                case.gigabytes.to_string(),
                case.pages.name().into(),
                format!("{:.3}", case.answer),
                format!("{:.3}", case.written),
                format!("{:.0}", case.longest_ms),
                format!("{:.2}", case.cpu_ms),
                format!("{:.2}", case.reads),
                format!("{:.0}", case.read_bytes),
            ]
        })
        .collect();
    text += &table(
        &[
            "GB",
            "pages",
            "s to the first answer",
            "s to the first commit",
            "longest insert, ms",
            "at rest: CPU, ms/s",
            "reads/s",
            "bytes read/s",
        ],
        &rows,
    );
    text += "\n![plot](size.svg)\n";
    let groups: Vec<String> = cases.iter().map(|case| format!("{} GB {}", case.gigabytes, case.pages.name())).collect();
    let series = |name: &str, of: &dyn Fn(&Case) -> f64| Series {
        name: name.to_owned(),
        values: cases.iter().map(|case| Some(of(case))).collect(),
    };
    let shown = [series("CPU, ms/s", &|case| case.cpu_ms), series("reads/s", &|case| case.reads)];
    let svg = bars("A server at rest, by the size of its data file", "a second", &groups, &shown);
    report::write(&options.common, "size", &text, &svg)
}
