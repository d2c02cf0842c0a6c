//! Crashes of a database whose sessions have temporary tables, views, sequences and types: seeded lives on a simulated disk.
//! What the layer of SQL makes of the engine's schedules with them (`engine/tests/harness/temporary.rs`): how names are made and
//! who drops what a crash has left.
//!
//! After each crash a session that comes may make temporary tables at once and finds nothing of others in its own; what was left
//! goes while sessions work, another crash or not; what stays has all that was committed. At last no definition and no page is
//! there that was not there at the beginning.
//!
//! `RESURGAM_SEED=s` runs one schedule and says every statement, `RESURGAM_TEMPORARY_SCHEDULES=n` so many. A runtime's thread
//! works beside, so a seed does not mean all.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_engine::{Database, Isolation, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};
use resurgam_vfs::{FaultPlan, SimConfig, SimVfs, Vfs};

const SESSIONS: usize = 3;
const LIVES: u64 = 3;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What was met, to know that schedules meet something.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    statements: u64,
    refused: u64,
    crashes: u64,
    ends: u64,
    /// Openings that found temporary schemas, and the schemas.
    left: u64,
    schemas: u64,
}

impl Met {
    fn add(&mut self, o: Met) {
        self.statements += o.statements;
        self.refused += o.refused;
        self.crashes += o.crashes;
        self.ends += o.ends;
        self.left += o.left;
        self.schemas += o.schemas;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    None,
    /// Nobody drops at last what crashes have left: the schedules must notice.
    Left,
}

/// One of the sessions; each has a table of its own that stays, so that none waits for another.
struct Client {
    session: Session,
    own: usize,
    in_transaction: bool,
    failed: bool,
    /// Rows of its table that the open transaction has added.
    added: BTreeSet<u64>,
}

/// Whether the server has failed, and not the statement.
fn is_failure(sqlstate: &str) -> bool {
    ["XX", "58", "53", "57", "40", "55P03"].iter().any(|class| sqlstate.starts_with(class))
}

/// A statement about temporary things. Many cannot be done as things are, which is fine.
fn statement(rng: &mut Rng) -> String {
    let name = ["t", "u", "w"][rng.below(3) as usize];
    let other = ["t", "u", "w"][rng.below(3) as usize];
    let on_commit = ["", " ON COMMIT DELETE ROWS", " ON COMMIT DROP"][rng.below(3) as usize];
    match rng.below(24) {
        0..=2 => format!("CREATE TEMP TABLE {name} (id serial PRIMARY KEY, v text){on_commit}"),
        3 => format!(
            "CREATE TEMP TABLE {name} (id int UNIQUE, v varchar(9000) COLLATE \"C\", CHECK (id > -5)){on_commit}"
        ),
        4 => format!(
            "CREATE TEMP TABLE {name}{on_commit} AS SELECT n AS id, repeat('x', n) AS v FROM generate_series(1, 50) n"
        ),
        5 => format!("CREATE TEMP TABLE {name} (id int REFERENCES {other} (id), v text)"),
        6..=9 => format!(
            "INSERT INTO {name} (v) SELECT repeat('y', n * 20) FROM generate_series(1, {}) n",
            1 + rng.below(60)
        ),
        10 => format!("INSERT INTO {name} (v) VALUES (repeat('large', {}))", rng.below(4000)),
        11 => format!("UPDATE {name} SET v = v || 'z' WHERE id % 3 = {}", rng.below(3)),
        12 => format!("DELETE FROM {name} WHERE id % 4 = {}", rng.below(4)),
        13 => format!("TRUNCATE {name}"),
        14 => format!("DROP TABLE {name} CASCADE"),
        15 => format!("CREATE TEMP VIEW v_{name} AS SELECT id, v FROM {other}"),
        16 => format!("CREATE TEMP SEQUENCE s_{name}; SELECT nextval('s_{name}')"),
        17 => format!("CREATE INDEX {name}_v ON {name} (lower(v)); COMMENT ON TABLE {name} IS 'mine'"),
        18 => format!("ALTER TABLE {name} ADD COLUMN more int DEFAULT 7"),
        19 => format!("ALTER TABLE {name} ALTER COLUMN v TYPE varchar USING v::varchar"),
        20 => format!("ANALYZE {name}"),
        21 => format!("GRANT SELECT ON {name} TO PUBLIC; COMMENT ON COLUMN {name}.v IS 'a text'"),
        22 if rng.one_in(3) => "DISCARD TEMP".to_owned(),
        22 => format!("CREATE TYPE pg_temp.e_{name} AS ENUM ('a', 'b')"),
        _ => format!("SELECT count(*), max(v) FROM {name}"),
    }
}

/// What goes on from one life to the next.
#[derive(Default)]
struct Carried {
    /// What is in the tables that stay; where a commit was not answered, what may be there besides.
    rows: [BTreeSet<u64>; SESSIONS],
    perhaps: Option<(usize, BTreeSet<u64>)>,
    serial: u64,
    met: Met,
}

struct World {
    sql: Arc<SqlDatabase>,
    engine: Database,
    vfs: SimVfs,
    rng: Rng,
    clients: Vec<Client>,
    carried: Carried,
    trace: bool,
}

type Found<T> = Result<T, String>;

impl World {
    fn is_dead(&self) -> bool {
        self.vfs.power_lost()
    }

