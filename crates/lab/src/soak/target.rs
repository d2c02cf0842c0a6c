//! The server under test: started, killed, stopped, and its log read for complaints.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::faults::Faults;
use super::round::PATIENCE;
use crate::Result;
use crate::servers::output;
use crate::wire::Client;

/// Small, so that eviction, checkpoints, log truncation and sweeps happen all the time.
const SETTINGS: [&str; 12] = [
    "--buffer-bytes=12MB",
    "--query-memory-bytes=128MB",
    "--checkpoint-log-bytes=2MB",
    "--log-bytes-max=24MB",
    "--log-segment-bytes=1MB",
    "--cleaner-interval=300ms",
    "--log-level=info",
    "--log-format=text",
    "--shutdown-timeout=20s",
    "--worker-threads=4",
    "--max-connections=50",
    "--statement-timeout=0",
];
/// What it says when its log is near its bound.
const SLOWED: &str = "writers are slowed down";
/// How long a stop may take.
const STOP_MAX: Duration = Duration::from_secs(120);

/// A server on one data folder.
pub struct Target {
    pub binary: PathBuf,
    pub data: PathBuf,
    /// More of its command line.
    pub flags: Vec<String>,
    pub log: PathBuf,
    pub port: u16,
    /// False: commits are acknowledged before they are durable, to see that the test notices.
    pub durable: bool,
    /// Its pages are with page servers, which go now and then.
    pub parts: bool,
    /// What they say to each other is cut, and their stores are away, now and then.
    pub troubles: bool,
    /// Times that it has said that writers are slowed down.
    pub slowed: u64,
    /// Whether its devices fail now and then.
    pub faults: Option<Faults>,
    child: Option<Child>,
    read_to: u64,
}

impl Target {
    pub fn new(binary: PathBuf, data: PathBuf, log: PathBuf, port: u16, durable: bool) -> Self {
        Self {
            binary,
            data,
            flags: Vec::new(),
            log,
            port,
            durable,
            parts: false,
            troubles: false,
            slowed: 0,
            faults: None,
            child: None,
            read_to: 0,
        }
    }

    /// Starts the process and does not wait for it.
    pub fn spawn(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(&self.log).map_err(|e| e.to_string())?;
        let err = log.try_clone().map_err(|e| e.to_string())?;
        let mut command = Command::new(&self.binary);
        command.arg("serve").arg("--data").arg(&self.data).arg("--listen").arg(format!("127.0.0.1:{}", self.port));
        command.args(SETTINGS).args(&self.flags).arg(if self.durable {
            "--synchronous-commit=on"
        } else {
            "--synchronous-commit=off"
        });
        command.stdin(Stdio::null()).stdout(log).stderr(err);
        if let Some(faults) = &self.faults {
            faults.prepare(&mut command);
        }
        let child = command.spawn().map_err(|e| format!("could not start {}: {e}", self.binary.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits for the first answer to a query; answers how long it took since `begun`.
    pub fn answered(&mut self, begun: Instant) -> Result<Duration> {
        loop {
            let answered = Client::connect_within(self.port, Some(PATIENCE)).and_then(|mut c| c.query("select 1"));
            let Err(why) = answered else { return Ok(begun.elapsed()) };
            if let Some(status) = self.ended() {
                return Err(format!("the server ended at its start ({status}): {why}\n{}", self.last_words()));
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the server did not answer in {PATIENCE:?}: {why}\n{}", self.last_words()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How the process ended, if it did by itself.
    pub fn ended(&mut self) -> Option<String> {
        Some(self.child.as_mut()?.try_wait().ok()??.to_string())
    }

    /// Ends the process at once.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Stops it as an operator does.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Err("the server does not run".into()) };
        output(Command::new("kill").arg("-TERM").arg(child.id().to_string()))?;
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(format!("the server's clean stop ended with {status}\n{}", self.last_words()));
                }
                Ok(None) if begun.elapsed() < STOP_MAX => std::thread::sleep(Duration::from_millis(5)),
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(format!("the server did not stop in {STOP_MAX:?}\n{}", self.last_words()));
                }
            }
        }
    }

    /// `resurgam check` of a folder, which nobody serves now.
    pub fn check(&self, folder: &Path) -> Result<()> {
        let said = output(Command::new(&self.binary).arg("check").arg(folder))?;
        // Leaked pages are no damage, but after a clean stop there are none either.
        if said.contains("no problems") && !said.contains("LEAK") { Ok(()) } else { Err(said) }
    }

    /// Bytes of the log so far.
    pub fn log_len(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |meta| meta.len())
    }

