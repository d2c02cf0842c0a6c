//! Text format of scalars.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};

use crate::datetime::{DAY_US, SECOND_US, Zone, civil_from_days};
use crate::styles::{self, DateOrder, DateStyle, IntervalStyle, Styles};

const DIGITS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// Decimal digits of a number.
pub fn put_uint(out: &mut BytesMut, mut value: u64) {
    let mut buffer = [0u8; 20];
    let mut at = 20;
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&DIGITS[pair..pair + 2]);
    }
    if value >= 10 {
        let pair = value as usize * 2;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&DIGITS[pair..pair + 2]);
    } else {
        at -= 1;
        buffer[at] = b'0' + value as u8;
    }
    out.put_slice(&buffer[at..]);
}

/// A signed number.
pub fn put_int(out: &mut BytesMut, value: i64) {
    if value < 0 {
        out.put_u8(b'-');
    }
    put_uint(out, value.unsigned_abs());
}

/// A number with at least `width` digits.
fn put_padded(out: &mut BytesMut, value: u64, width: usize) {
    let mut power = 10u64;
    for _ in 1..width {
        if value < power {
            out.put_u8(b'0');
        }
        power = power.saturating_mul(10);
    }
    put_uint(out, value);
}

fn put_2(out: &mut BytesMut, value: u32) {
    let pair = (value as usize % 100) * 2;
    out.put_slice(&DIGITS[pair..pair + 2]);
}

/// `float8`: the shortest digits that read back as the same number.
pub fn put_float8(out: &mut BytesMut, value: f64) {
    if value.is_finite() {
        match halfway(value).and_then(|_| even(&format!("{value:e}"), |digits| format!("{value:.digits$e}"), value)) {
            Some(text) => put_shortest(out, format_args!("{text}"), 15),
            None => put_shortest(out, format_args!("{value:e}"), 15),
        }
    } else {
        put_special(out, value.is_nan(), value > 0.0);
    }
}

/// `float4`: the shortest digits that read back as the same number.
pub fn put_float4(out: &mut BytesMut, value: f32) {
    if value.is_finite() {
        let wide = f64::from(value);
        match halfway(wide).and_then(|_| even(&format!("{value:e}"), |digits| format!("{value:.digits$e}"), value)) {
            Some(text) => put_shortest(out, format_args!("{text}"), 6),
            None => put_shortest(out, format_args!("{value:e}"), 6),
        }
    } else {
        put_special(out, value.is_nan(), value > 0.0);
    }
}

/// Whether a number may lie in the middle between two of the same count of digits, both of which read back as it:
/// then all its digits are few, so it is a multiple of a small power of two, and no integer.
fn halfway(value: f64) -> Option<()> {
    const STEP: f64 = (1u64 << 24) as f64;
    (value.fract() != 0.0 && (value * STEP).fract() == 0.0).then_some(())
}

/// Of two such numbers PostgreSQL takes the one with an even last digit, the standard library the greater one.
/// `rounded` gives the number with so many digits behind the first, halves to even.
fn even<T: std::str::FromStr + PartialEq>(
    shortest: &str,
    rounded: impl Fn(usize) -> String,
    value: T,
) -> Option<String> {
    let mantissa = shortest.split('e').next()?;
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let text = rounded(digits.checked_sub(1)?);
    (text != shortest && text.parse::<T>().is_ok_and(|read| read == value)).then_some(text)
}

fn put_special(out: &mut BytesMut, nan: bool, positive: bool) {
    out.put_slice(match (nan, positive) {
        (true, _) => b"NaN" as &[u8],
        (false, true) => b"Infinity",
        (false, false) => b"-Infinity",
    });
}

/// Up to 32 bytes without allocation; the longest `{:e}` of an f64 has 24.
#[derive(Default)]
struct Small {
    bytes: [u8; 32],
    len: usize,
}

