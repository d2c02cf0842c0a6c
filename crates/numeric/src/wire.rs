//! The binary format of the protocol: groups of four decimal digits.

use crate::coef::{Coef, pow10_small};
use crate::dec::Dec;
use crate::number::Numeric::{self, Finite, Infinity, NaN, NegInfinity};
use crate::{Error, Result, SCALE_MAX, Typmod};

const NEGATIVE: u16 = 0x4000;
const SIGN_NAN: u16 = 0xC000;
const SIGN_INFINITY: u16 = 0xD000;
const SIGN_NEG_INFINITY: u16 = 0xF000;

fn invalid(message: &'static str) -> Error {
    Error::new("22P03", message)
}

/// Groups of four digits from the first, and the exponent of the first in base 10,000.
fn groups(value: &Dec) -> (Vec<u16>, i16) {
    if value.is_zero() {
        return (Vec::new(), 0);
    }
    let scale = value.scale.max(0) as u32;
    let padding = (4 - scale % 4) % 4;
    let mut groups = Vec::new();
    let shifted = match (&value.coef, pow10_small(padding)) {
        (Coef::Small(small), Some(power)) => small.unsigned_abs().checked_mul(power as u128),
        _ => None,
    };
    match shifted {
        Some(mut rest) => {
            while rest > 0 {
                groups.push((rest % 10_000) as u16);
                rest /= 10_000;
            }
            groups.reverse();
        }
        None => {
            let mut digits = value.coef.digits_text();
            digits.extend(std::iter::repeat_n('0', padding as usize));
            let head = digits.len() % 4;
            let number = |text: &str| text.bytes().fold(0u16, |number, digit| number * 10 + u16::from(digit - b'0'));
            if head > 0 {
                groups.push(number(&digits[..head]));
            }
            let mut at = head;
            while at < digits.len() {
                groups.push(number(&digits[at..at + 4]));
                at += 4;
            }
        }
    }
    let weight = groups.len() as i64 - 1 - i64::from((scale + padding) / 4);
    while groups.last() == Some(&0) {
        groups.pop();
    }
    (groups, weight as i16)
}

impl Numeric {
    /// Appends the binary format.
    pub fn write_wire(&self, out: &mut Vec<u8>) {
        let header = |out: &mut Vec<u8>, count: u16, weight: i16, sign: u16, scale: u16| {
            out.extend_from_slice(&count.to_be_bytes());
            out.extend_from_slice(&weight.to_be_bytes());
            out.extend_from_slice(&sign.to_be_bytes());
            out.extend_from_slice(&scale.to_be_bytes());
        };
        match self {
            NaN => header(out, 0, 0, SIGN_NAN, 0),
            // PostgreSQL sends these two with the scale that their bits happen to spell.
            Infinity => header(out, 0, 0, SIGN_INFINITY, 32),
            NegInfinity => header(out, 0, 0, SIGN_NEG_INFINITY, 32),
            Finite(value) => {
                let (groups, weight) = groups(value);
                let sign = if value.signum() < 0 { NEGATIVE } else { 0 };
                header(out, groups.len() as u16, weight, sign, value.scale as u16);
                for group in groups {
                    out.extend_from_slice(&group.to_be_bytes());
                }
            }
        }
    }

    /// Reads the binary format; digits behind the scale that it names are cut off.
    ///
    /// # Errors
    /// 22P03, 08P01, 22003.
    pub fn from_wire(bytes: &[u8], typmod: Option<Typmod>) -> Result<Self> {
        let short = || Error::new("08P01", "insufficient data left in message");
        let mut words = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let mut word = || words.next().ok_or_else(short);
        let (count, weight, sign, scale) = (usize::from(word()?), word()? as i16, word()?, word()?);
        if !matches!(sign, 0 | NEGATIVE | SIGN_NAN | SIGN_INFINITY | SIGN_NEG_INFINITY) {
            return Err(invalid("invalid sign in external \"numeric\" value"));
        }
        if i32::from(scale) > SCALE_MAX {
            return Err(invalid("invalid scale in external \"numeric\" value"));
        }
        let mut digits = String::with_capacity(count.min(bytes.len()) * 4);
        for _ in 0..count {
            let group = word()?;
            if group >= 10_000 {
                return Err(invalid("invalid digit in external \"numeric\" value"));
            }
            use std::fmt::Write;
            let _ = write!(digits, "{group:04}");
        }
        if bytes.len() != 8 + count * 2 {
            return Err(Error::new("22P03", "incorrect binary data format in bind parameter"));
        }
        let special = |value: Self| typmod.map_or(Ok(value.clone()), |typmod| value.with_typmod(typmod));
        match sign {
            SIGN_NAN => return special(NaN),
            SIGN_INFINITY => return special(Infinity),
            SIGN_NEG_INFINITY => return special(NegInfinity),
            _ => {}
        }
        let coef = Coef::from_digits(digits.trim_start_matches('0'));
        let coef = if sign == NEGATIVE { coef.neg() } else { coef };
        let exact = Dec { coef, scale: (count as i32 - 1 - i32::from(weight)) * 4 };
        let value = exact.trunc(i32::from(scale));
        Self::finite(match typmod {
            Some(typmod) => typmod.apply(&value)?,
            None => value,
        })
    }
}
