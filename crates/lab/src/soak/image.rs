//! An ext4 file system in an image file, on a loop device: one that can be stopped.
//!
//! The stop is the kernel's own emergency stop (`EXT4_IOC_SHUTDOWN` without a flush of its journal): from then on nothing
//! of it reaches the image any more, and whoever opens or writes a file gets EIO.
//!
//! Or one that hangs (`fsfreeze`): writes and syncs do not end until it thaws, and are done then.
//!
//! # Getting rid of a stopped one
//! A stopped file system that is still alive somewhere is what a mount of the same loop device gives again: stopped, while
//! the mount says success and folders can be listed. It stays alive where a process with a mount namespace of its own
//! (a sandbox, `unshare -m`, a container) has a copy of the mount, of which `umount` knows nothing. So loop devices are
//! attached and detached by name, a mount waits until the old device has let go of the image, and if it does not, goes on
//! with a copy of the image, which the old one cannot write to.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::ioctl::{Setter, ioctl, opcode};

use crate::Result;
use crate::servers::output;

/// Size of the image; it is sparse.
const BYTES: u64 = 6 << 30;
/// `_IOR('X', 125, __u32)` of the kernel's `ext4.h`.
const EXT4_IOC_SHUTDOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);
/// Stop without writing the journal's end.
const EXT4_GOING_FLAGS_NOLOGFLUSH: u32 = 2;
/// So long a process may have files open on it that was just killed.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// So long the old loop device may hold the image.
const HELD_MAX: Duration = Duration::from_secs(3);

/// The file system, mounted unless a step failed.
pub struct Image {
    work: PathBuf,
    name: String,
    /// How many files there were; the newest is in use.
    files: u32,
    /// The loop device, while it is mounted.
    device: Option<String>,
    frozen: bool,
}

impl Image {
    /// Makes and mounts one below `work`.
    ///
    /// # Errors
    /// Why that cannot be done here, in words.
    pub fn make(work: &Path, name: &str) -> Result<Self> {
        if output(Command::new("id").arg("-u"))? != "0" {
            return Err("mounting an image needs root".into());
        }
        let mut image = Self { work: work.to_path_buf(), name: name.to_owned(), files: 0, device: None, frozen: false };
        fs::create_dir_all(image.folder()).map_err(|e| e.to_string())?;
        image.renew()?;
        // Once for trial: whether the kernel knows the request shows here.
        image.stop()?;
        image.renew()?;
        Ok(image)
    }

    /// Where it is mounted.
    pub fn folder(&self) -> PathBuf {
        self.work.join(format!("{}-mnt", self.name))
    }

    /// The image's file.
    pub fn file(&self) -> PathBuf {
        self.work.join(format!("{}-{}.img", self.name, self.files))
    }

    /// Stops it. Whoever uses it goes on and gets errors.
    pub fn stop(&self) -> Result<()> {
        let mount = self.folder();
        let root = File::open(&mount).map_err(|e| format!("could not open \"{}\": {e}", mount.display()))?;
        // SAFETY: the request is defined for ext4, which `root` is on, and takes a pointer to
        // a `u32` that it only reads.
        let request = unsafe { Setter::<EXT4_IOC_SHUTDOWN, u32>::new(EXT4_GOING_FLAGS_NOLOGFLUSH) };
        // SAFETY: `root` is an open file of that file system, and the request's argument lives
        // until the call returns.
        unsafe { ioctl(&root, request) }.map_err(|e| format!("the kernel refused EXT4_IOC_SHUTDOWN: {e}"))
    }

    /// From now on whoever writes to it, or syncs a file of it, waits until it thaws.
    pub fn freeze(&mut self) -> Result<()> {
        output(Command::new("fsfreeze").arg("-f").arg(self.folder()))?;
        self.frozen = true;
        Ok(())
    }

    /// What waits is done.
    pub fn thaw(&mut self) -> Result<()> {
        if std::mem::take(&mut self.frozen) {
            output(Command::new("fsfreeze").arg("-u").arg(self.folder()))?;
        }
        Ok(())
    }

