//! Dates and times as they are mostly written, `2024-02-29 01:02:03.456+01`, without being cut into fields first.
//!
//! # Invariant
//! What is read here means what [`super::decode`] makes of it, in every order of numbers: a year of four digits comes first whatever
//! `DateStyle` says. Whatever is not of these forms, or out of range in any part, is left to it, and so are all errors.

use super::decode::{Decoded, TextZone};
use crate::datetime::month_days;

/// Digits of a fraction of a second.
const MICROS: usize = 6;

/// The parts of `YYYY-MM-DD`, with `HH:MM:SS[.ffffff][±HH[:MM]]` behind it or not; `time_only`: of `HH:MM:SS[.ffffff]`.
#[inline]
pub(super) fn read(text: &str, time_only: bool) -> Option<Decoded> {
    let bytes = text.as_bytes();
    if time_only {
        let (time, rest) = time(bytes)?;
        return rest.is_empty().then(|| Decoded::of((0, 0, 0), time, None));
    }
    let (date, rest) = bytes.split_first_chunk::<10>()?;
    let date = self::date(date)?;
    let [b' ', rest @ ..] = rest else {
        return rest.is_empty().then(|| Decoded::of(date, (0, 0, 0, 0), None));
    };
    let (time, rest) = time(rest)?;
    let zone = if rest.is_empty() { None } else { Some(TextZone::Offset(offset(rest)?)) };
    Some(Decoded::of(date, time, zone))
}

/// A number of two digits.
#[inline]
fn two(tens: u8, ones: u8) -> Option<i64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

#[inline]
fn date(text: &[u8; 10]) -> Option<(i64, i64, i64)> {
    let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text else { return None };
    let (year, month, day) = (two(y0, y1)? * 100 + two(y2, y3)?, two(m0, m1)?, two(d0, d1)?);
    let fits = year > 0 && (1..=12).contains(&month) && day > 0 && day <= month_days(year, month as u32).into();
    fits.then_some((year, month, day))
}

/// Hour, minute, second and microseconds, and what is behind them.
#[inline]
fn time(text: &[u8]) -> Option<((i64, i64, i64, i64), &[u8])> {
    let (&[h0, h1, b':', m0, m1, b':', s0, s1], mut rest) = text.split_first_chunk::<8>()? else { return None };
    let (hour, minute, second) = (two(h0, h1)?, two(m0, m1)?, two(s0, s1)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut micros = 0;
    if let [b'.', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=MICROS).contains(&digits) {
            return None;
        }
        let written = fraction[..digits].iter().fold(0, |value, byte| value * 10 + i64::from(byte - b'0'));
        micros = written * 10i64.pow((MICROS - digits) as u32);
        rest = &fraction[digits..];
    }
    Some(((hour, minute, second, micros), rest))
}

/// Seconds to the east of `±HH` or `±HH:MM`.
#[inline]
fn offset(text: &[u8]) -> Option<i32> {
    let (sign, hours, minutes) = match *text {
        [sign @ (b'+' | b'-'), h0, h1] => (sign, two(h0, h1)?, 0),
        [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] => (sign, two(h0, h1)?, two(m0, m1)?),
        _ => return None,
    };
    let seconds = (hours <= 15 && minutes <= 59).then_some((hours * 3600 + minutes * 60) as i32)?;
    Some(if sign == b'-' { -seconds } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::super::{decode, words};
    use super::*;
    use crate::styles::{self, DateOrder, Styles};

    fn below(seed: &mut u64, n: u64) -> u64 {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 33) % n
    }

    /// A date or time of these forms, in range or a little beyond; some are damaged.
    fn text(seed: &mut u64) -> String {
        let year = [below(seed, 10_000), below(seed, 60) + 1990, 0, 1, 2000, 1900, 2024, 9999][below(seed, 8) as usize];
        let mut text = format!("{year:04}-{:02}-{:02}", below(seed, 14), below(seed, 33));
        if below(seed, 2) == 0 {
            let time = format!("{:02}:{:02}:{:02}", below(seed, 26), below(seed, 62), below(seed, 62));
            text = if below(seed, 3) == 0 { time } else { format!("{text} {time}") };
            if below(seed, 2) == 0 {
                let digits = 1 + below(seed, 8) as usize;
                text += &format!(".{:0digits$}", below(seed, 10u64.pow(digits as u32)));
            }
            if below(seed, 2) == 0 {
                text += [&format!("+{:02}", below(seed, 18)), "-05", "+00", "-00:30", "+05:61", "Z", " BC"]
                    [below(seed, 7) as usize];
            }
        }
        for _ in 0..below(seed, 4).saturating_sub(1) {
            let at = below(seed, text.len() as u64) as usize;
            let other = ["", " ", "-", ":", ".", "0", "9", "a", "+", "/", "\t"][below(seed, 11) as usize];
            text.replace_range(at..at + 1, other);
            if text.is_empty() {
                return text;
            }
        }
        text
    }

    /// What is read at once is what the fields of it mean.
    #[test]
    fn it_means_what_its_fields_mean() {
        let (mut seed, mut at_once) = (5, 0);
        for round in 0..300_000 {
            let text = text(&mut seed);
            for time_only in [false, true] {
                let Some(read) = read(&text, time_only) else { continue };
                at_once += 1;
                for order in [DateOrder::Mdy, DateOrder::Dmy, DateOrder::Ymd] {
                    let styles = Styles { order, ..Styles::default() };
                    let meant = styles::with(styles, || {
                        let fields = words::fields(&text, super::super::ROOM).expect("fields");
                        decode::decode(&fields, time_only, || (20_000, 5))
                    });
                    let meant = meant.unwrap_or_else(|error| panic!("{text:?} {time_only}: {error:?}, round {round}"));
                    assert_eq!(format!("{read:?}"), format!("{meant:?}"), "{text:?} {time_only} {order:?}");
                }
            }
        }
        assert!(at_once > 50_000, "{at_once}");
    }

    #[test]
    fn the_rest_is_not_read_here() {
        for text in
            ["", "2024-02-30", "2023-02-29", "0000-01-01", "2024-1-1", "2024-01-01T00:00:00", "infinity", "2024-01-01 "]
        {
            assert!(read(text, false).is_none(), "{text:?}");
        }
        for text in ["", "24:00:00", "01:02", "01:02:60", "01:02:03.", "01:02:03.1234567", "01:02:03+01", "01:02:03 "] {
            assert!(read(text, true).is_none(), "{text:?}");
        }
        assert!(read("2024-02-29", false).is_some() && read("2024-02-29 23:59:59.999999-15:59", false).is_some());
    }
}