    /// What the server complained of since the last call, up to `end`; what comes after is
    /// passed over, up to now.
    pub fn complaints(&mut self, end: u64) -> Vec<String> {
        let text = self.log_text(self.read_to, end);
        self.read_to = self.log_len();
        // What a device did on purpose is no complaint, nor what comes of it.
        let failing = ["Input/output error", "the log stopped after a failed write", "pages could not be cleaned"];
        let dying = [
            "Input/output error",
            " is dead",
            " was replaced by ",
            "is restored as",
            " are to be restored",
            "it is made again",
            "the restore is finished",
        ];
        let going = [" does not give page ", "has not asked for the log for", " does not take the log now"];
        self.slowed += text.lines().filter(|line| line.contains(SLOWED)).count() as u64;
        let apart = [going[0], going[1], going[2], " cannot be used now, and is tried again"];
        let words = match (&self.faults, self.flags.is_empty()) {
            _ if self.troubles => &apart[..],
            _ if self.parts => &going[..],
            (Some(_), _) => &failing[..],
            (None, false) => &dying,
            (None, true) => &[],
        };
        let on_purpose = |line: &&str| words.iter().any(|word| line.contains(word));
        text.lines().filter(|line| is_complaint(line) && !on_purpose(line)).map(str::to_owned).collect()
    }

    fn last_words(&self) -> String {
        let len = self.log_len();
        self.log_text(len.saturating_sub(3000), len)
    }

    fn log_text(&self, from: u64, to: u64) -> String {
        let mut bytes = Vec::new();
        let read = File::open(&self.log).and_then(|mut file| {
            file.seek(SeekFrom::Start(from))?;
            file.take(to.saturating_sub(from)).read_to_end(&mut bytes)
        });
        read.map_or_else(|e| format!("ERROR the log cannot be read: {e}"), |_| String::from_utf8_lossy(&bytes).into())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An error, a panic, or a warning other than that writers are slowed down. What is tried again is
/// none: devices fail on purpose, and whether all goes on is seen by the clients.
fn is_complaint(line: &str) -> bool {
    let is = |word: &str| line.contains(word);
    if is("failed, and is tried again") || is(" has failed ") && is(" times in ") {
        return false;
    }
    is(" ERROR ") || is("panicked at") || is("could not") || is(" WARN ") && !is(SLOWED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_found() {
        let at = "2026-01-01T00:00:00Z";
        assert!(is_complaint(&format!("{at} ERROR resurgam: cleaner: damaged")));
        assert!(is_complaint("thread 'x' panicked at src/a.rs:1:1:"));
        assert!(is_complaint(&format!("{at}  WARN resurgam: checkpoint failed, will be tried again")));
        assert!(!is_complaint(&format!("{at}  WARN resurgam: the log takes 9 MB; writers are slowed down.")));
        assert!(!is_complaint(&format!("{at} ERROR resurgam: taking a checkpoint failed, and is tried again: EIO")));
        assert!(!is_complaint(&format!("{at} ERROR resurgam: taking a checkpoint has failed 7 times in 30s: EIO")));
        assert!(is_complaint(&format!("{at} ERROR resurgam: taking a checkpoint failed: EIO")));
        assert!(!is_complaint(&format!("{at}  INFO resurgam: recovery finished")));
    }
}
