//! Column types and the values of columns, owned and borrowed.
//!
//! A column type is kept in the catalog as a tag byte and its parameters:
//! ```text
//! 1 Bool  2 Int2  3 Int4  4 Int8  5 Float4  6 Float8  8 Text  11 Bytes  12 Date
//! 13 Time  14 Timestamp  15 TimestampTz  16 Uuid  17 Json
//! 7 Numeric: precision u8, scale u8     9 Varchar: length u32     10 Char: length u32
//! 18 VarNumeric     19 VarNumeric with a limit: precision u16, scale i16
//! 20 Time, 21 Timestamp, 22 TimestampTz with a number of digits: u8
//! 23 Jsonb     24 Interval     25 Interval with a limit: u32     26 Array: the elements' type, which is no array
//! 27 Enum: id of the type u32     28 Ordered: kind u8 (1 inet, 2 cidr, 3 macaddr, 4 macaddr8, 5 timetz: digits u8, 255 for none;
//!    6 bit, 7 varbit: bits u32, u32::MAX for none; 8 int4range, 9 int8range, 10 daterange, 11 tsrange, 12 tstzrange;
//!    13 oid, 14 name, 15 "char")
//! 29 Folded
//! ```

use crate::codec::Reader;
use resurgam_base::{PageId, Result};
use std::cmp::Ordering;
use std::fmt;

/// Most digits of a [`ColumnType::Numeric`].
pub const NUMERIC_PRECISION_MAX: u8 = 38;
/// Digits of a numeric that always fit an i64; wider ones take 16 bytes in a row.
pub const NUMERIC_PRECISION_I64: u8 = 18;

/// Bytes at the end of a stored [`ColumnType::VarNumeric`] that say how many digits it shows after the point.
pub const DISPLAY_SCALE_BYTES: usize = 2;
/// Most digits of seconds.
pub const SECOND_DIGITS_MAX: u8 = 6;

/// `numeric(precision, scale)` beyond what a [`ColumnType::Numeric`] can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NumericLimit {
    /// Digits in all.
    pub precision: u16,
    /// Digits after the point; negative for zeros before it.
    pub scale: i16,
}

/// Types whose values are bytes that are equal where the values are, and order as these do. What the bytes mean is the SQL layer's: to the
/// engine all of them are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderedType {
    /// An address of IPv4 or IPv6, with a netmask.
    Inet,
    /// A network of IPv4 or IPv6.
    Cidr,
    /// The address of a network interface, of 6 bytes and of 8.
    MacAddr,
    MacAddr8,
    /// A time of day with a zone, and how many digits its seconds have if that is limited.
    TimeTz(Option<u8>),
    /// Bits, of which there are so many; `None`: of any length each.
    Bit(Option<u32>),
    /// Bits, so many at most.
    VarBit(Option<u32>),
    /// What is between two numbers, days or times.
    Int4Range,
    Int8Range,
    DateRange,
    TsRange,
    TstzRange,
    /// Types of PostgreSQL's catalogs: a number without a sign, a text of at most 63 bytes, and one of at most one.
    Oid,
    Name,
    OneChar,
}

impl OrderedType {
    /// No limit of digits, and of bits.
    const ANY_DIGITS: u8 = u8::MAX;
    const ANY_BITS: u32 = u32::MAX;

