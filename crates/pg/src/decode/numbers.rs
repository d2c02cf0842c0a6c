//! Numbers and booleans from text.
//!
//! What is written plainly and has few digits, as nearly all of a load is, is read at once (`plain_…`). Whatever is not of that form or does
//! not fit is read as PostgreSQL's rules say, which are here once: so errors are theirs.

use std::num::IntErrorKind;

use super::bad_text;
use crate::wire::SqlError;

/// Decimal digits that 64 bits have room for, whatever they are.
const PLAIN_DIGITS: usize = 18;

/// What exponents of a numeric are less than, whatever is before them.
const EXPONENT_END: u64 = i32::MAX as u64 / 2;

/// Powers of ten.
const POW10: [i64; PLAIN_DIGITS + 1] = {
    let mut powers = [1; PLAIN_DIGITS + 1];
    let mut at = 1;
    while at <= PLAIN_DIGITS {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// The value of digits with a sign before them or not.
#[inline]
fn plain_int(text: &str) -> Option<i64> {
    let (negative, digits) = signed(text.as_bytes());
    if digits.is_empty() || digits.len() > PLAIN_DIGITS {
        return None;
    }
    let mut value = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// The unscaled value of digits with a sign and a point or not, none of them beyond `scale`, if there is room for it.
#[inline]
fn plain_numeric(text: &str, precision: u8, scale: i8) -> Option<i64> {
    let (negative, digits) = signed(text.as_bytes());
    let scale = usize::try_from(scale).ok()?;
    if digits.len() > PLAIN_DIGITS {
        return None;
    }
    let mut point = None;
    let mut value = 0;
    for (at, byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + i64::from(digit);
        } else if *byte == b'.' && point.is_none() {
            point = Some(at);
        } else {
            return None;
        }
    }
    let count = digits.len() - usize::from(point.is_some());
    let more = scale.checked_sub(point.map_or(0, |point| count - point))?;
    if count == 0 || count + more > PLAIN_DIGITS {
        return None;
    }
    let value = value * POW10[more];
    let fits = POW10.get(usize::from(precision)).is_none_or(|limit| value < *limit);
    fits.then_some(if negative { -value } else { value })
}

/// Whether there is a minus, and what is behind the sign.
#[inline]
fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

/// A signed integer between `min` and `max`; `ty` is the type's SQL name for messages.
#[inline]
pub fn parse_int(text: &str, min: i64, max: i64, ty: &str) -> Result<i64, SqlError> {
    match plain_int(text) {
        Some(value) if (min..=max).contains(&value) => Ok(value),
        _ => any_int(text, min, max, ty),
    }
}

fn any_int(text: &str, min: i64, max: i64, ty: &str) -> Result<i64, SqlError> {
    let body = text.trim_ascii();
    let (negative, digits) = signed(body.as_bytes());
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(bad_text(ty, text));
    }
    let mut value: i64 = 0;
    for digit in digits {
        let digit = i64::from(digit - b'0');
        let next =
            value.checked_mul(10).and_then(|v| if negative { v.checked_sub(digit) } else { v.checked_add(digit) });
        match next {
            Some(v) => value = v,
            None => return Err(out_of_range(text, ty)),
        }
    }
    if value < min || value > max { Err(out_of_range(text, ty)) } else { Ok(value) }
}

fn out_of_range(text: &str, ty: &str) -> SqlError {
    SqlError::new("22003", format!("value \"{}\" is out of range for type {ty}", text.trim_ascii()))
}

/// An oid.
pub fn parse_oid(text: &str) -> Result<u32, SqlError> {
    let value = parse_int(text, i64::from(i32::MIN), i64::from(u32::MAX), "oid")?;
    Ok(value as u32)
}

/// A boolean: any unambiguous prefix of true, false, yes, no, on, off; or 1, 0.
pub fn parse_bool(text: &str) -> Result<bool, SqlError> {
    match text {
        "t" | "true" => return Ok(true),
        "f" | "false" => return Ok(false),
        _ => {}
    }
    let body = text.trim_ascii().to_ascii_lowercase();
    let is = |word: &str, least: usize| body.len() >= least && word.starts_with(body.as_str());
    if body == "1" || is("true", 1) || is("yes", 1) || is("on", 2) {
        Ok(true)
    } else if body == "0" || is("false", 1) || is("no", 1) || is("off", 2) {
        Ok(false)
    } else {
        Err(bad_text("boolean", text))
    }
}

/// Text that Rust would take as a float but PostgreSQL does not, or the other way round.
fn float_special(body: &str) -> Option<f64> {
    let (negative, word) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    if word.eq_ignore_ascii_case("nan") {
        Some(f64::NAN)
    } else if word.eq_ignore_ascii_case("infinity") || word.eq_ignore_ascii_case("inf") {
        Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY })
    } else {
        None
    }
}

