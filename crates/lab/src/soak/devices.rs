//! The data folder on a device of its own, which dies, and another one for the folder that takes its place (`--spare-data`);
//! log, archive and backups are on neither.
//!
//! Between two lives of the server a device that died is back with what was on it, still dead, or a new, empty one. The
//! server is started with the same command line, or with one that names a new spare folder, on a new device.

use std::fs;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::SmallRng;

use super::image::Image;
use crate::Result;

/// Both devices, and what the command line says of them.
pub struct Devices {
    images: [Image; 2],
    dead: [bool; 2],
    work: PathBuf,
    /// `--data`: where the data was once.
    pub asked: PathBuf,
    spare: PathBuf,
    /// Spare folders that were named so far.
    spares: u32,
    /// What became of devices that had died, at starts of the server.
    pub back: u64,
    pub still_dead: u64,
    pub renewed: u64,
    /// Devices that hung.
    pub hung: u64,
    /// They may hang.
    pub hangs: bool,
}

impl Devices {
    /// # Errors
    /// Why devices cannot be made to die here, in words.
    pub fn make(work: &Path, hangs: bool) -> Result<Self> {
        let images = [Image::make(work, "device0")?, Image::make(work, "device1")?];
        let (asked, spare) = (images[0].folder().join("data"), images[1].folder().join("spare0"));
        let work = work.to_path_buf();
        let (spares, back, still_dead, renewed, hung) = (0, 0, 0, 0, 0);
        Ok(Self { images, dead: [false; 2], work, asked, spare, spares, back, still_dead, renewed, hung, hangs })
    }

    pub fn archive(&self) -> PathBuf {
        self.work.join("archive")
    }

    /// Of the server's command line, but for `--data`.
    pub fn flags(&self) -> Vec<String> {
        let of = |name: &str| self.work.join(name);
        [
            ("log-dir", of("log")),
            ("archive", self.archive()),
            ("backups", of("backups")),
            ("spare-data", self.spare.clone()),
        ]
        .map(|(name, path)| format!("--{name}={}", path.display()))
        .into_iter()
        // Longer than a sync takes beside whatever else this machine does.
        .chain(self.hangs.then(|| "--device-timeout=4s".to_owned()))
        .collect()
    }

    /// The data folder that counts: what the log's folder says, or the one that is asked for.
    pub fn folder(&self) -> PathBuf {
        let noted = fs::read_to_string(self.work.join("log/data-place")).unwrap_or_default();
        let path = noted.lines().find_map(|line| line.strip_prefix("path "));
        path.map_or_else(|| self.asked.clone(), PathBuf::from)
    }

    fn device_of(&self, folder: &Path) -> usize {
        usize::from(folder.starts_with(self.images[1].folder()))
    }

    /// Whether the data's device may die, and another one takes its place.
    pub fn can_be_replaced(&self) -> bool {
        let (data, spare) = (self.device_of(&self.folder()), self.device_of(&self.spare));
        data != spare && !self.dead[spare]
    }

    /// Whether the data is in the spare folder.
    pub fn is_replaced(&self) -> bool {
        self.folder() == self.spare
    }

    /// The device that the data is on now dies.
    pub fn die(&mut self) -> Result<()> {
        let at = self.device_of(&self.folder());
        self.dead[at] = true;
        self.images[at].stop()
    }

    /// The device that the data is on hangs from now on: writes do not end. Which one that is.
    pub fn hang(&mut self) -> Result<usize> {
        let at = self.device_of(&self.folder());
        self.dead[at] = true;
        self.images[at].freeze()?;
        self.hung += 1;
        Ok(at)
    }

    /// What hangs is done, however late; then it may die.
    pub fn answer(&mut self, at: usize, dies: bool) -> Result<()> {
        self.images[at].thaw()?;
        if dies { self.images[at].stop() } else { Ok(()) }
    }

    /// While no server runs: what becomes of dead devices, and what the next command line says.
    pub fn next_life(&mut self, rng: &mut SmallRng) -> Result<()> {
        let data = self.device_of(&self.folder());
        for at in 0..2 {
            if !self.dead[at] {
                continue;
            }
            match rng.random_range(0..3) {
                // Nothing can be opened where the data is to be.
                0 if at != data => {
                    self.still_dead += 1;
                    continue;
                }
                0 | 1 => {
                    self.back += 1;
                    self.images[at].back("")?;
                }
                _ => {
                    self.renewed += 1;
                    self.images[at].renew()?;
                }
            }
            self.dead[at] = false;
        }
        if rng.random_ratio(1, 2) {
            if rng.random() {
                self.asked = self.folder();
            }
            let other = 1 - data;
            self.images[other].renew()?;
            self.dead[other] = false;
            self.spares += 1;
            self.spare = self.images[other].folder().join(format!("spare{}", self.spares));
        }
        Ok(())
    }
}
