//! Who may come in: the host rules, the password's verifier and TLS, as files and settings have them; read again while
//! the server runs.
//!
//! Contract: what is in force was right as a whole when it was read. A reload that finds a mistake says so in the log
//! and changes nothing. A connection keeps what was in force when it was accepted.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use resurgam_sql::Host;
use resurgam_sql::pg::context::HostRule;
use resurgam_sql::wire::SqlError;

use crate::auth::{self, Verifier};
use crate::hba::{self, Kind, Method, Rules};
use crate::roles;
use crate::settings::{Authentication, Settings};
use crate::tls::{self, Tls};

/// What is in force.
#[derive(Clone)]
pub struct Access {
    pub rules: Rules,
    /// `None`: nobody has a password.
    pub verifier: Option<Verifier>,
    pub tls: Option<Tls>,
}

fn given(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| !path.as_os_str().is_empty())
}

impl Access {
    /// Reads everything.
    ///
    /// # Errors
    /// Sentences for the terminal or the log, each naming its file.
    pub fn load(settings: &Settings) -> Result<Self, Vec<String>> {
        let one = |error| vec![error];
        let tls = match given(&settings.tls_cert) {
            Some(cert) => Some(tls::load(cert, &settings.tls_key, &settings.tls_ca).map_err(one)?),
            None => None,
        };
        let mut rules = match given(&settings.hba_file) {
            Some(path) => Rules::read(path)?,
            None => match settings.authentication {
                Authentication::Trust => Rules::built_in("host all all all trust"),
                Authentication::ScramSha256 => Rules::built_in("host all all all scram-sha-256"),
            },
        };
        let verifier = auth::load(settings).map_err(one)?;
        let errors = rules.iter().filter_map(|rule| {
            let place = |what: &str| {
                format!("{what} (line {} of configuration file \"{}\")", rule.line, settings.hba_file.display())
            };
            if rule.method.asks_password() && verifier.is_none() {
                return Some(match given(&settings.hba_file) {
                    Some(_) => place(&format!("{} is asked for, but {NO_PASSWORD}", rule.method.word())),
                    None => format!("authentication is scram-sha-256, but {NO_PASSWORD}"),
                });
            }
            if rule.kind == Kind::HostSsl && tls.is_none() {
                tracing::warn!("{}", place("hostssl record cannot match because SSL is disabled"));
            }
            None
        });
        let errors: Vec<String> = errors.collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        if settings.tls_required {
            rules.require_tls();
        }
        Ok(Self { rules, verifier, tls })
    }

    /// Whether somebody on another machine may get in without a proof.
    pub fn trusts_others(&self) -> bool {
        self.rules.iter().any(|rule| {
            rule.method == Method::Trust
                && rule.client_cert.is_none()
                && rule.address.as_ref().is_some_and(|address| address.reaches_others())
        })
    }
}

const NO_PASSWORD: &str = "there is no password: set password_file, or RESURGAM_PASSWORD in the environment";

/// What is in force now, and how to read it again.
pub struct Gate {
    settings: Settings,
    now: RwLock<Arc<Access>>,
    /// What the database's other parts are spoken to with.
    tier_tls: Option<Arc<resurgam_cluster::Tls>>,
}

impl Gate {
    /// Reads everything for the first time.
    ///
    /// # Errors
    /// As [`Access::load`].
    pub fn open(settings: Settings) -> Result<Self, Vec<String>> {
        let now = RwLock::new(Arc::new(Access::load(&settings)?));
        let tier_tls = roles::tls::open(&settings).map_err(|error| vec![error])?;
        Ok(Self { settings, now, tier_tls })
    }

    /// What the database's other parts are spoken to with; none: they are trusted.
    pub fn tier_tls(&self) -> Option<Arc<resurgam_cluster::Tls>> {
        self.tier_tls.clone()
    }

    /// What is in force.
    pub fn access(&self) -> Arc<Access> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads everything again; whether it is in force now. What is wrong is in the log. What is for clients and what is for the tiers do
    /// not wait for each other.
    pub fn read_again(&self) -> bool {
        let for_tiers = self.tier_tls.as_ref().is_none_or(|tls| tls.reload());
        self.read_again_for_clients() && for_tiers
    }

    fn read_again_for_clients(&self) -> bool {
        match Access::load(&self.settings) {
            Ok(access) => {
                *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
                tracing::info!("host rules, password and certificates were read again");
                true
            }
            Err(errors) => {
                errors.iter().for_each(|error| tracing::error!("{error}"));
                tracing::error!(
                    "host rules, password and certificates were not reloaded; the ones before stay in force"
                );
                false
            }
        }
    }
}

impl Host for Gate {
    /// At once: a session that comes after it meets the new rules.
    fn reload(&self) -> bool {
        tracing::info!("pg_reload_conf: reading files again");
        self.read_again();
        true
    }

    fn host_rules(&self) -> Result<Vec<HostRule>, SqlError> {
        match given(&self.settings.hba_file) {
            None => Ok(self.access().rules.shown()),
            Some(path) => hba::show_file(path, given(&self.settings.tls_cert).is_some()).map_err(|error| {
                SqlError::new("58P01", format!("could not open configuration file \"{}\": {error}", path.display()))
            }),
        }
    }
}
