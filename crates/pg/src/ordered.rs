//! Types whose stored bytes order and are equal as their values are ([`OrderedType`]): addresses ([`network`]), times with a zone
//! ([`timetz`]), bits ([`bits`]), ranges ([`ranges`]).
//!
//! In plans they are `FixedSizeBinary` of a width that no other type has, so that a value's form says of which type it is; zeros follow
//! what is shorter. Bits, which are of any length, are texts of zeros and ones there, which order as they do; what says that these are
//! bits is the type that goes with them, as for `uuid`. So are `name` and `"char"`; an `oid` is a number there, as everywhere.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, FixedSizeBinaryBuilder, ListArray, StringViewArray, StringViewBuilder,
    UInt32Builder,
};
use datafusion::arrow::datatypes::{DataType, UInt32Type};
use datafusion::common::ScalarValue;
use resurgam_engine::OrderedType;

use crate::datetime::Zone;
use crate::functions::cast;
use crate::ranges::{Kind, Range};
use crate::types::{TEXT, oid};
use crate::wire::{Format, SqlError};
use crate::{bits, network, ranges, timetz};

/// The type with that oid, without limits.
pub const fn type_of_oid(oid: u32) -> Option<OrderedType> {
    Some(match oid {
        oid::INET => OrderedType::Inet,
        oid::CIDR => OrderedType::Cidr,
        oid::MACADDR => OrderedType::MacAddr,
        oid::MACADDR8 => OrderedType::MacAddr8,
        oid::TIMETZ => OrderedType::TimeTz(None),
        oid::BIT => OrderedType::Bit(None),
        oid::VARBIT => OrderedType::VarBit(None),
        oid::INT4RANGE => OrderedType::Int4Range,
        oid::INT8RANGE => OrderedType::Int8Range,
        oid::DATERANGE => OrderedType::DateRange,
        oid::TSRANGE => OrderedType::TsRange,
        oid::TSTZRANGE => OrderedType::TstzRange,
        _ => return None,
    })
}

/// The type in which columns keep values of that oid and modifier.
pub fn type_of(oid: u32, typmod: i32) -> Option<OrderedType> {
    match oid {
        // Not among those above, since plans know them as numbers and texts.
        oid::OID => return Some(OrderedType::Oid),
        oid::NAME => return Some(OrderedType::Name),
        oid::CHAR => return Some(OrderedType::OneChar),
        _ => {}
    }
    Some(match type_of_oid(oid)? {
        OrderedType::TimeTz(_) => OrderedType::TimeTz(u8::try_from(typmod).ok().map(|digits| digits.min(6))),
        OrderedType::Bit(_) => OrderedType::Bit(bits::limit_of(typmod)),
        OrderedType::VarBit(_) => OrderedType::VarBit(bits::limit_of(typmod)),
        other => other,
    })
}

/// A type's oid.
pub const fn oid_of(ty: OrderedType) -> u32 {
    match ty {
        OrderedType::Inet => oid::INET,
        OrderedType::Cidr => oid::CIDR,
        OrderedType::MacAddr => oid::MACADDR,
        OrderedType::MacAddr8 => oid::MACADDR8,
        OrderedType::TimeTz(_) => oid::TIMETZ,
        OrderedType::Bit(_) => oid::BIT,
        OrderedType::VarBit(_) => oid::VARBIT,
        OrderedType::Int4Range => oid::INT4RANGE,
        OrderedType::Int8Range => oid::INT8RANGE,
        OrderedType::DateRange => oid::DATERANGE,
        OrderedType::TsRange => oid::TSRANGE,
        OrderedType::TstzRange => oid::TSTZRANGE,
        OrderedType::Oid => oid::OID,
        OrderedType::Name => oid::NAME,
        OrderedType::OneChar => oid::CHAR,
    }
}

/// A type's modifier, -1 for none.
pub fn typmod_of(ty: OrderedType) -> i32 {
    match ty {
        OrderedType::TimeTz(Some(digits)) => digits.into(),
        OrderedType::Bit(Some(bits)) | OrderedType::VarBit(Some(bits)) => i32::try_from(bits).unwrap_or(-1),
        _ => -1,
    }
}

