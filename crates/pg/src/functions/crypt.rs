//! `crypt` and `gen_salt` of the extension pgcrypto: digests of passwords that take time, by Blowfish (`$2a$`) and by MD5
//! (`$1$`). DES, which takes eight characters of a password, is refused (0A000).

use blowfish::Blowfish;
use md5::{Digest, Md5};

use super::define::{P, PgFunction, f, oid};
use crate::random;
use crate::running;
use crate::types::oid as t;
use crate::wire::SqlError;

/// The digits of Blowfish's texts: six bits each, the high ones first.
const BLOWFISH_DIGITS: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Those of MD5's: the low ones first.
const MD5_DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// How long a password is that Blowfish looks at.
const PASSWORD_BYTES: usize = 72;
/// Characters of a salt of Blowfish: 128 bits.
const BLOWFISH_SALT: usize = 22;
/// Rounds between two looks at whether the statement has to stop: some milliseconds.
const PIECE: u64 = 64;

fn invalid_salt() -> SqlError {
    SqlError::new("22023", "invalid salt")
}

fn no_des() -> SqlError {
    SqlError::unsupported("crypt with DES is not supported").with_hint("Use gen_salt('bf') or gen_salt('md5').")
}

fn blowfish_digits(bytes: &[u8], digits: usize) -> String {
    let mut out = String::with_capacity(digits);
    for chunk in bytes.chunks(3) {
        let at = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            if out.len() < digits {
                out.push(char::from(BLOWFISH_DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
            }
        }
    }
    out
}

/// The bytes of a salt; `None` if it is none.
fn blowfish_salt(text: &[u8]) -> Option<[u8; 16]> {
    let mut out = [0u8; 16];
    let mut bits = 0u32;
    let mut made = 0;
    for (at, digit) in text.iter().enumerate() {
        let value = BLOWFISH_DIGITS.iter().position(|known| known == digit)?;
        bits = bits << 6 | value as u32;
        // After each digit but the first of four there is another byte.
        if at % 4 != 0 {
            let rest = 6 - 2 * (at % 4);
            *out.get_mut(made)? = (bits >> rest) as u8;
            made += 1;
        }
    }
    (made == out.len()).then_some(out)
}

/// `$2a$nn$salt` with the digest of a password behind it (Provos and Mazières; `crypt_blowfish`).
fn by_blowfish(password: &str, setting: &str) -> Result<String, SqlError> {
    let rest = setting.get(4..).ok_or_else(invalid_salt)?.as_bytes();
    let (cost, salt) = match rest {
        [a @ b'0'..=b'3', b @ b'0'..=b'9', b'$', salt @ ..] => (u32::from((a - b'0') * 10 + (b - b'0')), salt),
        _ => return Err(invalid_salt()),
    };
    let text = salt.get(..BLOWFISH_SALT).ok_or_else(invalid_salt)?;
    let salt = blowfish_salt(text).filter(|_| (4..=31).contains(&cost)).ok_or_else(invalid_salt)?;
    if setting.starts_with("$2x$") && !password.is_ascii() {
        let text = "crypt with \"$2x$\" of a password with other than ASCII characters is not supported";
        return Err(SqlError::unsupported(text));
    }
    let mut key = password.as_bytes().to_vec();
    key.push(0);
    key.truncate(PASSWORD_BYTES);
    let mut state: Blowfish = Blowfish::bc_init_state();
    state.salted_expand_key(&salt, &key);
    for round in 0..1u64 << cost {
        if round % PIECE == 0 {
            running::check()?;
        }
        state.bc_expand_key(&key);
        state.bc_expand_key(&salt);
    }
    let mut digest = Vec::with_capacity(24);
    for pair in [[0x4f72_7068, 0x6561_6e42], [0x6568_6f6c, 0x6465_7253], [0x6372_7944, 0x6f75_6274]] {
        let encrypted = (0..64).fold(pair, |pair, _| state.bc_encrypt(pair));
        encrypted.iter().for_each(|word| digest.extend_from_slice(&word.to_be_bytes()));
    }
    // The last byte is not shown.
    digest.truncate(23);
    Ok(format!("{}{}{}", &setting[..7], blowfish_digits(&salt, BLOWFISH_SALT), blowfish_digits(&digest, 31)))
}

/// `$1$salt$` with the digest of a password behind it (Kamp; `crypt-md5.c`).
fn by_md5(password: &str, setting: &str) -> Result<String, SqlError> {
    let salt = setting.get(3..).unwrap_or_default().as_bytes();
    let end = salt.iter().position(|byte| *byte == b'$').unwrap_or(salt.len()).min(8);
    let salt = &salt[..end];
    let password = password.as_bytes();
    let mut last = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut digest = Md5::new().chain_update(password).chain_update(b"$1$").chain_update(salt);
    let mut left = password.len();
    while left > 0 {
        running::check()?;
        digest.update(&last[..left.min(16)]);
        left = left.saturating_sub(16);
    }
    let mut bits = password.len();
    while bits > 0 {
        // As it is there: a zero byte, or the password's first.
        match bits & 1 {
            1 => digest.update([0]),
            _ => digest.update(&password[..1]),
        }
        bits >>= 1;
    }
    last = digest.finalize();
    for round in 0..1000 {
        running::check()?;
        let mut digest = Md5::new();
        match round & 1 {
            1 => digest.update(password),
            _ => digest.update(last),
        }
        if round % 3 != 0 {
            digest.update(salt);
        }
        if round % 7 != 0 {
            digest.update(password);
        }
        match round & 1 {
            1 => digest.update(last),
            _ => digest.update(password),
        }
        last = digest.finalize();
    }
    let mut out = format!("$1${}$", String::from_utf8_lossy(salt));
    for [a, b, c] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        md5_digits(&mut out, u32::from(last[a]) << 16 | u32::from(last[b]) << 8 | u32::from(last[c]), 4);
    }
    md5_digits(&mut out, u32::from(last[11]), 2);
    Ok(out)
}

