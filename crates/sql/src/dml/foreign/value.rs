//! Values of one side of a foreign key as values of the other: equal ones, or none.

use resurgam_engine::{ColumnType, Datum, DatumRef, OrderedType};
use resurgam_numeric::{Numeric, Typmod, key};

use crate::pg::ranges::Kind;
use crate::pg::types::numeric_limits;

/// Whether columns of two types can be a foreign key and what it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparable {
    Yes,
    /// PostgreSQL refuses it.
    No,
    /// PostgreSQL can; not done here.
    NotYet,
}

/// As PostgreSQL's operators and implicit casts have it: `child` to `parent`.
pub(crate) fn comparable(child: &ColumnType, parent: &ColumnType) -> Comparable {
    use ColumnType as T;
    use OrderedType as O;
    let integer = |ty: &T| matches!(ty, T::Int2 | T::Int4 | T::Int8);
    let float = |ty: &T| matches!(ty, T::Float4 | T::Float8);
    let numeric = |ty: &T| matches!(ty, T::Numeric { .. } | T::VarNumeric(_));
    let text = |ty: &T| matches!(ty, T::Text | T::Varchar(_));
    let time = |ty: &T| matches!(ty, T::Date | T::Timestamp(_) | T::TimestampTz(_));
    match (child, parent) {
        (a, b) if integer(a) && integer(b) => Comparable::Yes,
        (a, b) if float(a) && float(b) => Comparable::Yes,
        (a, b) if text(a) && text(b) => Comparable::Yes,
        (T::Char(_), T::Char(_)) => Comparable::Yes,
        (a, b) if (integer(a) || numeric(a)) && numeric(b) => Comparable::Yes,
        // What a key says of these is not the value that is handed on.
        (T::Jsonb, T::Jsonb) | (T::Interval(_), T::Interval(_)) | (T::Array(_), T::Array(_)) => Comparable::NotYet,
        (T::Folded, parent) if text(parent) => Comparable::NotYet,
        (a, b) if a == b => Comparable::Yes,
        (a, b) if (integer(a) || numeric(a)) && float(b) => Comparable::NotYet,
        // A time is one of today's zone there.
        (T::Time(_), T::Ordered(O::TimeTz(_))) => Comparable::NotYet,
        (T::Ordered(a), T::Ordered(b)) => match (a.unlimited(), b.unlimited()) {
            // Their bytes are alike, but not what a cascade would write: a limit may forbid it.
            (O::TimeTz(_), O::TimeTz(_)) | (O::Bit(_) | O::VarBit(_), O::Bit(_) | O::VarBit(_)) => Comparable::NotYet,
            (O::Bit(_) | O::VarBit(_) | O::TimeTz(_), _) | (_, O::Bit(_) | O::VarBit(_) | O::TimeTz(_)) => {
                Comparable::No
            }
            (a, b) if Kind::of(a).is_some() || Kind::of(b).is_some() => Comparable::No,
            // A name beside a text, and an oid beside an integer, are compared as these are.
            (O::Oid | O::Name | O::OneChar, _) | (_, O::Oid | O::Name | O::OneChar) => Comparable::No,
            // Networks and addresses are equal where their bytes are; an address of six bytes is widened.
            _ => Comparable::NotYet,
        },
        (a, T::Char(_)) | (T::Char(_), a) if text(a) => Comparable::NotYet,
        (a, T::Ordered(O::Name)) | (T::Ordered(O::Name), a) if text(a) || matches!(a, T::Char(_)) => Comparable::NotYet,
        (a, T::Ordered(O::Oid)) | (T::Ordered(O::Oid), a) if integer(a) => Comparable::NotYet,
        (a, b) if time(a) && time(b) => Comparable::NotYet,
        _ => Comparable::No,
    }
}

fn scale_of(ty: &ColumnType) -> i32 {
    match ty {
        ColumnType::Numeric { scale, .. } => i32::from(*scale),
        _ => 0,
    }
}

/// The value of type `to` that is equal to `value` of type `from`; `None`: there is none, or
/// `value` is NULL.
pub(crate) fn convert(value: DatumRef<'_>, from: &ColumnType, to: &ColumnType) -> Option<Datum> {
    use ColumnType as T;
    let integer = match value {
        DatumRef::Null | DatumRef::External(_) => return None,
        DatumRef::Int2(v) => Some(i128::from(v)),
        DatumRef::Int4(v) => Some(i128::from(v)),
        DatumRef::Int8(v) => Some(i128::from(v)),
        _ => None,
    };
    match (value, to) {
        (DatumRef::Int2(_), T::Int2) | (DatumRef::Int4(_), T::Int4) | (DatumRef::Int8(_), T::Int8) => {
            Some(value.to_owned())
        }
        (DatumRef::Float4(v), T::Float8) => Some(Datum::Float8(f64::from(v))),
        (DatumRef::Float8(v), T::Float4) => {
            let narrow = v as f32;
            (f64::from(narrow) == v || v.is_nan()).then_some(Datum::Float4(narrow))
        }
        (DatumRef::Bytes(encoded), _) if matches!(from, T::VarNumeric(_)) => of_numeric(encoded, to),
        (DatumRef::Numeric(_), T::VarNumeric(_)) => number(value, scale_of(from), to),
        (_, T::VarNumeric(_)) => number(value, 0, to),
        (DatumRef::Numeric(_), _) | (_, T::Int2 | T::Int4 | T::Int8 | T::Numeric { .. }) => {
            let unscaled = match value {
                DatumRef::Numeric(v) => v,
                _ => integer?,
            };
            let more = scale_of(to) - scale_of(from);
            let power = 10i128.checked_pow(more.unsigned_abs())?;
            let v = if more >= 0 {
                unscaled.checked_mul(power)?
            } else if unscaled % power == 0 {
                unscaled / power
            } else {
                return None;
            };
            match to {
                T::Int2 => i16::try_from(v).ok().map(Datum::Int2),
                T::Int4 => i32::try_from(v).ok().map(Datum::Int4),
                T::Int8 => i64::try_from(v).ok().map(Datum::Int8),
                T::Numeric { precision, .. } => {
                    let fits = 10i128.checked_pow(u32::from(*precision)).is_none_or(|end| v.abs() < end);
                    fits.then_some(Datum::Numeric(v))
                }
                _ => None,
            }
        }
        _ => Some(value.to_owned()),
    }
}

