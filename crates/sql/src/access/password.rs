//! What is kept of a password: a SCRAM-SHA-256 verifier (RFC 5802, RFC 7677), in PostgreSQL's form.

use std::num::NonZeroU32;

use ring::rand::SecureRandom;
use ring::{digest, hmac, pbkdf2};

use crate::wire::SqlError;

const PREFIX: &str = "SCRAM-SHA-256$";
const ITERATIONS: u32 = 4096;
const SALT_BYTES: usize = 16;

/// Whether a text is a verifier, and no password.
fn is_verifier(text: &str) -> bool {
    let Some((iterations, rest)) = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':')) else {
        return false;
    };
    let Some((salt, keys)) = rest.split_once('$') else { return false };
    let Some((stored, server)) = keys.split_once(':') else { return false };
    let is_key = |text: &str| base64_len(text) == Some(digest::SHA256_OUTPUT_LEN);
    iterations.parse::<u32>().is_ok_and(|n| n > 0) && base64_len(salt).is_some() && is_key(stored) && is_key(server)
}

/// Bytes that a text in base64 stands for.
fn base64_len(text: &str) -> Option<usize> {
    let bare = text.trim_end_matches('=');
    let padding = text.len() - bare.len();
    let fine = bare.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
    (fine && text.len().is_multiple_of(4) && padding < 3).then_some(text.len() / 4 * 3 - padding)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().enumerate().fold(0u32, |all, (at, byte)| all | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// What is kept of a password; `None`: it is empty, which is none. A verifier is kept as it is.
///
/// # Errors
/// There are no random bytes.
pub(super) fn kept(password: &str) -> Result<Option<String>, SqlError> {
    if password.is_empty() {
        return Ok(None);
    }
    if is_verifier(password) {
        return Ok(Some(password.to_owned()));
    }
    let mut salt = [0; SALT_BYTES];
    let failed = |_| SqlError::internal("there are no random bytes for a password");
    ring::rand::SystemRandom::new().fill(&mut salt).map_err(failed)?;
    Ok(Some(verifier(password, &salt)))
}

fn verifier(password: &str, salt: &[u8]) -> String {
    // As clients do: what cannot be prepared is taken as it is.
    let prepared = stringprep::saslprep(password).unwrap_or(password.into());
    let mut salted = [0; digest::SHA256_OUTPUT_LEN];
    let iterations = NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, prepared.as_bytes(), &mut salted);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let stored = digest::digest(&digest::SHA256, hmac::sign(&key, b"Client Key").as_ref());
    let server = hmac::sign(&key, b"Server Key");
    format!("{PREFIX}{ITERATIONS}:{}${}:{}", base64(salt), base64(stored.as_ref()), base64(server.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifiers_are_those_of_postgresql() {
        // Made by PostgreSQL 15 for the password "pencil".
        let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        let salt = [0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81];
        assert_eq!(verifier("pencil", &salt), text);
        assert_eq!(kept(text).unwrap().as_deref(), Some(text));
        assert_eq!(kept("").unwrap(), None);
        let made = kept("SCRAM-SHA-256$4096:W22$a:b").unwrap().unwrap();
        assert!(is_verifier(&made) && made != kept("SCRAM-SHA-256$4096:W22$a:b").unwrap().unwrap());
    }
}
