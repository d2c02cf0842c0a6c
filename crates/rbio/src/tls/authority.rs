//! What may stand in the file with the authorities: certificates of authorities, valid now.
//!
//! Whatever is in that file counts as an authority, whatever its certificate says: a part's own certificate that got into it would let
//! whoever has its key make certificates for everybody, and the validity of an authority is not looked at again when it has signed one.

use std::path::Path;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, Error};

/// Refuses the first of them that is no authority, or not valid now: by the file, and which one in it.
///
/// # Errors
/// A sentence; the same one each time, so that it is said once.
pub(super) fn check(
    path: &Path,
    all: &[CertificateDer<'_>],
    verifier: &dyn ClientCertVerifier,
    now: UnixTime,
) -> Result<(), String> {
    for (number, one) in (1..).zip(all) {
        if let Some(fault) = fault(one, verifier, now) {
            return Err(format!("{}: certificate {number} {fault}", path.display()));
        }
    }
    Ok(())
}

/// As whoever checks it as a peer's certificate says: first whether it is valid now, then whether it is an authority's, which no peer may
/// show. Anything else that is wrong, or nothing: it is none.
fn fault(one: &CertificateDer<'_>, verifier: &dyn ClientCertVerifier, now: UnixTime) -> Option<&'static str> {
    let error = match verifier.verify_client_cert(one, &[], now) {
        Err(Error::InvalidCertificate(error)) => Some(error),
        _ => None,
    };
    match error {
        Some(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => Some("has expired"),
        Some(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            Some("is not valid yet, by this machine's clock")
        }
        // The error itself is of a crate that is not named here. With another text of it no authority would be taken at all.
        Some(CertificateError::Other(other)) if other.to_string() == "CaUsedAsEndEntity" => None,
        _ => Some("is not an authority's (its basicConstraints do not say CA:TRUE): only authorities belong there"),
    }
}
