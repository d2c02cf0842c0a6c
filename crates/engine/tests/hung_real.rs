//! A device that really hangs: an ext4 file system in an image that is frozen (`fsfreeze`), so that writes and syncs do not end. Needs
//! Linux, root, and a loop device; skipped elsewhere.

#[path = "rebuilt/restore/support.rs"]
#[allow(dead_code)]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use resurgam_engine::*;
use resurgam_vfs::RealVfs;
use support::*;

fn run(program: &str, arguments: &[&str]) -> std::result::Result<(), String> {
    match Command::new(program).args(arguments).output() {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(format!("{program}: {}", String::from_utf8_lossy(&done.stderr))),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

fn freeze(folder: &Path, on: bool) -> std::result::Result<(), String> {
    run("fsfreeze", &[if on { "-f" } else { "-u" }, &folder.display().to_string()])
}

/// A mounted image; gone with it.
struct Image(PathBuf);

impl Image {
    fn make(work: &Path) -> std::result::Result<Self, String> {
        let (file, folder) = (work.join("image"), work.join("device"));
        std::fs::create_dir(&folder).map_err(|e| e.to_string())?;
        let created = std::fs::File::create(&file).and_then(|file| file.set_len(256 << 20));
        created.map_err(|e| e.to_string())?;
        run("mkfs.ext4", &["-q", "-F", &file.display().to_string()])?;
        run("mount", &["-o", "loop", &file.display().to_string(), &folder.display().to_string()])?;
        let image = Self(folder);
        image.freeze(true)?;
        image.freeze(false)?;
        Ok(image)
    }

    fn freeze(&self, on: bool) -> std::result::Result<(), String> {
        freeze(&self.0, on)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = self.freeze(false);
        // Files of a device that was given up stay open until the process ends.
        let _ = run("umount", &["-l", &self.0.display().to_string()]);
    }
}

/// Thaws the image when it is dropped, or after a while.
struct Thaw {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thaw {
    fn at_last(image: &Image) -> Self {
        let (over, until) = channel();
        let image = image.0.clone();
        let thread = std::thread::spawn(move || {
            let _ = until.recv_timeout(Duration::from_secs(90));
            freeze(&image, false).expect("thawed");
        });
        Self { over: Some(over), thread: Some(thread) }
    }
}

impl Drop for Thaw {
    fn drop(&mut self) {
        drop(self.over.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn a_file_system_that_is_frozen_under_work() -> Result<()> {
    let work = std::env::temp_dir().join(format!("resurgam-hung-{}", std::process::id()));
    std::fs::create_dir_all(&work).expect("a folder");
    let done = Image::make(&work).map(|image| frozen(&work, &image));
    let _ = std::fs::remove_dir_all(&work);
    done.unwrap_or_else(|why| {
        eprintln!("skipped: {why}");
        Ok(())
    })
}

fn frozen(work: &Path, image: &Image) -> Result<()> {
    let of = |name: &str| work.join(name);
    let opened = || {
        let options = Options {
            background: true,
            log_dir: Some(of("log")),
            archive: Some(of("archive").display().to_string()),
            spare_data: Some(of("spare")),
            device_timeout: Duration::from_secs(3),
            ..options(Kind::default())
        };
        Database::open_with(Arc::new(RealVfs::new()), &image.0.join("data"), options, |_| {})
    };
    let mut model = Model::new(1);
    let db = opened()?;
    model.fill(&db)?;
    (0..5).try_for_each(|_| model.work(&db))?;
    db.archive_now()?;
    db.checkpoint()?;
    image.freeze(true).map_err(Error::internal)?;
    // Whatever goes wrong, nothing hangs for ever.
    let thaw = Thaw::at_last(image);
    let (begun, mut slowest) = (Instant::now(), Duration::ZERO);
    while !of("log").join("data-place").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is noticed: {:?}", db.troubles());
        let statement = Instant::now();
        model.work(&db)?;
        db.checkpoint()?;
        slowest = slowest.max(statement.elapsed());
    }
    let noticed = begun.elapsed();
    (0..5).try_for_each(|_| model.work(&db))?;
    model.check(&db, "elsewhere")?;
    // What was being written is written now.
    drop(thaw);
    (0..5).try_for_each(|_| model.work(&db))?;
    while db.restore_status().is_some() {
        assert!(begun.elapsed() < Duration::from_secs(120), "the restore ends: {:?}", db.troubles());
        std::thread::sleep(Duration::from_millis(20));
    }
    model.check(&db, "restored")?;
    eprintln!("noticed after {noticed:.1?}, the slowest transaction and checkpoint took {slowest:.1?}");
    assert!(noticed < Duration::from_secs(20));
    db.close()?;
    drop(db);
    let db = opened()?;
    model.check(&db, "started again")?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()
}
