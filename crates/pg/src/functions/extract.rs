//! `extract` and `date_part`: fields of dates, times and intervals, which fields each type has, and what infinite
//! ones give (PostgreSQL's `timestamp.c` and `date.c`).
//!
//! `extract` is `numeric`: seconds with six digits after the point, milliseconds with three, a Julian day of a
//! timestamp with twenty, all else whole. `date_part` is the same as `double precision`, and takes a `date` for a
//! timestamp. Of an infinite time, fields that go round are null, those that grow are infinite.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType,
};
use resurgam_engine::OrderedType;
use resurgam_numeric::Numeric;

use super::define::{Call, P, PgFunction, Returns, f, oid};
use super::numeric::DYNAMIC;
use super::numeric::column::{NumericBuilder, numeric_error};
use crate::arrow::cast_array;
use crate::context::PgContext;
use crate::datetime::{DAY_US, SECOND_US, Zone, civil_from_days, days_from_civil};
use crate::ordered;
use crate::timetz::TimeTz;
use crate::types::{arrow_oid, format_type, oid as t, timestamptz};
use crate::wire::SqlError;

/// A field, under whichever of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Quarter,
    Week,
    Year,
    Decade,
    Century,
    Millennium,
    Julian,
    IsoYear,
    Dow,
    IsoDow,
    Doy,
    Epoch,
    Zone,
    ZoneHour,
    ZoneMinute,
    /// A word that PostgreSQL knows, but not as a field.
    Word,
}

/// The field of a name; only its first ten letters count.
pub(super) fn field(name: &str) -> Option<Field> {
    use Field as F;
    let token = name.get(..10).unwrap_or(name);
    Some(match token {
        "us" | "usec" | "usecond" | "useconds" | "usecs" | "microsecon" => F::Microsecond,
        "ms" | "msec" | "msecond" | "mseconds" | "msecs" | "millisecon" => F::Millisecond,
        "s" | "sec" | "second" | "seconds" | "secs" => F::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => F::Minute,
        "h" | "hour" | "hours" | "hr" | "hrs" => F::Hour,
        "d" | "day" | "days" => F::Day,
        "mon" | "mons" | "month" | "months" => F::Month,
        "qtr" | "quarter" => F::Quarter,
        "w" | "week" | "weeks" => F::Week,
        "y" | "year" | "years" | "yr" | "yrs" => F::Year,
        "dec" | "decade" | "decades" | "decs" => F::Decade,
        "c" | "cent" | "centuries" | "century" => F::Century,
        "mil" | "millennia" | "millennium" | "mils" => F::Millennium,
        "j" | "jd" | "julian" => F::Julian,
        "isoyear" => F::IsoYear,
        "dow" => F::Dow,
        "isodow" => F::IsoDow,
        "doy" => F::Doy,
        "epoch" => F::Epoch,
        "timezone" => F::Zone,
        "timezone_h" => F::ZoneHour,
        "timezone_m" => F::ZoneMinute,
        "allballs" | "now" | "today" | "tomorrow" | "yesterday" | "infinity" | "+infinity" | "-infinity" => F::Word,
        _ => return None,
    })
}

/// A value in exact parts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    /// An integer over a power of ten.
    Scaled(i64, i32),
    /// Seconds and microseconds, together over that power of ten. As floats PostgreSQL adds the two.
    Seconds {
        whole: i64,
        us: i64,
        scale: i32,
    },
    Julian {
        day: i64,
        us: i64,
    },
    Infinite(bool),
    Null,
}

fn whole(value: i64) -> Part {
    Part::Scaled(value, 0)
}

impl Part {
    fn numeric(self) -> Result<Option<Numeric>, SqlError> {
        match self {
            Self::Scaled(value, scale) => Numeric::from_scaled(value.into(), scale).map(Some),
            Self::Seconds { whole, us, scale } => {
                Numeric::from_scaled(i128::from(whole) * i128::from(SECOND_US) + i128::from(us), scale).map(Some)
            }
            Self::Julian { day, us } => {
                Numeric::from(us).div(&Numeric::from(DAY_US)).and_then(|part| Numeric::from(day).add(&part)).map(Some)
            }
            Self::Infinite(negative) => Ok(Some(if negative { Numeric::NegInfinity } else { Numeric::Infinity })),
            Self::Null => Ok(None),
        }
        .map_err(numeric_error)
    }