    /// As it is on the disk, its journal replayed. Nothing may have a file of it open.
    pub fn back(&mut self, options: &str) -> Result<()> {
        let old = self.file();
        if !self.unmount()? {
            self.files += 1;
            output(Command::new("cp").arg("--sparse=always").arg(&old).arg(self.file()))?;
            remove(&old)?;
        }
        self.mount(options)
    }

    /// A new, empty one in its place. Nothing may have a file of it open.
    pub fn renew(&mut self) -> Result<()> {
        let old = self.file();
        self.unmount()?;
        remove(&old)?;
        self.files += 1;
        let file = File::create(self.file()).map_err(|e| e.to_string())?;
        file.set_len(BYTES).map_err(|e| e.to_string())?;
        output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(self.file()))?;
        self.mount("")
    }

    fn mount(&mut self, options: &str) -> Result<()> {
        let device = output(Command::new("losetup").args(["--find", "--show"]).arg(self.file()))?;
        let mut mount = Command::new("mount");
        if !options.is_empty() {
            mount.args(["-o", options]);
        }
        if let Err(e) = output(mount.arg(&device).arg(self.folder())) {
            let _ = output(Command::new("losetup").arg("-d").arg(&device));
            return Err(e);
        }
        self.device = Some(device);
        // What fails here is not the server's fault.
        let probe = self.folder().join("probe");
        let probed = File::create(&probe).and_then(|file| file.sync_all()).and_then(|()| fs::remove_file(&probe));
        probed.map_err(|e| format!("the file system that was just mounted cannot be written: {e}"))
    }

    /// Whether the image is free: nobody can write to it any more.
    fn unmount(&mut self) -> Result<bool> {
        let Some(device) = self.device.clone() else { return Ok(true) };
        self.thaw()?;
        within(BUSY_MAX, || output(Command::new("umount").arg(self.folder())).map(drop))?;
        self.device = None;
        output(Command::new("losetup").arg("-d").arg(&device))?;
        let free = || match output(Command::new("losetup").arg("-j").arg(self.file()))? {
            none if none.is_empty() => Ok(()),
            device => Err(device),
        };
        Ok(within(HELD_MAX, free).is_ok())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}

/// Tries until it succeeds, so long at most.
fn within(most: Duration, mut tried: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    loop {
        let done = tried();
        if done.is_ok() || begun.elapsed() > most {
            return done;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("could not remove \"{}\": {e}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process with a copy of the mount keeps the stopped file system alive.
    #[test]
    fn a_stopped_file_system_is_not_mounted_again() {
        let work = std::env::temp_dir().join(format!("resurgam-image-{}", std::process::id()));
        fs::create_dir_all(&work).unwrap();
        {
            let mut image = match Image::make(&work, "disk") {
                Ok(image) => image,
                Err(why) => return println!("skipped: {why}"),
            };
            let file = image.folder().join("kept");
            fs::write(&file, "kept").unwrap();
            File::open(&file).unwrap().sync_all().unwrap();
            File::open(image.folder()).unwrap().sync_all().unwrap();
            let mut other = Command::new("unshare").args(["-m", "sleep", "60"]).spawn().unwrap();
            // It is another namespace when the program of it runs.
            let comm = format!("/proc/{}/comm", other.id());
            within(BUSY_MAX, || match fs::read_to_string(&comm).as_deref().map(str::trim_end) {
                Ok("sleep") => Ok(()),
                other => Err(format!("{other:?}")),
            })
            .unwrap();
            image.stop().unwrap();
            assert!(File::create(image.folder().join("new")).is_err());
            let back = image.back("");
            let (read, written) = (fs::read_to_string(&file), fs::write(image.folder().join("new"), "new"));
            other.kill().unwrap();
            other.wait().unwrap();
            back.unwrap();
            assert_eq!((read.unwrap().as_str(), written.is_ok()), ("kept", true));
        }
        fs::remove_dir_all(&work).unwrap();
    }
}
