//! What every experiment says of where and how it measured, and the space that files take.

use std::path::Path;

use crate::servers::{Server, Work};
use crate::{Common, Result, machine};

/// The head of a report: the machine, then each server once, with its version and settings.
pub struct Setup {
    machine: String,
    servers: Vec<String>,
}

impl Setup {
    /// Looks at the machine and its disk, in a folder that is removed again.
    pub fn new(common: &Common) -> Result<Self> {
        let work = Work::new(common)?;
        Ok(Self { machine: machine::describe(work.path()), servers: Vec::new() })
    }

    /// The same for a folder that is in use.
    pub fn here(work: &Path) -> Self {
        Self { machine: machine::describe(work), servers: Vec::new() }
    }

    /// Notes a server that took part.
    pub fn saw(&mut self, server: &Server) {
        let line = format!("- {}, {}: `{}`\n", server.kind.name(), server.version(), server.settings());
        if !self.servers.contains(&line) {
            self.servers.push(line);
        }
    }

    /// As a Markdown list, with an empty line after it.
    pub fn text(&self) -> String {
        format!("{}{}\n", self.machine, self.servers.concat())
    }
}

/// Bytes of a file, or of all files below a folder; 0 of what is not there (files of a
/// running server come and go).
pub fn bytes_of(path: &Path) -> u64 {
    let Ok(about) = path.symlink_metadata() else { return 0 };
    if !about.is_dir() {
        return about.len();
    }
    let Ok(entries) = path.read_dir() else { return 0 };
    entries.filter_map(|entry| Some(bytes_of(&entry.ok()?.path()))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_a_folder_are_counted() {
        let dir = std::env::temp_dir().join(format!("resurgam-lab-bytes-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("deep")).expect("a folder for temporary files");
        std::fs::write(dir.join("a"), [0; 10]).expect("a file");
        std::fs::write(dir.join("deep/b"), [0; 5]).expect("a file");
        assert_eq!((bytes_of(&dir), bytes_of(&dir.join("a")), bytes_of(&dir.join("gone"))), (15, 10, 0));
        std::fs::remove_dir_all(dir).expect("the folder goes");
    }
}