    /// The SQL name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Cidr => "cidr",
            Self::MacAddr => "macaddr",
            Self::MacAddr8 => "macaddr8",
            Self::TimeTz(_) => "time with time zone",
            Self::Bit(_) => "bit",
            Self::VarBit(_) => "bit varying",
            Self::Int4Range => "int4range",
            Self::Int8Range => "int8range",
            Self::DateRange => "daterange",
            Self::TsRange => "tsrange",
            Self::TstzRange => "tstzrange",
            Self::Oid => "oid",
            Self::Name => "name",
            Self::OneChar => "\"char\"",
        }
    }

    /// The type without its limits: types that are the same without them have values of one form.
    #[must_use]
    pub const fn unlimited(self) -> Self {
        match self {
            Self::TimeTz(_) => Self::TimeTz(None),
            Self::Bit(_) => Self::Bit(None),
            Self::VarBit(_) => Self::VarBit(None),
            other => other,
        }
    }

    /// The number by which the catalog knows it, and its limit.
    fn encode_into(self, out: &mut Vec<u8>) {
        let number = match self {
            Self::Inet => 1,
            Self::Cidr => 2,
            Self::MacAddr => 3,
            Self::MacAddr8 => 4,
            Self::TimeTz(_) => 5,
            Self::Bit(_) => 6,
            Self::VarBit(_) => 7,
            Self::Int4Range => 8,
            Self::Int8Range => 9,
            Self::DateRange => 10,
            Self::TsRange => 11,
            Self::TstzRange => 12,
            Self::Oid => 13,
            Self::Name => 14,
            Self::OneChar => 15,
        };
        out.push(number);
        match self {
            Self::TimeTz(digits) => out.push(digits.unwrap_or(Self::ANY_DIGITS)),
            Self::Bit(bits) | Self::VarBit(bits) => {
                out.extend_from_slice(&bits.unwrap_or(Self::ANY_BITS).to_le_bytes());
            }
            _ => {}
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let bits = |r: &mut Reader<'_>| r.u32().map(|bits| Some(bits).filter(|bits| *bits != Self::ANY_BITS));
        Ok(match r.u8()? {
            1 => Self::Inet,
            2 => Self::Cidr,
            3 => Self::MacAddr,
            4 => Self::MacAddr8,
            5 => match r.u8()? {
                Self::ANY_DIGITS => Self::TimeTz(None),
                digits if digits <= SECOND_DIGITS_MAX => Self::TimeTz(Some(digits)),
                _ => return Err(r.bad("impossible number of digits of seconds")),
            },
            6 => Self::Bit(bits(r)?),
            7 => Self::VarBit(bits(r)?),
            8 => Self::Int4Range,
            9 => Self::Int8Range,
            10 => Self::DateRange,
            11 => Self::TsRange,
            12 => Self::TstzRange,
            13 => Self::Oid,
            14 => Self::Name,
            15 => Self::OneChar,
            _ => return Err(r.bad("unknown type of ordered bytes")),
        })
    }
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// Decimal with `precision` digits (1..=38), `scale` of them after the point (0..=precision).
    Numeric {
        precision: u8,
        scale: i8,
    },
    /// Decimal of any size, each value with a display scale of its own: bytes that order as values do, then
    /// [`DISPLAY_SCALE_BYTES`] of display scale, which keys leave out. Numbers of other digits than the limit says
    /// are rounded and refused by the SQL layer.
    VarNumeric(Option<NumericLimit>),
    Text,
    /// Text of at most so many characters; [`Self::VARCHAR`] of any number.
    Varchar(u32),
    /// Text of so many characters, padded with spaces (by the SQL layer).
    Char(u32),
    Bytes,
    /// Days.
    Date,
    /// Microseconds since midnight, rounded by the SQL layer to so many digits of seconds (0..=6).
    Time(Option<u8>),
    /// Microseconds, no time zone; digits as those of [`ColumnType::Time`].
    Timestamp(Option<u8>),
    /// Microseconds UTC; digits as those of [`ColumnType::Time`].
    TimestampTz(Option<u8>),
    Uuid,
    /// JSON kept as its text.
    Json,
    /// A document that is read in place: see [`crate::document`].
    Jsonb,
    /// Months, days and microseconds; the SQL layer's limit of fields and digits of seconds, if there is one.
    Interval(Option<u32>),
    /// Elements of one type: see [`crate::array`].
    Array(ElementType),
    /// A label of the enumerated type with that id, as the number by which that type orders it ([`Datum::Int8`]).
    Enum(u32),
    /// Bytes in the order of their values.
    Ordered(OrderedType),
    /// A text that is compared in another form, which goes before it: see [`crate::folded`].
    Folded,
}

/// Type of an array's elements: any column type but an array, in the form that the catalog has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementType {
    encoded: [u8; Self::SIZE],
    len: u8,
}

