//! What the process is doing, for those who watch it from outside.
//!
//! ```text
//! Opening ──(log to read)──► Recovering ──► Serving ──► Stopping
//!    └───────────────────────────────────────►┘
//! ```
//! Contract: every method returns at once; nothing here waits for the database.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use resurgam_cluster::{Tls, TlsStats};
use resurgam_engine::{Database, Trouble};
use resurgam_sql::pg::notify::HubTotals;
use resurgam_sql::{PlanTotals, SqlDatabase};

use crate::registry::Registry;

/// How long writers may wait for what fails before they are said to be stuck.
const FAILING_MAX: Duration = Duration::from_secs(10);

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The data folder is being opened or created.
    Opening,
    /// The log that the last run left is being read: so much of it until now.
    Recovering { log_bytes: u64, log_records: u64 },
    /// Clients are served.
    Serving,
    /// Sessions are being ended, then the last checkpoint is taken.
    Stopping,
}

/// The state that the HTTP endpoint answers from.
pub struct Monitor {
    registry: Arc<Registry>,
    started: SystemTime,
    state: Mutex<(Phase, Option<Database>)>,
    /// The SQL layer, while clients are served.
    sql: OnceLock<Weak<SqlDatabase>>,
    /// With which the other parts of the database are spoken to, if there are any.
    tier_tls: OnceLock<Arc<Tls>>,
}

impl Monitor {
    /// For a process that has just started.
    pub fn new(registry: Arc<Registry>) -> Arc<Self> {
        Arc::new(Self {
            registry,
            started: SystemTime::now(),
            state: Mutex::new((Phase::Opening, None)),
            sql: OnceLock::new(),
            tier_tls: OnceLock::new(),
        })
    }

    /// With which the other parts of the database are spoken to.
    pub fn tier_tls_is(&self, tls: Arc<Tls>) {
        let _ = self.tier_tls.set(tls);
    }

    /// What TLS between the parts has come to; none: there is none.
    pub fn tier_tls(&self) -> Option<TlsStats> {
        self.tier_tls.get().map(|tls| tls.stats())
    }

    /// Each change of the pair is one assignment, so a panic elsewhere leaves it whole.
    fn state(&self) -> MutexGuard<'_, (Phase, Option<Database>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recovery has read so much of the log.
    pub fn recovering(&self, log_bytes: u64, log_records: u64) {
        self.state().0 = Phase::Recovering { log_bytes, log_records };
    }

    /// The database is open and clients are served.
    pub fn serving(&self, database: Database) {
        *self.state() = (Phase::Serving, Some(database));
    }

    /// The SQL layer over it.
    pub fn plans_of(&self, sql: &Arc<SqlDatabase>) {
        let _ = self.sql.set(Arc::downgrade(sql));
    }

    /// How statements were planned and run; none before clients are served, nor when they are gone.
    pub fn plans(&self) -> Option<PlanTotals> {
        self.sql.get().and_then(Weak::upgrade).map(|sql| sql.plan_totals())
    }

    /// What LISTEN and NOTIFY have done; `None` before it is there.
    pub fn notifications(&self) -> Option<HubTotals> {
        self.sql.get().and_then(Weak::upgrade).map(|sql| sql.notifications())
    }

    /// No new statement is accepted any more. The numbers stay readable.
    pub fn stopping(&self) {
        self.state().0 = Phase::Stopping;
    }

    pub fn phase(&self) -> Phase {
        self.state().0
    }