    /// Runs a text of statements; whether it succeeded.
    async fn run(&mut self, at: usize, text: &str) -> Found<bool> {
        let outcome = self.clients[at].session.query(text).await;
        self.carried.met.statements += 1;
        if self.trace {
            let told = outcome.as_ref().map(|_| ()).map_err(|error| error.to_string());
            eprintln!("  session {at}: {text}: {told:?}");
        }
        match outcome {
            Ok(_) => Ok(true),
            Err(_) if self.is_dead() => Ok(false),
            Err(error) if is_failure(&error.sqlstate) => Err(format!("{text}: {}: {error}", error.sqlstate)),
            Err(_) => {
                self.carried.met.refused += 1;
                self.clients[at].failed = self.clients[at].in_transaction;
                Ok(false)
            }
        }
    }

    fn connect(&mut self) -> Found<()> {
        let Some(own) = (0..SESSIONS).find(|own| self.clients.iter().all(|client| client.own != *own)) else {
            return Ok(());
        };
        let session = match self.sql.session(SessionOptions::default()) {
            Ok(session) => session,
            Err(_) if self.is_dead() => return Ok(()),
            Err(error) => return Err(format!("a session: {error}")),
        };
        self.clients.push(Client { session, own, in_transaction: false, failed: false, added: BTreeSet::new() });
        Ok(())
    }

    async fn end_transaction(&mut self, at: usize, commits: bool) -> Found<()> {
        let (own, added) = (self.clients[at].own, std::mem::take(&mut self.clients[at].added));
        let commits = commits && !self.clients[at].failed;
        let done = self.run(at, if commits { "COMMIT" } else { "ROLLBACK" }).await?;
        let client = &mut self.clients[at];
        (client.in_transaction, client.failed) = (false, false);
        match (commits, done) {
            (true, true) => self.carried.rows[own].extend(added),
            (true, false) if self.is_dead() => self.carried.perhaps = Some((own, added)),
            _ => {}
        }
        Ok(())
    }

