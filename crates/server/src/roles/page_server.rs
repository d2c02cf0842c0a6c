//! `resurgam serve --role pageserver`, and what a primary needs to have its pages there.

use std::net::ToSocketAddrs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use resurgam_cluster::{
    LandingZone, LogServiceConfig, NodeConfig, PageClientConfig, PageServerNode, Primary, PrimaryConfig, SeedSource,
    Tls,
};
use resurgam_engine::{Error, PageServiceHandle};
use resurgam_pageserver::{ArchiveSeed, Seed};
use resurgam_vfs::{RealVfs, Vfs};
use resurgam_xstore::{Access, Place, Store};

use super::life::{How, Life};
use super::tls;
use crate::serve::{place, say};
use crate::settings::{ServerRole, Settings, Value};

/// More threads would wait for each other.
const APPLY_WORKERS_MAX: u32 = 64;
/// Partitions that are named at most.
const PARTITIONS_SAID: usize = 8;

/// Where a primary's pages are, if not in its data folder.
pub fn pages_of(
    settings: &Settings,
    zone: Option<&Arc<LandingZone>>,
    tls: Option<Arc<Tls>>,
) -> Option<PageServiceHandle> {
    let page_servers = settings.page_server_addresses();
    if page_servers.is_empty() {
        return None;
    }
    let cache = (settings.page_cache_bytes.0 > 0).then(|| {
        let dir = match settings.page_cache.as_os_str().is_empty() {
            true => settings.data.join("page-cache"),
            false => settings.page_cache.clone(),
        };
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
        (vfs, resurgam_rbpex::Config::new(dir, settings.page_cache_bytes.0))
    });
    let config = PrimaryConfig {
        listen: zone.is_none().then(|| settings.log_listen.clone()),
        zone: zone.cloned(),
        page_servers,
        log: LogServiceConfig { lease: settings.page_server_lease, ..LogServiceConfig::default() },
        pages: PageClientConfig {
            patience: settings.page_server_patience,
            partition_pages: settings.partition_pages(),
            ..PageClientConfig::default()
        },
        cache,
        tls,
    };
    Some(PageServiceHandle(Arc::new(Primary::new(config))))
}

/// Without TLS log and pages are given to whoever asks: only on addresses of this machine, unless that is said to be meant.
///
/// # Errors
/// A sentence for the terminal.
pub fn refuse_strangers(settings: &Settings) -> Result<(), String> {
    if settings.has_tier_tls() {
        return Ok(());
    }
    let (listen, flag) = match settings.role {
        ServerRole::PageServer | ServerRole::Xlog => (&settings.listen, "listen"),
        ServerRole::Primary
            if settings.page_servers.trim().is_empty() || !settings.landing_zone.as_os_str().is_empty() =>
        {
            return Ok(());
        }
        ServerRole::Primary => (&settings.log_listen, "log-listen"),
    };
    let addresses = listen
        .to_socket_addrs()
        .map_err(|error| format!("the address of --{flag}, {listen:?}, is not usable: {error}"))?;
    match addresses.into_iter().find(|address| !address.ip().is_loopback()) {
        Some(open) if !settings.insecure_trust => Err(format!(
            "{open} (--{flag}) can be reached from other machines, and without certificates what the parts of a database say to each \
             other is neither encrypted nor asked for a password: anyone could read everything. Give all parts certificates \
             (--tier-tls-cert, --tier-tls-key, --tier-tls-ca), or use an address of this machine, or a network that nobody else \
             reaches and --insecure-trust."
        )),
        _ => Ok(()),
    }
}

/// Where the log of a page server is.
fn logs(settings: &Settings) -> Vec<String> {
    match settings.log_service_addresses() {
        none if none.is_empty() => vec![settings.primary.clone()],
        services => services,
    }
}

