//! Bytes that order as the values do.
//!
//! An encoded value is its *key* and two bytes of display scale, big-endian. Keys compare bytewise as values do
//! (-Infinity, numbers, Infinity, NaN; equal values have one key whatever they show), and none is a prefix of
//! another, so more can follow them in a longer key.
//!
//! Key of a positive number 0.d₁d₂d₃… × 10^e with d₁ ≠ 0: the exponent, then 18 digits at a time in eight bytes,
//! big-endian, twice the digits' number plus one if there are more. Zeros at the end are not kept, so whoever has
//! more digits is larger. A negative number has the complement of all bytes of its absolute value's key.
//!
//! | first byte | what |
//! |---|---|
//! | 0x01 | -Infinity |
//! | 0x02–0x7F | negative numbers: complements of the positive ones' |
//! | 0x80 | zero |
//! | 0x8F, 3 bytes | e + 2^20, for e < -20 |
//! | 0x90–0xF3 | e + 20, for -20 ≤ e ≤ 79 |
//! | 0xF4, 3 bytes | e + 2^20, for e > 79 |
//! | 0xFE | Infinity |
//! | 0xFF | NaN |

use crate::coef::{Coef, pow10_big, pow10_small};
use crate::dec::Dec;
use crate::number::Numeric::{self, Finite, Infinity, NaN, NegInfinity};
use crate::{Error, Result, SCALE_MAX};

const ZERO: u8 = 0x80;
const SMALL: u8 = 0x8F;
const FIRST: u8 = 0x90;
const LARGE: u8 = 0xF4;
const LAST: u8 = LARGE - 1;
const INFINITY: u8 = 0xFE;
const NEG_INFINITY: u8 = 0x01;
const NAN: u8 = 0xFF;
/// Exponent that [`FIRST`] stands for.
const FIRST_EXPONENT: i64 = -20;
const BIAS: i64 = 1 << 20;
/// Digits of a group.
const GROUP: u32 = 18;
const GROUP_POWER: u64 = 1_000_000_000_000_000_000;

fn corrupt() -> Error {
    Error::new("XX001", "an encoded numeric is damaged")
}

fn push_exponent(exponent: i64, out: &mut Vec<u8>) {
    let short = exponent - FIRST_EXPONENT;
    if (0..=i64::from(LAST - FIRST)).contains(&short) {
        out.push(FIRST + short as u8);
    } else {
        out.push(if short < 0 { SMALL } else { LARGE });
        out.extend_from_slice(&((exponent + BIAS) as u32).to_be_bytes()[1..]);
    }
}

fn push_group(digits: u64, more: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(&((digits << 1) | u64::from(more)).to_be_bytes());
}

/// Groups of the digits of `value`, which has `digits` of them.
fn push_small(value: u128, digits: u32, out: &mut Vec<u8>) {
    let power = |n: u32| pow10_small(n).unwrap_or(1) as u128;
    if digits <= GROUP {
        return push_group((value * power(GROUP - digits)) as u64, false, out);
    }
    let divisor = power(digits - GROUP);
    let (first, rest) = (value / divisor, value % divisor);
    push_group(first as u64, rest != 0, out);
    if rest == 0 {
        return;
    }
    let left = digits - GROUP; // at most 21
    if left <= GROUP {
        return push_group((rest * power(GROUP - left)) as u64, false, out);
    }
    let divisor = power(left - GROUP);
    let (second, rest) = (rest / divisor, rest % divisor);
    push_group(second as u64, rest != 0, out);
    if rest != 0 {
        push_group((rest * power(2 * GROUP - left)) as u64, false, out);
    }
}

fn push_big(value: &Dec, out: &mut Vec<u8>) {
    let digits = value.coef.digits_text();
    let digits = digits.trim_end_matches('0').as_bytes();
    let groups = digits.chunks(GROUP as usize);
    let last = groups.len().saturating_sub(1);
    for (at, group) in groups.enumerate() {
        let number = group.iter().fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'));
        push_group(number * 10u64.pow(GROUP - group.len() as u32), at < last, out);
    }
}

