//! TLS: reading the certificate and key, and the acceptor.

use std::path::Path;
use std::sync::Arc;

use pgwire::tokio::tokio_rustls::TlsAcceptor;
use pgwire::tokio::tokio_rustls::rustls::crypto::ring;
use pgwire::tokio::tokio_rustls::rustls::pki_types::pem::PemObject;
use pgwire::tokio::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use pgwire::tokio::tokio_rustls::rustls::server::WebPkiClientVerifier;
use pgwire::tokio::tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::files;

/// What a server needs to speak TLS.
#[derive(Clone)]
pub struct Tls {
    pub acceptor: TlsAcceptor,
    /// The certificate file's bytes: SCRAM channel binding hashes the first one.
    pub certificates_pem: Arc<[u8]>,
    /// Clients' certificates are checked, where they show one.
    pub verifies_clients: bool,
}

/// Reads a certificate chain and its key, and whose clients' certificates count (`ca`; empty: nobody's). The error
/// names the file.
pub fn load(cert: &Path, key: &Path, ca: &Path) -> Result<Tls, String> {
    let (pem, certificates) = certificates(cert)?;
    let key_der = PrivateKeyDer::from_pem_slice(&files::read_secret("private key file", key)?)
        .map_err(|error| format!("{} is not a PEM private key: {error}", key.display()))?;
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifies_clients = !ca.as_os_str().is_empty();
    let config = if verifies_clients {
        let mut roots = RootCertStore::empty();
        for root in self::certificates(ca)?.1 {
            roots.add(root).map_err(|error| format!("{}: a certificate cannot be used: {error}", ca.display()))?;
        }
        // Which rules ask for one is found out later.
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|error| format!("{} cannot be used: {error}", ca.display()))?;
        config.with_client_cert_verifier(verifier)
    } else {
        config.with_no_client_auth()
    };
    let mut config = config
        .with_single_cert(certificates, key_der)
        .map_err(|error| format!("certificate {} and key {} do not fit: {error}", cert.display(), key.display()))?;
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), certificates_pem: pem.into(), verifies_clients })
}

/// The bytes of a PEM file and the certificates in it, at least one.
fn certificates(path: &Path) -> Result<(Vec<u8>, Vec<CertificateDer<'static>>), String> {
    let pem = std::fs::read(path).map_err(|error| format!("could not read {}: {error}", path.display()))?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{} is not a PEM certificate: {error}", path.display()))?;
    if found.is_empty() {
        return Err(format!("{} holds no PEM certificate", path.display()));
    }
    Ok((pem, found))
}