    /// The open database; none before it is open.
    pub fn database(&self) -> Option<Database> {
        self.state().1.clone()
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Why sessions are not served although they should be, for a person; `None`: they are.
    pub fn stalled(&self) -> Option<String> {
        match self.phase() {
            Phase::Serving => self.registry.pulse.stalled(&self.registry),
            _ => None,
        }
    }

    /// When the process started, in seconds since 1970.
    pub fn started_seconds(&self) -> f64 {
        self.started.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
    }

    /// Whether statements are accepted and can write; if not, why, for a person. If so, what an operator
    /// should know all the same: each a line.
    ///
    /// What fails in the background makes it not ready only once it stands in the way of writers: the log is
    /// at its bound, and what would make it shorter has been failing for [`FAILING_MAX`]. Until then the
    /// database answers as always. Nor does a page that cannot be read: everything else is there, and a
    /// restart would mend nothing.
    pub fn readiness(&self) -> Result<Vec<String>, String> {
        let (phase, database) = {
            let state = self.state();
            (state.0, state.1.clone())
        };
        match (phase, database) {
            (Phase::Opening, _) => Err("starting: the data folder is being opened".into()),
            (Phase::Recovering { log_bytes, log_records }, _) => {
                Err(format!("recovering: {} MB of log ({log_records} records) read so far", log_bytes >> 20))
            }
            (Phase::Stopping, _) => Err("stopping: sessions are being ended".into()),
            (Phase::Serving, Some(database)) => {
                database.check_running().map_err(|error| {
                    let detail = error.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
                    format!("stopped: {}{detail}", error.message())
                })?;
                judge(&database.troubles(), database.writers_wait(), database.damaged_pages())
            }
            (Phase::Serving, None) => Err("starting".into()),
        }
    }
}

/// See [`Monitor::readiness`].
fn judge(troubles: &[Trouble], writers_wait: bool, damaged: u64) -> Result<Vec<String>, String> {
    let line = |trouble: &Trouble| {
        let Trouble { what, error, since, times, .. } = trouble;
        let what = what.trim_end_matches(',');
        format!("{what} has failed {times} times in {:.0} s and is tried again: {error}", since.as_secs_f64())
    };
    let stuck = troubles.iter().find(|trouble| trouble.keeps_log && trouble.since >= FAILING_MAX);
    if let Some(trouble) = stuck.filter(|_| writers_wait) {
        return Err(format!("writers wait, the log is at its bound: {}", line(trouble)));
    }
    let mut warnings: Vec<String> = troubles.iter().map(line).collect();
    if damaged > 0 {
        warnings.push(format!("{damaged} pages cannot be read, see resurgam_damaged_pages"));
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Limits;

    #[test]
    fn only_an_open_database_that_runs_is_ready() {
        let dir = tempfile::tempdir().unwrap();
        let monitor = Monitor::new(Registry::new(Limits {
            sessions: 1,
            reserved: 0,
            unauthenticated: 1,
            unauthenticated_per_address: 1,
        }));
        assert!(monitor.readiness().unwrap_err().starts_with("starting"));
        monitor.recovering(5 << 20, 77);
        assert_eq!(monitor.readiness().unwrap_err(), "recovering: 5 MB of log (77 records) read so far");
        let database = Database::open(dir.path(), resurgam_engine::Options::default()).unwrap();
        monitor.serving(database.clone());
        assert_eq!(monitor.readiness(), Ok(vec![]));
        database.close().unwrap();
        assert!(monitor.readiness().unwrap_err().starts_with("stopped: "));
        monitor.stopping();
        assert!(monitor.readiness().unwrap_err().starts_with("stopping"));
    }

    #[test]
    fn what_fails_warns_until_writers_wait_for_it() {
        let of = |keeps_log, seconds| Trouble {
            what: "writing changed pages",
            error: "no device".into(),
            since: Duration::from_secs(seconds),
            times: 9,
            keeps_log,
        };
        let line = "writing changed pages has failed 9 times in 60 s and is tried again: no device";
        assert_eq!(judge(&[], true, 0), Ok(vec![]));
        assert_eq!(judge(&[of(true, 60)], false, 0), Ok(vec![line.into()]));
        assert_eq!(judge(&[of(false, 60)], true, 0), Ok(vec![line.into()]));
        assert!(judge(&[of(true, 2)], true, 0).is_ok());
        assert_eq!(
            judge(&[of(false, 90), of(true, 60)], true, 0),
            Err(format!("writers wait, the log is at its bound: {line}"))
        );
        assert_eq!(judge(&[], false, 2), Ok(vec!["2 pages cannot be read, see resurgam_damaged_pages".into()]));
    }
}