impl ElementType {
    /// Bytes of the longest form in the catalog.
    const SIZE: usize = 6;

    /// The type of elements; `None` if these would be arrays.
    pub fn of(ty: ColumnType) -> Option<Self> {
        if matches!(ty, ColumnType::Array(_)) {
            return None;
        }
        let mut bytes = Vec::with_capacity(Self::SIZE);
        ty.encode_into(&mut bytes);
        let mut encoded = [0; Self::SIZE];
        encoded.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        Some(Self { encoded, len: bytes.len() as u8 })
    }

    /// The elements' type.
    pub fn column_type(self) -> ColumnType {
        // It was made of one, so that reading it back cannot fail.
        let bytes = &self.encoded[..usize::from(self.len).min(Self::SIZE)];
        ColumnType::decode(&mut Reader::new(bytes, "element type")).unwrap_or(ColumnType::Bytes)
    }
}

/// A span of time, each part of which is counted by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

/// Microseconds of a day.
const DAY_MICROS: i128 = 86_400_000_000;

impl Interval {
    /// Bytes of a stored one: months, days, microseconds.
    pub const SIZE: usize = 16;

    /// The length that orders intervals, as PostgreSQL's `interval_cmp_value`: a month has 30 days, a day 24 hours.
    pub fn span(self) -> i128 {
        (i128::from(self.months) * 30 + i128::from(self.days)) * DAY_MICROS + i128::from(self.micros)
    }

    /// An interval of that length.
    pub fn of_span(span: i128) -> Self {
        let (months, rest) = (span / (30 * DAY_MICROS), span % (30 * DAY_MICROS));
        let months = months.clamp(i32::MIN.into(), i32::MAX.into());
        let rest = if span / (30 * DAY_MICROS) == months { rest } else { span - months * 30 * DAY_MICROS };
        let days = (rest / DAY_MICROS).clamp(i32::MIN.into(), i32::MAX.into());
        let micros = (rest - days * DAY_MICROS).clamp(i64::MIN.into(), i64::MAX.into());
        Self { months: months as i32, days: days as i32, micros: micros as i64 }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[..4].copy_from_slice(&self.months.to_le_bytes());
        out[4..8].copy_from_slice(&self.days.to_le_bytes());
        out[8..].copy_from_slice(&self.micros.to_le_bytes());
        out
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        let [a, b, c, d, e, f, g, h, micros @ ..] = bytes;
        Self {
            months: i32::from_le_bytes([a, b, c, d]),
            days: i32::from_le_bytes([e, f, g, h]),
            micros: i64::from_le_bytes(micros),
        }
    }
}

impl ColumnType {
    /// `character varying` without a length.
    pub const VARCHAR: Self = Self::Varchar(u32::MAX);

    /// Bytes of a value in a row's fixed-width area; `None` if the type is of variable width.
    pub const fn fixed_width(self) -> Option<usize> {
        use ColumnType::*;
        Some(match self {
            Bool => 1,
            Int2 => 2,
            Int4 | Float4 | Date => 4,
            Int8 | Float8 | Time(_) | Timestamp(_) | TimestampTz(_) | Enum(_) => 8,
            Numeric { precision, .. } if precision <= NUMERIC_PRECISION_I64 => 8,
            Numeric { .. } | Uuid | Interval(_) => 16,
            VarNumeric(_) | Text | Varchar(_) | Char(_) | Bytes | Json | Jsonb | Array(_) | Ordered(_) | Folded => {
                return None;
            }
        })
    }

    /// Id of the type of users that values, or an array's elements, are of.
    pub fn user_type(self) -> Option<u32> {
        match self {
            ColumnType::Enum(id) => Some(id),
            ColumnType::Array(element) => element.column_type().user_type(),
            _ => None,
        }
    }

    /// Whether values are text.
    pub const fn is_text(self) -> bool {
        use ColumnType::*;
        matches!(self, Text | Varchar(_) | Char(_) | Json)
    }

