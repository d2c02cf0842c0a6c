//! Rust types as columns, and what SQL calls them.
//!
//! | Rust | SQL |
//! |---|---|
//! | `bool` | `boolean` |
//! | `i8`, `u8`, `i16` | `smallint` |
//! | `u16`, `i32` | `integer` |
//! | `u32`, `i64` | `bigint` |
//! | `u64` | `numeric(20,0)` |
//! | `f32`, `f64` | `real`, `double precision` |
//! | `String` | `text` (no zero bytes: SQL has none in text) |
//! | `Vec<u8>`, `[u8; N]` | `bytea` |
//! | [`Uuid`] | `uuid` |
//! | [`Timestamp`] | `timestamp with time zone` |
//! | `Option<T>` | the same, nullable |
//!
//! # Invariants
//! 1. Each value is read back as it was written, and keys are in the order of their values (`None` last, NaN above all numbers;
//!    `0.0` and `-0.0` are one key).
//! 2. A value that SQL wrote and that the Rust type cannot hold is an error when it is read, never another value.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use resurgam_engine::{ColumnType, DatumRef};

/// A value that its column cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    pub expected: &'static str,
    pub found: &'static str,
}

/// A Rust type that is a column. Implement it for a type of your own by way of one that is there:
///
/// ```
/// use resurgam_embedded::{Column, ColumnType, DatumRef, Unfit};
///
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// struct UserId(i64);
///
/// impl Column for UserId {
///     const TYPE: ColumnType = i64::TYPE;
///     fn to_datum(&self) -> Result<DatumRef<'_>, Unfit> {
///         self.0.to_datum()
///     }
///     fn from_datum(datum: DatumRef<'_>) -> Option<Self> {
///         i64::from_datum(datum).map(UserId)
///     }
/// }
/// ```
pub trait Column: Sized + 'static {
    /// What the column is in SQL.
    const TYPE: ColumnType;
    /// Whether there may be no value.
    const NULLABLE: bool = false;

    /// The value as it is stored.
    ///
    /// # Errors
    /// The column cannot have it.
    fn to_datum(&self) -> Result<DatumRef<'_>, Unfit>;

    /// The value that was stored; `None` if it is none of this type.
    fn from_datum(datum: DatumRef<'_>) -> Option<Self>;

    /// What a value has to be, for errors.
    fn expected() -> String {
        std::any::type_name::<Self>().to_owned()
    }
}

/// Integers that are a column of their own width or of a wider one.
macro_rules! integers {
    ($($rust:ty, $sql:ident, $as:ty;)*) => {$(
        impl Column for $rust {
            const TYPE: ColumnType = ColumnType::$sql;
            fn to_datum(&self) -> Result<DatumRef<'_>, Unfit> {
                Ok(DatumRef::$sql(<$as>::from(*self)))
            }
            fn from_datum(datum: DatumRef<'_>) -> Option<Self> {
                match datum {
                    DatumRef::$sql(v) => Self::try_from(v).ok(),
                    _ => None,
                }
            }
        }
    )*};
}

integers! {
    i8, Int2, i16;
    u8, Int2, i16;
    i16, Int2, i16;
    u16, Int4, i32;
    i32, Int4, i32;
    u32, Int8, i64;
    i64, Int8, i64;
}

/// Decimal digits of the largest `u64`.
const U64_DIGITS: u8 = 20;

impl Column for u64 {
    const TYPE: ColumnType = ColumnType::Numeric { precision: U64_DIGITS, scale: 0 };
    fn to_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        Ok(DatumRef::Numeric(i128::from(*self)))
    }
    fn from_datum(datum: DatumRef<'_>) -> Option<Self> {
        match datum {
            DatumRef::Numeric(v) => Self::try_from(v).ok(),
            _ => None,
        }
    }
}

macro_rules! plain {
    ($($rust:ty, $sql:ident;)*) => {$(
        impl Column for $rust {
            const TYPE: ColumnType = ColumnType::$sql;
            fn to_datum(&self) -> Result<DatumRef<'_>, Unfit> {
                Ok(DatumRef::$sql(*self))
            }
            fn from_datum(datum: DatumRef<'_>) -> Option<Self> {
                match datum {
                    DatumRef::$sql(v) => Some(v),
                    _ => None,
                }
            }
        }
    )*};
}

