//! In which form dates and intervals are shown, and in which order the numbers of a date are read: `DateStyle` and `IntervalStyle`.
//!
//! They are a session's, and what reads and shows values is far from it: the functions of types have no argument for it, as they have
//! none in PostgreSQL. So they are the thread's while it works for a session: whoever says whose types are meant
//! ([`user_types::with`](crate::user_types::with), [`running::with`](crate::running::with)) says this, too. Without anybody they are the
//! defaults, which is what definitions are written in.
//!
//! Plans have constants that were read and shown in them: sessions share plans with those only that have the same styles.

use std::cell::Cell;

/// How dates and times are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DateStyle {
    #[default]
    Iso,
    Sql,
    Postgres,
    German,
}

/// Which number of a date is what where that does not show: `01/02/03`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DateOrder {
    #[default]
    Mdy,
    Dmy,
    Ymd,
}

/// How intervals are shown. With the standard's style a sign before all of a text counts for all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IntervalStyle {
    #[default]
    Postgres,
    PostgresVerbose,
    SqlStandard,
    Iso8601,
}

/// All of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Styles {
    pub dates: DateStyle,
    pub order: DateOrder,
    pub intervals: IntervalStyle,
}

const DATE_STYLES: [(DateStyle, &str); 4] = [
    (DateStyle::Iso, "ISO"),
    (DateStyle::Sql, "SQL"),
    (DateStyle::Postgres, "Postgres"),
    (DateStyle::German, "German"),
];
const DATE_ORDERS: [(DateOrder, &str); 3] = [(DateOrder::Mdy, "MDY"), (DateOrder::Dmy, "DMY"), (DateOrder::Ymd, "YMD")];
const INTERVAL_STYLES: [(IntervalStyle, &str); 4] = [
    (IntervalStyle::Postgres, "postgres"),
    (IntervalStyle::PostgresVerbose, "postgres_verbose"),
    (IntervalStyle::SqlStandard, "sql_standard"),
    (IntervalStyle::Iso8601, "iso_8601"),
];

/// Why a value of `DateStyle` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadStyle {
    /// It is no list of words.
    Syntax,
    Word,
    /// Two styles, or two orders.
    Conflict,
}

impl Styles {
    /// With what a value of `DateStyle` says; the rest stays. `default`: what the word DEFAULT means.
    ///
    /// # Errors
    /// [`BadStyle`]
    pub fn with_dates(mut self, value: &str, default: Self) -> Result<Self, BadStyle> {
        let (mut style, mut order) = (None, None);
        fn once<T: PartialEq>(known: &mut Option<T>, new: T) -> Result<(), BadStyle> {
            match known {
                Some(before) if *before != new => Err(BadStyle::Conflict),
                _ => {
                    *known = Some(new);
                    Ok(())
                }
            }
        }
        let mut by_default = false;
        if value.trim().is_empty() {
            return Ok(self);
        }
        for word in value.split(',').map(str::trim) {
            let word = word.trim_matches(|c| c == '\'' || c == '"').to_ascii_lowercase();
            if word.is_empty() || word.contains(|c: char| c.is_ascii_whitespace()) {
                return Err(BadStyle::Syntax);
            }
            match word.as_str() {
                "iso" => once(&mut style, DateStyle::Iso)?,
                "sql" => once(&mut style, DateStyle::Sql)?,
                "german" => once(&mut style, DateStyle::German)?,
                "ymd" => once(&mut order, DateOrder::Ymd)?,
                "dmy" => once(&mut order, DateOrder::Dmy)?,
                "mdy" | "us" => once(&mut order, DateOrder::Mdy)?,
                "default" => by_default = true,
                word if word.starts_with("postgres") => once(&mut style, DateStyle::Postgres)?,
                word if word.starts_with("euro") => once(&mut order, DateOrder::Dmy)?,
                word if word.starts_with("noneuro") => once(&mut order, DateOrder::Mdy)?,
                _ => return Err(BadStyle::Word),
            }
        }
        if by_default {
            style = style.or(Some(default.dates));
            order = order.or(Some(default.order));
        }
        if style == Some(DateStyle::German) {
            order = order.or(Some(DateOrder::Dmy));
        }
        self.dates = style.unwrap_or(self.dates);
        self.order = order.unwrap_or(self.order);
        Ok(self)
    }

    /// With that value of `IntervalStyle`; `None` for one that is none.
    pub fn with_intervals(mut self, value: &str) -> Option<Self> {
        self.intervals = INTERVAL_STYLES.iter().find(|(_, name)| name.eq_ignore_ascii_case(value))?.0;
        Some(self)
    }