/// Appends the key of `value` / 10^`scale`.
pub fn write_scaled_key(value: i128, scale: i32, out: &mut Vec<u8>) {
    if value == 0 {
        return out.push(ZERO);
    }
    let start = out.len();
    let magnitude = value.unsigned_abs();
    let digits = magnitude.ilog10() + 1;
    push_exponent(i64::from(digits) - i64::from(scale), out);
    push_small(magnitude, digits, out);
    if value < 0 {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Appends the encoding of a Decimal128's integer and scale (not negative).
pub fn write_scaled(value: i128, scale: u16, out: &mut Vec<u8>) {
    write_scaled_key(value, i32::from(scale), out);
    out.extend_from_slice(&scale.to_be_bytes());
}

/// The key in an encoded value: all but the display scale.
pub fn key_of(encoded: &[u8]) -> &[u8] {
    &encoded[..encoded.len().saturating_sub(2)]
}

/// Length of the key that `bytes` begin with, whatever follows it.
///
/// # Errors
/// XX001 if there is none.
pub fn key_len(bytes: &[u8]) -> Result<usize> {
    let first = *bytes.first().ok_or_else(corrupt)?;
    let (positive, flip) = if first < ZERO { (!first, 0xFF) } else { (first, 0) };
    let mut at = match positive {
        ZERO | INFINITY | NAN => return Ok(1),
        SMALL | LARGE => 4,
        FIRST..=LAST => 1,
        _ => return Err(corrupt()),
    };
    loop {
        let last = bytes.get(at + 7).ok_or_else(corrupt)? ^ flip;
        at += 8;
        if last & 1 == 0 {
            return Ok(at);
        }
    }
}

/// Reads a key, to show `scale` digits after the point.
///
/// # Errors
/// XX001.
pub fn read_key(key: &[u8], scale: u16) -> Result<Numeric> {
    let scale = i32::from(scale);
    if scale > SCALE_MAX {
        return Err(corrupt());
    }
    let first = *key.first().ok_or_else(corrupt)?;
    match first {
        NEG_INFINITY => return Ok(NegInfinity),
        INFINITY => return Ok(Infinity),
        NAN => return Ok(NaN),
        ZERO => return Ok(Finite(Dec::zero(scale))),
        _ => {}
    }
    let negative = first < ZERO;
    let flip = if negative { 0xFFu8 } else { 0 };
    let (exponent, groups) = match first ^ flip {
        SMALL | LARGE => {
            let bytes = key.get(1..4).ok_or_else(corrupt)?;
            let biased = u32::from_be_bytes([0, bytes[0] ^ flip, bytes[1] ^ flip, bytes[2] ^ flip]);
            (i64::from(biased) - BIAS, &key[4..])
        }
        first @ FIRST..=LAST => (i64::from(first - FIRST) + FIRST_EXPONENT, &key[1..]),
        _ => return Err(corrupt()),
    };
    let group = |bytes: &[u8]| -> Result<u64> {
        let word = u64::from_be_bytes(bytes.try_into().map_err(|_| corrupt())?) ^ if negative { u64::MAX } else { 0 };
        if word >> 1 >= GROUP_POWER { Err(corrupt()) } else { Ok(word >> 1) }
    };
    if groups.is_empty() || groups.len() % 8 != 0 {
        return Err(corrupt());
    }
    let count = (groups.len() / 8) as i64;
    // digits × 10^(exponent - 18·count), and 10^-scale is the unit that is wanted
    let shift = exponent - i64::from(GROUP) * count + i64::from(scale);
    let magnitude = if count == 1 {
        let digits = group(groups)?;
        match u32::try_from(-shift) {
            Ok(down) if down <= GROUP => Coef::Small(i128::from(digits / 10u64.pow(down))),
            Ok(_) => Coef::ZERO,
            Err(_) if shift > i64::from(2 * SCALE_MAX) + crate::DIGITS_BEFORE_POINT_MAX => return Err(corrupt()),
            Err(_) => Coef::Small(i128::from(digits)).scale_up(shift as u32),
        }
    } else {
        let mut digits = num_bigint::BigInt::from(0);
        if count <= 2 {
            let both = u128::from(group(&groups[..8])?) * u128::from(GROUP_POWER) + u128::from(group(&groups[8..])?);
            digits = both.into();
        } else {
            let mut text = String::with_capacity(groups.len() / 8 * GROUP as usize);
            for bytes in groups.chunks_exact(8) {
                use std::fmt::Write;
                let _ = write!(text, "{:018}", group(bytes)?);
            }
            digits += text.parse::<num_bigint::BigInt>().map_err(|_| corrupt())?;
        }
        match shift {
            0.. if shift > i64::from(2 * SCALE_MAX) + crate::DIGITS_BEFORE_POINT_MAX => return Err(corrupt()),
            0.. => Coef::from(digits * pow10_big(shift as u32)),
            _ => Coef::from(digits).scale_down_trunc(u32::try_from(-shift).map_err(|_| corrupt())?),
        }
    };
    Numeric::new(if negative { magnitude.neg() } else { magnitude }, scale).map_err(|_| corrupt())
}

/// Reads a key that came without a display scale: the value shows the digits that it has, and no zeros at the end.
///
/// # Errors
/// XX001.
pub fn read_whole(key: &[u8]) -> Result<Numeric> {
    let first = *key.first().ok_or_else(corrupt)?;
    let exponent = match if first < ZERO { !first } else { first } {
        SMALL | LARGE => return Ok(read_key(key, SCALE_MAX as u16)?.trim_scale()),
        first @ FIRST..=LAST => i64::from(first - FIRST) + FIRST_EXPONENT,
        _ => return read_key(key, 0),
    };
    let digits = i64::from(GROUP) * (key.len() / 8) as i64;
    let scale = (digits - exponent).clamp(0, i64::from(SCALE_MAX));
    Ok(read_key(key, scale as u16)?.trim_scale())
}

impl Numeric {
    /// Appends the key.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        let value = match self {
            NegInfinity => return out.push(NEG_INFINITY),
            Infinity => return out.push(INFINITY),
            NaN => return out.push(NAN),
            Finite(value) => value,
        };
        match &value.coef {
            Coef::Small(small) => write_scaled_key(*small, value.scale, out),
            Coef::Big(_) => {
                let start = out.len();
                push_exponent(value.weight() + 1, out);
                push_big(value, out);
                if value.signum() < 0 {
                    out[start..].iter_mut().for_each(|byte| *byte = !*byte);
                }
            }
        }
    }

    /// Appends the encoding: the key and the display scale.
    pub fn write_encoded(&self, out: &mut Vec<u8>) {
        self.write_key(out);
        out.extend_from_slice(&(self.scale().unwrap_or(0) as u16).to_be_bytes());
    }

    /// The encoding.
    pub fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12);
        self.write_encoded(&mut out);
        out
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// XX001 if that is not one.
    pub fn decode(encoded: &[u8]) -> Result<Self> {
        let [key @ .., high, low] = encoded else { return Err(corrupt()) };
        read_key(key, u16::from_be_bytes([*high, *low]))
    }
}
