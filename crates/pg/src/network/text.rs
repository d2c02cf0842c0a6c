//! Addresses as text, as PostgreSQL reads and writes them (`inet_net_pton.c`, `inet_net_ntop.c`, `inet_cidr_ntop.c`).

use std::fmt::Write;

use super::address::{Address, Family};
use crate::decode::bad_text;
use crate::wire::SqlError;

/// Reads a text; of a `cidr` IPv4 may be shorter than four numbers, or hexadecimal, and nothing may be set behind the netmask.
///
/// # Errors
/// `22P02`
pub fn parse(text: &str, is_cidr: bool) -> Result<Address, SqlError> {
    let name = if is_cidr { "cidr" } else { "inet" };
    let address = match text.contains(':') {
        true => parse_v6(text),
        false if is_cidr => parse_v4_network(text),
        false => parse_v4(text),
    };
    let address = address.ok_or_else(|| bad_text(name, text))?;
    if is_cidr && !address.is_network() {
        let error = SqlError::new("22P02", format!("invalid cidr value: \"{text}\""));
        return Err(error.with_detail("Value has bits set to right of mask."));
    }
    Ok(address)
}

/// A decimal number of at most `max` at the beginning, and the rest.
fn decimal(text: &[u8], max: u32) -> Option<(u32, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut value = 0;
    for byte in text.get(..digits).filter(|digits| !digits.is_empty())? {
        value = value * 10 + u32::from(byte - b'0');
        if value > max {
            return None;
        }
    }
    Some((value, &text[digits..]))
}

/// Numbers with points between, and what follows them; `open` allows a point at the end.
fn dotted(mut text: &[u8], open: bool) -> Option<(Vec<u8>, &[u8])> {
    let mut out = Vec::with_capacity(4);
    loop {
        let (value, rest) = decimal(text, 255)?;
        if out.len() == 4 {
            return None;
        }
        out.push(value as u8);
        match rest {
            [b'.', after @ ..] if open && !after.first().is_some_and(u8::is_ascii_digit) => return Some((out, after)),
            [b'.', after @ ..] => text = after,
            rest => return Some((out, rest)),
        }
    }
}

/// `/BITS` or nothing.
fn mask(rest: &[u8]) -> Option<Option<u8>> {
    match rest {
        [] => Some(None),
        [b'/', digits @ ..] => match decimal(digits, 32)? {
            (bits, []) => Some(Some(bits as u8)),
            _ => None,
        },
        _ => None,
    }
}

/// Four numbers, or as many as the netmask needs.
fn parse_v4(text: &str) -> Option<Address> {
    let (mut bytes, rest) = dotted(text.as_bytes(), true)?;
    let bits = match mask(rest)? {
        Some(bits) => bits,
        None if bytes.len() == 4 => 32,
        None => return None,
    };
    if usize::from(bits / 8) > bytes.len() {
        return None;
    }
    bytes.resize(4, 0);
    Address::new(Family::V4, &bytes, bits)
}

/// What a `cidr` may be in addition: a netmask by the class of the first number, and hexadecimal digits.
fn parse_v4_network(text: &str) -> Option<Address> {
    let (mut bytes, rest) = match text.as_bytes() {
        [b'0', b'x' | b'X', digits @ ..] if digits.first().is_some_and(u8::is_ascii_hexdigit) => {
            let count = digits.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let mut bytes = Vec::with_capacity(4);
            for pair in digits[..count].chunks(2) {
                if bytes.len() == 4 {
                    return None;
                }
                let mut value = 0;
                for at in 0..2 {
                    let digit = pair.get(at).and_then(|byte| char::from(*byte).to_digit(16)).unwrap_or(0);
                    value = value << 4 | digit as u8;
                }
                bytes.push(value);
            }
            (bytes, &digits[count..])
        }
        text => dotted(text, false)?,
    };
    let first = *bytes.first()?;
    let bits = mask(rest)?.unwrap_or_else(|| {
        let of_class: u8 = match first {
            240.. => 32,
            224.. => 8,
            192.. => 24,
            128.. => 16,
            _ => 8,
        };
        let given = bytes.len() as u8 * 8;
        let bits = of_class.max(given);
        // A multicast network of one number has four bits.
        if bits == 8 && first == 224 { 4 } else { bits }
    });
    bytes.resize(4, 0);
    Address::new(Family::V4, &bytes, bits)
}

