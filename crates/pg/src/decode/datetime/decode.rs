//! Fields of a text to the parts of a date and time: PostgreSQL's `DecodeDateTime` and `DecodeTimeOnly`
//! (`src/backend/utils/adt/datetime.c`), with the order of numbers of [`styles`](crate::styles).
//!
//! Which number is what depends on what came before it: `mask` says what is there already, and no part may come
//! twice.

use super::words::{Field, Kind, Unit, Word, fraction, integer32, word};
use crate::datetime::{DAY_US, SECOND_US, Zone, civil_from_days, days_from_civil, month_days};
use crate::styles::{self, DateOrder};
use crate::zone::Meaning;

/// Why a text is no date or time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::decode) enum Wrong {
    /// 22007
    Format,
    /// 22008
    Field,
    /// 22008, where another order of the fields might help.
    Order,
    /// 22009
    Displacement,
    /// 22023: a zone that is not known.
    Zone(String),
}

/// Parts that are there, as bits.
mod part {
    pub const RESERVED: u32 = 1;
    pub const MONTH: u32 = 1 << 1;
    pub const YEAR: u32 = 1 << 2;
    pub const DAY: u32 = 1 << 3;
    pub const ZONE: u32 = 1 << 5;
    pub const SUMMER: u32 = 1 << 6;
    pub const HALF: u32 = 1 << 9;
    pub const HOUR: u32 = 1 << 10;
    pub const MINUTE: u32 = 1 << 11;
    pub const SECOND: u32 = 1 << 12;
    pub const SECONDS: u32 = 7 << 12;
    pub const YEAR_DAY: u32 = 1 << 15;
    pub const WEEKDAY: u32 = 1 << 16;
    pub const ERA: u32 = 1 << 18;
    pub const DST: u32 = 1 << 28;
    pub const DATE: u32 = YEAR | MONTH | DAY;
    pub const TIME: u32 = HOUR | MINUTE | SECONDS;
}

/// What a text says about its zone.
#[derive(Clone, Debug)]
pub(super) enum TextZone {
    /// Seconds east of Greenwich.
    Offset(i32),
    Named(Zone),
    /// An abbreviation that meant several things over time, and its zone.
    Abbreviation(String, Zone),
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    DateTime,
    Epoch,
    Late,
    Early,
}

/// The parts of a date and time. There is a year 0 here, which is 1 BC.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    pub meant: Meant,
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub micros: i64,
    pub zone: Option<TextZone>,
    year_day: i64,
    two_digits: bool,
}

impl Decoded {
    /// A date (year, month, day) and a time (hour, minute, second, microseconds) that are in range.
    pub(super) fn of(date: (i64, i64, i64), time: (i64, i64, i64, i64), zone: Option<TextZone>) -> Self {
        let ((year, month, day), (hour, minute, second, micros)) = (date, time);
        let (meant, year_day, two_digits) = (Meant::DateTime, 0, false);
        Self { meant, year, month, day, hour, minute, second, micros, zone, year_day, two_digits }
    }

    /// Microseconds since midnight.
    pub(super) fn time_us(&self) -> i64 {
        (self.hour * 3600 + self.minute * 60 + self.second) * SECOND_US + self.micros
    }

    fn time_overflows(&self) -> bool {
        !(0..=24).contains(&self.hour)
            || !(0..60).contains(&self.minute)
            || !(0..=60).contains(&self.second)
            || !(0..=SECOND_US).contains(&self.micros)
            || self.time_us() > DAY_US
    }

    fn set_date(&mut self, days: i64) {
        let (year, month, day) = civil_from_days(days);
        (self.year, self.month, self.day) = (year, month.into(), day.into());
    }
}

/// Seconds to the east of `+hh[:mm[:ss]]` or `+hhmm`, and what is behind them.
pub(super) fn displacement(text: &str) -> Result<i32, Wrong> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'+') => (1, &text[1..]),
        Some(b'-') => (-1, &text[1..]),
        _ => return Err(Wrong::Format),
    };
    let (hours, mut rest) = integer32(digits);
    let mut hours = hours.ok_or(Wrong::Displacement)?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(behind) = rest.strip_prefix(':') {
        let (value, behind) = integer32(behind);
        minutes = value.ok_or(Wrong::Displacement)?;
        rest = behind;
        if let Some(behind) = rest.strip_prefix(':') {
            let (value, behind) = integer32(behind);
            seconds = value.ok_or(Wrong::Displacement)?;
            rest = behind;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return Err(Wrong::Displacement);
    }
    if !rest.is_empty() {
        return Err(Wrong::Format);
    }
    Ok(sign * (hours * 3600 + minutes * 60 + seconds) as i32)
}

