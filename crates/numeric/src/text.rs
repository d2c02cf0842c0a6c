//! Text to value and back.

use std::fmt;

use crate::coef::Coef;
use crate::dec::Dec;
use crate::number::Numeric::{self, Finite, Infinity, NaN, NegInfinity};
use crate::{DIGITS_BEFORE_POINT_MAX, Error, Result, Typmod};

/// Exponents beyond this are errors whatever the digits are.
const EXPONENT_MAX: i64 = (i32::MAX / 2) as i64;

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// The rest behind a word, in any case.
fn after_word<'a>(text: &'a [u8], word: &str) -> Option<&'a [u8]> {
    let head = text.get(..word.len())?;
    head.eq_ignore_ascii_case(word.as_bytes()).then(|| &text[word.len()..])
}

/// NaN and infinities, with what is behind them.
fn special(text: &[u8]) -> Option<(Numeric, &[u8])> {
    const WORDS: [(&str, Numeric); 7] = [
        ("NaN", NaN),
        ("Infinity", Infinity),
        ("+Infinity", Infinity),
        ("-Infinity", NegInfinity),
        ("inf", Infinity),
        ("+inf", Infinity),
        ("-inf", NegInfinity),
    ];
    WORDS.into_iter().find_map(|(word, value)| Some((value, after_word(text, word)?)))
}

/// What `strtol` reads: maybe spaces and a sign, then digits; `None` without digits.
fn exponent(text: &[u8]) -> Option<(i64, &[u8])> {
    let mut at = text.iter().take_while(|byte| is_space(**byte)).count();
    let negative = text.get(at) == Some(&b'-');
    if matches!(text.get(at), Some(b'+' | b'-')) {
        at += 1;
    }
    let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let value = text[at..at + digits]
        .iter()
        .fold(0i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Some((if negative { -value } else { value }, &text[at + digits..]))
}

/// Digits before the point of which no number can be made, be there an exponent or not.
const HOPELESS: i64 = 4 * DIGITS_BEFORE_POINT_MAX;
/// Digits behind the point that are read; more than a number may have.
const FRACTION_READ: i64 = 40_000;

/// A number in digits, with what is behind it; `None` if there is none.
fn number(mut text: &[u8]) -> Option<(Result<Dec>, &[u8])> {
    let negative = text.first() == Some(&b'-');
    if matches!(text.first(), Some(b'+' | b'-')) {
        text = &text[1..];
    }
    let starts = if text.first() == Some(&b'.') { text.get(1) } else { text.first() };
    if !starts.is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let (mut small, mut significant, mut fraction, mut point, mut at) = (0i128, 0usize, 0i64, false, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'0'..=b'9' => {
                if significant > 0 || *byte != b'0' {
                    significant += 1;
                    if significant <= 38 {
                        small = small * 10 + i128::from(byte - b'0');
                    }
                }
                fraction += i64::from(point);
            }
            b'.' if point => return None,
            b'.' => point = true,
            _ => break,
        }
        at += 1;
    }
    let coef = match significant <= 38 {
        true => Coef::Small(small),
        // Too many for any number, whatever follows: to make one of them takes the square of their count.
        false if i64::try_from(significant).is_ok_and(|digits| digits - fraction > HOPELESS) => {
            let rest = match text.get(at) {
                Some(b'e' | b'E') => exponent(&text[at + 1..])?.1,
                _ => &text[at..],
            };
            return Some((Err(Error::overflow()), rest)).filter(|_| rest.iter().all(|byte| is_space(*byte)));
        }
        false => {
            let mut digits: String =
                text[..at].iter().filter(|byte| **byte != b'.').map(|byte| char::from(*byte)).collect();
            // Of a long fraction what rounding can look at.
            if let Some(more) = usize::try_from(fraction - FRACTION_READ).ok().filter(|more| *more > 1) {
                let rest = digits.split_off(digits.len() - more);
                digits.push(if rest.bytes().any(|digit| digit != b'0') { '1' } else { '0' });
                fraction = FRACTION_READ + 1;
            }
            Coef::from_digits(digits.trim_start_matches('0'))
        }
    };
    let coef = if negative { coef.neg() } else { coef };
    let mut rest = &text[at..];
    let mut scale = fraction;
    if matches!(rest.first(), Some(b'e' | b'E')) {
        let (exponent, behind) = exponent(&rest[1..])?;
        rest = behind;
        if exponent.abs() >= EXPONENT_MAX {
            return Some((Err(Error::overflow()), rest));
        }
        scale -= exponent;
    }
    Some((Ok(Dec { coef, scale: scale.clamp(i64::from(i32::MIN / 2), i64::from(i32::MAX / 2)) as i32 }), rest))
}

impl Numeric {
    /// Reads a text as PostgreSQL's input function does; `typmod` as that of a cast.
    ///
    /// # Errors
    /// 22P02, 22003.
    pub fn parse(text: &str, typmod: Option<Typmod>) -> Result<Self> {
        let bytes = text.as_bytes();
        let start = bytes.iter().take_while(|byte| is_space(**byte)).count();
        let syntax = || Error::syntax(text);
        if let Some((value, rest)) = special(&bytes[start..]) {
            if !rest.iter().all(|byte| is_space(*byte)) {
                return Err(syntax());
            }
            return typmod.map_or(Ok(value.clone()), |typmod| value.with_typmod(typmod));
        }
        let (value, rest) = number(&bytes[start..]).ok_or_else(syntax)?;
        let value = value?;
        if !rest.iter().all(|byte| is_space(*byte)) {
            return Err(syntax());
        }
        // Judged before the zeros are made that a large exponent stands for.
        let huge = value.weight() >= DIGITS_BEFORE_POINT_MAX;
        match typmod {
            Some(typmod) if huge => {
                // What does not fit a column of 1000 digits either, to have its words.
                let sign = i128::from(value.signum());
                Self::finite(typmod.apply(&Dec { coef: Coef::Small(sign).scale_up(2001), scale: 0 })?)
            }
            Some(typmod) => Self::finite(typmod.apply(&value)?),
            None if huge => Err(Error::overflow()),
            None if value.is_zero() => Self::finite(Dec::zero(value.scale.max(0))),
            None => Self::finite(value),
        }
    }

    /// Appends the text that PostgreSQL prints.
    pub fn write_text(&self, out: &mut String) {
        let value = match self {
            NegInfinity => return out.push_str("-Infinity"),
            Infinity => return out.push_str("Infinity"),
            NaN => return out.push_str("NaN"),
            Finite(value) => value,
        };
        if value.signum() < 0 {
            out.push('-');
        }
        let digits = value.coef.digits_text();
        let scale = value.scale.max(0) as usize;
        let whole = digits.len().saturating_sub(scale);
        if whole == 0 {
            out.push('0');
        }
        out.push_str(&digits[..whole]);
        if scale > 0 {
            out.push('.');
            out.extend(std::iter::repeat_n('0', scale.saturating_sub(digits.len())));
            out.push_str(&digits[whole..]);
        }
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write_text(&mut text);
        f.pad(&text)
    }
}

impl std::str::FromStr for Numeric {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text, None)
    }
}