/// In what form plans hold values of a type.
enum Form {
    /// Bytes of that width, as many as the longest has, and those of `cidr` one more, of ranges up to two.
    Bytes(i32),
    /// Texts of zeros and ones.
    Bits,
    Text,
    /// [`DataType::UInt32`].
    Number,
}

const fn form(ty: OrderedType) -> Form {
    match ty {
        OrderedType::Inet => Form::Bytes(34),
        OrderedType::Cidr => Form::Bytes(35),
        OrderedType::MacAddr => Form::Bytes(6),
        OrderedType::MacAddr8 => Form::Bytes(8),
        OrderedType::TimeTz(_) => Form::Bytes(12),
        OrderedType::Int4Range => Form::Bytes(13),
        OrderedType::DateRange => Form::Bytes(14),
        OrderedType::Int8Range => Form::Bytes(21),
        OrderedType::TsRange => Form::Bytes(22),
        OrderedType::TstzRange => Form::Bytes(23),
        OrderedType::Bit(_) | OrderedType::VarBit(_) => Form::Bits,
        OrderedType::Name | OrderedType::OneChar => Form::Text,
        OrderedType::Oid => Form::Number,
    }
}

/// Types that have a form of their own.
const OF_THEIR_OWN: [OrderedType; 10] = [
    OrderedType::Inet,
    OrderedType::Cidr,
    OrderedType::MacAddr,
    OrderedType::MacAddr8,
    OrderedType::TimeTz(None),
    OrderedType::Int4Range,
    OrderedType::Int8Range,
    OrderedType::DateRange,
    OrderedType::TsRange,
    OrderedType::TstzRange,
];

/// The type of Arrow in which plans hold values of a type.
pub const fn data_type(ty: OrderedType) -> DataType {
    match form(ty) {
        Form::Bytes(width) => DataType::FixedSizeBinary(width),
        Form::Bits | Form::Text => TEXT,
        Form::Number => DataType::UInt32,
    }
}

/// The type whose values have that form, if no other's have.
pub fn type_of_data(data: &DataType) -> Option<OrderedType> {
    OF_THEIR_OWN.into_iter().find(|ty| data_type(*ty) == *data)
}

/// Stored bytes, or none, as a constant.
///
/// # Errors
/// `XX001` for bytes that are none of the type's.
pub fn scalar(ty: OrderedType, stored: Option<&[u8]>) -> Result<ScalarValue, SqlError> {
    Ok(match form(ty) {
        Form::Bytes(width) => {
            let padded = stored.map(|bytes| {
                let mut bytes = bytes.to_vec();
                bytes.resize(width as usize, 0);
                bytes
            });
            ScalarValue::FixedSizeBinary(width, padded)
        }
        Form::Bits => ScalarValue::Utf8View(stored.map(bits::from_stored).transpose()?),
        Form::Text => ScalarValue::Utf8View(stored.map(text_of).transpose()?.map(str::to_owned)),
        Form::Number => ScalarValue::UInt32(stored.map(number_of).transpose()?),
    })
}

/// The text, or the number, that stored bytes are.
fn text_of(stored: &[u8]) -> Result<&str, SqlError> {
    std::str::from_utf8(stored).map_err(|_| SqlError::new("XX001", "a stored name that is no text"))
}

fn number_of(stored: &[u8]) -> Result<u32, SqlError> {
    let bytes = stored.try_into().map_err(|_| SqlError::new("XX001", "a stored oid that is none"))?;
    Ok(u32::from_be_bytes(bytes))
}

/// The stored bytes of what a plan holds as bytes.
pub fn stored(ty: OrderedType, held: &[u8]) -> &[u8] {
    match ty {
        OrderedType::Inet | OrderedType::Cidr => network::stored(held),
        _ => match Kind::of(ty) {
            Some(kind) => held.get(..kind.stored_width()).unwrap_or(held),
            None => held,
        },
    }
}

/// The stored bytes of a constant of a type; `None` for one of another type, and for a NULL.
pub fn stored_of_scalar(ty: OrderedType, value: &ScalarValue) -> Option<Vec<u8>> {
    match value {
        ScalarValue::FixedSizeBinary(_, Some(held)) if value.data_type() == data_type(ty) => {
            Some(stored(ty, held).to_vec())
        }
        ScalarValue::Utf8View(Some(text)) => match form(ty) {
            Form::Bits => bits::to_stored(text).ok(),
            Form::Text => Some(text.as_bytes().to_vec()),
            Form::Bytes(_) | Form::Number => None,
        },
        ScalarValue::UInt32(Some(number)) if matches!(form(ty), Form::Number) => Some(number.to_be_bytes().to_vec()),
        _ => None,
    }
}