    fn float(self) -> Option<f64> {
        Some(match self {
            Self::Scaled(value, 0) => value as f64,
            Self::Scaled(value, scale) => value as f64 / 10f64.powi(scale),
            Self::Seconds { whole, us, scale } => whole as f64 * 10f64.powi(6 - scale) + us as f64 / 10f64.powi(scale),
            Self::Julian { day, us } => day as f64 + us as f64 / SECOND_US as f64 / 86_400.0,
            Self::Infinite(true) => f64::NEG_INFINITY,
            Self::Infinite(false) => f64::INFINITY,
            Self::Null => return None,
        })
    }
}

/// What an infinite time gives; `None` for fields that it has not.
fn infinite(field: Field, negative: bool) -> Option<Part> {
    use Field as F;
    match field {
        F::Year | F::Decade | F::Century | F::Millennium | F::Julian | F::IsoYear | F::Epoch => {
            Some(Part::Infinite(negative))
        }
        F::Word => None,
        _ => Some(Part::Null),
    }
}

/// Fields of a day, since 1970.
fn of_day(days: i64, field: Field) -> Option<Part> {
    use Field as F;
    let (year, month, day) = civil_from_days(days);
    let monday = (days + 3).rem_euclid(7);
    let thursday = days - monday + 3;
    let iso_year = civil_from_days(thursday).0;
    Some(whole(match field {
        F::Day => day.into(),
        F::Month => month.into(),
        F::Quarter => i64::from((month - 1) / 3 + 1),
        F::Week => (thursday - days_from_civil(iso_year, 1, 1)) / 7 + 1,
        // There is no year 0.
        F::Year => {
            if year > 0 {
                year
            } else {
                year - 1
            }
        }
        F::Decade => {
            if year >= 0 {
                year / 10
            } else {
                -((8 - (year - 1)) / 10)
            }
        }
        F::Century => {
            if year > 0 {
                (year + 99) / 100
            } else {
                -((99 - (year - 1)) / 100)
            }
        }
        F::Millennium => {
            if year > 0 {
                (year + 999) / 1000
            } else {
                -((999 - (year - 1)) / 1000)
            }
        }
        F::Julian => days + 2_440_588,
        F::IsoYear => {
            if iso_year > 0 {
                iso_year
            } else {
                iso_year - 1
            }
        }
        F::Dow => (days + 4).rem_euclid(7),
        F::IsoDow => monday + 1,
        F::Doy => days - days_from_civil(year, 1, 1) + 1,
        _ => return None,
    }))
}

/// Fields of a time of day or of the time in an interval.
fn of_time(us: i64, field: Field) -> Option<Part> {
    use Field as F;
    let second = us % (60 * SECOND_US);
    let seconds = |scale| Part::Seconds { whole: second / SECOND_US, us: second % SECOND_US, scale };
    Some(match field {
        F::Microsecond => whole(second),
        F::Millisecond => seconds(3),
        F::Second => seconds(6),
        F::Minute => whole(us / (60 * SECOND_US) % 60),
        F::Hour => whole(us / (3600 * SECOND_US)),
        _ => return None,
    })
}

/// Fields of a timestamp: `us` since 1970, of a time with zone in UTC, and its offset then.
fn of_timestamp(us: i64, offset: Option<i32>, field: Field) -> Option<Part> {
    use Field as F;
    if us == i64::MAX || us == i64::MIN {
        return infinite(field, us == i64::MIN);
    }
    let local = us.saturating_add(i64::from(offset.unwrap_or(0)) * SECOND_US);
    let (days, time) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
    match (field, offset) {
        (F::Epoch, _) => Some(Part::Scaled(us, 6)),
        (F::Julian, _) => Some(Part::Julian { day: days + 2_440_588, us: time }),
        (F::Zone, Some(offset)) => Some(whole(offset.into())),
        (F::ZoneHour, Some(offset)) => Some(whole((offset / 3600).into())),
        (F::ZoneMinute, Some(offset)) => Some(whole((offset / 60 % 60).into())),
        _ => of_time(time, field).or_else(|| of_day(days, field)),
    }
}

