//! The aborted-transaction map (Constant Time Recovery, section 3.3.2) with up to millions
//! of transactions: what an abort, a lookup, a sweep's copy, a checkpoint, forgetting and
//! an opening cost, by how the ids lie. In this process, without a server.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use resurgam_base::{Lsn, TxId};
use resurgam_buffer::PendingRedo;
use resurgam_engine::{ColumnType, Database, DatumRef, Isolation, TableSpec};
use resurgam_log::{Group, Log, LogConfig, RecordKind};
use resurgam_recovery::{CheckpointState, Control, analyse};
use resurgam_txn::{AbortedMap, AbortedTx, TxIdSet, TxManager};
use resurgam_vfs::{RealVfs, Vfs};

use crate::report::{provenance, table};
use crate::servers::Work;
use crate::{Common, Result, machine};

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Aborted transactions in the map
    #[arg(long, value_delimiter = ',', default_values_t = [10_000u64, 1_000_000, 5_000_000])]
    transactions: Vec<u64>,
    /// Transactions rolled back in a real database, which is then opened again; 0 = none
    #[arg(long, default_value_t = 1_000_000)]
    rolled_back: u64,
}

/// How the ids of aborted transactions lie among those of others.
struct Shape {
    name: &'static str,
    /// From one aborted transaction to the next.
    distance: u64,
    /// Sub-transaction ids that follow its own.
    subs: u64,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "every id", distance: 1, subs: 0 },
    Shape { name: "every 10th", distance: 10, subs: 0 },
    Shape { name: "every 1000th", distance: 1000, subs: 0 },
    Shape { name: "10 of 20, one transaction's", distance: 20, subs: 9 },
];

fn said<T>(result: resurgam_base::Result<T>) -> Result<T> {
    result.map_err(|e| e.to_string())
}

fn ms(since: Instant) -> String {
    format!("{:.2}", since.elapsed().as_secs_f64() * 1e3)
}

/// Nanoseconds of each of `count` things.
fn ns(since: Instant, count: u64) -> String {
    format!("{:.0}", since.elapsed().as_secs_f64() * 1e9 / count as f64)
}

fn kb(bytes: usize) -> String {
    format!("{:.1}", bytes as f64 / 1024.0)
}

/// The ids asked for are all over the map, in an order that no cache foresees.
fn lookups(map: &AbortedMap, shape: &Shape, transactions: u64, aborted: bool) -> (String, u64) {
    const LOOKUPS: u64 = 2_000_000;
    let (mut found, mut random) = (0, 88_172_645_463_325_252u64);
    let begun = Instant::now();
    for _ in 0..LOOKUPS {
        // xorshift64
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let id = if aborted {
            1 + random % transactions * shape.distance
        } else if shape.distance > 1 {
            random % transactions * shape.distance
        } else {
            1 + transactions + random % transactions
        };
        found += u64::from(black_box(map.contains(TxId(id))));
    }
    (ns(begun, LOOKUPS), found)
}

fn one(shape: &Shape, transactions: u64, dir: &Path) -> Result<Vec<String>> {
    let map = AbortedMap::default();
    let begun = Instant::now();
    for i in 0..transactions {
        let id = TxId(1 + i * shape.distance);
        let tx = AbortedTx { id, lsn: Lsn(i * 100), aborted_us: i as i64, began_us: i as i64 };
        map.insert(&[(id, id), (TxId(id.0 + 1), TxId(id.0 + shape.subs))], tx);
    }
    let insert = ns(begun, transactions);
    let (hit, found) = lookups(&map, shape, transactions, true);
    let (miss, wrong) = lookups(&map, shape, transactions, false);
    if found != 2_000_000 || wrong != 0 || map.len() != transactions * (1 + shape.subs) {
        return Err(format!("the map is wrong: {found} found, {wrong} wrongly"));
    }
    let begun = Instant::now();
    let ids = map.ids();
    let copy = ms(begun);

    // As `take_checkpoint` does, without pages.
    let begun = Instant::now();
    let state = CheckpointState {
        next_id: TxId(transactions * shape.distance + 100),
        aborted: map.ids(),
        aborted_details: map.newest(8192),
        ..CheckpointState::default()
    };
    let bodies = state.encode();
    let encode = ms(begun);
    let bytes: usize = bodies.iter().map(Vec::len).sum();
    let opening = open_again(&bodies, &ids, dir)?;

    // As the cleaner does, without the log.
    let begun = Instant::now();
    for body in ids.encode() {
        map.forget(&said(TxIdSet::decode(&body))?);
    }
    let forget = ms(begun);
    if !map.is_empty() {
        return Err("something is not forgotten".into());
    }
    let memory = kb(ids.memory_bytes());
    let row = [insert, hit, miss, memory, copy, kb(bytes), encode, opening, forget];
    Ok([transactions.to_string(), shape.name.to_owned()].into_iter().chain(row).collect())
}