/// Starts a page server in this process.
///
/// # Errors
/// A sentence for the terminal.
pub fn start(settings: &Settings, tls: Option<Arc<Tls>>) -> Result<PageServerNode, String> {
    refuse_strangers(settings)?;
    let dir = std::path::absolute(&settings.data).map_err(|error| format!("the data folder is not usable: {error}"))?;
    std::fs::create_dir_all(&dir).map_err(|error| format!("could not make the folder {}: {error}", dir.display()))?;
    let name = format!("page server {}", settings.listen);
    let mut config = NodeConfig::new(dir, &settings.listen, logs(settings), &name);
    config.partitions = settings.partitions()?;
    config.tls = tls;
    config.apply_workers = match settings.apply_workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        workers => workers.min(APPLY_WORKERS_MAX) as usize,
    };
    config.memory_bytes = usize::try_from(settings.buffer_bytes.0).unwrap_or(usize::MAX);
    PageServerNode::start(Arc::new(RealVfs::new()), config, seeds(settings))
        .map_err(|error| format!("the page server does not start: {error}"))
}

/// Runs a page server until it is told to stop.
///
/// # Errors
/// A sentence for the terminal.
pub fn run(settings: &Settings) -> Result<ExitCode, String> {
    let tls = tls::open(settings)?;
    let mut life = Life::begin()?;
    let node = start(settings, tls.clone())?;
    let partitions = settings.partitions()?;
    let has = match partitions.is_all() {
        true => "all pages".to_owned(),
        false => format!("partitions {partitions} of {} each", settings.partition_bytes.show()),
    };
    say(&format!(
        "Page server on {}, with {has} of the database whose log is at {}.",
        settings.listen,
        logs(settings).join(", ")
    ));
    life.until_told(tls.as_ref(), || how(&node))?;
    say("Stopping: what is applied is made durable. Signal again to stop at once.");
    life.end_at_once_if_told_again();
    let closed = node.close().map_err(|error| format!("the last checkpoint failed: {error}; nothing is lost by that"));
    say("Stopped.");
    closed.map(|()| ExitCode::SUCCESS)
}

/// How far it is.
fn how(node: &PageServerNode) -> How {
    let status = node.status();
    let line = match (&status.pages, &status.error) {
        (_, Some(error)) => format!("The log is not applied now: {error}"),
        (None, None) => "Waiting for the log.".to_owned(),
        (Some(pages), None) if pages.segments_missing > 0 => format!(
            "Fetching pages: {} segments of 1 MB are missing{}; those that are asked for come first.",
            pages.segments_missing,
            in_partitions(&node.missing_by_partition())
        ),
        (Some(pages), None) if status.primary_durable.0 > pages.applied.0 + (64 << 20) => {
            format!("Applying the log: {} MB behind.", (status.primary_durable.0 - pages.applied.0) >> 20)
        }
        (Some(_), None) => "The log is applied as it comes.".to_owned(),
    };
    How { line, refused: status.server.refused, tls: status.tls }
}

/// The first of the partitions in which pages are missing.
fn in_partitions(missing: &[(u64, u64)]) -> String {
    let shown: Vec<_> =
        missing.iter().take(PARTITIONS_SAID).map(|(number, pages)| format!("{number}: {pages}")).collect();
    match shown.is_empty() {
        true => String::new(),
        false => {
            let more = if missing.len() > PARTITIONS_SAID { ", …" } else { "" };
            format!(" (pages by partition: {}{more})", shown.join(", "))
        }
    }
}

/// Archive and backups of the database.
fn seeds(settings: &Settings) -> SeedSource {
    let (archive, backups) = (place(&settings.archive), place(&settings.backups));
    Box::new(move |database, first| {
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
        let open = |url: &Option<String>| -> Result<Option<Arc<dyn Store>>, Error> {
            let Some(url) = url else { return Ok(None) };
            let place = Place::of(Path::new(""), url)?;
            // The primary may not have made it yet.
            if let Some(folder) = place.folder() {
                vfs.make_folder(folder)?;
            }
            Ok(Some(place.open(&vfs, Access::Existing)?))
        };
        let Some(archive) = open(&archive)? else { return Ok(None) };
        let backups = open(&backups)?;
        Ok(Some(Arc::new(ArchiveSeed::new(archive, backups, database, first)) as Arc<dyn Seed>))
    })
}
