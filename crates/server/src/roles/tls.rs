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

/// What was said last of how a part is, so that it is said again only when it is another thing.
#[derive(Default)]
pub struct Said(String);

impl Said {
    /// The line with what TLS has come to, where it is to be said. Numbers that grow while nothing else changes are another thing when
    /// they have doubled: a part that is refused tries again every second.
    pub fn next(&mut self, line: &str, refused: u64, tls: Option<TlsStats>) -> Option<String> {
        let rough = tls.map(|tls| TlsStats { reload_failures: power_of_two(tls.reload_failures), ..tls });
        let compared = line.to_owned() + &told(power_of_two(refused), rough);
        if compared == self.0 {
            return None;
        }
        self.0 = compared;
        Some(line.to_owned() + &told(refused, tls))
    }
}

/// The largest one that is not larger; 0 of 0.
fn power_of_two(number: u64) -> u64 {
    number.checked_ilog2().map_or(0, |bits| 1 << bits)
}

/// What it has come to, as far as it is worth a line.
fn told(refused: u64, tls: Option<TlsStats>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_grow_are_said_when_they_have_doubled() {
        let mut said = Said::default();
        let line = "The log is applied as it comes.";
        assert_eq!(said.next(line, 0, None).as_deref(), Some(line));
        assert_eq!(said.next(line, 0, None), None);
        let lines: Vec<_> = (1..=1000).filter_map(|refused| said.next(line, refused, None)).collect();
        assert_eq!(lines.len(), 10, "{lines:?}");
        assert_eq!(lines[9], format!("{line} Connections refused since the start: 512; see the log."));
        // As it is, when something else has changed.
        let other = said.next("Waiting for the log.", 1023, None).expect("another line");
        assert_eq!(other, "Waiting for the log. Connections refused since the start: 1023; see the log.");
        assert_eq!(said.next("Waiting for the log.", 1023, None), None);
        let failures = |reload_failures| Some(TlsStats { reload_failures, ..TlsStats::default() });
        let lines: Vec<_> =
            (1..=100).filter_map(|count| said.next("Waiting for the log.", 1023, failures(count))).collect();
        assert_eq!(lines.len(), 7, "{lines:?}");
        assert!(lines[6].ends_with("Certificates were wrong when they were read again: 64 times."), "{lines:?}");
    }
}