/// Microseconds of `.5`.
fn fraction_us(text: &str) -> Result<i64, Wrong> {
    Ok((fraction(text).ok_or(Wrong::Format)? * SECOND_US as f64).round_ties_even() as i64)
}

/// A time with colons. `minutes_first`: two fields are minutes and seconds.
pub(in crate::decode) struct Clock {
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub micros: i64,
}

pub(in crate::decode) fn clock(text: &str, minutes_first: bool) -> Result<Clock, Wrong> {
    let (hour, rest) = super::words::integer(text);
    let hour = hour.ok_or(Wrong::Field)?;
    let rest = rest.strip_prefix(':').ok_or(Wrong::Format)?;
    let (minute, rest) = integer32(rest);
    let mut out = Clock { hour, minute: minute.ok_or(Wrong::Field)?, second: 0, micros: 0 };
    let shift = |out: &mut Clock| {
        if i32::try_from(out.hour).is_err() {
            return Err(Wrong::Field);
        }
        (out.second, out.minute, out.hour) = (out.minute, out.hour, 0);
        Ok(())
    };
    if rest.is_empty() {
        if minutes_first {
            shift(&mut out)?;
        }
    } else if rest.starts_with('.') {
        out.micros = fraction_us(rest)?;
        shift(&mut out)?;
    } else {
        let rest = rest.strip_prefix(':').ok_or(Wrong::Format)?;
        let (second, rest) = integer32(rest);
        out.second = second.ok_or(Wrong::Field)?;
        if rest.starts_with('.') {
            out.micros = fraction_us(rest)?;
        } else if !rest.is_empty() {
            return Err(Wrong::Format);
        }
    }
    if out.hour < 0
        || !(0..60).contains(&out.minute)
        || !(0..=60).contains(&out.second)
        || !(0..=SECOND_US).contains(&out.micros)
    {
        return Err(Wrong::Field);
    }
    Ok(out)
}

/// Decodes fields; `now` is the local present: days since 1970 and microseconds of the day.
pub(super) fn decode(fields: &[Field], time_only: bool, now: impl Fn() -> (i64, i64)) -> Result<Decoded, Wrong> {
    let out = Decoded::of((0, 0, 0), (0, 0, 0, 0), None);
    let mut state = State { out, mask: 0, label: None, text_month: false, julian: false, bc: false, half: None };
    for at in 0..fields.len() {
        let Some(found) = state.field(fields, at, time_only, &now)? else { continue };
        if found & state.mask != 0 {
            return Err(Wrong::Format);
        }
        state.mask |= found;
    }
    state.finish(time_only)
}

struct State {
    out: Decoded,
    mask: u32,
    /// What the field before says that this one is.
    label: Option<Unit>,
    text_month: bool,
    julian: bool,
    bc: bool,
    half: Option<bool>,
}

impl State {
    fn has(&self, parts: u32) -> bool {
        self.mask & parts == parts
    }