fn md5_digits(out: &mut String, bits: u32, digits: usize) {
    out.extend((0..digits).map(|digit| char::from(MD5_DIGITS[(bits >> (6 * digit) & 63) as usize])));
}

/// # Errors
/// 22023; 0A000 for DES.
fn crypt(password: &str, setting: &str) -> Result<String, SqlError> {
    match setting {
        setting if setting.starts_with("$2a$") || setting.starts_with("$2x$") => by_blowfish(password, setting),
        setting if setting.starts_with("$2$") => Err(SqlError::new("39000", "crypt(3) returned NULL")),
        setting if setting.starts_with("$1$") => by_md5(password, setting),
        setting if setting.len() < 2 => Err(invalid_salt()),
        _ => Err(no_des()),
    }
}

/// A setting for a new password; `rounds` 0 leaves them to the algorithm.
///
/// # Errors
/// 22023; 0A000 for DES.
fn salt(algorithm: &str, rounds: i64) -> Result<String, SqlError> {
    let bad_rounds = || SqlError::new("22023", "gen_salt: Incorrect number of rounds");
    match algorithm.to_ascii_lowercase().as_str() {
        "bf" => {
            let cost = if rounds == 0 { 6 } else { rounds };
            if !(4..=31).contains(&cost) {
                return Err(bad_rounds());
            }
            let mut bytes = [0; 16];
            random::fill(&mut bytes)?;
            Ok(format!("$2a${cost:02}${}", blowfish_digits(&bytes, BLOWFISH_SALT)))
        }
        "md5" => {
            if !matches!(rounds, 0 | 1000) {
                return Err(bad_rounds());
            }
            let mut bytes = [0; 6];
            random::fill(&mut bytes)?;
            let mut out = "$1$".to_owned();
            for three in bytes.chunks(3) {
                let bits = three.iter().rev().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
                md5_digits(&mut out, bits, 4);
            }
            Ok(out)
        }
        "des" | "xdes" => Err(no_des()),
        _ => Err(SqlError::new("22023", "gen_salt: Unknown salt algorithm")),
    }
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("pg_crypt", &[P::Text, P::Text], oid(t::TEXT), |call| {
            call.texts(|row| match (call.text(0, row), call.text(1, row)) {
                (Some(password), Some(setting)) => crypt(password, setting).map(Some),
                _ => Ok(None),
            })
        }),
        f("pg_gen_salt", &[P::Text], oid(t::TEXT), |call| {
            call.texts(|row| call.text(0, row).map(|algorithm| salt(algorithm, 0)).transpose())
        })
        .each_row(),
        f("pg_gen_salt_rounds", &[P::Text, P::Int], oid(t::TEXT), |call| {
            call.texts(|row| match (call.text(0, row), call.int(1, row)) {
                (Some(algorithm), Some(rounds)) => salt(algorithm, rounds).map(Some),
                _ => Ok(None),
            })
        })
        .each_row(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_have_the_digests_that_postgresql_gives_them() {
        for (password, setting, wanted) in [
            ("a", "$2a$06$abcdefghijklmnopqrstuu", "$2a$06$abcdefghijklmnopqrstuuLSOYhGQvkIfw2xsg9xIgSskWKreHj7C"),
            // Bits that a salt does not have.
            ("a", "$2a$06$abcdefghijklmnopqrstuvXX", "$2a$06$abcdefghijklmnopqrstuuLSOYhGQvkIfw2xsg9xIgSskWKreHj7C"),
            ("a", "$2x$06$abcdefghijklmnopqrstuu", "$2x$06$abcdefghijklmnopqrstuuLSOYhGQvkIfw2xsg9xIgSskWKreHj7C"),
            ("ü", "$2a$06$abcdefghijklmnopqrstuu", "$2a$06$abcdefghijklmnopqrstuuu/DVd90WhcIr716YtTclPy4ccVpLEly"),
            ("", "$2a$04$abcdefghijklmnopqrstuu", "$2a$04$abcdefghijklmnopqrstuubyCG3zY1GIXMyxfivm.ClDiInHzxjiq"),
            ("a", "$1$abcdefgh", "$1$abcdefgh$jUYc1Xi7pkozuzWQ0Dft71"),
            ("a", "$1$abcdefghijkl$xx", "$1$abcdefgh$jUYc1Xi7pkozuzWQ0Dft71"),
            ("a", "$1$abc$", "$1$abc$uAXS.Zj1ZDNcW9iX1TVH2/"),
            ("a", "$1$", "$1$$Ij31LCAysPM23KuPlm1wA/"),
            ("", "$1$ab", "$1$ab$rn6aQS/o7141mj179E/zA."),
        ] {
            assert_eq!(crypt(password, setting).expect(setting), wanted, "{password} {setting}");
        }
        let long = "long password".repeat(10);
        assert_eq!(crypt(&long, "$1$salt").expect("one"), "$1$salt$/ruRxGDv8/Zr4iGLqsUrA/");
        let of = |length| crypt(&"x".repeat(length), "$2a$04$abcdefghijklmnopqrstuu").expect("one");
        assert_eq!(of(72), "$2a$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i");
        assert_eq!(of(80), of(72));
        assert_eq!(of(71), "$2a$04$abcdefghijklmnopqrstuu.gc7UY/21CSNJGJg21jJzx9QiOpJ9bO");
    }

    #[test]
    fn a_salt_is_what_its_digest_begins_with() {
        for (algorithm, rounds, length) in [("bf", 0, 29), ("BF", 4, 29), ("md5", 0, 11)] {
            let setting = salt(algorithm, rounds).expect(algorithm);
            assert_eq!(setting.len(), length, "{setting}");
            let digest = crypt("secret", &setting).expect(algorithm);
            assert!(digest.starts_with(&setting), "{digest}");
            assert_eq!(crypt("secret", &digest).expect("again"), digest);
            assert_ne!(crypt("Secret", &digest).expect("another"), digest);
        }
    }

    #[test]
    fn what_is_no_salt() {
        let state = |setting: &str| crypt("a", setting).expect_err(setting).sqlstate.clone();
        for setting in [
            "",
            "$",
            "$2a$06$abcdefghijklmnopqrstu",
            "$2a$03$abcdefghijklmnopqrstuu",
            "$2a$32$abcdefghijklmnopqrstuu",
            "$2a$6$abcdefghijklmnopqrstuu",
            "$2a$06$abcdefghijklm opqrstuu",
            "$2a$",
            "$2a$06$ü",
        ] {
            assert_eq!(state(setting), "22023", "{setting}");
        }
        assert_eq!((&*state("ab"), &*state("_J9..rasm"), &*state("$2$06$x")), ("0A000", "0A000", "39000"));
        for (algorithm, rounds, wanted) in
            [("bf", 3, "22023"), ("bf", 32, "22023"), ("md5", 999, "22023"), ("xx", 0, "22023"), ("des", 0, "0A000")]
        {
            assert_eq!(salt(algorithm, rounds).expect_err(algorithm).sqlstate, wanted);
        }
    }
}
