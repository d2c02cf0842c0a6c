//! Where the data folder is: a plain folder, or a file system of its own that can lose its
//! power.
//!
//! The second is an ext4 image (`image.rs`). A power loss is its stop: everything that was not synced is lost, its
//! journal's open transaction included. What the kernel writes out by itself before is a
//! matter of luck; [`Disk::scatter`] makes it one: parts of files here and there get written,
//! in any order, as a disk's cache would.

use std::fs::{self, File};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::SmallRng;
use rustix::fs::{Advice, fadvise};

use super::image::Image;
use crate::Result;

/// What parts are written out in.
const PART_BYTES: u64 = 4096;

/// A place for the data folder.
pub enum Disk {
    Folder(PathBuf),
    Image(Image),
}

impl Disk {
    /// A place below `work` that only process kills happen to.
    pub fn folder(work: &Path) -> Self {
        Self::Folder(work.join("data"))
    }

    /// A file system below `work`.
    ///
    /// # Errors
    /// Why power losses cannot be tried here, in words.
    pub fn image(work: &Path) -> Result<Self> {
        Image::make(work, "disk").map(Self::Image)
    }

    pub fn data(&self) -> PathBuf {
        match self {
            Self::Folder(data) => data.clone(),
            Self::Image(image) => image.folder().join("data"),
        }
    }

    /// How to get at the data folder after the test.
    pub fn described(&self) -> String {
        match self {
            Self::Folder(data) => data.display().to_string(),
            Self::Image(image) => format!("folder \"data\" in the ext4 image {}", image.file().display()),
        }
    }

    /// Whether a power loss can happen to it.
    pub fn can_lose_power(&self) -> bool {
        matches!(self, Self::Image(_))
    }

    /// Has the kernel write some parts of the data folder's files now, as it may at any time.
    pub fn scatter(&self, rng: &mut SmallRng) {
        let parts = [0, 0, 3, 30, 300][rng.random_range(0..5)];
        let mut files = Vec::new();
        files_below(&self.data(), &mut files);
        for path in files.iter().filter(|_| parts > 0) {
            let Ok(file) = File::open(path) else { continue };
            let len = file.metadata().map_or(0, |meta| meta.len());
            for _ in 0..rng.random_range(0..=parts) {
                let at = rng.random_range(0..=len / PART_BYTES) * PART_BYTES;
                // It starts writing and does not wait; a part that is not dirty stays as it is.
                let _ = fadvise(&file, at, NonZeroU64::new(PART_BYTES), Advice::DontNeed);
            }
        }
    }

    /// Takes the power away: nothing is written from now on. The server still runs.
    pub fn stop(&self) -> Result<()> {
        let Self::Image(image) = self else { return Err("this disk cannot lose its power".into()) };
        image.stop()
    }

    /// The power is back: the file system as it is on the disk, its journal replayed. Nothing
    /// may have a file of it open.
    pub fn back(&mut self, rng: &mut SmallRng) -> Result<()> {
        let Self::Image(image) = self else { return Ok(()) };
        // How the file system orders and how soon it writes what nobody syncs.
        let options = ["", "data=writeback", "commit=60", "data=writeback,commit=60"];
        image.back(options[rng.random_range(0..options.len())])
    }
}

fn files_below(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}