plain! {
    bool, Bool;
    f32, Float4;
    f64, Float8;
}

/// Text as a column has it.
pub(crate) fn text(value: &str) -> Result<DatumRef<'_>, Unfit> {
    match value.contains('\0') {
        true => Err(Unfit { expected: "text without zero bytes", found: "a zero byte" }),
        false => Ok(DatumRef::Text(value)),
    }
}

impl Column for String {
    const TYPE: ColumnType = ColumnType::Text;
    fn to_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        text(self)
    }
    fn from_datum(datum: DatumRef<'_>) -> Option<Self> {
        match datum {
            DatumRef::Text(v) => Some(v.to_owned()),
            _ => None,
        }
    }
}

impl Column for Vec<u8> {
    const TYPE: ColumnType = ColumnType::Bytes;
    fn to_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        Ok(DatumRef::Bytes(self))
    }
    fn from_datum(datum: DatumRef<'_>) -> Option<Self> {
        match datum {
            DatumRef::Bytes(v) => Some(v.to_vec()),
            _ => None,
        }
    }
}

impl<const N: usize> Column for [u8; N] {
    const TYPE: ColumnType = ColumnType::Bytes;
    fn to_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        Ok(DatumRef::Bytes(self))
    }
    fn from_datum(datum: DatumRef<'_>) -> Option<Self> {
        match datum {
            DatumRef::Bytes(v) => v.try_into().ok(),
            _ => None,
        }
    }
    fn expected() -> String {
        format!("{N} bytes")
    }
}

/// `Option<Option<T>>` is refused when it is compiled into a table: SQL has one NULL.
impl<T: Column> Column for Option<T> {
    const TYPE: ColumnType = {
        assert!(!T::NULLABLE, "an Option of an Option is no column: SQL has one NULL");
        T::TYPE
    };
    const NULLABLE: bool = true;
    fn to_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        self.as_ref().map_or(Ok(DatumRef::Null), Column::to_datum)
    }
    fn from_datum(datum: DatumRef<'_>) -> Option<Self> {
        match datum {
            DatumRef::Null => Some(None),
            value => T::from_datum(value).map(Some),
        }
    }
    fn expected() -> String {
        T::expected()
    }
}

/// A UUID: 16 bytes, in the order of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Column for Uuid {
    const TYPE: ColumnType = ColumnType::Uuid;
    fn to_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        Ok(DatumRef::Uuid(self.0))
    }
    fn from_datum(datum: DatumRef<'_>) -> Option<Self> {
        match datum {
            DatumRef::Uuid(v) => Some(Self(v)),
            _ => None,
        }
    }
}

/// A moment, in microseconds since 1970-01-01 UTC; finer parts of a `SystemTime` are cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Microseconds from 1970 to 2000, from which stored moments count.
const EPOCH_US: i64 = 946_684_800_000_000;
/// The stored moments that SQL has: 4713 BC up to 294276 AD.
const STORED: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

impl Timestamp {
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }
    pub const fn micros(self) -> i64 {
        self.0
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self(match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            // Towards the past, as after 1970: of half a microsecond before it the one before.
            Err(before) => {
                let before = before.duration();
                let micros = i64::try_from(before.as_micros()).unwrap_or(i64::MAX);
                let part = !before.subsec_nanos().is_multiple_of(1000);
                (-micros).saturating_sub(i64::from(part))
            }
        })
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let away = Duration::from_micros(time.0.unsigned_abs());
        if time.0 < 0 { UNIX_EPOCH - away } else { UNIX_EPOCH + away }
    }
}

impl Column for Timestamp {
    const TYPE: ColumnType = ColumnType::TimestampTz(None);
    fn to_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        match self.0.checked_sub(EPOCH_US).filter(|stored| STORED.contains(stored)) {
            Some(stored) => Ok(DatumRef::TimestampTz(stored)),
            None => Err(Unfit { expected: "a time from 4713 BC to 294276 AD", found: "one beyond" }),
        }
    }
    fn from_datum(datum: DatumRef<'_>) -> Option<Self> {
        match datum {
            // Infinity, which SQL may have written, is no moment.
            DatumRef::TimestampTz(stored) if STORED.contains(&stored) => stored.checked_add(EPOCH_US).map(Self),
            _ => None,
        }
    }
}

