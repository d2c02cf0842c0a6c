//! TLS between the tiers: both sides show a certificate, and both check it against the authority that the operator names.
//!
//! | file | concept |
//! |---|---|
//! | `mod.rs` | the three files, read again when they change |
//! | `authority.rs` | what may stand in the file with the authorities |
//! | `session.rs` | what is encrypted on one connection |
//! | `words.rs` | what is wrong, for people |
//!
//! # Contract
//! 1. TLS 1.3 only. Nothing of an earlier session is taken up again: every connection checks both certificates, with the files and the
//!    time of that moment.
//! 2. What is in force was right as a whole when it was read. Files that are wrong are said and counted, and those before stay in
//!    force: a certificate and its key need not be replaced in one step. Files that change by themselves count when two looks in a row
//!    have found the same: one that is half written may be right as far as it goes. At the start, and when somebody asks for it, they
//!    count as they are.
//!    Wrong is what cannot be used. A certificate that fits its key and that peers will refuse (it has expired, or is of another
//!    authority) is said, and put in force.
//! 3. Connections that exist go on with what they began with.
//! 4. Whoever has a certificate of that authority is one of the tiers: it has to be an authority of their own. There are no revocation
//!    lists.

mod authority;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod mishaps;
mod session;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};

pub(crate) use session::{Fault, Session};

/// The files are looked at so often at most, while connections are made.
const LOOK: Duration = Duration::from_secs(1);
/// Longest file with certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// What is spoken in it: a connection that was meant for another program is refused by both sides.
const PROTOCOL: &[u8] = b"resurgam-rbio";
/// Behind the last time that a certificate can name (9999), in seconds since 1970.
const FAR: u64 = 10_000 * 366 * 86_400;

/// Where certificate, key and authority are, as PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain that is shown to peers, as a server's and as a client's.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Whose certificates count.
    pub ca: PathBuf,
    /// Reads the key: who may have the file is for the caller to say.
    pub read_key: fn(&Path) -> Result<Vec<u8>, String>,
}

/// What was done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsStats {
    /// Connections on which keys were agreed upon, as a server or as a client that has heard the first answer: the server has looked at
    /// its certificate by then.
    pub handshakes: u64,
    /// Those on which that failed for what the peer is, showed, or said of this side, or in the middle.
    pub refused: u64,
    /// Times that changed files were put in force, and that they were wrong.
    pub reloads: u64,
    pub reload_failures: u64,
    /// Until when the certificate in force is valid, in seconds since 1970.
    pub expires: Option<u64>,
}

impl TlsStats {
    /// The certificate is valid for so long, of this machine's clock; none: that is not known.
    pub fn left(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.expires?.saturating_sub(UnixTime::now().as_secs())))
    }
}

/// A process's TLS: see the module.
pub struct Tls {
    files: TlsFiles,
    now: RwLock<Arc<Loaded>>,
    /// Held while the files are read. Who makes a connection meanwhile goes by what is in force.
    looked: Mutex<Looked>,
    handshakes: AtomicU64,
    refused: AtomicU64,
    reloads: AtomicU64,
    reload_failures: AtomicU64,
}

/// What is in force.
struct Loaded {
    bytes: Bytes,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
    expires: Option<u64>,
}

#[derive(Default)]
struct Looked {
    at: Option<Instant>,
    /// What was found, where it is not what is in force; to be believed when it is found again.
    found: Option<Result<Bytes, String>>,
    /// Why the files as they are now are not in force.
    fault: Option<String>,
}

/// The three files.
#[derive(PartialEq, Eq)]
struct Bytes {
    cert: Vec<u8>,
    key: Vec<u8>,
    ca: Vec<u8>,
}

impl Tls {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong with it.
    pub fn open(files: TlsFiles) -> Result<Arc<Self>, String> {
        let loaded = files.read().and_then(|bytes| files.load(bytes))?;
        let looked = Looked { at: Some(Instant::now()), ..Looked::default() };
        Ok(Arc::new(Self {
            files,
            now: RwLock::new(Arc::new(loaded)),
            looked: Mutex::new(looked),
            handshakes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            reloads: AtomicU64::new(0),
            reload_failures: AtomicU64::new(0),
        }))
    }

