//! The two servers side by side: one session with each, the same statement to both.
//!
//! Both sessions are kept in the same state of transaction, which is PostgreSQL's: in a block
//! each statement runs at Resurgam behind a savepoint, so that one that only Resurgam refuses
//! does not end the block there, and one that only PostgreSQL refuses does.
//!
//! Resurgam is restarted when it dies, hangs or takes too much memory; its data stay, what
//! was not committed is gone, and accepted settings are made again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::judge::Said;
use super::script::Both;
use super::words;
use crate::answers::client::{Client, Outcome, Target};
use crate::servers::{Kind, Server, Work, output};
use crate::{Common, Result};

/// The name of the savepoints; no script has it.
const GUARD: &str = "lab_guard";

/// What both sessions begin with: the zone of PostgreSQL's own runner, by the name that means
/// the same in each version of the time zone database. The look of dates is left at ISO.
const PREAMBLE: &str = "SET TIME ZONE 'America/Los_Angeles'";

/// How patient and generous the pair is.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Of a statement, for either server.
    pub statement: Duration,
    /// Resident memory of Resurgam, in bytes; beyond it it is killed.
    pub memory_bytes: u64,
}

/// The servers and a session with each.
pub struct Pair {
    postgres: Server,
    resurgam: Server,
    clients: [Option<Client>; 2],
    /// `I`, `T` or `E` of each session.
    status: [u8; 2],
    user: String,
    /// Settings of this session that both accepted, to be made again after a restart.
    settings: Vec<String>,
    limits: Limits,
    watch: Arc<Watch>,
    pub restarts: usize,
}

/// Which session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Postgres = 0,
    Resurgam = 1,
}

impl Pair {
    /// Makes both servers anew.
    pub fn start(common: &Common, work: &Work, limits: Limits) -> Result<Self> {
        let mut postgres = Server::create(Kind::Postgres, common, work.path())?;
        let mut client = postgres.client()?;
        let seconds = limits.statement.as_secs();
        for setting in [
            "timezone = 'UTC'".to_owned(),
            "max_prepared_transactions = 2".into(),
            // Nothing here measures it, nor survives this run.
            "full_page_writes = off".into(),
            format!("statement_timeout = '{seconds}s'"),
        ] {
            client.query(&format!("ALTER SYSTEM SET {setting}"))?;
        }
        drop(client);
        postgres.stop()?;
        postgres.start()?;
        let flags = [
            format!("--statement-timeout={seconds}s"),
            format!("--query-memory-bytes={}", limits.memory_bytes / 4),
            "--max-prepared-transactions=2".into(),
        ];
        let resurgam = Server::create_with(Kind::Resurgam, common, work.path(), &flags)?;
        let watch = Arc::new(Watch::new());
        watch.look(resurgam.process());
        watch.clone().start(limits.memory_bytes);
        Ok(Self {
            postgres,
            resurgam,
            clients: [None, None],
            status: [b'I'; 2],
            user: "postgres".into(),
            settings: Vec::new(),
            limits,
            watch,
            restarts: 0,
        })
    }

    /// Both servers, for the record.
    pub fn servers(&self) -> [&Server; 2] {
        [&self.postgres, &self.resurgam]
    }

    /// New sessions of this user. Says what Resurgam had against it: its session is one of
    /// `postgres` then.
    pub fn connect(&mut self, user: &str) -> Result<Option<String>> {
        self.clients = [None, None];
        self.status = [b'I'; 2];
        self.settings.clear();
        self.user = user.to_owned();
        let postgres = self.open(Side::Postgres, user);
        if postgres.is_err() {
            self.user = "postgres".into();
            self.clients[0] = Some(self.open(Side::Postgres, "postgres")?);
        } else {
            self.clients[0] = postgres.ok();
        }
        let user = self.user.clone();
        let (client, complaint) = match self.open(Side::Resurgam, &user) {
            Ok(client) => (client, None),
            Err(why) if user != "postgres" => (self.open(Side::Resurgam, "postgres")?, Some(why)),
            Err(why) => return Err(why),
        };
        self.clients[1] = Some(client);
        Ok(complaint)
    }

