//! One of the servers with the data: how it got there, and how its queries end.

use std::time::{Duration, Instant};

use super::Options;
use super::population::{Population, Table};
use super::schema;
use crate::Result;
use crate::mix;
use crate::servers::{Kind, Server};
use crate::setup::bytes_of;
use crate::wire::{Client, Row};

/// Input of COPY that is sent at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// How much later than its time limit a statement may end before its connection is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Seconds that a server took to get the data, and what became of it.
#[derive(Clone, Copy, Default)]
pub struct Loading {
    pub copy: f64,
    pub keys: f64,
    pub indexes: f64,
    pub analyze: f64,
    /// Bytes of its files afterwards.
    pub disk_bytes: u64,
}

/// How a query ended.
#[derive(Debug, PartialEq)]
pub enum End {
    Rows(Vec<Row>),
    /// By its time limit.
    TooLong,
    /// With an error, in words.
    Failed(String),
}

/// A server that has the data.
pub struct Side<'a> {
    pub server: Server,
    pub loading: Loading,
    options: &'a Options,
    /// `None` after an error that may have ended it.
    client: Option<Client>,
}

impl<'a> Side<'a> {
    /// Starts a server and loads it.
    ///
    /// # Errors
    /// In words: it does not start, or refuses the data.
    pub fn new(options: &'a Options, kind: Kind, work: &std::path::Path, population: &Population) -> Result<Self> {
        let server = Server::create_with(kind, &options.common, work, &options.server_flag)?;
        let loading = load(options, &server, population)?;
        Ok(Self { server, loading, options, client: None })
    }

    /// Runs a query; how it ended, and after how many seconds.
    ///
    /// # Errors
    /// The server has ended and does not start again.
    pub fn run(&mut self, sql: &str) -> Result<(End, f64)> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.connect()?,
        };
        let begun = Instant::now();
        let answer = client.rows(sql);
        let seconds = begun.elapsed().as_secs_f64();
        let end = match answer {
            Ok(rows) => {
                self.client = Some(client);
                End::Rows(rows)
            }
            // Cancelled by the timeout; the session goes on, but a new one costs nothing.
            Err(message) if message.starts_with("ERROR 57014") => End::TooLong,
            Err(message) => End::Failed(message),
        };
        Ok((end, seconds))
    }

    /// A session with the limit; of a server that has died meanwhile, after it was started again.
    fn connect(&mut self) -> Result<Client> {
        if self.server.has_ended() {
            self.server.kill();
            self.server.start()?;
        }
        let limit = Duration::from_secs(self.options.limit_seconds);
        let mut client = self.server.client()?;
        client.set_patience(Some(limit + PATIENCE))?;
        client.query(&format!("SET statement_timeout = {}", limit.as_millis()))?;
        if self.server.kind == Kind::Postgres {
            for setting in &self.options.postgres_set {
                client.query(&format!("SET {setting}"))?;
            }
        }
        Ok(client)
    }

    /// The most memory that the server has held; of PostgreSQL it is spread over processes, and nothing is said.
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        if self.server.kind == Kind::Postgres { None } else { self.server.peak_memory_bytes() }
    }
}

/// Makes and fills the tables, one after the other; each row is made when it is sent.
fn load(options: &Options, server: &Server, population: &Population) -> Result<Loading> {
    let mut client = server.client()?;
    let mut loading = Loading::default();
    for table in Table::ALL {
        let (name, key) = (table.name(), schema::key(table));
        let key_now = if options.keys_first { format!(", PRIMARY KEY ({key})") } else { String::new() };
        client.query(&format!("CREATE TABLE {name} ({}{key_now})", schema::columns(table)))?;
        loading.copy += timed(|| copy(&mut client, population, table))?;
        if !options.keys_first {
            loading.keys += timed(|| client.query(&format!("ALTER TABLE {name} ADD PRIMARY KEY ({key})")))?;
        }
        for columns in schema::indexes(table) {
            loading.indexes += timed(|| client.query(&format!("CREATE INDEX ON {name} ({columns})")))?;
        }
        eprintln!("{}: {name} is there", server.kind.name());
    }
    if options.foreign_keys {
        for table in Table::ALL {
            for (columns, other) in schema::references(table) {
                let sql = format!("ALTER TABLE {} ADD FOREIGN KEY ({columns}) REFERENCES {other}", table.name());
                loading.keys += timed(|| client.query(&sql))?;
            }
        }
    }
    loading.analyze =
        timed(|| Table::ALL.iter().try_for_each(|table| client.query(&format!("ANALYZE {}", table.name())).map(drop)))?;
    mix::quiesce(server)?;
    loading.disk_bytes = bytes_of(&server.dir);
    Ok(loading)
}

fn copy(client: &mut Client, population: &Population, table: Table) -> Result<()> {
    let mut steps = 0..population.steps(table);
    let done = client.copy_in(&format!("COPY {} FROM STDIN", table.name()), |chunk| {
        while chunk.len() < CHUNK_BYTES {
            let Some(step) = steps.next() else { return false };
            population.put(table, step, chunk);
        }
        true
    });
    done.map_err(|message| format!("loading {}: {message}", table.name()))
}

/// How long something takes, in seconds.
fn timed<T>(what: impl FnOnce() -> Result<T>) -> Result<f64> {
    let begun = Instant::now();
    what()?;
    Ok(begun.elapsed().as_secs_f64())
}