/// Fields of a time of day with a zone.
fn of_zoned_time(time: TimeTz, field: Field) -> Option<Part> {
    let east = i64::from(time.west).checked_neg()?;
    match field {
        Field::Epoch => Some(Part::Seconds { whole: time.west.into(), us: time.us, scale: 6 }),
        Field::Zone => Some(whole(east)),
        Field::ZoneHour => Some(whole(east / 3600)),
        Field::ZoneMinute => Some(whole(east / 60 % 60)),
        field => of_time(time.us, field),
    }
}

fn of_date(days: i32, field: Field) -> Option<Part> {
    use Field as F;
    if days == i32::MAX || days == i32::MIN {
        return match field {
            F::Microsecond | F::Millisecond | F::Second | F::Minute | F::Hour => None,
            F::Zone | F::ZoneHour | F::ZoneMinute => None,
            field => infinite(field, days == i32::MIN),
        };
    }
    match field {
        F::Epoch => Some(whole(i64::from(days) * 86_400)),
        field => of_day(days.into(), field),
    }
}

fn of_interval(value: IntervalMonthDayNano, field: Field) -> Option<Part> {
    use Field as F;
    let us = value.nanoseconds / 1000;
    let (years, months) = (i64::from(value.months / 12), i64::from(value.months % 12));
    Some(match field {
        F::Day => whole(value.days.into()),
        F::Month => whole(months),
        F::Quarter => whole(months / 3 + 1),
        F::Year => whole(years),
        F::Decade => whole(years / 10),
        F::Century => whole(years / 100),
        F::Millennium => whole(years / 1000),
        F::Epoch => {
            // A year has 365.25 days there, a month 30.
            let seconds = (1461 * years + 120 * months + 4 * i64::from(value.days)) * (86_400 / 4);
            Part::Scaled(seconds.checked_mul(SECOND_US)?.checked_add(us)?, 6)
        }
        field => return of_time(us, field),
    })
}