    /// Whether a key tells less than the value, or tells it in another form, so that a row has to keep the value as
    /// well: digits of numerics and the sign of zero are not in keys, nor is of how many days an interval is or how a folded text was written,
    /// and zero bytes are escaped there. (Tables say for each column where it is: floats of those that earlier versions made are in their keys alone.)
    pub const fn is_kept_beside_key(self) -> bool {
        use ColumnType::*;
        matches!(self, Bytes | VarNumeric(_) | Jsonb | Interval(_) | Array(_) | Ordered(_) | Float4 | Float8 | Folded)
    }

    /// Whether values that are equal may be of other bytes, or of other fields: they are compared by their keys.
    pub const fn is_equal_by_key(self) -> bool {
        use ColumnType::*;
        matches!(self, VarNumeric(_) | Jsonb | Interval(_) | Array(_) | Folded)
    }

    /// Appends the type as kept in the catalog.
    pub fn encode_into(self, out: &mut Vec<u8>) {
        use ColumnType::*;
        let tag = match self {
            Bool => 1,
            Int2 => 2,
            Int4 => 3,
            Int8 => 4,
            Float4 => 5,
            Float8 => 6,
            Numeric { .. } => 7,
            Text => 8,
            Varchar(_) => 9,
            Char(_) => 10,
            Bytes => 11,
            Date => 12,
            Time(None) => 13,
            Timestamp(None) => 14,
            TimestampTz(None) => 15,
            Uuid => 16,
            Json => 17,
            VarNumeric(None) => 18,
            VarNumeric(Some(_)) => 19,
            Time(Some(_)) => 20,
            Timestamp(Some(_)) => 21,
            TimestampTz(Some(_)) => 22,
            Jsonb => 23,
            Interval(None) => 24,
            Interval(Some(_)) => 25,
            Array(_) => 26,
            Enum(_) => 27,
            Ordered(_) => 28,
            Folded => 29,
        };
        out.push(tag);
        match self {
            Numeric { precision, scale } => out.extend_from_slice(&[precision, scale as u8]),
            Varchar(n) | Char(n) => out.extend_from_slice(&n.to_le_bytes()),
            VarNumeric(Some(limit)) => {
                out.extend_from_slice(&limit.precision.to_le_bytes());
                out.extend_from_slice(&limit.scale.to_le_bytes());
            }
            Time(Some(digits)) | Timestamp(Some(digits)) | TimestampTz(Some(digits)) => out.push(digits),
            Interval(Some(limit)) => out.extend_from_slice(&limit.to_le_bytes()),
            Array(element) => element.column_type().encode_into(out),
            Enum(id) => out.extend_from_slice(&id.to_le_bytes()),
            Ordered(ty) => ty.encode_into(out),
            _ => {}
        }
    }

