//! A database with some tables, made anew now and then, and what must hold of whatever a client sends to it.
//!
//! The fuzzer ends the process at any panic, also one that the database would turn into an error; beside that an error
//! with `XX000`, or a statement that does not end, is a finding.

use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::{Database, Options};
use resurgam_sql::wire::SqlError;
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};

/// Inputs after which the database is made anew, so that what one did does not decide over all others.
const INPUTS_PER_DATABASE: u32 = 2000;
/// Statements are stopped after it.
const STATEMENT_TIMEOUT: Duration = Duration::from_millis(500);
/// Whoever was told to stop and goes on so long does not end.
const END_TIMEOUT: Duration = Duration::from_secs(15);

/// Tables of every kind of column, views, sequences and functions to be found by name.
const SCHEMA: &str = "SET statement_timeout = 0;
CREATE TABLE t (id int PRIMARY KEY, b boolean, s smallint, l bigint, r real, d double precision, n numeric,
    m numeric(12, 3), x text, v varchar(9), c char(4), y bytea, u uuid, j jsonb, k json, da date, ti time,
    ts timestamp, tz timestamptz, iv interval, ia int[], ta text[]);
CREATE TABLE p (id serial PRIMARY KEY, name text NOT NULL DEFAULT 'a' CHECK (name <> ''), UNIQUE (name));
CREATE TABLE q (a int REFERENCES p, b int GENERATED ALWAYS AS (a * 2) STORED, e numeric);
CREATE INDEX ON t (x, l DESC);
CREATE INDEX ON q ((a + 1)) WHERE a > 0;
CREATE VIEW w AS SELECT id, x, n FROM t WHERE b;
CREATE SEQUENCE sq;
INSERT INTO t SELECT g, g % 2 = 0, g, g * 1000, g / 3.0, g / 7.0, g / 11.0, g, 'x' || g, 'v' || g, 'c', '\\xabcd',
    '00000000-0000-0000-0000-000000000001', '{\"a\": [1, 2.50, null]}', '[1]', '2024-02-29', '12:00', '2024-02-29 1:00',
    '2024-02-29 1:00+00', '1 mon 2 days', ARRAY[g, NULL], ARRAY['a', 'b'] FROM generate_series(1, 20) g;
INSERT INTO t (id) VALUES (100);
INSERT INTO p (name) VALUES ('one'), ('two');
INSERT INTO q (a, e) VALUES (1, 1.5), (2, NULL), (NULL, 'NaN');";

/// A database and the threads that run it.
pub struct World {
    runtime: tokio::runtime::Runtime,
    made: Option<(Arc<SqlDatabase>, tempfile::TempDir)>,
    inputs: u32,
}

impl World {
    pub fn new() -> Self {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        threads.worker_threads(1).thread_stack_size(resurgam_sql::STACK_BYTES).enable_all();
        Self { runtime: threads.build().expect("threads"), made: None, inputs: 0 }
    }

    fn database(&mut self) -> Arc<SqlDatabase> {
        self.inputs += 1;
        if self.inputs % INPUTS_PER_DATABASE == 0 {
            self.made = None;
        }
        let made = self.made.get_or_insert_with(|| {
            let dir = tempfile::tempdir().expect("folder");
            let options = Options { buffer_bytes: 16 << 20, cleaner_interval_s: 5.0, ..Options::default() };
            let engine = Database::open(dir.path().join("data"), options).expect("open");
            let settings = SqlSettings {
                statement_timeout: STATEMENT_TIMEOUT,
                synchronous_commit: false,
                query_memory_bytes: 64 << 20,
                ..SqlSettings::default()
            };
            let database = SqlDatabase::new(engine, settings);
            let mut session = database.session(SessionOptions::default()).expect("session");
            self.runtime.block_on(session.query_all(SCHEMA)).expect("schema");
            (database, dir)
        });
        Arc::clone(&made.0)
    }

    /// Runs `work` in a session of its own, to its end.
    pub fn run(&mut self, work: impl AsyncFnOnce(&mut Session) -> Result<(), SqlError>) {
        let database = self.database();
        let mut session = database.session(SessionOptions::default()).expect("session");
        let done = self.runtime.block_on(async { tokio::time::timeout(END_TIMEOUT, work(&mut session)).await });
        match done {
            Ok(Err(error)) => sound(&error),
            Ok(Ok(())) => {}
            Err(_) => panic!("it did not end"),
        }
        session.end();
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// # Panics
/// If the error says that the database is wrong, not the input.
pub fn sound(error: &SqlError) {
    // PostgreSQL's own answer to `nextval('3')`.
    if error.message.starts_with("could not open relation with OID ") {
        return;
    }
    assert!(error.sqlstate != "XX000" && error.sqlstate != "XX001", "{error}");
    assert_eq!(error.sqlstate.len(), 5, "{error}");
}