/// Writes a log with this checkpoint; the time to read it and fill the map.
fn open_again(bodies: &[Vec<u8>], expected: &TxIdSet, dir: &Path) -> Result<String> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let dir = dir.join("log");
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let config = LogConfig::default();
    let segment_bytes = config.segment_bytes;
    let log = said(Log::create(Arc::clone(&vfs), &dir, config, 1))?;
    let mut group = Group::default();
    group.record(RecordKind::CheckpointBegin, TxId::NONE, Lsn::NONE, &[]);
    let begin = said(log.append_at_block_start(&group))?.block;
    for body in bodies {
        group.clear();
        group.record(RecordKind::CheckpointData, TxId::NONE, Lsn::NONE, body);
        said(log.append(&group))?;
    }
    group.clear();
    let end = [&begin.0.to_le_bytes()[..], &(bodies.len() as u32).to_le_bytes()].concat();
    group.record(RecordKind::CheckpointEnd, TxId::NONE, Lsn::NONE, &end);
    said(log.append(&group))?;
    said(log.flush_all())?;
    said(log.close())?;
    drop(log);
    let control = Control { checkpoint: begin, epoch: 1, segment_bytes, clean: false, traditional: false };
    let begun = Instant::now();
    let analysis = said(analyse(&vfs, &dir, &control, &PendingRedo::default(), |_| {}))?;
    let txs = TxManager::new(analysis.next_id);
    txs.restore_aborted(&analysis.aborted, &analysis.aborted_details);
    let took = ms(begun);
    let _ = fs::remove_dir_all(&dir);
    if txs.status_table().aborted().ids() != *expected {
        return Err("the map is not the same after opening".into());
    }
    Ok(took)
}

/// Real rollbacks, a checkpoint, an unclean end, and an opening.
fn real(rolled_back: u64, dir: &Path) -> Result<String> {
    // The cleaner stays out of it, and so does the undo of short transactions, which leaves no id in the map.
    let options = || resurgam_engine::Options {
        background: false,
        short_rollback_bytes: 0,
        ..resurgam_engine::Options::default()
    };
    let dir = dir.join("database");
    let db = said(Database::open(&dir, options()))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).primary_key(&["id"]);
    let t = said(said(tx.create_table(spec))?.done())?;
    said(said(tx.commit(resurgam_engine::Durability::Sync))?.wait())?;
    let mut took = 0.0;
    for i in 0..rolled_back {
        let tx = db.begin(Isolation::ReadCommitted);
        said(said(tx.insert(&t, &[DatumRef::Int8((i % 1000) as i64)]))?.done())?;
        let begun = Instant::now();
        said(tx.rollback())?;
        took += begun.elapsed().as_secs_f64();
        if i % 100_000 == 99_999 {
            said(db.checkpoint())?;
        }
    }
    let begun = Instant::now();
    said(db.checkpoint())?;
    let checkpoint = ms(begun);
    let in_map = db.aborted_count();
    drop((t, tx, db));
    let begun = Instant::now();
    let db = said(Database::open(&dir, options()))?;
    let opened = ms(begun);
    let found = db.aborted_count();
    if found != in_map || found < rolled_back {
        return Err(format!("{rolled_back} rolled back, {in_map} in the map, {found} after opening"));
    }
    let begun = Instant::now();
    let swept = said(db.clean())?;
    Ok(format!(
        "In a real database, {rolled_back} transactions that insert a row were rolled back with the cleaner off: \
         {:.1} µs a rollback. A checkpoint then took {checkpoint} ms, durable; the database, not closed cleanly, \
         opened in {opened} ms with {found} ids in the map. One sweep visited {} pages and forgot {} ids in {} ms.\n",
        took * 1e6 / rolled_back as f64,
        swept.pages,
        swept.forgotten,
        ms(begun),
    ))
}

/// The whole experiment.
pub fn run(options: &Options) -> Result<()> {
    let work = Work::new(&options.common)?;
    let mut rows = Vec::new();
    for transactions in &options.transactions {
        for shape in &SHAPES {
            rows.push(one(shape, *transactions, work.path())?);
        }
    }
    let header = [
        "aborted transactions",
        "which ids",
        "abort, ns",
        "lookup of one that is in, ns",
        "of one that is not, ns",
        "memory, KB",
        "copy for a sweep, ms",
        "in a checkpoint, KB",
        "encode, ms",
        "opening, ms",
        "forget all, ms",
    ];
    let mut text = format!(
        "# The aborted-transaction map\n\n{}\
         What `txn/src/atm.rs` costs by how many ids it holds and how they lie. One thread, each number once; \
         lookups are 2,000,000 of ids drawn by xorshift64 from a fixed seed. \"Opening\" is analysis of a log that \
         holds one checkpoint with this map, and filling the map from it: what the map adds to an opening. \
         A checkpoint holds besides the ids the time and LSN of at most 8192 transactions (192 KB).\n\n{}\n{}\n",
        provenance(),
        machine::describe(work.path()),
        table(&header, &rows),
    );
    if options.rolled_back > 0 {
        text.push_str(&real(options.rolled_back, work.path())?);
    }
    let path = options.common.out.join("aborted-map.md");
    fs::write(&path, &text).map_err(|e| format!("could not write \"{}\": {e}", path.display()))?;
    println!("{text}\nwritten to {}", path.display());
    Ok(())
}