/// A column of a type as its stored bytes.
#[derive(Debug)]
pub enum Stored<'a> {
    Held(&'a datafusion::arrow::array::FixedSizeBinaryArray, OrderedType),
    /// The bytes of texts are what is stored.
    Texts(&'a StringViewArray),
    /// Made when the column is looked at.
    Made(BinaryArray),
}

impl<'a> Stored<'a> {
    /// Of a column in the type's form.
    ///
    /// # Errors
    /// `XX001` for texts that are no bits.
    pub fn of(ty: OrderedType, array: &'a dyn Array) -> Result<Self, SqlError> {
        Ok(match form(ty) {
            Form::Bytes(_) => Self::Held(array.as_fixed_size_binary(), ty),
            Form::Bits => {
                let texts = array.as_string_view().iter();
                let made = texts.map(|text| text.map(bits::to_stored).transpose());
                Self::Made(made.collect::<Result<BinaryArray, SqlError>>()?)
            }
            Form::Text => Self::Texts(array.as_string_view()),
            Form::Number => {
                let numbers = array.as_primitive::<UInt32Type>().iter();
                Self::Made(numbers.map(|number| number.map(u32::to_be_bytes)).collect())
            }
        })
    }

    pub fn value(&self, row: usize) -> &[u8] {
        match self {
            Self::Held(array, ty) => stored(*ty, array.value(row)),
            Self::Texts(array) => array.value(row).as_bytes(),
            Self::Made(array) => array.value(row),
        }
    }
}

/// Makes a column of a type.
pub enum Builder {
    Bytes { inner: FixedSizeBinaryBuilder, width: usize, padded: Vec<u8> },
    Bits(StringViewBuilder),
    Texts(StringViewBuilder),
    Numbers(UInt32Builder),
}

impl Builder {
    pub fn new(ty: OrderedType, capacity: usize) -> Self {
        match form(ty) {
            Form::Bytes(width) => {
                let inner = FixedSizeBinaryBuilder::with_capacity(capacity, width);
                Self::Bytes { inner, width: width as usize, padded: Vec::new() }
            }
            Form::Bits => Self::Bits(StringViewBuilder::with_capacity(capacity)),
            Form::Text => Self::Texts(StringViewBuilder::with_capacity(capacity)),
            Form::Number => Self::Numbers(UInt32Builder::with_capacity(capacity)),
        }
    }

    pub fn append_null(&mut self) {
        match self {
            Self::Bytes { inner, .. } => inner.append_null(),
            Self::Bits(inner) | Self::Texts(inner) => inner.append_null(),
            Self::Numbers(inner) => inner.append_null(),
        }
    }

    /// # Errors
    /// `XX001` for bytes that are longer than any value, or no value.
    pub fn append(&mut self, stored: &[u8]) -> Result<(), SqlError> {
        match self {
            Self::Bytes { inner, width, padded } => {
                padded.clear();
                padded.extend_from_slice(stored);
                padded.resize((*width).max(stored.len()), 0);
                let appended = inner.append_value(&padded);
                appended.map_err(|_| SqlError::new("XX001", "a value that is longer than its type allows"))
            }
            Self::Bits(inner) => {
                inner.append_value(bits::from_stored(stored)?);
                Ok(())
            }
            Self::Texts(inner) => {
                inner.append_value(text_of(stored)?);
                Ok(())
            }
            Self::Numbers(inner) => {
                inner.append_value(number_of(stored)?);
                Ok(())
            }
        }
    }

    pub fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bytes { inner, .. } => Arc::new(inner.finish()),
            Self::Bits(inner) | Self::Texts(inner) => Arc::new(inner.finish()),
            Self::Numbers(inner) => Arc::new(inner.finish()),
        }
    }
}

/// A column of a type from the stored bytes of each row.
///
/// # Errors
/// Those of `values`.
pub fn column(
    ty: OrderedType,
    values: impl ExactSizeIterator<Item = Result<Option<Vec<u8>>, SqlError>>,
) -> Result<ArrayRef, SqlError> {
    let mut out = Builder::new(ty, values.len());
    for value in values {
        match value? {
            Some(stored) => out.append(&stored)?,
            None => out.append_null(),
        }
    }
    Ok(out.finish())
}

