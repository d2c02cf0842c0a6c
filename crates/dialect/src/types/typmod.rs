//! Type modifiers: what `(10,2)` behind a type's name is packed into, and how it is printed.
//!
//! A modifier is an `i32` whose meaning is the type's; -1 is none. The packing is PostgreSQL's, and
//! clients see it (`pg_attribute.atttypmod`, the wire's row description).

use crate::catalog::Catalog;
use crate::error::{ResolveError, Result};
use crate::types::TypeId;

/// No modifier.
pub const NONE: i32 = -1;

/// What PostgreSQL adds to lengths and packed precisions (the size of a value's header).
const HEADER: i32 = 4;
/// Longest `char(n)` and `varchar(n)`.
const MAX_LENGTH: i64 = 10 * 1024 * 1024;
/// Digits after the second that time types keep.
const MAX_SECOND_DIGITS: i64 = 6;
/// Most digits of `numeric(p)`.
const MAX_PRECISION: i64 = 1000;
/// In an interval's modifier: all fields; any number of digits.
const FULL_RANGE: i32 = 0x7fff;
const FULL_PRECISION: i32 = 0xffff;

/// Fields of an interval's modifier, as bits.
pub(crate) mod field {
    pub const MONTH: i32 = 1 << 1;
    pub const YEAR: i32 = 1 << 2;
    pub const DAY: i32 = 1 << 3;
    pub const HOUR: i32 = 1 << 10;
    pub const MINUTE: i32 = 1 << 11;
    pub const SECOND: i32 = 1 << 12;
}

/// Modifier of `numeric(precision, scale)`.
pub const fn numeric(precision: i32, scale: i32) -> i32 {
    ((precision << 16) | (scale & 0x7ff)) + HEADER
}

/// Precision and scale of a numeric's modifier.
pub const fn numeric_parts(typmod: i32) -> Option<(i32, i32)> {
    if typmod < HEADER {
        return None;
    }
    let packed = typmod - HEADER;
    Some(((packed >> 16) & 0xffff, ((packed & 0x7ff) ^ 1024) - 1024))
}

/// Modifier of `char(n)` and `varchar(n)`, `n` in characters.
pub const fn length(n: i32) -> i32 {
    n + HEADER
}

/// Characters that a modifier of `char` or `varchar` allows.
pub const fn length_of(typmod: i32) -> Option<i32> {
    if typmod < HEADER { None } else { Some(typmod - HEADER) }
}

/// Modifier of an interval: fields as bits, digits of the second.
const fn interval(fields: i32, precision: i32) -> i32 {
    ((fields & FULL_RANGE) << 16) | (precision & FULL_PRECISION)
}

/// Modifier of an interval of which `fields` are kept, with this many digits of the second.
pub(crate) fn interval_fields(fields: Option<i32>, precision: Option<i64>) -> Result<i32> {
    let digits = match precision {
        Some(p) if p < 0 => {
            return Err(ResolveError::invalid_parameter(format!("INTERVAL({p}) precision must not be negative")));
        }
        Some(p) => p.min(MAX_SECOND_DIGITS) as i32,
        None => FULL_PRECISION,
    };
    Ok(match (fields, precision) {
        (None, None) => NONE,
        (fields, _) => interval(fields.unwrap_or(FULL_RANGE), digits),
    })
}

/// Digits of the second that an interval's modifier keeps; `None`: all.
pub const fn interval_digits(typmod: i32) -> Option<i32> {
    if typmod < 0 || typmod & FULL_PRECISION == FULL_PRECISION { None } else { Some(typmod & FULL_PRECISION) }
}

fn invalid() -> ResolveError {
    ResolveError::invalid_parameter("invalid type modifier")
}

fn one(modifiers: &[i64]) -> Result<i64> {
    match modifiers {
        [n] => Ok(*n),
        _ => Err(invalid()),
    }
}

fn limited(name: &str, modifiers: &[i64], most: i64) -> Result<i32> {
    let n = one(modifiers)?;
    if n < 1 {
        return Err(ResolveError::invalid_parameter(format!("length for type {name} must be at least 1")));
    }
    if n > most {
        return Err(ResolveError::invalid_parameter(format!("length for type {name} cannot exceed {most}")));
    }
    Ok(n as i32)
}

fn seconds(name: &str, zone: &str, modifiers: &[i64]) -> Result<i32> {
    let n = one(modifiers)?;
    if n < 0 {
        return Err(ResolveError::invalid_parameter(format!("{name}({n}){zone} precision must not be negative")));
    }
    Ok(n.min(MAX_SECOND_DIGITS) as i32)
}

fn numeric_in(modifiers: &[i64]) -> Result<i32> {
    let (precision, scale) = match *modifiers {
        [p] => (p, 0),
        [p, s] => (p, s),
        _ => return Err(ResolveError::invalid_parameter("invalid NUMERIC type modifier")),
    };
    if !(1..=MAX_PRECISION).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and {MAX_PRECISION}");
        return Err(ResolveError::invalid_parameter(message));
    }
    if !(-MAX_PRECISION..=MAX_PRECISION).contains(&scale) {
        let message = format!("NUMERIC scale {scale} must be between -{MAX_PRECISION} and {MAX_PRECISION}");
        return Err(ResolveError::invalid_parameter(message));
    }
    Ok(numeric(precision as i32, scale as i32))
}