    /// The parts that a field gives; `None` for words that say nothing.
    fn field(
        &mut self,
        fields: &[Field],
        at: usize,
        time_only: bool,
        now: &dyn Fn() -> (i64, i64),
    ) -> Result<Option<u32>, Wrong> {
        let field = &fields[at];
        let text = field.text.as_str();
        Ok(Some(match field.kind {
            Kind::Date if time_only => {
                let last_is_date = fields.last().is_some_and(|field| field.kind == Kind::Date);
                let time_follows = fields.get(1).is_some_and(|field| field.kind == Kind::Time);
                if at == 0 && fields.len() >= 2 && (last_is_date || time_follows) {
                    self.date(text)?
                } else {
                    self.zone_or_time(text, part::DATE)?
                }
            }
            Kind::Date if self.label == Some(Unit::Julian) => {
                let (day, rest) = integer32(text);
                self.julian(day)?;
                self.out.zone = Some(TextZone::Offset(displacement(rest)?));
                self.label = None;
                part::DATE | part::TIME | part::ZONE
            }
            Kind::Date if self.label.is_some() || self.has(part::MONTH | part::DAY) => self.zone_or_time(text, 0)?,
            Kind::Date => self.date(text)?,
            Kind::Time => {
                if !time_only {
                    match self.label.take() {
                        None | Some(Unit::Time) => {}
                        Some(_) => return Err(Wrong::Format),
                    }
                }
                let clock = clock(text, false)?;
                if i32::try_from(clock.hour).is_err() {
                    return Err(Wrong::Field);
                }
                (self.out.hour, self.out.minute) = (clock.hour, clock.minute);
                (self.out.second, self.out.micros) = (clock.second, clock.micros);
                if !time_only && self.out.time_overflows() {
                    return Err(Wrong::Field);
                }
                part::TIME
            }
            Kind::Signed => {
                self.out.zone = Some(TextZone::Offset(displacement(text)?));
                part::ZONE
            }
            Kind::Number => match self.label.take() {
                Some(label) => self.labelled(label, text)?,
                None if time_only => self.number_of_time(fields, at)?,
                None => self.number_of_date(text)?,
            },
            Kind::Text | Kind::Special => return self.word(fields, at, time_only, now),
        }))
    }

    /// `hhmmss-zz` or the name of a zone.
    fn zone_or_time(&mut self, text: &str, given: u32) -> Result<u32, Wrong> {
        if text.starts_with(|c: char| c.is_ascii_digit()) || self.label.is_some() {
            if self.label.take().is_some_and(|label| label != Unit::Time) || self.has(part::TIME) {
                return Err(Wrong::Format);
            }
            let sign = text.find('-').ok_or(Wrong::Format)?;
            self.out.zone = Some(TextZone::Offset(displacement(&text[sign..])?));
            return Ok(self.number_field(&text[..sign], self.mask | given)? | part::ZONE);
        }
        let zone = Zone::parse(text).ok_or_else(|| Wrong::Zone(text.to_owned()))?;
        self.out.zone = Some(TextZone::Named(zone));
        Ok(part::ZONE)
    }

    fn julian(&mut self, day: Option<i64>) -> Result<(), Wrong> {
        let day = day.filter(|day| *day >= 0).ok_or(Wrong::Field)?;
        self.out.set_date(day - 2_440_588);
        self.julian = true;
        Ok(())
    }

    /// A number with a label before it: `y2001m02d04`, `J2451187`, `T040506`.
    fn labelled(&mut self, label: Unit, text: &str) -> Result<u32, Wrong> {
        let (value, rest) = integer32(text);
        let value = value.ok_or(Wrong::Field)?;
        let fractional = rest.starts_with('.');
        if fractional && !matches!(label, Unit::Julian | Unit::Time | Unit::Second) || !fractional && !rest.is_empty() {
            return Err(Wrong::Format);
        }
        let out = &mut self.out;
        Ok(match label {
            Unit::Year => {
                out.year = value;
                part::YEAR
            }
            Unit::Month if self.mask & part::MONTH != 0 && self.mask & part::HOUR != 0 => {
                out.minute = value;
                part::MINUTE
            }
            Unit::Month => {
                out.month = value;
                part::MONTH
            }
            Unit::Day => {
                out.day = value;
                part::DAY
            }
            Unit::Hour => {
                out.hour = value;
                part::HOUR
            }
            Unit::Minute => {
                out.minute = value;
                part::MINUTE
            }
            Unit::Second => {
                out.second = value;
                if fractional {
                    out.micros = fraction_us(rest)?;
                    part::SECONDS
                } else {
                    part::SECOND
                }
            }
            Unit::Julian => {
                self.julian(Some(value))?;
                if fractional {
                    let us = (fraction(rest).ok_or(Wrong::Format)? * DAY_US as f64) as i64;
                    let out = &mut self.out;
                    out.hour = us / (3600 * SECOND_US);
                    out.minute = us / (60 * SECOND_US) % 60;
                    (out.second, out.micros) = (us / SECOND_US % 60, us % SECOND_US);
                    part::DATE | part::TIME
                } else {
                    part::DATE
                }
            }
            Unit::Time => match self.number_field(text, self.mask | part::DATE)? {
                part::TIME => part::TIME,
                _ => return Err(Wrong::Format),
            },
            Unit::Other => return Err(Wrong::Format),
        })
    }