impl std::fmt::Write for Small {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let Some(target) = self.bytes.get_mut(self.len..end) else { return Err(std::fmt::Error) };
        target.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Lays digits and exponent out as C's `%g` does: an exponent below -4 or from
/// `digits_max` on is written as one.
fn put_shortest(out: &mut BytesMut, formatted: std::fmt::Arguments<'_>, digits_max: i32) {
    let mut small = Small::default();
    let _ = small.write_fmt(formatted);
    let mut text = &small.bytes[..small.len];
    if let Some(rest) = text.strip_prefix(b"-") {
        out.put_u8(b'-');
        text = rest;
    }
    let split = text.iter().position(|&b| b == b'e').unwrap_or(text.len());
    let exponent: i32 =
        std::str::from_utf8(text.get(split + 1..).unwrap_or(b"0")).ok().and_then(|e| e.parse().ok()).unwrap_or(0);
    let mantissa = &text[..split];
    // mantissa is d or d.ddd
    let first = mantissa[0];
    let rest = mantissa.get(2..).unwrap_or(b"");
    if !(-4..digits_max).contains(&exponent) {
        out.put_slice(mantissa);
        out.put_slice(if exponent < 0 { b"e-" } else { b"e+" });
        put_padded(out, u64::from(exponent.unsigned_abs()), 2);
    } else if exponent < 0 {
        out.put_slice(b"0.");
        for _ in 1..-exponent {
            out.put_u8(b'0');
        }
        out.put_u8(first);
        out.put_slice(rest);
    } else {
        let whole = exponent as usize;
        out.put_u8(first);
        if rest.len() <= whole {
            out.put_slice(rest);
            for _ in rest.len()..whole {
                out.put_u8(b'0');
            }
        } else {
            out.put_slice(&rest[..whole]);
            out.put_u8(b'.');
            out.put_slice(&rest[whole..]);
        }
    }
}

/// `numeric`: `unscaled / 10^scale`; `trim` drops zeros at the end of the fraction.
pub fn put_numeric(out: &mut BytesMut, unscaled: i128, scale: i32, trim: bool) {
    if unscaled < 0 {
        out.put_u8(b'-');
    }
    let mut value = unscaled.unsigned_abs();
    let mut digits = [0u8; 40];
    let mut at = digits.len();
    if let Ok(mut narrow) = u64::try_from(value) {
        loop {
            at -= 1;
            digits[at] = b'0' + (narrow % 10) as u8;
            narrow /= 10;
            if narrow == 0 {
                break;
            }
        }
    } else {
        while value != 0 {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
        }
    }
    let digits = &digits[at..];
    if scale <= 0 {
        out.put_slice(digits);
        if unscaled != 0 {
            for _ in 0..-scale {
                out.put_u8(b'0');
            }
        }
        return;
    }
    let scale = scale as usize;
    let (whole, zeros, mut fraction) = if digits.len() > scale {
        (&digits[..digits.len() - scale], 0, &digits[digits.len() - scale..])
    } else {
        (b"0" as &[u8], scale - digits.len(), digits)
    };
    out.put_slice(whole);
    if trim {
        let kept = fraction.iter().rposition(|&d| d != b'0').map_or(0, |last| last + 1);
        fraction = &fraction[..kept];
        if fraction.is_empty() {
            return;
        }
    }
    out.put_u8(b'.');
    for _ in 0..zeros {
        out.put_u8(b'0');
    }
    out.put_slice(fraction);
}

/// The parts of a date, with the year as it is shown, and whether that is one before Christ.
fn ymd(days: i64) -> (u64, u32, u32, bool) {
    let (year, month, day) = civil_from_days(days);
    match year {
        ..=0 => ((1 - year) as u64, month, day, true),
        _ => (year as u64, month, day, false),
    }
}

/// `yyyy-mm-dd`; whether it is one before Christ.
fn put_ymd(out: &mut BytesMut, days: i64) -> bool {
    let (year, month, day, before_christ) = ymd(days);
    put_padded(out, year, 4);
    out.put_u8(b'-');
    put_2(out, month);
    out.put_u8(b'-');
    put_2(out, day);
    before_christ
}

/// Day, month and year with that between them; the month first unless `day_first`.
fn put_numbers(out: &mut BytesMut, days: i64, between: u8, day_first: bool) -> bool {
    let (year, month, day, before_christ) = ymd(days);
    let (first, second) = if day_first { (day, month) } else { (month, day) };
    put_2(out, first);
    out.put_u8(between);
    put_2(out, second);
    out.put_u8(between);
    put_padded(out, year, 4);
    before_christ
}

/// A date in a style that is not ISO's (PostgreSQL's `EncodeDateOnly`).
#[cold]
fn put_styled_day(out: &mut BytesMut, days: i64, styles: Styles) -> bool {
    let day_first = styles.order == DateOrder::Dmy;
    match styles.dates {
        DateStyle::Iso => put_ymd(out, days),
        DateStyle::Sql => put_numbers(out, days, b'/', day_first),
        DateStyle::Postgres => put_numbers(out, days, b'-', day_first),
        DateStyle::German => put_numbers(out, days, b'.', true),
    }
}

/// A local time in a style that is not ISO's, and its zone (`EncodeDateTime`).
#[cold]
fn put_styled_time(out: &mut BytesMut, us: i64, zone: Option<(&Zone, i64)>, styles: Styles) {
    const WEEKDAYS: [&[u8]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let (days, time) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    let before_christ = if styles.dates == DateStyle::Postgres {
        let (year, month, day, before_christ) = ymd(days);
        // The first day of 1970 was a Thursday.
        out.put_slice(WEEKDAYS[days.rem_euclid(7) as usize]);
        out.put_u8(b' ');
        let name = MONTHS[(month as usize).saturating_sub(1).min(11)];
        if styles.order == DateOrder::Dmy {
            put_2(out, day);
            out.put_u8(b' ');
            out.put_slice(name);
        } else {
            out.put_slice(name);
            out.put_u8(b' ');
            put_2(out, day);
        }
        out.put_u8(b' ');
        put_time(out, time);
        out.put_u8(b' ');
        put_padded(out, year, 4);
        before_christ
    } else {
        let before_christ = put_styled_day(out, days, styles);
        out.put_u8(b' ');
        put_time(out, time);
        before_christ
    };
    if let Some((zone, instant)) = zone {
        out.put_u8(b' ');
        out.put_slice(zone.abbreviation(instant).as_bytes());
    }
    if before_christ {
        out.put_slice(b" BC");
    }
}

/// `date` in the style of dates that is set; days since 1970.
pub fn put_date(out: &mut BytesMut, days: i32) {
    let styles = styles::current();
    if styles.dates == DateStyle::Iso || matches!(days, i32::MAX | i32::MIN) {
        return put_iso_date(out, days);
    }
    if put_styled_day(out, days.into(), styles) {
        out.put_slice(b" BC");
    }
}

/// `date` as ISO has it, whatever is set.
pub fn put_iso_date(out: &mut BytesMut, days: i32) {
    match days {
        i32::MAX => out.put_slice(b"infinity"),
        i32::MIN => out.put_slice(b"-infinity"),
        _ => {
            if put_ymd(out, i64::from(days)) {
                out.put_slice(b" BC");
            }
        }
    }
}

/// `time`; microseconds since midnight.
pub fn put_time(out: &mut BytesMut, us: i64) {
    let seconds = us.div_euclid(SECOND_US);
    put_2(out, (seconds / 3600) as u32);
    out.put_u8(b':');
    put_2(out, (seconds / 60 % 60) as u32);
    out.put_u8(b':');
    put_2(out, (seconds % 60) as u32);
    put_fraction(out, us.rem_euclid(SECOND_US) as u32);
}

/// Microseconds as `.ffffff` without zeros at the end; nothing for 0.
fn put_fraction(out: &mut BytesMut, us: u32) {
    if us == 0 {
        return;
    }
    let mut digits = [b'.', 0, 0, 0, 0, 0, 0];
    let mut rest = us;
    for digit in digits[1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let last = digits.iter().rposition(|&d| d != b'0').unwrap_or(0);
    out.put_slice(&digits[..=last]);
}

fn put_local(out: &mut BytesMut, us: i64) -> bool {
    let before_christ = put_ymd(out, us.div_euclid(DAY_US));
    out.put_u8(b' ');
    put_time(out, us.rem_euclid(DAY_US));
    before_christ
}

/// `timestamp` in the style of dates that is set; microseconds since 1970.
pub fn put_timestamp(out: &mut BytesMut, us: i64) {
    let styles = styles::current();
    if styles.dates == DateStyle::Iso || matches!(us, i64::MAX | i64::MIN) {
        return put_iso_timestamp(out, us);
    }
    put_styled_time(out, us, None, styles);
}

/// `timestamp` as ISO has it, whatever is set.
pub fn put_iso_timestamp(out: &mut BytesMut, us: i64) {
    match us {
        i64::MAX => out.put_slice(b"infinity"),
        i64::MIN => out.put_slice(b"-infinity"),
        _ => {
            if put_local(out, us) {
                out.put_slice(b" BC");
            }
        }
    }
}

/// A distance from Greenwich, in seconds to the east. Of an interval as a zone it may have any number of hours.
pub fn put_zone(out: &mut BytesMut, east: i32) {
    out.put_u8(if east < 0 { b'-' } else { b'+' });
    let offset = east.unsigned_abs();
    match offset / 3600 {
        hours @ ..100 => put_2(out, hours),
        hours => put_int(out, hours.into()),
    }
    if !offset.is_multiple_of(3600) {
        out.put_u8(b':');
        put_2(out, offset / 60 % 60);
    }
    if !offset.is_multiple_of(60) {
        out.put_u8(b':');
        put_2(out, offset % 60);
    }
}

/// `timestamptz` in a zone, in the style of dates that is set; microseconds since 1970 UTC.
pub fn put_timestamptz(out: &mut BytesMut, us: i64, zone: &Zone) {
    let styles = styles::current();
    if styles.dates == DateStyle::Iso || matches!(us, i64::MAX | i64::MIN) {
        return put_iso_timestamptz(out, us, zone);
    }
    let local = us.saturating_add(i64::from(zone.offset_at(us)) * SECOND_US);
    put_styled_time(out, local, Some((zone, us)), styles);
}

/// `timestamptz` as ISO has it, whatever is set.
pub fn put_iso_timestamptz(out: &mut BytesMut, us: i64, zone: &Zone) {
    match us {
        i64::MAX => out.put_slice(b"infinity"),
        i64::MIN => out.put_slice(b"-infinity"),
        _ => {
            let offset = zone.offset_at(us);
            let before_christ = put_local(out, us.saturating_add(i64::from(offset) * SECOND_US));
            put_zone(out, offset);
            if before_christ {
                out.put_slice(b" BC");
            }
        }
    }
}

/// `interval` in the style that is set.
pub fn put_interval(out: &mut BytesMut, months: i32, days: i32, us: i64) {
    match styles::current().intervals {
        IntervalStyle::Postgres => put_postgres_interval(out, months, days, us),
        IntervalStyle::PostgresVerbose => put_verbose_interval(out, months, days, us),
        IntervalStyle::SqlStandard => put_standard_interval(out, months, days, us),
        IntervalStyle::Iso8601 => put_iso_interval(out, months, days, us),
    }
}

/// Hours, minutes, seconds and microseconds, all with the sign of the whole.
fn clock_parts(us: i64) -> (i64, i64, i64, i64) {
    let seconds = us / SECOND_US;
    (seconds / 3600, seconds / 60 % 60, seconds % 60, us % SECOND_US)
}

/// `@ 1 year 2 mons ago`
#[cold]
fn put_verbose_interval(out: &mut BytesMut, months: i32, days: i32, us: i64) {
    out.put_u8(b'@');
    let (mut is_zero, mut is_before) = (true, false);
    let mut unit = |out: &mut BytesMut, value: i64, name: &[u8]| {
        if value == 0 {
            return;
        }
        // The first one says whether it is "ago".
        let shown = if is_zero {
            is_before = value < 0;
            value.saturating_abs()
        } else if is_before {
            value.saturating_neg()
        } else {
            value
        };
        is_zero = false;
        out.put_u8(b' ');
        put_int(out, shown);
        out.put_u8(b' ');
        out.put_slice(name);
        if shown != 1 {
            out.put_u8(b's');
        }
    };
    let (hours, minutes, seconds, fraction) = clock_parts(us);
    unit(out, i64::from(months / 12), b"year");
    unit(out, i64::from(months % 12), b"mon");
    unit(out, i64::from(days), b"day");
    unit(out, hours, b"hour");
    unit(out, minutes, b"min");
    if seconds != 0 || fraction != 0 {
        out.put_u8(b' ');
        if seconds < 0 || fraction < 0 {
            if is_zero {
                is_before = true;
            } else if !is_before {
                out.put_u8(b'-');
            }
        } else if is_before {
            out.put_u8(b'-');
        }
        put_int(out, seconds.abs());
        put_fraction(out, fraction.unsigned_abs() as u32);
        out.put_slice(b" sec");
        if seconds.abs() != 1 || fraction != 0 {
            out.put_u8(b's');
        }
        is_zero = false;
    }
    if is_zero {
        out.put_slice(b" 0");
    }
    if is_before {
        out.put_slice(b" ago");
    }
}

/// `1-2`, `3 4:05:06`, `+1-2 -3 +4:05:06`
#[cold]
fn put_standard_interval(out: &mut BytesMut, months: i32, days: i32, us: i64) {
    let (months, days) = (i64::from(months), i64::from(days));
    let negative = months < 0 || days < 0 || us < 0;
    let positive = months > 0 || days > 0 || us > 0;
    let (has_months, has_time) = (months != 0, days != 0 || us != 0);
    let clock = |out: &mut BytesMut| {
        let (hours, minutes, seconds, fraction) = clock_parts(us);
        put_padded(out, hours.unsigned_abs(), 1);
        out.put_u8(b':');
        put_2(out, minutes.unsigned_abs() as u32);
        out.put_u8(b':');
        put_2(out, seconds.unsigned_abs() as u32);
        put_fraction(out, fraction.unsigned_abs() as u32);
    };
    let year_month = |out: &mut BytesMut| {
        put_int(out, (months / 12).abs());
        out.put_u8(b'-');
        put_int(out, (months % 12).abs());
    };
    if !negative && !positive {
        return out.put_u8(b'0');
    }
    if negative && positive || has_months && has_time {
        let sign = |value: i64| if value < 0 { b'-' } else { b'+' };
        out.put_u8(sign(months));
        year_month(out);
        out.put_u8(b' ');
        out.put_u8(sign(days));
        put_int(out, days.abs());
        out.put_u8(b' ');
        out.put_u8(sign(us));
        return clock(out);
    }
    if negative {
        out.put_u8(b'-');
    }
    if has_months {
        return year_month(out);
    }
    if days != 0 {
        put_int(out, days.abs());
        out.put_u8(b' ');
    }
    clock(out);
}

/// `P1Y2M3DT4H5M6S`
#[cold]
fn put_iso_interval(out: &mut BytesMut, months: i32, days: i32, us: i64) {
    if months == 0 && days == 0 && us == 0 {
        return out.put_slice(b"PT0S");
    }
    let unit = |out: &mut BytesMut, value: i64, name: u8| {
        if value != 0 {
            put_int(out, value);
            out.put_u8(name);
        }
    };
    let (hours, minutes, seconds, fraction) = clock_parts(us);
    out.put_u8(b'P');
    unit(out, i64::from(months / 12), b'Y');
    unit(out, i64::from(months % 12), b'M');
    unit(out, i64::from(days), b'D');
    if us != 0 {
        out.put_u8(b'T');
    }
    unit(out, hours, b'H');
    unit(out, minutes, b'M');
    if seconds != 0 || fraction != 0 {
        if us < 0 {
            out.put_u8(b'-');
        }
        put_int(out, seconds.abs());
        put_fraction(out, fraction.unsigned_abs() as u32);
        out.put_u8(b'S');
    }
}

/// `interval` in the style `postgres`, whatever is set.
pub fn put_postgres_interval(out: &mut BytesMut, months: i32, days: i32, us: i64) {
    let start = out.len();
    let mut negative = false;
    let mut unit = |out: &mut BytesMut, value: i64, name: &[u8]| {
        if value == 0 {
            return;
        }
        if out.len() > start {
            out.put_u8(b' ');
        }
        if negative && value > 0 {
            out.put_u8(b'+');
        }
        negative = value < 0;
        put_int(out, value);
        out.put_u8(b' ');
        out.put_slice(name);
        if value != 1 {
            out.put_u8(b's');
        }
    };
    unit(out, i64::from(months / 12), b"year");
    unit(out, i64::from(months % 12), b"mon");
    unit(out, i64::from(days), b"day");
    if us != 0 || out.len() == start {
        if out.len() > start {
            out.put_u8(b' ');
        }
        if us < 0 {
            out.put_u8(b'-');
        } else if negative {
            out.put_u8(b'+');
        }
        let us = us.unsigned_abs();
        let seconds = us / SECOND_US as u64;
        put_padded(out, seconds / 3600, 2);
        out.put_u8(b':');
        put_2(out, (seconds / 60 % 60) as u32);
        out.put_u8(b':');
        put_2(out, (seconds % 60) as u32);
        put_fraction(out, (us % SECOND_US as u64) as u32);
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// `bytea` as `\x…`.
pub fn put_bytea(out: &mut BytesMut, bytes: &[u8]) {
    out.reserve(2 + bytes.len() * 2);
    out.put_slice(b"\\x");
    for &byte in bytes {
        out.put_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// `uuid`, canonical.
pub fn put_uuid(out: &mut BytesMut, uuid: &[u8; 16]) {
    out.put_slice(&uuid_bytes(uuid));
}

/// The canonical text of a uuid.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    uuid_bytes(uuid).iter().map(|&byte| char::from(byte)).collect()
}

pub(crate) fn uuid_bytes(uuid: &[u8; 16]) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (i, &byte) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::days_from_civil;

    fn text(put: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        put(&mut out);
        String::from_utf8(out.to_vec()).expect("utf-8")
    }

    #[test]
    fn integers() {
        for value in [0, 1, -1, 9, 10, 99, 100, 12345, i64::MAX, i64::MIN] {
            assert_eq!(text(|out| put_int(out, value)), value.to_string());
        }
        assert_eq!(text(|out| put_uint(out, u64::MAX)), u64::MAX.to_string());
    }

    #[test]
    fn floats_as_postgresql_prints_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e15, "1e+15"),
            (1e14, "100000000000000"),
            (123456789012345.0, "123456789012345"),
            (1234567890123456.0, "1.234567890123456e+15"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1e100, "1e+100"),
            (std::f64::consts::PI, "3.141592653589793"),
            (-1.5e-7, "-1.5e-07"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(text(|out| put_float8(out, value)), expected);
        }
        for (value, expected) in [
            (279_841.0f32 / 16.0, "17490.062"), // 17490.0625: two are as near
            (-279_843.0 / 16.0, "-17490.188"),
            (1e5f32, "100000"),
            (1e6, "1e+06"),
            (1.5, "1.5"),
            (0.1, "0.1"),
            (1234567.0, "1.234567e+06"),
        ] {
            assert_eq!(text(|out| put_float4(out, value)), expected);
        }
    }

    #[test]
    fn numerics() {
        for (unscaled, scale, trim, expected) in [
            (150, 2, false, "1.50"),
            (-5, 2, false, "-0.05"),
            (0, 2, false, "0.00"),
            (0, 2, true, "0"),
            (15_000_000_000, 10, true, "1.5"),
            (12345, 0, false, "12345"),
            (i128::MAX, 0, false, "170141183460469231731687303715884105727"),
            (1, 38, false, "0.00000000000000000000000000000000000001"),
            (5, -2, false, "500"),
        ] {
            assert_eq!(text(|out| put_numeric(out, unscaled, scale, trim)), expected);
        }
    }

    #[test]
    fn times() {
        let noon = days_from_civil(2024, 2, 29) * DAY_US + 43_200 * SECOND_US;
        assert_eq!(text(|out| put_timestamp(out, noon)), "2024-02-29 12:00:00");
        assert_eq!(text(|out| put_timestamp(out, noon + 120_000)), "2024-02-29 12:00:00.12");
        assert_eq!(text(|out| put_timestamp(out, noon + 1)), "2024-02-29 12:00:00.000001");
        assert_eq!(text(|out| put_timestamptz(out, noon, &Zone::Utc)), "2024-02-29 12:00:00+00");
        let india = Zone::parse("Asia/Kolkata").expect("zone");
        assert_eq!(text(|out| put_timestamptz(out, noon, &india)), "2024-02-29 17:30:00+05:30");
        let new_york = Zone::parse("America/New_York").expect("zone");
        assert_eq!(text(|out| put_timestamptz(out, noon, &new_york)), "2024-02-29 07:00:00-05");
        assert_eq!(text(|out| put_date(out, days_from_civil(-43, 3, 15) as i32)), "0044-03-15 BC");
        assert_eq!(text(|out| put_date(out, days_from_civil(12345, 1, 1) as i32)), "12345-01-01");
        assert_eq!(text(|out| put_date(out, i32::MAX)), "infinity");
        assert_eq!(text(|out| put_time(out, 3_723_500_000)), "01:02:03.5");
        assert_eq!(text(|out| put_timestamp(out, i64::MIN)), "-infinity");
    }

    #[test]
    fn intervals() {
        for (months, days, us, expected) in [
            (14, 3, 14_706_500_000, "1 year 2 mons 3 days 04:05:06.5"),
            (0, 0, 0, "00:00:00"),
            (0, 1, 0, "1 day"),
            (-1, 3, 0, "-1 mons +3 days"),
            (0, -1, 3_600_000_000, "-1 days +01:00:00"),
            (0, 0, -5_400_000_000, "-01:30:00"),
            (0, 0, 360_000_000_000, "100:00:00"),
            (1, 0, 0, "1 mon"),
        ] {
            assert_eq!(text(|out| put_interval(out, months, days, us)), expected);
        }
    }

    #[test]
    fn bytes_and_uuids() {
        assert_eq!(text(|out| put_bytea(out, &[0, 255, 16])), "\\x00ff10");
        let uuid = [0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11];
        assert_eq!(text(|out| put_uuid(out, &uuid)), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
        assert_eq!(uuid_text(&uuid), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
    }
}