    fn open(&self, side: Side, user: &str) -> Result<Client> {
        let server = if side == Side::Postgres { &self.postgres } else { &self.resurgam };
        let mut target = Target::new(server.port);
        target.user = user.to_owned();
        target.patience = Some(self.limits.statement + Duration::from_secs(5));
        let mut client = Client::connect(&target)?;
        client.set_rows_max(200_000);
        client.query(PREAMBLE)?;
        Ok(client)
    }

    /// Texts of the first column that PostgreSQL answers to a query of our own.
    ///
    /// # Errors
    /// A server that cannot be started again.
    pub fn ask_postgres(&mut self, sql: &str) -> Result<Vec<String>> {
        let Said::Reply(reply) = self.send(Side::Postgres, sql, &mut |_| None)? else { return Ok(Vec::new()) };
        let rows = reply.outcomes.iter().flat_map(|outcome| &outcome.rows);
        Ok(rows.filter_map(|row| Outcome::texts(row).into_iter().next().flatten()).collect())
    }

    /// Sends both a query of our own, which changes nothing, also if it fails.
    ///
    /// # Errors
    /// A server that cannot be started again.
    pub fn look(&mut self, sql: &str) -> Result<[Said; 2]> {
        let [theirs, ours] = [Side::Postgres, Side::Resurgam].map(|side| {
            let block = self.status[side as usize] == b'T';
            if block {
                self.send(side, &format!("SAVEPOINT {GUARD}"), &mut |_| None)?;
            }
            let said = self.send(side, sql, &mut |_| None)?;
            if block {
                self.send(side, &format!("ROLLBACK TO {GUARD}"), &mut |_| None)?;
                self.send(side, &format!("RELEASE {GUARD}"), &mut |_| None)?;
            }
            Ok::<_, String>(said)
        });
        Ok([theirs?, ours?])
    }

    /// Runs statements of our own at Resurgam, all or none, the data for a COPY beside each;
    /// whether they succeeded.
    ///
    /// # Errors
    /// A server that cannot be started again.
    pub fn own(&mut self, statements: &[(String, Option<Vec<u8>>)]) -> Result<bool> {
        let block = self.status[1] != b'I';
        self.quietly(if block { "SAVEPOINT lab_guard" } else { "BEGIN" })?;
        let mut done = true;
        for (sql, data) in statements {
            let said = self.send(Side::Resurgam, sql, &mut |_| data.clone())?;
            done = matches!(said, Said::Reply(_)) && said.error().is_none();
            if !done {
                break;
            }
        }
        match (block, done) {
            (false, true) => self.quietly("COMMIT")?,
            (false, false) => self.quietly("ROLLBACK")?,
            (true, true) => self.quietly("RELEASE lab_guard")?,
            (true, false) => self.quietly("ROLLBACK TO lab_guard")?,
        }
        Ok(done)
    }

    /// Whether the sessions are in a block that has failed.
    pub fn has_failed(&self) -> bool {
        self.status[0] == b'E'
    }

    /// Whether PostgreSQL's session is in a block.
    pub fn in_block(&self) -> bool {
        self.status[0] != b'I'
    }

