//! What statements have cost, by database, role and text: `resurgam_statements`, which the view `pg_stat_statements` shows.
//!
//! Unlike the counters of a plan ([`super::plans`]) these outlive it: definitions change, plans make room for others. Literals
//! of texts are parameters, as far as the lexer lifts them. Statements that are planned are counted; those that failed are not.
//!
//! # Invariants
//! 1. At most [`ENTRIES_MAX`] entries with [`BYTES_MAX`] bytes of text: beyond that those go that were called least.
//! 2. Who counts takes no lock that others than those who run the same statement take, but at the first call of a plan by a role.
//! 3. No constant of a statement is shown.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::sql::sqlparser::tokenizer::Token;
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::parse::lexer;
use crate::pg::context::{StatementCalls, StatementsInfo};

/// Entries, as PostgreSQL's `pg_stat_statements.max`.
const ENTRIES_MAX: usize = 5000;
const BYTES_MAX: usize = 16 << 20;
/// A longer text is cut.
const TEXT_MAX: usize = 64 << 10;
/// Of so many entries one goes when there are too many.
const GO_OF: usize = 20;

/// Counters of one text, database and role.
#[derive(Debug)]
pub(crate) struct Tally {
    database: u32,
    role: u32,
    text: Arc<str>,
    calls: AtomicU64,
    rows: AtomicU64,
    ns: AtomicU64,
    ns_min: AtomicU64,
    ns_max: AtomicU64,
    /// The sum of the squares of the milliseconds: the bits of a number.
    squares: AtomicU64,
    /// It made room for others.
    is_gone: AtomicBool,
}

impl Tally {
    fn new(database: u32, role: u32, text: Arc<str>) -> Self {
        Self {
            database,
            role,
            text,
            calls: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            ns_min: AtomicU64::new(u64::MAX),
            ns_max: AtomicU64::new(0),
            squares: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
        }
    }

    /// Whether it counts what that role does in that database.
    pub(crate) fn is_of(&self, database: u32, role: u32) -> bool {
        (self.database, self.role) == (database, role) && !self.is_gone.load(Ordering::Relaxed)
    }

    /// The statement was run to its end, and gave or wrote so many rows.
    pub(crate) fn called(&self, time: Duration, rows: u64) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.ns.fetch_add(ns, Ordering::Relaxed);
        if ns < self.ns_min.load(Ordering::Relaxed) {
            self.ns_min.fetch_min(ns, Ordering::Relaxed);
        }
        if ns > self.ns_max.load(Ordering::Relaxed) {
            self.ns_max.fetch_max(ns, Ordering::Relaxed);
        }
        let square = ms(ns) * ms(ns);
        let add = |bits| Some((f64::from_bits(bits) + square).to_bits());
        let _ = self.squares.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn reset(&self) {
        for counter in [&self.calls, &self.rows, &self.ns, &self.ns_max, &self.squares] {
            counter.store(0, Ordering::Relaxed);
        }
        self.ns_min.store(u64::MAX, Ordering::Relaxed);
    }

    /// As the view shows it; none if it was not called.
    fn row(&self) -> Option<StatementCalls> {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let calls = of(&self.calls);
        if calls == 0 {
            return None;
        }
        let (total, count) = (ms(of(&self.ns)), calls as f64);
        let mean = total / count;
        let variance = f64::from_bits(of(&self.squares)) / count - mean * mean;
        Some(StatementCalls {
            role: self.role,
            database: self.database,
            id: id_of(&self.text),
            query: self.text.to_string(),
            calls,
            rows: of(&self.rows),
            total_ms: total,
            min_ms: ms(of(&self.ns_min)),
            max_ms: ms(of(&self.ns_max)),
            mean_ms: mean,
            stddev_ms: variance.max(0.0).sqrt(),
        })
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The same number for the same text, also after a restart (FNV-1a); never 0.
fn id_of(text: &str) -> i64 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    i64::from_ne_bytes(hash.max(1).to_ne_bytes())
}

/// Roles whose counters a plan remembers, beside the first.
const OTHERS_MAX: usize = 8;

/// The counters of one plan, by role.
#[derive(Debug, Default)]
pub(crate) struct Tallied {
    first: OnceLock<Arc<Tally>>,
    others: Mutex<Vec<Arc<Tally>>>,
}

impl Tallied {
    /// Those of the role that ran it first, if it is that one.
    pub(crate) fn first(&self, database: u32, role: u32) -> Option<&Arc<Tally>> {
        self.first.get().filter(|tally| tally.is_of(database, role))
    }

