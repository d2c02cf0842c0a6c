//! TLS between the tiers: settings, and files that are read again.
//!
//! Contract: all three files or none. With them every connection between the tiers is encrypted, and both sides have shown a
//! certificate of the authority; who has none is refused by name.

use std::sync::Arc;

use resurgam_cluster::{Tls, TlsFiles, TlsStats};
use tokio::signal::unix::Signal;

use crate::files;
use crate::settings::Settings;

/// It is said that a certificate is about to expire.
const EXPIRES_SOON_DAYS: u64 = 14;

/// Reads certificate, key and authority, where the settings name them.
///
/// # Errors
/// A sentence for the terminal that names the file.
pub fn open(settings: &Settings) -> Result<Option<Arc<Tls>>, String> {
    if !settings.has_tier_tls() {
        return Ok(None);
    }
    let files = TlsFiles {
        cert: settings.tier_tls_cert.clone(),
        key: settings.tier_tls_key.clone(),
        ca: settings.tier_tls_ca.clone(),
        read_key: |path| files::read_secret("private key file", path),
    };
    Tls::open(files).map(Some).map_err(|error| format!("TLS between the tiers: {error}"))
}

/// Has the files read again at each SIGHUP, for ever. They are looked at when a connection is made, too.
pub async fn read_again_at(hang_up: &mut Signal, tls: Option<&Arc<Tls>>) {
    while hang_up.recv().await.is_some() {
        match tls {
            Some(tls) => {
                tracing::info!("received SIGHUP: reading files again");
                tls.reload();
            }
            None => tracing::info!("received SIGHUP, and there is nothing to be read again"),
        }
    }
}

/// What it has come to, as far as it is worth a line.
pub fn told(refused: u64, tls: Option<TlsStats>) -> String {
    let mut text = String::new();
    let left = tls.and_then(|stats| stats.left()).map(|left| left.as_secs() / 86_400);
    match left {
        Some(0) => text += " The certificate for the tiers expires within a day, or has expired.",
        Some(days) if days < EXPIRES_SOON_DAYS => {
            text += &format!(" The certificate for the tiers expires in {days} days.")
        }
        _ => {}
    }
    if refused > 0 {
        text += &format!(" Connections refused since the start: {refused}; see the log.");
    }
    if let Some(TlsStats { reload_failures: failures @ 1.., .. }) = tls {
        text += &format!(" Certificates were wrong when they were read again: {failures} times.");
    }
    text
}
