//! `inet`, `cidr`, `macaddr`, `macaddr8`: their texts, their binary forms and their stored bytes ([`crate::ordered`]).
//!
//! | file | |
//! |---|---|
//! | `address.rs` | an address with its netmask, its stored form, arithmetic |
//! | `text.rs` | addresses as text |
//! | `mac.rs` | addresses of interfaces |

pub mod address;
pub mod mac;
pub mod text;

use resurgam_engine::OrderedType;

use self::address::{Address, Family};
use crate::wire::SqlError;

/// Numbers of the families in the binary form, which are those of PostgreSQL wherever it runs.
const WIRE_V4: u8 = 2;
const WIRE_V6: u8 = 3;

fn no_address() -> SqlError {
    SqlError::internal("a type of addresses that is none")
}

/// The stored bytes of an address that is followed by zeros.
pub fn stored(held: &[u8]) -> &[u8] {
    let address = if held.first() == Some(&Family::V4.number()) { Family::V4 } else { Family::V6 }.bytes();
    let is_network = held.get(2 + address..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0));
    let len = if is_network { 2 + address } else { 2 + 2 * address };
    held.get(..len).unwrap_or(held)
}

/// The stored bytes of a text.
///
/// # Errors
/// `22P02`, `22003`
pub fn parse(ty: OrderedType, value: &str) -> Result<Vec<u8>, SqlError> {
    Ok(match ty {
        OrderedType::Inet => text::parse(value, false)?.to_stored(),
        OrderedType::Cidr => text::parse(value, true)?.to_stored(),
        OrderedType::MacAddr => mac::parse(value)?.to_vec(),
        OrderedType::MacAddr8 => mac::parse8(value)?.to_vec(),
        _ => return Err(no_address()),
    })
}

/// The text of stored bytes, or of what a plan holds.
///
/// # Errors
/// `XX001` if they are none.
pub fn to_text(ty: OrderedType, stored: &[u8]) -> Result<String, SqlError> {
    let mut out = String::with_capacity(24);
    match ty {
        OrderedType::Inet | OrderedType::Cidr => {
            text::put(&mut out, &Address::of_stored(stored)?, ty == OrderedType::Cidr);
        }
        OrderedType::MacAddr | OrderedType::MacAddr8 => mac::put(&mut out, stored),
        _ => return Err(no_address()),
    }
    Ok(out)
}

/// The text that a cast to `text` gives: an address has its netmask there in any case.
///
/// # Errors
/// As [`to_text`].
pub fn to_cast_text(ty: OrderedType, stored: &[u8]) -> Result<String, SqlError> {
    match ty {
        OrderedType::Inet | OrderedType::Cidr => to_text(OrderedType::Cidr, stored),
        _ => to_text(ty, stored),
    }
}

/// The stored bytes of a binary form.
///
/// # Errors
/// `22P03`
pub fn receive(ty: OrderedType, bytes: &[u8]) -> Result<Vec<u8>, SqlError> {
    let short = || SqlError::new("08P01", "insufficient data left in message");
    let bad = |what: &str| SqlError::new("22P03", format!("invalid {what} in external \"{}\" value", ty.name()));
    let rest_of = |rest: &[u8]| match rest.is_empty() {
        true => Ok(()),
        false => Err(SqlError::new("22P03", "incorrect binary data format")),
    };
    match ty {
        OrderedType::MacAddr => <[u8; 6]>::try_from(bytes).map(Vec::from).map_err(|_| short()),
        OrderedType::MacAddr8 => match <[u8; 6]>::try_from(bytes) {
            Ok(six) => Ok(mac::widened(six).to_vec()),
            Err(_) => <[u8; 8]>::try_from(bytes).map(Vec::from).map_err(|_| short()),
        },
        OrderedType::Inet | OrderedType::Cidr => {
            let [family, bits, _, len, address @ ..] = bytes else { return Err(short()) };
            let family = match *family {
                WIRE_V4 => Family::V4,
                WIRE_V6 => Family::V6,
                _ => return Err(bad("address family")),
            };
            if *bits > family.bits() {
                return Err(bad("bits"));
            }
            if usize::from(*len) != family.bytes() {
                return Err(bad("length"));
            }
            let (address, rest) = address.split_at_checked(family.bytes()).ok_or_else(short)?;
            let address = Address::new(family, address, *bits).ok_or_else(|| bad("bits"))?;
            if ty == OrderedType::Cidr && !address.is_network() {
                let error = SqlError::new("22P03", "invalid external \"cidr\" value");
                return Err(error.with_detail("Value has bits set to right of mask."));
            }
            rest_of(rest)?;
            Ok(address.to_stored())
        }
        _ => Err(no_address()),
    }
}

/// The binary form of stored bytes, or of what a plan holds.
///
/// # Errors
/// `XX001` if they are none.
pub fn send(ty: OrderedType, stored: &[u8]) -> Result<Vec<u8>, SqlError> {
    match ty {
        OrderedType::MacAddr | OrderedType::MacAddr8 => Ok(stored.to_vec()),
        OrderedType::Inet | OrderedType::Cidr => {
            let address = Address::of_stored(stored)?;
            let family = match address.family() {
                Family::V4 => WIRE_V4,
                Family::V6 => WIRE_V6,
            };
            let mut out = vec![family, address.bits(), u8::from(ty == OrderedType::Cidr), address.bytes().len() as u8];
            out.extend_from_slice(address.bytes());
            Ok(out)
        }
        _ => Err(no_address()),
    }
}

/// A value of one type as one of another.
///
/// # Errors
/// `22003`
pub fn converted(from: OrderedType, to: OrderedType, held: &[u8]) -> Result<Vec<u8>, SqlError> {
    use OrderedType as T;
    let damaged = |_| SqlError::new("XX001", "an address of an interface is stored in a form that is none");
    Ok(match (from, to) {
        (T::Inet, T::Cidr) => Address::of_stored(held)?.network().to_stored(),
        (T::MacAddr, T::MacAddr8) => mac::widened(held.try_into().map_err(damaged)?).to_vec(),
        (T::MacAddr8, T::MacAddr) => mac::narrowed(held.try_into().map_err(damaged)?)?.to_vec(),
        // A network is an address as it is.
        (T::Inet | T::Cidr, T::Inet | T::Cidr) => stored(held).to_vec(),
        (from, to) if from == to => held.to_vec(),
        _ => return Err(no_address()),
    })
}
