//! How a database is opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use resurgam_engine::Durability;

use crate::db::Db;
use crate::error::{Error, Result};

/// How transactions that a crash cut off are dealt with; of a database that is made. See `docs/recovery-modes.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// In constant time: no undo, whatever they did.
    #[default]
    Accelerated,
    /// By undo through the log, as most databases do it.
    Traditional,
}

/// Settings; those that are not given are good for most. [`Options::open`] refuses what cannot be.
#[derive(Clone, Debug)]
#[must_use = "it is `open` that opens"]
pub struct Options {
    memory: u64,
    create: bool,
    log_dir: Option<PathBuf>,
    log_max: u64,
    checkpoint_log: u64,
    durability: Durability,
    recovery: Recovery,
    attempts: u32,
    lock_timeout: Option<Duration>,
    engine: resurgam_engine::Options,
}

const MIB: u64 = 1 << 20;
/// Less is not enough for a few large transactions at a time, more is no machine's.
const MEMORY: std::ops::RangeInclusive<u64> = MIB..=1 << 40;
const LOG: std::ops::RangeInclusive<u64> = 128 * MIB..=1 << 44;
const CHECKPOINT: std::ops::RangeInclusive<u64> = MIB..=1 << 43;
const ATTEMPTS: std::ops::RangeInclusive<u32> = 1..=100_000;

impl Default for Options {
    fn default() -> Self {
        let engine = resurgam_engine::Options::default();
        Self {
            memory: engine.buffer_bytes as u64,
            create: true,
            log_dir: None,
            log_max: engine.log_bytes_max,
            checkpoint_log: engine.checkpoint_log_bytes,
            durability: Durability::Sync,
            recovery: Recovery::Accelerated,
            attempts: 100,
            lock_timeout: None,
            engine,
        }
    }
}

impl Options {
    /// Memory for pages, in bytes: 1 MiB to 1 TiB; 128 MiB if it is not given.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }
    /// Whether a database is made where there is none; it is, if this is not given.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }
    /// A folder for the log, on another disk for instance; made if missing. A relative path is relative to the database's folder.
    pub fn log_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(dir.into());
        self
    }
    /// Most log on the disk, in bytes: 128 MiB to 16 TiB; 1 GiB if it is not given. Writers are slowed down before it is reached.
    pub fn log_max(mut self, bytes: u64) -> Self {
        self.log_max = bytes;
        self
    }
    /// A checkpoint is taken each time so much log was written, in bytes: 1 MiB to half of [`Options::log_max`]; 64 MiB if it is not
    /// given. Bounds the time to open after a crash.
    pub fn checkpoint_log(mut self, bytes: u64) -> Self {
        self.checkpoint_log = bytes;
        self
    }
    /// Whether a commit waits for the disk: [`Durability::Sync`] if it is not given.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
    /// The recovery mode of a database that is made; one that is there keeps its own.
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }
    /// How often a transaction is tried that others got in the way of, 1 to 100,000; 100 if it is not given.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }
    /// Longest wait for another transaction that has a row. Without: until it ends (deadlocks are found in any case).
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = Some(timeout);
        self
    }
    /// Changes any setting of the engine, beside those above, which go before: archive, backups, the cleaner and more.
    pub fn engine(mut self, change: impl FnOnce(&mut resurgam_engine::Options)) -> Self {
        change(&mut self.engine);
        self
    }

    /// Opens the database in a folder; made, if there is none. After a crash this is where recovery happens.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::InUse`], [`Error::NoDatabase`], [`Error::Engine`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        let path = path.as_ref();
        let options = self.engine_options()?;
        Db::open_checked(
            path,
            options,
            Settings {
                create: self.create,
                durability: self.durability,
                attempts: self.attempts,
                lock_timeout: self.lock_timeout,
            },
        )
    }

    fn engine_options(&self) -> Result<resurgam_engine::Options> {
        check("memory", self.memory, MEMORY, "bytes")?;
        check("log_max", self.log_max, LOG, "bytes")?;
        let most = (*CHECKPOINT.end()).min(self.log_max / 2);
        check("checkpoint_log", self.checkpoint_log, *CHECKPOINT.start()..=most, "bytes (half of `log_max`)")?;
        check("attempts", self.attempts, ATTEMPTS, "attempts")?;
        if self.lock_timeout == Some(Duration::ZERO) {
            return Err(Error::Setting {
                name: "lock_timeout",
                given: "zero".to_owned(),
                expected: "a time to wait; without the setting it is as long as it takes".to_owned(),
            });
        }
        if self.log_dir.as_deref().is_some_and(|dir| dir.as_os_str().is_empty()) {
            return Err(Error::Setting {
                name: "log_dir",
                given: "an empty path".to_owned(),
                expected: "a folder".to_owned(),
            });
        }
        let buffer_bytes = usize::try_from(self.memory).map_err(|_| Error::Setting {
            name: "memory",
            given: self.memory.to_string(),
            expected: "what this processor can address".to_owned(),
        })?;
        Ok(resurgam_engine::Options {
            buffer_bytes,
            log_dir: self.log_dir.clone().or_else(|| self.engine.log_dir.clone()),
            log_bytes_max: self.log_max,
            checkpoint_log_bytes: self.checkpoint_log,
            accelerated_database_recovery: self.recovery == Recovery::Accelerated,
            ..self.engine.clone()
        })
    }
}

/// What of the settings is not the engine's.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub create: bool,
    pub durability: Durability,
    pub attempts: u32,
    pub lock_timeout: Option<Duration>,
}

fn check<T: PartialOrd + std::fmt::Display>(
    name: &'static str,
    given: T,
    range: std::ops::RangeInclusive<T>,
    unit: &str,
) -> Result<()> {
    if range.contains(&given) {
        return Ok(());
    }
    let expected = format!("{} to {} {unit}", range.start(), range.end());
    Err(Error::Setting { name, given: given.to_string(), expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_settings_are_refused_by_name() {
        let refused = |options: Options, name: &str| match options.engine_options() {
            Err(Error::Setting { name: said, .. }) => assert_eq!(said, name),
            other => panic!("{name}: {:?}", other.map(|_| ())),
        };
        let options = Options::default;
        options().engine_options().unwrap();
        refused(options().memory(0), "memory");
        refused(options().memory(u64::MAX), "memory");
        refused(options().log_max(1), "log_max");
        refused(options().log_max(u64::MAX), "log_max");
        refused(options().checkpoint_log(0), "checkpoint_log");
        refused(options().log_max(128 << 20).checkpoint_log(65 << 20), "checkpoint_log");
        refused(options().attempts(0), "attempts");
        refused(options().attempts(u32::MAX), "attempts");
        refused(options().lock_timeout(Duration::ZERO), "lock_timeout");
        refused(options().log_dir(""), "log_dir");
        options().memory(1 << 20).log_max(128 << 20).checkpoint_log(1 << 20).attempts(1).engine_options().unwrap();
    }
}