    /// Sends a statement to both. `data` is asked for what follows a COPY … FROM STDIN when
    /// PostgreSQL asks for it; Resurgam gets the same. With `undo` it leaves no trace there.
    ///
    /// # Errors
    /// A server that cannot be started again.
    pub fn run(&mut self, texts: &Both, data: &mut dyn FnMut() -> Vec<u8>, undo: bool) -> Result<[Said; 2]> {
        let alone = undo && self.status == [b'I'; 2];
        let guarded = self.status == [b'T'; 2] && can_be_guarded(&texts[0]);
        let mut copied: Vec<Vec<u8>> = Vec::new();
        let theirs = self.send(Side::Postgres, &texts[0], &mut |_| {
            copied.push(data());
            copied.last().cloned()
        })?;
        if alone {
            self.quietly("BEGIN")?;
        }
        if guarded {
            self.quietly(&format!("SAVEPOINT {GUARD}"))?;
        }
        let ours = self.send(Side::Resurgam, &texts[1], &mut |n| Some(copied.get(n).cloned().unwrap_or_default()))?;
        if matches!(ours, Said::Reply(_)) && guarded {
            match (theirs.error().is_some(), ours.error().is_some()) {
                (false, fails) if fails || undo => self.quietly(&format!("ROLLBACK TO {GUARD}"))?,
                (true, false) => {
                    self.quietly(&format!("ROLLBACK TO {GUARD}"))?;
                    self.fail()?;
                }
                (false, _) => self.quietly(&format!("RELEASE {GUARD}"))?,
                (true, true) => {}
            }
        }
        if alone {
            self.quietly("ROLLBACK")?;
        }
        self.follow()?;
        if theirs.error().is_none() && ours.error().is_none() {
            self.note(&texts[1]);
        }
        Ok([theirs, ours])
    }

    /// Brings Resurgam's session into the state of PostgreSQL's.
    fn follow(&mut self) -> Result<()> {
        match (self.status[0], self.status[1]) {
            (a, b) if a == b => {}
            (b'I', b'T') => self.quietly("COMMIT")?,
            (b'I', _) => self.quietly("ROLLBACK")?,
            (b'T', b'I') => self.quietly("BEGIN")?,
            (b'T', _) => {
                self.quietly("ROLLBACK")?;
                self.quietly("BEGIN")?;
            }
            (_, b'I') => {
                self.quietly("BEGIN")?;
                self.fail()?;
            }
            _ => self.fail()?,
        }
        Ok(())
    }

    /// Makes Resurgam's block a failed one.
    fn fail(&mut self) -> Result<()> {
        self.quietly("SELECT lab_fails_here")
    }

    /// Sends Resurgam a statement of our own.
    fn quietly(&mut self, sql: &str) -> Result<()> {
        self.send(Side::Resurgam, sql, &mut |_| None).map(drop)
    }

    fn send(&mut self, side: Side, sql: &str, copy: &mut dyn FnMut(usize) -> Option<Vec<u8>>) -> Result<Said> {
        let at = side as usize;
        let Some(client) = self.clients[at].as_mut() else { return Err("no session".into()) };
        // The client is patient as long as anything comes; the watch is not.
        if side == Side::Resurgam {
            self.watch.begin(self.limits.statement + Duration::from_secs(10));
        }
        let answer = client.query_with_copy(sql, copy);
        self.watch.end();
        let why = match answer {
            Ok(reply) => {
                self.status[at] = reply.status;
                return Ok(Said::Reply(reply));
            }
            Err(why) => why,
        };
        self.clients[at] = None;
        self.status[at] = b'I';
        if side == Side::Postgres {
            return self.reopen_postgres(why);
        }
        self.reopen_resurgam(why)
    }

