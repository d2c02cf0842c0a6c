//! A device that fails for a while: the server's reads, writes and syncs give EIO. A library of
//! a few functions, loaded before the C library (`faults.c`), asks a file what fails now.
//!
//! | kind | what becomes of it |
//! |---|---|
//! | writes of pages, of the double-write area, of the control file; syncs of the double-write area | nobody sees it: tried again until the device is well |
//! | reads of pages | the statement that reads fails with 58030; nothing else |
//! | writes and syncs of the log | the server stops acknowledging: the life ends with it |

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::servers::output;

pub const READS: u8 = 1;
pub const WRITES: u8 = 2;
pub const SYNCS: u8 = 4;
pub const LOG: u8 = 8;

/// The library, and the file that it asks.
pub struct Faults {
    library: PathBuf,
    said: PathBuf,
}

impl Faults {
    /// Compiles the library into `work`.
    ///
    /// # Errors
    /// There is no C compiler, in words.
    pub fn new(work: &Path) -> Result<Self> {
        let (source, library) = (work.join("faults.c"), work.join("faults.so"));
        fs::write(&source, include_str!("faults.c")).map_err(|e| e.to_string())?;
        output(Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl"))?;
        let faults = Self { library, said: work.join("faults") };
        faults.set(0)?;
        Ok(faults)
    }

    /// Has a server ask, once it is started.
    pub fn prepare(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("SOAK_FAULTS", &self.said);
    }

    /// From now on these fail, and nothing else.
    pub fn set(&self, kinds: u8) -> Result<()> {
        use std::os::unix::fs::FileExt;
        let file = fs::File::options().create(true).truncate(false).write(true).open(&self.said);
        file.and_then(|file| file.write_all_at(&[kinds], 0)).map_err(|e| format!("faults cannot be set: {e}"))
    }
}
