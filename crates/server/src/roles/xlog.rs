//! `resurgam serve --role xlog`, and what a primary needs to have its log in a landing zone.
//!
//! ```text
//! ZONE/log/      segment files; of each opening its own
//! ZONE/control/  who has the log, and where its last checkpoint is
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use resurgam_cluster::{ArchiveTarget, LandingZone, Tls, XlogConfig, XlogNode, ZoneConfig};
use resurgam_engine::{ArchiveKeeperConfig, Error, ErrorKind, OpenBackups};
use resurgam_vfs::{RealVfs, Vfs};
use resurgam_xlog::{ArchivingConfig, CoreConfig, StoreControl};
use resurgam_xstore::{Access, FolderStore, Place};

use super::life::{How, Life};
use super::page_server::refuse_strangers;
use super::tls;
use crate::serve::{folder, place, records_per_page_max, say};
use crate::settings::Settings;

/// How a primary ends that has lost its log: whoever supervises it starts it again, and it waits for its turn.
const LOST: i32 = 3;

/// The folder of the log in the landing zone, if there is one.
pub fn log_dir(settings: &Settings) -> Option<PathBuf> {
    folder(&settings.landing_zone).map(|zone| zone.join("log"))
}

fn control(zone: &Path) -> Result<StoreControl, resurgam_engine::Error> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    Ok(StoreControl::new(Arc::new(FolderStore::open(vfs, &zone.join("control"))?), ""))
}

/// Where a primary's log is, if not in a folder of its own.
///
/// # Errors
/// A sentence for the terminal.
pub fn zone_of(settings: &Settings, tls: Option<Arc<Tls>>) -> Result<Option<Arc<LandingZone>>, String> {
    let Some(zone) = folder(&settings.landing_zone) else { return Ok(None) };
    let control = control(&zone).map_err(|error| format!("the landing zone cannot be used: {error}"))?;
    let config = ZoneConfig {
        control: Arc::new(control),
        lease: settings.landing_zone_lease,
        log_services: settings.log_service_addresses(),
        log_bytes_max: settings.log_bytes_max.0,
        tls,
        lost: Arc::new(|error| {
            say(&format!("This primary ends, for it may not write the log any more: {error}"));
            std::process::exit(LOST);
        }),
    };
    Ok(Some(Arc::new(LandingZone::new(config))))
}

/// Opens a place that is written to.
fn opens(url: &str) -> Result<OpenBackups, resurgam_engine::Error> {
    let place = Place::of(Path::new(""), url)?;
    Ok(Arc::new(move || {
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
        Ok(place.open(&vfs, Access::Write)?)
    }))
}

/// The archive that it writes, merges, and gives up what is not promised of; none: the primary does.
fn archive(settings: &Settings) -> Result<Option<ArchiveTarget>, resurgam_engine::Error> {
    let Some(url) = place(&settings.archive) else { return Ok(None) };
    if !settings.recovery_window.is_zero() && place(&settings.backups).is_none() {
        // The primary would leave giving up to it, and nobody would.
        let what = "a log service that is given a recovery window (--recovery-window) needs the place of the backups";
        return Err(Error::new(ErrorKind::InvalidParameter, what).with_hint(
            "Name it with --backups, the same as the primary's, or leave --recovery-window to the primary.",
        ));
    }
    let keep = ArchiveKeeperConfig {
        vfs: Arc::new(RealVfs::new()),
        backups: place(&settings.backups).map(|url| opens(&url)).transpose()?,
        recovery_window: settings.recovery_window,
        records_per_page_max: records_per_page_max(settings.archive_records_per_page_max),
        cpu_percent: settings.archive_cpu_percent,
        rests: true,
    };
    Ok(Some(ArchiveTarget { open: opens(&url)?, config: ArchivingConfig::default(), keep: Some(keep) }))
}

/// Runs a log service until it is told to stop.
pub fn run(settings: &Settings) -> Result<ExitCode, String> {
    refuse_strangers(settings)?;
    let failed = |error: resurgam_engine::Error| format!("the log service does not start: {error}");
    let dir = std::path::absolute(&settings.data).map_err(|error| format!("the data folder is not usable: {error}"))?;
    let zone = folder(&settings.landing_zone).ok_or("the landing zone is not named")?;
    let long_term = place(&settings.long_term_log).ok_or("the long-term log is not named")?;
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let tls = tls::open(settings)?;
    let config = XlogConfig {
        dir,
        listen: settings.listen.clone(),
        zone_log: zone.join("log"),
        control: Arc::new(control(&zone).map_err(failed)?),
        long_term: Place::of(Path::new(""), &long_term)
            .and_then(|place| Ok(place.open(&vfs, Access::Write)?))
            .map_err(failed)?,
        retention: settings.long_term_retention,
        cache_bytes: settings.log_cache_bytes.0,
        archive: archive(settings).map_err(failed)?,
        core: CoreConfig::default(),
        tls: tls.clone(),
    };
    let mut life = Life::begin()?;
    let node = XlogNode::start(vfs, config).map_err(failed)?;
    say(&format!("Log service on {}, of the log in {}.", settings.listen, zone.display()));
    life.until_told(tls.as_ref(), || how(&node))?;
    // Nothing has to be made durable.
    drop(node);
    say("Stopped.");
    Ok(ExitCode::SUCCESS)
}

/// How far it is.
fn how(node: &XlogNode) -> How {
    let status = node.status();
    let not_archived = status.archive.as_ref().and_then(|archive| archive.error.as_ref());
    // Also while it archives as ever.
    let kept = status.archive.as_ref().and_then(|archive| archive.kept.as_ref());
    let not_merged = kept.and_then(|kept| kept.merge_error.as_ref());
    let not_given_up = kept.and_then(|kept| kept.expire_error.as_ref());
    let works = status.archive.as_ref().is_some_and(|archive| archive.works);
    let line = match (&status.positions, &status.error) {
        (_, Some(error)) => error.clone(),
        (Some(_), None) if not_archived.is_some() => {
            format!("The log is not archived now: {}", not_archived.map_or("", String::as_str))
        }
        (Some(_), None) if not_merged.is_some() => {
            format!("Runs of the archive are not merged now: {}", not_merged.map_or("", String::as_str))
        }
        (Some(_), None) if not_given_up.is_some() => {
            let why = not_given_up.map_or("", String::as_str);
            format!("What no promised point needs of the archive is not given up now: {why}")
        }
        (None, None) => "Waiting for the database to be made.".to_owned(),
        (Some(at), None) if at.hardened.0 > at.destaged.0 + (256 << 20) => {
            format!("{} MB of the log wait to be destaged.", (at.hardened.0 - at.destaged.0) >> 20)
        }
        (Some(_), None) if works => "The log is given out, destaged and archived as it comes.".to_owned(),
        (Some(_), None) => "The log is given out and destaged as it comes.".to_owned(),
    };
    How { line, refused: status.server.refused, tls: status.tls }
}