    /// Reads what [`Self::encode_into`] wrote.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        use ColumnType::*;
        Ok(match r.u8()? {
            1 => Bool,
            2 => Int2,
            3 => Int4,
            4 => Int8,
            5 => Float4,
            6 => Float8,
            7 => {
                let (precision, scale) = (r.u8()?, r.u8()?);
                if !(1..=NUMERIC_PRECISION_MAX).contains(&precision) || scale > precision {
                    return Err(r.bad("impossible numeric type"));
                }
                Numeric { precision, scale: scale as i8 }
            }
            8 => Text,
            9 => Varchar(r.u32()?),
            10 => Char(r.u32()?),
            11 => Bytes,
            12 => Date,
            13 => Time(None),
            14 => Timestamp(None),
            15 => TimestampTz(None),
            16 => Uuid,
            17 => Json,
            18 => VarNumeric(None),
            19 => VarNumeric(Some(NumericLimit { precision: r.u16()?, scale: r.u16()? as i16 })),
            tag @ 20..=22 => {
                let digits = r.u8()?;
                if digits > SECOND_DIGITS_MAX {
                    return Err(r.bad("impossible number of digits of seconds"));
                }
                match tag {
                    20 => Time(Some(digits)),
                    21 => Timestamp(Some(digits)),
                    _ => TimestampTz(Some(digits)),
                }
            }
            23 => Jsonb,
            24 => Interval(None),
            25 => Interval(Some(r.u32()?)),
            26 => {
                // Looked at first: a chain of these would be a recursion.
                let mut ahead = *r;
                if ahead.u8()? == 26 {
                    return Err(r.bad("array of arrays"));
                }
                match ElementType::of(Self::decode(r)?) {
                    Some(element) => Array(element),
                    None => return Err(r.bad("impossible element type")),
                }
            }
            27 => Enum(r.u32()?),
            28 => Ordered(OrderedType::decode(r)?),
            29 => Folded,
            _ => return Err(r.bad("unknown column type")),
        })
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ColumnType::*;
        f.write_str(match self {
            Bool => "boolean",
            Int2 => "smallint",
            Int4 => "integer",
            Int8 => "bigint",
            Float4 => "real",
            Float8 => "double precision",
            Numeric { precision, scale } => return write!(f, "numeric({precision},{scale})"),
            VarNumeric(None) => "numeric",
            VarNumeric(Some(limit)) => return write!(f, "numeric({},{})", limit.precision, limit.scale),
            Text => "text",
            Varchar(u32::MAX) => "character varying",
            Varchar(n) => return write!(f, "character varying({n})"),
            Char(n) => return write!(f, "character({n})"),
            Bytes => "bytea",
            Date => "date",
            Time(None) => "time without time zone",
            Timestamp(None) => "timestamp without time zone",
            TimestampTz(None) => "timestamp with time zone",
            Time(Some(digits)) => return write!(f, "time({digits}) without time zone"),
            Timestamp(Some(digits)) => return write!(f, "timestamp({digits}) without time zone"),
            TimestampTz(Some(digits)) => return write!(f, "timestamp({digits}) with time zone"),
            Uuid => "uuid",
            Json => "json",
            Jsonb => "jsonb",
            Interval(_) => "interval",
            Array(element) => return write!(f, "{}[]", element.column_type()),
            Enum(id) => return write!(f, "enum {id}"),
            Ordered(ty) => ty.name(),
            Folded => "citext",
        })
    }
}

/// A long value that is kept on overflow pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExternalRef {
    /// Bytes of the value.
    pub len: u64,
    /// First page of its chain.
    pub page: PageId,
    /// Text, not bytes.
    pub is_text: bool,
}

impl ExternalRef {
    /// Bytes of an encoded reference.
    pub const SIZE: usize = 8 + 8 + 1;

    /// Appends the reference: len u64, page u64, is_text u8.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.page.0.to_le_bytes());
        out.push(u8::from(self.is_text));
    }

    /// Reads what [`Self::encode_into`] wrote; `bytes` holds nothing else.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "external reference");
        let (len, page, is_text) = (r.u64()?, PageId(r.u64()?), r.u8()?);
        if !r.is_empty() || is_text > 1 || page.is_none() {
            return Err(r.bad("malformed"));
        }
        Ok(Self { len, page, is_text: is_text == 1 })
    }
}

/// A value, owned. Dates and timestamps count from 2000-01-01.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    /// The unscaled integer; the scale is the column type's.
    Numeric(i128),
    /// Text, varchar, char, json.
    Text(String),
    /// Bytes, numerics of [`ColumnType::VarNumeric`], documents, arrays, folded texts.
    Bytes(Vec<u8>),
    /// Days since 2000-01-01.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 2000-01-01.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 UTC.
    TimestampTz(i64),
    Uuid([u8; 16]),
    Interval(Interval),
    /// Kept on overflow pages; the engine fetches it.
    External(ExternalRef),
}