fn looks_like_number(body: &str) -> bool {
    body.bytes().any(|b| b.is_ascii_digit())
        && body.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
}

/// `double precision`.
pub fn parse_float8(text: &str) -> Result<f64, SqlError> {
    let body = text.trim_ascii();
    if let Some(value) = float_special(body) {
        return Ok(value);
    }
    let value: f64 = match looks_like_number(body).then(|| body.parse()) {
        Some(Ok(value)) => value,
        _ => return Err(bad_text("double precision", text)),
    };
    let zero = !body.split(['e', 'E']).next().unwrap_or("").bytes().any(|b| matches!(b, b'1'..=b'9'));
    if value.is_infinite() || (value == 0.0 && !zero) {
        return Err(SqlError::new("22003", format!("\"{body}\" is out of range for type double precision")));
    }
    Ok(value)
}

/// `real`.
pub fn parse_float4(text: &str) -> Result<f32, SqlError> {
    let body = text.trim_ascii();
    if let Some(value) = float_special(body) {
        return Ok(value as f32);
    }
    let value: f32 = match looks_like_number(body).then(|| body.parse()) {
        Some(Ok(value)) => value,
        _ => return Err(bad_text("real", text)),
    };
    let zero = !body.split(['e', 'E']).next().unwrap_or("").bytes().any(|b| matches!(b, b'1'..=b'9'));
    if value.is_infinite() || (value == 0.0 && !zero) {
        return Err(SqlError::new("22003", format!("\"{body}\" is out of range for type real")));
    }
    Ok(value)
}

/// `numeric(precision, scale)` as its unscaled value; digits beyond the scale are
/// rounded half away from zero.
#[inline]
pub fn parse_numeric(text: &str, precision: u8, scale: i8) -> Result<i128, SqlError> {
    match plain_numeric(text, precision, scale) {
        Some(value) => Ok(value.into()),
        None => any_numeric(text, precision, scale),
    }
}

fn any_numeric(text: &str, precision: u8, scale: i8) -> Result<i128, SqlError> {
    let bad = || bad_text("numeric", text);
    let body = text.trim_ascii();
    if float_special(body).is_some() {
        return Err(SqlError::unsupported(format!("numeric value {body} is not supported")));
    }
    let (negative, mut rest) = signed(body.as_bytes());
    let mut exponent: i64 = 0;
    if let Some(at) = rest.iter().position(|b| matches!(b, b'e' | b'E')) {
        let tail = std::str::from_utf8(&rest[at + 1..]).map_err(|_| bad())?;
        if tail.is_empty() || !tail.trim_start_matches(['+', '-']).bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        exponent = match tail.parse::<i64>() {
            Ok(exponent) => exponent,
            Err(error) if matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => i64::MAX,
            Err(_) => return Err(bad()),
        };
        rest = &rest[..at];
    }
    let (whole, fraction) = match rest.iter().position(|&b| b == b'.') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &[][..]),
    };
    if whole.is_empty() && fraction.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return Err(bad());
    }
    if exponent.unsigned_abs() >= EXPONENT_END {
        return Err(SqlError::new("22003", "value overflows numeric format"));
    }
    // value = digits * 10^(exponent - fraction digits); wanted: digits * 10^-scale
    let shift = exponent - fraction.len() as i64 + i64::from(scale);
    let mut digits = whole.iter().chain(fraction).skip_while(|&&b| b == b'0').copied().peekable();
    if digits.peek().is_none() {
        return Ok(0);
    }
    let count = digits.clone().count() as i64;
    let overflow = || overflow(precision, scale);
    if count + shift > 39 {
        return Err(overflow());
    }
    let kept = (count + shift.min(0)).max(0);
    let mut value: i128 = 0;
    for _ in 0..kept {
        let digit = digits.next().map_or(0, |b| i128::from(b - b'0'));
        value = value.checked_mul(10).and_then(|v| v.checked_add(digit)).ok_or_else(overflow)?;
    }
    if shift < 0 {
        // the first digit dropped decides; if even that lies beyond, the value rounds to 0
        let round_up = count + shift >= 0 && digits.next().is_some_and(|b| b >= b'5');
        value += i128::from(round_up);
    } else {
        for _ in 0..shift {
            value = value.checked_mul(10).ok_or_else(overflow)?;
        }
    }
    if value >= pow10(precision) {
        return Err(overflow());
    }
    Ok(if negative { -value } else { value })
}

