//! Random inputs, amounts of money, times, and loading by COPY.

use std::fmt::{self, Display};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::Rng;
use rand::rngs::SmallRng;

use crate::Result;
use crate::wire::Client;

/// Input of COPY that is sent at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// An amount of money in cents; shown with two digits after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cents(pub i64);

impl Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}.{:02}", self.0.unsigned_abs() / 100, self.0.unsigned_abs() % 100)
    }
}

impl Cents {
    /// Reads `-12.34`; nothing if it has other than two digits after the point.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.')?;
        let (digits, negative) = whole.strip_prefix('-').map_or((whole, false), |rest| (rest, true));
        if part.len() != 2 {
            return None;
        }
        let value = digits.parse::<i64>().ok()? * 100 + part.parse::<i64>().ok()?;
        Some(Self(if negative { -value } else { value }))
    }
}

/// A time as SQL writes it, in UTC, to the second.
pub struct Moment(u64);

impl Moment {
    pub fn now() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since: Duration| since.as_secs()))
    }
}

/// A date as SQL writes it, so many days after the first one of 2026.
pub fn date(day: i64) -> String {
    // 20,454 days after 1970.
    let mut text = Moment(day.saturating_add(20_454).unsigned_abs() * 86_400).to_string();
    text.truncate(10);
    text
}

impl Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        // Howard Hinnant's civil_from_days, for days since 1970: eras of 400 years from 0000-03-01.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// A number from `low` to `high`, some far more often than others (TPC-C's clause 2.1.6);
/// `c` is the constant of the run.
pub fn nurand(rng: &mut SmallRng, a: i64, c: i64, low: i64, high: i64) -> i64 {
    let one = rng.random_range(0..=a);
    let two = rng.random_range(low..=high);
    ((one | two) + c) % (high - low + 1) + low
}

/// TPC-C's last names: three syllables by the digits of a number below 1000 (clause 4.3.2.3).
pub fn last_name(number: i64) -> String {
    const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit.unsigned_abs() as usize]).concat()
}

/// Letters, so many.
pub fn letters(rng: &mut SmallRng, len: std::ops::RangeInclusive<usize>) -> String {
    let len = rng.random_range(len);
    (0..len).map(|_| char::from(b'a' + rng.random_range(0..26u8))).collect()
}

/// Digits, so many.
pub fn digits(rng: &mut SmallRng, len: usize) -> String {
    (0..len).map(|_| char::from(b'0' + rng.random_range(0..10u8))).collect()
}

/// Fills a table by COPY; each row is a line of its text format.
pub fn copy_rows(client: &mut Client, table: &str, rows: impl Iterator<Item = String>) -> Result<()> {
    let mut rows = rows;
    let done = client.copy_in(&format!("copy {table} from stdin"), |chunk| {
        while chunk.len() < CHUNK_BYTES {
            let Some(row) = rows.next() else { return false };
            chunk.extend_from_slice(row.as_bytes());
            chunk.push(b'\n');
        }
        true
    });
    done.map_err(|message| format!("loading {table}: {message}"))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn amounts_are_shown_and_read() {
        for (cents, text) in [(0, "0.00"), (5, "0.05"), (-5, "-0.05"), (123_456, "1234.56"), (-1000, "-10.00")] {
            assert_eq!(Cents(cents).to_string(), text);
            assert_eq!(Cents::parse(text), Some(Cents(cents)));
        }
        assert_eq!(Cents::parse("1.5"), None);
        assert_eq!(Cents::parse("15"), None);
    }

    #[test]
    fn times_are_written_as_sql_does() {
        assert_eq!(Moment(0).to_string(), "1970-01-01 00:00:00");
        assert_eq!(Moment(951_782_400).to_string(), "2000-02-29 00:00:00");
        assert_eq!(Moment(1_767_225_599).to_string(), "2025-12-31 23:59:59");
        assert_eq!([date(0), date(59)], ["2026-01-01", "2026-03-01"]);
    }

    #[test]
    fn uneven_numbers_stay_in_their_range() {
        let mut rng = SmallRng::seed_from_u64(1);
        for _ in 0..1000 {
            assert!((1..=300).contains(&nurand(&mut rng, 1023, 259, 1, 300)));
        }
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(0), "BARBARBAR");
    }
}
