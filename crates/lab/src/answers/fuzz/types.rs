//! Types and constants: how a constant is written as a literal, as a parameter in text and as
//! one in binary.

use std::fmt::Write as _;

/// Days from 1970-01-01 to 2000-01-01, from which the protocol counts.
const EPOCH_DAYS: i64 = 10_957;
const DAY_US: i64 = 86_400_000_000;

/// The types of columns (docs/sql.md). `mood` and `citext` are made first (`objects.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ty {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Varchar,
    Char,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    Timetz,
    Inet,
    Cidr,
    /// `bit(4)`
    Bit,
    Varbit,
    Int4Range,
    DateRange,
    TsRange,
    Int4Array,
    TextArray,
    DateArray,
    /// An enumerated type.
    Mood,
    Citext,
}

impl Ty {
    /// Types that have operators of their own (`typed.rs`).
    pub const MORE: [Self; 15] = [
        Self::Interval,
        Self::Jsonb,
        Self::Timetz,
        Self::Inet,
        Self::Cidr,
        Self::Bit,
        Self::Varbit,
        Self::Int4Range,
        Self::DateRange,
        Self::TsRange,
        Self::Int4Array,
        Self::TextArray,
        Self::DateArray,
        Self::Mood,
        Self::Citext,
    ];

    /// The common ones.
    pub const COLUMNS: [Self; 17] = [
        Self::Bool,
        Self::Int2,
        Self::Int4,
        Self::Int8,
        Self::Float4,
        Self::Float8,
        Self::Numeric,
        Self::Text,
        Self::Varchar,
        Self::Char,
        Self::Bytea,
        Self::Date,
        Self::Time,
        Self::Timestamp,
        Self::Timestamptz,
        Self::Uuid,
        Self::Json,
    ];

    /// Its name in casts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Numeric => "numeric",
            Self::Text => "text",
            Self::Varchar => "varchar",
            // Not `char`, which is char(1).
            Self::Char => "bpchar",
            Self::Bytea => "bytea",
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Timestamptz => "timestamptz",
            Self::Interval => "interval",
            Self::Uuid => "uuid",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::Timetz => "timetz",
            Self::Inet => "inet",
            Self::Cidr => "cidr",
            Self::Bit => "bit(4)",
            Self::Varbit => "varbit",
            Self::Int4Range => "int4range",
            Self::DateRange => "daterange",
            Self::TsRange => "tsrange",
            Self::Int4Array => "integer[]",
            Self::TextArray => "text[]",
            Self::DateArray => "date[]",
            Self::Mood => "mood",
            Self::Citext => "citext",
        }
    }

    /// `pg_type.oid`; 0 for types that are made, whose oids differ.
    pub fn oid(self) -> u32 {
        match self {
            Self::Bool => 16,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Int8 => 20,
            Self::Float4 => 700,
            Self::Float8 => 701,
            Self::Numeric => 1700,
            Self::Text => 25,
            Self::Varchar => 1043,
            Self::Char => 1042,
            Self::Bytea => 17,
            Self::Date => 1082,
            Self::Time => 1083,
            Self::Timestamp => 1114,
            Self::Timestamptz => 1184,
            Self::Interval => 1186,
            Self::Uuid => 2950,
            Self::Json => 114,
            Self::Jsonb => 3802,
            Self::Timetz => 1266,
            Self::Inet => 869,
            Self::Cidr => 650,
            Self::Bit => 1560,
            Self::Varbit => 1562,
            Self::Int4Range => 3904,
            Self::DateRange => 3912,
            Self::TsRange => 3908,
            Self::Int4Array => 1007,
            Self::TextArray => 1009,
            Self::DateArray => 1182,
            Self::Mood | Self::Citext => 0,
        }
    }

    pub fn is_integer(self) -> bool {
        matches!(self, Self::Int2 | Self::Int4 | Self::Int8)
    }

    pub fn is_number(self) -> bool {
        self.is_integer() || matches!(self, Self::Float4 | Self::Float8 | Self::Numeric)
    }

    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Varchar | Self::Char)
    }

    pub fn is_array(self) -> bool {
        matches!(self, Self::Int4Array | Self::TextArray | Self::DateArray)
    }

    pub fn is_range(self) -> bool {
        matches!(self, Self::Int4Range | Self::DateRange | Self::TsRange)
    }

    /// What arrays and ranges are of.
    pub fn element(self) -> Option<Self> {
        match self {
            Self::Int4Array | Self::Int4Range => Some(Self::Int4),
            Self::DateArray | Self::DateRange => Some(Self::Date),
            Self::TextArray => Some(Self::Text),
            Self::TsRange => Some(Self::Timestamp),
            _ => None,
        }
    }

    /// Whether equal values of it print alike.
    pub fn is_canonical(self) -> bool {
        !matches!(self, Self::Numeric | Self::Float4 | Self::Float8 | Self::Interval | Self::Json | Self::Citext)
    }

    /// Whether it has `=` and `<`.
    pub fn is_ordered(self) -> bool {
        self != Self::Json
    }

    /// The largest absolute value of an integer type, and a limit well inside of the others.
    pub fn bound(self) -> f64 {
        match self {
            Self::Int2 => 32_767.0,
            Self::Int4 => 2_147_483_647.0,
            Self::Int8 => 9e18,
            // Whole quarters stay exact below this.
            Self::Float4 => 1e5,
            Self::Float8 => 1e13,
            _ => 1e20,
        }
    }
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Digits, maybe a sign and a point.
    Numeric(String),
    /// Texts, json, and what is not valid on purpose.
    Text(String),
    Bytes(Vec<u8>),
    /// Days since 1970-01-01; the ends of `i32` are the infinities.
    Date(i32),
    /// Microseconds of the day.
    Time(i64),
    /// Microseconds since 1970-01-01 (in UTC, if with a zone); the ends of `i64` are the infinities.
    Stamp(i64),
    Interval {
        months: i32,
        days: i32,
        us: i64,
    },
    Uuid([u8; 16]),
}

