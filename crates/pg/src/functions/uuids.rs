//! Universally unique identifiers: `gen_random_uuid`, and those of the extension uuid-ossp.
//!
//! Random bits are the operating system's, as for whatever must not be guessed. Version 1 has the time and a node, which is
//! random and stays that of the process, with the bit that tells it from a network card's address (RFC 4122, 4.5): which
//! cards this machine has is nobody's business. `uuid_generate_v1mc` takes another node each time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use md5::{Digest, Md5};
use sha1::Sha1;

use super::define::{Call, P, PgFunction, f, oid};
use crate::datetime::clock_us;
use crate::decode::parse_uuid;
use crate::encode::uuid_text;
use crate::random;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Names within which names are unique (RFC 4122, appendix C).
const NAMESPACES: [(&str, &str); 5] = [
    ("uuid_nil", "00000000-0000-0000-0000-000000000000"),
    ("uuid_ns_dns", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
    ("uuid_ns_url", "6ba7b811-9dad-11d1-80b4-00c04fd430c8"),
    ("uuid_ns_oid", "6ba7b812-9dad-11d1-80b4-00c04fd430c8"),
    ("uuid_ns_x500", "6ba7b814-9dad-11d1-80b4-00c04fd430c8"),
];

/// From the beginning of the Gregorian calendar, by which version 1 counts, to 1970, in steps of 100 ns.
const GREGORIAN: u64 = 0x01B2_1DD2_1381_4000;
/// Set in a node that is no address of a network card: for several receivers, and given out locally.
const NO_CARD: u8 = 0x01;
const NO_CARD_AND_LOCAL: u8 = 0x03;

/// Says in a uuid which version it is.
fn of_version(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = (bytes[6] & 0x0f) | version << 4;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    uuid_text(&bytes)
}

/// A random uuid in each row. The bits of all of them are asked for at once.
fn random_uuids(call: &Call<'_>) -> Result<datafusion::arrow::array::ArrayRef, SqlError> {
    let mut bits = vec![0; call.rows * 16];
    random::fill(&mut bits)?;
    let (uuids, _) = bits.as_chunks::<16>();
    call.texts(|row| Ok(uuids.get(row).map(|bytes| of_version(*bytes, 4))))
}

/// What the uuids of version 1 of this process have in common.
struct Clock {
    node: [u8; 6],
    sequence: u16,
    /// The time of the last one, in steps of 100 ns.
    last: u64,
}

static CLOCK: Mutex<Option<Clock>> = Mutex::new(None);

/// A uuid of version 1; its node is the process's unless one is given. None has the time of another.
fn of_time(node: Option<[u8; 6]>) -> Result<String, SqlError> {
    let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = match &mut *clock {
        Some(clock) => clock,
        none => {
            let mut bits = [0; 8];
            random::fill(&mut bits)?;
            let [a, b, c, d, e, f, high, low] = bits;
            none.insert(Clock {
                node: [a | NO_CARD, b, c, d, e, f],
                sequence: u16::from_be_bytes([high, low]),
                last: 0,
            })
        }
    };
    let now = (clock_us().max(0) as u64).saturating_mul(10).saturating_add(GREGORIAN);
    clock.last = now.max(clock.last + 1);
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&(clock.last as u32).to_be_bytes());
    bytes[4..6].copy_from_slice(&((clock.last >> 32) as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&((clock.last >> 48) as u16).to_be_bytes());
    bytes[8..10].copy_from_slice(&clock.sequence.to_be_bytes());
    bytes[10..].copy_from_slice(&node.unwrap_or(clock.node));
    Ok(of_version(bytes, 1))
}

/// A uuid of version 7: milliseconds since 1970, 12 bits of the millisecond's part, 62 random ones. Those of this process are
/// in the order in which they were made.
fn of_epoch() -> Result<String, SqlError> {
    /// Units of 1/4096 of a millisecond since 1970 that the last one has.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = clock_us().max(0) as u64;
    let now = ((now / 1000) << 12) | ((now % 1000) * 4096 / 1000);
    let later = |last: u64| Some(now.max(last + 1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).unwrap_or_default();
    let units = now.max(last + 1);
    let mut bytes = [0; 16];
    random::fill(&mut bytes[8..])?;
    bytes[..6].copy_from_slice(&(units >> 12).to_be_bytes()[2..]);
    bytes[6..8].copy_from_slice(&((units & 0xfff) as u16).to_be_bytes());
    Ok(of_version(bytes, 7))
}

/// The first 16 bytes of the digest of a namespace and a name.
fn of_name<D: Digest>(namespace: &str, name: &str, version: u8) -> Result<String, SqlError> {
    let digest = D::new().chain_update(parse_uuid(namespace)?).chain_update(name).finalize();
    let first = digest.first_chunk::<16>().copied();
    first.map(|bytes| of_version(bytes, version)).ok_or_else(|| SqlError::internal("a digest that is too short"))
}

pub(super) fn all() -> Vec<PgFunction> {
    let named = |name: &'static str, of: fn(&str, &str) -> Result<String, SqlError>| {
        f(name, &[P::Text, P::Text], oid(t::UUID), move |call| {
            call.texts(|row| match (call.text(0, row), call.text(1, row)) {
                (Some(namespace), Some(name)) => of(namespace, name).map(Some),
                _ => Ok(None),
            })
        })
    };
    let random = |name: &'static str| f(name, &[], oid(t::UUID), random_uuids).each_row();
    let mut out = vec![
        random("gen_random_uuid"),
        // That of pgcrypto.
        random("pg_random_uuid"),
        random("uuid_generate_v4"),
        f("uuid_generate_v1", &[], oid(t::UUID), |call| call.texts(|_| of_time(None).map(Some))).each_row(),
        f("uuid_generate_v1mc", &[], oid(t::UUID), |call| {
            call.texts(|_| {
                let mut node = [0; 6];
                random::fill(&mut node)?;
                node[0] |= NO_CARD_AND_LOCAL;
                of_time(Some(node)).map(Some)
            })
        })
        .each_row(),
        f("uuidv7", &[], oid(t::UUID), |call| call.texts(|_| of_epoch().map(Some))).each_row(),
        named("uuid_generate_v3", |namespace, name| of_name::<Md5>(namespace, name, 3)),
        named("uuid_generate_v5", |namespace, name| of_name::<Sha1>(namespace, name, 5)),
    ];
    out.extend(NAMESPACES.map(|(name, uuid)| f(name, &[], oid(t::UUID), move |call| call.same_text(uuid))));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_uuids_that_postgresql_gives_them() {
        let (url, dns) = (NAMESPACES[2].1, NAMESPACES[1].1);
        let v3 = of_name::<Md5>(url, "http://www.postgresql.org", 3);
        assert_eq!(v3.expect("one"), "cf16fe52-3365-3a1f-8572-288d8d2aaa46");
        let v5 = of_name::<Sha1>(dns, "postgresql.org", 5);
        assert_eq!(v5.expect("one"), "bc1c2b7f-cb7d-5fd7-8575-14d84d987e15");
    }

    #[test]
    fn those_of_time_go_on_and_differ() {
        let time = |uuid: &str| {
            let bytes = parse_uuid(uuid).expect("a uuid");
            u64::from_be_bytes([bytes[6] & 0x0f, bytes[7], bytes[4], bytes[5], bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        let all: Vec<String> = (0..1000).map(|_| of_time(None).expect("one")).collect();
        assert!(all.windows(2).all(|pair| time(&pair[0]) < time(&pair[1]) && pair[0][14..] != pair[1]));
        assert!(all.iter().all(|uuid| uuid.as_bytes()[14] == b'1' && uuid[24..] == all[0][24..]));
        let node = parse_uuid(&all[0]).expect("a uuid")[10];
        assert_eq!(node & NO_CARD, NO_CARD);
        // Within a few days of now.
        let us = (time(&all[0]) - GREGORIAN) / 10;
        assert!(us.abs_diff(clock_us() as u64) < 86_400_000_000);
    }
}