    async fn step(&mut self) -> Found<()> {
        if self.clients.is_empty() || self.clients.len() < SESSIONS && self.rng.one_in(8) {
            return self.connect();
        }
        let at = self.rng.below(self.clients.len() as u64) as usize;
        if self.clients[at].failed {
            return self.end_transaction(at, false).await;
        }
        match self.rng.below(30) {
            0 => {
                // Also within a transaction.
                drop(self.clients.swap_remove(at));
                self.carried.met.ends += 1;
                if self.rng.one_in(2) {
                    tokio::time::sleep(Duration::from_millis(self.rng.below(4))).await;
                }
                Ok(())
            }
            1 | 2 => {
                let result = match self.rng.below(6) {
                    0 | 1 => self.engine.checkpoint(),
                    2 => self.engine.write_back().map(drop),
                    3 | 4 => self.engine.clean_now().map(drop),
                    _ => self.engine.finish_recovery(),
                };
                match result {
                    Err(_) if self.is_dead() => Ok(()),
                    Err(error) => Err(format!("maintenance: {error:?}")),
                    Ok(()) => Ok(()),
                }
            }
            3..=5 if !self.clients[at].in_transaction => {
                self.clients[at].in_transaction = self.run(at, "BEGIN").await?;
                Ok(())
            }
            3..=5 => {
                let commits = !self.rng.one_in(3);
                self.end_transaction(at, commits).await
            }
            6..=9 => {
                self.carried.serial += 1;
                let (own, number) = (self.clients[at].own, self.carried.serial);
                let alone = !self.clients[at].in_transaction;
                if self.run(at, &format!("INSERT INTO public.p{own} VALUES ({number}, repeat('p', 300))")).await? {
                    let rows = if alone { &mut self.carried.rows[own] } else { &mut self.clients[at].added };
                    rows.insert(number);
                } else if alone && self.is_dead() {
                    self.carried.perhaps = Some((own, BTreeSet::from([number])));
                }
                Ok(())
            }
            10 if self.clients[at].in_transaction => {
                let text = statement(&mut self.rng);
                self.run(at, "SAVEPOINT s").await?;
                if !self.clients[at].failed && !self.run(at, &text).await? && !self.is_dead() {
                    self.clients[at].failed = !self.run(at, "ROLLBACK TO s").await?;
                }
                Ok(())
            }
            _ => {
                let text = statement(&mut self.rng);
                self.run(at, &text).await.map(drop)
            }
        }
    }