impl Value {
    /// As PostgreSQL reads it, none for null.
    pub fn text(&self, ty: Ty) -> Option<String> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(b) => if *b { "t" } else { "f" }.into(),
            Self::Int(n) => n.to_string(),
            Self::Float(f) if f.is_infinite() => if *f > 0.0 { "Infinity" } else { "-Infinity" }.into(),
            Self::Float(f) => format!("{f:?}"),
            Self::Numeric(digits) => digits.clone(),
            Self::Text(text) => text.clone(),
            Self::Bytes(bytes) => {
                let mut text = "\\x".to_owned();
                bytes.iter().for_each(|b| {
                    let _ = write!(text, "{b:02x}");
                });
                text
            }
            Self::Date(i32::MAX) | Self::Stamp(i64::MAX) => "infinity".into(),
            Self::Date(i32::MIN) | Self::Stamp(i64::MIN) => "-infinity".into(),
            Self::Date(days) => {
                let (date, era) = date_text(i64::from(*days));
                format!("{date}{era}")
            }
            Self::Time(us) => time_text(*us),
            Self::Stamp(us) => {
                let (date, era) = date_text(us.div_euclid(DAY_US));
                let zone = if ty == Ty::Timestamptz { "+00" } else { "" };
                format!("{date} {}{zone}{era}", time_text(us.rem_euclid(DAY_US)))
            }
            Self::Interval { months, days, us } => {
                let sign = if *us < 0 { "-" } else { "" };
                format!("{months} mons {days} days {sign}{}", time_text(us.abs()))
            }
            Self::Uuid(bytes) => {
                let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
            }
        })
    }

    /// The value in the protocol's binary format of a type, as `Some(None)` for null; none if
    /// this kind of value has no form in that type here.
    pub fn binary(&self, ty: Ty) -> Option<Option<Vec<u8>>> {
        let bytes = match (self, ty) {
            (Self::Null, _) => return Some(None),
            (Self::Bool(b), Ty::Bool) => vec![u8::from(*b)],
            (Self::Int(n), Ty::Int2) => i16::try_from(*n).ok()?.to_be_bytes().to_vec(),
            (Self::Int(n), Ty::Int4) => i32::try_from(*n).ok()?.to_be_bytes().to_vec(),
            (Self::Int(n), Ty::Int8) => n.to_be_bytes().to_vec(),
            (Self::Int(n), Ty::Numeric) => numeric_binary(&n.to_string())?,
            (Self::Numeric(digits), Ty::Numeric) => numeric_binary(digits)?,
            #[expect(clippy::cast_possible_truncation, reason = "the nearest is meant")]
            (Self::Float(f), Ty::Float4) => (*f as f32).to_be_bytes().to_vec(),
            (Self::Float(f), Ty::Float8) => f.to_be_bytes().to_vec(),
            (Self::Text(text), ty) if ty.is_text() || ty == Ty::Json => text.as_bytes().to_vec(),
            (Self::Text(text), Ty::Jsonb) => [&[1], text.as_bytes()].concat(),
            (Self::Bytes(bytes), Ty::Bytea) => bytes.clone(),
            (Self::Date(days @ (i32::MAX | i32::MIN)), Ty::Date) => days.to_be_bytes().to_vec(),
            (Self::Date(days), Ty::Date) => i32::try_from(i64::from(*days) - EPOCH_DAYS).ok()?.to_be_bytes().to_vec(),
            (Self::Time(us), Ty::Time) => us.to_be_bytes().to_vec(),
            (Self::Stamp(us @ (i64::MAX | i64::MIN)), Ty::Timestamp | Ty::Timestamptz) => us.to_be_bytes().to_vec(),
            (Self::Stamp(us), Ty::Timestamp | Ty::Timestamptz) => {
                us.checked_sub(EPOCH_DAYS * DAY_US)?.to_be_bytes().to_vec()
            }
            (Self::Interval { months, days, us }, Ty::Interval) => {
                [us.to_be_bytes().as_slice(), &days.to_be_bytes(), &months.to_be_bytes()].concat()
            }
            (Self::Uuid(bytes), Ty::Uuid) => bytes.to_vec(),
            _ => return None,
        };
        Some(Some(bytes))
    }

    /// As an SQL literal without a type of its own, or with the type that PostgreSQL gives it:
    /// numbers and booleans bare, all else in quotes.
    pub fn literal(&self, ty: Ty) -> String {
        match self {
            Self::Null => "NULL".into(),
            Self::Bool(b) => if *b { "TRUE" } else { "FALSE" }.into(),
            Self::Int(n) if *n < 0 => format!("({n})"),
            Self::Int(n) => n.to_string(),
            Self::Numeric(digits) if digits.starts_with('-') => format!("({digits})"),
            Self::Numeric(digits) if digits.starts_with(|c: char| c.is_ascii_digit()) => digits.clone(),
            _ => quoted(&self.text(ty).unwrap_or_default()),
        }
    }
}

