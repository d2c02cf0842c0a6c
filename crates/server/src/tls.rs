//! TLS: reading the certificate and key, and the acceptor.

use std::path::Path;
use std::sync::Arc;

use pgwire::tokio::tokio_rustls::TlsAcceptor;
use pgwire::tokio::tokio_rustls::rustls::ServerConfig;
use pgwire::tokio::tokio_rustls::rustls::crypto::ring;
use pgwire::tokio::tokio_rustls::rustls::pki_types::pem::PemObject;
use pgwire::tokio::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What a server needs to speak TLS.
#[derive(Clone)]
pub struct Tls {
    pub acceptor: TlsAcceptor,
    /// The certificate file's bytes: SCRAM channel binding hashes the first one.
    pub certificates_pem: Arc<[u8]>,
}

/// Reads a certificate chain and its key; the error names the file.
pub fn load(cert: &Path, key: &Path) -> Result<Tls, String> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("could not read {}: {error}", path.display()));
    let pem = read(cert)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{} is not a PEM certificate: {error}", cert.display()))?;
    if certificates.is_empty() {
        return Err(format!("{} holds no PEM certificate", cert.display()));
    }
    let key_der = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|error| format!("{} is not a PEM private key: {error}", key.display()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(certificates, key_der)
        .map_err(|error| format!("certificate {} and key {} do not fit: {error}", cert.display(), key.display()))?;
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), certificates_pem: pem.into() })
}