/// The parts of a column's values, row by row.
fn parts(call: &Call<'_>, zone: &Zone, dates: bool) -> Result<Vec<Part>, SqlError> {
    let array = &call.arrays[1];
    let type_name = || format_type(arrow_oid(array.data_type()), None);
    let is_time = matches!(array.data_type(), DataType::Time64(_) | DataType::FixedSizeBinary(_));
    let each = |value: &dyn Fn(usize, Field) -> Option<Part>| {
        (0..call.rows)
            .map(|row| {
                let (Some(name), true) = (call.text(0, row), array.is_valid(row)) else { return Ok(Part::Null) };
                let name = name.to_ascii_lowercase();
                let unknown =
                    || SqlError::new("22023", format!("unit \"{name}\" not recognized for type {}", type_name()));
                let field = field(&name).ok_or_else(unknown)?;
                if field == Field::Word && is_time {
                    return Err(unknown());
                }
                value(row, field).ok_or_else(|| {
                    SqlError::unsupported(format!("unit \"{name}\" not supported for type {}", type_name()))
                })
            })
            .collect::<Result<Vec<_>, _>>()
    };
    let local = DataType::Timestamp(TimeUnit::Microsecond, None);
    match array.data_type() {
        DataType::Interval(_) | DataType::Duration(_) => {
            let wanted = DataType::Interval(IntervalUnit::MonthDayNano);
            let values = cast_array(array, &wanted, t::INTERVAL, zone)?;
            let values = values.as_primitive::<IntervalMonthDayNanoType>();
            each(&|row, field| of_interval(values.value(row), field))
        }
        DataType::Time64(_) | DataType::Time32(_) => {
            let values = cast_array(array, &DataType::Time64(TimeUnit::Microsecond), t::TIME, zone)?;
            let values = values.as_primitive::<Time64MicrosecondType>();
            each(&|row, field| match field {
                Field::Epoch => Some(Part::Scaled(values.value(row), 6)),
                field => of_time(values.value(row), field),
            })
        }
        ty if ordered::type_of_data(ty) == Some(OrderedType::TimeTz(None)) => {
            let held = array.as_fixed_size_binary();
            let values = held.iter().map(|stored| stored.map(TimeTz::of_stored).transpose());
            let values = values.collect::<Result<Vec<_>, SqlError>>()?;
            each(&|row, field| of_zoned_time(values.get(row).copied().flatten()?, field))
        }
        DataType::Date32 if dates => {
            let values = array.as_primitive::<Date32Type>();
            each(&|row, field| of_date(values.value(row), field))
        }
        DataType::Timestamp(_, Some(_)) => {
            let values = cast_array(array, &timestamptz(), t::TIMESTAMPTZ, zone)?;
            let values = values.as_primitive::<TimestampMicrosecondType>();
            each(&|row, field| of_timestamp(values.value(row), Some(zone.offset_at(values.value(row))), field))
        }
        _ => {
            let values = cast_array(array, &local, t::TIMESTAMP, zone)?;
            let values = values.as_primitive::<TimestampMicrosecondType>();
            each(&|row, field| of_timestamp(values.value(row), None, field))
        }
    }
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let (first, second) = (cx.clone(), cx.clone());
    let dynamic = Returns::Fixed(Arc::new(datafusion::arrow::datatypes::Field::new("", DYNAMIC, true)));
    vec![
        f("extract", &[P::Text, P::Any], dynamic, move |call| {
            let mut builder = NumericBuilder::new(call.rows);
            for part in parts(call, &first.zone(), true)? {
                builder.push(part.numeric()?.as_ref());
            }
            Ok(builder.finish())
        })
        .alias("pg_extract"),
        f("date_part", &[P::Text, P::Any], oid(t::FLOAT8), move |call| {
            let parts = parts(call, &second.zone(), false)?;
            Ok(Arc::new(parts.into_iter().map(Part::float).collect::<Float64Array>()))
        })
        .alias("datepart"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(part: Option<Part>) -> String {
        match part.map(Part::numeric) {
            None => "unsupported".to_owned(),
            Some(value) => value.expect("number").map_or("NULL".to_owned(), |value| value.to_string()),
        }
    }

    #[test]
    fn fields_have_postgresqls_digits() {
        // 2024-01-02 03:04:05.678901
        let us = days_from_civil(2024, 1, 2) * DAY_US + 11_045_678_901;
        for (name, wanted) in [
            ("epoch", "1704164645.678901"),
            ("second", "5.678901"),
            ("milliseconds", "5678.901"),
            ("microseconds", "5678901"),
            ("julian", "2460312.12784350579861111111"),
            ("year", "2024"),
            ("century", "21"),
        ] {
            assert_eq!(shown(of_timestamp(us, None, field(name).expect(name))), wanted, "{name}");
        }
        assert_eq!(shown(of_timestamp(i64::MAX, None, Field::Year)), "Infinity");
        assert_eq!(shown(of_timestamp(i64::MIN, None, Field::Epoch)), "-Infinity");
        assert_eq!(shown(of_timestamp(i64::MAX, None, Field::Month)), "NULL");
        assert_eq!(shown(of_date(0, Field::Hour)), "unsupported");
        assert_eq!(shown(of_timestamp(us, None, Field::Zone)), "unsupported");
        assert_eq!(of_time(15_534_446, Field::Second).and_then(Part::float), Some(15.534_445_999_999_999));
        assert_eq!(of_time(2_150_481, Field::Millisecond).and_then(Part::float), Some(2_150.480_999_999_999_8));
        assert_eq!(field("centimetre"), None);
        let bc = days_from_civil(-10, 5, 1);
        assert_eq!(shown(of_day(bc, Field::Year)), "-11");
        assert_eq!(shown(of_day(bc, Field::Decade)), "-1");
        assert_eq!(shown(of_day(bc, Field::Century)), "-1");
    }
}