    /// `DateStyle` as SHOW shows it.
    pub fn shown_dates(self) -> String {
        let style = DATE_STYLES.iter().find(|(style, _)| *style == self.dates).map_or("ISO", |(_, name)| name);
        let order = DATE_ORDERS.iter().find(|(order, _)| *order == self.order).map_or("MDY", |(_, name)| name);
        format!("{style}, {order}")
    }

    /// `IntervalStyle` as SHOW shows it.
    pub fn shown_intervals(self) -> &'static str {
        INTERVAL_STYLES.iter().find(|(style, _)| *style == self.intervals).map_or("postgres", |(_, name)| name)
    }

    /// As a number, for what holds one.
    pub const fn to_bits(self) -> u32 {
        self.dates as u32 | (self.order as u32) << 8 | (self.intervals as u32) << 16
    }

    /// Of such a number.
    pub fn from_bits(bits: u32) -> Self {
        let byte = |shift: u32| (bits >> shift & 0xff) as usize;
        Self {
            dates: DATE_STYLES.get(byte(0)).map(|known| known.0).unwrap_or_default(),
            order: DATE_ORDERS.get(byte(8)).map(|known| known.0).unwrap_or_default(),
            intervals: INTERVAL_STYLES.get(byte(16)).map(|known| known.0).unwrap_or_default(),
        }
    }
}

thread_local! {
    static CURRENT: Cell<Styles> = const {
        Cell::new(Styles { dates: DateStyle::Iso, order: DateOrder::Mdy, intervals: IntervalStyle::Postgres })
    };
}

/// Those that this thread works with.
#[inline]
pub fn current() -> Styles {
    CURRENT.get()
}

/// Puts back those that the thread had before.
pub(crate) struct Before(Styles);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// From now on the thread works with these, until what is returned goes.
#[must_use]
pub(crate) fn set(styles: Styles) -> Before {
    Before(CURRENT.replace(styles))
}

/// Does work with these.
pub fn with<T>(styles: Styles, work: impl FnOnce() -> T) -> T {
    let _before = set(styles);
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dates(value: &str) -> Result<String, BadStyle> {
        let had = Styles { dates: DateStyle::Sql, order: DateOrder::Ymd, ..Styles::default() };
        had.with_dates(value, Styles::default()).map(Styles::shown_dates)
    }

    #[test]
    fn what_date_styles_say() {
        for (value, shown) in [
            ("ISO, MDY", "ISO, MDY"),
            ("iso", "ISO, YMD"),
            ("dmy", "SQL, DMY"),
            ("German", "German, DMY"),
            ("german,mdy", "German, MDY"),
            ("mdy, german", "German, MDY"),
            ("Postgres, European", "Postgres, DMY"),
            ("PostgreSQL", "Postgres, YMD"),
            ("us", "SQL, MDY"),
            ("NonEuropean,iso", "ISO, MDY"),
            ("default", "ISO, MDY"),
            ("default, dmy", "ISO, DMY"),
            ("iso,iso", "ISO, YMD"),
        ] {
            assert_eq!(dates(value).as_deref(), Ok(shown), "{value}");
        }
        assert_eq!(dates("iso, sql"), Err(BadStyle::Conflict));
        assert_eq!(dates("mdy, dmy"), Err(BadStyle::Conflict));
        assert_eq!(dates("iso mdy"), Err(BadStyle::Syntax));
        assert_eq!(dates("iso,"), Err(BadStyle::Syntax));
        assert_eq!(dates("french"), Err(BadStyle::Word));
    }

    #[test]
    fn numbers_hold_them() {
        for (dates, _) in DATE_STYLES {
            for (order, _) in DATE_ORDERS {
                for (intervals, name) in INTERVAL_STYLES {
                    let styles = Styles { dates, order, intervals };
                    assert_eq!(Styles::from_bits(styles.to_bits()), styles);
                    assert_eq!(Styles::default().with_intervals(name).map(|styles| styles.intervals), Some(intervals));
                }
            }
        }
        assert_eq!(Styles::from_bits(u32::MAX), Styles::default());
        assert_eq!(Styles::default().to_bits(), 0);
    }

    #[test]
    fn a_thread_has_them_as_long_as_the_work_takes() {
        let german = Styles { dates: DateStyle::German, ..Styles::default() };
        with(german, || {
            assert_eq!(current(), german);
            with(Styles::default(), || assert_eq!(current(), Styles::default()));
            assert_eq!(current(), german);
        });
        assert_eq!(current(), Styles::default());
    }
}
