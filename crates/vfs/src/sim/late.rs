//! What a device that does not answer does late ([`Silent`](super::Silent)): calls that their callers have been told nothing of, each with
//! the number of further calls after which it is done.

use std::path::{Path, PathBuf};

use resurgam_base::{Error, Result};

use super::rng::Rng;
use super::{Silent, State, Step, io, parent};

/// What is done late. A file is meant by its inode: by then another one may have its name.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Write { inode: u64, offset: u64, bytes: Vec<u8> },
    SetLen { inode: u64, len: u64 },
    Sync { inode: u64 },
    Rename { inode: u64, from: PathBuf, to: PathBuf },
    Remove { inode: u64, path: PathBuf },
}

#[derive(Clone)]
struct Pending {
    /// Counted calls until it is done.
    left: u64,
    call: Call,
    /// The file, and where a planted bug puts what is written.
    name: PathBuf,
    lands_in: Option<PathBuf>,
}

/// See the module.
pub(super) struct Late {
    rng: Rng,
    pending: Vec<Pending>,
    /// Done since the disk was made, or the crash before.
    ended: u64,
}

impl Default for Late {
    fn default() -> Self {
        Self { rng: Rng::new(0), pending: Vec::new(), ended: 0 }
    }
}

impl Late {
    /// Another plan is set.
    pub fn begin(&mut self, silent: Option<&Silent>) {
        if let Some(silent) = silent {
            self.rng = Rng::new(silent.seed);
        }
    }
    pub fn ended(&self) -> u64 {
        self.ended
    }
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

/// The error of a call that nobody waits for any longer.
pub(super) fn unanswered(action: &str, path: &Path) -> Error {
    io(action, path, std::io::Error::new(std::io::ErrorKind::TimedOut, "simulated silence of the device")).of_device()
}

impl State {
    /// Whether call number `ops` about `path` is not answered.
    pub(super) fn is_silent_at(&self, ops: u64, path: &Path) -> bool {
        let silent = |silent: &Silent| (silent.from..silent.until).contains(&ops) && path.starts_with(&silent.below);
        !self.power_lost && self.faults.silent.as_ref().is_some_and(silent)
    }

    /// Whether the next call about `path` is not answered.
    pub(super) fn is_silent(&self, path: &Path) -> bool {
        self.is_silent_at(self.ops + 1, path)
    }

    /// A call that is not answered and changes something: it is done late. Returns what its caller is told.
    pub(super) fn do_late(&mut self, action: &str, path: &Path, call: Call) -> Error {
        let told = match self.step(action, path) {
            Err(error) => error,
            Ok(Step::Go) => unanswered(action, path),
            Ok(Step::PowerLoss) => io(action, path, std::io::Error::other("power lost")),
        };
        if let Some(silent) = &self.faults.silent {
            let left = 1 + self.late.rng.below(silent.late.max(1));
            let (name, lands_in) = (path.to_path_buf(), silent.lands_in.clone());
            self.late.pending.push(Pending { left, call, name, lands_in });
        }
        told
    }

    /// Another call was counted: what is due is done. Where the device answers from now on, nothing is left that is to come.
    pub(super) fn end_late_calls(&mut self) {
        if self.late.pending.is_empty() {
            return;
        }
        if self.faults.silent.as_ref().is_some_and(|silent| silent.until == self.ops) {
            return self.settle_late_calls();
        }
        let mut due = Vec::new();
        self.late.pending.retain_mut(|pending| {
            pending.left -= 1;
            if pending.left == 0 {
                due.push(pending.clone());
            }
            pending.left > 0
        });
        due.into_iter().for_each(|pending| self.end(pending));
    }

    /// Each call that is pending is done now or never.
    pub(super) fn settle_late_calls(&mut self) {
        for pending in std::mem::take(&mut self.late.pending) {
            if self.late.rng.coin() {
                self.end(pending);
            }
        }
    }

    fn end(&mut self, pending: Pending) {
        self.late.ended += 1;
        let Pending { call, name, lands_in, .. } = pending;
        let elsewhere = lands_in.zip(name.file_name()).and_then(|(dir, name)| self.names.get(&dir.join(name)).copied());
        match call {
            Call::Write { inode, offset, bytes } => {
                if let Some(content) = self.inodes.get_mut(&elsewhere.unwrap_or(inode)) {
                    content.write(&bytes, offset);
                }
            }
            Call::SetLen { inode, len } => {
                if let Some(content) = self.inodes.get_mut(&inode) {
                    content.set_len(len);
                }
            }
            Call::Sync { inode } => {
                if let Some(content) = self.inodes.get_mut(&inode) {
                    content.sync();
                }
            }
            // Where the name has another file by now, there is nothing to be done.
            Call::Rename { inode, from, to } => {
                if self.names.get(&from) == Some(&inode) {
                    let folders = [parent(&from), parent(&to)];
                    self.change_names(folders, vec![(from, None), (to, Some(inode))]);
                }
            }
            Call::Remove { inode, path } => {
                if self.names.get(&path) == Some(&inode) {
                    let folder = parent(&path);
                    self.change_names([folder.clone(), folder], vec![(path, None)]);
                }
            }
        }
    }

    /// For calls that change nothing: whether they are answered.
    pub(super) fn answers(&self, action: &str, path: &Path) -> Result<()> {
        self.powered(action, path)?;
        if self.is_silent(path) {
            return Err(unanswered(action, path));
        }
        Ok(())
    }
}