/// A text in quotes.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `YYYY-MM-DD` and maybe ` BC`. The algorithm is Howard Hinnant's `civil_from_days`.
fn date_text(days: i64) -> (String, &'static str) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

fn time_text(us: i64) -> String {
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        let _ = write!(text, ".{fraction:06}");
    }
    text
}

/// Days since 1970-01-01 of a date of the Gregorian calendar (`days_from_civil`).
pub fn days(year: i64, month: i64, day: i64) -> i32 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    i32::try_from(days).unwrap_or(i32::MAX)
}

/// Base 10,000 digits with weight, sign and scale.
fn numeric_binary(text: &str) -> Option<Vec<u8>> {
    let special = match text {
        "NaN" => Some(0xc000_u16),
        "Infinity" => Some(0xd000),
        "-Infinity" => Some(0xf000),
        _ => None,
    };
    if let Some(sign) = special {
        return Some([0, 0, sign, 0].iter().flat_map(|n| n.to_be_bytes()).collect());
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.chars().chain(fraction.chars()).all(|c| c.is_ascii_digit()) {
        return None;
    }
    let scale = u16::try_from(fraction.len()).ok()?;
    let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let fraction = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let mut weight = i16::try_from(whole.len() / 4).ok()? - 1;
    let all = format!("{whole}{fraction}");
    let mut groups: Vec<u16> =
        all.as_bytes().chunks(4).map(|c| c.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0'))).collect();
    while groups.first() == Some(&0) {
        groups.remove(0);
        weight -= 1;
    }
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    let sign = if negative && !groups.is_empty() { 0x4000 } else { 0 };
    let mut bytes = u16::try_from(groups.len()).ok()?.to_be_bytes().to_vec();
    bytes.extend(weight.to_be_bytes());
    bytes.extend(u16::to_be_bytes(sign));
    bytes.extend(scale.to_be_bytes());
    bytes.extend(groups.iter().flat_map(|g| g.to_be_bytes()));
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written() {
        assert_eq!(Value::Date(days(2024, 2, 29)).text(Ty::Date).unwrap(), "2024-02-29");
        assert_eq!(Value::Date(days(-4713, 11, 24)).text(Ty::Date).unwrap(), "4714-11-24 BC");
        assert_eq!(Value::Stamp(-1).text(Ty::Timestamp).unwrap(), "1969-12-31 23:59:59.999999");
        assert_eq!(Value::Stamp(0).text(Ty::Timestamptz).unwrap(), "1970-01-01 00:00:00+00");
        assert_eq!(Value::Date(days(2000, 1, 2)).binary(Ty::Date), Some(Some(vec![0, 0, 0, 1])));
    }

    /// As PostgreSQL's `numeric_send` answers for these.
    #[test]
    fn numerics_are_sent() {
        let hex = |text: &str| numeric_binary(text).unwrap().iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex("0"), "0000000000000000");
        assert_eq!(hex("1.50"), "0002000000000002".to_owned() + "00011388");
        assert_eq!(hex("-12345.678"), "0003000140000003000109291a7c");
        assert_eq!(hex("0.00001"), "0001fffe0000000503e8");
        assert_eq!(hex("20000"), "00010001000000000002");
    }

    #[test]
    fn literals_are_safe() {
        assert_eq!(Value::Text("it's".into()).literal(Ty::Text), "'it''s'");
        assert_eq!(Value::Int(-3).literal(Ty::Int4), "(-3)");
        assert_eq!(Value::Numeric("NaN".into()).literal(Ty::Numeric), "'NaN'");
    }
}