/// An unscaled value brought from one scale to another, rounded half away from zero,
/// and checked against a precision.
///
/// # Errors
/// `22003` when it does not fit.
pub fn rescale(value: i128, from: i32, precision: u8, scale: i8) -> Result<i128, SqlError> {
    let shift = i32::from(scale) - from;
    let out = if shift == 0 {
        Some(value)
    } else if shift > 0 {
        if shift > 38 { if value == 0 { Some(0) } else { None } } else { value.checked_mul(10i128.pow(shift as u32)) }
    } else if -shift > 38 {
        Some(0)
    } else {
        let divisor = 10i128.pow((-shift) as u32);
        let half = divisor / 2;
        let (quotient, rest) = (value / divisor, value % divisor);
        Some(quotient + if rest.abs() >= half { value.signum() } else { 0 })
    };
    match out {
        Some(out) if out.unsigned_abs() < pow10(precision) as u128 => Ok(out),
        _ => Err(overflow(precision, scale)),
    }
}

fn pow10(precision: u8) -> i128 {
    10i128.pow(u32::from(precision.min(38)))
}

#[cold]
fn overflow(precision: u8, scale: i8) -> SqlError {
    let whole = i32::from(precision) - i32::from(scale);
    let limit = if whole == 0 { "1".to_owned() } else { format!("10^{whole}") };
    SqlError::new("22003", "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        let int4 = |text| parse_int(text, i32::MIN.into(), i32::MAX.into(), "integer");
        assert_eq!(int4(" -12 ").expect("int"), -12);
        assert_eq!(int4("+7").expect("int"), 7);
        assert_eq!(int4("-2147483648").expect("int"), -2_147_483_648);
        let error = int4("abc").unwrap_err();
        assert_eq!(
            (error.sqlstate.as_str(), error.message.as_str()),
            ("22P02", "invalid input syntax for type integer: \"abc\"")
        );
        let error = int4("2147483648").unwrap_err();
        assert_eq!(
            (error.sqlstate.as_str(), error.message.as_str()),
            ("22003", "value \"2147483648\" is out of range for type integer")
        );
        for bad in ["", "-", "1.5", "1 2", "١"] {
            assert_eq!(int4(bad).unwrap_err().sqlstate, "22P02", "{bad}");
        }
        assert_eq!(parse_int("99999999999999999999", i64::MIN, i64::MAX, "bigint").unwrap_err().sqlstate, "22003");
        assert_eq!(parse_int("-9223372036854775808", i64::MIN, i64::MAX, "bigint").expect("min"), i64::MIN);
    }

    #[test]
    fn booleans() {
        for text in ["t", "TRUE", "tr", " y ", "yes", "on", "1"] {
            assert!(parse_bool(text).expect(text));
        }
        for text in ["f", "false", "n", "no", "of", "off", "0"] {
            assert!(!parse_bool(text).expect(text));
        }
        for bad in ["o", "", "2", "truee"] {
            assert!(parse_bool(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numerics() {
        for (text, precision, scale, value) in [
            ("1.5", 10, 2, 150),
            ("-1.005", 10, 2, -101),
            ("1.004999", 10, 2, 100),
            ("0.005", 10, 2, 1),
            ("0.0049", 10, 2, 0),
            ("1e3", 10, 2, 100_000),
            ("1.5e-1", 10, 2, 15),
            (".5", 3, 1, 5),
            ("5.", 3, 1, 50),
            ("000123", 5, 0, 123),
            ("0.000000000000000000000000000000000000000000001", 10, 2, 0),
            ("99999999999999999999999999999999999999", 38, 0, 99_999_999_999_999_999_999_999_999_999_999_999_999),
        ] {
            assert_eq!(parse_numeric(text, precision, scale).expect(text), value, "{text}");
        }
        for bad in ["", ".", "-", "1e", "1e+", "abc", "1.2.3", "--1"] {
            assert_eq!(parse_numeric(bad, 10, 2).unwrap_err().sqlstate, "22P02", "{bad}");
        }
        for big in ["1000", "999.999", "1e400", "1e9999999999"] {
            assert!(parse_numeric(big, 5, 2).is_err(), "{big}");
        }
        assert_eq!(parse_numeric("1000", 5, 2).unwrap_err().sqlstate, "22003");
        // As PostgreSQL's COPY says it.
        assert_eq!(parse_numeric("0e1073741822", 5, 2).expect("zero"), 0);
        for far in ["1e1073741823", "0e-1073741823", "0e9999999999999", "1e-99999999999999999999999"] {
            assert_eq!(parse_numeric(far, 5, 2).unwrap_err().message, "value overflows numeric format", "{far}");
        }
        assert_eq!(parse_numeric("1e1073741822", 5, 2).unwrap_err().message, "numeric field overflow");
    }

    /// What is read at once is what the rules make of it, and what is not is theirs to tell.
    #[test]
    fn plain_ones_mean_what_the_rules_say() {
        let mut random = Random(12);
        let (mut ints, mut numerics) = (0, 0);
        for round in 0..400_000 {
            let text = random.number();
            let said = |error: SqlError| (error.sqlstate.clone(), error.message.clone(), error.detail.clone());
            for (min, max, ty) in [
                (i16::MIN.into(), i16::MAX.into(), "smallint"),
                (i32::MIN.into(), i32::MAX.into(), "integer"),
                (i64::MIN, i64::MAX, "bigint"),
            ] {
                let wanted = any_int(&text, min, max, ty);
                assert_eq!(parse_int(&text, min, max, ty).map_err(said), wanted.map_err(said), "{text:?} {ty}");
                ints += u32::from(plain_int(&text).is_some_and(|value| (min..=max).contains(&value)));
            }
            let precision = 1 + random.below(38) as u8;
            let scale = random.below(44) as i8 - 4;
            let wanted = any_numeric(&text, precision, scale);
            let at_once = plain_numeric(&text, precision, scale);
            let found = parse_numeric(&text, precision, scale);
            assert_eq!(found.map_err(said), wanted.map_err(said), "{text:?} ({precision},{scale}), round {round}");
            numerics += u32::from(at_once.is_some());
        }
        assert!(ints > 100_000 && numerics > 10_000, "{ints} integers and {numerics} numerics were read at once");
    }

    /// Numbers, and what is nearly one.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % n
        }

        fn number(&mut self) -> String {
            let mut text = String::new();
            text.push_str(["", "", "", "-", "+", " ", "--"][self.below(7) as usize]);
            for _ in 0..self.below(2) * self.below(20) {
                text.push('0');
            }
            let digits = [2, 5, 10, 18, 19, 20, 40][self.below(7) as usize];
            for _ in 0..self.below(digits + 1) {
                text.push(char::from(b'0' + self.below(10) as u8));
            }
            if self.below(2) == 0 {
                text.push('.');
                let most = [3, 3, 20][self.below(3) as usize];
                for _ in 0..self.below(most) {
                    text.push(char::from(b"0123456789"[self.below(10) as usize]));
                }
            }
            text.push_str(["", "", "", "", "", "e3", "E-2", " ", ".", "x", "\u{661}", "\0"][self.below(12) as usize]);
            if self.below(20) == 0 {
                text = [
                    "9",
                    "-9",
                    "0.0",
                    "-0",
                    "NaN",
                    "32767",
                    "-32768",
                    "2147483648",
                    "-2147483648",
                    "9223372036854775807",
                ][self.below(10) as usize]
                    .to_owned();
            }
            text
        }
    }

    #[test]
    fn rescaling() {
        assert_eq!(rescale(1005, 3, 10, 2).expect("round"), 101);
        assert_eq!(rescale(-1005, 3, 10, 2).expect("round"), -101);
        assert_eq!(rescale(5, 0, 10, 2).expect("widen"), 500);
        assert_eq!(rescale(99_999, 2, 4, 1).unwrap_err().sqlstate, "22003");
    }

    #[test]
    fn floats() {
        assert_eq!(parse_float8(" 1.5e3 ").expect("float"), 1500.0);
        assert!(parse_float8("NaN").expect("nan").is_nan());
        assert_eq!(parse_float8("-inf").expect("inf"), f64::NEG_INFINITY);
        assert_eq!(parse_float8("1e400").unwrap_err().sqlstate, "22003");
        assert_eq!(parse_float8("1e-400").unwrap_err().sqlstate, "22003");
        assert_eq!(parse_float8("0e-400").expect("zero"), 0.0);
        assert_eq!(parse_float8("abc").unwrap_err().sqlstate, "22P02");
        assert_eq!(parse_float4("1e39").unwrap_err().sqlstate, "22003");
    }
}