    fn number_of_date(&mut self, text: &str) -> Result<u32, Wrong> {
        let length = text.len();
        match text.find('.') {
            Some(_) if self.mask & part::DATE == 0 => self.date(text),
            Some(point) if point > 2 => self.number_field(text, self.mask),
            None if length >= 6 && !(self.mask & part::DATE != 0 && self.mask & part::TIME != 0) => {
                self.number_field(text, self.mask)
            }
            _ => self.number(text, self.text_month, self.mask),
        }
    }

    fn number_of_time(&mut self, fields: &[Field], at: usize) -> Result<u32, Wrong> {
        let text = fields[at].text.as_str();
        let given = self.mask | part::DATE;
        match text.find('.') {
            Some(_) if at == 0 && fields.len() >= 2 && fields.last().is_some_and(|field| field.kind == Kind::Date) => {
                self.date(text)
            }
            Some(point) if point > 2 => self.number_field(text, given),
            Some(_) => Err(Wrong::Format),
            None if text.len() > 4 => self.number_field(text, given),
            None => self.number(text, false, given),
        }
    }

    /// A date with delimiters.
    fn date(&mut self, text: &str) -> Result<u32, Wrong> {
        let mut pieces: Vec<Option<&str>> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() && pieces.len() < 25 {
            rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            if rest.is_empty() {
                return Err(Wrong::Format);
            }
            let digits = rest.starts_with(|c: char| c.is_ascii_digit());
            let same = |c: char| if digits { c.is_ascii_digit() } else { c.is_ascii_alphabetic() };
            let end = rest.find(|c: char| !same(c)).unwrap_or(rest.len());
            pieces.push(Some(&rest[..end]));
            // The character behind a piece goes, whatever it is.
            let skip = rest[end..].chars().next().map_or(0, char::len_utf8);
            rest = &rest[end + skip..];
        }
        let (mut given, mut found) = (self.mask, 0);
        let mut add = |parts: u32, given: &mut u32| {
            if *given & parts != 0 {
                return Err(Wrong::Format);
            }
            *given |= parts;
            found |= parts;
            Ok(())
        };
        let mut text_month = false;
        for piece in &mut pieces {
            let Some(name) = piece.filter(|piece| piece.starts_with(|c: char| c.is_ascii_alphabetic())) else {
                continue;
            };
            match word(name) {
                Some(Word::Ignore) => {}
                Some(Word::Month(month)) => {
                    (self.out.month, text_month) = (month, true);
                    add(part::MONTH, &mut given)?;
                    *piece = None;
                }
                _ => return Err(Wrong::Format),
            }
        }
        for piece in pieces.into_iter().flatten() {
            let parts = self.number(piece, text_month, given)?;
            add(parts, &mut given)?;
        }
        if given & !(part::YEAR_DAY | part::ZONE) != part::DATE {
            return Err(Wrong::Format);
        }
        Ok(found)
    }

    /// A plain number of a date; what it is goes by what is there (`given`).
    fn number(&mut self, text: &str, text_month: bool, given: u32) -> Result<u32, Wrong> {
        let (value, rest) = integer32(text);
        let value = value.ok_or(Wrong::Field)?;
        if rest.len() == text.len() {
            return Err(Wrong::Format);
        }
        if rest.starts_with('.') {
            if text.len() - rest.len() > 2 {
                return self.number_field(text, given | part::DATE);
            }
            self.out.micros = fraction_us(rest)?;
        } else if !rest.is_empty() {
            return Err(Wrong::Format);
        }
        let length = text.len();
        if length == 3 && given & part::DATE == part::YEAR && (1..=366).contains(&value) {
            self.out.year_day = value;
            return Ok(part::YEAR_DAY | part::MONTH | part::DAY);
        }
        let (out, order) = (&mut self.out, styles::current().order);
        let found = match given & part::DATE {
            0 if length >= 3 || order == DateOrder::Ymd => part::YEAR,
            0 if order == DateOrder::Dmy => part::DAY,
            0 => part::MONTH,
            part::YEAR => part::MONTH,
            part::MONTH if text_month && (length >= 3 || order == DateOrder::Ymd) => part::YEAR,
            part::MONTH => part::DAY,
            parts if parts == part::YEAR | part::MONTH => {
                if text_month && length >= 3 && out.two_digits {
                    // What was taken for the year is the day.
                    (out.day, out.year, out.two_digits) = (out.year, value, false);
                    return Ok(part::DAY);
                }
                part::DAY
            }
            part::DAY => part::MONTH,
            parts if parts == part::MONTH | part::DAY => part::YEAR,
            part::DATE => return self.number_field(text, given),
            _ => return Err(Wrong::Format),
        };
        match found {
            part::YEAR => (out.year, out.two_digits) = (value, length <= 2),
            part::MONTH => out.month = value,
            _ => out.day = value,
        }
        Ok(found)
    }