    /// What was done.
    pub fn stats(&self) -> TlsStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TlsStats {
            handshakes: read(&self.handshakes),
            refused: read(&self.refused),
            reloads: read(&self.reloads),
            reload_failures: read(&self.reload_failures),
            expires: self.now.read().expires,
        }
    }

    /// Reads the files now, which happens by itself, too, when a connection is made; whether they are in force now.
    pub fn reload(&self) -> bool {
        let mut looked = self.looked.lock();
        // Whoever asks for it is told again.
        looked.fault = None;
        let found = self.files.read();
        looked.at = Some(Instant::now());
        self.believe(&mut looked, found);
        looked.fault.is_none()
    }

    /// What is in force for a connection that is made now.
    fn current(&self) -> Arc<Loaded> {
        if let Some(mut looked) = self.looked.try_lock()
            && looked.at.is_none_or(|at| at.elapsed() >= LOOK)
        {
            self.look(&mut looked);
        }
        Arc::clone(&self.now.read())
    }

    /// Whatever is found needs to be found twice: files are not written in one moment.
    fn look(&self, looked: &mut Looked) {
        let found = self.files.read();
        looked.at = Some(Instant::now());
        if found.as_ref().is_ok_and(|bytes| *bytes == self.now.read().bytes) || looked.found.as_ref() == Some(&found) {
            self.believe(looked, found);
        } else {
            looked.found = Some(found);
        }
    }

    /// Puts in force what was found, or keeps what was there before.
    fn believe(&self, looked: &mut Looked, found: Result<Bytes, String>) {
        looked.found = None;
        let outcome = found.and_then(|bytes| match bytes == self.now.read().bytes {
            true => Ok(None),
            false => self.files.load(bytes).map(Some),
        });
        match outcome {
            Ok(loaded) => {
                looked.fault = None;
                if let Some(loaded) = loaded {
                    *self.now.write() = Arc::new(loaded);
                    self.reloads.fetch_add(1, Ordering::Relaxed);
                    tracing::info!("certificate, key and authority for the tiers were read again");
                }
            }
            Err(fault) => {
                if looked.fault.as_ref() != Some(&fault) {
                    self.reload_failures.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(
                        "certificate, key and authority for the tiers: those before stay in force: {fault}"
                    );
                }
                looked.fault = Some(fault);
            }
        }
    }

    /// Until when a peer's certificate is valid, in seconds since 1970.
    fn expires_of(&self, chain: &[CertificateDer<'_>]) -> Option<u64> {
        let verifier = Arc::clone(&self.now.read().verifier);
        expires(chain, verifier.as_ref())
    }

    pub(crate) fn agreed(&self) {
        self.handshakes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl TlsFiles {
    fn read(&self) -> Result<Bytes, String> {
        let read = |path: &Path| {
            let failed = |error: std::io::Error| format!("could not read {}: {error}", path.display());
            let mut bytes = Vec::new();
            let file = std::fs::File::open(path).map_err(failed)?;
            file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
            match bytes.len() as u64 > FILE_BYTES_MAX {
                true => Err(format!("{} is longer than {FILE_BYTES_MAX} bytes", path.display())),
                false => Ok(bytes),
            }
        };
        Ok(Bytes { cert: read(&self.cert)?, ca: read(&self.ca)?, key: (self.read_key)(&self.key)? })
    }

    /// What the files say, or what is wrong with them.
    fn load(&self, bytes: Bytes) -> Result<Loaded, String> {
        let (cert, key, ca) = (self.cert.display(), self.key.display(), self.ca.display());
        let chain = certificates(&self.cert, &bytes.cert)?;
        let key_der = PrivateKeyDer::from_pem_slice(&bytes.key)
            .map_err(|error| format!("{key} is not a PEM private key: {error}"))?;
        let mut roots = RootCertStore::empty();
        let authorities = certificates(&self.ca, &bytes.ca)?;
        for (number, root) in (1..).zip(&authorities) {
            roots.add(root.clone()).map_err(|error| format!("{ca}: certificate {number} cannot be used: {error}"))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| format!("{ca} cannot be used: {error}"))?;
        authority::check(&self.ca, &authorities, verifier.as_ref(), UnixTime::now())?;
        let do_not_fit = |error| format!("certificate {cert} and key {key} do not fit: {error}");
        let versions = &[&rustls::version::TLS13];
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), key_der.clone_key())
            .map_err(do_not_fit)?;
        client.resumption = Resumption::disabled();
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(Arc::clone(&verifier))
            .with_single_cert(chain.clone(), key_der)
            .map_err(do_not_fit)?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        if let Some(fault) = own_fault(&chain, &roots, verifier.as_ref(), &provider) {
            // No reason to end, or to keep what was there before: peers may have another authority, and a clock may be wrong.
            tracing::warn!("peers with the same authority will refuse this side: the certificate in {cert} {fault}");
        }
        let expires = expires(&chain, verifier.as_ref());
        Ok(Loaded { bytes, client: Arc::new(client), server: Arc::new(server), verifier, expires })
    }
}

/// Why a peer with the same authority would refuse the chain, as that of a client or of a server.
fn own_fault(
    chain: &[CertificateDer<'_>],
    roots: &RootCertStore,
    verifier: &dyn ClientCertVerifier,
    provider: &CryptoProvider,
) -> Option<String> {
    let (own, between) = chain.split_first()?;
    let now = UnixTime::now();
    let as_client = verifier.verify_client_cert(own, between, now).map(drop);
    let as_server = || {
        let algorithms = provider.signature_verification_algorithms.all;
        let own = ParsedCertificate::try_from(own)?;
        rustls::client::verify_server_cert_signed_by_trust_anchor(&own, roots, between, now, algorithms)
    };
    as_client.and_then(|()| as_server()).err().map(|error| words::of_own(&error))
}

/// Until when the first one is valid, as whoever checks it says when that is long over: it is looked at before who has signed it.
fn expires(chain: &[CertificateDer<'_>], verifier: &dyn ClientCertVerifier) -> Option<u64> {
    let (own, between) = chain.split_first()?;
    let far = UnixTime::since_unix_epoch(Duration::from_secs(FAR));
    match verifier.verify_client_cert(own, between, far) {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Some(not_after.as_secs())
        }
        _ => None,
    }
}

/// The certificates in a PEM file, at least one.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{} is not a PEM certificate: {error}", path.display()))?;
    match found.is_empty() {
        true => Err(format!("{} holds no PEM certificate", path.display())),
        false => Ok(found),
    }
}
