//! The devices of pages: their files are called through a gate each ([`resurgam_vfs::Gate`]), so that one which stops answering is
//! noticed, and given up where there is something to take its place.
//!
//! Behind the gate of the data are the data file, the double-write area, the control file and what says how far a restore is; behind that
//! of the version store its file. A replacement has a gate of its own: what is under way on the old device has nothing to do with it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_vfs::{File, Gate, Vfs};

/// See the module.
pub(crate) struct Gates {
    patience: Duration,
    /// By the number of the file.
    of: Mutex<Vec<(u64, Arc<Gate>)>>,
}

impl Gates {
    /// Devices are given up when a call takes longer than this; zero: never, and there are no gates.
    pub fn new(patience: Duration) -> Self {
        Self { patience, of: Mutex::default() }
    }

    /// The gate of the file with that number.
    pub fn of(&self, file: u64) -> Option<Arc<Gate>> {
        self.of.lock().iter().find(|(of, _)| *of == file).map(|(_, gate)| Arc::clone(gate))
    }

    /// A new gate, which nobody uses yet, and the file system through it.
    pub fn another(&self, path: impl AsRef<Path>, vfs: &Arc<dyn Vfs>) -> (Option<Arc<Gate>>, Arc<dyn Vfs>) {
        if self.patience.is_zero() {
            return (None, Arc::clone(vfs));
        }
        let gate = Gate::new(path.as_ref().display().to_string(), self.patience);
        let gated = gate.vfs(vfs);
        (Some(gate), gated)
    }

    /// It is in use for the file with that number from now on.
    pub fn set(&self, file: u64, gate: Option<Arc<Gate>>) {
        let mut all = self.of.lock();
        all.retain(|(of, _)| *of != file);
        all.extend(gate.map(|gate| (file, gate)));
    }

    /// The file system through a new gate, in use from now on.
    pub fn begin(&self, file: u64, path: &Path, vfs: &Arc<dyn Vfs>) -> Arc<dyn Vfs> {
        let (gate, gated) = self.another(path, vfs);
        self.set(file, gate);
        gated
    }

    /// The file through a new gate, in use from now on.
    pub fn begin_file(&self, number: u64, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        if self.patience.is_zero() {
            return file;
        }
        let gate = Gate::new(path.display().to_string(), self.patience);
        let gated = gate.file(file);
        self.set(number, Some(gate));
        gated
    }

    /// Those that a call is being waited for for long: the name, and how long.
    pub fn waiting(&self) -> Vec<(String, Duration)> {
        let all = self.of.lock();
        all.iter().filter_map(|(_, gate)| Some((gate.name().to_owned(), gate.waiting()?))).collect()
    }
}