    /// A date or time without delimiters: `20011225`, `040506.789`.
    fn number_field(&mut self, text: &str, given: u32) -> Result<u32, Wrong> {
        let two = |digits: &str, end: usize| -> i64 {
            digits.get(end.saturating_sub(2)..end).and_then(|digits| digits.parse().ok()).unwrap_or(0)
        };
        let mut digits = text;
        if let Some(point) = text.find('.') {
            self.out.micros = fraction_us(&text[point..])?;
            digits = &text[..point];
        } else if given & part::DATE != part::DATE && text.len() >= 6 {
            let end = text.len();
            self.out.day = two(text, end);
            self.out.month = two(text, end - 2);
            self.out.year = integer32(&text[..end - 4]).0.unwrap_or(i32::MAX.into());
            if end - 4 == 2 {
                self.out.two_digits = true;
            }
            return Ok(part::DATE);
        }
        if given & part::TIME != part::TIME && matches!(digits.len(), 4 | 6) {
            self.out.hour = two(digits, 2);
            self.out.minute = two(digits, 4);
            self.out.second = if digits.len() == 6 { two(digits, 6) } else { 0 };
            return Ok(part::TIME);
        }
        Err(Wrong::Format)
    }

    fn word(
        &mut self,
        fields: &[Field],
        at: usize,
        time_only: bool,
        now: &dyn Fn() -> (i64, i64),
    ) -> Result<Option<u32>, Wrong> {
        let text = fields[at].text.as_str();
        // Abbreviations of zones come before words.
        match Zone::abbreviation_meaning(super::words::token(text)) {
            Some(Meaning::Fixed(east)) => {
                self.out.zone = Some(TextZone::Offset(east));
                return Ok(Some(part::ZONE));
            }
            Some(Meaning::Summer(east)) => {
                self.out.zone = Some(TextZone::Offset(east));
                return Ok(Some(part::ZONE | part::SUMMER));
            }
            Some(Meaning::Zone(name)) => {
                let zone = Zone::parse(name).ok_or(Wrong::Format)?;
                self.out.zone = Some(TextZone::Abbreviation(text.to_owned(), zone));
                return Ok(Some(part::ZONE | 1 << 7));
            }
            None => {}
        }
        let Some(word) = word(text) else {
            let zone = Zone::parse(text).ok_or(Wrong::Format)?;
            self.out.zone = Some(TextZone::Named(zone));
            return Ok(Some(part::ZONE));
        };
        let day = |state: &mut Self, offset: i64| {
            state.out.meant = Meant::DateTime;
            state.out.set_date(now().0 + offset);
            part::DATE
        };
        if time_only
            && matches!(
                word,
                Word::Early
                    | Word::Late
                    | Word::Epoch
                    | Word::Today
                    | Word::Tomorrow
                    | Word::Yesterday
                    | Word::Month(_)
                    | Word::Weekday
            )
        {
            return Err(Wrong::Format);
        }
        Ok(Some(match word {
            Word::Ignore => return Ok(None),
            Word::Early | Word::Late | Word::Epoch => {
                self.out.meant = match word {
                    Word::Early => Meant::Early,
                    Word::Late => Meant::Late,
                    _ => Meant::Epoch,
                };
                part::RESERVED
            }
            Word::Now => {
                let (days, us) = now();
                self.out.hour = us / (3600 * SECOND_US);
                self.out.minute = us / (60 * SECOND_US) % 60;
                (self.out.second, self.out.micros) = (us / SECOND_US % 60, us % SECOND_US);
                if time_only {
                    part::TIME
                } else {
                    self.out.meant = Meant::DateTime;
                    self.out.set_date(days);
                    part::DATE | part::TIME | part::ZONE
                }
            }
            Word::Today => day(self, 0),
            Word::Tomorrow => day(self, 1),
            Word::Yesterday => day(self, -1),
            Word::Zulu => {
                (self.out.hour, self.out.minute, self.out.second) = (0, 0, 0);
                self.out.zone = Some(TextZone::Offset(0));
                self.out.meant = Meant::DateTime;
                part::TIME | part::ZONE
            }
            Word::Month(month) => {
                let mut found = part::MONTH;
                let numeric = self.mask & part::MONTH != 0 && self.mask & part::DAY == 0 && !self.text_month;
                if numeric && (1..=31).contains(&self.out.month) {
                    self.out.day = self.out.month;
                    found = part::DAY;
                }
                self.text_month = true;
                self.out.month = month;
                found
            }
            Word::Dst => {
                let east = match self.out.zone {
                    Some(TextZone::Offset(east)) => east,
                    _ => 0,
                };
                self.out.zone = match self.out.zone.take() {
                    None | Some(TextZone::Offset(_)) => Some(TextZone::Offset(east + 3600)),
                    other => other,
                };
                part::DST | part::SUMMER
            }
            Word::Half(pm) => {
                self.half = Some(pm);
                part::HALF
            }
            Word::Era(bc) => {
                self.bc = bc;
                part::ERA
            }
            Word::Weekday => part::WEEKDAY,
            Word::Unit(unit) => {
                self.label = Some(unit);
                0
            }
            Word::Time => {
                let follows = fields.get(at + 1).map(|field| field.kind);
                let fits = matches!(follows, Some(Kind::Number | Kind::Time | Kind::Date));
                if !fits || !time_only && !self.has(part::DATE) {
                    return Err(Wrong::Format);
                }
                self.label = Some(Unit::Time);
                0
            }
        }))
    }