    /// Those of a role, which `find` looks up at its first call.
    pub(crate) fn of(&self, database: u32, role: u32, find: impl FnOnce() -> Arc<Tally>) -> Arc<Tally> {
        if let Some(tally) = self.first(database, role) {
            return Arc::clone(tally);
        }
        if let Some(tally) = self.others.lock().iter().find(|tally| tally.is_of(database, role)) {
            return Arc::clone(tally);
        }
        let tally = find();
        if self.first.set(Arc::clone(&tally)).is_err() {
            let mut others = self.others.lock();
            others.retain(|other| !other.is_gone.load(Ordering::Relaxed));
            if others.len() >= OTHERS_MAX {
                others.remove(0);
            }
            others.push(Arc::clone(&tally));
        }
        tally
    }
}

/// A text that the lexer lifts nothing of, with parameters in the place of its constants, and without comments.
fn without_constants(text: &str) -> String {
    // What is no tokens is no statement either.
    let Ok(tokens) = crate::pg::lexer::tokens(text) else { return String::new() };
    let number_of = |token: &Token| match token {
        Token::Placeholder(name) => name.trim_start_matches('$').parse::<u32>().ok(),
        _ => None,
    };
    let mut last = tokens.iter().filter_map(|token| number_of(&token.token)).max().unwrap_or(0);
    let mut out = String::with_capacity(text.len());
    for token in tokens {
        match token.token {
            Token::Whitespace(_) if out.ends_with(' ') => {}
            Token::Whitespace(_) => out.push(' '),
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::HexStringLiteral(_) => {
                last += 1;
                out.push_str(&format!("${last}"));
            }
            token => out.push_str(&token.to_string()),
        }
    }
    out
}

/// A run of a statement whose rows are still on their way; it counts when it is dropped.
#[derive(Debug)]
pub(crate) struct Call {
    tally: Option<Arc<Tally>>,
    pub time: Duration,
    pub rows: u64,
}

impl Call {
    pub(crate) fn new(tally: Arc<Tally>, time: Duration, rows: u64) -> Self {
        Self { tally: Some(tally), time, rows }
    }