    /// PostgreSQL ends sessions on purpose (`pg_terminate_backend`), and restarts after a
    /// crash of one.
    fn reopen_postgres(&mut self, why: String) -> Result<Said> {
        let mut last = String::new();
        for _ in 0..100 {
            match self.open(Side::Postgres, &self.user) {
                Ok(client) => {
                    self.clients[0] = Some(client);
                    return Ok(Said::Lost(why));
                }
                Err(message) => last = message,
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!("PostgreSQL is gone: {why}; {last}"))
    }

    fn reopen_resurgam(&mut self, why: String) -> Result<Said> {
        // A process that dies needs a moment to be gone.
        std::thread::sleep(Duration::from_millis(300));
        let ended = self.resurgam.has_ended();
        let silent = why.contains("os error 11") || why.contains("timed out");
        let killed = self.watch.killed.swap(0, Ordering::Relaxed);
        let said = if killed == BIG {
            Said::Crash(format!("more than {} MB of memory", self.limits.memory_bytes >> 20))
        } else if killed == SLOW {
            Said::Hang("an answer without an end".into())
        } else if ended {
            Said::Crash("the server died".into())
        } else if silent {
            let seconds = self.limits.statement.as_secs() + 5;
            Said::Hang(format!("no answer in {seconds} s, past a statement_timeout"))
        } else {
            Said::Lost(why)
        };
        if !matches!(said, Said::Lost(_)) {
            self.restarts += 1;
            self.watch.look(None);
            self.resurgam.kill();
            self.resurgam.start()?;
            self.watch.look(self.resurgam.process());
        }
        let user = self.user.clone();
        let mut client = self.open(Side::Resurgam, &user).or_else(|_| self.open(Side::Resurgam, "postgres"))?;
        for setting in &self.settings {
            client.query(setting)?;
        }
        self.clients[1] = Some(client);
        Ok(said)
    }

    /// Remembers a setting of the session.
    fn note(&mut self, sql: &str) {
        let tokens = words::tokens(sql);
        let lower = sql.to_lowercase();
        let local = lower.starts_with("set local") || lower.starts_with("set transaction") || lower.contains(';');
        if matches!(words::first(&tokens), "set" | "reset" | "discard") && !local && !self.in_block() {
            self.settings.push(sql.to_owned());
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.watch.done.store(true, Ordering::Relaxed);
    }
}

/// Whether a savepoint before a statement changes nothing for it.
fn can_be_guarded(sql: &str) -> bool {
    let tokens = words::tokens(sql);
    let second = match tokens.get(1) {
        Some(words::Token::Word(word)) => word.as_str(),
        _ => "",
    };
    match words::first(&tokens) {
        "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" => false,
        "prepare" => second != "transaction",
        "set" => !matches!(second, "transaction" | "session"),
        _ => true,
    }
}

/// Why the watch killed the process.
const BIG: u8 = 1;
const SLOW: u8 = 2;

/// Looks at the memory of a process, and at how long it takes; kills it before it takes the
/// machine's.
struct Watch {
    begun: Instant,
    /// The process, 0 without.
    process: AtomicU32,
    /// When the running statement must have ended, in milliseconds from `begun`; 0 without.
    deadline_ms: AtomicU64,
    killed: AtomicU8,
    done: AtomicBool,
}

impl Watch {
    fn new() -> Self {
        let (process, deadline_ms) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { begun: Instant::now(), process, deadline_ms, killed: AtomicU8::new(0), done: AtomicBool::new(false) }
    }

    fn look(&self, process: Option<u32>) {
        self.process.store(process.unwrap_or(0), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn begin(&self, limit: Duration) {
        self.deadline_ms.store(self.now_ms() + limit.as_millis() as u64, Ordering::Relaxed);
    }

    fn end(&self) {
        self.deadline_ms.store(0, Ordering::Relaxed);
    }

    fn start(self: Arc<Self>, memory_bytes: u64) {
        std::thread::spawn(move || {
            while !self.done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                let (id, deadline) = (self.process.load(Ordering::Relaxed), self.deadline_ms.load(Ordering::Relaxed));
                let why = match () {
                    () if id == 0 => continue,
                    () if resident_bytes(id) > memory_bytes => BIG,
                    () if deadline != 0 && self.now_ms() > deadline => SLOW,
                    () => continue,
                };
                self.look(None);
                self.killed.store(why, Ordering::Relaxed);
                let _ = output(std::process::Command::new("kill").arg("-KILL").arg(id.to_string()));
            }
        });
    }
}

/// Memory that a process holds, 0 if it is not there.
fn resident_bytes(id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
    let pages = stat.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_statements_cannot_be_behind_a_savepoint() {
        for sql in ["begin", "ROLLBACK TO a", "set transaction read only", "prepare transaction 'x'"] {
            assert!(!can_be_guarded(sql), "{sql}");
        }
        for sql in ["select 1", "set a = 1", "prepare p as select 1", "insert into t values (1)"] {
            assert!(can_be_guarded(sql), "{sql}");
        }
    }

    #[test]
    fn own_memory_is_seen() {
        assert!(resident_bytes(std::process::id()) > 1 << 20);
        assert_eq!(resident_bytes(0), 0);
    }
}