/// A value as errors show it: of long ones the beginning.
pub(crate) fn show(datum: &DatumRef<'_>) -> String {
    const MOST: usize = 60;
    match datum {
        DatumRef::Null => "null".to_owned(),
        DatumRef::Bool(v) => v.to_string(),
        DatumRef::Int2(v) => v.to_string(),
        DatumRef::Int4(v) | DatumRef::Date(v) => v.to_string(),
        DatumRef::Int8(v) | DatumRef::Time(v) | DatumRef::Timestamp(v) => v.to_string(),
        DatumRef::TimestampTz(v) => format!("{} µs since 1970", i128::from(*v) + i128::from(EPOCH_US)),
        DatumRef::Float4(v) => v.to_string(),
        DatumRef::Float8(v) => v.to_string(),
        DatumRef::Numeric(v) => v.to_string(),
        DatumRef::Text(v) if v.chars().nth(MOST).is_some() => {
            format!("{:?}… of {} bytes", v.chars().take(MOST).collect::<String>(), v.len())
        }
        DatumRef::Text(v) => format!("{v:?}"),
        DatumRef::Bytes(v) => {
            let shown: String = v.iter().take(MOST / 2).map(|byte| format!("{byte:02x}")).collect();
            match v.len() > MOST / 2 {
                true => format!("\\x{shown}… of {} bytes", v.len()),
                false => format!("\\x{shown}"),
            }
        }
        DatumRef::Uuid(v) => v.iter().map(|byte| format!("{byte:02x}")).collect(),
        DatumRef::Interval(v) => format!("{v:?}"),
        DatumRef::External(v) => format!("a value of {} bytes", v.len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<T: Column + PartialEq + std::fmt::Debug>(value: T) {
        assert_eq!(T::from_datum(value.to_datum().unwrap()), Some(value));
    }

    #[test]
    fn values_come_back() {
        for v in [u64::MIN, 1, i64::MAX as u64, u64::MAX] {
            round(v);
        }
        round((i8::MIN, u8::MAX).0);
        round(u8::MAX);
        round(u16::MAX);
        round(u32::MAX);
        round(i64::MIN);
        round("żółw".to_owned());
        round(vec![0u8, 1, 255]);
        round([0u8; 5]);
        round(Some(3i32));
        round(None::<String>);
        round(Uuid([7; 16]));
        round(Timestamp::from_micros(-1));
        round(Timestamp::now());
    }

    #[test]
    fn what_does_not_fit_is_nothing() {
        assert_eq!(u32::from_datum(DatumRef::Int8(-1)), None);
        assert_eq!(u64::from_datum(DatumRef::Numeric(-1)), None);
        assert_eq!(u64::from_datum(DatumRef::Numeric(1 << 64)), None);
        assert_eq!(u8::from_datum(DatumRef::Int2(256)), None);
        assert_eq!(i64::from_datum(DatumRef::Null), None);
        assert_eq!(<[u8; 2]>::from_datum(DatumRef::Bytes(&[1])), None);
        assert_eq!(Timestamp::from_datum(DatumRef::TimestampTz(i64::MAX)), None);
        assert!("a\0".to_owned().to_datum().is_err());
        assert!(Timestamp::from_micros(i64::MIN).to_datum().is_err());
    }

    #[test]
    fn moments_before_1970_are_cut_off_towards_the_past() {
        let of = |nanos| Timestamp::from(UNIX_EPOCH - Duration::from_nanos(nanos)).micros();
        assert_eq!((of(1), of(999), of(1000), of(1001)), (-1, -1, -1, -2));
        let time = Timestamp::from_micros(-5);
        assert_eq!(Timestamp::from(SystemTime::from(time)), time);
    }

    #[test]
    fn long_values_are_shown_in_part() {
        let long = "x".repeat(1_000_000);
        assert!(show(&DatumRef::Text(&long)).len() < 100);
        assert!(show(&DatumRef::Bytes(long.as_bytes())).len() < 100);
    }
}