/// The stored bytes of a text; `zone` is that of a time that names none.
///
/// # Errors
/// `22P02`, `22003`, of ranges those of [`ranges::parse`], of times those of [`crate::decode::parse_timetz`], of bits `22026` and `22001`.
pub fn parse(ty: OrderedType, value: &str, zone: &Zone) -> Result<Vec<u8>, SqlError> {
    Ok(match ty {
        OrderedType::TimeTz(digits) => crate::decode::parse_timetz(value, zone)?.rounded(digits).to_stored().to_vec(),
        OrderedType::Bit(_) | OrderedType::VarBit(_) => bits::to_stored(&bits::parse(value, ty)?)?,
        OrderedType::Oid => crate::decode::parse_oid(value)?.to_be_bytes().to_vec(),
        OrderedType::Name => cast::cut(value, cast::NAME_BYTES).as_bytes().to_vec(),
        OrderedType::OneChar => cast::one_byte(cast::char_byte(value)).into_bytes(),
        _ => match Kind::of(ty) {
            Some(kind) => ranges::parse(kind, value, zone)?.to_stored(kind),
            None => network::parse(ty, value)?,
        },
    })
}

/// A text as a constant of a type.
///
/// # Errors
/// Those of [`parse`].
pub fn scalar_of_text(ty: OrderedType, value: &str, zone: &Zone) -> Result<ScalarValue, SqlError> {
    match ty {
        OrderedType::Bit(_) | OrderedType::VarBit(_) => {
            Ok(ScalarValue::Utf8View(Some(bits::parse(value, ty)?.into_owned())))
        }
        _ => scalar(ty, Some(&parse(ty, value, zone)?)),
    }
}

/// The text of stored bytes, or of the bytes that a plan holds; `zone` is that in which instants are shown.
///
/// # Errors
/// `XX001` if they are none.
pub fn to_text(ty: OrderedType, stored: &[u8], zone: &Zone) -> Result<String, SqlError> {
    match ty {
        OrderedType::TimeTz(_) => timetz::TimeTz::of_stored(stored).map(timetz::TimeTz::to_text),
        OrderedType::Bit(_) | OrderedType::VarBit(_) => bits::from_stored(stored),
        OrderedType::Oid => number_of(stored).map(|number| number.to_string()),
        OrderedType::Name | OrderedType::OneChar => text_of(stored).map(str::to_owned),
        _ => match Kind::of(ty) {
            Some(kind) => Ok(ranges::to_text(kind, Range::of_stored(kind, stored)?, zone)),
            None => network::to_text(ty, stored),
        },
    }
}

/// The text that a cast to `text` gives: an address has its netmask there in any case.
fn to_cast_text(ty: OrderedType, stored: &[u8], zone: &Zone) -> Result<String, SqlError> {
    match ty {
        OrderedType::Inet | OrderedType::Cidr => network::to_cast_text(ty, stored),
        _ => to_text(ty, stored, zone),
    }
}

/// The stored bytes of a binary form.
///
/// # Errors
/// `22P03`, `08P01`, of times `22008` and `22009`, of bits `22026` and `22001`.
pub fn receive(ty: OrderedType, bytes: &[u8]) -> Result<Vec<u8>, SqlError> {
    Ok(match ty {
        OrderedType::TimeTz(digits) => timetz::TimeTz::receive(bytes)?.rounded(digits).to_stored().to_vec(),
        OrderedType::Bit(_) | OrderedType::VarBit(_) => bits::to_stored(&bits::receive(bytes, ty)?)?,
        OrderedType::Oid | OrderedType::Name | OrderedType::OneChar => {
            let value = crate::decode::decode_param(oid_of(ty), Format::Binary, Some(bytes), &Zone::Utc)?;
            stored_of_scalar(ty, &value).unwrap_or_default()
        }
        _ => match Kind::of(ty) {
            Some(kind) => Range::receive(kind, bytes)?.to_stored(kind),
            None => network::receive(ty, bytes)?,
        },
    })
}

