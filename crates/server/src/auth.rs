//! Who may log in: the password's SCRAM-SHA-256 verifier (RFC 5802, RFC 7677).
//!
//! The server keeps only the verifier. A user that does not exist goes through
//! the same exchange and fails at its end, so that names cannot be probed.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::{SCRAM_ITERATIONS, ScramSecret, gen_salted_password, random_nonce};

use crate::files;
use crate::settings::Settings;

/// A verifier in PostgreSQL's form, decoded.
#[derive(Clone)]
pub struct Verifier {
    salt: Vec<u8>,
    iterations: usize,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Verifier {
    /// From a password, or from `SCRAM-SHA-256$iterations:salt$stored:server` as `pg_authid` has it.
    pub fn new(password: &str) -> Result<Self, String> {
        if let Some(rest) = password.strip_prefix("SCRAM-SHA-256$") {
            return Self::decode(rest).ok_or_else(|| "the SCRAM-SHA-256 verifier is malformed".into());
        }
        let salt = random_nonce().into_bytes();
        let salted = gen_salted_password(password, &salt, SCRAM_ITERATIONS);
        match ScramSecret::verifier_from_salted_password(salt, salted, SCRAM_ITERATIONS) {
            ScramSecret::Verifier { salt, iterations, stored_key, server_key } => {
                Ok(Self { salt, iterations, stored_key, server_key })
            }
            ScramSecret::SaltedPassword { .. } => Err("no verifier could be made".into()),
        }
    }

    /// One that no password fits, for a user who is not there: the same for the same name, so that asking twice tells
    /// nothing.
    pub fn of_nobody(user: &str) -> Self {
        static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
        let keys = KEYS.get_or_init(|| [RandomState::new(), RandomState::new()]);
        let salt = keys.iter().flat_map(|key| key.hash_one(user).to_le_bytes()).collect();
        let never = random_nonce().into_bytes();
        let key = |text: &[u8]| text.iter().copied().cycle().take(32).collect::<Vec<u8>>();
        Self { salt, iterations: SCRAM_ITERATIONS, stored_key: key(&never), server_key: key(&never) }
    }

    fn decode(text: &str) -> Option<Self> {
        let (first, keys) = text.split_once('$')?;
        let (iterations, salt) = first.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let verifier = Self {
            salt: STANDARD.decode(salt).ok()?,
            iterations: iterations.parse().ok()?,
            stored_key: STANDARD.decode(stored_key).ok()?,
            server_key: STANDARD.decode(server_key).ok()?,
        };
        (verifier.stored_key.len() == 32 && verifier.server_key.len() == 32 && verifier.iterations > 0)
            .then_some(verifier)
    }

    /// What one exchange needs.
    pub fn secret(&self) -> ScramSecret {
        ScramSecret::Verifier {
            salt: self.salt.clone(),
            iterations: self.iterations,
            stored_key: self.stored_key.clone(),
            server_key: self.server_key.clone(),
        }
    }
}

/// The verifier of the password that the settings give; `None` if they give none.
pub fn load(settings: &Settings) -> Result<Option<Verifier>, String> {
    let password = if settings.password_file.as_os_str().is_empty() {
        settings.password.clone()
    } else {
        let path = &settings.password_file;
        let text = String::from_utf8(files::read_secret("password file", path)?)
            .map_err(|_| format!("password file \"{}\" is not UTF-8 text", path.display()))?;
        text.lines().next().unwrap_or_default().to_owned()
    };
    if password.is_empty() {
        return Ok(None);
    }
    Verifier::new(&password).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifiers_of_postgresql_are_read() {
        // Made by PostgreSQL 15 for the password "pencil".
        let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        let verifier = Verifier::new(text).unwrap();
        assert_eq!(verifier.iterations, 4096);
        let ScramSecret::Verifier { stored_key, .. } = ScramSecret::verifier_from_salted_password(
            verifier.salt.clone(),
            gen_salted_password("pencil", &verifier.salt, 4096),
            4096,
        ) else {
            panic!("not a verifier")
        };
        assert_eq!(stored_key, verifier.stored_key);
        assert!(Verifier::new("SCRAM-SHA-256$4096:W22$a:b").is_err());
    }
}
