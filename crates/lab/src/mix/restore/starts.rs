//! Starts of a database whose data is gone, and copies of one as it was: what a restore on demand costs without a load.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use super::outages::{Scene, before};
use super::report::START_S;
use super::{LOOK, Options, Places, wait_until_restored};
use crate::Result;
use crate::mix::segments::Following;
use crate::mix::{Terminal, check};
use crate::servers::{Kind, Server, output};
use crate::setup::bytes_of;

/// A start without the data file.
pub(super) struct Restart {
    pub(super) name: String,
    pub(super) buffer_mb: u64,
    pub(super) data_mb: f64,
    pub(super) answer: f64,
    pub(super) transaction: f64,
    pub(super) whole: Option<f64>,
    /// Seconds to the first transaction that writes that are the goal, if there is one.
    pub(super) goal: Option<f64>,
    /// Megabytes a second that were restored from the start on, with nothing else to do.
    pub(super) mb_s: Option<f64>,
}

/// A copy of the database as it was, made beside it.
pub(super) struct Copy {
    pub(super) name: &'static str,
    pub(super) made: f64,
    pub(super) answer: f64,
    pub(super) mb: f64,
    pub(super) goal_mb: Option<f64>,
}

/// Kills the server after some work, takes its data file away and starts it again.
pub(super) fn without_data(
    scene: &Scene<'_>,
    server: &mut Server,
    places: &Places,
    terminals: &mut [Box<dyn Terminal>],
    copies: Option<&Following>,
) -> Result<Restart> {
    let Scene { mix, buffer_mb, .. } = *scene;
    before(scene, 0.0, server, terminals)?;
    server.kill();
    // The start may give up what was finished last.
    copies.map_or(Ok(()), Following::take_rest)?;
    let data = places.data(server)?;
    let data_mb = bytes_of(&data) as f64 / 1e6;
    fs::remove_file(&data).map_err(|e| format!("could not remove \"{}\": {e}", data.display()))?;
    let answer = server.start()?;
    let begun = Instant::now();
    let mut client = server.client()?;
    client.query("update warehouse set w_ytd = w_ytd where w_id = 1")?;
    let transaction = answer + begun.elapsed();
    let folder = data.parent().ok_or("the data is in no folder")?;
    let bytes = wait_until_restored(&mut client, folder, || {
        std::thread::sleep(LOOK / 10);
        true
    })?;
    let whole = answer + begun.elapsed();
    check(mix, server, terminals)?;
    let seconds = |time: Duration| time.as_secs_f64();
    let name = "Resurgam, its data file removed".into();
    Ok(Restart {
        name,
        buffer_mb,
        data_mb,
        answer: seconds(answer),
        transaction: seconds(transaction),
        whole: Some(seconds(whole)),
        goal: Some(START_S),
        mb_s: Some(bytes / 1e6 / seconds(whole).max(0.001)),
    })
}

/// The tool that makes a copy of the database in a folder from its archive and backups.
pub(super) fn tool(options: &Options, places: &Places, what: &str, target: &Path) -> Command {
    let mut command = Command::new(&options.common.resurgam);
    command.arg(what).arg("--archive").arg(&places.archive).arg("--backups").arg(&places.backups);
    command.arg("--target").arg(target);
    command
}

/// A copy as of a position, on demand, and a server on it.
pub(super) fn copy(
    options: &Options,
    work: &Path,
    places: &Places,
    what: &str,
    name: &'static str,
    to: &str,
    goal_mb: Option<f64>,
) -> Result<Copy> {
    let folder = work.join(what);
    fs::create_dir_all(&folder).map_err(|e| format!("could not make a folder: {e}"))?;
    let target = folder.join("resurgam");
    let begun = Instant::now();
    output(tool(options, places, what, &target).args(["--to", to]))?;
    let made = begun.elapsed().as_secs_f64();
    let mb = space_of(&target) as f64 / 1e6;
    let server = Server::create_with(Kind::Resurgam, &options.common, &folder, &[])?;
    server.client()?.query("select w_ytd from warehouse where w_id = 1")?.ok_or("the copy has no warehouse")?;
    let answer = begun.elapsed().as_secs_f64();
    Ok(Copy { name, made, answer, mb, goal_mb })
}

/// Bytes that the files below a folder take on the disk; holes take none.
fn space_of(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(about) = path.symlink_metadata() else { return 0 };
    let Ok(entries) = path.read_dir() else { return about.blocks() * 512 };
    entries.filter_map(|entry| Some(space_of(&entry.ok()?.path()))).sum()
}

/// Megabytes a second that the disk below `work` takes in sequence, synced once at the end.
pub(super) fn sequential_write(work: &Path, mb: f64) -> Result<f64> {
    let path = work.join("sequential");
    let parts = (mb as usize).clamp(64, 2000);
    // Nothing that a device or file system could make smaller.
    let mut part = vec![0; 1_000_000];
    SmallRng::seed_from_u64(1).fill_bytes(&mut part);
    let begun = Instant::now();
    let write = || -> std::io::Result<()> {
        let mut file = fs::File::create(&path)?;
        for _ in 0..parts {
            file.write_all(&part)?;
        }
        file.sync_data()
    };
    write().map_err(|e| format!("could not write \"{}\": {e}", path.display()))?;
    let rate = parts as f64 / begun.elapsed().as_secs_f64();
    fs::remove_file(&path).map_err(|e| e.to_string())?;
    Ok(rate)
}
