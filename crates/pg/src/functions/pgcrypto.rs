//! Functions of the extension pgcrypto: digests, and codes made with a key and a digest, random bytes; `crypt` is in
//! [`super::crypt`]. What encrypts (`encrypt`, `pgp_…`, `armor`) is known by name and refused (0A000).

use datafusion::arrow::array::Array;
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::define::{Call, P, PgFunction, f, oid};
use super::strings::bytes_of;
use crate::random;
use crate::running;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Most bytes of `gen_random_bytes`.
const RANDOM_MAX: i64 = 1024;
/// Bytes between two looks at whether the statement has to stop.
const PIECE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// Those that PostgreSQL has by OpenSSL and that are not here, in the names of that.
const OTHERS: [&str; 16] = [
    "sha512-224",
    "sha512-256",
    "sha2-512/224",
    "sha2-512/256",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "blake2b512",
    "blake2s256",
    "ripemd160",
    "rmd160",
    "sm3",
    "md5-sha1",
    "shake128",
    "shake256",
];

impl Algorithm {
    /// # Errors
    /// 22023; 0A000 for one that is known elsewhere.
    fn of(name: &str) -> Result<Self, SqlError> {
        let lower = name.to_ascii_lowercase();
        Ok(match lower.as_str() {
            "md5" => Self::Md5,
            "sha1" | "sha-1" => Self::Sha1,
            "sha224" | "sha-224" | "sha2-224" => Self::Sha224,
            "sha256" | "sha-256" | "sha2-256" => Self::Sha256,
            "sha384" | "sha-384" | "sha2-384" => Self::Sha384,
            "sha512" | "sha-512" | "sha2-512" => Self::Sha512,
            other if OTHERS.contains(&other) || other.starts_with("rsa-") || other.starts_with("ssl3-") => {
                return Err(SqlError::unsupported(format!("hash algorithm \"{name}\" is not supported")));
            }
            _ => return Err(SqlError::new("22023", format!("Cannot use \"{name}\": No such hash algorithm"))),
        })
    }

    fn digest(self, data: &[u8]) -> Result<Vec<u8>, SqlError> {
        fn of<D: Digest>(data: &[u8]) -> Result<Vec<u8>, SqlError> {
            let mut digest = D::new();
            for piece in data.chunks(PIECE) {
                running::check()?;
                digest.update(piece);
            }
            Ok(digest.finalize().to_vec())
        }
        match self {
            Self::Md5 => of::<Md5>(data),
            Self::Sha1 => of::<Sha1>(data),
            Self::Sha224 => of::<Sha224>(data),
            Self::Sha256 => of::<Sha256>(data),
            Self::Sha384 => of::<Sha384>(data),
            Self::Sha512 => of::<Sha512>(data),
        }
    }

    /// A code for data that only who has the key can make (RFC 2104).
    fn hmac(self, data: &[u8], key: &[u8]) -> Result<Vec<u8>, SqlError> {
        fn of<M: Mac + KeyInit>(data: &[u8], key: &[u8]) -> Result<Vec<u8>, SqlError> {
            // Keys of any length are taken.
            let mut code = <M as KeyInit>::new_from_slice(key).map_err(|_| SqlError::internal("a key of a length"))?;
            for piece in data.chunks(PIECE) {
                running::check()?;
                code.update(piece);
            }
            Ok(code.finalize().into_bytes().to_vec())
        }
        match self {
            Self::Md5 => of::<Hmac<Md5>>(data, key),
            Self::Sha1 => of::<Hmac<Sha1>>(data, key),
            Self::Sha224 => of::<Hmac<Sha224>>(data, key),
            Self::Sha256 => of::<Hmac<Sha256>>(data, key),
            Self::Sha384 => of::<Hmac<Sha384>>(data, key),
            Self::Sha512 => of::<Hmac<Sha512>>(data, key),
        }
    }
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("pg_digest", &[P::Any, P::Text], oid(t::BYTEA), |call| {
            let data = bytes_of(&call.arrays[0])?;
            call.byteas(|row| match call.text(1, row) {
                Some(name) if data.is_valid(row) => Algorithm::of(name)?.digest(data.value(row)).map(Some),
                _ => Ok(None),
            })
        }),
        f("pg_hmac", &[P::Any, P::Any, P::Text], oid(t::BYTEA), |call| {
            let (data, key) = (bytes_of(&call.arrays[0])?, bytes_of(&call.arrays[1])?);
            call.byteas(|row| match call.text(2, row) {
                Some(name) if data.is_valid(row) && key.is_valid(row) => {
                    Algorithm::of(name)?.hmac(data.value(row), key.value(row)).map(Some)
                }
                _ => Ok(None),
            })
        }),
        f("pg_random_bytes", &[P::Int], oid(t::BYTEA), random_bytes).each_row(),
    ]
}

fn random_bytes(call: &Call<'_>) -> Result<datafusion::arrow::array::ArrayRef, SqlError> {
    call.byteas(|row| {
        let Some(length) = call.int(0, row) else { return Ok(None) };
        if !(1..=RANDOM_MAX).contains(&length) {
            return Err(SqlError::new("39000", "Length not in range"));
        }
        let mut bytes = vec![0; length as usize];
        random::fill(&mut bytes)?;
        Ok(Some(bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_and_codes() {
        let digest = |name| hex(&Algorithm::of(name).expect(name).digest(b"a").expect(name));
        assert_eq!(digest("MD5"), "0cc175b9c0f1b6a831c399e269772661");
        assert_eq!(digest("sha2-224"), "abd37534c7d9a2efb9465de931cd7055ffdb8879563ae98078d6d6d5");
        let code =
            |name, data: &[u8], key: &[u8]| hex(&Algorithm::of(name).expect(name).hmac(data, key).expect("a code"));
        assert_eq!(code("sha1", b"data", b"key"), "104152c5bfdca07bc633eebd46199f0255c9f49d");
        assert_eq!(code("md5", b"x", b""), "5a470ef74cd7af75c375be99c6ef771f");
        assert!(code("sha512", b"", &[b'k'; 200]).starts_with("25817dd748c9446b2b0201af68cec787"));
        let state = |name| Algorithm::of(name).expect_err(name).sqlstate.clone();
        assert_eq!((&*state("md55"), &*state("sha3-256")), ("22023", "0A000"));
    }
}