/// An integer over a power of ten as a numeric that shows its digits.
fn number(value: DatumRef<'_>, scale: i32, to: &ColumnType) -> Option<Datum> {
    let unscaled = match value {
        DatumRef::Int2(v) => v.into(),
        DatumRef::Int4(v) => v.into(),
        DatumRef::Int8(v) => v.into(),
        DatumRef::Numeric(v) => v,
        _ => return None,
    };
    let mut encoded = Vec::with_capacity(12);
    key::write_scaled(unscaled, u16::try_from(scale).ok()?, &mut encoded);
    of_numeric(&encoded, to)
}

/// A numeric that shows its digits as a value of another type.
fn of_numeric(encoded: &[u8], to: &ColumnType) -> Option<Datum> {
    use ColumnType as T;
    let value = Numeric::decode(encoded).ok()?;
    let is_same = |other: Numeric| {
        let mut key = Vec::with_capacity(encoded.len());
        other.write_key(&mut key);
        (key == key::key_of(encoded)).then_some(())
    };
    match to {
        T::VarNumeric(_) => match numeric_limits(to) {
            Some(limits) => {
                let limited = value.with_typmod(limits).ok()?;
                let stored = limited.encoded();
                is_same(limited).map(|()| Datum::Bytes(stored))
            }
            None => Some(Datum::Bytes(encoded.to_vec())),
        },
        T::Numeric { precision, scale } => {
            let v = value.to_scaled(Typmod::new((*precision).into(), (*scale).into()).ok()?).ok()?;
            is_same(Numeric::from_scaled(v, (*scale).into()).ok()?).map(|()| Datum::Numeric(v))
        }
        T::Int2 => value.to_i16().ok().and_then(|v| is_same(v.into()).map(|()| Datum::Int2(v))),
        T::Int4 => value.to_i32().ok().and_then(|v| is_same(v.into()).map(|()| Datum::Int4(v))),
        T::Int8 => value.to_i64().ok().and_then(|v| is_same(v.into()).map(|()| Datum::Int8(v))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use resurgam_engine::NumericLimit;

    use super::*;

    const fn numeric(precision: u8, scale: i8) -> ColumnType {
        ColumnType::Numeric { precision, scale }
    }

    const fn limit(precision: u16, scale: i16) -> Option<NumericLimit> {
        Some(NumericLimit { precision, scale })
    }

    fn shown(text: &str) -> Datum {
        Datum::Bytes(text.parse::<Numeric>().expect("a numeric").encoded())
    }

    #[test]
    fn equal_or_none() {
        use ColumnType as T;
        let cases = [
            (Datum::Int4(7), T::Int4, T::Int8, Some(Datum::Int8(7))),
            (Datum::Int8(1 << 40), T::Int8, T::Int4, None),
            (Datum::Int2(-3), T::Int2, numeric(5, 2), Some(Datum::Numeric(-300))),
            (Datum::Int4(1000), T::Int4, numeric(5, 2), None),
            (Datum::Numeric(-300), numeric(5, 2), T::Int2, Some(Datum::Int2(-3))),
            (Datum::Numeric(-301), numeric(5, 2), T::Int2, None),
            (Datum::Numeric(150), numeric(5, 2), numeric(6, 1), Some(Datum::Numeric(15))),
            (Datum::Numeric(155), numeric(5, 2), numeric(6, 1), None),
            (Datum::Int4(7), T::Int4, T::VarNumeric(None), Some(shown("7"))),
            (Datum::Numeric(150), numeric(5, 2), T::VarNumeric(None), Some(shown("1.50"))),
            (shown("1.50"), T::VarNumeric(None), numeric(5, 1), Some(Datum::Numeric(15))),
            (shown("1.55"), T::VarNumeric(None), numeric(5, 1), None),
            (shown("-3.00"), T::VarNumeric(None), T::Int2, Some(Datum::Int2(-3))),
            (shown("NaN"), T::VarNumeric(None), T::Int8, None),
            (shown("NaN"), T::VarNumeric(None), T::VarNumeric(None), Some(shown("NaN"))),
            (shown("1.50"), T::VarNumeric(None), T::VarNumeric(limit(60, 1)), Some(shown("1.5"))),
            (shown("1.55"), T::VarNumeric(None), T::VarNumeric(limit(60, 1)), None),
            (Datum::Float8(0.5), T::Float8, T::Float4, Some(Datum::Float4(0.5))),
            (Datum::Float8(0.1), T::Float8, T::Float4, None),
            (Datum::Text("a ".into()), T::Text, T::Varchar(9), Some(Datum::Text("a ".into()))),
            (Datum::Null, T::Int4, T::Int4, None),
        ];
        for (value, from, to, expected) in cases {
            assert_eq!(convert(value.as_ref(), &from, &to), expected, "{value:?} from {from} to {to}");
        }
    }
}