    fn finish(mut self, time_only: bool) -> Result<Decoded, Wrong> {
        self.validate()?;
        let mask = self.mask;
        let out = &mut self.out;
        match self.half {
            Some(_) if out.hour > 12 => return Err(Wrong::Field),
            Some(false) if out.hour == 12 => out.hour = 0,
            Some(true) if out.hour != 12 => out.hour += 12,
            _ => {}
        }
        if time_only {
            if out.time_overflows() {
                return Err(Wrong::Field);
            }
            if mask & part::TIME != part::TIME {
                return Err(Wrong::Format);
            }
            let date = mask & part::DATE;
            let needs_date = matches!(&out.zone, Some(TextZone::Named(Zone::Named(_))));
            if needs_date && date != part::DATE || !needs_date && !matches!(date, 0 | part::DATE) {
                return Err(Wrong::Format);
            }
        } else if out.meant == Meant::DateTime && mask & part::DATE != part::DATE {
            return Err(Wrong::Format);
        }
        let named = matches!(&out.zone, Some(TextZone::Named(_) | TextZone::Abbreviation(..)));
        if mask & part::DST != 0 && (named || mask & part::ZONE == 0) {
            return Err(Wrong::Format);
        }
        Ok(self.out)
    }

    /// Year, month and day as they are meant, within their ranges.
    fn validate(&mut self) -> Result<(), Wrong> {
        let out = &mut self.out;
        let mask = self.mask;
        if mask & part::YEAR != 0 && !self.julian {
            if self.bc {
                if out.year <= 0 {
                    return Err(Wrong::Field);
                }
                out.year = 1 - out.year;
            } else if out.two_digits {
                match out.year {
                    ..0 => return Err(Wrong::Field),
                    0..70 => out.year += 2000,
                    70..100 => out.year += 1900,
                    _ => {}
                }
            } else if out.year <= 0 {
                return Err(Wrong::Field);
            }
        }
        if mask & part::YEAR_DAY != 0 {
            out.set_date(days_from_civil(out.year, 1, 1) + out.year_day - 1);
        }
        if mask & part::MONTH != 0 && !(1..=12).contains(&out.month)
            || mask & part::DAY != 0 && !(1..=31).contains(&out.day)
        {
            return Err(Wrong::Order);
        }
        if mask & part::DATE == part::DATE && out.day > month_days(out.year, out.month as u32).into() {
            return Err(Wrong::Field);
        }
        Ok(())
    }
}