/// The grammar makes the first number of the fields' names.
fn interval_in(modifiers: &[i64]) -> Result<i32> {
    let (fields, precision) = match *modifiers {
        [fields] => (fields, None),
        [fields, precision] => (fields, Some(precision)),
        _ => return Err(ResolveError::invalid_parameter("invalid INTERVAL type modifier")),
    };
    let fields = i32::try_from(fields).unwrap_or(0);
    match fields {
        FULL_RANGE => interval_fields(None, precision),
        _ if interval_name(fields).is_empty() => Err(ResolveError::invalid_parameter("invalid INTERVAL type modifier")),
        _ => interval_fields(Some(fields), precision),
    }
}

/// The modifier that numbers behind a type's name make; the element type's for an array.
/// `None`: the type takes no modifiers.
///
/// Digits of a second above six become six, as in PostgreSQL, which warns of it.
pub(crate) fn read(element: TypeId, modifiers: &[i64]) -> Option<Result<i32>> {
    Some(match element {
        TypeId::NUMERIC => numeric_in(modifiers),
        TypeId::BPCHAR => limited("char", modifiers, MAX_LENGTH).map(length),
        TypeId::VARCHAR => limited("varchar", modifiers, MAX_LENGTH).map(length),
        TypeId::BIT => limited("bit", modifiers, MAX_LENGTH * 8),
        TypeId::VARBIT => limited("varbit", modifiers, MAX_LENGTH * 8),
        TypeId::TIMESTAMP => seconds("TIMESTAMP", "", modifiers),
        TypeId::TIMESTAMPTZ => seconds("TIMESTAMP", " WITH TIME ZONE", modifiers),
        TypeId::TIME => seconds("TIME", "", modifiers),
        TypeId::TIMETZ => seconds("TIME", " WITH TIME ZONE", modifiers),
        TypeId::INTERVAL => interval_in(modifiers),
        _ => return None,
    })
}

/// How a modifier is printed behind its type's name: `(10,2)`, ` day to second(3)`. Empty for none.
pub(crate) fn print(element: TypeId, typmod: i32) -> String {
    if typmod < 0 {
        return String::new();
    }
    match element {
        TypeId::NUMERIC => match numeric_parts(typmod) {
            Some((precision, scale)) => format!("({precision},{scale})"),
            None => String::new(),
        },
        TypeId::BPCHAR | TypeId::VARCHAR => length_of(typmod).map(|n| format!("({n})")).unwrap_or_default(),
        TypeId::INTERVAL => {
            let fields = interval_name((typmod >> 16) & FULL_RANGE);
            match interval_digits(typmod) {
                Some(digits) => format!("{fields}({digits})"),
                None => fields.to_string(),
            }
        }
        _ => format!("({typmod})"),
    }
}

fn interval_name(fields: i32) -> &'static str {
    use field::*;
    const DAY_HOUR: i32 = DAY | HOUR;
    const DAY_MINUTE: i32 = DAY | HOUR | MINUTE;
    const DAY_SECOND: i32 = DAY | HOUR | MINUTE | SECOND;
    const HOUR_MINUTE: i32 = HOUR | MINUTE;
    const HOUR_SECOND: i32 = HOUR | MINUTE | SECOND;
    const MINUTE_SECOND: i32 = MINUTE | SECOND;
    const YEAR_MONTH: i32 = YEAR | MONTH;
    match fields {
        YEAR => " year",
        MONTH => " month",
        DAY => " day",
        HOUR => " hour",
        MINUTE => " minute",
        SECOND => " second",
        YEAR_MONTH => " year to month",
        DAY_HOUR => " day to hour",
        DAY_MINUTE => " day to minute",
        DAY_SECOND => " day to second",
        HOUR_MINUTE => " hour to minute",
        HOUR_SECOND => " hour to second",
        MINUTE_SECOND => " minute to second",
        _ => "",
    }
}

impl Catalog {
    /// The modifier that numbers behind a type's name make: `numeric(10, 2)`, `varchar(20)[]`. -1
    /// without numbers.
    ///
    /// # Errors
    /// 22023: not the numbers that this type takes; 42601: the type takes none.
    pub fn typmod_in(&self, ty: TypeId, modifiers: &[i64]) -> Result<i32> {
        if modifiers.is_empty() {
            return Ok(NONE);
        }
        let element = self.element_type(ty).unwrap_or(ty);
        read(element, modifiers).unwrap_or_else(|| {
            let name = self.type_of(ty).map_or("???", |t| t.name);
            Err(ResolveError::new("42601", format!("type modifier is not allowed for type \"{name}\"")))
        })
    }
}