/// A value, borrowed; see [`Datum`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DatumRef<'a> {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    Numeric(i128),
    Text(&'a str),
    Bytes(&'a [u8]),
    Date(i32),
    Time(i64),
    Timestamp(i64),
    TimestampTz(i64),
    Uuid([u8; 16]),
    Interval(Interval),
    External(ExternalRef),
}

impl Datum {
    /// The value, borrowed.
    #[inline]
    pub fn as_ref(&self) -> DatumRef<'_> {
        match self {
            Self::Null => DatumRef::Null,
            Self::Bool(v) => DatumRef::Bool(*v),
            Self::Int2(v) => DatumRef::Int2(*v),
            Self::Int4(v) => DatumRef::Int4(*v),
            Self::Int8(v) => DatumRef::Int8(*v),
            Self::Float4(v) => DatumRef::Float4(*v),
            Self::Float8(v) => DatumRef::Float8(*v),
            Self::Numeric(v) => DatumRef::Numeric(*v),
            Self::Text(v) => DatumRef::Text(v),
            Self::Bytes(v) => DatumRef::Bytes(v),
            Self::Date(v) => DatumRef::Date(*v),
            Self::Time(v) => DatumRef::Time(*v),
            Self::Timestamp(v) => DatumRef::Timestamp(*v),
            Self::TimestampTz(v) => DatumRef::TimestampTz(*v),
            Self::Uuid(v) => DatumRef::Uuid(*v),
            Self::Interval(v) => DatumRef::Interval(*v),
            Self::External(v) => DatumRef::External(*v),
        }
    }
    /// Whether this is NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl<'a> From<&'a Datum> for DatumRef<'a> {
    fn from(datum: &'a Datum) -> Self {
        datum.as_ref()
    }
}

impl From<DatumRef<'_>> for Datum {
    fn from(datum: DatumRef<'_>) -> Self {
        datum.to_owned()
    }
}

impl DatumRef<'_> {
    /// The memory of values that nobody needs any more, for others.
    pub fn room<'a>(mut values: Vec<DatumRef<'_>>) -> Vec<DatumRef<'a>> {
        values.clear();
        // What is collected from a vector of the same size stays where that is.
        values.into_iter().map(|_| DatumRef::Null).collect()
    }

    /// The value, owned.
    #[inline]
    pub fn to_owned(&self) -> Datum {
        match *self {
            Self::Null => Datum::Null,
            Self::Bool(v) => Datum::Bool(v),
            Self::Int2(v) => Datum::Int2(v),
            Self::Int4(v) => Datum::Int4(v),
            Self::Int8(v) => Datum::Int8(v),
            Self::Float4(v) => Datum::Float4(v),
            Self::Float8(v) => Datum::Float8(v),
            Self::Numeric(v) => Datum::Numeric(v),
            Self::Text(v) => Datum::Text(v.to_owned()),
            Self::Bytes(v) => Datum::Bytes(v.to_vec()),
            Self::Date(v) => Datum::Date(v),
            Self::Time(v) => Datum::Time(v),
            Self::Timestamp(v) => Datum::Timestamp(v),
            Self::TimestampTz(v) => Datum::TimestampTz(v),
            Self::Uuid(v) => Datum::Uuid(v),
            Self::Interval(v) => Datum::Interval(v),
            Self::External(v) => Datum::External(v),
        }
    }
    /// Whether this is NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The variant's name, for errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int2(_) => "int2",
            Self::Int4(_) => "int4",
            Self::Int8(_) => "int8",
            Self::Float4(_) => "float4",
            Self::Float8(_) => "float8",
            Self::Numeric(_) => "numeric",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::Date(_) => "date",
            Self::Time(_) => "time",
            Self::Timestamp(_) => "timestamp",
            Self::TimestampTz(_) => "timestamptz",
            Self::Uuid(_) => "uuid",
            Self::Interval(_) => "interval",
            Self::External(_) => "external",
        }
    }

    /// The order that ascending keys have: NULL last, NaN above all numbers, -0 = 0, text by
    /// its bytes. (Documents, arrays and numerics are bytes here: their order is that of their keys.) `None` for values of different types, or external ones.
    pub fn key_cmp(&self, other: &Self) -> Option<Ordering> {
        use DatumRef::*;
        fn float(a: f64, b: f64) -> Ordering {
            match (a.is_nan(), b.is_nan()) {
                (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
                (a, b) => a.cmp(&b),
            }
        }
        Some(match (self, other) {
            (Null, Null) => Ordering::Equal,
            (Null, _) => Ordering::Greater,
            (_, Null) => Ordering::Less,
            (Bool(a), Bool(b)) => a.cmp(b),
            (Int2(a), Int2(b)) => a.cmp(b),
            (Int4(a), Int4(b)) | (Date(a), Date(b)) => a.cmp(b),
            (Int8(a), Int8(b))
            | (Time(a), Time(b))
            | (Timestamp(a), Timestamp(b))
            | (TimestampTz(a), TimestampTz(b)) => a.cmp(b),
            (Float4(a), Float4(b)) => float(f64::from(*a), f64::from(*b)),
            (Float8(a), Float8(b)) => float(*a, *b),
            (Numeric(a), Numeric(b)) => a.cmp(b),
            (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Bytes(a), Bytes(b)) => a.cmp(b),
            (Uuid(a), Uuid(b)) => a.cmp(b),
            (Interval(a), Interval(b)) => a.span().cmp(&b.span()),
            _ => return None,
        })
    }
}

