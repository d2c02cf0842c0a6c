//! Where the data folder is: a plain folder, or a file system of its own that can lose its
//! power.
//!
//! The second is an ext4 image on a loop device. A power loss is the kernel's own emergency
//! stop of the file system (`EXT4_IOC_SHUTDOWN` without a flush of its journal): from then on
//! nothing of it reaches the disk any more, so everything that was not synced is lost, its
//! journal's open transaction included. What the kernel writes out by itself before is a
//! matter of luck; [`Disk::scatter`] makes it one: parts of files here and there get written,
//! in any order, as a disk's cache would.

use std::fs::{self, File};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use rustix::fs::{Advice, fadvise};
use rustix::ioctl::{Setter, ioctl, opcode};

use crate::Result;
use crate::servers::output;

/// Size of the image; it is sparse.
const IMAGE_BYTES: u64 = 6 << 30;
/// What parts are written out in.
const PART_BYTES: u64 = 4096;
/// `_IOR('X', 125, __u32)` of the kernel's `ext4.h`.
const EXT4_IOC_SHUTDOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);
/// Stop without writing the journal's end.
const EXT4_GOING_FLAGS_NOLOGFLUSH: u32 = 2;

/// A place for the data folder.
pub enum Disk {
    Folder(PathBuf),
    Image { image: PathBuf, mount: PathBuf, mounted: bool },
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
        if output(Command::new("id").arg("-u"))? != "0" {
            return Err("mounting an image needs root".into());
        }
        let (image, mount) = (work.join("disk.img"), work.join("mnt"));
        let file = File::create(&image).map_err(|e| e.to_string())?;
        file.set_len(IMAGE_BYTES).map_err(|e| e.to_string())?;
        fs::create_dir_all(&mount).map_err(|e| e.to_string())?;
        output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        let mut disk = Self::Image { image, mount, mounted: false };
        // Once for trial: whether the kernel knows the request shows here.
        disk.mount("")?;
        disk.stop()?;
        disk.unmount()?;
        disk.mount("")?;
        Ok(disk)
    }

    pub fn data(&self) -> PathBuf {
        match self {
            Self::Folder(data) => data.clone(),
            Self::Image { mount, .. } => mount.join("data"),
        }
    }

    /// How to get at the data folder after the test.
    pub fn described(&self) -> String {
        match self {
            Self::Folder(data) => data.display().to_string(),
            Self::Image { image, .. } => format!("folder \"data\" in the ext4 image {}", image.display()),
        }
    }

    /// Whether a power loss can happen to it.
    pub fn can_lose_power(&self) -> bool {
        matches!(self, Self::Image { .. })
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
        let Self::Image { mount, .. } = self else { return Err("this disk cannot lose its power".into()) };
        let root = File::open(mount).map_err(|e| format!("could not open \"{}\": {e}", mount.display()))?;
        // SAFETY: the request is defined for ext4, which `root` is on, and takes a pointer to
        // a `u32` that it only reads.
        let request = unsafe { Setter::<EXT4_IOC_SHUTDOWN, u32>::new(EXT4_GOING_FLAGS_NOLOGFLUSH) };
        // SAFETY: `root` is an open file of that file system, and the request's argument lives
        // until the call returns.
        unsafe { ioctl(&root, request) }.map_err(|e| format!("the kernel refused EXT4_IOC_SHUTDOWN: {e}"))
    }

    /// The power is back: the file system as it is on the disk, its journal replayed. Nothing
    /// may have a file of it open.
    pub fn back(&mut self, rng: &mut SmallRng) -> Result<()> {
        self.unmount()?;
        // How the file system orders and how soon it writes what nobody syncs.
        let options = ["", "data=writeback", "commit=60", "data=writeback,commit=60"];
        self.mount(options[rng.random_range(0..options.len())])
    }

    fn mount(&mut self, options: &str) -> Result<()> {
        let Self::Image { image, mount, mounted } = self else { return Ok(()) };
        let options = ["loop", options].join(if options.is_empty() { "" } else { "," });
        output(Command::new("mount").args(["-o", &options]).arg(image).arg(mount))?;
        *mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        let Self::Image { mount, mounted, .. } = self else { return Ok(()) };
        let mut tries = 0;
        while *mounted {
            match output(Command::new("umount").arg(&*mount)) {
                Ok(_) => *mounted = false,
                Err(e) if tries > 50 => return Err(e),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
            tries += 1;
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.unmount();
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