/// The binary form of stored bytes, or of the bytes that a plan holds.
///
/// # Errors
/// `XX001` if they are none.
pub fn send(ty: OrderedType, stored: &[u8]) -> Result<Vec<u8>, SqlError> {
    match ty {
        OrderedType::TimeTz(_) => Ok(timetz::TimeTz::of_stored(stored)?.send().to_vec()),
        OrderedType::Bit(_) | OrderedType::VarBit(_) => Ok(bits::send(&bits::from_stored(stored)?)),
        OrderedType::OneChar => Ok(vec![cast::char_byte(text_of(stored)?)]),
        // As they are sent.
        OrderedType::Oid | OrderedType::Name => Ok(stored.to_vec()),
        _ => match Kind::of(ty) {
            Some(kind) => Ok(Range::of_stored(kind, stored)?.send(kind)),
            None => network::send(ty, stored),
        },
    }
}

/// A column in the limits of its column type: digits of seconds are rounded, the length of bits is checked.
///
/// # Errors
/// `22026`, `22001`
pub fn fitted(array: &ArrayRef, ty: OrderedType) -> Result<ArrayRef, SqlError> {
    match ty {
        OrderedType::TimeTz(Some(digits)) => {
            let held = array.as_fixed_size_binary();
            let rounded = |row| {
                let value = held.is_valid(row).then(|| timetz::TimeTz::of_stored(held.value(row))).transpose()?;
                Ok(value.map(|value| value.rounded(Some(digits)).to_stored().to_vec()))
            };
            column(ty, (0..held.len()).map(rounded))
        }
        OrderedType::Bit(Some(_)) | OrderedType::VarBit(Some(_)) => {
            for text in array.as_string_view().iter().flatten() {
                bits::check_length(text.len(), ty)?;
            }
            Ok(Arc::clone(array))
        }
        _ => Ok(Arc::clone(array)),
    }
}

/// A column of one of the types with a form of their own as one of another, or as text, or a text as one of these; `None` where there is
/// no such cast.
///
/// # Errors
/// Those of [`parse`], and `22003`
pub fn cast(array: &ArrayRef, to: &DataType, zone: &Zone) -> Option<Result<ArrayRef, SqlError>> {
    let from = type_of_data(array.data_type());
    match (from, type_of_data(to)) {
        (None, Some(to)) if array.data_type().is_string() => Some(of_texts(array, to, zone)),
        (None, Some(OrderedType::TimeTz(_))) => timetz::of_times(array, zone),
        (Some(from), None) if to == &TEXT => {
            let held = array.as_fixed_size_binary_opt()?;
            let texts = held.iter().map(|bytes| bytes.map(|bytes| to_cast_text(from, bytes, zone)).transpose());
            Some(texts.collect::<Result<StringViewArray, _>>().map(|array| Arc::new(array) as ArrayRef))
        }
        (Some(OrderedType::TimeTz(_)), None) => timetz::to_times(array, to),
        (Some(from), Some(to)) if from == to => None,
        (Some(from), Some(to)) if is_address(from) && is_address(to) => {
            let held = array.as_fixed_size_binary_opt()?;
            let row = |row| held.is_valid(row).then(|| network::converted(from, to, held.value(row))).transpose();
            Some(column(to, (0..held.len()).map(row)))
        }
        (None, None) => match (array.data_type(), to) {
            // Elements by the same casts.
            (DataType::List(from), DataType::List(item)) if type_of_data(from.data_type()).is_some() => {
                let lists = array.as_list::<i32>();
                let values = cast(lists.values(), item.data_type(), zone)?;
                Some(values.and_then(|values| {
                    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
                    let out = ListArray::try_new(Arc::clone(item), offsets, values, nulls);
                    Ok(Arc::new(out.map_err(|error| crate::errors::from_arrow(&error))?) as ArrayRef)
                }))
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_address(ty: OrderedType) -> bool {
    matches!(ty, OrderedType::Inet | OrderedType::Cidr | OrderedType::MacAddr | OrderedType::MacAddr8)
}

fn of_texts(array: &ArrayRef, to: OrderedType, zone: &Zone) -> Result<ArrayRef, SqlError> {
    let views = datafusion::arrow::compute::cast(array, &TEXT).map_err(|error| crate::errors::from_arrow(&error))?;
    let texts = views.as_string_view();
    column(to, texts.iter().map(|text| text.map(|text| parse(to, text, zone)).transpose()))
}