#[cfg(test)]
pub(crate) mod strategies {
    //! Random types and values for property tests.
    use super::*;
    use proptest::prelude::*;

    pub fn column_type() -> impl Strategy<Value = ColumnType> {
        let array = |ty| ElementType::of(ty).map_or(ty, ColumnType::Array);
        prop_oneof![4 => element_type(), 1 => element_type().prop_map(array)]
    }

    /// A type that is no array. (Of documents the keys do not tell the values: they have tests of their own.)
    pub fn element_type() -> impl Strategy<Value = ColumnType> {
        use ColumnType::*;
        prop_oneof![
            Just(Interval(None)),
            Just(Interval(Some(0x1c08_ffff))),
            Just(Bool),
            Just(Int2),
            Just(Int4),
            Just(Int8),
            Just(Enum(16_400)),
            Just(Float4),
            Just(Float8),
            Just(Numeric { precision: 10, scale: 2 }),
            Just(Numeric { precision: 38, scale: 0 }),
            Just(Text),
            Just(Varchar(9)),
            Just(Char(3)),
            Just(Bytes),
            Just(Ordered(OrderedType::Inet)),
            Just(Ordered(OrderedType::MacAddr8)),
            Just(Ordered(OrderedType::TimeTz(Some(3)))),
            Just(Ordered(OrderedType::Bit(None))),
            Just(Ordered(OrderedType::VarBit(Some(9)))),
            Just(Ordered(OrderedType::Int4Range)),
            Just(Ordered(OrderedType::TstzRange)),
            Just(Ordered(OrderedType::Oid)),
            Just(Ordered(OrderedType::OneChar)),
            Just(Date),
            Just(Time(None)),
            Just(Timestamp(None)),
            Just(TimestampTz(Some(3))),
            Just(Uuid),
            Just(Json),
            Just(Folded),
            Just(VarNumeric(None)),
            Just(VarNumeric(Some(NumericLimit { precision: 1000, scale: -1000 }))),
        ]
    }