/// The bits behind a `/`: a number without zeros before it.
fn v6_bits(text: &[u8]) -> Option<u8> {
    match decimal(text, 128)? {
        (_, [_, ..]) => None,
        _ if text.len() > 1 && text[0] == b'0' => None,
        (bits, []) => Some(bits as u8),
    }
}

/// Up to four numbers at the end of an address of IPv6, maybe with a netmask; PostgreSQL takes missing ones for zero.
fn v4_in_v6(text: &[u8]) -> Option<([u8; 4], Option<u8>)> {
    let (address, bits) = match text.iter().position(|byte| *byte == b'/') {
        Some(at) => (&text[..at], Some(v6_bits(&text[at + 1..])?)),
        None => (text, None),
    };
    let mut out = [0; 4];
    let parts: Vec<&[u8]> = address.split(|byte| *byte == b'.').collect();
    if parts.len() > out.len() || bits.is_none() && parts.last().is_none_or(|last| last.is_empty()) {
        return None;
    }
    for (byte, part) in out.iter_mut().zip(parts).filter(|(_, part)| !part.is_empty()) {
        *byte = match decimal(part, 255)? {
            (value, []) if part.len() == 1 || part[0] != b'0' => value as u8,
            _ => return None,
        };
    }
    Some((out, bits))
}

/// Groups of hexadecimal digits, one of whose runs of zeros may be `::`.
fn parse_v6(text: &str) -> Option<Address> {
    let mut rest = text.as_bytes();
    if rest.first() == Some(&b':') {
        rest = rest.strip_prefix(b":").filter(|rest| rest.first() == Some(&b':'))?;
    }
    let (mut bytes, mut gap, mut bits) = (Vec::with_capacity(16), None, None);
    loop {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (group, after) = rest.split_at(digits);
        if digits > 4 {
            return None;
        }
        let put = |bytes: &mut Vec<u8>| {
            let value = std::str::from_utf8(group).ok().and_then(|group| u16::from_str_radix(group, 16).ok())?;
            bytes.extend_from_slice(&value.to_be_bytes());
            (bytes.len() <= 16).then_some(())
        };
        match after {
            [b':', next @ ..] if digits == 0 => {
                if gap.replace(bytes.len()).is_some() {
                    return None;
                }
                rest = next;
            }
            [b':', next @ ..] => {
                put(&mut bytes)?;
                rest = (!next.is_empty()).then_some(next)?;
            }
            [b'.', ..] => {
                let (v4, mask) = v4_in_v6(rest)?;
                bytes.extend_from_slice(&v4);
                bits = mask;
                break;
            }
            _ => {
                if digits > 0 {
                    put(&mut bytes)?;
                }
                match after {
                    [] => {}
                    [b'/', mask @ ..] => bits = Some(v6_bits(mask)?),
                    _ => return None,
                }
                break;
            }
        }
    }
    if let Some(gap) = gap {
        let missing = 16usize.checked_sub(bytes.len()).filter(|missing| *missing > 0)?;
        bytes.splice(gap..gap, std::iter::repeat_n(0, missing));
    }
    Address::new(Family::V6, &bytes, bits.unwrap_or(128))
}

/// Appends the address, without its netmask.
pub fn put_host(out: &mut String, address: &Address) {
    match address.family() {
        Family::V4 => put_dotted(out, address.bytes()),
        Family::V6 => put_v6(out, address.bytes()),
    }
}

/// Appends the text of a value: with the netmask where it says something, in a `cidr` always.
pub fn put(out: &mut String, address: &Address, is_cidr: bool) {
    put_host(out, address);
    if is_cidr || address.bits() != address.family().bits() {
        put_bits(out, address);
    }
}

pub fn put_bits(out: &mut String, address: &Address) {
    // Writing to a text cannot fail.
    let _ = write!(out, "/{}", address.bits());
}