    /// It failed.
    pub(crate) fn forget(&mut self) {
        self.tally = None;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(tally) = &self.tally {
            tally.called(self.time, self.rows);
        }
    }
}

#[derive(Default)]
struct All {
    by_text: HashMap<(u32, u32, Arc<str>), Arc<Tally>>,
    bytes: usize,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Tallies {
    all: Mutex<All>,
    /// How often entries made room.
    deallocations: AtomicU64,
    /// When all of it was reset last; 0: not since the server's start.
    reset_at: AtomicI64,
}

impl Tallies {
    /// The counters of a text.
    pub(crate) fn of(&self, database: u32, role: u32, text: &str) -> Arc<Tally> {
        let lifted = lexer::lift(text).map(|lifted| lifted.text);
        let shown = match lifted {
            Some(lifted) => lifted,
            None => without_constants(text),
        };
        let text = shown.trim();
        let mut end = text.len().min(TEXT_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let key = (database, role, Arc::from(&text[..end]));
        let mut all = self.all.lock();
        if let Some(found) = all.by_text.get(&key) {
            return Arc::clone(found);
        }
        while all.by_text.len() >= ENTRIES_MAX || (all.bytes + end > BYTES_MAX && !all.by_text.is_empty()) {
            self.make_room(&mut all);
        }
        let tally = Arc::new(Tally::new(database, role, Arc::clone(&key.2)));
        all.bytes += end;
        all.by_text.insert(key, Arc::clone(&tally));
        tally
    }

    /// Those that were called least go.
    fn make_room(&self, all: &mut All) {
        let mut calls: Vec<u64> = all.by_text.values().map(|tally| tally.calls.load(Ordering::Relaxed)).collect();
        let mut left = (calls.len() / GO_OF).max(1);
        let (_, most, _) = calls.select_nth_unstable(left - 1);
        let most = *most;
        let mut bytes = 0;
        all.by_text.retain(|_, tally| {
            let goes = left > 0 && tally.calls.load(Ordering::Relaxed) <= most;
            if goes {
                left -= 1;
                bytes += tally.text.len();
                tally.is_gone.store(true, Ordering::Relaxed);
            }
            !goes
        });
        all.bytes -= bytes;
        self.deallocations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn rows(&self) -> Vec<StatementCalls> {
        // Others wait for the lock: texts are copied behind it.
        let tallies: Vec<Arc<Tally>> = self.all.lock().by_text.values().map(Arc::clone).collect();
        tallies.iter().filter_map(|tally| tally.row()).collect()
    }

    pub(crate) fn info(&self, started: i64) -> StatementsInfo {
        let reset_at = match self.reset_at.load(Ordering::Relaxed) {
            0 => started,
            at => at,
        };
        StatementsInfo { deallocations: self.deallocations.load(Ordering::Relaxed), reset_at }
    }

    /// Begins anew for those of that role, database and number; 0: of all.
    pub(crate) fn reset(&self, role: u32, database: u32, id: i64, now: i64) {
        for tally in self.all.lock().by_text.values() {
            let is_it = (role == 0 || tally.role == role)
                && (database == 0 || tally.database == database)
                && (id == 0 || id_of(&tally.text) == id);
            if is_it {
                tally.reset();
            }
        }
        if (role, database, id) == (0, 0, 0) {
            self.deallocations.store(0, Ordering::Relaxed);
            self.reset_at.store(now, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted() {
        let all = Tallies::default();
        let one = all.of(5, 10, "SELECT a FROM t WHERE a = 7");
        assert!(Arc::ptr_eq(&one, &all.of(5, 10, "SELECT a FROM t WHERE a = 8 ")));
        assert!(!Arc::ptr_eq(&one, &all.of(5, 11, "SELECT a FROM t WHERE a = 8")));
        assert!(all.rows().is_empty(), "not called");
        one.called(Duration::from_millis(1), 3);
        one.called(Duration::from_millis(3), 4);
        drop(Call::new(Arc::clone(&one), Duration::from_millis(2), 1));
        let mut failed = Call::new(Arc::clone(&one), Duration::from_millis(2), 1);
        failed.forget();
        drop(failed);
        let rows = all.rows();
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!(row.query, "SELECT a FROM t WHERE a = $1");
        assert_eq!((row.calls, row.rows, row.role, row.database), (3, 8, 10, 5));
        assert_eq!((row.total_ms, row.min_ms, row.max_ms, row.mean_ms), (6.0, 1.0, 3.0, 2.0));
        assert!((row.stddev_ms - (2.0f64 / 3.0).sqrt()).abs() < 1e-9, "{}", row.stddev_ms);
        all.reset(11, 0, 0, 77);
        assert_eq!(all.rows().len(), 1);
        all.reset(0, 0, row.id, 77);
        assert!(all.rows().is_empty());
        assert_eq!(all.info(3).reset_at, 3);
        all.reset(0, 0, 0, 77);
        assert_eq!(all.info(3).reset_at, 77);
    }

    #[test]
    fn no_constant_is_shown() {
        let shown = |text: &str| Tallies::default().of(1, 1, text).text.to_string();
        assert_eq!(
            shown("/* a */ SELECT f(c, 'key'::text), $2 FROM t -- b"),
            " SELECT f(c, $3::text), $2 FROM t".trim()
        );
        assert_eq!(shown("WITH w AS (SELECT $$x$$, E'\\n', 12) TABLE w"), "WITH w AS (SELECT $1, $2, $3) TABLE w");
    }

    #[test]
    fn roles_have_their_own() {
        let (all, tallied) = (Tallies::default(), Tallied::default());
        for _ in 0..2 {
            for role in [7, 8, 9] {
                let found = tallied.of(1, role, || all.of(1, role, "SELECT 1"));
                assert!(found.is_of(1, role));
                found.called(Duration::ZERO, 1);
            }
        }
        assert!(tallied.first(1, 7).is_some() && tallied.first(1, 8).is_none());
        assert_eq!(all.rows().iter().map(|row| row.calls).collect::<Vec<_>>(), [2, 2, 2]);
        // One that made room for others is looked for anew.
        tallied.of(1, 8, || unreachable!()).is_gone.store(true, Ordering::Relaxed);
        let anew = tallied.of(1, 8, || Arc::new(Tally::new(1, 8, Arc::from("SELECT 1"))));
        assert!(Arc::ptr_eq(&anew, &tallied.of(1, 8, || unreachable!())));
    }

    #[test]
    fn it_is_bounded() {
        let all = Tallies::default();
        let often = all.of(1, 1, "SELECT often");
        often.called(Duration::ZERO, 0);
        for at in 0..ENTRIES_MAX {
            drop(all.of(1, 1, &format!("VACUUM t{at}")));
        }
        assert_eq!(all.info(0).deallocations, 1);
        assert!(often.is_of(1, 1) && all.all.lock().by_text.len() < ENTRIES_MAX);
        let long = "é".repeat(TEXT_MAX);
        for at in 0..BYTES_MAX / TEXT_MAX + 10 {
            drop(all.of(1, 1, &format!("{at}{long}")));
        }
        let found = all.all.lock();
        assert!(found.bytes <= BYTES_MAX);
        assert_eq!(found.bytes, found.by_text.values().map(|tally| tally.text.len()).sum::<usize>());
    }
}