    /// A value of the type, NULL included; small domains, so that equal prefixes are common.
    pub fn datum(ty: ColumnType) -> BoxedStrategy<Datum> {
        use ColumnType::*;
        let small = || -2i64..3;
        let i64s = || prop_oneof![small(), any::<i64>(), Just(i64::MIN), Just(i64::MAX)];
        let value = match ty {
            Bool => any::<bool>().prop_map(Datum::Bool).boxed(),
            Int2 => any::<i16>().prop_map(Datum::Int2).boxed(),
            Int4 => prop_oneof![-2..3i32, any::<i32>()].prop_map(Datum::Int4).boxed(),
            Int8 | Enum(_) => i64s().prop_map(Datum::Int8).boxed(),
            Float4 => prop_oneof![proptest::num::f32::ANY, Just(0.0), Just(-0.0), Just(f32::NAN), Just(f32::INFINITY)]
                .prop_map(Datum::Float4)
                .boxed(),
            Float8 => {
                prop_oneof![proptest::num::f64::ANY, Just(0.0), Just(-0.0), Just(-f64::NAN), Just(f64::NEG_INFINITY)]
                    .prop_map(Datum::Float8)
                    .boxed()
            }
            Numeric { precision, .. } => {
                let max = 10i128.pow(u32::from(precision)) - 1;
                prop_oneof![-2..3i128, -max..=max, Just(max), Just(-max)].prop_map(Datum::Numeric).boxed()
            }
            Text | Varchar(_) | Char(_) | Json => {
                prop_oneof!["[ab\u{0}\u{1}]{0,4}", ".{0,12}"].prop_map(Datum::Text).boxed()
            }
            Bytes | Ordered(_) => {
                proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..6)
                    .prop_map(Datum::Bytes)
                    .boxed()
            }
            // One that is compared as it is: that is what comes back from a key.
            Folded => "[ab\u{0}]{0,4}"
                .prop_map(|text| {
                    let mut stored = Vec::new();
                    crate::folded::encode(text.as_bytes(), text.as_bytes(), &mut stored);
                    Datum::Bytes(stored)
                })
                .boxed(),
            // A key, and no display scale: that is what comes back from a key.
            VarNumeric(_) => proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..6)
                .prop_map(|mut key| {
                    key.extend([0; DISPLAY_SCALE_BYTES]);
                    Datum::Bytes(key)
                })
                .boxed(),
            Date => any::<i32>().prop_map(Datum::Date).boxed(),
            Time(_) => i64s().prop_map(Datum::Time).boxed(),
            Timestamp(_) => i64s().prop_map(Datum::Timestamp).boxed(),
            TimestampTz(_) => i64s().prop_map(Datum::TimestampTz).boxed(),
            Uuid => any::<[u8; 16]>().prop_map(Datum::Uuid).boxed(),
            Interval(_) => (prop_oneof![-2..3i32, any::<i32>()], prop_oneof![-60..61i32, any::<i32>()], i64s())
                .prop_map(|(months, days, micros)| Datum::Interval(super::Interval { months, days, micros }))
                .boxed(),
            Jsonb => {
                Just(Datum::Bytes(crate::document::read(&[1, 0]).map(|n| n.to_document()).unwrap_or_default())).boxed()
            }
            Array(element) => {
                let ty = element.column_type();
                proptest::collection::vec(datum(ty), 0..4)
                    .prop_map(move |values| {
                        let values: Vec<_> = values.iter().map(Datum::as_ref).collect();
                        let mut out = Vec::new();
                        crate::array::encode(&values, ty, &mut out).unwrap();
                        Datum::Bytes(out)
                    })
                    .boxed()
            }
        };
        prop_oneof![1 => Just(Datum::Null), 6 => value].boxed()
    }

    /// Types and that many rows of values.
    pub fn rows(columns: usize, rows: usize) -> impl Strategy<Value = (Vec<ColumnType>, Vec<Vec<Datum>>)> {
        proptest::collection::vec(column_type(), 1..=columns).prop_flat_map(move |types| {
            let row: Vec<_> = types.iter().map(|&ty| datum(ty)).collect();
            (Just(types), proptest::collection::vec(row, rows))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn types_round_trip(ty in strategies::column_type()) {
            let mut bytes = Vec::new();
            ty.encode_into(&mut bytes);
            let mut r = Reader::new(&bytes, "type");
            prop_assert_eq!(ColumnType::decode(&mut r).unwrap(), ty);
            prop_assert!(r.is_empty());
        }
    }

    #[test]
    fn impossible_types_are_errors() {
        for bytes in [
            &[0][..],
            &[28],
            &[27, 1],
            &[25, 1],
            &[26],
            &[26, 26, 3],
            &[19, 50, 0, 3],
            &[20],
            &[21, 7],
            &[7, 0, 0],
            &[7, 39, 0],
            &[7, 5, 6],
            &[9, 1, 0, 0],
        ] {
            assert!(ColumnType::decode(&mut Reader::new(bytes, "type")).is_err());
        }
    }

    #[test]
    fn external_references_round_trip() {
        let external = ExternalRef { len: 1 << 33, page: PageId(77), is_text: true };
        let mut bytes = Vec::new();
        external.encode_into(&mut bytes);
        assert_eq!(bytes.len(), ExternalRef::SIZE);
        assert_eq!(ExternalRef::decode(&bytes).unwrap(), external);
        assert!(ExternalRef::decode(&bytes[1..]).is_err());
    }
}