fn put_dotted(out: &mut String, bytes: &[u8]) {
    for (at, byte) in bytes.iter().enumerate() {
        let _ = write!(out, "{}{byte}", if at == 0 { "" } else { "." });
    }
}

/// The longest run of zeros, at least `least` of them, the first of several: where it begins, and how long it is.
fn longest_zeros(words: &[u16], least: usize) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize)> = None;
    let mut at = 0;
    while at < words.len() {
        let len = words[at..].iter().take_while(|word| **word == 0).count();
        if len >= least && best.is_none_or(|(_, longest)| len > longest) {
            best = Some((at, len));
        }
        at += len.max(1);
    }
    best
}

fn words_of(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair)).collect()
}

fn put_v6(out: &mut String, bytes: &[u8]) {
    let words = words_of(bytes);
    let zeros = longest_zeros(&words, 2);
    // What embeds IPv4 shows it.
    let embeds = match zeros {
        Some((0, 6)) => true,
        Some((0, 7)) => words.last() != Some(&1),
        Some((0, 5)) => words.get(5) == Some(&0xffff),
        _ => false,
    };
    for (at, word) in words.iter().enumerate() {
        if let Some((from, len)) = zeros
            && (from..from + len).contains(&at)
        {
            if at == from {
                out.push(':');
            }
            continue;
        }
        if at != 0 {
            out.push(':');
        }
        if at == 6 && embeds {
            return put_dotted(out, bytes.get(12..).unwrap_or_default());
        }
        let _ = write!(out, "{word:x}");
    }
    if zeros.is_some_and(|(from, len)| from + len == words.len()) {
        out.push(':');
    }
}

/// Appends a network without the numbers that are all zero behind its netmask: `abbrev(cidr)`.
pub fn put_abbreviated(out: &mut String, network: &Address) {
    match network.family() {
        Family::V4 if network.bits() == 0 => out.push('0'),
        Family::V4 => put_dotted(out, &network.bytes()[..usize::from(network.bits()).div_ceil(8)]),
        Family::V6 => put_abbreviated_v6(out, network),
    }
    put_bits(out, network);
}

/// The words that the netmask reaches, as `inet_cidr_ntop_ipv6` of PostgreSQL has them.
fn put_abbreviated_v6(out: &mut String, network: &Address) {
    if network.bits() == 0 {
        out.push_str("::");
        return;
    }
    let network = network.network();
    let bytes = network.bytes();
    let count = usize::from(network.bits()).div_ceil(16).max(2);
    let words = words_of(&bytes[..count * 2]);
    let (from, len) = longest_zeros_abbreviated(&words);
    let embeds = len != count
        && from == 0
        && (len == 6
            || len == 5 && bytes[10] == 0xff && bytes[11] == 0xff
            || len == 7 && bytes[14] != 0 && bytes[15] != 1);
    let start = out.len();
    let mut at_byte = 0;
    for (at, word) in words.iter().enumerate() {
        if len != 0 && (from..from + len).contains(&at) {
            if at == from {
                out.push(':');
            }
            if at == count - 1 {
                out.push(':');
            }
            at_byte += 2;
        } else if embeds && at > 5 {
            out.push(if at == 6 { ':' } else { '.' });
            let _ = write!(out, "{}", bytes[at_byte]);
            at_byte += 1;
            // The last number may be left out.
            if at != 7 || network.bits() > 120 {
                let _ = write!(out, ".{}", bytes[at_byte]);
                at_byte += 1;
            }
        } else {
            if out.len() > start {
                out.push(':');
            }
            let _ = write!(out, "{word:x}");
            at_byte += 2;
        }
    }
}

/// A run of zeros as PostgreSQL finds it here: one that is not longer than what was found counts on in the next one.
fn longest_zeros_abbreviated(words: &[u16]) -> (usize, usize) {
    let ((mut from, mut len), (mut begun, mut run)) = ((0, 0), (0, 0));
    for (at, word) in words.iter().enumerate() {
        if *word == 0 {
            if run == 0 {
                begun = at;
            }
            run += 1;
        } else if run > 0 && len < run {
            (from, len, run) = (begun, run, 0);
        }
    }
    if run > 0 && len < run {
        (from, len) = (begun, run);
    }
    (from, len)
}