    /// After an opening: what stays is what was committed.
    async fn compare(&mut self) -> Found<()> {
        let mut session = match self.sql.session(SessionOptions::default()) {
            Ok(session) => session,
            Err(_) if self.is_dead() => return Ok(()),
            Err(error) => return Err(format!("a session: {error}")),
        };
        for own in 0..SESSIONS {
            let found = match session.query(&format!("SELECT k FROM public.p{own}")).await {
                Ok(result) => result.rows,
                Err(_) if self.is_dead() => return Ok(()),
                Err(error) => return Err(format!("reading p{own}: {error}")),
            };
            let found: BTreeSet<u64> =
                found.iter().filter_map(|row| row[0].as_deref().and_then(|text| text.parse().ok())).collect();
            if let Some((of, added)) = self.carried.perhaps.take_if(|(of, _)| *of == own) {
                let with: BTreeSet<u64> = self.carried.rows[of].union(&added).copied().collect();
                if found == with {
                    self.carried.rows[of] = with;
                }
            }
            if found != self.carried.rows[own] {
                return Err(format!("p{own} has {found:?}, committed are {:?}", self.carried.rows[own]));
            }
        }
        // What others have left is not this one's, whatever number it gets.
        for text in ["CREATE TEMP TABLE w (only int)", "INSERT INTO w VALUES (1)", "SELECT only FROM w", "DROP TABLE w"]
        {
            match session.query(text).await {
                Ok(result) if text.starts_with("SELECT") && result.rows != [[Some("1".to_owned())]] => {
                    return Err(format!("a temporary table of its own has {:?}", result.rows));
                }
                Ok(_) => {}
                Err(_) if self.is_dead() => return Ok(()),
                Err(error) => return Err(format!("{text}: {error}")),
            }
        }
        Ok(())
    }
}

/// Everything that the catalog has, but for what is of the layer above's own making at an opening.
fn entries(engine: &Database) -> Found<Vec<String>> {
    let all = engine.begin(Isolation::ReadCommitted).entries_everywhere().map_err(|error| error.to_string())?;
    Ok(all.iter().map(|entry| format!("{}.{}", entry.schema, entry.name)).collect())
}

fn temporary(engine: &Database) -> Found<u64> {
    Ok(entries(engine)?.iter().filter(|name| name.starts_with(".pg_temp_")).count() as u64)
}

fn options(seed: u64) -> Options {
    Options {
        accelerated_database_recovery: match std::env::var("RESURGAM_MODE").as_deref() {
            Ok("traditional") => false,
            Ok("accelerated") => true,
            _ => !seed.is_multiple_of(3),
        },
        background: false,
        log_segment_bytes: 264 << 10,
        ..Options::default()
    }
}

fn opened(vfs: &SimVfs, seed: u64) -> Result<(Database, Arc<SqlDatabase>), String> {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let engine = Database::open_with(shared, Path::new("/db"), options(seed), |_| {})
        .map_err(|error| format!("open: {error:?}"))?;
    let sql = SqlDatabase::new(engine.clone(), SqlSettings::default());
    Ok((engine, sql))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("runtime")
}

/// A catalog and its pages as they were before there was anything temporary.
async fn look_at_last(engine: &Database, baseline: &[String], patience: Duration) -> Found<()> {
    let failed = |what: &str, error: resurgam_engine::Error| format!("at last, {what}: {error:?}");
    let begun = Instant::now();
    while temporary(engine)? > 0 {
        if begun.elapsed() > patience {
            return Err("at last, temporary schemas stay".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    engine.finish_recovery().map_err(|error| failed("finishing recovery", error))?;
    for _ in 0..5 {
        engine.clean().map_err(|error| failed("cleaning", error))?;
        // Something must move for the horizon to be seen to move.
        let tx = engine.begin(Isolation::ReadCommitted);
        let moved = tx.commit(resurgam_engine::Durability::Sync).and_then(|ticket| ticket.wait());
        moved.map_err(|error| failed("commit", error))?;
    }
    let found = entries(engine)?;
    if found != baseline {
        return Err(format!("at last, the catalog has {found:?}, expected {baseline:?}"));
    }
    let pending = engine.pending_frees_len().map_err(|error| failed("pending frees", error))?;
    let problems = engine.verify().map_err(|error| failed("verify", error))?;
    if pending > 0 || !problems.is_empty() {
        return Err(format!("at last, {pending} pending frees, {}", problems.join("; ")));
    }
    Ok(())
}

/// One life, until its end or a crash. Returns the disk as the next one finds it.
fn live(mut vfs: SimVfs, life: u64, rng: &mut Rng, how: How, mut carried: Carried) -> Found<(SimVfs, Carried)> {
    // An opening may be cut off as well.
    let cut = (life > 0 && rng.one_in(4)).then(|| 1 + rng.below(40));
    vfs.set_faults(FaultPlan { crash_after_ops: cut, ..FaultPlan::default() });
    let (engine, sql) = match opened(&vfs, how.seed) {
        Ok(opened) => opened,
        Err(_) if vfs.power_lost() => {
            carried.met.crashes += 1;
            vfs = vfs.crash();
            opened(&vfs, how.seed)?
        }
        Err(error) => return Err(error),
    };
    // It may have no power any more.
    let left = temporary(&engine).unwrap_or_default();
    carried.met.left += u64::from(left > 0);
    carried.met.schemas += left;
    if how.planted == Planted::Left {
        // Without a runtime nobody looks for what was left.
        drop(sql.session(SessionOptions::default()));
    }
    let world_rng = Rng(rng.next());
    let mut world = World { sql, engine, vfs, rng: world_rng, clients: Vec::new(), carried, trace: how.trace };
    let steps = 20 + rng.below(70);
    let crash = (!rng.one_in(5)).then(|| 1 + rng.below(1500));
    let runtime = runtime();
    runtime.block_on(async {
        world.compare().await?;
        if !world.is_dead() {
            world.vfs.set_faults(FaultPlan { crash_after_ops: crash, ..FaultPlan::default() });
        }
        for _ in 0..steps {
            if world.is_dead() {
                break;
            }
            world.step().await?;
        }
        Ok::<_, String>(())
    })?;
    // The process ends: the runtime goes before the sessions, so that none of them drops anything.
    drop(runtime);
    let World { sql, engine, clients, vfs, mut carried, .. } = world;
    drop((clients, sql));
    let (lost, end) = (vfs.power_lost(), rng.below(6));
    if !lost && end == 0 {
        vfs.set_faults(FaultPlan::default());
        engine.close().map_err(|error| format!("close: {error:?}"))?;
        return Ok((vfs.kill(), carried));
    }
    drop(engine);
    carried.met.crashes += 1;
    Ok((if !lost && end == 1 { vfs.kill() } else { vfs.crash() }, carried))
}

#[derive(Clone, Copy)]
struct How {
    seed: u64,
    planted: Planted,
    trace: bool,
}

/// Runs one schedule. The error says what was broken.
fn schedule(how: How) -> Found<Met> {
    let mut rng = Rng(how.seed);
    let mut vfs = SimVfs::with_config(SimConfig { seed: rng.next(), sector_bytes: 512 });
    let (engine, sql) = opened(&vfs, how.seed)?;
    let first = runtime();
    first.block_on(async {
        let mut session = sql.session(SessionOptions::default()).map_err(|error| error.to_string())?;
        for own in 0..SESSIONS {
            let made = session.query(&format!("CREATE TABLE p{own} (k int PRIMARY KEY, v text)")).await;
            made.map_err(|error| error.to_string())?;
        }
        Ok::<_, String>(())
    })?;
    let baseline = entries(&engine)?;
    drop((first, sql, engine));
    vfs = vfs.crash();
    let mut carried = Carried::default();
    for life in 0..LIVES {
        (vfs, carried) = live(vfs, life, &mut rng, how, carried)?;
    }
    vfs.set_faults(FaultPlan::default());
    let (engine, sql) = opened(&vfs, how.seed)?;
    carried.met.schemas += temporary(&engine)?;
    if how.planted == Planted::Left {
        drop(sql.session(SessionOptions::default()));
    }
    let mut world = World { sql, engine, vfs, rng: Rng(rng.next()), clients: Vec::new(), carried, trace: how.trace };
    let last = runtime();
    last.block_on(async {
        world.compare().await?;
        // Where nobody drops them there is nothing to wait for.
        let patience = Duration::from_secs(if how.planted == Planted::None { 20 } else { 1 });
        look_at_last(&world.engine, &baseline, patience).await
    })?;
    drop(last);
    let World { sql, engine, carried, .. } = world;
    drop(sql);
    engine.close().map_err(|error| format!("at last, close: {error:?}"))?;
    Ok(carried.met)
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// See the module.
#[test]
fn nothing_temporary_outlives_a_crash() {
    if let Some(seed) = variable("RESURGAM_SEED") {
        let how = How { seed, planted: Planted::None, trace: true };
        return schedule(how).map(drop).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    let count = variable("RESURGAM_TEMPORARY_SCHEDULES").unwrap_or(24);
    let first = variable("RESURGAM_FIRST_SEED").unwrap_or(1);
    let (mut met, mut failures) = (Met::default(), Vec::new());
    for seed in first..first + count {
        match schedule(How { seed, planted: Planted::None, trace: false }) {
            Ok(one) => met.add(one),
            Err(what) => failures.push(format!("seed {seed}: {what}")),
        }
    }
    eprintln!("{count} schedules: {met:?}");
    assert!(failures.is_empty(), "{} of {count} schedules failed: {failures:#?}", failures.len());
    assert!(met.schemas > count / 2 && met.crashes > count && met.statements > 20 * count, "{met:?}");
    assert!(met.refused * 3 < met.statements * 2, "most statements are refused: {met:?}");
}

/// A database that does not drop what was left is noticed.
#[test]
fn what_nobody_drops_after_a_crash_is_caught() {
    let fails = |seed: &u64| schedule(How { seed: *seed, planted: Planted::Left, trace: false }).is_err();
    let caught = (1..=4).filter(fails).count();
    eprintln!("caught by {caught} of 4 schedules");
    assert!(caught > 1, "caught by {caught} of 4 schedules");
}
